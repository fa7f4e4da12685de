"""Small models of sentencepiece and GGUF files, made without these packages, and sentencepiece's rule of merging."""

from __future__ import annotations

import re
import struct
from itertools import pairwise

SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def encode_varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def encode_number(field: int, value: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(value)


def encode_message(field: int, content: bytes) -> bytes:
    return encode_varint(field << 3 | 2) + encode_varint(len(content)) + content


def build_model(
    pieces, *, kind=2, byte_fallback=False, dummy=True, remove=True, escape=True, charsmap=b"", unk_surface=None
) -> bytes:
    """A model of `pieces`: (text, score, type)."""
    data = b""
    for text, score, piece_type in pieces:
        score_field = encode_varint(2 << 3 | 5) + struct.pack("<f", score)
        data += encode_message(1, encode_message(1, text.encode()) + score_field + encode_number(3, piece_type))
    surface = b"" if unk_surface is None else encode_message(44, unk_surface.encode())
    data += encode_message(2, encode_number(3, kind) + encode_number(35, byte_fallback) + surface)
    settings = encode_number(3, dummy) + encode_number(4, remove) + encode_number(5, escape)
    return data + encode_message(
        3, encode_message(1, b"own") + (encode_message(2, charsmap) if charsmap else b"") + settings
    )


def list_usual_pieces(merge_results: list[str], chars: str, *, bytes_too=True) -> list[tuple[str, float, int]]:
    """The pieces of a model: unknown, control, bytes, merge results with the scores 0, -1, …, characters."""
    pieces: list[tuple[str, float, int]] = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    if bytes_too:
        pieces += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    scored = [*merge_results, *chars]
    return pieces + [(text, -float(i), NORMAL) for i, text in enumerate(scored)]


def encode_naively(text: str, pieces, *, byte_fallback=False, dummy=True, remove=True) -> list[int]:
    """The ids that sentencepiece gives, by its rule: merge the adjacent symbols that make the best piece."""
    if remove:
        text = re.sub(" {2,}", " ", text.lstrip(" "))
    if dummy and text:
        text = " " + text
    text = text.replace(" ", SPACE)
    if remove:
        text = text.rstrip(SPACE)
    ids = {piece: i for i, (piece, _, kind) in enumerate(pieces) if kind == NORMAL}
    bytes_of = {piece: i for i, (piece, _, kind) in enumerate(pieces) if kind == BYTE}
    symbols = list(text)
    while mergeable := [(-pieces[ids[a + b]][1], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in ids]:
        index = min(mergeable)[1]
        symbols[index : index + 2] = ["".join(symbols[index : index + 2])]
    out: list[int] = []
    last_known = True
    for symbol in symbols:
        if symbol in ids:
            out.append(ids[symbol])
        elif byte_fallback:
            out += [bytes_of[f"<0x{byte:02X}>"] for byte in symbol.encode()]
        elif last_known:
            out.append(0)
        last_known = symbol in ids
    return out


def build_gguf(values: dict[str, object], *, version=3, tensors=0) -> bytes:
    """A GGUF file with these values: str, bool, int, and lists of str, int or float."""

    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text.encode())) + text.encode()

    data = b"GGUF" + struct.pack("<IQQ", version, tensors, len(values))
    for key, value in values.items():
        data += string(key)
        if isinstance(value, bool):
            data += struct.pack("<I?", 7, value)
        elif isinstance(value, int):
            data += struct.pack("<II", 4, value)
        elif isinstance(value, str):
            data += struct.pack("<I", 8) + string(value)
        else:
            kind = {str: 8, int: 5, float: 6}[type(value[0])]
            data += struct.pack("<IIQ", 9, kind, len(value))
            layout = {5: "<i", 6: "<f"}.get(kind)
            data += b"".join(struct.pack(layout, item) if layout else string(item) for item in value)
    return data
