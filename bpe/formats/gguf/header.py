"""The header of a GGUF file, a list of keys with typed values: read from untrusted data, and written.

Keys under `tokenizer.ggml.` describe the tokenizer. Values are numbers, bools, strings and arrays of them. Source:
ggml's gguf.md.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from bpe.errors import FormatError, short_repr, with_path
from bpe.formats.packed import decode_text
from bpe.formats.signatures import GGUF_MAGIC

KEY_PREFIX = "tokenizer.ggml."
#: The key of the chat template; those with names have them after another dot.
TEMPLATE_KEY = "tokenizer.chat_template"
#: The key of the list of these names.
TEMPLATE_NAMES_KEY = "tokenizer.chat_templates"
#: Other keys on which a tokenizer depends.
_OTHER_KEYS = ("general.name", "general.architecture")
# The codes of the types of values.
_UINT8, _INT8, _UINT16, _INT16, _UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY, _UINT64, _INT64, _FLOAT64 = range(13)
#: The code of a scalar type → its struct format.
_SCALARS = {
    _UINT8: "B", _INT8: "b", _UINT16: "H", _INT16: "h", _UINT32: "I", _INT32: "i", _FLOAT32: "f", _BOOL: "?",
    _UINT64: "Q", _INT64: "q", _FLOAT64: "d",
}  # fmt: skip
_MAX_KEYS = 1 << 20
#: The most items of an array. Each takes up to 9 bytes beside those of the file, so set
#: `bpe.formats.gguf.header.max_items` lower where strangers name the files.
max_items = 1 << 24
#: The version that is written, and to what a file is padded.
_VERSION, _ALIGNMENT = 3, 32


def read_values(data: bytes | mmap.mmap) -> dict[str, Any]:
    """Read the values under `tokenizer.ggml.`, by the rest of their keys, `_OTHER_KEYS`, and chat templates.

    Raises:
        FormatError: for invalid data, with its offset.

    """
    return _Reader(data).read_values()


def _list_numbers(content: bytes, item_type: int) -> list[Any]:
    """List the numbers of an array; `struct` would make a tuple beside the list."""
    numbers = np.frombuffer(content, dtype="u1" if item_type == _BOOL else "<" + _SCALARS[item_type])
    values: list[Any] = (numbers != 0 if item_type == _BOOL else numbers).tolist()
    return values


class _Reader:
    """Reads the header of a GGUF file: each read checks that the file is long enough."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data, self.offset = data, 0

    def read_values(self) -> dict[str, Any]:
        """Read the values that `read_values` returns."""
        if self._read_bytes(4) != GGUF_MAGIC:
            raise FormatError(f"it begins with {short_repr(self.data[:4])}; a GGUF file begins with {GGUF_MAGIC!r}")
        version = self._read_scalar(_UINT32)
        if version not in (2, 3):
            raise FormatError(f"version {version} is not known; known are 2 and 3 (little-endian)", where="offset 4")
        self._read_scalar(_UINT64)
        count, values = self._read_scalar(_UINT64), {}
        if count > _MAX_KEYS:
            raise FormatError(f"it declares {count} keys; they must be at most {_MAX_KEYS}", where="offset 16")
        for _ in range(count):
            offset = self.offset
            key = self._read_string()
            is_needed = key.startswith((KEY_PREFIX, TEMPLATE_KEY)) or key in _OTHER_KEYS
            value_type = self._read_scalar(_UINT32)
            if key.startswith(TEMPLATE_KEY) and value_type == _STRING:
                value: Any = self._read_template()
            else:
                value = self._read_value(value_type, is_needed=is_needed)
            if is_needed:
                if key.removeprefix(KEY_PREFIX) in values:
                    raise FormatError(f"the key {short_repr(key)} occurs twice", where=f"offset {offset}")
                values[key.removeprefix(KEY_PREFIX)] = value
        return values

    def _read_bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.offset:
            n_left = len(self.data) - self.offset
            raise FormatError(
                f"it declares {size} bytes, and {n_left} follow; the file may be truncated",
                where=f"offset {self.offset}",
            )
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def _read_scalar(self, value_type: int) -> Any:
        layout = "<" + _SCALARS[value_type]
        return struct.unpack(layout, self._read_bytes(struct.calcsize(layout)))[0]

    def _read_string(self) -> str:
        """Read a key or a value. It may have invalid UTF-8, because an author's name, for example, changes no id."""
        return self._read_bytes(self._read_scalar(_UINT64)).decode("utf-8", "replace")

    def _read_template(self) -> str:
        """Read a chat template."""
        offset, data = self.offset, self._read_bytes(self._read_scalar(_UINT64))
        with with_path(None, f"offset {offset}"):
            return decode_text(data, "a chat template must be UTF-8")

    def _read_value(self, value_type: int, *, is_needed: bool) -> Any:
        """Read a value. An array that is not needed is skipped."""
        if value_type in _SCALARS:
            return self._read_scalar(value_type)
        if value_type == _STRING:
            return self._read_string()
        offset = self.offset
        if value_type != _ARRAY:
            raise FormatError(f"value type {value_type} is not known", where=f"offset {offset}")
        item_type, count = self._read_scalar(_UINT32), self._read_scalar(_UINT64)
        if count > max_items:
            raise FormatError(
                f"an array declares {count} items; at most {max_items} (bpe.formats.gguf.header.max_items)",
                where=f"offset {offset}",
            )
        if item_type in _SCALARS:
            size = struct.calcsize("<" + _SCALARS[item_type])
            content = self._read_bytes(size * count)
            return _list_numbers(content, item_type) if is_needed else None
        if item_type != _STRING:
            raise FormatError(f"an array of type {item_type} is not known", where=f"offset {offset}")
        if is_needed:
            return self._read_strings(count)
        for _ in range(count):
            self._read_bytes(self._read_scalar(_UINT64))
        return None

    def _read_strings(self, count: int) -> list[str]:
        """Read strings one after the other; `_read_string` for each string would take five times as long."""
        data, offset, unpack_size, strings = self.data, self.offset, struct.Struct("<Q").unpack_from, list[str]()
        try:
            for _ in range(count):
                (size,) = unpack_size(data, offset)
                text = data[offset + 8 : offset + 8 + size]
                if len(text) < size:
                    break
                strings.append(text.decode())
                offset += 8 + size
        except UnicodeDecodeError as error:
            raise FormatError(f"string {len(strings)} is not UTF-8: {error}", where=f"offset {offset}") from None
        except struct.error:
            pass
        self.offset = offset
        return strings if len(strings) == count else [*strings, self._read_string()]  # which raises


def write_values(values: Mapping[str, Any]) -> bytes:
    """Write a GGUF file without tensors: key → bool, int (uint32), str, or a list of str, int (int32) or float.

    >>> read_values(write_values({"tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.bos_token_id": 1}))
    {'tokens': ['a', 'b'], 'bos_token_id': 1}
    """
    parts = [GGUF_MAGIC + struct.pack("<IQQ", _VERSION, 0, len(values))]
    for key, value in values.items():
        parts.append(_write_string(key))
        if isinstance(value, list):
            parts += _write_list(value)
        elif isinstance(value, str):
            parts.append(struct.pack("<I", _STRING) + _write_string(value))
        else:
            value_type = _BOOL if isinstance(value, bool) else _UINT32
            parts.append(struct.pack("<I" + _SCALARS[value_type], value_type, value))
    data = b"".join(parts)
    return data + bytes(-len(data) % _ALIGNMENT)


def _write_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _write_list(items: list[Any]) -> list[bytes]:
    item_type = {str: _STRING, int: _INT32, float: _FLOAT32}[type(items[0])] if items else _STRING
    head = struct.pack("<IIQ", _ARRAY, item_type, len(items))
    if item_type == _STRING:
        return [head, *map(_write_string, items)]
    return [head, struct.pack(f"<{len(items)}{_SCALARS[item_type]}", *items)]
