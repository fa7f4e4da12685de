"""Files of token ids, as the command line reads and writes them.

Two formats. Lines: one line of ids in digits per document. `.npy`: the ids of all documents in one flat uint32
array, and beside `x.npy` the file `x.offsets.npy`, int64: document i is `ids[offsets[i]:offsets[i + 1]]`.
Not here: training shards, and text in other containers than plain files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bpe.base.atomic_files import atomic_write
from bpe.batch import TokenBatch, id_array
from bpe.errors import FormatError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Ids are written as text in pieces of this many.
_PIECE = 1 << 18
#: A file that comes through a pipe is read in pieces of this many bytes, or of as many as are held of a document.
_READ = 1 << 20
_MAGIC = b"\x93NUMPY"
#: The header of a .npy file has at most so many bytes; NumPy takes no more than 10,000 by default.
_HEADER = 1 << 16
_SIZE = r"(?:0|[1-9]\d{0,18})[ \n]*"
_VALUE = rf"""'[^'\\]*'|"[^"\\]*"|True|False|\([ \n]*(?:{_SIZE}(?:,[ \n]*{_SIZE})*,?[ \n]*)?\)"""
_FIELD = rf"""[ \n]*['"](descr|fortran_order|shape)['"][ \n]*:[ \n]*({_VALUE})[ \n]*"""
_FIELDS = re.compile(rf"[ \n]*\{{{_FIELD},{_FIELD},{_FIELD},?[ \n]*\}}[ \n]*")
#: The dtypes of ids.
_INTEGERS = re.compile(r"[<>=|]?[iu][1248]")
#: A word of more bytes is no id, and is not held whole to be refused.
_LONGEST = 100

#: The ids of some documents, and whether the last of them goes on in the next batch.
Encoded = tuple[TokenBatch, bool]


def offsets_path(path: str) -> str:
    """Name the file of offsets beside a .npy file of ids.

    >>> offsets_path("train.npy")
    'train.offsets.npy'
    """
    return path.removesuffix(".npy") + ".offsets.npy"


# Writing --------------------------------------------------------------------------------------------------------------


def write_lines(file: BinaryIO, batches: Iterable[Encoded]) -> None:
    """Write one line of ids per document."""
    names: list[str] = []  # of the ids seen so far: looking one up takes a third of the time of making it
    before = ""
    for batch, goes_on in batches:
        names += map(str, range(len(names), int(batch.ids.max(initial=0)) + 1))
        for number, ids in enumerate(batch, start=1):
            for start in range(0, len(ids), _PIECE):
                piece = " ".join(map(names.__getitem__, ids[start : start + _PIECE].tolist()))
                file.write((before + piece).encode())
                before = " "
            if number < len(batch) or not goes_on:
                file.write(b"\n")
                before = ""


def write_npy(path: str, batches: Iterable[Encoded]) -> None:
    """Write ids and offsets as .npy files, as the batches come; both appear at the end, the offsets first."""
    with atomic_write(path) as id_file, atomic_write(offsets_path(path)) as offset_file:
        ids, offsets = _NpyWriter(id_file, np.uint32), _NpyWriter(offset_file, np.int64)
        offsets.append(np.zeros(1, dtype=np.int64))
        for batch, goes_on in batches:
            ends = batch.offsets[1:] + ids.length
            offsets.append(ends[:-1] if goes_on else ends)
            ids.append(batch.ids)
        ids.finish()
        offsets.finish()


class _NpyWriter:
    """A .npy file of one dimension; its length goes into the header at the end."""

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
        fields = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.length,)}
        text = f"{fields!r}".ljust(117) + "\n"  # 128 bytes with the ten before it, whatever the length
        self._file.write(_MAGIC + bytes([1, 0]) + len(text).to_bytes(2, "little") + text.encode())


# Reading --------------------------------------------------------------------------------------------------------------


def read_ids(file: BinaryIO, path: str | None) -> Iterator[tuple[str, NDArray[Any], bool, int]]:
    """Read the documents of a file in either format, which its first bytes tell; a long one comes in pieces.

    Args:
        file: the file, open at its start.
        path: its name, beside which the offsets of a .npy file are looked for (without them it is one document);
            None for stdin.

    Yields:
        (where the document is, such as "line 3"; its ids, or some; whether it begins; how many bytes they take there).

    Raises:
        FormatError: for a line with anything but ids, or a .npy file that is not what it should be.

    """
    first = file.readline(max(_READ, len(_MAGIC)))
    if first.startswith(_MAGIC):
        for number, ids, begins in _read_npy(first, file, path):
            yield f"document {number}", ids, begins, ids.nbytes
        return
    number, begins = 0, True
    for piece in _words(first, file):
        number += begins
        where = f"line {number}"
        yield where, _parsed(piece, path or "stdin", where), begins, len(piece)
        begins = piece.endswith(b"\n")


def _words(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Cut a file, of which something is read, into pieces of whole words, each of at most one line."""
    held, more = b"", first
    while more:
        piece = held + more
        cut = len(piece)
        if not piece.endswith(b"\n"):
            cut = 1 + max(piece.rfind(b" "), piece.rfind(b"\t"))
        if cut == 0 and len(piece) > _LONGEST + _READ:
            yield piece[:_LONGEST] + "…".encode()  # which is refused
            return
        if cut:
            yield piece[:cut]
        held = piece[cut:]
        more = file.readline(_READ)
    if held:
        yield held


def _parsed(line: bytes, path: str, where: str) -> NDArray[np.int64]:
    line = line.strip()
    if not line:
        return np.empty(0, dtype=np.int64)
    if line.translate(None, b"0123456789 \t"):
        bad = next(word for word in line.split() if not word.isdigit()).decode(errors="backslashreplace")
        rule = "a line holds the ids of one document, in digits with spaces between"
        raise FormatError(f"{shown(bad)} is no token id; {rule}", path=path, where=where)
    ids: NDArray[np.int64] = np.fromstring(line, dtype=np.int64, sep=" ")  # too great a number comes out as 2**63 - 1
    return ids


def _read_npy(first: bytes, file: BinaryIO, path: str | None) -> Iterator[tuple[int, NDArray[Any], bool]]:
    """The (number of the document, ids, whether it begins) in a .npy file, of which something is read."""
    count, pieces = _npy_pieces(first, file, path or "stdin")
    if path is None or not os.path.isfile(path) or not os.path.isfile(offsets_path(path)):
        begins = True
        for ids in pieces:
            yield 0, ids, begins
            begins = False
        return
    with open(offsets_path(path), "rb") as beside:
        _, parts = _npy_pieces(b"", beside, offsets_path(path))
        bounds = np.concatenate(list(parts))
    rises = len(bounds) > 0 and bounds[0] == 0 and bounds[-1] == count and not np.any(bounds[1:] < bounds[:-1])
    if not rises:
        raise FormatError(
            f"the offsets must rise from 0 to the number of ids, {count}; these are {shown(bounds.tolist(), 40)}",
            path=offsets_path(path),
        )
    held, at = np.empty(0, dtype=np.int64), 0
    for number, end in enumerate(bounds[1:].tolist()):
        begins = True
        while begins or at < end:
            if not len(held) and at < end:
                held = next(pieces)
            part, held = held[: end - at], held[end - at :]
            at += len(part)
            yield number, part, begins
            begins = False


def _npy_pieces(first: bytes, file: BinaryIO, path: str) -> tuple[int, Iterator[NDArray[Any]]]:
    """How many numbers a .npy file has, of which something is read, and these in pieces of some _READ bytes.

    Of no numbers there is one piece. The header is read here, as NumPy reads it with Python's parser: that takes any
    expression, and what it raises, or needs, for an odd one is not limited.
    """
    held = first + file.read(max(_HEADER + 12 - len(first), 0))
    width = 2 if held[6:7] == b"\x01" else 4
    start = len(_MAGIC) + 2 + width
    if not held.startswith(_MAGIC) or held[6:8] not in (b"\x01\0", b"\x02\0", b"\x03\0"):
        raise FormatError("it does not begin as version 1, 2 or 3 does; it must be a .npy file", path=path)
    size = int.from_bytes(held[start - width : start], "little")
    if len(held) < start or len(held) < start + size <= start + _HEADER:
        raise FormatError("the file ends within its header; it must be a whole .npy file", path=path)
    header = held[start : start + min(size, _HEADER)].decode("latin-1")
    found = _FIELDS.fullmatch(header)
    fields = {} if found is None else dict(zip(found.groups()[::2], found.groups()[1::2], strict=True))
    if size > _HEADER or len(fields) < 3:
        raise FormatError(
            f"its header is {shown(header)}; it must have descr, fortran_order and shape, as of an array of token ids",
            path=path,
        )
    shape = [int(number) for number in re.findall(r"\d+", fields["shape"])]
    kind = fields["descr"][1:-1]
    if len(shape) != 1 or not _INTEGERS.fullmatch(kind):
        raise FormatError(
            f"it has {kind} of shape {fields['shape']}; it must be a .npy file of token ids, integers in one dimension",
            path=path,
        )
    return shape[0], _npy_numbers(held[start + size :], file, path, shape[0], np.dtype(kind))


def _bytes_left(file: BinaryIO) -> int:
    """How many bytes of a regular file have not been read; of any other, -1."""
    with suppress(OSError, ValueError):  # what is no file of the system's
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            return status.st_size - file.tell()
    return -1


def _npy_numbers(held: bytes, file: BinaryIO, path: str, count: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    left, most = count, max(_READ // dtype.itemsize, 1)
    whole = _bytes_left(file) >= count * dtype.itemsize - len(held)
    while True:
        size = min(left, most) * dtype.itemsize
        held += file.read(max(size - len(held), 0))
        if len(held) < size and whole:
            raise OSError(f"{path} got shorter while it was read; read it when no other program writes to it")
        if len(held) < size:
            raise FormatError(f"it ends before its {count} ids do; it must be a whole .npy file", path=path)
        try:
            yield id_array(np.frombuffer(held[:size], dtype=dtype))
        except ValueError as error:
            raise FormatError(f"{error}; it must be a .npy file of token ids", path=path) from None
        held, left = held[size:], left - size // dtype.itemsize
        if not left:
            return
