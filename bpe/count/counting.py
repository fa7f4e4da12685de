"""Counting the words of a corpus, on several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from bpe.base.memory_limits import resident
from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import map_ordered, map_unordered, thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus._file_reader import FileReader
from bpe.corpus.blocks import Block, Position, text_blocks
from bpe.corpus.sources import Sources
from bpe.count._word_table import WordTable
from bpe.count.spilling import PARTS
from bpe.count.splitter import Splitter
from bpe.count.word_counts import WordCounts, fill
from bpe.pretokenize.pretokenizer import Pretokenizer

if TYPE_CHECKING:
    from bpe.corpus.blocks import PathLike
    from bpe.count.files import Arrays
    from bpe.count.spilling import Spill
    from bpe.text.normalizers import NormalizerLike

#: Block i of a corpus, or the file of reader i, begins at position i * STRIDE. Positions only order the first
#: appearances of words.
STRIDE = 1 << 36

#: A table starts with one slot for BYTES_PER_SLOT of the thread's share, at most MOST_SLOTS: growing it costs threads
#: most of their waiting time.
BYTES_PER_SLOT, MOST_SLOTS = 64, 1 << 19
#: Words that were counted before are added by so many, so that tables can be spilled between.
WORDS_AT_ONCE = 1 << 20


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
        FormatError: for a file in UTF-16 or UTF-32, or not UTF-8, and for a damaged file or a bad
            record.
        OSError: for a file that cannot be read, or gets shorter while it is read.

    >>> count_words(texts=["low lower", "low"], pretokenizer="whitespace").most_common()
    [(b'low', 2), (b'lower', 1)]

    """
    check_progress(progress)
    counts = WordCounts(pretokenizer, normalizer, special_tokens)
    count_corpus(counts, files, texts, threads, progress)
    return counts


def count_corpus(
    counts: WordCounts,
    files: PathLike | Iterable[PathLike] | Sources | None,
    texts: Iterable[TextLike] | None,
    threads: int | None,
    progress: ProgressLike,
) -> None:
    """Fill empty counts as `count_words` does."""
    if (files is None) == (texts is None):
        raise ValueError("give exactly one of files= and texts=")
    source = texts if files is None else Sources.of(files)
    count_into(counts, source, thread_count(threads), progress)


def count_into(
    counts: WordCounts,
    source: Sources | Iterable[TextLike] | None,
    threads: int,
    progress: ProgressLike,
    *,
    utf8: bool = False,
    max_memory: int | None = None,
    saving: Saving | None = None,
    excess: Excess | None = None,
) -> None:
    """Add the words of a corpus to counts that are still empty; with `utf8`, texts that are not UTF-8 are an error.

    Each thread fills a table of its own with whole blocks of the corpus; a plain text file needs no Python code for a
    block. A word keeps the position of its first occurrence in the corpus, so the merged counts and their order do not
    depend on which thread counted which block. Tables are spilled to disk before the process exceeds `max_memory`
    bytes. Where there is `saving`, the source is regular files: counting goes on from what it holds, and from time to
    time all threads wait while the words so far are saved. Counting ends with a ValueError when `excess` gives one.
    """
    splitter = Splitter(counts)
    if isinstance(source, Sources):
        source = source.for_one_call()
    total = source.size if isinstance(source, Sources) else None
    text = source.text_size if isinstance(source, Sources) else None
    slots = min((text or 0) // (BYTES_PER_SLOT * threads), MOST_SLOTS) if max_memory is None else 0
    tables = Tables(threads, slots, max_memory, excess)

    def count(positioned: tuple[int, Block | FileReader]) -> int:
        position, block = positioned
        if isinstance(block, FileReader):
            assert splitter.scanner is not None
            with tables.one() as table:
                return table.count_file(splitter.scanner, block, position)
        block.check()
        with tables.one() as table:
            splitter.count(table, block.text, *block.documents(), position)
        size = block.size or len(block.text)
        block.release()
        return size

    # An iterable may belong to the caller's thread, and only that thread may wait for a pipe (Ctrl-C).
    share = map_unordered if isinstance(source, Sources) and source.regular else map_ordered
    held = None if saving is None else saving.held()
    start = None if held is None else held.position
    try:
        if held is not None:
            assert isinstance(source, Sources)
            source.skipped_before(held.skipped)
            tables.begin(held.words)
        with (
            progress_bar(progress, "count", total, "B", 0 if held is None else held.bytes) as bar,
            # closes the file after an error
            closing(_read_blocks(source, splitter, threads, start, utf8=utf8)) as blocks,
        ):
            rounds = _Rounds(_place_blocks(blocks, 0 if held is None else 1), saving, tables)
            while not rounds.ended:
                for done in share(count, rounds.next(), threads):
                    if done:  # else another thread has read the rest of a file
                        rounds.bytes += done
                        bar(done)
                if saving is not None and (position := rounds.position()) is not None:
                    assert isinstance(source, Sources)
                    before = 0 if held is None else held.bytes
                    skipped = rounds.skipped(source)
                    saving.save_counts(counts, Counted(tables.snapshot(), position, skipped, before + rounds.bytes))
                if tables.excess is not None and not rounds.ended:
                    raise ValueError(tables.excess)
        joined = tables.joined()
    finally:
        tables.close()
    fill(counts, joined)
    counts.documents = _describe_documents(source)


def _describe_documents(source: Sources | Iterable[TextLike] | None) -> str | None:
    """How text files are made documents, as `WordCounts.documents` has it."""
    if not isinstance(source, Sources) or all(file.format != "text" for file in source.files):
        return None
    if source.keep_separator:
        return "per_line=True"
    return f"separator={source.separators[0].decode() if source.separators else None!r}"


@dataclass(frozen=True)
class Counted:
    """The words of a part of the sources.

    Attributes:
        words: the words, in order of first appearance.
        position: where the rest begins; in a text, also between two words of a document.
        skipped: the bad records before it.
        bytes: the bytes of files that were read before it.

    """

    words: Arrays
    position: Position
    skipped: int
    bytes: int


#: Called with some of the distinct words, as one array and its offsets, and how many times as many there are, about;
#: returns why they are too many, or None.
Excess = Callable[[NDArray[np.uint8], NDArray[np.int64], int], str | None]


class Saving(Protocol):
    """Where the words of an unfinished count are kept."""

    def held(self) -> Counted | None:
        """What was saved before, or None; called once."""

    def due(self) -> bool:
        """Whether it is time to save."""

    def save_counts(self, settings: WordCounts, counted: Counted) -> None:
        """Save the words so far, which are counted as the settings say."""


class _Rounds:
    """The blocks of a corpus in rounds, which end where the words are to be saved.

    Attributes:
        ended: whether all blocks were taken.
        bytes: the bytes that were read, which the caller adds up.

    """

    def __init__(self, blocks: Iterator[tuple[int, Block | FileReader]], saving: Saving | None, tables: Tables) -> None:
        self._blocks, self._saving, self._tables = blocks, saving, tables
        self._following: list[tuple[int, Block | FileReader]] = []  # the first block of the next round
        self.ended, self.bytes = False, 0

    def next(self) -> Iterator[tuple[int, Block | FileReader]]:
        """The blocks of the next round."""
        while self._following:
            yield self._following.pop()
        for block in self._blocks:
            yield block
            if self._tables.excess is not None or (self._saving is not None and self._saving.due()):
                return
        self.ended = True

    def position(self) -> Position | None:
        """Where the next round begins, when all blocks of the last one are done; None if there is no more."""
        following = None if self.ended else next(self._blocks, None)
        if following is None:
            self.ended = True
            return None
        self._following = [following]
        block = following[1]
        return Position(block.number, block.position) if isinstance(block, FileReader) else block.resume

    def skipped(self, source: Sources) -> int:
        """The bad records before that position."""
        block = self._following[0][1]
        return source.skipped if isinstance(block, FileReader) else block.skipped


def _read_blocks(
    source: Sources | Iterable[TextLike] | None,
    splitter: Splitter,
    threads: int,
    start: Position | None,
    *,
    utf8: bool,
) -> Generator[Block | FileReader, None, None]:
    """The corpus in blocks that can be counted one by one, and text files as readers of such blocks."""
    from bpe.corpus.documents import arrow_documents, row_blocks

    if isinstance(source, Sources):
        separators, keep = source.separators, source.keep_separator
        uncut = splitter.list_unsplittable(separators, keep) if source.regular else None
        return source.blocks(splitter.make_block_cut(separators, keep), threads, start=start, uncut=uncut)
    rows = arrow_documents(source)
    if rows is None:
        return text_blocks(source, splitter.make_split_finder(), utf8=utf8, threads=threads)  # type: ignore[arg-type]
    return row_blocks(rows, splitter.make_split_finder(), utf8=utf8, threads=threads)


def _place_blocks(blocks: Iterable[Block | FileReader], start: int) -> Iterator[tuple[int, Block | FileReader]]:
    """The blocks with their positions in the corpus; a reader, which comes again and again, has one for its file."""
    first, last = start, None
    for number, block in enumerate(blocks, start):
        if block is not last:
            first, last = number, block
        yield first * STRIDE, block


class Tables:
    """The threads' tables, and those that were spilled to disk.

    Args:
        threads: the number of threads.
        slots: how many slots a new table has.
        max_memory: the most bytes that the process may have; tables are spilled before that. None for no limit.
        check: called after a table was spilled.

    Attributes:
        excess: why the words are too many, or None.

    """

    def __init__(self, threads: int, slots: int, max_memory: int | None, check: Excess | None = None) -> None:
        self._check, self.excess = check, cast("str | None", None)
        self._threads = threads
        self._slots = slots
        self._idle: list[WordTable] = []
        self._spill: Spill | None = None
        # A growing table needs three times its memory: the old slots, and twice as many new ones.
        self._limit = None if max_memory is None else max(max_memory - resident(), 0) // (3 * threads)
        self._lock = Lock()

    @contextmanager
    def one(self) -> Iterator[WordTable]:
        """Lend the calling thread a table that no other thread uses."""
        try:
            table = self._idle.pop()  # list.pop and append are atomic: no lock
        except IndexError:
            table = WordTable(self._slots)
        try:
            yield table
        finally:
            self._idle.append(table)
        if self._limit is not None and table.memory > self._limit:
            self._idle.remove(table)
            spill = self._start_spill()
            spill.add(table)
            if self._check is not None:
                with self._lock:
                    self.excess = self.excess or self._check(*spill.sampled(), PARTS)

    def begin(self, words: Arrays) -> None:
        """Take words that were counted before, in order of first appearance."""
        blob, offsets, counts = words
        for first in range(0, len(counts), WORDS_AT_ONCE):
            bounds = offsets[first : first + WORDS_AT_ONCE + 1]
            last = first + len(bounds) - 1
            with self.one() as table:
                part = blob[bounds[0] : bounds[-1]], bounds - bounds[0], counts[first:last]
                table.add_arrays(*part, np.arange(first, last, dtype=np.uint64))

    def snapshot(self) -> Arrays:
        """The words so far; the tables may be filled further."""
        joined = self.joined()
        if not isinstance(joined, WordTable):
            return joined
        self._idle.append(joined)
        return joined.arrays()[:3]

    def joined(self) -> WordTable | Arrays:
        """Merge all tables. Two threads can share the work: one merges short words, the other longer ones."""
        if self._limit is not None and sum(table.memory for table in self._idle) > self._limit:
            self._start_spill()
        if self._spill is not None:
            while self._idle:
                self._spill.add(self._idle.pop())
            return self._spill.merged()
        tables = sorted(self._idle, key=len)
        self._idle.clear()
        whole = tables.pop() if tables else WordTable()
        if tables:
            halves = map_unordered(lambda longer: whole.absorb(tables, longer), (False, True), min(self._threads, 2))
            deque(halves, maxlen=0)
        return whole

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
