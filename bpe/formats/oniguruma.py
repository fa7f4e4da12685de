r"""Regular expressions that mean the same to the `regex` package and to Oniguruma, the engine of Hugging Face's files.

The two engines differ without an error: `{1,3}+` is possessive in one and a repeated repeat in the other, `^` and `$`
match the ends of the text in one and of each line in the other, `\w` matches other characters, and Oniguruma's
`(?i:st)` matches the ligature ﬆ. So a pattern is converted only if it is a published one with a known spelling, or
contains only the constructs that `means_the_same` lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import regex

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


MAX_DEPTH = 50
MAX_LENGTH = 10_000

_PROPERTY = (
    r"\\[pP]\{(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|White_Space|Alphabetic|Han|Hangul|Hiragana|Katakana"
    r"|Latin|Greek|Cyrillic|Arabic|Hebrew|Thai|Devanagari)\}"
)
_CHARACTER = r"\\[!-/:-@\[-`{-~]|\\[nrt]|\\u(?!(?i:d[89a-f]))[0-9a-fA-F]{4}"
_IN_CLASS = rf"(?:{_CHARACTER}|(?!&&|\|\||~~)[^\\\[\]\-^])"
_CLASS = rf"\[\^?-?(?:{_PROPERTY}|\\[dDsS]|{_IN_CLASS}(?:-{_IN_CLASS})?)+-?\]"
#: The next part of a pattern. `regex` compiles it when it is first used: that takes 2% of `import bpe`.
_PIECE = (
    r"(?<look>\(\?[=!])|(?<fold>\(\?i:)|(?<open>\((?:\?[:>]|(?!\?)))|(?<close>\))|(?<bar>\|)"
    r"|(?<repeat>[*+?][+?]?|\{\d{1,4}(?:,\d{0,4})?\}(?![+?]))"
    rf"|(?<item>\.|{_PROPERTY}|\\[dDsS]|{_CHARACTER}|{_CLASS}|[^\\\[\](){{}}|.*+?^$])"
)
#: What is accepted inside `(?i:…)`: ASCII characters, single or listed in a class.
_FOLDABLE = regex.compile(r"[ -~]|\\[!-/:-@\[-`{-~]|\[[ !\"#%'(),./0-9:;<=>@A-Z_`a-z{|}]+\]")
#: Two letters that, ignoring case, Oniguruma also matches with one character (ß, ﬀ, ﬁ, ﬂ, ﬆ).
_LIGATURES = frozenset({"ss", "ff", "fi", "fl", "st"})


@dataclass
class _Group:
    kind: str
    nullable: bool = False  # whether an alternative so far can match the empty string
    terms: list[bool] = field(default_factory=list)  # whether each term of the current alternative can match it

    def end_alternative(self) -> None:
        self.nullable = self.nullable or all(self.terms)
        self.terms = []


def means_the_same(pattern: str) -> bool:
    r"""Whether a pattern uses only syntax that means the same to both engines, and never matches the empty string.

    The common syntax: characters, `.`, `\d \D \s \S \n \r \t \uXXXX`, escaped punctuation, categories and some scripts
    as `\p{…}`, classes without set operations, groups, alternatives, look-ahead, `(?i:…)` around ASCII characters,
    repeats (intervals only greedy). No anchors, look-behind, references, `\w`, `\b` or other flags.

    >>> means_the_same(r" ?\p{L}+|\d{1,3}|(?i:'s|'t)|\s+(?!\S)"), means_the_same(r"\d{1,3}+"), means_the_same("^a")
    (True, False, False)
    """
    if len(pattern) > MAX_LENGTH:
        return False
    groups = [_Group("open")]
    position, repeatable, folded = 0, False, ""
    pieces = regex.compile(_PIECE)
    while position < len(pattern):
        match = pieces.match(pattern, position)
        if match is None:
            return False
        position = match.end()
        kind, text, top = match.lastgroup, match[0], groups[-1]
        if kind in ("look", "fold", "open"):
            if len(groups) > MAX_DEPTH:
                return False
            groups.append(_Group(kind))
            repeatable = False
        elif kind == "close":
            if len(groups) == 1:
                return False
            top.end_alternative()
            groups.pop()
            groups[-1].terms.append(top.nullable or top.kind == "look")
            repeatable = top.kind != "look"
        elif kind == "bar":
            top.end_alternative()
            repeatable, folded = False, ""
        elif kind == "repeat":
            if not repeatable:
                return False
            top.terms[-1] = top.terms[-1] or text[0] in "*?" or regex.match(r"\{0+\b", text) is not None
            repeatable, folded = False, ""
        else:
            previous, folded = folded, ""
            if any(group.kind == "fold" for group in groups):
                if not _FOLDABLE.fullmatch(text) or previous + text.lower() in _LIGATURES:
                    return False
                folded = text.lower()
            top.terms.append(False)
            repeatable = True
    groups[0].end_alternative()
    return len(groups) == 1 and not groups[0].nullable


def escaped(text: str) -> str:
    r"""A pattern that matches only this text, in both engines.

    >>> escaped("a.b")
    'a\\.b'
    """
    return str(regex.sub(r"[!-/:-@\[-`{-~]", lambda match: "\\" + match[0], text))
