"""`verify`: compare a folder of shards with its manifest, its tokenizer and samples of its sources."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bpe.base.progress import Advance, ProgressLike, check_progress, progress_bar
from bpe.corpus.blocks import PathLike
from bpe.data.formats import FORMATS
from bpe.data.formats.files import crc32_function
from bpe.data.formats.reading import Shard
from bpe.data.journal import NAME as JOURNAL
from bpe.data.manifest import NAME as MANIFEST
from bpe.data.manifest import Manifest, ShardEntry
from bpe.data.sampling import sample_defects
from bpe.errors import FormatError, check_int, counted
from bpe.tokenizer import Tokenizer

log = logging.getLogger("bpe")

#: Files are read in pieces of this many bytes.
_PIECE = 1 << 20


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
    if not (folder / MANIFEST).exists():
        unfinished = (folder / JOURNAL).exists()
        why = "the shards are not finished; run the same command again" if unfinished else "the file is missing"
        return [f"{MANIFEST}: {why}"]
    try:
        manifest = Manifest.read(folder)
    except FormatError as error:
        return [f"{MANIFEST}: {', '.join(filter(None, (error.where, error.message)))}"]
    return list(_defects(folder, manifest, samples, progress))


def _defects(folder: Path, manifest: Manifest, samples: int, progress: ProgressLike) -> Iterator[str]:
    if manifest.format not in FORMATS:
        yield f"{MANIFEST}: the format is {manifest.format!r}, which this release does not know"
        return
    tokenizer, problem = _tokenizer(folder, manifest)
    if problem:
        yield problem
    yield from _unlisted(folder, manifest)
    sound: list[ShardEntry] = []
    total = sum(file.size for shard in manifest.shards for file in shard.files)
    with progress_bar(progress, "verify", total, "B") as advance:
        for entry in manifest.shards:
            found = list(file_defects(folder, entry, advance))
            found = found or list(shard_defects(folder, manifest.format, manifest.dtype, entry, tokenizer))
            yield from found
            if not found:
                sound.append(entry)
    if tokenizer is not None and samples:
        yield from sample_defects(folder, manifest, sound, tokenizer, samples)


def _tokenizer(folder: Path, manifest: Manifest) -> tuple[Tokenizer | None, str]:
    """The copy of the tokenizer, or None; and what is wrong with it."""
    name = manifest.tokenizer.get("file")
    if not isinstance(name, str) or "/" in name or "\\" in name:
        return None, f"{MANIFEST}: it names no copy of the tokenizer"
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


def _unlisted(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Files that look like shards and are not in the manifest."""
    listed = {file.name for shard in manifest.shards for file in shard.files}
    endings = {name.partition(".")[2] for name in listed}
    for path in sorted(folder.iterdir()):
        known = path.name in listed or path.name in (MANIFEST, manifest.tokenizer.get("file"))
        if not known and path.is_file() and path.name.partition(".")[2] in endings:
            yield f"{path.name}: the file is not in the manifest"


def file_defects(folder: Path, entry: ShardEntry, advance: Advance = lambda _: None) -> Iterator[str]:
    """Compare the files of a shard with their sizes and sums."""
    crc32 = crc32_function()
    for file in entry.files:
        path = folder / file.name
        if not path.is_file():
            yield f"{file.name}: the file is missing"
            continue
        size = path.stat().st_size
        if size != file.size:
            yield f"{file.name}: it has {counted(size, 'byte')}, and {file.size} in the manifest"
            continue
        sum_ = 0
        with open(path, "rb") as opened:
            while piece := opened.read(_PIECE):
                sum_ = crc32(piece, sum_)
                advance(len(piece))
        if f"{sum_:08x}" != file.crc32:
            yield f"{file.name}: its CRC-32 is {sum_:08x}, and {file.crc32} in the manifest"


def shard_defects(folder: Path, form: str, dtype: str, entry: ShardEntry, tokenizer: Tokenizer | None) -> Iterator[str]:
    """Compare the content of a shard with its entry in the manifest and, if there is a tokenizer, its vocabulary."""
    name = entry.files[0].name
    try:
        shard = FORMATS[form].open(folder / name)
        if shard.ids is not None and str(shard.dtype) != dtype:
            yield f"{name}: its dtype is {shard.dtype}, and {dtype} in the manifest"
        if shard.n_tokens != entry.tokens:
            yield f"{name}: it has {counted(shard.n_tokens, 'token')}, and {entry.tokens} in the manifest"
        if shard.has_boundaries and shard.n_documents != entry.documents:
            yield f"{name}: it has {counted(shard.n_documents, 'document')}, and {entry.documents} in the manifest"
        if tokenizer is not None:
            yield from _id_defects(name, shard, tokenizer)
    except FormatError as error:
        yield f"{name}: {error.message}"


def _id_defects(name: str, shard: Shard, tokenizer: Tokenizer) -> Iterator[str]:
    """The first id of a shard that is none of the tokenizer's."""
    kinds = tokenizer.spec.vocabulary.kinds
    known = np.zeros(max(1 << 16, len(kinds)), dtype=np.bool_)
    known[: len(kinds)] = kinds != 0
    position = 0
    for batch in shard.batches(_PIECE):
        ids = np.asarray(batch.ids)
        if len(ids):
            inside = int(ids.max()) < len(known) and int(ids.min()) >= 0
            bad = np.flatnonzero(~known[ids] if inside else (ids >= len(known)) | (ids < 0))
            if len(bad):
                at = int(bad[0])
                yield f"{name}: id {ids[at]} at position {position + at} is none of the tokenizer's ids"
                return
        position += len(ids)
