"""One pass over a corpus: each block is read once, and encoded and tallied for every tokenizer.

A thread takes the next block and does all of this, so that the text stays in its cache. Results are put in the order of
the blocks, so that figures do not depend on the threads.

Sums of documents, for intervals, are kept in bounded memory: up to 4,096 documents one by one. Beyond that, neighbours
are added up in pairs, and again, so that a row stands for 2, 4, 8, … consecutive documents, and there are always
between 2,048 and 4,096 rows. Which documents are together depends on their order alone.
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
from bpe.base.utf8 import Bytes, find_utf8_error
from bpe.corpus._file_reader import FileBlock, FileReader
from bpe.corpus.blocks import Block
from bpe.errors import as_format_error
from bpe.evaluation._common_cuts import CommonCuts
from bpe.evaluation._file_tally import tally_blocks, tally_texts
from bpe.evaluation._tally import COLUMNS, TokenTally
from bpe.evaluation.adapters import Adapter
from bpe.evaluation.corpora import Corpus, find_common_cuts

#: A part of a corpus: documents in a block, a file, or texts.
_Part = Block | FileReader | list[str | bytes]
#: The most blocks of a file that a thread tallies before Python handles their results.
_BLOCKS_PER_CALL = 8
#: The least rows of `DocumentSums` once there are as many documents; it holds at most twice as many.
MIN_SUMS = 2048
#: The column of each sum of a document.
COLUMN_INDEX = {name: index for index, name in enumerate(COLUMNS)}


class DocumentSums:
    """Rows of sums, one for each group of consecutive documents.

    Attributes:
        documents_per_row: the number of documents in a group; the last one may have fewer.
        n_documents: the number of documents.

    >>> sums = DocumentSums(1, min_sums=2)
    >>> for value in range(6):
    ...     sums.add(np.array([[value]]))
    >>> sums.documents_per_row, sums.to_array().tolist(), sums.n_documents
    (2, [[1.0], [5.0], [9.0]], 6)

    """

    def __init__(self, n_columns: int, min_sums: int = MIN_SUMS) -> None:
        self._rows = np.zeros((2 * min_sums, n_columns))
        self._n_rows = 0  # rows that are complete
        self._open_row = np.zeros(n_columns)  # of the group that is not complete
        self._n_open = 0  # its documents
        self.documents_per_row, self.n_documents = 1, 0

    def add(self, rows: NDArray[np.float64]) -> None:
        """Add documents in order, one row each."""
        self.n_documents += len(rows)
        start = 0
        while start < len(rows):
            if self._n_rows == len(self._rows):
                self._rows[: self._n_rows // 2] = self._rows[0::2] + self._rows[1::2]
                self._n_rows //= 2
                self.documents_per_row *= 2
            n_groups = 0 if self._n_open else (len(rows) - start) // self.documents_per_row
            if n_groups:  # groups that are complete
                n_groups = min(n_groups, len(self._rows) - self._n_rows)
                n_added = n_groups * self.documents_per_row
                sums = rows[start : start + n_added].reshape(n_groups, self.documents_per_row, -1).sum(axis=1)
                self._rows[self._n_rows : self._n_rows + n_groups] = sums
                self._n_rows += n_groups
            else:
                n_added = min(self.documents_per_row - self._n_open, len(rows) - start)
                self._open_row += rows[start : start + n_added].sum(axis=0)
                self._n_open += n_added
                if self._n_open == self.documents_per_row:
                    self._rows[self._n_rows], self._open_row[:], self._n_open = self._open_row, 0, 0
                    self._n_rows += 1
            start += n_added

    def to_array(self) -> NDArray[np.float64]:
        """Return the sums of the groups; float64, shape (n, columns)."""
        open_sums = [self._open_row[None]] if self._n_open else []
        return np.concatenate([self._rows[: self._n_rows], *open_sums])


@dataclass
class Tally:
    """What one tokenizer gives for one corpus.

    Attributes:
        counts: int64, by id: how often each token occurs.
        sums: the sums of documents, with the columns COLUMNS.

    """

    counts: NDArray[np.int64]
    sums: DocumentSums


@dataclass
class _BlockSums:
    """The sums of a block's documents for each tokenizer."""

    rows: list[NDArray[np.float64]]
    begins_document: bool
    ends_document: bool
    n_bytes: int


def tally_corpus(
    corpus: Corpus, adapters: Sequence[Adapter], word_rule: int, threads: int, advance: Callable[[int], Any]
) -> list[Tally]:
    """Read a corpus once, and return the tally of each tokenizer.

    Args:
        corpus: the corpus.
        adapters: the tokenizers.
        word_rule: what a word is, by the number that `_tally.pyx` gives it.
        threads: how many work.
        advance: called with the bytes of each block that is done.

    Raises:
        FormatError, OSError: for files that cannot be read.
        ValueError: for text that a tokenizer cannot encode.

    """
    thread_tallies = _ThreadTallies(adapters, word_rule)
    sums = [DocumentSums(len(COLUMNS)) for _ in adapters]
    if not all(adapter.thread_safe for adapter in adapters):
        threads = 1
    open_rows: list[NDArray[np.float64]] | None = None  # of a document that continues in the next block

    cuts = find_common_cuts(adapters)

    def tally_part(part: tuple[int, _Part]) -> list[tuple[int, _BlockSums]]:
        index, block = part
        if isinstance(block, list):
            return [(index, _tally_texts(block, adapters, thread_tallies))]
        if isinstance(block, FileReader):
            assert cuts is not None  # without cuts, whole documents are read
            return _tally_reader(block, index, cuts, adapters, thread_tallies)
        return [(index, _tally_block(block, adapters, thread_tallies))]

    # An iterable may belong to the caller's thread, and only that thread may wait for a pipe (Ctrl-C).
    map_blocks = map_unordered if corpus.sources is not None and corpus.sources.regular else map_ordered
    with closing(corpus.blocks(cuts, threads)) as blocks:  # type: ignore[type-var]
        for block in _order_blocks(map_blocks(tally_part, _number_blocks(blocks), threads)):
            open_rows = _add_block(sums, block, open_rows)
            advance(block.n_bytes)
    if open_rows is not None:
        for document_sums, row in zip(sums, open_rows, strict=True):
            document_sums.add(row)
    return [Tally(*pair) for pair in zip(thread_tallies.add_up_counts(), sums, strict=True)]


def _number_blocks(blocks: Iterable[_Part]) -> Iterator[tuple[int, _Part]]:
    """Number the blocks; a reader, which is yielded again and again, has the index of its first block."""
    index, reader = 0, None
    for block in blocks:
        if reader is not None and block is not reader:
            index += reader.n_blocks  # all of them have been read by now
        reader = block if isinstance(block, FileReader) else None
        yield index, block
        if reader is None:
            index += 1


def _order_blocks(results: Iterator[list[tuple[int, _BlockSums]]]) -> Iterator[_BlockSums]:
    """Yield the results in the order of their blocks."""
    waiting: dict[int, _BlockSums] = {}
    next_index = 0
    for block_sums in results:  # an empty list if another thread has read the rest of a file
        waiting.update(block_sums)
        while next_index in waiting:
            yield waiting.pop(next_index)
            next_index += 1


def _add_block(
    sums: Sequence[DocumentSums], block: _BlockSums, open_rows: list[NDArray[np.float64]] | None
) -> list[NDArray[np.float64]] | None:
    """Add the documents of a block; return the row of its last document if it continues in the next block."""
    rows = block.rows
    if open_rows is not None and not block.begins_document and len(rows[0]):
        for open_row, row in zip(open_rows, rows, strict=True):
            row[0] += open_row[0]
        open_rows = None
    if open_rows is not None:
        if not block.begins_document and not block.ends_document:
            return open_rows
        for document_sums, row in zip(sums, open_rows, strict=True):
            document_sums.add(row)
        open_rows = None
    last_rows = None
    if not block.ends_document and len(rows[0]):
        last_rows, rows = [row[-1:].copy() for row in rows], [row[:-1] for row in rows]
    for document_sums, row in zip(sums, rows, strict=True):
        document_sums.add(row)
    return last_rows


class _ThreadTallies:
    """For each thread, a tally for each tokenizer, and memory for a block."""

    def __init__(self, adapters: Sequence[Adapter], word_rule: int) -> None:
        self._adapters, self._word_rule = adapters, word_rule
        self._local = threading.local()
        self._all_tallies: list[list[TokenTally]] = []
        self._lock = threading.Lock()

    def get_for_thread(self) -> tuple[list[TokenTally], FileBlock]:
        """Return the tallies of this thread, and its memory for a block."""
        tallies_and_block: tuple[list[TokenTally], FileBlock] | None = getattr(self._local, "tallies_and_block", None)
        if tallies_and_block is None:
            tallies = [TokenTally(adapter.lengths, self._word_rule) for adapter in self._adapters]
            tallies_and_block = self._local.tallies_and_block = tallies, FileBlock()
            with self._lock:
                self._all_tallies.append(tallies)
        return tallies_and_block

    def add_up_counts(self) -> list[NDArray[np.int64]]:
        """Add up the counts of all threads, by tokenizer; called once, since counts are added up in place."""
        if not self._all_tallies:
            self.get_for_thread()
        totals, *other_counts = [[tally.counts() for tally in tallies] for tallies in self._all_tallies]
        for thread_counts in other_counts:
            for total, counts in zip(totals, thread_counts, strict=True):
                total += counts
        return totals


def _tally_block(block: Block, adapters: Sequence[Adapter], thread_tallies: _ThreadTallies) -> _BlockSums:
    """Encode and tally a block's documents for each tokenizer."""
    block.check()
    starts, ends = block.find_documents(keep_empty=True)
    valid = block.must_be_utf8 or find_utf8_error(block.text) is None
    rows = _tally_documents(block.text, starts, ends, valid, block.source, adapters, thread_tallies)
    sums = _BlockSums(rows, block.begins_document, block.ends_document, len(block.text))
    block.release()
    return sums


def _tally_reader(
    reader: FileReader, first_index: int, cuts: CommonCuts, adapters: Sequence[Adapter], thread_tallies: _ThreadTallies
) -> list[tuple[int, _BlockSums]]:
    """Encode and tally the next blocks of a file; (index, sums) of each, counted from `first_index`."""
    tallies, memory = thread_tallies.get_for_thread()
    blocks = tally_blocks(reader, memory, cuts, adapters, tallies, _BLOCKS_PER_CALL)
    return [
        (first_index + index, _BlockSums(rows, begins, ends, n_bytes)) for index, begins, ends, n_bytes, rows in blocks
    ]


def _tally_texts(texts: list[str | bytes], adapters: Sequence[Adapter], thread_tallies: _ThreadTallies) -> _BlockSums:
    """Encode and tally a list of texts."""
    tallies, memory = thread_tallies.get_for_thread()
    n_bytes, rows = tally_texts(texts, memory, adapters, tallies)
    return _BlockSums([np.concatenate(parts) for parts in rows], True, True, n_bytes)


def _tally_documents(
    text: Bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: bool,
    source: str,
    adapters: Sequence[Adapter],
    thread_tallies: _ThreadTallies,
) -> list[NDArray[np.float64]]:
    """Encode and tally documents for each tokenizer; return the sums of each."""
    rows = []
    for adapter, tally in zip(adapters, thread_tallies.get_for_thread()[0], strict=True):
        tally.begin(text, starts, ends, valid)
        try:
            with as_format_error(source or adapter.name):
                adapter.tally(text, starts, ends, tally)
        finally:
            tally.end()
        rows.append(tally.rows)
    return rows
