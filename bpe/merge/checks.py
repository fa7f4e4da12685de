"""Checks of the arrays that the kernels of merging read without bounds, and what is derived from them once.

The kernels call these functions before they keep a pointer, so that no array from outside makes them read out of
bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bpe.merge.tables import EventList, MergeList, SymbolTables
from bpe.vocab.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_merges(merges: MergeList) -> None:
    """Raise ValueError unless merges are of ids below the limit, and their ranks rise or stay."""
    pairs, results, ranks = np.asarray(merges.pairs), np.asarray(merges.results), np.asarray(merges.ranks)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or results.shape != (len(pairs),) or ranks.shape != results.shape:
        raise ValueError(
            f"merges, results and ranks have the shapes {pairs.shape}, {results.shape} and {ranks.shape}; they must "
            "have (n, 2), (n,) and (n,)"
        )
    if not len(pairs):
        return
    for ids in (pairs, results):
        if ids.min() < 0 or ids.max() >= merges.limit:
            raise ValueError(f"merges have ids from {ids.min()} to {ids.max()}; ids are from 0 to {merges.limit - 1}")
    if ranks[0] < 0 or (ranks[1:] < ranks[: len(ranks) - 1]).any():
        raise ValueError("the ranks of merges must be at least 0 and must not fall")


def check_symbols(merges: MergeList, symbols: SymbolTables) -> None:
    """Raise ValueError unless tables of symbols are as long as the kernel reads, and their ids below the limit."""
    n_inner, n_last = len(symbols.inner), len(symbols.last)
    if not symbols.chars and (n_inner < 256 or n_last < 256):
        raise ValueError(f"there are tokens for {n_inner} and {n_last} bytes; there must be 256")
    if not n_inner or not n_last or (symbols.unk != NO_TOKEN and symbols.unk >= merges.limit):
        raise ValueError(f"the unknown token is {symbols.unk}; ids are below {merges.limit}, and there must be symbols")
    if any(table is not None and len(table) == 0 for table in (symbols.first, symbols.only)):
        raise ValueError("there are no symbols at the first position of a word; there must be some")
    if symbols.of_bytes is not None and len(symbols.of_bytes) != 256:
        raise ValueError(f"there are tokens for {len(symbols.of_bytes)} bytes; there must be 256")
    for token_id in _list_fallbacks(symbols):
        if token_id >= merges.limit:
            raise ValueError(f"a byte is token {token_id}; ids are below {merges.limit}")


def _list_fallbacks(symbols: SymbolTables) -> set[int]:
    """List the tokens that stand for symbols outside the alphabet."""
    byte_tokens = [] if symbols.of_bytes is None else symbols.of_bytes.tolist()
    return {*byte_tokens, symbols.unk} - {NO_TOKEN}


def find_symbol_tokens(merges: MergeList, symbols: SymbolTables) -> NDArray[np.bool_]:
    """Find the tokens, of all below the limit, that are single symbols of the alphabet: bool by id.

    Raises:
        IndexError: for a token that is not below the limit.

    """
    is_symbol = np.zeros(merges.limit, dtype=np.bool_)  # np.unique would import numpy.ma: 8 ms
    tables = (symbols.inner, symbols.last, symbols.first, symbols.only, np.array([symbols.mark], dtype=np.uint32))
    for ids in tables:
        if ids is not None:
            is_symbol[ids[ids != NO_TOKEN]] = True
    return is_symbol


def has_merges_of_unknown(merges: MergeList, symbols: SymbolTables) -> bool:
    """Whether some merge has a token that stands for symbols outside the alphabet, be it a symbol itself or not."""
    return any(
        np.any(merges.pairs == token_id) or np.any(merges.results == token_id) for token_id in _list_fallbacks(symbols)
    )


def can_drop_in_wide_chars(symbols: SymbolTables) -> bool:
    """Whether symbols may be left out within the characters of three bytes, between which words are split."""
    if symbols.drop_unknown is not True or symbols.chars:
        return symbols.drop_unknown is True
    tables = (table for table in (symbols.inner, symbols.last, symbols.first, symbols.only) if table is not None)
    return any(NO_TOKEN in table[0x80:0xC0] or NO_TOKEN in table[0xE0:0xF0] for table in tables)


def check_events(merges: MergeList, symbols: SymbolTables, events: EventList) -> None:
    """Raise ValueError unless events have tokens below the limit, and all tokens keep their length in symbols."""
    width, limit = events.width, merges.limit
    tokens, parts, lengths = events.tokens, events.parts, np.diff(events.offsets)
    event_indices = np.concatenate((merges.ranks, events.split_at))
    if len(width) != limit or not len(events.split_at) == len(tokens) == len(lengths):
        raise ValueError(
            f"there are {len(width)} lengths of {limit} tokens, {len(tokens)} splits and {len(lengths)} lists of parts"
        )
    if not np.array_equal(np.sort(event_indices), np.arange(len(event_indices))):
        raise ValueError(f"the events do not have the indices from 0 to {len(event_indices) - 1}")
    for token_ids in (tokens, parts):
        if len(token_ids) and (token_ids.min() < 0 or token_ids.max() >= limit):
            raise ValueError(
                f"splits have tokens from {token_ids.min()} to {token_ids.max()}; they are from 0 to {limit - 1}"
            )
    if limit and width.min() < 1:
        raise ValueError("a token has no symbol; each must have one at least")
    if (width[find_symbol_tokens(merges, symbols)] != 1).any() or (width[list(_list_fallbacks(symbols))] != 1).any():
        raise ValueError("the token of a symbol has more than one symbol; it must have one")
    if (lengths < 1).any() or not np.array_equal(width[merges.results], width[merges.pairs].sum(axis=1)):
        raise ValueError("a merge changes the number of symbols, or a split has no parts")
    if len(tokens) and not np.array_equal(np.add.reduceat(width[parts], events.offsets[: len(tokens)]), width[tokens]):
        raise ValueError("a split changes the number of symbols")


def build_event_table(merges: MergeList, events: EventList) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """List the events in order, and the first split of each token, as the kernel reads them.

    Returns:
        uint32 (n + 1, 4): the pair and its result, or the token, NO_TOKEN and the number of the split; then the next
        event of the same pair or token, or NO_TOKEN. uint32 (limit + 1,): each token's first split, or NO_TOKEN.

    """
    n_events, n_splits = len(merges.results) + len(events.tokens), len(events.tokens)
    table, first_splits = (
        np.zeros((n_events + 1, 4), dtype=np.uint32),
        np.full(merges.limit + 1, NO_TOKEN, dtype=np.uint32),
    )
    table[merges.ranks, :2], table[merges.ranks, 2] = merges.pairs, merges.results
    table[events.split_at, 0], table[events.split_at, 1] = events.tokens, NO_TOKEN
    table[events.split_at, 2] = np.arange(n_splits)
    keys = table[:n_events, 0].astype(np.uint64) << np.uint64(32) | table[:n_events, 1]
    order = np.argsort(keys, kind="stable")
    predecessors = order[: max(n_events - 1, 0)]  # each with the next one in order[1:]
    has_same_key = keys[order[1:]] == keys[predecessors]
    table[:, 3] = NO_TOKEN
    table[predecessors[has_same_key], 3] = order[1:][has_same_key]
    first_splits[events.tokens[::-1]] = events.split_at[::-1]  # of several splits of a token the first is written last
    return table, first_splits
