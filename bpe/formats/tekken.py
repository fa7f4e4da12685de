"""Mistral's tekken.json: tokens with ranks, the pattern and the special tokens in one file.

Special tokens have the ids from 0; the id of any other token is its rank plus the number of special tokens. Merges are
recovered from the ranks, as for a rank file (`tiktoken.py`). Source: `Tekkenizer` of mistral-common, tekken.py. Its
settings for images and audio change no id and are not kept.
"""

from __future__ import annotations

import base64
import binascii
import json
from functools import partial
from typing import Any

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.base.offsets import compute_offsets
from bpe.encode.engine import Engine
from bpe.errors import ID_LIMIT, FormatError, pluralize, short_repr
from bpe.formats import tiktoken
from bpe.formats._ranks import RankTable
from bpe.formats.schema import errors_at, parse_json, read_field, refuse
from bpe.vocab.merging import merging_suffices
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, SPECIAL

#: The special tokens of a file that lists none, as the first releases of the format are.
DEFAULT_SPECIAL_TOKENS = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip
#: The name of a special token that the file does not list.
UNLISTED_NAME = "<SPECIAL_{}>"
#: The most special tokens; published files have 1,000.
MAX_SPECIAL_TOKENS = 1 << 20


def _read_count(value: Any, where: str, maximum: int = ID_LIMIT) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise FormatError(f"it is {short_repr(value)}; it must be an int from 0 to {maximum}", where=where)
    return value


def read(data: bytes) -> TokenizerSpec:
    """Read a tekken.json.

    Raises:
        FormatError: for an invalid file; it names the field.

    """
    value = parse_json(data)
    if not isinstance(value, dict):
        raise FormatError(f"{short_repr(value)} is not an object; a tekken.json is one")
    config: dict[str, Any] = read_field(value, "the file", "config", dict)
    pattern = read_field(config, "config", "pattern", str)
    n_special = read_field(
        config, "config", "default_num_special_tokens", partial(_read_count, maximum=MAX_SPECIAL_TOKENS)
    )
    vocab_size = read_field(config, "config", "default_vocab_size", _read_count)
    entries: list[Any] = read_field(value, "the file", "vocab", list)
    if not n_special < vocab_size <= len(entries) + n_special:
        counts = f"{pluralize(len(entries), 'token')} in the vocab and {pluralize(n_special, 'special token')}"
        rule = "it must be at most their sum, and more than the special tokens"
        refuse("config.default_vocab_size", vocab_size, f"there are {counts}", rule)
    tokens = _read_tokens(entries[: vocab_size - n_special])
    blob, offsets = b"".join(tokens), compute_offsets(list(map(len, tokens)))
    table = RankTable(blob, offsets)
    if not table.distinct:
        seen_tokens: set[bytes] = set()
        repeated_token = next(token for token in tokens if token in seen_tokens or seen_tokens.add(token))  # type: ignore[func-returns-value]
        raise FormatError(f"token {short_repr(repeated_token)} is given twice; each must be unique", where="vocab")
    ids = np.arange(n_special, vocab_size, dtype=np.int32)
    special_ids = _read_special_tokens(value, n_special)
    with errors_at("config.pattern"):
        pretokenizer = tiktoken.parse_pattern(pattern)
    with errors_at("vocab"):
        ranked_tokens = tiktoken.RankedTokens(blob, offsets, ids)
        spec = tiktoken.build_spec(ranked_tokens, table, pretokenizer, special_ids, shared_ids=False)
    ignore_merges = read_field(config, "config", "ignore_merges", bool, True)
    return spec if ignore_merges else replace(spec, ignore_merges=False, unmerged=None)


def _read_tokens(entries: list[Any]) -> list[bytes]:
    """Read the tokens in order of their ranks, which are 0, 1, 2, …; the first 256 are the bytes."""
    tokens = []
    for i, item in enumerate(entries):
        text: Any = item.get("token_bytes") if isinstance(item, dict) else None
        rank = item.get("rank") if isinstance(item, dict) else None
        try:
            token = base64.b64decode(text, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise FormatError(f"{short_repr(text)} is not a token in base64", where=f"vocab[{i}].token_bytes") from None
        if type(rank) is not int or rank != i:
            raise FormatError(f"it is {short_repr(rank)}; ranks must be 0, 1, 2, … in order", where=f"vocab[{i}].rank")
        if not token or (i < 256 and token != bytes([i])):
            raise FormatError(
                f"token {i} is {short_repr(token)}; the first 256 tokens must be the bytes 0 to 255, and no token "
                "is empty",
                where=f"vocab[{i}].token_bytes",
            )
        tokens.append(token)
    if len(tokens) < 256:
        raise FormatError(f"it has {pluralize(len(tokens), 'token')}; the first 256 are the bytes", where="vocab")
    return tokens


def _read_special_tokens(value: dict[str, Any], n_special: int) -> dict[str, int]:
    """Read the special tokens: name → id. Those that the file does not list have the names of `UNLISTED_NAME`."""
    entries = value.get("special_tokens")
    if entries is None:
        entries = [{"rank": i, "token_str": name} for i, name in enumerate(DEFAULT_SPECIAL_TOKENS)]
    if not isinstance(entries, list) or len(entries) > n_special:
        rule = f"it must be a list of at most {pluralize(n_special, 'token')}"
        refuse("special_tokens", entries, rule, "see config.default_num_special_tokens")
    special_ids: dict[str, int] = {}
    fillers = [{"rank": i, "token_str": UNLISTED_NAME.format(i)} for i in range(len(entries), n_special)]
    for i, item in enumerate([*entries, *fillers]):
        name = item.get("token_str") if isinstance(item, dict) else None
        rank = item.get("rank") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name or name in special_ids or type(rank) is not int or rank != i:
            rule = f"it must be a token of its own with the rank {i}"
            refuse(f"special_tokens[{i}]", item, rule, "number the special tokens 0, 1, 2, … in order")
        special_ids[name] = i
    return special_ids


def write(spec: TokenizerSpec) -> bytes:
    """Write a tekken.json of version v3, with its special tokens listed, as mistral-common reads it.

    What the file does not keep is not checked here (`saving.py` reads it again).

    Raises:
        ValueError: for a tokenizer that the format cannot hold at all.

    """
    special_tokens = dict(spec.vocabulary.items(SPECIAL))
    tokens = [token for _, token in spec.vocabulary.items(ORDINARY)]
    reason = None
    if spec.model != "byte" or spec.end_of_word is not None:
        reason = "the format holds byte-level models without an end-of-word mark"
    elif sorted(special_tokens) != list(range(len(special_tokens))) or len(spec.vocabulary) != spec.vocabulary.limit:
        reason = "its special tokens do not have the ids 0, 1, 2, … before all others"
    elif tokens[:256] != [bytes([byte]) for byte in range(256)]:
        reason = "its first 256 tokens are not the bytes 0 to 255 in order"
    elif spec.pretokenizer is None:
        reason = "it has no pretokenizer"
    if reason is not None or spec.pretokenizer is None:
        raise ValueError(f"format tekken cannot hold this tokenizer: {reason}; save it as huggingface")
    vocab = (
        {"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": _decode_token(token)}
        for i, token in enumerate(tokens)
    )
    value: dict[str, Any] = {
        "config": {
            "pattern": tiktoken.write_pattern(spec.pretokenizer),
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": len(tokens) + len(special_tokens),
            "default_num_special_tokens": len(special_tokens),
            "version": "v3",
        },
        "vocab": list(vocab),
        "special_tokens": [
            {"rank": token_id, "token_str": token.decode(), "is_control": True}
            for token_id, token in sorted(special_tokens.items())
        ],
    }
    if not spec.ignore_merges and merging_suffices(spec, Engine):
        value["config"]["ignore_merges"] = False  # mistral-common, which does not know the field, gives the same ids
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _decode_token(token: bytes) -> str | None:
    """Decode a token; None if it is not UTF-8."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None
