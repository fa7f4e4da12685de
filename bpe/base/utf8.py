"""Text as bytes: converts str and bytes to the UTF-8 that the kernels read, and rejects other types."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from bpe.base._utf8 import decode_utf8, encode_utf8, find_invalid_utf8, read_bytes
from bpe.base.offsets import compute_offsets
from bpe.errors import check_path, describe, name_file_in_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

TextLike = str | bytes | bytearray | memoryview

#: The characters of a str, or bytes of UTF-8, from which they are converted without the GIL, so that other threads run.
_MIN_SIZE_WITHOUT_GIL = 1 << 14
#: The largest file that is read into memory at once, unless its reader knows larger ones. What a reader makes of a file
#: of tiny values takes up to 45 times its size (docs/reliability.md), so set `bpe.base.utf8.max_file_bytes` lower where
#: strangers name the files.
max_file_bytes = 1 << 30
#: UTF-8 inside the package: bytes, or a view of a buffer.
Bytes = bytes | memoryview


def to_plain_str(text: TextLike) -> TextLike:
    """Convert an object of a subclass of str, which may have other methods, to a str; anything else is unchanged."""
    return str.__str__(text) if isinstance(text, str) and type(text) is not str else text


def to_bytes(text: TextLike) -> bytes:
    """Convert a str to UTF-8; bytes are returned unchanged.

    A surrogate pair becomes its character and a lone surrogate U+FFFD, as in tiktoken.

    >>> to_bytes("é"), to_bytes(chr(0xD83D) + chr(0xDE0A)) == "😊".encode(), to_bytes(chr(0xD800))
    (b'\\xc3\\xa9', True, b'\\xef\\xbf\\xbd')

    Raises:
        TypeError: for anything but str, bytes, bytearray and memoryview.

    """
    if isinstance(text, str):
        text = str.__str__(text)  # a subclass may have other methods
        if len(text) >= _MIN_SIZE_WITHOUT_GIL:
            return encode_utf8(text)
        try:
            return text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    if type(text) is bytes:
        return text
    if isinstance(text, (bytes, bytearray, memoryview)):  # np.bytes_ is one too, but kernels do not take it
        return bytes(text)
    raise make_type_error(text)


def to_str(data: bytes, errors: str) -> str:
    """Decode UTF-8; raises the errors of `bytes.decode`."""
    return data.decode("utf-8", errors) if len(data) < _MIN_SIZE_WITHOUT_GIL else decode_utf8(data, errors)


def make_type_error(value: object, name: str = "text") -> TypeError:
    """Make the error for a value that is not text; `name` is the name of the argument or item."""
    return TypeError(f"{name} is {describe(value)}; it must be str or bytes")


def decode_losslessly(data: bytes) -> str:
    """Decode bytes losslessly: each byte that is not valid UTF-8 becomes one lone surrogate."""
    return data.decode("utf-8", "surrogateescape")


def encode_losslessly(text: str) -> bytes:
    """Encode the result of `decode_losslessly` to the original bytes."""
    return text.encode("utf-8", "surrogateescape")


def compute_byte_offsets(text: str) -> NDArray[np.int64]:
    """Compute the byte offset of each character of an escaped text, and of its end: int64, shape (len(text) + 1,)."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    lengths = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    lengths[(codes >= 0xDC80) & (codes <= 0xDCFF)] = 1
    return compute_offsets(lengths)


def find_utf8_error(data: Bytes) -> tuple[int, str] | None:
    """Find the first byte that is not valid UTF-8: (its offset, reason), or None if all bytes are valid.

    >>> find_utf8_error(b"low\\xff"), find_utf8_error("é".encode())
    ((3, 'invalid start byte'), None)
    """
    offset = find_invalid_utf8(data)
    if offset < 0:
        return None
    try:
        str(data[offset : offset + 4], "utf-8")
    except UnicodeDecodeError as error:
        return offset, error.reason
    raise AssertionError("the kernel reports invalid UTF-8 that Python accepts")


def check_utf8(data: Bytes, name: str = "text", offset: int = 0) -> None:
    """Raise ValueError, with the offset of the first bad byte, for bytes that are not valid UTF-8.

    Character models need this check, because they have no symbols for invalid bytes. `offset` is the position of the
    data in the text or file that `name` names.
    """
    error = find_utf8_error(data)
    if error is not None:
        index, reason = error
        raise ValueError(
            f"{name} is not UTF-8: byte 0x{data[index]:02x} at offset {offset + index} ({reason}); "
            'a character model takes UTF-8 only: decode it with errors="replace" first, or use model="byte", '
            "which takes any bytes"
        )


def check_device(path: str | os.PathLike[str], file: int | None = None) -> None:
    """Raise OSError for a device other than a terminal or the null device: reading /dev/zero would never end.

    Args:
        path: the file, for the error.
        file: its descriptor, if it is open.

    Raises:
        OSError: for such a device, and for a file that does not exist.

    """
    path = check_path(path)
    status = os.stat(path) if file is None else os.fstat(file)
    if not stat.S_ISBLK(status.st_mode):
        if not stat.S_ISCHR(status.st_mode) or status.st_rdev == os.stat(os.devnull).st_rdev:
            return
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOCTTY", 0)) if file is None else file
        try:
            if os.isatty(descriptor):
                return
        finally:
            if file is None:
                os.close(descriptor)
    raise OSError(errno.EINVAL, "it is a device; read regular files, pipes or terminals", path)


def read_file(path: str | os.PathLike[str], max_bytes: int | None = None) -> bytes:
    """Read the bytes of a file, which must not be a device.

    Raises:
        OSError: for a file that cannot be read, or with more than `max_bytes` bytes; None stands for `max_file_bytes`.

    """
    max_bytes = max_file_bytes if max_bytes is None else max_bytes
    path = check_path(path)
    check_device(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return read_all(file, path, max_bytes)
        if status.st_size > max_bytes:
            raise _make_size_error(path, max_bytes)
        with name_file_in_errors(path):
            return read_bytes(file, status.st_size)


def read_all(file: BinaryIO, name: str, max_bytes: int | None = None) -> bytes:
    """Read the rest of a stream, which may have no end.

    Raises:
        OSError: for one that cannot be read, or with more than `max_bytes` bytes; None stands for `max_file_bytes`.

    """
    max_bytes = max_file_bytes if max_bytes is None else max_bytes
    data = bytearray()
    while piece := file.read(1 << 20):
        data += piece
        if len(data) > max_bytes:
            raise _make_size_error(name, max_bytes)
    return bytes(data)


def _make_size_error(name: str, max_bytes: int) -> OSError:
    reason = f"it has more than {max_bytes} bytes, the most that are read of such a file"
    if max_bytes == max_file_bytes:
        reason += "; set bpe.base.utf8.max_file_bytes higher if that is meant"
    return OSError(errno.EFBIG, reason, name)
