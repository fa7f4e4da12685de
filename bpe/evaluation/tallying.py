"""One pass over a corpus: each block is read once, and encoded and tallied for every tokenizer.

A thread takes the next block and does all of this, so that the text stays in its cache. Results are put in the order of
the blocks, so that figures do not depend on the threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.threads import map_ordered, map_unordered
from bpe.base.utf8 import Bytes, utf8_error
from bpe.corpus._file_reader import FileBlock, FileReader
from bpe.corpus.blocks import Block
from bpe.errors import as_format_error
from bpe.evaluation._common_cuts import CommonCuts
from bpe.evaluation._file_tally import tally_blocks, tally_texts
from bpe.evaluation._tally import COLUMNS, TokenTally
from bpe.evaluation.adapters import Adapter
from bpe.evaluation.corpora import Corpus, find_common_cuts
from bpe.evaluation.grouping import Groups

#: A part of a corpus: documents in a block, a file, or texts.
_Part = Block | FileReader | list[str | bytes]
#: Blocks of a file that a thread tallies before Python handles their results.
_BLOCKS = 8
#: The column of each sum of a document.
INDEX = {name: index for index, name in enumerate(COLUMNS)}


@dataclass
class Tally:
    """What one tokenizer gives for one corpus.

    Attributes:
        counts: int64, by id: how often each token occurs.
        groups: the sums of documents, with the columns COLUMNS.

    """

    counts: NDArray[np.int64]
    groups: Groups


@dataclass
class _BlockSums:
    """The sums of a block's documents for each tokenizer."""

    rows: list[NDArray[np.float64]]
    begins: bool
    closes: bool
    size: int


def tally_corpus(
    corpus: Corpus, adapters: Sequence[Adapter], mode: int, threads: int, advance: Callable[[int], Any]
) -> list[Tally]:
    """Read a corpus once; the tally of each tokenizer.

    Args:
        corpus: the corpus.
        adapters: the tokenizers.
        mode: what a word is, as `_tally` numbers it.
        threads: how many work.
        advance: called with the bytes of each block that is done.

    Raises:
        FormatError, OSError: for files that cannot be read.
        ValueError: for text that a tokenizer cannot encode.

    """
    tables = _ThreadTallies(adapters, mode)
    groups = [Groups(len(COLUMNS)) for _ in adapters]
    if not all(adapter.thread_safe for adapter in adapters):
        threads = 1
    open_rows: list[NDArray[np.float64]] | None = None  # of a document that continues in the next block

    cuts = find_common_cuts(adapters)

    def work(numbered: tuple[int, _Part]) -> list[tuple[int, _BlockSums]]:
        number, block = numbered
        if isinstance(block, list):
            return [(number, _tally_texts(block, adapters, tables))]
        if isinstance(block, FileReader):
            assert cuts is not None  # without cuts, whole documents are read
            return _tally_next(block, number, cuts, adapters, tables)
        return [(number, _tally_block(block, adapters, tables))]

    # An iterable may belong to the caller's thread, and only that thread may wait for a pipe (Ctrl-C).
    share = map_unordered if corpus.sources is not None and corpus.sources.regular else map_ordered
    with closing(corpus.blocks(cuts, threads)) as blocks:  # type: ignore[type-var]
        for done in _order_blocks(share(work, _number_blocks(blocks), threads)):
            open_rows = _add_block(groups, done, open_rows)
            advance(done.size)
    if open_rows is not None:
        for own, row in zip(groups, open_rows, strict=True):
            own.add(row)
    return [Tally(counts, own) for counts, own in zip(tables.counts(), groups, strict=True)]


def _number_blocks(blocks: Iterable[_Part]) -> Iterator[tuple[int, _Part]]:
    """The blocks with their numbers; a reader, which comes again and again, with that of its first block."""
    number, last = 0, None
    for block in blocks:
        if last is not None and block is not last:
            number += last.n_blocks  # all of them have been read by now
        last = block if isinstance(block, FileReader) else None
        yield number, block
        if last is None:
            number += 1


def _order_blocks(found: Iterator[list[tuple[int, _BlockSums]]]) -> Iterator[_BlockSums]:
    """The results in the order of their blocks."""
    waiting: dict[int, _BlockSums] = {}
    following = 0
    for numbered in found:  # an empty list if another thread has read the rest of a file
        waiting.update(numbered)
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def _add_block(
    groups: Sequence[Groups], done: _BlockSums, open_rows: list[NDArray[np.float64]] | None
) -> list[NDArray[np.float64]] | None:
    """Add the documents of a block; returns the row of a last one that is not over."""
    rows = done.rows
    if open_rows is not None and not done.begins and len(rows[0]):
        for before, row in zip(open_rows, rows, strict=True):
            row[0] += before[0]
        open_rows = None
    if open_rows is not None:
        if not done.begins and not done.closes:
            return open_rows
        for own, row in zip(groups, open_rows, strict=True):
            own.add(row)
        open_rows = None
    last = None
    if not done.closes and len(rows[0]):
        last, rows = [row[-1:].copy() for row in rows], [row[:-1] for row in rows]
    for own, row in zip(groups, rows, strict=True):
        own.add(row)
    return last


class _ThreadTallies:
    """For each thread, a tally for each tokenizer, and memory for a block."""

    def __init__(self, adapters: Sequence[Adapter], mode: int) -> None:
        self._adapters, self._mode = adapters, mode
        self._local = threading.local()
        self._all: list[list[TokenTally]] = []
        self._lock = threading.Lock()

    def own(self) -> tuple[list[TokenTally], FileBlock]:
        """The tables of this thread."""
        found: tuple[list[TokenTally], FileBlock] | None = getattr(self._local, "found", None)
        if found is None:
            tallies = [TokenTally(each.lengths, self._mode) for each in self._adapters]
            found = self._local.found = tallies, FileBlock()
            with self._lock:
                self._all.append(tallies)
        return found

    def counts(self) -> list[NDArray[np.int64]]:
        """The counts of all threads, by tokenizer; called once, since they are added up in place."""
        if not self._all:
            self.own()
        first, *others = [[each.counts() for each in tallies] for tallies in self._all]
        for counts in others:
            for total, each in zip(first, counts, strict=True):
                total += each
        return first


def _tally_block(block: Block, adapters: Sequence[Adapter], tables: _ThreadTallies) -> _BlockSums:
    """Encode and tally a block's documents for each tokenizer."""
    block.check()
    starts, ends = block.documents(empty=True)
    valid = not block.checked or utf8_error(block.text) is None
    rows = _tally(block.text, starts, ends, valid, block.source, adapters, tables)
    done = _BlockSums(rows, block.begins, block.ends_document, len(block.text))
    block.release()
    return done


def _tally_next(
    reader: FileReader, first: int, cuts: CommonCuts, adapters: Sequence[Adapter], tables: _ThreadTallies
) -> list[tuple[int, _BlockSums]]:
    """Encode and tally the next blocks of a file; (number, result) of each, counted from `first`."""
    tallies, memory = tables.own()
    blocks = tally_blocks(reader, memory, cuts, adapters, tallies, _BLOCKS)
    return [(first + number, _BlockSums(rows, begins, closes, size)) for number, begins, closes, size, rows in blocks]


def _tally_texts(texts: list[str | bytes], adapters: Sequence[Adapter], tables: _ThreadTallies) -> _BlockSums:
    """Encode and tally a list of texts."""
    tallies, memory = tables.own()
    size, rows = tally_texts(texts, memory, adapters, tallies)
    return _BlockSums([np.concatenate(parts) for parts in rows], True, True, size)


def _tally(
    text: Bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: bool,
    source: str,
    adapters: Sequence[Adapter],
    tables: _ThreadTallies,
) -> list[NDArray[np.float64]]:
    """Encode and tally documents for each tokenizer; the sums of each."""
    rows = []
    for adapter, tally in zip(adapters, tables.own()[0], strict=True):
        tally.begin(text, starts, ends, valid)
        try:
            with as_format_error(source or adapter.name):
                adapter.tally(text, starts, ends, tally)
        finally:
            tally.end()
        rows.append(tally.rows)
    return rows
