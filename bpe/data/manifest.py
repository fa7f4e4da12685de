"""`manifest.json`: what a folder of shards holds, in every format.

It has the format, the dtype, the numbers of documents and tokens, the files with their sizes and CRC-32 sums, the
tokenizer's fingerprint, the plan of the sources and the options. It is written last, so that a folder with a manifest
is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from bpe.base.atomic_files import atomic_write, sync_folder
from bpe.data.formats.protocol import WrittenFile
from bpe.errors import COUNT_LIMIT, FormatError, counted, shown
from bpe.formats.schema import load

#: The name of the file in a folder of shards.
NAME = "manifest.json"
#: The name of the journal, which a folder has until its encoding is finished.
JOURNAL = "journal.jsonl"
#: The version of the file's layout.
VERSION = 1
#: The largest accepted size of the file in bytes: some million shards.
_MAX_SIZE = 1 << 30
_DTYPES = ("uint16", "int32", "uint32")
_CRC = re.compile("[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A shard in the manifest.

    Attributes:
        stem: the name that its files begin with, such as "tokens-00000".
        documents, tokens: their numbers.
        files: its files, the main one first. In the manifest of several parts, the stem and the files have the path of
            their folder: "part-00/tokens-00000.npy".
        split: "train", "val", "test", or None if the corpus is not divided.
        start: where its first document begins in the sources: the file, the offset, and how many documents follow
            before it (see `Position`); None if unknown.

    """

    stem: str
    documents: int
    tokens: int
    files: tuple[WrittenFile, ...]
    split: str | None = None
    start: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a folder of shards.

    Attributes:
        format: the name of the shards' format.
        dtype: the dtype of the ids, such as "uint16".
        shards: the shards in document order.
        masks: whether the shards have loss masks.
        tokenizer: facts about the tokenizer, JSON: "fingerprint" and "file" where there is a copy; {} if unknown.
        sources: the plan of the sources, JSON; {} if unknown.
        options: the options that the shards were written with, JSON.
        skipped: the number of bad records of the sources that were left out, in all runs of the command.

    >>> file = WrittenFile("tokens-00000.npy", 132, "0a1b2c3d")
    >>> manifest = Manifest("native", "uint16", (ShardEntry("tokens-00000", 1, 2, (file,)),))
    >>> manifest.documents, manifest.tokens, len(manifest.fingerprint)
    (1, 2, 64)

    """

    format: str
    dtype: str
    shards: tuple[ShardEntry, ...]
    masks: bool = False
    tokenizer: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    skipped: int = 0

    @property
    def documents(self) -> int:
        """The number of documents in all shards."""
        return sum(shard.documents for shard in self.shards)

    @property
    def tokens(self) -> int:
        """The number of tokens in all shards."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of the content: format, dtype, counts, sizes and sums; not of names, options or sources."""
        rows = [
            [shard.split, shard.documents, shard.tokens, [[file.size, file.crc32] for file in shard.files]]
            for shard in self.shards
        ]
        text = json.dumps([self.format, self.dtype, self.masks, rows], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def check_origin(self) -> None:
        """Check the facts about options and sources, before the sources are read again by them.

        Raises:
            FormatError: for a fact that is not as `encode_shards` writes it.

        """
        for name, facts, rules in (("options", self.options, _OPTIONS), ("sources", self.sources, _SOURCES)):
            for key, (fits, rule) in rules.items():
                if not fits(facts.get(key)) and (name == "options" or "files" in facts):
                    refuse_value(facts.get(key), rule, f"{name}.{key}")
        if not _are_parts(self.sources.get("parts", [])):
            refuse_value(self.sources["parts"], "a list of parts with their folders", "sources.parts")

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write `manifest.json` in a folder, atomically; the same content gives the same bytes.

        Raises:
            FormatError: for values that `read` would refuse.
            OSError: if it cannot be written.

        """
        totals = {"documents": self.documents, "tokens": self.tokens}
        totals |= {"skipped": self.skipped} if self.skipped else {}
        head = {"version": VERSION, "format": self.format, "dtype": self.dtype, "masks": self.masks, **totals}
        tail = {"tokenizer": self.tokenizer, "sources": self.sources, "options": self.options}
        value = {**head, **tail, "shards": [asdict(shard) for shard in self.shards]}
        data = json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"
        _manifest(load(data))  # what cannot be opened is not written
        with atomic_write(Path(folder) / NAME) as file:
            file.write(data)
        sync_folder(folder)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Manifest:
        """Read and check `manifest.json` in a folder.

        Raises:
            FileNotFoundError: if there is none.
            FormatError: if it is damaged, or written by a later version.

        """
        path = Path(folder) / NAME
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SIZE:
            raise FormatError(f"it is no file of at most {_MAX_SIZE} bytes; it must be a manifest", path=path)
        try:
            return _manifest(load(path.read_bytes()))
        except FormatError as error:
            raise FormatError(error.message, path=path, where=error.where) from None


def _is_number(value: object, least: int = 0, most: int = COUNT_LIMIT) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_allowed(value: object) -> bool:
    """Whether a value says which special tokens become their ids in text: all, none, or those named."""
    return isinstance(value, bool) or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _is_part(value: object) -> bool:
    """Whether a value is (number, count)."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    return _is_number(value[1], 1) and _is_number(value[0], 0, value[1] - 1)


def _is_fraction(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _are_files(value: object) -> bool:
    """Whether a value is a list of files as `Sources.plan` has them: name, size, format, compression."""
    return isinstance(value, list) and all(
        isinstance(file, list)
        and len(file) == 4
        and (file[1] is None or _is_number(file[1]))
        and all(isinstance(each, str) for each in (file[0], file[2], file[3] or ""))
        for file in value
    )


def _are_parts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, dict) and isinstance(part.get("folder"), str) and is_inner_path(part["folder"])
        for part in value
    )


def _or_null(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


#: Whether a value fits, and the rule.
_Rule = tuple[Callable[[Any], bool], str]
_TEXT: _Rule = (lambda value: isinstance(value, str), "a string")
_FLAG: _Rule = (lambda value: isinstance(value, bool), "true or false")
_SIZE: _Rule = (_or_null(partial(_is_number, least=1)), "null or a whole number from 1")
_ID: _Rule = (_or_null(partial(_is_number, most=0xFFFFFFFF)), "null or an id")
#: The options and the facts about sources that are used again.
_OPTIONS: dict[str, _Rule] = {
    "part": (_or_null(_is_part), "null or a number and a count"),
    "allow_special": (_or_null(_is_allowed), "true, false or a list of names"),
    "shuffle": (_or_null(_is_number), "null or a whole number"),
    "shards": _SIZE,
    "shard_size": _SIZE,
    "prepend": _ID,
    "append": _ID,
    "validation": (_or_null(_is_fraction), "null or a number from 0 to 1"),
}
_SOURCES: dict[str, _Rule] = {
    "files": (_are_files, "a list of files: name, size, format and compression"),
    "field": _TEXT,
    "separator": (_or_null(_TEXT[0]), "null or a string"),
    "per_line": _FLAG,
    "encoding_errors": _TEXT,
    "on_error": _TEXT,
    "separator_ends": _FLAG,
}


def _manifest(value: object) -> Manifest:
    """The manifest in parsed JSON."""
    root = as_object(value, "")
    version = get_count(root, "version", "")
    if version != VERSION:
        raise FormatError(f"its version is {version}; this release reads version {VERSION}", where="version")
    dtype = _text(root, "dtype", "")
    if dtype not in _DTYPES:
        refuse_value(dtype, f"one of {', '.join(_DTYPES)}", "dtype")
    shards = tuple(parse_shard(item, f"shards[{i}]") for i, item in enumerate(get_list(root, "shards", "")))
    masks = root.get("masks")
    if not isinstance(masks, bool):
        refuse_value(masks, "true or false", "masks")
    facts = {name: as_object(root.get(name), name) for name in ("tokenizer", "sources", "options")}
    skipped = get_count(root, "skipped", "") if "skipped" in root else 0
    manifest = Manifest(_text(root, "format", ""), dtype, shards, masks, **facts, skipped=skipped)
    for name in ("documents", "tokens"):
        total, expected = get_count(root, name, ""), getattr(manifest, name)
        if total != expected:
            raise FormatError(f"it declares {counted(total, name[:-1])}; its shards have {expected}", where=name)
    names = [file.name for shard in shards for file in shard.files]
    if len({*names}) != len(names):
        raise FormatError("two shards have a file of the same name; names must differ", where="shards")
    return manifest


def parse_shard(value: object, where: str) -> ShardEntry:
    """The shard in an item of the list "shards", of a manifest or a journal's record; FormatError for what is none."""
    item = as_object(value, where)
    files = tuple(_file(each, f"{where}.files[{i}]") for i, each in enumerate(get_list(item, "files", where)))
    if not files:
        refuse_value([], "a list with the shard's files", f"{where}.files")
    split = item.get("split")
    if split not in (None, "train", "val", "test"):
        refuse_value(split, 'null, "train", "val" or "test"', f"{where}.split")
    counts = get_count(item, "documents", where), get_count(item, "tokens", where)
    return ShardEntry(_name(item, "stem", where), *counts, files, split, _start(item, where))


def _start(item: dict[str, Any], where: str) -> tuple[int, int, int] | None:
    """Where a shard begins in the sources, if the manifest has it."""
    if item.get("start") is None:
        return None
    numbers = {str(i): number for i, number in enumerate(get_list(item, "start", where))}
    if len(numbers) != 3:
        refuse_value(item["start"], "null or three numbers", f"{where}.start")
    file, offset, documents = (get_count(numbers, name, f"{where}.start") for name in numbers)
    return file, offset, documents


def _file(value: object, where: str) -> WrittenFile:
    item = as_object(value, where)
    crc32 = _text(item, "crc32", where)
    if not _CRC.fullmatch(crc32):
        refuse_value(crc32, "8 hexadecimal digits", f"{where}.crc32")
    return WrittenFile(_name(item, "name", where), get_count(item, "size", where), crc32)


def as_object(value: object, where: str) -> dict[str, Any]:
    """Return `value` if it is an object; raise FormatError otherwise."""
    if not isinstance(value, dict):
        refuse_value(value, "an object", where)
    return value


def get_list(item: dict[str, Any], key: str, where: str) -> list[object]:
    """A field that must be a list."""
    value = item.get(key)
    if not isinstance(value, list):
        refuse_value(value, "a list", _inside(where, key))
    return value


def _text(item: dict[str, Any], key: str, where: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        refuse_value(value, "a string", _inside(where, key))
    return value


def _name(item: dict[str, Any], key: str, where: str) -> str:
    """A file's path in the folder, with slashes: it must not lead out of the folder."""
    value = _text(item, key, where)
    if not is_inner_path(value):
        refuse_value(value, "the name of a file in this folder", _inside(where, key))
    return value


def is_inner_path(value: str) -> bool:
    """Whether a path with slashes does not lead out of its folder.

    >>> is_inner_path("part-00/tokens.npy"), is_inner_path("../tokens.npy"), is_inner_path("/tokens.npy")
    (True, False, False)
    """
    parts = value.split("/")
    is_text = not any("\ud800" <= each <= "\udfff" for each in value)  # not bytes that are no UTF-8
    return is_text and not any(part in ("", ".", "..") for part in parts) and not any(each in value for each in "\\\0:")


def get_count(item: dict[str, Any], key: str, where: str) -> int:
    """A field that must be a whole number from 0 to 2**63 - 1."""
    value = item.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= COUNT_LIMIT:
        refuse_value(value, "a whole number from 0 to 2**63 - 1", _inside(where, key))
    return value


def _inside(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def refuse_value(value: object, rule: str, where: str) -> NoReturn:
    """Raise FormatError for a value."""
    raise FormatError(f"it is {shown(value)}; it must be {rule}", where=where or None)
