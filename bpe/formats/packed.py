"""Files that may be compressed with gzip, as some published vocabularies are."""

from __future__ import annotations

from bpe.errors import FormatError


def unpacked(data: bytes, path: str | None) -> bytes:
    """The content of a file, decompressed if it is gzip data.

    Raises:
        FormatError: for damaged gzip data; the error names `path`.

    """
    if data[:2] != b"\x1f\x8b":
        return data
    import gzip  # here, because most processes never need it
    import zlib

    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"the gzip data is damaged: {error}", path=path) from None
