"""Blocks of files to ids: each is read, checked, divided at special tokens and encoded by one of several threads.

The threads run in `bpe/encode/_file_blocks.pyx`, which calls `_BlockOpener` for what one block needs in Python.
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
_NO_BLOCKS = np.empty((0, 5), dtype=np.int64)


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
            policy=(allowed, disallowed),
            bos_eos=bos_eos,
            ahead=ahead,
            out=None if ahead else out,  # several calls would each write to its beginning
        )
        return BlockIds.join(list(parts))


def encode_blocks(
    engine: Engine, blocks: Iterator[Block | FileReader], threads: int, n_bytes: int, **options: Any
) -> Iterator[BlockIds]:
    """Encode all blocks of files, in parts of about `max_bytes` bytes; options as for `encode_next_blocks`."""
    return iter(partial(encode_next_blocks, engine, blocks, threads, n_bytes, **options), None)


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
    opener = _BlockOpener(engine, *policy, bos_eos)
    if ahead and threads > 1:
        blocks = iter(list(_take(blocks, min(max_bytes, READ_AHEAD_BYTES))))
        max_bytes = sys.maxsize  # of these blocks, none may be left
    if engine.kernel_handles(policy[0]):
        job = BlockJob(
            engine.encoder,
            threads if n_bytes >= MIN_PARALLEL_BYTES else 1,
            blocks,
            opener.open,
            opener.raise_for_unknown,
            opener.make_special_items(),
            n_bytes,
            max_bytes,
            engine.select_output(out),
            with_hashes,
        )
        run_threads(job.work, job.count_threads(), job.stop)
        fields = job.result()
        return None if fields is None else _merge_across_words(engine, BlockIds(*fields))
    batches, parts = [], []
    for block in _take(blocks, max_bytes):
        batch, part = opener.encode(block, threads, with_hashes=with_hashes)
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
        hashes: uint64, the content hash of each document, or None.
        blocks: int64, shape (n, 5). Columns of each block:

            0: the number of documents that begin in it;
            1: the index of its file among the sources;
            2: the offset where reading can go on, or -1: of the first document that begins in a `FileReader`'s block,
               else that of `Block.resume_position`;
            3: the `documents_to_skip` there;
            4: the bad records: those left out of a `FileReader`'s block, else `Block.n_bad_records`.

    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    begins_document: bool
    ends_document: bool
    n_bytes: int
    disk_bytes: int = 0
    hashes: NDArray[np.uint64] | None = None
    blocks: NDArray[np.int64] = field(default_factory=lambda: _NO_BLOCKS)

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
    lengths = np.concatenate([part.lengths for part in parts])
    hashes = [part.hashes for part in parts if part.hashes is not None]
    ends = np.cumsum([len(part.lengths) for part in parts]).tolist()
    continued_indices = [end for end, part in zip(ends, parts[1:], strict=False) if not part.begins_document]
    if continued_indices:
        lengths = np.add.reduceat(lengths, np.delete(np.arange(len(lengths)), continued_indices))
    return BlockIds(
        ids,
        lengths,
        parts[0].begins_document,
        parts[-1].ends_document,
        sum(part.n_bytes for part in parts),
        sum(part.disk_bytes for part in parts),
        np.concatenate(hashes) if hashes else None,
        np.concatenate([part.blocks for part in parts]),
    )


def _merge_across_words(engine: Engine, part: BlockIds) -> BlockIds:
    """Merge across words in each document, if the model does so."""
    across_word_merger = engine.parts.across_word_merger
    if across_word_merger is None:
        return part
    ids, lengths = across_word_merger.merge(part.ids, compute_offsets(part.lengths))
    return replace(part, ids=ids, lengths=lengths)


def _take(blocks: Iterator[Block], max_bytes: int) -> Iterator[Block]:
    """Take blocks until they have `max_bytes` bytes."""
    n_bytes = 0
    while n_bytes < max_bytes and (block := next(blocks, None)) is not None:
        n_bytes += max(block.disk_bytes, len(block.text))
        yield block


class _BlockOpener:
    """Checks the text of each block of a file, and finds its documents."""

    def __init__(self, engine: Engine, allowed: frozenset[str], disallowed: frozenset[str], bos_eos: BosEos) -> None:
        self._engine, self._specials = engine, engine.specials
        self._allowed, self._disallowed, self._bos_eos = allowed, disallowed, bos_eos

    def make_special_items(self) -> SpecialItems:
        """Make what divides documents at special tokens, and adds ids around them."""
        allowed, disallowed = sorted(self._allowed), sorted(self._disallowed)
        return SpecialItems(
            Finder([name.encode() for name in allowed]) if allowed else None,
            np.array([self._specials.ids[name] for name in allowed], dtype=np.int64),
            Finder([name.encode() for name in disallowed]) if disallowed else None,
            *self._bos_eos,
        )

    def open(self, block: Block) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
        """Check a block: (a buffer that begins with its text, the starts of its documents, their ends)."""
        starts, ends = self._check_and_find_documents(block)
        assert isinstance(block.text, memoryview)
        return block.text.obj, starts, ends

    def raise_for_unknown(self, block: Block, start: int, size: int) -> None:
        """Raise FormatError for a text of a block that has a symbol without an id."""
        with as_format_error(block.source):
            self._engine.raise_for_unknown(bytes(block.text[start : start + size]))

    def encode(self, block: Block, threads: int, *, with_hashes: bool) -> tuple[TokenBatch, BlockIds]:
        """Encode a block of whole documents whose text changes before the kernel encodes it."""
        starts, ends = self._check_and_find_documents(block)
        texts = [bytes(block.text[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        with as_format_error(block.source):
            batch = self._engine.encode_batch(texts, threads, self._allowed, self._bos_eos)
        hashes = hash_spans(block.text, starts, ends) if with_hashes else None
        position = block.resume_position
        row = (len(starts), position.file_index, position.offset, position.documents_to_skip, block.n_bad_records)
        block.release()
        part = BlockIds(
            _NO_IDS,
            batch.lengths,
            True,
            True,
            int((ends - starts).sum()),
            block.disk_bytes,
            hashes,
            np.array([row], dtype=np.int64),
        )
        return batch, part

    def _check_and_find_documents(self, block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Check a block; returns the starts and ends of its documents."""
        block.check()
        starts, ends = block.find_documents(keep_empty=True)
        if self._disallowed and self._specials.may_occur(block.text, self._disallowed):
            with as_format_error(block.source):
                for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                    self._specials.refuse(bytes(block.text[start:end]), self._disallowed, block.offset + start)
        return starts, ends
