"""`TokenBatch`: the ids of many texts in one flat array, with the offsets of the texts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from bpe.base._id_lists import as_array, as_lists, keep_ints
from bpe.base.offsets import compute_offsets
from bpe.errors import check_bool, check_choice, check_int, check_iterable, describe, pluralize, short_repr

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa
    from numpy.typing import NDArray

#: The texts, and the ids of each, that a notebook's card shows.
_SHOWN_ROWS, _SHOWN_IDS = 10, 16
#: With this many ids, making the shared int objects of `bpe.base._id_lists` pays for lists at once.
_MANY_IDS = 1 << 16


class TokenBatch:
    """Token ids of n texts.

    Attributes:
        ids: uint32 (or uint16), 1-D: the ids of all texts, concatenated.
        offsets: int64, shape (n + 1,), read-only: text i is `ids[offsets[i]:offsets[i + 1]]`.

    The constructor copies the offsets but not the ids, unless these lie at odd addresses.

    >>> batch = TokenBatch.from_lists([[1, 2, 3], [], [4]])
    >>> batch[0], len(batch), batch.offsets
    (array([1, 2, 3], dtype=uint32), 3, array([0, 3, 3, 4]))

    """

    __slots__ = ("ids", "offsets")

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]

    def __init__(self, ids: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        ids, offsets = np.asarray(ids), np.array(offsets)
        if ids.ndim != 1 or ids.dtype not in (np.uint16, np.uint32):
            raise TypeError(f"ids are {ids.dtype} of shape {ids.shape}; they must be uint32 or uint16, 1-D")
        if offsets.ndim != 1 or offsets.dtype != np.int64 or not len(offsets):
            raise TypeError(
                f"offsets are {offsets.dtype} of shape {offsets.shape}; they must be int64, 1-D, n + 1 long"
            )
        _check_offsets(offsets, len(ids))
        offsets.flags.writeable = False
        self.ids, self.offsets = align_array(ids), offsets

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int] | NDArray[Any]]) -> TokenBatch:
        """Make a uint32 batch from rows of ids.

        Args:
            rows: an iterable of lists of int, or of 1-D arrays of an integer type.

        Raises:
            TypeError, ValueError: for ids that are not integers from 0 to 2**32 - 1.

        >>> TokenBatch.from_lists([[1, 2, 3], [], [4]])
        TokenBatch(3 texts, 4 ids, uint32)

        """
        check_iterable("rows", rows, "an iterable of sequences of int")
        arrays = [as_id_array(row) for row in rows]
        offsets = compute_offsets([len(row) for row in arrays])
        ids = np.concatenate(arrays).astype(np.uint32, copy=False) if arrays else np.empty(0, dtype=np.uint32)
        return cls(ids, offsets)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> NDArray[np.uint32]: ...

    @overload
    def __getitem__(self, index: slice) -> TokenBatch: ...

    def __getitem__(self, index: int | slice) -> NDArray[np.uint32] | TokenBatch:
        """Return the ids of one text, or, for a slice, a batch of consecutive texts. Both are views, not copies.

        >>> batch = TokenBatch.from_lists([[1, 2, 3], [], [4]])
        >>> batch[-1], batch[1:].to_list()
        (array([4], dtype=uint32), [[], [4]])
        """
        n = len(self)
        if isinstance(index, slice):
            first, end, step = index.indices(n)
            if step != 1:
                raise ValueError(f"the slice has step {step}; it must be 1 (for other rows, use TokenBatch.from_lists)")
            offsets = self.offsets[first : max(first, end) + 1]
            return TokenBatch(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])
        try:
            index = operator.index(index)
        except TypeError:
            raise TypeError(f"index is {describe(index)}; it must be an int or a slice") from None
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of range; the batch has {pluralize(n, 'text')}")
        index %= n
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[np.uint32]]:
        bounds = self.offsets.tolist()
        for start, end in pairwise(bounds):
            yield self.ids[start:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenBatch):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.ids, other.ids)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TokenBatch({pluralize(len(self), 'text')}, {pluralize(len(self.ids), 'id')}, {self.ids.dtype})"

    def _repr_html_(self) -> str:
        """Draw a card with the first rows, for notebooks."""
        from bpe.show.html import Html, make_card, make_table

        rows = [
            [i, len(self[i]), " ".join(map(str, self[i][:_SHOWN_IDS].tolist())) + " …" * (len(self[i]) > _SHOWN_IDS)]
            for i in range(min(len(self), _SHOWN_ROWS))
        ]
        properties = {"texts": len(self), "ids": len(self.ids), "dtype": str(self.ids.dtype)}
        remainder = f"<p>and {pluralize(len(self) - len(rows), 'more text')}</p>" if len(self) > len(rows) else ""
        return make_card(
            "bpe.TokenBatch", properties, Html(make_table(["text", "length", "ids"], rows) + remainder) if rows else ""
        )

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each text; int64, shape (n,).

        >>> TokenBatch.from_lists([[1, 2, 3], [], [4]]).lengths
        array([3, 0, 1])
        """
        return np.diff(self.offsets)

    def to_list(self) -> list[list[int]]:
        """Return the ids as a list of lists of int.

        >>> TokenBatch.from_lists([[1, 2], [3]]).to_list()
        [[1, 2], [3]]
        """
        ids = np.ascontiguousarray(self.ids, dtype=np.uint32)
        if len(ids) >= _MANY_IDS:
            keep_ints(int(ids.max()) + 1)
        return as_lists(ids, self.offsets)

    def padded(
        self,
        length: int | None = None,
        pad_id: int = 0,
        side: Literal["right", "left"] = "right",
        truncate: bool = False,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the ids as a padded rectangular array, and the length of each row without its padding.

        Args:
            length: the number of columns; None means the length of the longest text.
            pad_id: the id to pad with.
            side: "right" or "left", the side that is padded.
            truncate: whether to drop the ids after `length` in longer texts, instead of raising.

        Returns:
            (ids with the dtype of `ids` and shape (n, length), lengths as int64 with shape (n,)).

        Raises:
            ValueError: for a text longer than `length` unless `truncate` is set.
            TypeError: for the name of a token as `pad_id`.

        >>> TokenBatch.from_lists([[1, 2, 3], [4]]).padded(side="left")
        (array([[1, 2, 3],
               [0, 0, 4]], dtype=uint32), array([3, 1]))

        """
        check_choice("side", side, ("right", "left"))
        check_bool("truncate", truncate)
        argument: object = pad_id
        if isinstance(argument, str):
            fix = f"a batch knows no names: pass the id, tok.special_tokens[{argument!r}]"
            raise TypeError(f"pad_id is {describe(argument)}; it must be an int, and {fix}")
        pad_id = check_int("pad_id", pad_id, 0, int(np.iinfo(self.ids.dtype).max))
        _check_offsets(self.offsets, len(self.ids))
        lengths = self.lengths
        max_length = int(lengths.max(initial=0))
        width = max_length if length is None else check_int("length", length, 0)
        if max_length > width:
            if not truncate:
                i = int(np.argmax(lengths > width))
                raise ValueError(
                    f"text {i} has {pluralize(lengths[i], 'id')}, more than length={width}; pass truncate=True or a "
                    "greater length"
                )
            lengths = np.minimum(lengths, width)
        columns = np.arange(width)
        rows = np.full((len(self), width), pad_id, dtype=self.ids.dtype)
        is_filled = columns < lengths[:, None] if side == "right" else columns >= width - lengths[:, None]
        starts = np.repeat(self.offsets[:-1], lengths)
        offset_in_row = np.arange(len(starts)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows[is_filled] = self.ids[starts + offset_in_row]
        return rows, lengths

    def to_arrow(self) -> pa.LargeListArray:
        """Return the ids as an Arrow large_list array, without a copy (needs the extra `arrow`).

        Raises:
            ModuleNotFoundError: without pyarrow.

        """
        offsets = np.array(self.offsets)  # Arrow keeps a reference and does not check offsets when it reads
        _check_offsets(offsets, len(self.ids))
        arrow = load_pyarrow()
        array: pa.LargeListArray = arrow.LargeListArray.from_arrays(arrow.array(offsets), arrow.array(self.ids))
        return array


def _check_offsets(offsets: NDArray[np.int64], n: int) -> None:
    if offsets[0] != 0 or offsets[-1] != n or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"offsets {short_repr(offsets)} must rise from 0 to the number of ids, {n}")


def as_id_array(ids: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    """Return a sequence of ids as a 1-D array of an integer type.

    Raises:
        TypeError: for floats, objects, bools, or more than one dimension.
        ValueError: for a number below 0 or above 2**32 - 1.

    """
    if type(ids) is list:
        with suppress(TypeError, OverflowError):  # those below say more
            return as_array(ids)
    try:
        array = np.asarray(ids)
    except ValueError:  # rows of different lengths
        raise TypeError(
            f"ids is {short_repr(ids)}; it must be one sequence of int (decode_batch takes several)"
        ) from None
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.uint32)
    if array.ndim == 0:
        raise TypeError(f"ids is {describe(ids)}; it must be a sequence of int: a list or an array")
    if array.ndim != 1:
        raise TypeError(f"ids have shape {array.shape}; they must be one sequence (decode_batch takes several)")
    if have_no_integer_type(ids, array):
        for token_id in ids:
            if not 0 <= token_id <= 0xFFFFFFFF:
                raise ValueError(f"token id {token_id} is out of range; ids are from 0 to 2**32 - 1")
        return np.array(ids, dtype=np.uint32)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"ids are of dtype {array.dtype}; they must be integers: an array of an integer type or a list of int"
        )
    if array.dtype not in (np.uint32, np.uint16, np.uint8) and (array.min() < 0 or array.max() > 0xFFFFFFFF):
        invalid_id = array[(array < 0) | (array > 0xFFFFFFFF)][0]
        raise ValueError(f"token id {invalid_id} is out of range; ids are from 0 to 2**32 - 1")
    return align_array(array)


def have_no_integer_type(ids: Sequence[int] | NDArray[Any], array: NDArray[Any]) -> bool:
    """Whether a sequence has ints for which NumPy has no integer type together, such as 2**64, or -1 and 2**63."""
    if isinstance(ids, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "fO":
        return False
    return len(ids) > 0 and all(isinstance(token_id, (int, np.integer)) for token_id in ids)


def align_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a copy if its numbers do not lie at addresses that kernels may read them from."""
    return array if array.flags.aligned else array.copy()


def load_pyarrow(user: str = "to_arrow") -> ModuleType:
    """Import pyarrow.

    Args:
        user: the name of what needs it, for the error.

    Raises:
        ModuleNotFoundError: where it is not installed.

    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{user} needs pyarrow; install the extra: pip install 'bytepair[arrow]'") from None
    module: ModuleType = pa
    return module
