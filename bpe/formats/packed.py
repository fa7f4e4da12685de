"""Files that may be compressed with gzip, as some published vocabularies are."""

from __future__ import annotations

import io

from bpe.errors import FormatError, pluralize

#: The most bytes that a file may have when it is decompressed. The largest published vocabulary has less than 40 MB;
#: a larger one needs `bpe.formats.packed.max_unpacked = 1 << 32`.
max_unpacked = 1 << 28
#: How many bytes are decompressed at once.
_STEP_BYTES = 1 << 14
#: What each member of gzip data begins with.
_GZIP_START = b"\x1f\x8b"


def unpack(data: bytes) -> bytes:
    """Return the content of a file, decompressed if it is gzip data.

    Raises:
        FormatError: for damaged gzip data, and for more than `max_unpacked` bytes.

    """
    content = _unpack_start(data, max_unpacked + 1)
    if len(content) > max_unpacked:
        raise FormatError(
            f"{pluralize(len(data), 'byte')} of gzip data hold more than {max_unpacked}, the most that are "
            "decompressed (bpe.formats.packed.max_unpacked); set that higher, or decompress the file"
        )
    return content


def decode_text(data: bytes, rule: str) -> str:
    """Decode UTF-8; in an error, `rule` says what the text must be."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"it is not UTF-8: {error}; {rule}") from None


def read_first_bytes(data: bytes, size: int) -> bytes:
    """Read the first bytes of a file, decompressed if it is gzip data; b"" for damaged gzip data."""
    try:
        return _unpack_start(data, size)
    except FormatError:
        return b""


def _unpack_start(data: bytes, size: int) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzip data; no more are decompressed."""
    if data[:2] != _GZIP_START:
        return data if size > len(data) else data[:size]
    import zlib  # here, because most processes never need it

    content, n_left, position = io.BytesIO(), size, 0
    try:
        while position < len(data) and n_left:  # for each member; zeros may follow the last one
            member = zlib.decompressobj(wbits=31)
            while not member.eof and n_left:
                if position >= len(data):
                    raise EOFError("it ends too early")
                n_left -= content.write(member.decompress(data[position : position + _STEP_BYTES], n_left))
                position = min(position + _STEP_BYTES, len(data))
            position -= len(member.unused_data)
            while position < len(data) and not data[position]:
                zeros = data[position : position + _STEP_BYTES]
                position += len(zeros) - len(zeros.lstrip(b"\0"))
            if n_left and not data.startswith(_GZIP_START, position) and position < len(data):
                raise FormatError(
                    f"the gzip data ends before byte {position}, and what follows is no gzip data; remove it (head -c "
                    f"{position}), or download the file again"
                )
    except (EOFError, zlib.error) as error:
        raise FormatError(f"the gzip data is damaged: {error}") from None
    return content.getvalue()
