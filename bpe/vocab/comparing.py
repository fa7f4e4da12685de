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

from bpe.base.fast_dataclasses import dataclass, fields
from bpe.errors import pluralize, short_repr
from bpe.vocab.events import are_equal_events
from bpe.vocab.output_steps import step_to_json
from bpe.vocab.spec import ROLES, TokenizerSpec
from bpe.vocab.vocabulary import SPECIAL

#: The fields of a spec that have a function here, that follow from the others, or, the last six, that change no id.
_OTHER_FIELDS = {
    "vocabulary", "merges", "merge_results", "merge_ranks", "events", "special_tokens", "token_flags", "ends_word",
    "unmerged", "post_processor", "truncation", "padding", "training", "roles",
    "chat_templates",
}  # fmt: skip
#: How many tokens a line names.
_MAX_LISTED_TOKENS = 5


def compute_fingerprint(spec: TokenizerSpec) -> str:
    """Compute the SHA-256, in hex, of everything that determines the ids. It is the same on every machine."""
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
        ("dropout", 0.0),
    ):  # fmt: skip
        if getattr(spec, name) != default:
            settings[name] = getattr(spec, name)
    if spec.n_merges_within_words is not None:
        settings["word_merges"] = spec.n_merges_within_words  # as in files
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
    """Compare two specs; the list is empty if and only if their fingerprints are equal.

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
    differences = [*_compare_vocabulary(a, b, names), *_compare_merges(a, b, names), *_compare_settings(a, b, names)]
    if not differences and compute_fingerprint(a) != compute_fingerprint(b):
        differences.append(
            Difference("settings", "fingerprint", f"{compute_fingerprint(a)} and {compute_fingerprint(b)}")
        )
    return differences


def compare_roles(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> list[Difference]:
    """Compare the roles of special tokens; no id depends on them."""
    parts = []
    for role in ROLES:
        first, second = (short_repr(spec.roles[role]) if role in spec.roles else "none" for spec in (a, b))
        if first != second:
            parts.append(f"{role} is {first} in {names[0]}, {second} in {names[1]}")
    return [Difference("settings", "roles", "; ".join(parts), harmless=True)] if parts else []


def compare_chat_templates(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> list[Difference]:
    """Compare the chat templates; no id of a text depends on them."""
    parts = []
    for name in dict.fromkeys((*a.chat_templates, *b.chat_templates)):
        first, second = (spec.chat_templates.get(name) for spec in (a, b))
        if first is None or second is None:
            parts.append(f"{short_repr(name)} only in {names[first is None]}")
        elif first != second:
            parts.append(f"{short_repr(name)} differs")
    return [Difference("settings", "chat_templates", "; ".join(parts), harmless=True)] if parts else []


def compare_settings(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> list[Difference]:
    """Compare two specs by their settings alone, as `compare` does."""
    return list(_compare_settings(a, b, names))


def _compare_vocabulary(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> Iterator[Difference]:
    if _have_same_tokens(a, b):
        return
    ids_a, ids_b = a.vocabulary.id_of_token, b.vocabulary.id_of_token
    message = _describe_maps("token", ids_a, ids_b, names)
    if message:
        yield Difference("vocabulary", "vocabulary", message)
    elif dict(a.special_tokens) == dict(b.special_tokens):
        special_ids = [{token: token_id for token_id, token in spec.vocabulary.items(SPECIAL)} for spec in (a, b)]
        message = _describe_maps("other token", special_ids[0], special_ids[1], names)
        yield Difference("vocabulary", "vocabulary", message or "tokens of another kind")


def _have_same_tokens(a: TokenizerSpec, b: TokenizerSpec) -> bool:
    """Whether two vocabularies have the same tokens with the same ids. Makes no object for each token."""
    first, second = a.vocabulary, b.vocabulary
    is_same = first.blob == second.blob and np.array_equal(first.kinds, second.kinds)
    return is_same and np.array_equal(first.offsets, second.offsets)


def _describe_maps(
    noun: str,
    first: Mapping[Any, Any],
    second: Mapping[Any, Any],
    names: tuple[str, str],
    spell: Callable[[Any], str] = short_repr,
) -> str:
    """Describe how two mappings differ: keys that only one has, and keys with other values."""
    parts: list[str] = []
    for mapping, other_map, name in ((first, second, names[0]), (second, first, names[1])):
        keys = [key for key in mapping if key not in other_map]
        if keys:
            count = pluralize(len(keys), noun) if not parts else str(len(keys))
            parts.append(f"{count} only in {name} ({_list_some(map(spell, keys))})")
    changed_keys = [key for key in first if key in second and first[key] != second[key]]
    if changed_keys:
        values = (f"{short_repr(key)} {first[key]} and {second[key]}" for key in changed_keys)
        parts.append(f"{pluralize(len(changed_keys), noun)} with another value ({_list_some(values)})")
    return ", ".join(parts)


def _list_some(texts: Iterable[str]) -> str:
    """List the first few texts."""
    first_texts = list(islice(texts, _MAX_LISTED_TOKENS + 1))
    return ", ".join(first_texts[:_MAX_LISTED_TOKENS] + ["…"] * (len(first_texts) > _MAX_LISTED_TOKENS))


def _compare_merges(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> Iterator[Difference]:
    """Find the first merge that differs, compared by the bytes of its tokens, and merges that only one has."""
    if not are_equal_events(a.events, b.events):
        yield Difference("merges", "events", "other merges and deletions (PickyBPE)")
        return
    is_same = np.array_equal(a.merges, b.merges) and np.array_equal(a.merge_results, b.merge_results)
    if not (is_same and _have_same_tokens(a, b)):
        merges_a, merges_b = _list_merges(a), _list_merges(b)
        if merges_a != merges_b:
            index = next((i for i, (x, y) in enumerate(zip(merges_a, merges_b, strict=False)) if x != y), -1)
            message = (
                _describe_maps("merge", dict.fromkeys(merges_a), dict.fromkeys(merges_b), names, _spell_merge)
                or "the same in another order"
            )
            if index >= 0:
                first, second = _spell_merge(merges_a[index]), _spell_merge(merges_b[index])
                message += f"; merge {index} is {first} in {names[0]}, {second} in {names[1]}"
            yield Difference("merges", "merges", message)
            return
    if not _are_equal_arrays(a.merge_ranks, b.merge_ranks):
        yield Difference("merges", "merge_ranks", "the same merges, with other ranks")


def _list_merges(spec: TokenizerSpec) -> list[tuple[bytes, bytes]]:
    vocabulary = spec.vocabulary
    return [(vocabulary[left], vocabulary[right]) for left, right in spec.merges.tolist()]


def _spell_merge(pair: tuple[bytes, bytes]) -> str:
    return f"{short_repr(pair[0])} + {short_repr(pair[1])}"


def _are_equal_arrays(a: Any, b: Any) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, b))


def _compare_settings(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> Iterator[Difference]:
    if message := _describe_maps("token", a.special_tokens, b.special_tokens, names):
        yield Difference("settings", "special_tokens", message)
    flags = [{name: sorted(field) for name, field in spec.token_flags.items() if field} for spec in (a, b)]
    if message := _describe_maps("token", flags[0], flags[1], names):
        yield Difference("settings", "token_flags", message)
    for field in fields(TokenizerSpec):
        value_a, value_b = getattr(a, field.name), getattr(b, field.name)
        if field.name not in _OTHER_FIELDS and value_a != value_b:
            message = f"{short_repr(value_a, 200)} in {names[0]}, {short_repr(value_b, 200)} in {names[1]}"
            yield Difference("settings", field.name, message)
    if a.end_of_word == b.end_of_word and _have_same_tokens(a, b) and not _are_equal_arrays(a.ends_word, b.ends_word):
        yield Difference("settings", "ends_word", "other tokens end words")
