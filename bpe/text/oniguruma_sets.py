r"""Sets of characters of Oniguruma, as parts of a class of the `regex` package.

A set is written as what stands between the brackets of a class. Nested classes and intersections need version 1 of the
syntax of `regex`. The properties that both engines know with the same characters are in `character_data.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

import regex

from bpe.text import character_data
from bpe.text.character_sets import find_mask_range, pattern

#: The members of Oniguruma's `\w` in a class. Outside a class, it has some of Latin-1's numbers too.
WORD_IN_CLASS = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"
WORD = WORD_IN_CLASS + "²³¹¼½¾"
#: The POSIX brackets.
POSIX = {
    "alnum": r"\p{Alphabetic}\p{Nd}",
    "alpha": r"\p{Alphabetic}",
    "ascii": r"\u0000-\u007f",
    "blank": r"\p{Zs}\u0009",
    "cntrl": r"\p{Cc}",
    "digit": r"\p{Nd}",
    "graph": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}",
    "lower": r"\p{Lowercase}",
    "print": r"\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\p{Cf}\p{Co}",
    "punct": r"\p{P}\p{S}",
    "space": r"\p{White_Space}",
    "upper": r"\p{Uppercase}",
    "word": WORD_IN_CLASS,
    "xdigit": "0-9A-Fa-f",
}
#: The escapes that are sets, in lower case. Those in upper case are all other characters.
ESCAPES = {"d": r"\p{Nd}", "h": POSIX["xdigit"], "s": r"\p{White_Space}", "w": WORD_IN_CLASS}
#: The members of the set of all characters.
EVERYTHING = r"\p{White_Space}\P{White_Space}"


@dataclass(frozen=True)
class CharSet:
    """A set of characters: the members of a class, and whether it is negated."""

    members: str
    negated: bool = False

    def __post_init__(self) -> None:
        if self.negated and _has_complements(self.members):  # a class for which `regex` finds any character
            object.__setattr__(self, "members", "")
            object.__setattr__(self, "negated", False)

    @property
    def is_nested(self) -> bool:
        """Whether a class is within this one, which takes version 1 of the syntax of `regex`."""
        return "[" in re.sub(r"\\.", "", self.members)

    @property
    def as_member(self) -> str:
        """The set as a member of another class."""
        if not self.negated:
            return self.members
        if _IS_PROPERTY(self.members):
            return rf"\{'pP'[self.members[1] == 'p']}{self.members[2:]}"
        return f"[^{self.members}]" if self.members else EVERYTHING

    @property
    def as_pattern(self) -> str:
        """The set as a pattern of one character."""
        if not self.members:
            return rf"[{EVERYTHING}]" if self.negated else "(?!)"
        if _IS_PROPERTY(self.members):
            return self.as_member
        return f"[{'^' * self.negated}{self.members}]"

    def intersect(self, other: CharSet) -> CharSet:
        """The characters of both."""
        sets = [each.as_member for each in (self, other)]
        return CharSet(f"[[{sets[0]}]&&[{sets[1]}]]" if all(sets) else "")


def _has_complements(members: str) -> bool:
    """Whether a property and its complement are among the members of a class, not within another."""
    depth, found = 0, set()
    for part in re.findall(r"\\[pP]\{\w+\}|\\.|.", members, re.DOTALL):
        depth += (part == "[") - (part == "]")
        if not depth and len(part) > 2:
            found.add(part[:2] + part[2:].lower())
    return any(rf"\P{part[2:]}" in found for part in found if part[1] == "p")


_IS_PROPERTY = re.compile(r"\\[pP]\{\w+\}").fullmatch


def spell(code: int, in_class: bool = False) -> str:
    r"""A character in a pattern of `regex`.

    >>> spell(ord("a")), spell(ord("+")), spell(ord("+"), in_class=True), spell(10)
    ('a', '\\+', '+', '\\u000a')
    """
    char = chr(code)
    if char in (r"\[](){}^-&|~" if in_class else r"\[](){}^-&|~.$*+?#"):
        return "\\" + char
    if char == " " or (char.isprintable() and not 0xD800 <= code < 0xE000):
        return char
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def spell_range(first: int, last: int) -> str:
    r"""The characters of a range as members of a class, with what stands for later ones in a masked text.

    >>> spell_range(ord("a"), ord("c")), spell_range(ord("-"), ord("-"))
    ('a-c', '\\-')
    """
    ranges = [(first, last), find_mask_range(first, last)]
    return "".join("-".join(spell(code, True) for code in dict.fromkeys(ends)) for ends in ranges if ends is not None)


@cache
def _properties() -> frozenset[str]:
    return frozenset(character_data.PROPERTIES.split())


def is_shared_property(name: str) -> bool:
    """Whether both engines know a property, with the same characters."""
    return _normalize_name(name) in _properties()


def find_property(name: str) -> str | None:
    r"""The members of a property of Oniguruma; None for one that differs in `regex` or is not known.

    >>> find_property("Script=Latin"), find_property("white space"), find_property("LATIN")
    (None, '\\p{whitespace}', '\\p{latin}')
    """
    name = _normalize_name(name)
    return rf"\p{{{name}}}" if name in _properties() else POSIX[name] if name in _ALSO_PROPERTIES else None


def _normalize_name(name: str) -> str:
    return re.sub("[ _-]", "", name).lower()


#: The names of POSIX brackets that, as properties, have the same characters.
_ALSO_PROPERTIES = set(POSIX) - {"punct", "word"}


# Ignoring case --------------------------------------------------------------------------------------------------------


@cache
def _cased() -> str:
    """The characters of Unicode 16 that differ from another in nothing but case."""
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x20000))))
    cased = regex.findall(r"[\p{Changes_When_Casemapped}\p{Changes_When_Casefolded}]", every)
    return pattern("UNASSIGNED").sub("", "".join(cased))


@lru_cache(4096)
def equals(char: str) -> str:
    """The characters that equal one, ignoring case, in ascending order.

    >>> equals("s"), equals("i"), equals("!")
    ('Ssſ', 'Ii', '!')
    """
    if char in "iIıİ":
        return "Ii" if char in "iI" else char  # without the dotless i of Turkish
    if char.isascii() and char not in "kKsS":
        return "".join(sorted({char.lower(), char.upper()}))
    return "".join(sorted({char, *regex.findall(f"(?i:{regex.escape(char)})", _cased())}))


@cache
def long_folds() -> dict[str, str]:
    """Text of several characters → the characters that equal it, ignoring case.

    >>> long_folds()["ss"], long_folds()["st"]
    ('ßẞ', 'ﬅﬆ')
    """
    found: dict[str, str] = {}
    for char in map(chr, (*range(0xDF, 0x588), *range(0x1E96, 0x2000), *range(0xFB00, 0xFB18))):
        folded = char.casefold()
        if len(folded) > 1:
            found[folded] = found.get(folded, "") + char
    return found


def ignore_case(chars: CharSet) -> tuple[CharSet, list[str]]:
    """The set of a class that ignores case, and the texts of several characters that equal one of its members.

    A negated class has no such texts.
    """
    if not chars.members:
        return chars, []
    members = regex.compile(f"{'(?V1)' * chars.is_nested}[{chars.members}]")
    found = set(members.findall(_cased()))
    added = sorted({other for char in found for other in equals(char)} - found)
    chars = CharSet(chars.members + "".join(spell(ord(char), True) for char in added), chars.negated)
    texts = [] if chars.negated else [text for text, equal in long_folds().items() if not found.isdisjoint(equal)]
    return chars, texts
