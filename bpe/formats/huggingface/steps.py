"""The steps of a tokenizer.json, read and written: its normalizer, its pre_tokenizer and its decoder.

A table for each of the three lists the types of its steps: the fields, and what they make. `_read_step` reads any of
them. A Sequence has the steps of its kind, nested at most `MAX_DEPTH` deep. Post-processors: `post_processing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from bpe.formats.huggingface.spelling import list_irregular_word_ends, spell_end_of_word
from bpe.formats.schema import (
    MAX_DEPTH,
    TYPE_FIELD,
    UNSUPPORTED,
    Field,
    accept_any,
    check_object,
    check_type,
    errors_at,
    read_field,
    read_fields,
    read_type,
    refuse,
)
from bpe.pretokenize.patterns import DEEPSEEK_STEPS, NAME_OF_ONIGURUMA, ONIGURUMA_SPELLINGS, find_published_name
from bpe.pretokenize.pretokenizer import Gaps, PipelinePretokenizer, Pretokenizer, check_unicode_version
from bpe.pretokenize.simplifying import BYTES_STEP, make_prefix_pretokenizer, make_whitespace_pretokenizer, simplify
from bpe.pretokenize.steps import STEPS, ByteLevel, Metaspace, Split, Step
from bpe.vocab import output_steps
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_names import find_decoded_bytes

if TYPE_CHECKING:
    from bpe.text.normalizers import Normalizer


class StepType(NamedTuple):
    """A type of step.

    Attributes:
        fields: its fields but for "type"; None if `make` checks the whole object.
        make: the step of its fields by name, or of the whole object. Errors name the step, or a field: "pattern".

    """

    fields: Mapping[str, Field] | None
    make: Callable[..., Any]


def _read_step(part: str, step_types: Mapping[str, StepType], value: object, where: str) -> Any:
    """Read one step of a part of the file, by the table of the part's step types."""
    name = read_type(value, where)
    if name not in step_types:
        known_types = ", ".join(
            ["Sequence", *(type_name for type_name in step_types if not type_name.startswith("bpe."))]
        )
        refuse(
            where, value, f"a {part} of type {name!r} is not known: {UNSUPPORTED}", f"known are {known_types}, and null"
        )
    fields, make = step_types[name]
    values = None if fields is None else read_fields(value, where, {**TYPE_FIELD, **fields})
    with errors_at(where):
        return make(value) if values is None else make(**values)


def iterate_sequence(value: object, where: str, field: str, depth: int) -> Iterator[tuple[object, str]]:
    """Yield each member of a Sequence and its position; `field` has the members, and `depth` Sequences contain it."""
    if depth == MAX_DEPTH:
        rule = f"it is nested more than {MAX_DEPTH} deep"
        refuse(where, "Sequence", rule, "a Sequence of one level does the same")
    sequence = read_fields(value, where, {**TYPE_FIELD, field: Field(list)})
    for i, member in enumerate(sequence[field]):
        yield member, f"{where}.{field}[{i}]"


def _flatten(value: object, where: str, field: str, depth: int = 0) -> Iterator[tuple[object, str]]:
    """Yield each step and its position; nested Sequences are expanded."""
    if read_type(value, where) != "Sequence":
        yield value, where
        return
    for member, position in iterate_sequence(value, where, field, depth):
        yield from _flatten(member, position, field, depth + 1)


# Fields ---------------------------------------------------------------------------------------------------------------


def _read_nonempty(value: object, where: str) -> str:
    if not (text := check_type(value, where, str)):
        refuse(where, text, "it must not be empty", "remove this step")
    return text


def _read_character(value: object, where: str) -> str:
    if len(text := _read_nonempty(value, where)) != 1:
        refuse(where, text, "it must be one character", "write a Replace for a longer text")
    return text


def _read_count(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        refuse(where, value, "it must be an int of at least 0", "write 0 to strip nothing")
    return value


def _read_pattern(value: object, where: str) -> tuple[str, bool]:
    """Read the pattern of a Split or a Replace, in Oniguruma's syntax, and whether it is a string to find."""
    pattern = check_object(value, where, ("Regex", "String"))
    if len(pattern) != 1:
        refuse(where, pattern, "it must have either Regex or String", "remove the other")
    (pattern_type,) = pattern
    text = read_field(pattern, where, pattern_type, str)
    if not text:
        refuse(where, text, "it must not be empty", "remove this step, which does nothing")
    return text, pattern_type == "String"


def _write_pattern(pattern: str, literal: bool = False) -> dict[str, str]:
    return {"String" if literal else "Regex": pattern}


def _translate(pattern: str, *, of_texts: bool = False) -> str:
    """Translate a pattern of a Replace to the syntax of the `regex` package, unless it means the same there.

    `of_texts` says that it is a normalizer's, where a pattern that may match the empty string at the beginning of a
    text is refused.
    """
    from bpe.text.oniguruma import UntranslatableError, is_shared_pattern, translate

    if pattern in NAME_OF_ONIGURUMA or is_shared_pattern(pattern):
        return pattern
    rule = "it cannot be matched as Oniguruma does"
    try:
        translation = translate(pattern)
    except UntranslatableError as error:
        refuse("pattern", pattern, f"{rule}: {error}", "rewrite it")
    if translation.empty == "sometimes":
        refuse("pattern", pattern, f"{rule}: some of its matches are empty", "write + for *")
    if of_texts and translation.empty == "always" and (not pattern.startswith("(?<=") or "|" in pattern):
        rule = "it may match at the beginning of a text, where `tokenizers` puts the content twice into some words"
        refuse("pattern", pattern, rule, 'begin it with (?<=…), or use a normalizer of type "Prepend"')
    if translation.names_later:
        refuse("pattern", pattern, f"{rule}: it names characters later than Unicode 16", "leave them out")
    return translation.expression


# Normalizers ----------------------------------------------------------------------------------------------------------


#: How `CollapseWhitespace` is saved; an equal `Replace` by the user is saved as `bpe.Replace`.
COLLAPSE_WHITESPACE = (r"\p{White_Space}+", " ")


def _read_charsmap(value: object, where: str) -> str:
    return "" if value is None else check_type(value, where, str)  # null: a model without a map


def _read_bool_or_null(value: object, where: str) -> bool | None:
    return None if value is None else check_type(value, where, bool)


def _make_normalizer(name: str, **fields: Any) -> Normalizer:
    from bpe.text.pipeline_normalizers import list_normalizer_classes

    normalizer: Normalizer = list_normalizer_classes()[name](**fields)
    return normalizer


def _make_bert(strip_accents: bool | None, lowercase: bool, **fields: bool) -> Normalizer:
    accents = lowercase if strip_accents is None else strip_accents
    return _make_normalizer("BertNormalizer", strip_accents=accents, lowercase=lowercase, **fields)


def _make_replace(pattern: tuple[str, bool], content: str) -> Normalizer:
    from bpe.text import normalizers
    from bpe.text.oniguruma import escape_literal, is_shared_pattern

    text, literal = pattern
    if not literal and (text, content) == COLLAPSE_WHITESPACE:
        return normalizers.CollapseWhitespace()
    expression = escape_literal(text) if literal else _translate(text, of_texts=True)
    spelling = None if literal or text in NAME_OF_ONIGURUMA or is_shared_pattern(text) else text
    return normalizers.Replace(expression, content, spelled=spelling)


def _make_extension(value: dict[str, Any]) -> Normalizer:
    from bpe.text.pipeline_normalizers import from_json

    return from_json({**value, "type": value["type"].removeprefix("bpe.")})


def _describe_normalizer(name: str, **fields: Field) -> StepType:
    return StepType(fields, partial(_make_normalizer, name))


NORMALIZERS: Mapping[str, StepType] = {
    **{name: _describe_normalizer(name) for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")},
    "Strip": StepType(
        {"strip_left": Field(bool), "strip_right": Field(bool)},
        lambda strip_left, strip_right: _make_normalizer("Strip", left=strip_left, right=strip_right),
    ),
    "Replace": StepType({"pattern": Field(_read_pattern), "content": Field(str)}, _make_replace),
    "BertNormalizer": StepType(
        {
            "clean_text": Field(bool),
            "handle_chinese_chars": Field(bool),
            "strip_accents": Field(_read_bool_or_null, None),
            "lowercase": Field(bool),
        },
        _make_bert,
    ),
    "ByteLevel": _describe_normalizer("ByteLevel"),
    "Nmt": _describe_normalizer("Nmt"),
    "Precompiled": _describe_normalizer("Precompiled", precompiled_charsmap=Field(_read_charsmap, "")),
    "Prepend": _describe_normalizer("Prepend", prepend=Field(str)),
    "StripAccents": _describe_normalizer("StripAccents"),
    **dict.fromkeys(
        (
            "bpe.UnescapeHTML", "bpe.FixText", "bpe.Lowercase", "bpe.Replace", "bpe.CharacterMap",
            "bpe.CharacterMapBeside", "bpe.DummyPrefix",
        ),
        StepType(None, _make_extension),
    ),
}  # fmt: skip


def read_normalizer(value: object, where: str = "normalizer", depth: int = 0) -> Normalizer:
    """Read the normalizer that a file describes."""
    if read_type(value, where) != "Sequence":
        return cast("Normalizer", _read_step("normalizer", NORMALIZERS, value, where))
    from bpe.text.normalizers import Sequence

    members = iterate_sequence(value, where, "normalizers", depth)
    return Sequence(*(read_normalizer(member, position, depth + 1) for member, position in members))


def write_normalizer(normalizer: Normalizer | None, depth: int = 0) -> dict[str, Any] | None:
    """Return the JSON object of a normalizer."""
    if normalizer is None:
        return None
    from bpe.text import normalizers
    from bpe.text.oniguruma import is_shared_pattern

    if depth > MAX_DEPTH:
        raise ValueError(f"normalizers are nested more than {MAX_DEPTH} deep; a Sequence of one level does the same")
    if isinstance(normalizer, normalizers.Sequence):
        members = [write_normalizer(member, depth + 1) for member in normalizer.normalizers]
        return {"type": "Sequence", "normalizers": members}
    if isinstance(normalizer, normalizers.Strip):
        return {"type": "Strip", "strip_left": normalizer.left, "strip_right": normalizer.right}
    if isinstance(normalizer, normalizers.CollapseWhitespace):
        return {"type": "Replace", "pattern": _write_pattern(COLLAPSE_WHITESPACE[0]), "content": COLLAPSE_WHITESPACE[1]}
    if isinstance(normalizer, normalizers.Replace):
        pattern, content, spelling = normalizer.pattern, normalizer.replacement, normalizer.spelled
        if spelling is None and is_shared_pattern(pattern):
            spelling = pattern
        if spelling is not None and (pattern, content) != COLLAPSE_WHITESPACE:
            return {"type": "Replace", "pattern": _write_pattern(spelling), "content": content}
    fields = normalizer.to_json()
    if normalizer == normalizers.Lowercase():
        del fields["final_sigma"]
    step_type = NORMALIZERS.get(fields["type"])
    is_shared = (
        step_type is not None and step_type.fields is not None and step_type.fields.keys() == fields.keys() - {"type"}
    )
    return fields if is_shared else {**fields, "type": f"bpe.{fields['type']}"}


def _spells_letters(normalizer: Normalizer | None) -> bool:
    """Whether a normalizer spells text in GPT-2's letters.

    Raises:
        FormatError: for a normalizer that changes the letters afterwards.

    """
    if normalizer is None:
        return False
    from bpe.text import normalizers

    spells_letters = type(normalizer).__name__ == "ByteLevel"
    for member in normalizer.normalizers if isinstance(normalizer, normalizers.Sequence) else ():
        if spells_letters:
            rule = f"after ByteLevel, the last normalizer, no other can follow: {UNSUPPORTED}"
            refuse("normalizer", type(member).__name__, rule, "put it before ByteLevel")
        spells_letters = _spells_letters(member)
    return spells_letters


# Pretokenizers --------------------------------------------------------------------------------------------------------


def _make_metaspace(prepend_scheme: Any, add_prefix_space: Any, **fields: Any) -> Step:
    if add_prefix_space is False and prepend_scheme != "never":
        refuse("add_prefix_space", False, "it must agree with prepend_scheme", "remove it")
    return Metaspace(prepend_scheme=prepend_scheme, **fields)


def _make_split(pattern: tuple[str, bool], **fields: Any) -> Step:
    return Split(pattern=pattern[0], literal=pattern[1], **fields)


PRETOKENIZERS: Mapping[str, StepType] = {
    "BertPreTokenizer": StepType({}, STEPS["BertPreTokenizer"]),
    "ByteLevel": StepType(
        {
            "add_prefix_space": Field(bool),
            "trim_offsets": Field(bool, True, kept=False),
            "use_regex": Field(bool, True),
        },
        ByteLevel,
    ),
    "CharDelimiterSplit": StepType({"delimiter": Field(str)}, STEPS["CharDelimiterSplit"]),
    "Digits": StepType({"individual_digits": Field(bool)}, STEPS["Digits"]),
    "FixedLength": StepType({"length": Field(int, 5)}, STEPS["FixedLength"]),
    "Metaspace": StepType(
        {
            "replacement": Field(str),
            "prepend_scheme": Field(str, "always"),
            "split": Field(bool, True),
            "add_prefix_space": Field(accept_any, None),  # of older versions
            "str_rep": Field(accept_any, None, kept=False),
        },
        _make_metaspace,
    ),
    "Punctuation": StepType({"behavior": Field(str, "Isolated")}, STEPS["Punctuation"]),
    "Split": StepType({"behavior": Field(str), "invert": Field(bool), "pattern": Field(_read_pattern)}, _make_split),
    "UnicodeScripts": StepType({}, STEPS["UnicodeScripts"]),
    "Whitespace": StepType({}, STEPS["Whitespace"]),
    "WhitespaceSplit": StepType({}, STEPS["WhitespaceSplit"]),
}


def read_pre_tokenizer(value: object, normalizer: Normalizer | None = None) -> tuple[bool, Pretokenizer | None]:
    """Read whether the model is byte-level, and its pretokenizer, which follows the normalizer.

    Checks the `unicode_version` of this package's files.
    """
    spells_letters = _spells_letters(normalizer)
    if isinstance(value, dict) and "unicode_version" in value:
        without_version = {name: field for name, field in value.items() if name != "unicode_version"}
        is_byte_level, pretokenizer = _read_pre_tokenizer(without_version, spells_letters)
        with errors_at("pre_tokenizer"):
            check_unicode_version(pretokenizer, value["unicode_version"])
        return is_byte_level, pretokenizer
    return _read_pre_tokenizer(value, spells_letters)


def _read_pre_tokenizer(value: object, spells_letters: bool) -> tuple[bool, Pretokenizer | None]:
    where = "pre_tokenizer"
    members = [] if value is None else list(_flatten(value, where, "pretokenizers"))
    extension_step = members.pop(0) if members and read_type(*members[0]) == "bpe.Regex" else None
    steps: list[Step] = [_read_step("pre_tokenizer", PRETOKENIZERS, step, position) for step, position in members]
    is_byte_level = spells_letters or any(isinstance(step, ByteLevel) for step in steps)
    if extension_step is None:
        with errors_at(where):
            return is_byte_level, simplify(PipelinePretokenizer(*steps, letters=spells_letters), is_byte_level)
    if spells_letters or steps not in ([], [BYTES_STEP]):
        rule = "there can only be a ByteLevel without add_prefix_space and use_regex after it"
        refuse(where, "bpe.Regex", rule, "remove the other steps")
    return is_byte_level, _read_regex(*extension_step)


def _read_regex(value: object, where: str) -> Pretokenizer:
    """Read a pre_tokenizer of this package's own type."""
    item = check_object(value, where, ("type", "name", "pattern", "gaps", "add_prefix_space"))
    prefix = read_field(item, where, "add_prefix_space", bool)
    if "name" in item:
        with errors_at(where):
            return Pretokenizer(item["name"], add_prefix_space=prefix)
    pattern, gaps = read_field(item, where, "pattern", str), cast("Gaps", read_field(item, where, "gaps", str))
    with errors_at(where):
        return Pretokenizer.from_regex(pattern, gaps=gaps, add_prefix_space=prefix)


_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
#: The fields of a Split that keeps unmatched text, and of one that drops it.
_ISOLATED_FIELDS, _REMOVED_FIELDS = {"behavior": "Isolated", "invert": False}, {"behavior": "Removed", "invert": True}
#: The only pretokenizers that are saved as several steps: Splits, or digits before gpt2's pattern.
_DEEPSEEK, _STARCODER = Pretokenizer("deepseek_v3"), Pretokenizer("starcoder")


def write_pre_tokenizer(is_byte_level: bool, pretokenizer: Pretokenizer | None) -> dict[str, Any] | None:
    """Return the steps of a pretokenizer, with its Unicode version, which `tokenizers` ignores."""
    steps = _write_steps(is_byte_level, pretokenizer)
    if not steps:
        return None
    step = steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}
    if pretokenizer is None or pretokenizer.unicode_version is None:
        return step
    return {**step, "unicode_version": pretokenizer.unicode_version}


def _write_steps(is_byte_level: bool, pretokenizer: Pretokenizer | None) -> list[dict[str, Any]]:
    if isinstance(pretokenizer, PipelinePretokenizer):
        return [step.to_json() for step in pretokenizer.steps]
    if is_byte_level and (
        pretokenizer is None or pretokenizer.name == "gpt2" or pretokenizer == make_prefix_pretokenizer()
    ):
        prefix = pretokenizer is not None and pretokenizer.add_prefix_space
        use_regex = pretokenizer is not None and pretokenizer.name == "gpt2"
        return [{**_BYTE_LEVEL, "add_prefix_space": prefix, "use_regex": use_regex}]
    if pretokenizer is None:
        return []
    if is_byte_level and pretokenizer == _STARCODER:
        return [{"type": "Digits", "individual_digits": True}, {**_BYTE_LEVEL, "use_regex": True}]
    steps = [_write_splitter(pretokenizer)]
    if pretokenizer == _DEEPSEEK:
        steps = [{"type": "Split", "pattern": _write_pattern(step), **_ISOLATED_FIELDS} for step in DEEPSEEK_STEPS]
    return [*steps, dict(_BYTE_LEVEL)] if is_byte_level else steps


def _write_splitter(pretokenizer: Pretokenizer) -> dict[str, Any]:
    from bpe.text.oniguruma import is_shared_pattern

    name, pattern, gaps = pretokenizer.name, pretokenizer.pattern, pretokenizer.gaps
    if pretokenizer.add_prefix_space or name == "deepseek_v3":
        identity = {"pattern": pattern, "gaps": gaps} if name is None else {"name": name}
        return {"type": "bpe.Regex", **identity, "add_prefix_space": pretokenizer.add_prefix_space}
    if name == "whitespace":
        return {"type": "WhitespaceSplit"}
    if pretokenizer == make_whitespace_pretokenizer():
        return {"type": "Whitespace"}
    needs_extension = (
        find_published_name(pattern, gaps) is not None or not is_shared_pattern(pattern) or gaps == "error"
    )
    if name is None and needs_extension:
        return {"type": "bpe.Regex", "pattern": pattern, "gaps": gaps, "add_prefix_space": False}
    covers = name in ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "tekken", "starcoder")
    fields = _ISOLATED_FIELDS if covers or gaps == "keep" else _REMOVED_FIELDS
    return {
        "type": "Split",
        "pattern": _write_pattern(pattern if name is None else ONIGURUMA_SPELLINGS[name]),
        **fields,
    }


# Decoders -------------------------------------------------------------------------------------------------------------


#: The ByteLevel that `tokenizers` writes as a decoder; its fields have no effect there.
_BYTE_LEVEL_DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
#: Which tokens lose a leading space, by `DummySpace.each`; the values of `of_tokens`, a field that `tokenizers`
#: ignores.
_OF_TOKENS = ("first", "each")
_STRIP_FIELDS = {
    **TYPE_FIELD,
    "content": Field(_read_character),
    "start": Field(_read_count),
    "stop": Field(_read_count),
}


def _make_strip(value: dict[str, Any]) -> output_steps.DecoderStep:
    if "of_tokens" not in value:
        return output_steps.DecodeStrip(**read_fields(value, "", _STRIP_FIELDS))
    rule = read_field(value, "", "of_tokens", str)  # a field of this package's files
    if rule not in _OF_TOKENS:
        refuse("of_tokens", rule, "it must be first or each", "remove it")
    return output_steps.DummySpace(each=rule == "each")


def _make_replacement(pattern: tuple[str, bool], content: str) -> output_steps.DecoderStep:
    from bpe.text.matching import compile_pattern

    if not pattern[1]:
        expression = _translate(pattern[0])
        with errors_at("pattern"):
            compile_pattern(expression)
    return output_steps.DecodeReplace(pattern[0], content, pattern[1])


def _make_metaspace_decoder(
    replacement: str, prepend_scheme: str | None, add_prefix_space: Any
) -> output_steps.DecoderStep:
    if prepend_scheme not in (None, "always", "first", "never"):
        refuse("prepend_scheme", prepend_scheme, "it must be always, first or never", "write one of them")
    if add_prefix_space is False and prepend_scheme is None:
        refuse("add_prefix_space", False, "it has no prepend_scheme", 'write "prepend_scheme": "never"')
    if add_prefix_space is False and prepend_scheme != "never":
        refuse("add_prefix_space", False, f"the prepend_scheme is {prepend_scheme}", "write never there")
    return output_steps.DecodeMetaspace(replacement, prepend_scheme != "never")


DECODERS: Mapping[str, StepType] = {
    "Replace": StepType({"pattern": Field(_read_pattern), "content": Field(str)}, _make_replacement),
    "Strip": StepType(None, _make_strip),
    "Fuse": StepType({}, output_steps.Fuse),
    "ByteFallback": StepType({"by_character": Field(bool, False)}, output_steps.ByteFallback),
    "Metaspace": StepType(
        {
            "replacement": Field(_read_character),
            "prepend_scheme": Field(str, None),
            "add_prefix_space": Field(accept_any, None),
            **dict.fromkeys(("split", "str_rep"), Field(accept_any, None, kept=False)),
        },
        _make_metaspace_decoder,
    ),
    "BPEDecoder": StepType({"suffix": Field(_read_nonempty)}, output_steps.Suffix),
    "ByteLevel": StepType(
        dict.fromkeys(("add_prefix_space", "trim_offsets", "use_regex"), Field(accept_any, None, kept=False)),
        output_steps.DecodeByteLevel,
    ),
    "WordPiece": StepType({"prefix": Field(_read_nonempty), "cleanup": Field(bool)}, output_steps.WordPiece),
}


def read_decoder(value: object, spec: TokenizerSpec) -> tuple[output_steps.DecoderStep, ...] | None:
    """Read the steps of a decoder; None for null, which means this package's, and for steps that give the same text."""
    if value is None or (isinstance(value, dict) and "native" in value and value == _write_nearest_steps(spec)):
        return None
    if read_type(value, "decoder") == "BPEDecoder" and isinstance(value, dict) and "at_end_only" in value:
        value = dict(value)
        if read_field(value, "decoder", "at_end_only", bool) and value.get("suffix") == spec.end_of_word:
            return None  # this package's own files: a mark elsewhere in a token is text
        del value["at_end_only"]
    steps = read_decoder_steps(value)
    while (
        len(steps) > 1
        and isinstance(steps[-1], output_steps.Fuse)
        and isinstance(steps[-2], output_steps.DecodeByteLevel | output_steps.Fuse)
    ):
        steps = steps[:-1]  # it joins one token
    return None if steps == find_default_steps(spec) else steps


def read_decoder_steps(value: object) -> tuple[output_steps.DecoderStep, ...]:
    """Read the steps of a decoder as the file has them."""
    members = _flatten(value, "decoder", "decoders")
    return tuple(_read_step("decoder", DECODERS, step, where) for step, where in members)


def find_default_steps(spec: TokenizerSpec) -> tuple[output_steps.DecoderStep, ...] | None:
    """Find the steps that give the text of a tokenizer whose `decoder` is None; None if no steps do."""
    if spec.model == "byte":
        as_bytes, as_text = (find_decoded_bytes(spec, byte_level=byte_level) for byte_level in (True, False))
        return (output_steps.DecodeByteLevel(),) if spec.end_of_word is None and as_bytes == as_text else None
    if spec.end_of_word is None:
        return (output_steps.Fuse(),)
    return None if _has_inner_marks(spec) else (output_steps.Suffix(spell_end_of_word(spec)),)


def _has_inner_marks(spec: TokenizerSpec) -> bool:
    """Whether a token spells the end-of-word mark elsewhere than where it ends a word: BPEDecoder replaces it, too."""
    if spec.end_of_word is None or spec.ends_word is None or spec.model == "byte":
        return False
    mark, blob, n_ends = spec.end_of_word.encode(), spec.vocabulary.blob, int(spec.ends_word.sum())
    if mark.find(mark[:1], 1) < 0 and blob.count(mark) == n_ends and list_irregular_word_ends(spec) is None:
        return False  # each is at the end of a token; the mark does not overlap itself, so that all of them are counted
    return any(token.count(mark) != spec.ends_word[token_id] for token_id, token in spec.vocabulary.items())


def write_decoder(spec: TokenizerSpec) -> dict[str, Any]:
    """Return the decoder of a tokenizer as a JSON object."""
    steps = find_default_steps(spec) if spec.decoder is None else spec.decoder
    if steps is None and spec.model == "char":
        # `tokenizers` ignores the field at_end_only.
        return {"type": "BPEDecoder", "suffix": spell_end_of_word(spec), "at_end_only": True}
    return _write_nearest_steps(spec) if steps is None else _write_sequence(steps)


def _write_nearest_steps(spec: TokenizerSpec) -> dict[str, Any]:
    """Return the closest decoder for a byte model whose text no sequence of steps gives exactly.

    The field `native`, which `tokenizers` ignores, tells them from the same steps by another program.
    """
    steps: tuple[output_steps.DecoderStep, ...] = (output_steps.DecodeByteLevel(),)
    if spec.end_of_word is not None:
        steps += (output_steps.DecodeReplace(spec.end_of_word, " "), output_steps.DecodeStrip(" ", 0, 1))
    return {**_write_sequence(steps), "native": True}


def _write_sequence(steps: tuple[output_steps.DecoderStep, ...]) -> dict[str, Any]:
    objects = [_write_decoder_step(step) for step in steps]
    return objects[0] if len(objects) == 1 else {"type": "Sequence", "decoders": objects}


def _write_decoder_step(step: output_steps.DecoderStep) -> dict[str, Any]:
    if isinstance(step, output_steps.DecodeByteLevel):
        return dict(_BYTE_LEVEL_DECODER)
    if isinstance(step, output_steps.Suffix):
        return {"type": "BPEDecoder", "suffix": step.suffix}
    if isinstance(step, output_steps.DecodeReplace):
        return {"type": "Replace", "pattern": _write_pattern(step.pattern, step.literal), "content": step.content}
    if isinstance(step, output_steps.DummySpace):  # nearly the same for `tokenizers`, which ignores the field
        return {"type": "Strip", "content": " ", "start": 1, "stop": 0, "of_tokens": _OF_TOKENS[step.each]}
    if isinstance(step, output_steps.DecodeMetaspace):
        scheme = "always" if step.prepended else "never"
        return {"type": "Metaspace", "replacement": step.replacement, "prepend_scheme": scheme, "split": True}
    fields = dict(vars(step))
    if not fields.get("by_character", True):
        del fields["by_character"]  # as `tokenizers` writes it
    return {"type": type(step).__name__.removeprefix("Decode"), **fields}
