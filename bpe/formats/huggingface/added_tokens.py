"""The added tokens of a tokenizer.json: read, written, and added to a tokenizer as `add_tokens` of `tokenizers` does.

The tokens that a folder's configuration adds: `bpe/formats/configuration.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.records import dataclass, replace
from bpe.errors import FormatError, short_repr
from bpe.formats.huggingface.lists import split_off_lists
from bpe.formats.huggingface.spelling import can_be_text, map_special_ids, spell_all
from bpe.formats.huggingface.steps import find_own_steps
from bpe.formats.schema import Field, load, read_fields, read_id, refuse
from bpe.vocab.after_encoding import ByteLevel
from bpe.vocab.editing import append_tokens
from bpe.vocab.spec import MATCHING_FLAGS, NO_FLAGS, TokenizerSpec
from bpe.vocab.special_tokens import remove_ineffective_flags
from bpe.vocab.vocabulary import ID_LIMIT, ORDINARY, SPECIAL, Vocabulary

if TYPE_CHECKING:
    from bpe.text import normalizers as n

_dump = json.JSONEncoder(ensure_ascii=False).encode
#: The fields of an added token, in the order in which `tokenizers` writes them.
TOKEN = {
    "id": Field(read_id),
    "content": Field(str),
    **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), Field(bool, False)),
    "special": Field(bool, True),
}
_NAMES = tuple(TOKEN)


@dataclass(frozen=True)
class AddedTokens:
    """The special and other added tokens, in the file's order.

    Attributes:
        ids: name → id.
        flags: name → flags that have an effect.
        keep_ids: whether the ids are right although `tokenizers` would give others when it reads a file.

    """

    ids: dict[str, int]
    flags: dict[str, frozenset[str]]
    keep_ids: bool


def read_added_tokens(
    value: object, more: Sequence[tuple[Any, ...]], keep_ids: bool, normalizer: n.Normalizer | None
) -> AddedTokens:
    """The added tokens of a file; `more` has the fields of further ones, which follow those of the file."""
    if not isinstance(value, list):
        raise FormatError(f"{short_repr(value)} is not a list", where="added_tokens")
    rows = more if more and not value else _list_rows(value)
    found = None if rows is None or (more and value) else _read_rows(rows)
    if found is None:
        found = read_one_by_one([*value, *(dict(zip(_NAMES, row, strict=True)) for row in more)])
    flags = remove_ineffective_flags(found[1], normalizer)
    if normalizer is not None:
        for name, own in flags.items():
            if "normalized" in own and not normalizer.spelling(name):
                rule = "tokenizers splits every text at the empty string, which is what this name is normalized to"
                refuse("added_tokens", name, rule, 'remove the token, or set "normalized" to false')
    return AddedTokens(found[0], flags, keep_ids)


def _list_rows(value: list[Any]) -> list[tuple[Any, ...]] | None:
    """The fields of each token; None unless all of them are objects with all fields and no others."""
    if not value or set(map(type, value)) != {dict} or set(map(len, value)) != {len(_NAMES)}:
        return None
    try:
        return list(map(itemgetter(*_NAMES), value))
    except KeyError:
        return None


def _read_rows(
    rows: Sequence[tuple[Any, ...]],
) -> tuple[dict[str, int], dict[str, frozenset[str]]] | None:
    """The fast path of `read_one_by_one`, for valid tokens, given by their fields; None for others."""
    ids, contents, *columns = [list(map(itemgetter(i), rows)) for i in range(len(_NAMES))]
    if set(map(type, ids)) != {int} or set(map(type, contents)) != {str} or not 0 <= min(ids) <= max(ids) < ID_LIMIT:
        return None
    if set(chain.from_iterable(map(type, column) for column in columns)) != {bool} or "" in contents:
        return None
    if len(set(ids)) < len(ids) or len(set(contents)) < len(contents):
        return None
    codes = np.zeros(len(rows), dtype=np.uint8)  # one bit per flag of a token
    for i, column in enumerate(columns):
        codes |= np.fromiter(column, np.uint8, len(column)) << np.uint8(i)
    of_code: dict[int, frozenset[str]] = {}
    for code in set(codes.tolist()):  # np.unique would import numpy.ma: 18 ms
        of_code[code] = _read_flags({flag: code >> i & 1 for i, flag in enumerate(_NAMES[2:])})
    flags = map(of_code.__getitem__, codes.tolist())
    return dict(zip(contents, ids, strict=True)), dict(zip(contents, flags, strict=True))


def read_one_by_one(value: list[Any]) -> tuple[dict[str, int], dict[str, frozenset[str]]]:
    """(name → id, name → flags) of any list; errors name the position."""
    ids: dict[str, int] = {}
    flags: dict[str, frozenset[str]] = {}
    seen: set[int] = set()
    for i, item in enumerate(value):
        where = f"added_tokens[{i}]"
        token = read_fields(item, where, TOKEN)
        name = token["content"]
        if not name or name in ids or token["id"] in seen:
            refuse(where, item, "a token must not be empty, and its text and its id must be unique", "remove it")
        ids[name] = token["id"]
        seen.add(token["id"])
        flags[name] = _read_flags(token)
    return ids, flags


def _read_flags(token: Mapping[str, Any]) -> frozenset[str]:
    """The flags of a token as the spec has them."""
    own = {flag for flag in MATCHING_FLAGS if token[flag]}
    return frozenset(own if token["special"] else {*own, "ordinary"})


def write_added_tokens(spec: TokenizerSpec) -> Iterator[str]:
    """Yield the added tokens as JSON text, sorted by id. Equals the output of `json`, which takes 50 times as long."""
    ends: dict[frozenset[str], str] = {}  # flags → the JSON of their fields
    separator = "\n"
    for token_id, name in sorted(map_special_ids(spec).items()):
        flags: frozenset[str] = spec.token_flags.get(name, frozenset())
        if flags not in ends:
            fields = {name: name in flags for name in _NAMES[2:-1]} | {"special": "ordinary" not in flags}
            ends[flags] = ",\n".join(f'      "{name}": {_dump(value)}' for name, value in fields.items())
        yield f'{separator}    {{\n      "id": {token_id},\n      "content": {_dump(name)},\n{ends[flags]}\n    }}'
        separator = ",\n"
    if spec.special_tokens:
        yield "\n  "


# Adding tokens --------------------------------------------------------------------------------------------------------


def read_own_tokens(data: bytes) -> dict[str, tuple[int, frozenset[str]]]:
    """The added tokens of a valid tokenizer.json, name → id and flags, those without an effect included."""
    found = split_off_lists(data, load)
    top: Any = load(data) if found is None else found[0]
    ids, flags = read_one_by_one(top.get("added_tokens") or [])
    return {name: (token_id, flags[name]) for name, token_id in ids.items()}


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
    found = _find_ids(spec, unknown)
    new = [name for name in unknown if name not in found]
    if new and (len(old) < old.limit or old.limit + len(new) > ID_LIMIT):
        raise FormatError(
            f"the ids of the vocabulary have gaps below {old.limit}, so that the next id, of the token "
            f"{short_repr(new[0])}, is not known; write it to the added_tokens of a tokenizer.json, with its id"
        )
    ids |= found | {name: old.limit + i for i, name in enumerate(new)}
    flags = {name: spec.token_flags.get(name, frozenset()) for name in ids} | dict(given) | dict(tokens)
    changed = append_tokens(spec, new, {name: ids[name] for name in sorted(ids, key=ids.__getitem__)}, flags)
    if found:
        changed = _drop_unreachable(changed, found)
    if changed.model == "byte" and changed.decoder is None and find_own_steps(changed) is None:
        return replace(changed, decoder=(ByteLevel(),))
    return changed


def _find_ids(spec: TokenizerSpec, names: list[str]) -> dict[str, int]:
    """Name → id of the names that are tokens of the model."""
    spelled = {name: token for name, token in zip(names, spell_all(spec.model, names), strict=True) if token}
    ordinary = spec.vocabulary.find_ids(spelled.values()) if spelled else {}
    found = {name: ordinary[token] for name, token in spelled.items() if token in ordinary}
    left = {name.encode(): name for name in names if name not in found}
    others = (
        {left[token]: token_id for token_id, token in spec.vocabulary.items(SPECIAL) if token in left} if left else {}
    )
    return found | others


def _drop_unreachable(spec: TokenizerSpec, found: Mapping[str, int]) -> TokenizerSpec:
    """The tokenizer in which added tokens that text cannot become are no ordinary tokens, as after reading a file."""
    kinds = spec.vocabulary.kinds.copy()
    merged = np.zeros(len(kinds), dtype=np.bool_)
    merged[spec.merges], merged[spec.merge_results] = True, True
    for name, token_id in found.items():
        if kinds[token_id] == ORDINARY and not merged[token_id] and spec.vocabulary[token_id] == name.encode():
            kinds[token_id] = ORDINARY if can_be_text(spec, name) else SPECIAL
    ends = spec.ends_word
    vocabulary = Vocabulary.from_arrays(spec.vocabulary.blob, spec.vocabulary.offsets, kinds)
    return replace(spec, vocabulary=vocabulary, ends_word=None if ends is None else ends & (kinds == ORDINARY))
