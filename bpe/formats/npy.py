"""Headers of .npy files that hold one-dimensional arrays of integers.

The header is parsed here, because NumPy evaluates it with Python's parser, whose memory and exceptions are unbounded
for a hostile header.

Source: NumPy's description of the format, `numpy.lib.format`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpe.errors import FormatError, shown

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

#: The first bytes of every .npy file.
MAGIC = b"\x93NUMPY"
#: The size in bytes of the headers that `npy_header` makes.
HEADER_SIZE = 128
#: The largest accepted size of a header's text in bytes; NumPy's default limit is 10,000.
_MAX_TEXT = 1 << 16
#: As many bytes hold every accepted header.
MAX_HEADER = _MAX_TEXT + 12

_SIZE = r"(?:0|[1-9]\d{0,18})[ \n]*"
_VALUE = rf"""'[^'\\]*'|"[^"\\]*"|True|False|\([ \n]*(?:{_SIZE}(?:,[ \n]*{_SIZE})*,?[ \n]*)?\)"""
_FIELD = rf"""[ \n]*['"](descr|fortran_order|shape)['"][ \n]*:[ \n]*({_VALUE})[ \n]*"""
_FIELDS = re.compile(rf"[ \n]*\{{{_FIELD},{_FIELD},{_FIELD},?[ \n]*\}}[ \n]*")
#: The accepted dtypes.
_INTEGERS = re.compile(r"[<>=|]?[iu][1248]")


class NpyHeader(NamedTuple):
    """The header of a .npy file: the array's length and dtype, and the offset of its first byte in the file."""

    length: int
    dtype: np.dtype[Any]
    start: int


def npy_header(dtype: DTypeLike, length: int) -> bytes:
    """The header of a one-dimensional little-endian array, always 128 bytes.

    >>> header = npy_header("uint16", 3)
    >>> len(header), header[10:70]
    (128, b"{'descr': '<u2', 'fortran_order': False, 'shape': (3,)}     ")
    """
    fields = {"descr": np.dtype(dtype).newbyteorder("<").str, "fortran_order": False, "shape": (length,)}
    text = f"{fields!r}".ljust(HEADER_SIZE - 11) + "\n"
    return MAGIC + bytes([1, 0]) + len(text).to_bytes(2, "little") + text.encode()


def parse_npy_header(data: bytes, path: str) -> NpyHeader:
    """Parse the header in the first bytes of a file, at most `MAX_HEADER` of them.

    Raises:
        FormatError: for anything but the header of integers in one dimension; it names `path`.

    >>> parse_npy_header(npy_header("uint16", 3), "ids.npy")
    NpyHeader(length=3, dtype=dtype('uint16'), start=128)

    """
    width = 2 if data[6:7] == b"\x01" else 4
    start = len(MAGIC) + 2 + width
    if not data.startswith(MAGIC) or data[6:8] not in (b"\x01\0", b"\x02\0", b"\x03\0"):
        raise FormatError("it does not begin like version 1, 2 or 3 of the format; it must be a .npy file", path=path)
    size = int.from_bytes(data[start - width : start], "little")
    if len(data) < start or len(data) < start + size <= start + _MAX_TEXT:
        raise FormatError("the file ends within its header; it must be a complete .npy file", path=path)
    header = data[start : start + min(size, _MAX_TEXT)].decode("latin-1")
    found = _FIELDS.fullmatch(header)
    fields = {} if found is None else dict(zip(found.groups()[::2], found.groups()[1::2], strict=True))
    if size > _MAX_TEXT or len(fields) < 3:
        raise FormatError(
            f"its header is {shown(header)}; it must have descr, fortran_order and shape of an array of token ids",
            path=path,
        )
    shape = [int(number) for number in re.findall(r"\d+", fields["shape"])]
    kind = fields["descr"][1:-1]
    if len(shape) != 1 or not _INTEGERS.fullmatch(kind):
        raise FormatError(
            f"its array is {kind} of shape {fields['shape']}; it must be a .npy file of token ids, integers in one "
            "dimension",
            path=path,
        )
    return NpyHeader(shape[0], np.dtype(kind), start + size)
