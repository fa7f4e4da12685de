"""The patterns of Split and Replace in a tokenizer.json."""

from __future__ import annotations

from typing import Any

from bpe.formats.json_fields import as_object, get, refuse
from bpe.pretokenize.patterns import NAMED


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


def read_expression(pattern: str, where: str, *, of_texts: bool = False) -> str:
    """A pattern of a Replace in the syntax of the `regex` package: as it is, if it means the same there.

    `of_texts` says that it is a normalizer's, of which an empty match at the beginning of a text is refused.
    """
    from bpe.text.oniguruma import UntranslatableError, means_the_same, translate

    if pattern in NAMED or means_the_same(pattern):
        return pattern
    rule, fix = "cannot be matched as Oniguruma does", "rewrite it"
    try:
        translation = translate(pattern)
    except UntranslatableError as error:
        refuse(f"{where}.pattern", pattern, f"it {rule}: {error}", fix)
    if translation.empty == "sometimes":
        refuse(f"{where}.pattern", pattern, f"it {rule}: some of its matches are empty", "write + for *")
    if of_texts and translation.empty == "always" and (not pattern.startswith("(?<=") or "|" in pattern):
        rule = "it may match at the beginning of a text, where `tokenizers` puts the content twice into some words"
        refuse(f"{where}.pattern", pattern, rule, 'begin it with (?<=…), or use a normalizer of type "Prepend"')
    if translation.names_later:
        refuse(f"{where}.pattern", pattern, f"it {rule}: it names characters later than Unicode 16", "leave them out")
    return translation.expression
