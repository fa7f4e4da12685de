r"""Regular expressions of Oniguruma, the engine of Hugging Face's files, in the syntax of the `regex` package.

The two engines differ without an error: `{1,3}+` is possessive in one and a repeated repeat in the other, `^` and `$`
match the ends of the text in one and of each line in the other, `\w` matches other characters, and Oniguruma's
`(?i:st)` matches the ligature ﬆ. So a pattern is converted only if it contains just the constructs listed here.
Published patterns with a known spelling are in `bpe/pretokenize/spellings.py`.

The classes of Oniguruma in `tokenizers` are those of Unicode 16; the installed `regex` may be newer. `masked` replaces
later characters, which Oniguruma takes for unassigned, by one that is unassigned everywhere. Later characters that the
pattern names itself, alone or in a range such as `[\u0800-\u4e00]`, stay: both engines match them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cache, lru_cache

import regex

from bpe.text._unicode import find_new
from bpe.text.character_sets import codes

MAX_DEPTH = 50
MAX_LENGTH = 10_000

#: The properties and scripts on which the two engines agree, later characters aside.
_PROPERTY = (
    r"\\[pP]\{(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|White_Space|Alphabetic|Han|Hangul|Hiragana|Katakana"
    r"|Latin|Greek|Cyrillic|Arabic|Hebrew|Thai|Devanagari)\}"
)
_CHARACTER = r"\\[!-/:-@\[-`{-~]|\\[nrt]|\\u(?!(?i:d[89a-f]))[0-9a-fA-F]{4}"
_IN_CLASS = rf"(?:{_CHARACTER}|(?!&&|\|\||~~)[^\\\[\]\-])"
_CLASS = rf"\[\^?-?(?:{_PROPERTY}|\\[dDsSw]|{_IN_CLASS}(?:-{_IN_CLASS})?)+-?\]"
#: The next part of a pattern. `regex` compiles it when it is first used: that takes 2% of `import bpe`.
_PIECE = (
    r"(?<look>\(\?<?[=!])|(?<fold>\(\?i:)|(?<open>\((?:\?[:>]|(?!\?)))|(?<close>\))|(?<bar>\|)"
    r"|(?<repeat>[*+?][+?]?|\{\d{1,4}(?:,\d{0,4})?\}(?![+?]))|(?<again>\{\d{1,4}(?:,\d{0,4})?\}\+)|(?<anchor>[$^]|\\[bB])"
    rf"|(?<item>\.|{_PROPERTY}|\\[dDsSwW]|{_CHARACTER}|{_CLASS}|[^\\\[\](){{}}|.*+?^$])"
)
#: What is accepted inside `(?i:…)`: ASCII characters, single or listed in a class.
_FOLDABLE = regex.compile(r"[ -~]|\\[!-/:-@\[-`{-~]|\[[ !\"#%'(),./0-9:;<=>@A-Z_`a-z{|}]+\]")
#: Two letters that, ignoring case, Oniguruma also matches with one character (ß, ﬀ, ﬁ, ﬂ, ﬆ).
_LIGATURES = frozenset({"ss", "ff", "fi", "fl", "st"})
#: The members of Oniguruma's `\w` in a class. Outside a class, it has some of Latin-1's numbers too.
_WORD_IN_CLASS = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"
_WORD = _WORD_IN_CLASS + "²³¹¼½¾"
#: Escapes and anchors outside a class, in the syntax of `regex`. In Oniguruma, a line does not begin at the text's end.
_SPELLED = {
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\s": r"\p{White_Space}",
    r"\S": r"\P{White_Space}",
    "$": r"(?=\n|\Z)",
    "^": r"(?:\A|(?<=\n)(?!\Z))",
    r"\b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    r"\B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}


@dataclass
class _Group:
    kind: str
    start: int = 0  # its position in the output
    nullable: bool = False  # whether an alternative so far can match the empty string
    terms: list[bool] = field(default_factory=list)  # whether each term of the current alternative can match it

    def end_alternative(self) -> None:
        self.nullable = self.nullable or all(self.terms)
        self.terms = []


class _Converter:
    """Converts one pattern, part by part."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.groups = [_Group("open")]
        self.atom = -1  # where the part that a repeat applies to begins in the output; -1: none
        self.folded = ""  # the last character inside `(?i:…)`

    def take(self, kind: str, text: str) -> bool:
        """Convert the next part; False for one whose meaning may differ."""
        top, previous = self.groups[-1], self.folded
        self.folded = ""
        if kind in ("repeat", "again", "bar") and any(group.kind == "behind" for group in self.groups):
            return False  # Oniguruma refuses a look-behind of variable length
        if kind in ("look", "fold", "open"):
            self.groups.append(_Group("behind" if text.startswith("(?<") else kind, len(self.out)))
            self.atom = -1
            self.out.append(text)
            return len(self.groups) <= MAX_DEPTH + 1
        if kind == "close":
            return self._close(top)
        if kind == "bar":
            top.end_alternative()
            self.atom = -1
            self.out.append(text)
            return True
        if kind == "anchor":
            top.terms.append(True)
            self.atom = -1
            self.out.append(_SPELLED[text])
            return not self._folding()
        if kind in ("repeat", "again"):
            return self._repeat(top, text, kind == "again")
        if self._folding():
            if not _FOLDABLE.fullmatch(text) or previous + text.lower() in _LIGATURES:
                return False
            self.folded = text.lower()
        top.terms.append(False)
        self.atom = len(self.out)
        self.out.append(_class_spelled(text) if text[0] == "[" else _SPELLED.get(text, text))
        return True

    def _folding(self) -> bool:
        return any(group.kind == "fold" for group in self.groups)

    def _close(self, top: _Group) -> bool:
        if len(self.groups) == 1:
            return False
        top.end_alternative()
        self.groups.pop()
        looks = top.kind in ("look", "behind")
        self.groups[-1].terms.append(top.nullable or looks)
        self.atom = -1 if looks else top.start
        self.out.append(")")
        return True

    def _repeat(self, top: _Group, text: str, again: bool) -> bool:
        """Add a repeat. `{1,3}+`, a repeat of a repeat, becomes a group."""
        if self.atom < 0:
            return False
        top.terms[-1] = top.terms[-1] or text[0] in "*?" or regex.match(r"\{0+\b", text) is not None
        if again:
            self.out.insert(self.atom, "(?:")
            text = text[:-1] + ")+"
        self.out.append(text)
        self.atom = -1
        return True


def _class_spelled(text: str) -> str:
    r"""A class in the syntax of `regex`: `\w` and `\s` are spelled out."""
    spelled = {r"\w": _WORD_IN_CLASS, r"\s": r"\p{White_Space}", r"\S": r"\P{White_Space}"}
    return str(regex.sub(r"\\(?:u....|[pP]\{\w+\}|.)", lambda match: spelled.get(match[0], match[0]), text))


@cache
def to_regex(pattern: str) -> str | None:
    r"""A pattern of Oniguruma in the syntax of the `regex` package; None if it may mean something else there.

    Converted are characters, `.`, `\d \D \s \S \w \W \b \B \n \r \t \uXXXX`, escaped punctuation, categories and some
    scripts as `\p{…}`, classes without set operations, groups, alternatives, look-around, `^` and `$`, `(?i:…)` around
    ASCII characters, and repeats. A pattern that can match the empty string is not converted.

    >>> to_regex(r"\s+$"), to_regex(r"\d{1,3}+"), to_regex("a*")
    ('\\p{White_Space}+(?=\\n|\\Z)', '(?:\\d{1,3})+', None)
    """
    if len(pattern) > MAX_LENGTH:
        return None
    converter, position = _Converter(), 0
    pieces = regex.compile(_PIECE)
    while position < len(pattern):
        match = pieces.match(pattern, position)
        if match is None or not converter.take(match.lastgroup, match[0]):
            return None
        position = match.end()
    groups = converter.groups
    groups[0].end_alternative()
    return "".join(converter.out) if len(groups) == 1 and not groups[0].nullable else None


def means_the_same(pattern: str) -> bool:
    r"""Whether a pattern means the same to both engines, later characters aside, and never matches the empty string.

    >>> means_the_same(r" ?\p{L}+|\d{1,3}|(?i:'s|'t)|\s+(?!\S)"), means_the_same(r"\d{1,3}+"), means_the_same("^a")
    (True, False, False)
    """
    converted = to_regex(pattern)
    return converted is not None and converted == pattern.replace(r"\s", r"\p{White_Space}").replace(
        r"\S", r"\P{White_Space}"
    )


def escaped(text: str) -> str:
    r"""A pattern that matches only this text, in both engines.

    >>> escaped("a.b")
    'a\\.b'
    """
    return str(regex.sub(r"[!-/:-@\[-`{-~]", lambda match: "\\" + match[0], text))


#: A character that is unassigned in all versions of Unicode so far.
UNASSIGNED = "\U00050000"


#: A character, or a range of them, that a pattern names.
_NAMED = (
    r"(?P<first>\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|[^\\])"
    r"(?:-(?P<last>\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|[^\\\]]))?"
)


def _code(item: str) -> int:
    """The code point of a character in a pattern."""
    return int(item[2:], 16) if len(item) > 2 else ord(item[-1])  # noqa: FURB166 (the prefix is not that of base 0)


@cache
def _all_later() -> tuple[str, ...]:
    """The characters that `regex` has assigned and Unicode 16 has not, in ascending order."""
    return tuple(regex.findall(r"\P{Cn}", "".join(map(chr, codes("UNASSIGNED")))))


@lru_cache(256)
def _later(pattern: str) -> dict[int, str]:
    """For `str.translate`: characters that `regex` has assigned, Unicode 16 has not, and the pattern does not name."""
    later = list(_all_later())
    for match in re.finditer(_NAMED, pattern, re.DOTALL):
        first, last = _code(match["first"]), _code(match["last"] or match["first"])
        del later[bisect_left(later, first, key=ord) : bisect_right(later, last, key=ord)]
    return {ord(char): UNASSIGNED for char in later}


def masked(text: str, pattern: str = "") -> str:
    r"""The text with each character that is not in Unicode 16 replaced by one that is unassigned in all versions.

    Characters that the pattern names stay.

    >>> ascii(masked("a\u0558"))  # U+0558 is new in Unicode 18
    "'a\\U00050000'"
    >>> ascii(masked("a\u0558", "[\u0500-\u05ff]"))
    "'a\\u0558'"
    """
    if text.isascii() or find_new(text, 0) < 0:
        return text
    return text.translate(_later(pattern))
