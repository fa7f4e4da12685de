"""Builds a `TokenizerSpec` of a model of sentencepiece, read in the shape of a tokenizer.json.

Unigram models are refused: they are not byte-pair encoding.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from typing import Any

import regex

from bpe.errors import FormatError, pluralize, short_repr
from bpe.formats import huggingface
from bpe.formats.schema import errors_at
from bpe.formats.sentencepiece.merges import (
    MAX_CHARS,
    MAX_PIECES,
    check_characters,
    list_all_splits,
    recover_scored_merges,
)
from bpe.formats.sentencepiece.model import (
    BYTE,
    CONTROL,
    NORMAL,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    SentencePieceModel,
    parse_model,
)
from bpe.text import normalizers
from bpe.text.pipeline_normalizers import CharacterMap, CharacterMapBeside, DummyPrefix, Prepend
from bpe.vocab.editing import ADDED_FLAGS
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_tokens import remove_ineffective_flags
from bpe.vocab.symbols import BYTE_NAMES
from bpe.vocab.vocabulary import SPECIAL, Vocabulary


def read(data: bytes) -> TokenizerSpec:
    """Read a model of type BPE.

    Raises:
        FormatError: for an invalid file, and for a model of another type or with a setting that is not supported.

    """
    return build_spec(parse_model(data))


def build_spec(model: SentencePieceModel) -> TokenizerSpec:
    """Build the spec of a model.

    Raises:
        FormatError: for pieces that contradict each other, and for settings that are not supported.

    """
    _check_model(model)
    ids = {piece: token_id for token_id, piece in enumerate(model.pieces)}
    ids_by_score = [token_id for token_id, piece_type in enumerate(model.types) if piece_type == NORMAL]
    ids_by_score.sort(key=lambda token_id: -model.scores[token_id])
    rank_by_piece = {model.pieces[token_id]: rank for rank, token_id in enumerate(ids_by_score)}
    check_characters(rank_by_piece)
    merges = recover_scored_merges(rank_by_piece, [model.scores[token_id] for token_id in ids_by_score])
    special_types = {
        token_id: piece_type
        for token_id, piece_type in enumerate(model.types)
        if piece_type in (UNKNOWN, CONTROL, USER_DEFINED)
    }
    for token_id, piece in enumerate(model.pieces):
        if special_types.get(token_id) == USER_DEFINED and model.escape_spaces and " " in piece:
            del special_types[token_id]  # normalized text has no space, so the piece is never found
    unk = next(model.pieces[token_id] for token_id, piece_type in special_types.items() if piece_type == UNKNOWN)
    value = {
        "added_tokens": [
            {
                "id": token_id,
                "content": model.pieces[token_id],
                "normalized": piece_type == USER_DEFINED,
                "special": piece_type != USER_DEFINED,
            }
            for token_id, piece_type in special_types.items()
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": _list_decoders(model, unk)},
        "model": {
            "type": "BPE",
            "unk_token": unk,
            "fuse_unk": True,
            "byte_fallback": model.byte_fallback,
            "vocab": ids,
            "merges": merges or [],
        },
    }
    spec = huggingface.read(json.dumps(value, ensure_ascii=False).encode())
    normalizer = build_normalizer(model)
    flags = {
        model.pieces[token_id]: ADDED_FLAGS
        for token_id, piece_type in special_types.items()
        if piece_type == USER_DEFINED
    }
    type_by_piece = {model.pieces[token_id]: piece_type for token_id, piece_type in special_types.items()}
    roles = {  # as sentencepiece: a user-defined piece has none
        role: piece
        for role, piece in model.roles.items()
        if type_by_piece.get(piece) == (UNKNOWN if role == "unk_token" else CONTROL)
    }
    flags = remove_ineffective_flags(flags, normalizer)
    kinds = spec.vocabulary.kinds.copy()
    kinds[list(special_types)] = SPECIAL  # no text becomes one of them, as that of a symbol or of a merge might
    vocabulary = Vocabulary.from_arrays(spec.vocabulary.blob, spec.vocabulary.offsets, kinds)
    spec = replace(spec, vocabulary=vocabulary, normalizer=normalizer, token_flags=flags, roles=roles)
    return spec if merges is not None else list_all_splits(spec, model.pieces, model.scores, ids_by_score)


def _check_model(model: SentencePieceModel) -> None:
    """Raise FormatError for a model that is not supported or contradicts itself."""
    if not model.pieces or len(model.pieces) > MAX_PIECES:
        raise FormatError(f"it has {pluralize(len(model.pieces), 'piece')}; it must have 1 to {MAX_PIECES}")
    ids: dict[str, int] = {}
    for token_id, (piece, score, piece_type) in enumerate(zip(model.pieces, model.scores, model.types, strict=True)):
        if not piece or math.isnan(score) or not NORMAL <= piece_type <= BYTE:
            reason = f"{short_repr(piece)} of type {piece_type} with the score {score} is not a valid piece"
            raise FormatError(reason, where=f"piece {token_id}")
        if ids.setdefault(piece, token_id) != token_id:
            raise FormatError(
                f"{short_repr(piece)} is piece {ids[piece]} too; each must be unique", where=f"piece {token_id}"
            )
    if model.types.count(UNKNOWN) != 1:
        raise FormatError(f"it has {pluralize(model.types.count(UNKNOWN), 'unknown piece')}; it must have one")
    _check_unknown(model)
    if (longest_piece := max(model.pieces, key=len)) and len(longest_piece) > MAX_CHARS:
        raise FormatError(
            f"piece {short_repr(longest_piece)} has {len(longest_piece)} characters; a piece has at most {MAX_CHARS}"
        )
    if UNUSED in model.types:
        name = model.pieces[model.types.index(UNUSED)]
        raise FormatError(f"piece {short_repr(name)} is unused; models with unused pieces are not supported")
    if model.remove_spaces and (
        changed_pieces := [piece for piece in _list_user_defined(model) if _loses_spaces(piece, model)]
    ):
        raise FormatError(
            f"piece {short_repr(changed_pieces[0])} is user-defined, and remove_extra_whitespaces removes spaces like "
            "its own; this is not supported: train the model with remove_extra_whitespaces=False"
        )
    if model.charsmap and any("\0" in piece for piece in _list_user_defined(model)):
        raise FormatError(
            "a user-defined piece has the character U+0000, beside a character map; this is not supported"
        )
    byte_pieces = {piece for piece, piece_type in zip(model.pieces, model.types, strict=True) if piece_type == BYTE}
    if byte_pieces and byte_pieces != set(BYTE_NAMES):
        raise FormatError(f"it has {pluralize(len(byte_pieces), 'byte piece')}; they must be <0x00> to <0xFF>")
    if model.byte_fallback != bool(byte_pieces):
        raise FormatError("byte_fallback and byte pieces go together; it has only one of them")


def _check_unknown(model: SentencePieceModel) -> None:
    """Raise FormatError for an unknown piece that the steps of `_list_decoders` would not decode as sentencepiece."""
    unk, surface = model.pieces[model.types.index(UNKNOWN)], model.unk_surface
    if unk.startswith(SPACE):
        raise FormatError(
            f"the unknown piece is {unk!r}, which begins like a word; this is not supported: train the model with "
            "another unk_piece"
        )
    if SPACE in surface or (model.byte_fallback and surface in BYTE_NAMES):
        kind = "a space" if SPACE in surface else "a byte"
        raise FormatError(
            f"it is {short_repr(surface)}, which decoding takes for {kind}; this is not supported: train the model "
            "with another unk_surface",
            where="trainer_spec.unk_surface",
        )


def _list_user_defined(model: SentencePieceModel) -> list[str]:
    return [piece for piece, piece_type in zip(model.pieces, model.types, strict=True) if piece_type == USER_DEFINED]


def _loses_spaces(piece: str, model: SentencePieceModel) -> bool:
    """Whether a piece has spaces that are removed from texts: around a text, and all but one of several."""
    space = SPACE if model.escape_spaces else " "
    return "  " in piece or piece.endswith(space) or (piece[0] == " " and not model.escape_spaces)


def _list_decoders(model: SentencePieceModel, unk: str) -> list[dict[str, Any]]:
    """List the steps from pieces to text; the unknown piece becomes its surface, as sentencepiece decodes it."""
    unk_pattern = {"String": unk}
    if any(unk in piece and piece != unk for piece in model.pieces):
        unk_pattern = {"Regex": rf"(?<![\s\S]){regex.escape(unk)}(?![\s\S])"}
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": unk_pattern, "content": model.unk_surface},
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
    ]
    if model.byte_fallback:
        steps.append({"type": "ByteFallback", "by_character": True})
    steps.append({"type": "Fuse"})
    if model.dummy_prefix or model.remove_spaces:
        stripped_tokens = "each" if model.remove_spaces else "first"
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0, "of_tokens": stripped_tokens})
    return steps


def build_normalizer(model: SentencePieceModel) -> normalizers.Normalizer | None:
    """Build what sentencepiece does to a text before it looks for pieces. User-defined pieces stay as they are."""
    steps: list[normalizers.Normalizer] = []
    user_defined = _list_user_defined(model)
    if model.charsmap:
        charsmap, joined_names = base64.b64encode(model.charsmap).decode(), "\0".join(user_defined)
        with errors_at("normalizer_spec.precompiled_charsmap"):
            steps.append(CharacterMapBeside(charsmap, joined_names) if user_defined else CharacterMap(charsmap))
    if model.remove_spaces:
        steps += [normalizers.Replace(r"\A +", spelled=r"\A +"), normalizers.Replace(" {2,}", " ")]
    space = SPACE if model.escape_spaces else " "
    if model.dummy_prefix:
        may_delete_text = model.charsmap and not model.remove_spaces  # a text of which nothing is left has a space, too
        steps.append(DummyPrefix(space) if user_defined or may_delete_text else Prepend(space))
    if model.escape_spaces:
        steps.append(normalizers.Replace(" ", SPACE))
    if model.remove_spaces:
        steps.append(normalizers.Replace(rf"{space}+\Z", spelled=rf"{space}+\z"))  # U+2581 of the text itself, too
    return normalizers.Sequence(*steps) if steps else None
