"""Which files a list of paths names: globs, directories, standard input and remote paths.

Not here: reading them (`streams.py`), the file systems of remote paths (`remote.py`).
"""

from __future__ import annotations

import glob
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from bpe.base.utf8 import check_device
from bpe.corpus.blocks import PathLike
from bpe.corpus.compression import ENDINGS
from bpe.corpus.reading import SIGNATURE, Compression, compression_of
from bpe.corpus.remote import hidden, remote_files
from bpe.errors import FormatError, check_iterable, shown, type_name, typed

Format = Literal["text", "jsonl", "csv", "tsv", "parquet", "arrow"]
Kind = Literal["file", "pipe", "stdin", "remote"]

#: The formats by extension; a file with any other is text.
FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
#: The formats that are lines of text, and may be compressed.
TEXTUAL = ("text", "jsonl", "csv", "tsv")
STDIN = "-"

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://|[A-Za-z0-9+.\-]+::")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the sources.

    Attributes:
        name: its path, as errors and plans show it; "stdin" for standard input.
        format: "text", "jsonl", "csv", "tsv", "parquet" or "arrow".
        compression: "gzip", "bz2", "xz", "zstd", or None. That of a pipe is found when it is read.
        size: its bytes on disk; None if unknown before it is read.
        kind: "file" (a regular file), "pipe", "stdin" or "remote".

    """

    name: str
    format: Format
    compression: Compression | None
    size: int | None
    kind: Kind

    @property
    def seekable(self) -> bool:
        """Whether reading can begin at any byte of its text."""
        return self.kind == "file" and self.compression is None


def listed_sources(paths: PathLike | Iterable[PathLike], format_: str, *, detect: bool) -> tuple[SourceFile, ...]:
    """The files that paths name, in order.

    Args:
        paths: one path or several.
        format_: "auto", or the format of all files.
        detect: whether compressed files are also recognized by their first bytes.

    Raises:
        TypeError: for an item that is not a path.
        OSError: for a file that cannot be read, a directory without files, a glob that matches none.
        ValueError: for standard input named twice.

    """
    found: list[SourceFile] = []
    for path in _checked(paths):
        if path == STDIN:
            if any(file.kind == "stdin" for file in found):
                raise ValueError("- (stdin) is named twice, and can be read only once; name it once")
            found.append(SourceFile("stdin", _format("", format_)[0], None, None, "stdin"))
        elif is_remote(path):
            for name, size in remote_files(path):
                kind, packed = _format(name, format_)
                found.append(SourceFile(name, kind, packed, size, "remote"))
        else:
            found.extend(_local(name, format_, detect=detect) for name in _expanded(path))
    return tuple(found)


def is_remote(path: str) -> bool:
    """Whether a path names a file system by a scheme, such as s3://bucket/file.

    >>> is_remote("s3://bucket/a.txt"), is_remote("/data/a:b.txt")
    (True, False)
    """
    return _REMOTE.match(path) is not None and "://" in path


def _checked(paths: PathLike | Iterable[PathLike]) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    given: object = paths
    rule = "a path (str or pathlib's), or an iterable of paths"
    check_iterable("files", given, rule)
    if isinstance(given, (bytes, io.IOBase)):  # iterating over them gives ints or lines, not paths
        raise TypeError(f"files is {typed(given)}; it must be {rule}")
    listed = list(paths)
    for path in listed:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"file {shown(path)} is {type_name(path)}; it must be a path")
    return [os.fsdecode(path) for path in listed]


def _expanded(path: str) -> list[str]:
    """The files that a local path names, sorted by name."""
    if glob.has_magic(path) and not os.path.lexists(path):
        names = sorted(name for name in glob.glob(path, recursive=True) if not os.path.isdir(name))
        if not names:
            raise FileNotFoundError(
                2, "the pattern matches no file; * and ? stand for parts of a name, ** for folders", path
            )
        return names
    if os.path.isdir(path):
        names = sorted(_walked(path))
        if not names:
            raise FileNotFoundError(2, "the directory has no files (names that begin with . or _ are left out)", path)
        return names
    return [path]


def _walked(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not hidden(name)]
        yield from (os.path.join(parent, name) for name in names if not hidden(name))


def _local(name: str, format_: str, *, detect: bool) -> SourceFile:
    check_device(name)
    status = os.stat(name)
    kind, packed = _format(name, format_)
    if not stat.S_ISREG(status.st_mode):
        return SourceFile(name, kind, None, None, "pipe")
    with open(name, "rb") as file:  # a file that cannot be read is an error before any is read
        start = file.read(SIGNATURE) if kind in TEXTUAL else b""
    seen = compression_of(start)
    if packed is not None and seen != packed:
        state = "empty" if not start else f"{seen} data" if seen else f"not {packed} data"
        raise FormatError(
            f"its name says that it is {packed} data, but it is {state}; rename it, or copy it again", path=name
        )
    if seen is not None and (detect or packed is not None):
        packed = seen
    return SourceFile(name, kind, packed, status.st_size, "file")


def _format(name: str, format_: str) -> tuple[Format, Compression | None]:
    """The format and the compression that a name, or the argument `format`, says."""
    path = PurePosixPath(name.lower())
    packed = ENDINGS.get(path.suffix)
    inner = path.with_suffix("") if packed else path
    kind: Format = FORMATS.get(inner.suffix, "text") if format_ == "auto" else format_  # type: ignore[assignment]
    return (kind, packed) if kind in TEXTUAL else (FORMATS.get(path.suffix, kind) if format_ == "auto" else kind, None)
