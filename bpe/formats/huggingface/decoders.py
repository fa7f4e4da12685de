"""The decoder of a tokenizer.json, read and written."""

from __future__ import annotations

from typing import Any

from bpe.errors import FormatError, shown
from bpe.formats.huggingface.spelling import mark_text, odd_ends
from bpe.formats.json_fields import LATER, MAX_DEPTH, as_object, get, make_at, refuse, type_of
from bpe.vocab import decoding as d
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_names import decoded_bytes

#: The ByteLevel that `tokenizers` writes as a decoder; its fields have no effect there.
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
#: The tokens that lose a space, not each and each: the values of a field that `tokenizers` ignores.
_OF_TOKENS = ("first", "each")
_KNOWN = "Sequence, Replace, Strip, Fuse, ByteFallback, Metaspace, BPEDecoder, ByteLevel and WordPiece"


def read_decoder(value: object, spec: TokenizerSpec) -> tuple[d.DecoderStep, ...] | None:
    """The steps of a decoder; None for null, which means this package's, and for steps that give the same text."""
    if value is None or (isinstance(value, dict) and "native" in value and value == _native(spec)):
        return None
    if type_of(value, "decoder") == "BPEDecoder" and isinstance(value, dict) and "at_end_only" in value:
        value = dict(value)
        if get(value, "decoder", "at_end_only", bool) and value.get("suffix") == spec.end_of_word:
            return None  # this package's own files: a mark elsewhere in a token is text
        del value["at_end_only"]
    steps = tuple(_steps(value, "decoder", 0))
    while len(steps) > 1 and isinstance(steps[-1], d.Fuse) and isinstance(steps[-2], d.ByteLevel | d.Fuse):
        steps = steps[:-1]  # it joins one token
    return None if steps == own_steps(spec) else steps


def own_steps(spec: TokenizerSpec) -> tuple[d.DecoderStep, ...] | None:
    """The steps that give the text of a tokenizer whose `decoder` is None; None if no steps do."""
    if spec.model == "byte":
        if spec.end_of_word is not None or decoded_bytes(spec, byte_level=True) != decoded_bytes(
            spec, byte_level=False
        ):
            return None
        return (d.ByteLevel(),)
    if spec.end_of_word is None:
        return (d.Fuse(),)
    return None if _has_inner_marks(spec) else (d.Suffix(mark_text(spec)),)


def _has_inner_marks(spec: TokenizerSpec) -> bool:
    """Whether a token spells the end-of-word mark elsewhere than where it ends a word: BPEDecoder replaces it, too."""
    if spec.end_of_word is None or spec.ends_word is None or spec.model == "byte":
        return False
    mark, blob, n_ends = spec.end_of_word.encode(), spec.vocabulary.blob, int(spec.ends_word.sum())
    if mark.find(mark[:1], 1) < 0 and blob.count(mark) == n_ends and odd_ends(spec) is None:
        return False  # each is at the end of a token; the mark does not overlap itself, so that all of them are counted
    return any(token.count(mark) != spec.ends_word[number] for number, token in spec.vocabulary.items())


def _steps(value: object, where: str, depth: int) -> list[d.DecoderStep]:
    kind = type_of(value, where)
    assert isinstance(value, dict)
    if kind == "Sequence":
        if depth == MAX_DEPTH:
            refuse(where, kind, f"it is nested more than {MAX_DEPTH} deep", "a Sequence of one level does the same")
        inner = get(as_object(value, where, ("type", "decoders")), where, "decoders", list)
        return [step for i, each in enumerate(inner) for step in _steps(each, f"{where}.decoders[{i}]", depth + 1)]
    if kind == "Fuse":
        as_object(value, where, ("type",))
        return [d.Fuse()]
    if kind == "ByteFallback":
        item = as_object(value, where, ("type", "by_character"))
        return [d.ByteFallback(get(item, where, "by_character", bool, False))]
    if kind == "Strip" and "of_tokens" in value:  # a field of this package's files
        rule = get(value, where, "of_tokens", str)
        if rule not in _OF_TOKENS:
            refuse(f"{where}.of_tokens", rule, "it must be first or each", "remove it")
        return [d.DummySpace(each=rule == "each")]
    if kind == "ByteLevel":
        as_object(value, where, tuple(_BYTE_LEVEL))
        return [d.ByteLevel()]
    if kind == "BPEDecoder":
        return [d.Suffix(_text(value, where, ("suffix",), "suffix"))]
    if kind == "Replace":
        return [_replace(as_object(value, where, ("type", "pattern", "content")), where)]
    if kind == "Strip":
        content = _character(value, where, ("content", "start", "stop"), "content")
        return [d.Strip(content, _count(value, where, "start"), _count(value, where, "stop"))]
    if kind == "Metaspace":
        return [_metaspace(value, where)]
    if kind == "WordPiece":
        prefix = _text(value, where, ("prefix", "cleanup"), "prefix")
        return [d.WordPiece(prefix, get(value, where, "cleanup", bool))]
    rule = f"a decoder of type {kind!r} is not supported: {LATER}"
    raise FormatError(f"it is {shown(value)}; {rule}; known are {_KNOWN}; or set it to null", where=where)


def _text(value: dict[str, Any], where: str, fields: tuple[str, ...], name: str) -> str:
    text = get(as_object(value, where, ("type", *fields)), where, name, str)
    if not text:
        refuse(f"{where}.{name}", text, "it must not be empty", "remove this step")
    return text


def _character(value: dict[str, Any], where: str, fields: tuple[str, ...], name: str) -> str:
    text = _text(value, where, fields, name)
    if len(text) != 1:
        refuse(f"{where}.{name}", text, "it must be one character", "write a Replace for a longer text")
    return text


def _count(value: dict[str, Any], where: str, name: str) -> int:
    count = value.get(name)
    if type(count) is not int or not 0 <= count < 1 << 62:
        refuse(f"{where}.{name}", count, "it must be an int of at least 0", "write 0 to strip nothing")
    return count


def _replace(item: dict[str, Any], where: str) -> d.Replace:
    from bpe.formats.huggingface.patterns import read_expression, read_pattern
    from bpe.text.matching import compiled

    content = get(item, where, "content", str)
    pattern, literal = read_pattern(item, where)
    if not literal:
        expression = read_expression(pattern, where)
        make_at(f"{where}.pattern", lambda: compiled(expression))
    return d.Replace(pattern, content, literal)


def _metaspace(value: dict[str, Any], where: str) -> d.Metaspace:
    fields = ("replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep")
    replacement = _character(value, where, fields, "replacement")
    scheme = get(value, where, "prepend_scheme", str, "always")
    if scheme not in ("always", "first", "never"):
        refuse(f"{where}.prepend_scheme", scheme, "it must be always, first or never", "write one of them")
    if value.get("add_prefix_space") is False and scheme != "never":
        if "prepend_scheme" in value:
            refuse(f"{where}.add_prefix_space", False, f"the prepend_scheme is {scheme}", "write never there")
        refuse(f"{where}.add_prefix_space", False, "it has no prepend_scheme", 'write "prepend_scheme": "never"')
    return d.Metaspace(replacement, scheme != "never")


# Writing --------------------------------------------------------------------------------------------------------------


def write_decoder(spec: TokenizerSpec) -> dict[str, Any]:
    """The decoder of a tokenizer as a JSON object."""
    steps = own_steps(spec) if spec.decoder is None else spec.decoder
    if steps is None and spec.model == "char":
        return {"type": "BPEDecoder", "suffix": mark_text(spec), "at_end_only": True}  # `tokenizers` ignores the field
    return _native(spec) if steps is None else _sequence(steps)


def _native(spec: TokenizerSpec) -> dict[str, Any]:
    """The decoder of a byte model whose text no steps give: those of nearly the same text.

    The field `native`, which `tokenizers` ignores, tells them from the same steps by another program.
    """
    steps: tuple[d.DecoderStep, ...] = (d.ByteLevel(),)
    if spec.end_of_word is not None:
        steps += (d.Replace(spec.end_of_word, " "), d.Strip(" ", 0, 1))
    return {**_sequence(steps), "native": True}


def _sequence(steps: tuple[d.DecoderStep, ...]) -> dict[str, Any]:
    written = [_written(step) for step in steps]
    return written[0] if len(written) == 1 else {"type": "Sequence", "decoders": written}


def _written(step: d.DecoderStep) -> dict[str, Any]:
    if isinstance(step, d.ByteLevel):
        return dict(_BYTE_LEVEL)
    if isinstance(step, d.Suffix):
        return {"type": "BPEDecoder", "suffix": step.suffix}
    if isinstance(step, d.Replace):
        kind = "String" if step.literal else "Regex"
        return {"type": "Replace", "pattern": {kind: step.pattern}, "content": step.content}
    if isinstance(step, d.DummySpace):  # nearly the same for `tokenizers`, which ignores the field
        return {"type": "Strip", "content": " ", "start": 1, "stop": 0, "of_tokens": _OF_TOKENS[step.each]}
    if isinstance(step, d.ByteFallback) and step.by_character:  # the same but for bytes that are not UTF-8
        return {"type": "ByteFallback", "by_character": True}
    if isinstance(step, d.Strip):
        return {"type": "Strip", "content": step.content, "start": step.start, "stop": step.stop}
    if isinstance(step, d.Metaspace):
        scheme = "always" if step.prepended else "never"
        return {"type": "Metaspace", "replacement": step.replacement, "prepend_scheme": scheme, "split": True}
    if isinstance(step, d.WordPiece):
        return {"type": "WordPiece", "prefix": step.prefix, "cleanup": step.cleanup}
    return {"type": type(step).__name__}
