"""`tiktoken.load`: rank files, and GPT-2's two files, as dicts of tokens → ranks.

A file is named by its path or by its address, `http://` or `https://`. Addresses go through the cache of `bpe/named`.
Paths do not: tiktoken copies local files to its cache too, and does not see later changes of them. Other addresses
(`gs://`, `s3://`, `az://`) are read by blobfile, as in tiktoken.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os

from bpe.base.atomic_files import atomic_write
from bpe.base.utf8 import read_file as read_local_file
from bpe.errors import FormatError, check_str, short_repr
from bpe.formats.openai_encodings import PublishedFile
from bpe.formats.tiktoken import read_gpt2_ranks
from bpe.named import cache

__all__ = [
    "check_hash",
    "data_gym_to_mergeable_bpe_ranks",
    "dump_tiktoken_bpe",
    "load_tiktoken_bpe",
    "read_file",
    "read_file_cached",
]


def read_file(blobpath: str) -> bytes:
    """Read a file, without the cache.

    Raises:
        OSError: for a file that cannot be read or downloaded.
        ImportError: for an address that blobfile reads, where it is not installed.

    """
    if "://" not in blobpath:
        return read_local_file(blobpath)
    if blobpath.startswith(("http://", "https://")):
        return cache.download(blobpath)
    try:
        import blobfile
    except ImportError as error:
        raise ImportError(f"{blobpath} needs blobfile: pip install blobfile, or download the file yourself") from error
    data: bytes = blobfile.read_bytes(blobpath)
    return data


def check_hash(data: bytes, expected_hash: str) -> bool:
    """Whether the SHA-256 of some bytes, in hex, is this one."""
    return hashlib.sha256(data).hexdigest() == expected_hash


def read_file_cached(blobpath: str, expected_hash: str | None = None) -> bytes:
    """Read a file, through the cache if it is downloaded.

    Args:
        blobpath: the path or the address.
        expected_hash: the SHA-256 that the content must have; a cached file with another one is removed.

    Raises:
        ValueError: for content with another SHA-256.
        OSError, ImportError: as for `read_file`.

    """
    if blobpath.startswith(("http://", "https://")):
        return cache.fetch_published(PublishedFile(blobpath, expected_hash or ""))
    data = read_file(blobpath)
    if expected_hash and not check_hash(data, check_str("expected_hash", expected_hash)):
        raise ValueError(
            f"{blobpath} has the SHA-256 {hashlib.sha256(data).hexdigest()}; it must be {expected_hash}: the file may "
            "be damaged, or another one"
        )
    return data


def load_tiktoken_bpe(tiktoken_bpe_file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Read the tokens of a rank file → their ranks, in the order of the file.

    Raises:
        ValueError: for a line that is not a token in base64 and a rank; and as for `read_file_cached`.
        OSError, ImportError: as for `read_file`.

    """
    ranks: dict[bytes, int] = {}
    for line_number, line in enumerate(read_file_cached(tiktoken_bpe_file, expected_hash).splitlines(), 1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
        except (ValueError, binascii.Error):
            reason = f"{short_repr(line)} is not a token in base64, a space and a rank"
            raise FormatError(reason, path=tiktoken_bpe_file, where=f"line {line_number}") from None
    return ranks


def dump_tiktoken_bpe(bpe_ranks: dict[bytes, int], tiktoken_bpe_file: str) -> None:
    """Write a rank file, in the order of ranks.

    Raises:
        OSError: for a file that cannot be written.

    """
    lines = (
        b"%s %d\n" % (base64.b64encode(token), rank)
        for token, rank in sorted(bpe_ranks.items(), key=lambda item: item[1])
    )
    with atomic_write(os.fspath(tiktoken_bpe_file)) as file:
        file.writelines(lines)


def data_gym_to_mergeable_bpe_ranks(
    vocab_bpe_file: str,
    encoder_json_file: str,
    vocab_bpe_hash: str | None = None,
    encoder_json_hash: str | None = None,
    clobber_one_byte_tokens: bool = False,
) -> dict[bytes, int]:
    """Read the tokens of GPT-2's two files → their ranks, without special tokens.

    Args:
        vocab_bpe_file: the path or the address of the merges.
        encoder_json_file: the path or the address of the ids.
        vocab_bpe_hash: the SHA-256 of the first file.
        encoder_json_hash: the SHA-256 of the second file.
        clobber_one_byte_tokens: take the ranks of single bytes from the ids, instead of GPT-2's order of bytes.

    Raises:
        ValueError: for files of another format, and for two files that do not belong together.
        OSError, ImportError: as for `read_file`.

    """
    merges = read_file_cached(vocab_bpe_file, vocab_bpe_hash)
    ids = read_file_cached(encoder_json_file, encoder_json_hash)
    return read_gpt2_ranks(merges, ids, bytes_from_ids=clobber_one_byte_tokens)
