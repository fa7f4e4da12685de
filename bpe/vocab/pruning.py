"""Makes the vocabulary of a `TokenizerSpec` smaller.

Choosing tokens by frequency: `leaves.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpe.errors import check_int, counted, typed
from bpe.vocab.added_tokens import without_special_tokens
from bpe.vocab.post_processing import Padding
from bpe.vocab.spec import TokenizerSpec, check_defined
from bpe.vocab.symbols import symbol_tables, unk_id, word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, NONE, ORDINARY, SPECIAL, Vocabulary

#: The new id of a removed token.
REMOVED = -1


def truncated(spec: TokenizerSpec, size: int) -> TokenizerSpec:
    """The tokenizer with `size` tokens, without those of its last merges. No id changes.

    Raises:
        ValueError: for a size greater than the vocabulary's, or smaller than the number of tokens without a merge.

    """
    check_defined(spec, "truncating")
    base = base_tokens(spec)
    results = [number for number in dict.fromkeys(spec.merge_results.tolist()) if number not in base]
    removed = len(spec.vocabulary) - check_vocab_size(spec, size, len(results))
    n_results = len(results) - removed
    kept = np.asarray(spec.vocabulary.kinds != NONE)
    kept[results[n_results:]] = False
    # Training to this size ends with the merge that creates the last token, so drop all later merges, even those whose
    # result is kept.
    last = int(np.flatnonzero(spec.merge_results == results[n_results - 1])[0]) if n_results else -1
    if spec.merge_ranks is not None and n_results:
        last = int(np.flatnonzero(spec.merge_ranks == spec.merge_ranks[last])[-1])
    return only(spec, kept, np.arange(len(spec.merges)) <= last)


def without_tokens(spec: TokenizerSpec, tokens: Iterable[int | str]) -> TokenizerSpec:
    """The tokenizer without some tokens, and those that cannot be merged without them. No id changes.

    A name removes a special or added token; one that text can become too stays a token.

    Raises:
        TypeError: for a token that is neither an id nor a name.
        ValueError: for what is no token of this vocabulary, and for a token that the tokenizer requires.

    """
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
        raise TypeError(
            f"tokens is {typed(tokens)}; it must be a list or an array of ids, or of names of special tokens"
        )
    listed = list(tokens)
    names = [token for token in listed if isinstance(token, str)]
    ids = _check_ids(spec, [token for token in listed if not isinstance(token, str)])
    if names:
        spec = without_special_tokens(spec, names)
    ids = [token_id for token_id in ids if token_id in spec.vocabulary]  # not named too
    return _without_ids(spec, ids) if ids else spec


def _without_ids(spec: TokenizerSpec, ids: list[int]) -> TokenizerSpec:
    check_defined(spec, "removing tokens by their ids")
    kept = np.asarray(spec.vocabulary.kinds != NONE)
    kept[ids] = False
    base, alive = base_tokens(spec), np.ones(len(spec.merges), dtype=np.bool_)
    n_merges = np.bincount(spec.merge_results, minlength=spec.vocabulary.limit)
    results = {number for number in set(spec.merge_results.tolist()) if number not in base}
    while True:
        # Removing any of a merge's three tokens removes the merge. Removing a token's last merge removes the token.
        alive = kept[spec.merges].all(axis=1) & kept[spec.merge_results]
        n_alive = np.bincount(spec.merge_results[alive], minlength=spec.vocabulary.limit)
        lost = [n for n in np.flatnonzero((n_merges > 0) & (n_alive == 0) & kept).tolist() if n in results]
        if not lost:
            break
        kept[lost] = False
    return only(spec, kept, alive)


def renumber(spec: TokenizerSpec, limit: int, first: int | None) -> tuple[TokenizerSpec, NDArray[np.int32]]:
    """Close the gaps in the ids; returns the new id of each id below `limit`, or REMOVED for one without a token.

    Args:
        spec: the tokenizer.
        limit: the number of ids that the table has.
        first: the first new id; None to change no id.

    """
    used = np.flatnonzero(spec.vocabulary.kinds != NONE)
    new_ids = np.full(limit, REMOVED, dtype=np.int32)
    new_ids[used] = used if first is None else np.arange(first, first + len(used))
    if not np.array_equal(new_ids[used], used):
        spec = _with_ids(spec, new_ids)
    processor, padding = spec.post_processor, spec.padding
    if processor is not None or padding is not None:
        processor = None if processor is None else processor.renumber(new_ids.tolist())
        spec = replace(spec, post_processor=processor, padding=_remap_padding(padding, new_ids))
    return spec, new_ids


def first_id(spec: TokenizerSpec) -> int:
    """The lowest id of a token."""
    return int(np.flatnonzero(spec.vocabulary.kinds != NONE)[0])


# Helpers --------------------------------------------------------------------------------------------------------------


def check_vocab_size(spec: TokenizerSpec, vocab_size: object, n_removable: int) -> int:
    """Validate the size that a vocabulary is to have without some of its removable tokens."""
    size = check_int("vocab_size", vocab_size, 1)
    n_tokens = len(spec.vocabulary)
    if size > n_tokens:
        raise ValueError(
            f"vocab_size is {size}, but the tokenizer has {counted(n_tokens, 'token')}; bpe.extend makes a vocabulary "
            "larger"
        )
    if size < n_tokens - n_removable:
        raise ValueError(
            f"vocab_size is {size}, but {counted(n_tokens - n_removable, 'token')} (special tokens, the alphabet) come "
            f"from no merge; it must be at least {n_tokens - n_removable}"
        )
    return size


def base_tokens(spec: TokenizerSpec) -> set[int]:
    """The tokens that need no merge: special tokens and single symbols."""
    found = {int(number) for table in word_symbols(spec).tables for number in np.unique(table)}
    special = {*spec.special_tokens.values(), *(number for number, _ in spec.vocabulary.items(SPECIAL))}
    return (found | special) - {NO_TOKEN}


def required_tokens(spec: TokenizerSpec) -> dict[int, str]:
    """The tokens that the tokenizer needs, with the reason for each."""
    needed: dict[int, str] = {}
    if spec.end_of_word is not None and not spec.end_of_word_glued:
        needed[symbol_tables(spec)[2]] = "the end-of-word mark, which ends every word"
    for number in spec.clip or ():
        needed[number] = "one of CLIP's start and end tokens, which begin and end every row"
    return needed


def _check_ids(spec: TokenizerSpec, ids: Iterable[object]) -> list[int]:
    """The ids to remove, after checking that each is in the vocabulary and not required."""
    needed = required_tokens(spec)
    checked = []
    for each in ids:
        number = check_int("id", each, 0)
        if number not in spec.vocabulary:
            raise ValueError(
                f"id {number} is no token of this vocabulary, which has {counted(len(spec.vocabulary), 'token')}"
            )
        if number in needed:
            raise ValueError(f"id {number} is {needed[number]}; leave it out")
        checked.append(number)
    return checked


def only(spec: TokenizerSpec, kept: NDArray[np.bool_], alive: NDArray[np.bool_]) -> TokenizerSpec:
    """The tokenizer with some of its tokens and merges; no id changes."""
    alive = alive & kept[spec.merges].all(axis=1) & kept[spec.merge_results]
    vocabulary = spec.vocabulary
    names = {name: number for name, number in spec.special_tokens.items() if kept[number]}
    unk = spec.unk_token if spec.unk_token is None or kept[unk_id(spec)] else None
    smaller = Vocabulary(
        (item for item in vocabulary.items(ORDINARY) if kept[item[0]]),
        (item for item in vocabulary.items(SPECIAL) if kept[item[0]]),
    )
    return replace(
        spec,
        vocabulary=smaller,
        training=None,
        merges=spec.merges[alive],
        merge_results=spec.merge_results[alive],
        merge_ranks=None if spec.merge_ranks is None else spec.merge_ranks[alive],
        word_merges=None if spec.word_merges is None else int(np.count_nonzero(alive[: spec.word_merges])),
        special_tokens=names,
        token_flags={name: flags for name, flags in spec.token_flags.items() if name in names},
        roles={role: name for role, name in spec.roles.items() if name in names},
        template=_remap_template(spec, lambda number: number if kept[number] else -1),
        unk_token=unk,
        fuse_unk=spec.fuse_unk and unk is not None,
        ends_word=None if spec.ends_word is None else (spec.ends_word & kept)[: smaller.limit],
        unreachable=None,  # unknown: it depends on the merges
    )


def _remap_template(spec: TokenizerSpec, remap: Callable[[int], int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The template with new ids, without those that become -1."""
    if spec.template is None:
        return None
    before, after = (tuple(new for number in ids if (new := remap(number)) >= 0) for ids in spec.template)
    return (before, after) if before or after else None


def _with_ids(spec: TokenizerSpec, remap: NDArray[np.int32]) -> TokenizerSpec:
    """The tokenizer with new ids; their order does not change."""
    vocabulary = Vocabulary(
        ((int(remap[number]), token) for number, token in spec.vocabulary.items(ORDINARY)),
        ((int(remap[number]), token) for number, token in spec.vocabulary.items(SPECIAL)),
    )
    ends_word = None
    if spec.ends_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[remap[np.flatnonzero(spec.ends_word)]] = True
    return replace(
        spec,
        vocabulary=vocabulary,
        merges=remap[spec.merges],
        merge_results=remap[spec.merge_results],
        events=None if spec.events is None else spec.events.renumber(remap),
        special_tokens={name: int(remap[number]) for name, number in spec.special_tokens.items()},
        template=_remap_template(spec, lambda number: int(remap[number])),
        ends_word=ends_word,
        unreachable=None if spec.unreachable is None else _remap_listed(spec.unreachable, remap),
        clip=None if spec.clip is None else (int(remap[spec.clip[0]]), int(remap[spec.clip[1]])),
    )


def _remap_listed(ids: NDArray[np.int32], remap: NDArray[np.int32]) -> NDArray[np.int32]:
    """The new ids of those listed tokens that have one."""
    new_ids: NDArray[np.int32] = remap[ids[ids < len(remap)]]
    return np.asarray(new_ids[new_ids != REMOVED])


def _remap_padding(padding: Padding | None, remap: NDArray[np.int32]) -> Padding | None:
    """The padding with the new id of its token; None if no token has it. An id above the vocabulary stays."""
    if padding is None or padding.pad_id >= len(remap):
        return padding
    pad_id = int(remap[padding.pad_id])
    return None if pad_id == REMOVED else replace(padding, pad_id=pad_id)
