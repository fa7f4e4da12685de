"""Paths with a scheme, such as s3://bucket/file, through the package fsspec.

Local paths never come here.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from bpe.corpus.records import needed


def remote_files(path: str) -> list[tuple[str, int | None]]:
    """The files that a remote path names: (name with the scheme, size in bytes or None), sorted by name.

    A glob names the files that match; a directory, all files in it and its folders, but for names that begin with a dot
    or an underscore.

    Raises:
        ImportError: if fsspec, or the package of its file system, is not installed.
        OSError: for a path without files.

    """
    system, inner = _system(path)
    if any(letter in inner for letter in "*?["):
        found = system.glob(inner, detail=True)
    elif system.isdir(inner):
        found = {
            name: about
            for name, about in system.find(inner, detail=True).items()
            if not any(hidden(part) for part in name.removeprefix(inner).split("/") if part)
        }
    elif system.exists(inner):
        found = {inner: system.info(inner)}
    else:
        found = {}
    files = {name: about for name, about in found.items() if about.get("type") != "directory"}
    if not files:
        raise FileNotFoundError(2, "no file of this name", path)
    chained = "::" in path  # the names of such files need the whole chain
    return [
        (path if chained else system.unstrip_protocol(name), about.get("size")) for name, about in sorted(files.items())
    ]


def open_remote(name: str) -> AbstractContextManager[Any]:
    """Open a remote file for reading bytes; it can seek where its file system can."""
    system, inner = _system(name)
    opened: AbstractContextManager[Any] = system.open(inner, "rb")
    return opened


def hidden(name: str) -> bool:
    """Whether a directory's file is left out: those that systems and other programs write beside the data.

    >>> hidden("_SUCCESS"), hidden(".part-0.crc"), hidden("part-0")
    (True, True, False)
    """
    return name.startswith((".", "_"))


def _system(path: str) -> tuple[Any, str]:
    fsspec = needed("fsspec", "remote", "a path with a scheme", path)
    try:
        system, inner = fsspec.core.url_to_fs(path)
    except ImportError as error:  # it names the package of the file system
        raise ImportError(f"{path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}; name a scheme that fsspec knows, or a local path") from None
    return system, inner
