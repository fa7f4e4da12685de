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
from bpe.text import normalizers as n
from bpe.text.pipeline_normalizers import CharacterMap, CharacterMapBeside, DummyPrefix, Prepend
from bpe.vocab.editing import ADDED_FLAGS
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.special_tokens import remove_ineffective_flags
from bpe.vocab.vocabulary import SPECIAL, Vocabulary

#: A value of a field of a protocol buffer: an int for a varint, the bytes of any other.
Value = int | bytes
#: The character that stands for a space.
SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_TYPES = {1: "Unigram", 2: "BPE", 3: "word", 4: "character"}
#: The most pieces, and the most characters of a piece; published models have 262,144 of at most 93.
MAX_PIECES, MAX_CHARS = 1 << 24, 1024
#: The most steps to recover merges, about the sum of the squared lengths of the pieces; published models need 10**7.
MAX_STEPS = 10**9
#: The number of a field of the trainer's settings that names the piece of a role → (the role, the piece by default).
_ROLES = {
    45: ("unk_token", "<unk>"), 46: ("bos_token", "<s>"), 47: ("eos_token", "</s>"), 48: ("pad_token", "<pad>"),
}  # fmt: skip


@dataclass
class Model:
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


def _parse(data: bytes) -> Model:
    """The parts of a ModelProto."""
    model, kind, parts = Model(), 1, set()
    for offset, field_number, value in iterate_fields(data):
        parts.add(field_number)
        if field_number == 1:
            _add_piece(model, _check_message(value, offset))
        elif field_number == 2:
            for at, setting, content in iterate_fields(_check_message(value, offset)):
                if setting == 3:
                    kind = _check_int(content, at)
                elif setting == 35:
                    model.byte_fallback = bool(content)
                elif setting in _ROLES:
                    model.roles[_ROLES[setting][0]] = _read_text(content, at, "trainer_spec")
                elif setting == 44:
                    model.unk_surface = _read_text(content, at, "trainer_spec.unk_surface")
                elif setting == 24 and content:
                    raise FormatError("treat_whitespace_as_suffix is set; it is not supported", where="trainer_spec")
        elif field_number == 3:
            _read_normalizer(model, _check_message(value, offset))
        elif field_number == 5:
            for _, setting, content in iterate_fields(_check_message(value, offset)):
                if setting == 2 and content:
                    raise FormatError("it has rules; they are not supported", where="denormalizer_spec")
    if kind != 2:
        name = _TYPES.get(kind, str(kind))
        raise FormatError(
            f"the model is of type {name}, which is not byte-pair encoding; it must be of type BPE",
            where="trainer_spec.model_type",
        )
    if 3 not in parts:
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


def _add_piece(model: Model, data: bytes) -> None:
    piece, score, kind = "", 0.0, NORMAL
    for offset, field_number, value in iterate_fields(data):
        if field_number == 1:
            piece = _read_text(value, offset, f"piece {len(model.pieces)}")
        elif field_number == 2:
            score = read_float(value)
        elif field_number == 3:
            kind = _check_int(value, offset)
    model.pieces.append(piece)
    model.scores.append(score)
    model.types.append(kind)


def _read_normalizer(model: Model, data: bytes) -> None:
    for offset, field_number, value in iterate_fields(data):
        if field_number == 2:
            model.charsmap = _check_message(value, offset)
        elif field_number == 3:
            model.dummy_prefix = bool(value)
        elif field_number == 4:
            model.remove_spaces = bool(value)
        elif field_number == 5:
            model.escape_spaces = bool(value)


def _build(model: Model) -> TokenizerSpec:
    """The spec of a model.

    Raises:
        FormatError: for pieces that contradict each other, and for settings that are not supported.

    """
    _check(model)
    ids = {piece: token_id for token_id, piece in enumerate(model.pieces)}
    order = [token_id for token_id, kind in enumerate(model.types) if kind == NORMAL]
    order.sort(key=lambda token_id: -model.scores[token_id])
    tokens = {model.pieces[token_id]: rank for rank, token_id in enumerate(order)}
    _check_characters(tokens)
    merges = recover_merges(tokens, [model.scores[token_id] for token_id in order])
    special = {token_id: kind for token_id, kind in enumerate(model.types) if kind in (UNKNOWN, CONTROL, USER_DEFINED)}
    for token_id, piece in enumerate(model.pieces):
        if special.get(token_id) == USER_DEFINED and model.escape_spaces and " " in piece:
            del special[token_id]  # normalized text has no space, so the piece is never found
    unk = next(model.pieces[token_id] for token_id, kind in special.items() if kind == UNKNOWN)
    value = {
        "added_tokens": [
            {
                "id": token_id,
                "content": model.pieces[token_id],
                "normalized": kind == USER_DEFINED,
                "special": kind != USER_DEFINED,
            }
            for token_id, kind in special.items()
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
    flags = {model.pieces[token_id]: ADDED_FLAGS for token_id, kind in special.items() if kind == USER_DEFINED}
    roles = {role: piece for role, piece in model.roles.items() if piece in spec.special_tokens}
    flags = remove_ineffective_flags(flags, normalizer)
    kinds = spec.vocabulary.kinds.copy()
    kinds[list(special)] = SPECIAL  # no text becomes one of them, as that of a symbol or of a merge might
    vocabulary = Vocabulary.from_arrays(spec.vocabulary.blob, spec.vocabulary.offsets, kinds)
    spec = replace(spec, vocabulary=vocabulary, normalizer=normalizer, token_flags=flags, roles=roles)
    return spec if merges is not None else list_all_splits(spec, model.pieces, model.scores, order)


def _check(model: Model) -> None:
    """Raise FormatError for a model that is not supported or contradicts itself."""
    if not model.pieces or len(model.pieces) > MAX_PIECES:
        raise FormatError(f"it has {pluralize(len(model.pieces), 'piece')}; it must have 1 to {MAX_PIECES}")
    seen: dict[str, int] = {}
    for token_id, (piece, score, kind) in enumerate(zip(model.pieces, model.scores, model.types, strict=True)):
        if not piece or math.isnan(score) or kind not in range(1, 7):
            reason = f"{short_repr(piece)} of type {kind} with the score {score} is not a valid piece"
            raise FormatError(reason, where=f"piece {token_id}")
        if seen.setdefault(piece, token_id) != token_id:
            raise FormatError(
                f"{short_repr(piece)} is piece {seen[piece]} too; each must be unique", where=f"piece {token_id}"
            )
    if model.types.count(UNKNOWN) != 1:
        raise FormatError(f"it has {pluralize(model.types.count(UNKNOWN), 'unknown piece')}; it must have one")
    if (longest := max(model.pieces, key=len)) and len(longest) > MAX_CHARS:
        raise FormatError(f"piece {short_repr(longest)} has {len(longest)} characters; a piece has at most {MAX_CHARS}")
    if UNUSED in model.types:
        name = model.pieces[model.types.index(UNUSED)]
        raise FormatError(f"piece {short_repr(name)} is unused; models with unused pieces are not supported")
    if model.remove_spaces and (
        changed := [piece for piece in _list_user_defined(model) if _loses_spaces(piece, model)]
    ):
        raise FormatError(
            f"piece {short_repr(changed[0])} is user-defined, and remove_extra_whitespaces removes spaces like its "
            "own; this is not supported: train the model with remove_extra_whitespaces=False"
        )
    if model.charsmap and any("\0" in piece for piece in _list_user_defined(model)):
        raise FormatError(
            "a user-defined piece has the character U+0000, beside a character map; this is not supported"
        )
    listed = {f"<0x{byte:02X}>" for byte in range(256)}
    found = {piece for piece, kind in zip(model.pieces, model.types, strict=True) if kind == BYTE}
    if found and found != listed:
        raise FormatError(f"it has {pluralize(len(found), 'byte piece')}; they must be <0x00> to <0xFF>")
    if model.byte_fallback != bool(found):
        raise FormatError("byte_fallback and byte pieces go together; it has only one of them")


def _list_user_defined(model: Model) -> list[str]:
    return [piece for piece, kind in zip(model.pieces, model.types, strict=True) if kind == USER_DEFINED]


def _loses_spaces(piece: str, model: Model) -> bool:
    """Whether a piece has spaces that are removed from texts: around a text, and all but one of several."""
    space = SPACE if model.escape_spaces else " "
    return "  " in piece or piece.endswith(space) or (piece[0] == " " and not model.escape_spaces)


def _list_decoders(model: Model, unk: str) -> list[dict[str, Any]]:
    """The steps from pieces to text; the unknown piece becomes its surface, as sentencepiece decodes it."""
    whole = {"String": unk}
    if any(unk in piece and piece != unk for piece in model.pieces):
        whole = {"Regex": rf"(?<![\s\S]){regex.escape(unk)}(?![\s\S])"}
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": whole, "content": model.unk_surface},
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
    ]
    if model.byte_fallback:
        steps.append({"type": "ByteFallback", "by_character": True})
    steps.append({"type": "Fuse"})
    if model.dummy_prefix or model.remove_spaces:
        which = "each" if model.remove_spaces else "first"
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0, "of_tokens": which})
    return steps


def _build_normalizer(model: Model) -> n.Normalizer | None:
    """What sentencepiece does to a text before it looks for pieces. User-defined pieces stay as they are."""
    steps: list[n.Normalizer] = []
    own = _list_user_defined(model)
    if model.charsmap:
        charsmap, kept = base64.b64encode(model.charsmap).decode(), "\0".join(own)
        with errors_at("normalizer_spec.precompiled_charsmap"):
            steps.append(CharacterMapBeside(charsmap, kept) if own else CharacterMap(charsmap))
    if model.remove_spaces:
        steps += [n.Replace(r"\A +", spelled=r"\A +"), n.Replace(" {2,}", " ")]
    space = SPACE if model.escape_spaces else " "
    if model.dummy_prefix:
        deletes = model.charsmap and not model.remove_spaces  # a text of which nothing is left has a space, too
        steps.append(DummyPrefix(space) if own or deletes else Prepend(space))
    if model.escape_spaces:
        steps.append(n.Replace(" ", SPACE))
    if model.remove_spaces:
        steps.append(n.Replace(rf"{space}+\Z", spelled=rf"{space}+\z"))  # U+2581 of the text itself, too
    return n.Sequence(*steps) if steps else None


# Merges ---------------------------------------------------------------------------------------------------------------


def recover_merges(tokens: dict[str, int], scores: Sequence[float]) -> list[list[str]] | None:
    """One merge for each piece of several characters, best rank first.

    None if no list of one merge per piece gives sentencepiece's result.

    `tokens` maps pieces to ranks, and `scores` are their scores, descending.
    """
    if any(one == other for one, other in pairwise(scores)) or sum(len(token) ** 2 for token in tokens) > MAX_STEPS:
        return None
    merges = []
    for token, rank in tokens.items():
        if len(token) == 1:
            continue
        parts = list(token)
        ranks = [tokens.get(token[at : at + 2], rank) for at in range(len(token) - 1)]
        while len(ranks) > 1:
            best = min(ranks)
            if best >= rank:
                return None  # a split that needs a worse piece, or none
            at = ranks.index(best)
            parts[at] += parts.pop(at + 1)
            del ranks[at]
            if at > 0:
                ranks[at - 1] = tokens.get(parts[at - 1] + parts[at], rank)
            if at < len(ranks):
                ranks[at] = tokens.get(parts[at] + parts[at + 1], rank)
        merges.append(parts)
    return merges


def _check_characters(tokens: dict[str, int]) -> None:
    """Raise FormatError for a piece with a character that is no piece: a merge of it has no id."""
    absent = {char for token in tokens if len(token) > 1 for char in token} - tokens.keys()
    if absent:
        char = min(absent)
        token = next(token for token in tokens if char in token)
        raise FormatError(
            f"piece {short_repr(token)} has the character {short_repr(char)}, which is not a piece; it must be one"
        )


def list_all_splits(
    spec: TokenizerSpec, pieces: Sequence[str], scores: Sequence[float], order: Sequence[int]
) -> TokenizerSpec:
    """The spec with every split of every piece into two symbols or pieces, which share the rank of their score.

    `order` has the ids of the pieces that are merged, best score first.
    """
    symbols = {pieces[token_id]: token_id for token_id in order}
    rows: list[tuple[int, int, int, int]] = []
    rank, score = -1, math.nan
    for token_id in order:
        token = pieces[token_id]
        if scores[token_id] != score:
            rank, score = rank + 1, scores[token_id]
        for i in range(1, len(token)):
            left, right = symbols.get(token[:i]), symbols.get(token[i:])
            if left is not None and right is not None:
                rows.append((left, right, token_id, rank))
    table = np.array(rows, dtype=np.int32).reshape(-1, 4)
    assert isinstance(spec.vocabulary, Vocabulary)
    return replace(
        spec,
        merges=np.ascontiguousarray(table[:, :2]),
        merge_results=np.ascontiguousarray(table[:, 2]),
        merge_ranks=np.ascontiguousarray(table[:, 3]),
    )


# The wire format of protocol buffers ----------------------------------------------------------------------------------


def iterate_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """(offset, number, value) of each field of a message.

    Raises:
        FormatError: for data that is not a message; it names the offset.

    >>> list(iterate_fields(bytes([0x08, 0x96, 0x01, 0x12, 2, 104, 105])))
    [(0, 1, 150), (3, 2, b'hi')]

    """
    at = 0
    while at < len(data):
        offset = at
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0 or number >= 1 << 29:
            raise FormatError(f"field number {number} is not valid", where=f"offset {offset}")
        if kind == 0:
            value, at = _read_varint(data, at)
            yield offset, number, value
            continue
        if kind not in (1, 2, 5):
            raise FormatError(f"wire type {kind} of field {number} is not known", where=f"offset {offset}")
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, at = _read_varint(data, at)
        if size > len(data) - at:
            raise FormatError(
                f"field {number} declares {size} bytes, and {len(data) - at} follow; the file may be truncated",
                where=f"offset {offset}",
            )
        yield offset, number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number at this offset, the offset after it)."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + i + 1
    raise FormatError("a number is not complete; the file may be truncated", where=f"offset {at}")


def read_float(value: Value) -> float:
    """The float of a fixed32 field."""
    if not isinstance(value, bytes) or len(value) != 4:
        raise FormatError("a field that must be a float is not one")
    (number,) = struct.unpack("<f", value)
    return float(number)
