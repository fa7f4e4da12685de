"""Compares tokenizers as data: by a fingerprint, or in words by their vocabularies, merges and settings.

`bpe diff` prints the result, and a conversion uses it to find what a format did not keep. The ids of texts are compared
by `bpe/converting.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from bpe.base.records import dataclass, fields
from bpe.errors import pluralize, short_repr
from bpe.vocab.after_encoding import step_to_json
from bpe.vocab.events import same_events
from bpe.vocab.spec import ROLES, TokenizerSpec
from bpe.vocab.vocabulary import SPECIAL

#: The fields of a spec that have a function here, that follow from the others, or, the last five, that change no id.
_NOT_SETTINGS = {
    "vocabulary", "merges", "merge_results", "merge_ranks", "special_tokens", "token_flags", "ends_word", "unreachable",
    "post_processor", "truncation", "padding", "training", "roles",
}  # fmt: skip
#: How many tokens a line names.
_SHOWN = 5


def fingerprint(spec: TokenizerSpec) -> str:
    """The SHA-256, in hex, of everything that determines the ids. It is the same on every machine."""
    digest = hashlib.sha256()
    settings: dict[str, object] = {
        "model": spec.model,
        "pretokenizer": None if spec.pretokenizer is None else spec.pretokenizer.to_json(),
        "normalizer": None if spec.normalizer is None else spec.normalizer.to_json(),
        "special_tokens": sorted(spec.special_tokens.items()),
        "unk_token": spec.unk_token,
        "fuse_unk": spec.fuse_unk,
        "end_of_word": spec.end_of_word,
        "end_of_word_glued": spec.end_of_word_glued,
        "ignore_merges": spec.ignore_merges,
        "clip": spec.clip,
    }
    if spec.token_flags:
        settings["token_flags"] = sorted((name, sorted(flags)) for name, flags in spec.token_flags.items())
    if spec.template is not None:
        settings["template"] = spec.template
    for name, default in (
        ("byte_fallback", False), ("drop_unknown", False), ("subword_prefix", None),
        ("dropout", 0.0), ("word_merges", None),
    ):  # fmt: skip
        if getattr(spec, name) != default:
            settings[name] = getattr(spec, name)
    if spec.decoder is not None:
        settings["decoder"] = [step_to_json(step) for step in spec.decoder]
    digest.update(json.dumps(settings, sort_keys=True).encode())
    ends_word = b"" if spec.ends_word is None else spec.ends_word.tobytes()
    ranks = b"" if spec.merge_ranks is None else spec.merge_ranks.astype("<i4").tobytes()
    for part in (
        spec.vocabulary.blob,
        spec.vocabulary.offsets.astype("<i8").tobytes(),
        spec.vocabulary.kinds.tobytes(),
        spec.merges.astype("<i4").tobytes(),
        spec.merge_results.astype("<i4").tobytes(),
        ranks,
        ends_word,
        *(() if spec.events is None else (spec.events.tobytes(),)),
    ):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True)
class Difference:
    """One difference between two tokenizers.

    Attributes:
        kind: "vocabulary", "merges" or "settings".
        field: the field of `TokenizerSpec` that differs.
        message: the difference in words, in one line.
        harmless: whether it is known that it changes no id.

    """

    kind: str
    field: str
    message: str
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.message}{'; this changes no id' if self.harmless else ''}"


def compare(
    a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str] = ("the first", "the second")
) -> list[Difference]:
    """What differs between two specs; an empty list if and only if their fingerprints are equal.

    Args:
        a: the first.
        b: the second.
        names: what the messages call them.

    >>> from dataclasses import replace
    >>> from bpe.vocab.vocabulary import Vocabulary
    >>> empty = np.empty((0, 2), np.int32)
    >>> spec = TokenizerSpec("byte", Vocabulary([(0, b"a"), (1, b"b")]), empty, empty[:, 0])
    >>> for each in compare(spec, replace(spec, fuse_unk=True, vocabulary=Vocabulary([(0, b"a"), (2, b"c")]))):
    ...     print(each)
    vocabulary: 1 token only in the first (b'b'), 1 only in the second (b'c')
    fuse_unk: False in the first, True in the second

    """
    found = [*_compare_vocabulary(a, b, names), *_compare_merges(a, b, names), *_compare_settings(a, b, names)]
    if not found and fingerprint(a) != fingerprint(b):
        found.append(Difference("settings", "fingerprint", f"{fingerprint(a)} and {fingerprint(b)}"))
    return found


def compare_roles(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> list[Difference]:
    """What differs between the roles of special tokens; no id depends on them."""
    parts = []
    for role in ROLES:
        one, other = (short_repr(each.roles[role]) if role in each.roles else "none" for each in (a, b))
        if one != other:
            parts.append(f"{role} is {one} in {names[0]}, {other} in {names[1]}")
    return [Difference("settings", "roles", "; ".join(parts), harmless=True)] if parts else []


def compare_settings(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> list[Difference]:
    """The differences of `compare` that are of the kind "settings"."""
    return list(_compare_settings(a, b, names))


def _compare_vocabulary(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> Iterator[Difference]:
    if _same_tokens(a, b):
        return
    first, second = a.vocabulary.ids, b.vocabulary.ids
    message = _describe_maps("token", first, second, names)
    if message:
        yield Difference("vocabulary", "vocabulary", message)
    elif dict(a.special_tokens) == dict(b.special_tokens):
        others = [{token: token_id for token_id, token in each.vocabulary.items(SPECIAL)} for each in (a, b)]
        message = _describe_maps("other token", others[0], others[1], names)
        yield Difference("vocabulary", "vocabulary", message or "tokens of another kind")


def _same_tokens(a: TokenizerSpec, b: TokenizerSpec) -> bool:
    """Whether two vocabularies have the same tokens with the same ids. Makes no object for each token."""
    first, second = a.vocabulary, b.vocabulary
    same = first.blob == second.blob and np.array_equal(first.kinds, second.kinds)
    return same and np.array_equal(first.offsets, second.offsets)


def _describe_maps(
    noun: str,
    first: Mapping[Any, Any],
    second: Mapping[Any, Any],
    names: tuple[str, str],
    spell: Callable[[Any], str] = short_repr,
) -> str:
    """How two mappings differ, in words: keys that only one has, and keys with other values."""
    parts: list[str] = []
    for one, other, name in ((first, second, names[0]), (second, first, names[1])):
        keys = [key for key in one if key not in other]
        if keys:
            what = pluralize(len(keys), noun) if not parts else str(len(keys))
            parts.append(f"{what} only in {name} ({_list_some(map(spell, keys))})")
    changed = [key for key in first if key in second and first[key] != second[key]]
    if changed:
        values = (f"{short_repr(key)} {first[key]} and {second[key]}" for key in changed)
        parts.append(f"{pluralize(len(changed), noun)} with another value ({_list_some(values)})")
    return ", ".join(parts)


def _list_some(texts: Iterable[str]) -> str:
    """The first few texts."""
    some = list(islice(texts, _SHOWN + 1))
    return ", ".join(some[:_SHOWN] + ["…"] * (len(some) > _SHOWN))


def _compare_merges(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> Iterator[Difference]:
    """The first merge that differs, compared by the bytes of its tokens, and merges that only one has."""
    same = np.array_equal(a.merges, b.merges) and np.array_equal(a.merge_results, b.merge_results)
    if not (same and _same_tokens(a, b)):
        first, second = _merge_list(a), _merge_list(b)
        if first != second:
            index = next((i for i, (x, y) in enumerate(zip(first, second, strict=False)) if x != y), -1)
            message = (
                _describe_maps("merge", dict.fromkeys(first), dict.fromkeys(second), names, _spell_merge)
                or "the same in another order"
            )
            if index >= 0:
                message += (
                    f"; merge {index} is {_spell_merge(first[index])} in {names[0]}, {_spell_merge(second[index])} in "
                )
                message += names[1]
            yield Difference("merges", "merges", message)
            return
    if not same_events(a.events, b.events):
        yield Difference("merges", "events", "other merges and deletions (PickyBPE)")
    if not _same_array(a.merge_ranks, b.merge_ranks):
        yield Difference("merges", "merge_ranks", "the same merges, with other ranks")


def _merge_list(spec: TokenizerSpec) -> list[tuple[bytes, bytes]]:
    vocabulary = spec.vocabulary
    return [(vocabulary[left], vocabulary[right]) for left, right in spec.merges.tolist()]


def _spell_merge(pair: tuple[bytes, bytes]) -> str:
    return f"{short_repr(pair[0])} + {short_repr(pair[1])}"


def _same_array(a: Any, b: Any) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, b))


def _compare_settings(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> Iterator[Difference]:
    if message := _describe_maps("token", a.special_tokens, b.special_tokens, names):
        yield Difference("settings", "special_tokens", message)
    flags = [{name: sorted(each) for name, each in spec.token_flags.items() if each} for spec in (a, b)]
    if message := _describe_maps("token", flags[0], flags[1], names):
        yield Difference("settings", "token_flags", message)
    for each in fields(TokenizerSpec):
        one, other = getattr(a, each.name), getattr(b, each.name)
        if each.name not in _NOT_SETTINGS and one != other:
            message = f"{short_repr(one, 200)} in {names[0]}, {short_repr(other, 200)} in {names[1]}"
            yield Difference("settings", each.name, message)
    if a.end_of_word == b.end_of_word and _same_tokens(a, b) and not _same_array(a.ends_word, b.ends_word):
        yield Difference("settings", "ends_word", "other tokens end words")
