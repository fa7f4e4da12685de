"""Generated sentencepiece models beside the package: the same ids and text, or a refusal that names the reason.

    python benchmarks/checks/check_sentencepiece.py [--files N] [--seed S] [--first I] [--show N]

Writes `--files` models of type BPE (default 10,000) with random pieces, scores, types and settings; encodes random
texts, and decodes their ids and random ones, at once and one by one; then the same for the model that is
written of what was read. Prints how many models give the same, how many are refused for which reason, and each
difference. Exit status 1 if there is one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import sentencepiece
from comparing import count_results, get_reason, make_files_parser, make_generators, run_check
from generated_models import (
    BYTE,
    BYTES,
    CONTROL,
    NAMES,
    NORMAL,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    build_model,
    draw_merged_pieces,
    draw_texts,
)

import bpe
from bpe.formats.sentencepiece import read, write
from bpe.formats.sentencepiece.protobuf import iterate_fields

TEXTS = 10

Piece = tuple[str, float, int]


def draw_pieces(rng: random.Random, fallback: bool, escape: bool) -> list[Piece]:
    """Random pieces: special ones, bytes, characters and what merging makes."""
    sample = "".join(draw_texts(rng, 12)).replace("\0", "")
    if escape:
        sample = sample.replace(" ", SPACE)
    kind_by_piece = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL} if rng.random() < 0.8 else {"<unk>": UNKNOWN}
    if fallback:
        kind_by_piece |= dict.fromkeys(BYTES, BYTE)
    chars = sorted(set(sample))
    kept_chars = set(rng.sample(chars, len(chars) * rng.randrange(5, 11) // 10))
    for name in rng.sample(NAMES, rng.choice((0, 0, 1, 2, 4, 8))):
        kind_by_piece.setdefault(name, rng.choice((USER_DEFINED, USER_DEFINED, CONTROL)))
    for char in kept_chars:
        kind_by_piece.setdefault(char, NORMAL)
    for left, right in draw_merged_pieces(rng, sample, rng.choice((0, 10, 40, 80))):
        if set(left + right) <= kept_chars or rng.random() < 0.001:
            kind_by_piece.setdefault(left + right, NORMAL)
    if rng.random() < 0.02:
        kind_by_piece[rng.choice(list(kind_by_piece))] = rng.choice((UNUSED, UNKNOWN, CONTROL, BYTE))
    items = list(kind_by_piece.items())
    if rng.random() < 0.2:
        rng.shuffle(items)
    pieces = []
    ordered = rng.random() < 0.6
    for index, (piece, kind) in enumerate(items):
        score = -float(index) if ordered else rng.choice((0.0, -1.0, -2.0, -float(index), rng.uniform(-9, 9)))
        pieces.append((piece, score if kind == NORMAL else 0.0, kind))
    return pieces


@cache
def make_charsmap(rules: str) -> bytes:
    """The character map of the package's own rules."""
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=rules)
    proto = normalizer.serialized_model_proto()
    spec = next(value for _, field_number, value in iterate_fields(proto) if field_number == 3)
    assert isinstance(spec, bytes)
    charsmap_bytes = next((value for _, field_number, value in iterate_fields(spec) if field_number == 2), b"")
    assert isinstance(charsmap_bytes, bytes)
    return charsmap_bytes


def compare(rng: random.Random) -> str:
    """The result for one model."""
    fallback, dummy, remove = (rng.random() < 0.5 for _ in range(3))
    escape = rng.random() < 0.9
    pieces = draw_pieces(rng, fallback, escape)
    settings: dict[str, Any] = {"byte_fallback": fallback, "dummy": dummy, "remove": remove, "escape": escape}
    rules = rng.choice([None, None, None, "nmt_nfkc", "nfkc_cf"])
    data = build_model(pieces, charsmap=b"" if rules is None else make_charsmap(rules), **settings)
    peer: Any = sentencepiece.SentencePieceProcessor()
    try:
        peer.LoadFromSerializedProto(data)
    except RuntimeError:
        peer = None
    try:
        tok = bpe.Tokenizer(read(data))
    except bpe.FormatError as error:
        return f"refused: {get_reason(error)}"
    if peer is None:
        return "refused by sentencepiece only"
    problem = find_difference(tok, peer, pieces, rng)
    if problem is None:
        data = write(tok.spec)
        peer.LoadFromSerializedProto(data)
        is_same = bpe.Tokenizer(read(data)) == tok
        problem = find_difference(tok, peer, pieces, rng) if is_same else "the model that is written of it"
    return "same" if problem is None else f"different: {problem}\n  {settings}"


def find_difference(tok: bpe.Tokenizer, peer: Any, pieces: list[Piece], rng: random.Random) -> str | None:
    """Compare the ids of texts and the text of ids; None if they are the same."""
    decoded_ids = [token_id for token_id, (_, _, kind) in enumerate(pieces) if kind != CONTROL]
    for text in draw_texts(rng, TEXTS, [piece for piece, _, _ in pieces]):
        expected = peer.encode(text)
        ids = tok.encode(text).tolist()
        if ids != expected:
            return f"ids\n  {text!r}: {[pieces[i][0] for i in ids]}, not {[pieces[i][0] for i in expected]}"
        for sample in (ids, rng.choices(decoded_ids, k=rng.randrange(1, 9)), draw_types(pieces, rng)):
            expected_text = peer.decode(sample) if sample else ""
            decoder = tok.decoder()
            streamed = "".join(decoder.push(token_id) for token_id in sample) + decoder.flush()
            if not tok.decode(sample) == streamed == expected_text:
                names = [pieces[i][0] for i in sample]
                return f"text\n  {names}: {tok.decode(sample)!r}, streamed {streamed!r}, not {expected_text!r}"
    return None


def draw_types(pieces: list[Piece], rng: random.Random) -> list[int]:
    """Ids of byte pieces, often of UTF-8, and of pieces that begin with a space."""
    by_name = {piece: token_id for token_id, (piece, _, kind) in enumerate(pieces) if kind != CONTROL}
    spaces = [token_id for piece, token_id in by_name.items() if piece.startswith(SPACE)]
    sampled_ids = rng.choices(spaces, k=rng.randrange(3)) if spaces else []
    for _ in range(rng.randrange(4)):
        data = rng.choice(("é", "한", "😊", "\n", "a")).encode()[: rng.randrange(1, 5)]
        sampled_ids += [by_name[name] for byte in data if (name := f"<0x{byte:02X}>") in by_name]
    return sampled_ids + (rng.choices(spaces, k=rng.randrange(2)) if spaces else [])


def check(arguments: Sequence[str] | None = None) -> Counter[str]:
    """Compare all models."""
    options = make_files_parser(__doc__).parse_args(arguments)
    return count_results(options, map(compare, make_generators(options)))


if __name__ == "__main__":
    run_check(check)
