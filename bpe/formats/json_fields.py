"""JSON from a file that nobody vouches for: what is not as it should be becomes a FormatError that says where.

Not here: what any format means by its fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, NoReturn, TypeVar

from bpe.errors import FormatError, shown

T = TypeVar("T")

#: The end of a rule that a later release may lift.
LATER = "this release does not read it"

_JSON_NAMES = {str: "a string", dict: "an object", list: "a list", bool: "true or false"}


class _Twice:
    """Stands for an object that has a key twice."""

    def __init__(self, key: str) -> None:
        self.key = key


def load(data: bytes) -> object:
    """The JSON value, without duplicate keys, lone surrogates, NaN and the like."""
    twice: list[_Twice] = []

    def as_dict(pairs: list[tuple[str, Any]]) -> object:
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        seen: set[str] = set()
        twice.append(_Twice(next(key for key, _ in pairs if key in seen or seen.add(key))))  # type: ignore[func-returns-value]
        return twice[-1]

    def no_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(data.decode(), object_pairs_hook=as_dict, parse_constant=no_constant)
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8: byte 0x{data[error.start]:02x} ({error.reason}); the file must be UTF-8"
        raise FormatError(reason, where=f"offset {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise FormatError(f"it is not JSON: {error.msg}; the file may be cut short", where=place) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it cannot be read as JSON: {error}; the file must be one JSON object") from None
    if twice or _escapes_surrogate(data):
        _search(value)
    return value


def _escapes_surrogate(data: bytes) -> bool:
    """Whether there is an escape that may be half a surrogate pair; behind a backslash, it is text that spells one."""
    for escape in (b"\\ud", b"\\uD"):
        at = data.find(escape)  # a regular expression took as long as reading all else
        while at >= 0:
            first = at
            while data[first - 1 : first] == b"\\":
                first -= 1
            if (at - first) % 2 == 0:
                return True
            at = data.find(escape, at + 1)
    return False


def _search(value: object) -> None:
    """Raise FormatError with the place of a duplicate key or of a lone surrogate, if there is one."""
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        where, item = waiting.pop()
        if isinstance(item, _Twice):
            raise FormatError(f"the key {shown(item.key)} is there twice; each must be there once", where=where or None)
        if isinstance(item, str) and not _is_text(item):
            raise FormatError(f"{shown(item)} holds a lone surrogate, which is not Unicode text", where=where or None)
        if isinstance(item, dict):
            for key, each in item.items():
                place = f"{where}.{key}".lstrip(".") if key.isidentifier() else f"{where}[{shown(key)}]"
                waiting += ((place, key), (place, each))
        elif isinstance(item, list):
            waiting += ((f"{where}[{i}]", each) for i, each in enumerate(item))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_object(value: object, where: str, known: Collection[str]) -> dict[str, Any]:
    """An object that has no field but those known."""
    if not isinstance(value, dict):
        raise FormatError(f"{shown(value)} is not an object", where=where)
    for key in value:
        if key not in known:
            raise FormatError(f"field {shown(key)} is not known; {LATER}. Known are {', '.join(known)}", where=where)
    return value


def type_of(value: object, where: str, default: str | None = None) -> str:
    """The type of an object that has one."""
    kind = value.get("type", default) if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise FormatError(f"{shown(value)} is not an object with a type", where=where)
    return kind


def get(item: dict[str, Any], where: str, name: str, kind: type[T], *default: T) -> T:
    """A field of one JSON type; without a default it must be there."""
    if name not in item and not default:
        raise FormatError(f"it has no {name}; it must have one", where=where)
    value = item.get(name, *default)
    if type(value) is not kind:
        raise FormatError(f"{shown(value)} is not {_JSON_NAMES[kind]}; it must be", where=f"{where}.{name}")
    return value


def get_text(item: dict[str, Any], where: str, name: str) -> str | None:
    """A text, or None where it is absent, null or empty."""
    return None if item.get(name) is None else get(item, where, name, str) or None


def refuse(where: str, value: object, rule: str, fix: str) -> NoReturn:
    """Raise FormatError about a value in the file."""
    raise FormatError(f"it is {shown(value)}; {rule}; {fix}", where=where)


def made_of(where: str, make: Callable[[], T]) -> T:
    """What `make` makes of values in the file; its complaint about them becomes a FormatError."""
    try:
        return make()
    except FormatError as error:
        raise FormatError(error.message, where=where) from None
    except (ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise FormatError(str(error) or type(error).__name__, where=where) from None
