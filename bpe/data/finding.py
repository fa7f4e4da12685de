"""Find the shards of a folder or a file, and their format: by the manifest, else by names and first bytes."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from bpe.data import manifest
from bpe.data.formats import FORMATS
from bpe.data.journal import JOURNAL_NAME
from bpe.data.manifest import Manifest, ShardEntry
from bpe.errors import FormatError, check_int, short_repr
from bpe.formats.id_files import MAGIC
from bpe.tokenizer import Tokenizer

#: llm.c's magic numbers, as the first four bytes of a file.
_LLMC = tuple(number.to_bytes(4, "little") for number in (20240520, 20240801))
#: The formats that a file name's end decides.
_BY_SUFFIX = {".ds": "datatrove", ".idx": "megatron", ".parquet": "parquet", ".arrow": "arrow"}
#: The parts of a divided corpus, and the words in the names of files and folders that stand for them.
SPLITS = ("train", "val", "test")
_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "validate", "dev", "devel", "eval", "evaluation"), "val"),
    **dict.fromkeys(("holdout", "heldout"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
#: What such a word may end with.
_SET = re.compile("(?<=.)(?:set|split|data)s?$")
#: How an error calls the parts.
_PARTS = {"train": "a training", "val": "a validation", "test": "a test", None: "an unnamed"}
#: Ends of files that stand beside a shard's main file.
_BESIDE = (".offsets.npy", ".mask.npy")


@dataclass(frozen=True, slots=True)
class FoundShard:
    """A shard: the path of its main file, and what the manifest says of it; without one, the split by its name."""

    path: Path
    entry: ShardEntry | None = None
    named: str | None = None

    @property
    def stem(self) -> str:
        """The name that the shard's files begin with."""
        return self.path.stem if self.entry is None else self.entry.stem

    @property
    def split(self) -> str | None:
        """The part of a divided corpus that the shard belongs to: "train", "val", "test" or None."""
        return self.named if self.entry is None else self.entry.split


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """The shards of a folder or file, in document order; the dtype and the fingerprint where there is a manifest."""

    format: str
    shards: list[FoundShard]
    dtype: str | None = None
    fingerprint: str | None = None
    manifest: Manifest | None = None

    def end_of_text_id(self, path: Path, given: object) -> int | None:
        """The argument `end_of_text` as an id: a name is looked up in the shards' copy of the tokenizer.

        Raises:
            TypeError, ValueError: for what is neither an id nor the name of a special token of that tokenizer.

        """
        if given is None:
            return None
        if not isinstance(given, str):
            return check_int("end_of_text", given, 0, (1 << 32) - 1)
        file = None if self.manifest is None else self.manifest.tokenizer.get("file")
        if not isinstance(file, str) or not manifest.is_inner_path(file) or not (path / file).is_file():
            raise ValueError(
                f"end_of_text is {given!r}, a name, and {path} has no copy of its tokenizer to look it up in; "
                "pass the id"
            )
        special = Tokenizer.load(path / file).special_tokens
        if given not in special:
            raise ValueError(
                f"end_of_text is {given!r}; it must be an id, or one of the special tokens of {path / file}: "
                f"{short_repr(list(special), 200)}"
            )
        return special[given]


def find_shards(path: Path, split: str | None = None) -> FoundFolder:
    """The shards of a folder or of one file.

    Args:
        path: a folder, a shard's main file, or the common prefix of Megatron's two files.
        split: "train", "val", "test", or "all"; None where the corpus is not divided.

    Raises:
        FormatError, FileNotFoundError, ValueError: see `TokenShards`.

    """
    if split not in (None, *SPLITS, "all"):
        raise ValueError(f"split is {short_repr(split)}; it must be 'train', 'val', 'test', 'all' or None")
    if not path.is_dir():
        return _find_one_file(path, split)
    if (path / manifest.MANIFEST_NAME).exists():
        return _find_by_manifest(path, split)
    if (path / JOURNAL_NAME).exists():
        raise FormatError("its shards are not finished: run the same command again, which completes them", path=path)
    return _find_by_names(path, split)


def _find_by_manifest(folder: Path, split: str | None) -> FoundFolder:
    read = Manifest.read(folder)
    if read.format not in FORMATS:
        names = ", ".join(FORMATS)
        raise FormatError(
            f"its format is {short_repr(read.format)}; it must be one of {names}", path=folder / manifest.MANIFEST_NAME
        )
    chosen = _choose_split(folder, split, [(entry.split, entry) for entry in read.shards])
    shards = []
    for entry in chosen:
        for file in entry.files:
            path = folder / file.name
            size = path.stat().st_size if path.is_file() else None
            if size != file.size:
                state = "is missing" if size is None else f"has {size} bytes"
                raise FormatError(f"the file {state}; the manifest has {file.size} bytes", path=path)
        shards.append(FoundShard(folder / entry.files[0].name, entry))
    part = replace(read, shards=tuple(chosen))
    return FoundFolder(read.format, shards, read.dtype, part.fingerprint, part)


def _find_by_names(folder: Path, split: str | None) -> FoundFolder:
    """The shards of a folder without a manifest: all files of the one format in it, sorted by name."""
    named: dict[str, list[Path]] = {}
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if name.startswith(".") or name.endswith(_BESIDE) or not path.is_file():
            continue
        shard_format = _format_of(path)
        if shard_format == "megatron":
            path = path.with_suffix(".bin")
        if shard_format is not None and path not in named.get(shard_format, []):
            named.setdefault(shard_format, []).append(path)
    if len(named) > 1:
        names = " and ".join(named)
        raise FormatError(f"it has shards of {names}; a folder without a manifest must have one format", path=folder)
    if not named:
        raise FormatError("it has neither a manifest.json nor a shard of a known format", path=folder)
    ((shard_format, paths),) = named.items()
    splits = _find_splits(paths)
    shards = [FoundShard(path, named=name_split) for path, name_split in zip(paths, splits, strict=True)]
    if not any(splits):
        splits = _find_splits([folder.resolve()]) * len(paths)
    return FoundFolder(shard_format, _choose_split(folder, split, [*zip(splits, shards, strict=True)]))


def _find_splits(paths: list[Path]) -> list[str | None]:
    """The split that the words in each name say. Words that all names have in common do not count.

    Raises:
        ValueError: for a name with the words of several splits, beside others.

    >>> _find_splits([Path("fineweb_val_000.bin"), Path("latest.bin"), Path("heldOut.bin"), Path("training.bin")])
    ['val', None, 'val', 'train']
    >>> _find_splits([Path("my_test_train.bin"), Path("my_test_val.bin")])
    ['train', 'val']
    """
    splits = [_parse_splits(path.stem) for path in paths]
    if any(parts != splits[0] for parts in splits):
        common = set.intersection(*splits)
        splits = [parts - common for parts in splits]
        for path, parts in zip(paths, splits, strict=True):
            if len(parts) > 1:
                raise ValueError(
                    f"{path} is named for {' and '.join(sorted(parts))}, beside shards with other names; rename it, or "
                    "move it to another folder"
                )
    return [next(iter(parts)) if len(parts) == 1 else None for parts in splits]


def _parse_splits(name: str) -> set[str]:
    """The splits whose words a name has.

    >>> sorted(_parse_splits("wiki_valset_000")), sorted(_parse_splits("TestData"))
    (['val'], ['test'])
    """
    words = [word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    pairs = (first + second for first, second in pairwise(words))
    spelled = (_SET.sub("", word) for word in (*words, *pairs))
    return {_WORDS[word] for word in spelled if word in _WORDS}


def _choose_split(folder: Path, split: str | None, entries: list) -> list:  # type: ignore[type-arg]
    """The entries of a split, from pairs (split, entry). Beside validation, what has no name is for training."""
    splits = {side for side, _ in entries}
    if split == "train" and "train" not in splits and len(splits) > 1:
        entries = [(side or "train", entry) for side, entry in entries]
        splits = {side for side, _ in entries}
    if split is None and len(splits) > 1:
        parts = [name for side, name in _PARTS.items() if side in splits]
        given = [repr(side) for side in SPLITS if side in splits or (side == "train" and None in splits)]
        raise ValueError(
            f"{folder} has {', '.join(parts[:-1])} and {parts[-1]} part; pass split={', '.join(given)} or 'all'"
        )
    if split in SPLITS and split not in splits:
        if splits <= {None}:
            raise ValueError(f"split is {short_repr(split)}, but {folder} is not divided; pass split=None")
        names = " and ".join(name for side, name in _PARTS.items() if side in splits)
        raise ValueError(f"split is {short_repr(split)}, but {folder} has only {names} part; pass another one")
    return [entry for side, entry in entries if split in (None, "all") or side == split]


def _find_one_file(path: Path, split: str | None) -> FoundFolder:
    if split not in (None, "all"):
        raise ValueError(f"split is {short_repr(split)}, but {path} is not a folder; pass split=None")
    index, (named,) = path.with_name(path.name + ".idx"), _find_splits([path])
    if not path.exists() and index.exists():
        return FoundFolder("megatron", [FoundShard(path.with_name(path.name + ".bin"), named=named)])
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if not path.is_file():
        raise FormatError("it is no regular file, as a shard is", path=path)
    shard_format = _format_of(path)
    if shard_format is None:
        rule = "its name must end in .npy, .bin, .idx, .ds, .parquet or .arrow"
        raise FormatError(f"it is not a shard of a known format; {rule}", path=path)
    return FoundFolder(
        shard_format, [FoundShard(path.with_suffix(".bin") if shard_format == "megatron" else path, named=named)]
    )


def _format_of(path: Path) -> str | None:
    """The format of a shard by the name and the first bytes of its main file; None for other files."""
    if path.suffix in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix]
    if path.suffix not in (".npy", ".bin"):
        return None
    if path.suffix == ".bin" and path.with_suffix(".idx").exists():
        return "megatron"
    with open(path, "rb") as file:
        first = file.read(8)
    if path.suffix == ".npy":
        return "native" if first.startswith(MAGIC) else "dolma"
    return "llmc" if first.startswith(_LLMC) else "nanogpt"
