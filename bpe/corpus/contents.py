"""What the first bytes of a file show: compression, an archive or another binary format, records instead of text.

Text that is only named otherwise than it is would be read without an error, and its headers, quotes and braces learned
as words. So the first `SAMPLE_BYTES` of each text are checked, after decompression as well, and what is not plain
text is refused with the fix. Signatures that a text may begin with count only beside a NUL byte. Sources: the formats'
specifications, and the table of file(1).
"""

from __future__ import annotations

import codecs
import re
from typing import Literal

from bpe.base.fast_dataclasses import dataclass
from bpe.errors import FormatError, get_log

Compression = Literal["gzip", "bz2", "xz", "zstd"]


UTF8_BOM = codecs.BOM_UTF8
#: The bytes that identify compression; those that `check_text` gets; the most of a first line that is a JSON object.
SIGNATURE_BYTES, SAMPLE_BYTES, MAX_FIRST_LINE_BYTES = 16, 4096, 1 << 20

_COMPRESSED_ERROR = "this is {} data, not text; decompress it first ({})"
#: Kinds of compression: the first bytes of a file, and the program that decompresses it.
_COMPRESSIONS: dict[Compression, tuple[bytes, str]] = {
    "gzip": (rb"\x1f\x8b\x08", "gunzip"),
    "zstd": (rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", "unzstd"),
    "bz2": (rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "bunzip2"),
    "xz": (rb"\xfd7zXZ\0", "unxz"),
}
_ENCODING_ERROR = "this is {} text; convert it to UTF-8 first: iconv -f {} -t UTF-8"
_ARCHIVE_ERROR = "this is {}, not text; unpack it first ({}), and name the files or their folder"
_COLUMNS_ERROR = 'this is {} data, not text; pass format="{}", or give the file the extension .{}'
_BINARY_ERROR = "this is {}, not text; extract its text first, or leave the file out"
_BYTES_ADVICE = ', or pass encoding_errors="bytes" to let a byte model read the bytes unchanged'
_SIGNATURES = (  # UTF-32's before UTF-16's, which they begin with
    (rb"PK(?:\x03\x04|\x05\x06|\x07\x08)", _COMPRESSED_ERROR.format("zip", "unzip")),
    (rb"7z\xbc\xaf\x27\x1c", _ARCHIVE_ERROR.format("a 7z archive", "7z x")),
    (rb"Rar!\x1a\x07", _ARCHIVE_ERROR.format("a RAR archive", "unrar x")),
    (rb".{257}ustar(?:  )?\0", _ARCHIVE_ERROR.format("a tar archive", "tar -xf")),
    (rb"!<arch>\n(?=.*\0)", _ARCHIVE_ERROR.format("an ar archive", "ar x")),
    (rb"\xc7\x71|\x71\xc7|07070[127](?=.*\0)", _ARCHIVE_ERROR.format("a cpio archive", "cpio -i")),
    (rb"\x1f[\x9d\xa0]", _COMPRESSED_ERROR.format("compress", "uncompress")),
    (rb"\x04\x22\x4d\x18", _COMPRESSED_ERROR.format("LZ4", "unlz4")),
    (rb"\x5d\0\0..\xff\xff", _COMPRESSED_ERROR.format("lzma", "unlzma")),
    (rb"LZIP\x01(?=.*\0)", _COMPRESSED_ERROR.format("lzip", "lzip -d")),
    (rb"\xff\x06\0\0sNaPpY", _COMPRESSED_ERROR.format("snappy", "snzip -d")),
    (rb"PAR1(?=.*\0)", _COLUMNS_ERROR.format("Parquet", "parquet", "parquet")),
    (rb"ARROW1\0\0|\xff\xff\xff\xff.{2}\0\0", _COLUMNS_ERROR.format("Arrow", "arrow", "arrow")),
    (rb"FEA1(?=.*\0)", _BINARY_ERROR.format("a Feather file of version 1")),
    (rb"ORC(?=.*\0)", _BINARY_ERROR.format("an ORC file")),
    (rb"Obj\x01", _BINARY_ERROR.format("an Avro file")),
    (rb"\x89HDF\r\n\x1a\n", _BINARY_ERROR.format("an HDF5 file")),
    (rb"SQLite format 3\0", _BINARY_ERROR.format("an SQLite database")),
    (rb"\x93NUMPY", _BINARY_ERROR.format("a NumPy array")),
    (rb"\x80[\x02-\x05](?:[\x95\x8a}\](c]|\0)", _BINARY_ERROR.format("a pickle")),
    (rb"%PDF-\d", _BINARY_ERROR.format("a PDF document")),
    (rb"\{\\rtf\d", _BINARY_ERROR.format("an RTF document")),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _BINARY_ERROR.format("an old Office document")),
    (rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a(?=.*\0)|II\*\0|MM\0\*|BM(?=.*\0)|RIFF.{4}WEBP",
     _BINARY_ERROR.format("an image")),
    (rb"\xff[\xfb\xf3\xf2]|(?:ID3|OggS|fLaC|RIFF.{4}(?:WAVE|AVI )|.{4}ftyp)(?=.*\0)|\x1a\x45\xdf\xa3",
     _BINARY_ERROR.format("sound or video")),
    (rb"\x7fELF|MZ(?=.*\0)|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe|\0asm", _BINARY_ERROR.format("a program")),
    (rb"GGUF(?=.*\0)", _BINARY_ERROR.format("a GGUF model")),
    (rb".{7}\0\{\"", _BINARY_ERROR.format("a safetensors file")),
    (rb"BPECOUNT.\0", "these are word counts, not text; pass them as counts= (bpe.WordCounts.load reads them)"),
    (rb"BPETRAIN.\0", _BINARY_ERROR.format("a training checkpoint")),
    (rb"\xff\xfe\0\0", _ENCODING_ERROR.format("UTF-32 (little-endian)", "UTF-32")),
    (rb"\0\0\xfe\xff", _ENCODING_ERROR.format("UTF-32 (big-endian)", "UTF-32")),
    (rb"\xff\xfe", _ENCODING_ERROR.format("UTF-16 (little-endian)", "UTF-16")),
    (rb"\xfe\xff", _ENCODING_ERROR.format("UTF-16 (big-endian)", "UTF-16")),
)  # fmt: skip
#: All signatures, each a group, whose number says which one has matched.
_ANY_COMPRESSION = re.compile(b"|".join(b"(%b)" % signature for signature, _ in _COMPRESSIONS.values()), re.DOTALL)
_ANY_SIGNATURE = re.compile(b"|".join(b"(%b)" % signature for signature, _ in _SIGNATURES), re.DOTALL)

_TEXT_ADVICE = 'format="text" to read the file as it is'
_NAMES_RECORDS = re.compile(r"\.(?:jsonl|ndjson|json\.(?:gz|bz2|xz|zst|zstd)$)", re.IGNORECASE)
_BEGINS_RECORD = re.compile(rb'(?:\xef\xbb\xbf)?\s*(\[\s*)?(?=\{\s*")')


@dataclass(frozen=True)
class ExpectedText:
    """What a file that is read as text may hold.

    Attributes:
        allows_nul: whether NUL bytes may be among the first ones: the format was named, or a separator has one.
        record_field: the field of JSON records, which the file may not have; None if it may, since the format was
            named.

    """

    allows_nul: bool = True
    record_field: str | None = None


ANY_TEXT = ExpectedText()


def find_compression(first_bytes: bytes) -> Compression | None:
    """Recognize the compression of a file by its first `SIGNATURE_BYTES`; None if it is not compressed.

    >>> import gzip
    >>> find_compression(gzip.compress(b"low")), find_compression(b"low")
    ('gzip', None)
    """
    match = _ANY_COMPRESSION.match(first_bytes)
    return None if match is None else list(_COMPRESSIONS)[(match.lastindex or 0) - 1]


def check_text(first_bytes: bytes, source: str, expected: ExpectedText = ANY_TEXT) -> None:
    """Raise FormatError for a file that is compressed, binary, in UTF-16 or UTF-32, or of JSON records.

    Args:
        first_bytes: `SAMPLE_BYTES` of the text, or all of a shorter one; MAX_FIRST_LINE_BYTES if `needs_first_line`.
        source: its name.
        expected: what it may hold.

    """
    compression = find_compression(first_bytes)
    if compression is not None:
        raise FormatError(_COMPRESSED_ERROR.format(compression, _COMPRESSIONS[compression][1]), path=source)
    if (match := _ANY_SIGNATURE.match(first_bytes)) is not None:
        raise FormatError(_SIGNATURES[(match.lastindex or 0) - 1][1], path=source)
    if not expected.allows_nul and b"\0" in first_bytes:
        raise FormatError(_describe_nul(first_bytes), path=source)
    if expected.record_field is not None and (record := _BEGINS_RECORD.match(first_bytes)) is not None:
        _check_records(first_bytes[record.end() :], source, expected.record_field, array=record[1] is not None)


def warn_about_text(first_bytes: bytes, source: str, expected: ExpectedText = ANY_TEXT) -> None:
    """Log what may not be meant as text, of a text that `check_text` allows: a UTF-8 byte order mark, JSON."""
    match = None if expected.record_field is None else _BEGINS_RECORD.match(first_bytes)
    if (
        expected.record_field is not None
        and match
        and (match[1] or _has_key(first_bytes, expected.record_field.partition(".")[0]))
    ):
        get_log().warning(
            "%s begins like JSON and is read as text, with its quotes and braces; if it has records, write each on a "
            "line of its own (jq -c), and name their format: JSON Lines",
            source,
        )
    if first_bytes.startswith(UTF8_BOM):
        get_log().warning(
            "%s begins with a UTF-8 byte order mark, which is encoded as text; remove it if that is not intended: "
            "sed -i '1s/^\\xEF\\xBB\\xBF//'",
            source,
        )


def needs_first_line(first_bytes: bytes) -> bool:
    """Whether these bytes begin a JSON object whose line does not end in them; `check_text` then needs more."""
    return (
        len(first_bytes) == SAMPLE_BYTES and b"\n" not in first_bytes and _BEGINS_RECORD.match(first_bytes) is not None
    )


def _describe_nul(first_bytes: bytes) -> str:
    """Say what a text with NUL bytes is, for an error."""
    even, odd = first_bytes[::2].count(0), first_bytes[1::2].count(0)
    if max(even, odd) > 8 * min(even, odd) and 4 * max(even, odd) > len(first_bytes):
        byte_order = "LE" if odd > even else "BE"
        return _ENCODING_ERROR.format("UTF-16", f"UTF-16{byte_order}")
    offset = first_bytes.index(0)
    return (
        f'byte {offset} is NUL, so this looks like binary data; leave the file out, or pass format="text" if it is text'
        + _BYTES_ADVICE
    )


def _has_key(first_bytes: bytes, key: str) -> bool:
    """Whether a key of a JSON object is in a text."""
    import json

    quoted_key = json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return re.search(re.escape(quoted_key) + rb"\s*:", first_bytes) is not None


def _check_records(first_bytes: bytes, source: str, field: str, *, array: bool) -> None:
    """Raise FormatError for a text that begins with a JSON object, if it is one of several records.

    It is if it has the field, or the name of the file says so, or the second line is a JSON object too; in an array, if
    it has the field.
    """
    import json

    key = field.partition(".")[0]
    first_line, _, other_lines = first_bytes.partition(b"\n")
    try:
        record = json.JSONDecoder().raw_decode(first_line.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        if not array and len(first_line) < len(first_bytes):  # a whole line that is no JSON value
            return
        record = {key: None} if _has_key(first_bytes, key) else {}
    has_field = key in record
    advice = (
        f'pass format="jsonl", with field= the name of the text, to read the text of each record, or {_TEXT_ADVICE}'
    )
    if array and has_field:
        raise FormatError(
            f"this looks like a JSON array of records with {key!r}; write each record on a line of its own "
            f'(jq -c ".[]") and {advice}',
            path=source,
        )
    if not array and (has_field or _NAMES_RECORDS.search(source) or re.match(rb'\s*\{\s*"', other_lines)):
        description = f"a JSON object{f' with {key!r}' if has_field else ''}"
        raise FormatError(f"the first line is {description}, so this looks like JSON Lines; {advice}", path=source)
