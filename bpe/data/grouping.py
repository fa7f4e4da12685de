"""The ids of sources in groups of documents, each with the position in the sources where it begins.

A group is some 32 MB of text: enough for all threads, and little memory. It ends at the end of a document where it can,
because reading can go on only there. In a document that is larger than a group, groups end at safe split points, and
they resume at the document's start, as a position and the number of documents after it:

    blocks      |doc 0, doc 1|doc 2, doc 3 ..|.. doc 3 ..|.. doc 3|doc 4, doc 5|
    groups      |          group 0           |     group 1        |  group 2   |
    resume at   (0, 0), 0                    (0, 0), 3            (0, offset of doc 4), 0

How documents are grouped depends on the threads and on chance, and changes nothing in the output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from bpe.base.utf8 import Bytes
from bpe.corpus.blocks import Block, Position, make_document_end_finder
from bpe.corpus.reading import BlockEndFinder
from bpe.corpus.sources import Sources
from bpe.data.plan import find_end_of_text
from bpe.encode.blocks import BlockIds, encode_next_blocks
from bpe.encode.engine import BosEos, Engine
from bpe.errors import get_log, pluralize
from bpe.tokenizer import Tokenizer

log = get_log()

#: The size of a group's text in bytes: the first, the least and the most.
FIRST_GROUP_BYTES, MIN_GROUP_BYTES, MAX_GROUP_BYTES = 2 << 20, 1 << 20, 32 << 20
#: The memory in bytes that the ids and the lengths of one group are meant to take.
_GROUP_MEMORY = 48 << 20
#: The memory in bytes of an id, and of a document with its arrays: as a length, and with its key and its bucket.
_BYTES_PER_ID, _BYTES_PER_LENGTH, _BYTES_PER_DOCUMENT = 4, 48, 160
#: Names of special tokens are searched for in so many bytes of the first blocks, and in so many of each later block.
_FULLY_SEARCHED_BYTES, _SAMPLE_BYTES = 8 << 20, 16 << 10


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A document in the sources, where reading can go on.

    Attributes:
        position: where to begin reading; None for the beginning of the sources.
        documents_to_skip: the number of documents between that position and this one.
        index_in_file: the index in its file of the document at the position.
        n_bad_records: the number of bad records before the position that were left out.

    """

    position: Position | None = None
    documents_to_skip: int = 0
    index_in_file: int = 0
    n_bad_records: int = 0

    def to_json(self) -> list[int]:
        """Return the numbers that the journal has."""
        assert self.position is not None
        position = self.position
        numbers = [position.file_index, position.offset, position.documents_to_skip]
        return [*numbers, self.documents_to_skip, self.index_in_file, self.n_bad_records]

    @classmethod
    def from_json(cls, value: list[int]) -> ResumePoint:
        """Make a resume point from a journal's numbers."""
        file, offset, documents, *counts = value
        return cls(Position(file, offset, documents), *counts)


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentGroup:
    """The ids of consecutive documents.

    Attributes:
        ids: uint32, of all documents.
        lengths: int64, the number of ids of each document, or of the part of one.
        begins_document: whether the first document begins in this group.
        ends_document: whether the last document ends in this group.
        start: where to read again for the first document.
        file_runs: int64, shape (n, 3), a row for each block in which documents begin: the index in this group of the
            first one, its file, and its index in the file. The first row is for the first document.
        size: bytes of the sources on disk that were read for it.
        hashes: uint64, the content hash of each document; None unless `DocumentGroups` hashes them.

    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    begins_document: bool = True
    ends_document: bool = True
    start: ResumePoint
    file_runs: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    size: int = 0
    hashes: NDArray[np.uint64] | None = None

    @property
    def n_complete(self) -> int:
        """How many documents end in this group."""
        return len(self.lengths) - (not self.ends_document)

    def find_resume_point(self, index: int) -> ResumePoint:
        """Return the resume point of document `index` of this group, or of the document after its last."""
        return replace(self.start, documents_to_skip=self.start.documents_to_skip + index)

    def number_documents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Compute the index of the file of each document, and its index in the file: two int64 arrays."""
        counts = np.diff(np.maximum(self.file_runs[:, 0], 0), append=len(self.lengths))
        files, firsts = (
            np.repeat(self.file_runs[:, 1], counts),
            np.repeat(self.file_runs[:, 2] - self.file_runs[:, 0], counts),
        )
        return files, firsts + np.arange(len(self.lengths))

    def find_file_and_index(self, index: int) -> tuple[int, int]:
        """Find the file of one document, and its index in the file."""
        first, file, first_index = self.file_runs[
            np.searchsorted(self.file_runs[:, 0], index, side="right") - 1
        ].tolist()
        return file, first_index + index - first

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
            start=self.find_resume_point(n_documents),
            file_runs=self.file_runs - np.array([n_documents, 0, 0]),
            hashes=None if self.hashes is None else self.hashes[n_documents:],
        )


class DocumentGroups:
    """Encodes sources in groups of documents.

    Args:
        sources: the sources.
        engine: the tokenizer's engine.
        bos_eos: the ids to add before and after each document.
        allowed: special tokens to find.
        start: where to begin.
        whole_documents: whether every document is in one group.
        with_hashes: whether groups have the documents' content hashes; only with `whole_documents`.
        names: the special tokens that a warning names where they occur as ordinary text.
        before_block: called before each block; an exception of it ends the encoding.

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
        names: Collection[str] = (),
        before_block: Callable[[], None] = lambda: None,
    ) -> None:
        self._sources, self._engine, self._bos_eos, self._allowed = sources, engine, bos_eos, allowed
        self._start, self._whole_documents, self._with_hashes = start, whole_documents, with_hashes
        self._names, self._before_block = names, before_block

    def encode(self, threads: int) -> Generator[DocumentGroup, None, None]:
        """Encode the sources in groups. Close the generator."""
        sources, documents_to_skip = self._sources, self._start.documents_to_skip
        blocks = sources.blocks(self._make_block_end_finder(), threads, start=self._start.position)
        group_blocks = _GroupBlocks(
            blocks,
            self._start,
            self._start.n_bad_records - sources.skipped,
            whole_documents=self._whole_documents,
            with_hashes=self._with_hashes,
            names=self._names,
            before_block=self._before_block,
        )
        with closing(blocks):  # an error leaves no file open
            while True:
                group_blocks.begin_group()
                # Memory for the largest group each time, which the next one uses again. Where it grew with the groups,
                # clearing it took 0.1 s more for 110 MB.
                ids = encode_next_blocks(
                    self._engine,
                    group_blocks,
                    threads,
                    MAX_GROUP_BYTES,
                    allowed=self._allowed,
                    bos_eos=self._bos_eos,
                    max_bytes=sys.maxsize,
                    ahead=not sources.regular,
                )
                if ids is None:
                    return
                group = group_blocks.end_group(ids)
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


class _GroupBlocks(Iterator[Block]):
    """Yields the blocks of one group, and then, after `begin_group`, those of the next.

    Args:
        blocks: all blocks of the sources from the start on.
        start: where they begin.
        earlier_bad_records: bad records that earlier runs left out.
        whole_documents, with_hashes, names, before_block: as for `DocumentGroups`.

    """

    def __init__(
        self,
        blocks: Iterator[Block],
        start: ResumePoint,
        earlier_bad_records: int,
        *,
        whole_documents: bool,
        with_hashes: bool,
        names: Collection[str],
        before_block: Callable[[], None],
    ) -> None:
        self._blocks, self._before_block, self._with_hashes = blocks, before_block, with_hashes
        self._bytes_per_document = _BYTES_PER_DOCUMENT if whole_documents else _BYTES_PER_LENGTH
        self._warning = NameWarning(names)
        self._next_block: Block | None = None  # read already, and of the next group
        self._limit = FIRST_GROUP_BYTES
        # The last position to read from, and the documents begun since.
        self._resume_from = start
        self._n_begun_since = 0
        self._earlier_bad_records = earlier_bad_records
        self._file = -1 if start.position is None else start.position.file_index
        self._next_index = start.index_in_file  # of the next document, in its file

    def begin_group(self) -> None:
        """Begin the next group."""
        self._n_bytes, self._size, self._continues_document = 0, 0, False
        self._files: list[int] = []  # of each block
        self._hashes: list[NDArray[np.uint64]] = []

    def __next__(self) -> Block:
        self._before_block()
        block = self._next_block if self._next_block is not None else next(self._blocks, None)
        self._next_block = block
        if block is None or self._ends_before(block):
            raise StopIteration
        self._next_block = None
        self._warning.search(block)
        if not self._files:
            self._continues_document = not block.begins_document
            if block.begins_document:
                index = self._next_index if block.file_index == self._file else 0
                bad_records = self._earlier_bad_records + block.n_bad_records
                self._resume_from = ResumePoint(block.resume_position, index_in_file=index, n_bad_records=bad_records)
                self._n_begun_since = 0
        self._n_bytes += len(block.text)
        self._size += block.size
        self._files.append(block.file_index)
        if self._with_hashes:
            self._hashes.append(hash_documents(block.text, *block.find_documents(keep_empty=True)))
        return block

    def _ends_before(self, block: Block) -> bool:
        """Check whether the group ends before a block."""
        if not self._files:
            return False
        if self._continues_document and block.begins_document:
            return True
        return self._n_bytes >= self._limit and (block.begins_document or self._n_bytes >= 2 * self._limit)

    def end_group(self, part: BlockIds) -> DocumentGroup:
        """Make the group of the blocks that `next` has returned since `begin_group`, from their ids."""
        n_before = self._n_begun_since - (not part.begins_document)
        self._n_begun_since = n_before + len(part.lengths)
        memory = _BYTES_PER_ID * len(part.ids) + self._bytes_per_document * len(part.lengths) + 1
        limit = max(self._n_bytes * _GROUP_MEMORY // memory, MIN_GROUP_BYTES)
        self._limit = min(limit, MAX_GROUP_BYTES, 2 * self._limit)
        return DocumentGroup(
            ids=part.ids,
            lengths=part.lengths,
            begins_document=part.begins_document,
            ends_document=part.ends_document,
            start=replace(self._resume_from, documents_to_skip=n_before),
            file_runs=self._number_runs(part),
            size=self._size,
            hashes=np.concatenate(self._hashes) if self._with_hashes else None,
        )

    def _number_runs(self, part: BlockIds) -> NDArray[np.int64]:
        """Number the group's documents within their files: the array `DocumentGroup.file_runs`."""
        rows = [] if part.begins_document else [(0, self._file, self._next_index - 1)]
        index = len(rows)
        for file, n_begun in zip(self._files, part.n_begun.tolist(), strict=True):
            if file != self._file:
                self._file, self._next_index = file, 0
            if n_begun:
                rows.append((index, file, self._next_index))
            index += n_begun
            self._next_index += n_begun
        return np.array(rows, dtype=np.int64).reshape(-1, 3)


# Validation documents -------------------------------------------------------------------------------------------------


def hash_documents(text: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash the content of each document `text[starts[i]:ends[i]]`: BLAKE2b, 8 bytes, as a little-endian number.

    >>> data, bounds = b"onetwoone", np.array([0, 3, 6, 9])
    >>> [f"{number:x}" for number in hash_documents(data, bounds[:-1], bounds[1:]).tolist()]
    ['c915768baaddf234', '3074a796c55eef5', 'c915768baaddf234']
    """
    view = memoryview(text)
    digests = b"".join(
        blake2b(view[start:end], digest_size=8).digest()
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


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
        self._names = {name: name.encode() for name in names}
        self._searched = 0

    def wrap_blocks(self, blocks: Generator[Block, None, None]) -> Generator[Block, None, None]:
        """Pass blocks on, and close their generator at the end."""
        with closing(blocks):
            for block in blocks:
                self.search(block)
                yield block

    def search(self, block: Block) -> None:
        """Search a block, unless the warning was given."""
        if not self._names:
            return
        text = bytes(block.text[: max(_FULLY_SEARCHED_BYTES - self._searched, _SAMPLE_BYTES)])
        self._searched += len(text)
        for name, encoded in self._names.items():
            n_occurrences = text.count(encoded)
            if n_occurrences:
                self._names = {}
                log.warning(
                    "%s: %r occurs at least %s as ordinary text, which gives ordinary ids; pass separator= "
                    "(--separator) if it separates documents, or allowed_special='all' (--allow-special) if the text "
                    "may have special tokens",
                    block.source,
                    name,
                    pluralize(n_occurrences, "time"),
                )
                return
