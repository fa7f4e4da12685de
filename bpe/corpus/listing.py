"""Which files a list of paths names: globs, directories, standard input, and through fsspec paths with a scheme.

Links to folders are followed, as `find -L` does: a folder is left out where it is inside itself.
"""

from __future__ import annotations

import errno
import glob
import importlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import repeat
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

from bpe.base.threads import resolve_threads, run_threads
from bpe.base.utf8 import check_device
from bpe.corpus._listing import FileMeasurer
from bpe.corpus.blocks import PathLike
from bpe.corpus.contents import (
    MAX_FIRST_LINE_BYTES,
    SAMPLE_BYTES,
    Compression,
    ExpectedText,
    check_text,
    find_compression,
    needs_first_line,
)
from bpe.errors import FormatError, add_file_name, check_iterable, describe, short_repr, with_article

SourceFormat = Literal["text", "jsonl", "csv", "tsv", "parquet", "arrow"]
SourceKind = Literal["file", "pipe", "stdin", "remote"]

#: The formats by extension; a file with any other is text.
FORMAT_BY_EXTENSION: dict[str, SourceFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
#: The extensions of compressed files.
COMPRESSION_BY_EXTENSION: dict[str, Compression] = {
    ".gz": "gzip",
    ".bz2": "bz2",
    ".xz": "xz",
    ".zst": "zstd",
    ".zstd": "zstd",
}
#: The formats that are lines of text, and may be compressed.
LINE_FORMATS = ("text", "jsonl", "csv", "tsv")
STDIN = "-"
#: The fewest files of a thread that measures them.
FILES_PER_THREAD = 512
#: The files that the package `datasets` writes beside its data, or beside the folders of it.
_DATASETS_INFO_FILES = ("state.json", "dataset_info.json", "dataset_dict.json")

#: ** as a whole part of a glob.
_ANY_DEPTH = re.compile(r"(?:^|(?<=[/{0}]))\*\*(?:[/{0}]+|$)".format(re.escape(os.sep)))
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://|[A-Za-z0-9+.\-]+::")


class SourceFile(NamedTuple):
    """One file of the sources.

    Attributes:
        name: its path, as errors and plans show it; "stdin" for standard input.
        format: "text", "jsonl", "csv", "tsv", "parquet" or "arrow".
        compression: "gzip", "bz2", "xz", "zstd", or None. That of a pipe is found when it is read.
        size: its bytes on disk; None if unknown before it is read.
        kind: "file" (a regular file), "pipe", "stdin" or "remote".

    """

    name: str
    format: SourceFormat
    compression: Compression | None
    size: int | None
    kind: SourceKind

    @property
    def is_seekable(self) -> bool:
        """Whether reading can begin at any byte of its text."""
        return self.kind == "file" and self.compression is None

    @property
    def offsets_are_bytes(self) -> bool:
        """Whether positions count the bytes of its text, rather than groups of rows."""
        return self.format not in ("parquet", "arrow")


def list_sources(
    paths: PathLike | Iterable[PathLike], format_: str, expected: ExpectedText | None
) -> tuple[SourceFile, ...]:
    """List the files that paths name, in order.

    Args:
        paths: one path or several.
        format_: "auto", or the format of all files.
        expected: what files of text may hold; None for any bytes, when compression is recognized by names only.

    Raises:
        TypeError: for an item that is not a path.
        OSError: for a file that cannot be read, a directory without files, a glob that matches none.
        ValueError: for standard input named twice.
        FormatError: for a file that shows in its first bytes that it is not of its format.

    """
    files: list[SourceFile] = []
    path_list = _check_paths(paths)
    for path, state in zip(path_list, _measure_files(path_list), strict=True):
        if path == STDIN:
            if any(file.kind == "stdin" for file in files):
                raise ValueError("- (stdin) is named twice, and can be read only once; name it once")
            files.append(SourceFile("stdin", _guess_format("", format_)[0], None, None, "stdin"))
        elif is_remote(path):
            sizes = dict(list_remote(path))
            for name in _drop_datasets_info(list(sizes)):
                size = sizes[name]
                file_format, compression = _guess_format(name, format_)
                files.append(SourceFile(name, file_format, compression, size, "remote"))
        elif state[0] >= 0:
            files.append(_describe_local(path, state, format_, expected))
        else:
            names = _expand_path(path)
            states = _measure_files(names) if names != [path] else [state]
            files.extend(map(_describe_local, names, states, repeat(format_), repeat(expected)))
    return tuple(files)


def is_remote(path: str) -> bool:
    """Whether a path names a file system by a scheme, such as s3://bucket/file.

    >>> is_remote("s3://bucket/a.txt"), is_remote("/data/a:b.txt")
    (True, False)
    """
    return "://" in path and _REMOTE.match(path) is not None


def _check_paths(paths: PathLike | Iterable[PathLike]) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    argument: object = paths
    rule = "a path (str or pathlib's), or an iterable of paths"
    check_iterable("files", argument, rule)
    if isinstance(argument, (bytes, io.IOBase)):  # iterating over them gives ints or lines, not paths
        raise TypeError(f"files is {describe(argument)}; it must be {rule}")
    path_list = list(paths)
    for path in path_list:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"file {short_repr(path)} is {with_article(path)}; it must be a path")
    return [path if type(path) is str else str.__str__(os.fsdecode(path)) for path in path_list]  # e.g. NumPy's str


def _expand_path(path: str) -> list[str]:
    """List the files that a local path names, sorted by name."""
    if glob.has_magic(path) and not os.path.lexists(path):
        names = sorted(set(_expand_glob(path)))
        if not names:
            raise FileNotFoundError(
                2, "the pattern matches no file; * and ? stand for parts of a name, ** for folders", path
            )
        return _drop_datasets_info(names)
    if os.path.isdir(path):
        names = sorted(os.path.join(folder, name) for folder, names in _walk_folders(path, is_hidden) for name in names)
        if not names:
            raise FileNotFoundError(2, "the directory has no files (names that begin with . or _ are left out)", path)
        return _drop_datasets_info(names)
    return [path]


def _expand_glob(pattern: str) -> Iterator[str]:
    """Yield the files that a glob names; where it has several **, some of them more than once."""
    match = _ANY_DEPTH.search(pattern)
    if match is None:
        yield from (name for name in glob.iglob(pattern) if not os.path.isdir(name))
        return
    prefix, suffix = pattern[: match.start()], pattern[match.end() :]
    for top in glob.iglob(prefix) if prefix else [""]:
        if os.path.isdir(top or os.curdir):
            for folder, names in _walk_folders(top, lambda name: name.startswith(".")):
                if suffix:
                    yield from _expand_glob(os.path.join(glob.escape(folder), suffix))
                else:
                    yield from (os.path.join(folder, name) for name in names)


def _walk_folders(top: str, is_excluded: Callable[[str], bool]) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder and all those in it, but for names that are left out: (its path, the names of its files).

    Raises:
        OSError: for a folder that cannot be read.

    """
    folders: list[tuple[str, frozenset[tuple[int, int]]]] = [(top, frozenset())]
    while folders:
        folder, outer_folders = folders.pop()
        status = os.stat(folder or os.curdir)
        identity = status.st_dev, status.st_ino
        if identity in outer_folders:  # a link to a folder that it is in
            continue
        ancestors, names = outer_folders | {identity}, []
        with os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                if is_excluded(entry.name):
                    continue
                if entry.is_dir():
                    folders.append((os.path.join(folder, entry.name), ancestors))
                elif entry.is_file() or not os.path.exists(entry.path):  # a link to nothing is an error of its own
                    names.append(entry.name)
                else:
                    raise OSError(errno.EINVAL, "this is a pipe, a socket or a device in a folder; move it", entry.path)
        yield folder, names


def _drop_datasets_info(names: list[str]) -> list[str]:
    """Leave out the files in which the package `datasets` describes its Arrow files beside them."""
    if not any(name.endswith(_DATASETS_INFO_FILES) for name in names):
        return names
    arrow_folders = {os.path.dirname(name) for name in names if name.endswith(".arrow")}
    parent_folders = {os.path.dirname(folder) for folder in arrow_folders}
    data_files = []
    for name in names:
        folder, base_name = os.path.split(name)
        described_folders = arrow_folders if base_name in ("state.json", "dataset_info.json") else parent_folders
        if base_name not in _DATASETS_INFO_FILES or folder not in described_folders:
            data_files.append(name)
    return data_files


def _measure_files(names: list[str]) -> list[tuple[int, bool]]:
    """List the sizes of names, and whether the files may begin with JSON; -1 for what `_describe_local` looks at."""
    measurer = FileMeasurer(names)
    run_threads(measurer.measure, min(resolve_threads(None), 1 + len(names) // FILES_PER_THREAD), measurer.stop)
    return list(zip(measurer.sizes.tolist(), measurer.may_be_records.tolist(), strict=True))


def _describe_local(name: str, measured: tuple[int, bool], format_: str, expected: ExpectedText | None) -> SourceFile:
    """Describe a file, from what `_measure_files` returns for it."""
    file_format, named_compression = _guess_format(name, format_)
    size, may_be_records = measured
    if size >= 0 and named_compression is None and not (may_be_records and file_format == "text"):
        return SourceFile(name, file_format, None, size, "file")
    status = os.stat(name)
    if not stat.S_ISREG(status.st_mode):
        check_device(name)
        return SourceFile(name, file_format, None, None, "pipe")
    first_bytes = _read_first_bytes(name, SAMPLE_BYTES if file_format in LINE_FORMATS else 0)
    compression = find_compression(first_bytes)
    if named_compression is not None and compression != named_compression:
        state = f"{compression} data" if compression else f"not {named_compression} data"
        if not first_bytes:
            state = "empty"
        raise FormatError(
            f"its name says that it is {named_compression} data, but it is {state}; rename it, or copy it again",
            path=name,
        )
    if compression is not None and (expected is not None or named_compression is not None):
        named_compression = compression
    elif expected is not None and file_format == "text":
        check_text(first_bytes, name, expected)
    return SourceFile(name, file_format, named_compression, status.st_size, "file")


def _read_first_bytes(name: str, size: int) -> bytes:
    """Read what `check_text` needs. A file that cannot be read is an error before any is read."""
    descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        first_bytes = os.read(descriptor, size)
        if needs_first_line(first_bytes):
            first_bytes += os.read(descriptor, MAX_FIRST_LINE_BYTES)
        return first_bytes
    except OSError as error:
        raise add_file_name(error, name) from None
    finally:
        os.close(descriptor)


def _guess_format(name: str, format_: str) -> tuple[SourceFormat, Compression | None]:
    """Tell the format and the compression from a name, or from the argument `format`."""
    endings_start = name.find(".", name.rfind("/") + 2)
    return _guess_from_endings(name[endings_start:].lower() if endings_start > 0 else "", format_)


@lru_cache(maxsize=256)
def _guess_from_endings(endings: str, format_: str) -> tuple[SourceFormat, Compression | None]:
    """Tell the format and the compression from the end of a name, from its first dot on."""
    path = PurePosixPath(f"name{endings}")
    compression = COMPRESSION_BY_EXTENSION.get(path.suffix)
    inner_path = path.with_suffix("") if compression else path
    file_format: SourceFormat = FORMAT_BY_EXTENSION.get(inner_path.suffix, "text") if format_ == "auto" else format_  # type: ignore[assignment]
    return (
        (file_format, compression)
        if file_format in LINE_FORMATS
        else (FORMAT_BY_EXTENSION.get(path.suffix, file_format) if format_ == "auto" else file_format, None)
    )


# Remote paths ---------------------------------------------------------------------------------------------------------


def list_remote(path: str) -> list[tuple[str, int | None]]:
    """List the files that a remote path names: (name with the scheme, size in bytes or None), sorted by name.

    A glob names the files that match; a directory, all files in it and its folders, but for names that begin with a dot
    or an underscore.

    Raises:
        ImportError: if fsspec, or the package of its file system, is not installed.
        OSError: for a path without files.

    """
    system, inner_path = _open_system(path)
    if any(character in inner_path for character in "*?["):
        infos = system.glob(inner_path, detail=True)
    elif system.isdir(inner_path):
        infos = {
            name: info
            for name, info in system.find(inner_path, detail=True).items()
            if not any(is_hidden(part) for part in name.removeprefix(inner_path).split("/") if part)
        }
    elif system.exists(inner_path):
        infos = {inner_path: system.info(inner_path)}
    else:
        infos = {}
    files = {name: info for name, info in infos.items() if info.get("type") != "directory"}
    if not files:
        raise FileNotFoundError(2, "no file of this name", path)
    chained = "::" in path  # the names of such files need the whole chain
    return [
        (path if chained else system.unstrip_protocol(name), info.get("size")) for name, info in sorted(files.items())
    ]


def open_remote(name: str) -> AbstractContextManager[Any]:
    """Open a remote file for reading bytes; it can seek where its file system can."""
    system, inner_path = _open_system(name)
    file: AbstractContextManager[Any] = system.open(inner_path, "rb")
    return file


def is_hidden(name: str) -> bool:
    """Whether a directory's file is left out: those that systems and other programs write beside the data.

    >>> is_hidden("_SUCCESS"), is_hidden(".part-0.crc"), is_hidden("part-0")
    (True, True, False)
    """
    return name.startswith((".", "_"))


def _open_system(path: str) -> tuple[Any, str]:
    fsspec = import_extra("fsspec", "remote", "a path with a scheme", path)
    try:
        system, inner_path = fsspec.core.url_to_fs(path)
    except ImportError as error:  # it names the package of the file system
        raise ImportError(f"{path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}; name a scheme that fsspec knows, or a local path") from None
    return system, inner_path


def import_extra(package: str, extra: str, purpose: str, source: str) -> Any:
    """Import an optional package.

    Args:
        package: its name.
        extra: the extra of this package that installs it.
        purpose: what it is needed for.
        source: the file that needs it.

    Raises:
        ImportError: if it is not installed; it names the file and the extra.

    """
    try:
        return importlib.import_module(package)
    except ImportError:
        distribution = package.partition(".")[0] if not package.startswith("backports.") else package
        raise ImportError(
            f"{source}: {purpose} needs the package {distribution}, which is not installed: "
            f"pip install 'bytepair[{extra}]'",
            name=distribution,
        ) from None
