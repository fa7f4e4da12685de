"""Encoding step by step, for people: which merge was made when. Slow and plain; `bpe/encoding.py` is the fast way."""

from __future__ import annotations

from collections.abc import Iterable

from bpe.encoding import NO_TOKEN, Encoder
from bpe.spec import TokenizerSpec


def explain_pieces(encoder: Encoder, spec: TokenizerSpec, pieces: Iterable[bytes | int]) -> str:
    """A paragraph for each pretoken: its symbols, every merge in order with rank and id, and the ids."""
    numbers = range(len(spec.merges)) if spec.merge_ranks is None else spec.merge_ranks.tolist()
    ranks: dict[tuple[int, int], tuple[int, int]] = {}
    for (left, right), token, rank in zip(spec.merges.tolist(), spec.merge_ids.tolist(), numbers, strict=True):
        ranks.setdefault((left, right), (rank, token))
    paragraphs = []
    for piece in pieces:
        if isinstance(piece, int):
            paragraphs.append(f"{_shown(spec.vocabulary[piece])}\n  special token, id {piece}")
        else:
            paragraphs.append("\n".join(_explain_piece(encoder, spec, ranks, piece)))
    return "\n".join(paragraphs)


def _explain_piece(
    encoder: Encoder, spec: TokenizerSpec, ranks: dict[tuple[int, int], tuple[int, int]], piece: bytes
) -> list[str]:
    symbols = [
        (token if number == NO_TOKEN else spec.vocabulary[number], number)
        for token, number in encoder.named_symbols(piece)
    ]
    lines = [_shown(piece), "  " + _row(symbols)]
    final = encoder.piece_ids(piece)
    if spec.ignore_merges and len(final) == 1 and len(symbols) > 1:
        return [*lines, f"  the whole word is a token, id {final[0]}"]
    while True:
        found = [
            (*ranks[left[1], right[1]], place)
            for place, (left, right) in enumerate(zip(symbols, symbols[1:], strict=False))
            if (left[1], right[1]) in ranks
        ]
        if not found:
            break
        rank, token, place = min(found, key=lambda merge: (merge[0], merge[2]))
        left, right = symbols[place][0], symbols[place + 1][0]
        made = spec.vocabulary[token]
        symbols[place : place + 2] = [(made, token)]
        lines.append(f"  {_text(left)} + {_text(right)} -> {_text(made)}  (rank {rank}, id {token})    {_row(symbols)}")
    lines.append("  ids " + " ".join("none" if number == NO_TOKEN else str(number) for number in final))
    return lines


def _row(symbols: list[tuple[bytes, int]]) -> str:
    return " ".join(_text(token) for token, _ in symbols)


def _text(token: bytes) -> str:
    """A token in one word: a space as ␣, what is not printable or not UTF-8 as \\xNN."""
    text = token.decode("utf-8", "backslashreplace").replace(" ", "␣")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _shown(piece: bytes) -> str:
    return repr(piece.decode("utf-8", "backslashreplace"))
