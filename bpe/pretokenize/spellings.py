"""The spellings of published patterns for Oniguruma, the engine of Hugging Face's files.

Oniguruma's patterns: `bpe/text/oniguruma.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bpe.pretokenize.patterns import PATTERNS, SPELLINGS

#: The name of a published pattern → its spelling for Oniguruma.
SPELLED: Mapping[str, str] = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    # `\s++$` is safe: `\s++` has consumed all white space, so no newline follows, and in both engines `$` matches only
    # at the end of the text.
    "cl100k": PATTERNS["cl100k"].expression.replace("{1,3}+", "{1,3}"),
    **{name: PATTERNS[name].expression for name in ("o200k", "llama3", "qwen2", "tekken", "starcoder")},
    # Both cases are listed, because under `(?i)` Oniguruma would match the ligature ﬆ for the st of <|startoftext|>.
    # U+0345 is excluded, because under `(?i)` the negated class of `regex` does not match it (its capital is a letter).
    "clip": r"""<\|[sSſ][tT][aA][rR][tT][oO][fF][tT][eE][xX][tT]\|>|<\|[eE][nN][dD][oO][fF][tT][eE][xX][tT]\|>"""
    r"""|'[sSſ]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|\p{L}+|\p{N}|[^\s\p{L}\p{N}\u0345]+""",
}

#: Oniguruma's spellings of published patterns → the name. Without those that have `}+` or a leading `(?i)`, which mean
#: something else in Oniguruma.
NAMED: Mapping[str, str] = {
    **{
        other: name
        for other, name in SPELLINGS.items()
        if "}+" not in other and not other.startswith(("(?i)", "(?V1)"))
    },
    **{spelling: name for name, spelling in SPELLED.items()},
}


def published(spelling: str, gaps: str) -> str | None:
    """The name of the published pattern with this Oniguruma spelling, or None."""
    name = NAMED.get(spelling)
    return None if gaps == "keep" and name in ("clip", "whitespace") else name
