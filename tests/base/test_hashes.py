"""Hashes of words and pairs: nobody can choose many of one hash, since each process has secret numbers of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

#: The factors of the hashes before they were secret.
FACTORS = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3
N, SLOTS = 4096, 8192


def mix(a: int, b: int) -> int:
    return (a * b) & (1 << 64) - 1 ^ a * b >> 64


def packed(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def first_factor(i: int) -> bytes:
    """A word whose first eight bytes were a factor of 0."""
    return packed(FACTORS[0]) + b"%07x" % i


def state_of_long_words(i: int) -> bytes:
    """A long word whose second eight bytes were the state after the first ones."""
    start = mix(24 ^ FACTORS[2], FACTORS[3])
    return packed(i, mix(start ^ i, FACTORS[4]), 7)


#: n words of each kind, given the number of each.
CHOSEN: dict[str, Callable[[int], bytes]] = {
    "1 to 8 bytes": lambda i: packed(FACTORS[0] ^ i << 20)[:8],
    "1 to 8 bytes, in the lower half": lambda i: packed(FACTORS[0] ^ i)[:8],
    "9 to 15 bytes": first_factor,
    "9 to 15 bytes, after eight of 0": lambda i: packed(0) + b"%07x" % i,
    "16 bytes": lambda i: packed(FACTORS[0], FACTORS[1] ^ i << 40),
    "17 bytes and more": state_of_long_words,
    "17 bytes and more, that end alike": lambda i: packed(i) + b"ab" * 20,
    "17 bytes and more, that begin alike": lambda i: b"ab" * 20 + packed(i << 44),
}


def used_slots(hashes: Iterable[int]) -> int:
    """How many slots of a table of SLOTS are the first of some hash; by chance, some 3,220 of N hashes."""
    return len({value % SLOTS for value in hashes})


@pytest.mark.parametrize("kind", CHOSEN)
def test_words_cannot_be_chosen_that_share_a_hash(kind: str, hooks: Any) -> None:
    words = [CHOSEN[kind](i) for i in range(N)]
    assert len(set(words)) == N
    short, long = zip(*map(hooks.hashes_of_word, words), strict=True)
    assert used_slots(long) > SLOTS // 8
    assert None in short or used_slots(short) > SLOTS // 8


@pytest.mark.parametrize("shift", [0, 13, 20])
def test_pairs_cannot_be_chosen_that_share_a_hash(shift: int, hooks: Any) -> None:
    for pairs in (
        [(i << shift, 0) for i in range(2048)],
        [(0, i << shift) for i in range(2048)],
        [(i, i) for i in range(N)],
    ):
        for hashes in zip(*(hooks.hashes_of_pair(*pair) for pair in pairs), strict=True):
            assert used_slots(hashes) > SLOTS // 16


def test_processes_have_other_hashes_and_the_same_results(hooks: Any) -> None:
    """The secrets are those of Python's own hashes, so PYTHONHASHSEED sets them."""
    code = """
import json, random, bpe
from bpe._kernel_hooks import hashes_of_pair, hashes_of_word
rng = random.Random(2)
text = " ".join("".join(rng.choices("abcdeé漢字", k=rng.randint(1, 24))) for _ in range(4000))
counts = bpe.count_words(texts=[text], pretokenizer="whitespace")
byte = bpe.train(counts=counts, vocab_size=600)
char = bpe.train(counts=counts, vocab_size=400, model="char", alphabet=bpe.Alphabet("corpus"))
results = [[[array.tolist() for array in counts.arrays()]], byte.merges.tolist(), char.merges.tolist()]
results += [byte.encode(text).tolist(), char.encode("abc").tolist()]
print(json.dumps([[hashes_of_word(b"low"), hashes_of_word(b"l" * 40), hashes_of_pair(1, 2)], results]))
"""
    seeds = ("1", "1", "2")
    processes = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, check=True
        )
        for seed in seeds
    ]
    first, second, third = (json.loads(process.stdout) for process in processes)
    assert first == second
    assert first[1] == third[1]
    flat = [[value for pair in each[0] for value in pair if value is not None] for each in (first, third)]
    assert not set(flat[0]) & set(flat[1])
