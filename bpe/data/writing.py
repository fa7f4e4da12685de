"""`write_shards`: shards from documents that are token ids already, without text or a tokenizer.

For instruction data, a loss mask goes with the ids.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.offsets import compute_offsets
from bpe.batch import TokenBatch, as_id_array
from bpe.data.formats import SHARD_FORMATS
from bpe.data.formats.reading import DocumentBatch
from bpe.data.formats.shard_format import ShardFormat, ShardInfo, ShardWriter
from bpe.data.journal import JOURNAL_NAME, Journal, crash_point, lock_folder
from bpe.data.manifest import MANIFEST_NAME, Manifest, ShardEntry
from bpe.errors import check_choice, check_int, check_iterable, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Documents are gathered into batches of about this many ids.
_BATCH_IDS = 1 << 20

#: What to do about a document with an end-of-text id inside.
_INSIDE_ADVICE = "leave end_of_text out to write documents as they are"

#: A document, or several: ids, ids with their loss mask, or a batch of documents.
DocumentsLike = Iterable["Sequence[int] | NDArray[Any] | TokenBatch | tuple[Any, Any]"]


def write_shards(
    documents: DocumentsLike,
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
        end_of_text: the id that the format by convention has at one end of each document (nanogpt and datatrove: after
            it, llmc: before it), for documents that may have it already: it is not written twice. nanogpt and llmc have
            it nowhere else: it is removed from the other end, and refused inside a document. None: the documents are
            written as they are given.

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
    shard_format = SHARD_FORMATS[check_choice("format", format, tuple(SHARD_FORMATS))]
    check_iterable("documents", documents, "an iterable of documents")
    if shard_size is not None:
        shard_size = check_int("shard_size", shard_size, 1)
    if largest_id is None:
        largest_id = _find_largest_id(documents, masks)
    largest_id = check_int("largest_id", largest_id, 0)
    batches = gather_batches(documents, masks)
    if end_of_text is not None and any(shard_format.end_of_text_sides):
        end_of_text = check_int("end_of_text", end_of_text, 0)
        largest_id = max(largest_id, end_of_text)
        batches = map(EndOfTextPlacer(shard_format, end_of_text, _INSIDE_ADVICE).place, batches)
    dtype, folder = shard_format.choose_dtype(largest_id), Path(out)
    options = {"writer": "write_shards", "format": shard_format.name, "dtype": dtype.name, "masks": masks}
    header = {"options": {**options, "shard_size": shard_size, "end_of_text": end_of_text}}
    with mark_unfinished(folder, header) as is_resumed:
        shards = write_batches(batches, shard_format, folder, dtype, masks=masks, shard_size=shard_size)
        if is_resumed:
            remove_later_shards(folder, shard_format, len(shards), masks)
        manifest = Manifest(shard_format.name, dtype.name, tuple(shards), masks)
        crash_point("manifest")
        try:
            manifest.write(folder)
        except BaseException:
            remove_shards(folder, shards)
            raise
        crash_point("manifest written")
    return manifest


def write_batches(
    batches: Iterable[DocumentBatch],
    shard_format: ShardFormat,
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
    first_document = 0 if info is None else info.first_document  # document of the shard
    writer: ShardWriter | None = None

    def make_stem() -> str:
        return f"{stem}-{len(shards):05d}" if numbered else stem

    def start_writer() -> ShardWriter:
        facts = replace(info or ShardInfo(), first_document=first_document)
        return shard_format.open_writer(folder, make_stem(), dtype, masks=masks, info=facts)

    def finish_writer(writer: ShardWriter) -> None:
        crash_point("finish")
        n_finished = len(shards)
        try:
            files = tuple(writer.finish())
            crash_point("finished")
            shards.append(ShardEntry(make_stem(), writer.n_documents, writer.n_tokens, files, split))
        except BaseException:
            if len(shards) == n_finished:  # no entry names its files, which may be finished
                for name in shard_format.name_files(make_stem(), masks=masks):
                    (folder / name).unlink(missing_ok=True)
            raise

    try:
        writer = start_writer()
        for batch in batches:
            remaining: DocumentBatch | None = batch
            while remaining is not None:
                if shard_size is not None and remaining.begins_document and writer.n_tokens >= shard_size:
                    finish_writer(writer)
                    first_document += writer.n_documents
                    writer = start_writer()
                part, remaining = split_batch(remaining, None if shard_size is None else shard_size - writer.n_tokens)
                writer.write(
                    part.ids,
                    part.lengths,
                    begins_document=part.begins_document,
                    ends_document=part.ends_document,
                    mask=part.mask,
                )
        finish_writer(writer)
    except BaseException:
        if writer is not None:
            writer.discard()
        remove_shards(folder, shards)
        raise
    return shards


@contextmanager
def mark_unfinished(folder: Path, header: dict[str, Any]) -> Iterator[bool]:
    """Make a folder for shards, which all readers refuse as not finished until the block ends without an error.

    A process that is killed leaves the mark, a journal without steps. The same call may write there again: the
    context yields True if it does. Another header is refused.

    Raises:
        FileExistsError: if the folder has a manifest.
        ValueError: if another process or another call writes there.

    """
    refuse_finished(folder)
    with lock_folder(folder):
        refuse_finished(folder)  # again: another call may have finished it meanwhile
        is_resumed = (folder / JOURNAL_NAME).exists()
        journal = Journal(folder, header, allow_other_files=True)
        try:
            crash_point("begun")
            yield is_resumed
        except BaseException:
            if is_resumed:  # there may be files of the attempt before
                journal.close()
            else:
                journal.remove()
            raise
        journal.remove()


def refuse_finished(folder: Path) -> None:
    """Raise FileExistsError if a folder has a manifest."""
    if (folder / MANIFEST_NAME).exists():
        raise FileExistsError(f"{folder} has a {MANIFEST_NAME} already; give another folder or remove the shards first")


def remove_later_shards(folder: Path, shard_format: ShardFormat, index: int, masks: bool) -> None:
    """Remove the shards from this number on, which an attempt that was killed has left."""
    names = shard_format.name_files(f"tokens-{index:05d}", masks=masks)
    while any((folder / name).exists() for name in names):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        index += 1
        names = shard_format.name_files(f"tokens-{index:05d}", masks=masks)


def remove_shards(folder: Path, shards: Iterable[ShardEntry]) -> None:
    """Remove the files of shards, and first the manifest that lists them, if it was written before an interrupt."""
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for shard in shards:
        for file in shard.files:
            (folder / file.name).unlink(missing_ok=True)


def split_batch(batch: DocumentBatch, capacity: int | None) -> tuple[DocumentBatch, DocumentBatch | None]:
    """Split a batch after the first document that ends at `capacity` ids or later; None if nothing remains.

    >>> batch = DocumentBatch(np.arange(6), np.array([2, 3, 1]), True, True, None)
    >>> [part.lengths.tolist() for part in split_batch(batch, 3)]
    [[2, 3], [1]]
    """
    if capacity is None:
        return batch, None
    ends = np.cumsum(batch.lengths)
    count = int(np.searchsorted(ends, capacity)) + 1
    if count >= len(ends):
        return batch, None
    boundary = int(ends[count - 1])
    masks = (None, None) if batch.mask is None else (batch.mask[:boundary], batch.mask[boundary:])
    return (
        DocumentBatch(batch.ids[:boundary], batch.lengths[:count], batch.begins_document, True, masks[0]),
        DocumentBatch(batch.ids[boundary:], batch.lengths[count:], True, batch.ends_document, masks[1]),
    )


def _find_largest_id(documents: DocumentsLike, masks: bool) -> int:
    """Find the largest id in documents that can be read twice."""
    if iter(documents) is documents:
        raise ValueError("documents is an iterator, which is read once; pass largest_id, such as tok.n_vocab - 1")
    return max((int(ids.max(initial=0)) for ids, _ in _read_documents(documents, masks)), default=0)


def _read_documents(documents: DocumentsLike, masks: bool) -> Iterator[tuple[NDArray[Any], NDArray[np.uint8] | None]]:
    """Yield the ids and the mask of each document."""
    document: Any
    for index, document in enumerate(documents):
        if masks:
            if not isinstance(document, tuple) or len(document) != 2:
                raise TypeError(f"document {index} is {short_repr(document)}; with masks=True it must be (ids, mask)")
            ids, mask = as_id_array(document[0]), np.asarray(document[1])
            if mask.shape != ids.shape or (
                mask.size and (mask.dtype.kind not in "iub" or mask.min() < 0 or mask.max() > 255)
            ):
                rule = "the mask must be as long as the ids, with values from 0 to 255"
                raise ValueError(f"document {index} has {len(ids)} ids and the mask {short_repr(document[1])}; {rule}")
            yield ids, mask.astype(np.uint8)
        elif isinstance(document, TokenBatch):
            for ids in document:
                yield ids, None
        else:
            yield as_id_array(document), None


def gather_batches(documents: DocumentsLike, masks: bool) -> Iterator[DocumentBatch]:
    """Gather documents into batches."""
    parts: list[Any] = []
    mask_parts: list[Any] = []
    lengths: list[int] = []
    size = 0

    def join_parts() -> DocumentBatch:
        ids = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)
        mask = np.concatenate(mask_parts) if mask_parts else np.empty(0, dtype=np.uint8)
        return DocumentBatch(ids, np.array(lengths, dtype=np.int64), True, True, mask if masks else None)

    for ids, mask in _read_documents(documents, masks):
        parts.append(ids)
        lengths.append(len(ids))
        if mask is not None:
            mask_parts.append(mask)
        size += lengths[-1] + 16  # empty documents take memory, too
        if size >= _BATCH_IDS:
            yield join_parts()
            parts, mask_parts, lengths, size = [], [], [], 0
    if lengths:
        yield join_parts()


# The end-of-text id of documents --------------------------------------------------------------------------------------


@dataclass
class EndOfTextPlacer:
    """Puts the id where the format has it, in batches of consecutive documents, which it gets in order.

    A format that finds documents by the id alone (nanogpt: after each, llmc: before each) gets it once at that end of
    each document, and nowhere else: it is added where it is missing, and removed from the other end. A document with
    the id inside would be read back as several, so it is refused. Formats that record where documents begin hold any
    document.

    Attributes:
        shard_format: the format, which has the id before or after each document.
        token_id: the id.
        fix: what to do about an id inside a document, for the error; None allows it.
        has_changed_ids: whether an id was added or removed so far.

    >>> from bpe.data.formats import SHARD_FORMATS
    >>> batch = DocumentBatch(np.array([5, 6, 9, 7]), np.array([3, 1]), True, True, None)
    >>> [EndOfTextPlacer(SHARD_FORMATS[name], 9, "").place(batch).ids.tolist() for name in ("nanogpt", "llmc")]
    [[5, 6, 9, 7, 9], [9, 5, 6, 9, 7]]

    """

    shard_format: ShardFormat
    token_id: int
    fix: str | None
    has_changed_ids: bool = False
    _documents: int = 0  # before the batch

    def place(self, batch: DocumentBatch) -> DocumentBatch:
        """Place the id before or after each document of a batch."""
        is_before, n_documents = self.shard_format.end_of_text_sides[0], len(batch.lengths)
        lengths, offsets = np.array(batch.lengths), compute_offsets(batch.lengths)
        is_missing, is_superfluous = self._find_edits(batch, offsets)
        self._documents += n_documents - (n_documents > 0 and not batch.ends_document)
        if not is_missing.any() and not is_superfluous.any():
            return batch
        self.has_changed_ids = True
        lengths += is_missing
        lengths -= is_superfluous
        insert_positions = (offsets[:-1] if is_before else offsets[1:])[is_missing]
        removed_positions = (offsets[1:] - 1 if is_before else offsets[:-1])[is_superfluous]
        ids = np.asarray(batch.ids)
        if self.token_id > np.iinfo(ids.dtype).max:
            ids = ids.astype(np.int64)
        ids = self._edit_values(ids, removed_positions, insert_positions, self.token_id)
        mask = None if batch.mask is None else self._edit_values(batch.mask, removed_positions, insert_positions, 1)
        return DocumentBatch(ids, lengths, batch.begins_document, batch.ends_document, mask)

    def _find_edits(
        self, batch: DocumentBatch, offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Find the documents that lack the id at its end, and those that have it at the other end, where it may not be.

        Returns:
            Two arrays of a bool for each document.

        """
        is_before, n_documents = self.shard_format.end_of_text_sides[0], len(batch.lengths)
        begins, ends = np.ones(n_documents, dtype=np.bool_), np.ones(n_documents, dtype=np.bool_)
        if n_documents:
            begins[0], ends[-1] = batch.begins_document, batch.ends_document
        is_marker: NDArray[np.bool_] = np.asarray(batch.ids) == self.token_id
        first_positions, last_positions = offsets[:-1], offsets[1:] - 1
        has_first = _has_token_at(is_marker, first_positions, begins & (batch.lengths > 0))
        has_last = _has_token_at(is_marker, last_positions, ends & (batch.lengths > 0))
        at_own_end, at_other_end = (has_first, has_last) if is_before else (has_last, has_first)
        at_other_end &= ~(at_own_end & (batch.lengths == 1))  # one id is at both ends
        is_missing = (begins if is_before else ends) & ~at_own_end
        if "documents" in self.shard_format.features:
            return is_missing, np.zeros(n_documents, dtype=np.bool_)
        is_inside = is_marker.copy()
        is_inside[(first_positions if is_before else last_positions)[at_own_end]] = False
        is_inside[(last_positions if is_before else first_positions)[at_other_end]] = False
        self._refuse_inside(is_inside, offsets)
        return is_missing, at_other_end

    @staticmethod
    def _edit_values(
        values: NDArray[Any], removed: NDArray[np.int64], positions: NDArray[np.int64], new_value: int
    ) -> Any:
        """Remove some values, and insert a new one before each of these positions."""
        if len(removed):
            positions = positions - np.searchsorted(removed, positions)
            values = np.delete(values, removed)
        return np.insert(values, positions, new_value)

    def _refuse_inside(self, is_inside: NDArray[np.bool_], offsets: NDArray[np.int64]) -> None:
        if self.fix is not None and is_inside.any():
            row = int(np.searchsorted(offsets, int(is_inside.argmax()), side="right")) - 1
            raise ValueError(
                f"document {self._documents + row} has the end-of-text id {self.token_id} inside, where "
                f"{self.shard_format.name} shards would end it; {self.fix}"
            )


def _has_token_at(
    is_token: NDArray[np.bool_], positions: NDArray[np.int64], rows: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Check whether the ids at the positions of some rows are end-of-text ids; False for other rows."""
    has_token = np.zeros(len(rows), dtype=np.bool_)
    has_token[rows] = is_token[positions[rows]]
    return has_token
