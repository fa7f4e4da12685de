"""The merges, symbols and tokens of a vocabulary, as the kernels take them, and the checks of these arrays.

The kernels check the arrays once, before they keep a pointer, and read them without bounds as long as they live: nobody
may write to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.base.fast_dataclasses import dataclass
from bpe.vocab.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MergeList:
    """Merges, best rank first.

    Attributes:
        pairs: int32, shape (n, 2): the two tokens of each merge.
        results: int32, shape (n,): the token that each makes.
        ranks: int32, shape (n,): rising; merges of equal rank have one result. None if merge i has the rank i, as in
            most vocabularies: making the array would take a tenth of the time of loading one.
        limit: the largest id + 1.
        unmerged: int32: tokens that merging their own bytes does not give; None if unknown.

    """

    pairs: NDArray[np.int32]
    results: NDArray[np.int32]
    ranks: NDArray[np.int32] | None
    limit: int
    unmerged: NDArray[np.int32] | None = None

    @property
    def rank_array(self) -> NDArray[np.int32]:
        """`ranks`, made if it is None."""
        return np.arange(len(self.results), dtype=np.int32) if self.ranks is None else self.ranks


@dataclass(frozen=True)
class SymbolTables:
    """The tokens of single symbols.

    Attributes:
        inner_ids: uint32: the token of each byte or code point; NO_TOKEN outside the alphabet.
        last_ids: uint32: the same at the last position of a word.
        mark_id: the end-of-word mark if it is a symbol of its own, else NO_TOKEN.
        unk_id: the unknown token, or NO_TOKEN.
        fuse_unk: whether adjacent unknown symbols become one unknown token.
        is_char_model: whether symbols are characters, not bytes.
        first_ids: uint32: the same as `inner_ids` for the first position of a word; None if it is no different.
        only_ids: uint32: the same for the only symbol of a word; None if `last_ids` has it.
        byte_ids: uint32, shape (256,): the tokens of the bytes of symbols outside the alphabet; None if these are not
            written as bytes.
        prefix: the bytes that all symbols of a word but the first have in the vocabulary, not in the text.
        suffix: the bytes that the last one has there.
        drop_unknown: False: an unknown symbol is an error or the unknown token; True: it is left out before merging,
            and its neighbours may merge; `AFTER_MERGING`: it separates them, and is left out then.

    """

    inner_ids: NDArray[np.uint32]
    last_ids: NDArray[np.uint32]
    mark_id: int
    unk_id: int
    fuse_unk: bool
    is_char_model: bool
    first_ids: NDArray[np.uint32] | None = None
    only_ids: NDArray[np.uint32] | None = None
    byte_ids: NDArray[np.uint32] | None = None
    prefix: bytes = b""
    suffix: bytes = b""
    drop_unknown: bool | str = False


@dataclass(frozen=True)
class TokenBytes:
    """The bytes of all tokens.

    Attributes:
        blob: token i is `blob[offsets[i]:offsets[i + 1]]`.
        offsets: int64.
        ends_word: uint8: of each token, whether it ends with the end-of-word mark; None without marks.
        mark_size: the bytes of the mark.

    """

    blob: bytes
    offsets: NDArray[np.int64]
    ends_word: NDArray[np.uint8] | None
    mark_size: int


@dataclass(frozen=True)
class EventList:
    """The splits between the merges of a PickyBPE model, and the lengths of its tokens.

    Attributes:
        split_indices: int32, shape (m,): the index of each split among all events, ascending; those of merges are their
            ranks.
        tokens: int32, shape (m,): the token that is split.
        offsets: int64, shape (m + 1,): split i replaces the token by `parts[offsets[i]:offsets[i + 1]]`.
        parts: int32.
        n_symbols: uint32, shape (limit,): the symbols of each token.

    """

    split_indices: NDArray[np.int32]
    tokens: NDArray[np.int32]
    offsets: NDArray[np.int64]
    parts: NDArray[np.int32]
    n_symbols: NDArray[np.uint32]


# Checks ---------------------------------------------------------------------------------------------------------------


def check_merges(merges: MergeList) -> None:
    """Raise ValueError unless merges are of ids below the limit, and their ranks rise or stay."""
    pairs, results = np.asarray(merges.pairs), np.asarray(merges.results)
    ranks = None if merges.ranks is None else np.asarray(merges.ranks)
    ranks_shape = results.shape if ranks is None else ranks.shape
    if pairs.ndim != 2 or pairs.shape[1] != 2 or results.shape != (len(pairs),) or ranks_shape != results.shape:
        raise ValueError(
            f"merges, results and ranks have the shapes {pairs.shape}, {results.shape} and {ranks_shape}; they must "
            "have (n, 2), (n,) and (n,)"
        )
    if not len(pairs):
        return
    for ids in (pairs, results):
        if ids.view(np.uint32).max() >= merges.limit:  # negative ids are large ones
            raise ValueError(f"merges have ids from {ids.min()} to {ids.max()}; ids are from 0 to {merges.limit - 1}")
    if ranks is not None and (ranks[0] < 0 or (ranks[1:] < ranks[: len(ranks) - 1]).any()):
        raise ValueError("the ranks of merges must be at least 0 and must not fall")


def check_symbols(merges: MergeList, symbols: SymbolTables) -> None:
    """Raise ValueError unless tables of symbols are as long as the kernel reads, and their ids below the limit."""
    n_inner, n_last = len(symbols.inner_ids), len(symbols.last_ids)
    if not symbols.is_char_model and (n_inner < 256 or n_last < 256):
        raise ValueError(f"there are tokens for {n_inner} and {n_last} bytes; there must be 256")
    if not n_inner or not n_last or (symbols.unk_id != NO_TOKEN and symbols.unk_id >= merges.limit):
        raise ValueError(
            f"the unknown token is {symbols.unk_id}; ids are below {merges.limit}, and there must be symbols"
        )
    if any(table is not None and len(table) == 0 for table in (symbols.first_ids, symbols.only_ids)):
        raise ValueError("there are no symbols at the first position of a word; there must be some")
    if symbols.byte_ids is not None and len(symbols.byte_ids) != 256:
        raise ValueError(f"there are tokens for {len(symbols.byte_ids)} bytes; there must be 256")
    for token_id in _list_fallbacks(symbols):
        if token_id >= merges.limit:
            raise ValueError(f"a byte is token {token_id}; ids are below {merges.limit}")


def _list_fallbacks(symbols: SymbolTables) -> set[int]:
    """List the tokens that stand for symbols outside the alphabet."""
    byte_tokens = [] if symbols.byte_ids is None else symbols.byte_ids.tolist()
    return {*byte_tokens, symbols.unk_id} - {NO_TOKEN}


def find_symbol_tokens(merges: MergeList, symbols: SymbolTables) -> NDArray[np.bool_]:
    """Find the tokens, of all below the limit, that are single symbols of the alphabet: bool by id.

    Raises:
        IndexError: for a token that is not below the limit.

    """
    is_symbol = np.zeros(merges.limit, dtype=np.bool_)  # np.unique would import numpy.ma: 8 ms
    tables = (
        symbols.inner_ids,
        symbols.last_ids,
        symbols.first_ids,
        symbols.only_ids,
        np.array([symbols.mark_id], dtype=np.uint32),
    )
    for ids in tables:
        if ids is not None:
            is_symbol[ids[ids != NO_TOKEN]] = True
    return is_symbol


def has_merges_of_unknown(merges: MergeList, symbols: SymbolTables) -> bool:
    """Whether some merge has a token that stands for symbols outside the alphabet, be it a symbol itself or not."""
    is_fallback = np.zeros(merges.limit, dtype=np.bool_)
    is_fallback[list(_list_fallbacks(symbols))] = True
    return bool(is_fallback[merges.pairs].any() or is_fallback[merges.results].any())


def can_drop_in_wide_chars(symbols: SymbolTables) -> bool:
    """Whether symbols may be left out within the characters of three bytes, between which words are split."""
    if symbols.drop_unknown is not True or symbols.is_char_model:
        return symbols.drop_unknown is True
    tables = (
        table
        for table in (symbols.inner_ids, symbols.last_ids, symbols.first_ids, symbols.only_ids)
        if table is not None
    )
    return any(NO_TOKEN in table[0x80:0xC0] or NO_TOKEN in table[0xE0:0xF0] for table in tables)


def find_irregular_tokens(merges: MergeList, ends_word: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Find the tokens that have an end-of-word mark elsewhere than at their end: no text is encoded to them."""
    is_irregular = np.zeros(merges.limit, dtype=np.bool_)
    left, right = merges.pairs.T
    irregular_tokens = merges.results[(ends_word[left] != 0) | (ends_word[right] != ends_word[merges.results])]
    while len(irregular_tokens):  # as often as such tokens are merged again, which is hardly ever
        is_irregular[irregular_tokens] = True
        irregular_tokens = merges.results[(is_irregular[left] | is_irregular[right]) & ~is_irregular[merges.results]]
    return is_irregular


def check_events(merges: MergeList, symbols: SymbolTables, events: EventList) -> None:
    """Raise ValueError unless events have tokens below the limit, and all tokens keep their length in symbols."""
    n_symbols, limit = events.n_symbols, merges.limit
    tokens, parts, lengths = events.tokens, events.parts, np.diff(events.offsets)
    event_indices = np.concatenate((merges.rank_array, events.split_indices))
    if len(n_symbols) != limit or not len(events.split_indices) == len(tokens) == len(lengths):
        raise ValueError(
            f"there are {len(n_symbols)} lengths of {limit} tokens, {len(tokens)} splits and {len(lengths)} lists of "
            "parts"
        )
    if not np.array_equal(np.sort(event_indices), np.arange(len(event_indices))):
        raise ValueError(f"the events do not have the indices from 0 to {len(event_indices) - 1}")
    for token_ids in (tokens, parts):
        if len(token_ids) and (token_ids.min() < 0 or token_ids.max() >= limit):
            raise ValueError(
                f"splits have tokens from {token_ids.min()} to {token_ids.max()}; they are from 0 to {limit - 1}"
            )
    if limit and n_symbols.min() < 1:
        raise ValueError("a token has no symbol; each must have one at least")
    if (n_symbols[find_symbol_tokens(merges, symbols)] != 1).any() or (
        n_symbols[list(_list_fallbacks(symbols))] != 1
    ).any():
        raise ValueError("the token of a symbol has more than one symbol; it must have one")
    if (lengths < 1).any() or not np.array_equal(n_symbols[merges.results], n_symbols[merges.pairs].sum(axis=1)):
        raise ValueError("a merge changes the number of symbols, or a split has no parts")
    if len(tokens) and not np.array_equal(
        np.add.reduceat(n_symbols[parts], events.offsets[: len(tokens)]), n_symbols[tokens]
    ):
        raise ValueError("a split changes the number of symbols")


def build_event_table(merges: MergeList, events: EventList) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """List the events in order, and the first split of each token, as the kernel reads them.

    Returns:
        uint32 (n + 1, 4): the pair and its result, or the token, NO_TOKEN and the number of the split; then the next
        event of the same pair or token, or NO_TOKEN. uint32 (limit + 1,): each token's first split, or NO_TOKEN.

    """
    n_events, n_splits = len(merges.results) + len(events.tokens), len(events.tokens)
    table = np.zeros((n_events + 1, 4), dtype=np.uint32)
    first_splits = np.full(merges.limit + 1, NO_TOKEN, dtype=np.uint32)
    ranks = merges.rank_array
    table[ranks, :2], table[ranks, 2] = merges.pairs, merges.results
    table[events.split_indices, 0], table[events.split_indices, 1] = events.tokens, NO_TOKEN
    table[events.split_indices, 2] = np.arange(n_splits)
    keys = table[:n_events, 0].astype(np.uint64) << np.uint64(32) | table[:n_events, 1]
    order = np.argsort(keys, kind="stable")
    predecessors = order[: max(n_events - 1, 0)]  # each with the next one in order[1:]
    has_same_key = keys[order[1:]] == keys[predecessors]
    table[:, 3] = NO_TOKEN
    table[predecessors[has_same_key], 3] = order[1:][has_same_key]
    # Backwards, so that of several splits of a token the first is written last.
    first_splits[events.tokens[::-1]] = events.split_indices[::-1]
    return table, first_splits
