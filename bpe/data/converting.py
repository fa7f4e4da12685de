"""`convert_shards`: shards of one format from shards of another, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bpe.data.finding import ListedShard, ShardListing, find_shards
from bpe.data.formats import SHARD_FORMATS
from bpe.data.formats.reading import DocumentBatch, Shard, have_masks
from bpe.data.formats.shard_format import ShardFormat, ShardInfo
from bpe.data.journal import move_base
from bpe.data.manifest import (
    SIZE_OPTIONS,
    Manifest,
    ShardEntry,
    copy_tokenizer,
    is_inner_path,
    list_additions,
    move_entry,
)
from bpe.data.writing import EndOfTextPlacer, mark_unfinished, refuse_finished, remove_shards, write_batches
from bpe.errors import check_bool, check_choice, check_int

#: Shards are copied in batches of at most this many ids.
_BATCH_IDS = 1 << 20
#: What to do about a document with an end-of-text id inside.
_BOUNDARY_ADVICE = "choose a format that records where documents begin, such as native, or pass drop_boundaries=True"


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
    and options, and the copy of the tokenizer, go with them; those about the sources only while the new documents are
    those that were encoded, and the sizes and the number of shards only while the shards are the same. What the new
    format has no place for is refused; the error names the argument that drops it. (dolma's columns `id`, `src` and
    `loc` are written anew.)

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
    shard_format = SHARD_FORMATS[check_choice("format", format, tuple(SHARD_FORMATS))]
    check_bool("drop_boundaries", drop_boundaries)
    check_bool("drop_masks", drop_masks)
    if shard_size is not None:
        shard_size = check_int("shard_size", shard_size, 1)
    source_path = Path(source)
    listing = find_shards(source_path, "all" if source_path.is_dir() else None)
    end_of_text = listing.resolve_end_of_text(source_path, end_of_text)
    shards = [
        SHARD_FORMATS[listing.format].open(listed_shard.path, end_of_text=end_of_text)
        for listed_shard in listing.shards
    ]
    masks = _choose_masks(source_path, shards, shard_format, drop_masks)
    _check_boundaries(listing.format, shard_format, end_of_text, drop_boundaries)
    if largest_id is None:
        largest_id = max((_find_largest_id(shard) for shard in shards), default=0)
    largest_id = check_int("largest_id", largest_id, 0)
    dtype = shard_format.choose_dtype(max(largest_id, end_of_text or 0))
    folder = Path(out)
    refuse_finished(folder)
    for listed_shard in listing.shards:
        if not is_inner_path(listed_shard.stem):
            raise ValueError(f"{str(listed_shard.path)!r} has a name that no manifest can have: rename it")
    if any(listed_shard.path.parent.resolve() == folder.resolve() for listed_shard in listing.shards):
        raise ValueError(f"out is the source's folder, {folder}; give another one")
    placer = None
    if end_of_text is not None and "documents" not in shard_format.features:
        placer = EndOfTextPlacer(shard_format, end_of_text, None if drop_boundaries else _BOUNDARY_ADVICE)
    conversion = _Conversion(
        source_path=source_path,
        listing=listing,
        shards=shards,
        shard_format=shard_format,
        folder=folder,
        dtype=dtype,
        masks=masks,
        shard_size=shard_size,
        end_of_text=end_of_text,
        placer=placer,
    )
    return conversion.run()


def _choose_masks(path: Path, shards: list[Shard], shard_format: ShardFormat, drop: bool) -> bool:
    """Decide whether masks are written; ValueError if they would be lost without `drop_masks`."""
    masks = have_masks(shards, path)
    if masks and "masks" not in shard_format.features and not drop:
        raise ValueError(
            f"the shards have loss masks, which {shard_format.name} cannot hold; pass drop_masks=True, or choose "
            "native, datatrove, parquet or arrow"
        )
    return masks and not drop


def _check_boundaries(source_format: str, shard_format: ShardFormat, end_of_text: int | None, drop: bool) -> None:
    """Refuse to lose the boundaries of documents, or to make each shard one document, unless `drop` allows it."""
    if end_of_text is not None or drop:
        return
    if "documents" not in SHARD_FORMATS[source_format].features and (shard_format.name != source_format):
        raise ValueError(
            f"{source_format} shards do not record where documents begin; pass end_of_text, the id or the name of the "
            "token that separates them, or drop_boundaries=True to take each shard as one document"
        )
    if "documents" not in shard_format.features and shard_format.name != source_format:
        raise ValueError(
            f"{shard_format.name} shards do not record where documents begin; pass end_of_text, the id or the name of "
            "the token to separate them with, or drop_boundaries=True"
        )


def _find_largest_id(shard: Shard) -> int:
    """Find the largest id of a shard."""
    return max((int(batch.ids.max(initial=0)) for batch in shard.batches(_BATCH_IDS)), default=0)


def _group_shards(
    listed_shards: list[ListedShard], shards: list[Shard], shard_size: int | None, format_name: str
) -> Iterator[tuple[str, ListedShard, list[Shard]]]:
    """Yield what becomes one shard, or one sequence of shards of the new size: its stem, the first shard, and all."""
    joins_shards = shard_size is None and format_name == "nanogpt"  # nanoGPT opens train.bin and val.bin
    if shard_size is None and not joins_shards:
        for listed_shard, shard in zip(listed_shards, shards, strict=True):
            yield listed_shard.stem, listed_shard, [shard]
        return
    for split in dict.fromkeys(listed_shard.split for listed_shard in listed_shards):
        group = [pair for pair in zip(listed_shards, shards, strict=True) if pair[0].split == split]
        yield split or ("train" if joins_shards else "tokens"), group[0][0], [shard for _, shard in group]


@dataclass(kw_only=True)
class _Conversion:
    """Writes the shards of one call.

    Attributes:
        source_path, listing, shards: the source, its shards as listed, and open.
        shard_format, folder, dtype, masks, shard_size: of the new shards.
        end_of_text: the id that divides shards without boundaries into documents; None if there is none.
        placer: puts the end-of-text id where the new format has it; None where documents stay as they are.

    """

    source_path: Path
    listing: ShardListing
    shards: list[Shard]
    shard_format: ShardFormat
    folder: Path
    dtype: np.dtype[Any]
    masks: bool
    shard_size: int | None
    end_of_text: int | None
    placer: EndOfTextPlacer | None

    def run(self) -> Manifest:
        """Write everything; after an error, nothing remains."""
        source_manifest = self.listing.manifest or Manifest(self.listing.format, self.dtype.name, ())
        shard_info = ShardInfo(str(source_manifest.tokenizer.get("fingerprint", "unknown")))
        with mark_unfinished(self.folder, self._make_header()):
            entries: list[ShardEntry] = []
            try:
                with ExitStack() as inner_folders:
                    self._write(entries, shard_info, inner_folders)
                sources = self._select_sources(source_manifest, sum(entry.documents for entry in entries))
                if not sources:
                    entries[:] = [replace(entry, start=None) for entry in entries]
                tokenizer = copy_tokenizer(source_manifest.tokenizer, self.source_path, self.folder)
                manifest = Manifest(
                    self.shard_format.name,
                    self.dtype.name,
                    tuple(entries),
                    masks=self.masks,
                    tokenizer=tokenizer,
                    sources=sources,
                    options=self._select_options(source_manifest, [entry.stem for entry in entries]),
                    skipped=source_manifest.skipped,
                    damaged_files=source_manifest.damaged_files,
                )
                manifest.write(self.folder)
            except BaseException:
                remove_shards(self.folder, entries)
                raise
        return manifest

    def _select_sources(self, manifest: Manifest, n_documents: int) -> dict[str, Any]:
        """Return the source manifest's facts about the sources; {} if the new documents are not those of the sources.

        Where documents were divided by the end-of-text id, they are the same if each of them was written with it, and
        there are as many.
        """
        has_boundaries = "documents" in SHARD_FORMATS[self.listing.format].features
        needs_boundaries = "documents" in self.shard_format.features
        ids_changed = self.placer is not None and self.placer.has_changed_ids
        if ids_changed or list_additions(manifest):
            return {}
        if needs_boundaries and not has_boundaries:
            is_before = SHARD_FORMATS[self.listing.format].end_of_text_sides[0]
            written_id = manifest.options.get("prepend" if is_before else "append")
            if written_id is None or written_id != self.end_of_text or n_documents != manifest.documents:
                return {}
        return move_base(manifest.sources, self.source_path, self.folder)

    def _select_options(self, manifest: Manifest, stems: list[str]) -> dict[str, Any]:
        """Return the options of the source manifest, without those that only the old shards have."""
        if self.shard_size is None and stems == [shard.stem for shard in self.listing.shards]:
            return manifest.options
        return {key: value for key, value in manifest.options.items() if key not in SIZE_OPTIONS}

    def _make_header(self) -> dict[str, Any]:
        """Make the journal's header: what determines the new shards."""
        files = [[ascii(path), path.stat().st_size] for shard in self.shards for path in shard.files]
        end_of_text = None if self.placer is None else self.placer.token_id
        options = {
            "writer": "convert_shards",
            "format": self.shard_format.name,
            "dtype": self.dtype.name,
            "masks": self.masks,
        }
        options |= {"shard_size": self.shard_size, "end_of_text": end_of_text}
        return {"options": options, "sources": {"path": ascii(os.path.realpath(self.source_path)), "files": files}}

    def _write(self, entries: list[ShardEntry], shard_info: ShardInfo, inner_folders: ExitStack) -> None:
        """Write the shards of each group, and append their entries to `entries`."""
        sizes: dict[str, Any] = {"shard_size": self.shard_size, "numbered": self.shard_size is not None}
        marked_folders = {PurePosixPath()}
        for stem, first_shard, shards in _group_shards(
            self.listing.shards, self.shards, self.shard_size, self.shard_format.name
        ):
            inner_folder, name = PurePosixPath(stem).parent, PurePosixPath(stem).name
            if inner_folder not in marked_folders:
                inner_folders.enter_context(mark_unfinished(self.folder / inner_folder, self._make_header()))
                marked_folders.add(inner_folder)
            group_info = replace(shard_info, first_document=sum(entry.documents for entry in entries))
            names: dict[str, Any] = {"stem": name, "split": first_shard.split, "info": group_info}
            batches, target = self._read_batches(shards), self.folder / inner_folder
            new_entries = write_batches(
                batches, self.shard_format, target, self.dtype, masks=self.masks, **names, **sizes
            )
            moved_entries = [move_entry(entry, inner_folder) for entry in new_entries]
            if moved_entries and first_shard.entry is not None:
                moved_entries[0] = replace(moved_entries[0], start=first_shard.entry.start)
            entries += moved_entries

    def _read_batches(self, shards: Iterable[Shard]) -> Iterator[DocumentBatch]:
        """Yield the documents of some shards as the new shards have them."""
        for shard in shards:
            for batch in shard.batches(_BATCH_IDS):
                mask = batch.mask if self.masks else None
                new_batch = DocumentBatch(batch.ids, batch.lengths, batch.begins_document, batch.ends_document, mask)
                yield new_batch if self.placer is None else self.placer.place(new_batch)
