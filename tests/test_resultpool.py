"""Memory of freed results that is kept for the next: how much, by whom, and that no two results ever share any."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bpe
from bpe.base._result_pool import ResultPool, refuse_moves
from bpe.base.memory_limits import resident
from bpe.encode import _batch as gather
from bpe.tokenizer import engine_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is kept elsewhere")

MB = 1 << 20
LINES = ["low lower\n", "lowest\n", "slow\n", "lower slow low\n"]


@pytest.fixture(scope="module")
def spec() -> bpe.TokenizerSpec:
    return bpe.train(texts=["low lower lowest"] * 3, num_merges=3).spec


def tokenizer(spec: bpe.TokenizerSpec, memory: int) -> tuple[bpe.Tokenizer, ResultPool]:
    """A tokenizer, and the pool of its results, which keeps, with the cache, up to 2.5 times as much a thread."""
    tok = bpe.Tokenizer.from_spec(spec, cache_memory=memory)
    return tok, engine_of(tok).kernel.pool


def text_of(tok: bpe.Tokenizer, number: int, size: int) -> tuple[str, NDArray[np.uint32]]:
    """A text of so many bytes or a few more, and its ids, found by a line of it."""
    line = LINES[number % len(LINES)]
    times = size // len(line) + 1
    return line * times, np.tile(tok.encode(line), times)


@pytest.mark.parametrize(("memory", "threads"), [(0, 2), (8 * MB, 1), (8 * MB, 2)])
def test_results_never_share_memory(spec: bpe.TokenizerSpec, memory: int, threads: int) -> None:
    choose = random.Random(threads)
    tok, pool = tokenizer(spec, memory)
    alive: list[tuple[NDArray[np.uint32], NDArray[np.uint32]]] = []
    for number in range(24):
        text, expected = text_of(tok, number, choose.choice([1000, MB, 3 * MB, 9 * MB]))
        ids = tok.encode_batch([text], threads=threads).ids
        assert np.array_equal(ids, expected)
        ids += number  # in its own memory
        alive.append((ids[1:], expected[1:] + np.uint32(number)))
        del ids
        choose.shuffle(alive)
        while alive and choose.random() < 0.55:
            alive.pop()
        assert pool.kept <= threads * memory * 5 // 2
        for found, known in alive:
            assert np.array_equal(found, known)
    alive.clear()
    assert (pool.kept > 0) == (memory > 0)


def test_what_is_kept_is_used_again(spec: bpe.TokenizerSpec) -> None:
    tok, pool = tokenizer(spec, 10 * MB)
    text, expected = text_of(tok, 0, 30 * MB)
    result = tok.encode(text)
    assert pool.kept == 0
    assert not result.flags.owndata
    assert result.flags.writeable
    del result
    assert pool.kept == 24 * MB
    result = tok.encode(text)
    assert pool.kept == 0
    size = 4 * MB // len(LINES[0]) * len(LINES[0])
    small = tok.encode(text[:size])
    del result
    assert pool.kept == 24 * MB
    assert np.array_equal(small, expected[: len(small)])
    again = tok.encode(text[:size])
    assert 16 * MB <= pool.kept < 24 * MB  # which it has not written to
    assert np.array_equal(again, small)
    tok.count_tokens(text)
    assert pool.kept >= 16 * MB


@pytest.mark.parametrize("moved", [0, 1, 5])
def test_pages_that_cannot_be_moved(spec: bpe.TokenizerSpec, moved: int) -> None:
    """As where the process has too many mappings: the result gets other memory, the pages tried are gone."""
    tok, pool = tokenizer(spec, 10 * MB)
    text, expected = text_of(tok, 0, 30 * MB)
    tok.encode(text)
    assert pool.kept == 24 * MB
    refuse_moves(moved)
    try:
        result = tok.encode(text)
        assert np.array_equal(result, expected)
        assert pool.kept == 24 * MB - (moved + 1) * 2 * MB
    finally:
        refuse_moves(-1)
    again = tok.encode(text)
    assert np.array_equal(again, expected)
    assert pool.kept == 0
    del again
    assert pool.kept == 24 * MB
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("at_once", [1, 20], ids=["small calls", "one call"])
def test_pages_go_when_the_cache_grows(spec: bpe.TokenizerSpec, at_once: int) -> None:
    memory = 8 * MB
    tok, pool = tokenizer(spec, memory)
    choose = random.Random(at_once)
    words = [" ".join(f"{choose.getrandbits(64):x}" for _ in range(10_000)) for _ in range(20)]
    tok.encode(text_of(tok, 0, 30 * MB)[0])
    before = pool.kept
    for start in range(0, len(words), at_once):
        tok.count_tokens(" ".join(words[start : start + at_once]))
        cached = sum(state["bytes"] for state in engine_of(tok).kernel.cache_state())
        assert cached + pool.kept <= memory * 5 // 2
    assert cached > 4 * MB
    assert 0 < pool.kept < before


def test_results_outlive_their_tokenizer(spec: bpe.TokenizerSpec) -> None:
    tok, pool = tokenizer(spec, 32 * MB)
    text, expected = text_of(tok, 1, 40 * MB)
    tok.encode(text)
    result = tok.encode(text)
    view = result[::2]
    del tok, result
    gc.collect()
    assert np.array_equal(view, expected[::2])
    before = resident()
    size = expected.nbytes
    del view
    assert pool.kept > 0
    del pool
    assert before - resident() > 0.9 * size


def test_calls_at_the_same_time(spec: bpe.TokenizerSpec) -> None:
    tok, pool = tokenizer(spec, 8 * MB)
    texts = [text_of(tok, number, (3 + number) * MB) for number in range(4)]

    def check(number: int) -> bool:
        text, expected = texts[number % 4]
        return all(np.array_equal(tok.encode(text), expected) for _ in range(4))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(check, range(8)))
    assert pool.kept <= 4 * 20 * MB


FORKING = """
import os, numpy as np, bpe
from bpe.tokenizer import engine_of
tok = bpe.train(texts=["low lower lowest"] * 3, num_merges=3)
text = "low lower\\n" * 600_000
ids = tok.encode(text)
tok.encode(text)
assert engine_of(tok).kernel.pool.kept
child = os.fork()
for number in range(3):
    result = tok.encode_batch([text], threads=1 + number % 2).ids
    assert np.array_equal(result, ids)
    result += 1
    if number == 1:
        ids = tok.encode(text)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_has_pages_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORKING], check=True, timeout=120)


def test_an_output_that_outgrows_its_loan() -> None:
    """Two ids for each byte: the letter, or the digit, and the mark behind it."""
    options: dict[str, Any] = {"pretokenizer": "gpt2", "end_of_word": "</w>", "end_of_word_glued": False}
    tok = bpe.train(texts=["a1"], num_merges=0, model="char", **options)
    text = "a1" * MB
    expected = np.tile(tok.encode("a1"), MB)
    assert len(expected) == 4 * MB
    for _ in range(2):
        assert np.array_equal(tok.encode(text), expected)
        job = gather.Job(engine_of(tok).kernel, 2)
        job.add_items([text.encode()], np.array([0, 1], dtype=np.int64))
        job.prepare()
        rooms = [job.enter(), job.enter()]
        while sum(job.step(room) for room in rooms):
            pass
        for room in rooms:
            job.leave(room)
        assert np.array_equal(job.result()[0], expected)
