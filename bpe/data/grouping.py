"""The ids of sources in groups of documents, each with the position in the sources where it begins.

A group is some 32 MB of text: enough for all threads, and little memory. It ends at the end of a document where it can,
because reading can go on only there. In a document that is larger than a group, groups end at safe split points, and
their place is that of the document's start, as a position and the number of documents after it:

    blocks      |doc 0, doc 1|doc 2, doc 3 ..|.. doc 3 ..|.. doc 3|doc 4, doc 5|
    groups      |          group 0           |     group 1        |  group 2   |
    places      (0, 0), 0                    (0, 0), 3            (0, offset of doc 4), 0

How documents are grouped depends on the threads and on chance, and changes nothing in the output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpe.corpus.blocks import Block, Position, document_cut
from bpe.corpus.reading import EndCut
from bpe.corpus.sources import Sources
from bpe.data.literal_names import NameWarning
from bpe.data.splitting import content_hashes
from bpe.encode.blocks import BlockIds, encode_some_blocks
from bpe.encode.engine import Around, Engine

#: The size of a group's text in bytes: the first, the least and the most.
FIRST, LEAST, MOST = 2 << 20, 1 << 20, 32 << 20
#: The memory in bytes that the ids and the lengths of one group are meant to take.
_MEMORY = 48 << 20
#: The memory in bytes of an id, and of a document with its arrays: as a length, and with its key and its bucket.
_PER_ID, _PER_LENGTH, _PER_DOCUMENT = 4, 48, 160


@dataclass(frozen=True, slots=True)
class Place:
    """A document in the sources.

    Attributes:
        position: where to begin reading; None for the beginning of the sources.
        skip: the number of documents between that position and this one.
        number: the number in its file of the document at the position.
        skipped: the number of bad records before the position that were left out.

    """

    position: Position | None = None
    skip: int = 0
    number: int = 0
    skipped: int = 0

    def to_json(self) -> list[int]:
        """The place as the journal has it."""
        assert self.position is not None
        position = self.position
        return [position.file, position.offset, position.documents, self.skip, self.number, self.skipped]

    @classmethod
    def from_json(cls, value: list[int]) -> Place:
        """The place in a journal."""
        file, offset, documents, skip, number, *skipped = value
        return cls(Position(file, offset, documents), skip, number, *skipped)


@dataclass(frozen=True, slots=True)
class Group:
    """The ids of consecutive documents.

    Attributes:
        ids: uint32, of all documents.
        lengths: int64, the number of ids of each document, or of the part of one.
        begins: whether the first document begins in this group.
        ends: whether the last document ends in this group.
        place: where to read again for the first document.
        runs: int64, shape (n, 3), a row for each block in which documents begin: the index in this group of the first
            one, its file, and its number in the file. The first row is for the first document.
        size: bytes of the sources on disk that were read for it.
        hashes: uint64, the content hash of each document; None if not asked for.

    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    begins: bool
    ends: bool
    place: Place
    runs: NDArray[np.int64]
    size: int = 0
    hashes: NDArray[np.uint64] | None = None

    @property
    def complete(self) -> int:
        """How many documents end in this group."""
        return len(self.lengths) - (not self.ends)

    def place_of(self, index: int) -> Place:
        """The place of document `index` of this group, or of the document after its last."""
        return replace(self.place, skip=self.place.skip + index)

    def numbering(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The index of the file of each document, and its number in the file: two int64 arrays."""
        counts = np.diff(np.maximum(self.runs[:, 0], 0), append=len(self.lengths))
        files, firsts = np.repeat(self.runs[:, 1], counts), np.repeat(self.runs[:, 2] - self.runs[:, 0], counts)
        return files, firsts + np.arange(len(self.lengths))

    def number_of(self, index: int) -> tuple[int, int]:
        """The index of the file of one document, and its number in the file."""
        run = self.runs[np.searchsorted(self.runs[:, 0], index, side="right") - 1]
        return int(run[1]), int(run[2] + index - run[0])

    def without(self, n_documents: int) -> Group:
        """This group without its first documents."""
        if not n_documents:
            return self
        return replace(
            self,
            ids=self.ids[int(self.lengths[:n_documents].sum()) :],
            lengths=self.lengths[n_documents:],
            begins=True,
            place=self.place_of(n_documents),
            runs=self.runs - np.array([n_documents, 0, 0]),
            hashes=None if self.hashes is None else self.hashes[n_documents:],
        )


def encoded_groups(
    sources: Sources,
    engine: Engine,
    threads: int,
    *,
    allowed: frozenset[str],
    around: Around,
    start: Place,
    whole: bool,
    hashed: bool,
    check: Callable[[], None],
    names: Collection[str] = (),
) -> Generator[Group, None, None]:
    """Encode sources from a position on, in groups.

    Args:
        sources: the sources.
        engine: the tokenizer's engine.
        threads: how many threads encode.
        allowed: special tokens to find.
        around: the ids to add before and after each document.
        start: where to begin.
        whole: whether every document is in one group.
        hashed: whether groups have the documents' content hashes; only with `whole`.
        check: called before each block; an exception of it ends the encoding.
        names: the special tokens that a warning names where they occur as ordinary text (`literal_names.py`).

    """
    cut = (document_cut if whole else _cut(engine, allowed))(sources.separators, sources.keep_separator)
    skip = start.skip
    read = NameWarning(names).watch(sources.blocks(cut, threads, start=start.position))
    with closing(read) as blocks:  # an error leaves no file open
        earlier = start.skipped - sources.skipped  # by runs before this one
        grouping = _Grouping(blocks, check, whole=whole, hashed=hashed, start=start, earlier=earlier)
        while (group := _next_group(grouping, engine, threads, allowed, around, sources.regular)) is not None:
            if skip:
                dropped = min(skip, group.complete)
                skip -= dropped
                if skip or dropped == len(group.lengths):
                    continue
                group = group.without(dropped)
            yield group


def _cut(engine: Engine, allowed: frozenset[str]) -> Callable[[list[bytes], bool], EndCut | None]:
    """The cut of blocks that may end within documents, but preferably end after one."""

    def cut_at(separators: list[bytes], keep: bool) -> EndCut | None:
        at_document = document_cut(separators, keep)
        if not engine.can_split_documents(allowed):
            return at_document
        within = engine.find_block_end(separators, keep, allowed)
        if at_document is None or within is None:
            return within
        return lambda buffer, low, end: at_document(buffer, low, end) or within(buffer, low, end)

    return cut_at


def _next_group(
    grouping: _Grouping, engine: Engine, threads: int, allowed: frozenset[str], around: Around, regular: bool
) -> Group | None:
    """Encode the next group; None if there are no more blocks."""
    grouping.begin()
    # Memory for the largest group each time, which the next one uses again. Where it grew with the groups, clearing it
    # took 0.1 s more for 110 MB.
    part = encode_some_blocks(
        engine, grouping, threads, MOST, allowed=allowed, around=around, most=sys.maxsize, ahead=not regular
    )
    return None if part is None else grouping.end(part)


class _Grouping(Iterator[Block]):
    """Passes blocks on to the encoder, stops at the end of each group, and notes where groups begin."""

    def __init__(
        self,
        blocks: Iterator[Block],
        check: Callable[[], None],
        *,
        whole: bool,
        hashed: bool,
        start: Place,
        earlier: int,
    ) -> None:
        self._blocks, self._check, self._hashed, self._earlier = blocks, check, hashed, earlier
        self._held: Block | None = None  # read, and of the next group
        self.most = FIRST
        self._per_document = _PER_DOCUMENT if whole else _PER_LENGTH
        self._anchor, self._since = start, 0  # the last place to read from, and the documents begun since
        self._file = -1 if start.position is None else start.position.file
        self._next = start.number  # the number in its file of the next document
        self.begin()

    def begin(self) -> None:
        """Begin a new group."""
        self._taken, self._size, self._continues = 0, 0, False
        self._files: list[int] = []  # of each block
        self._hashes: list[NDArray[np.uint64]] = []
        self._first = True

    def __next__(self) -> Block:
        self._check()
        block = self._held if self._held is not None else next(self._blocks, None)
        self._held = block
        if block is None or self._ends_before(block):
            raise StopIteration
        self._held = None
        if self._first:
            self._first, self._continues = False, not block.begins
            if block.begins:
                number = self._next if block.file == self._file else 0
                self._anchor, self._since = Place(block.resume, 0, number, self._earlier + block.skipped), 0
        self._taken += len(block.text)
        self._size += block.size
        self._files.append(block.file)
        if self._hashed:
            self._hashes.append(content_hashes(block.text, *block.documents(empty=True)))
        return block

    def _ends_before(self, block: Block) -> bool:
        if self._first:
            return False
        if self._continues and block.begins:
            return True
        return self._taken >= self.most and (block.begins or self._taken >= 2 * self.most)

    def end(self, part: BlockIds) -> Group:
        """The group of the blocks that were passed on since `begin`."""
        first = self._since - (not part.begins)
        self._since = first + len(part.lengths)
        cost = _PER_ID * len(part.ids) + self._per_document * len(part.lengths) + 1
        self.most = min(max(self._taken * _MEMORY // cost, LEAST), MOST, 2 * self.most)
        return Group(
            part.ids,
            part.lengths,
            part.begins,
            part.ends,
            replace(self._anchor, skip=first),
            self._runs(part),
            self._size,
            np.concatenate(self._hashes) if self._hashed else None,
        )

    def _runs(self, part: BlockIds) -> NDArray[np.int64]:
        """The numbering of the group's documents."""
        rows = [] if part.begins else [(0, self._file, self._next - 1)]
        index = len(rows)
        for file, begun in zip(self._files, part.begun.tolist(), strict=True):
            if file != self._file:
                self._file, self._next = file, 0
            if begun:
                rows.append((index, file, self._next))
            index += begun
            self._next += begun
        return np.array(rows, dtype=np.int64).reshape(-1, 3)
