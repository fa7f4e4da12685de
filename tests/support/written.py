"""Rank files as other programs write them, and a parser for the lines that `visualize` prints."""

from __future__ import annotations

import base64
import re


def write_rank_file(ranks: dict[bytes, int], end: str = "\n") -> bytes:
    return "".join(f"{base64.b64encode(token).decode()} {rank}{end}" for token, rank in ranks.items()).encode()


def read_spelling(line, shared=False):
    """Parse a line without colours that `visualize` printed, into its tokens."""
    tokens, token = [], b""
    part = r"\\?[^\x00-\x7f·][₁₂₃₄]+|\\·[₁₂₃₄]+|" if shared else ""
    for piece in re.findall(rf"\\x[0-9a-f]{{2}}|{part}\\.|.", line):
        if piece == "|":
            tokens.append(token)
            token = b""
        elif piece.startswith(r"\x"):
            token += bytes.fromhex(piece[2:])
        elif piece == "·":
            token += b" "
        elif len(piece.removeprefix("\\")) > 1:
            character, *hex_numbers = piece.removeprefix("\\")
            token += bytes(character.encode()["₁₂₃₄".index(hex_number)] for hex_number in hex_numbers)
        else:
            token += piece[-1].encode()
    return [*tokens, token]
