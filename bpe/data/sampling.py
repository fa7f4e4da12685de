"""Samples for `verify`: documents of shards, compared with the texts of the sources.

For shards in source order, the manifest has where in the sources each shard begins: the documents after that position
are encoded and compared one by one. Of shuffled shards, documents at the beginning of some files are sought in the
shard that their key belongs to.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.corpus.blocks import Position, document_cut
from bpe.corpus.sources import Sources
from bpe.data.formats import FORMATS
from bpe.data.manifest import NAME as MANIFEST
from bpe.data.manifest import Manifest, ShardEntry
from bpe.data.options import allowed_tokens, shard_count
from bpe.data.shuffling import bucket_of, document_keys
from bpe.data.splitting import content_hashes, is_validation
from bpe.errors import FormatError, counted
from bpe.tokenizer import Tokenizer
from bpe.vocab.special_tokens import Allowed

log = logging.getLogger("bpe")

#: The seed that picks samples.
_SEED = 0
#: The most shards, or files, that samples are taken from.
_PLACES = 16
#: The most documents of a shard that are read, and not compared, before the first sample.
_FARTHEST = 2000


def sample_defects(
    folder: Path, manifest: Manifest, shards: Sequence[ShardEntry], tokenizer: Tokenizer, samples: int
) -> Iterator[str]:
    """Compare about `samples` documents of these shards with the sources; yields a line for each that differs."""
    try:
        manifest.check_origin()
    except FormatError as error:
        yield f"{MANIFEST}: {error}"
        return
    if "parts" in manifest.sources:
        yield from _of_parts(folder, manifest, shards, tokenizer, samples)
        return
    try:
        sources = sources_of(manifest)
    except (OSError, ValueError, ImportError) as error:
        log.warning("the sources cannot be read, so no samples are compared: %s", error)
        return
    if sources is None:
        log.warning("the manifest has no sources that can be read again, so no samples are compared")
        return
    difference = _changed(sources, manifest)
    if difference:
        yield difference
        return
    comparison = _Comparison(folder, manifest, tokenizer, sources)
    try:
        if manifest.options.get("shuffle") is None:
            yield from comparison.in_order(shards, samples)
        else:
            yield from comparison.shuffled(shards, samples)
    except FormatError as error:
        yield f"sources: {error}"


def _of_parts(
    folder: Path, manifest: Manifest, shards: Sequence[ShardEntry], tokenizer: Tokenizer, samples: int
) -> Iterator[str]:
    """Compare samples of each part of merged manifests, whose own manifests have the sources."""
    parts = [part["folder"] for part in manifest.sources["parts"]]
    sound = {shard.files[0].name for shard in shards}
    for part in parts:
        try:
            own = Manifest.read(folder / part)
        except (OSError, FormatError) as error:
            log.warning("%s has no manifest, so no samples of it are compared: %s", folder / part, error)
            continue
        known = [shard for shard in own.shards if f"{part}/{shard.files[0].name}" in sound]
        for line in sample_defects(folder / part, own, known, tokenizer, max(samples // len(parts), 1)):
            yield f"{part}/{line}"


def sources_of(manifest: Manifest) -> Sources | None:
    """The sources that a manifest describes; None if they cannot be read again, such as standard input.

    Raises:
        OSError, ValueError: for a source that is not there.

    """
    plan = manifest.sources
    files = plan.get("files")
    if not files or any(file[0] == "stdin" for file in files):
        return None
    formats = {file[2] for file in files}
    sources = Sources(
        [file[0] for file in files],
        format=formats.pop() if len(formats) == 1 else "auto",
        field=plan["field"],
        separator=plan.get("separator"),
        per_line=plan["per_line"],
        encoding_errors=plan["encoding_errors"],
        on_error=plan["on_error"],
        quoting=plan.get("quoting", "auto"),
        separator_ends=plan["separator_ends"],
    )
    part = manifest.options.get("part")
    return sources if part is None else sources.part(*part)


def _changed(sources: Sources, manifest: Manifest) -> str:
    """A line if the files have changed since; else an empty string."""
    for was, now in zip(manifest.sources["files"], sources.plan()["files"], strict=False):
        if was[:2] != list(now[:2]):
            return f"sources: {was[0]} had {counted(was[1] or 0, 'byte')} when it was encoded, and has {now[1]}"
    return ""


def _allowed_special(value: object) -> Allowed:
    """The argument `allowed_special` of the call that wrote a manifest."""
    return "all" if value is True else value if isinstance(value, list) else ()


class _Comparison:
    """Encodes texts of the sources as `encode_shards` does, and compares them with shards."""

    def __init__(self, folder: Path, manifest: Manifest, tokenizer: Tokenizer, sources: Sources) -> None:
        self._folder, self._manifest, self._tokenizer, self._sources = folder, manifest, tokenizer, sources
        options = manifest.options
        self._around = [options.get("prepend"), options.get("append")]
        self._allowed = allowed_tokens(tokenizer, _allowed_special(options.get("allow_special")))
        self._validation = float(options.get("validation") or 0)
        spec = tokenizer.spec
        is_raw = tokenizer._engine.kernel_takes_raw_text
        self._is_lossless = is_raw and spec.end_of_word is None and spec.unk_token is None
        self._random = Random(_SEED)

    def in_order(self, shards: Sequence[ShardEntry], samples: int) -> Iterator[str]:
        """Compare consecutive documents of some shards."""
        chosen = self._picked([shard for shard in shards if shard.documents and shard.start is not None])
        for entry in chosen:
            count = min(max(samples // len(chosen), 1), entry.documents)
            shard = FORMATS[self._manifest.format].open(self._folder / entry.files[0].name)
            first = self._random.randrange(min(entry.documents - count, _FARTHEST) + 1) if shard.has_boundaries else 0
            texts = self._texts(entry)
            if len(list(islice(texts, first))) < first:
                yield f"{shard.name}: the sources end before its document {first}"
                continue
            wanted = list(islice(texts, count))
            texts.close()
            if len(wanted) < count:
                yield f"{shard.name}: the sources end before its document {first + count - 1}"
                continue
            yield from self._compared(shard, first, wanted)

    def _compared(self, shard: Any, first: int, texts: list[bytes]) -> Iterator[str]:
        """Compare the documents of a shard from `first` on with these texts."""
        if not shard.has_boundaries:
            stream = np.concatenate([self._ids(text) for text in texts])
            if not np.array_equal(shard.ids[: len(stream)], stream):
                yield f"{shard.name}: its first ids differ from those of the sources' texts"
            return
        for number, (ids, text) in enumerate(zip(_documents(shard, first), texts, strict=False), first):
            if not np.array_equal(ids, self._ids(text)):
                yield f"{shard.name}: document {number} differs from the ids of the text in the sources"
            elif self._is_lossless and self._decoded(ids) != text:
                yield f"{shard.name}: document {number} does not decode to the text in the sources"

    def _decoded(self, ids: NDArray[Any]) -> bytes:
        """The text of a document, without the ids around it."""
        before, after = (number is not None for number in self._around)
        return self._tokenizer.decode_bytes(ids[int(before) : len(ids) - after])

    def _texts(self, entry: ShardEntry) -> Any:
        """The texts of a shard's documents, from the first on."""
        assert entry.start is not None
        file, offset, skip = entry.start
        for number, text in enumerate(_texts_from(self._sources, Position(file, offset))):
            if number >= skip and self._is_on_side(text, entry.split):
                yield text

    def _is_on_side(self, text: bytes, split: str | None) -> bool:
        if split is None:
            return True
        bounds = np.array([0, len(text)])
        chosen = is_validation(content_hashes(text, bounds[:1], bounds[1:]), self._validation)[0]
        return bool(chosen) == (split == "val")

    def shuffled(self, shards: Sequence[ShardEntry], samples: int) -> Iterator[str]:
        """Look for documents at the beginning of some files in the shards that their keys belong to."""
        options = self._manifest.options
        part = options.get("part") or (0, 1)
        count = shard_count(options.get("shards"), options.get("shard_size"), self._sources)
        numbers = sorted({unit.file for unit in self._sources.units()})
        for file in self._picked(numbers):
            per_file = max(samples // min(len(numbers), _PLACES), 1)
            texts = _texts_from(self._sources.one_file(file), None)
            for number, text in enumerate(islice(texts, per_file)):
                key = document_keys(options["shuffle"], tuple(part), np.array([file]), np.array([number]))
                owner = int(bucket_of(key, count)[0])
                entry = next((each for each in shards if self._owns(each, owner, count, text)), None)
                if entry is None or not self._holds(entry, self._ids(text)):
                    name = self._sources.files[file].name
                    yield f"sources: document {number} of {name} is not in shard {owner}, where it belongs"

    def _owns(self, entry: ShardEntry, number: int, count: int, text: bytes) -> bool:
        digits = entry.stem.rpartition("-")[2]
        return self._is_on_side(text, entry.split) and (count == 1 or digits == f"{number:05}")

    def _holds(self, entry: ShardEntry, wanted: NDArray[np.uint32]) -> bool:
        """Whether a shard has a document of these ids."""
        shard = FORMATS[self._manifest.format].open(self._folder / entry.files[0].name)
        if not shard.has_boundaries:
            assert shard.ids is not None
            return _occurs(shard.ids, wanted)
        position = 0
        held: list[NDArray[Any]] = []
        for batch in shard.batches():
            starts = np.cumsum(batch.lengths) - batch.lengths
            for at in np.flatnonzero(batch.lengths == len(wanted)).tolist():
                if np.array_equal(batch.ids[starts[at] : starts[at] + len(wanted)], wanted):
                    return True
            if not (batch.begins and batch.ends):
                held.append(np.array(batch.ids))
            position += len(batch.ids)
        return bool(held) and _occurs(np.concatenate(held), wanted)

    def _picked(self, items: Sequence[Any]) -> list[Any]:
        return sorted(self._random.sample(list(items), min(len(items), _PLACES)), key=list(items).index)

    def _ids(self, text: bytes) -> NDArray[np.uint32]:
        """The ids of a document, with those around it."""
        before, after = (np.array([] if number is None else [number], dtype=np.uint32) for number in self._around)
        ids = self._tokenizer.encode(text, allowed_special=self._allowed)
        return np.concatenate((before, ids, after))


def _texts_from(sources: Sources, start: Position | None) -> Any:
    """The texts of the sources from a position on."""
    cut = document_cut(sources.separators, sources.keep_separator)
    with closing(sources.blocks(cut, 1, start=start)) as blocks:
        for block in blocks:
            block.check()
            for first, last in zip(*(bound.tolist() for bound in block.documents(empty=True)), strict=True):
                yield bytes(block.text[first:last])
            block.release()


def _documents(shard: Any, first: int) -> Iterator[NDArray[Any]]:
    """The documents of a shard from `first` on."""
    number = 0
    held: list[NDArray[Any]] = []
    for batch in shard.batches(1 << 20):
        ends = np.cumsum(batch.lengths)
        for index, (start, end) in enumerate(zip((ends - batch.lengths).tolist(), ends.tolist(), strict=True)):
            held = held if index == 0 and not batch.begins else []
            held.append(batch.ids[start:end])
            if index < len(ends) - 1 or batch.ends:
                if number >= first:
                    yield np.concatenate(held)
                number += 1


def _occurs(ids: NDArray[Any], wanted: NDArray[np.uint32]) -> bool:
    """Whether these ids occur side by side."""
    if not len(wanted):
        return True
    for start in range(0, len(ids), 1 << 22):
        piece = ids[start : start + (1 << 22) + len(wanted) - 1]
        for at in np.flatnonzero(piece[: len(piece) - len(wanted) + 1] == wanted[0]).tolist():
            if np.array_equal(piece[at : at + len(wanted)], wanted):
                return True
    return False
