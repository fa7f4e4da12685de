"""The ids of sources in groups of documents, each with the positions in the sources where reading can go on.

A group is some 48 MB of text, or more with many threads: enough for all of them, and little memory. It has more where a
target writes the ids while they are encoded. Reading can go on where a block begins with a document, or where the first
document of a block of a `FileReader` begins: there a *run* begins, and a document is found again as the start of its
run and the number of documents after it:

    blocks      |doc 0, doc 1|doc 2, doc 3 ..|.. doc 3 ..|.. doc 3, doc 4|doc 5, doc 6|
    groups      |          group 0           |         group 1           |  group 2   |
    runs        |doc 0, 1    |doc 2, 3                   |doc 4          |doc 5, 6    |

How documents are grouped depends on the threads and on chance, and changes nothing in the output.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import Bytes
from bpe.corpus.blocks import Block, Position, make_document_end_finder
from bpe.corpus.reading import BlockEndFinder
from bpe.corpus.sources import Sources
from bpe.data.formats._file_writer import FileTarget
from bpe.data.plan import find_end_of_text
from bpe.encode.blocks import BlockIds, encode_next_blocks
from bpe.encode.engine import BosEos, Engine
from bpe.errors import get_log, ignore_system_errors, pluralize
from bpe.tokenizer import Tokenizer

if TYPE_CHECKING:
    from bpe.corpus._file_reader import FileReader

log = get_log()

#: The size of a group's text in bytes: the first, the least, the most with up to 12 threads, and with any number.
FIRST_GROUP_BYTES, MIN_GROUP_BYTES, MAX_GROUP_BYTES, MAX_SHARED_GROUP_BYTES = 4 << 20, 1 << 20, 48 << 20, 192 << 20
#: The most of a group whose ids a target writes, which take no memory: for each thread, and with any number of threads.
MAX_WRITTEN_BYTES, MAX_SHARED_WRITTEN_BYTES = 128 << 20, 1 << 30
#: The memory in bytes that the ids and the lengths of one group are meant to take, for each byte of the largest text.
_MEMORY_PER_BYTE = 1.5
#: The memory in bytes of an id, and of a document with its arrays: as a length, and with its key and its bucket.
_BYTES_PER_ID, _BYTES_PER_LENGTH, _BYTES_PER_DOCUMENT = 4, 48, 160
#: The bytes in which names of special tokens are searched for: of the first blocks, and of each later block.
_FULLY_SEARCHED_BYTES, _SAMPLE_BYTES = 8 << 20, 16 << 10
#: The most files of a group read by the kernel in which they are searched for.
_MAX_SEARCHED_FILES = 8


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A document in the sources, where reading can go on.

    Attributes:
        position: where to begin reading; None for the beginning of the sources.
        documents_after_position: the number of documents between that position and this one.
        index_in_file: the index in its file of the document at the position.
        n_bad_records: the number of bad records before the position that were left out.

    """

    position: Position | None = None
    documents_after_position: int = 0
    index_in_file: int = 0
    n_bad_records: int = 0

    def to_json(self) -> list[int]:
        """Return the numbers that the journal has."""
        assert self.position is not None
        position = self.position
        numbers = [position.file_index, position.offset, position.documents_to_skip]
        return [*numbers, self.documents_after_position, self.index_in_file, self.n_bad_records]

    def to_run(self) -> DocumentRun:
        """Make the run of a group whose first document this is the position of."""
        assert self.position is not None
        file, offset, documents = self.position.file_index, self.position.offset, self.position.documents_to_skip
        return DocumentRun(
            -self.documents_after_position, file, self.index_in_file, offset, documents, self.n_bad_records
        )

    @classmethod
    def from_json(cls, value: list[int]) -> ResumePoint:
        """Make a resume point from a journal's numbers."""
        file, offset, documents, *counts = value
        return cls(Position(file, offset, documents), *counts)


class DocumentRun(NamedTuple):
    """Where a run of documents begins: `first_index` is the index in a group of its first document.

    `index_in_file` is that document's in its file; `offset` and `documents_to_skip` are those of its `Position`; there
    are `bad_records` that were left out before it.
    """

    first_index: int
    file_index: int
    index_in_file: int
    offset: int
    documents_to_skip: int
    bad_records: int

    def shift(self, n_documents: int) -> DocumentRun:
        """Return this run for a group that begins `n_documents` documents earlier."""
        return self._replace(first_index=self.first_index + n_documents)


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentGroup:
    """The ids of consecutive documents.

    Attributes:
        ids: uint32, of all documents, without the first ones that `target` has written.
        lengths: int64, the number of ids of each document, or of the part of one.
        begins_document: whether the first document begins in this group.
        ends_document: whether the last document ends in this group.
        runs: where runs of documents begin, in order. The first one has the first document, and may begin in an earlier
            group, at an index below 0. No array: most functions of NumPy release the GIL, and may wait for it then.
        disk_bytes: bytes of the sources on disk that were read for it.
        hashes: uint64, the content hash of each document; None unless `GroupEncoder` hashes them.
        target: what has written the first ids; None if nothing has.

    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    begins_document: bool = True
    ends_document: bool = True
    runs: list[DocumentRun]
    disk_bytes: int = 0
    hashes: NDArray[np.uint64] | None = None
    target: FileTarget | None = None

    @property
    def n_written(self) -> int:
        """How many ids the target has written."""
        return 0 if self.target is None else self.target.n_ids

    @property
    def n_ids(self) -> int:
        """How many ids there are, with those that the target has written."""
        return self.n_written + len(self.ids)

    @property
    def n_complete(self) -> int:
        """How many documents end in this group."""
        return len(self.lengths) - (not self.ends_document)

    def find_resume_point(self, index: int) -> ResumePoint:
        """Return the resume point of document `index` of this group, or of the document after its last."""
        run = self._find_run(index)
        position = Position(run.file_index, run.offset, run.documents_to_skip)
        return ResumePoint(position, index - run.first_index, run.index_in_file, run.bad_records)

    def _find_run(self, index: int) -> DocumentRun:
        return self.runs[bisect(self.runs, index, key=attrgetter("first_index")) - 1]

    def number_documents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Compute the index of the file of each document, and its index in the file: two int64 arrays."""
        runs = np.array(self.runs, dtype=np.int64)
        counts = np.diff(np.maximum(runs[:, 0], 0), append=len(self.lengths))
        files, firsts = np.repeat(runs[:, 1], counts), np.repeat(runs[:, 2] - runs[:, 0], counts)
        return files, firsts + np.arange(len(self.lengths))

    def find_file_and_index(self, index: int) -> tuple[int, int]:
        """Find the file of one document, and its index in the file."""
        run = self._find_run(index)
        return run.file_index, run.index_in_file + index - run.first_index

    def choose_validation(self, fraction: float) -> NDArray[np.bool_] | None:
        """Choose the documents for validation; None without hashes."""
        return None if self.hashes is None else choose_validation(self.hashes, fraction)

    def drop_first(self, n_documents: int) -> DocumentGroup:
        """Return this group without its first documents."""
        if not n_documents:
            return self
        return replace(
            self,
            ids=self.ids[int(self.lengths[:n_documents].sum()) :],
            lengths=self.lengths[n_documents:],
            begins_document=True,
            runs=[run.shift(-n_documents) for run in self.runs],
            hashes=None if self.hashes is None else self.hashes[n_documents:],
        )


class GroupEncoder:
    """Encodes sources in groups of documents.

    Args:
        sources: the sources.
        engine: the tokenizer's engine.
        bos_eos: the ids to add before and after each document.
        allowed: special tokens to find.
        start: where to begin.
        whole_documents: whether every document is in one group.
        with_hashes: whether groups have the documents' content hashes; only with `whole_documents`.
        unexpected_names: the special tokens that a warning names where they occur as ordinary text.
        before_block: called before each block; an exception of it ends the encoding.
        size_divisor: the factor by which groups are smaller, for an output that keeps more of them in memory.

    """

    def __init__(
        self,
        sources: Sources,
        engine: Engine,
        bos_eos: BosEos,
        allowed: frozenset[str],
        start: ResumePoint = ResumePoint(),
        *,
        whole_documents: bool = False,
        with_hashes: bool = False,
        unexpected_names: Collection[str] = (),
        before_block: Callable[[], None] = lambda: None,
        size_divisor: int = 1,
    ) -> None:
        self._size_divisor = size_divisor
        self._sources, self._engine, self._bos_eos, self._allowed = sources, engine, bos_eos, allowed
        self._start, self._whole_documents, self._with_hashes = start, whole_documents, with_hashes
        self._unexpected_names, self._before_block = unexpected_names, before_block

    def encode(
        self, threads: int, open_target: Callable[[], FileTarget | None] = lambda: None
    ) -> Generator[DocumentGroup, None, None]:
        """Encode the sources in groups. Close the generator.

        Args:
            threads: the number of threads.
            open_target: called before each group: opens a target for its first ids, or returns None.

        """
        sources, documents_to_skip = self._sources, self._start.documents_after_position
        regular = sources.regular
        # The bad records before each block are known where all files are read by kernels, or all by Python code.
        by_kernel = regular and (sources.on_error == "raise" or sources.kernel_reads_all)
        unsplittable = self._engine.list_unsplittable(sources.separators, self._allowed) if by_kernel else None
        blocks = sources.blocks(
            self._make_block_end_finder(),
            threads,
            start=self._start.position,
            unsplittable=unsplittable,
            whole_documents=self._whole_documents or not self._engine.can_split_documents(self._allowed),
        )
        largest = max(MAX_GROUP_BYTES, min(MAX_GROUP_BYTES * threads // 12, MAX_SHARED_GROUP_BYTES))
        largest //= self._size_divisor
        group_blocks = _GroupBuilder(
            blocks,
            self._start,
            sources,
            max_bytes=largest,
            max_written_bytes=min(MAX_WRITTEN_BYTES * threads, MAX_SHARED_WRITTEN_BYTES),
            bytes_per_document=_BYTES_PER_DOCUMENT if self._whole_documents else _BYTES_PER_LENGTH,
            counts_records=unsplittable is not None,
            unexpected_names=self._unexpected_names,
            before_block=self._before_block,
        )
        can_write = regular and self._engine.can_write_to_target(self._allowed)
        with closing(blocks):  # an error leaves no file open
            while True:
                # Memory for the largest group each time, which the next one uses again. Where it grew with the groups,
                # clearing it took 0.1 s more for 110 MB.
                target = open_target() if can_write and not documents_to_skip else None
                ids = encode_next_blocks(
                    self._engine,
                    group_blocks,
                    threads,
                    largest,
                    policy=(self._allowed, frozenset()),
                    bos_eos=self._bos_eos,
                    max_bytes=group_blocks.begin_group(is_written=target is not None),
                    ahead=not regular,
                    with_hashes=self._with_hashes,
                    out=target,
                )
                if ids is None:
                    return
                group = group_blocks.end_group(ids, target)
                if documents_to_skip:
                    n_dropped = min(documents_to_skip, group.n_complete)
                    documents_to_skip -= n_dropped
                    if documents_to_skip or n_dropped == len(group.lengths):
                        continue
                    group = group.drop_first(n_dropped)
                yield group

    def _make_block_end_finder(self) -> BlockEndFinder | None:
        """Make the function that ends blocks: after a document where possible; within one unless `whole_documents`."""
        separators, keep_separator = self._sources.separators, self._sources.keep_separator
        at_document = make_document_end_finder(separators, keep_separator)
        if self._whole_documents or not self._engine.can_split_documents(self._allowed):
            return at_document
        within = self._engine.make_block_end_finder(separators, keep_separator, self._allowed)
        if at_document is None or within is None:
            return within
        return lambda buffer, low, end: at_document(buffer, low, end) or within(buffer, low, end)


class _GroupBuilder(Iterator["Block | FileReader"]):
    """Yields the blocks and readers of all groups, and numbers the documents of each group.

    Args:
        blocks: all blocks of the sources from the start on.
        start: where they begin.
        sources: the sources.
        max_bytes, max_written_bytes: the most bytes of a group's text, about, whose ids are in memory, and of one whose
            ids are written by a target.
        bytes_per_document: the memory that a document takes beside its ids.
        counts_records: whether bad records are left out by readers, and not by Python code.
        unexpected_names, before_block: as for `GroupEncoder`.

    """

    def __init__(
        self,
        blocks: Iterator[Block | FileReader],
        start: ResumePoint,
        sources: Sources,
        *,
        max_bytes: int,
        max_written_bytes: int,
        bytes_per_document: int,
        counts_records: bool,
        unexpected_names: Collection[str],
        before_block: Callable[[], None],
    ) -> None:
        self._blocks, self._sources, self._before_block = blocks, sources, before_block
        self._max_bytes, self._max_written_bytes = max_bytes, max_written_bytes
        self._bytes_per_document, self._counts_records = bytes_per_document, counts_records
        self._warning = NameWarning(unexpected_names)
        self._limit = self._written_limit = FIRST_GROUP_BYTES
        # Those before the next block of a reader; or those of earlier runs, which `Block.n_bad_records` has not.
        self._n_bad_records = start.n_bad_records - (0 if counts_records else sources.skipped)
        self._has_readers = False
        self._file = -1 if start.position is None else start.position.file_index
        self._next_index = start.index_in_file  # of the next document, in its file
        self._last_run = DocumentRun(0, 0, 0, 0, 0, 0)

    def begin_group(self, *, is_written: bool) -> int:
        """Begin the next group, whose ids a target writes or not; returns the bytes of text after which it ends."""
        return self._written_limit if is_written else self._limit

    def __next__(self) -> Block | FileReader:
        self._before_block()
        block = next(self._blocks)
        if isinstance(block, Block):
            self._warning.search(block.text, block.source)
        else:
            self._has_readers = True
        return block

    def end_group(self, block_ids: BlockIds, target: FileTarget | None) -> DocumentGroup:
        """Make the group of the blocks that were encoded since `begin_group`, from their ids."""
        self._search_files(block_ids)
        n_ids = len(block_ids.ids) + (0 if target is None else target.n_ids)
        memory = _BYTES_PER_ID * n_ids + self._bytes_per_document * len(block_ids.lengths) + 1
        limit = max(int(block_ids.disk_bytes * _MEMORY_PER_BYTE * self._max_bytes / memory), MIN_GROUP_BYTES)
        self._limit = min(limit, self._max_bytes, 4 * self._limit)
        self._written_limit = min(4 * self._written_limit, self._max_written_bytes)
        return DocumentGroup(
            ids=block_ids.ids,
            lengths=block_ids.lengths,
            begins_document=block_ids.begins_document,
            ends_document=block_ids.ends_document,
            runs=self._number_runs(block_ids),
            disk_bytes=block_ids.disk_bytes,
            hashes=block_ids.hashes,
            target=target,
        )

    def _search_files(self, block_ids: BlockIds) -> None:
        """Search files that a `FileReader` has read for names of special tokens.

        That is the beginning of the group, until enough was searched, and of files that begin in the group.
        """
        if not (self._warning.names and self._has_readers):
            return
        n_searched = 0
        previous_file = -1 if self._warning.needs_all() else self._file
        for _, file, start, *_ in block_ids.blocks.tolist():
            if file <= previous_file:
                continue
            n_searched, previous_file, name = n_searched + 1, file, self._sources.files[file].name
            with ignore_system_errors(), open(name, "rb") as opened:
                opened.seek(max(start, 0))
                self._warning.search(opened.read(min(self._warning.count_bytes(), block_ids.disk_bytes)), name)
            if not self._warning.names or n_searched == _MAX_SEARCHED_FILES:
                return

    def _number_runs(self, block_ids: BlockIds) -> list[DocumentRun]:
        """Number the group's documents within their files: the runs that begin in the blocks."""
        runs = [] if block_ids.begins_document else [self._last_run]
        first = int(not block_ids.begins_document)
        for n_begun, file, start, documents_to_skip, n_bad_records in block_ids.blocks.tolist():
            if file != self._file:
                self._file, self._next_index = file, 0
            n_bad_before = self._n_bad_records + (0 if self._counts_records else n_bad_records)
            if n_begun and start >= 0:
                runs.append(DocumentRun(first, file, self._next_index, start, documents_to_skip, n_bad_before))
            self._n_bad_records += n_bad_records if self._counts_records else 0
            first += n_begun
            self._next_index += n_begun
        if runs:  # else there is no document
            self._last_run = runs[-1].shift(-len(block_ids.lengths) + (not block_ids.ends_document))
        return runs


# Validation documents -------------------------------------------------------------------------------------------------


def choose_validation(hashes: NDArray[np.uint64], fraction: float) -> NDArray[np.bool_]:
    """Choose the documents for validation: those whose content hash is less than `fraction * 2**64`.

    Nothing else decides: not the position, the file name, the tokenizer or a seed. So duplicates are in one split, all
    parts of a corpus use the same rule, and the documents of a fraction are also those of every larger fraction.

    >>> choose_validation(np.array([0, 1 << 63, (1 << 64) - 1], dtype=np.uint64), 0.5)
    array([ True, False, False])
    """
    if fraction >= 1:
        return np.ones(len(hashes), dtype=np.bool_)
    return hashes < np.uint64(int(fraction * 2**64))


# Names of special tokens in the text ----------------------------------------------------------------------------------


def find_unexpected_names(
    tokenizer: Tokenizer, bos_eos: BosEos, allowed: Collection[str], separators: Collection[bytes]
) -> list[str]:
    """Find the special tokens to warn of: the end of text and those around documents, unless a text may have them.

    >>> import bpe
    >>> tok = bpe.train(texts=["low"], vocab_size=258, special_tokens=["<|endoftext|>", "<|pad|>"])
    >>> find_unexpected_names(tok, (None, None), (), []), find_unexpected_names(tok, (None, 1), (), [b"<|endoftext|>"])
    (['<|endoftext|>'], ['<|pad|>'])
    """
    marker_ids = {find_end_of_text(tokenizer), *bos_eos} - {None}
    marker_names = [name for name, token_id in tokenizer.special_tokens.items() if token_id in marker_ids]
    return [name for name in marker_names if name not in allowed and name.encode() not in separators]


class NameWarning:
    """Logs one warning for all blocks of a call, where the text has the name of a special token as ordinary text.

    Files whose documents are separated by `<|endoftext|>` are read as one document each unless the separator is given,
    and each name becomes several ordinary ids, which is rarely meant. The search costs about 1% of encoding.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.names = {name: name.encode() for name in names}
        self._searched = 0

    def wrap_blocks(self, blocks: Generator[Block, None, None]) -> Generator[Block, None, None]:
        """Pass blocks on, and close their generator at the end."""
        with closing(blocks):
            for block in blocks:
                self.search(block.text, block.source)
                yield block

    def needs_all(self) -> bool:
        """Whether the next text is searched as a whole."""
        return bool(self.names) and self._searched < _FULLY_SEARCHED_BYTES

    def count_bytes(self) -> int:
        """Return how many bytes of the next text are searched."""
        return max(_FULLY_SEARCHED_BYTES - self._searched, _SAMPLE_BYTES)

    def search(self, text: Bytes, source: str) -> None:
        """Search the beginning of a block, unless the warning was given."""
        if not self.names:
            return
        text = bytes(text[: self.count_bytes()])
        self._searched += len(text)
        for name, encoded in self.names.items():
            n_occurrences = text.count(encoded)
            if n_occurrences:
                self.names = {}
                log.warning(
                    "%s: %r occurs at least %s as ordinary text, which gives ordinary ids; pass separator= "
                    "(--separator) if it separates documents, or allowed_special='all' (--allow-special) if the text "
                    "may have special tokens",
                    source,
                    name,
                    pluralize(n_occurrences, "time"),
                )
                return
