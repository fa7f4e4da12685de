"""Blocks of files to ids: each is read, checked, divided at special tokens and encoded by one of several threads.

The threads run in `bpe/encode/_file_blocks.pyx`, which calls `_BlockPreparer` for what one block needs in Python.
Blocks may end within documents, where the engine says that ids do not depend on what follows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpe.base._aho_corasick import Finder
from bpe.base._ordered_output import IdTarget
from bpe.base.offsets import compute_offsets
from bpe.base.threads import run_threads
from bpe.base.utf8 import Bytes
from bpe.batch import TokenBatch
from bpe.corpus._content_hash import hash_spans
from bpe.encode._file_blocks import BlockJob, SpecialItems
from bpe.encode.engine import NO_BOS_EOS, BosEos, Engine, join_ids
from bpe.errors import as_format_error
from bpe.vocab.special_tokens import Allowed

if TYPE_CHECKING:
    from bpe.corpus._file_reader import FileReader
    from bpe.corpus.blocks import Block
    from bpe.corpus.sources import Sources

#: The fewest bytes of files for which several threads are started.
MIN_PARALLEL_BYTES = 1 << 19
#: The number of bytes of a pipe that are read before several threads encode them.
READ_AHEAD_BYTES = 32 << 20
#: The size assumed for files, in bytes, if it is unknown.
_UNKNOWN_SIZE = 1 << 24

_NO_IDS = np.empty(0, dtype=np.uint32)
_NO_COUNTS = np.empty(0, dtype=np.int64)

#: The columns of the records of blocks that `BlockJob.result` returns.
_N_DOCUMENTS, _BEGINS, _ENDS, _N_BYTES, _DISK_BYTES, _FILE, _FIRST_START = range(7)


def encode_sources(
    engine: Engine,
    corpus: Sources,
    threads: int,
    policy: tuple[Allowed, Allowed],
    bos_eos: BosEos,
    out: NDArray[Any] | None = None,
) -> TokenBatch:
    """Encode the documents in files, which are read in blocks meanwhile; `out` as for `encode_next_blocks`."""
    allowed, disallowed = engine.specials.resolve_policy(*policy)
    names = allowed | disallowed
    find_block_end = engine.make_block_end_finder(corpus.separators, corpus.keep_separator, names)
    unsplittable = engine.list_unsplittable(corpus.separators, names) if corpus.regular else None
    whole_documents = not engine.can_split_documents(names)
    # Closed, so that an error leaves no file open.
    with closing(
        corpus.blocks(find_block_end, threads, unsplittable=unsplittable, whole_documents=whole_documents)
    ) as blocks:
        size, ahead = corpus.text_size or _UNKNOWN_SIZE, not corpus.regular
        parts = encode_blocks(
            engine,
            blocks,
            threads,
            size,
            allowed,
            disallowed=disallowed,
            bos_eos=bos_eos,
            ahead=ahead,
            out=None if ahead else out,  # several calls would each write to its beginning
        )
        return BlockIds.join(list(parts))


def encode_blocks(
    engine: Engine,
    blocks: Iterator[Block | FileReader],
    threads: int,
    n_bytes: int,
    allowed: frozenset[str],
    *,
    disallowed: frozenset[str] = frozenset(),
    bos_eos: BosEos = NO_BOS_EOS,
    max_bytes: int = sys.maxsize,
    ahead: bool = False,
    out: NDArray[Any] | None = None,
) -> Iterator[BlockIds]:
    """Encode all blocks of files, in parts of about `max_bytes` bytes."""
    encode_next = partial(
        encode_next_blocks,
        engine,
        blocks,
        threads,
        n_bytes,
        policy=(allowed, disallowed),
        bos_eos=bos_eos,
        max_bytes=max_bytes,
        ahead=ahead,
        out=out,
    )
    while (part := encode_next()) is not None:
        yield part


def encode_next_blocks(
    engine: Engine,
    blocks: Iterator[Any],
    threads: int,
    n_bytes: int,
    *,
    policy: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset()),
    bos_eos: BosEos = NO_BOS_EOS,
    max_bytes: int = sys.maxsize,
    ahead: bool = False,
    out: NDArray[Any] | IdTarget | None = None,
    with_hashes: bool = False,
) -> BlockIds | None:
    """Encode blocks of files, divided by `Engine.make_block_end_finder`; each thread reads the blocks that it encodes.

    One call takes no blocks after `max_bytes` bytes; it returns None when there are no more.

    Args:
        engine: the tokenizer's engine.
        blocks: an iterator of blocks and of `FileReader`s, on which only one thread at a time calls `next`.
        threads: the number of threads.
        n_bytes: the approximate size of the text.
        policy: the special tokens to find, and those to refuse.
        bos_eos: ids to add before and after each document.
        max_bytes: stop after this many bytes, about.
        ahead: read up to `READ_AHEAD_BYTES` bytes of blocks in the caller's thread before any is encoded.
        out: an array of uint32 or uint16, to write the ids to where the kernel can, for a call that takes all blocks;
            or, unless `ahead`, an `IdTarget` for the first ids, if the kernel can, and the result has the others.
        with_hashes: hash the contents of the documents, none of which is in two blocks.

    Raises:
        FormatError: for text that is not UTF-8, and where `encode` raises ValueError; it names the file.

    """
    preparer = _BlockPreparer(engine, *policy, bos_eos, with_hashes=with_hashes)
    if ahead and threads > 1:
        blocks = iter(list(_take(blocks, min(max_bytes, READ_AHEAD_BYTES))))
        max_bytes = sys.maxsize  # of these blocks, none may be left
    if engine.kernel_handles(policy[0]):
        job = BlockJob(
            engine.encoder,
            threads if n_bytes >= MIN_PARALLEL_BYTES else 1,
            blocks,
            preparer.prepare,
            preparer.finish,
            preparer.make_special_items(),
            n_bytes,
            max_bytes,
            engine.select_output(out),
            with_hashes,
        )
        run_threads(job.work, job.count_threads(), job.stop)
        return _merge_across_words(engine, _make_block_ids(*job.result()))
    batches, parts = [], []
    for block in _take(blocks, max_bytes):
        batch, part = preparer.encode(block, threads)
        batches.append(batch.ids)
        parts.append(part)
    return _join_parts(join_ids(batches), parts)


@dataclass(frozen=True)
class BlockIds:
    """The ids of some blocks of files.

    Attributes:
        ids: uint32, of all documents.
        lengths: int64, the number of ids of each document, or part of one.
        begins_document: whether the first document begins in these blocks rather than in earlier ones.
        ends_document: whether the last document ends in these blocks.
        n_bytes: the size of the text in bytes.
        disk_bytes: the bytes on disk that were read for it.
        n_begun: int64, the number of documents that begin in each block.
        files: int64, the index of the file of each block among the sources; -1 if no `FileReader` has read it.
        first_starts: int64, where the first document that begins in the block begins in the file; -1 for none.
        hashes: uint64, the content hash of each document, or None.

    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    begins_document: bool
    ends_document: bool
    n_bytes: int
    disk_bytes: int = 0
    n_begun: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS)
    files: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS)
    first_starts: NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS)
    hashes: NDArray[np.uint64] | None = None

    @staticmethod
    def join(parts: list[BlockIds]) -> TokenBatch:
        """Join the parts of all blocks to one batch of documents."""
        joined = _join_parts(join_ids([part.ids for part in parts]), parts)
        if joined is None:
            return TokenBatch(_NO_IDS, compute_offsets([]))
        return TokenBatch(joined.ids, compute_offsets(joined.lengths))


def _join_parts(ids: NDArray[np.uint32], parts: Sequence[BlockIds]) -> BlockIds | None:
    """Join the records of blocks, with the ids of all of them; None if there are no blocks."""
    if not parts:
        return None
    fields = [
        (len(part.lengths), part.begins_document, part.ends_document, part.n_bytes, part.disk_bytes, -1, -1)
        for part in parts
    ]
    records, lengths = np.array(fields, dtype=np.int64), np.concatenate([part.lengths for part in parts])
    n_documents, continued = records[:, _N_DOCUMENTS], records[:, _BEGINS] == 0
    continued[0] = False
    if continued.any():
        continued_indices = (np.cumsum(n_documents) - n_documents)[continued]
        lengths = np.add.reduceat(lengths, np.delete(np.arange(len(lengths)), continued_indices))
    hashes = [part.hashes for part in parts if part.hashes is not None]
    return _make_block_ids(ids, lengths, records, np.concatenate(hashes) if hashes else None)


def _make_block_ids(
    ids: NDArray[np.uint32],
    lengths: NDArray[np.int64],
    records: NDArray[np.int64],
    hashes: NDArray[np.uint64] | None,
) -> BlockIds | None:
    """Join the records of blocks as `BlockJob.result` returns them."""
    if not len(records):
        return None
    begun = records[:, _N_DOCUMENTS] - (records[:, _BEGINS] == 0)
    n_bytes, disk_bytes = records[:, [_N_BYTES, _DISK_BYTES]].sum(axis=0).tolist()
    begins, ends = bool(records[0, _BEGINS]), bool(records[-1, _ENDS])
    files, first_starts = records[:, _FILE], records[:, _FIRST_START]
    return BlockIds(ids, lengths, begins, ends, n_bytes, disk_bytes, begun, files, first_starts, hashes)


def _merge_across_words(engine: Engine, part: BlockIds | None) -> BlockIds | None:
    """Merge across words in each document, if the model does so."""
    across_word_merger = engine.parts.across_word_merger
    if across_word_merger is None or part is None:
        return part
    ids, lengths = across_word_merger.merge(part.ids, compute_offsets(part.lengths))
    return replace(part, ids=ids, lengths=lengths)


def _take(blocks: Iterator[Block], max_bytes: int) -> Iterator[Block]:
    """Take blocks until they have `max_bytes` bytes."""
    n_bytes = 0
    while n_bytes < max_bytes and (block := next(blocks, None)) is not None:
        n_bytes += max(block.disk_bytes, len(block.text))
        yield block


class _BlockPreparer:
    """Checks each block of a file and divides it into items for the kernel."""

    def __init__(
        self,
        engine: Engine,
        allowed: frozenset[str],
        disallowed: frozenset[str],
        bos_eos: BosEos,
        *,
        with_hashes: bool,
    ) -> None:
        self._engine, self._specials, self._with_hashes = engine, engine.specials, with_hashes
        self._allowed, self._disallowed, self._bos_eos = allowed, disallowed, bos_eos

    def make_special_items(self) -> SpecialItems:
        """Make what divides a reader's blocks as `prepare` does."""
        allowed, disallowed = sorted(self._allowed), sorted(self._disallowed)
        return SpecialItems(
            Finder([name.encode() for name in allowed]) if allowed else None,
            np.array([self._specials.ids[name] for name in allowed], dtype=np.int64),
            Finder([name.encode() for name in disallowed]) if disallowed else None,
            *self._bos_eos,
        )

    def prepare(self, block: Block) -> tuple[Bytes, NDArray[np.int64], NDArray[np.int64], Any]:
        """Divide a block into items, in the form that `BlockJob` takes."""
        starts, ends = self._check_and_find_documents(block)
        sizes, first_items = ends - starts, None
        n_bytes, hashes = int(sizes.sum()), self._hash(block, starts, ends)
        if self._allowed and self._specials.may_occur(block.text, self._allowed):
            starts, sizes, first_items = self._split_at_specials(block.text, starts, ends)
        if self._bos_eos != NO_BOS_EOS:
            starts, sizes, first_items = self._surround(block, starts, sizes, first_items)
        assert isinstance(block.text, memoryview)
        buffer: Any = block.text.obj  # starts with the block's text; the kernel may read past the text
        return buffer, starts, sizes, (block, starts, sizes, first_items, n_bytes, hashes)

    def finish(self, context: Any, lengths: NDArray[np.int64], unknown_item: int) -> BlockIds:
        """Make the record of a block whose items are encoded, without the ids."""
        block, starts, sizes, first_items, n_bytes, hashes = context
        if unknown_item >= 0:
            with as_format_error(block.source):
                self._engine.raise_for_unknown(
                    bytes(block.text[starts[unknown_item] : starts[unknown_item] + sizes[unknown_item]])
                )
        if first_items is not None and len(first_items):
            lengths = np.add.reduceat(lengths, first_items)
        begins_document, ends = block.begins_document, block.ends_document
        block.release()
        return BlockIds(_NO_IDS, lengths, begins_document, ends, n_bytes, block.disk_bytes, hashes=hashes)

    def encode(self, block: Block, threads: int) -> tuple[TokenBatch, BlockIds]:
        """Encode a block of whole documents whose text changes before the kernel encodes it."""
        starts, ends = self._check_and_find_documents(block)
        texts = [bytes(block.text[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        with as_format_error(block.source):
            batch = self._engine.encode_batch(texts, threads, self._allowed, self._bos_eos)
        hashes = self._hash(block, starts, ends)
        block.release()
        n_bytes = int((ends - starts).sum())
        return batch, BlockIds(_NO_IDS, batch.lengths, True, True, n_bytes, block.disk_bytes, hashes=hashes)

    def _hash(self, block: Block, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        """Hash the contents of a block's documents, if they are wanted."""
        return hash_spans(block.text, starts, ends) if self._with_hashes else None

    def _check_and_find_documents(self, block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Check a block; returns the starts and ends of its documents."""
        block.check()
        starts, ends = block.find_documents(keep_empty=True)
        if self._disallowed and self._specials.may_occur(block.text, self._disallowed):
            with as_format_error(block.source):
                for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                    self._specials.refuse(bytes(block.text[start:end]), self._disallowed, block.offset + start)
        return starts, ends

    def _split_at_specials(
        self, text: Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Make items for documents that contain special tokens: (starts, sizes, the first item of each document)."""
        items: list[tuple[int, int]] = []
        first_items: list[int] = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            first_items.append(len(items))
            position = start
            for stretch, special_id in self._specials.split(text[start:end], self._allowed):
                items.append((position, len(stretch)) if special_id is None else (special_id, -1))
                position += len(stretch)
            if start == end:
                items.append((start, 0))
        table = np.array(items, dtype=np.int64).reshape(-1, 2)
        return table[:, 0].copy(), table[:, 1].copy(), np.array(first_items, dtype=np.int64)

    def _surround(
        self, block: Block, starts: NDArray[np.int64], sizes: NDArray[np.int64], first_items: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Insert items for the ids before and after each document: (starts, sizes, the first item of each document)."""
        first_items = np.arange(len(starts)) if first_items is None else first_items
        bos, eos = self._bos_eos
        bos_positions = first_items[not block.begins_document :]
        eos_positions = np.append(first_items[1:], len(starts)) if len(first_items) else first_items
        if not block.ends_document:
            eos_positions = eos_positions[:-1]
        if bos is None:
            bos_positions = bos_positions[:0]
        if eos is None:
            eos_positions = eos_positions[:0]
        # At equal positions the id after a document precedes the next one's.
        positions = np.concatenate((eos_positions, bos_positions))
        ids = np.repeat([eos or 0, bos or 0], [len(eos_positions), len(bos_positions)])
        new_first_items = (
            first_items
            + np.searchsorted(bos_positions, first_items)
            + np.searchsorted(eos_positions, first_items, side="right")
        )
        return np.insert(starts, positions, ids), np.insert(sizes, positions, -1), new_first_items
