"""Ties as in rustbpe, whose alphabet is in byte order."""

from __future__ import annotations

import random

import pytest

import bpe

PATTERN = r" ?\p{L}+| ?[^\s\p{L}]+|\s+"


@pytest.mark.parametrize("seed", range(3))
def test_the_alphabet_in_byte_order_gives_the_merges_of_rustbpe(seed: int) -> None:
    theirs = pytest.importorskip("rustbpe", reason="compares with rustbpe")
    order = random.Random(seed)
    texts = ["".join(order.choices("abcd é한!1 xyz", k=60)) for _ in range(40)]
    peer = theirs.Tokenizer()
    peer.train_from_iterator(iter(texts), 316, pattern=PATTERN)
    expected = [bytes(token) for token, _ in peer.get_mergeable_ranks()]
    pretokenizer = bpe.Pretokenizer.from_regex(PATTERN)
    tok = bpe.train(texts=texts, vocab_size=316, pretokenizer=pretokenizer, alphabet=bpe.Alphabet(initial=range(256)))
    assert [tok.token_bytes(number) for number in range(316)] == expected
