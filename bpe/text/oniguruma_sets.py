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
from bpe.text.character_sets import compile_char_class, find_mask_range

#: The members of Oniguruma's `\w` in a class. Outside a class, it has some of Latin-1's numbers too.
WORD_MEMBERS_IN_CLASS = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"
WORD_MEMBERS = WORD_MEMBERS_IN_CLASS + "²³¹¼½¾"
#: The POSIX brackets.
POSIX_BRACKETS = {
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
    "word": WORD_MEMBERS_IN_CLASS,
    "xdigit": "0-9A-Fa-f",
}
#: The escapes that are sets, in lower case. Those in upper case are all other characters.
ESCAPES = {"d": r"\p{Nd}", "h": POSIX_BRACKETS["xdigit"], "s": r"\p{White_Space}", "w": WORD_MEMBERS_IN_CLASS}
#: The members of the set of all characters.
ALL_MEMBERS = r"\p{White_Space}\P{White_Space}"


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
        if _match_property(self.members):
            return rf"\{'pP'[self.members[1] == 'p']}{self.members[2:]}"
        return f"[^{self.members}]" if self.members else ALL_MEMBERS

    @property
    def as_pattern(self) -> str:
        """The set as a pattern of one character."""
        if not self.members:
            return rf"[{ALL_MEMBERS}]" if self.negated else "(?!)"
        if _match_property(self.members):
            return self.as_member
        return f"[{'^' * self.negated}{self.members}]"

    def intersect(self, other: CharSet) -> CharSet:
        """Intersect the set with another."""
        sets = [char_set.as_member for char_set in (self, other)]
        return CharSet(f"[[{sets[0]}]&&[{sets[1]}]]" if all(sets) else "")


def _has_complements(members: str) -> bool:
    """Whether a property and its complement are among the members of a class, not within another."""
    depth, properties = 0, set()
    for part in re.findall(r"\\[pP]\{\w+\}|\\.|.", members, re.DOTALL):
        depth += (part == "[") - (part == "]")
        if not depth and len(part) > 2:
            properties.add(part[:2] + part[2:].lower())
    return any(rf"\P{part[2:]}" in properties for part in properties if part[1] == "p")


_match_property = re.compile(r"\\[pP]\{\w+\}").fullmatch


def spell_char(code: int, in_class: bool = False) -> str:
    r"""Spell a character in a pattern of `regex`.

    >>> spell_char(ord("a")), spell_char(ord("+")), spell_char(ord("+"), in_class=True), spell_char(10)
    ('a', '\\+', '+', '\\u000a')
    """
    char = chr(code)
    if char in (r"\[](){}^-&|~" if in_class else r"\[](){}^-&|~.$*+?#"):
        return "\\" + char
    if char == " " or (char.isprintable() and not 0xD800 <= code < 0xE000):
        return char
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def spell_range(first: int, last: int) -> str:
    r"""Spell a range as members of a class, with what stands for its later characters in a masked text.

    >>> spell_range(ord("a"), ord("c")), spell_range(ord("-"), ord("-"))
    ('a-c', '\\-')
    """
    ranges = [(first, last), find_mask_range(first, last)]
    return "".join(
        "-".join(spell_char(code, True) for code in dict.fromkeys(ends)) for ends in ranges if ends is not None
    )


@cache
def _read_properties() -> frozenset[str]:
    return frozenset(character_data.PROPERTIES.split())


def is_shared_property(name: str) -> bool:
    """Whether both engines know a property, with the same characters."""
    return _normalize_name(name) in _read_properties()


def find_property(name: str) -> str | None:
    r"""Find the members of a property of Oniguruma; None for one that differs in `regex` or is not known.

    >>> find_property("Script=Latin"), find_property("white space"), find_property("LATIN")
    (None, '\\p{whitespace}', '\\p{latin}')
    """
    name = _normalize_name(name)
    if name in _read_properties():
        return rf"\p{{{name}}}"
    return POSIX_BRACKETS[name] if name in _POSIX_PROPERTIES else None


def _normalize_name(name: str) -> str:
    return re.sub("[ _-]", "", name).lower()


#: The names of POSIX brackets that, as properties, have the same characters.
_POSIX_PROPERTIES = set(POSIX_BRACKETS) - {"punct", "word"}


# Ignoring case --------------------------------------------------------------------------------------------------------


@cache
def _list_cased() -> str:
    """List the characters of Unicode 16 that differ from another in nothing but case."""
    all_chars = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x20000))))
    cased = regex.findall(r"[\p{Changes_When_Casemapped}\p{Changes_When_Casefolded}]", all_chars)
    return compile_char_class("UNASSIGNED").sub("", "".join(cased))


@lru_cache(4096)
def find_case_variants(char: str) -> str:
    """Find the characters that equal one, ignoring case, in ascending order.

    >>> find_case_variants("s"), find_case_variants("i"), find_case_variants("!")
    ('Ssſ', 'Ii', '!')
    """
    if char in "iIıİ":
        return "Ii" if char in "iI" else char  # without the dotless i of Turkish
    if char.isascii() and char not in "kKsS":
        return "".join(sorted({char.lower(), char.upper()}))
    return "".join(sorted({char, *regex.findall(f"(?i:{regex.escape(char)})", _list_cased())}))


@cache
def find_long_folds() -> dict[str, str]:
    """Find the texts of several characters that equal single characters, ignoring case: text → these characters.

    >>> find_long_folds()["ss"], find_long_folds()["st"]
    ('ßẞ', 'ﬅﬆ')
    """
    folds: dict[str, str] = {}
    for char in map(chr, (*range(0xDF, 0x588), *range(0x1E96, 0x2000), *range(0xFB00, 0xFB18))):
        folded = char.casefold()
        if len(folded) > 1:
            folds[folded] = folds.get(folded, "") + char
    return folds


def ignore_case(chars: CharSet) -> tuple[CharSet, list[str]]:
    """Extend the set of a class to ignore case; returns it and the texts of several characters that equal a member.

    A negated class has no such texts.
    """
    if not chars.members:
        return chars, []
    members = regex.compile(f"{'(?V1)' * chars.is_nested}[{chars.members}]")
    matched = set(members.findall(_list_cased()))
    added_chars = sorted({variant for char in matched for variant in find_case_variants(char)} - matched)
    chars = CharSet(chars.members + "".join(spell_char(ord(char), True) for char in added_chars), chars.negated)
    texts = (
        []
        if chars.negated
        else [text for text, equal_chars in find_long_folds().items() if not matched.isdisjoint(equal_chars)]
    )
    return chars, texts
