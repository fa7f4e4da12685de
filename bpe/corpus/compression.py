"""Compressed data, decompressed step by step.

Every member, frame or stream of a file is read, not only the first. `compression_of` in `contents.py` recognizes the
compression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from typing import Any, Protocol

from bpe.corpus.contents import Compression
from bpe.corpus.records import needed
from bpe.errors import FormatError, type_name

#: The extensions of compressed files.
ENDINGS: dict[str, Compression] = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zstd": "zstd"}
#: The number of bytes of compressed data that are read at once, and the most that one step gives.
IN, OUT = 1 << 18, 1 << 18


class Source(Protocol):
    """A file open for reading bytes."""

    def read(self, size: int, /) -> bytes | None:
        """At most `size` bytes; none at the end."""
        ...


class _Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def decompressed(file: Source, compression: Compression, source: str) -> Generator[tuple[bytes, int], None, None]:
    """The data of a compressed file in chunks of at most `OUT` bytes, each with the bytes of the file read so far.

    Raises:
        FormatError: for data that is damaged or ends early.
        ImportError: if a package for this compression is missing.
        OSError: for a file that cannot be read.

    """
    new, errors = _FACTORIES[compression](source)
    stream: _Decompressor = new()
    taken, data = 0, b""
    while True:
        if stream.eof:
            data = stream.unused_data
            if compression in ("gzip", "xz"):  # zeros pad them
                data = data.lstrip(b"\0")
            while not data:
                data = _read(file)
                taken += len(data)
                if not data:
                    return
                if compression in ("gzip", "xz"):
                    data = data.lstrip(b"\0")
            stream = new()
        elif stream.needs_input:
            data = _read(file)
            taken += len(data)
            if not data:
                raise FormatError(
                    f"the {compression} data ends early, after {taken} bytes: the file is incomplete; copy or download "
                    "it again",
                    path=source,
                )
        else:
            data = b""
        try:
            out = stream.decompress(data, OUT)
        except errors as error:
            raise FormatError(
                f"the {compression} data is damaged before byte {taken} ({error}); copy or download the file again",
                path=source,
            ) from None
        if out:
            yield out, taken


def _read(file: Source) -> bytes:
    data = file.read(IN)
    if data is None:  # a pipe without data that does not block
        raise BlockingIOError(f"the input is {type_name(file)} without data that does not block; let it block")
    return data


# The libraries --------------------------------------------------------------------------------------------------------

_Factory = tuple[Callable[[], Any], Any]  # what makes a decompressor, and its exceptions


class _Gzip:
    """One member of a gzip file, with the interface of the other decompressors."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return bytes(self._stream.decompress(data or self._stream.unconsumed_tail, max_length))


def _gzip(source: str) -> _Factory:
    del source
    try:
        from isal import isal_zlib

        return lambda: _Gzip(isal_zlib.decompressobj(31)), (isal_zlib.error,)
    except ImportError:
        import zlib

        return lambda: _Gzip(zlib.decompressobj(31)), (zlib.error,)


def _bz2(source: str) -> _Factory:
    del source
    import bz2

    return bz2.BZ2Decompressor, (OSError, ValueError)


def _xz(source: str) -> _Factory:
    del source
    import lzma

    return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), (lzma.LZMAError,)


def _zstd(source: str) -> _Factory:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    zstd = needed(name, "corpus", "zstd data", source)
    longest = zstd.DecompressionParameter.window_log_max.bounds()[1]  # 31: `zstd --long=31`
    options = {zstd.DecompressionParameter.window_log_max: longest}
    return lambda: zstd.ZstdDecompressor(options=options), (zstd.ZstdError,)


_FACTORIES: dict[Compression, Callable[[str], _Factory]] = {"gzip": _gzip, "bz2": _bz2, "xz": _xz, "zstd": _zstd}
