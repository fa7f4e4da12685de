"""`tokenizer_config.json` and `special_tokens_map.json`, which `transformers` writes beside the files of a tokenizer.

Read here: the roles of special tokens, and which fields no other file holds. Not here: the fields that decide ids,
which are read where the files beside them do not (`vocab_merges.py`, `tiktoken_folder.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpe.errors import FormatError, shown
from bpe.formats.json_fields import load
from bpe.formats.packed import unpacked
from bpe.vocab.spec import ROLES, TokenizerSpec

log = logging.getLogger("bpe")

CONFIG, SPECIAL_MAP = "tokenizer_config.json", "special_tokens_map.json"
#: The file that holds the chat template since transformers 4.54, instead of a field of the configuration.
CHAT_TEMPLATE = "chat_template.jinja"
#: What `transformers` writes as `model_max_length` where there is no limit is more than this.
_NO_LIMIT = 10**20


def json_object(files: Mapping[str, bytes], name: str, path: str | None) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no such file.

    Raises:
        FormatError: for anything else.

    """
    if name not in files:
        return {}
    try:
        value = load(unpacked(files[name], path))
    except FormatError as error:
        where = f"{name}, {error.where}" if error.where else name
        raise FormatError(error.message, path=path, where=where) from None
    if not isinstance(value, dict):
        raise FormatError(f"{shown(value)} is not an object", path=path, where=name)
    return value


def configuration(files: Mapping[str, bytes], path: str | None) -> dict[str, Any]:
    """The fields of both files; where both have a field, that of tokenizer_config.json holds."""
    return {**json_object(files, SPECIAL_MAP, path), **json_object(files, CONFIG, path)}


def token_text(token: Any) -> Any:
    """The text of a special token, which is a string or an object with flags."""
    return token.get("content") if isinstance(token, dict) else token


def read_roles(
    config: Mapping[str, Any], special_tokens: Mapping[str, int], defaults: Mapping[str, Any], path: str | None
) -> dict[str, str]:
    """Role → special token, by a configuration and by what holds for the roles that it does not have.

    A role whose token is no special token of the tokenizer is left out, and the log says so, unless it is a default.

    Raises:
        FormatError: for a token that is neither a string nor an object with one.

    """
    roles = {}
    for role in ROLES:
        value = config.get(role, defaults.get(role))
        token = token_text(value)
        if value is None:
            continue
        if not isinstance(token, str):
            raise FormatError(f"{shown(value)} is not a token", path=path, where=f"{CONFIG}: {role}")
        if token in special_tokens:
            roles[role] = token
        elif role in config and token:
            log.warning("%s: %s is %r, which is no special token; it has no role", path or CONFIG, role, token)
    return roles


def with_roles(spec: TokenizerSpec, files: Mapping[str, bytes], path: str | None) -> TokenizerSpec:
    """The tokenizer with the roles that the configuration gives to its special tokens."""
    config = configuration(files, path)
    return replace(spec, roles=read_roles(config, spec.special_tokens, spec.roles, path)) if config else spec


def unread(files: Mapping[str, bytes], path: str | None) -> list[str]:
    """What the configuration says that a tokenizer of this package does not hold; it changes no id.

    >>> unread({CONFIG: b'{"chat_template": "{{ messages }}", "padding_side": "left", "model_max_length": 1e30}'}, None)
    ['chat_template', 'padding_side']

    """
    config = json_object(files, CONFIG, path)
    limit = config.get("model_max_length")
    lost = {
        "chat_template": CHAT_TEMPLATE in files or bool(config.get("chat_template")),
        "model_max_length": isinstance(limit, (int, float)) and limit < _NO_LIMIT,
        "padding_side": config.get("padding_side", "right") != "right",
        "truncation_side": config.get("truncation_side", "right") != "right",
        "clean_up_tokenization_spaces": config.get("clean_up_tokenization_spaces") is True,
    }
    return [name for name, is_lost in lost.items() if is_lost]
