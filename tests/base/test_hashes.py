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


#: Pairs of each kind.
PAIRS: dict[str, list[tuple[int, int]]] = {
    f"{side}, shifted by {shift}": [(i << shift, 0) if side == "left" else (0, i << shift) for i in range(2048)]
    for shift in (0, 13, 20)
    for side in ("left", "right")
} | {"equal tokens": [(i, i) for i in range(N)]}


def measure() -> dict[str, list[int]]:
    """The slots used by the hashes of each kind, with the secrets of this process."""
    from bpe import _kernel_hooks as hooks

    actual = {kind: [hooks.hashes_of_word(word(i)) for i in range(N)] for kind, word in CHOSEN.items()}
    actual |= {kind: [hooks.hashes_of_pair(*pair) for pair in pairs] for kind, pairs in PAIRS.items()}
    return {
        kind: [used_slots(hashes) for hashes in zip(*rows, strict=True) if None not in hashes]
        for kind, rows in actual.items()
    }


@pytest.fixture(scope="module")
def used(hooks: Any) -> dict[str, list[int]]:
    """The most slots that a kind uses in two processes with known secrets; with one in five, some kind uses few."""
    counts = []
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        process = subprocess.run([sys.executable, __file__], env=environment, stdout=subprocess.PIPE, check=True)
        counts.append(json.loads(process.stdout))
    return {kind: list(map(max, zip(*(each[kind] for each in counts), strict=True))) for kind in counts[0]}


@pytest.mark.parametrize("kind", CHOSEN)
def test_words_cannot_be_chosen_that_share_a_hash(kind: str, used: dict[str, list[int]]) -> None:
    assert len({CHOSEN[kind](i) for i in range(N)}) == N
    assert used[kind]
    assert min(used[kind]) > SLOTS // 8


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs_cannot_be_chosen_that_share_a_hash(kind: str, used: dict[str, list[int]]) -> None:
    assert used[kind]
    assert min(used[kind]) > SLOTS // 16


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


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure()))
