"""The added tokens of a tokenizer.json, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpe.errors import FormatError, shown
from bpe.formats.huggingface.spelling import names_by_id, token_id
from bpe.formats.json_fields import as_object, get, refuse
from bpe.vocab.spec import FLAGS, TokenizerSpec
from bpe.vocab.special_tokens import effective_flags
from bpe.vocab.vocabulary import ID_LIMIT

if TYPE_CHECKING:
    from bpe.text import normalizers as n

_dump = json.JSONEncoder(ensure_ascii=False).encode
_TOKEN = ("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")


class AddedTokens(NamedTuple):
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
        raise FormatError(f"{shown(value)} is not a list", where="added_tokens")
    rows = more if more and not value else _usual_rows(value)
    found = None if rows is None or (more and value) else _usual_added_tokens(rows)
    if found is None:
        found = added_one_by_one([*value, *(dict(zip(_TOKEN, row, strict=True)) for row in more)])
    flags = effective_flags(found[1], normalizer)
    if normalizer is not None:
        for name, own in flags.items():
            if "normalized" in own and not normalizer.spelling(name):
                rule = "tokenizers splits every text at the empty string, which is what this name is normalized to"
                refuse("added_tokens", name, rule, 'remove the token, or set "normalized" to false')
    return AddedTokens(found[0], flags, keep_ids)


def _usual_rows(value: list[Any]) -> list[tuple[Any, ...]] | None:
    """The fields of each token; None unless all of them are objects with all fields and no others."""
    if not value or set(map(type, value)) != {dict} or set(map(len, value)) != {len(_TOKEN)}:
        return None
    try:
        return list(map(itemgetter(*_TOKEN), value))
    except KeyError:
        return None


def _usual_added_tokens(
    rows: Sequence[tuple[Any, ...]],
) -> tuple[dict[str, int], dict[str, frozenset[str]]] | None:
    """The fast path of `added_one_by_one`, for valid tokens, given by their fields; None for others."""
    ids, contents, *columns = [list(map(itemgetter(i), rows)) for i in range(len(_TOKEN))]
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
        given = {flag: bool(code >> i & 1) for i, flag in enumerate(_TOKEN[2:])}
        own = {flag for flag in FLAGS[1:] if given[flag]}
        of_code[code] = frozenset(own if given["special"] else {*own, "ordinary"})
    flags = map(of_code.__getitem__, codes.tolist())
    return dict(zip(contents, ids, strict=True)), dict(zip(contents, flags, strict=True))


def added_one_by_one(value: list[Any]) -> tuple[dict[str, int], dict[str, frozenset[str]]]:
    """(name → id, name → flags) of any list; errors name the position."""
    names: dict[str, int] = {}
    flags: dict[str, frozenset[str]] = {}
    numbers: set[int] = set()
    for i, item in enumerate(value):
        where = f"added_tokens[{i}]"
        token = as_object(item, where, _TOKEN)
        name, number = get(token, where, "content", str), token_id(token.get("id"), f"{where}.id")
        own = {flag for flag in FLAGS[1:] if get(token, where, flag, bool, False)}
        if not get(token, where, "special", bool, True):
            own.add("ordinary")
        if not name or name in names or number in numbers:
            refuse(where, item, "a token must not be empty, and its text and its id must be unique", "remove it")
        names[name] = number
        numbers.add(number)
        flags[name] = frozenset(own)
    return names, flags


def write_added_tokens(spec: TokenizerSpec) -> Iterator[str]:
    """Yield the added tokens as JSON text, sorted by id. Equals the output of `json`, which takes 50 times as long."""
    ends: dict[frozenset[str], str] = {}  # flags → the JSON of their fields
    separator = "\n"
    for number, name in sorted(names_by_id(spec).items()):
        flags: frozenset[str] = spec.token_flags.get(name, frozenset())
        if flags not in ends:
            given = {flag: flag in flags for flag in ("single_word", "lstrip", "rstrip", "normalized")}
            fields = {**given, "special": "ordinary" not in flags}
            ends[flags] = ",\n".join(f'      "{key}": {_dump(value)}' for key, value in fields.items())
        yield f'{separator}    {{\n      "id": {number},\n      "content": {_dump(name)},\n{ends[flags]}\n    }}'
        separator = ",\n"
    if spec.special_tokens:
        yield "\n  "
