r"""Regular expressions of Oniguruma, the engine of Hugging Face's files, in the syntax of the `regex` package.

The two engines differ without an error: `{1,3}+` is possessive in one and a repeated repeat in the other, `^` and `$`
match the ends of the text in one and of each line in the other, `\w` matches other characters, `[a[b]]` is a class
within a class in one, and Oniguruma's `(?i:st)` matches the ligature ﬆ. So a pattern is parsed by Oniguruma's rules, as
`tokenizers` sets them (its syntax is called ONIG_SYNTAX_ONIGURUMA), and each part is written for `regex`. A construct
that has no equal there is refused. Published patterns with a known spelling are in `bpe/pretokenize/patterns.py`.

The classes of Oniguruma in `tokenizers` are those of Unicode 16; the installed `regex` may be newer:
`character_sets.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NoReturn

import regex

from bpe.errors import short_repr
from bpe.text.character_sets import FIRST_MASK, differs_by_case, find_mask_range
from bpe.text.oniguruma_sets import (
    ESCAPES,
    POSIX_BRACKETS,
    WORD_MEMBERS,
    CharSet,
    find_case_variants,
    find_long_folds,
    find_property,
    ignore_case,
    is_shared_property,
    spell_char,
    spell_range,
)

MAX_DEPTH = 50
MAX_LENGTH = 10_000
#: The greatest number in an interval of Oniguruma.
_MAX_REPEAT = 100_000
_MAX_INTERVAL_CHARS = len("{100000,100000}")

#: Whether matches are empty. Where some are, the two engines go on differently after one.
Emptiness = Literal["never", "sometimes", "always"]

#: The white space that the option `x` leaves out of a pattern.
_IGNORED_SPACE = " \t\n\r\f"
#: Escapes of one character.
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7, "e": 27}
_HEX = re.compile(r"u([0-9A-Fa-f]{4})|x\{([0-9A-Fa-f]{1,8})\}|x([0-7][0-9A-Fa-f])|(?:c|C-)([A-Za-z])")
_OCTAL = re.compile(r"o\{([0-7]{1,11})\}|0([0-7]{0,2})")
_INTERVAL = re.compile(r"\{(?:([0-9]+)(,?)([0-9]*)|,([0-9]+))\}")
_PROPERTY = re.compile(r"[pP]\{(\^?)([^{}]*)\}")
_REFERENCE = re.compile(r"k(?:<(-?[1-9]\d{0,3}|[^\W\d]\w*)>|'(-?[1-9]\d{0,3}|[^\W\d]\w*)')|([1-9])(?!\d)")
_OPTIONS = re.compile(r"([imx]*)(?:-([imx]*))?([:)])")
#: The sets outside a class whose negations are in upper case.
_SETS = {**ESCAPES, "w": WORD_MEMBERS}
#: Anchors in the syntax of `regex`. In Oniguruma, a line does not begin at the text's end.
_ANCHORS = {
    "$": r"(?=\n|\Z)",
    "^": r"(?:\A|(?<=\n)(?!\Z))",
    r"\A": r"\A",
    r"\z": r"\Z",
    r"\Z": r"(?=\n?\Z)",
    r"\G": r"\G",
    r"\b": f"(?:(?<=[{WORD_MEMBERS}])(?![{WORD_MEMBERS}])|(?<![{WORD_MEMBERS}])(?=[{WORD_MEMBERS}]))",
    r"\B": f"(?:(?<=[{WORD_MEMBERS}])(?=[{WORD_MEMBERS}])|(?<![{WORD_MEMBERS}])(?![{WORD_MEMBERS}]))",
}
#: Other escapes: (in the syntax of `regex`, fewest characters, most).
_SPECIAL = {
    "R": (r"(?>\r\n|[\n-\r\u0085\u2028\u2029])", 1, 2),
    "N": (r"[^\n]", 1, 1),
    "O": (r"(?s:.)", 1, 1),
}
#: Escapes that have no equal in `regex`, and groups.
_REFUSED_ESCAPES = {
    "X": "text segments",
    "y": "boundaries of text segments",
    "Y": "boundaries of text segments",
    "K": "starts of matches",
    "g": "calls of groups",
    "M": "meta characters",
}
_REFUSED_GROUPS = {"~": "absent groups", "(": "conditions", "{": "callouts", "@": "options", "P": "options"}


class UntranslatableError(ValueError):
    """A pattern of Oniguruma that the `regex` package cannot match with the same result."""


@dataclass(frozen=True)
class Translation:
    """A pattern in the syntax of the `regex` package, and whether its matches are empty."""

    expression: str
    empty: Emptiness

    @property
    def names_later(self) -> bool:
        """Whether it names what stands for characters later than Unicode 16, which depends on the `regex` installed."""
        return rf"\U{FIRST_MASK:08x}"[:-3] in self.expression


@dataclass
class _Part:
    """A part of a pattern: one unit that a repeat applies to."""

    text: str
    min_chars: int = 1  # the fewest characters that it matches
    max_chars: float = 1  # the most
    caseless_char: str = ""  # a character of text that ignores case
    is_anchor: bool = False  # Oniguruma refuses to repeat it
    ends_with_repeat: bool = False  # it ends with a repeat, so that another one takes a group
    inner_parts: list[_Part] | None = None  # of a group that does nothing


@dataclass(frozen=True)
class _Options:
    ignore_case: bool = False
    dot_all: bool = False
    extended: bool = False
    lookbehind_sign: str = ""  # the sign of the look-behind around it

    def change(self, on: str, off: str) -> _Options:
        """Switch some of the options `imx` on, and others off."""
        ignore_case, dot_all, extended = (
            (name in on or is_on) and name not in off
            for name, is_on in zip("imx", (self.ignore_case, self.dot_all, self.extended), strict=True)
        )
        return _Options(ignore_case, dot_all, extended, self.lookbehind_sign)


class _Parser:
    """Parses one pattern, and writes it for `regex`.

    Args:
        pattern: the pattern.
        first: the parser that has read it once, which knows its groups and whether any is referred to.

    """

    def __init__(self, pattern: str, first: _Parser | None = None) -> None:
        self.pattern, self.position, self.depth = pattern, 0, 0
        self.first_pass = first
        self.group_names: list[str | None] = []  # of the groups that capture, in order
        self.open_groups: list[int] = []  # the numbers of the groups around the current position
        self.has_reference = False
        self.is_nested = False  # whether a class is within another
        self.uses_continuation = False  # whether \G is used

    @property
    def capturing_groups(self) -> list[str | None]:
        """The names of the groups that capture: beside groups with names, those without do not."""
        return [name for name in self.group_names if name is not None] or self.group_names

    def refuse(self, reason: str) -> NoReturn:
        """Raise UntranslatableError."""
        raise UntranslatableError(
            f"{reason}, at character {self.position} ({short_repr(self.pattern[self.position :][:20])})"
        )

    def take(self, text: str) -> bool:
        """Read the text if it is next; returns whether it is."""
        is_next = self.pattern.startswith(text, self.position)
        self.position += len(text) * is_next
        return is_next

    def match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        """Read what an expression matches next; returns the match, or None."""
        match = expression.match(self.pattern, self.position)
        self.position = self.position if match is None else match.end()
        return match

    def parse(self) -> Translation:
        """Parse the whole pattern."""
        part = self.join_branches(self.parse_branches(_Options()))
        if self.position < len(self.pattern):
            self.refuse("a parenthesis is not opened")
        empty: Emptiness = "sometimes"
        if not self.uses_continuation and (part.min_chars > 0 or part.max_chars == 0):
            empty = "never" if part.min_chars else "always"
        return Translation("(?V1)" * self.is_nested + part.text, empty)

    # Alternatives and sequences ---------------------------------------------------------------------------------------

    def parse_branches(self, options: _Options) -> list[list[_Part]]:
        """Parse the alternatives up to the end of a group."""
        if self.depth > MAX_DEPTH:
            self.refuse(f"groups are nested more than {MAX_DEPTH} deep")
        self.depth += 1
        branches = [self.parse_sequence(options)]
        while self.take("|"):
            branches.append(self.parse_sequence(options))
        self.depth -= 1
        return branches

    def parse_sequence(self, options: _Options) -> list[_Part]:
        """Parse the parts of one alternative."""
        parts: list[_Part] = []
        self.skip_comments(options)
        while self.position < len(self.pattern) and self.pattern[self.position] not in "|)":
            part = self.parse_atom(options)
            self.skip_comments(options)
            while (times := self.parse_repeat()) is not None:
                part = self.apply_repeat(part, *times)
                self.skip_comments(options)
            parts += [part] if part.inner_parts is None else part.inner_parts
        return parts

    def skip_comments(self, options: _Options) -> None:
        """Skip comments, and with the option `x` white space."""
        comment = r"\(\?#(?:[^\\)]|\\.)*\)"
        expression = rf"(?:{comment}|[{_IGNORED_SPACE}]|#[^\n]*)*" if options.extended else rf"(?:{comment})*"
        self.match(re.compile(expression, re.DOTALL))

    def join_branches(self, branches: list[list[_Part]]) -> _Part:
        """Join alternatives to one part, without a group around them."""
        sequences = [_merge_folds(parts) for parts in branches]
        return _Part(
            "|".join("".join(part.text for part in parts) for parts in sequences),
            min(sum(part.min_chars for part in parts) for parts in sequences),
            max(sum(part.max_chars for part in parts) for parts in sequences),
            is_anchor=any(len(parts) == 1 and parts[0].is_anchor for parts in sequences),
        )

    # Repeats ----------------------------------------------------------------------------------------------------------

    def parse_repeat(self) -> tuple[int, float, str] | None:
        """Parse the repeat that is next, if any: (fewest times, most times, kind); the kind is "", "?" or "+"."""
        sign = self.pattern[self.position : self.position + 1]
        if sign and sign in "*+?":
            self.position += 1
            min_times, max_times = {"*": (0, float("inf")), "+": (1, float("inf")), "?": (0, 1)}[sign]
            return min_times, max_times, next((kind for kind in "?+" if self.take(kind)), "")
        match = self.match(_INTERVAL)
        if match is None:
            return None
        if len(match[0]) > _MAX_INTERVAL_CHARS:
            self.refuse(f"a part is repeated more than {_MAX_REPEAT} times")
        min_times = int(match[1] or 0)
        max_text = match[3] or match[4]
        max_times = int(max_text) if max_text else min_times
        if match[2] and not max_text:
            max_times = float("inf")
        if max(min_times, max_times if max_times < float("inf") else 0) > _MAX_REPEAT:
            self.refuse(f"a part is repeated more than {_MAX_REPEAT} times")
        if min_times > max_times:
            if self.pattern.startswith("?", self.position):
                self.refuse("a possessive interval is lazy")
            return int(max_times), min_times, "+"
        # {n}? is a repeated repeat.
        return (
            min_times,
            max_times,
            "?" if (match[2] or match[4]) and self.take("?") else "",
        )

    def apply_repeat(self, part: _Part, min_times: int, max_times: float, kind: str) -> _Part:
        """Repeat a part."""
        if part.is_anchor:
            self.refuse("an anchor or a look-around is repeated")
        if (
            part.min_chars == 0
            and part.max_chars != 0
            and min_times > 0
            and max_times > 1
            and (min_times, max_times) != (1, float("inf"))
        ):
            self.refuse("a part that may be empty is repeated a number of times, and empty ones count otherwise")
        part = _merge_folds([part])[0]
        signs = {(0, 1): "?", (0, float("inf")): "*", (1, float("inf")): "+"}
        limit = f"{max_times:.0f}" if max_times < float("inf") else ""
        interval = f"{{{min_times}}}" if min_times == max_times else f"{{{min_times},{limit}}}"
        suffix = signs.get((min_times, max_times), interval)
        unit = _wrap_in_group(part.text) if part.ends_with_repeat else part.text
        if kind == "+":
            unit, suffix, kind = f"(?>{unit}{suffix})", "", ""
        return _Part(
            unit + suffix + kind,
            part.min_chars * min_times,
            part.max_chars * max_times if part.max_chars and max_times else 0,
            ends_with_repeat=bool(suffix),
        )

    # Atoms ------------------------------------------------------------------------------------------------------------

    def parse_atom(self, options: _Options) -> _Part:
        """Parse the next character, set, anchor or group."""
        char = self.pattern[self.position]
        if char in "*+?" or (char == "{" and _INTERVAL.match(self.pattern, self.position)):
            self.refuse("there is nothing to repeat")
        if char == "(":
            return self.parse_group(options)
        if char == "[":
            return self.parse_class(options)
        self.position += 1
        if char == "\\":
            return self.parse_escape(options)
        if char == ".":
            return _Part("(?s:.)" if options.dot_all else ".")
        if char in _ANCHORS:
            return _Part(_ANCHORS[char], 0, 0, is_anchor=True)
        return self.make_character(ord(char), options)

    def make_character(self, code: int, options: _Options) -> _Part:
        """Make the part of one character of text."""
        return _Part("", caseless_char=chr(code)) if options.ignore_case else _Part(_spell_any(chr(code)))

    def parse_escape(self, options: _Options) -> _Part:
        """Parse what follows a backslash."""
        name = self.pattern[self.position : self.position + 1]
        if not name or name in _REFUSED_ESCAPES:
            self.refuse(
                f"{_REFUSED_ESCAPES[name]} have no equal in `regex`" if name else "a backslash ends the pattern"
            )
        if f"\\{name}" in _ANCHORS:
            self.position += 1
            self.uses_continuation |= name == "G"
            if name in "zZ" and options.lookbehind_sign:
                self.refuse("a look-behind has the end of the text")
            return _Part(_ANCHORS[f"\\{name}"], 0, 0, is_anchor=True)
        if name in _SPECIAL:
            self.position += 1
            if name == "R" and options.lookbehind_sign:
                self.refuse("a look-behind has an atomic group")
            return _Part(*_SPECIAL[name])
        if name == "k" or name in "123456789":
            return self.parse_reference(options)
        char_set = self.parse_set_escape(_SETS)
        return self.make_character(self.parse_code(), options) if char_set is None else _Part(char_set.as_pattern)

    def parse_set_escape(self, sets: dict[str, str]) -> CharSet | None:
        r"""Parse the set that follows a backslash, such as \d or \p{L}; None for a character."""
        name = self.pattern[self.position]
        if name.lower() in sets and name.isascii():
            self.position += 1
            return CharSet(sets[name.lower()], name.isupper())
        if name not in "pP" or self.pattern[self.position + 1 : self.position + 2] != "{":
            return None
        match = _PROPERTY.match(self.pattern, self.position)
        members = None if match is None else find_property(match[2])
        if match is None or members is None:
            self.refuse("the property is unknown, or has other characters in `regex`")
        self.position = match.end()
        return CharSet(members, (name == "P") != bool(match[1]))

    def parse_code(self) -> int:
        """Parse the character that follows a backslash."""
        char = self.pattern[self.position]
        code = _CONTROLS.get(char)
        if code is not None or char not in "xucCo0123456789":
            self.position += 1
            return ord(char) if code is None else code
        if (match := self.match(_HEX)) is not None:
            digits = match[1] or match[2] or match[3]
            code = int(digits, 16) if digits else ord(match[4]) & 0x1F
        elif (match := self.match(_OCTAL)) is not None:
            code = int(match[1] or match[2] or "0", 8)
        else:
            self.refuse("the escape of a character is not known")
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self.refuse(f"U+{code:04X} is not a character")
        return code

    def parse_reference(self, options: _Options) -> _Part:
        """Parse a reference to what a group has matched."""
        match = self.match(_REFERENCE)
        if match is None:
            self.refuse("the reference is not understood")
        self.has_reference = True
        if self.first_pass is None:
            return _Part("")
        name, groups = match[1] or match[2] or match[3], self.first_pass.capturing_groups
        if name.lstrip("-").isdecimal() and not any(groups):
            group_number = int(name) if int(name) > 0 else len(self.group_names) + 1 + int(name)
        else:
            group_number = groups.index(name) + 1 if groups.count(name) == 1 and name in self.group_names else 0
        if not 0 < group_number <= len(groups) or group_number in self.open_groups:
            self.refuse("the reference is to a group that is not there, not complete or there twice")
        if options.ignore_case or options.lookbehind_sign:
            self.refuse("a reference ignores case, or is in a look-behind")
        return _Part(f"(?P=g{group_number})", 0, float("inf"))

    # Groups -----------------------------------------------------------------------------------------------------------

    def parse_group(self, options: _Options) -> _Part:
        """Parse a group or look-around."""
        start = self.position
        if not self.take("(?"):
            self.position += 1
            return self.parse_capture(None, options)
        for sign in ("=", "!", "<=", "<!"):
            if self.take(sign):
                return self.parse_lookaround(sign, options)
        if self.take(">"):
            if options.lookbehind_sign:
                self.refuse("a look-behind has an atomic group")
            return self.close_group("(?>", self.parse_branches(options))
        if (name_match := self.match(re.compile(r"<([^\W\d]\w*)>|'([^\W\d]\w*)'"))) is not None:
            return self.parse_capture(name_match[1] or name_match[2], options)
        options_match = self.match(_OPTIONS)
        if options_match is None or options_match[0] == ")":
            self.position = start
            kind = _REFUSED_GROUPS.get(self.pattern[start + 2 : start + 3], "groups of this kind")
            self.refuse(f"{kind} have no equal in `regex`")
        inner_options = options.change(options_match[1], options_match[2] or "")
        branches = self.parse_branches(inner_options)
        if options_match[3] == ")":  # the options hold for the rest of the group around them
            part = self.join_branches(branches)
            return replace(part, text=_wrap_in_group(part.text))
        part = self.close_group("(?:", branches)
        if options_match[0] == ":" and len(branches) == 1:
            part.inner_parts = branches[0]
        return part

    def close_group(self, start: str, branches: list[list[_Part]]) -> _Part:
        """Read the closing parenthesis of a group, and make the part of the group."""
        if not self.take(")"):
            self.refuse("a parenthesis is not closed")
        part = self.join_branches(branches)
        return _Part(f"{start}{part.text})", part.min_chars, part.max_chars, is_anchor=part.is_anchor)

    def parse_capture(self, name: str | None, options: _Options) -> _Part:
        """Parse a group that captures; the group is written as one that does not if no group is referred to."""
        if self.first_pass is not None and name is None and any(self.first_pass.group_names):
            branches = self.parse_branches(options)
            part = self.close_group("(?:", branches)
            part.inner_parts = branches[0] if len(branches) == 1 else None
            return part
        self.group_names.append(name)
        group_number = len(self.group_names)
        self.open_groups.append(group_number)
        is_referred_to = self.first_pass is not None and self.first_pass.has_reference
        if options.lookbehind_sign and is_referred_to:
            self.refuse("a look-behind has a group that captures")
        part = self.close_group(f"(?P<g{group_number}>" if is_referred_to else "(?:", self.parse_branches(options))
        self.open_groups.remove(group_number)
        return part

    def parse_lookaround(self, sign: str, options: _Options) -> _Part:
        """Parse a look-around, after its sign has been read."""
        is_lookbehind = sign.startswith("<")
        if options.lookbehind_sign and not is_lookbehind:
            self.refuse("a look-behind has a look-ahead")
        if options.lookbehind_sign == "<=" and sign == "<!":
            self.refuse("a look-behind has a negative one")
        n_groups = len(self.group_names)
        inner_options = replace(options, lookbehind_sign=sign if is_lookbehind else "")
        part = self.close_group(f"(?{sign}", self.parse_branches(inner_options))
        if sign == "<!" and len(self.group_names) > n_groups:
            self.refuse("a negative look-behind has a group that captures")
        return _Part(part.text, 0, 0, is_anchor=True)

    # Classes ----------------------------------------------------------------------------------------------------------

    def parse_class(self, options: _Options) -> _Part:
        """Parse a class in brackets."""
        chars = self.parse_class_set()
        texts: list[str] = []
        if options.ignore_case:
            chars, texts = ignore_case(chars)
        self.is_nested |= chars.is_nested
        if not texts:
            return _Part(chars.as_pattern)
        text_patterns = ("".join(_spell_any(find_case_variants(char)) for char in text) for text in texts)
        return _Part(f"(?:{'|'.join((chars.as_pattern, *text_patterns))})", 1, max(map(len, texts)))

    def parse_class_set(self, depth: int = 0) -> CharSet:
        """Parse the set of a class, from its opening bracket on."""
        if depth > MAX_DEPTH:
            self.refuse(f"classes are nested more than {MAX_DEPTH} deep")
        self.position += 1
        negated = self.take("^")
        intersected, members = [], ""
        if self.take("]"):
            if depth:
                self.refuse("a class within another is empty, or begins with a bracket")
            members = self.parse_range(ord("]"))
        while not self.take("]"):
            if self.take("&&"):
                intersected.append(CharSet(members))
                members = ""
            else:
                members += self.parse_member(depth)
        for char_set in reversed(intersected):
            members = char_set.intersect(CharSet(members)).members
        chars = CharSet(members, negated)
        if depth and not chars.members:
            self.refuse("a class within another is empty")  # Oniguruma then forgets all but ASCII
        if negated and "[^" in members and (r"\P" in members or members.count("[^") > 1):
            self.refuse("a negated class has several negated sets, of which one is a class")  # `regex` errs in some
        return chars

    def parse_member(self, depth: int) -> str:
        """Parse the next members of a class: a set, a character or a range."""
        if self.position >= len(self.pattern):
            self.refuse("a class is not closed")
        char_set: CharSet | None = None
        if self.pattern.startswith("[:", self.position):
            match = self.match(re.compile(r"\[:(\^?)(\w+):\]"))
            if match is None or match[2] not in POSIX_BRACKETS:
                self.refuse("the POSIX bracket is not known")
            char_set = CharSet(POSIX_BRACKETS[match[2]], bool(match[1]))
        elif self.pattern[self.position] == "[":
            char_set = self.parse_class_set(depth + 1)
        elif (code := self.parse_class_code()) is not None:
            return self.parse_range(code)
        else:
            char_set = self.parse_set_escape(ESCAPES)
        if self.pattern.startswith("-", self.position) and not self.pattern.startswith("-]", self.position):
            self.refuse("a range begins with a set")
        return "" if char_set is None else char_set.as_member

    def parse_class_code(self) -> int | None:
        """Parse the next character of a class; for a set, read only a backslash and return None."""
        char = self.pattern[self.position : self.position + 1]
        self.position += 1
        if char != "\\":
            return ord(char) if char else self.refuse("a class is not closed")
        name = self.pattern[self.position : self.position + 1]
        if not name or name in "M123456789":
            self.refuse("the escape of a character is not known")
        if name.lower() in ESCAPES or self.pattern[self.position :][:2] in (r"p{", r"P{"):
            return None
        if name == "b":
            self.position += 1
            return 8
        return self.parse_code()

    def parse_range(self, first: int) -> str:
        """Parse a character of a class, or the range that begins with it."""
        following = self.pattern[self.position : self.position + 3]
        if not following.startswith("-") or following[1:2] == "]" or following == "-&&":
            return spell_range(first, first)
        self.position += 1
        if following[1:2] == "[":
            self.refuse("a range ends with a class")
        last = self.parse_class_code()
        if last is None or last < first:
            self.refuse("a range ends with a set, or before it begins")
        if self.pattern.startswith("--", self.position):
            self.refuse("a range follows a range without a character between them")
        return spell_range(first, last)


def _wrap_in_group(text: str) -> str:
    return f"(?:{text})"


def _merge_folds(parts: list[_Part]) -> list[_Part]:
    """Join adjacent characters of a sequence that ignore case to one text."""
    merged: list[_Part] = []
    text = ""
    for part in [*parts, None]:
        if part is not None and part.caseless_char:
            text += part.caseless_char
            continue
        merged += _fold(text)
        text = ""
        merged += [] if part is None else [part]
    return merged


def _fold(text: str) -> list[_Part]:
    """Make the parts that match a text, ignoring case. The longest text that equals one character is taken first."""
    folded = "".join(char.casefold() for char in text)
    parts: list[_Part] = []
    position = 0
    while position < len(folded):
        size = next((n for n in (3, 2) if folded[position : position + n] in find_long_folds()), 1)
        chars = [_spell_any(find_case_variants(char)) for char in folded[position : position + size]]
        if size == 1:
            parts.append(_Part(chars[0]))
        else:
            single = _spell_any(find_long_folds()[folded[position : position + size]])
            parts.append(_Part(f"(?:{single}|{''.join(chars)})", 1, size))
        position += size
    return parts


def _spell_any(chars: str) -> str:
    """Spell a pattern that matches any of some characters."""
    if len(chars) == 1 and find_mask_range(ord(chars), ord(chars)) is None:
        return spell_char(ord(chars))
    return f"[{''.join(spell_range(ord(char), ord(char)) for char in chars)}]"


@lru_cache(1024)
def translate(pattern: str) -> Translation:
    r"""Translate a pattern of Oniguruma to the syntax of the `regex` package.

    Raises:
        UntranslatableError: for a pattern that may mean something else there, and one that Oniguruma refuses.

    >>> translate(r"\s+$").expression, translate(r"[a-z&&[^b]]{1,3}+").expression
    ('\\p{White_Space}+(?=\\n|\\Z)', '(?V1)(?:[[[a-z]&&[[^b]]]]{1,3})+')
    >>> [translate(each).empty for each in ("a+", "a*", "^")]
    ['never', 'sometimes', 'always']

    """
    if len(pattern) > MAX_LENGTH:
        raise UntranslatableError(f"it has {len(pattern)} characters; the limit is {MAX_LENGTH}")
    parser = _Parser(pattern)
    translation = parser.parse()
    if parser.has_reference or any(parser.group_names):
        translation = _Parser(pattern, parser).parse()
    if differs_by_case(translation.expression):
        raise UntranslatableError("it names U+0295, and asks for the case of letters, which `regex` has otherwise")
    return translation


#: The parts of a pattern that mean the same to both engines, later characters aside.
_SHARED_CHARACTER = r"\\[!-/:-@\[-`{-~]|\\[nrt]|\\u(?!(?i:d[89a-f]))[0-9a-fA-F]{4}"
_IN_CLASS = rf"(?:{_SHARED_CHARACTER}|(?!&&|\|\||~~)[^\\\[\]\-])"
_SHARED_SET = r"\\[dDsS]|\\[pP]\{\w+\}"
_SHARED_CLASS = rf"\[\^?-?(?:{_SHARED_SET}|{_IN_CLASS}(?:-{_IN_CLASS})?)+-?\]"
_REPEAT = r"[*+?][+?]?|\{[0-9]{1,4}(?:,[0-9]{0,4})?\}(?![+?])"
#: What is accepted inside `(?i:…)`: ASCII characters but i, single or listed in a class, no two that a ligature equals.
_CASELESS_ITEM = (
    rf"(?!(?i:ss|ff|fl|st))(?:\\[!-/:-@\[-`{{-~]|{_REPEAT}|\||[ !\"#%'&,\-/0-9:;<=>@A-HJ-Z_`a-hj-z~]"
    r"|\[[ !\"#%'(),./0-9:;<=>@A-HJ-Z_`a-hj-z{|}]+\])"
)
_SHARED_PATTERN = (
    rf"(?:\((?:\?(?:<?[=!]|[:>])|(?!\?))|[)|]|{_REPEAT}|\.|{_SHARED_SET}|{_SHARED_CHARACTER}|{_SHARED_CLASS}"
    rf"|\(\?i:(?:{_CASELESS_ITEM})*\)|[^\\\[\](){{}}|.*+?^$])*"
)


@lru_cache(1024)
def is_shared_pattern(pattern: str) -> bool:
    r"""Whether a pattern means the same to both engines, later characters aside, and never matches the empty string.

    >>> is_shared_pattern(r" ?\p{L}+|\d{1,3}|\s+(?!\S)"), is_shared_pattern(r"\d{1,3}+"), is_shared_pattern("^a")
    (True, False, False)
    """
    if regex.fullmatch(_SHARED_PATTERN, pattern) is None:
        return False
    intervals = re.findall(r"\{([0-9]{1,4}),([0-9]{1,4})\}", pattern)
    names = re.findall(r"\\[pP]\{(\w+)\}", pattern)
    if any(int(fewest) > int(most) for fewest, most in intervals) or not all(map(is_shared_property, names)):
        return False
    try:
        translation = translate(pattern)
    except UntranslatableError:
        return False
    expression = translation.expression
    if "(?!)" in expression or (translation.names_later and re.search(r"\\[pP]\{(?!White_Space)", expression)):
        return False  # `regex` has all characters in [^\S\s], and later ones in a property beside a range
    return translation.empty == "never"


def find_spans(
    pattern: Any, translation: Translation, text: str, timed: Callable[[Callable[[float | None], Any]], Any]
) -> list[tuple[int, int]]:
    r"""Find the matches in a text, one after the other as `tokenizers` finds them.

    After a match, an empty one at its end does not count, and the search goes on at the next character.

    Args:
        pattern: the compiled translation.
        translation: the translation.
        text: the text, masked.
        timed: calls its argument with a time limit for the methods of a compiled pattern.

    >>> found = translate("a*")
    >>> find_spans(regex.compile(found.expression), found, "baac", lambda match: match(None))
    [(0, 0), (1, 3), (4, 4)]

    """
    if translation.empty != "sometimes":
        return timed(lambda limit: [match.span() for match in pattern.finditer(text, timeout=limit)])  # type: ignore[no-any-return]
    spans: list[tuple[int, int]] = []
    position, last_end = 0, -1

    def find_next(limit: float | None) -> Any:
        return pattern.search(text, position, timeout=limit)

    while position <= len(text) and (match := timed(find_next)) is not None:
        start, end = match.span()
        if start == end == last_end:
            position += 1
        else:
            spans.append((start, end))
            position = last_end = end
    return spans


def escape_literal(text: str) -> str:
    r"""Escape a text: the pattern matches only this text, in both engines.

    >>> escape_literal("a.b")
    'a\\.b'
    """
    return str(regex.sub(r"[!-/:-@\[-`{-~]", lambda match: "\\" + match[0], text))
