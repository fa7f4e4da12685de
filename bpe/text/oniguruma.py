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
from bpe.text.character_sets import UNASSIGNED, differs_by_case, find_mask_range
from bpe.text.oniguruma_sets import (
    ESCAPES,
    POSIX,
    WORD,
    CharSet,
    equals,
    find_property,
    ignore_case,
    is_shared_property,
    long_folds,
    spell,
    spell_range,
)

MAX_DEPTH = 50
MAX_LENGTH = 10_000
#: The greatest number in an interval of Oniguruma.
_MAX_REPEAT = 100_000
_LONGEST_INTERVAL = len("{100000,100000}")

#: Whether matches are empty. Where some are, the two engines go on differently after one.
Empty = Literal["never", "sometimes", "always"]

#: The white space that the option `x` leaves out of a pattern.
_IGNORED = " \t\n\r\f"
#: Escapes of one character.
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7, "e": 27}
_HEX = re.compile(r"u([0-9A-Fa-f]{4})|x\{([0-9A-Fa-f]{1,8})\}|x([0-7][0-9A-Fa-f])|(?:c|C-)([A-Za-z])")
_OCTAL = re.compile(r"o\{([0-7]{1,11})\}|0([0-7]{0,2})")
_INTERVAL = re.compile(r"\{(?:([0-9]+)(,?)([0-9]*)|,([0-9]+))\}")
_PROPERTY = re.compile(r"[pP]\{(\^?)([^{}]*)\}")
_REFERENCE = re.compile(r"k(?:<(-?[1-9]\d{0,3}|[^\W\d]\w*)>|'(-?[1-9]\d{0,3}|[^\W\d]\w*)')|([1-9])(?!\d)")
_OPTIONS = re.compile(r"([imx]*)(?:-([imx]*))?([:)])")
#: The sets outside a class whose negations are in upper case.
_SETS = {**ESCAPES, "w": WORD}
#: Anchors in the syntax of `regex`. In Oniguruma, a line does not begin at the text's end.
_ANCHORS = {
    "$": r"(?=\n|\Z)",
    "^": r"(?:\A|(?<=\n)(?!\Z))",
    r"\A": r"\A",
    r"\z": r"\Z",
    r"\Z": r"(?=\n?\Z)",
    r"\G": r"\G",
    r"\b": f"(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))",
    r"\B": f"(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))",
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
    empty: Empty

    @property
    def names_later(self) -> bool:
        """Whether it names what stands for characters later than Unicode 16, which depends on the `regex` installed."""
        return rf"\U{UNASSIGNED:08x}"[:-3] in self.expression


@dataclass
class _Part:
    """A part of a pattern: one unit that a repeat applies to."""

    text: str
    low: int = 1  # the fewest characters that it matches
    high: float = 1  # the most
    folds: str = ""  # a character of text that ignores case
    anchors: bool = False  # Oniguruma refuses to repeat it
    repeats: bool = False  # it ends with a repeat, so that another one takes a group
    inner: list[_Part] | None = None  # of a group that does nothing


@dataclass(frozen=True)
class _Options:
    ignore_case: bool = False
    dot_all: bool = False
    extended: bool = False
    behind: str = ""  # the sign of the look-behind around it

    def change(self, on: str, off: str) -> _Options:
        """The options after some of `imx` have been switched on, and others off."""
        ignore_case, dot_all, extended = (
            (name in on or before) and name not in off
            for name, before in zip("imx", (self.ignore_case, self.dot_all, self.extended), strict=True)
        )
        return _Options(ignore_case, dot_all, extended, self.behind)


class _Parser:
    """Parses one pattern, and writes it for `regex`.

    Args:
        pattern: the pattern.
        first: the parser that has read it once, which knows its groups and whether any is referred to.

    """

    def __init__(self, pattern: str, first: _Parser | None = None) -> None:
        self.pattern, self.position, self.depth = pattern, 0, 0
        self.first = first
        self.names: list[str | None] = []  # of the groups that capture, in order
        self.open: list[int] = []  # the numbers of the groups around the current position
        self.refers = False
        self.is_nested = False  # whether a class is within another
        self.continues = False  # whether \G is used

    @property
    def captured(self) -> list[str | None]:
        """The names of the groups that capture: beside groups with names, those without do not."""
        return [name for name in self.names if name is not None] or self.names

    def refuse(self, reason: str) -> NoReturn:
        """Raise UntranslatableError."""
        raise UntranslatableError(
            f"{reason}, at character {self.position} ({short_repr(self.pattern[self.position :][:20])})"
        )

    def take(self, text: str) -> bool:
        """Whether the text is next; it is then read."""
        found = self.pattern.startswith(text, self.position)
        self.position += len(text) * found
        return found

    def match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        """What an expression matches next; it is then read."""
        found = expression.match(self.pattern, self.position)
        self.position = self.position if found is None else found.end()
        return found

    def parse(self) -> Translation:
        """Parse the whole pattern."""
        part = self.join(self.branches(_Options()))
        if self.position < len(self.pattern):
            self.refuse("a parenthesis is not opened")
        empty: Empty = "sometimes"
        if not self.continues and (part.low > 0 or part.high == 0):
            empty = "never" if part.low else "always"
        return Translation("(?V1)" * self.is_nested + part.text, empty)

    # Alternatives and sequences ---------------------------------------------------------------------------------------

    def branches(self, options: _Options) -> list[list[_Part]]:
        """The alternatives up to the end of a group."""
        if self.depth > MAX_DEPTH:
            self.refuse(f"groups are nested more than {MAX_DEPTH} deep")
        self.depth += 1
        found = [self.sequence(options)]
        while self.take("|"):
            found.append(self.sequence(options))
        self.depth -= 1
        return found

    def sequence(self, options: _Options) -> list[_Part]:
        """The parts of one alternative."""
        parts: list[_Part] = []
        self.skip(options)
        while self.position < len(self.pattern) and self.pattern[self.position] not in "|)":
            part = self.atom(options)
            self.skip(options)
            while (times := self.interval()) is not None:
                part = self.repeat(part, *times)
                self.skip(options)
            parts += [part] if part.inner is None else part.inner
        return parts

    def skip(self, options: _Options) -> None:
        """Skip comments, and with the option `x` white space."""
        comment = r"\(\?#(?:[^\\)]|\\.)*\)"
        expression = rf"(?:{comment}|[{_IGNORED}]|#[^\n]*)*" if options.extended else rf"(?:{comment})*"
        self.match(re.compile(expression, re.DOTALL))

    def join(self, branches: list[list[_Part]]) -> _Part:
        """The alternatives as one part, without a group around them."""
        sequences = [_merge_folds(parts) for parts in branches]
        return _Part(
            "|".join("".join(part.text for part in parts) for parts in sequences),
            min(sum(part.low for part in parts) for parts in sequences),
            max(sum(part.high for part in parts) for parts in sequences),
            anchors=any(len(parts) == 1 and parts[0].anchors for parts in sequences),
        )

    # Repeats ----------------------------------------------------------------------------------------------------------

    def interval(self) -> tuple[int, float, str] | None:
        """(fewest times, most times, kind) of the repeat that is next; the kind is "", "?" or "+"."""
        sign = self.pattern[self.position : self.position + 1]
        if sign and sign in "*+?":
            self.position += 1
            low, high = {"*": (0, float("inf")), "+": (1, float("inf")), "?": (0, 1)}[sign]
            return low, high, "?" if self.take("?") else "+" if self.take("+") else ""
        found = self.match(_INTERVAL)
        if found is None:
            return None
        if len(found[0]) > _LONGEST_INTERVAL:
            self.refuse(f"a part is repeated more than {_MAX_REPEAT} times")
        low = int(found[1] or 0)
        high = int(found[3] or found[4] or 0) if found[3] or found[4] else float("inf") if found[2] else low
        if max(low, high if high < float("inf") else 0) > _MAX_REPEAT:
            self.refuse(f"a part is repeated more than {_MAX_REPEAT} times")
        if low > high:
            if self.pattern.startswith("?", self.position):
                self.refuse("a possessive interval is lazy")
            return int(high), low, "+"
        return low, high, "?" if (found[2] or found[4]) and self.take("?") else ""  # {n}? is a repeated repeat

    def repeat(self, part: _Part, low: int, high: float, kind: str) -> _Part:
        """A part that is repeated."""
        if part.anchors:
            self.refuse("an anchor or a look-around is repeated")
        if part.low == 0 and part.high != 0 and low > 0 and high > 1 and (low, high) != (1, float("inf")):
            self.refuse("a part that may be empty is repeated a number of times, and empty ones count otherwise")
        part = _merge_folds([part])[0]
        times = {(0, 1): "?", (0, float("inf")): "*", (1, float("inf")): "+"}.get((low, high))
        times = times or f"{{{low}{'' if low == high else f',{high:.0f}' if high < float('inf') else ','}}}"
        unit = _grouped(part.text) if part.repeats else part.text
        if kind == "+":
            unit, times, kind = f"(?>{unit}{times})", "", ""
        return _Part(
            unit + times + kind, part.low * low, part.high * high if part.high and high else 0, repeats=bool(times)
        )

    # Atoms ------------------------------------------------------------------------------------------------------------

    def atom(self, options: _Options) -> _Part:
        """The next character, set, anchor or group."""
        char = self.pattern[self.position]
        if char in "*+?" or (char == "{" and _INTERVAL.match(self.pattern, self.position)):
            self.refuse("there is nothing to repeat")
        if char == "(":
            return self.group(options)
        if char == "[":
            return self.char_class(options)
        self.position += 1
        if char == "\\":
            return self.escape(options)
        if char == ".":
            return _Part("(?s:.)" if options.dot_all else ".")
        if char in _ANCHORS:
            return _Part(_ANCHORS[char], 0, 0, anchors=True)
        return self.character(ord(char), options)

    def character(self, code: int, options: _Options) -> _Part:
        """One character of text."""
        return _Part("", folds=chr(code)) if options.ignore_case else _Part(_spell_any(chr(code)))

    def escape(self, options: _Options) -> _Part:
        """What follows a backslash."""
        name = self.pattern[self.position : self.position + 1]
        if not name or name in _REFUSED_ESCAPES:
            self.refuse(
                f"{_REFUSED_ESCAPES[name]} have no equal in `regex`" if name else "a backslash ends the pattern"
            )
        if f"\\{name}" in _ANCHORS:
            self.position += 1
            self.continues |= name == "G"
            if name in "zZ" and options.behind:
                self.refuse("a look-behind has the end of the text")
            return _Part(_ANCHORS[f"\\{name}"], 0, 0, anchors=True)
        if name in _SPECIAL:
            self.position += 1
            if name == "R" and options.behind:
                self.refuse("a look-behind has an atomic group")
            return _Part(*_SPECIAL[name])
        if name == "k" or name in "123456789":
            return self.reference(options)
        found = self.set_escape(_SETS)
        return self.character(self.code(), options) if found is None else _Part(found.as_pattern)

    def set_escape(self, sets: dict[str, str]) -> CharSet | None:
        r"""The set that follows a backslash, such as \d or \p{L}; None for a character."""
        name = self.pattern[self.position]
        if name.lower() in sets and name.isascii():
            self.position += 1
            return CharSet(sets[name.lower()], name.isupper())
        if name not in "pP" or self.pattern[self.position + 1 : self.position + 2] != "{":
            return None
        found = _PROPERTY.match(self.pattern, self.position)
        members = None if found is None else find_property(found[2])
        if found is None or members is None:
            self.refuse("the property is unknown, or has other characters in `regex`")
        self.position = found.end()
        return CharSet(members, (name == "P") != bool(found[1]))

    def code(self) -> int:
        """The character that follows a backslash."""
        char = self.pattern[self.position]
        code = _CONTROLS.get(char)
        if code is not None or char not in "xucCo0123456789":
            self.position += 1
            return ord(char) if code is None else code
        if (found := self.match(_HEX)) is not None:
            digits = found[1] or found[2] or found[3]
            code = int(digits, 16) if digits else ord(found[4]) & 0x1F
        elif (found := self.match(_OCTAL)) is not None:
            code = int(found[1] or found[2] or "0", 8)
        else:
            self.refuse("the escape of a character is not known")
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            self.refuse(f"U+{code:04X} is not a character")
        return code

    def reference(self, options: _Options) -> _Part:
        """A reference to what a group has matched."""
        found = self.match(_REFERENCE)
        if found is None:
            self.refuse("the reference is not understood")
        self.refers = True
        if self.first is None:
            return _Part("")
        name, known = found[1] or found[2] or found[3], self.first.captured
        if name.lstrip("-").isdecimal() and not any(known):
            number = int(name) if int(name) > 0 else len(self.names) + 1 + int(name)
        else:
            number = known.index(name) + 1 if known.count(name) == 1 and name in self.names else 0
        if not 0 < number <= len(known) or number in self.open:
            self.refuse("the reference is to a group that is not there, not complete or there twice")
        if options.ignore_case or options.behind:
            self.refuse("a reference ignores case, or is in a look-behind")
        return _Part(f"(?P=g{number})", 0, float("inf"))

    # Groups -----------------------------------------------------------------------------------------------------------

    def group(self, options: _Options) -> _Part:
        """A group or look-around."""
        start = self.position
        if not self.take("(?"):
            self.position += 1
            return self.capture(None, options)
        for sign in ("=", "!", "<=", "<!"):
            if self.take(sign):
                return self.look(sign, options)
        if self.take(">"):
            if options.behind:
                self.refuse("a look-behind has an atomic group")
            return self.close("(?>", self.branches(options))
        if (named := self.match(re.compile(r"<([^\W\d]\w*)>|'([^\W\d]\w*)'"))) is not None:
            return self.capture(named[1] or named[2], options)
        found = self.match(_OPTIONS)
        if found is None or found[0] == ")":
            self.position = start
            kind = _REFUSED_GROUPS.get(self.pattern[start + 2 : start + 3], "groups of this kind")
            self.refuse(f"{kind} have no equal in `regex`")
        inner = options.change(found[1], found[2] or "")
        branches = self.branches(inner)
        if found[3] == ")":  # the options hold for the rest of the group around them
            part = self.join(branches)
            return replace(part, text=_grouped(part.text))
        part = self.close("(?:", branches)
        if found[0] == ":" and len(branches) == 1:
            part.inner = branches[0]
        return part

    def close(self, start: str, branches: list[list[_Part]]) -> _Part:
        """A group, after its closing parenthesis has been read."""
        if not self.take(")"):
            self.refuse("a parenthesis is not closed")
        part = self.join(branches)
        return _Part(f"{start}{part.text})", part.low, part.high, anchors=part.anchors)

    def capture(self, name: str | None, options: _Options) -> _Part:
        """A group that captures, unless none is referred to."""
        if self.first is not None and name is None and any(self.first.names):
            branches = self.branches(options)
            part = self.close("(?:", branches)
            part.inner = branches[0] if len(branches) == 1 else None
            return part
        self.names.append(name)
        number = len(self.names)
        self.open.append(number)
        refers = self.first is not None and self.first.refers
        if options.behind and refers:
            self.refuse("a look-behind has a group that captures")
        part = self.close(f"(?P<g{number}>" if refers else "(?:", self.branches(options))
        self.open.remove(number)
        return part

    def look(self, sign: str, options: _Options) -> _Part:
        """A look-around, after its sign has been read."""
        behind = sign.startswith("<")
        if options.behind and not behind:
            self.refuse("a look-behind has a look-ahead")
        if options.behind == "<=" and sign == "<!":
            self.refuse("a look-behind has a negative one")
        n_groups = len(self.names)
        inner = replace(options, behind=sign if behind else "")
        part = self.close(f"(?{sign}", self.branches(inner))
        if sign == "<!" and len(self.names) > n_groups:
            self.refuse("a negative look-behind has a group that captures")
        return _Part(part.text, 0, 0, anchors=True)

    # Classes ----------------------------------------------------------------------------------------------------------

    def char_class(self, options: _Options) -> _Part:
        """A class in brackets."""
        chars = self.class_set()
        texts: list[str] = []
        if options.ignore_case:
            chars, texts = ignore_case(chars)
        self.is_nested |= chars.is_nested
        if not texts:
            return _Part(chars.as_pattern)
        others = ("".join(_spell_any(equals(char)) for char in text) for text in texts)
        return _Part(f"(?:{'|'.join((chars.as_pattern, *others))})", 1, max(map(len, texts)))

    def class_set(self, depth: int = 0) -> CharSet:
        """The set of a class, from its opening bracket on."""
        if depth > MAX_DEPTH:
            self.refuse(f"classes are nested more than {MAX_DEPTH} deep")
        self.position += 1
        negated = self.take("^")
        sets, members = [], ""
        if self.take("]"):
            if depth:
                self.refuse("a class within another is empty, or begins with a bracket")
            members = self.span(ord("]"))
        while not self.take("]"):
            if self.take("&&"):
                sets.append(CharSet(members))
                members = ""
            else:
                members += self.member(depth)
        for other in reversed(sets):
            members = other.intersect(CharSet(members)).members
        chars = CharSet(members, negated)
        if depth and not chars.members:
            self.refuse("a class within another is empty")  # Oniguruma then forgets all but ASCII
        if negated and "[^" in members and (r"\P" in members or members.count("[^") > 1):
            self.refuse("a negated class has several negated sets, of which one is a class")  # `regex` errs in some
        return chars

    def member(self, depth: int) -> str:
        """The next members of a class: a set, a character or a range."""
        if self.position >= len(self.pattern):
            self.refuse("a class is not closed")
        found: CharSet | None = None
        if self.pattern.startswith("[:", self.position):
            named = self.match(re.compile(r"\[:(\^?)(\w+):\]"))
            if named is None or named[2] not in POSIX:
                self.refuse("the POSIX bracket is not known")
            found = CharSet(POSIX[named[2]], bool(named[1]))
        elif self.pattern[self.position] == "[":
            found = self.class_set(depth + 1)
        elif (code := self.class_code()) is not None:
            return self.span(code)
        else:
            found = self.set_escape(ESCAPES)
        if self.pattern.startswith("-", self.position) and not self.pattern.startswith("-]", self.position):
            self.refuse("a range begins with a set")
        return "" if found is None else found.as_member

    def class_code(self) -> int | None:
        """The next character of a class; None, with nothing but a backslash read, for a set."""
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
        return self.code()

    def span(self, first: int) -> str:
        """A character of a class, or the range that begins with it."""
        following = self.pattern[self.position : self.position + 3]
        if not following.startswith("-") or following[1:2] == "]" or following == "-&&":
            return spell_range(first, first)
        self.position += 1
        if following[1:2] == "[":
            self.refuse("a range ends with a class")
        last = self.class_code()
        if last is None or last < first:
            self.refuse("a range ends with a set, or before it begins")
        if self.pattern.startswith("--", self.position):
            self.refuse("a range follows a range without a character between them")
        return spell_range(first, last)


def _grouped(text: str) -> str:
    return f"(?:{text})"


def _merge_folds(parts: list[_Part]) -> list[_Part]:
    """The parts of a sequence, with adjacent characters that ignore case as one text."""
    merged: list[_Part] = []
    text = ""
    for part in [*parts, None]:
        if part is not None and part.folds:
            text += part.folds
            continue
        merged += _fold(text)
        text = ""
        merged += [] if part is None else [part]
    return merged


def _fold(text: str) -> list[_Part]:
    """The parts that match a text, ignoring case. The longest text that equals a single character is taken first."""
    folded = "".join(char.casefold() for char in text)
    parts: list[_Part] = []
    position = 0
    while position < len(folded):
        size = next((n for n in (3, 2) if folded[position : position + n] in long_folds()), 1)
        chars = [_spell_any(equals(char)) for char in folded[position : position + size]]
        if size == 1:
            parts.append(_Part(chars[0]))
        else:
            single = _spell_any(long_folds()[folded[position : position + size]])
            parts.append(_Part(f"(?:{single}|{''.join(chars)})", 1, size))
        position += size
    return parts


def _spell_any(chars: str) -> str:
    """A pattern of any of some characters."""
    if len(chars) == 1 and find_mask_range(ord(chars), ord(chars)) is None:
        return spell(ord(chars))
    return f"[{''.join(spell_range(ord(char), ord(char)) for char in chars)}]"


@lru_cache(1024)
def translate(pattern: str) -> Translation:
    r"""A pattern of Oniguruma in the syntax of the `regex` package.

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
    if parser.refers or any(parser.names):
        translation = _Parser(pattern, parser).parse()
    if differs_by_case(translation.expression):
        raise UntranslatableError("it names U+0295, and asks for the case of letters, which `regex` has otherwise")
    return translation


#: The parts of a pattern that mean the same to both engines, later characters aside.
_CHARACTER = r"\\[!-/:-@\[-`{-~]|\\[nrt]|\\u(?!(?i:d[89a-f]))[0-9a-fA-F]{4}"
_IN_CLASS = rf"(?:{_CHARACTER}|(?!&&|\|\||~~)[^\\\[\]\-])"
_SHARED_SET = r"\\[dDsS]|\\[pP]\{\w+\}"
_SHARED_CLASS = rf"\[\^?-?(?:{_SHARED_SET}|{_IN_CLASS}(?:-{_IN_CLASS})?)+-?\]"
_REPEAT = r"[*+?][+?]?|\{[0-9]{1,4}(?:,[0-9]{0,4})?\}(?![+?])"
#: What is accepted inside `(?i:…)`: ASCII characters but i, single or listed in a class, no two that a ligature equals.
_FOLDED = (
    rf"(?!(?i:ss|ff|fl|st))(?:\\[!-/:-@\[-`{{-~]|{_REPEAT}|\||[ !\"#%'&,\-/0-9:;<=>@A-HJ-Z_`a-hj-z~]"
    r"|\[[ !\"#%'(),./0-9:;<=>@A-HJ-Z_`a-hj-z{|}]+\])"
)
_SHARED = (
    rf"(?:\((?:\?(?:<?[=!]|[:>])|(?!\?))|[)|]|{_REPEAT}|\.|{_SHARED_SET}|{_CHARACTER}|{_SHARED_CLASS}"
    rf"|\(\?i:(?:{_FOLDED})*\)|[^\\\[\](){{}}|.*+?^$])*"
)


@lru_cache(1024)
def means_the_same(pattern: str) -> bool:
    r"""Whether a pattern means the same to both engines, later characters aside, and never matches the empty string.

    >>> means_the_same(r" ?\p{L}+|\d{1,3}|(?i:'s|'t)|\s+(?!\S)"), means_the_same(r"\d{1,3}+"), means_the_same("^a")
    (True, False, False)
    """
    if regex.fullmatch(_SHARED, pattern) is None:
        return False
    intervals = re.findall(r"\{([0-9]{1,4}),([0-9]{1,4})\}", pattern)
    names = re.findall(r"\\[pP]\{(\w+)\}", pattern)
    if any(int(low) > int(high) for low, high in intervals) or not all(map(is_shared_property, names)):
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
    r"""The matches in a text, one after the other as `tokenizers` finds them.

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


def escaped(text: str) -> str:
    r"""A pattern that matches only this text, in both engines.

    >>> escaped("a.b")
    'a\\.b'
    """
    return str(regex.sub(r"[!-/:-@\[-`{-~]", lambda match: "\\" + match[0], text))
