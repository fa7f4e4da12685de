"""BPE-dropout equals a naive twin that tries every possible merge at every step, with the same random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe

MASK = 2**64 - 1
PINNED = [
    [258, 220, 75, 78, 266, 265, 81],
    [258, 260, 266, 220, 77, 68, 259, 81],
    [258, 260, 266, 220, 77, 68, 259, 81],
]
TEXT = "the low lower newest widest, 영화를 영화관에서 吾輩は猫である it's 123 aaaaaaaaaaa abababab"


def random_numbers(seed: int) -> Iterator[int]:
    """SplitMix64 in plain Python; its first outputs for seed 0 are published."""
    state = seed & MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        yield z ^ (z >> 31)


def merged(
    symbols: list[int], merges: dict[tuple[int, int], tuple[int, int]], p: float, numbers: Iterator[int]
) -> list[int]:
    """At each step, try the possible merges by rank and position until one is not dropped; stop when all are."""
    symbols = list(symbols)
    starts = list(range(len(symbols)))
    while True:
        possible = sorted((merges[pair][0], starts[i], i) for i, pair in enumerate(pairwise(symbols)) if pair in merges)
        for _, _, i in possible:
            if next(numbers) >> 11 >= int(p * 2**53):
                symbols[i : i + 2] = [merges[symbols[i], symbols[i + 1]][1]]
                del starts[i + 1]
                break
        else:
            return symbols


@cache
def tokenizer(kind: str) -> bpe.Tokenizer:
    options: dict[str, dict[str, Any]] = {
        "gpt2": {},
        "none": {"pretokenizer": None},
        "regex": {"pretokenizer": bpe.Pretokenizer.from_regex(r"\w+|\W")},
        "char": {"model": "char", "pretokenizer": "gpt2", "unk_token": "<unk>"},
        "marked": {"model": "char", "pretokenizer": "whitespace", "unk_token": "<unk>", "end_of_word": "</w>"},
    }
    return bpe.train(texts=[TEXT], num_merges=80, special_tokens=["<|end|>"], **options[kind])


def naive(tok: bpe.Tokenizer, text: str, p: float, seed: int) -> list[int]:
    spec = tok.spec
    merges = {
        (a, b): (rank, token_id)
        for rank, ((a, b), token_id) in enumerate(zip(spec.merges.tolist(), spec.merge_results.tolist(), strict=True))
    }
    numbers = random_numbers(seed)
    ids: list[int] = []
    for index, part in enumerate(text.split("<|end|>")):
        ids += [tok.special_tokens["<|end|>"]] if index else []
        pieces = [part.encode()] if spec.pretokenizer is None else spec.pretokenizer.split_bytes(part)
        for piece in pieces:
            if piece:
                symbols = [token_id for _, token_id in tok._engine.name_symbols(piece)]
                ids += merged(symbols, merges, p, numbers)
    return ids


@pytest.mark.parametrize("kind", ["gpt2", "none", "regex", "char", "marked"])
def test_dropout_equals_the_naive_twin(kind: str) -> None:
    tok = tokenizer(kind)

    @examples(8)
    @given(
        text=st.text("lowernstd 영화猫ж", max_size=30) | st.sampled_from([TEXT, "a" * 40, "ab<|end|>low<|end|>"]),
        p=st.sampled_from([0.05, 0.1, 0.5, 0.9, 1.0]),
        seed=st.integers(-(2**70), 2**70),
    )
    def check(text: str, p: float, seed: int) -> None:
        ids = tok.encode(text, allowed_special="all", dropout=p, seed=seed)
        assert ids.dtype == np.uint32
        assert ids.tolist() == naive(tok, text, p, seed)

    check()


def test_random_numbers_equal_the_published_ones() -> None:
    numbers = random_numbers(0)
    assert [next(numbers) for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_a_seed_gives_the_same_ids_in_every_release() -> None:
    tok = bpe.train(texts=["the lowest newer the low"], num_merges=12)
    rows = [tok.encode("the lowest newer", dropout=0.3, seed=seed).tolist() for seed in (0, 1, 2)]
    assert rows == PINNED


def test_dropout_of_0_and_of_1() -> None:
    tok = tokenizer("gpt2")
    assert tok.encode(TEXT, dropout=0.0, seed=1).tolist() == tok.encode(TEXT).tolist()
    assert tok.encode(TEXT, dropout=1e-300, seed=1).tolist() == tok.encode(TEXT).tolist()
    everything = tok.encode(TEXT, dropout=1, seed=1)
    assert len(everything) == len(TEXT.encode())
    assert tok.encode("", dropout=0.5, seed=1).tolist() == []
    for seed in range(20):
        assert tok.decode(tok.encode(TEXT, dropout=0.3, seed=seed)) == TEXT
    assert len({tuple(tok.encode(TEXT, dropout=0.3).tolist()) for _ in range(10)}) > 1
    assert len({tuple(tok.encode(TEXT, dropout=0.3, seed=seed).tolist()) for seed in range(10)}) == 10


def test_the_share_of_dropped_merges() -> None:
    """The only pair of a word is merged with probability 1 - p."""
    tok = bpe.train(texts=["ab"], num_merges=1)
    for p in (0.1, 0.5, 0.9):
        lengths = tok.encode_batch(["ab"] * 4000, dropout=p, seed=7).lengths
        assert abs(np.mean(lengths == 2) - p) < 0.03


def test_batches_do_not_depend_on_threads() -> None:
    tok = tokenizer("gpt2")
    texts = [TEXT, "", "low lower", TEXT * 3] * 20
    expected = [tok.encode(text, dropout=0.2, seed=5 + i).tolist() for i, text in enumerate(texts)]
    for threads in (1, 2, 5):
        assert tok.encode_batch(texts, dropout=0.2, seed=5, threads=threads).to_list() == expected
    assert tok.encode_batch([], dropout=0.2).to_list() == []


def test_dropout_in_long_pieces() -> None:
    tok = tokenizer("none")
    for text in ("a" * 100_000, "ab" * 50_000):
        ids = tok.encode(text, dropout=0.3, seed=1)
        assert tok.decode(ids) == text


def test_dropout_with_several_merges_of_equal_rank(tmp_path: Any) -> None:
    """In this rank file a token has several splits; dropout disables the shortcut for whole tokens."""
    import base64

    path = tmp_path / "ranks.tiktoken"
    tokens = [b"a", b"b", b"c", b"abc", b"ab", b"bc"]
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens)))
    tok = bpe.Tokenizer.from_tiktoken(path, "gpt2")
    seen = {tuple(tok.tokens("abc"))} | {
        tuple(tok.token_bytes(token_id) for token_id in tok.encode("abc", dropout=0.5, seed=seed).tolist())
        for seed in range(50)
    }
    assert seen == {(b"abc",), (b"ab", b"c"), (b"a", b"bc"), (b"a", b"b", b"c")}


def test_invalid_arguments_are_refused() -> None:
    tok = tokenizer("gpt2")
    for wrong, error in (
        (-0.1, ValueError),
        (1.1, ValueError),
        (float("nan"), ValueError),
        (10**400, ValueError),
        ("0.1", TypeError),
        (True, TypeError),
    ):
        with pytest.raises(error, match="dropout is"):
            tok.encode("a", dropout=wrong, seed=1)  # type: ignore[arg-type]
        with pytest.raises(error, match="dropout is"):
            tok.encode_batch(["a"], dropout=wrong, seed=1)  # type: ignore[arg-type]
    for seed in (1.5, "1", True):
        with pytest.raises(TypeError, match="seed is"):
            tok.encode("a", dropout=0.1, seed=seed)  # type: ignore[arg-type]
    char = bpe.train(texts=["ab"], num_merges=1, model="char", pretokenizer="gpt2")
    with pytest.raises(ValueError, match="character 'z' of the text"):
        char.encode("az", dropout=0.1, seed=1)
    with pytest.raises(ValueError, match="disallowed special token"):
        tok.encode("<|end|>", dropout=0.1, disallowed_special="all")
