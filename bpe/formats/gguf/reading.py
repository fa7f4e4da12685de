"""Builds a `TokenizerSpec` of the values in the header of a GGUF file.

Model `gpt2` is a byte-level BPE, whose pretokenizer has a name (`pre`). Model `llama` is sentencepiece's BPE, with
scores instead of merges; `gemma4` has its characters and listed merges. Ids are llama.cpp's, which applies no
normalizer (the NFC of Qwen 2 is not in the file). Other kinds of tokenizers (`bert`, `t5`, `rwkv`) are refused by name.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from bpe.base.fast_dataclasses import replace
from bpe.errors import FormatError, pluralize, short_repr
from bpe.formats import huggingface
from bpe.formats.gguf.header import KEY_PREFIX, TEMPLATE_KEY, read_values
from bpe.formats.gguf.patterns import (
    ALWAYS_WITH_BOS,
    NAMES_OF_LINE_PATTERNS,
    PRETOKENIZERS,
    WITH_BOS_BY_DEFAULT,
    NamedPattern,
)
from bpe.formats.gguf.specials import find_types, list_added_tokens
from bpe.formats.huggingface.steps import read_pre_tokenizer
from bpe.formats.sentencepiece.merges import MAX_CHARS, list_all_splits, recover_scored_merges
from bpe.formats.sentencepiece.model import BYTE, NORMAL, SPACE, USER_DEFINED
from bpe.formats.tiktoken import parse_pattern
from bpe.formats.tiktoken_folder import KIMI_PATTERN
from bpe.pretokenize.patterns import NAMES
from bpe.pretokenize.pretokenizer import Pretokenizer
from bpe.text import normalizers
from bpe.text.letters import map_letters_to_bytes
from bpe.vocab.spec import DEFAULT_TEMPLATE, TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import AFTER_MERGING

#: The most line ends of a token that are merged to see whether they make it; published models have at most 31.
_MAX_LINE_ENDS = 256
#: Where mmBERT puts a space: before a line that does not begin with one.
_LINE_START_PATTERN = rf"(?<![^\n])(?=[^\n{SPACE}])"
_BYTE_LEVEL_STEP: Mapping[str, Any] = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False,
}  # fmt: skip

#: The key with the id of a role, as ggml spells it → the role.
ROLE_KEYS: Mapping[str, str] = {
    "bos_token_id": "bos_token", "eos_token_id": "eos_token", "unknown_token_id": "unk_token",
    "seperator_token_id": "sep_token", "padding_token_id": "pad_token", "cls_token_id": "cls_token",
    "mask_token_id": "mask_token",
}  # fmt: skip


def read(data: bytes | mmap.mmap) -> TokenizerSpec:
    """Read the tokenizer of a GGUF file.

    Raises:
        FormatError: for an invalid file, one without a tokenizer, and a tokenizer that is not supported.

    """
    return _build(read_values(data))


def _build(values: dict[str, Any]) -> TokenizerSpec:
    model_name = values.get("model")
    if model_name is None:
        raise FormatError(f"it has no key {KEY_PREFIX}model; the file has no tokenizer")
    if model_name not in ("gpt2", "llama", "gemma4"):
        raise FormatError(
            f"it is {short_repr(model_name)}, which is not byte-pair encoding, or not supported; known are gpt2, llama "
            "and gemma4",
            where=f"{KEY_PREFIX}model",
        )
    pattern_name = "gemma4" if model_name == "gemma4" else values.get("pre", "") or "default"
    if model_name != "llama" and (not isinstance(pattern_name, str) or pattern_name not in PRETOKENIZERS):
        raise FormatError(
            f"it is {short_repr(pattern_name)}, whose pattern is not known; known are {', '.join(PRETOKENIZERS)}",
            where=f"{KEY_PREFIX}pre",
        )
    names = _read_list(values, "tokens", str)
    # An empty token is named as llama.cpp names it.
    tokens = {token or f"[EMPTY_{token_id}]": token_id for token_id, token in enumerate(names)}
    if len(tokens) < len(names):
        repeated_token = next(token for token_id, token in enumerate(names) if tokens.get(token) != token_id)
        raise FormatError(
            f"token {short_repr(repeated_token)} occurs twice; each must be unique", where=f"{KEY_PREFIX}tokens"
        )
    types = _read_list(values, "token_type", int, len(tokens)) if "token_type" in values else [NORMAL] * len(tokens)
    types = find_types(tokens, types, values)
    if model_name == "llama":
        spec = _build_scored_model(values, tokens, types)
    elif pattern_name in NAMES_OF_LINE_PATTERNS:
        spec = _build_line_model(values, tokens, types, pattern_name)
    else:
        spec = _build_byte_level_model(values, tokens, types, PRETOKENIZERS[pattern_name])
    special_names = {token_id: name for name, token_id in spec.special_tokens.items()}
    ids = {role: values.get(key) for key, role in ROLE_KEYS.items()}
    roles = {
        role: special_names[token_id]
        for role, token_id in ids.items()
        if isinstance(token_id, int) and token_id in special_names
    }
    template = _read_template(values, model_name, pattern_name, len(tokens))
    # llama.cpp ignores ids of no token, too.
    return replace(spec, roles=roles, template=template, chat_templates=_read_chat_templates(values))


def _read_chat_templates(values: dict[str, Any]) -> dict[str, str]:
    """Read the chat templates: name → template."""
    templates: dict[str, str] = {}
    for key, value in values.items():
        if key != TEMPLATE_KEY and not key.startswith(f"{TEMPLATE_KEY}."):
            continue
        name = key.removeprefix(TEMPLATE_KEY).removeprefix(".") or DEFAULT_TEMPLATE
        if not isinstance(value, str):
            raise FormatError(f"it is {short_repr(value)}; a chat template must be a string", where=key)
        if name in templates:
            raise FormatError(f"the chat template {short_repr(name)} occurs twice; each must be unique", where=key)
        templates[name] = value
    return templates


def _read_template(
    values: dict[str, Any], model_name: str, pattern_name: object, n_tokens: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Read the ids that llama.cpp puts before and after a text (`add_special`), of tokens that the file names."""
    defaults = {"bos": model_name == "llama" or pattern_name in WITH_BOS_BY_DEFAULT, "eos": False}
    parts: list[tuple[int, ...]] = []
    for role, default in defaults.items():
        is_added, token_id = values.get(f"add_{role}_token", default), values.get(f"{role}_token_id")
        if not isinstance(is_added, int):
            raise FormatError(f"it is {short_repr(is_added)}; it must be a bool", where=f"{KEY_PREFIX}add_{role}_token")
        if role == "bos" and model_name != "llama" and pattern_name in ALWAYS_WITH_BOS:
            is_added = True
        parts.append((token_id,) if is_added and isinstance(token_id, int) and 0 <= token_id < n_tokens else ())
    return (parts[0], parts[1]) if any(parts) else None


def _read_list(values: dict[str, Any], name: str, item_type: type, count: int | None = None) -> list[Any]:
    """Read the first `count` items of an array; all items for None."""
    items = values.get(name)
    if not isinstance(items, list) or not set(map(type, items)) <= {item_type}:
        raise FormatError(f"it is not an array of {item_type.__name__}; it must be one", where=KEY_PREFIX + name)
    if item_type is str and "\0" in "".join(items):
        items = [text.partition("\0")[0] for text in items]  # a string ends there in llama.cpp
    if count is not None and len(items) < count:
        raise FormatError(f"it has {len(items)} items for {count} tokens", where=KEY_PREFIX + name)
    return items[:count]


def _read_merges(values: dict[str, Any]) -> list[str] | list[list[str]]:
    """Read the merges, or their pairs: a merge is divided at its first space, and repeated merges are left out."""
    if values.get("pre") == "kimi-k2" and "merges" not in values:
        return []
    merges = list(dict.fromkeys(_read_list(values, "merges", str)))
    if all(merge.count(" ") == 1 and merge[0] != " " for merge in merges):
        return merges
    spaces = [(merge, merge.find(" ", 1)) for merge in merges]
    return [[merge[:space], merge[space + 1 :]] for merge, space in spaces if space > 0]


def _read_json(value: dict[str, Any]) -> TokenizerSpec:
    return huggingface.read(json.dumps(value, ensure_ascii=False).encode())


def _build_byte_level_model(
    values: dict[str, Any], tokens: dict[str, int], types: list[int], named_pattern: NamedPattern
) -> TokenizerSpec:
    """Build the spec of a byte-level model."""
    if BYTE in types:
        name = next(token for token, token_id in tokens.items() if types[token_id] == BYTE)
        raise FormatError(
            f"token {short_repr(name)} is of type byte, which a byte-level model has none of; set it to normal"
        )
    spec = _read_json(
        {
            "added_tokens": list_added_tokens(tokens, types, values),
            "pre_tokenizer": _BYTE_LEVEL_STEP,
            "model": {
                "type": "BPE",
                "ignore_merges": named_pattern.ignore_merges,
                "vocab": tokens,
                "merges": _read_merges(values),
            },
        }
    )
    spec = replace(spec, pretokenizer=build_pretokenizer(named_pattern, is_byte_level=True))
    if named_pattern.ignore_merges:
        _check_special_names(spec)
    return replace(spec, drop_unknown=AFTER_MERGING if spec.drop_unknown else False)


def build_pretokenizer(named_pattern: NamedPattern, *, is_byte_level: bool) -> Pretokenizer | None:
    """Build the pretokenizer that a value of `pre` stands for."""
    patterns = named_pattern.patterns
    if isinstance(patterns, str):
        return Pretokenizer(patterns) if patterns in NAMES else parse_pattern(KIMI_PATTERN)
    steps = [*map(_describe_split, patterns), *([_BYTE_LEVEL_STEP] if is_byte_level else [])]
    return read_pre_tokenizer({"type": "Sequence", "pretokenizers": steps})[1]


def _check_special_names(spec: TokenizerSpec) -> None:
    """Raise FormatError for a special token that can be a pretoken of ordinary text, which llama.cpp looks up."""
    assert spec.pretokenizer is not None
    letters = map_letters_to_bytes()
    for name in spec.special_tokens:
        is_harmless = "ordinary" in spec.token_flags.get(name, ()) or not letters.keys() >= set(name)
        if not is_harmless and len(spec.pretokenizer.split_bytes(bytes(map(letters.__getitem__, name)))) == 1:
            raise FormatError(
                f"special token {short_repr(name)} is a whole pretoken, which llama.cpp makes that token, allowed or "
                "not; this is not supported: make it of type normal"
            )


def _describe_split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


# Models of characters -------------------------------------------------------------------------------------------------


def _describe_characters(
    tokens: dict[str, int],
    types: list[int],
    added: list[dict[str, Any]],
    merges: list[str] | list[list[str]],
    add_prefix: bool,
) -> dict[str, Any]:
    """Return the JSON of a model of characters, in which U+2581 stands for a space."""
    byte_tokens = {token for token, token_id in tokens.items() if types[token_id] == BYTE}
    if byte_tokens and byte_tokens != tokens.keys() & set(BYTE_NAMES):
        raise FormatError(
            f"it has {pluralize(len(byte_tokens), 'token')} of type byte, which are not those from <0x00> to <0xFF>; "
            "make it so"
        )
    space = {"pattern": {"String": " "}, "content": SPACE}
    normalizer_steps: list[dict[str, Any]] = [{"type": "Replace", **space}]
    decoder_steps: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    decoder_steps += [{"type": "ByteFallback"}] if byte_tokens else []
    decoder_steps.append({"type": "Fuse"})
    if add_prefix:
        normalizer_steps.insert(0, {"type": "Prepend", "prepend": SPACE})
        decoder_steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizer_steps},
        "decoder": {"type": "Sequence", "decoders": decoder_steps},
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "unknown_symbols": "error",  # llama.cpp ends its process, or leaves them out after merging
            "vocab": tokens,
            "merges": merges,
        },
    }


def _build_line_model(
    values: dict[str, Any], tokens: dict[str, int], types: list[int], pattern_name: str
) -> TokenizerSpec:
    """Build the spec of a model of characters with listed merges, such as Gemma 4's."""
    merges = _read_merges(values)
    if pattern_name != "sarvam-moe":
        _check_line_end_tokens(tokens, merges)
    adds_spaces = pattern_name == "mmbert"
    added = list_added_tokens(tokens, types, values, None if adds_spaces else " " + SPACE)
    pretokenizer = build_pretokenizer(PRETOKENIZERS[pattern_name], is_byte_level=False)
    spec = _read_json(_describe_characters(tokens, types, added, merges, add_prefix=False))
    spec = replace(spec, pretokenizer=pretokenizer)
    if adds_spaces:
        steps = normalizers.Replace(" ", SPACE), normalizers.Replace(_LINE_START_PATTERN, SPACE)
        spec = replace(spec, normalizer=normalizers.Sequence(*steps))
    return spec


def _check_line_end_tokens(tokens: dict[str, int], merges: list[str] | list[list[str]]) -> None:
    """Raise FormatError for a token of line ends that merging does not produce: llama.cpp takes it for a whole run."""
    pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in merges)
    ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
    for token in tokens:
        if token.strip("\n"):
            continue
        parts = list(token[:_MAX_LINE_ENDS])
        while ranked_pairs := [(ranks[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in ranks]:
            index = min(ranked_pairs)[1]
            parts[index : index + 2] = [parts[index] + parts[index + 1]]
        if parts != [token]:
            raise FormatError(
                f"token {short_repr(token)} is not what merging makes of its characters, but llama.cpp takes it for a "
                "run of line ends; this is not supported: add its merges"
            )


def _build_scored_model(values: dict[str, Any], tokens: dict[str, int], types: list[int]) -> TokenizerSpec:
    """Build the spec of sentencepiece's model as llama.cpp reads it: tokens of all types are merged, by their scores.

    It puts the space of `add_space_prefix` before each text between special tokens, removes no spaces, and has no other
    normalizer and no unknown token.
    """
    scores = [0.0] * len(tokens)
    if "scores" in values:
        listed_scores = values["scores"]
        score_type = (
            int if isinstance(listed_scores, list) and listed_scores and type(listed_scores[0]) is int else float
        )
        scores = np.array(_read_list(values, "scores", score_type, len(tokens)), dtype=np.float32).tolist()
    if any(score != score for score in scores):
        raise FormatError("a score is not a number; all must be", where=f"{KEY_PREFIX}scores")
    prefix = values.get("add_space_prefix", True)
    if not isinstance(prefix, int):
        raise FormatError(f"it is {short_repr(prefix)}; it must be a bool", where=f"{KEY_PREFIX}add_space_prefix")
    mergeable_tokens = _find_mergeable_tokens(
        tokens, {token for token, token_id in tokens.items() if types[token_id] == USER_DEFINED and SPACE not in token}
    )
    ids_by_score = sorted((tokens[token] for token in mergeable_tokens), key=lambda token_id: -scores[token_id])
    names = list(tokens)
    merges = recover_scored_merges(
        {names[token_id]: rank for rank, token_id in enumerate(ids_by_score)},
        [scores[token_id] for token_id in ids_by_score],
    )
    added = list_added_tokens(tokens, types, values, None if prefix else " " + SPACE)
    spec = _read_json(_describe_characters(tokens, types, added, merges or [], bool(prefix)))
    return spec if merges is not None else list_all_splits(spec, names, scores, ids_by_score)


def _find_mergeable_tokens(tokens: dict[str, int], excluded_tokens: set[str]) -> set[str]:
    """Find the tokens that merging two adjacent symbols again and again can make, single characters included.

    The texts that are merged have no spaces, and none of the strings in `excluded_tokens`, which are found before.
    """
    chars = {token for token in tokens if len(token) == 1 and token != " " and token not in excluded_tokens}
    excluded_chars = {" ", *(token for token in excluded_tokens if len(token) == 1)}
    mergeable_tokens, max_length = set(chars), 1
    candidates = [token for token in tokens if token not in excluded_tokens and excluded_chars.isdisjoint(token)]
    for token in sorted(candidates, key=len):
        last_split = len(token) - 1
        if last_split >= 2 * max_length:
            continue  # one of the parts would be longer than any that is made
        if len(token) > MAX_CHARS:
            raise FormatError(f"token {short_repr(token)} has {len(token)} characters; a token has at most {MAX_CHARS}")
        for split in range(1, len(token)):
            if (split == 1 or token[:split] in mergeable_tokens) and (
                split == last_split or token[split:] in mergeable_tokens
            ):
                break
        else:
            continue
        if not chars.issuperset(token):
            char = min(set(token) - chars)
            raise FormatError(
                f"token {short_repr(token)} has the character {short_repr(char)}, which is not a token; it must be one"
            )
        mergeable_tokens.add(token)
        max_length = len(token)
    return mergeable_tokens
