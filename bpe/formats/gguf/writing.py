"""Writes the vocabulary of a tokenizer as a GGUF file without weights, which llama.cpp reads to the same ids.

What the file does not keep is found by reading it again (`bpe/formats/saving.py`). Source: llama.cpp's
convert_hf_to_gguf.py and llama-vocab.cpp.
"""

from __future__ import annotations

from typing import Any

from bpe.base.fast_dataclasses import replace
from bpe.formats.gguf.header import KEY_PREFIX, TEMPLATE_KEY, TEMPLATE_NAMES_KEY, write_values
from bpe.formats.gguf.patterns import APPROXIMATED_NAMES, NAMES_OF_LINE_PATTERNS, PRETOKENIZERS
from bpe.formats.gguf.reading import ROLE_KEYS, build_pretokenizer
from bpe.formats.sentencepiece.merges import make_scores
from bpe.formats.sentencepiece.model import BYTE, CONTROL, NORMAL, SPACE, UNKNOWN, USER_DEFINED
from bpe.formats.sentencepiece.writing import explain_refusal_of_pieces
from bpe.text.letters import spell_token_in_letters
from bpe.vocab.comparing import Difference
from bpe.vocab.output_steps import ByteFallback
from bpe.vocab.spec import DEFAULT_TEMPLATE, TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import ORDINARY


def write(spec: TokenizerSpec) -> bytes:
    """Write a GGUF file with the vocabulary alone.

    Raises:
        ValueError: for a tokenizer that it cannot hold at all.

    """
    reason = _explain_refusal(spec)
    if reason is not None:
        raise ValueError(f"format gguf cannot hold this tokenizer: {reason}; save it as huggingface")
    is_byte_level = spec.model == "byte"
    tokens = _spell_tokens(spec)
    values: dict[str, Any] = {"tokens": tokens, "token_type": _list_types(spec, tokens)}
    pattern_name = _find_pattern_name(spec)
    if is_byte_level or pattern_name is not None:
        values |= {
            "model": "gemma4" if pattern_name == "gemma4" else "gpt2",
            "pre": pattern_name,
            "merges": [f"{tokens[left]} {tokens[right]}" for left, right in spec.merges.tolist()],
        }
    else:
        values |= {"model": "llama", "scores": make_scores(spec)}
        values["add_space_prefix"] = spec.normalizer is not None and spec.normalizer("a").startswith(SPACE)
    values |= {key: spec.special_tokens[spec.roles[role]] for key, role in ROLE_KEYS.items() if role in spec.roles}
    for role, part in zip(("bos", "eos"), spec.template or ((), ()), strict=True):
        values[f"add_{role}_token"] = bool(part)
        values |= {f"{role}_token_id": part[0]} if part else {}
    tokenizer_values = {f"{KEY_PREFIX}{key}": value for key, value in values.items()}
    for name, source in spec.chat_templates.items():
        tokenizer_values[TEMPLATE_KEY if name == DEFAULT_TEMPLATE else f"{TEMPLATE_KEY}.{name}"] = source
    if names := [name for name in spec.chat_templates if name != DEFAULT_TEMPLATE]:
        tokenizer_values[TEMPLATE_NAMES_KEY] = names
    return write_values({"general.architecture": "llama", **tokenizer_values})


def find_approximations(spec: TokenizerSpec) -> list[Difference]:
    """Find where llama.cpp gives other ids than the tokenizer, although the file says what it is."""
    name = _find_pattern_name(spec)
    if name not in APPROXIMATED_NAMES:
        return []
    message = f"llama.cpp approximates the pattern {name}: it cuts some texts beyond ASCII otherwise, with other ids"
    return [Difference("settings", "pretokenizer", message)]


def _explain_refusal(spec: TokenizerSpec) -> str | None:
    """Say why a GGUF file cannot hold a tokenizer; None if it may."""
    reason = explain_refusal_of_pieces(spec)
    if reason is not None:
        return reason
    if spec.model == "byte" and spec.merge_ranks is not None:
        return "several of its merges share a rank"
    if any(len(part) > 1 for part in spec.template or ()):
        return "its template has several ids before or after a text"
    if spec.model == "byte" and _find_pattern_name(spec) is None:
        return "llama.cpp knows no pretokenizer like its own"
    return None


def _find_pattern_name(spec: TokenizerSpec) -> str | None:
    """Find the value of `pre` that stands for the pretokenizer, if possible with the same `ignore_merges`."""
    if spec.pretokenizer is None:
        return None
    found: str | None = None
    known: dict[Any, bool] = {}
    for name, pattern in PRETOKENIZERS.items():
        if (name in NAMES_OF_LINE_PATTERNS) == (spec.model == "byte"):
            continue
        if pattern.patterns not in known:
            candidate = replace(spec, pretokenizer=build_pretokenizer(pattern, is_byte_level=spec.model == "byte"))
            known[pattern.patterns] = candidate.pretokenizer == spec.pretokenizer
        if known[pattern.patterns]:
            if pattern.ignore_merges == spec.ignore_merges:
                return name
            found = found or name
    return found


def _spell_tokens(spec: TokenizerSpec) -> list[str]:
    """Spell all tokens: bytes in GPT-2's letters, and special tokens by their names."""
    special_names = {token_id: name for name, token_id in spec.special_tokens.items()}
    tokens = []
    for token_id, token in spec.vocabulary.items():
        in_letters = spec.model == "byte" and spec.vocabulary.kinds[token_id] == ORDINARY
        spelling = spell_token_in_letters(token) if in_letters else token.decode()
        tokens.append(spelling if in_letters else special_names.get(token_id, spelling))
    return tokens


def _list_types(spec: TokenizerSpec, tokens: list[str]) -> list[int]:
    types = [NORMAL] * len(tokens)
    if spec.byte_fallback and any(isinstance(step, ByteFallback) for step in spec.decoder or ()):
        types = [BYTE if token in BYTE_NAMES else NORMAL for token in tokens]
    for name, token_id in spec.special_tokens.items():
        types[token_id] = USER_DEFINED if "ordinary" in spec.token_flags.get(name, ()) else CONTROL
        if name == spec.unk_token:
            types[token_id] = UNKNOWN
    return types
