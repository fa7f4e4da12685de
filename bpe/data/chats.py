"""Conversations to shards with loss masks: `encode_shards(messages=…)`.

A record of JSON Lines is a conversation, and becomes a document: its ids by the tokenizer's chat template, and a mask
of what the assistant says. Unlike texts, conversations are rendered in Python, by one thread. After an interruption,
the same call begins anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bpe.base.progress import ProgressLike, progress_bar
from bpe.chats.encoding import check_allowed, check_fixed_ids
from bpe.chats.templates import choose_template, compile_template
from bpe.corpus.records import OnError
from bpe.corpus.sources import Sources
from bpe.data.extending import check_repeated_sources
from bpe.data.formats.shard_format import ShardFormat
from bpe.data.journal import crash_point, match_names, record_base
from bpe.data.manifest import MANIFEST_NAME, Manifest
from bpe.data.plan import check_sizes
from bpe.data.writing import gather_batches, mark_unfinished, remove_later_shards, remove_shards, write_batches
from bpe.errors import FormatError, short_repr
from bpe.formats.signatures import TOKENIZER_JSON
from bpe.tokenizer import Tokenizer
from bpe.vocab.special_tokens import Allowed

#: The field of a record with the schemas of tools, if it has one.
TOOLS_FIELD = "tools"


def encode_chats(
    sources_or_paths: Any,
    tokenizer: Tokenizer,
    out: Path,
    field: str,
    shard_format: ShardFormat,
    shard_size: int | None,
    allowed_special: Allowed,
    progress: ProgressLike,
) -> Manifest:
    """Encode conversations to shards with loss masks.

    Args:
        sources_or_paths: files of JSON Lines: `Sources`, or paths.
        tokenizer: a tokenizer with a chat template.
        out: the folder of the shards.
        field: the field of a record with the messages; dots lead to nested fields.
        shard_format: the format, which must hold masks.
        shard_size: as for `encode_shards`.
        allowed_special: as for `Tokenizer.chat`.
        progress: as for `encode_shards`.

    Raises:
        FormatError: for a record that is no conversation, or that the template refuses; it names the line.
        ValueError: for sources of another format, or a part of files; for a tokenizer without a template, or with an
            invalid one or a dropout; for another `allowed_special`, and a folder of another call.

    """
    sources = sources_or_paths if isinstance(sources_or_paths, Sources) else Sources(sources_or_paths)
    header = _describe_call(sources, out, tokenizer, field, shard_format, shard_size, allowed_special)
    if (out / MANIFEST_NAME).exists():
        return _read_finished(out, header)
    dtype = shard_format.choose_dtype(tokenizer.n_vocab - 1)
    reader = _ChatReader(sources, tokenizer, field, allowed_special)
    with mark_unfinished(out, header) as is_resumed, progress_bar(progress, "encode", None, "B") as advance:
        batches = gather_batches(reader.read(advance), masks=True)
        shards = write_batches(batches, shard_format, out, dtype, masks=True, shard_size=shard_size)
        try:
            if is_resumed:
                remove_later_shards(out, shard_format, len(shards), masks=True)
            tokenizer.save(out / TOKENIZER_JSON)
            facts = {"fingerprint": tokenizer.fingerprint, "file": TOKENIZER_JSON}
            options = header["options"] | {"chats": header["sources"]}
            manifest = Manifest(
                shard_format.name, dtype.name, tuple(shards), True, facts, {}, options,
                reader.n_skipped + reader.lines.skipped, reader.lines.damaged_files,
            )  # fmt: skip
            crash_point("manifest")
            manifest.write(out)
        except BaseException:
            remove_shards(out, shards)
            raise
    return manifest


def _describe_call(
    sources: Sources,
    out: Path,
    tokenizer: Tokenizer,
    field: str,
    shard_format: ShardFormat,
    shard_size: int | None,
    allowed_special: Allowed,
) -> dict[str, Any]:
    """Check the arguments of `encode_chats`, and describe what the shards depend on.

    What is wrong for every record is refused here, so that it is not taken for a fault of the first one, or of all.
    """
    if not isinstance(field, str) or not all(field.split(".")):
        raise ValueError(f"messages is {short_repr(field)}; it must be the field with the messages: 'messages'")
    other = next((file for file in sources.files if file.format != "jsonl"), None)
    if other is not None:
        raise ValueError(
            f"{other.name} is read as {other.format}; with messages=, sources must be JSON Lines, with a conversation "
            'in each line: pass Sources(…, format="jsonl") for another name'
        )
    if sources.plan()["part"] is not None:
        raise ValueError("sources are a part of files; with messages=, give whole files, and a folder to each call")
    shard_size, _ = check_sizes(shard_format, shard_size, shards=None, seed=None)
    spec = tokenizer.spec
    templates = list(
        dict.fromkeys(choose_template(spec.chat_templates, None, has_tools) for has_tools in (False, True))
    )
    for template in templates:
        compile_template(template)  # refuses an invalid one
    check_fixed_ids(spec)
    allows_special = check_allowed(allowed_special)
    shard_format.name_files("", masks=True)  # refuses a format without masks
    plan = {
        "messages": field,
        "files": [[file.name, file.size, file.format, file.compression] for file in sources.files],
    }
    options = {"format": shard_format.name, "shard_size": shard_size, "allow_special": allows_special}
    return {
        "sources": record_base(plan, out),
        "options": {**options, "chat_templates": templates, "roles": dict(spec.roles)},
        "tokenizer": tokenizer.fingerprint,
    }


def _read_finished(out: Path, header: dict[str, Any]) -> Manifest:
    """Read the manifest of a finished folder, and check that the folder is of the same call."""
    manifest = Manifest.read(out)
    expected = json.loads(json.dumps({**header["options"], "chats": header["sources"]}))
    options, chats = manifest.options, manifest.options.get("chats")
    if isinstance(chats, dict):
        options = {**options, "chats": match_names(chats, expected["chats"], out)}
    if options != expected or manifest.tokenizer.get("fingerprint") != header["tokenizer"]:
        raise ValueError(
            f"{out} was made with other sources, options, tokenizer or chat template; use the same, name another "
            "folder, or remove this one"
        )
    check_repeated_sources(out, manifest, header["sources"])
    return manifest


class _ChatReader:
    """Reads conversations, and encodes them.

    Attributes:
        lines: the lines of the files, which count those that are not UTF-8, if such are left out.
        n_skipped: the number of other bad records that were left out, if the sources say so.

    """

    def __init__(self, sources: Sources, tokenizer: Tokenizer, field: str, allowed_special: Allowed) -> None:
        self._keys, self._tokenizer, self._allowed_special = field.split("."), tokenizer, allowed_special
        self._skips = sources.on_error != "raise"
        names = ["-" if file.kind == "stdin" else file.name for file in sources.files]
        on_error: OnError = "skip_files" if sources.on_error == "skip_files" else "raise"
        errors = sources.encoding_errors
        self.lines = Sources(names, format="text", per_line=True, encoding_errors=errors, on_error=on_error)
        self.n_skipped = 0

    def read(self, advance: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the ids and the mask of each conversation."""
        for index, file in enumerate(self.lines.files):
            for number, line in enumerate(self.lines.select_file(index).documents(), 1):
                if not line.strip():
                    continue
                try:
                    chat = self._encode(line)
                    document = chat.ids, chat.mask
                except (ValueError, TypeError) as error:
                    if not self._skips:
                        message = f'{error}; correct it, or pass on_error="skip" to leave out such records'
                        raise FormatError(message, path=file.name, where=f"line {number}") from error
                    self.n_skipped += 1
                    continue
                yield document
                advance(len(line), documents=1, tokens=len(chat.ids))

    def _encode(self, line: bytes) -> Any:
        """Encode the conversation of a record."""
        try:
            value = record = json.loads(line)
        except RecursionError:
            raise ValueError("the record is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"the line is not a JSON value ({error}); each line must be one JSON object") from None
        for key in self._keys:
            if not isinstance(value, dict) or key not in value:
                known = f"; it has {short_repr(list(value), 200)}" if isinstance(value, dict) else ""
                raise ValueError(f"there is no field {'.'.join(self._keys)!r} with messages{known}")
            value = value[key]
        tools = record.get(TOOLS_FIELD) or None
        if isinstance(tools, str):
            try:
                tools = json.loads(tools)
            except (ValueError, RecursionError):
                raise ValueError(f"tools is {short_repr(tools)}; it must be a list of schemas, or their JSON") from None
        return self._tokenizer.chat(value, tools=tools, allowed_special=self._allowed_special)
