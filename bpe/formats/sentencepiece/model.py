"""sentencepiece's `ModelProto`: the pieces and the settings that decide the ids, parsed and serialized.

Source: sentencepiece_model.proto.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import starmap

from bpe.errors import FormatError
from bpe.formats.sentencepiece.protobuf import Value, iterate_fields, read_float, write_field

#: The character that stands for a space.
SPACE = "\u2581"
#: The types of pieces.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
#: The types of models.
_UNIGRAM, _BPE = 1, 2
_MODEL_TYPES = {_UNIGRAM: "Unigram", _BPE: "BPE", 3: "word", 4: "character"}
# The numbers of fields.
_PIECE, _TRAINER_SPEC, _NORMALIZER_SPEC, _DENORMALIZER_SPEC = 1, 2, 3, 5
_PIECE_TEXT, _PIECE_SCORE, _PIECE_TYPE = 1, 2, 3
_MODEL_TYPE, _VOCAB_SIZE, _WHITESPACE_AS_SUFFIX, _BYTE_FALLBACK, _UNK_SURFACE = 3, 4, 24, 35, 44
_NORMALIZER_NAME, _CHARSMAP, _DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE_SPACES = 1, 2, 3, 4, 5
#: The field with the id of a role.
_ROLE_IDS = {40: "unk_token", 41: "bos_token", 42: "eos_token", 43: "pad_token"}
#: The id of a role without a piece, -1 as a varint.
_NO_ID = (1 << 64) - 1
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


def parse_model(data: bytes) -> SentencePieceModel:
    """Parse a ModelProto.

    Raises:
        FormatError: for invalid data, and for a model of another type or with a setting that is not supported.

    """
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


def serialize_model(model: SentencePieceModel) -> bytes:
    """Serialize a model of type BPE as a ModelProto."""
    parts = []
    for piece, score, piece_type in zip(model.pieces, model.scores, model.types, strict=True):
        fields = write_field(_PIECE_TEXT, piece) + write_field(_PIECE_SCORE, float(score))
        parts.append(write_field(_PIECE, fields + write_field(_PIECE_TYPE, piece_type)))
    ids = {model.pieces[token_id]: token_id for token_id, kind in enumerate(model.types) if kind in (UNKNOWN, CONTROL)}
    trainer_fields: list[tuple[int, int | str]] = [
        (_MODEL_TYPE, _BPE),
        (_VOCAB_SIZE, len(model.pieces)),
        (_BYTE_FALLBACK, model.byte_fallback),
        *((setting, ids.get(model.roles[role], _NO_ID)) for setting, role in _ROLE_IDS.items()),
        (_UNK_SURFACE, model.unk_surface),
        *((setting, model.roles[role]) for setting, (role, _) in _ROLES.items()),
    ]
    normalizer_fields: list[tuple[int, int | str | bytes]] = [
        (_NORMALIZER_NAME, "user_defined" if model.charsmap else "identity"),
        (_CHARSMAP, model.charsmap),
        (_DUMMY_PREFIX, model.dummy_prefix),
        (_REMOVE_SPACES, model.remove_spaces),
        (_ESCAPE_SPACES, model.escape_spaces),
    ]
    parts.append(write_field(_TRAINER_SPEC, b"".join(starmap(write_field, trainer_fields))))
    parts.append(write_field(_NORMALIZER_SPEC, b"".join(starmap(write_field, normalizer_fields))))
    return b"".join(parts)
