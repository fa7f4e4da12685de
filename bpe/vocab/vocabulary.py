"""The vocabulary: maps token ids to bytes.

Ids need not be dense: a rank file leaves gaps before its special tokens, and `first_id` leaves one at the start. The
bytes of all tokens are concatenated in one buffer, which the kernels read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from bpe.base._slices import copy_slices
from bpe.base.forks import cached_property
from bpe.base.offsets import offsets_of
from bpe.errors import pluralize, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The kind of an id: without a token; an ordinary token; a special token or the unknown token.
NONE, ORDINARY, SPECIAL = 0, 1, 2

#: "No token" in tables of ids. The kernels use the same value (`bpe/base/_types.pxd`).
NO_TOKEN = 0xFFFFFFFF
#: `drop_unknown` of symbols that separate others while these are merged, and are left out then.
AFTER_MERGING: Literal["after merging"] = "after merging"
#: All ids are below this limit, so that they fit int32 arrays and leave the kernels a free bit.
ID_LIMIT = 2**31


class Vocabulary:
    """Maps token ids to bytes. Immutable.

    Args:
        tokens: (id, bytes) of every ordinary token.
        special: (id, bytes) of special tokens and the unknown token.

    Attributes:
        blob: the bytes of all tokens in id order, as one bytes object.
        offsets: int64, shape (limit + 1,): token i is `blob[offsets[i]:offsets[i + 1]]`.
        kinds: uint8, shape (limit,): NONE, ORDINARY or SPECIAL.
        limit: one more than the greatest id.

    Raises:
        ValueError: for an id or an ordinary token given twice, an id out of range, or an empty token.

    """

    __slots__ = ("__dict__", "blob", "kinds", "limit", "offsets")

    def __init__(self, tokens: Iterable[tuple[int, bytes]], special: Iterable[tuple[int, bytes]] = ()) -> None:
        entries: dict[int, tuple[bytes, int]] = {}
        for kind, given in ((ORDINARY, tokens), (SPECIAL, special)):
            for token_id, token in given:
                if not 0 <= token_id < ID_LIMIT:
                    raise ValueError(
                        f"token id {token_id} of {short_repr(token)} is out of range; ids are from 0 to {ID_LIMIT - 1}"
                    )
                if token_id in entries:
                    raise ValueError(
                        f"token id {token_id} is given twice: {short_repr(entries[token_id][0])} and "
                        f"{short_repr(token)}"
                    )
                if not token:
                    raise ValueError(f"token id {token_id} has an empty token; a token is at least one byte")
                entries[token_id] = token, kind
        self.limit = _check_limit(max(entries, default=-1) + 1, len(entries))
        lengths = np.zeros(self.limit + 1, dtype=np.int64)
        kinds = np.zeros(self.limit, dtype=np.uint8)
        ordered = sorted(entries.items())
        for token_id, (token, kind) in ordered:
            lengths[token_id + 1] = len(token)
            kinds[token_id] = kind
        self.blob = b"".join(token for _, (token, _) in ordered)
        self._freeze(np.cumsum(lengths), kinds)
        if len(self.ids) != int(np.count_nonzero(kinds == ORDINARY)):
            seen: dict[bytes, int] = {}
            for token_id, (token, kind) in ordered:
                if kind == ORDINARY and seen.setdefault(token, token_id) != token_id:
                    raise ValueError(
                        f"token {short_repr(token)} has two ids, {seen[token]} and {token_id}; a token has one id"
                    )

    @classmethod
    def from_arrays(cls, blob: bytes, offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> Vocabulary:
        """The vocabulary with these `blob`, `offsets` and `kinds`, which are not checked."""
        vocabulary = cls.__new__(cls)
        vocabulary.blob = blob
        vocabulary.limit = len(kinds)
        vocabulary._freeze(offsets, kinds)
        return vocabulary

    @classmethod
    def from_sorted(
        cls,
        blob: bytes,
        offsets: NDArray[np.int64],
        numbers: NDArray[np.int32],
        special: Mapping[int, bytes],
    ) -> Vocabulary:
        """The vocabulary of many ordinary tokens, without a Python object for each, and of a few special tokens.

        Args:
            blob: the bytes of the ordinary tokens, which must be distinct and not empty (not checked).
            offsets: int64: ordinary token i is `blob[offsets[i]:offsets[i + 1]]`.
            numbers: int32: their ids, ascending (not checked).
            special: id → bytes of the special tokens; none of these ids may be in `numbers` (not checked).

        Raises:
            ValueError: for ids with too many gaps.

        >>> vocabulary = Vocabulary.from_sorted(b"abc", np.array([0, 1, 3]), np.array([0, 2], np.int32), {1: b"<s>"})
        >>> list(vocabulary.items())
        [(0, b'a'), (1, b'<s>'), (2, b'bc')]

        """
        vocabulary = cls.__new__(cls)
        last = max([*special, int(numbers[-1]) if len(numbers) else -1])
        vocabulary.limit = _check_limit(last + 1, len(numbers) + len(special))
        kinds = np.zeros(vocabulary.limit, dtype=np.uint8)
        lengths = np.zeros(vocabulary.limit + 1, dtype=np.int64)
        dense = len(numbers) > 0 and int(numbers[-1]) == len(numbers) - 1
        index = slice(len(numbers)) if dense else numbers  # a slice is much faster than an index array
        kinds[index] = ORDINARY
        lengths[1:][index] = np.diff(offsets)
        special_ids = np.array(sorted(special), dtype=numbers.dtype)
        tokens = [special[token_id] for token_id in special_ids.tolist()]
        kinds[special_ids] = SPECIAL
        lengths[1:][special_ids] = list(map(len, tokens))
        # Insert each run of special tokens, tokens[start:end], before the ordinary token that follows it.
        parts, done = [], 0
        following, starts = np.unique(np.searchsorted(numbers, special_ids), return_index=True)
        ends = [*starts.tolist(), len(special_ids)][1:]
        for position, start, end in zip(following.tolist(), starts.tolist(), ends, strict=True):
            parts += [blob[done : int(offsets[position])], *tokens[start:end]]
            done = int(offsets[position])
        vocabulary.blob = b"".join([*parts, blob[done:]])
        vocabulary._freeze(np.cumsum(lengths), kinds)
        return vocabulary

    def extend(self, names: Collection[str]) -> Vocabulary:
        """The vocabulary with more special tokens, whose ids follow the greatest one; the names are not checked."""
        tokens = [name.encode() for name in names]
        ends = self.offsets[-1] + np.cumsum(list(map(len, tokens)), dtype=np.int64)
        kinds = np.full(len(tokens), SPECIAL, dtype=np.uint8)
        return Vocabulary.from_arrays(
            self.blob + b"".join(tokens), np.append(self.offsets, ends), np.append(self.kinds, kinds)
        )

    def take(self, ids: NDArray[np.integer], new_ids: NDArray[np.integer]) -> Vocabulary:
        """The vocabulary of some of the tokens, in ascending order, with new ids that ascend too.

        >>> vocabulary = Vocabulary([(0, b"a"), (1, b"b"), (3, b"ab")]).take(np.array([0, 3]), np.array([2, 4]))
        >>> list(vocabulary.items())
        [(2, b'a'), (4, b'ab')]

        """
        limit = _check_limit(int(new_ids.max(initial=-1)) + 1, len(ids))
        kinds, lengths = np.zeros(limit, dtype=np.uint8), np.zeros(limit, dtype=np.int64)
        kinds[new_ids], lengths[new_ids] = self.kinds[ids], self.lengths[ids]
        blob, _ = join_slices(np.frombuffer(self.blob, dtype=np.uint8), self.offsets[ids], self.lengths[ids])
        return Vocabulary.from_arrays(blob.tobytes(), offsets_of(lengths), kinds)

    def _freeze(self, offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> None:
        self.offsets = offsets
        self.kinds = kinds
        offsets.flags.writeable = False
        kinds.flags.writeable = False

    def __len__(self) -> int:
        """The number of tokens."""
        return int(np.count_nonzero(self.kinds))

    def __contains__(self, token_id: object) -> bool:
        """Whether an id has a token."""
        return isinstance(token_id, int) and 0 <= token_id < self.limit and bool(self.kinds[token_id])

    def __getitem__(self, token_id: int) -> bytes:
        """The bytes of a token; b"" for an id without a token."""
        return self.blob[self.offsets[token_id] : self.offsets[token_id + 1]]

    def items(
        self, kind: int | None = None, longest: int | None = None, shortest: int = 0
    ) -> Iterator[tuple[int, bytes]]:
        """(id, bytes) of the tokens of a kind (None: any) in id order, of `shortest` to `longest` bytes (None: any)."""
        wanted = self.kinds != NONE if kind is None else self.kinds == kind
        if longest is not None:
            wanted = wanted & (self.lengths >= shortest) & (self.lengths <= longest)
        numbers = np.flatnonzero(wanted)
        starts, ends = self.offsets[numbers].tolist(), self.offsets[numbers + 1].tolist()
        for token_id, start, end in zip(numbers.tolist(), starts, ends, strict=True):
            yield token_id, self.blob[start:end]

    def find_ids(self, tokens: Collection[bytes]) -> dict[bytes, int]:
        """The ids of those of `tokens` (none empty) that are ordinary tokens, without an object for each token."""
        found: dict[bytes, int] = {}
        blob = np.frombuffer(self.blob, dtype=np.uint8)
        is_first_byte = np.zeros(256, dtype=np.bool_)
        is_first_byte[[token[0] for token in tokens]] = True
        for size in {len(token) for token in tokens}:
            numbers = np.flatnonzero((self.lengths == size) & (self.kinds == ORDINARY))
            numbers = numbers[is_first_byte[blob[self.offsets[numbers]]]]
            for token_id, start in zip(numbers.tolist(), self.offsets[numbers].tolist(), strict=True):
                found[self.blob[start : start + size]] = token_id
        return {token: found[token] for token in tokens if token in found}

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """Bytes → id of the ordinary tokens."""
        return {token: token_id for token_id, token in self.items(ORDINARY)}

    @cached_property
    def lengths(self) -> NDArray[np.uint32]:
        """The length of each token in bytes; uint32, shape (limit,), 0 for an id without a token."""
        lengths = np.diff(self.offsets).astype(np.uint32)
        lengths.flags.writeable = False
        return lengths


def id_limit(n_tokens: int) -> int:
    """The bound of the ids of `n_tokens` tokens: with greater ids, arrays indexed by id would mostly be gaps."""
    return 64 * n_tokens + 1_000_000


def _check_limit(limit: int, n_tokens: int) -> int:
    """Return `limit`; raise ValueError if it is too large for `n_tokens` tokens."""
    largest = id_limit(n_tokens)
    if limit > largest:
        raise ValueError(
            f"the greatest token id is {limit - 1}; in a vocabulary of {pluralize(n_tokens, 'token')}, ids must be "
            f"below {largest}"
        )
    return limit


def join_slices(
    blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.integer]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Concatenate the slices `blob[starts[i] : starts[i] + lengths[i]]`; returns (bytes, offsets of shape (n + 1,)).

    >>> parts, offsets = join_slices(np.frombuffer(b"abcdef", dtype=np.uint8), np.array([4, 0]), np.array([2, 1]))
    >>> parts.tobytes(), offsets.tolist()
    (b'efa', [0, 2, 3])
    """
    offsets = offsets_of(lengths)
    joined = np.empty(offsets[-1], dtype=np.uint8)
    sizes = np.ascontiguousarray(lengths, dtype=np.int64)
    copy_slices(blob, np.ascontiguousarray(starts), sizes, offsets[:-1], joined)
    return joined, offsets


def find_spelled(
    blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.integer], text: bytes
) -> NDArray[np.bool_]:
    """Which tokens have a text at `starts`; none that is shorter than the text has.

    >>> tokens = np.frombuffer(b"abcabc", dtype=np.uint8)
    >>> find_spelled(tokens, np.array([0, 1, 3]), np.array([3, 2, 1]), b"ab").tolist()
    [True, False, False]

    """
    found = np.asarray(lengths >= len(text))
    for i, byte in enumerate(text):
        found[found] = blob[starts[found] + i] == byte
    return found
