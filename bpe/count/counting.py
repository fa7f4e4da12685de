"""Counting the words of a corpus, on several threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from bpe.base._team import Team
from bpe.base.fast_dataclasses import dataclass
from bpe.base.memory_limits import measure_memory
from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import map_ordered, map_unordered, resolve_threads, team_threads
from bpe.base.utf8 import TextLike
from bpe.corpus._file_reader import FileReader
from bpe.count._table_merge import merge_tables
from bpe.count._word_table import WordTable
from bpe.count.spilling import N_PARTS
from bpe.count.splitter import Splitter
from bpe.count.word_counts import WordCounts, fill_counts, list_in_order
from bpe.pretokenize.pretokenizer import Pretokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bpe.corpus.blocks import Block, PathLike, Position
    from bpe.corpus.sources import Sources
    from bpe.count.sealed_files import CountedWords
    from bpe.count.spilling import Spill
    from bpe.text.normalizers import NormalizerLike

#: Words are ordered by where they were first seen. Block i (from 1), or the file of reader i, has the numbers from
#: i * POSITIONS_PER_BLOCK on; smaller ones are for words counted before.
POSITIONS_PER_BLOCK = 1 << 36

#: A table starts with one slot for BYTES_PER_SLOT of the thread's share, at most MAX_INITIAL_SLOTS: growing a table
#: costs threads most of their waiting time.
BYTES_PER_SLOT, MAX_INITIAL_SLOTS = 64, 1 << 19
#: Words counted before are added in portions of this many, so that tables can be spilled between portions.
WORDS_PER_LOAD = 1 << 20
#: The fewest words of a thread that merges tables, as starting it takes as long as a thousand.
WORDS_PER_MERGING_THREAD = 1 << 14


def count_words(
    *,
    files: PathLike | Iterable[PathLike] | Sources | None = None,
    texts: Iterable[TextLike] | None = None,
    pretokenizer: Pretokenizer | str | None = "gpt2",
    normalizer: NormalizerLike | None = None,
    special_tokens: Iterable[str] = (),
    threads: int | None = None,
    progress: ProgressLike = False,
) -> WordCounts:
    """Count the words of a corpus.

    Args:
        files: paths of text, JSON Lines, CSV, Parquet or Arrow files, also compressed, each text file a document; or a
            `bpe.Sources`, which has options: separators, lines, fields, bytes that are not UTF-8; or
        texts: an iterable of str or bytes, each a document, or an Arrow array of strings, which is not copied (a null
            is an empty text). Give exactly one of `files` and `texts`.
        pretokenizer: how texts are split into words: a name, a `Pretokenizer`, or None (a text is one word).
        normalizer: how a text is changed before it is split: one or several of `bpe.normalizers`, or names ("nfc").
        special_tokens: strings that separate text and are part of no word.
        threads: the number of threads; None means one per core. The result does not depend on it.
        progress: True shows a progress bar on stderr or in a notebook, or prints a line every 30 s if stderr is not a
            terminal. A function is called with a `bpe.base.Progress` from time to time.

    Raises:
        TypeError: if texts is a single str, or its items are neither str nor bytes, or it is an Arrow array of another
            type.
        ValueError: for other invalid arguments.
        FormatError: for a file in UTF-16 or UTF-32, or not UTF-8, and for a damaged file or a bad record.
        OSError: for a file that cannot be read, or gets shorter while it is read.

    >>> count_words(texts=["low lower", "low"], pretokenizer="whitespace").most_common()
    [(b'low', 2), (b'lower', 1)]

    """
    check_progress(progress)
    counts = WordCounts(pretokenizer, normalizer, special_tokens)
    count_files_or_texts(counts, files, texts, threads, progress)
    return counts


def count_files_or_texts(
    counts: WordCounts,
    files: PathLike | Iterable[PathLike] | Sources | None,
    texts: Iterable[TextLike] | None,
    threads: int | None,
    progress: ProgressLike,
) -> None:
    """Fill empty counts as `count_words` does."""
    if (files is None) == (texts is None):
        raise ValueError("give exactly one of files= and texts=")
    corpus: Sources | Iterable[TextLike] | None = texts
    if files is not None:
        from bpe.corpus.sources import Sources

        corpus = Sources.of(files)
    fill_from_corpus(counts, corpus, resolve_threads(threads), progress)


def _as_sources(corpus: Sources | Iterable[TextLike] | None) -> Sources | None:
    """Return the corpus if it is a `Sources`, else None; texts do not need that module, so it may not be imported."""
    module: Any = sys.modules.get("bpe.corpus.sources")
    return corpus if module is not None and isinstance(corpus, module.Sources) else None


def fill_from_corpus(
    counts: WordCounts,
    corpus: Sources | Iterable[TextLike] | None,
    threads: int,
    progress: ProgressLike,
    *,
    requires_utf8: bool = False,
    max_memory: int | None = None,
    count_store: CountStore | None = None,
    memory_check: MemoryCheck | None = None,
) -> None:
    """Add the words of a corpus to counts that are still empty.

    Each thread fills a table of its own with whole blocks of the corpus; a plain text file needs no Python code for a
    block. A word keeps the position of its first occurrence in the corpus, so the merged counts and their order do not
    depend on which thread counted which block. Tables are spilled to disk before the process exceeds `max_memory`
    bytes. Where there is a `count_store`, the corpus is regular files: counting goes on from what the store holds, and
    from time to time all threads wait while the words so far are saved. Counting ends with a ValueError when
    `memory_check` gives a reason, and, with `requires_utf8`, for a text that is not UTF-8.
    """
    splitter = Splitter(counts)
    files = _as_sources(corpus)
    if files is not None:
        corpus = files = files.for_one_call()
    n_disk_bytes, n_text_bytes = (None, None) if files is None else (files.size, files.text_size)
    slots = min((n_text_bytes or 0) // (BYTES_PER_SLOT * threads), MAX_INITIAL_SLOTS) if max_memory is None else 0
    tables = ThreadTables(threads, slots, max_memory, memory_check)

    # An iterable may belong to the caller's thread, and only that thread may wait for a pipe (Ctrl-C).
    map_blocks = map_unordered if files is not None and files.regular else map_ordered
    saved = (None if count_store is None else count_store.take_partial_counts()) or NO_COUNTS
    try:
        if files is not None:
            files.add_bad_records(saved.n_bad_records)
        tables.load(saved.words)
        with (
            progress_bar(progress, "count", n_disk_bytes, "B", saved.n_bytes) as bar,
            closing(  # the file, after an error
                _read_blocks(corpus, splitter, threads, saved.resume_position, requires_utf8=requires_utf8)
            ) as blocks,
        ):
            rounds = _BlockRounds(_number_blocks(blocks), count_store, tables)
            while not rounds.at_end:
                for n_read in map_blocks(partial(_count_block, splitter, tables), rounds.take_round(), threads):
                    if n_read:  # else another thread has read the rest of a file
                        rounds.n_bytes += n_read
                        bar(n_read)
                if count_store is not None and (resume_position := rounds.peek_resume_position()) is not None:
                    assert files is not None
                    n_bytes = saved.n_bytes + rounds.n_bytes
                    count_store.save_partial_counts(
                        counts,
                        PartialCounts(tables.snapshot(), resume_position, rounds.count_bad_records(files), n_bytes),
                    )
                if tables.memory_problem is not None and not rounds.at_end:
                    raise ValueError(tables.memory_problem)
        merged = tables.merge()
    finally:
        tables.close()
    fill_counts(counts, merged)
    counts.documents = _describe_documents(corpus)


def _count_block(splitter: Splitter, tables: ThreadTables, numbered_block: tuple[int, Block | FileReader]) -> int:
    """Count the words of a block, or of the next blocks of a reader; returns the bytes that were read."""
    corpus_position, block = numbered_block
    if isinstance(block, FileReader):
        assert splitter.scanner is not None
        with tables.lend() as table:
            return table.count_file(splitter.scanner, block, corpus_position, tables.max_table_bytes)
    block.check()
    with tables.lend() as table:
        splitter.count(table, block.text, *block.find_documents(), corpus_position)
    n_bytes = block.disk_bytes or len(block.text)
    block.release()
    return n_bytes


def _describe_documents(corpus: Sources | Iterable[TextLike] | None) -> str | None:
    """Describe how text files are made documents, as `WordCounts.documents` has it."""
    files = _as_sources(corpus)
    if files is None or all(file.format != "text" for file in files.files):
        return None
    if files.keep_separator:
        return "per_line=True"
    return f"separator={files.separators[0].decode() if files.separators else None!r}"


@dataclass(frozen=True)
class PartialCounts:
    """The words of a part of the sources.

    Attributes:
        words: the words, in order of first appearance.
        resume_position: where the rest begins; in a text, also between two words of a document. None for the beginning.
        n_bad_records: the bad records before that position.
        n_bytes: the bytes of files that were read before that position.

    """

    words: CountedWords
    resume_position: Position | None
    n_bad_records: int
    n_bytes: int


#: What was counted before a count that begins.
NO_COUNTS = PartialCounts((np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.int64)), None, 0, 0)


#: Called as check(blob, offsets, factor) with a sample of the distinct words; all words are about `factor` times as
#: many. Returns why they are too many, or None.
MemoryCheck: TypeAlias = "Callable[[NDArray[np.uint8], NDArray[np.int64], int], str | None]"


class CountStore(Protocol):
    """Where the words of an unfinished count are kept."""

    def take_partial_counts(self) -> PartialCounts | None:
        """Take what was saved before, or None; called once."""

    def is_counts_save_due(self) -> bool:
        """Whether it is time to save."""

    def save_partial_counts(self, like: WordCounts, partial_counts: PartialCounts) -> None:
        """Save the words so far, with the settings of `like`."""


class _BlockRounds:
    """The blocks of a corpus in rounds, which end where the words are to be saved.

    Attributes:
        at_end: whether all blocks were taken.
        n_bytes: the bytes that were read, which the caller adds up.

    """

    def __init__(
        self, blocks: Iterator[tuple[int, Block | FileReader]], count_store: CountStore | None, tables: ThreadTables
    ) -> None:
        self._blocks, self._count_store, self._tables = blocks, count_store, tables
        self._next_round_block: list[tuple[int, Block | FileReader]] = []  # the first block of the next round
        self.at_end, self.n_bytes = False, 0

    def take_round(self) -> Iterator[tuple[int, Block | FileReader]]:
        """Take the blocks of the next round."""
        while self._next_round_block:
            yield self._next_round_block.pop()
        for block in self._blocks:
            yield block
            if self._tables.memory_problem is not None or (
                self._count_store is not None and self._count_store.is_counts_save_due()
            ):
                return
        self.at_end = True

    def peek_resume_position(self) -> Position | None:
        """Find where the next round begins, when all blocks of the last one are done; None if there is no more."""
        next_block = None if self.at_end else next(self._blocks, None)
        if next_block is None:
            self.at_end = True
            return None
        self._next_round_block = [next_block]
        return next_block[1].resume_position

    def count_bad_records(self, corpus: Sources) -> int:
        """Count the bad records before that position."""
        block = self._next_round_block[0][1]
        return corpus.skipped if isinstance(block, FileReader) else block.n_bad_records


def _read_blocks(
    corpus: Sources | Iterable[TextLike] | None,
    splitter: Splitter,
    threads: int,
    start: Position | None,
    *,
    requires_utf8: bool,
) -> Generator[Block | FileReader, None, None]:
    """Read the corpus in blocks that can be counted one by one, and text files as readers of such blocks."""
    from bpe.corpus.blocks import make_text_blocks
    from bpe.corpus.documents import make_row_blocks, read_arrow_documents

    if (files := _as_sources(corpus)) is not None:
        separators, keep_separator = files.separators, files.keep_separator
        unsplittable = splitter.list_unsplittable(separators, keep_separator) if files.regular else None
        return files.blocks(
            splitter.make_block_end_finder(separators, keep_separator), threads, start=start, unsplittable=unsplittable
        )
    rows = read_arrow_documents(corpus)
    if rows is None:
        return make_text_blocks(corpus, splitter.make_split_finder(), requires_utf8=requires_utf8, threads=threads)  # type: ignore[arg-type]
    return make_row_blocks(rows, splitter.make_split_finder(), requires_utf8=requires_utf8, threads=threads)


def _number_blocks(blocks: Iterable[Block | FileReader]) -> Iterator[tuple[int, Block | FileReader]]:
    """Number blocks by `POSITIONS_PER_BLOCK`; a reader, which comes again and again, has a number for each unit."""
    number, next_number, previous = 0, 1, None
    for block in blocks:
        if block is not previous:
            number, previous = next_number, block
            next_number += block.n_units if isinstance(block, FileReader) else 1
        yield number * POSITIONS_PER_BLOCK, block


class ThreadTables:
    """The threads' tables, and those that were spilled to disk.

    Args:
        threads: the number of threads.
        initial_slots: how many slots a new table has.
        max_memory: the most bytes that the process may have; tables are spilled before that. None for no limit.
        memory_check: called after a table was spilled.

    Attributes:
        max_table_bytes: the bytes that a table may take before it is spilled.
        memory_problem: why the words are too many, or None.

    """

    def __init__(
        self, threads: int, initial_slots: int, max_memory: int | None, memory_check: MemoryCheck | None = None
    ) -> None:
        self._memory_check, self.memory_problem = memory_check, cast("str | None", None)
        self._threads = threads
        self._initial_slots = initial_slots
        self._idle: list[WordTable] = []
        self._spill: Spill | None = None
        # A growing table needs three times its memory: the old slots, and twice as many new ones.
        self.max_table_bytes = sys.maxsize
        if max_memory is not None:
            self.max_table_bytes = max(max_memory - measure_memory(), 0) // (3 * threads)
        self._lock = Lock()

    @contextmanager
    def lend(self) -> Iterator[WordTable]:
        """Lend the calling thread a table that no other thread uses."""
        try:
            table = self._idle.pop()  # list.pop and append are atomic: no lock
        except IndexError:
            table = WordTable(self._initial_slots)
        is_full = False
        try:
            yield table
            is_full = table.memory > self.max_table_bytes
        finally:
            if not is_full:  # a table that was given back belongs to the next thread at once
                self._idle.append(table)
        if is_full:
            spill = self._start_spill()
            spill.add(table)
            if self._memory_check is not None:
                with self._lock:
                    self.memory_problem = self.memory_problem or self._memory_check(*spill.sample(), N_PARTS)

    def load(self, words: CountedWords) -> None:
        """Load words that were counted before, in order of first appearance."""
        blob, offsets, counts = words
        for begin in range(0, len(counts), WORDS_PER_LOAD):
            bounds = offsets[begin : begin + WORDS_PER_LOAD + 1]
            end = begin + len(bounds) - 1
            with self.lend() as table:
                part = blob[bounds[0] : bounds[-1]], bounds - bounds[0], counts[begin:end]
                table.add_arrays(*part, np.arange(begin, end, dtype=np.uint64))

    def snapshot(self) -> CountedWords:
        """Copy the words so far; the tables may be filled further."""
        merged = self.merge()
        if not isinstance(merged, WordTable):
            return merged
        self._idle.append(merged)
        return list_in_order(merged, self._threads)

    def merge(self) -> WordTable | CountedWords:
        """Merge all tables, by parts of the hashes of their words."""
        if sum(table.memory for table in self._idle) > self.max_table_bytes:
            self._start_spill()
        if self._spill is not None:
            while self._idle:
                self._spill.add(self._idle.pop())
            return self._spill.merge()
        tables = sorted(self._idle, key=len)
        self._idle.clear()
        merged = tables.pop() if tables else WordTable()
        if tables:
            team = Team(min(self._threads, sum(map(len, tables)) // WORDS_PER_MERGING_THREAD + 1))
            with team_threads(team):
                merge_tables(merged, tables, team)
        return merged

    def close(self) -> None:
        """Delete the spilled tables."""
        if self._spill is not None:
            self._spill.close()

    def _start_spill(self) -> Spill:
        from bpe.count.spilling import Spill

        with self._lock:
            if self._spill is None:
                self._spill = Spill()
            return self._spill
