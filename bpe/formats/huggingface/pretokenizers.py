"""The pre_tokenizer of a tokenizer.json, read and written."""

from __future__ import annotations

from typing import Any, cast

from bpe.formats.huggingface.patterns import read_pattern
from bpe.formats.json_fields import LATER, as_object, get, make_at, refuse, type_of
from bpe.formats.oniguruma import SPELLED, means_the_same, published
from bpe.pretokenize.patterns import DEEPSEEK_STEPS, DEEPSEEK_STEPS_ESCAPED
from bpe.pretokenize.pretokenizer import Gaps, Pretokenizer, check_unicode_version

#: The patterns of the three Splits that are DeepSeek's pretokenizer, as published and with CR and LF as escapes.
DEEPSEEK_SPLITS = (list(DEEPSEEK_STEPS), list(DEEPSEEK_STEPS_ESCAPED))


def read_pre_tokenizer(value: object) -> tuple[bool, Pretokenizer | None]:
    """(whether the model is byte-level, its pretokenizer). Checks the `unicode_version` of this package's files."""
    if isinstance(value, dict) and "unicode_version" in value:
        value = dict(value)
        version = value.pop("unicode_version")
        byte, pretokenizer = read_pre_tokenizer(value)
        make_at("pre_tokenizer", lambda: check_unicode_version(pretokenizer, version))
        return byte, pretokenizer
    where, steps = "pre_tokenizer", [] if value is None else [value]
    positions = [where]
    if value is not None and type_of(value, where) == "Sequence":
        steps = get(as_object(value, where, ("type", "pretokenizers")), where, "pretokenizers", list)
        positions = [f"{where}.pretokenizers[{i}]" for i in range(len(steps))]
    kinds = [type_of(step, position) for step, position in zip(steps, positions, strict=False)]
    byte = bool(kinds) and kinds[-1] == "ByteLevel"
    if [_isolated(step, kind) for step, kind in zip(steps[:3], kinds, strict=False)] in DEEPSEEK_SPLITS:
        steps = [{"type": "bpe.Regex", "name": "deepseek_v3", "add_prefix_space": False}, *steps[3:]]
        kinds, positions = ["bpe.Regex", *kinds[3:]], [where, *positions[3:]]
    if steps[:1] == [DIGITS] and byte and len(steps) == 2:
        level = cast("dict[str, Any]", steps[1])
        if level.get("use_regex", True) is True and level.get("add_prefix_space") is False:
            steps = [{"type": "bpe.Regex", "name": "starcoder", "add_prefix_space": False}]
            steps.append({**level, "use_regex": False})
            kinds[0] = "bpe.Regex"
    if len(steps) - byte > 1:
        rule = f"a Sequence must be at most one splitter and one ByteLevel after it: {LATER}"
        refuse(where, value, rule, "combine the splitters into one pattern")
    splitter = _read_splitter(steps[0], kinds[0], positions[0]) if len(steps) > byte else None
    if not byte:
        return False, splitter
    level = as_object(steps[-1], positions[-1], ("type", "add_prefix_space", "trim_offsets", "use_regex"))
    prefix = get(level, positions[-1], "add_prefix_space", bool)
    use_regex = get(level, positions[-1], "use_regex", bool, True)
    if splitter is not None and (prefix or use_regex):
        refuse(
            f"{positions[-1]}.{'add_prefix_space' if prefix else 'use_regex'}", True,
            f"after another pre_tokenizer, add_prefix_space and use_regex must be false: {LATER}",
            "set both to false if that is what the tokenizer was trained with",
        )  # fmt: skip
    if use_regex:
        return True, Pretokenizer("gpt2", add_prefix_space=prefix)
    return True, PREFIXED if prefix else splitter


def _isolated(value: Any, kind: str) -> object:
    """The pattern of a Split that keeps unmatched text; None for any other step."""
    if kind == "Split" and value.get("behavior") == "Isolated" and value.get("invert") is False:
        pattern = value.get("pattern")
        return pattern.get("Regex") if isinstance(pattern, dict) and len(pattern) == 1 and len(value) == 4 else None
    return None


def _read_splitter(value: object, kind: str, where: str) -> Pretokenizer:
    assert isinstance(value, dict)
    if kind in ("WhitespaceSplit", "Whitespace"):
        as_object(value, where, ("type",))
        return WORDS if kind == "Whitespace" else Pretokenizer("whitespace")
    if kind == "bpe.Regex":
        as_object(value, where, ("type", "name", "pattern", "gaps", "add_prefix_space"))
        prefix = get(value, where, "add_prefix_space", bool)
        if "name" in value:
            return make_at(where, lambda: Pretokenizer(value["name"], add_prefix_space=prefix))
        pattern, own = get(value, where, "pattern", str), cast("Gaps", get(value, where, "gaps", str))
        return make_at(where, lambda: Pretokenizer.from_regex(pattern, gaps=own, add_prefix_space=prefix))
    if kind == "Digits":
        individual = get(as_object(value, where, ("type", "individual_digits")), where, "individual_digits", bool)
        rule = f"it must be true, and its ByteLevel must have use_regex true and add_prefix_space false: {LATER}"
        refuse(f"{where}.individual_digits", individual, rule, "write a Split with a pattern of the pretokens")
    if kind != "Split":
        refuse(
            where, value, f"a pre_tokenizer of type {kind!r} is not known: {LATER}",
            "known are ByteLevel, Split, WhitespaceSplit, Whitespace, a Sequence of one of these and ByteLevel, and a "
            "Sequence of Digits (individual_digits) and ByteLevel (use_regex)",
        )  # fmt: skip
    pattern = read_pattern(as_object(value, where, ("type", "pattern", "behavior", "invert")), where)
    behavior, invert = get(value, where, "behavior", str), get(value, where, "invert", bool)
    if behavior == "Removed" and not invert and pattern in (r"\s+", r"\s"):
        return Pretokenizer("whitespace")
    if behavior != "Isolated" and not (behavior == "Removed" and invert):
        rule = f"it must be Isolated, or Removed with invert (which is {invert}): {LATER}"
        refuse(f"{where}.behavior", behavior, rule, "write the pattern of the pretokens themselves")
    gaps: Gaps = "keep" if behavior == "Isolated" else "drop"
    if (name := published(pattern, gaps)) is not None:
        return Pretokenizer(name)
    return make_at(where, lambda: Pretokenizer.from_regex(pattern, gaps=gaps))


#: Hugging Face's `Whitespace`. Its `\w` is that of the `regex` package, not Oniguruma's.
WORDS = Pretokenizer.from_regex(r"\w+|[^\w\s]+")
#: ByteLevel(use_regex=false, add_prefix_space=true): the whole text is one pretoken, after the space.
PREFIXED = Pretokenizer.from_regex("(?s:.+)", add_prefix_space=True)
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
    if byte and (one is None or one.name == "gpt2" or one == PREFIXED):
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
    if one.add_prefix_space or one.name == "deepseek_v3":
        which = {"pattern": one.pattern, "gaps": one.gaps} if one.name is None else {"name": one.name}
        return {"type": "bpe.Regex", **which, "add_prefix_space": one.add_prefix_space}
    if one.name == "whitespace":
        return {"type": "WhitespaceSplit"}
    if one == WORDS:
        return {"type": "Whitespace"}
    own = published(one.pattern, one.gaps) is not None or not means_the_same(one.pattern) or one.gaps == "error"
    if one.name is None and own:
        return {"type": "bpe.Regex", "pattern": one.pattern, "gaps": one.gaps, "add_prefix_space": False}
    pattern = one.pattern if one.name is None else SPELLED[one.name]
    covers = one.name in ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "tekken", "starcoder")
    keeps = covers or one.gaps == "keep"
    return {"type": "Split", "pattern": {"Regex": pattern}, **(ISOLATED if keeps else REMOVED)}
