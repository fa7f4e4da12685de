"""Reads untrusted JSON by tables of fields; raises a FormatError with the position of the first invalid value.

A table maps the names of an object's fields to `Field`s: what a value must be, and the default. `read_fields` is the
one interpreter of these tables, for the parts of a tokenizer.json and for other formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

from bpe.errors import ID_LIMIT, FormatError, short_repr
from bpe.vocab.vocabulary import Vocabulary

T = TypeVar("T")

#: The end of an error about a feature that a later release may support.
UNSUPPORTED = "this release does not read it"
#: How deep normalizers, pretokenizers, decoders and post-processors may be nested.
MAX_DEPTH = 50

#: The default of a field that must be there.
REQUIRED: Any = object()

_JSON_NAMES = {str: "a string", dict: "an object", list: "a list", bool: "true or false", int: "an int"}


class _DuplicateKey:
    """Replaces an object with a duplicate key until its position is known."""

    def __init__(self, key: str) -> None:
        self.key = key


def parse_json(data: bytes) -> object:
    """Parse JSON; raises FormatError for duplicate keys, lone surrogates, NaN and infinities, too."""
    duplicates: list[_DuplicateKey] = []

    def as_dict(pairs: list[tuple[str, Any]]) -> object:
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
        seen_keys: set[str] = set()
        key = next(key for key, _ in pairs if key in seen_keys or seen_keys.add(key))  # type: ignore[func-returns-value]
        duplicates.append(_DuplicateKey(key))
        return duplicates[-1]

    def no_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(data.decode(), object_pairs_hook=as_dict, parse_constant=no_constant)
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8: byte 0x{data[error.start]:02x} ({error.reason}); the file must be UTF-8"
        raise FormatError(reason, where=f"offset {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise FormatError(f"it is not JSON: {error.msg}; the file may be truncated", where=where) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it cannot be read as JSON: {error}; the file must be one JSON object") from None
    if duplicates:
        _check_keys_and_text(value)
    check_text(data, value)
    return value


def check_text(data: bytes, value: object) -> None:
    """Raise FormatError for a string of the parsed JSON with a lone surrogate, which Python's parser accepts."""
    if _may_escape_surrogate(data):
        _check_keys_and_text(value)


def _may_escape_surrogate(data: bytes) -> bool:
    r"""Whether a `\uD…` escape occurs, which may be a lone surrogate. After an odd number of `\`, it is plain text."""
    for escape in (b"\\ud", b"\\uD"):
        position = data.find(escape)  # a regular expression would take as long as all other reading
        while position >= 0:
            first_backslash = position
            while data[first_backslash - 1 : first_backslash] == b"\\":
                first_backslash -= 1
            if (position - first_backslash) % 2 == 0:
                return True
            position = data.find(escape, position + 1)
    return False


def _check_keys_and_text(value: object) -> None:
    """Raise FormatError, with its position, for a duplicate key or a lone surrogate."""
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        where, item = stack.pop()
        if isinstance(item, _DuplicateKey):
            raise FormatError(f"the key {short_repr(item.key)} occurs twice; keys must be unique", where=where or None)
        if isinstance(item, str) and not _is_text(item):
            raise FormatError(
                f"{short_repr(item)} holds a lone surrogate, which is not Unicode text", where=where or None
            )
        if isinstance(item, dict):
            for key, member in item.items():
                position = f"{where}.{key}".lstrip(".") if key.isidentifier() else f"{where}[{short_repr(key)}]"
                stack += ((position, key), (position, member))
        elif isinstance(item, list):
            stack += ((f"{where}[{i}]", member) for i, member in enumerate(item))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# Tables of fields ----------------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """A field of an object.

    Attributes:
        read: the type that JSON's value must have; or a function of (value, position) that checks the value and returns
            what is kept of it.
        default: what an object without the field has.
        kept: whether `read_fields` returns it; otherwise the value is only checked, because no id depends on it.

    """

    read: type | Callable[[Any, str], Any]
    default: Any = REQUIRED
    kept: bool = True


def read_fields(value: object, where: str, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Read the values of an object's fields, in the order of the table, which has all fields that it may have.

    >>> read_fields({"stride": 2}, "truncation", {"stride": Field(int), "direction": Field(str, "Right")})
    {'stride': 2, 'direction': 'Right'}
    """
    item = check_object(value, where, fields)
    values = {name: read_field(item, where, name, field.read, field.default) for name, field in fields.items()}
    return {name: value for name, value in values.items() if fields[name].kept}


def check_object(value: object, where: str, known_fields: Collection[str]) -> dict[str, Any]:
    """Return `value` if it is an object with no fields but the known ones; raise FormatError otherwise."""
    if not isinstance(value, dict):
        raise FormatError(f"{short_repr(value)} is not an object", where=where)
    for key in value:
        if key not in known_fields:
            raise FormatError(
                f"field {short_repr(key)} is not known; {UNSUPPORTED}. Known are {', '.join(known_fields)}", where=where
            )
    return value


def read_field(
    item: Mapping[str, Any], where: str, name: str, read: type[T] | Callable[[Any, str], T], default: T = REQUIRED
) -> T:
    """Read a field of an object; `read` and `default` as in `Field`."""
    if name not in item:
        if default is REQUIRED:
            raise FormatError(f"it has no {name}; it must have one", where=where)
        return default
    value, position = item[name], f"{where}.{name}" if where else name
    return check_type(value, position, read) if isinstance(read, type) else read(value, position)


def check_type(value: Any, where: str, expected_type: type[T]) -> T:
    """Return `value` if it is of a type that JSON has; raise FormatError otherwise."""
    if type(value) is not expected_type:
        raise FormatError(f"it is {short_repr(value)}; it must be {_JSON_NAMES[expected_type]}", where=where)
    return value


def read_type(value: object, where: str, default: str | None = None) -> str:
    """Read the field "type" of an object, which must have one unless there is a default."""
    type_name = value.get("type", default) if isinstance(value, dict) else None
    if not isinstance(type_name, str):
        raise FormatError(f"{short_repr(value)} is not an object with a type", where=where)
    return type_name


# What values must be --------------------------------------------------------------------------------------------------


def accept_any(value: Any, where: str) -> Any:
    """Return any value: for a field that has no effect, or one that its reader checks."""
    del where
    return value


#: The field that says which fields an object has; `read_type` reads it.
TYPE_FIELD = {"type": Field(accept_any, kept=False)}


def read_text(value: object, where: str) -> str | None:
    """Read a string; None if it is null or empty."""
    return None if value is None else check_type(value, where, str) or None


def read_id(value: object, where: str) -> int:
    """Read an int that may be an id."""
    if type(value) is not int or not 0 <= value < ID_LIMIT:
        raise FormatError(
            f"{short_repr(value)} is not a token id; it must be an int from 0 to {ID_LIMIT - 1}", where=where
        )
    return value


def read_known_id(value: object, where: str, vocabulary: Vocabulary) -> int:
    """Read the id of a token of a vocabulary."""
    if (token_id := read_id(value, where)) not in vocabulary:
        raise FormatError(f"no token has the id {token_id}; it must be the id of a token", where=where)
    return token_id


def is_id(key: str) -> bool:
    """Whether the key of an object is a token id: an int with at most 10 digits."""
    return key.isascii() and key.isdecimal() and len(key) <= 10


# Errors ---------------------------------------------------------------------------------------------------------------


def refuse(where: str, value: object, rule: str, fix: str) -> NoReturn:
    """Raise FormatError for a value in the file: the value, the rule and the fix."""
    raise FormatError(f"it is {short_repr(value)}; {rule}; {fix}", where=where)


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Turn errors of the block, which uses values of the file, into a FormatError at `where`.

    The position that a FormatError names, such as "pattern", is a field there.
    """
    try:
        yield
    except FormatError as error:
        position = f"{where}.{error.where}" if error.where else where
        raise FormatError(error.message, where=position) from None
    except (ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise FormatError(str(error) or type(error).__name__, where=where) from None
