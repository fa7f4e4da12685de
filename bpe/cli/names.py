"""Tokenizers that a command line names: files, folders, OpenAI's encodings and models, repositories of the Hub.

A path that exists is always the path. Nothing is downloaded without --download.
"""

from __future__ import annotations

import argparse
import errno
import os
import re

import bpe
from bpe.errors import suggest
from bpe.formats.openai_encodings import ENCODINGS, MODELS

#: Endings of files, so that a missing file is not taken for a model or a repository.
_FILE_ENDINGS = (".json", ".model", ".tiktoken", ".gguf", ".compiled", ".txt", ".bpe", ".gz", ".jsonl", ".csv")
#: The names of repositories.
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def load_tokenizer(args: argparse.Namespace, name: str, *, timeout: float | None = None) -> bpe.Tokenizer:
    """Load a tokenizer that a command line names; with --download, from where it is published if it is not cached.

    Raises:
        OSError: for what is neither a path nor a name, and for a name that is not cached, without --download.
        FormatError: for a file that is not valid.

    """
    if is_path(name):
        check_tokenizers(name)
        return bpe.Tokenizer.load(name, timeout=timeout)
    if (encoding := find_encoding(name)) is None:
        from bpe.named.hub import fetch

        path, file_format = fetch(name, from_cache=not args.download)
        return bpe.Tokenizer.load(path, format=file_format, timeout=timeout)
    from bpe.named.registry import explain_absence, is_cached

    if not args.download and not is_cached(encoding):
        raise FileNotFoundError(f"{explain_absence(encoding)}, or give --download")
    tokenizer = bpe.get_encoding(encoding)
    return tokenizer if timeout is None else bpe.Tokenizer(tokenizer.spec, timeout=timeout)


def check_tokenizers(*names: str) -> list[str]:
    """Return those of some tokenizers that are files or pipes; refuse what is neither a path nor a name.

    Raises:
        FileNotFoundError: for it, with the name that may be meant.

    """
    for name in names:
        if not os.path.lexists(name) and name != "-" and not is_name(name):
            raise FileNotFoundError(errno.ENOENT, explain_absence(name), name)
    return [name for name in names if name == "-" or (os.path.lexists(name) and not os.path.isdir(name))]


def explain_absence(name: str) -> str:
    """Explain that a path does not exist and is no name either, with the path or the name that may be meant."""
    reason = os.strerror(errno.ENOENT)
    paths = list_siblings(name)
    if name.lower().endswith(_FILE_ENDINGS):
        return reason + suggest(name, paths)
    suggestion = suggest(name, [*ENCODINGS, *MODELS, *paths])
    return f"{reason}{suggestion} (a tokenizer is a file, a folder, or a name such as cl100k_base, gpt-4o or org/name)"


def list_siblings(path: str) -> list[str]:
    """List the paths in the folder of a path; none if there is no such folder."""
    folder = os.path.dirname(path)
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    return [os.path.join(folder, name) for name in names]


def is_name(text: str) -> bool:
    """Whether a text has the form of a tokenizer's name: an encoding, a model, or a repository.

    >>> is_name("gpt-4o"), is_name("Qwen/Qwen3-8B"), is_name("cl100k"), is_name("out/tokenizer.json")
    (True, True, False, False)
    """
    return find_encoding(text) is not None or _is_repository(text)


def _is_repository(text: str) -> bool:
    """Whether a text has the form of a repository's name."""
    return _REPOSITORY.fullmatch(text) is not None and not text.lower().endswith(_FILE_ENDINGS)


def find_encoding(name: str) -> str | None:
    """Find the encoding of OpenAI's that a name stands for, its own or that of a model; None for any other name."""
    if name in ENCODINGS:
        return name
    if name.lower().endswith(_FILE_ENDINGS):
        return None
    from bpe.named.registry import encoding_name_for_model

    try:
        return encoding_name_for_model(name)
    except KeyError:
        return None


def is_path(name: str) -> bool:
    """Whether a tokenizer is given by its path; False for a name."""
    return os.path.lexists(name) or not is_name(name)


def is_available(args: argparse.Namespace, name: str) -> bool:
    """Whether something that is no path is a tokenizer's name: a known one, or a repository that can be loaded."""
    if find_encoding(name) is not None:
        return True
    if not _is_repository(name):
        return False
    from bpe.named.hub import is_cached

    return args.download or is_cached(name)
