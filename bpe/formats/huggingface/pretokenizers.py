"""The pre_tokenizer of a tokenizer.json, read and written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from bpe.errors import FormatError
from bpe.formats.json_fields import LATER, MAX_DEPTH, as_object, get, make_at, refuse, type_of
from bpe.pretokenize.patterns import DEEPSEEK_STEPS, SPELLED, published
from bpe.pretokenize.pretokenizer import Gaps, PipelinePretokenizer, Pretokenizer, check_unicode_version
from bpe.pretokenize.shapes import BYTES, prefixed, simplify, words
from bpe.pretokenize.steps import STEPS, ByteLevel, Step


def read_pre_tokenizer(value: object, letters: bool = False) -> tuple[bool, Pretokenizer | None]:
    """(whether the model is byte-level, its pretokenizer). Checks the `unicode_version` of this package's files.

    `letters` says that the normalizer has a ByteLevel.
    """
    if isinstance(value, dict) and "unicode_version" in value:
        value = dict(value)
        version = value.pop("unicode_version")
        byte, pretokenizer = read_pre_tokenizer(value, letters)
        make_at("pre_tokenizer", lambda: check_unicode_version(pretokenizer, version))
        return byte, pretokenizer
    where = "pre_tokenizer"
    listed = [] if value is None else list(_flat(value, where))
    if listed and type_of(*listed[0]) == "bpe.Regex":
        return _read_own(listed, where, letters)
    steps = [_read_step(step, position) for step, position in listed]
    byte = letters or any(isinstance(step, ByteLevel) for step in steps)
    return byte, make_at(where, lambda: simplify(PipelinePretokenizer(*steps, letters=letters), byte))


def _flat(value: object, where: str, depth: int = 0) -> Iterator[tuple[object, str]]:
    """(step, position) of a pre_tokenizer, with nested Sequences expanded."""
    if type_of(value, where) != "Sequence":
        yield value, where
        return
    if depth == MAX_DEPTH:
        raise FormatError(f"nested more than {MAX_DEPTH} deep; a Sequence of one level does the same", where=where)
    item = as_object(value, where, ("type", "pretokenizers"))
    for i, step in enumerate(get(item, where, "pretokenizers", list)):
        yield from _flat(step, f"{where}.pretokenizers[{i}]", depth + 1)


def _read_own(listed: list[tuple[object, str]], where: str, letters: bool) -> tuple[bool, Pretokenizer]:
    """Read a pre_tokenizer of this package's own type, alone or before a ByteLevel."""
    (value, position), *rest = listed
    steps = [_read_step(step, there) for step, there in rest]
    if letters or steps not in ([], [BYTES]):
        rule = "after bpe.Regex there can only be a ByteLevel without add_prefix_space and use_regex"
        raise FormatError(f"{rule}; remove the other steps", where=where)
    item = as_object(value, position, ("type", "name", "pattern", "gaps", "add_prefix_space"))
    prefix = get(item, position, "add_prefix_space", bool)
    if "name" in item:
        return bool(steps), make_at(position, lambda: Pretokenizer(item["name"], add_prefix_space=prefix))
    pattern, gaps = get(item, position, "pattern", str), cast("Gaps", get(item, position, "gaps", str))
    own = make_at(position, lambda: Pretokenizer.from_regex(pattern, gaps=gaps, add_prefix_space=prefix))
    return bool(steps), own


#: The fields of each step: name → (type, default). A field without a default is required.
_FIELDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "BertPreTokenizer": {},
    "ByteLevel": {"add_prefix_space": (bool,), "trim_offsets": (bool, True), "use_regex": (bool, True)},
    "CharDelimiterSplit": {"delimiter": (str,)},
    "Digits": {"individual_digits": (bool,)},
    "FixedLength": {"length": (int, 5)},
    "Metaspace": {"replacement": (str,), "prepend_scheme": (str, "always"), "split": (bool, True)},
    "Punctuation": {"behavior": (str, "Isolated")},
    "Split": {"behavior": (str,), "invert": (bool,)},
    "UnicodeScripts": {},
    "Whitespace": {},
    "WhitespaceSplit": {},
}
#: Further fields: those of older versions' files, and the pattern, which `read_pattern` reads.
_OLDER = {"Metaspace": ("add_prefix_space", "str_rep"), "Split": ("pattern",)}


def _read_step(value: object, where: str) -> Step:
    """One step of a pre_tokenizer."""
    from bpe.formats.huggingface.patterns import read_pattern

    kind = type_of(value, where)
    if kind not in _FIELDS:
        refuse(
            where, value, f"a pre_tokenizer of type {kind!r} is not known: {LATER}",
            f"known are Sequence, {', '.join(_FIELDS)}",
        )  # fmt: skip
    fields = _FIELDS[kind]
    item = as_object(value, where, ("type", *fields, *_OLDER.get(kind, ())))
    found = {name: get(item, where, name, *rule) for name, rule in fields.items()}
    found.pop("trim_offsets", None)
    if kind == "Metaspace" and item.get("add_prefix_space") is False and found["prepend_scheme"] != "never":
        refuse(f"{where}.add_prefix_space", False, "it must agree with prepend_scheme", "remove it")
    if kind == "Split":
        found["pattern"], found["literal"] = read_pattern(item, where)
    return make_at(where, lambda: STEPS[kind](**found))


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
#: The fields of a Split that keeps unmatched text, and of one that drops it.
ISOLATED = {"behavior": "Isolated", "invert": False}
REMOVED = {"behavior": "Removed", "invert": True}
#: The only pretokenizer that is saved as several Splits.
DEEPSEEK = Pretokenizer("deepseek_v3")
#: The step that isolates digits, and the pretokenizer that has it before gpt2's pattern.
DIGITS = {"type": "Digits", "individual_digits": True}
STARCODER = Pretokenizer("starcoder")


def write_pre_tokenizer(byte: bool, one: Pretokenizer | None) -> dict[str, Any] | None:
    """The steps of the pretokenizer, with its Unicode version, which `tokenizers` ignores."""
    steps = _pre_tokenizer_steps(byte, one)
    if steps is None or one is None or one.unicode_version is None:
        return steps
    return {**steps, "unicode_version": one.unicode_version}


def _pre_tokenizer_steps(byte: bool, one: Pretokenizer | None) -> dict[str, Any] | None:
    if isinstance(one, PipelinePretokenizer):
        steps = [step.to_json() for step in one.steps]
        if len(steps) < 2:
            return steps[0] if steps else None
        return {"type": "Sequence", "pretokenizers": steps}
    if byte and (one is None or one.name == "gpt2" or one == prefixed()):
        prefix = one is not None and one.add_prefix_space
        return {**BYTE_LEVEL, "add_prefix_space": prefix, "use_regex": one is not None and one.name == "gpt2"}
    if one is None:
        return None
    if byte and one == STARCODER:
        return {"type": "Sequence", "pretokenizers": [DIGITS, {**BYTE_LEVEL, "use_regex": True}]}
    steps = [_write_splitter(one)]
    if one == DEEPSEEK:
        steps = [{"type": "Split", "pattern": {"Regex": step}, **ISOLATED} for step in DEEPSEEK_STEPS]
    if byte:
        steps.append(dict(BYTE_LEVEL))
    return steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}


def _write_splitter(one: Pretokenizer) -> dict[str, Any]:
    from bpe.text.oniguruma import means_the_same

    if one.add_prefix_space or one.name == "deepseek_v3":
        which = {"pattern": one.pattern, "gaps": one.gaps} if one.name is None else {"name": one.name}
        return {"type": "bpe.Regex", **which, "add_prefix_space": one.add_prefix_space}
    if one.name == "whitespace":
        return {"type": "WhitespaceSplit"}
    if one == words():
        return {"type": "Whitespace"}
    own = published(one.pattern, one.gaps) is not None or not means_the_same(one.pattern) or one.gaps == "error"
    if one.name is None and own:
        return {"type": "bpe.Regex", "pattern": one.pattern, "gaps": one.gaps, "add_prefix_space": False}
    pattern = one.pattern if one.name is None else SPELLED[one.name]
    covers = one.name in ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "tekken", "starcoder")
    keeps = covers or one.gaps == "keep"
    return {"type": "Split", "pattern": {"Regex": pattern}, **(ISOLATED if keeps else REMOVED)}
