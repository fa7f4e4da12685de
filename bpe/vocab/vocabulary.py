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
from bpe.base.offsets import compute_offsets
from bpe.errors import ID_LIMIT, pluralize, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The kind of an id: without a token; an ordinary token; a special token or the unknown token.
UNUSED, ORDINARY, SPECIAL = 0, 1, 2

#: "No token" in tables of ids. The kernels use the same value (`bpe/base/_types.pxd`).
NO_TOKEN = 0xFFFFFFFF
#: `drop_unknown` of symbols that separate others while these are merged, and are left out then.
AFTER_MERGING: Literal["after merging"] = "after merging"


class Vocabulary:
    """Maps token ids to bytes. Immutable.

    Args:
        tokens: (id, bytes) of every ordinary token.
        special: (id, bytes) of special tokens and the unknown token.

    Attributes:
        blob: the bytes of all tokens in id order, as one bytes object.
        offsets: int64, shape (limit + 1,): token i is `blob[offsets[i]:offsets[i + 1]]`.
        kinds: uint8, shape (limit,): UNUSED, ORDINARY or SPECIAL.
        limit: one more than the greatest id.

    Raises:
        ValueError: for an id or an ordinary token given twice, an id out of range, or an empty token.

    """

    __slots__ = ("__dict__", "blob", "kinds", "limit", "offsets")

    def __init__(self, tokens: Iterable[tuple[int, bytes]], special: Iterable[tuple[int, bytes]] = ()) -> None:
        entries: dict[int, tuple[bytes, int]] = {}
        for kind, pairs in ((ORDINARY, tokens), (SPECIAL, special)):
            for token_id, token in pairs:
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
        self.limit = check_limit(max(entries, default=-1) + 1, len(entries))
        lengths = np.zeros(self.limit + 1, dtype=np.int64)
        kinds = np.zeros(self.limit, dtype=np.uint8)
        sorted_entries = sorted(entries.items())
        for token_id, (token, kind) in sorted_entries:
            lengths[token_id + 1] = len(token)
            kinds[token_id] = kind
        self.blob = b"".join(token for _, (token, _) in sorted_entries)
        self._freeze(np.cumsum(lengths), kinds)
        if len(self.id_of_token) != int(np.count_nonzero(kinds == ORDINARY)):
            first_ids: dict[bytes, int] = {}
            for token_id, (token, kind) in sorted_entries:
                if kind == ORDINARY and first_ids.setdefault(token, token_id) != token_id:
                    raise ValueError(
                        f"token {short_repr(token)} has two ids, {first_ids[token]} and {token_id}; a token has one id"
                    )

    @classmethod
    def from_arrays(cls, blob: bytes, offsets: NDArray[np.int64], kinds: NDArray[np.uint8]) -> Vocabulary:
        """Create a vocabulary from its `blob`, `offsets` and `kinds`, which are not checked."""
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
        ids: NDArray[np.int32],
        special: Mapping[int, bytes],
    ) -> Vocabulary:
        """Create a vocabulary of many ordinary tokens, without a Python object for each, and of a few special tokens.

        Args:
            blob: the bytes of the ordinary tokens, which must be distinct and not empty (not checked).
            offsets: int64: ordinary token i is `blob[offsets[i]:offsets[i + 1]]`.
            ids: int32: their ids, ascending (not checked).
            special: id → bytes of the special tokens; none of these ids may be in `ids` (not checked).

        Raises:
            ValueError: for ids with too many gaps.

        >>> vocabulary = Vocabulary.from_sorted(b"abc", np.array([0, 1, 3]), np.array([0, 2], np.int32), {1: b"<s>"})
        >>> list(vocabulary.items())
        [(0, b'a'), (1, b'<s>'), (2, b'bc')]

        """
        vocabulary = cls.__new__(cls)
        max_id = max([*special, int(ids[-1]) if len(ids) else -1])
        vocabulary.limit = check_limit(max_id + 1, len(ids) + len(special))
        kinds = np.zeros(vocabulary.limit, dtype=np.uint8)
        lengths = np.zeros(vocabulary.limit + 1, dtype=np.int64)
        is_dense = len(ids) > 0 and int(ids[-1]) == len(ids) - 1
        index = slice(len(ids)) if is_dense else ids  # a slice is much faster than an index array
        kinds[index] = ORDINARY
        lengths[1:][index] = np.diff(offsets)
        special_ids = np.array(sorted(special), dtype=ids.dtype)
        tokens = [special[token_id] for token_id in special_ids.tolist()]
        kinds[special_ids] = SPECIAL
        lengths[1:][special_ids] = list(map(len, tokens))
        # Insert each run of special tokens, tokens[start:end], before the ordinary token that follows it.
        parts, copied_end = [], 0
        insert_positions, starts = np.unique(np.searchsorted(ids, special_ids), return_index=True)
        ends = [*starts.tolist(), len(special_ids)][1:]
        for position, start, end in zip(insert_positions.tolist(), starts.tolist(), ends, strict=True):
            parts += [blob[copied_end : int(offsets[position])], *tokens[start:end]]
            copied_end = int(offsets[position])
        vocabulary.blob = b"".join([*parts, blob[copied_end:]])
        vocabulary._freeze(np.cumsum(lengths), kinds)
        return vocabulary

    def extend(self, names: Collection[str]) -> Vocabulary:
        """Append special tokens, whose ids follow the greatest one; the names are not checked."""
        tokens = [name.encode() for name in names]
        ends = self.offsets[-1] + np.cumsum(list(map(len, tokens)), dtype=np.int64)
        kinds = np.full(len(tokens), SPECIAL, dtype=np.uint8)
        return Vocabulary.from_arrays(
            self.blob + b"".join(tokens), np.append(self.offsets, ends), np.append(self.kinds, kinds)
        )

    def take(self, ids: NDArray[np.integer], new_ids: NDArray[np.integer]) -> Vocabulary:
        """Take some of the tokens, in ascending order, with new ids that ascend too.

        >>> vocabulary = Vocabulary([(0, b"a"), (1, b"b"), (3, b"ab")]).take(np.array([0, 3]), np.array([2, 4]))
        >>> list(vocabulary.items())
        [(2, b'a'), (4, b'ab')]

        """
        limit = check_limit(int(new_ids.max(initial=-1)) + 1, len(ids))
        kinds, lengths = np.zeros(limit, dtype=np.uint8), np.zeros(limit, dtype=np.int64)
        kinds[new_ids], lengths[new_ids] = self.kinds[ids], self.lengths[ids]
        blob, _ = join_slices(np.frombuffer(self.blob, dtype=np.uint8), self.offsets[ids], self.lengths[ids])
        return Vocabulary.from_arrays(blob.tobytes(), compute_offsets(lengths), kinds)

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
        return isinstance(token_id, (int, np.integer)) and bool(0 <= token_id < self.limit and self.kinds[token_id])

    def __getitem__(self, token_id: int) -> bytes:
        """The bytes of a token; b"" for an id without a token."""
        return self.blob[self.offsets[token_id] : self.offsets[token_id + 1]]

    def items(
        self, kind: int | None = None, max_length: int | None = None, min_length: int = 0
    ) -> Iterator[tuple[int, bytes]]:
        """Yield (id, bytes) of the tokens of a kind in id order, of `min_length` to `max_length` bytes; None means
        any.
        """
        is_selected = self.kinds != UNUSED if kind is None else self.kinds == kind
        if max_length is not None:
            is_selected = is_selected & (self.lengths >= min_length) & (self.lengths <= max_length)
        ids = np.flatnonzero(is_selected)
        starts, ends = self.offsets[ids].tolist(), self.offsets[ids + 1].tolist()
        for token_id, start, end in zip(ids.tolist(), starts, ends, strict=True):
            yield token_id, self.blob[start:end]

    def find_ids(self, tokens: Collection[bytes]) -> dict[bytes, int]:
        """Find the ids of those of `tokens` (none empty) that are ordinary tokens, without an object for each token."""
        id_of_token: dict[bytes, int] = {}
        blob = np.frombuffer(self.blob, dtype=np.uint8)
        is_first_byte = np.zeros(256, dtype=np.bool_)
        is_first_byte[[token[0] for token in tokens]] = True
        for size in {len(token) for token in tokens}:
            ids = np.flatnonzero((self.lengths == size) & (self.kinds == ORDINARY))
            ids = ids[is_first_byte[blob[self.offsets[ids]]]]
            for token_id, start in zip(ids.tolist(), self.offsets[ids].tolist(), strict=True):
                id_of_token[self.blob[start : start + size]] = token_id
        return {token: id_of_token[token] for token in tokens if token in id_of_token}

    @cached_property
    def id_of_token(self) -> dict[bytes, int]:
        """Bytes → id of the ordinary tokens."""
        return {token: token_id for token_id, token in self.items(ORDINARY)}

    @cached_property
    def lengths(self) -> NDArray[np.uint32]:
        """The length of each token in bytes; uint32, shape (limit,), 0 for an id without a token."""
        lengths = np.diff(self.offsets).astype(np.uint32)
        lengths.flags.writeable = False
        return lengths


def compute_id_limit(n_tokens: int) -> int:
    """Compute the limit of the ids of `n_tokens` tokens: with greater ids, arrays by id would mostly be gaps."""
    return 64 * n_tokens + 1_000_000


def check_limit(limit: int, n_tokens: int) -> int:
    """Return `limit`; raise ValueError if it is too large for `n_tokens` tokens."""
    max_limit = compute_id_limit(n_tokens)
    if limit > max_limit:
        raise ValueError(
            f"the greatest token id is {limit - 1}; in a vocabulary of {pluralize(n_tokens, 'token')}, ids must be "
            f"below {max_limit}"
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
    offsets = compute_offsets(lengths)
    result = np.empty(offsets[-1], dtype=np.uint8)
    int64_lengths = np.ascontiguousarray(lengths, dtype=np.int64)
    copy_slices(blob, np.ascontiguousarray(starts), int64_lengths, offsets[:-1], result)
    return result, offsets


def has_text_at(
    blob: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.integer], text: bytes
) -> NDArray[np.bool_]:
    """Find which tokens have a text at `starts`: bool by token, False for one that is shorter than the text.

    >>> tokens = np.frombuffer(b"abcabc", dtype=np.uint8)
    >>> has_text_at(tokens, np.array([0, 1, 3]), np.array([3, 2, 1]), b"ab").tolist()
    [True, False, False]

    """
    has_text = np.asarray(lengths >= len(text))
    for i, byte in enumerate(text):
        has_text[has_text] = blob[starts[has_text] + i] == byte
    return has_text
