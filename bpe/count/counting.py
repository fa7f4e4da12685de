"""Counting the words of a corpus, on several threads.

Not here: what a document is (`bpe/corpus/blocks.py`) and a word (pretokenizers), the counts themselves
(`bpe/count/word_counts.py`) and training.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from threading import Lock

from bpe.base.memory_limits import resident
from bpe.base.progress import ProgressLike, check_progress, progress_bar
from bpe.base.threads import in_order, shared_out, thread_count
from bpe.base.utf8 import TextLike
from bpe.corpus.blocks import Block, PathLike, TextFiles, check_separating, text_blocks
from bpe.corpus.documents import arrow_documents, row_blocks
from bpe.corpus.reading import EncodingErrors, checked_encoding_errors
from bpe.count._word_table import WordTable
from bpe.count.spilling import Spill
from bpe.count.word_counts import Arrays, Splitter, WordCounts, fill
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text.normalizers import NormalizerLike

#: The blocks of a corpus are this far apart in the order of first appearances.
STRIDE = 1 << 36

#: A table begins with slots for its share of the files, at most so many: new memory to grow is what threads wait for.
BYTES_PER_SLOT, MOST_SLOTS = 256, 1 << 18


def count_words(
    *,
    files: PathLike | Iterable[PathLike] | None = None,
    texts: Iterable[TextLike] | None = None,
    pretokenizer: Pretokenizer | str | None = "gpt2",
    normalizer: NormalizerLike | None = None,
    special_tokens: Iterable[str] = (),
    separator: str | None = None,
    per_line: bool = False,
    encoding_errors: EncodingErrors = "strict",
    threads: int | None = None,
    progress: ProgressLike = False,
) -> WordCounts:
    r"""Count the words of a corpus.

    Args:
        files: paths of UTF-8 text files; or
        texts: an iterable of str or bytes, each a document, or an Arrow array of strings, which is read without a copy
            (a null is an empty text); exactly one of the two.
        pretokenizer: how texts are split into words: a name, a `Pretokenizer`, or None (a text is one word).
        normalizer: how a text is changed before that: one or several of `bpe.normalizers`, or their names ("nfc").
        special_tokens: strings that separate text and are part of no word.
        separator: the string between the documents of a file, which belongs to none; None makes each file one document.
        per_line: make each line of a file a document, its newline included (`separator="\n"` leaves newlines out).
        encoding_errors: how bytes in files that are not UTF-8 are handled: "strict", an error; "replace", U+FFFD as in
            `bytes.decode`; "bytes", they are counted unchanged.
        threads: how many to use; None is one per core. The result does not depend on it.
        progress: True shows a bar of the bytes done on stderr or in a notebook, and a line each 30 s where stderr is
            no terminal; a function is called with a `bpe.Progress` from time to time.

    Raises:
        TypeError: if texts is a single str, or its items are neither str nor bytes, or it is an Arrow array of another
            type.
        ValueError: for both a separator and `per_line`, and for other invalid arguments.
        FormatError: for a file that is compressed, in UTF-16 or UTF-32, or not UTF-8 (`encoding_errors`).
        OSError: for a file that cannot be read, or gets shorter while it is read.

    >>> count_words(texts=["low lower", "low"], pretokenizer="whitespace").most_common()
    [(b'low', 2), (b'lower', 1)]

    """
    if (files is None) == (texts is None):
        raise ValueError("give exactly one of files= and texts=")
    check_progress(progress)
    counts = WordCounts(pretokenizer, normalizer, special_tokens)
    source = corpus_source(files, texts, separator, per_line, encoding_errors)
    count_into(counts, source, thread_count(threads), progress)
    return counts


def corpus_source(
    files: PathLike | Iterable[PathLike] | None,
    texts: Iterable[TextLike] | None,
    separator: str | None,
    per_line: bool,
    encoding_errors: EncodingErrors,
    *,
    chars: bool = False,
) -> TextFiles | Iterable[TextLike] | None:
    """The corpus that the arguments of a call name: files, or the texts themselves.

    Raises:
        TypeError, ValueError: for arguments that are wrong, or that only files have.
        OSError: for a file that cannot be read.

    """
    if files is not None:
        return TextFiles.of(files, separator, per_line, encoding_errors, chars=chars)
    check_separating(separator, per_line)
    checked_encoding_errors(encoding_errors, given=False)
    return texts


def count_into(
    counts: WordCounts,
    source: TextFiles | Iterable[TextLike] | None,
    threads: int,
    progress: ProgressLike,
    *,
    utf8: bool = False,
    max_memory: int | None = None,
) -> None:
    """Add the words of a corpus to counts that are still empty; with `utf8`, texts that are not UTF-8 are an error.

    Each thread fills a table of its own with whole blocks of the corpus; every word remembers the place of its first
    occurrence in the corpus, so the tables merge into the same counts however the blocks were shared out. Tables that
    would have the process take more than `max_memory` bytes go to disk.
    """
    splitter = Splitter(counts)
    total = source.size if isinstance(source, TextFiles) else None
    slots = min((total or 0) // (BYTES_PER_SLOT * threads), MOST_SLOTS) if max_memory is None else 0
    tables = _Tables(threads, slots, max_memory)

    def count(numbered: tuple[int, Block]) -> int:
        number, block = numbered
        block.check()
        with tables.one() as table:
            splitter.count(table, block.text, *block.documents(), number * STRIDE)
        size = block.size or len(block.text)
        block.release()
        return size

    # Texts may be bound to the caller's thread, and only that may wait for a pipe.
    share = shared_out if isinstance(source, TextFiles) and source.regular else in_order
    try:
        with (
            progress_bar(progress, "count", total, "B") as bar,
            closing(_blocks(source, splitter, threads, utf8=utf8)) as blocks,  # an error leaves no file open
        ):
            for done in share(count, enumerate(blocks), threads):
                bar(done)
        joined = tables.joined()
    finally:
        tables.close()
    fill(counts, joined)


def _blocks(
    source: TextFiles | Iterable[TextLike] | None, splitter: Splitter, threads: int, *, utf8: bool
) -> Generator[Block, None, None]:
    """The corpus in blocks that can be counted one by one."""
    if isinstance(source, TextFiles):
        return source.blocks(splitter.end_cut(source.separators, source.keep_separator), threads)
    rows = arrow_documents(source)
    if rows is None:
        return text_blocks(source, splitter.cutter(), utf8=utf8, threads=threads)  # type: ignore[arg-type]
    return row_blocks(rows, splitter.cutter(), utf8=utf8, threads=threads)


class _Tables:
    """The tables that threads fill, and those that were full, on disk."""

    def __init__(self, threads: int, slots: int, max_memory: int | None) -> None:
        self._threads = threads
        self._slots = slots
        self._idle: list[WordTable] = []
        self._spill: Spill | None = None
        # A table that grows has its old slots beside the new ones, twice as many, and joining fills arrays beside it.
        self._most = None if max_memory is None else max(max_memory - resident(), 0) // (3 * threads)
        self._lock = Lock()

    @contextmanager
    def one(self) -> Iterator[WordTable]:
        """A table that no other thread has."""
        try:
            table = self._idle.pop()  # list.pop and append are atomic: no lock
        except IndexError:
            table = WordTable(self._slots)
        try:
            yield table
        finally:
            self._idle.append(table)
        if self._most is not None and table.memory > self._most:
            self._idle.remove(table)
            self._spilled().add(table)

    def joined(self) -> WordTable | Arrays:
        """What all tables hold; longer words lie apart in a table, so that two threads can do it."""
        if self._most is not None and sum(table.memory for table in self._idle) > self._most:
            self._spilled()
        if self._spill is not None:
            while self._idle:
                self._spill.add(self._idle.pop())
            return self._spill.merged()
        tables = sorted(self._idle, key=len)
        self._idle.clear()
        whole = tables.pop() if tables else WordTable()
        if tables:
            halves = shared_out(lambda longer: whole.absorb(tables, longer), (False, True), min(self._threads, 2))
            deque(halves, maxlen=0)
        return whole

    def close(self) -> None:
        """Delete what is on disk."""
        if self._spill is not None:
            self._spill.close()

    def _spilled(self) -> Spill:
        with self._lock:
            if self._spill is None:
                self._spill = Spill()
            return self._spill
