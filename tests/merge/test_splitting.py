"""StochasTok splits tokens as a naive twin does, and as often as its definition says."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.merge._splits import split_randomly
from bpe.research import stochastok

pytestmark = pytest.mark.usefixtures("quiet")
TEXTS = ["the theory of the thing, in theory", "low lower lowest 12 12 12", "naïve café, 語 and 語", ""]
KINDS: dict[str, dict[str, Any]] = {
    "bytes": {"vocab_size": 300, "special_tokens": ["<|end|>"]},
    "characters": {"vocab_size": 60, "model": "char", "unk_token": "<unk>"},
    "mark": {"vocab_size": 60, "model": "char", "end_of_word": "</w>"},
    "glued": {"vocab_size": 80, "model": "char", "end_of_word": "</w>", "end_of_word_glued": True},
    "fallback": {"vocab_size": 340, "alphabet": bpe.Alphabet(byte_fallback=True), "pretokenizer": "metaspace"},
}


@pytest.fixture(scope="module", params=KINDS)
def tok(request: pytest.FixtureRequest) -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS * 3, **KINDS[request.param])


def splits_of(tok: bpe.Tokenizer) -> dict[int, list[tuple[int, int]]]:
    """Every pair of ordinary tokens that spell a token, end to end; the shortest left part first."""
    spec = tok.spec
    special = set(spec.special_tokens.values())
    tokens = {
        token_id: (token, spec.ends_word is not None and bool(spec.ends_word[token_id]))
        for token_id, token in spec.vocabulary.items()
        if token_id not in special and not (spec.byte_fallback and token.startswith(b"<0x")) and token != b"<unk>"
    }
    ids = {spelled: token_id for token_id, spelled in tokens.items()}
    splits: dict[int, list[tuple[int, int]]] = {}
    for token_id, (token, ends) in tokens.items():
        for i in range(1, len(token)):
            left, right = ids.get((token[:i], False)), ids.get((token[i:], ends))
            if left is not None and right is not None:
                splits.setdefault(token_id, []).append((left, right))
    return splits


def random_numbers(seed: int) -> Any:
    """SplitMix64."""
    word = 2**64 - 1
    state = seed & word
    while True:
        state = (state + 0x9E3779B97F4A7C15) & word
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & word
        yield z ^ z >> 31


def split(ids: list[int], splits: dict[int, list[tuple[int, int]]], proportion: float, seed: int) -> list[int]:
    """Each draw inserts into the list; `order` has the position of each token by the number it is drawn by."""
    numbers, tokens, order = random_numbers(seed), list(ids), list(range(len(ids)))
    for _ in range(int(proportion * len(ids))):
        at = next(numbers) % len(order)
        position = order[at]
        if tokens[position] in splits:
            choices = splits[tokens[position]]
            left, right = choices[next(numbers) % len(choices)]
            tokens[position : position + 1] = [left, right]
            order = [each + (each > position) for each in order] + [position + 1]
    return tokens


def test_samples_are_those_of_the_twin(tok: bpe.Tokenizer) -> None:
    random_, splits = random.Random(0), splits_of(tok)
    for seed in range(60):
        text = "".join(random_.choices(TEXTS, k=3))
        ids = tok.encode(text)
        proportion = random_.choice((0, 0.1, 0.5, 1.0))
        actual = stochastok(tok, ids, proportion, seed=seed - 30)
        assert actual.tolist() == split(ids.tolist(), splits, proportion, seed - 30)
        assert actual.dtype == np.uint32
        assert tok.decode(actual) == tok.decode(ids)


def test_a_batch_takes_a_seed_for_each_text(tok: bpe.Tokenizer) -> None:
    batch = tok.encode_batch(TEXTS)
    actual = stochastok(tok, batch, 0.7, seed=5)
    assert actual.to_list() == [stochastok(tok, batch[i], 0.7, seed=5 + i).tolist() for i in range(len(TEXTS))]
    assert tok.decode_batch(actual) == tok.decode_batch(batch)
    narrow = bpe.TokenBatch(batch.ids.astype(np.uint16), batch.offsets)
    assert stochastok(tok, narrow, 0.7, seed=5).to_list() == actual.to_list()
    assert len(stochastok(tok, [], 0.5)) == 0
    assert len(stochastok(tok, tok.encode_batch([]), 0.5)) == 0


@pytest.mark.parametrize(("n", "draws"), [(1, 2**32), (1, -1), (1, 2**63 - 1), (0, 1)])
def test_draws_without_room_or_tokens_are_refused(n: int, draws: int) -> None:
    ids, parts = np.zeros(n, dtype=np.uint32), np.zeros((1, 2), dtype=np.uint32)
    offsets, first = np.array([0, n]), np.array([0, 1])
    with pytest.raises(ValueError, match=f"text 0 has {n} tokens and {draws} draws"):
        split_randomly(ids, offsets, np.array([draws]), first, parts, 0)


def test_positions_and_splits_are_uniform() -> None:
    tok = bpe.train(counts={"abcd": 9, "bcd": 8, "cd": 7}, num_merges=3, pretokenizer=None)
    ids = tok.encode("abcd" * 10)
    assert len(ids) == 10
    actual = Counter(tuple(stochastok(tok, ids, 0.1, seed=seed).tolist()) for seed in range(6000))
    expected = 10 * len(splits_of(tok)[int(ids[0])])
    assert len(actual) == expected
    assert all(abs(n - 6000 / expected) < 6 * (6000 / expected) ** 0.5 for n in actual.values())


def test_special_tokens_stay() -> None:
    tok = bpe.train(texts=TEXTS, vocab_size=290, special_tokens=["the", "<|end|>"])
    ids = tok.encode("the<|end|>" * 50, allowed_special="all")
    assert np.array_equal(stochastok(tok, ids, 1.0, seed=3), ids)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([999_999],), ValueError, "999999"),
        ((["a"],), TypeError, "ids"),
        (([1], 2), ValueError, "proportion is 2; it must be from 0 to 1"),
        (([1], "x"), TypeError, "proportion is 'x'"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, error: Any, message: str) -> None:
    tok = bpe.train(texts=TEXTS, vocab_size=290)
    with pytest.raises(error, match=message):
        stochastok(tok, *arguments)
    with pytest.raises(TypeError, match="seed is 'x'"):
        stochastok(tok, [1], seed="x")  # type: ignore[call-overload]
    batch = bpe.TokenBatch(np.array([999_999], dtype=np.uint32), np.array([0, 1]))
    with pytest.raises(ValueError, match="999999"):
        stochastok(tok, batch)
