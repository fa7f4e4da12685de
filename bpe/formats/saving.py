"""Writes a tokenizer in any format, after checking what the format does not keep.

The content to write is read again, and compared with the tokenizer: what differs is lost. So nothing is lost in
silence, whatever a format can hold. The table of formats: `loading.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bpe.base.atomic_files import atomic_write, atomic_write_all
from bpe.base.fast_dataclasses import replace
from bpe.encode.engine import Engine
from bpe.errors import FormatError, check_bool, check_path, get_log
from bpe.formats import huggingface
from bpe.formats.configuration import find_template_name, read_chat_templates, write_chat_templates
from bpe.formats.huggingface.expressible import has_all_bytes
from bpe.formats.loading import FORMATS, Format, get_format, list_template_files
from bpe.formats.sentencepiece.merges import find_canonical_merges
from bpe.formats.signatures import (
    COMPILED_ENDING,
    MERGES_TXT,
    TIKTOKEN_MODEL,
    TOKENIZER_JSON,
    VOCAB_JSON,
    find_rank_file,
)
from bpe.vocab.comparing import Difference, compare, compare_chat_templates, compare_roles
from bpe.vocab.merging import merging_suffices
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_names import find_bos_token, find_eos_token

#: What file names end in → what such files are, and which formats may be written to them: the first, unless named.
_NAME_ENDINGS = (
    (".gguf", "a GGUF file", ("gguf",)),
    (".model", "a model of sentencepiece, or a rank file", ("sentencepiece", "tiktoken")),
    (".tiktoken", "a rank file", ("tiktoken",)),
    ("tekken.json", "Mistral's format", ("tekken",)),
    (COMPILED_ENDING, "a compiled tokenizer", ("compiled",)),
)

log = get_log()


def save_spec(
    spec: TokenizerSpec,
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    *,
    lossy: bool = False,
) -> list[Difference]:
    """Write a tokenizer; `Tokenizer.save` documents the arguments.

    Returns:
        what the files do not keep; with `lossy`, it may change ids.

    Raises:
        ValueError: for a tokenizer that the format cannot hold, or not without a loss; for a format or a name that is
            not known.
        OSError: for a file that cannot be written.

    """
    check_bool("lossy", lossy)
    format_ = check_target(path, format)
    if format_.name == "huggingface":
        target = Path(path) / TOKENIZER_JSON if format is not None and Path(path).is_dir() else path
        return _save_tokenizer_json(spec, target)
    content = format_.write(spec)
    if not isinstance(content, bytes):
        content |= write_chat_templates(spec.chat_templates)
    losses = find_losses(spec, format_, content) + format_.find_approximations(spec)
    harmful_losses = [loss for loss in losses if not loss.harmless]
    if harmful_losses and not lossy:
        raise ValueError(
            f"format {format_.name} does not keep {'; '.join(map(str, harmful_losses))}; save it as huggingface, which "
            "keeps everything, or pass lossy=True to write it without"
        )
    for loss in losses:
        log.warning("%s does not keep %s", os.fspath(path), loss)
    if isinstance(content, bytes):
        with atomic_write(path) as file:
            file.write(content)
    else:
        write_folder(content, Path(path))
    return losses


def check_target(path: str | os.PathLike[str], format: str | None = None) -> Format:  # noqa: A002
    """Return the format to write to a path; for None, the one that the name of the file stands for.

    Raises:
        ValueError: for a format that is not known, and for a file name that belongs to another one.

    """
    format_ = get_format(choose_format(path) if format is None else format)
    name = Path(check_path(path)).name.lower()
    for ending, description, formats in _NAME_ENDINGS:
        if name.endswith(ending) and format_.name not in formats and not Path(path).is_dir():
            raise ValueError(
                f"path is {os.fspath(path)!r}, the name of {description}, but the format to write is {format_.name}, "
                f"{format_.description}; give another name, or another format: {' or '.join(formats)}"
            )
    if format_.name == "huggingface" and not Path(path).is_dir():
        _check_json_name(path)
    return format_


def _check_json_name(path: str | os.PathLike[str]) -> None:
    """Raise ValueError for a file name that belongs to another format than tokenizer.json."""
    name = Path(check_path(path)).name.lower()
    if name in (VOCAB_JSON, MERGES_TXT):
        description, fix = "half of GPT-2's pair of files", "name it tokenizer.json"
    elif name.endswith((".gz", ".bz2", ".xz", ".zst", ".zip")):
        description, fix = "a compressed file", "name it .json and compress it afterwards"
    else:
        return
    raise ValueError(f"path is {os.fspath(path)!r}, the name of {description}; save writes a tokenizer.json: {fix}")


def choose_format(path: str | os.PathLike[str]) -> str:
    """Return the format that the name of a file to write stands for.

    >>> choose_format("cl100k_base.tiktoken"), choose_format("out/tekken.json"), choose_format("tokenizer.json")
    ('tiktoken', 'tekken', 'huggingface')
    """
    name = Path(check_path(path)).name.lower()
    if name == TIKTOKEN_MODEL:
        return "tiktoken"
    return next((formats[0] for ending, _, formats in _NAME_ENDINGS if name.endswith(ending)), "huggingface")


def check_name_has_format(path: str | os.PathLike[str]) -> None:
    """Raise ValueError for the name of a file to write that stands for no format, such as "out.xyz"."""
    if check_target(path).name == "huggingface" and not os.fspath(path).lower().endswith(".json"):
        raise ValueError(
            f"target is {os.fspath(path)!r}, a name that stands for no format; name a file *.json, *.tiktoken, "
            f"tekken.json, *.gguf, *.model or *.compiled, or pass to_format= one of {', '.join(FORMATS)}"
        )


def _save_tokenizer_json(spec: TokenizerSpec, path: str | os.PathLike[str]) -> list[Difference]:
    data, reason = huggingface.write(spec, with_record=True), huggingface.explain_refusal(spec)
    if reason is not None:
        log.warning("%s: Hugging Face's tokenizers cannot load this file, and refuses it: %s", path, reason)
    with atomic_write(path) as file:
        file.write(data)
    if Path(path).name == TOKENIZER_JSON:
        _warn_of_old_templates(Path(path).parent, spec.chat_templates)
    return []


def write_folder(content: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a folder, which is made if only its parent exists."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"path is {os.fspath(folder)!r}, a file; this format needs a folder for {', '.join(content)}")
    folder.mkdir(exist_ok=True)
    ranks = find_rank_file(list(content))
    if ranks is not None and ranks != find_rank_file(list({*content, *os.listdir(folder)})):
        raise ValueError(
            f"path is {os.fspath(folder)!r}, which has another rank file than {ranks}, and programs would load that; "
            "name another folder, or remove the file"
        )
    for name in content:
        (folder / name).parent.mkdir(exist_ok=True)
    with atomic_write_all(folder / name for name in content) as files:
        for file, data in zip(files, content.values(), strict=True):
            file.write(data)
    _warn_of_old_templates(folder, read_chat_templates(content))
    if TOKENIZER_JSON not in content and (folder / TOKENIZER_JSON).exists():
        log.warning("%s has a %s too, which programs load instead of these files", folder, TOKENIZER_JSON)


def _warn_of_old_templates(folder: Path, templates: Mapping[str, str]) -> None:
    """Log a warning for files in a folder with other chat templates than these, which programs use instead."""
    old_files = []
    for path in list_template_files(folder):
        source = templates.get(find_template_name(path) or "")
        if source is None or source.encode() != (folder / path).read_bytes():
            old_files.append(path)
    if old_files:
        message = "%s has %s, which stays, and programs will use it as a chat template; remove it if it is old"
        log.warning(message, folder, " and ".join(old_files))


def find_losses(spec: TokenizerSpec, format_: Format, content: bytes | Mapping[str, bytes]) -> list[Difference]:
    """Find what the written content of a format does not keep of a tokenizer."""
    try:
        reread_spec = format_.reread(content, spec)
    except FormatError as error:
        reason = f"{error.message}; save it as huggingface"
        raise ValueError(f"format {format_.name} cannot hold this tokenizer: {reason}") from None
    # These two are found by the names of the tokens, too.
    named_roles = {"bos_token": find_bos_token(reread_spec), "eos_token": find_eos_token(reread_spec)}
    kept_roles = {role: reread_spec.roles.get(role) or named_roles.get(role) for role in spec.roles}
    reread_spec = replace(reread_spec, roles={role: token for role, token in kept_roles.items() if token is not None})
    if not isinstance(content, bytes):
        reread_spec = replace(reread_spec, chat_templates=read_chat_templates(content))
    return compare_all(spec, reread_spec, ("the tokenizer", "the file"))


def compare_all(a: TokenizerSpec, b: TokenizerSpec, names: tuple[str, str]) -> list[Difference]:
    """List all differences, those of roles too; differences that are known to change no id are marked as harmless."""
    differences = [*compare(a, b, names), *compare_roles(a, b, names), *compare_chat_templates(a, b, names)]
    return [
        replace(difference, harmless=True) if _is_harmless(difference, a, b) else difference
        for difference in differences
    ]


def _is_harmless(difference: Difference, a: TokenizerSpec, b: TokenizerSpec) -> bool:
    """Whether it is known that a difference between two tokenizers changes no id."""
    if difference.harmless:
        return True
    if difference.field == "ignore_merges":
        return merging_suffices(a if a.ignore_merges else b, Engine)
    if difference.field in ("unk_token", "fuse_unk", "drop_unknown"):
        return all(spec.model == "char" and spec.byte_fallback and has_all_bytes(spec) for spec in (a, b))
    if difference.field == "merges":
        merges = find_canonical_merges(a)
        return merges is not None and merges == find_canonical_merges(b)
    return False
