r"""The steps of a pipeline of pretokenizers, as in Hugging Face's `tokenizers`; `bpe.pretokenizers` exports them.

Each step changes the beginning of a piece or single characters of it, and then cuts it into smaller pieces. Patterns
are in Oniguruma's syntax, as in tokenizer.json (`bpe/text/oniguruma.py`). `pipeline.py` runs the steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bpe.base.fast_dataclasses import dataclass, fields
from bpe.base.forks import cached_property
from bpe.base.utf8 import compute_byte_offsets, encode_losslessly
from bpe.errors import check_bool, check_choice, check_int, check_unicode, describe, short_repr
from bpe.pretokenize import _scanner
from bpe.pretokenize.patterns import NAME_OF_ONIGURUMA, ONIGURUMA_SPELLINGS, PATTERNS
from bpe.text.character_sets import WHITE_SPACE

if TYPE_CHECKING:
    from bpe.text.matching import Deadline
    from bpe.text.oniguruma import Translation

#: What happens to a match: it is dropped, a piece of its own, joined to the piece before or after it, or joined to
#: adjacent matches.
Behavior = Literal["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
#: When Metaspace puts its character in front of a text that does not begin with it: always, before the first piece of
#: a text, or never.
PrependScheme = Literal["always", "first", "never"]

#: The start and end of a piece.
Span = tuple[int, int]

#: Where a group of three digits begins, counted from the right: "1", "234" for 1234.
DIGIT_GROUPS = r"(?=(\d{3})+(?!\d))"


class Step:
    """A step of a pipeline; the classes of this module are its subclasses."""

    def __post_init__(self) -> None:
        """Check the fields; here those that are bools."""
        for name, value in vars(self).items():
            if isinstance(getattr(type(self), name, None), bool):
                object.__setattr__(self, name, check_bool(name, value))

    def edit(self, text: str, begins_text: bool) -> tuple[str, int]:
        """Change a piece before it is cut; returns it, and the number of characters that were put in front of it."""
        del begins_text
        return text, 0

    def spans(self, text: str) -> list[Span]:
        """Split an edited text, which is not empty, into spans."""
        return [(0, len(text))]

    def pieces(self, text: str) -> list[str]:
        """Split an edited text, which is not empty, into pieces."""
        return [text[start:end] for start, end in self.spans(text)]

    def to_json(self) -> dict[str, Any]:
        """Return the step as tokenizer.json has it."""
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        return {"type": type(self).__name__, **{name: getattr(self, name) for name in names}}


def merge_matches(matches: Iterable[Span], length: int, behavior: Behavior, invert: bool = False) -> list[Span]:
    """Split a text of length `length` into spans, given the matches of a pattern in it.

    >>> merge_matches([(1, 2), (2, 3)], 4, "Isolated"), merge_matches([(1, 2), (2, 3)], 4, "MergedWithPrevious")
    ([(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 2), (2, 3), (3, 4)])
    """
    parts: list[tuple[Span, bool]] = []  # the matches and the gaps between them, in order
    gap_start = 0
    for start, end in matches:
        if gap_start < start:
            parts.append(((gap_start, start), invert))
        parts.append(((start, end), not invert))
        gap_start = end
    if gap_start < length:
        parts.append(((gap_start, length), invert))
    if behavior == "Isolated":
        return [span for span, _ in parts]
    if behavior == "Removed":
        return [span for span, is_match in parts if not is_match]
    if behavior == "MergedWithNext":
        parts.reverse()
    pieces: list[Span] = []
    follows_match = False
    for span, is_match in parts:
        joins_previous = is_match == follows_match if behavior == "Contiguous" else is_match and not follows_match
        if joins_previous and pieces:
            last_span = pieces[-1]
            pieces[-1] = (min(last_span[0], span[0]), max(last_span[1], span[1]))
        else:
            pieces.append(span)
        follows_match = is_match
    return pieces[::-1] if behavior == "MergedWithNext" else pieces


class _PatternStep(Step):
    """A step whose pieces are all the matches of one pattern of character classes."""

    @property
    def _piece_pattern(self) -> re.Pattern[str]:
        raise NotImplementedError

    def spans(self, text: str) -> list[Span]:
        return [match.span() for match in self._piece_pattern.finditer(text)]

    def pieces(self, text: str) -> list[str]:
        return self._piece_pattern.findall(text)


@dataclass(frozen=True)
class Split(Step):
    r"""Split at the matches of a pattern.

    Args:
        pattern: a regular expression of Oniguruma; with `literal`, a string.
        behavior: what happens to the matches.
        invert: treat the text between matches as matches, and the matches as the text between them.
        literal: whether the pattern is a string to find.

    Raises:
        ValueError: for an empty pattern, one that Oniguruma refuses, and one with a construct that has no equal in the
            `regex` package.

    >>> [Split(r"\d", behavior).pieces("a12b") for behavior in ("Removed", "MergedWithNext", "Contiguous")]
    [['a', 'b'], ['a', '1', '2b'], ['a', '12', 'b']]

    """

    pattern: str
    behavior: Behavior = "Isolated"
    invert: bool = False
    literal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.pattern, str):
            raise TypeError(f"pattern is {describe(self.pattern)}; it must be a str")
        check_unicode("pattern", self.pattern)
        check_choice("behavior", self.behavior, get_args(Behavior))
        if not self.pattern:
            raise ValueError("pattern is empty; it must match something")
        self._compiled_translation  # noqa: B018 (compiles the pattern now)

    @cached_property
    def _scanner(self) -> int | None:
        """The number of the scanner that finds the matches, if the pattern is a published one without gaps."""
        name = None if self.literal else NAME_OF_ONIGURUMA.get(self.pattern)
        return None if name in (None, "clip", "whitespace", "starcoder") else PATTERNS[str(name)].scanner

    @cached_property
    def _compiled_translation(self) -> tuple[Any, Translation] | None:
        """The compiled pattern and its translation; None for one that a scanner matches."""
        if self._scanner is not None:
            return None
        from bpe.text.matching import compile_pattern
        from bpe.text.oniguruma import Translation, UntranslatableError, escape_literal, translate

        try:
            translation = (
                Translation(escape_literal(self.pattern), "never") if self.literal else translate(self.pattern)
            )
        except UntranslatableError as error:
            raise ValueError(
                f"pattern {short_repr(self.pattern)} cannot be matched as Oniguruma does: {error}"
            ) from None
        return compile_pattern(translation.expression), translation

    def spans(self, text: str) -> list[Span]:
        """Split a text into spans."""
        from bpe.text.matching import Deadline, compute_time_limit

        return self.find_spans_within(text, Deadline(compute_time_limit(len(text), None), len(text)))

    @cached_property
    def _split_pattern(self) -> Any:
        """The pattern as a group, with which `split` returns matches and the text between; None for other behaviors."""
        from bpe.text.matching import compile_pattern

        isolates = self.behavior == "Isolated" or (self.behavior == "Removed" and not self.invert)
        if (
            not isolates
            or self._compiled_translation is None
            or self._compiled_translation[1].empty != "never"
            or self._compiled_translation[0].groups
        ):
            return None
        expression = self._compiled_translation[1].expression
        flag = "(?V1)" * expression.startswith("(?V1)")
        return compile_pattern(
            f"{flag}({expression.removeprefix(flag)})" if self.behavior == "Isolated" else expression
        )

    def _mask_text(self, text: str) -> str:
        from bpe.text.character_sets import mask_new_characters

        return (
            text
            if self._compiled_translation is None or self.literal
            else mask_new_characters(text, self._compiled_translation[1].expression, translated=True)
        )

    def split_within(self, text: str, deadline: Deadline) -> list[str]:
        """Split a text into pieces; raises TimeoutError if matching takes longer."""
        split_pattern = self._split_pattern
        if split_pattern is None or self._mask_text(text) is not text:
            return [text[start:end] for start, end in self.find_spans_within(text, deadline)]
        pieces: list[str] = deadline.run(self.pattern, text, lambda limit: split_pattern.split(text, timeout=limit))
        return [piece for piece in pieces if piece]

    def find_spans_within(self, text: str, deadline: Deadline) -> list[Span]:
        """Split a text into spans; raises TimeoutError if matching takes longer."""
        from bpe.text.oniguruma import find_spans

        if self._compiled_translation is None:
            assert self._scanner is not None
            data = encode_losslessly(text)
            bounds = [bound.tolist() for bound in _scanner.find_spans(self._scanner, data)]
            if len(data) != len(text):
                offsets = compute_byte_offsets(text)
                bounds = [np.searchsorted(offsets, bound).tolist() for bound in bounds]
            return merge_matches(zip(*bounds, strict=True), len(text), self.behavior, self.invert)
        pattern, translation = self._compiled_translation
        masked_text = self._mask_text(text)
        matches = find_spans(pattern, translation, masked_text, lambda match: deadline.run(self.pattern, text, match))
        pieces = merge_matches(matches, len(text), self.behavior, self.invert)
        return pieces if translation.empty == "never" else [span for span in pieces if span[0] < span[1]]

    def to_json(self) -> dict[str, Any]:
        """Return the step as tokenizer.json has it."""
        kind = "String" if self.literal else "Regex"
        return {
            "type": "Split",
            "pattern": {kind: self.pattern},
            "behavior": self.behavior,
            "invert": self.invert,
        }

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Digits(_PatternStep):
    """Separate numbers from other text; with `individual_digits`, each digit from the next.

    >>> Digits().pieces("a12b"), Digits(individual_digits=True).pieces("a12b")
    (['a', '12', 'b'], ['a', '1', '2', 'b'])
    """

    individual_digits: bool = False

    @property
    def _piece_pattern(self) -> re.Pattern[str]:
        return _make_alternation("NUMERIC", "" if self.individual_digits else "+")


@cache
def _make_alternation(name: str, repeat: str) -> re.Pattern[str]:
    """Compile a pattern that matches one character (or all adjacent ones) of a set, or all adjacent others."""
    from bpe.text.character_sets import make_char_class

    char_class = make_char_class(name)
    return re.compile(f"{char_class}{repeat}|[^{char_class[1:]}+")


@dataclass(frozen=True)
class Punctuation(Step):
    """Split at punctuation characters, each of which is a match.

    >>> Punctuation().pieces("a, b!?"), Punctuation("Contiguous").pieces("a, b!?")
    (['a', ',', ' b', '!', '?'], ['a', ',', ' b', '!?'])
    """

    behavior: Behavior = "Isolated"

    def __post_init__(self) -> None:
        check_choice("behavior", self.behavior, get_args(Behavior))

    def spans(self, text: str) -> list[Span]:
        """Split a text into spans."""
        from bpe.text.character_sets import compile_char_class

        matches = (match.span() for match in compile_char_class("PUNCTUATION").finditer(text))
        return merge_matches(matches, len(text), self.behavior)


@dataclass(frozen=True)
class WhitespaceSplit(_PatternStep):
    """Split at white space, which is dropped.

    >>> WhitespaceSplit().pieces(" a  b!")
    ['a', 'b!']
    """

    @cached_property
    def _piece_pattern(self) -> re.Pattern[str]:
        return re.compile(f"[^{WHITE_SPACE}]+")


@dataclass(frozen=True)
class Whitespace(_PatternStep):
    r"""Split into runs of word characters and runs of other characters; white space is dropped.

    >>> Whitespace().pieces("a1_é, b!?")
    ['a1_é', ',', 'b', '!?']
    """

    @property
    def _piece_pattern(self) -> re.Pattern[str]:
        return _compile_word_pattern()


@cache
def _compile_word_pattern() -> re.Pattern[str]:
    from bpe.text.unicode_data import WORD

    ranges = [[f"\\U{int(end, 16):08x}" for end in item.split("-")] for item in WORD.split()]
    word = "".join(f"{bounds[0]}-{bounds[-1]}" for bounds in ranges)
    return re.compile(f"[{word}]+|[^{word}{WHITE_SPACE}]+")


@dataclass(frozen=True)
class BertPreTokenizer(_PatternStep):
    """Split at white space, which is dropped, and at punctuation characters, each of which is a piece.

    >>> BertPreTokenizer().pieces("a, b!?")
    ['a', ',', 'b', '!', '?']
    """

    @property
    def _piece_pattern(self) -> re.Pattern[str]:
        return _compile_bert_pattern()


@cache
def _compile_bert_pattern() -> re.Pattern[str]:
    from bpe.text.character_sets import make_char_class

    char_class = make_char_class("PUNCTUATION")
    return re.compile(f"{char_class}|[^{char_class[1:-1]}{WHITE_SPACE}]+")


@dataclass(frozen=True)
class CharDelimiterSplit(Step):
    """Split at a character, which is dropped.

    >>> CharDelimiterSplit("-").pieces("a-b--c")
    ['a', 'b', 'c']
    """

    delimiter: str

    def __post_init__(self) -> None:
        _check_character("delimiter", self.delimiter)

    def spans(self, text: str) -> list[Span]:
        """Split a text into spans."""
        spans, start = [], 0
        for part in text.split(self.delimiter):
            if part:
                spans.append((start, start + len(part)))
            start += len(part) + 1
        return spans


@dataclass(frozen=True)
class UnicodeScripts(Step):
    """Split where the script changes, with Hiragana and Katakana as Han; spaces belong to any script.

    As in `tokenizers`, characters before the first one with a script are dropped.

    >>> UnicodeScripts().pieces("Apples are りんご 林檎")
    ['Apples are ', 'りんご 林檎']
    """

    def spans(self, text: str) -> list[Span]:
        """Split a text into spans."""
        from bpe.text.character_sets import find_script

        last_script, bounds = None, []
        for i, char in enumerate(text):
            char_script = find_script(char)
            if char_script is not None:
                if char_script != last_script:
                    bounds.append(i)
                last_script = char_script
        return list(pairwise([*bounds, len(text)]))


@dataclass(frozen=True)
class FixedLength(Step):
    """Split into pieces of a number of characters; the last may be shorter.

    >>> FixedLength(3).pieces("abcdefgh")
    ['abc', 'def', 'gh']
    """

    length: int = 5

    def __post_init__(self) -> None:
        check_int("length", self.length, 1)

    def spans(self, text: str) -> list[Span]:
        """Split a text into spans."""
        return [(start, min(start + self.length, len(text))) for start in range(0, len(text), self.length)]


@dataclass(frozen=True)
class Metaspace(Step):
    """Replace each space by a character, put it before a text that does not begin with it, and split before each.

    >>> step = Metaspace()
    >>> step.pieces(step.edit("a  b", begins_text=True)[0])
    ['▁a', '▁', '▁b']
    """

    replacement: str = "▁"
    prepend_scheme: PrependScheme = "always"
    split: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_character("replacement", self.replacement)
        check_choice("prepend_scheme", self.prepend_scheme, get_args(PrependScheme))

    def edit(self, text: str, begins_text: bool) -> tuple[str, int]:
        """Change a piece before it is cut; returns it, and the number of characters that were put in front of it."""
        text = text.replace(" ", self.replacement)
        adds_mark = self.prepend_scheme == "always" or (self.prepend_scheme == "first" and begins_text)
        if not adds_mark or not text or text.startswith(self.replacement):
            return text, 0
        return self.replacement + text, 1

    def spans(self, text: str) -> list[Span]:
        """Split an edited text into spans."""
        if not self.split:
            return [(0, len(text))]
        starts = [match.start() for match in re.finditer(re.escape(self.replacement), text)]
        return list(pairwise([*([] if starts[:1] == [0] else [0]), *starts, len(text)]))

    def pieces(self, text: str) -> list[str]:
        """Split an edited text into pieces."""
        if not self.split:
            return [text]
        prefix, *parts = text.split(self.replacement)
        pieces = [self.replacement + part for part in parts]
        return [prefix, *pieces] if prefix else pieces


@dataclass(frozen=True)
class ByteLevel(Step):
    """Put a space in front of a piece, split it by GPT-2's pattern, and spell its bytes in GPT-2's letters.

    Args:
        add_prefix_space: put a space before a piece that does not begin with one.
        use_regex: split by GPT-2's pattern.

    >>> step = ByteLevel(add_prefix_space=True)
    >>> step.pieces(step.edit("a b", begins_text=True)[0])  # the pipeline spells the bytes
    [' a', ' b']

    """

    add_prefix_space: bool = False
    use_regex: bool = True

    def edit(self, text: str, begins_text: bool) -> tuple[str, int]:
        """Change a piece before it is cut; returns it, and the number of characters that were put in front of it."""
        del begins_text
        if not self.add_prefix_space or not text or text.startswith(" "):
            return text, 0
        return " " + text, 1

    def spans(self, text: str) -> list[Span]:
        """Split an edited text into spans."""
        return _make_gpt2_split().spans(text) if self.use_regex else [(0, len(text))]

    def to_json(self) -> dict[str, Any]:
        """Return the step as tokenizer.json has it."""
        return {
            "type": "ByteLevel",
            "add_prefix_space": self.add_prefix_space,
            "trim_offsets": True,
            "use_regex": self.use_regex,
        }


@cache
def _make_gpt2_split() -> Split:
    return Split(ONIGURUMA_SPELLINGS["gpt2"])


def _check_character(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {describe(value)}; it must be a str of one character")
    if len(value) != 1:
        raise ValueError(f"{name} is {short_repr(value)}; it must be one character")
    check_unicode(name, value)


_KINDS: tuple[type[Step], ...] = (
    BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Split, UnicodeScripts,
    Whitespace, WhitespaceSplit,
)  # fmt: skip
#: The steps, by name.
STEPS: dict[str, type[Step]] = {kind.__name__: kind for kind in _KINDS}


def step_from_json(data: dict[str, Any]) -> Step:
    """Make the step that `Step.to_json` wrote.

    Raises:
        TypeError, ValueError: for anything else.

    >>> step_from_json(Digits().to_json())
    Digits(individual_digits=False)

    """
    fields = dict(data)
    kind = STEPS.get(fields.pop("type", ""))
    if kind is None:
        raise ValueError(
            f"pretokenizer type {short_repr(data.get('type'))} is not known; it must be one of {list(STEPS)}"
        )
    if kind is Split:
        ((name, text),) = dict(fields.pop("pattern", ())).items()
        fields |= {"pattern": text, "literal": name == "String"}
    if kind is ByteLevel:
        fields.pop("trim_offsets", None)
    return kind(**fields)
