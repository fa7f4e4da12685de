"""Derives a `TokenizerSpec` with more tokens or fewer: special and added tokens, the last merges, given or rare tokens.

Learning more tokens from a corpus: `bpe/training/extend.py`; counting which are rare: `bpe/training/prune.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.records import replace
from bpe.errors import check_int, describe, pluralize, short_repr
from bpe.vocab.spec import TokenizerSpec, check_defined
from bpe.vocab.special_tokens import check_special_tokens, effective_flags
from bpe.vocab.symbols import symbol_tables, unk_id, word_symbols
from bpe.vocab.vocabulary import ID_LIMIT, NO_TOKEN, NONE, SPECIAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The flags that `add_tokens` of `tokenizers` gives to a str: not special, and matched in the normalized text.
ADDED = frozenset({"ordinary", "normalized"})
#: The new id of a removed token.
REMOVED = -1

# Adding ---------------------------------------------------------------------------------------------------------------


def with_tokens(spec: TokenizerSpec, special: Iterable[str], added: Iterable[str]) -> TokenizerSpec:
    """The tokenizer with more tokens: first the special ones, then the added ones, with ids after its largest.

    Linear in the size of the vocabulary and the number of tokens.

    Raises:
        TypeError: for anything but lists of str.
        ValueError: for a name that is empty, repeated or already a token, and for ids that are too large.

    """
    names = check_special_tokens(special, "special", "special token")
    others = check_special_tokens(added, "added", "added token")
    both = set(names).intersection(others)
    if both:
        raise ValueError(f"{min(both)!r} is both special and added; a token is one or the other")
    names += others
    _check_new(spec, names)
    old = spec.vocabulary
    if old.limit + len(names) > ID_LIMIT:
        raise ValueError(
            f"the largest id is {old.limit - 1}, and {pluralize(len(names), 'more token')} would have ids up to "
            f"{old.limit + len(names) - 1}; ids must be below {ID_LIMIT}"
        )
    ids = dict(spec.special_tokens) | {name: old.limit + i for i, name in enumerate(names)}
    flags = {name: spec.token_flags.get(name, frozenset()) for name in ids} | dict.fromkeys(others, ADDED)
    return append_tokens(spec, names, ids, flags)


def append_tokens(
    spec: TokenizerSpec, names: Collection[str], ids: Mapping[str, int], flags: Mapping[str, frozenset[str]]
) -> TokenizerSpec:
    """The tokenizer with tokens of these names after its largest id; `ids` and `flags` are those of all its tokens."""
    ends = spec.ends_word
    return replace(
        spec,
        vocabulary=spec.vocabulary.extend(names),
        special_tokens=ids,
        token_flags=effective_flags(flags, spec.normalizer),
        ends_word=None if ends is None else np.append(ends, np.zeros(len(names), np.bool_)),
    )


def _check_new(spec: TokenizerSpec, names: tuple[str, ...]) -> None:
    """Raise ValueError for names that are already tokens."""
    tokens = {name.encode(): i for i, name in enumerate(names)}
    taken = {token: token_id for token_id, token in spec.vocabulary.items(SPECIAL) if token in tokens}
    taken |= spec.vocabulary.find_ids(tokens) if tokens else {}
    if not taken:
        return
    first = min(taken, key=tokens.__getitem__)
    name, more = names[tokens[first]], ""
    kind = "an added token" if "ordinary" in spec.token_flags.get(name, ()) else "a special token"
    if spec.vocabulary.kinds[taken[first]] != SPECIAL:
        kind = "a token"
    if len(taken) > 1:
        more = f", and {len(taken) - 1} more of the names {'is one' if len(taken) == 2 else 'are tokens'} too"
    raise ValueError(f"{name!r} is {kind} already, with id {taken[first]}{more}; leave it out: a name has one id")


# Removing -------------------------------------------------------------------------------------------------------------


def without_special_tokens(spec: TokenizerSpec, names: Iterable[str]) -> TokenizerSpec:
    """The tokenizer without some special or added tokens; all other ids stay. One that text can become stays a token.

    Linear in the size of the vocabulary.

    Raises:
        TypeError: for anything but a list of str.
        ValueError: for a name that is no special or added token, or one that the tokenizer needs.

    """
    removed = check_special_tokens(names, "tokens", "token")
    kinds = spec.vocabulary.kinds
    needed = {token_id: "the template" for part in spec.template or () for token_id in part}
    needed |= dict.fromkeys(spec.clip or (), "CLIP's rows")
    merged = {*spec.merges.ravel().tolist(), *spec.merge_results.tolist()}
    for name in removed:
        token_id = spec.special_tokens.get(name)
        if token_id is None or name == spec.unk_token:
            rule = "no special or added token" if token_id is None else "the unknown token, which stays"
            others = [each for each in spec.special_tokens if each != spec.unk_token]
            raise ValueError(f"{short_repr(name)} is {rule}; the names to choose from are {short_repr(others, 200)}")
        if token_id in needed:
            raise ValueError(
                f"{short_repr(name)} has the id {token_id}, which {needed[token_id]} has; change that first"
            )
        if token_id in merged and kinds[token_id] == SPECIAL:
            raise ValueError(f"{short_repr(name)} has the id {token_id}, which a merge has; this token must stay")
    gone = [spec.special_tokens[name] for name in removed if kinds[spec.special_tokens[name]] == SPECIAL]
    left = np.setdiff1d(np.flatnonzero(kinds != NONE), gone)
    vocabulary = spec.vocabulary.take(left, left)
    return replace(
        _keep_names(spec, {name: each for name, each in spec.special_tokens.items() if name not in removed}),
        vocabulary=vocabulary,
        ends_word=None if spec.ends_word is None else spec.ends_word[: vocabulary.limit].copy(),
    )


def _keep_names(spec: TokenizerSpec, names: Mapping[str, int]) -> TokenizerSpec:
    """The tokenizer with only these of its special and added tokens, name → id."""
    return replace(
        spec,
        special_tokens=names,
        token_flags={name: flags for name, flags in spec.token_flags.items() if name in names},
        roles={role: name for role, name in spec.roles.items() if name in names},
    )


def truncate(spec: TokenizerSpec, size: int) -> TokenizerSpec:
    """The tokenizer with `size` tokens, without those of its last merges. No id changes.

    Raises:
        ValueError: for a size greater than the vocabulary's, or smaller than the number of tokens without a merge.

    """
    check_defined(spec, "truncating")
    base = find_base_tokens(spec)
    results = [token_id for token_id in dict.fromkeys(spec.merge_results.tolist()) if token_id not in base]
    removed = len(spec.vocabulary) - check_vocab_size(spec, size, len(results))
    n_results = len(results) - removed
    kept = np.asarray(spec.vocabulary.kinds != NONE)
    kept[results[n_results:]] = False
    # Training to this size ends with the merge that creates the last token, so drop all later merges, even those whose
    # result is kept.
    last = int(np.flatnonzero(spec.merge_results == results[n_results - 1])[0]) if n_results else -1
    if spec.merge_ranks is not None and n_results:
        last = int(np.flatnonzero(spec.merge_ranks == spec.merge_ranks[last])[-1])
    return keep_only(spec, kept, np.arange(len(spec.merges)) <= last)


def without_tokens(spec: TokenizerSpec, tokens: Iterable[int | str]) -> TokenizerSpec:
    """The tokenizer without some tokens, and those that cannot be merged without them. No id changes.

    A name removes a special or added token; one that text can become too stays a token.

    Raises:
        TypeError: for a token that is neither an id nor a name.
        ValueError: for what is no token of this vocabulary, and for a token that the tokenizer requires.

    """
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
        raise TypeError(
            f"tokens is {describe(tokens)}; it must be a list or an array of ids, or of names of special tokens"
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
    base, alive = find_base_tokens(spec), np.ones(len(spec.merges), dtype=np.bool_)
    n_merges = np.bincount(spec.merge_results, minlength=spec.vocabulary.limit)
    results = {token_id for token_id in set(spec.merge_results.tolist()) if token_id not in base}
    while True:
        # Removing any of a merge's three tokens removes the merge. Removing a token's last merge removes the token.
        alive = kept[spec.merges].all(axis=1) & kept[spec.merge_results]
        n_alive = np.bincount(spec.merge_results[alive], minlength=spec.vocabulary.limit)
        lost = [n for n in np.flatnonzero((n_merges > 0) & (n_alive == 0) & kept).tolist() if n in results]
        if not lost:
            break
        kept[lost] = False
    return keep_only(spec, kept, alive)


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
        if padding is not None and padding.pad_id < limit:  # an id above the vocabulary stays
            pad_id = int(new_ids[padding.pad_id])
            padding = None if pad_id == REMOVED else replace(padding, pad_id=pad_id)
        spec = replace(spec, post_processor=processor, padding=padding)
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
            f"vocab_size is {size}, but the tokenizer has {pluralize(n_tokens, 'token')}; bpe.extend makes a "
            "vocabulary larger"
        )
    if size < n_tokens - n_removable:
        raise ValueError(
            f"vocab_size is {size}, but {pluralize(n_tokens - n_removable, 'token')} (special tokens, the alphabet) "
            f"come from no merge; it must be at least {n_tokens - n_removable}"
        )
    return size


def find_base_tokens(spec: TokenizerSpec) -> set[int]:
    """The tokens that need no merge: special tokens and single symbols."""
    found = {int(token_id) for table in word_symbols(spec).tables for token_id in np.unique(table)}
    special = {*spec.special_tokens.values(), *(token_id for token_id, _ in spec.vocabulary.items(SPECIAL))}
    return (found | special) - {NO_TOKEN}


def find_required_tokens(spec: TokenizerSpec) -> dict[int, str]:
    """The tokens that the tokenizer needs, with the reason for each."""
    needed: dict[int, str] = {}
    if spec.end_of_word is not None and not spec.end_of_word_glued:
        needed[symbol_tables(spec)[2]] = "the end-of-word mark, which ends every word"
    for token_id in spec.clip or ():
        needed[token_id] = "one of CLIP's start and end tokens, which begin and end every row"
    return needed


def _check_ids(spec: TokenizerSpec, ids: Iterable[object]) -> list[int]:
    """The ids to remove, after checking that each is in the vocabulary and not required."""
    needed = find_required_tokens(spec)
    checked = []
    for each in ids:
        token_id = check_int("id", each, 0)
        if token_id not in spec.vocabulary:
            raise ValueError(
                f"id {token_id} is no token of this vocabulary, which has {pluralize(len(spec.vocabulary), 'token')}"
            )
        if token_id in needed:
            raise ValueError(f"id {token_id} is {needed[token_id]}; leave it out")
        checked.append(token_id)
    return checked


def keep_only(spec: TokenizerSpec, kept: NDArray[np.bool_], alive: NDArray[np.bool_]) -> TokenizerSpec:
    """The tokenizer with some of its tokens and merges; no id changes."""
    alive = alive & kept[spec.merges].all(axis=1) & kept[spec.merge_results]
    left = np.flatnonzero(kept)
    vocabulary = spec.vocabulary.take(left, left)
    unk = spec.unk_token if spec.unk_token is None or kept[unk_id(spec)] else None
    return replace(
        _keep_names(spec, {name: token_id for name, token_id in spec.special_tokens.items() if kept[token_id]}),
        vocabulary=vocabulary,
        training=None,
        merges=spec.merges[alive],
        merge_results=spec.merge_results[alive],
        merge_ranks=None if spec.merge_ranks is None else spec.merge_ranks[alive],
        word_merges=None if spec.word_merges is None else int(np.count_nonzero(alive[: spec.word_merges])),
        template=_remap_template(spec, lambda token_id: token_id if kept[token_id] else REMOVED),
        unk_token=unk,
        fuse_unk=spec.fuse_unk and unk is not None,
        ends_word=None if spec.ends_word is None else (spec.ends_word & kept)[: vocabulary.limit],
        unreachable=None,  # unknown: it depends on the merges
    )


def _remap_template(spec: TokenizerSpec, remap: Callable[[int], int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The template with new ids, without those that become -1."""
    if spec.template is None:
        return None
    before, after = (tuple(new for token_id in ids if (new := remap(token_id)) >= 0) for ids in spec.template)
    return (before, after) if before or after else None


def _with_ids(spec: TokenizerSpec, remap: NDArray[np.int32]) -> TokenizerSpec:
    """The tokenizer with new ids; their order does not change."""
    used = np.flatnonzero(spec.vocabulary.kinds != NONE)
    vocabulary = spec.vocabulary.take(used, remap[used])
    ends_word, unreachable = None, spec.unreachable
    if unreachable is not None:
        unreachable = remap[unreachable[unreachable < len(remap)]]
        unreachable = unreachable[unreachable != REMOVED]
    if spec.ends_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[remap[np.flatnonzero(spec.ends_word)]] = True
    return replace(
        spec,
        vocabulary=vocabulary,
        merges=remap[spec.merges],
        merge_results=remap[spec.merge_results],
        events=None if spec.events is None else spec.events.renumber(remap),
        special_tokens={name: int(remap[token_id]) for name, token_id in spec.special_tokens.items()},
        template=_remap_template(spec, lambda token_id: int(remap[token_id])),
        ends_word=ends_word,
        unreachable=unreachable,
        clip=None if spec.clip is None else (int(remap[spec.clip[0]]), int(remap[spec.clip[1]])),
    )


# Choosing leaves: tokens that a merge makes and that are a part of no other merge -------------------------------------


def find_removable_tokens(spec: TokenizerSpec) -> dict[int, list[int]]:
    """The tokens that only merges make, in the order of their first merges: id → the indices of its merges."""
    fixed = find_base_tokens(spec) | find_required_tokens(spec).keys()
    made: defaultdict[int, list[int]] = defaultdict(list)
    for index, token in enumerate(spec.merge_results.tolist()):
        if token not in fixed:
            made[token].append(index)
    return dict(made)


def choose_rarest_leaves(
    spec: TokenizerSpec, made: dict[int, list[int]], frequencies: NDArray[np.int64], n: int
) -> list[int]:
    """The n tokens to remove, in order: each time the leaf with the lowest frequency.

    `made` is what `find_removable_tokens` gives, and n at most their number. Of equally frequent leaves the one with
    the latest merge goes first. What a removed token stood for is two tokens then: its frequency is added to those of
    the parts of its first merge.
    """
    import heapq

    merges, frequency = spec.merges.tolist(), frequencies.tolist()
    parts = {token: [part for i in indices for part in set(merges[i])] for token, indices in made.items()}
    uses: defaultdict[int, int] = defaultdict(int)
    for left, right in merges:
        for part in {left, right}:
            uses[part] += 1
    queue = [(frequency[token], -indices[0], token) for token, indices in made.items() if uses[token] == 0]
    heapq.heapify(queue)
    removed: list[int] = []
    while len(removed) < n:
        _, _, token = heapq.heappop(queue)
        removed.append(token)
        for part in merges[made[token][0]]:
            frequency[part] += frequency[token]
        for part in parts[token]:
            uses[part] -= 1
            if uses[part] == 0 and part in made:
                heapq.heappush(queue, (frequency[part], -made[part][0], part))
    return removed
