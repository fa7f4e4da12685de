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

from bpe.base._crc32 import crc32
from bpe.base.progress import Advance, ProgressLike, check_progress, progress_bar
from bpe.corpus._content_hash import hash_spans
from bpe.corpus.blocks import PathLike, Position
from bpe.corpus.sources import Sources
from bpe.data.formats import SHARD_FORMATS
from bpe.data.formats.reading import Shard
from bpe.data.grouping import choose_validation
from bpe.data.journal import JOURNAL_NAME, join_base
from bpe.data.manifest import (
    MANIFEST_NAME,
    SIZE_OPTIONS,
    Manifest,
    ShardEntry,
    list_inner_folders,
    list_lasting_files,
)
from bpe.data.plan import count_shards
from bpe.data.shuffling import compute_document_keys, find_buckets
from bpe.errors import (
    FormatError,
    check_int,
    get_log,
    name_file_in_errors,
    pluralize,
    raise_if_of_signal_handler,
)
from bpe.tokenizer import Tokenizer
from bpe.vocab.special_tokens import Allowed

log = get_log()

#: Files are read in pieces of this many bytes.
_READ_BYTES = 1 << 20
#: The seed that picks samples.
_SEED = 0
#: The most shards, or files, that samples are taken from.
_MAX_SAMPLED_FILES = 16
#: The most documents of a shard that are read, and not compared, before the first sample.
_MAX_UNCOMPARED_DOCUMENTS = 2000


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
        is_unfinished = (folder / JOURNAL_NAME).exists()
        reason = "the shards are not finished; run the same command again" if is_unfinished else "the file is missing"
        return [f"{MANIFEST_NAME}: {reason}"]
    try:
        manifest = Manifest.read(folder)
    except FormatError as error:
        return [f"{MANIFEST_NAME}: {', '.join(filter(None, (error.where, error.message)))}"]
    return list(_find_defects(folder, manifest, samples, progress))


def _find_defects(folder: Path, manifest: Manifest, samples: int, progress: ProgressLike) -> Iterator[str]:
    if manifest.format not in SHARD_FORMATS:
        yield f"{MANIFEST_NAME}: the format is {manifest.format!r}, which this release does not know"
        return
    tokenizer, problem = _load_tokenizer(folder, manifest)
    if problem:
        yield problem
    yield from _find_unlisted_files(folder, manifest)
    sound_entries: list[ShardEntry] = []
    total = sum(file.size for shard in manifest.shards for file in shard.files)
    with progress_bar(progress, "verify", total, "B") as advance:
        for entry in manifest.shards:
            defects = list(find_file_defects(folder, entry, advance))
            defects = defects or list(find_shard_defects(folder, manifest.format, manifest.dtype, entry, tokenizer))
            yield from defects
            if not defects:
                sound_entries.append(entry)
    if tokenizer is not None and samples:
        yield from find_sample_defects(folder, manifest, sound_entries, tokenizer, samples)


def _load_tokenizer(folder: Path, manifest: Manifest) -> tuple[Tokenizer | None, str]:
    """Load the copy of the tokenizer, or None; the second result says what is wrong with it."""
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


def _find_unlisted_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Find files that look like shards and are not in the manifest."""
    listed_names = {file.name for shard in manifest.shards for file in shard.files}
    suffixes = {name.partition(".")[2] for name in listed_names}
    for path in sorted(folder.iterdir()):
        is_known = path.name in listed_names or path.name in (MANIFEST_NAME, manifest.tokenizer.get("file"))
        if not is_known and path.is_file() and path.name.partition(".")[2] in suffixes:
            yield f"{path.name}: the file is not in the manifest"


def find_file_defects(folder: Path, entry: ShardEntry, advance: Advance = lambda _: None) -> Iterator[str]:
    """Compare the files of a shard with their sizes and sums."""
    for file in entry.files:
        path = folder / file.name
        if not path.is_file():
            yield f"{file.name}: the file is missing"
            continue
        size = path.stat().st_size
        if size != file.size:
            yield f"{file.name}: it has {pluralize(size, 'byte')}, and {file.size} in the manifest"
            continue
        crc = 0
        with open(path, "rb") as stream, name_file_in_errors(str(path)):
            while piece := stream.read(_READ_BYTES):
                crc = crc32(piece, crc)
                advance(len(piece))
        if f"{crc:08x}" != file.crc32:
            yield f"{file.name}: its CRC-32 is {crc:08x}, and {file.crc32} in the manifest"


def find_shard_defects(
    folder: Path, format_name: str, dtype: str, entry: ShardEntry, tokenizer: Tokenizer | None
) -> Iterator[str]:
    """Compare the content of a shard with its entry in the manifest and, if there is a tokenizer, its vocabulary."""
    name = entry.files[0].name
    try:
        shard = SHARD_FORMATS[format_name].open(folder / name)
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
    """Find the first id of a shard that is none of the tokenizer's."""
    kinds = tokenizer.spec.vocabulary.kinds
    is_known = np.zeros(max(1 << 16, len(kinds)), dtype=np.bool_)
    is_known[: len(kinds)] = kinds != 0
    position = 0
    for batch in shard.batches(_READ_BYTES):
        ids = np.asarray(batch.ids)
        if len(ids):
            in_range = int(ids.max()) < len(is_known) and int(ids.min()) >= 0
            unknown_positions = np.flatnonzero(~is_known[ids] if in_range else (ids >= len(is_known)) | (ids < 0))
            if len(unknown_positions):
                index = int(unknown_positions[0])
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
    inner_folders = list_inner_folders(manifest)
    yield from _sample_parts(folder, inner_folders, shards, tokenizer, samples)
    if "parts" in manifest.sources:
        return
    shards = [shard for shard in shards if not shard.stem.startswith(tuple(f"{name}/" for name in inner_folders))]
    try:
        sources = _open_sources(folder, manifest)
    except (OSError, ValueError, ImportError) as error:
        raise_if_of_signal_handler(error)
        log.warning("the sources cannot be read, so no samples are compared: %s", error)
        return
    if sources is None:
        log.warning("the manifest has no sources that can be read again, so no samples are compared")
        return
    difference = _find_changed_file(sources, manifest)
    if difference:
        yield difference
        return
    comparison = _SampleComparison(folder, manifest, tokenizer, sources)
    try:
        if manifest.options.get("shuffle") is None:
            yield from comparison.compare_ordered(shards, samples)
        else:
            yield from comparison.compare_shuffled(shards, samples)
    except FormatError as error:
        yield f"sources: {error}"


def _sample_parts(
    folder: Path, parts: list[str], shards: Sequence[ShardEntry], tokenizer: Tokenizer, samples: int
) -> Iterator[str]:
    """Compare samples of each of these folders, whose own manifests have the sources."""
    sound_names = {shard.files[0].name for shard in shards}
    for part in parts:
        try:
            part_manifest = Manifest.read(folder / part)
        except (OSError, FormatError) as error:
            raise_if_of_signal_handler(error)
            log.warning("%s has no manifest, so no samples of it are compared: %s", folder / part, error)
            continue
        part_shards = [shard for shard in part_manifest.shards if f"{part}/{shard.files[0].name}" in sound_names]
        for line in find_sample_defects(
            folder / part, part_manifest, part_shards, tokenizer, max(samples // len(parts), 1)
        ):
            yield f"{part}/{line}"


def _open_sources(folder: Path, manifest: Manifest) -> Sources | None:
    """Open the sources that a manifest describes; None if they cannot be read again, as pipes and standard input.

    Raises:
        OSError, ValueError: for a source that is not there.

    """
    plan = manifest.sources
    files = plan.get("files")
    if not files or len(list_lasting_files(plan)) < len(files):
        return None
    formats = {file[2] for file in files}
    sources = Sources(
        [join_base(file[0], plan, folder) for file in files],
        format=formats.pop() if len(formats) == 1 else "auto",
        field=plan["field"],
        separator=plan.get("separator"),
        per_line=plan["per_line"],
        encoding_errors=plan["encoding_errors"],
        on_error=plan["on_error"],
        quoting=plan.get("quoting", "auto"),
        separator_ends=plan["separator_ends"],
    )
    sources.leave_out({join_base(name, plan, folder): reason for name, reason in manifest.damaged_files.items()})
    part = manifest.options.get("part")
    return sources if part is None else sources.part(*part)


def _find_changed_file(sources: Sources, manifest: Manifest) -> str:
    """Describe the first file that has changed since; an empty string if none has."""
    for old_file, new_file in zip(manifest.sources["files"], sources.plan()["files"], strict=False):
        if old_file[1] != new_file[1] and old_file[0] not in manifest.damaged_files:
            name, size = old_file[0], pluralize(old_file[1] or 0, "byte")
            return f"sources: {name} had {size} when it was encoded, and has {new_file[1]}"
    return ""


def _parse_allowed(value: object) -> Allowed:
    """Return the argument `allowed_special` of the call that wrote a manifest."""
    if value is True:
        return "all"
    return value if isinstance(value, list) else ()


class _SampleComparison:
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
        sampled_shards = self._pick([shard for shard in shards if shard.documents and shard.start is not None])
        for entry in sampled_shards:
            count = min(max(samples // len(sampled_shards), 1), entry.documents)
            shard = SHARD_FORMATS[self._manifest.format].open(self._folder / entry.files[0].name)
            first_document = (
                self._random.randrange(min(entry.documents - count, _MAX_UNCOMPARED_DOCUMENTS) + 1)
                if shard.has_boundaries
                else 0
            )
            texts = self._read_texts(entry)
            if len(list(islice(texts, first_document))) < first_document:
                yield f"{shard.name}: the sources end before its document {first_document}"
                continue
            sampled_texts = list(islice(texts, count))
            texts.close()
            if len(sampled_texts) < count:
                yield f"{shard.name}: the sources end before its document {first_document + count - 1}"
                continue
            yield from self._compare_documents(shard, first_document, sampled_texts)

    def _compare_documents(self, shard: Any, first_document: int, texts: list[bytes]) -> Iterator[str]:
        """Compare the documents of a shard from `first_document` on with these texts."""
        if not shard.has_boundaries:
            stream = np.concatenate([self._encode(text) for text in texts])
            if not np.array_equal(shard.ids[: len(stream)], stream):
                yield f"{shard.name}: its first ids differ from those of the sources' texts"
            return
        for index, (ids, text) in enumerate(
            zip(_read_documents(shard, first_document), texts, strict=False), first_document
        ):
            if not np.array_equal(ids, self._encode(text)):
                yield f"{shard.name}: document {index} differs from the ids of the text in the sources"
            elif self._is_lossless and self._decode(ids) != text:
                yield f"{shard.name}: document {index} does not decode to the text in the sources"

    def _decode(self, ids: NDArray[Any]) -> bytes:
        """Decode a document, without the ids around it."""
        has_bos, has_eos = (token_id is not None for token_id in self._bos_eos)
        return self._tokenizer.decode_bytes(ids[int(has_bos) : len(ids) - has_eos])

    def _read_texts(self, entry: ShardEntry) -> Any:
        """Yield the texts of a shard's documents, from the first on."""
        assert entry.start is not None
        file, offset, skip = entry.start
        for index, text in enumerate(self._sources.documents(Position(file, offset))):
            if index >= skip and self._is_in_split(text, entry.split):
                yield text

    def _is_in_split(self, text: bytes, split: str | None) -> bool:
        if split is None:
            return True
        bounds = np.array([0, len(text)])
        is_validation = choose_validation(hash_spans(text, bounds[:1], bounds[1:]), self._validation)[0]
        return bool(is_validation) == (split == "val")

    def compare_shuffled(self, shards: Sequence[ShardEntry], samples: int) -> Iterator[str]:
        """Look for documents at the beginning of some files in the shards that their keys belong to.

        In a folder of other shards than those that were encoded, they may be in any shard.
        """
        options = self._manifest.options
        knows_shards = any(key in options for key in SIZE_OPTIONS)
        part = options.get("part") or (0, 1)
        count = count_shards(options.get("shards"), options.get("shard_size"), self._sources)
        file_indices = sorted({unit.file_index for unit in self._sources.units()})
        for file in self._pick(file_indices):
            n_per_file = max(samples // min(len(file_indices), _MAX_SAMPLED_FILES), 1)
            texts = self._sources.select_file(file).documents()
            for index, text in enumerate(islice(texts, n_per_file)):
                key = compute_document_keys(options["shuffle"], tuple(part), np.array([file]), np.array([index]))
                shard_index = int(find_buckets(key, count)[0])
                ending = f"-{shard_index:05}" if knows_shards and count > 1 else ""
                entries = [
                    shard for shard in shards if shard.stem.endswith(ending) and self._is_in_split(text, shard.split)
                ]
                ids = self._encode(text)
                if not any(self._has_document(entry, ids) for entry in entries):
                    place = f"in shard {shard_index}, where it belongs" if knows_shards else "in the shards"
                    yield f"sources: document {index} of {self._sources.files[file].name} is not {place}"

    def _has_document(self, entry: ShardEntry, ids: NDArray[np.uint32]) -> bool:
        """Check whether a shard has a document of these ids."""
        shard = SHARD_FORMATS[self._manifest.format].open(self._folder / entry.files[0].name)
        if not shard.has_boundaries:
            assert shard.ids is not None
            return _contains_ids(shard.ids, ids)
        position = 0
        parts: list[NDArray[Any]] = []
        for batch in shard.batches():
            starts = np.cumsum(batch.lengths) - batch.lengths
            for index in np.flatnonzero(batch.lengths == len(ids)).tolist():
                if np.array_equal(batch.ids[starts[index] : starts[index] + len(ids)], ids):
                    return True
            if not (batch.begins_document and batch.ends_document):
                parts.append(np.array(batch.ids))
            position += len(batch.ids)
        return bool(parts) and _contains_ids(np.concatenate(parts), ids)

    def _pick(self, items: Sequence[Any]) -> list[Any]:
        return sorted(self._random.sample(list(items), min(len(items), _MAX_SAMPLED_FILES)), key=list(items).index)

    def _encode(self, text: bytes) -> NDArray[np.uint32]:
        """Encode a document, with the ids around it."""
        bos, eos = (np.array([] if token_id is None else [token_id], dtype=np.uint32) for token_id in self._bos_eos)
        ids = self._tokenizer.encode(text, allowed_special=self._allowed)
        return np.concatenate((bos, ids, eos))


def _read_documents(shard: Any, first_document: int) -> Iterator[NDArray[Any]]:
    """Yield the documents of a shard from `first_document` on."""
    document = 0
    parts: list[NDArray[Any]] = []
    for batch in shard.batches(1 << 20):
        ends = np.cumsum(batch.lengths)
        for index, (start, end) in enumerate(zip((ends - batch.lengths).tolist(), ends.tolist(), strict=True)):
            parts = parts if index == 0 and not batch.begins_document else []
            parts.append(batch.ids[start:end])
            if index < len(ends) - 1 or batch.ends_document:
                if document >= first_document:
                    yield np.concatenate(parts)
                document += 1


def _contains_ids(ids: NDArray[Any], sought_ids: NDArray[np.uint32]) -> bool:
    """Check whether these ids occur side by side."""
    if not len(sought_ids):
        return True
    for start in range(0, len(ids), 1 << 22):
        piece = ids[start : start + (1 << 22) + len(sought_ids) - 1]
        for offset in np.flatnonzero(piece[: len(piece) - len(sought_ids) + 1] == sought_ids[0]).tolist():
            if np.array_equal(piece[offset : offset + len(sought_ids)], sought_ids):
                return True
    return False
