"""JSON Lines: one field of each record is a document.

A record is a line: a JSON object that ends with \\n, or at the end of the file; \\r before it and blank lines are
ignored. `msgspec` decodes the wanted field of whole blocks where it is installed. A block with anything unusual goes
through the standard library line by line, which decides what is valid; so the documents do not depend on the package.
Cost: linear. Not here: dividing the file into blocks of whole lines (`reading.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from operator import attrgetter
from typing import Any

import numpy as np

from bpe.base.utf8 import escape, unescape, utf8_error
from bpe.corpus.blocks import Block
from bpe.corpus.reading import UTF8_BOM, Buffers, Text
from bpe.corpus.records import Run
from bpe.errors import shown

_SPACE = b" \t\r"


class _BadRecordError(ValueError):
    """A line that is no record with the field."""


def record_blocks(
    texts: Iterable[Text], run: Run, buffers: Buffers, line_of: Callable[[int], str]
) -> Generator[Block, None, None]:
    """The documents of JSON Lines.

    Args:
        texts: blocks of whole lines.
        run: the file and the field.
        buffers: the pool that takes back the memory of `texts`.
        line_of: the name of a line, by its number from the start of `texts`, for errors.

    Raises:
        FormatError: for a bad record, unless such records are skipped.

    """
    decode, keys, done = _decoder(run.field), run.field.split("."), 0
    for text in texts:
        valid = utf8_error(text.text) is None
        found: list[str] | list[str | bytes] | None = None
        count = _plain_records(text.text) if decode is not None and valid else 0
        if decode is not None and count:
            with suppress(Exception):  # of any kind: the standard library decides what is an error
                found = decode(text.text)
                if len(found) != count:
                    found = None
        if found is None:
            whole = text.text.tobytes()
            if text.offset == 0 and whole.startswith(UTF8_BOM):
                whole = whole[len(UTF8_BOM) :]
            lines = whole.split(b"\n")
            if not lines[-1]:
                lines.pop()
            del whole
            found = list(_checked(lines, keys, decode if valid else None, run, done, line_of))
            count = len(lines)
            del lines
        done += count
        buffers.give_back(text.text)
        block = run.block(found, text.offset, text.size)
        del found
        if block is not None:
            yield block


def _plain_records(text: memoryview) -> int:
    """The number of lines if each may be one object, without anything around it; otherwise 0.

    Each newline then is after a } and before a {, which it cannot be within JSON. So if there are as many objects as
    newlines, each line is one object.
    """
    data = np.frombuffer(text, dtype=np.uint8)
    newlines = np.flatnonzero(data == ord("\n"))
    if not len(newlines) or newlines[0] == 0 or newlines[-1] != len(data) - 1 or data[0] != ord("{"):
        return 0
    between = (data[newlines - 1] == ord("}")).all() and (data[newlines[:-1] + 1] == ord("{")).all()
    return len(newlines) if between else 0


def _decoder(field: str) -> Callable[[bytes | memoryview], list[str]] | None:
    """A function that returns the field of all objects of a text, and raises an exception for anything unusual."""
    try:
        import msgspec
    except ImportError:
        return None
    kind: Any = str
    keys = field.split(".")
    for key in reversed(keys):
        kind = msgspec.defstruct("Record", [("value", kind, msgspec.field(name=key))], gc=False)
    decode, value = msgspec.json.Decoder(kind).decode_lines, attrgetter(".".join(["value"] * len(keys)))
    return lambda text: list(map(value, decode(text)))


def _checked(
    lines: list[bytes],
    keys: list[str],
    decode: Callable[[bytes | memoryview], list[str]] | None,
    run: Run,
    first: int,
    line_of: Callable[[int], str],
) -> Generator[str | bytes, None, None]:
    """The field of each line that has it; the others are errors or skipped, but for blank ones."""
    for number, line in enumerate(lines, first):
        if not line.strip(_SPACE):
            continue
        found: list[str] = []
        if decode is not None:
            with suppress(Exception):  # as above
                found = decode(line)
        if len(found) == 1:
            yield found[0]
            continue
        try:
            yield _field(line, keys, run)
        except _BadRecordError as error:
            run.bad.add(str(error), run.source, line_of(number) if run.bad.raises else "")


def _field(line: bytes, keys: list[str], run: Run) -> str | bytes:
    """The field of a line, by the standard library; bytes if it is not UTF-8."""
    kept = run.encoding_errors == "bytes"
    if not kept and (found := utf8_error(line)) is not None:
        at, reason = found
        raise _BadRecordError(f"byte 0x{line[at]:02x} at column {at + 1} is not UTF-8 ({reason})")
    try:
        value = json.loads(escape(line), parse_int=len)  # the values of numbers do not matter
    except RecursionError:
        raise _BadRecordError("the record is nested too deeply") from None
    except ValueError as error:
        raise _BadRecordError(f"the line is not a JSON value ({error}); each line must be one JSON object") from None
    for depth, key in enumerate(keys):
        where = ".".join(keys[:depth])
        if not isinstance(value, dict):
            what = f"field {where!r}" if depth else "the record"
            raise _BadRecordError(f"{what} is {_kind(value)}; it must be an object with a field {key!r}")
        if key not in value:
            inside = f" in {where!r}" if depth else ""
            raise _BadRecordError(f"there is no field {key!r}{inside}{others(value)}")
        value = value[key]
    if not isinstance(value, str):
        raise _BadRecordError(f"field {'.'.join(keys)!r} is {_kind(value)}; it must be a string")
    if kept:
        with suppress(UnicodeEncodeError):  # a lone surrogate of a JSON escape
            return unescape(value)
    return value


def others(names: Iterable[str]) -> str:
    """The end of an error message about a name that does not exist: the names that do.

    >>> others(["id", "body"])
    ", only 'id', 'body'; pass the name of the text, such as field='id'"
    """
    listed = list(names)
    if not listed:
        return ", and no other"
    shown_names = ", ".join(map(repr, listed))
    shown_names = shown_names if len(shown_names) <= 200 else shown_names[:199] + "…"
    return f", only {shown_names}; pass the name of the text, such as field={listed[0]!r}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else f"the string {shown(value, 30)}"
