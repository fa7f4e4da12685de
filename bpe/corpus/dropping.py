"""Blocks without some of their documents: an empty one after the last separator, invalid UTF-8, the first ones."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.base.utf8 import find_utf8_error
from bpe.errors import pluralize

if TYPE_CHECKING:
    from bpe.corpus.blocks import Block, Position
    from bpe.corpus.records import BadRecords


def drop_trailing_documents(blocks: Iterator[Any]) -> Generator[Any, None, None]:
    """Yield the blocks of one file, without the empty document that would follow a separator at its end.

    A block that ends with a separator but not with a document has an empty document open. It is closed without that
    document, and the next block begins one. Empty documents before the end of the file are kept:

        blocks       |low<|end|>|er<|end|>| (end of the file)
        documents    |low       |er       | and not an empty one
    """
    pending: Block | None = None
    begins_next = False  # whether the next block begins a document even if its `begins_document` is False
    for block in blocks:
        if pending is not None:
            pending = _drop_open_document(pending, begins_document=begins_next, is_last=False)
            yield pending
            begins_next, pending = pending.ends_document, None
        if len(block.text) == 0 or _ends_with_separator(block):  # what comes next decides
            pending = block
        else:
            block = _drop_open_document(block, begins_document=begins_next, is_last=False)
            yield block
            begins_next = block.ends_document
    if pending is None:
        return
    if len(pending.text) or not (pending.begins_document or begins_next):
        yield _drop_open_document(pending, begins_document=begins_next, is_last=True)
    else:
        pending.release()


def _drop_open_document(block: Block, *, begins_document: bool, is_last: bool) -> Block:
    """Return the block without an empty document after its last separator if that document is open, or `is_last`."""
    if begins_document and not block.begins_document:
        block = replace(block, begins_document=True)
    if (is_last or not block.ends_document) and _ends_with_separator(block):
        starts, ends = block.find_documents(keep_empty=True)
        if starts[-1] == ends[-1]:
            return replace(block, starts=starts[:-1], ends=ends[:-1], separators=(), ends_document=True)
    return block


def _ends_with_separator(block: Block) -> bool:
    separator = block.separators[0]
    return bool(block.text[-len(separator) :] == separator)


def drop_invalid(blocks: Iterator[Block], bad_records: BadRecords) -> Generator[Block, None, None]:
    """Yield the blocks of whole documents without those that are not UTF-8, which are counted."""
    for block in blocks:
        n_bad_records = bad_records.count
        assert isinstance(block.text, memoryview)
        if find_utf8_error(block.text) is not None:
            starts, ends = block.find_documents(keep_empty=True)
            pairs = zip(starts.tolist(), ends.tolist(), strict=True)
            is_valid = np.array(
                [find_utf8_error(block.text[start:end]) is None for start, end in pairs], dtype=np.bool_
            )
            bad_records.skip(int(len(is_valid) - is_valid.sum()))
            yield replace(
                block,
                starts=starts[is_valid],
                ends=ends[is_valid],
                separators=(),
                must_be_utf8=False,
                n_bad_records=n_bad_records,
            )
        else:
            yield replace(block, must_be_utf8=False, n_bad_records=n_bad_records)


def skip_documents(blocks: Iterator[Block], count: int, start: Position | None) -> Generator[Block, None, None]:
    """Yield the blocks without their first `count` documents."""
    n_left, is_dropping = count, True
    for block in blocks:
        if not is_dropping:
            yield block
            continue
        starts, ends = block.find_documents(keep_empty=True)
        n_continued = int(not block.begins_document)
        n_begun = len(starts) - n_continued
        if n_begun <= n_left:
            n_left -= n_begun
            is_dropping = n_left > 0 or not block.ends_document
            block.release()
            continue
        first_kept, is_dropping = n_left + n_continued, False
        yield replace(
            block,
            starts=starts[first_kept:],
            ends=ends[first_kept:],
            separators=(),
            begins_document=True,
            documents_to_skip=block.documents_to_skip + n_left,
        )
    if is_dropping and n_left:
        raise ValueError(f"{start} has {pluralize(count - n_left, 'document')} after it in its file; begin elsewhere")
