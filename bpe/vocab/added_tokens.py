"""Adds special tokens and added tokens to a `TokenizerSpec`, and removes them. No merge produces them.

Learning more tokens from a corpus: `bpe/training/extend.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from bpe.base.offsets import offsets_of
from bpe.errors import counted, shown
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_tokens import check_special_tokens, effective_flags
from bpe.vocab.vocabulary import ID_LIMIT, NONE, SPECIAL, Vocabulary

#: The flags that `add_tokens` of `tokenizers` gives to a str: not special, and matched in the normalized text.
ADDED = frozenset({"ordinary", "normalized"})


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
            f"the largest id is {old.limit - 1}, and {counted(len(names), 'more token')} would have ids up to "
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


def without_special_tokens(spec: TokenizerSpec, names: Iterable[str]) -> TokenizerSpec:
    """The tokenizer without some special or added tokens; all other ids stay. One that text can become stays a token.

    Linear in the size of the vocabulary.

    Raises:
        TypeError: for anything but a list of str.
        ValueError: for a name that is no special or added token, or one that the tokenizer needs.

    """
    removed = check_special_tokens(names, "tokens", "token")
    old, kinds = spec.vocabulary, spec.vocabulary.kinds.copy()
    needed = {number: "the template" for part in spec.template or () for number in part}
    needed |= dict.fromkeys(spec.clip or (), "CLIP's rows")
    merged = np.zeros(spec.vocabulary.limit, dtype=np.bool_)
    merged[spec.merges], merged[spec.merge_results] = True, True
    for name in removed:
        number = spec.special_tokens.get(name)
        if number is None or name == spec.unk_token:
            rule = "no special or added token" if number is None else "the unknown token, which stays"
            raise ValueError(f"{shown(name)} is {rule}; the names to choose from are {shown(_removable(spec), 200)}")
        if number in needed:
            raise ValueError(f"{shown(name)} has the id {number}, which {needed[number]} has; change that first")
        if merged[number] and kinds[number] == SPECIAL:
            raise ValueError(f"{shown(name)} has the id {number}, which a merge has; this token must stay")
    gone = [number for name in removed if kinds[number := spec.special_tokens[name]] == SPECIAL]
    lengths = np.diff(old.offsets)
    bytes_kept = np.ones(len(old.blob), dtype=np.bool_)
    for number in gone:
        bytes_kept[old.offsets[number] : old.offsets[number + 1]] = False
    kinds[gone], lengths[gone] = NONE, 0
    limit = int(np.flatnonzero(kinds != NONE).max(initial=-1)) + 1
    blob = np.frombuffer(old.blob, dtype=np.uint8)[bytes_kept].tobytes()
    vocabulary = Vocabulary.from_arrays(blob, offsets_of(lengths[:limit]), kinds[:limit].copy())
    ids = {name: number for name, number in spec.special_tokens.items() if name not in removed}
    flags = {name: own for name, own in spec.token_flags.items() if name in ids}
    return replace(
        spec,
        vocabulary=vocabulary,
        special_tokens=ids,
        token_flags=flags,
        roles={role: name for role, name in spec.roles.items() if name in ids},
        ends_word=None if spec.ends_word is None else spec.ends_word[:limit].copy(),
    )


def _removable(spec: TokenizerSpec) -> list[str]:
    return [name for name in spec.special_tokens if name != spec.unk_token]


def _check_new(spec: TokenizerSpec, names: tuple[str, ...]) -> None:
    """Raise ValueError for names that are already tokens."""
    tokens = {name.encode(): i for i, name in enumerate(names)}
    taken = {token: number for number, token in spec.vocabulary.items(SPECIAL) if token in tokens}
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
