"""`write_shards`: shards from documents that are token ids already, without text or a tokenizer.

For instruction data, a loss mask goes with the ids. Not here: the layouts of the formats; encoding text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.batch import TokenBatch, id_array
from bpe.data import manifest
from bpe.data.formats import FORMATS
from bpe.data.formats.protocol import ShardFormat, ShardInfo, ShardWriter
from bpe.data.formats.reading import DocumentBatch
from bpe.data.manifest import Manifest, ShardEntry
from bpe.errors import check_choice, check_int, check_iterable, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Documents are gathered into batches of about this many ids.
_BATCH = 1 << 20

#: A document, or several: ids, ids with their loss mask, or a batch of documents.
Documents = Iterable["Sequence[int] | NDArray[Any] | TokenBatch | tuple[Any, Any]"]


def write_shards(
    documents: Documents,
    out: str | os.PathLike[str],
    *,
    format: str = "native",  # noqa: A002 (the command line's word)
    largest_id: int | None = None,
    shard_size: int | None = None,
    masks: bool = False,
    end_of_text: int | None = None,
) -> Manifest:
    """Write documents of token ids as shards, with a manifest.

    Args:
        documents: an iterable of documents: sequences or arrays of ids, or `TokenBatch`es, each of several documents;
            with `masks`, pairs (ids, mask) of the same length, where 0 (or False) means no loss for that token.
        out: the folder, made if absent. It must not hold shards.
        format: "native", "megatron", "parquet", "arrow", "nanogpt", "llmc", "datatrove" or "dolma".
        largest_id: the largest id that may occur, which decides the dtype; usually `tok.n_vocab - 1`. None means that
            `documents` is a sequence, which is read twice.
        shard_size: a new shard begins once a shard has this many tokens. None: one shard.
        masks: whether documents come with loss masks.
        end_of_text: the id that the format by convention has around each document (nanogpt and datatrove: after it,
            llmc: before it). None: the documents are written as they are given.

    Returns:
        The manifest, as written to `out/manifest.json`.

    Raises:
        ValueError: for ids, lengths or counts that the format cannot hold, masks included; `out` is as before then.
        OSError: for a file that cannot be written.

    >>> import tempfile
    >>> from bpe.data import TokenShards
    >>> with tempfile.TemporaryDirectory() as out:
    ...     _ = write_shards([([5, 6, 7], [0, 1, 1]), ([8], [1])], out, masks=True)
    ...     shards = TokenShards(out)
    ...     shards.documents[0].tolist(), shards.masks(0, 4).tolist()
    ([5, 6, 7], [0, 1, 1, 1])

    """
    form = FORMATS[check_choice("format", format, tuple(FORMATS))]
    check_iterable("documents", documents, "an iterable of documents")
    if shard_size is not None:
        shard_size = check_int("shard_size", shard_size, 1)
    if largest_id is None:
        largest_id = _largest_in(documents, masks)
    largest_id = check_int("largest_id", largest_id, 0)
    dtype = form.dtype(max(largest_id, end_of_text or 0))
    folder = new_folder(out)
    around: tuple[Any, Any] = (None, None)
    if end_of_text is not None:
        before, after = (np.array([end_of_text] * wanted, dtype=np.uint32) for wanted in form.around)
        around = before, after
    batches = _batches(documents, masks, around)
    shards = write_batches(batches, form, folder, dtype, masks=masks, shard_size=shard_size)
    written = Manifest(form.name, dtype.name, tuple(shards), masks)
    written.write(folder)
    return written


def write_batches(
    batches: Iterable[DocumentBatch],
    form: ShardFormat,
    folder: Path,
    dtype: np.dtype[Any],
    *,
    masks: bool = False,
    shard_size: int | None = None,
    stem: str = "tokens",
    split: str | None = None,
    info: ShardInfo | None = None,
    numbered: bool = True,
) -> list[ShardEntry]:
    """Write batches of documents as shards of at least `shard_size` tokens each, except the last.

    A shard ends with the document that reaches `shard_size`. There is at least one shard, which may be empty. The stem
    gets the shard's number unless `numbered` is False, for one shard. After an error, no file of these shards remains.
    """
    shards: list[ShardEntry] = []
    first = 0 if info is None else info.first_document  # document of the shard
    writer: ShardWriter | None = None

    def name() -> str:
        return f"{stem}-{len(shards):05d}" if numbered else stem

    def start() -> ShardWriter:
        facts = replace(info or ShardInfo(), first_document=first)
        return form.writer(folder, name(), dtype, masks=masks, info=facts)

    def finish(writer: ShardWriter) -> None:
        files = tuple(writer.finish())
        shards.append(ShardEntry(name(), writer.documents, writer.tokens, files, split))

    try:
        writer = start()
        for batch in batches:
            rest: DocumentBatch | None = batch
            while rest is not None:
                if shard_size is not None and rest.begins and writer.tokens >= shard_size:
                    finish(writer)
                    first += writer.documents
                    writer = start()
                part, rest = split_batch(rest, None if shard_size is None else shard_size - writer.tokens)
                writer.write(part.ids, part.lengths, begins=part.begins, ends=part.ends, mask=part.mask)
        finish(writer)
    except BaseException:
        if writer is not None:
            writer.discard()
        remove_shards(folder, shards)
        raise
    return shards


def new_folder(out: str | os.PathLike[str]) -> Path:
    """Make a folder for shards; FileExistsError if it has a manifest already."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / manifest.NAME).exists():
        raise FileExistsError(f"{folder} has a {manifest.NAME} already; give another folder or remove the shards first")
    return folder


def remove_shards(folder: Path, shards: Iterable[ShardEntry]) -> None:
    """Remove the files of shards."""
    for shard in shards:
        for file in shard.files:
            (folder / file.name).unlink(missing_ok=True)


def split_batch(batch: DocumentBatch, room: int | None) -> tuple[DocumentBatch, DocumentBatch | None]:
    """Split a batch after the first document that ends at `room` ids or later; None if nothing remains.

    >>> batch = DocumentBatch(np.arange(6), np.array([2, 3, 1]), True, True, None)
    >>> [part.lengths.tolist() for part in split_batch(batch, 3)]
    [[2, 3], [1]]
    """
    if room is None:
        return batch, None
    ends = np.cumsum(batch.lengths)
    count = int(np.searchsorted(ends, room)) + 1
    if count >= len(ends):
        return batch, None
    at = int(ends[count - 1])
    masks = (None, None) if batch.mask is None else (batch.mask[:at], batch.mask[at:])
    return (
        DocumentBatch(batch.ids[:at], batch.lengths[:count], batch.begins, True, masks[0]),
        DocumentBatch(batch.ids[at:], batch.lengths[count:], True, batch.ends, masks[1]),
    )


def _largest_in(documents: Documents, masks: bool) -> int:
    """The largest id in documents that can be read twice."""
    if iter(documents) is documents:
        raise ValueError("documents is an iterator, which is read once; pass largest_id, such as tok.n_vocab - 1")
    return max((int(ids.max(initial=0)) for ids, _ in _each(documents, masks)), default=0)


def _each(documents: Documents, masks: bool) -> Iterator[tuple[NDArray[Any], NDArray[np.uint8] | None]]:
    """The ids and the mask of each document."""
    document: Any
    for number, document in enumerate(documents):
        if masks:
            if not isinstance(document, tuple) or len(document) != 2:
                raise TypeError(f"document {number} is {shown(document)}; with masks=True it must be (ids, mask)")
            ids, mask = id_array(document[0]), np.asarray(document[1])
            if mask.shape != ids.shape or (
                mask.size and (mask.dtype.kind not in "iub" or mask.min() < 0 or mask.max() > 255)
            ):
                rule = "the mask must be as long as the ids, with values from 0 to 255"
                raise ValueError(f"document {number} has {len(ids)} ids and the mask {shown(document[1])}; {rule}")
            yield ids, mask.astype(np.uint8)
        elif isinstance(document, TokenBatch):
            for ids in document:
                yield ids, None
        else:
            yield id_array(document), None


def _batches(documents: Documents, masks: bool, around: tuple[Any, Any]) -> Iterator[DocumentBatch]:
    """Gather documents into batches, with the end-of-text ids around each; (before, after) are arrays, or None."""
    extra = [each for each in around if each is not None]
    ones = [np.ones(len(each), dtype=np.uint8) if each is not None else None for each in around]
    parts: list[Any] = []
    mask_parts: list[Any] = []
    lengths: list[int] = []
    held = 0

    def gathered() -> DocumentBatch:
        ids = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)
        mask = np.concatenate(mask_parts) if mask_parts else np.empty(0, dtype=np.uint8)
        return DocumentBatch(ids, np.array(lengths, dtype=np.int64), True, True, mask if masks else None)

    for ids, mask in _each(documents, masks):
        framed = [ids] if not extra else [each for each in (around[0], ids, around[1]) if each is not None]
        parts += framed
        lengths.append(sum(map(len, framed)))
        if masks:
            mask_parts += [each for each in (ones[0], mask, ones[1]) if each is not None]
        held += lengths[-1] + 16  # empty documents take memory, too
        if held >= _BATCH:
            yield gathered()
            parts, mask_parts, lengths, held = [], [], [], 0
    if lengths:
        yield gathered()
