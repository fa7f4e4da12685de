"""`verify`: compare a folder of shards with its manifest, its tokenizer and samples of its sources.

For shards in source order, the manifest has where in the sources each shard begins: the documents after that position
are encoded and compared one by one. Of shuffled shards, documents at the beginning of some files are sought in the
shard that their key belongs to.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpe.base.progress import Advance, ProgressLike, check_progress, progress_bar
from bpe.corpus.blocks import PathLike, Position
from bpe.corpus.sources import Sources
from bpe.data.formats import FORMATS
from bpe.data.formats.files import find_crc32
from bpe.data.formats.reading import Shard
from bpe.data.grouping import choose_validation, hash_documents
from bpe.data.journal import JOURNAL_NAME
from bpe.data.manifest import MANIFEST_NAME, Manifest, ShardEntry
from bpe.data.plan import count_shards
from bpe.data.shuffling import find_bucket, hash_positions
from bpe.errors import FormatError, check_int, get_log, pluralize
from bpe.tokenizer import Tokenizer
from bpe.vocab.special_tokens import Allowed

log = get_log()

#: Files are read in pieces of this many bytes.
_PIECE = 1 << 20
#: The seed that picks samples.
_SEED = 0
#: The most shards, or files, that samples are taken from.
_PLACES = 16
#: The most documents of a shard that are read, and not compared, before the first sample.
_FARTHEST = 2000


def verify(out: PathLike, *, samples: int = 100, progress: ProgressLike = False) -> list[str]:
    """Check a folder that `encode_shards` or `merge_manifests` wrote; returns a line for each defect.

    It checks that all files are there, with the sizes and CRC-32 sums in the manifest; that the headers, the offsets
    and the numbers of documents and tokens agree with it, and the dtype; that every id is one of the tokenizer's; that
    the copy of the tokenizer has the recorded fingerprint; and that sampled documents are the ids of the sources' texts
    and decode to them. The samples are the same in each run. Sources that are not there are left out, with a warning.

    Args:
        out: the folder.
        samples: how many documents to compare with the sources, about.
        progress: True for a bar or lines on stderr; or a function that takes `bpe.base.Progress`.

    Returns:
        The defects; an empty list if there is none.

    Raises:
        OSError: for a folder that does not exist, or a file.

    >>> import bpe, tempfile
    >>> from bpe.data import encode_shards, verify
    >>> tokenizer = bpe.train(texts=["low lower lowest"], vocab_size=260)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "corpus.txt").write_text("low lower")
    ...     _ = encode_shards(Path(folder, "corpus.txt"), tokenizer, Path(folder, "shards"))
    ...     before = verify(Path(folder, "shards"))
    ...     Path(folder, "shards", "tokens-00000.offsets.npy").unlink()
    ...     before, verify(Path(folder, "shards"))
    ([], ['tokens-00000.offsets.npy: the file is missing'])

    """
    check_progress(progress)
    samples = check_int("samples", samples, 0)
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, f"it is a file; give the folder of the shards, {folder.parent}", str(folder)
        )
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder of shards", str(folder))
    if not (folder / MANIFEST_NAME).exists():
        unfinished = (folder / JOURNAL_NAME).exists()
        why = "the shards are not finished; run the same command again" if unfinished else "the file is missing"
        return [f"{MANIFEST_NAME}: {why}"]
    try:
        manifest = Manifest.read(folder)
    except FormatError as error:
        return [f"{MANIFEST_NAME}: {', '.join(filter(None, (error.where, error.message)))}"]
    return list(_find_defects(folder, manifest, samples, progress))


def _find_defects(folder: Path, manifest: Manifest, samples: int, progress: ProgressLike) -> Iterator[str]:
    if manifest.format not in FORMATS:
        yield f"{MANIFEST_NAME}: the format is {manifest.format!r}, which this release does not know"
        return
    tokenizer, problem = _load_tokenizer(folder, manifest)
    if problem:
        yield problem
    yield from _find_unlisted(folder, manifest)
    sound: list[ShardEntry] = []
    total = sum(file.size for shard in manifest.shards for file in shard.files)
    with progress_bar(progress, "verify", total, "B") as advance:
        for entry in manifest.shards:
            defects = list(find_file_defects(folder, entry, advance))
            defects = defects or list(find_shard_defects(folder, manifest.format, manifest.dtype, entry, tokenizer))
            yield from defects
            if not defects:
                sound.append(entry)
    if tokenizer is not None and samples:
        yield from find_sample_defects(folder, manifest, sound, tokenizer, samples)


def _load_tokenizer(folder: Path, manifest: Manifest) -> tuple[Tokenizer | None, str]:
    """The copy of the tokenizer, or None; and what is wrong with it."""
    name = manifest.tokenizer.get("file")
    if not isinstance(name, str) or "/" in name or "\\" in name:
        return None, f"{MANIFEST_NAME}: it names no copy of the tokenizer"
    if not (folder / name).is_file():
        return None, f"{name}: the file is missing"
    try:
        tokenizer = Tokenizer.load(folder / name)
    except (FormatError, ValueError) as error:
        return None, f"{name}: {error}"
    expected = manifest.tokenizer.get("fingerprint")
    if tokenizer.fingerprint != expected:
        return None, f"{name}: its fingerprint is {tokenizer.fingerprint}; the shards were made with {expected}"
    return tokenizer, ""


def _find_unlisted(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Files that look like shards and are not in the manifest."""
    listed = {file.name for shard in manifest.shards for file in shard.files}
    endings = {name.partition(".")[2] for name in listed}
    for path in sorted(folder.iterdir()):
        known = path.name in listed or path.name in (MANIFEST_NAME, manifest.tokenizer.get("file"))
        if not known and path.is_file() and path.name.partition(".")[2] in endings:
            yield f"{path.name}: the file is not in the manifest"


def find_file_defects(folder: Path, entry: ShardEntry, advance: Advance = lambda _: None) -> Iterator[str]:
    """Compare the files of a shard with their sizes and sums."""
    crc32 = find_crc32()
    for file in entry.files:
        path = folder / file.name
        if not path.is_file():
            yield f"{file.name}: the file is missing"
            continue
        size = path.stat().st_size
        if size != file.size:
            yield f"{file.name}: it has {pluralize(size, 'byte')}, and {file.size} in the manifest"
            continue
        sum_ = 0
        with open(path, "rb") as opened:
            while piece := opened.read(_PIECE):
                sum_ = crc32(piece, sum_)
                advance(len(piece))
        if f"{sum_:08x}" != file.crc32:
            yield f"{file.name}: its CRC-32 is {sum_:08x}, and {file.crc32} in the manifest"


def find_shard_defects(
    folder: Path, shard_format: str, dtype: str, entry: ShardEntry, tokenizer: Tokenizer | None
) -> Iterator[str]:
    """Compare the content of a shard with its entry in the manifest and, if there is a tokenizer, its vocabulary."""
    name = entry.files[0].name
    try:
        shard = FORMATS[shard_format].open(folder / name)
        if shard.ids is not None and str(shard.dtype) != dtype:
            yield f"{name}: its dtype is {shard.dtype}, and {dtype} in the manifest"
        if shard.n_tokens != entry.tokens:
            yield f"{name}: it has {pluralize(shard.n_tokens, 'token')}, and {entry.tokens} in the manifest"
        if shard.has_boundaries and shard.n_documents != entry.documents:
            yield f"{name}: it has {pluralize(shard.n_documents, 'document')}, and {entry.documents} in the manifest"
        if tokenizer is not None:
            yield from _find_id_defects(name, shard, tokenizer)
    except FormatError as error:
        yield f"{name}: {error.message}"


def _find_id_defects(name: str, shard: Shard, tokenizer: Tokenizer) -> Iterator[str]:
    """The first id of a shard that is none of the tokenizer's."""
    kinds = tokenizer.spec.vocabulary.kinds
    known = np.zeros(max(1 << 16, len(kinds)), dtype=np.bool_)
    known[: len(kinds)] = kinds != 0
    position = 0
    for batch in shard.batches(_PIECE):
        ids = np.asarray(batch.ids)
        if len(ids):
            inside = int(ids.max()) < len(known) and int(ids.min()) >= 0
            unknown = np.flatnonzero(~known[ids] if inside else (ids >= len(known)) | (ids < 0))
            if len(unknown):
                index = int(unknown[0])
                yield f"{name}: id {ids[index]} at position {position + index} is none of the tokenizer's ids"
                return
        position += len(ids)


# Samples --------------------------------------------------------------------------------------------------------------


def find_sample_defects(
    folder: Path, manifest: Manifest, shards: Sequence[ShardEntry], tokenizer: Tokenizer, samples: int
) -> Iterator[str]:
    """Compare about `samples` documents of these shards with the sources; yields a line for each that differs."""
    try:
        manifest.check_origin()
    except FormatError as error:
        yield f"{MANIFEST_NAME}: {error}"
        return
    if "parts" in manifest.sources:
        yield from _sample_parts(folder, manifest, shards, tokenizer, samples)
        return
    try:
        sources = _open_sources(manifest)
    except (OSError, ValueError, ImportError) as error:
        log.warning("the sources cannot be read, so no samples are compared: %s", error)
        return
    if sources is None:
        log.warning("the manifest has no sources that can be read again, so no samples are compared")
        return
    difference = _find_change(sources, manifest)
    if difference:
        yield difference
        return
    comparison = _Comparison(folder, manifest, tokenizer, sources)
    try:
        if manifest.options.get("shuffle") is None:
            yield from comparison.compare_ordered(shards, samples)
        else:
            yield from comparison.compare_shuffled(shards, samples)
    except FormatError as error:
        yield f"sources: {error}"


def _sample_parts(
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
        for line in find_sample_defects(folder / part, own, known, tokenizer, max(samples // len(parts), 1)):
            yield f"{part}/{line}"


def _open_sources(manifest: Manifest) -> Sources | None:
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


def _find_change(sources: Sources, manifest: Manifest) -> str:
    """A line if the files have changed since; else an empty string."""
    for was, now in zip(manifest.sources["files"], sources.plan()["files"], strict=False):
        if was[:2] != list(now[:2]):
            return f"sources: {was[0]} had {pluralize(was[1] or 0, 'byte')} when it was encoded, and has {now[1]}"
    return ""


def _parse_allowed(value: object) -> Allowed:
    """The argument `allowed_special` of the call that wrote a manifest."""
    return "all" if value is True else value if isinstance(value, list) else ()


class _Comparison:
    """Encodes texts of the sources as `encode_shards` does, and compares them with shards."""

    def __init__(self, folder: Path, manifest: Manifest, tokenizer: Tokenizer, sources: Sources) -> None:
        self._folder, self._manifest, self._tokenizer, self._sources = folder, manifest, tokenizer, sources
        options = manifest.options
        self._bos_eos = [options.get("prepend"), options.get("append")]
        self._allowed = tokenizer._engine.specials.resolve_allowed(_parse_allowed(options.get("allow_special")))
        self._validation = float(options.get("validation") or 0)
        spec = tokenizer.spec
        is_raw = tokenizer._engine.kernel_takes_raw_text
        self._is_lossless = is_raw and spec.end_of_word is None and spec.unk_token is None
        self._random = Random(_SEED)

    def compare_ordered(self, shards: Sequence[ShardEntry], samples: int) -> Iterator[str]:
        """Compare consecutive documents of some shards."""
        chosen = self._pick([shard for shard in shards if shard.documents and shard.start is not None])
        for entry in chosen:
            count = min(max(samples // len(chosen), 1), entry.documents)
            shard = FORMATS[self._manifest.format].open(self._folder / entry.files[0].name)
            first = self._random.randrange(min(entry.documents - count, _FARTHEST) + 1) if shard.has_boundaries else 0
            texts = self._read_texts(entry)
            if len(list(islice(texts, first))) < first:
                yield f"{shard.name}: the sources end before its document {first}"
                continue
            wanted = list(islice(texts, count))
            texts.close()
            if len(wanted) < count:
                yield f"{shard.name}: the sources end before its document {first + count - 1}"
                continue
            yield from self._compare(shard, first, wanted)

    def _compare(self, shard: Any, first: int, texts: list[bytes]) -> Iterator[str]:
        """Compare the documents of a shard from `first` on with these texts."""
        if not shard.has_boundaries:
            stream = np.concatenate([self._encode(text) for text in texts])
            if not np.array_equal(shard.ids[: len(stream)], stream):
                yield f"{shard.name}: its first ids differ from those of the sources' texts"
            return
        for index, (ids, text) in enumerate(zip(_read_shard(shard, first), texts, strict=False), first):
            if not np.array_equal(ids, self._encode(text)):
                yield f"{shard.name}: document {index} differs from the ids of the text in the sources"
            elif self._is_lossless and self._decode(ids) != text:
                yield f"{shard.name}: document {index} does not decode to the text in the sources"

    def _decode(self, ids: NDArray[Any]) -> bytes:
        """The text of a document, without the ids around it."""
        before, after = (token_id is not None for token_id in self._bos_eos)
        return self._tokenizer.decode_bytes(ids[int(before) : len(ids) - after])

    def _read_texts(self, entry: ShardEntry) -> Any:
        """The texts of a shard's documents, from the first on."""
        assert entry.start is not None
        file, offset, skip = entry.start
        for index, text in enumerate(self._sources.documents(Position(file, offset))):
            if index >= skip and self._is_on_side(text, entry.split):
                yield text

    def _is_on_side(self, text: bytes, split: str | None) -> bool:
        if split is None:
            return True
        bounds = np.array([0, len(text)])
        chosen = choose_validation(hash_documents(text, bounds[:1], bounds[1:]), self._validation)[0]
        return bool(chosen) == (split == "val")

    def compare_shuffled(self, shards: Sequence[ShardEntry], samples: int) -> Iterator[str]:
        """Look for documents at the beginning of some files in the shards that their keys belong to."""
        options = self._manifest.options
        part = options.get("part") or (0, 1)
        count = count_shards(options.get("shards"), options.get("shard_size"), self._sources)
        numbers = sorted({unit.file for unit in self._sources.units()})
        for file in self._pick(numbers):
            per_file = max(samples // min(len(numbers), _PLACES), 1)
            texts = self._sources.one_file(file).documents()
            for index, text in enumerate(islice(texts, per_file)):
                key = hash_positions(options["shuffle"], tuple(part), np.array([file]), np.array([index]))
                owner = int(find_bucket(key, count)[0])
                entry = next((shard for shard in shards if self._owns(shard, owner, count, text)), None)
                if entry is None or not self._holds(entry, self._encode(text)):
                    name = self._sources.files[file].name
                    yield f"sources: document {index} of {name} is not in shard {owner}, where it belongs"

    def _owns(self, entry: ShardEntry, owner: int, count: int, text: bytes) -> bool:
        digits = entry.stem.rpartition("-")[2]
        return self._is_on_side(text, entry.split) and (count == 1 or digits == f"{owner:05}")

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
            for index in np.flatnonzero(batch.lengths == len(wanted)).tolist():
                if np.array_equal(batch.ids[starts[index] : starts[index] + len(wanted)], wanted):
                    return True
            if not (batch.begins and batch.ends):
                held.append(np.array(batch.ids))
            position += len(batch.ids)
        return bool(held) and _occurs(np.concatenate(held), wanted)

    def _pick(self, items: Sequence[Any]) -> list[Any]:
        return sorted(self._random.sample(list(items), min(len(items), _PLACES)), key=list(items).index)

    def _encode(self, text: bytes) -> NDArray[np.uint32]:
        """The ids of a document, with those around it."""
        before, after = (
            np.array([] if token_id is None else [token_id], dtype=np.uint32) for token_id in self._bos_eos
        )
        ids = self._tokenizer.encode(text, allowed_special=self._allowed)
        return np.concatenate((before, ids, after))


def _read_shard(shard: Any, first: int) -> Iterator[NDArray[Any]]:
    """The documents of a shard from `first` on."""
    document = 0
    held: list[NDArray[Any]] = []
    for batch in shard.batches(1 << 20):
        ends = np.cumsum(batch.lengths)
        for index, (start, end) in enumerate(zip((ends - batch.lengths).tolist(), ends.tolist(), strict=True)):
            held = held if index == 0 and not batch.begins else []
            held.append(batch.ids[start:end])
            if index < len(ends) - 1 or batch.ends:
                if document >= first:
                    yield np.concatenate(held)
                document += 1


def _occurs(ids: NDArray[Any], wanted: NDArray[np.uint32]) -> bool:
    """Whether these ids occur side by side."""
    if not len(wanted):
        return True
    for start in range(0, len(ids), 1 << 22):
        piece = ids[start : start + (1 << 22) + len(wanted) - 1]
        for offset in np.flatnonzero(piece[: len(piece) - len(wanted) + 1] == wanted[0]).tolist():
            if np.array_equal(piece[offset : offset + len(wanted)], wanted):
                return True
    return False
