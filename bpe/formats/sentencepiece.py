"""sentencepiece's `.model` of type BPE: pieces with scores, the settings of the trainer and the normalizer.

sentencepiece merges the two adjacent symbols whose concatenation is the piece with the best score, the leftmost of
equal ones; there is no list of merges. It is recovered as for a rank file (`tiktoken.py`): a piece's only merge is the
last one when its own characters are merged. Where that needs a merge with a worse score than the piece's own, every
split of every piece is listed with the piece's rank, which is sentencepiece's rule itself. The model is then read in
the shape of a tokenizer.json. Unigram models are refused: they are not byte-pair encoding.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import regex

from bpe.errors import FormatError, pluralize, short_repr
from bpe.formats import huggingface
from bpe.formats.schema import errors_at
from bpe.text import normalizers
from bpe.text.pipeline_normalizers import CharacterMap, CharacterMapBeside, DummyPrefix, Prepend
from bpe.vocab.editing import ADDED_FLAGS
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_tokens import remove_ineffective_flags
from bpe.vocab.vocabulary import SPECIAL, Vocabulary

#: A value of a field of a protocol buffer: an int for a varint, the bytes of any other.
Value = int | bytes
#: The character that stands for a space.
SPACE = "\u2581"
#: The types of pieces.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
#: The types of models.
_UNIGRAM, _BPE = 1, 2
_MODEL_TYPES = {_UNIGRAM: "Unigram", _BPE: "BPE", 3: "word", 4: "character"}
#: The most pieces, and the most characters of a piece; published models have 262,144 of at most 93.
MAX_PIECES, MAX_CHARS = 1 << 24, 1024
#: The most steps to recover merges, about the sum of the squared lengths of the pieces; published models need 10**7.
MAX_STEPS = 10**9

# The wire types of protocol buffers, and the field numbers of sentencepiece_model.proto.
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_PIECE, _TRAINER_SPEC, _NORMALIZER_SPEC, _DENORMALIZER_SPEC = 1, 2, 3, 5
_PIECE_TEXT, _PIECE_SCORE, _PIECE_TYPE = 1, 2, 3
_MODEL_TYPE, _WHITESPACE_AS_SUFFIX, _BYTE_FALLBACK, _UNK_SURFACE = 3, 24, 35, 44
_CHARSMAP, _DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5
#: The field of the trainer's settings that names the piece of a role → (the role, the piece by default).
_ROLES = {
    45: ("unk_token", "<unk>"), 46: ("bos_token", "<s>"), 47: ("eos_token", "</s>"), 48: ("pad_token", "<pad>"),
}  # fmt: skip


@dataclass
class SentencePieceModel:
    """The parts of a model that decide the ids.

    Attributes:
        pieces: the text of each piece, by id.
        scores: the score of each piece.
        types: the type of each piece.
        byte_fallback: whether an unknown character becomes the pieces of its bytes.
        dummy_prefix: whether a text begins with a space that it does not have.
        remove_spaces: whether spaces around a text, and all but one of several, are removed.
        escape_spaces: whether a space becomes U+2581.
        charsmap: the compiled rules of the normalizer; empty for none.
        unk_surface: what the unknown piece is decoded as.
        roles: role → piece, if there is such a piece.

    """

    pieces: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    byte_fallback: bool = False
    dummy_prefix: bool = True
    remove_spaces: bool = True
    escape_spaces: bool = True
    charsmap: bytes = b""
    unk_surface: str = " \u2047 "
    roles: dict[str, str] = field(default_factory=lambda: dict(_ROLES.values()))


def read(data: bytes) -> TokenizerSpec:
    """Read a model of type BPE.

    Raises:
        FormatError: for an invalid file, and for a model of another type or with a setting that is not supported.

    """
    return _build(_parse(data))


def _parse(data: bytes) -> SentencePieceModel:
    """Parse a ModelProto."""
    model, model_type, has_normalizer = SentencePieceModel(), _UNIGRAM, False
    for offset, field_number, value in iterate_fields(data):
        if field_number == _PIECE:
            _add_piece(model, _check_message(value, offset))
        elif field_number == _TRAINER_SPEC:
            for setting_offset, setting, content in iterate_fields(_check_message(value, offset)):
                if setting == _MODEL_TYPE:
                    model_type = _check_int(content, setting_offset)
                elif setting == _BYTE_FALLBACK:
                    model.byte_fallback = bool(content)
                elif setting in _ROLES:
                    model.roles[_ROLES[setting][0]] = _read_text(content, setting_offset, "trainer_spec")
                elif setting == _UNK_SURFACE:
                    model.unk_surface = _read_text(content, setting_offset, "trainer_spec.unk_surface")
                elif setting == _WHITESPACE_AS_SUFFIX and content:
                    raise FormatError("treat_whitespace_as_suffix is set; it is not supported", where="trainer_spec")
        elif field_number == _NORMALIZER_SPEC:
            has_normalizer = True
            _read_normalizer(model, _check_message(value, offset))
        elif field_number == _DENORMALIZER_SPEC:
            for _, setting, content in iterate_fields(_check_message(value, offset)):
                if setting == _CHARSMAP and content:
                    raise FormatError("it has rules; they are not supported", where="denormalizer_spec")
    if model_type != _BPE:
        name = _MODEL_TYPES.get(model_type, str(model_type))
        raise FormatError(
            f"the model is of type {name}, which is not byte-pair encoding; it must be of type BPE",
            where="trainer_spec.model_type",
        )
    if not has_normalizer:
        raise FormatError("it has no normalizer_spec; the file may be truncated")
    return model


def _check_message(value: Value, offset: int) -> bytes:
    if not isinstance(value, bytes):
        raise FormatError("a field that must be a message is a number", where=f"offset {offset}")
    return value


def _check_int(value: Value, offset: int) -> int:
    if not isinstance(value, int):
        raise FormatError("a field that must be a number is not one", where=f"offset {offset}")
    return value


def _read_text(value: Value, offset: int, where: str) -> str:
    try:
        return _check_message(value, offset).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"its text is not UTF-8: {error}", where=where) from None


def _add_piece(model: SentencePieceModel, data: bytes) -> None:
    piece, score, piece_type = "", 0.0, NORMAL
    for offset, field_number, value in iterate_fields(data):
        if field_number == _PIECE_TEXT:
            piece = _read_text(value, offset, f"piece {len(model.pieces)}")
        elif field_number == _PIECE_SCORE:
            score = read_float(value)
        elif field_number == _PIECE_TYPE:
            piece_type = _check_int(value, offset)
    model.pieces.append(piece)
    model.scores.append(score)
    model.types.append(piece_type)


def _read_normalizer(model: SentencePieceModel, data: bytes) -> None:
    for offset, field_number, value in iterate_fields(data):
        if field_number == _CHARSMAP:
            model.charsmap = _check_message(value, offset)
        elif field_number == _DUMMY_PREFIX:
            model.dummy_prefix = bool(value)
        elif field_number == _REMOVE_SPACES:
            model.remove_spaces = bool(value)
        elif field_number == _ESCAPE_SPACES:
            model.escape_spaces = bool(value)


def _build(model: SentencePieceModel) -> TokenizerSpec:
    """Build the spec of a model.

    Raises:
        FormatError: for pieces that contradict each other, and for settings that are not supported.

    """
    _check_model(model)
    ids = {piece: token_id for token_id, piece in enumerate(model.pieces)}
    ids_by_score = [token_id for token_id, piece_type in enumerate(model.types) if piece_type == NORMAL]
    ids_by_score.sort(key=lambda token_id: -model.scores[token_id])
    rank_by_piece = {model.pieces[token_id]: rank for rank, token_id in enumerate(ids_by_score)}
    _check_characters(rank_by_piece)
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
    normalizer = _build_normalizer(model)
    flags = {
        model.pieces[token_id]: ADDED_FLAGS
        for token_id, piece_type in special_types.items()
        if piece_type == USER_DEFINED
    }
    roles = {role: piece for role, piece in model.roles.items() if piece in spec.special_tokens}
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
    byte_names = {f"<0x{byte:02X}>" for byte in range(256)}
    byte_pieces = {piece for piece, piece_type in zip(model.pieces, model.types, strict=True) if piece_type == BYTE}
    if byte_pieces and byte_pieces != byte_names:
        raise FormatError(f"it has {pluralize(len(byte_pieces), 'byte piece')}; they must be <0x00> to <0xFF>")
    if model.byte_fallback != bool(byte_pieces):
        raise FormatError("byte_fallback and byte pieces go together; it has only one of them")


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


def _build_normalizer(model: SentencePieceModel) -> normalizers.Normalizer | None:
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


# Merges ---------------------------------------------------------------------------------------------------------------


def recover_scored_merges(tokens: dict[str, int], scores: Sequence[float]) -> list[list[str]] | None:
    """Recover one merge for each piece of several characters, best rank first.

    None if no list of one merge per piece gives sentencepiece's result.

    `tokens` maps pieces to ranks, and `scores` are their scores, descending.
    """
    if (
        any(score == next_score for score, next_score in pairwise(scores))
        or sum(len(token) ** 2 for token in tokens) > MAX_STEPS
    ):
        return None
    merges = []
    for token, rank in tokens.items():
        if len(token) == 1:
            continue
        parts = list(token)
        ranks = [tokens.get(token[index : index + 2], rank) for index in range(len(token) - 1)]
        while len(ranks) > 1:
            best = min(ranks)
            if best >= rank:
                return None  # a split that needs a worse piece, or none
            index = ranks.index(best)
            parts[index] += parts.pop(index + 1)
            del ranks[index]
            if index > 0:
                ranks[index - 1] = tokens.get(parts[index - 1] + parts[index], rank)
            if index < len(ranks):
                ranks[index] = tokens.get(parts[index] + parts[index + 1], rank)
        merges.append(parts)
    return merges


def _check_characters(tokens: dict[str, int]) -> None:
    """Raise FormatError for a piece with a character that is no piece: a merge of it has no id."""
    missing_chars = {char for token in tokens if len(token) > 1 for char in token} - tokens.keys()
    if missing_chars:
        char = min(missing_chars)
        token = next(token for token in tokens if char in token)
        raise FormatError(
            f"piece {short_repr(token)} has the character {short_repr(char)}, which is not a piece; it must be one"
        )


def list_all_splits(
    spec: TokenizerSpec, pieces: Sequence[str], scores: Sequence[float], ids_by_score: Sequence[int]
) -> TokenizerSpec:
    """Return the spec with every split of every piece into two symbols or pieces, ranked by the score of the piece.

    `ids_by_score` has the ids of the pieces that are merged, best score first.
    """
    symbols = {pieces[token_id]: token_id for token_id in ids_by_score}
    rows: list[tuple[int, int, int, int]] = []
    rank, score = -1, math.nan
    for token_id in ids_by_score:
        token = pieces[token_id]
        splits = ((symbols.get(token[:i]), symbols.get(token[i:])) for i in range(1, len(token)))
        pairs = [(left, right) for left, right in splits if left is not None and right is not None]
        if pairs and scores[token_id] != score:
            rank, score = rank + 1, scores[token_id]
        rows += [(left, right, token_id, rank) for left, right in pairs]
    table = np.array(rows, dtype=np.int32).reshape(-1, 4)
    assert isinstance(spec.vocabulary, Vocabulary)
    return replace(
        spec,
        merges=np.ascontiguousarray(table[:, :2]),
        merge_results=np.ascontiguousarray(table[:, 2]),
        merge_ranks=None if rank == len(rows) - 1 else np.ascontiguousarray(table[:, 3]),  # None: all ranks differ
    )


# The wire format of protocol buffers ----------------------------------------------------------------------------------


def iterate_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield the offset, the number and the value of each field of a message.

    Raises:
        FormatError: for data that is not a message; it names the offset.

    >>> list(iterate_fields(bytes([0x08, 0x96, 0x01, 0x12, 2, 104, 105])))
    [(0, 1, 150), (3, 2, b'hi')]

    """
    offset = 0
    while offset < len(data):
        field_offset = offset
        key, offset = _read_varint(data, offset)
        field_number, wire_type = key >> 3, key & 7
        if field_number == 0 or field_number >= 1 << 29:
            raise FormatError(f"field number {field_number} is not valid", where=f"offset {field_offset}")
        if wire_type == _VARINT:
            value, offset = _read_varint(data, offset)
            yield field_offset, field_number, value
            continue
        if wire_type not in (_FIXED64, _LENGTH_DELIMITED, _FIXED32):
            raise FormatError(
                f"wire type {wire_type} of field {field_number} is not known", where=f"offset {field_offset}"
            )
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire_type, 0)
        if wire_type == _LENGTH_DELIMITED:
            size, offset = _read_varint(data, offset)
        if size > len(data) - offset:
            raise FormatError(
                f"field {field_number} declares {size} bytes, and {len(data) - offset} follow; the file may be "
                "truncated",
                where=f"offset {field_offset}",
            )
        yield field_offset, field_number, data[offset : offset + size]
        offset += size


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Read the number at this offset; returns it and the offset after it."""
    value = 0
    for i, byte in enumerate(data[offset : offset + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, offset + i + 1
    raise FormatError("a number is not complete; the file may be truncated", where=f"offset {offset}")


def read_float(value: Value) -> float:
    """Read the float of a fixed32 field."""
    if not isinstance(value, bytes) or len(value) != 4:
        raise FormatError("a field that must be a float is not one")
    (result,) = struct.unpack("<f", value)
    return float(result)
