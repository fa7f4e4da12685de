"""The patterns of Split and Replace in a tokenizer.json."""

from __future__ import annotations

from typing import Any

from bpe.formats.json_fields import as_object, get, refuse


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
