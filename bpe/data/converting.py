"""`convert_shards`: shards of one format from shards of another, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bpe.data.finding import FoundFolder, FoundShard, find_shards
from bpe.data.formats import FORMATS
from bpe.data.formats.reading import DocumentBatch, Shard
from bpe.data.formats.shard_format import ShardFormat, ShardInfo
from bpe.data.manifest import Manifest, ShardEntry, copy_tokenizer, is_inner_path
from bpe.data.writing import EndOfText, mark_unfinished, refuse_finished, remove_shards, write_batches
from bpe.errors import FormatError, check_choice, check_int

#: Shards are copied in batches of at most this many ids.
_BATCH = 1 << 20
#: What to do about a document with an end-of-text id inside.
_FIX = "choose a format that records where documents begin, such as native, or pass drop_boundaries=True"


def convert_shards(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    format: str = "native",  # noqa: A002 (the command line's word)
    *,
    shard_size: int | None = None,
    largest_id: int | None = None,
    end_of_text: int | str | None = None,
    drop_boundaries: bool = False,
    drop_masks: bool = False,
) -> Manifest:
    """Write the shards of a folder or file in another format.

    The documents keep their order and, but for `end_of_text`, their ids. The manifest's facts about tokenizer, sources
    and options, and the copy of the tokenizer, go with them. What the new format has no place for is refused; the error
    names the argument that drops it. (dolma's columns `id`, `src` and `loc` are written anew.)

    Args:
        source: a folder of shards, with or without a manifest, or one file, in any format.
        out: the folder for the new shards, made if absent. It must not hold a manifest.
        format: the new format.
        shard_size: a new shard begins once a shard has this many tokens. None: each shard becomes one shard; for
            nanogpt, all shards become `train.bin`, and those of a validation split `val.bin`.
        largest_id: the largest id that may occur, which decides the dtype. None: it is found by reading all ids once.
        end_of_text: the id that separates documents in nanogpt (after each) and llmc (before each), or the name of
            the special token, if the shards have a copy of their tokenizer. Shards of these formats are divided into
            documents by it, which keep it; in these formats, each document is written with it at that end and without
            it at the other, whether it had the id at either end, at both or at none. A document with the id inside is
            refused. Formats that record where documents begin get the documents as they are.
        drop_boundaries: whether the boundaries of documents may be lost, or, if they are lost already, each shard may
            become one document; with `end_of_text`, whether documents may have the id inside.
        drop_masks: whether loss masks may be lost.

    Returns:
        The new manifest, as written to `out/manifest.json`.

    Raises:
        ValueError: for ids, lengths or counts that the new format cannot hold, and for what would be lost.
        FormatError: for damaged shards.
        OSError: for a file that cannot be read or written.

    >>> import tempfile
    >>> from bpe.data import TokenShards, write_shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_shards([[1, 2, 3], [4, 0]], f"{folder}/native")
    ...     _ = convert_shards(f"{folder}/native", f"{folder}/megatron", "megatron")
    ...     [ids.tolist() for ids in TokenShards(f"{folder}/megatron").documents]
    [[1, 2, 3], [4, 0]]

    """
    shard_format = FORMATS[check_choice("format", format, tuple(FORMATS))]
    if shard_size is not None:
        shard_size = check_int("shard_size", shard_size, 1)
    path = Path(source)
    found = find_shards(path, "all" if path.is_dir() else None)
    end_of_text = found.end_of_text_id(path, end_of_text)
    shards = [FORMATS[found.format].open(shard_found.path, end_of_text=end_of_text) for shard_found in found.shards]
    masks = _decide_masks(path, shards, shard_format, drop_masks)
    _check_boundaries(found.format, shard_format, end_of_text, drop_boundaries)
    if largest_id is None:
        largest_id = max((_find_largest(shard) for shard in shards), default=0)
    largest_id = check_int("largest_id", largest_id, 0)
    dtype = shard_format.dtype(max(largest_id, end_of_text or 0))
    folder = Path(out)
    refuse_finished(folder)
    for shard_found in found.shards:
        if not is_inner_path(shard_found.stem):
            raise ValueError(f"{str(shard_found.path)!r} has a name that no manifest can have: rename it")
    if any(shard_found.path.parent.resolve() == folder.resolve() for shard_found in found.shards):
        raise ValueError(f"out is the source's folder, {folder}; give another one")
    placing = None
    if end_of_text is not None and "documents" not in shard_format.holds:
        placing = EndOfText(shard_format, end_of_text, None if drop_boundaries else _FIX)
    conversion = _Conversion(found, shards, shard_format, folder, dtype, masks, shard_size, placing)
    return conversion.run(path)


def _add_starts(written: list[ShardEntry], found: FoundFolder, changes: bool) -> list[ShardEntry]:
    """The entries of shards that were converted one to one, with their starts in the sources."""
    starts = [None if changes or shard.entry is None else shard.entry.start for shard in found.shards]
    return [replace(entry, start=start) for entry, start in zip(written, starts, strict=True)]


def _decide_masks(path: Path, shards: list[Shard], shard_format: ShardFormat, drop: bool) -> bool:
    """Whether masks are written; ValueError if they would be lost without `drop_masks`."""
    with_masks = {shard.has_masks for shard in shards}
    if len(with_masks) > 1:
        raise FormatError("some of its shards have loss masks and some have none", path=path)
    masks = True in with_masks
    if masks and "masks" not in shard_format.holds and not drop:
        raise ValueError(
            f"the shards have loss masks, which {shard_format.name} cannot hold; pass drop_masks=True, or choose "
            "native, datatrove, parquet or arrow"
        )
    return masks and not drop


def _check_boundaries(source: str, shard_format: ShardFormat, end_of_text: int | None, drop: bool) -> None:
    """Refuse to lose the boundaries of documents, or to make each shard one document, without a word."""
    if end_of_text is not None or drop:
        return
    if "documents" not in FORMATS[source].holds and (shard_format.name != source):
        raise ValueError(
            f"{source} shards do not record where documents begin; pass end_of_text, the id or the name of the "
            "token that separates them, or drop_boundaries=True to take each shard as one document"
        )
    if "documents" not in shard_format.holds and shard_format.name != source:
        raise ValueError(
            f"{shard_format.name} shards do not record where documents begin; pass end_of_text, the id or the name of "
            "the token to separate them with, or drop_boundaries=True"
        )


def _find_largest(shard: Shard) -> int:
    """The largest id of a shard."""
    return max((int(batch.ids.max(initial=0)) for batch in shard.batches(_BATCH)), default=0)


def _group_shards(
    found: list[FoundShard], shards: list[Shard], shard_size: int | None, shard_format: str
) -> Iterator[tuple[str, str | None, list[Shard]]]:
    """(stem, split, shards) of what becomes one shard, or one sequence of shards of the new size."""
    splits = [place.split for place in found]
    whole = shard_size is None and shard_format == "nanogpt"  # nanoGPT opens train.bin and val.bin
    if shard_size is None and not whole:
        for place, shard in zip(found, shards, strict=True):
            yield place.stem, place.split, [shard]
        return
    for split in dict.fromkeys(splits):
        group = [shard for shard, own in zip(shards, splits, strict=True) if own == split]
        yield split or ("train" if whole else "tokens"), split, group


def _move_entry(entry: ShardEntry, folder: PurePosixPath) -> ShardEntry:
    """The entry of a shard in a folder below the manifest's."""
    files = tuple(replace(file, name=str(folder / file.name)) for file in entry.files)
    return replace(entry, stem=str(folder / entry.stem), files=files)


@dataclass
class _Conversion:
    """Writes the shards of one call.

    Attributes:
        found, shards: the source's.
        shard_format, folder, dtype, masks, shard_size: of the new shards.
        placing: puts the end-of-text id where the new format has it; None where documents stay as they are.

    """

    found: FoundFolder
    shards: list[Shard]
    shard_format: ShardFormat
    folder: Path
    dtype: np.dtype[Any]
    masks: bool
    shard_size: int | None
    placing: EndOfText | None

    def run(self, source: Path) -> Manifest:
        """Write everything; after an error, nothing remains."""
        old = self.found.manifest or Manifest(self.found.format, self.dtype.name, ())
        info = ShardInfo(str(old.tokenizer.get("fingerprint", "unknown")))
        with mark_unfinished(self.folder, self._make_header(source)):
            written: list[ShardEntry] = []
            try:
                with ExitStack() as inner_folders:
                    self._write(written, info, inner_folders, source)
                changes = self.placing is not None and self.placing.changes
                if self.shard_size is None and len(written) == len(self.found.shards):
                    written = _add_starts(written, self.found, changes)
                tokenizer = copy_tokenizer(old.tokenizer, source, self.folder)
                sources = {} if changes else old.sources
                facts = self.masks, tokenizer, sources, old.options, old.skipped
                new = Manifest(self.shard_format.name, self.dtype.name, tuple(written), *facts)
                new.write(self.folder)
            except BaseException:
                remove_shards(self.folder, written)
                raise
        return new

    def _make_header(self, source: Path) -> dict[str, Any]:
        """What determines the new shards."""
        files = [[ascii(path), path.stat().st_size] for shard in self.shards for path in shard.files]
        end_of_text = None if self.placing is None else self.placing.token_id
        options = {
            "writer": "convert_shards",
            "format": self.shard_format.name,
            "dtype": self.dtype.name,
            "masks": self.masks,
        }
        options |= {"shard_size": self.shard_size, "end_of_text": end_of_text}
        return {"options": options, "sources": {"path": ascii(os.path.realpath(source)), "files": files}}

    def _write(self, written: list[ShardEntry], info: ShardInfo, inner_folders: ExitStack, source: Path) -> None:
        """Write the shards of each group, and append their entries to `written`."""
        sizes: dict[str, Any] = {"shard_size": self.shard_size, "numbered": self.shard_size is not None}
        marked = {PurePosixPath()}
        for stem, split, shards in _group_shards(
            self.found.shards, self.shards, self.shard_size, self.shard_format.name
        ):
            inner, name = PurePosixPath(stem).parent, PurePosixPath(stem).name
            if inner not in marked:
                inner_folders.enter_context(mark_unfinished(self.folder / inner, self._make_header(source)))
                marked.add(inner)
            facts = replace(info, first_document=sum(entry.documents for entry in written))
            names: dict[str, Any] = {"stem": name, "split": split, "info": facts}
            batches, place = self._read_batches(shards), self.folder / inner
            new = write_batches(batches, self.shard_format, place, self.dtype, masks=self.masks, **names, **sizes)
            written += (_move_entry(entry, inner) for entry in new)

    def _read_batches(self, shards: Iterable[Shard]) -> Iterator[DocumentBatch]:
        """The documents of some shards, as they are to be written."""
        for shard in shards:
            for batch in shard.batches(_BATCH):
                mask = batch.mask if self.masks else None
                kept = DocumentBatch(batch.ids, batch.lengths, batch.begins, batch.ends, mask)
                yield kept if self.placing is None else self.placing.place(kept)
