"""Find the shards of a folder or a file, and their format: by the manifest, else by names and first bytes."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from bpe.data.formats import SHARD_FORMATS
from bpe.data.journal import JOURNAL_NAME
from bpe.data.manifest import MANIFEST_NAME, Manifest, ShardEntry, is_inner_path, select_additions
from bpe.errors import FormatError, check_int, short_repr
from bpe.formats.id_files import MAGIC
from bpe.tokenizer import Tokenizer

#: llm.c's magic numbers, as the first four bytes of a file.
_LLMC_MAGICS = tuple(magic.to_bytes(4, "little") for magic in (20240520, 20240801))
#: The formats that a file name's end decides.
_FORMAT_BY_SUFFIX = {".ds": "datatrove", ".idx": "megatron", ".parquet": "parquet", ".arrow": "arrow"}
#: The parts of a divided corpus, and the words in the names of files and folders that stand for them.
SPLITS = ("train", "val", "test")
_SPLIT_BY_WORD = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "validate", "dev", "devel", "eval", "evaluation"), "val"),
    **dict.fromkeys(("holdout", "heldout"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
#: What such a word may end with, as in "valset".
_WORD_ENDING = re.compile("(?<=.)(?:set|split|data)s?$")
#: How errors call the splits.
_SPLIT_PHRASES = {"train": "a training", "val": "a validation", "test": "a test", None: "an unnamed"}
#: Ends of files that stand beside a shard's main file.
_SIDE_FILE_SUFFIXES = (".offsets.npy", ".mask.npy")


@dataclass(frozen=True, slots=True)
class ListedShard:
    """A shard: the path of its main file, and what the manifest says of it; without one, the split by its name."""

    path: Path
    entry: ShardEntry | None = None
    split_in_name: str | None = None

    @property
    def stem(self) -> str:
        """The name that the shard's files begin with."""
        return self.path.stem if self.entry is None else self.entry.stem

    @property
    def split(self) -> str | None:
        """The part of a divided corpus that the shard belongs to: "train", "val", "test" or None."""
        return self.split_in_name if self.entry is None else self.entry.split


@dataclass(frozen=True, slots=True)
class ShardListing:
    """The shards of a folder or file, in document order; the dtype and the fingerprint where there is a manifest."""

    format: str
    shards: list[ListedShard]
    dtype: str | None = None
    fingerprint: str | None = None
    manifest: Manifest | None = None

    def resolve_end_of_text(self, path: Path, end_of_text: object) -> int | None:
        """Return the argument `end_of_text` as an id: a name is looked up in the shards' copy of the tokenizer.

        Raises:
            TypeError, ValueError: for what is neither an id nor the name of a special token of that tokenizer.

        """
        if end_of_text is None:
            return None
        if not isinstance(end_of_text, str):
            return check_int("end_of_text", end_of_text, 0, (1 << 32) - 1)
        file = None if self.manifest is None else self.manifest.tokenizer.get("file")
        if not isinstance(file, str) or not is_inner_path(file) or not (path / file).is_file():
            raise ValueError(
                f"end_of_text is {end_of_text!r}, a name, and {path} has no copy of its tokenizer to look it up in; "
                "pass the id"
            )
        special_tokens = Tokenizer.load(path / file).special_tokens
        if end_of_text not in special_tokens:
            raise ValueError(
                f"end_of_text is {end_of_text!r}; it must be an id, or one of the special tokens of {path / file}: "
                f"{short_repr(list(special_tokens), 200)}"
            )
        return special_tokens[end_of_text]


def find_shards(path: Path, split: str | None = None, additions: int | None = None) -> ShardListing:
    """Find the shards of a folder or of one file.

    Args:
        path: a folder, a shard's main file, or the common prefix of Megatron's two files.
        split: "train", "val", "test", or "all"; None where the corpus is not divided.
        additions: how many later additions to the folder count; None for all.

    Raises:
        FormatError, FileNotFoundError, ValueError: see `TokenShards`.

    """
    if split not in (None, *SPLITS, "all"):
        raise ValueError(f"split is {short_repr(split)}; it must be 'train', 'val', 'test', 'all' or None")
    if path.is_dir() and (path / MANIFEST_NAME).exists():
        return _find_by_manifest(path, split, additions)
    if additions is not None:
        raise ValueError(f"additions is {additions}, but {path} has no manifest.json; leave it out")
    if not path.is_dir():
        return _find_one_file(path, split)
    if (path / JOURNAL_NAME).exists():
        raise FormatError("its shards are not finished: run the same command again, which completes them", path=path)
    return _find_by_names(path, split)


def _find_by_manifest(folder: Path, split: str | None, additions: int | None) -> ShardListing:
    manifest = Manifest.read(folder)
    if additions is not None:
        manifest = select_additions(manifest, check_int("additions", additions, 0))
    if manifest.format not in SHARD_FORMATS:
        names = ", ".join(SHARD_FORMATS)
        raise FormatError(
            f"its format is {short_repr(manifest.format)}; it must be one of {names}", path=folder / MANIFEST_NAME
        )
    entries = _choose_split(folder, split, [(entry.split, entry) for entry in manifest.shards])
    shards = []
    for entry in entries:
        for file in entry.files:
            path = folder / file.name
            size = path.stat().st_size if path.is_file() else None
            if size != file.size:
                state = "is missing" if size is None else f"has {size} bytes"
                raise FormatError(f"the file {state}; the manifest has {file.size} bytes", path=path)
        shards.append(ListedShard(folder / entry.files[0].name, entry))
    split_manifest = replace(manifest, shards=tuple(entries))
    return ShardListing(manifest.format, shards, manifest.dtype, split_manifest.fingerprint, split_manifest)


def _find_by_names(folder: Path, split: str | None) -> ShardListing:
    """Find the shards of a folder without a manifest: all files of the one format in it, sorted by name."""
    paths_by_format: dict[str, list[Path]] = {}
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if name.startswith(".") or name.endswith(_SIDE_FILE_SUFFIXES) or not path.is_file():
            continue
        shard_format = _detect_format(path)
        if shard_format == "megatron":
            path = path.with_suffix(".bin")
        if shard_format is not None and path not in paths_by_format.get(shard_format, []):
            paths_by_format.setdefault(shard_format, []).append(path)
    if len(paths_by_format) > 1:
        names = " and ".join(paths_by_format)
        raise FormatError(f"it has shards of {names}; a folder without a manifest must have one format", path=folder)
    if not paths_by_format:
        raise FormatError("it has neither a manifest.json nor a shard of a known format", path=folder)
    ((shard_format, paths),) = paths_by_format.items()
    splits = _find_splits(paths)
    shards = [ListedShard(path, split_in_name=name_split) for path, name_split in zip(paths, splits, strict=True)]
    if not any(splits):
        splits = _find_splits([folder.resolve()]) * len(paths)
    return ShardListing(shard_format, _choose_split(folder, split, [*zip(splits, shards, strict=True)]))


def _find_splits(paths: list[Path]) -> list[str | None]:
    """Find the split that the words in each name say. Words that all names have in common do not count.

    Raises:
        ValueError: for a name with the words of several splits, beside others.

    >>> _find_splits([Path("fineweb_val_000.bin"), Path("latest.bin"), Path("heldOut.bin"), Path("training.bin")])
    ['val', None, 'val', 'train']
    >>> _find_splits([Path("my_test_train.bin"), Path("my_test_val.bin")])
    ['train', 'val']
    """
    splits = [_parse_splits(path.stem) for path in paths]
    if any(name_splits != splits[0] for name_splits in splits):
        common_splits = set.intersection(*splits)
        splits = [name_splits - common_splits for name_splits in splits]
        for path, name_splits in zip(paths, splits, strict=True):
            if len(name_splits) > 1:
                raise ValueError(
                    f"{path} is named for {' and '.join(sorted(name_splits))}, beside shards with other names; "
                    "rename it, or move it to another folder"
                )
    return [next(iter(name_splits)) if len(name_splits) == 1 else None for name_splits in splits]


def _parse_splits(name: str) -> set[str]:
    """Find the splits whose words a name has.

    >>> sorted(_parse_splits("wiki_valset_000")), sorted(_parse_splits("TestData"))
    (['val'], ['test'])
    """
    words = [word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    pairs = (first + second for first, second in pairwise(words))
    stems = (_WORD_ENDING.sub("", word) for word in (*words, *pairs))
    return {_SPLIT_BY_WORD[word] for word in stems if word in _SPLIT_BY_WORD}


def _choose_split(folder: Path, split: str | None, entries: list) -> list:  # type: ignore[type-arg]
    """Choose the entries of a split, from pairs (split, entry). Beside validation, unnamed shards are for training."""
    splits = {entry_split for entry_split, _ in entries}
    if split == "train" and "train" not in splits and len(splits) > 1:
        entries = [(entry_split or "train", entry) for entry_split, entry in entries]
        splits = {entry_split for entry_split, _ in entries}
    if split is None and len(splits) > 1:
        phrases = [phrase for entry_split, phrase in _SPLIT_PHRASES.items() if entry_split in splits]
        choices = [
            repr(entry_split)
            for entry_split in SPLITS
            if entry_split in splits or (entry_split == "train" and None in splits)
        ]
        raise ValueError(
            f"{folder} has {', '.join(phrases[:-1])} and {phrases[-1]} part; pass split={', '.join(choices)} or 'all'"
        )
    if split in SPLITS and split not in splits:
        if splits <= {None}:
            raise ValueError(f"split is {short_repr(split)}, but {folder} is not divided; pass split=None")
        names = " and ".join(phrase for entry_split, phrase in _SPLIT_PHRASES.items() if entry_split in splits)
        raise ValueError(f"split is {short_repr(split)}, but {folder} has only {names} part; pass another one")
    return [entry for entry_split, entry in entries if split in (None, "all") or entry_split == split]


def _find_one_file(path: Path, split: str | None) -> ShardListing:
    if split not in (None, "all"):
        raise ValueError(f"split is {short_repr(split)}, but {path} is not a folder; pass split=None")
    index_path, (split_in_name,) = path.with_name(path.name + ".idx"), _find_splits([path])
    if not path.exists() and index_path.exists():
        return ShardListing("megatron", [ListedShard(path.with_name(path.name + ".bin"), split_in_name=split_in_name)])
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if not path.is_file():
        raise FormatError("it is no regular file, as a shard is", path=path)
    shard_format = _detect_format(path)
    if shard_format is None:
        rule = "its name must end in .npy, .bin, .idx, .ds, .parquet or .arrow"
        raise FormatError(f"it is not a shard of a known format; {rule}", path=path)
    return ShardListing(
        shard_format,
        [ListedShard(path.with_suffix(".bin") if shard_format == "megatron" else path, split_in_name=split_in_name)],
    )


def _detect_format(path: Path) -> str | None:
    """Detect the format of a shard by the name and the first bytes of its main file; None for other files."""
    if path.suffix in _FORMAT_BY_SUFFIX:
        return _FORMAT_BY_SUFFIX[path.suffix]
    if path.suffix not in (".npy", ".bin"):
        return None
    if path.suffix == ".bin" and path.with_suffix(".idx").exists():
        return "megatron"
    with open(path, "rb") as file:
        head = file.read(8)
    if path.suffix == ".npy":
        return "native" if head.startswith(MAGIC) else "dolma"
    return "llmc" if head.startswith(_LLMC_MAGICS) else "nanogpt"
