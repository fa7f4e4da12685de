"""JSON Lines: one field of each record is a document.

A record is a line: a JSON object that ends with \\n, or at the end of the file; \\r before it and blank lines are
ignored. A kernel reads the wanted field of usual lines (`_json_fields.pyx`), within blocks of lines
(`_file_reader.pyx`); the standard library reads any other line, and decides what is valid. Cost: linear.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress

from bpe.base.utf8 import decode_losslessly, encode_losslessly, find_utf8_error, to_bytes
from bpe.corpus._json_fields import FieldPath
from bpe.corpus.records import RecordContext
from bpe.errors import FormatError, short_repr


class _BadRecordError(ValueError):
    """A line that is no record with the field."""


def make_field_path(field: str) -> FieldPath:
    """Make the path that the kernel reads a field by."""
    return FieldPath([key.encode("utf-8", "surrogatepass") for key in field.split(".")])


def parse_line(line: bytes, context: RecordContext, index: int) -> bytes | None:
    """Read the field of a line, by its index in the part of the file; None for a bad one that is skipped.

    Raises:
        FormatError: for a bad record, unless such records are skipped.

    """
    try:
        return to_bytes(_parse_record(line, context.field.split("."), context))
    except _BadRecordError as error:
        context.refuse_record(str(error), index)
        return None


def _parse_record(line: bytes, keys: list[str], context: RecordContext) -> str | bytes:
    """Read the field of a line by the standard library; bytes if it is not UTF-8."""
    keeps_bytes = context.encoding_errors == "bytes"
    if not keeps_bytes and (invalid := find_utf8_error(line)) is not None:
        offset, reason = invalid
        raise _BadRecordError(f"byte 0x{line[offset]:02x} at column {offset + 1} is not UTF-8 ({reason})")
    try:
        value = json.loads(decode_losslessly(line), parse_int=len)  # the values of numbers do not matter
    except RecursionError:
        raise _BadRecordError("the record is nested too deeply") from None
    except ValueError as error:
        raise _BadRecordError(f"the line is not a JSON value ({error}); each line must be one JSON object") from None
    for depth, key in enumerate(keys):
        parent = ".".join(keys[:depth])
        if not isinstance(value, dict):
            subject = f"field {parent!r}" if depth else "the record"
            raise _BadRecordError(
                f"{subject} is {_describe_json_type(value)}; it must be an object with a field {key!r}"
            )
        if key not in value:
            prefix = f"{parent}." if depth else ""
            names = [prefix + name for name in value]
            text_names = [prefix + name for name, item in value.items() if isinstance(item, str)]
            raise _BadRecordError(f"there is no field {prefix + key!r}{describe_known_names(names, text_names)}")
        value = value[key]
    if not isinstance(value, str):
        raise _BadRecordError(f"field {'.'.join(keys)!r} is {_describe_json_type(value)}; it must be a string")
    if keeps_bytes:
        with suppress(UnicodeEncodeError):  # a lone surrogate of a JSON escape
            return encode_losslessly(value)
    return value


def describe_known_names(names: Iterable[str], text_names: Sequence[str] | None = None) -> str:
    """Make the end of an error message about a name that does not exist: the names that do.

    Args:
        names: the names that exist.
        text_names: those that a text has, of which one is proposed; None for all.

    >>> describe_known_names(["id", "body"])
    ", only 'id', 'body'; pass the name of the text, such as field='id'"
    """
    known_names = list(names)
    if not known_names:
        return ", and no other"
    shown_names = ", ".join(map(repr, known_names))
    shown_names = shown_names if len(shown_names) <= 200 else shown_names[:199] + "…"
    proposed_names = known_names if text_names is None else text_names
    if not proposed_names:
        return f", only {shown_names}, and no text"
    return f", only {shown_names}; pass the name of the text, such as field={proposed_names[0]!r}"


def check_unique_column(name: str, names: Sequence[str], source: str, full_name: str = "") -> None:
    """Raise FormatError for a column whose name other columns have too."""
    if names.count(name) > 1:
        raise FormatError(
            f"there are {names.count(name)} columns {full_name or name!r}, and one has the text; rename the others",
            path=source,
        )


def _describe_json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else f"the string {short_repr(value, 30)}"
