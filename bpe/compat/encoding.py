"""`Encoding`, the result of encoding with Hugging Face's interface: ids at once, all other columns when they are read.

An encoding is a list of parts: ranges of an input sequence, template tokens, and padding. Truncating, merging and
padding work on parts; tokens, offsets and word ids of a sequence are computed once, for all encodings that share it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bpe.compat._rows import Row
from bpe.encode.offsets import count_spaces_around
from bpe.errors import check_int, check_str, describe

Offsets = tuple[int, int]
#: (tokens, offsets, word ids) of a sequence, one entry for each id.
Columns = tuple[list[str], list[Offsets], list[int | None]]
#: How a row is padded: (length, direction, id, type id, token).
RowPadding = tuple[int, str, int, int, str]


class InputSequence:
    """One input text, or one list of words.

    Args:
        ids: its ids.
        columns: its tokens, offsets and word ids, or a function that computes these.

    """

    __slots__ = ("_columns", "ids")

    def __init__(self, ids: list[int], columns: Columns | Callable[[], Columns]) -> None:
        self.ids = ids
        self._columns = columns

    def compute_columns(self) -> Columns:
        """Return tokens, offsets and word ids; computed once."""
        columns = self._columns
        if not isinstance(columns, tuple):
            self._columns = columns = columns()
            assert len(columns[0]) == len(self.ids), "the tokens are not those of the ids"
        return columns

    def to_encoding(self) -> Encoding:
        """Make an encoding of the whole sequence."""
        return Encoding.from_parts([SequencePart(self, 0, len(self.ids))])


@dataclass(frozen=True, slots=True)
class SequencePart:
    """Tokens `start` to `stop` of an input sequence.

    Attributes:
        trims: for each post-processor that removes white space from offsets: whether the text has a prefix space, and
            the token that was the first of the part.

    """

    sequence: InputSequence
    start: int
    stop: int
    type_id: int = 0
    trims: tuple[tuple[bool, int], ...] = ()

    def __len__(self) -> int:
        return self.stop - self.start

    def cut(self, start: int, stop: int) -> SequencePart:
        """Return a range of this part."""
        return replace(self, start=self.start + start, stop=self.start + stop)

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return self.sequence.ids[self.start : self.stop]

    @property
    def tokens(self) -> list[str]:
        """The spelling of each token."""
        return self.sequence.compute_columns()[0][self.start : self.stop]

    @property
    def word_ids(self) -> list[int | None]:
        """The word of each token."""
        return self.sequence.compute_columns()[2][self.start : self.stop]

    @property
    def attention_mask(self) -> list[int]:
        """1 for each token."""
        return [1] * len(self)

    @property
    def special_tokens_mask(self) -> list[int]:
        """0 for each token."""
        return [0] * len(self)

    @property
    def offsets(self) -> list[Offsets]:
        """The offsets, trimmed."""
        spans = self.sequence.compute_columns()[1][self.start : self.stop]
        for has_prefix_space, first in self.trims:
            spans = [
                trim_span(token, span, has_prefix_space and (index == first or span[0] == 0))
                for index, (token, span) in enumerate(zip(self.tokens, spans, strict=True), self.start)
            ]
        return spans


@dataclass(frozen=True, slots=True)
class FixedPart:
    """Tokens that no input produced: a template's, or padding.

    Attributes:
        offset: where each begins and ends: 0, unless encodings whose offsets grow are merged.

    """

    known_ids: tuple[int, ...]
    known_tokens: tuple[str, ...]
    type_id: int = 0
    attention: int = 1
    offset: int = 0

    def __len__(self) -> int:
        return len(self.known_ids)

    def cut(self, start: int, stop: int) -> FixedPart:
        """Return a range of this part."""
        return replace(self, known_ids=self.known_ids[start:stop], known_tokens=self.known_tokens[start:stop])

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return list(self.known_ids)

    @property
    def tokens(self) -> list[str]:
        """The spelling of each token."""
        return list(self.known_tokens)

    @property
    def offsets(self) -> list[Offsets]:
        """The offset for each token, where it begins and ends."""
        return [(self.offset, self.offset)] * len(self)

    @property
    def word_ids(self) -> list[int | None]:
        """None for each token."""
        return [None] * len(self)

    @property
    def attention_mask(self) -> list[int]:
        """0 for each token of padding, 1 for others."""
        return [self.attention] * len(self)

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for each token."""
        return [1] * len(self)


Part = SequencePart | FixedPart


def check_unsigned(name: str, value: object, bits: int = 64) -> int:
    """Check an argument that `tokenizers` takes as an unsigned number of `bits` bits; True is 1 there."""
    try:
        return check_int(name, int(value) if isinstance(value, bool) else value, 0, (1 << bits) - 1)
    except ValueError as error:
        raise OverflowError(str(error)) from None


def trim_span(token: str, span: Offsets, has_prefix_space: bool) -> Offsets:
    """Trim the offsets of a token by the white space at its ends, as a ByteLevel post-processor does.

    Args:
        token: the token, in GPT-2's letters.
        span: its offsets.
        has_prefix_space: whether its first space is one that the pretokenizer inserted.

    >>> trim_span("Ġlow", (3, 7), False)
    (4, 7)

    """
    start, end = span
    leading, trailing = count_spaces_around(token)
    if leading > 1 or (leading and not has_prefix_space):  # the pretokenizer inserts one space at most
        start = min(start + leading, end)
    if trailing and end >= trailing:
        end = max(end - trailing, start)
    return start, end


@dataclass(slots=True)
class ResolvedParts:
    """The parts of an encoding, the range of tokens of each input, and what truncation cut off.

    Attributes:
        overflowing: encodings, or a function that makes them: two long texts have thousands of combinations.

    """

    parts: list[Part]
    ranges: dict[int, Offsets]
    overflowing: list[Encoding] | Callable[[], list[Encoding]]

    def make_overflowing(self) -> list[Encoding]:
        """Return what truncation cut off; made at the first call."""
        overflowing = self.overflowing
        if callable(overflowing):
            self.overflowing = overflowing = overflowing()
        return overflowing

    def copy_overflowing(self) -> list[Encoding] | Callable[[], list[Encoding]]:
        """Copy what truncation cut off; a function makes other encodings at each call, so that it is shared."""
        return self.overflowing if callable(self.overflowing) else [encoding.copy() for encoding in self.overflowing]


class Encoding(Row):
    """The ids of one input with everything known about them; the interface of `tokenizers.Encoding`.

    Attributes are computed when they are read. An encoding is changed only by its methods `pad`, `truncate` and
    `set_sequence_id`, which must not run while another thread uses the same encoding.

    >>> import bpe
    >>> from bpe.compat.huggingface import Tokenizer
    >>> tok = Tokenizer.from_native(bpe.train(texts=["low lower lowest"] * 3, vocab_size=260))
    >>> enc = tok.encode("lowest low")
    >>> enc.tokens, enc.offsets, enc.word_ids
    (['low', 'e', 's', 't', 'Ġlow'], [(0, 3), (3, 4), (4, 5), (5, 6), (6, 10)], [0, 0, 0, 0, 1])
    """

    __slots__ = ()

    call: Any  # the `processing.Call` that the encoding is a row of, or None
    resolved: Any  # `ResolvedParts`, or None until `resolve` is called
    padding: RowPadding | None

    @classmethod
    def from_parts(
        cls,
        parts: Iterable[Part],
        ranges: dict[int, Offsets] | None = None,
        overflowing: Iterable[Encoding] | Callable[[], list[Encoding]] = (),
    ) -> Encoding:
        """Make an encoding of these parts."""
        encoding = cls()
        cut_off = overflowing if callable(overflowing) else list(overflowing)
        encoding.set_resolved(ResolvedParts([part for part in parts if len(part)], ranges or {}, cut_off))
        return encoding

    def resolve(self) -> list[Part]:
        """Return the parts, with padding; computed at the first call."""
        if self.resolved is None:
            encoding = Encoding.from_parts([]) if self.call is None else self.call.make_row_encoding(self.row)
            if self.padding is not None:
                encoding._pad(self.padding)
            self.set_resolved(encoding.resolved)
        resolved: ResolvedParts = self.resolved
        return resolved.parts

    def copy(self) -> Encoding:
        """Make a copy that shares the input sequences."""
        return Encoding.from_parts(self.resolve(), dict(self.resolved.ranges), self.resolved.copy_overflowing())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self._to_state({})

    def _to_state(self, copies: dict[int, InputSequence]) -> tuple[Any, ...]:
        """Return the arguments of `_rebuild`; `copies` maps the `id` of a sequence to its copy, which parts share."""
        parts: list[Part] = []
        for part in self.resolve():
            if isinstance(part, SequencePart):
                sequence = part.sequence
                copies.setdefault(id(sequence), InputSequence(sequence.ids, sequence.compute_columns()))
                part = replace(part, sequence=copies[id(sequence)])
            parts.append(part)
        overflowing = self.resolved.make_overflowing()
        return parts, self.resolved.ranges, [encoding._to_state(copies) for encoding in overflowing]

    def __len__(self) -> int:
        if self.resolved is None and self.call is not None:
            length: int = self.call.count_ids(self.row)
            return length if self.padding is None else max(length, self.padding[0])
        return sum(map(len, self.resolve()))

    def __repr__(self) -> str:
        names = "ids, type_ids, tokens, offsets, attention_mask, special_tokens_mask, overflowing"
        return f"Encoding(num_tokens={len(self)}, attributes=[{names}])"

    # Columns ----------------------------------------------------------------------------------------------------------

    @property
    def ids(self) -> list[int]:
        """The ids."""
        if self.resolved is None and self.call is not None:
            ids: list[int] = self.call.compute_row_ids(self.row, self.padding)
            return ids
        return self._join_column("ids")

    @property
    def tokens(self) -> list[str]:
        """The spelling of each token in the vocabulary."""
        return self._join_column("tokens")

    @property
    def offsets(self) -> list[Offsets]:
        """The first character of each token in its input, and the one after its last.

        (0, 0) for template tokens and padding.
        """
        return self._join_column("offsets")

    @property
    def word_ids(self) -> list[int | None]:
        """The number of the word, in its input, that each token is a part of; None for tokens of no input."""
        return self._join_column("word_ids")

    @property
    def words(self) -> list[int | None]:
        """The former name of `word_ids`."""
        warnings.warn("Encoding.words is deprecated; use Encoding.word_ids", DeprecationWarning, stacklevel=2)
        return self.word_ids

    @property
    def type_ids(self) -> list[int]:
        """The type id of each token, as the post-processor gives it."""
        return [type_id for part in self.resolve() for type_id in [part.type_id] * len(part)]

    @property
    def attention_mask(self) -> list[int]:
        """0 for padding, 1 for other tokens."""
        if self.resolved is None and self.call is not None:
            n = self.call.count_ids(self.row)
            if self.padding is None or (missing := self.padding[0] - n) <= 0:
                return [1] * n
            return [1] * n + [0] * missing if self.padding[1] == "right" else [0] * missing + [1] * n
        return self._join_column("attention_mask")

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for template tokens and padding, 0 for tokens of an input."""
        return self._join_column("special_tokens_mask")

    def _join_column(self, column: str) -> list[Any]:
        """Join a column of all parts."""
        values: list[Any] = []
        for part in self.resolve():
            values += getattr(part, column)
        return values

    @property
    def overflowing(self) -> list[Encoding]:
        """What truncation cut off, as encodings."""
        self.resolve()
        return list(self.resolved.make_overflowing())

    @property
    def n_sequences(self) -> int:
        """The number of inputs, 1 or 2."""
        if self.resolved is None:
            return 1 if self.call is None else self.call.n_sequences
        return len(self.resolved.ranges) or 1

    @property
    def sequence_ids(self) -> list[int | None]:
        """The number of the input of each token; None for tokens of no input."""
        self.resolve()
        sequence_ids: list[int | None] = [None] * len(self)
        for sequence in range(self.n_sequences):
            start, stop = self._find_range(sequence)
            sequence_ids[start:stop] = [sequence] * (stop - start)
        return sequence_ids

    # Positions --------------------------------------------------------------------------------------------------------

    def _find_range(self, sequence: int) -> Offsets:
        """Return the first token of an input and the one after its last."""
        self.resolve()
        resolved: ResolvedParts = self.resolved
        return resolved.ranges.get(check_unsigned("sequence_index", sequence), (0, len(self)))

    def token_to_sequence(self, token_index: int) -> int | None:
        """Return the number of the input that a token belongs to."""
        if check_unsigned("token_index", token_index) > len(self):
            return None
        self.resolve()
        if not self.resolved.ranges:
            return 0
        return next(
            (sequence for sequence, (start, stop) in self.resolved.ranges.items() if start <= token_index < stop), None
        )

    def token_to_chars(self, token_index: int) -> Offsets | None:
        """Return the offsets of a token; None if the token belongs to no input."""
        span: Offsets | None = self._find_entry(self.offsets, token_index)
        return span

    def token_to_word(self, token_index: int) -> int | None:
        """Return the number of the word that a token is a part of; None if the token belongs to no input."""
        word: int | None = self._find_entry(self.word_ids, token_index)
        return word

    def _find_entry(self, column: Sequence[Any], token_index: int) -> Any:
        """Return the entry of a token; None if the token belongs to no input."""
        if self.token_to_sequence(token_index) is None or token_index >= len(column):
            return None
        return column[token_index]

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the token that a character of an input is a part of."""
        char_pos, (start, stop) = check_unsigned("char_pos", char_pos), self._find_range(sequence_index)
        offsets = self.offsets
        return next(
            (i for i in range(start, min(stop, len(offsets))) if offsets[i][0] <= char_pos < offsets[i][1]), None
        )

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the word that a character of an input is a part of."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """Return the first token of a word and the one after its last."""
        word_index, (start, stop) = check_unsigned("word_index", word_index, 32), self._find_range(sequence_index)
        indices = []
        for index, word in enumerate(self.word_ids[start:stop], start):
            if word is not None and word > word_index:
                break
            if word == word_index:
                indices.append(index)
        return (indices[0], indices[-1] + 1) if indices else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """Return the offsets of a word."""
        tokens = self.word_to_tokens(word_index, sequence_index)
        if tokens is None:
            return None
        offsets = self.offsets
        return offsets[tokens[0]][0], offsets[tokens[1] - 1][1]

    # Changes ----------------------------------------------------------------------------------------------------------

    def set_sequence_id(self, sequence_id: int) -> None:
        """Give all tokens the number of an input."""
        self.resolve()
        self.resolved.ranges = {check_unsigned("sequence_id", sequence_id): (0, len(self))}

    def set_type_ids(self, type_id: int) -> None:
        """Give all tokens a type id."""
        parts = self.resolve()
        self.resolved.parts = [replace(part, type_id=type_id) for part in parts]

    def trim_offsets(self, has_prefix_space: bool) -> None:
        """Remove white space from the offsets of all tokens of inputs, here and in `overflowing`."""
        parts = self.resolve()
        self.resolved.parts = [
            replace(part, trims=(*part.trims, (has_prefix_space, part.start)))
            if isinstance(part, SequencePart)
            else part
            for part in parts
        ]
        for encoding in self.resolved.make_overflowing():
            encoding.trim_offsets(has_prefix_space)

    def truncate(self, max_length: int, stride: int = 0, direction: str = "right") -> None:
        """Keep `max_length` tokens; the others go to `overflowing`, in pieces of the same length.

        Args:
            max_length: the number of tokens to keep.
            stride: how many tokens each piece shares with the piece before.
            direction: the side from which tokens are removed, "left" or "right".

        Raises:
            ValueError: for another direction, or a stride that is not less than `max_length`.
            OverflowError: for a number below 0.

        """
        if check_str("direction", direction) not in ("left", "right"):
            raise ValueError(f"Invalid truncation direction value : {direction}")
        max_tokens, stride = check_unsigned("max_length", max_length), check_unsigned("stride", stride)
        length = len(self)
        if max_tokens >= length:
            return
        if max_tokens == 0:
            parts, overflowing = [], [self.copy()]
        elif stride >= max_tokens:
            raise ValueError(
                f"stride is {stride}; it must be less than max_length, which is {max_tokens} without template tokens"
            )
        else:
            ranges = _split_range(length, max_tokens, stride, direction)
            parts, *other_parts = [self._cut_parts(start, stop) for start, stop in ranges]
            overflowing = list(map(Encoding.from_parts, other_parts))
        self.resolved.parts, self.resolved.ranges, self.resolved.overflowing = parts, {}, overflowing

    def _cut_parts(self, start: int, stop: int) -> list[Part]:
        """Return the parts of a range of tokens."""
        parts: list[Part] = []
        for part in self.resolve():
            first, last = max(start, 0), min(stop, len(part))
            if first < last:
                parts.append(part.cut(first, last))
            start, stop = start - len(part), stop - len(part)
        return parts

    def pad(
        self, length: int, direction: str = "right", pad_id: int = 0, pad_type_id: int = 0, pad_token: str = "[PAD]"
    ) -> None:
        """Add padding up to a length, here and in `overflowing`.

        Args:
            length: the length.
            direction: the side to pad, "left" or "right".
            pad_id: the id of the padding.
            pad_type_id: the type id of the padding.
            pad_token: the token of the padding.

        Raises:
            ValueError: for another direction.
            OverflowError: for a number below 0, an id above 2**32 - 1 or a length above 2**64 - 1.

        """
        if check_str("direction", direction) not in ("left", "right"):
            raise ValueError(f"Unknown side: `{direction}`. Use `left` or `right`")
        ids = check_unsigned("pad_id", pad_id, 32), check_unsigned("pad_type_id", pad_type_id, 32)
        padding = (check_unsigned("length", length), direction, *ids, check_str("pad_token", pad_token))
        if self.resolved is None and self.padding is None:
            self.set_padding(padding)
        else:
            self.resolve()
            self._pad(padding)

    def _pad(self, padding: RowPadding) -> None:
        length, direction, pad_id, type_id, token = padding
        overflowing = self.resolved.overflowing
        self.resolved.overflowing = (
            partial(_pad_all, overflowing, padding) if callable(overflowing) else _pad_all(overflowing, padding)
        )
        missing = length - sum(map(len, self.resolved.parts))
        if missing <= 0:
            return
        part = FixedPart((pad_id,) * missing, (token,) * missing, type_id, 0)
        if direction == "right":
            self.resolved.parts = [*self.resolved.parts, part]
        else:
            self.resolved.parts = [part, *self.resolved.parts]
            self.resolved.ranges = {
                sequence: (start + missing, stop + missing) for sequence, (start, stop) in self.resolved.ranges.items()
            }

    @staticmethod
    def merge(encodings: Sequence[Encoding], growing_offsets: bool = True) -> Encoding:
        """Merge several encodings into one.

        Args:
            encodings: the encodings.
            growing_offsets: whether the offsets of each encoding continue at the last offset of the encoding before.

        >>> Encoding.merge([]).ids
        []

        """
        encodings, merged_encoding = list(encodings), Encoding.from_parts([])
        for encoding in encodings:
            if not isinstance(encoding, Encoding):
                raise TypeError(f"encodings has {describe(encoding)}; each must be an Encoding")
            merged_encoding = merged_encoding._append_parts(encoding, growing_offsets)
        if any(encoding.resolved.overflowing for encoding in encodings):
            copies = [encoding.copy() for encoding in encodings]  # the caller may change the others
            merged_encoding.resolved.overflowing = partial(_combine_overflowing, copies, growing_offsets)
        return merged_encoding

    def _append(self, other: Encoding, shift_offsets: bool) -> Encoding:
        """Append another encoding; `overflowing` has all combinations."""
        windows, other_windows = self.overflowing, other.overflowing
        overflow_pairs = [
            window._append(following, shift_offsets) for window in windows for following in (other, *other_windows)
        ]
        overflow_pairs += [self._append(following, shift_offsets) for following in other_windows]
        result = self._append_parts(other, shift_offsets)
        result.resolved.overflowing = overflow_pairs
        return result

    def _append_parts(self, other: Encoding, shift_offsets: bool) -> Encoding:
        """Append another encoding, without `overflowing`."""
        parts, length = other.resolve(), len(self)
        if shift_offsets and length and (shift := self.offsets[-1][1]):
            offsets = [(start + shift, end + shift) for start, end in other.offsets]
            sequence = InputSequence(other.ids, (other.tokens, offsets, other.word_ids))
            start, parts = 0, []
            for part in other.resolve():
                stop = start + len(part)
                if isinstance(part, SequencePart):
                    part = replace(part, sequence=sequence, start=start, stop=stop, trims=())
                else:
                    part = replace(part, offset=part.offset + shift)
                parts.append(part)
                start = stop
        ranges = {
            sequence_id: (length + start, length + stop) for sequence_id, (start, stop) in other.resolved.ranges.items()
        }
        return Encoding.from_parts([*self.resolve(), *parts], self.resolved.ranges | ranges)


def _combine_overflowing(encodings: Sequence[Encoding], shift_offsets: bool) -> list[Encoding]:
    """Combine what truncation cut off of several encodings that are merged."""
    merged_encoding = Encoding.from_parts([])
    for encoding in encodings:
        merged_encoding = merged_encoding._append(encoding, shift_offsets)
    return merged_encoding.overflowing


def _pad_all(overflowing: list[Encoding] | Callable[[], list[Encoding]], padding: RowPadding) -> list[Encoding]:
    """Pad what truncation cut off."""
    encodings = overflowing() if callable(overflowing) else overflowing
    for encoding in encodings:
        encoding.pad(*padding)
    return encodings


def _rebuild(parts: list[Part], ranges: dict[int, Offsets], overflowing: list[tuple[Any, ...]]) -> Encoding:
    return Encoding.from_parts(parts, ranges, (_rebuild(*state) for state in overflowing))


def _split_range(length: int, max_length: int, stride: int, direction: str) -> list[Offsets]:
    """Split `length` tokens into the ranges of a truncation; the first range is the one that stays."""
    starts = range(0, length - stride, max_length - stride)
    ranges = [(start, min(start + max_length, length)) for start in starts]
    return ranges if direction == "right" else [(length - stop, length - start) for start, stop in ranges]
