"""Loads a tokenizer from a file or a folder, and detects the format from the content and the names.

A format is a row of the table `FORMATS`: how its files are read and written. Writing files: `saving.py`.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpe.errors import FormatError, check_choice, shown
from bpe.formats.packed import first_bytes
from bpe.formats.signatures import (
    CHAT_TEMPLATE,
    CLIP,
    CONFIG,
    CONFIGURATION,
    GGUF,
    MERGES,
    NATIVE,
    RANKS,
    SENTENCEPIECE,
    TEKKEN,
    VOCAB,
    looks_like_model,
    looks_like_old_codes,
    looks_like_pair,
    looks_like_ranks,
    looks_like_tekken,
    map_gguf,
    rank_file_of,
)

if TYPE_CHECKING:
    from bpe.vocab.spec import TokenizerSpec

Files = Mapping[str, bytes]

log = logging.getLogger("bpe")


@dataclass(frozen=True)
class Format:
    """A file format of tokenizers.

    Attributes:
        name: the name, for `format=`.
        files: what it consists of, for messages.
        read: content of the file → spec; None for a format of several files.
        read_folder: name → content of the files, and the folder's path → spec; None for a format of one file.
        write: spec → content of the file, or name → content of the files; None for a format that is only read.
        names: what its files in a folder are called, `*` for any characters; empty if they have no fixed names.

    """

    name: str
    files: str
    read: Callable[[bytes, str | None], TokenizerSpec] | None = None
    read_folder: Callable[[Files, str | None], TokenizerSpec] | None = None
    write: Callable[[TokenizerSpec], Any] | None = None
    names: tuple[str, ...] = ()


def _read_ranks(data: bytes, path: str | None) -> TokenizerSpec:
    """One of OpenAI's own rank files, whose pattern is known."""
    from bpe.formats import tiktoken
    from bpe.pretokenize.pretokenizer import Pretokenizer

    known = tiktoken.published(data)
    if known is None:
        raise FormatError(
            "it is a rank file, and its pattern is unknown, because it is not one of OpenAI's own; load it with a "
            "pattern: Tokenizer.from_tiktoken(path, pretokenizer, special_tokens), or make a tokenizer.json of it: "
            "bpe convert IN OUT --pretokenizer NAME",
            path=path,
        )
    return tiktoken.read(data, Pretokenizer(known[0]), dict(known[1]), path)


def _read_clip(data: bytes, path: str | None) -> TokenizerSpec:
    from bpe.formats import clip

    return clip.read(data, clip.clean_up(True, True, True, None), path)


def _by(module: str, function: str) -> Callable[..., Any]:
    """A reader or a writer, whose module is imported when it is called."""

    def call(*args: Any) -> Any:
        return getattr(import_module(f"bpe.formats.{module}"), function)(*args)

    return call


#: The formats by name.
FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format(
            "huggingface",
            "a tokenizer.json",
            _by("huggingface.reading", "read"),
            write=_by("huggingface.writing", "write"),
            names=(NATIVE,),
        ),
        Format(
            "vocab-merges",
            "vocab.json and merges.txt in a folder",
            read_folder=_by("vocab_merges", "read"),
            write=_by("vocab_merges", "write"),
            names=(VOCAB, MERGES, *CONFIGURATION),
        ),
        Format(
            "tiktoken",
            "a rank file, .tiktoken",
            _read_ranks,
            write=_by("tiktoken", "write"),
            names=(RANKS, "*.tiktoken"),
        ),
        Format(
            "tiktoken-folder",
            "tiktoken.model and tokenizer_config.json in a folder",
            read_folder=_by("tiktoken_folder", "read"),
            write=_by("tiktoken_folder", "write"),
            names=(RANKS, "*.tiktoken", CONFIG),
        ),
        Format("tekken", "a tekken.json", _by("tekken", "read"), write=_by("tekken", "write"), names=(TEKKEN,)),
        Format("clip", "CLIP's merge list", _read_clip, write=_by("clip", "write")),
        Format(
            "sentencepiece",
            "a sentencepiece .model of type BPE",
            _by("sentencepiece", "read"),
            names=(SENTENCEPIECE,),
        ),
        Format("gguf", "a GGUF file with a tokenizer", _by("gguf", "read")),
        Format("subword-nmt", "a file of codes", _by("subword_nmt", "read"), write=_by("subword_nmt", "write")),
    )
}


def format_names(*, written: bool = False) -> tuple[str, ...]:
    """The names of all formats, or with `written` of those that are written too."""
    return tuple(name for name, each in FORMATS.items() if each.write is not None or not written)


def check_format(name: str, *, written: bool = False) -> Format:
    """The format of this name.

    Raises:
        ValueError: for a name that is not known, and with `written` for a format that is only read.

    """
    return FORMATS[check_choice("format", name, format_names(written=written))]


def is_rank_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a file that begins like a rank file; OSError for one that cannot be read."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return looks_like_ranks(file.read(1 << 16))


def load_spec(path: str | os.PathLike[str], format: str | None = None) -> TokenizerSpec:  # noqa: A002
    """Load a tokenizer from a file or a folder.

    Args:
        path: a file, or a folder with one of the sets of files that `folder_format` knows. A file that belongs to
            others, such as vocab.json, is loaded with them from its folder.
        format: the name of the format; None to detect it.

    Raises:
        FormatError: for a file of another kind, and for an unsupported feature.
        OSError: for a file that cannot be read.
        ValueError: for a format that is not known.

    """
    from bpe.base.utf8 import read_file

    chosen = None if format is None else check_format(format)
    where = Path(path)
    if where.is_dir():
        return _load_folder(where, chosen)
    if chosen is not None and chosen.read_folder is not None:
        return _load_folder(where.parent, chosen)
    if chosen is None or chosen.name == "gguf":
        header = map_gguf(path)
        if header is not None:
            with header:
                from bpe.formats import gguf

                return gguf.read(header, os.fspath(path))
    data = read_file(path)
    if chosen is None:
        chosen = check_format(_detected(data, where))
        if chosen.read_folder is not None:
            return _load_folder(where.parent, chosen)
    assert chosen.read is not None
    return chosen.read(data, os.fspath(path))


def _detected(data: bytes, path: Path) -> str:
    """The name of the format of a file."""
    name = path.name.lower()
    head = first_bytes(data, 200)
    if looks_like_ranks(data):
        beside = path.parent / CONFIG
        from bpe.formats import tiktoken

        ours = name == RANKS or name.endswith(".tiktoken")
        return "tiktoken-folder" if ours and beside.is_file() and tiktoken.published(data) is None else "tiktoken"
    if name in (VOCAB, MERGES) and _is_pair(path.parent):
        return "vocab-merges"
    if head.startswith(CLIP.encode()):
        return "clip"
    version = re.match(rb"#version: ?[\d.]+\r?\n", head) is not None
    if version or looks_like_pair(head):
        marked = b"</w>" in data if version else looks_like_old_codes(data)
        if marked and name not in (MERGES, "vocab.bpe"):
            return "subword-nmt"
        raise FormatError(
            "it is a list of merges, which can be of several formats; load GPT-2's merges.txt from a folder that has "
            'its vocab.json too, CLIP\'s list with format="clip", and codes of subword-nmt with format="subword-nmt"',
            path=path,
        )
    if looks_like_model(data):
        return "sentencepiece"
    if data.lstrip()[:1] not in (b"{", b"["):
        raise FormatError(_unknown(data, name), path=path)
    if name in CONFIGURATION:
        raise FormatError("it is a part of a tokenizer, not a whole one; load its folder", path=path)
    return "tekken" if looks_like_tekken(data) else "huggingface"


def _unknown(data: bytes, name: str) -> str:
    """Why a file is of no known format."""
    if not data:
        return "it is empty"
    if name.endswith(".gguf"):
        return f"it begins with {shown(data[:4])}; a GGUF file begins with {GGUF!r}"
    if name.endswith(".model"):
        return "it is neither a model of sentencepiece nor a rank file"
    if data.startswith(b"\x1f\x8b"):
        return "it is gzip data that is neither a rank file nor CLIP's list; decompress it"
    if data.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark (U+FEFF), which no format has; save it without one"
    known = ", ".join(each.files for each in FORMATS.values())
    return f"it begins with {shown(data[:20])}, and is of no known format; known are {known}"


def _is_pair(folder: Path) -> bool:
    return (folder / VOCAB).is_file() and (folder / MERGES).is_file()


def folder_format(names: list[str]) -> tuple[str, list[str]] | None:
    """The format of a folder with these files, and the files that belong to it; None if it has no tokenizer.

    tokenizer.json comes first, because it says most; then tekken.json, vocab.json with merges.txt, rank files and
    sentencepiece's model.

    >>> folder_format(["merges.txt", "model.safetensors", "tokenizer_config.json", "vocab.json"])
    ('vocab-merges', ['vocab.json', 'merges.txt', 'tokenizer_config.json'])

    """
    if NATIVE in names:
        return "huggingface", [NATIVE]
    if TEKKEN in names:
        return "tekken", [TEKKEN]
    if {VOCAB, MERGES} <= set(names):
        return "vocab-merges", [name for name in FORMATS["vocab-merges"].names if name in names]
    ranks = rank_file_of(names)
    if ranks is not None:
        if CONFIG in names:
            return "tiktoken-folder", [ranks, CONFIG]
        return "tiktoken", [ranks]
    if SENTENCEPIECE in names:
        return "sentencepiece", [SENTENCEPIECE]
    return None


def _load_folder(folder: Path, chosen: Format | None) -> TokenizerSpec:
    """Load the tokenizer in a folder; of several, the one whose format is chosen or comes first."""
    from bpe.base.utf8 import read_file

    names = _names_in(folder)
    settings = [name for name in CONFIGURATION if name in names]
    if chosen is None and {NATIVE, TEKKEN} <= set(names):
        log.warning("%s has a %s and a %s; the first is read: format='tekken' reads the other", folder, NATIVE, TEKKEN)
    if chosen is not None:
        names = [name for name in names if any(fnmatchcase(name, pattern) for pattern in chosen.names)]
    found = folder_format(names)
    if found is None or (chosen is not None and chosen.name != found[0]):
        what = "; ".join(each.files for each in (FORMATS.values() if chosen is None else [chosen]))
        reason = f"the folder has no tokenizer; it must have one of these: {what}"
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(folder))
    name, files = found
    format_ = FORMATS[name]
    contents = {each: read_file(folder / each) for each in files}
    if name == "sentencepiece" and looks_like_ranks(contents[SENTENCEPIECE]):
        if CONFIG not in names:
            return _read_ranks(contents[SENTENCEPIECE], os.fspath(folder / SENTENCEPIECE))
        contents = {RANKS: contents[SENTENCEPIECE]}
        contents[CONFIG] = read_file(folder / CONFIG)
        format_ = FORMATS["tiktoken-folder"]
    if format_.read_folder is not None:
        return format_.read_folder(contents, os.fspath(folder))
    assert format_.read is not None
    spec = format_.read(contents[files[0]], os.fspath(folder / files[0]))
    if name == "tekken":
        return spec
    return _configure(
        spec, contents[files[0]], {each: read_file(folder / each) for each in settings}, os.fspath(folder)
    )


def _configure(spec: TokenizerSpec, data: bytes, files: Files, folder: str) -> TokenizerSpec:
    """The tokenizer of a tokenizer.json or a model of sentencepiece, with what the files beside it add to it."""
    from bpe.formats import configuration

    if not files:
        return spec
    from bpe.formats import schema, vocab_merges
    from bpe.formats.huggingface.added_tokens import add_tokens, read_own_tokens

    native = not looks_like_model(data)
    kind = schema.get(configuration.json_object(files, CONFIG, folder), "", "tokenizer_class", schema.read_text, None)
    known = vocab_merges.KINDS.get((kind or "").removesuffix("Fast")) if native else None
    defaults = spec.roles if known is None else known.roles
    own = read_own_tokens(data) if native else {}
    try:
        added = configuration.find_added_tokens(files, own, defaults, folder)
        spec = add_tokens(spec, added, {name: flags for name, (_, flags) in own.items()})
    except FormatError as error:
        raise FormatError(error.message, path=folder, where=error.where or CONFIG) from None
    return configuration.with_roles(replace(spec, roles=defaults), files, folder)


def unread_fields(path: str | os.PathLike[str]) -> list[str]:
    """The settings of `transformers` in a folder that no tokenizer of this package holds; for a file, none.

    Raises:
        FormatError: for a configuration that is not JSON.
        OSError: for a folder that cannot be read.

    """
    from bpe.base.utf8 import read_file
    from bpe.formats import configuration

    folder = Path(path)
    if not folder.is_dir():
        return []
    wanted = {CONFIG, CHAT_TEMPLATE}.intersection(_names_in(folder))
    return configuration.unread({each: read_file(folder / each) for each in wanted}, os.fspath(folder))


def _names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if _is_regular(each))


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
