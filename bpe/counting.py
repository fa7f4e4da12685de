"""Counting the words of a corpus: documents in files and iterables, in parts, on several threads.

Not here: what a word is (pretokenizers), the counts themselves (`bpe/wordcounts.py`) and training.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bpe._core.scan import cuts
from bpe._core.wordtable import WordTable
from bpe.errors import shown
from bpe.normalizers import Normalizer
from bpe.pretokenize import Pretokenizer
from bpe.progress import progress_bar
from bpe.text import Bytes, TextLike, check_utf8, to_bytes
from bpe.threads import in_order, thread_count
from bpe.wordcounts import PathLike, Splitter, WordCounts

#: Texts are given to threads in parts of about this many bytes.
PART = 1 << 22


def count_words(
    *,
    files: PathLike | Iterable[PathLike] | None = None,
    texts: Iterable[TextLike] | None = None,
    pretokenizer: Pretokenizer | str | None = "gpt2",
    normalizer: Normalizer | Sequence[Normalizer] | None = None,
    special_tokens: Iterable[str] = (),
    separator: str | None = None,
    per_line: bool = False,
    threads: int | None = None,
    progress: bool = False,
) -> WordCounts:
    r"""Count the words of a corpus.

    Args:
        files: paths of UTF-8 text files; or
        texts: str or bytes, each a document; exactly one of the two.
        pretokenizer: what makes words of texts: a name, a `Pretokenizer`, or None (a text is one word).
        normalizer: what is done to a text before that.
        special_tokens: strings that separate text and are part of no word.
        separator: what separates the documents in a file and belongs to none; None makes each file one document.
        per_line: each line of a file is a document, its newline included (`separator="\n"` leaves the newlines out).
        threads: how many to use; None is one per core. The result does not depend on it.
        progress: show a bar of the bytes done on stderr, if that is a terminal.

    Raises:
        TypeError: for texts that are one str, or not str or bytes.
        ValueError: for both a separator and `per_line`, or anything else that an argument must not be.
        OSError: for a file that cannot be read.

    >>> count_words(texts=["low lower", "low"], pretokenizer="whitespace").most_common()
    [(b'low', 2), (b'lower', 1)]

    """
    if (files is None) == (texts is None):
        raise ValueError("give exactly one of files= and texts=")
    counts = WordCounts(pretokenizer, normalizer, special_tokens)
    count_into(counts, files, texts, separator, per_line, thread_count(threads), progress, utf8=False)
    return counts


def count_into(
    counts: WordCounts,
    files: PathLike | Iterable[PathLike] | None,
    texts: Iterable[TextLike] | None,
    separator: str | None,
    per_line: bool,
    threads: int,
    progress: bool,
    *,
    utf8: bool,
) -> None:
    """Add the words of a corpus to counts that are still empty; with `utf8`, bytes that are not UTF-8 are an error.

    Each thread fills a table of its own with whole parts of the corpus; every word remembers the place of its first
    occurrence in the corpus, so the tables merge into the same counts however the parts were shared out.
    """
    if files is not None:
        files = _listed(files)
    documents = _file_documents(files, separator, per_line) if files is not None else _text_documents(texts)
    splitter = Splitter(counts)
    tables: list[WordTable] = []

    def count(part: list[tuple[Bytes, int, int, int]]) -> int:
        try:
            table = tables.pop()  # list.pop and append are atomic: no lock
        except IndexError:
            table = WordTable()
        try:
            for data, start, end, place in part:
                splitter.count(table, data, start, end, place)
        finally:
            tables.append(table)
        return sum(end - start for _, start, end, _ in part)

    total = _total_size(files) if progress else None
    with progress_bar(progress, "count", total, "B") as bar:
        for done in in_order(count, _parts(documents, splitter, utf8), threads):
            bar(done)
    tables.sort(key=len)
    if tables:
        counts._table = tables.pop()
    while tables:
        counts._table.absorb(tables.pop())
    counts._place = 1 << 62  # behind every place used so far


def _parts(
    documents: Iterable[tuple[Bytes, str]], splitter: Splitter, utf8: bool
) -> Iterator[list[tuple[Bytes, int, int, int]]]:
    """The corpus in parts of about PART bytes: lists of (data, start, end, place in the corpus)."""
    part: list[tuple[Bytes, int, int, int]] = []
    size = place = 0
    for data, source in documents:
        if utf8:
            check_utf8(data, source)
        reached = place
        for segment, at in splitter.segments(data, place):
            bounds = [0, len(segment)]
            if splitter.scanner is not None and len(segment) > 2 * PART:
                bounds = cuts(splitter.scanner, segment, PART)
            for start, end in pairwise(bounds):
                part.append((segment, start, end, at + start))
                size += end - start
                if size >= PART:
                    yield part
                    part, size = [], 0
            reached = at + len(segment)
        place = max(place + len(data), reached) + 1
    if part:
        yield part


def _text_documents(texts: Iterable[TextLike] | None) -> Iterator[tuple[Bytes, str]]:
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is one {type(texts).__name__}; it must be an iterable of texts: [{shown(texts, 20)}]")
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts is {shown(texts)}, a {type(texts).__name__}; it must be an iterable of str or bytes")
    for number, text in enumerate(texts):
        yield to_bytes(text), f"text {number}"


def _file_documents(
    files: PathLike | Iterable[PathLike], separator: str | None, per_line: bool
) -> Iterator[tuple[Bytes, str]]:
    """The documents of files, which are mapped into memory, not read; (a view, its file's name)."""
    paths = _listed(files)
    if separator is not None and not isinstance(separator, str):
        raise TypeError(f"separator is {shown(separator)}, a {type(separator).__name__}; it must be a str or None")
    if separator == "":
        raise ValueError("separator is ''; it must be at least one character, or None for one document per file")
    if separator is not None and per_line:
        raise ValueError(f"separator is {separator!r} and per_line is {per_line!r}; give at most one of them")
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"file {shown(path)} is a {type(path).__name__}; it must be a path")
        if stat.S_ISREG(os.stat(path).st_mode):  # all are there before the first is counted
            with open(path, "rb"):
                pass
    end = b"\n" if per_line else None if separator is None else separator.encode()
    for path in paths:
        view, source = map_file(path), os.fspath(path)
        whole: Any = view.obj  # a map or bytes: both find faster than a regular expression
        start = 0
        while end is not None and (found := whole.find(end, start)) >= 0:
            if found + per_line > start:
                yield view[start : found + per_line], source
            start = found + len(end)
        if start < len(view):
            yield view[start:], source


def map_file(path: PathLike) -> memoryview:
    """The bytes of a file without reading them: a map of it, or what a pipe gives."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(file.read())
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _total_size(files: PathLike | Iterable[PathLike] | None) -> int | None:
    """The bytes of files together, or None where that is not known before."""
    paths = [] if files is None else _listed(files)
    return sum(Path(path).stat().st_size for path in paths) or None


def _listed(files: PathLike | Iterable[PathLike]) -> list[PathLike]:
    return [files] if isinstance(files, (str, os.PathLike)) else list(files)
