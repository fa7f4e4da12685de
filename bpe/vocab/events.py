"""The events of a PickyBPE tokenizer: its merges, and the deletions of tokens between them.

Encoding does the events in order: a merge at all occurrences of its pair, from left to right, a deletion at all
occurrences of its token, which become the token's parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.base.fast_dataclasses import dataclass, field
from bpe.base.offsets import compute_offsets
from bpe.errors import describe, short_repr
from bpe.vocab.vocabulary import ORDINARY, Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a tokenizer in order. A token is an id of its vocabulary, or -1 - i for deleted token i.

    A token may be deleted and made again, several times; it is a deleted one if it is deleted in the end. No id belongs
    to these, which are numbered in the order in which they are first made.

    Attributes:
        pairs: int32, shape (n, 2): the two tokens of each merge.
        results: int32, shape (n,): the token that each merge makes.
        deletions: int32, shape (m, 2): the number of a merge, ascending, and the one of its two parts that is deleted
            after it.

    """

    pairs: NDArray[np.int32]
    results: NDArray[np.int32]
    deletions: NDArray[np.int32]
    _timelines: list[tuple[Vocabulary, Timeline]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.results) if isinstance(self.results, np.ndarray) else 0
        _check_array("pairs", self.pairs, (n, 2))
        _check_array("results", self.results, (n,))
        _check_array("deletions", self.deletions, (*np.shape(self.deletions)[:1], 2))
        merge_indices = self.deletions[:, 0]
        if len(merge_indices) and (
            merge_indices[0] < 0 or merge_indices[-1] >= n or (merge_indices[1:] < merge_indices[:-1]).any()
        ):
            raise ValueError(
                f"the deletions follow the merges {short_repr(merge_indices.tolist())}; these must ascend, from 0 to "
                f"{n - 1}"
            )

    def renumber(self, new_ids: NDArray[np.int32]) -> Events:
        """Replace ids by new ones, by old id; deleted tokens keep their numbers."""
        pairs, results, deletions = (
            np.where(tokens < 0, tokens, new_ids[np.maximum(tokens, 0)])
            for tokens in (self.pairs, self.results, self.deletions[:, 1])
        )
        return Events(pairs, results, np.stack((self.deletions[:, 0], deletions), axis=1))

    def tobytes(self) -> bytes:
        """Convert the events to bytes, for a fingerprint."""
        arrays = (self.pairs, self.results, self.deletions)
        return b"".join(len(array).to_bytes(8, "little") + array.astype("<i4").tobytes() for array in arrays)


def _check_array(name: str, value: object, shape: tuple[int, ...]) -> None:
    if not isinstance(value, np.ndarray) or value.dtype != np.int32 or value.shape != shape:
        description = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else describe(value)
        raise TypeError(f"events.{name} is {description}; it must be an array of int32 of shape {shape}")
    value.flags.writeable = False


def are_equal_events(a: Events | None, b: Events | None) -> bool:
    """Whether the events of two tokenizers are equal."""
    return (None if a is None else a.tobytes()) == (None if b is None else b.tobytes())


@dataclass(frozen=True)
class Timeline:
    """What the events of a tokenizer do, one after the other.

    Attributes:
        deleted: the bytes of the deleted tokens.
        merge_indices: int32 (n,): the index of each merge among all events.
        split_indices: int32 (m,): the index of each deletion among all events.
        offsets: int64 (m + 1,): deletion i splits its token into `parts[offsets[i]:offsets[i + 1]]`.
        parts: int32: the tokens of all splits.

    """

    deleted: tuple[bytes, ...]
    merge_indices: NDArray[np.int32]
    split_indices: NDArray[np.int32]
    offsets: NDArray[np.int64]
    parts: NDArray[np.int32]


def follow_events(events: Events, vocabulary: Vocabulary) -> Timeline:
    """Follow the events of a tokenizer. They keep the result: checking, encoding and saving all need it.

    Raises:
        ValueError: for events that cannot be those of a training: with tokens that do not exist at their time, with
            results that do not spell their parts, or that leave other tokens than the vocabulary has.

    """
    for cached_vocabulary, timeline in events._timelines:
        if cached_vocabulary is vocabulary:
            return timeline
    live_tokens = _LiveTokens(vocabulary, events)
    deletions, next_deletion = events.deletions.tolist(), 0
    parts_of_deletions: list[list[int]] = []
    for merge_index, ((left, right), result) in enumerate(
        zip(events.pairs.tolist(), events.results.tolist(), strict=True)
    ):
        live_tokens.merge(merge_index, left, right, result)
        while next_deletion < len(deletions) and deletions[next_deletion][0] == merge_index:
            token = deletions[next_deletion][1]
            if token not in (left, right):
                raise ValueError(
                    f"token {token} is deleted after merge {merge_index}, which it is no part of; it must be"
                )
            parts_of_deletions.append(live_tokens.delete(merge_index, token))
            next_deletion += 1
    live_tokens.check_end()
    deletion_merges = events.deletions[:, 0]
    timeline = Timeline(
        tuple(live_tokens.token_bytes[-1 - i] for i in range(live_tokens.n_deleted)),
        np.arange(len(events.results), dtype=np.int32)
        + np.searchsorted(deletion_merges, np.arange(len(events.results))).astype(np.int32),
        (deletion_merges + 1 + np.arange(len(deletion_merges))).astype(np.int32),
        compute_offsets([len(parts) for parts in parts_of_deletions]),
        np.array([part for parts in parts_of_deletions for part in parts], dtype=np.int32),
    )
    events._timelines[:] = [(vocabulary, timeline)]
    return timeline


class _LiveTokens:
    """The tokens that exist after some of the events."""

    def __init__(self, vocabulary: Vocabulary, events: Events) -> None:
        self.token_bytes = dict(vocabulary.items(ORDINARY))
        self._final_tokens = set(self.token_bytes)
        self.live_tokens = self._final_tokens - set(events.results.tolist())
        self._first_parts: dict[int, tuple[int, int]] = {}
        self.n_deleted = 0

    def merge(self, merge_index: int, left: int, right: int, result: int) -> None:
        """Apply a merge."""
        for part in (left, right):
            if part not in self.live_tokens:
                raise ValueError(
                    f"merge {merge_index} has token {part}, which does not exist then; it must be an ordinary token of "
                    "the vocabulary or the result of an earlier merge, and not be deleted"
                )
        token = self.token_bytes[left] + self.token_bytes[right]
        if result == -1 - self.n_deleted:
            self.n_deleted += 1
            self.token_bytes[result] = token
        if self.token_bytes.get(result) != token:
            raise ValueError(
                f"merge {merge_index} makes token {result}, which does not spell {short_repr(token)}; it must"
            )
        self._first_parts.setdefault(result, (left, right))
        self.live_tokens.add(result)

    def delete(self, merge_index: int, token: int) -> list[int]:
        """Apply a deletion; returns the tokens that the deleted one is split into."""
        if token not in self.live_tokens or token not in self._first_parts:
            raise ValueError(
                f"token {token} is deleted after merge {merge_index}, but it does not exist then, or no merge has made "
                "it; only a token that a merge has made can be deleted"
            )
        self.live_tokens.remove(token)
        stack, parts = [token], []
        while stack:
            part = stack.pop()
            if part in self.live_tokens:
                parts.append(part)
            else:
                stack += reversed(self._first_parts[part])
        return parts

    def check_end(self) -> None:
        """Check that the tokens that exist now are those of the vocabulary."""
        unexpected = self.live_tokens ^ self._final_tokens
        if unexpected:
            token_id = min(unexpected, key=abs)
            raise ValueError(
                f"token {token_id}, {short_repr(self.token_bytes[token_id])}, "
                + (
                    "exists after all events, but has no id"
                    if token_id in self.live_tokens
                    else "is deleted by the events"
                )
                + "; the vocabulary must have the tokens that the events leave"
            )
