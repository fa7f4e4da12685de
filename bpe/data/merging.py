"""`merge_manifests`: one manifest over the parts of a corpus that several machines encoded.

Nothing is moved or copied but the tokenizer: the manifest names the files of the parts by their paths below its folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bpe.corpus.blocks import PathLike
from bpe.data.converting import copy_tokenizer
from bpe.data.formats.files import WrittenFile
from bpe.data.journal import NAME as JOURNAL
from bpe.data.journal import renamed
from bpe.data.manifest import NAME as MANIFEST
from bpe.data.manifest import Manifest, ShardEntry
from bpe.errors import FormatError, check_iterable, shown


def merge_manifests(parts: Iterable[PathLike], out: PathLike) -> Manifest:
    """Write one manifest over the folders of all parts, which `encode_shards(rank=…, world=…)` made.

    Args:
        parts: the folders, in any order: they are put in the order of their parts. They lie in `out`, directly or
            deeper, because the manifest names files by their paths below it.
        out: the folder of the new manifest.

    Returns:
        The manifest. Its shards are those of rank 0, then those of rank 1, and so on.

    Raises:
        ValueError: for folders that are no parts of one corpus: other sources, options or tokenizers, a part that is
            missing or there twice, a folder that is given twice, one outside `out`, one that is not finished.
        FormatError: for a damaged manifest.

    """
    check_iterable("parts", parts, "an iterable of folders")
    if isinstance(parts, str):
        raise TypeError(f"parts is {shown(parts)}, a str; it must be an iterable of folders")
    target = Path(out)
    found = [(_name_in(target, Path(part)), _read(Path(part))) for part in parts]
    if not found:
        raise ValueError("there are no parts to merge; give their folders")
    if (target / MANIFEST).exists() and "parts" not in Manifest.read(target).sources:
        raise ValueError(f"{target} has shards and a manifest of its own; merge the parts in the folder above them")
    if (target / JOURNAL).exists():
        raise ValueError(
            f"{target} has shards of its own that are not finished; merge the parts in the folder above them"
        )
    _check_same(found)
    found.sort(key=lambda item: (item[1].options.get("part") or [0])[0])
    _check_complete(found)
    for name, times in Counter(name for name, _ in found).items():
        if times > 1:
            raise ValueError(f"the folder {name} is given {times} times; give each folder once")
    shards = [_moved(shard, name) for name, manifest in found for shard in manifest.shards]
    shards.sort(key=lambda shard: shard.split or "")  # stable: "train" before "val"
    first_name, first = found[0]
    plan = {key: value for key, value in first.sources.items() if key != "part"}
    parts_of = [{"folder": name, "part": manifest.options.get("part")} for name, manifest in found]
    merged = Manifest(
        first.format,
        first.dtype,
        tuple(shards),
        masks=first.masks,
        tokenizer=copy_tokenizer(first.tokenizer, target / first_name, target),
        sources={**plan, "parts": parts_of},
        options={**first.options, "part": None},
        skipped=sum(manifest.skipped for _, manifest in found),
    )
    merged.write(target)
    return merged


def _name_in(out: Path, part: Path) -> str:
    """The path of a part below the output folder."""
    try:
        name = part.resolve().relative_to(out.resolve()).as_posix()
    except ValueError:
        name = "."
    if name == ".":
        raise ValueError(
            f"the part {part} is not in the output folder {out}; move it there, or name the folder above all parts"
        )
    return name


def _read(part: Path) -> Manifest:
    if not (part / MANIFEST).exists():
        unfinished = "it is not finished; run its command again" if (part / JOURNAL).exists() else "it has none"
        raise FormatError(f"there is no manifest: {unfinished}", path=part)
    manifest = Manifest.read(part)
    try:
        manifest.check_origin()
    except FormatError as error:
        raise FormatError(error.message, path=part / MANIFEST, where=error.where) from None
    return manifest


def _check_same(found: list[tuple[str, Manifest]]) -> None:
    """Refuse parts that were not made from the same sources, with the same options and tokenizer."""

    def facts(manifest: Manifest) -> dict[str, Any]:
        return {
            "format": manifest.format,
            "dtype": manifest.dtype,
            "masks": manifest.masks,
            "tokenizer": manifest.tokenizer.get("fingerprint"),
            "options": {key: value for key, value in manifest.options.items() if key != "part"},
            "count of parts": (manifest.options.get("part") or [None, None])[1],
            "sources": {key: value for key, value in manifest.sources.items() if key != "part"},
        }

    first_name, first = found[0]
    expected = facts(first)
    for name, manifest in found[1:]:
        given = facts(manifest)
        given["sources"] = renamed(given["sources"], expected["sources"])
        for key, value in expected.items():
            if key == "sources" and expected["count of parts"] is None:
                continue  # separate corpora
            if given[key] != value:
                raise ValueError(
                    f"{name} and {first_name} differ in {key}: {shown(given[key])} and {shown(value)}; parts are made "
                    "with the same sources, options and tokenizer"
                )


def _check_complete(found: list[tuple[str, Manifest]]) -> None:
    """Refuse parts that are missing, or there twice."""
    count = (found[0][1].options.get("part") or [0, None])[1]
    if count is None:
        return
    numbers = [manifest.options["part"][0] for _, manifest in found]
    for number in range(count):
        times = numbers.count(number)
        if times != 1:
            what = "is missing" if not times else f"is there {times} times"
            raise ValueError(f"part {number}/{count} {what}; give the folder of each part once")


def _moved(shard: ShardEntry, folder: str) -> ShardEntry:
    """A shard with its names below another folder."""
    files = tuple(WrittenFile(f"{folder}/{file.name}", file.size, file.crc32) for file in shard.files)
    return replace(shard, stem=f"{folder}/{shard.stem}", files=files, start=None)
