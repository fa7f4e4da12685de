"""The patterns of Split and Replace in a tokenizer.json."""

from __future__ import annotations

from typing import Any

from bpe.formats.json_fields import as_object, get, refuse
from bpe.pretokenize.spellings import NAMED
from bpe.text.oniguruma import escaped, means_the_same


def read_pattern(item: dict[str, Any], where: str) -> tuple[str, bool]:
    """The pattern of a Split or a Replace, in Oniguruma's syntax, and whether it is a string to find."""
    where += ".pattern"
    pattern = as_object(item.get("pattern"), where, ("Regex", "String"))
    if len(pattern) != 1:
        refuse(where, pattern, "it must have either Regex or String", "remove the other")
    (kind,) = pattern
    text = get(pattern, where, kind, str)
    if not text:
        refuse(where, text, "it must not be empty", "remove this step, which does nothing")
    return text, kind == "String"


def read_common_pattern(item: dict[str, Any], where: str) -> str:
    """The same as one pattern that means the same to Oniguruma and the `regex` package; others are refused."""
    text, literal = read_pattern(item, where)
    if literal:
        return escaped(text)
    if text not in NAMED and not means_the_same(text):
        refuse(
            f"{where}.pattern", text, "it may mean different things to Oniguruma and the `regex` package, or it can "
            "match the empty string", "rewrite it without anchors, \\w, \\b, flags and {n,m}+",
        )  # fmt: skip
    return text
