"""Adds tokens to a tokenizer that was read, with the ids and flags that `add_tokens` of `tokenizers` gives them.

The tokens that a folder's configuration adds: `bpe/formats/configuration.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bpe.errors import FormatError, shown
from bpe.formats.huggingface.added_tokens import added_one_by_one
from bpe.formats.huggingface.decoders import own_steps
from bpe.formats.huggingface.expressible import can_be_text
from bpe.formats.huggingface.kernel_lists import divided
from bpe.formats.huggingface.spelling import spelled_all
from bpe.formats.json_fields import load
from bpe.vocab import decoding as d
from bpe.vocab.spec import NO_FLAGS, TokenizerSpec
from bpe.vocab.special_tokens import effective_flags
from bpe.vocab.vocabulary import ID_LIMIT, ORDINARY, SPECIAL, Vocabulary


def added_tokens_of(data: bytes) -> dict[str, tuple[int, frozenset[str]]]:
    """The added tokens of a valid tokenizer.json, name → id and flags, those without an effect included."""
    found = divided(data, load)
    top: Any = load(data) if found is None else found[0]
    ids, flags = added_one_by_one(top.get("added_tokens") or [])
    return {name: (number, flags[name]) for name, number in ids.items()}


def add_tokens(
    spec: TokenizerSpec, tokens: Mapping[str, frozenset[str]], given: Mapping[str, frozenset[str]] = NO_FLAGS
) -> TokenizerSpec:
    """The tokenizer with added tokens (name → flags): those that it has get the flags, and others the next ids.

    A token of the model keeps its id; text can still become it, unless no merge, symbol or whole word makes it.
    `given` has the flags of the tokens that it has, those without an effect included.

    Raises:
        FormatError: for new tokens where ids have gaps, so that the next ids are not known, and for too many.

    """
    if not tokens:
        return spec
    ids, old = dict(spec.special_tokens), spec.vocabulary
    unknown = [name for name in tokens if name not in ids]
    found = _ids_of(spec, unknown)
    new = [name for name in unknown if name not in found]
    if new and (len(old) < old.limit or old.limit + len(new) > ID_LIMIT):
        raise FormatError(
            f"the ids of the vocabulary have gaps below {old.limit}, so that the next id, of the token "
            f"{shown(new[0])}, is not known; write it to the added_tokens of a tokenizer.json, with its id"
        )
    ids |= found | {name: old.limit + i for i, name in enumerate(new)}
    flags = {name: spec.token_flags.get(name, frozenset()) for name in ids} | dict(given) | dict(tokens)
    changed = replace(
        spec,
        vocabulary=Vocabulary.from_arrays(
            old.blob + "".join(new).encode(),
            np.concatenate(
                (old.offsets, old.offsets[-1] + np.cumsum([len(name.encode()) for name in new], dtype=np.int64))
            ),
            np.concatenate((old.kinds, np.full(len(new), SPECIAL, dtype=np.uint8))),
        ),
        special_tokens={name: ids[name] for name in sorted(ids, key=ids.__getitem__)},
        token_flags=effective_flags(flags, spec.normalizer),
        ends_word=None if spec.ends_word is None else np.append(spec.ends_word, np.zeros(len(new), np.bool_)),
    )
    if found:
        changed = _without_unreachable(changed, found)
    if changed.model == "byte" and changed.decoder is None and own_steps(changed) is None:
        return replace(changed, decoder=(d.ByteLevel(),))
    return changed


def _ids_of(spec: TokenizerSpec, names: list[str]) -> dict[str, int]:
    """Name → id of the names that are tokens of the model."""
    spelled = {name: token for name, token in zip(names, spelled_all(spec.model, names), strict=True) if token}
    ordinary = spec.vocabulary.find_ids(spelled.values()) if spelled else {}
    found = {name: ordinary[token] for name, token in spelled.items() if token in ordinary}
    left = {name.encode(): name for name in names if name not in found}
    others = {left[token]: number for number, token in spec.vocabulary.items(SPECIAL) if token in left} if left else {}
    return found | others


def _without_unreachable(spec: TokenizerSpec, found: Mapping[str, int]) -> TokenizerSpec:
    """The tokenizer in which added tokens that text cannot become are no ordinary tokens, as after reading a file."""
    kinds = spec.vocabulary.kinds.copy()
    merged = np.zeros(len(kinds), dtype=np.bool_)
    merged[spec.merges], merged[spec.merge_results] = True, True
    for name, number in found.items():
        if kinds[number] == ORDINARY and not merged[number] and spec.vocabulary[number] == name.encode():
            kinds[number] = ORDINARY if can_be_text(spec, name) else SPECIAL
    ends = spec.ends_word
    vocabulary = Vocabulary.from_arrays(spec.vocabulary.blob, spec.vocabulary.offsets, kinds)
    return replace(spec, vocabulary=vocabulary, ends_word=None if ends is None else ends & (kinds == ORDINARY))
