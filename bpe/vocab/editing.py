"""Derives a `TokenizerSpec` with more tokens or fewer: special and added tokens, the last merges, given or rare tokens.

Learning more tokens from a corpus: `bpe/training/extend.py`; counting which are rare: `bpe/training/prune.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.errors import ID_LIMIT, check_choice, check_int, describe, pluralize, short_repr
from bpe.vocab.spec import ROLES, TokenizerSpec, check_supported
from bpe.vocab.special_tokens import check_special_tokens, remove_ineffective_flags
from bpe.vocab.symbols import build_symbol_tables, find_unk_id, find_word_symbols
from bpe.vocab.vocabulary import NO_TOKEN, SPECIAL, UNUSED

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The flags that `add_tokens` of `tokenizers` gives to a str: not special, and matched in the normalized text.
ADDED_FLAGS = frozenset({"ordinary", "normalized"})
#: The new id of a removed token.
NO_ID = -1

# Adding ---------------------------------------------------------------------------------------------------------------


def with_tokens(spec: TokenizerSpec, special: Iterable[str], added: Iterable[str]) -> TokenizerSpec:
    """Add tokens: first the special ones, then the added ones, with ids after the largest.

    Linear in the size of the vocabulary and the number of tokens.

    Raises:
        TypeError: for anything but lists of str.
        ValueError: for a name that is empty, repeated or already a token, for an added one of which the normalizer
            leaves nothing, and for ids that are too large.

    """
    names = check_special_tokens(special, "special", "special token")
    added_names = check_special_tokens(added, "added", "added token")
    for name in added_names:
        if spec.normalizer is not None and not spec.normalizer.spelling(name):
            raise ValueError(
                f"{name!r} is to be added, but the normalizer leaves nothing of it, and added tokens are sought in "
                "normalized text; make it a special token, which is sought before"
            )
    repeated_names = set(names).intersection(added_names)
    if repeated_names:
        raise ValueError(f"{min(repeated_names)!r} is both special and added; a token is one or the other")
    names += added_names
    _check_new(spec, names)
    vocabulary = spec.vocabulary
    if vocabulary.limit + len(names) > ID_LIMIT:
        raise ValueError(
            f"the largest id is {vocabulary.limit - 1}, and {pluralize(len(names), 'more token')} would have ids up to "
            f"{vocabulary.limit + len(names) - 1}; ids must be below {ID_LIMIT}"
        )
    ids = dict(spec.special_tokens) | {name: vocabulary.limit + i for i, name in enumerate(names)}
    flags = {name: spec.token_flags.get(name, frozenset()) for name in ids} | dict.fromkeys(added_names, ADDED_FLAGS)
    return append_tokens(spec, names, ids, flags)


def append_tokens(
    spec: TokenizerSpec, names: Collection[str], ids: Mapping[str, int], flags: Mapping[str, frozenset[str]]
) -> TokenizerSpec:
    """Append tokens with these names after the largest id; `ids` and `flags` are those of all special tokens."""
    ends_word = spec.ends_word
    return replace(
        spec,
        vocabulary=spec.vocabulary.extend(names),
        special_tokens=ids,
        token_flags=remove_ineffective_flags(flags, spec.normalizer),
        ends_word=None if ends_word is None else np.append(ends_word, np.zeros(len(names), np.bool_)),
    )


def set_roles(spec: TokenizerSpec, roles: Mapping[str, str | None] | None) -> TokenizerSpec:
    """Give roles (`ROLES`) to special tokens; the token None takes a role away, and roles that are not named stay.

    Raises:
        TypeError: for anything but None or a mapping of str to str or None.
        ValueError: for a role that is not known, and for a token that is no special token of the tokenizer.

    """
    if roles is None:
        return spec
    if not isinstance(roles, Mapping):
        raise TypeError(f"roles is {describe(roles)}; it must map roles to special tokens: {{'pad_token': '<|pad|>'}}")
    for role, token in roles.items():
        check_choice("role", role, ROLES)
        if token is not None and not isinstance(token, str):
            raise TypeError(f"{role} is {describe(token)}; it must be the name of a special token, or None")
        if token is not None and token not in spec.special_tokens:
            names = list(spec.special_tokens)
            known_names = f"they are {short_repr(names, 200)}" if names else "it has none"
            raise ValueError(
                f"{role} is {short_repr(token)}, which is no special token of this tokenizer ({known_names}); name one "
                f"of them, or add it: tok.with_tokens(special=[{token!r}], roles={{{role!r}: {token!r}}})"
            )
    all_roles = {**spec.roles, **roles}
    return replace(spec, roles={role: token for role in ROLES if (token := all_roles.get(role)) is not None})


def _check_new(spec: TokenizerSpec, names: tuple[str, ...]) -> None:
    """Raise ValueError for names that are already tokens."""
    tokens = {name.encode(): i for i, name in enumerate(names)}
    existing_ids = {token: token_id for token_id, token in spec.vocabulary.items(SPECIAL) if token in tokens}
    existing_ids |= spec.vocabulary.find_ids(tokens) if tokens else {}
    if not existing_ids:
        return
    first_token = min(existing_ids, key=tokens.__getitem__)
    name, remark = names[tokens[first_token]], ""
    kind = "an added token" if "ordinary" in spec.token_flags.get(name, ()) else "a special token"
    if spec.vocabulary.kinds[existing_ids[first_token]] != SPECIAL:
        kind = "a token"
    if len(existing_ids) > 1:
        are_tokens = "is one" if len(existing_ids) == 2 else "are tokens"
        remark = f", and {len(existing_ids) - 1} more of the names {are_tokens} too"
    raise ValueError(
        f"{name!r} is {kind} already, with id {existing_ids[first_token]}{remark}; leave it out: a name has one id"
    )


# Removing -------------------------------------------------------------------------------------------------------------


def without_special_tokens(spec: TokenizerSpec, names: Iterable[str]) -> TokenizerSpec:
    """Remove some special or added tokens; all other ids stay. One that text can become stays a token.

    Linear in the size of the vocabulary.

    Raises:
        TypeError: for anything but a list of str.
        ValueError: for a name that is no special or added token, or one that the tokenizer needs.

    """
    removed_names = check_special_tokens(names, "tokens", "token")
    kinds = spec.vocabulary.kinds
    reasons = {token_id: "the template" for part in spec.template or () for token_id in part}
    reasons |= dict.fromkeys(spec.clip or (), "CLIP's rows")
    merge_ids = {*spec.merges.ravel().tolist(), *spec.merge_results.tolist()}
    for name in removed_names:
        token_id = spec.special_tokens.get(name)
        if token_id is None or name == spec.unk_token:
            rule = "no special or added token" if token_id is None else "the unknown token, which stays"
            other_names = [name for name in spec.special_tokens if name != spec.unk_token]
            raise ValueError(
                f"{short_repr(name)} is {rule}; the names to choose from are {short_repr(other_names, 200)}"
            )
        if token_id in reasons:
            raise ValueError(
                f"{short_repr(name)} has the id {token_id}, which {reasons[token_id]} has; change that first"
            )
        if token_id in merge_ids and kinds[token_id] == SPECIAL:
            raise ValueError(f"{short_repr(name)} has the id {token_id}, which a merge has; this token must stay")
    removed_ids = [spec.special_tokens[name] for name in removed_names if kinds[spec.special_tokens[name]] == SPECIAL]
    remaining_ids = np.setdiff1d(np.flatnonzero(kinds != UNUSED), removed_ids)
    vocabulary = spec.vocabulary.take(remaining_ids, remaining_ids)
    return replace(
        _keep_names(
            spec, {name: token_id for name, token_id in spec.special_tokens.items() if name not in removed_names}
        ),
        vocabulary=vocabulary,
        ends_word=None if spec.ends_word is None else spec.ends_word[: vocabulary.limit].copy(),
    )


def _keep_names(spec: TokenizerSpec, names: Mapping[str, int]) -> TokenizerSpec:
    """Keep only these special and added tokens, name → id."""
    return replace(
        spec,
        special_tokens=names,
        token_flags=remove_ineffective_flags(
            {name: spec.token_flags.get(name, frozenset()) for name in names}, spec.normalizer
        ),
        roles={role: name for role, name in spec.roles.items() if name in names},
    )


def truncate(spec: TokenizerSpec, size: int) -> TokenizerSpec:
    """Keep `size` tokens, without those of the last merges. No id changes.

    Raises:
        ValueError: for a size greater than the vocabulary's, or smaller than the number of tokens without a merge.

    """
    check_supported(spec, "truncating")
    base_tokens = find_base_tokens(spec)
    results = [token_id for token_id in dict.fromkeys(spec.merge_results.tolist()) if token_id not in base_tokens]
    n_removed = len(spec.vocabulary) - check_vocab_size(spec, size, len(results))
    n_results = len(results) - n_removed
    is_kept = np.asarray(spec.vocabulary.kinds != UNUSED)
    is_kept[results[n_results:]] = False
    # Training to this size ends with the merge that creates the last token, so drop all later merges, even those whose
    # result is kept.
    last_merge = int(np.flatnonzero(spec.merge_results == results[n_results - 1])[0]) if n_results else -1
    if spec.merge_ranks is not None and n_results:
        last_merge = int(np.flatnonzero(spec.merge_ranks == spec.merge_ranks[last_merge])[-1])
    return keep_tokens(spec, is_kept, np.arange(len(spec.merges)) <= last_merge)


def without_tokens(spec: TokenizerSpec, tokens: Iterable[int | str]) -> TokenizerSpec:
    """Remove some tokens, and those that cannot be merged without them. No id changes.

    A name removes a special or added token; one that text can become too stays a token.

    Raises:
        TypeError: for a token that is neither an id nor a name.
        ValueError: for what is no token of this vocabulary, and for a token that the tokenizer requires.

    """
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
        raise TypeError(
            f"tokens is {describe(tokens)}; it must be a list or an array of ids, or of names of special tokens"
        )
    token_list = list(tokens)
    names = [token for token in token_list if isinstance(token, str)]
    ids = _check_ids(spec, [token for token in token_list if not isinstance(token, str)])
    if names:
        spec = without_special_tokens(spec, names)
    ids = [token_id for token_id in ids if token_id in spec.vocabulary]  # not named too
    return _remove_ids(spec, ids) if ids else spec


def _remove_ids(spec: TokenizerSpec, ids: list[int]) -> TokenizerSpec:
    check_supported(spec, "removing tokens by their ids")
    is_kept = np.asarray(spec.vocabulary.kinds != UNUSED)
    is_kept[ids] = False
    base_tokens, is_merge_kept = find_base_tokens(spec), np.ones(len(spec.merges), dtype=np.bool_)
    n_merges = np.bincount(spec.merge_results, minlength=spec.vocabulary.limit)
    results = {token_id for token_id in set(spec.merge_results.tolist()) if token_id not in base_tokens}
    while True:
        # Removing any of a merge's three tokens removes the merge. Removing a token's last merge removes the token.
        is_merge_kept = is_kept[spec.merges].all(axis=1) & is_kept[spec.merge_results]
        n_kept_merges = np.bincount(spec.merge_results[is_merge_kept], minlength=spec.vocabulary.limit)
        unmakeable_ids = [
            n for n in np.flatnonzero((n_merges > 0) & (n_kept_merges == 0) & is_kept).tolist() if n in results
        ]
        if not unmakeable_ids:
            break
        is_kept[unmakeable_ids] = False
    return keep_tokens(spec, is_kept, is_merge_kept)


def renumber(spec: TokenizerSpec, limit: int, first_id: int | None) -> tuple[TokenizerSpec, NDArray[np.int32]]:
    """Close the gaps in the ids; returns the new id of each id below `limit`, or NO_ID for one without a token.

    Args:
        spec: the tokenizer.
        limit: the number of ids that the table has.
        first_id: the first new id; None to change no id.

    """
    used_ids = np.flatnonzero(spec.vocabulary.kinds != UNUSED)
    new_ids = np.full(limit, NO_ID, dtype=np.int32)
    new_ids[used_ids] = used_ids if first_id is None else np.arange(first_id, first_id + len(used_ids))
    if not np.array_equal(new_ids[used_ids], used_ids):
        spec = _remap_ids(spec, new_ids)
    processor, padding = spec.post_processor, spec.padding
    if processor is not None or padding is not None:
        processor = None if processor is None else processor.renumber(new_ids.tolist())
        if padding is not None and padding.pad_id < limit:  # an id above the vocabulary stays
            pad_id = int(new_ids[padding.pad_id])
            padding = None if pad_id == NO_ID else replace(padding, pad_id=pad_id)
        spec = replace(spec, post_processor=processor, padding=padding)
    return spec, new_ids


def find_first_id(spec: TokenizerSpec) -> int:
    """Find the lowest id of a token."""
    return int(np.flatnonzero(spec.vocabulary.kinds != UNUSED)[0])


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
            f"vocab_size is {size}, but {pluralize(n_tokens - n_removable, 'token')} (special tokens, the alphabet, …) "
            f"cannot be removed; it must be at least {n_tokens - n_removable}"
        )
    return size


def find_base_tokens(spec: TokenizerSpec) -> set[int]:
    """Find the tokens that need no merge: special tokens and single symbols."""
    symbol_tokens = {int(token_id) for table in find_word_symbols(spec).tables for token_id in np.unique(table)}
    special_ids = {*spec.special_tokens.values(), *(token_id for token_id, _ in spec.vocabulary.items(SPECIAL))}
    return (symbol_tokens | special_ids) - {NO_TOKEN}


def find_required_tokens(spec: TokenizerSpec) -> dict[int, str]:
    """Find the tokens that the tokenizer needs, with the reason for each."""
    reasons: dict[int, str] = {}
    if spec.end_of_word is not None and not spec.end_of_word_glued:
        reasons[build_symbol_tables(spec)[2]] = "the end-of-word mark, which ends every word"
    for token_id in spec.clip or ():
        reasons[token_id] = "one of CLIP's start and end tokens, which begin and end every row"
    return reasons


def _check_ids(spec: TokenizerSpec, ids: Iterable[object]) -> list[int]:
    """Check that each id to remove is in the vocabulary and not required; returns the ids."""
    reasons = find_required_tokens(spec)
    token_ids = []
    for value in ids:
        token_id = check_int("id", value, 0)
        if token_id not in spec.vocabulary:
            raise ValueError(
                f"id {token_id} is no token of this vocabulary, which has {pluralize(len(spec.vocabulary), 'token')}"
            )
        if token_id in reasons:
            raise ValueError(f"id {token_id} is {reasons[token_id]}; leave it out")
        token_ids.append(token_id)
    return token_ids


def keep_tokens(spec: TokenizerSpec, is_kept: NDArray[np.bool_], is_merge_kept: NDArray[np.bool_]) -> TokenizerSpec:
    """Keep only some of the tokens and merges; no id changes."""
    is_merge_kept = is_merge_kept & is_kept[spec.merges].all(axis=1) & is_kept[spec.merge_results]
    remaining_ids = np.flatnonzero(is_kept)
    vocabulary = spec.vocabulary.take(remaining_ids, remaining_ids)
    unk_token = spec.unk_token if spec.unk_token is None or is_kept[find_unk_id(spec)] else None
    return replace(
        _keep_names(spec, {name: token_id for name, token_id in spec.special_tokens.items() if is_kept[token_id]}),
        vocabulary=vocabulary,
        training=None,
        merges=spec.merges[is_merge_kept],
        merge_results=spec.merge_results[is_merge_kept],
        merge_ranks=None if spec.merge_ranks is None else spec.merge_ranks[is_merge_kept],
        n_merges_within_words=None
        if spec.n_merges_within_words is None
        else int(np.count_nonzero(is_merge_kept[: spec.n_merges_within_words])),
        template=_remap_template(spec, lambda token_id: token_id if is_kept[token_id] else NO_ID),
        unk_token=unk_token,
        fuse_unk=spec.fuse_unk and unk_token is not None,
        ends_word=None if spec.ends_word is None else (spec.ends_word & is_kept)[: vocabulary.limit],
        unmerged=None,  # unknown: it depends on the merges
    )


def _remap_template(
    spec: TokenizerSpec, get_new_id: Callable[[int], int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Replace the ids of the template by new ones; those that become -1 are left out."""
    if spec.template is None:
        return None
    prepended, appended = (
        tuple(new_id for token_id in ids if (new_id := get_new_id(token_id)) >= 0) for ids in spec.template
    )
    return (prepended, appended) if prepended or appended else None


def _remap_ids(spec: TokenizerSpec, new_ids: NDArray[np.int32]) -> TokenizerSpec:
    """Replace all ids by new ones; their order does not change."""
    used_ids = np.flatnonzero(spec.vocabulary.kinds != UNUSED)
    vocabulary = spec.vocabulary.take(used_ids, new_ids[used_ids])
    ends_word, unmerged = None, spec.unmerged
    if unmerged is not None:
        unmerged = new_ids[unmerged[unmerged < len(new_ids)]]
        unmerged = unmerged[unmerged != NO_ID]
    if spec.ends_word is not None:
        ends_word = np.zeros(vocabulary.limit, dtype=np.bool_)
        ends_word[new_ids[np.flatnonzero(spec.ends_word)]] = True
    return replace(
        spec,
        vocabulary=vocabulary,
        merges=new_ids[spec.merges],
        merge_results=new_ids[spec.merge_results],
        events=None if spec.events is None else spec.events.renumber(new_ids),
        special_tokens={name: int(new_ids[token_id]) for name, token_id in spec.special_tokens.items()},
        template=_remap_template(spec, lambda token_id: int(new_ids[token_id])),
        ends_word=ends_word,
        unmerged=unmerged,
        clip=None if spec.clip is None else (int(new_ids[spec.clip[0]]), int(new_ids[spec.clip[1]])),
    )


# Choosing leaves: tokens that a merge makes and that are a part of no other merge -------------------------------------


def find_removable_tokens(spec: TokenizerSpec) -> dict[int, list[int]]:
    """Find the tokens that can become leaves, in the order of their first merges: id → the indices of its merges.

    Only merges make them, and of no token that stays, such as a special token, they are a part.
    """
    unremovable = find_base_tokens(spec) | find_required_tokens(spec).keys()
    merges_of_token: defaultdict[int, list[int]] = defaultdict(list)
    for index, token in enumerate(spec.merge_results.tolist()):
        merges_of_token[token].append(index)
    merges, unvisited = spec.merges.tolist(), list(unremovable & merges_of_token.keys())
    while unvisited:  # the parts of tokens that stay do, too
        parts = {part for index in merges_of_token[unvisited.pop()] for part in merges[index]} - unremovable
        unremovable |= parts
        unvisited += parts & merges_of_token.keys()
    return {token: indices for token, indices in merges_of_token.items() if token not in unremovable}


def choose_rarest_leaves(
    spec: TokenizerSpec, merges_of_token: dict[int, list[int]], frequencies: NDArray[np.int64], n: int
) -> list[int]:
    """Choose the n tokens to remove, in order: each time the leaf with the lowest frequency.

    `merges_of_token` is what `find_removable_tokens` gives, and n at most their number. Of equally frequent leaves the
    one with the latest merge goes first. What a removed token stood for is two tokens then, so its frequency is added
    to those of the two parts of its first merge.
    """
    import heapq

    merges, counts = spec.merges.tolist(), frequencies.tolist()
    parts = {token: [part for i in indices for part in set(merges[i])] for token, indices in merges_of_token.items()}
    n_uses: defaultdict[int, int] = defaultdict(int)
    for left, right in merges:
        for part in {left, right}:
            n_uses[part] += 1
    queue = [(counts[token], -indices[0], token) for token, indices in merges_of_token.items() if n_uses[token] == 0]
    heapq.heapify(queue)
    removed_ids: list[int] = []
    while len(removed_ids) < n:
        _, _, token = heapq.heappop(queue)
        removed_ids.append(token)
        for part in merges[merges_of_token[token][0]]:
            counts[part] += counts[token]
        for part in parts[token]:
            n_uses[part] -= 1
            if n_uses[part] == 0 and part in merges_of_token:
                heapq.heappush(queue, (counts[part], -merges_of_token[part][0], part))
    return removed_ids
