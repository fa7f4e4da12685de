"""What the readers of records share: bad ones, an error or skipped and counted, and blocks of documents."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from bpe.base.fast_dataclasses import replace
from bpe.base.forks import make_lock
from bpe.corpus.blocks import Block
from bpe.corpus.reading import BlockEndFinder, BufferPool, EncodingErrors, ReadSchedule, Stream, make_changed_error
from bpe.errors import FormatError

if TYPE_CHECKING:
    from bpe.corpus._sequential_reader import SequentialReader
    from bpe.corpus.listing import SourceFile
    from bpe.corpus.streams import NextFiles

OnError = Literal["raise", "skip", "skip_files"]
#: How quotation marks are read: as those of fields, unless they seem to be text in TSV; as those of fields; as text.
Quoting = Literal["auto", "excel", "none"]

#: Held while records are counted: one lock for all, since that takes no time.
_lock = make_lock(sys.modules[__name__])


@dataclass(slots=True)
class BadRecords:
    """Bad records: an error, or skipped and counted.

    Attributes:
        on_error: "raise", "skip" or "skip_files".
        count: the number of records skipped so far.
        parent: where they are counted too, with those of other calls, or None.

    """

    on_error: OnError
    count: int = 0
    parent: BadRecords | None = None

    @property
    def must_raise(self) -> bool:
        """Whether a bad record is an error."""
        return self.on_error == "raise"

    def raise_or_skip(self, message: str, source: str, where: str = "") -> None:
        """Raise FormatError for a record, or count it.

        Args:
            message: what is wrong, and the rule.
            source: the file.
            where: the line or row.

        """
        if self.must_raise:
            raise FormatError(
                f'{message}; correct it, or pass on_error="skip" to leave out such records', path=source, where=where
            )
        self.skip(1)

    def skip(self, n_skipped: int) -> None:
        """Count records that are skipped. Other threads may add to the same total."""
        with _lock:
            self.count += n_skipped
            if self.parent is not None:
                self.parent.skip(n_skipped)


@dataclass(slots=True)
class ReadState:
    """State shared by all files of one `Sources.blocks()` call.

    Attributes:
        find_block_end: finds where a block of a text may end; None if only whole files may be taken.
        schedule: the sizes of reads.
        unsplittable: strings that a `FileReader` must not cut; None for blocks only.
        block_bytes: how many bytes a `FileReader` reads at once.
        whole_documents: whether its blocks end where documents do.
        buffers: the pool that blocks take their memory from.
        file_stamps: what the files were when they were first opened: the size, and the time of the last change.
        unclaimed_bytes: the bytes on disk that were read for blocks without documents; the next block adds them.
        n_bad_records: the number of bad records before the records that are read now.
        next_files: the compressed files that are read before it is their turn; None if there are none.

    """

    find_block_end: BlockEndFinder | None
    schedule: ReadSchedule
    unsplittable: list[bytes] | None
    block_bytes: int
    whole_documents: bool
    buffers: BufferPool = field(default_factory=BufferPool)
    file_stamps: dict[str, tuple[int, int]] = field(default_factory=dict)
    unclaimed_bytes: int = 0
    n_bad_records: int = 0
    next_files: NextFiles | None = None

    def open_stream(
        self, index: int, file: SourceFile, start: int, end: int | None, errors: EncodingErrors
    ) -> AbstractContextManager[Stream]:
        """Open a file, whose index among the sources is given, as `streams.open_stream` does."""
        from bpe.corpus.streams import open_stream

        opened = (
            self.next_files.open_stream(index) if self.next_files is not None and (start, end) == (0, None) else None
        )
        return open_stream(file, start, end, errors, self.file_stamps) if opened is None else opened

    def note_stamp(self, name: str, stamp: tuple[int, int]) -> None:
        """Note what a file is when it is opened; OSError if it was something else before."""
        if self.file_stamps.setdefault(name, stamp) != stamp:
            raise make_changed_error(name)

    def claim_bytes(self, more: int = 0) -> int:
        """Return `more` and the bytes that no block has claimed."""
        size, self.unclaimed_bytes = self.unclaimed_bytes + more, 0
        return size


@dataclass(frozen=True, slots=True)
class RecordContext:
    """What the readers of structured files need to know about a part of a file.

    Attributes:
        file: the file.
        file_index: its index among the sources.
        start, end: the part to read; see `SourceUnit`.
        field: the field or column that holds the text.
        quoting: quotation marks in CSV and TSV.
        bad_records: what happens with bad records.
        encoding_errors: how bytes that are not UTF-8 are handled.
        state: what all files of the call share.

    """

    file: SourceFile
    file_index: int
    start: int
    end: int | None
    field: str
    quoting: Quoting
    bad_records: BadRecords
    encoding_errors: EncodingErrors
    state: ReadState

    @property
    def source(self) -> str:
        """The name of the file, for errors."""
        return self.file.name

    def open_stream(self) -> AbstractContextManager[Stream]:
        """Open the part of the file."""
        return self.state.open_stream(self.file_index, self.file, self.start, self.end, self.encoding_errors)

    def name_line(self, index: int) -> str:
        """Name a line by its index in the part, for errors; the text before it is read again."""
        from bpe.corpus.streams import count_newlines

        lines_before = count_newlines(self.file, self.start)
        return (
            f"offset {self.start}, line {index + 1} from there"
            if lines_before is None
            else f"line {lines_before + index + 1}"
        )

    def refuse_record(self, message: str, index: int) -> None:
        """Raise FormatError for a bad line, by its index in the part, or count it."""
        where = self.name_line(index) if self.bad_records.must_raise else ""
        self.bad_records.raise_or_skip(message, self.source, where)

    def read_blocks(self, reader: SequentialReader) -> Generator[Block, None, None]:
        """Yield the blocks of a reader that have documents, with the bad records before each."""
        state = self.state
        state.n_bad_records = self.bad_records.count
        while (block := reader.read_block(state.buffers)) is not None:
            n_bad_records, state.n_bad_records = state.n_bad_records, self.bad_records.count
            if len(block.starts):
                yield replace(block, disk_bytes=state.claim_bytes(block.disk_bytes), n_bad_records=n_bad_records)
            else:
                state.unclaimed_bytes += block.disk_bytes
                block.release()
