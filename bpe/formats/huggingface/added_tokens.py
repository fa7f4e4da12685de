"""The added tokens of a tokenizer.json: read, written, and added to a tokenizer as `add_tokens` of `tokenizers` does.

The tokens that a folder's configuration adds: `bpe/formats/configuration.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpe.base.fast_dataclasses import dataclass, replace
from bpe.errors import ID_LIMIT, FormatError, short_repr
from bpe.formats.huggingface.expressible import can_be_text
from bpe.formats.huggingface.lists import split_off_lists
from bpe.formats.huggingface.spelling import map_special_ids, read_spellings
from bpe.formats.huggingface.steps import find_default_steps
from bpe.formats.schema import Field, parse_json, read_fields, read_id, refuse
from bpe.vocab.editing import append_tokens
from bpe.vocab.output_steps import DecodeByteLevel
from bpe.vocab.spec import MATCHING_FLAGS, NO_FLAGS, TokenizerSpec, make_flags
from bpe.vocab.special_tokens import remove_ineffective_flags
from bpe.vocab.vocabulary import ORDINARY, SPECIAL, Vocabulary

if TYPE_CHECKING:
    from bpe.text import normalizers

_dump = json.JSONEncoder(ensure_ascii=False).encode
#: The fields of an added token, in the order in which `tokenizers` writes them.
ADDED_TOKEN_FIELDS = {
    "id": Field(read_id),
    "content": Field(str),
    **dict.fromkeys(MATCHING_FLAGS, Field(bool, False)),
    "special": Field(bool, True),
}
_FIELD_NAMES = tuple(ADDED_TOKEN_FIELDS)


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
    value: object, extra_rows: Sequence[tuple[Any, ...]], keep_ids: bool, normalizer: normalizers.Normalizer | None
) -> AddedTokens:
    """Read the added tokens of a file; `extra_rows` has the fields of further ones, which follow those of the file."""
    if not isinstance(value, list):
        raise FormatError(f"{short_repr(value)} is not a list", where="added_tokens")
    rows = extra_rows if extra_rows and not value else _list_rows(value)
    tokens = None if rows is None or (extra_rows and value) else _read_rows(rows)
    if tokens is None:
        tokens = read_each_token([*value, *(dict(zip(_FIELD_NAMES, row, strict=True)) for row in extra_rows)])
    flags = remove_ineffective_flags(tokens[1], normalizer)
    if normalizer is not None:
        for name, token_flags in flags.items():
            if "normalized" in token_flags and not normalizer.spelling(name):
                rule = "tokenizers splits every text at the empty string, which is what this name is normalized to"
                refuse("added_tokens", name, rule, 'remove the token, or set "normalized" to false')
    return AddedTokens(tokens[0], flags, keep_ids)


def _list_rows(value: list[Any]) -> list[tuple[Any, ...]] | None:
    """List the fields of each token; None unless all of them are objects with all fields and no others."""
    if not value or set(map(type, value)) != {dict} or set(map(len, value)) != {len(_FIELD_NAMES)}:
        return None
    try:
        return list(map(itemgetter(*_FIELD_NAMES), value))
    except KeyError:
        return None


def _read_rows(
    rows: Sequence[tuple[Any, ...]],
) -> tuple[dict[str, int], dict[str, frozenset[str]]] | None:
    """Read valid tokens, given by their fields; None for others. This is the fast path of `read_each_token`."""
    ids, contents, *columns = [list(map(itemgetter(i), rows)) for i in range(len(_FIELD_NAMES))]
    if set(map(type, ids)) != {int} or set(map(type, contents)) != {str} or not 0 <= min(ids) <= max(ids) < ID_LIMIT:
        return None
    if set(chain.from_iterable(map(type, column) for column in columns)) != {bool} or "" in contents:
        return None
    if len(set(ids)) < len(ids) or len(set(contents)) < len(contents):
        return None
    codes = np.zeros(len(rows), dtype=np.uint8)  # one bit per flag of a token
    for i, column in enumerate(columns):
        codes |= np.fromiter(column, np.uint8, len(column)) << np.uint8(i)
    flags_by_code: dict[int, frozenset[str]] = {}
    for code in set(codes.tolist()):  # np.unique would import numpy.ma: 18 ms
        flags_by_code[code] = _read_flags({flag: code >> i & 1 for i, flag in enumerate(_FIELD_NAMES[2:])})
    flags = map(flags_by_code.__getitem__, codes.tolist())
    return dict(zip(contents, ids, strict=True)), dict(zip(contents, flags, strict=True))


def read_each_token(value: list[Any]) -> tuple[dict[str, int], dict[str, frozenset[str]]]:
    """Read any list of tokens: returns name → id and name → flags; errors name the position."""
    ids: dict[str, int] = {}
    flags: dict[str, frozenset[str]] = {}
    used_ids: set[int] = set()
    for i, item in enumerate(value):
        where = f"added_tokens[{i}]"
        token = read_fields(item, where, ADDED_TOKEN_FIELDS)
        name = token["content"]
        if not name or name in ids or token["id"] in used_ids:
            refuse(where, item, "a token must not be empty, and its text and its id must be unique", "remove it")
        ids[name] = token["id"]
        used_ids.add(token["id"])
        flags[name] = _read_flags(token)
    return ids, flags


def _read_flags(token: Mapping[str, Any]) -> frozenset[str]:
    """Read the flags of a token as the spec has them."""
    return make_flags({flag for flag in MATCHING_FLAGS if token[flag]}, is_special=token["special"])


def write_added_tokens(spec: TokenizerSpec) -> Iterator[str]:
    """Yield the added tokens as JSON text, sorted by id. Equals the output of `json`, which takes 50 times as long."""
    json_by_flags: dict[frozenset[str], str] = {}  # flags → the JSON of their fields
    separator = "\n"
    for token_id, name in sorted(map_special_ids(spec).items()):
        flags: frozenset[str] = spec.token_flags.get(name, frozenset())
        if flags not in json_by_flags:
            fields = {name: name in flags for name in _FIELD_NAMES[2:-1]} | {"special": "ordinary" not in flags}
            json_by_flags[flags] = ",\n".join(f'      "{name}": {_dump(value)}' for name, value in fields.items())
        head = f'      "id": {token_id},\n      "content": {_dump(name)}'
        yield f"{separator}    {{\n{head},\n{json_by_flags[flags]}\n    }}"
        separator = ",\n"
    if spec.special_tokens:
        yield "\n  "


# Adding tokens --------------------------------------------------------------------------------------------------------


class FileToken(NamedTuple):
    """An added token that the tokenizer's own file lists."""

    id: int
    flags: frozenset[str]


def read_all_added_tokens(data: bytes) -> dict[str, FileToken]:
    """Read the added tokens of a valid tokenizer.json by name, those without an effect included."""
    split = split_off_lists(data, parse_json)
    top: Any = parse_json(data) if split is None else split[0]
    ids, flags = read_each_token(top.get("added_tokens") or [])
    return {name: FileToken(token_id, flags[name]) for name, token_id in ids.items()}


def add_tokens(
    spec: TokenizerSpec, tokens: Mapping[str, frozenset[str]], file_flags: Mapping[str, frozenset[str]] = NO_FLAGS
) -> TokenizerSpec:
    """Add tokens (name → flags) to a tokenizer: tokens that it has get the flags, and others the next ids.

    A token of the model keeps its id; text can still become it, unless no merge, symbol or whole word makes it.
    `file_flags` has the flags of the tokens that it has, those without an effect included.

    Raises:
        FormatError: for new tokens where ids have gaps, so that the next ids are not known, and for too many.

    """
    if not tokens:
        return spec
    ids, vocabulary = dict(spec.special_tokens), spec.vocabulary
    missing_names = [name for name in tokens if name not in ids]
    model_ids = _find_ids(spec, missing_names)
    new_names = [name for name in missing_names if name not in model_ids]
    if new_names and (len(vocabulary) < vocabulary.limit or vocabulary.limit + len(new_names) > ID_LIMIT):
        raise FormatError(
            f"the ids of the vocabulary have gaps below {vocabulary.limit}, so that the next id, of the token "
            f"{short_repr(new_names[0])}, is not known; write it to the added_tokens of a tokenizer.json, with its id"
        )
    ids |= model_ids | {name: vocabulary.limit + i for i, name in enumerate(new_names)}
    flags = {name: spec.token_flags.get(name, frozenset()) for name in ids} | dict(file_flags) | dict(tokens)
    extended_spec = append_tokens(
        spec, new_names, {name: ids[name] for name in sorted(ids, key=ids.__getitem__)}, flags
    )
    if model_ids:
        extended_spec = _drop_unreachable(extended_spec, model_ids)
    if extended_spec.model == "byte" and extended_spec.decoder is None and find_default_steps(extended_spec) is None:
        return replace(extended_spec, decoder=(DecodeByteLevel(),))
    return extended_spec


def _find_ids(spec: TokenizerSpec, names: list[str]) -> dict[str, int]:
    """Find the names that are tokens of the model: name → id."""
    token_by_name = {name: token for name, token in zip(names, read_spellings(spec.model, names), strict=True) if token}
    ordinary_ids = spec.vocabulary.find_ids(token_by_name.values()) if token_by_name else {}
    ids = {name: ordinary_ids[token] for name, token in token_by_name.items() if token in ordinary_ids}
    name_by_token = {name.encode(): name for name in names if name not in ids}
    special_ids = (
        {name_by_token[token]: token_id for token_id, token in spec.vocabulary.items(SPECIAL) if token in name_by_token}
        if name_by_token
        else {}
    )
    return ids | special_ids


def _drop_unreachable(spec: TokenizerSpec, model_ids: Mapping[str, int]) -> TokenizerSpec:
    """Make added tokens that text cannot become special tokens only, as after reading a file."""
    kinds = spec.vocabulary.kinds.copy()
    is_in_merges = np.zeros(len(kinds), dtype=np.bool_)
    is_in_merges[spec.merges], is_in_merges[spec.merge_results] = True, True
    for name, token_id in model_ids.items():
        if kinds[token_id] == ORDINARY and not is_in_merges[token_id] and spec.vocabulary[token_id] == name.encode():
            kinds[token_id] = ORDINARY if can_be_text(spec, name) else SPECIAL
    ends_word = spec.ends_word
    vocabulary = Vocabulary.from_arrays(spec.vocabulary.blob, spec.vocabulary.offsets, kinds)
    return replace(
        spec, vocabulary=vocabulary, ends_word=None if ends_word is None else ends_word & (kinds == ORDINARY)
    )
