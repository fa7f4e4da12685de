"""`manifest.json`: what a folder of shards holds, in every format.

It has the format, the dtype, the numbers of documents and tokens, the files with their sizes and CRC-32 sums, the
tokenizer's fingerprint, the plan of the sources and the options. It is written last, so that a folder with a manifest
is complete. `merge_manifests` makes one over the parts of a corpus that several machines encoded: nothing is moved or
copied but the tokenizer, and the manifest names the files of the parts by their paths below its folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from bpe.base.atomic_files import atomic_write, sync_folder
from bpe.base.utf8 import read_file
from bpe.corpus.blocks import PathLike
from bpe.data.formats.files import WrittenFile
from bpe.data.journal import BASE, JOURNAL_NAME, match_names, move_base
from bpe.errors import COUNT_LIMIT, FormatError, check_iterable, pluralize, short_repr
from bpe.formats.schema import parse_json

#: The name of the file in a folder of shards.
MANIFEST_NAME = "manifest.json"
#: The version of the file's layout.
VERSION = 1
#: The entry of `Manifest.sources` with the folders of shards that were added later.
ADDED = "added"
#: The options that say where shards end; a folder of other shards of the same documents lacks them.
SIZE_OPTIONS = ("shard_size", "shards")
#: The largest accepted size of the file in bytes: some million shards.
_MAX_MANIFEST_BYTES = 1 << 30
_CRC_PATTERN = re.compile("[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A shard in the manifest.

    Attributes:
        stem: the name that its files begin with, such as "tokens-00000".
        documents, tokens: their numbers.
        files: its files, the main one first. In the manifest of several parts, the stem and the files have the path of
            their folder: "part-00/tokens-00000.npy".
        split: "train", "val", "test", or None if the corpus is not divided.
        start: where its first document begins in the sources: the file, the offset, and how many documents lie
            between that offset and this one (see `Position`); None if unknown.

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
        damaged_files: the damaged files that were left out (`on_error="skip_files"`), name → what is wrong.

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
    damaged_files: dict[str, str] = field(default_factory=dict)

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
        """Check `options` and `sources`, by which the sources are about to be read again.

        Raises:
            FormatError: for a fact that is not as `encode_shards` writes it.

        """
        check_fields(self.options, _OPTION_RULES, "options")
        check_fields(self.sources, _SOURCE_RULES if "files" in self.sources else {}, "sources")
        list_inner_folders(self)

    def to_header(self) -> dict[str, Any]:
        """Return what determined the shards, as the header of their journal had it; without shards added later."""
        sources = {key: value for key, value in self.sources.items() if key != ADDED}
        options = {**self.options, "format": self.format}  # that of converted shards is another
        return {"sources": sources, "options": options, "tokenizer": self.tokenizer.get("fingerprint")}

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write `manifest.json` in a folder, atomically; the same content gives the same bytes.

        Raises:
            FormatError: for values that `read` would refuse.
            OSError: if it cannot be written.

        """
        totals: dict[str, Any] = {"documents": self.documents, "tokens": self.tokens}
        totals |= {"skipped": self.skipped} if self.skipped else {}
        totals |= {"damaged_files": self.damaged_files} if self.damaged_files else {}
        head = {"version": VERSION, "format": self.format, "dtype": self.dtype, "masks": self.masks, **totals}
        tail = {"tokenizer": self.tokenizer, "sources": self.sources, "options": self.options}
        value = {**head, **tail, "shards": [asdict(shard) for shard in self.shards]}
        data = json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"
        parse_manifest(parse_json(data))  # what cannot be opened is not written
        with atomic_write(Path(folder) / MANIFEST_NAME) as file:
            file.write(data)
        sync_folder(folder)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Manifest:
        """Read and check `manifest.json` in a folder.

        Raises:
            FileNotFoundError: if there is none.
            FormatError: if it is damaged, or written by a later version.

        """
        path = Path(folder) / MANIFEST_NAME
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_MANIFEST_BYTES:
            raise FormatError(f"it is no file of at most {_MAX_MANIFEST_BYTES} bytes; it must be a manifest", path=path)
        try:
            return parse_manifest(parse_json(read_file(path, _MAX_MANIFEST_BYTES)))
        except FormatError as error:
            raise FormatError(error.message, path=path, where=error.where) from None


# The fields of manifests and journals ---------------------------------------------------------------------------------

#: Whether a value fits, and the rule.
FieldRule = tuple[Callable[[Any], bool], str]


def check_fields(value: object, rules: Mapping[str, FieldRule], where: str) -> dict[str, Any]:
    """Check that a value is an object with such fields, and return it; FormatError, which says where, for any other."""
    if not isinstance(value, dict):
        refuse_value(value, "an object", where)
    for key, (fits, description) in rules.items():
        if not fits(value.get(key)):
            refuse_value(value.get(key), description, f"{where}.{key}" if where else key)
    return value


def refuse_value(value: object, rule: str, where: str) -> NoReturn:
    """Raise FormatError for a value."""
    raise FormatError(f"it is {short_repr(value)}; it must be {rule}", where=where or None)


def is_number(value: object, smallest: int = 0, largest: int = COUNT_LIMIT) -> bool:
    """Check whether a value is a whole number in this range."""
    return isinstance(value, int) and not isinstance(value, bool) and smallest <= value <= largest


def are_numbers(value: object, count: int) -> bool:
    """Check whether a value is a list of `count` whole numbers."""
    return isinstance(value, list) and len(value) == count and all(map(is_number, value))


def is_inner_path(value: object) -> bool:
    """Check whether a value is a path with slashes that does not lead out of its folder.

    >>> is_inner_path("part-00/tokens.npy"), is_inner_path("../tokens.npy"), is_inner_path("/tokens.npy")
    (True, False, False)
    """
    if not isinstance(value, str) or any("\ud800" <= char <= "\udfff" or char in "\\\0:" for char in value):
        return False  # surrogates are bytes that are no UTF-8
    return not any(part in ("", ".", "..") for part in value.split("/"))


def _is_part(value: object) -> bool:
    """Check whether a value is (rank, world)."""
    return are_numbers(value, 2) and value[0] < value[1]  # type: ignore[index]


def _is_allowed(value: object) -> bool:
    """Check whether a value says which special tokens become their ids in text: all, none, or a list of names."""
    return isinstance(value, bool) or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _is_fraction(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _are_messages(value: object) -> bool:
    """Check whether a value is an object of strings."""
    return isinstance(value, dict) and all(isinstance(message, str) for message in value.values())


def _are_files(value: object) -> bool:
    """Check whether a value is a list of files as `Sources.plan` has them: name, size, format, compression."""
    return isinstance(value, list) and all(
        isinstance(file, list)
        and len(file) == 4
        and (file[1] is None or is_number(file[1]))
        and all(isinstance(text, str) for text in (file[0], file[2], file[3] or ""))
        for file in value
    )


def _are_parts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, dict) and is_inner_path(part.get("folder")) for part in value
    )


def allow_null(rule: FieldRule) -> FieldRule:
    """Make the rule for a value that may also be null."""
    fits, description = rule
    return lambda value: value is None or fits(value), f"null or {description}"


def _make_type_rule(type_: type, description: str) -> FieldRule:
    return lambda value: isinstance(value, type_), description


_TEXT_RULE, _FLAG_RULE, LIST_RULE = (
    _make_type_rule(str, "a string"),
    _make_type_rule(bool, "true or false"),
    _make_type_rule(list, "a list"),
)
_OBJECT_RULE = _make_type_rule(dict, "an object")
COUNT_RULE: FieldRule = is_number, "a whole number from 0 to 2**63 - 1"
_NAME_RULE: FieldRule = is_inner_path, "the name of a file in this folder"
_SIZE_RULE = allow_null((partial(is_number, smallest=1), "a whole number from 1"))
_ID_RULE = allow_null((partial(is_number, largest=0xFFFFFFFF), "an id"))
#: The options and the facts about sources that are used again.
_OPTION_RULES: dict[str, FieldRule] = {
    "part": allow_null((_is_part, "a number and a count")),
    "allow_special": allow_null((_is_allowed, "true, false or a list of names")),
    "shuffle": allow_null((is_number, "a whole number")),
    "shards": _SIZE_RULE,
    "shard_size": _SIZE_RULE,
    "prepend": _ID_RULE,
    "append": _ID_RULE,
    "validation": allow_null((_is_fraction, "a number from 0 to 1")),
}
_SOURCE_RULES: dict[str, FieldRule] = {
    "files": (_are_files, "a list of files: name, size, format and compression"),
    "field": _TEXT_RULE,
    "separator": allow_null(_TEXT_RULE),
    "per_line": _FLAG_RULE,
    "encoding_errors": _TEXT_RULE,
    "on_error": _TEXT_RULE,
    "separator_ends": _FLAG_RULE,
    BASE: allow_null(_TEXT_RULE),
}
#: The fields of a manifest after its version, of a shard, and of a file.
_MANIFEST_RULES: dict[str, FieldRule] = {
    "dtype": (("uint16", "int32", "uint32").__contains__, "one of uint16, int32, uint32"),
    "shards": LIST_RULE,
    "masks": _FLAG_RULE,
    **dict.fromkeys(("tokenizer", "sources", "options"), _OBJECT_RULE),
    "format": _TEXT_RULE,
    **dict.fromkeys(("documents", "tokens"), COUNT_RULE),
}
#: Those that are there only where something was left out.
_LEFT_OUT_RULES: dict[str, FieldRule] = {
    "skipped": COUNT_RULE,
    "damaged_files": (_are_messages, "an object with a message for each file"),
}
_SHARD_RULES: dict[str, FieldRule] = {
    "files": (lambda value: isinstance(value, list) and bool(value), "a list with the shard's files"),
    "split": ((None, "train", "val", "test").__contains__, 'null, "train", "val" or "test"'),
    "documents": COUNT_RULE,
    "tokens": COUNT_RULE,
    "stem": _NAME_RULE,
    "start": allow_null((partial(are_numbers, count=3), "three numbers")),
}
_FILE_RULES: dict[str, FieldRule] = {
    "crc32": (
        lambda value: isinstance(value, str) and _CRC_PATTERN.fullmatch(value) is not None,
        "8 hexadecimal digits",
    ),
    "name": _NAME_RULE,
    "size": COUNT_RULE,
}


def parse_manifest(value: object) -> Manifest:
    """Parse the manifest in JSON."""
    version = check_fields(value, {"version": COUNT_RULE}, "")["version"]
    if version != VERSION:
        raise FormatError(f"its version is {version}; this release reads version {VERSION}", where="version")
    root = check_fields(value, _MANIFEST_RULES, "")
    shards = tuple(parse_shard(item, f"shards[{i}]") for i, item in enumerate(root["shards"]))
    check_fields(root, {name: rule for name, rule in _LEFT_OUT_RULES.items() if name in root}, "")
    facts = {name: root[name] for name in ("masks", "tokenizer", "sources", "options")}
    facts |= {name: root[name] for name in _LEFT_OUT_RULES if name in root}
    manifest = Manifest(root["format"], root["dtype"], shards, **facts)
    for name in ("documents", "tokens"):
        expected = getattr(manifest, name)
        if root[name] != expected:
            raise FormatError(f"it declares {pluralize(root[name], name[:-1])}; its shards have {expected}", where=name)
    names = [file.name for shard in shards for file in shard.files]
    if len({*names}) != len(names):
        raise FormatError("two shards have a file of the same name; names must differ", where="shards")
    return manifest


def parse_shard(value: object, where: str) -> ShardEntry:
    """Parse an item of the list "shards" of a manifest or a journal's record; FormatError if it is no shard."""
    item = check_fields(value, _SHARD_RULES, where)
    files = []
    for i, record in enumerate(item["files"]):
        file = check_fields(record, _FILE_RULES, f"{where}.files[{i}]")
        files.append(WrittenFile(file["name"], file["size"], file["crc32"]))
    start = None if item.get("start") is None else tuple(item["start"])
    return ShardEntry(item["stem"], item["documents"], item["tokens"], tuple(files), item.get("split"), start)


# Parts ----------------------------------------------------------------------------------------------------------------


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
        raise TypeError(f"parts is {short_repr(parts)}, a str; it must be an iterable of folders")
    target = Path(out)
    manifests = [(_find_part_name(target, Path(part)), _read_part(Path(part))) for part in parts]
    if not manifests:
        raise ValueError("there are no parts to merge; give their folders")
    if (target / MANIFEST_NAME).exists() and _has_own_shards(Manifest.read(target)):
        raise ValueError(f"{target} has shards and a manifest of its own; merge the parts in the folder above them")
    if (target / JOURNAL_NAME).exists():
        raise ValueError(
            f"{target} has shards of its own that are not finished; merge the parts in the folder above them"
        )
    _check_same_origin(manifests)
    manifests.sort(key=lambda item: (item[1].options.get("part") or [0])[0])
    _check_complete(manifests)
    for name, n_times in Counter(name for name, _ in manifests).items():
        if n_times > 1:
            raise ValueError(f"the folder {name} is given {n_times} times; give each folder once")
    shards = [move_entry(shard, PurePosixPath(name)) for name, manifest in manifests for shard in manifest.shards]
    shards.sort(key=lambda shard: shard.split or "")  # stable: "train" before "val"
    first_name, first_manifest = manifests[0]
    plan = {key: value for key, value in first_manifest.sources.items() if key not in ("part", ADDED)}
    plan = move_base(plan, target / first_name, target)
    part_records = [{"folder": name, "part": manifest.options.get("part")} for name, manifest in manifests]
    merged_manifest = Manifest(
        first_manifest.format,
        first_manifest.dtype,
        tuple(shards),
        masks=first_manifest.masks,
        tokenizer=copy_tokenizer(first_manifest.tokenizer, target / first_name, target),
        sources={**plan, "parts": part_records},
        options={**first_manifest.options, "part": None},
        skipped=sum(manifest.skipped for _, manifest in manifests),
        damaged_files={name: reason for _, manifest in manifests for name, reason in manifest.damaged_files.items()},
    )
    merged_manifest.write(target)
    return merged_manifest


def _has_own_shards(manifest: Manifest) -> bool:
    """Whether a folder has shards that are of none of its parts."""
    return "parts" not in manifest.sources or ADDED in manifest.sources


def _find_part_name(out: Path, part: Path) -> str:
    """Find the path of a part below the output folder."""
    try:
        name = part.resolve().relative_to(out.resolve()).as_posix()
    except ValueError:
        name = "."
    if name == ".":
        raise ValueError(
            f"the part {part} is not in the output folder {out}; move it there, or name the folder above all parts"
        )
    return name


def _read_part(part: Path) -> Manifest:
    if not (part / MANIFEST_NAME).exists():
        state = "it is not finished; run its command again" if (part / JOURNAL_NAME).exists() else "it has none"
        raise FormatError(f"there is no manifest: {state}", path=part)
    manifest = Manifest.read(part)
    try:
        manifest.check_origin()
    except FormatError as error:
        raise FormatError(error.message, path=part / MANIFEST_NAME, where=error.where) from None
    return manifest


def _check_same_origin(manifests: list[tuple[str, Manifest]]) -> None:
    """Refuse parts that were not made from the same sources, with the same options and tokenizer."""

    def collect_facts(manifest: Manifest) -> dict[str, Any]:
        return {
            "format": manifest.format,
            "dtype": manifest.dtype,
            "masks": manifest.masks,
            "tokenizer": manifest.tokenizer.get("fingerprint"),
            "options": {key: value for key, value in manifest.options.items() if key != "part"},
            "count of parts": (manifest.options.get("part") or [None, None])[1],
            "sources": {key: value for key, value in manifest.sources.items() if key not in ("part", BASE)},
        }

    first_name, first_manifest = manifests[0]
    first_facts = collect_facts(first_manifest)
    for name, manifest in manifests[1:]:
        part_facts = collect_facts(manifest)
        part_facts["sources"] = match_names(part_facts["sources"], first_facts["sources"])
        for key, value in first_facts.items():
            if key == "sources" and first_facts["count of parts"] is None:
                continue  # separate corpora
            if part_facts[key] != value:
                raise ValueError(
                    f"{name} and {first_name} differ in {key}: {short_repr(part_facts[key])} and {short_repr(value)}; "
                    "parts are made with the same sources, options and tokenizer"
                )


def _check_complete(manifests: list[tuple[str, Manifest]]) -> None:
    """Refuse parts that are missing, or there twice."""
    n_parts = (manifests[0][1].options.get("part") or [0, None])[1]
    if n_parts is None:
        return
    ranks = [manifest.options["part"][0] for _, manifest in manifests]
    for rank in range(n_parts):
        n_times = ranks.count(rank)
        if n_times != 1:
            state = "is missing" if not n_times else f"is there {n_times} times"
            raise ValueError(f"part {rank}/{n_parts} {state}; give the folder of each part once")


def list_lasting_files(plan: Mapping[str, Any]) -> list[str]:
    """List the files of sources but for pipes and standard input, which have other text each time."""
    return [name for name, size, *_ in plan.get("files", ()) if size is not None or "://" in name]


def list_additions(manifest: Manifest) -> list[str]:
    """List the folders of the shards that were added to a finished folder, in the order of the additions.

    Raises:
        FormatError: for what `encode_shards(extend=True)` does not write.

    """
    return _list_folders(manifest, ADDED)


def list_inner_folders(manifest: Manifest) -> list[str]:
    """List the folders in a folder whose shards its manifest has: merged parts, and then additions.

    Raises:
        FormatError: for what neither `merge_manifests` nor `encode_shards(extend=True)` writes.

    """
    return [*_list_folders(manifest, "parts"), *_list_folders(manifest, ADDED)]


def _list_folders(manifest: Manifest, key: str) -> list[str]:
    parts = manifest.sources.get(key, [])
    if not _are_parts(parts):
        refuse_value(parts, "a list of parts with their folders", f"sources.{key}")
    return [part["folder"] for part in parts]


def select_additions(manifest: Manifest, count: int) -> Manifest:
    """Return the manifest as it was after the first `count` additions to the folder.

    Raises:
        ValueError: for more additions than there are.

    """
    folders = list_additions(manifest)
    if count > len(folders):
        raise ValueError(
            f"additions is {count}, but {pluralize(len(folders), 'addition')} of shards were made; pass at most that"
        )
    later = tuple(f"{folder}/" for folder in folders[count:])
    shards = tuple(entry for entry in manifest.shards if not entry.stem.startswith(later))
    return replace(
        manifest, shards=shards, sources={**manifest.sources, ADDED: manifest.sources.get(ADDED, [])[:count]}
    )


def move_entry(entry: ShardEntry, folder: PurePosixPath) -> ShardEntry:
    """Give the files of a shard names below another folder. Where the shard begins in the sources is lost."""
    files = tuple(replace(file, name=str(folder / file.name)) for file in entry.files)
    return replace(entry, stem=str(folder / entry.stem), files=files, start=None)


def copy_tokenizer(facts: dict[str, Any], source: Path, folder: Path) -> dict[str, Any]:
    """Copy the tokenizer's file to the new folder, and return the new manifest's facts about the tokenizer."""
    name = facts.get("file")
    if isinstance(name, str) and is_inner_path(name) and (source / name).is_file():
        with open(source / name, "rb") as old_file, atomic_write(folder / PurePosixPath(name).name) as new_file:
            shutil.copyfileobj(old_file, new_file)
        return {**facts, "file": PurePosixPath(name).name}
    return {key: value for key, value in facts.items() if key != "file"}
