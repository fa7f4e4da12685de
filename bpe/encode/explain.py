"""Encoding step by step, as text for people: every merge in order. Simple and slow; `engine.py` encodes fast."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from bpe.base.spelling import spell_together
from bpe.encode.engine import Engine
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN


def explain_pieces(engine: Engine, spec: TokenizerSpec, pieces: Iterable[bytes | int]) -> str:
    """A paragraph for each pretoken: its symbols, every merge in order with rank and id, and the ids."""
    numbers = range(len(spec.merges)) if spec.merge_ranks is None else spec.merge_ranks.tolist()
    ranks: dict[tuple[int, int], tuple[int, int]] = {}
    for (left, right), token, rank in zip(spec.merges.tolist(), spec.merge_results.tolist(), numbers, strict=True):
        ranks.setdefault((left, right), (rank, token))
    paragraphs = []
    for piece in pieces:
        if isinstance(piece, int):
            paragraphs.append(f"{_shown(spec.vocabulary[piece])}\n  special token, id {piece}")
        else:
            paragraphs.append("\n".join(_explain_piece(engine, spec, ranks, piece)))
    return "\n".join(paragraphs)


def _explain_piece(
    engine: Engine, spec: TokenizerSpec, ranks: dict[tuple[int, int], tuple[int, int]], piece: bytes
) -> list[str]:
    symbols = [
        (token if number == NO_TOKEN else spec.vocabulary[number], number)
        for token, number in engine.named_symbols(piece)
    ]
    spelled = _spelled(symbols)
    lines = [_shown(piece), "  " + " ".join(spelled)]
    final = engine.piece_ids(piece)
    if spec.ignore_merges and len(final) == 1 and len(symbols) > 1:
        return [*lines, f"  the whole word is a token, id {final[0]}"]
    while True:
        found = [
            (*ranks[left[1], right[1]], index)
            for index, (left, right) in enumerate(pairwise(symbols))
            if (left[1], right[1]) in ranks
        ]
        if not found:
            break
        rank, token, index = min(found, key=lambda merge: (merge[0], merge[2]))
        left, right = spelled[index], spelled[index + 1]
        symbols[index : index + 2] = [(spec.vocabulary[token], token)]
        spelled = _spelled(symbols)
        lines.append(f"  {left} + {right} -> {spelled[index]}  (rank {rank}, id {token})    {' '.join(spelled)}")
    lines.append("  ids " + " ".join("none" if number == NO_TOKEN else str(number) for number in final))
    return lines


def _spelled(symbols: list[tuple[bytes, int]]) -> list[str]:
    return spell_together(token for token, _ in symbols)


def _shown(piece: bytes) -> str:
    return repr(piece.decode("utf-8", "backslashreplace"))
