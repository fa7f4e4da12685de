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
        whole = text.text.tobytes()
        valid = utf8_error(whole) is None
        buffers.give_back(text.text)
        if text.offset == 0 and whole.startswith(UTF8_BOM):
            whole = whole[len(UTF8_BOM) :]
        lines = whole.split(b"\n")
        del whole
        found: list[str] | list[bytes] | list[str | bytes] | None = None
        if not lines[-1]:
            lines.pop()
        if decode is not None and valid:
            try:
                found = decode(lines)
            except Exception:  # noqa: BLE001 (of any kind: the standard library decides what is an error)
                found = None
        if found is None:
            found = list(_checked(lines, keys, decode if valid else None, run, done, line_of))
        done += len(lines)
        del lines
        block = run.block(found, text.offset, text.size)
        del found
        if block is not None:
            yield block


def _decoder(field: str) -> Callable[[list[bytes]], list[str]] | None:
    """A function that returns the field of many lines, and raises an exception for anything unusual."""
    try:
        import msgspec
    except ImportError:
        return None
    kind: Any = str
    keys = field.split(".")
    for key in reversed(keys):
        kind = msgspec.defstruct("Record", [("value", kind, msgspec.field(name=key))], gc=False)
    decode, value = msgspec.json.Decoder(kind).decode, attrgetter(".".join(["value"] * len(keys)))
    return lambda lines: list(map(value, map(decode, lines)))


def _checked(
    lines: list[bytes],
    keys: list[str],
    decode: Callable[[list[bytes]], list[str]] | None,
    run: Run,
    first: int,
    line_of: Callable[[int], str],
) -> Generator[str | bytes, None, None]:
    """The field of each line that has it; the others are errors or skipped, but for blank ones."""
    for number, line in enumerate(lines, first):
        if line.strip(_SPACE):
            try:
                yield decode([line])[0] if decode is not None else _field(line, keys, run)
            except _BadRecordError as error:
                run.bad.add(str(error), run.source, line_of(number) if run.bad.raises else "")
            except Exception:  # noqa: BLE001 (as above)
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
            names = ", ".join(map(repr, value))
            raise _BadRecordError(
                f"there is no field {key!r}{inside}, only {shown_names(names)}; field= names the one to read"
            )
        value = value[key]
    if not isinstance(value, str):
        raise _BadRecordError(f"field {'.'.join(keys)!r} is {_kind(value)}; it must be a string")
    if kept:
        with suppress(UnicodeEncodeError):  # a lone surrogate of a JSON escape
            return unescape(value)
    return value


def shown_names(names: str) -> str:
    """Names for an error message, truncated."""
    return (names if len(names) <= 200 else names[:199] + "…") or "none"


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
