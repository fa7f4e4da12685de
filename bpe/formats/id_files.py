"""Files of token ids, which the command line reads and writes.

Two formats. Lines: one line of decimal ids per document. `.npy`: the ids of all documents in one flat uint32 array,
with a file `x.offsets.npy` beside `x.npy`, int64: document i is `ids[offsets[i]:offsets[i + 1]]`. Training shards:
`bpe/data/formats`.

The header of a .npy file is parsed here, because NumPy evaluates it with Python's parser, whose memory and exceptions
are unbounded for a hostile header. Source: NumPy's description of the format, `numpy.lib.format`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from bpe.base.atomic_files import atomic_write_all
from bpe.batch import TokenBatch, as_id_array
from bpe.errors import FormatError, ignore_system_errors, short_repr

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

#: Ids are written as text in pieces of this many.
_IDS_PER_WRITE = 1 << 18
#: Files are read in pieces of this many bytes.
_READ_BYTES = 1 << 20
#: How many bytes an error message gets of a word that is too long to be an id.
_MAX_QUOTED_BYTES = 100

#: The ids of some documents, and whether the last of them continues in the next batch.
IdBatch = tuple[TokenBatch, bool]


def offsets_path(path: str) -> str:
    """Return the path of the offsets file beside a .npy file of ids.

    >>> offsets_path("train.npy")
    'train.offsets.npy'
    """
    return path.removesuffix(".npy") + ".offsets.npy"


# Writing --------------------------------------------------------------------------------------------------------------


def write_lines(file: BinaryIO, batches: Iterable[IdBatch]) -> None:
    """Write one line of ids per document."""
    digits: list[str] = []  # of each id up to the largest so far: a lookup takes a third of the time of `str`
    separator = ""
    for batch, is_continued in batches:
        digits += map(str, range(len(digits), int(batch.ids.max(initial=0)) + 1))
        for row, ids in enumerate(batch, start=1):
            for start in range(0, len(ids), _IDS_PER_WRITE):
                piece = " ".join(map(digits.__getitem__, ids[start : start + _IDS_PER_WRITE].tolist()))
                file.write((separator + piece).encode())
                separator = " "
            if row < len(batch) or not is_continued:
                file.write(b"\n")
                separator = ""


def write_npy(path: str, batches: Iterable[IdBatch]) -> None:
    """Write ids and offsets as .npy files, batch by batch. Both files appear at the end, the offsets first."""
    with atomic_write_all([offsets_path(path), path]) as (offset_file, id_file):
        ids, offsets = _NpyWriter(id_file, np.uint32), _NpyWriter(offset_file, np.int64)
        offsets.append(np.zeros(1, dtype=np.int64))
        for batch, is_continued in batches:
            ends = batch.offsets[1:] + ids.length
            offsets.append(ends[:-1] if is_continued else ends)
            ids.append(batch.ids)
        ids.finish()
        offsets.finish()


class _NpyWriter:
    """Writes a one-dimensional .npy file. The header gets the array's length at the end."""

    def __init__(self, file: BinaryIO, dtype: type[np.generic]) -> None:
        self.length = 0
        self._file, self._dtype = file, np.dtype(dtype).newbyteorder("<")
        self._write_header()

    def append(self, part: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(part, dtype=self._dtype).data)
        self.length += len(part)

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        self._file.write(build_npy_header(self._dtype, self.length))


# Reading --------------------------------------------------------------------------------------------------------------


class IdPiece(NamedTuple):
    """Ids of a document, or of a piece of a long one.

    Attributes:
        where: the position of the document, such as "line 3".
        ids: the ids.
        begins_document: whether the piece begins the document.
        size: the size of the piece in the file, in bytes.

    """

    where: str
    ids: NDArray[Any]
    begins_document: bool
    size: int


def read_ids(file: BinaryIO, path: str | None) -> Iterator[IdPiece]:
    """Yield the documents of a file in either format; long documents are split into pieces.

    Args:
        file: the file, open at its start.
        path: its path, beside which the offsets file of a .npy file is sought (without one, the file is a single
            document); None for stdin.

    Raises:
        FormatError: for a line with anything but ids, or an invalid .npy file.

    """
    head = file.readline(max(_READ_BYTES, len(MAGIC)))
    if head.startswith(MAGIC):
        for index, ids, begins_document in _read_npy(head, file, path):
            yield IdPiece(f"document {index}", ids, begins_document, ids.nbytes)
        return
    line_number, begins_document = 0, True
    for piece in _split_words(head, file):
        line_number += begins_document
        where = f"line {line_number}"
        yield IdPiece(where, _parse_line(piece, path or "stdin", where), begins_document, len(piece))
        begins_document = piece.endswith(b"\n")


def _split_words(head: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Split a file into pieces of whole words, each within one line. `head` is the part that is already read."""
    remainder, chunk = b"", head
    while chunk:
        piece = remainder + chunk
        split = len(piece)
        if not piece.endswith(b"\n"):
            split = 1 + max(piece.rfind(b" "), piece.rfind(b"\t"))
        if split == 0 and len(piece) > _MAX_QUOTED_BYTES + _READ_BYTES:
            yield piece[:_MAX_QUOTED_BYTES] + "…".encode()  # too long for an id: `_parse_line` rejects it
            return
        if split:
            yield piece[:split]
        remainder = piece[split:]
        chunk = file.readline(_READ_BYTES)
    if remainder:
        yield remainder


def _parse_line(line: bytes, path: str, where: str) -> NDArray[np.int64]:
    line = line.strip()
    if not line:
        return np.empty(0, dtype=np.int64)
    if line.translate(None, b"0123456789 \t"):
        word = next(word for word in line.split() if not word.isdigit()).decode(errors="backslashreplace")
        rule = "a line must hold the ids of one document in decimal digits, separated by spaces"
        raise FormatError(f"{short_repr(word)} is not a token id; {rule}", path=path, where=where)
    ids: NDArray[np.int64] = np.fromstring(line, dtype=np.int64, sep=" ")  # numbers over 2**63 - 1 become 2**63 - 1
    return ids


def _read_npy(head: bytes, file: BinaryIO, path: str | None) -> Iterator[tuple[int, NDArray[Any], bool]]:
    """Yield (number of the document, ids, whether they begin it) of a .npy file. `head` is already read."""
    count, pieces = _read_npy_pieces(head, file, path or "stdin")
    if path is None or not os.path.isfile(path) or not os.path.isfile(offsets_path(path)):
        begins_document = True
        for ids in pieces:
            yield 0, ids, begins_document
            begins_document = False
        return
    with open(offsets_path(path), "rb") as offsets_file:
        _, offset_pieces = _read_npy_pieces(b"", offsets_file, offsets_path(path))
        offsets = np.concatenate(list(offset_pieces))
    is_valid = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == count and not np.any(offsets[1:] < offsets[:-1])
    if not is_valid:
        raise FormatError(
            f"the offsets are {short_repr(offsets.tolist(), 40)}; they must rise from 0 to the number of ids, {count}",
            path=offsets_path(path),
        )
    pending_ids, position = np.empty(0, dtype=np.int64), 0
    for index, end in enumerate(offsets[1:].tolist()):
        begins_document = True
        while begins_document or position < end:
            if not len(pending_ids) and position < end:
                pending_ids = next(pieces)
            part, pending_ids = pending_ids[: end - position], pending_ids[end - position :]
            position += len(part)
            yield index, part, begins_document
            begins_document = False


def _read_npy_pieces(head: bytes, file: BinaryIO, path: str) -> tuple[int, Iterator[NDArray[Any]]]:
    """Return the length of the array in a .npy file, and its elements in at least one piece of about _READ_BYTES.

    `head` is the part of the file that is already read.
    """
    data = head + file.read(max(MAX_HEADER - len(head), 0))
    length, dtype, start = parse_npy_header(data, path)
    return length, _read_npy_numbers(data[start:], file, path, length, dtype)


def _count_bytes_left(file: BinaryIO) -> int:
    """Count the bytes of a regular file that are not read yet; -1 for any other file."""
    with suppress(ValueError), ignore_system_errors():  # a file object without a descriptor
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            return status.st_size - file.tell()
    return -1


def _read_npy_numbers(
    data: bytes, file: BinaryIO, path: str, count: int, dtype: np.dtype[Any]
) -> Iterator[NDArray[Any]]:
    n_left, max_items = count, max(_READ_BYTES // dtype.itemsize, 1)
    is_complete = _count_bytes_left(file) >= count * dtype.itemsize - len(data)
    while True:
        size = min(n_left, max_items) * dtype.itemsize
        data += file.read(max(size - len(data), 0))
        if len(data) < size and is_complete:
            raise OSError(f"{path} got shorter while it was read; read it when no other program writes to it")
        if len(data) < size:
            raise FormatError(f"it ends before the last of its {count} ids; it must be a complete .npy file", path=path)
        try:
            yield as_id_array(np.frombuffer(data[:size], dtype=dtype))
        except ValueError as error:
            raise FormatError(f"{error}; it must be a .npy file of token ids", path=path) from None
        data, n_left = data[size:], n_left - size // dtype.itemsize
        if not n_left:
            return


# Headers of .npy files that hold one-dimensional arrays of integers ---------------------------------------------------


#: The first bytes of every .npy file.
MAGIC = b"\x93NUMPY"
#: The size in bytes of the headers that `build_npy_header` makes.
HEADER_SIZE = 128
#: The largest accepted size of a header's text in bytes; NumPy's default limit is 10,000.
_MAX_HEADER_TEXT = 1 << 16
#: As many bytes hold every accepted header.
MAX_HEADER = _MAX_HEADER_TEXT + 12

_SIZE = r"(?:0|[1-9]\d{0,18})[ \n]*"
_VALUE = rf"""'[^'\\]*'|"[^"\\]*"|True|False|\([ \n]*(?:{_SIZE},[ \n]*(?:{_SIZE}(?:,[ \n]*{_SIZE})*,?[ \n]*)?)?\)"""
_FIELD = rf"""[ \n]*['"](descr|fortran_order|shape)['"][ \n]*:[ \n]*({_VALUE})[ \n]*"""
#: What the value of each field begins with.
_FIRST_CHARS = {"descr": "'\"", "fortran_order": "TF", "shape": "("}
_FIELDS = re.compile(rf"[ \n]*\{{{_FIELD},{_FIELD},{_FIELD},?[ \n]*\}}[ \n]*")
#: The accepted dtypes.
_INTEGER_DTYPES = re.compile(r"[<>=|]?[iu][1248]")


class NpyHeader(NamedTuple):
    """The header of a .npy file: the array's length and dtype, and the offset of its first byte in the file."""

    length: int
    dtype: np.dtype[Any]
    start: int


def build_npy_header(dtype: DTypeLike, length: int) -> bytes:
    """Return the header of a one-dimensional little-endian array, always 128 bytes.

    >>> header = build_npy_header("uint16", 3)
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

    >>> parse_npy_header(build_npy_header("uint16", 3), "ids.npy")
    NpyHeader(length=3, dtype=dtype('uint16'), start=128)

    """
    width = 2 if data[6:7] == b"\x01" else 4
    start = len(MAGIC) + 2 + width
    if not data.startswith(MAGIC) or data[6:8] not in (b"\x01\0", b"\x02\0", b"\x03\0"):
        raise FormatError("it does not begin like version 1, 2 or 3 of the format; it must be a .npy file", path=path)
    size = int.from_bytes(data[start - width : start], "little")
    if len(data) < start or len(data) < start + size <= start + _MAX_HEADER_TEXT:
        raise FormatError("the file ends within its header; it must be a complete .npy file", path=path)
    header = data[start : start + min(size, _MAX_HEADER_TEXT)].decode("latin-1")
    match = _FIELDS.fullmatch(header)
    fields = {} if match is None else dict(zip(match.groups()[::2], match.groups()[1::2], strict=True))
    is_valid = len(fields) == 3 and all(value[0] in _FIRST_CHARS[name] for name, value in fields.items())
    if size > _MAX_HEADER_TEXT or not is_valid:
        raise FormatError(
            f"its header is {short_repr(header)}; it must have descr, fortran_order and shape of an array of token ids",
            path=path,
        )
    shape = [int(digits) for digits in re.findall(r"\d+", fields["shape"])]
    dtype_name = fields["descr"][1:-1]
    if len(shape) != 1 or not _INTEGER_DTYPES.fullmatch(dtype_name):
        raise FormatError(
            f"its array is {dtype_name} of shape {fields['shape']}; it must be a .npy file of token ids, integers in "
            "one dimension",
            path=path,
        )
    return NpyHeader(shape[0], np.dtype(dtype_name), start + size)
