"""Validation of untrusted JSON: raises a FormatError with the position of the first invalid value."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, NoReturn, TypeVar

from bpe.errors import FormatError, shown

T = TypeVar("T")

#: The end of an error about a feature that a later release may support.
LATER = "this release does not read it"
#: How deep normalizers, pretokenizers, decoders and post-processors may be nested.
MAX_DEPTH = 50

_JSON_NAMES = {str: "a string", dict: "an object", list: "a list", bool: "true or false", int: "an int"}


class _DuplicateKey:
    """Replaces an object with a duplicate key until its position is known."""

    def __init__(self, key: str) -> None:
        self.key = key


def load(data: bytes) -> object:
    """Parse JSON; raises FormatError for duplicate keys, lone surrogates, NaN and infinities, too."""
    duplicates: list[_DuplicateKey] = []

    def as_dict(pairs: list[tuple[str, Any]]) -> object:
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
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
    if duplicates or _may_escape_surrogate(data):
        _check_keys_and_text(value)
    return value


def _may_escape_surrogate(data: bytes) -> bool:
    r"""Whether a `\uD…` escape occurs, which may be a lone surrogate. After an odd number of `\`, it is plain text."""
    for escape in (b"\\ud", b"\\uD"):
        found = data.find(escape)  # a regular expression would take as long as all other reading
        while found >= 0:
            first = found
            while data[first - 1 : first] == b"\\":
                first -= 1
            if (found - first) % 2 == 0:
                return True
            found = data.find(escape, found + 1)
    return False


def _check_keys_and_text(value: object) -> None:
    """Raise FormatError, with its position, for a duplicate key or a lone surrogate."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        where, item = waiting.pop()
        if isinstance(item, _DuplicateKey):
            raise FormatError(f"the key {shown(item.key)} occurs twice; keys must be unique", where=where or None)
        if isinstance(item, str) and not _is_text(item):
            raise FormatError(f"{shown(item)} holds a lone surrogate, which is not Unicode text", where=where or None)
        if isinstance(item, dict):
            for key, each in item.items():
                position = f"{where}.{key}".lstrip(".") if key.isidentifier() else f"{where}[{shown(key)}]"
                waiting += ((position, key), (position, each))
        elif isinstance(item, list):
            waiting += ((f"{where}[{i}]", each) for i, each in enumerate(item))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_object(value: object, where: str, known: Collection[str]) -> dict[str, Any]:
    """Return `value` if it is an object with no fields but the known ones; raise FormatError otherwise."""
    if not isinstance(value, dict):
        raise FormatError(f"{shown(value)} is not an object", where=where)
    for key in value:
        if key not in known:
            raise FormatError(f"field {shown(key)} is not known; {LATER}. Known are {', '.join(known)}", where=where)
    return value


def type_of(value: object, where: str, default: str | None = None) -> str:
    """The field "type" of an object, which must have one unless there is a default."""
    kind = value.get("type", default) if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise FormatError(f"{shown(value)} is not an object with a type", where=where)
    return kind


def get(item: dict[str, Any], where: str, name: str, kind: type[T], *default: T) -> T:
    """A field of an object, which must be of type `kind`. Without a default the field is required."""
    if name not in item and not default:
        raise FormatError(f"it has no {name}; it must have one", where=where)
    value = item.get(name, *default)
    if type(value) is not kind:
        raise FormatError(f"it is {shown(value)}; it must be {_JSON_NAMES[kind]}", where=f"{where}.{name}")
    return value


def get_text(item: dict[str, Any], where: str, name: str) -> str | None:
    """A string field; None if it is absent, null or empty."""
    return None if item.get(name) is None else get(item, where, name, str) or None


def is_id(key: str) -> bool:
    """Whether the key of an object is a token id: an int with at most 10 digits."""
    return key.isascii() and key.isdecimal() and len(key) <= 10


def refuse(where: str, value: object, rule: str, fix: str) -> NoReturn:
    """Raise FormatError for a value in the file: the value, the rule and the fix."""
    raise FormatError(f"it is {shown(value)}; {rule}; {fix}", where=where)


def make_at(where: str, make: Callable[[], T]) -> T:
    """Call `make`, which uses values of the file, and turn its errors into a FormatError at `where`."""
    try:
        return make()
    except FormatError as error:
        raise FormatError(error.message, where=where) from None
    except (ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise FormatError(str(error) or type(error).__name__, where=where) from None
