"""Adding documents to a finished folder of shards: `encode_shards(..., extend=True)`.

The new shards go to a folder of their own in the finished one, `added-00000` and so on, which has a manifest, a journal
while it is unfinished, and a copy of the tokenizer, as every folder of shards. When it is finished, the manifest above
lists its shards too, in one atomic step. Until then, readers of the folder see the shards that it had.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from bpe.data.journal import check_same_header, crash_point, find_source, lock_folder, move_base
from bpe.data.manifest import (
    ADDED,
    MANIFEST_NAME,
    SIZE_OPTIONS,
    Manifest,
    list_additions,
    list_inner_folders,
    list_lasting_files,
    move_entry,
    select_additions,
)
from bpe.errors import get_log, pluralize, short_repr

log = get_log()

#: The options that all shards of a folder have in common; an addition has its own order and size of shards.
_COMMON_OPTIONS = {
    "format": "format",
    "prepend": "prepend",
    "append": "append",
    "validation": "validation",
    "allow_special": "allowed_special",
}


def add_shards(out: Path, header: Mapping[str, Any], dtype: str, encode: Callable[[Path], Manifest]) -> Manifest:
    """Add the shards of one call to a finished folder.

    Args:
        out: the folder.
        header: all that determines the new shards, as in their journal.
        dtype: the type of their ids.
        encode: encodes to a folder, and returns its manifest.

    Returns:
        The manifest of all shards; unchanged if the folder has those of the same call.

    Raises:
        ValueError: for shards that do not belong together, and for files that the folder has already.

    """
    with lock_folder(out):
        manifest = Manifest.read(out)
        _check_origin(out, manifest, dtype)
        folders = list_additions(manifest)
        parts = list(_read_parts(out, manifest))
        new_files = list_lasting_files(header["sources"])
        is_lasting = len(new_files) == len(header["sources"]["files"])
        same = next((part for part in parts if is_lasting and _is_same_call(out, *part, header)), None)
        if same is not None:
            check_unchanged(*same, new_files, "give only new files, under names of their own")
            log.info("%s has the shards of these sources; nothing to do", out)
            return manifest
        _check_common_options(out, manifest, header)
        _check_new_files(out, parts, new_files)
        name = f"{ADDED}-{len(folders):05d}"
        was_finished = (out / name / MANIFEST_NAME).exists()
        addition = encode(out / name)
        crash_point("added")
        extended = _list_addition(manifest, name, addition)
        extended.write(out)
        if was_finished and not is_lasting:
            raise ValueError(
                f"an earlier call was ended when its addition {name} was finished but not yet listed in {out}; it is "
                "listed now, and the pipe or standard input of this call was not read: call again if its text is new"
            )
        return extended


def _check_origin(out: Path, manifest: Manifest, dtype: str) -> None:
    """Raise ValueError for a folder whose shards `encode_shards` did not write, or wrote from conversations."""
    is_converted = manifest.options.get("format") != manifest.format or not {*SIZE_OPTIONS} <= {*manifest.options}
    if is_converted or "files" not in manifest.sources or manifest.masks or manifest.dtype != dtype:
        raise ValueError(
            f"{out} was not written by encode_shards from files of text, so nothing can be added to it; "
            "name another folder"
        )


def _list_addition(manifest: Manifest, name: str, addition: Manifest) -> Manifest:
    """Return the manifest of a folder with the shards of one more folder in it."""
    entries = [*manifest.shards, *(move_entry(entry, PurePosixPath(name)) for entry in addition.shards)]
    entries.sort(key=lambda entry: entry.split or "")  # stable: "train" before "val"
    return replace(
        manifest,
        shards=tuple(entries),
        sources={**manifest.sources, ADDED: [*manifest.sources.get(ADDED, []), {"folder": name}]},
        skipped=manifest.skipped + addition.skipped,
        damaged_files={**manifest.damaged_files, **addition.damaged_files},
    )


def _read_parts(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, Manifest]]:
    """Yield a folder and those in it that its manifest lists, each with its manifest."""
    yield folder, manifest
    for name in list_inner_folders(manifest):
        yield from _read_parts(folder / name, Manifest.read(folder / name))


def _is_same_call(out: Path, folder: Path, manifest: Manifest, header: Mapping[str, Any]) -> bool:
    """Whether shards in `folder` were made by the call that has this header for shards in `out`."""
    try:
        check_same_header(
            folder, manifest.to_header(), {**header, "sources": move_base(header["sources"], out, folder)}
        )
    except ValueError:
        return False
    return True


def _check_common_options(out: Path, manifest: Manifest, header: Mapping[str, Any]) -> None:
    """Raise ValueError for another tokenizer, or other options that all documents must have in common."""
    old_tokenizer, new_tokenizer = manifest.tokenizer.get("fingerprint"), header["tokenizer"]
    if old_tokenizer != new_tokenizer:
        raise ValueError(
            f"{out} was encoded by the tokenizer with the fingerprint {str(old_tokenizer)[:12]}…, and this one has "
            f"{new_tokenizer[:12]}…; extend it with the copy of its tokenizer there"
        )
    for key, name in _COMMON_OPTIONS.items():
        old = manifest.format if key == "format" else manifest.options.get(key)
        new = header["options"][key]
        if old != new:
            raise ValueError(
                f"{name} of {out} is {short_repr(old)}, and {short_repr(new)} here; all its documents must have the "
                "same: pass that, or name another folder"
            )


def check_repeated_sources(
    out: Path, manifest: Manifest, plan: Mapping[str, Any], *, allow_pipes: bool = False
) -> None:
    """Raise ValueError for sources of a finished folder that may have other text now: changed files, pipes, stdin."""
    names = list_lasting_files(plan)
    if len(names) < len(plan["files"]) and not allow_pipes:
        way = "" if manifest.masks else "; if the text is new, extend=True (--extend) adds it to the folder"
        raise ValueError(
            f"{out} is finished, and the pipe or standard input of this call was not read: name another folder, or "
            f"remove this one{way}"
        )
    check_unchanged(out, manifest, names, "name another folder, or remove this one")


def check_unchanged(folder: Path, manifest: Manifest, names: list[str], fix: str) -> None:
    """Raise ValueError, with what to do, for a file that was changed after shards of it were written."""
    shards = select_additions(manifest, 0).shards  # later ones are of other files
    times = [(folder / file.name).stat().st_mtime_ns for shard in shards for file in shard.files]
    for name in names:
        if times and "://" not in name and os.stat(name).st_mtime_ns > max(times):
            raise ValueError(f"{name} was changed after it was encoded to {folder}; {fix}")


def _check_new_files(out: Path, parts: list[tuple[Path, Manifest]], names: list[str]) -> None:
    """Raise ValueError for files that are in the folder already, whatever path names them."""
    old_paths = {
        find_source(name, part.sources, folder)
        for folder, part in parts
        for name in list_lasting_files(part.sources)
        if name not in part.damaged_files
    }
    repeated_names = [name for name in names if find_source(name, {}, out) in old_paths]
    if repeated_names:
        raise ValueError(
            f"{len(repeated_names)} of the {pluralize(len(names), 'file')} are in {out} already, such as "
            f"{short_repr(repeated_names[0], 200)}; give only the new files"
        )
