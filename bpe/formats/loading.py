"""Loads a tokenizer from a file or a folder, and detects the format from the content and the names.

A format is a row of the table `FORMATS`: how its files are read and written. Writing files: `saving.py`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bpe.base.fast_dataclasses import dataclass, replace
from bpe.errors import FormatError, check_choice, get_log, ignore_system_errors, short_repr, with_path
from bpe.formats.packed import read_first_bytes
from bpe.formats.signatures import (
    CHAT_TEMPLATE_FILE,
    CHAT_TEMPLATE_FOLDER,
    CLIP_HEADER,
    COMPILED_MAGIC,
    CONFIG_JSON,
    CONFIGURATION_FILES,
    END_OF_WORD,
    GGUF_MAGIC,
    MERGES_TXT,
    SENTENCEPIECE_MODEL,
    TEKKEN_JSON,
    TIKTOKEN_MODEL,
    TOKENIZER_JSON,
    VOCAB_JSON,
    find_rank_file,
    looks_like_merge_lines,
    looks_like_old_codes,
    looks_like_ranks,
    looks_like_sentencepiece,
    looks_like_tekken,
    map_gguf,
)

if TYPE_CHECKING:
    from pathlib import Path

    from bpe.vocab.comparing import Difference
    from bpe.vocab.spec import TokenizerSpec

#: The files of a folder: name → content.
FileContents = Mapping[str, bytes]


@dataclass(frozen=True)
class Format:
    """A file format of tokenizers. The module of its name, imported when it is needed, reads and writes it.

    Attributes:
        name: the name, for `format=`.
        description: what files it has, for messages.
        name_patterns: what its files in a folder are called, `*` for any characters; empty if any name is possible.
        is_folder: whether it is several files: a dict from names to contents.
        reader: the function of the module that reads the content, without any further setting.
        rereader: the function of the module that reads written content with what it lacks of the spec; None for
            `reader`.
        takes_configuration: whether the configuration files in its folder say more of the tokenizer.
        approximations: the function of the module that finds where the program of the format gives other ids; None
            where it does not.

    """

    name: str
    description: str
    name_patterns: tuple[str, ...] = ()
    is_folder: bool = False
    reader: str = "read"
    rereader: str | None = None
    takes_configuration: bool = False
    approximations: str | None = None

    def read(self, content: bytes | FileContents) -> TokenizerSpec:
        """Read the tokenizer in the content of the file or the files."""
        spec: TokenizerSpec = getattr(self._import(), self.reader)(content)
        return spec

    def reread(self, content: bytes | FileContents, spec: TokenizerSpec) -> TokenizerSpec:
        """Read the content that was written of a spec; files that lack a setting get it from the spec."""
        if self.rereader is None:
            return self.read(content)
        reread_spec: TokenizerSpec = getattr(self._import(), self.rereader)(content, spec)
        return reread_spec

    def write(self, spec: TokenizerSpec) -> bytes | dict[str, bytes]:
        """Return the content of the file or the files; ValueError for a tokenizer that they cannot hold at all."""
        content: bytes | dict[str, bytes] = self._import().write(spec)
        return content

    def find_approximations(self, spec: TokenizerSpec) -> list[Difference]:
        """Find where the program whose format it is gives other ids, although files say what the tokenizer is."""
        if self.approximations is None:
            return []
        differences: list[Difference] = getattr(self._import(), self.approximations)(spec)
        return differences

    def _import(self) -> Any:
        return import_module(f"bpe.formats.{self.name.replace('-', '_')}")


#: The formats by name.
FORMATS: Mapping[str, Format] = {
    format_.name: format_
    for format_ in (
        Format("huggingface", "a tokenizer.json", (TOKENIZER_JSON,), takes_configuration=True),
        Format(
            "vocab-merges",
            "vocab.json and merges.txt in a folder",
            (VOCAB_JSON, MERGES_TXT, *CONFIGURATION_FILES),
            is_folder=True,
        ),
        Format(
            "tiktoken",
            "a rank file, .tiktoken",
            (TIKTOKEN_MODEL, "*.tiktoken"),
            reader="read_published",
            rereader="read_written",
        ),
        Format(
            "tiktoken-folder",
            "tiktoken.model and tokenizer_config.json in a folder",
            (TIKTOKEN_MODEL, "*.tiktoken", CONFIG_JSON),
            is_folder=True,
        ),
        Format("tekken", "a tekken.json", (TEKKEN_JSON,)),
        Format("clip", "CLIP's merge list", rereader="read_written"),
        Format(
            "sentencepiece",
            "a sentencepiece .model of type BPE",
            (SENTENCEPIECE_MODEL,),
            takes_configuration=True,
        ),
        Format("gguf", "a GGUF file with a tokenizer", approximations="find_approximations"),
        Format("subword-nmt", "a file of codes"),
        Format("compiled", "a compiled tokenizer, .compiled"),
    )
}


def get_format(name: str) -> Format:
    """Return the format of this name; ValueError for one that is not known."""
    return FORMATS[check_choice("format", name, tuple(FORMATS))]


def is_rank_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a file that begins like a rank file; OSError for one that cannot be read."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return looks_like_ranks(file.read(1 << 16))


def load_spec(path: str | os.PathLike[str], format: str | None = None) -> TokenizerSpec:  # noqa: A002
    """Load a tokenizer from a file or a folder.

    Args:
        path: a file, or a folder with one of the sets of files of `detect_folder_format`. A file that belongs to
            others, such as vocab.json, is loaded with them from its folder.
        format: the name of the format; None to detect it.

    Raises:
        FormatError: for a file of another kind, and for an unsupported feature.
        OSError: for a file that cannot be read.
        ValueError: for a format that is not known.

    """
    from bpe.base.utf8 import read_file

    file_format = None if format is None else get_format(format)
    if not isinstance(path, str):
        path = _make_path(path)  # or TypeError
    if os.path.isdir(path or "."):
        return _load_folder(_make_path(path), file_format)
    if file_format is not None and file_format.is_folder:
        return _load_folder(_make_path(path).parent, file_format)
    if file_format is None or file_format.name == "gguf":
        header = map_gguf(path)
        if header is not None:
            with header, with_path(path):
                from bpe.formats import gguf

                return gguf.read(header)
    data = read_file(path)
    with with_path(path):
        file_format = file_format or FORMATS[_detect_format(data, path)]
        if not file_format.is_folder:
            return file_format.read(data)
    return _load_folder(_make_path(path).parent, file_format)


def _make_path(path: str | os.PathLike[str]) -> Path:
    """Make a Path: importing pathlib takes 5 ms, and a single file is loaded without it."""
    from pathlib import Path

    return Path(path)


def _detect_format(data: bytes, path: str | os.PathLike[str]) -> str:
    """Detect the format of a file; returns its name."""
    name = os.path.basename(path).lower()
    head = read_first_bytes(data, 200)
    if data.startswith(COMPILED_MAGIC):
        return "compiled"
    if looks_like_ranks(data):
        config_path = _make_path(path).parent / CONFIG_JSON
        from bpe.formats import tiktoken

        is_rank_file_name = name == TIKTOKEN_MODEL or name.endswith(".tiktoken")
        is_in_folder = is_rank_file_name and config_path.is_file() and tiktoken.find_published(data) is None
        return "tiktoken-folder" if is_in_folder else "tiktoken"
    if name in (VOCAB_JSON, MERGES_TXT) and _has_vocab_and_merges(_make_path(path).parent):
        return "vocab-merges"
    if head.startswith(CLIP_HEADER.encode()):
        return "clip"
    has_version = head.startswith(b"#") and re.match(rb"#version: ?[\d.]+\r?\n", head) is not None
    if has_version or looks_like_merge_lines(head):
        has_end_of_word = END_OF_WORD.encode() in data if has_version else looks_like_old_codes(data)
        if has_end_of_word and name not in (MERGES_TXT, "vocab.bpe"):
            return "subword-nmt"
        raise FormatError(
            "it is a list of merges, which can be of several formats; load GPT-2's merges.txt from a folder that has "
            'its vocab.json too, CLIP\'s list with format="clip", and codes of subword-nmt with format="subword-nmt"'
        )
    if looks_like_sentencepiece(data):
        return "sentencepiece"
    if data.lstrip()[:1] not in (b"{", b"["):
        raise FormatError(_explain_unknown(data, name))
    if name in CONFIGURATION_FILES:
        raise FormatError("it is a part of a tokenizer, not a whole one; load its folder")
    return "tekken" if looks_like_tekken(data) else "huggingface"


def _explain_unknown(data: bytes, name: str) -> str:
    """Say why a file is of no known format."""
    if not data:
        return "it is empty"
    if name.endswith(".gguf"):
        return f"it begins with {short_repr(data[:4])}; a GGUF file begins with {GGUF_MAGIC!r}"
    if name.endswith(".model"):
        return "it is neither a model of sentencepiece nor a rank file"
    if data.startswith(b"\x1f\x8b"):
        return "it is gzip data that is neither a rank file nor CLIP's list; decompress it"
    if data.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark (U+FEFF), which no format has; save it without one"
    known_formats = "; ".join(format_.description for format_ in FORMATS.values())
    return f"it begins with {short_repr(data[:20])}, and is of no known format; known are {known_formats}"


def _has_vocab_and_merges(folder: Path) -> bool:
    return (folder / VOCAB_JSON).is_file() and (folder / MERGES_TXT).is_file()


def detect_folder_format(names: list[str]) -> tuple[str, list[str]] | None:
    """Detect the format of a folder with these files, and the files that belong to it; None if it has no tokenizer.

    tokenizer.json comes first, because it says most; then tekken.json, vocab.json with merges.txt, rank files and
    sentencepiece's model.

    >>> detect_folder_format(["merges.txt", "model.safetensors", "tokenizer_config.json", "vocab.json"])
    ('vocab-merges', ['vocab.json', 'merges.txt', 'tokenizer_config.json'])

    """
    if TOKENIZER_JSON in names:
        return "huggingface", [TOKENIZER_JSON]
    if TEKKEN_JSON in names:
        return "tekken", [TEKKEN_JSON]
    if {VOCAB_JSON, MERGES_TXT} <= set(names):
        return "vocab-merges", [name for name in FORMATS["vocab-merges"].name_patterns if name in names]
    ranks = find_rank_file(names)
    if ranks is not None:
        if CONFIG_JSON in names:
            return "tiktoken-folder", [ranks, CONFIG_JSON]
        return "tiktoken", [ranks]
    if SENTENCEPIECE_MODEL in names:
        return "sentencepiece", [SENTENCEPIECE_MODEL]
    return None


def _load_folder(folder: Path, requested_format: Format | None) -> TokenizerSpec:
    """Load the tokenizer in a folder, with its chat templates."""
    names = _list_files(folder)
    spec = _load_tokenizer(folder, names, requested_format)
    with with_path(folder):
        templates = _read_chat_templates(folder, names)
    return replace(spec, chat_templates=templates) if templates else spec


def _read_chat_templates(folder: Path, names: list[str]) -> dict[str, str]:
    """Read the chat templates in a folder with these files."""
    from bpe.base.utf8 import read_file

    paths = [name for name in (CONFIG_JSON,) if name in names] + list_template_files(folder)
    if not paths:
        return {}
    from bpe.formats import configuration

    return configuration.read_chat_templates({path: read_file(folder / path) for path in paths})


def list_template_files(folder: Path) -> list[str]:
    """List the files of chat templates in a folder, by their paths in it."""
    paths = [CHAT_TEMPLATE_FILE] if _is_regular(folder / CHAT_TEMPLATE_FILE) else []
    if (folder / CHAT_TEMPLATE_FOLDER).is_dir():
        template_names = _list_files(folder / CHAT_TEMPLATE_FOLDER)
        paths += [f"{CHAT_TEMPLATE_FOLDER}/{name}" for name in template_names if name.endswith(".jinja")]
    return paths


def _load_tokenizer(folder: Path, names: list[str], requested_format: Format | None) -> TokenizerSpec:
    """Load the tokenizer in a folder; of several, the one whose format is chosen or comes first."""
    from bpe.base.utf8 import read_file

    format_name, chosen_names = _choose_files(folder, names, requested_format)
    contents = {name: read_file(folder / name) for name in chosen_names}
    format_name, contents = _correct_by_content(format_name, contents, folder, names)
    format_ = FORMATS[format_name]
    if format_.is_folder:
        with with_path(folder):
            return format_.read(contents)
    data = next(iter(contents.values()))
    with with_path(folder / chosen_names[0]):
        spec = format_.read(data)
    if not format_.takes_configuration:
        return spec
    with with_path(folder):
        config_files = {name: read_file(folder / name) for name in CONFIGURATION_FILES if name in names}
        return _add_configuration(spec, data, config_files)


def read_pretrained(files: FileContents) -> TokenizerSpec:
    """Read the files of a folder of transformers, path → content: a tokenizer.json, and what is beside it."""
    from bpe.formats import configuration

    data = files[TOKENIZER_JSON]
    spec = _add_configuration(FORMATS["huggingface"].read(data), data, files)
    return replace(spec, chat_templates=configuration.read_chat_templates(files))


def _choose_files(folder: Path, names: list[str], requested_format: Format | None) -> tuple[str, list[str]]:
    """Choose the tokenizer to read in a folder with these files: the name of its format, and its files.

    Raises:
        FileNotFoundError: for a folder without a tokenizer, or without one of the requested format.

    """
    if requested_format is None and {TOKENIZER_JSON, TEKKEN_JSON} <= set(names):
        message = "%s has a %s and a %s; the first is read: format='tekken' reads the other"
        get_log().warning(message, folder, TOKENIZER_JSON, TEKKEN_JSON)
    if requested_format is not None:
        patterns = requested_format.name_patterns
        names = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    detected = detect_folder_format(names)
    if detected is None or (requested_format is not None and requested_format.name != detected[0]):
        expected = "; ".join(
            format_.description for format_ in (FORMATS.values() if requested_format is None else [requested_format])
        )
        reason = f"the folder has no tokenizer; it must have one of these: {expected}"
        raise FileNotFoundError(errno.ENOENT, reason, os.fspath(folder))
    return detected


def _correct_by_content(
    format_name: str, contents: dict[str, bytes], folder: Path, names: list[str]
) -> tuple[str, dict[str, bytes]]:
    """Correct the format of a tokenizer.model: if it is a rank file, return that format and its files.

    Otherwise return the arguments.
    """
    from bpe.base.utf8 import read_file

    if format_name != "sentencepiece" or not looks_like_ranks(contents[SENTENCEPIECE_MODEL]):
        return format_name, contents
    rank_files = {TIKTOKEN_MODEL: contents[SENTENCEPIECE_MODEL]}
    if CONFIG_JSON not in names:
        return "tiktoken", rank_files
    return "tiktoken-folder", {**rank_files, CONFIG_JSON: read_file(folder / CONFIG_JSON)}


def _add_configuration(spec: TokenizerSpec, data: bytes, files: FileContents) -> TokenizerSpec:
    """Add what the files beside a tokenizer.json or a model of sentencepiece say of its tokenizer."""
    from bpe.formats import configuration

    if not files:
        return spec
    from bpe.formats import schema, vocab_merges
    from bpe.formats.huggingface.added_tokens import add_tokens, read_all_added_tokens

    is_json = not looks_like_sentencepiece(data)
    config = configuration.read_object(files, CONFIG_JSON)
    class_name = schema.read_field(config, CONFIG_JSON, "tokenizer_class", schema.read_text, None)
    class_defaults = vocab_merges.TOKENIZER_CLASSES.get((class_name or "").removesuffix("Fast")) if is_json else None
    defaults = spec.roles if class_defaults is None else class_defaults.roles
    file_tokens = read_all_added_tokens(data) if is_json else {}
    added_tokens = configuration.find_added_tokens(files, file_tokens, defaults)
    with with_path(None, CONFIG_JSON):
        spec = add_tokens(spec, added_tokens, {name: token.flags for name, token in file_tokens.items()})
    return configuration.with_roles(replace(spec, roles=defaults), files)


def list_unread_fields(path: str | os.PathLike[str]) -> list[str]:
    """List the settings of `transformers` in a folder that no tokenizer of this package holds; for a file, none.

    Raises:
        FormatError: for a configuration that is not JSON.
        OSError: for a folder that cannot be read.

    """
    from bpe.base.utf8 import read_file
    from bpe.formats import configuration

    folder = _make_path(path)
    if not folder.is_dir():
        return []
    config_files = {CONFIG_JSON}.intersection(_list_files(folder))
    with with_path(folder):
        return configuration.find_unread_fields({file: read_file(folder / file) for file in config_files})


def _list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if _is_regular(path))


def _is_regular(path: Path) -> bool:
    with ignore_system_errors():
        return stat.S_ISREG(path.stat().st_mode)
    return False
