"""Files that may be gzipped, as the published vocabularies are."""

from __future__ import annotations

import gzip
import zlib

from bpe.errors import FormatError


def unpacked(data: bytes, path: str | None) -> bytes:
    """The bytes of a file, gzipped or not.

    Raises:
        FormatError: for gzip data that is damaged; `path` is named in it.

    """
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"the gzip data is damaged: {error}", path=path) from None
