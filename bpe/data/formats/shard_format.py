"""What a shard format is: one description for each, and the writer that all formats share.

A format is a row of the table `SHARD_FORMATS` (`__init__.py`): its files, dtypes and features, a writer and a reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpe.base.atomic_files import sync_folder
from bpe.data.formats._file_writer import FileTarget, find_document_ends
from bpe.data.formats.files import ONE_THREAD, ShardFile, Spool, WriterThreads, WrittenFile
from bpe.data.formats.reading import Shard, split_by_token
from bpe.errors import check_int, ignore_system_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Facts about a shard that some formats store beside the ids.

    Attributes:
        tokenizer: the tokenizer's name or fingerprint, without line breaks (datatrove).
        source: where the documents come from (dolma's column `src`).
        first_document: the number of the shard's first document in the corpus (dolma's columns `id` and `loc`).

    """

    tokenizer: str = "unknown"
    source: str = ""
    first_document: int = 0


@dataclass(frozen=True, slots=True)
class ShardFormat:
    """One format of shards.

    Attributes:
        name: the name, as in `--format`.
        dtypes: the dtypes of ids, the smallest first.
        suffixes: the ends of the names of a shard's files, the main one first; the second file makes the shard valid.
        make_writer: makes a `ShardWriter` of the arguments of `open_writer`.
        open_file: called as open_file(path, validate): opens a shard by the path of its main file.
        features: what the format stores beside the ids: "documents", "masks".
        mask_suffix: the end of the name of the file with loss masks; "" where the main file has them.
        header_size: the size in bytes of the header of each file, which has counts and is written last.
        has_row_groups: whether documents are gathered to row groups, which several threads encode.
        compresses: whether row groups are compressed, which takes about as long as encoding texts.
        end_of_text_sides: whether the format by convention has the end-of-text id (before, after) each document.

    """

    name: str
    dtypes: tuple[str, ...]
    suffixes: tuple[str, ...]
    make_writer: Callable[..., ShardWriter]
    open_file: Callable[[Path, bool], Shard]
    features: frozenset[str] = frozenset({"documents"})
    mask_suffix: str = ""
    header_size: int = 0
    has_row_groups: bool = False
    compresses: bool = False
    end_of_text_sides: tuple[bool, bool] = (False, False)

    def choose_dtype(self, largest_id: int) -> np.dtype[Any]:
        """Choose the smallest dtype of the format that holds ids up to `largest_id`; ValueError if none does."""
        largest_id = check_int("largest_id", largest_id, 0)
        for dtype in self.dtypes:
            if largest_id <= np.iinfo(dtype).max:
                return np.dtype(dtype)
        max_id = np.iinfo(self.dtypes[-1]).max
        larger = "" if max_id > 0xFFFF else "; formats with 32-bit ids, such as native, hold it"
        raise ValueError(f"the largest id is {largest_id}; {self.name} shards hold ids up to {max_id}{larger}")

    def name_files(self, stem: str, *, masks: bool = False) -> tuple[str, ...]:
        """Name a shard's files, the main one first; ValueError for masks that the format cannot hold."""
        if masks and "masks" not in self.features:
            raise ValueError(
                f"{self.name} shards cannot hold loss masks; native, datatrove, parquet and arrow shards can"
            )
        suffixes = (*self.suffixes, self.mask_suffix) if masks and self.mask_suffix else self.suffixes
        return tuple(stem + suffix for suffix in suffixes)

    def open_writer(
        self,
        folder: Path,
        stem: str,
        dtype: np.dtype[Any],
        *,
        masks: bool = False,
        info: ShardInfo = ShardInfo(),
        threads: WriterThreads = ONE_THREAD,
    ) -> ShardWriter:
        """Start a shard whose files begin with `stem`, in an existing folder; `dtype` comes from `choose_dtype`."""
        writer = self.make_writer(self, folder, stem, dtype, masks=masks, info=info, threads=threads)
        try:
            writer.begin()
        except BaseException:
            writer.discard()
            raise
        return writer

    def open(self, path: Path, *, end_of_text: int | None = None, validate: bool = True) -> Shard:
        """Open a shard by the path of its main file.

        A shard of a format that does not record documents is divided at `end_of_text`; without it, it is one document.

        Raises:
            FormatError: for a file that does not have this format.

        """
        shard = self.open_file(path, validate)
        if end_of_text is None or shard.has_boundaries:
            return shard
        return split_by_token(shard, end_of_text, is_before=self.end_of_text_sides[0])


class ShardWriter:
    """Writes one shard, checks what it gets, and keeps count. Memory is bounded: all goes to temporary files.

    A format whose files are no plain arrays overrides `_write_ends`, `_make_headers` or `_write`.

    Args:
        shard_format: the format.
        folder, stem, dtype, masks, info, threads: as for `ShardFormat.open_writer`.

    Attributes:
        n_tokens, n_documents: the numbers written so far; a document counts when it is complete.

    """

    #: The largest numbers of tokens in a shard and in a document.
    max_tokens = max_document = (1 << 63) - 1
    #: Whether `open_target` may be used: the first file has the ids and nothing else, and the others take little time.
    takes_targets = True

    def __init__(
        self,
        shard_format: ShardFormat,
        folder: Path,
        stem: str,
        dtype: np.dtype[Any],
        *,
        masks: bool,
        info: ShardInfo,
        threads: WriterThreads,
    ) -> None:
        self.n_tokens = self.n_documents = 0
        self._shard_format, self._dtype, self._masks, self._info = shard_format, dtype, masks, info
        self._threads = threads
        self._stale_mask_path = (
            None if masks or not shard_format.mask_suffix else folder / f"{stem}{shard_format.mask_suffix}"
        )
        self._last_end = 0  # of the last complete document
        self._has_open_document = False
        self._files: list[ShardFile] = []  # in the order of their renaming: the second of `suffixes` is the last
        self._spools: list[Spool] = []
        main, *other_names = shard_format.name_files(stem, masks=masks)
        try:
            for name in (main, *reversed(other_names)):
                self._files.append(ShardFile(folder / name, shard_format.header_size, threads.team))
        except BaseException:
            self.discard()
            raise

    def _start_spool(self, dtype: str) -> Spool:
        """Start a temporary file of numbers, which ends with the writer."""
        try:
            self._spools.append(Spool(self._files[0].path.parent, dtype))
        except BaseException:
            self.discard()
            raise
        return self._spools[-1]

    def write(
        self,
        ids: NDArray[Any],
        lengths: NDArray[np.int64],
        *,
        begins_document: bool = True,
        ends_document: bool = True,
        mask: NDArray[np.uint8] | None = None,
        target: FileTarget | None = None,
    ) -> None:
        """Write documents: `ids` of all of them, and the number of ids of each.

        With `begins_document=False` the first document continues the last one of the previous call; with
        `ends_document=False` the last one continues in the next call. `mask` has one byte for each id (0: no loss for
        this token). The first ids are those that `target`, from `open_target`, has written; `ids` has the others.

        Raises:
            ValueError: for ids, lengths or counts that the format cannot hold; the shard is as before then.
            OSError: for a write error, such as a full disk; it names the file.

        """
        n_ids = len(ids) + (0 if target is None else target.n_ids)
        ends = self._check_documents(ids, n_ids, lengths, begins_document, mask)
        if not len(lengths):
            return
        complete_ends = ends if ends_document else ends[:-1]
        if target is not None:
            self._files[0].add_target(target)
        self._write(ids, complete_ends, mask)
        self.n_tokens += n_ids
        if len(complete_ends):
            self._last_end = int(complete_ends[-1])
            self.n_documents += len(complete_ends)
        self._has_open_document = not ends_document

    def open_target(self, max_ids: int) -> FileTarget:
        """Open a target for the ids of the next call of `write`, less than `max_ids` of them."""
        return self._files[0].open_target(self._dtype, max_ids, self._threads.team.size)

    @property
    def is_empty(self) -> bool:
        """Whether no document was written, not even a part of one."""
        return not (self.n_documents or self._has_open_document)

    def finish(self) -> list[WrittenFile]:
        """Write everything to the disk, and rename the files into place, the one that makes the shard valid last."""
        if self._has_open_document:
            raise ValueError("the last document is not complete; write the rest of it with begins_document=False first")
        committed_paths: list[Path] = []
        written_files = []
        try:
            for file, header in zip(self._files, self._make_headers(), strict=True):
                file.sync(header)
            for file in self._files:
                written_files.append(file.commit())
                committed_paths.append(file.path)
            sync_folder(self._files[0].path.parent)
            for spool in self._spools:
                spool.discard()
        except BaseException:
            for path in committed_paths:  # part of a shard is no shard
                with ignore_system_errors():
                    path.unlink()
            self.discard()
            raise
        if self._stale_mask_path is not None:  # of a replaced shard of the same name
            self._stale_mask_path.unlink(missing_ok=True)
        return written_files

    def discard(self) -> None:
        """Remove the temporary files. Does nothing after `finish`."""
        for file in self._files:
            file.discard()
        for spool in self._spools:
            spool.discard()

    # What formats override ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Write the beginning of the files, by default nothing."""

    def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], mask: NDArray[np.uint8] | None) -> None:
        """Write ids, by default to the first file, and their mask, to the second.

        `ends` are the positions in the shard where documents end, without one that continues in the next call.
        """
        self._files[0].write_array(ids, self._dtype)
        if mask is not None:
            self._files[1].write_array(mask, mask.dtype)
        if len(ends):
            self._write_ends(ends)

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        """Record documents that are complete, by the positions of their ends."""

    def _make_headers(self) -> list[bytes]:
        """Write what remains, and return the headers of the files."""
        return [b""] * len(self._files)

    def _check_mask(self, mask: NDArray[np.uint8]) -> None:
        """Refuse a mask that the format cannot hold."""

    # Checks -----------------------------------------------------------------------------------------------------------

    def _check_documents(
        self,
        ids: NDArray[Any],
        n_ids: int,
        lengths: NDArray[np.int64],
        begins_document: bool,
        mask: NDArray[np.uint8] | None,
    ) -> NDArray[np.int64]:
        """Check the arguments of `write` before anything is written; returns the positions of the documents' ends."""
        if mask is not None:
            self._check_mask(mask)
        if begins_document == self._has_open_document and len(lengths):
            state = "is not" if self._has_open_document else "is"
            raise ValueError(
                f"begins_document is {begins_document}, but the last document {state} complete; see ShardWriter.write"
            )
        ends, min_length = find_document_ends(np.ascontiguousarray(lengths, dtype=np.int64), self.n_tokens)
        total = int(ends[-1]) - self.n_tokens if len(ends) else 0
        if total != n_ids or min_length < 0:
            raise ValueError(f"the lengths add up to {total}, but there are {n_ids} ids; they must be equal")
        if self._masks != (mask is not None) and len(lengths):
            state_of_call = "has none" if self._masks else "has one"
            raise ValueError(
                f"the shard {'has' if self._masks else 'has no'} loss masks, but this call {state_of_call}"
            )
        if mask is not None and (len(mask) != len(ids) or mask.dtype != np.uint8):
            raise ValueError(f"the mask is {mask.dtype}, {len(mask)} long; it must be uint8, {len(ids)} long")
        self._check_limits(n_ids, ends)
        return ends

    def _check_limits(self, n_ids: int, ends: NDArray[np.int64]) -> None:
        """Refuse counts that the format cannot hold."""
        if self.n_tokens + n_ids > self.max_tokens:
            raise ValueError(
                f"the shard would have {self.n_tokens + n_ids} tokens; {self._shard_format.name} files hold at most "
                f"{self.max_tokens}: pass a shard size"
            )
        if len(ends) and int(ends[-1]) - self._last_end > self.max_document:
            max_length = int(np.diff(ends, prepend=self._last_end).max())
            if max_length > self.max_document:
                raise ValueError(
                    f"a document has {max_length} tokens or more; {self._shard_format.name} holds documents of at most "
                    f"{self.max_document}: use native"
                )
