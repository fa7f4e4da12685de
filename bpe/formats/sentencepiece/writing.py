"""Writes a tokenizer of characters as a model of sentencepiece, if one can hold it.

What the model does not keep is found by reading it again (`bpe/formats/saving.py`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from bpe.formats.sentencepiece.merges import make_scores
from bpe.formats.sentencepiece.model import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    SentencePieceModel,
    serialize_model,
)
from bpe.formats.sentencepiece.reading import build_normalizer
from bpe.text.normalizers import Normalizer, Sequence
from bpe.text.pipeline_normalizers import CharacterMap
from bpe.vocab.output_steps import DecodeReplace
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import ORDINARY, UNUSED


def write(spec: TokenizerSpec) -> bytes:
    """Write a model of type BPE.

    Raises:
        ValueError: for a tokenizer that it cannot hold at all.

    """
    reason = _explain_refusal(spec)
    model = None if reason else _find_normalizer(_make_model(spec), spec.normalizer)
    if model is None:
        reason = reason or "sentencepiece has no normalizer like its own"
        raise ValueError(f"format sentencepiece cannot hold this tokenizer: {reason}; save it as huggingface")
    return serialize_model(model)


def _explain_refusal(spec: TokenizerSpec) -> str | None:
    """Say why a model of sentencepiece cannot hold a tokenizer; None if it may."""
    if spec.model != "char":
        return "its symbols are bytes, and sentencepiece's are characters"
    if spec.unk_token is None:
        return "it has no unknown token, and sentencepiece needs one"
    if spec.ignore_merges:
        return "it has ignore_merges: sentencepiece merges every word"
    return explain_refusal_of_pieces(spec)


def explain_refusal_of_pieces(spec: TokenizerSpec) -> str | None:
    """Say why a list of the texts of all ids, as in a model or a GGUF file, cannot hold a tokenizer; None if it may."""
    if spec.events is not None or spec.n_merges_within_words is not None:
        return "it has merges across words or deletions (BoundlessBPE, PickyBPE)"
    if spec.end_of_word is not None or spec.subword_prefix is not None:
        return "it has an end-of-word mark or a prefix of subwords"
    if (spec.vocabulary.kinds == UNUSED).any():
        gap = int((spec.vocabulary.kinds == UNUSED).argmax())
        return f"id {gap} has no token, and the file has one for each id"
    return None


def _make_model(spec: TokenizerSpec) -> SentencePieceModel:
    """Make the model, but for its normalizer."""
    special_names = {token_id: name for name, token_id in spec.special_tokens.items()}
    pieces = [special_names.get(token_id, token.decode()) for token_id, token in spec.vocabulary.items()]
    types = [NORMAL if kind == ORDINARY else CONTROL for kind in spec.vocabulary.kinds.tolist()]
    if spec.byte_fallback:
        types = [BYTE if piece in BYTE_NAMES else kind for piece, kind in zip(pieces, types, strict=True)]
    for name, token_id in spec.special_tokens.items():
        types[token_id] = USER_DEFINED if "ordinary" in spec.token_flags.get(name, ()) else CONTROL
    types[pieces.index(spec.unk_token or "")] = UNKNOWN
    scores = [score if kind == NORMAL else 0.0 for score, kind in zip(make_scores(spec), types, strict=True)]
    model = SentencePieceModel(pieces, scores, types, byte_fallback=spec.byte_fallback)
    model.roles |= {role: name for role, name in spec.roles.items() if role in model.roles}
    model.roles["unk_token"] = spec.unk_token or ""
    first_step = spec.decoder[0] if spec.decoder else None
    if isinstance(first_step, DecodeReplace) and model.roles["unk_token"] in first_step.pattern:
        model.unk_surface = first_step.content
    return model


def _find_normalizer(model: SentencePieceModel, normalizer: Normalizer | None) -> SentencePieceModel | None:
    """Find the settings of the normalizer, by trying all; None if there are none."""
    charsmap = next(_list_character_maps(normalizer), b"")
    pieces = list(zip(model.pieces, model.types, strict=True))
    # A piece with a space is never found where spaces are escaped; as a normal one it would be refused.
    escaped_types = [USER_DEFINED if kind == NORMAL and " " in piece else kind for piece, kind in pieces]
    for dummy_prefix, remove_spaces, escape_spaces in product((True, False), repeat=3):
        candidate = replace(
            model,
            types=escaped_types if escape_spaces else model.types,
            charsmap=charsmap,
            dummy_prefix=dummy_prefix,
            remove_spaces=remove_spaces,
            escape_spaces=escape_spaces,
        )
        if build_normalizer(candidate) == normalizer:
            return candidate
    return None


def _list_character_maps(normalizer: Normalizer | None) -> Iterator[bytes]:
    for step in normalizer.normalizers if isinstance(normalizer, Sequence) else (normalizer,):
        if isinstance(step, CharacterMap):
            yield base64.b64decode(step.precompiled_charsmap)
