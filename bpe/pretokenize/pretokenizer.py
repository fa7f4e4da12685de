"""Pretokenizers: rules that split a text into pretokens, the pieces that merges never cross.

Each pattern is a regular expression of the `regex` package, which defines the result. The published patterns also have
a scanner in `bpe/pretokenize/_scanner.pyx`, which finds the same pretokens faster.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bpe.base.forks import cached_property
from bpe.base.utf8 import Bytes, TextLike, compute_byte_offsets, decode_losslessly, to_bytes
from bpe.errors import check_bool, check_choice, describe, get_log, short_repr
from bpe.pretokenize import _scanner, _word_scanner
from bpe.pretokenize._piece_scanner import PieceRules, find_pretoken_spans
from bpe.pretokenize.patterns import (
    ALIASES,
    METASPACE,
    NAMES,
    PATTERNS,
    SECOND_STAGE_PATTERNS,
    SPELLINGS,
    WHOLE_TEXT,
    WORD_PATTERNS,
)
from bpe.pretokenize.pipeline import Pipeline, Segment
from bpe.pretokenize.steps import ByteLevel, Metaspace, Step, step_from_json
from bpe.text.matching import check_timeout

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "NAMES",
    "PipelinePretokenizer",
    "Pretokenizer",
    "PretokenizerLike",
    "as_pretokenizer",
    "check_unicode_version",
    "get_scanner",
]

#: How text between matches is treated.
Gaps = Literal["drop", "keep", "error"]


class Pretokenizer:
    r"""A rule that splits text into pretokens. Immutable, compared and hashed by content, and picklable.

    `Pretokenizer("gpt2")` takes a name, `Pretokenizer.from_regex` any pattern of the `regex` package.

    Args:
        name: the name of a published pattern: `gpt2` (also r50k, p50k), `cl100k`, `o200k` (also gpt_oss, llama4),
            `llama3` (also glm4, phi4), `qwen2` (also qwen2.5, qwen3), `tekken` (Mistral), `deepseek_v3` (also
            deepseek_r1), `starcoder` (also command_r, granite, smollm), `clip`, `whitespace`.
        add_prefix_space: insert a space before a text that does not begin with one, as Hugging Face's ByteLevel can.

    Attributes:
        name: the published name, or None for a custom pattern.
        pattern: the regular expression.
        gaps: the treatment of text between matches: "drop" (as in tiktoken), "keep" (it is a pretoken) or "error".
        add_prefix_space: see the argument.
        timeout: the time limit in seconds for matching one text with the `regex` package; None means 10 s plus 1 s for
            each million characters. It never changes a pretoken, so it is neither saved nor compared.

    Raises:
        ValueError: for an unknown name.

    >>> Pretokenizer("gpt2").split("Hello, world!")
    ['Hello', ',', ' world', '!']
    >>> Pretokenizer.from_regex(r"\d+|\D+").split("abc123")
    ['abc', '123']

    """

    __slots__ = ("__dict__", "add_prefix_space", "gaps", "name", "pattern", "timeout")

    name: str | None
    pattern: str
    gaps: Gaps
    add_prefix_space: bool
    timeout: float | None

    def __init__(self, name: str, *, add_prefix_space: bool = False) -> None:
        name = ALIASES.get(name, name) if isinstance(name, str) else name
        if name not in NAMES and isinstance(name, str) and not re.fullmatch(r"[\w.-]*", name):
            raise ValueError(
                f"pretokenizer is {short_repr(name)}, which is not a name; pass a regular expression as "
                "bpe.Pretokenizer.from_regex(pattern)"
            )
        name = check_choice("pretokenizer", name, NAMES)
        self._set(name, PATTERNS[name].expression, "drop", add_prefix_space)

    @classmethod
    def from_regex(
        cls, pattern: str, *, gaps: Gaps = "drop", add_prefix_space: bool = False, timeout: float | None = None
    ) -> Pretokenizer:
        r"""Create a pretokenizer from a regular expression in the syntax of the `regex` package.

        Every match is a pretoken. Text between matches is dropped, with a warning in the log the first time
        (`gaps="drop"`), is a pretoken (`gaps="keep"`) or raises ValueError (`gaps="error"`). A pattern that equals a
        published one gets its name and its scanner. `add_prefix_space` is the same as for the class.

        Some patterns take exponential time on some texts, for example `(a|a)+b` on many `a`. If matching one text takes
        more than `timeout` seconds (None: 10 s plus 1 s for each million characters; `math.inf`: no limit), encoding or
        counting raises TimeoutError. The limit never changes a result. `with_timeout` sets another one, also of a
        tokenizer that was loaded: `bpe.Tokenizer.load(path, timeout=60)`.

        Raises:
            TypeError: if the pattern is not a str.
            ValueError: for a pattern that does not compile, for one that searches from right to left (`(?r)`), and for
                one with `&&` in a class. Rust and Oniguruma read `&&` as an intersection; the `regex` package does so
                only after `(?V1)` at the start.

        >>> Pretokenizer.from_regex(r"\S+").name
        'whitespace'
        >>> Pretokenizer.from_regex(r"[a-z]+", gaps="keep").split("ab 12cd")
        ['ab', ' 12', 'cd']

        """
        if not isinstance(pattern, str):
            raise TypeError(f"pattern is {describe(pattern)}; it must be a str")
        check_choice("gaps", gaps, ("drop", "keep", "error"))
        pretokenizer = cls.__new__(cls)
        name = SPELLINGS.get(pattern)
        if name in ("clip", "whitespace") and gaps == "keep":
            name = None
        if name is not None:
            pattern, gaps = PATTERNS[name].expression, "drop"
        pretokenizer._set(name, pattern, gaps, add_prefix_space, check_timeout(timeout))
        if name is None:
            _check_intersections(pattern)
            pretokenizer._compiled  # noqa: B018 (compiles the pattern now, so that an invalid one raises here)
        return pretokenizer

    def with_timeout(self, timeout: float | None) -> Pretokenizer:
        r"""Make a copy with another time limit for matching one text.

        >>> Pretokenizer.from_regex(r"\d+|\D+").with_timeout(60).timeout
        60.0
        """
        pretokenizer = type(self).__new__(type(self))
        pretokenizer._set(self.name, self.pattern, self.gaps, self.add_prefix_space, check_timeout(timeout))
        return pretokenizer

    def _set(
        self, name: str | None, pattern: str, gaps: Gaps, add_prefix_space: bool, timeout: float | None = None
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "gaps", gaps)
        object.__setattr__(self, "add_prefix_space", check_bool("add_prefix_space", add_prefix_space))
        object.__setattr__(self, "timeout", timeout)

    # Use --------------------------------------------------------------------------------------------------------------

    @property
    def unicode_version(self) -> str | None:
        """The Unicode version that defines letters and numbers for this pattern; None for a custom pattern.

        A named pattern uses, on every machine, the version of the libraries whose ids it reproduces
        (`docs/unicode.md`). A custom pattern uses the version of the installed `regex` package.

        >>> Pretokenizer("gpt2").unicode_version, Pretokenizer("clip").unicode_version
        ('16.0', '18.0')
        """
        if self.name is None:
            return None
        return _scanner.CLIP_UNICODE_VERSION if self.name == "clip" else _scanner.UNICODE_VERSION

    def split(self, text: str) -> list[str]:
        """Split a text into pretokens, in order.

        >>> Pretokenizer("whitespace").split("  two words ")
        ['two', 'words']
        """
        return [decode_losslessly(piece) for piece in self.split_bytes(to_bytes(text))]

    def split_bytes(self, text: TextLike) -> list[bytes]:
        """Split a text, a str or bytes, into pretokens as bytes. Invalid UTF-8 is allowed."""
        return self.segment(to_bytes(text)).pretokens()

    @property
    def changes_text(self) -> bool:
        """Whether a segment may have other bytes than the text that it was made from."""
        return self.add_prefix_space

    @property
    def scanner(self) -> int | None:
        """The number of this pattern's scanner; None if the `regex` package matches it."""
        return None if self.name is None else PATTERNS[self.name].scanner

    def segment(self, data: Bytes, begins_text: bool = True) -> Segment:
        """Make the segment of normalized text between special tokens; `begins_text` says whether it begins the text."""
        return Segment(bytes(self.edit_for_scanner(data, begins_text)), self)

    def edit_for_scanner(self, data: Bytes, begins_text: bool = True) -> Bytes:
        """Put a space before `data` if `add_prefix_space` is set and `data` does not begin with one."""
        del begins_text
        if self.add_prefix_space and len(data) and data[0] != 0x20:
            return b" " + data
        return data

    def spans(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the starts and the ends of the pretokens of a segment: two int64 arrays of byte offsets."""
        if self.scanner is not None:
            return _scanner.find_spans(self.scanner, data)
        bounds = np.array([0, len(data)], dtype=np.int64)
        return self.find_spans_of_texts(data, bounds[:1], bounds[1:])

    def find_spans_of_texts(
        self, data: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the starts and ends of the pretokens in the texts `data[starts[i]:ends[i]]`, without a scanner.

        They are in order within a text; the texts may be in another order.
        """
        all_starts: list[NDArray[np.int64]] = [starts[:0]]
        all_ends: list[NDArray[np.int64]] = [ends[:0]]
        remaining_texts = np.arange(len(starts))
        if self.gaps == "keep" and len(data):
            if self.pattern in SECOND_STAGE_PATTERNS:
                return find_pretoken_spans(_make_second_stage_rules(self.pattern), data, starts, ends)
            if self.pattern in WORD_PATTERNS:
                starts_of_text, ends_of_text, remaining_texts = _word_scanner.find_spans(
                    WORD_PATTERNS[self.pattern], data, starts, ends
                )
                all_starts.append(starts_of_text)
                all_ends.append(ends_of_text)
        for start, end in zip(starts[remaining_texts].tolist(), ends[remaining_texts].tolist(), strict=True):
            starts_of_text, ends_of_text = self.find_spans_by_regex(bytes(data[start:end]))
            all_starts.append(starts_of_text + start)
            all_ends.append(ends_of_text + start)
        return np.concatenate(all_starts), np.concatenate(all_ends)

    def find_spans_by_regex(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find pretokens by the `regex` package, for any pattern, which sees an invalid byte as a lone surrogate."""
        from bpe.text.character_sets import mask_new_characters
        from bpe.text.matching import find_matches, run_within_time

        text = decode_losslessly(data)
        masked_text = text if self.name is not None else mask_new_characters(text, self.pattern)
        compiled_pattern = self._compiled

        def match_bounds(timeout: float | None) -> NDArray[np.int64]:
            matches = find_matches(compiled_pattern, masked_text, timeout)
            return np.fromiter((bound for match in matches for bound in match.span()), dtype=np.int64)

        bounds = run_within_time(self.pattern, text, self.timeout, match_bounds)
        starts, ends = bounds[0::2], bounds[1::2]
        if self.gaps == "keep":
            bounds = np.concatenate((np.zeros(1, dtype=np.int64), bounds, np.array([len(text)], dtype=np.int64)))
            starts, ends = bounds[:-1], bounds[1:]
        elif int((ends - starts).sum()) < len(text) and self.name is None:
            self._report_gap(text, starts, ends)
        is_nonempty = starts < ends
        starts, ends = starts[is_nonempty], ends[is_nonempty]
        if len(text) != len(data):
            offsets = compute_byte_offsets(text)
            starts, ends = offsets[starts], offsets[ends]
        return starts, ends

    def _report_gap(self, text: str, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Report text that the pattern does not match: raise with gaps="error", else warn once per object."""
        if self.gaps != "error" and self.__dict__.get("_gap_reported"):
            return
        gaps = zip([0, *ends.tolist()], [*starts.tolist(), len(text)], strict=True)
        start, end = next((start, end) for start, end in gaps if start < end)
        problem = (
            f"pattern {short_repr(self.pattern)} does not match all of a text: "
            f"{short_repr(text[start : min(end, start + 40)])}"
        )
        if self.gaps == "error":
            raise ValueError(f"{problem}; extend the pattern, or pass gaps='keep' or gaps='drop'")
        self.__dict__["_gap_reported"] = True
        get_log().warning("%s; unmatched text is dropped (gaps='keep' keeps it, gaps='error' raises)", problem)

    # Identity ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _compiled(self) -> Any:
        # The patterns come from Rust's engines, where \s is the White_Space property. In older releases of the
        # `regex` package it also matches U+001C to U+001F.
        import regex

        from bpe.text.matching import compile_pattern

        expression = regex.sub(r"(\\\\)|\\s", lambda m: m[1] or r"\p{White_Space}", self.pattern)
        expression = regex.sub(r"(\\\\)|\\S", lambda m: m[1] or r"\P{White_Space}", expression)
        return compile_pattern(expression)

    def to_json(self) -> dict[str, Any]:
        """Return the pretokenizer as a JSON object, for `from_json`."""
        if self.name is not None:
            return {"name": self.name, "add_prefix_space": self.add_prefix_space}
        return {"pattern": self.pattern, "gaps": self.gaps, "add_prefix_space": self.add_prefix_space}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Pretokenizer:
        """Create a pretokenizer from the result of `to_json`; raises TypeError or ValueError for anything else."""
        data = dict(data)
        if "steps" in data:
            return PipelinePretokenizer(*map(step_from_json, data["steps"]), letters=data.get("letters", False))
        return cls(data.pop("name"), **data) if "name" in data else cls.from_regex(data.pop("pattern"), **data)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Pretokenizer is immutable: {name} cannot be set; make a new one")

    def _key(self) -> tuple[str | None, str, str, bool]:
        return self.name, self.pattern, self.gaps, self.add_prefix_space

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Pretokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self.name, self.pattern, self.gaps, self.add_prefix_space, self.unicode_version, self.timeout
        return _rebuild, settings

    def __repr__(self) -> str:
        prefix = ", add_prefix_space=True" if self.add_prefix_space else ""
        if self.name is not None:
            return f"Pretokenizer({self.name!r}{prefix})"
        gaps = "" if self.gaps == "drop" else f", gaps={self.gaps!r}"
        return f"Pretokenizer.from_regex({self.pattern!r}{gaps}{prefix})"


def _rebuild(
    name: str | None,
    pattern: str,
    gaps: Gaps,
    add_prefix_space: bool,
    unicode_version: str | None = None,
    timeout: float | None = None,
) -> Pretokenizer:
    if name is None:
        return Pretokenizer.from_regex(pattern, gaps=gaps, add_prefix_space=add_prefix_space, timeout=timeout)
    pretokenizer = Pretokenizer(name, add_prefix_space=add_prefix_space).with_timeout(timeout)
    check_unicode_version(pretokenizer, unicode_version)
    return pretokenizer


def check_unicode_version(pretokenizer: Pretokenizer | None, version: object) -> None:
    """Check the Unicode version that was saved with a pretokenizer: it must be None (not recorded) or the current one.

    Raises:
        ValueError: for another version.

    """
    current_version = None if pretokenizer is None else pretokenizer.unicode_version
    if version not in (None, current_version):
        raise ValueError(
            f"unicode_version is {short_repr(version)}; in this release it is {current_version!r} for "
            f"{pretokenizer!r}, and characters assigned in the later version may be split differently; use a release "
            "with that version, or remove unicode_version to use this one"
        )


class PipelinePretokenizer(Pretokenizer):
    """Several steps of `bpe.pretokenizers`, applied one after the other as in Hugging Face's `tokenizers`.

    A step may change the text, so pretokens need not be parts of it: `segment` returns them.

    Args:
        steps: the steps, in order.
        letters: whether a normalizer spells the text in GPT-2's letters, which the steps then see.

    Raises:
        TypeError: for something that is not a step.
        ValueError: for a ByteLevel where the text is spelled in letters already, or a Metaspace after it.

    >>> from bpe.pretokenize.steps import Digits, Metaspace
    >>> PipelinePretokenizer(Metaspace(), Digits()).split("in 1984")
    ['▁in', '▁', '1984']

    """

    __slots__ = ("letters", "pipeline", "steps")

    steps: tuple[Step, ...]
    letters: bool
    pipeline: Pipeline

    def __init__(self, *steps: Step, letters: bool = False) -> None:
        in_letters = letters = check_bool("letters", letters)
        for step in steps:
            if not isinstance(step, Step):
                raise TypeError(f"a step is {describe(step)}; it must be one of bpe.pretokenizers")
            if in_letters and isinstance(step, (ByteLevel, Metaspace)):
                raise ValueError(f"{step!r} follows a ByteLevel, after which the text is spelled in letters; move it")
            in_letters = in_letters or isinstance(step, ByteLevel)
        self._set_steps(steps, letters, None)

    def _set_steps(self, steps: tuple[Step, ...], letters: bool, timeout: float | None) -> None:
        self._set(None, "", "drop", add_prefix_space=False, timeout=timeout)
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "letters", letters)
        object.__setattr__(self, "pipeline", Pipeline(steps, letters, timeout))

    @property
    def byte_level(self) -> bool:
        """Whether a ByteLevel, here or in the normalizer, spells the text in letters, as a byte model needs it."""
        return self.letters or any(isinstance(step, ByteLevel) for step in self.steps)

    @property
    def changes_text(self) -> bool:
        """Whether a segment may have other bytes than the text that it was made from."""
        return True

    @property
    def scanner(self) -> int | None:
        """The number of the scanner that finds the pretokens after `edit_for_scanner`; None for most steps."""
        step = self._metaspace
        if step is None:
            return None
        return METASPACE if step.split else WHOLE_TEXT

    @cached_property
    def _metaspace(self) -> Metaspace | None:
        """The only step, if it is a Metaspace that a scanner covers: whole, or split before each `▁`."""
        step = self.steps[0] if len(self.steps) == 1 else None
        return step if isinstance(step, Metaspace) and (step.replacement == "▁" or not step.split) else None

    def edit_for_scanner(self, data: Bytes, begins_text: bool = True) -> Bytes:
        """For a Metaspace alone, replace spaces by its character and prepend it; else return the text itself."""
        step = self._metaspace
        if step is None or not len(data):
            return data
        mark = step.replacement.encode()
        marked_text = bytes(data).replace(b" ", mark)
        adds_mark = step.prepend_scheme == "always" or (step.prepend_scheme == "first" and begins_text)
        return mark + marked_text if adds_mark and not marked_text.startswith(mark) else marked_text

    def segment(self, data: Bytes, begins_text: bool = True) -> Segment:
        """Make the segment of normalized text between special tokens; `begins_text` says whether it begins the text."""
        if self.scanner is not None:
            return super().segment(data, begins_text)
        return self.pipeline.split(decode_losslessly(bytes(data)), begins_text)

    def spans(self, data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the starts and the ends of the pretokens of a segment, where the steps have a scanner.

        Raises:
            TypeError: for other steps, which change the text while they split it: use `segment`.

        """
        if self.scanner is None:
            raise TypeError("these steps change the text, so their pretokens are no spans of it; use segment")
        return _scanner.find_spans(self.scanner, data)

    def with_timeout(self, timeout: float | None) -> PipelinePretokenizer:
        """Make a copy with another time limit for matching all patterns of the steps on one text.

        None means 10 s plus 1 s for each 10,000 characters.
        """
        pretokenizer = type(self).__new__(type(self))
        pretokenizer._set_steps(self.steps, self.letters, check_timeout(timeout))
        return pretokenizer

    def to_json(self) -> dict[str, Any]:
        """Return the pretokenizer as a JSON object, for `Pretokenizer.from_json`."""
        return {"steps": [step.to_json() for step in self.steps], "letters": self.letters}

    def _key(self) -> Any:
        return self.steps, self.letters

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_pipeline, (self.steps, self.letters, self.timeout)

    def __repr__(self) -> str:
        arguments = ", ".join(map(repr, self.steps))
        return f"PipelinePretokenizer({arguments}{', letters=True' if self.letters else ''})"


def _rebuild_pipeline(steps: tuple[Step, ...], letters: bool, timeout: float | None = None) -> PipelinePretokenizer:
    return PipelinePretokenizer(*steps, letters=letters).with_timeout(timeout)


#: The types of an argument named `pretokenizer`, apart from None.
PretokenizerLike = Pretokenizer | str | Step | Sequence[Step]


def as_pretokenizer(value: PretokenizerLike | None) -> Pretokenizer | None:
    """Convert the argument `pretokenizer`: a Pretokenizer, the name of one, steps, or None (the text is one word)."""
    if value is None or isinstance(value, Pretokenizer):
        return value
    if value == "metaspace":
        return PipelinePretokenizer(Metaspace())
    if isinstance(value, str):
        return Pretokenizer(value)
    if isinstance(value, Step):
        return PipelinePretokenizer(value)
    if isinstance(value, (list, tuple)):
        return PipelinePretokenizer(*value)
    raise TypeError(
        f"pretokenizer is {describe(value)}; it must be a name ({', '.join(NAMES)}, metaspace), a bpe.Pretokenizer, "
        "steps of bpe.pretokenizers, or None"
    )


def get_scanner(pretokenizer: Pretokenizer | None) -> int | None:
    """Return the number of the scanner of a pretokenizer; None if the `regex` package matches its pattern."""
    return WHOLE_TEXT if pretokenizer is None else pretokenizer.scanner


def _check_intersections(pattern: str) -> None:
    """Raise ValueError for `&&` in a class without `(?V1)`: in a pattern from another engine it is an intersection."""
    import regex

    if regex.match(r"\(\?\w*V1", pattern):
        return
    for character_class in regex.finditer(r"\\.|\[\^?\]?(?:\\.|[^\\\]])*+", pattern, regex.DOTALL):
        if "&&" in regex.sub(r"\\.", "", character_class[0], flags=regex.DOTALL):
            raise ValueError(
                f"pattern is {short_repr(pattern)}; its class {short_repr(character_class[0])} has &&, which is two "
                "characters in `regex` and an intersection in other engines; put (?V1) in front for an intersection, "
                r"or write \& for each &"
            )


@cache
def _make_second_stage_rules(pattern: str) -> PieceRules:
    """Make the rules by which the kernel finds the pretokens of one of SECOND_STAGE_PATTERNS, but no pieces."""
    from bpe.text.character_sets import find_character_classes

    no_groups = np.zeros(256, dtype=np.uint8)
    return PieceRules(no_groups, no_groups, SECOND_STAGE_PATTERNS[pattern], find_character_classes())
