"""The memory of a freed result is kept for the next one: how much, and that no two results ever share memory."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bpe
from bpe.base._result_pool import ResultPool
from bpe.base.memory_limits import measure_memory
from bpe.encode import _batch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="freed results are kept only on Linux")

MB = 1 << 20
LINES = ["low lower\n", "lowest\n", "slow\n", "lower slow low\n"]


@pytest.fixture(scope="module")
def spec() -> bpe.vocab.TokenizerSpec:
    return bpe.train(texts=["low lower lowest"] * 3, num_merges=3).spec


def tokenizer(spec: bpe.vocab.TokenizerSpec, most: int) -> tuple[bpe.Tokenizer, ResultPool]:
    """A tokenizer and the pool of its results, which keeps up to `most` bytes: 4 times the memory of its cache."""
    tok = bpe.Tokenizer(spec, cache_memory=most // 4)
    return tok, tok._engine.encoder.pool


def text_of(tok: bpe.Tokenizer, number: int, size: int) -> tuple[str, NDArray[np.uint32]]:
    """A text of `size` bytes or a few more, and its ids, which repeat those of one line."""
    line = LINES[number % len(LINES)]
    times = size // len(line) + 1
    return line * times, np.tile(tok.encode(line), times)


@pytest.mark.parametrize(("most", "threads"), [(0, 2), (12 * MB, 1), (12 * MB, 2)])
def test_results_never_share_memory(spec: bpe.vocab.TokenizerSpec, most: int, threads: int) -> None:
    choose = random.Random(threads)
    tok, pool = tokenizer(spec, most)
    alive: list[tuple[NDArray[np.uint32], NDArray[np.uint32]]] = []
    for number in range(12):
        text, expected = text_of(tok, number, choose.choice([1000, MB, 3 * MB, 7 * MB]))
        ids = tok.encode_batch([text], threads=threads).ids
        assert np.array_equal(ids, expected)
        ids += number  # writes to the result's own memory
        alive.append((ids[1:], expected[1:] + np.uint32(number)))
        del ids
        choose.shuffle(alive)
        while alive and choose.random() < 0.55:
            alive.pop()
        assert pool.max_kept_bytes <= most
        for found, known in alive:
            assert np.array_equal(found, known)
    alive.clear()
    assert (pool.max_kept_bytes > 0) == (most > 0)


def test_kept_memory_is_used_again(spec: bpe.vocab.TokenizerSpec) -> None:
    tok, pool = tokenizer(spec, 15 * MB)
    text, expected = text_of(tok, 0, 30 * MB)
    result = tok.encode(text)
    assert pool.max_kept_bytes == 0
    assert not result.flags.owndata
    assert result.flags.writeable
    address = result.ctypes.data
    del result
    assert pool.max_kept_bytes == 15 * MB
    size = 2 * MB // len(LINES[0]) * len(LINES[0])
    small = tok.encode(text[:size])  # too small to use the kept memory
    assert pool.max_kept_bytes == 15 * MB
    assert np.array_equal(small, expected[: len(small)])
    result = tok.encode(text[: 20 * MB])
    assert pool.max_kept_bytes == 0
    assert result.ctypes.data == address
    other = tok.encode(text)
    del result, other, small
    assert pool.max_kept_bytes == 15 * MB
    assert tok.count_tokens(text) == len(expected)
    assert pool.max_kept_bytes == 15 * MB
    assert np.array_equal(tok.encode(text), expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_files_use_kept_memory_again(spec: bpe.vocab.TokenizerSpec, threads: int, tmp_path: Path) -> None:
    tok, pool = tokenizer(spec, 15 * MB)
    text, expected = text_of(tok, 0, 6 * MB)
    path = tmp_path / "text.txt"
    path.write_text(text)
    addresses = set()
    for _ in range(3):
        result = tok.encode_files(path, threads=threads).ids
        assert np.array_equal(result, expected)
        assert pool.max_kept_bytes == 0
        addresses.add(result.ctypes.data)
        del result
        assert pool.max_kept_bytes == 15 * MB
    assert len(addresses) == 1


def test_results_outlive_their_tokenizer(spec: bpe.vocab.TokenizerSpec) -> None:
    tok, pool = tokenizer(spec, 24 * MB)
    text, expected = text_of(tok, 1, 20 * MB)
    tok.encode(text)
    result = tok.encode(text)
    view = result[::2]
    del tok, result
    gc.collect()
    assert np.array_equal(view, expected[::2])
    before = measure_memory()
    size = expected.nbytes
    del view
    assert pool.max_kept_bytes > 0
    del pool
    assert before - measure_memory() > 0.9 * size


def test_concurrent_calls_do_not_share_results(spec: bpe.vocab.TokenizerSpec) -> None:
    tok, pool = tokenizer(spec, 12 * MB)
    texts = [text_of(tok, number, (3 + number) * MB) for number in range(4)]

    def check(number: int) -> bool:
        text, expected = texts[number % 4]
        return all(np.array_equal(tok.encode(text), expected) for _ in range(4))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(check, range(8)))
    assert pool.max_kept_bytes <= 12 * MB


FORKING = """
import os, numpy as np, bpe
tok = bpe.train(texts=["low lower lowest"] * 3, num_merges=3)
text = "low lower\\n" * 300_000
ids = tok.encode(text)
tok.encode(text)
assert tok._engine.encoder.pool.max_kept_bytes
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


def test_a_forked_process_has_its_own_pool() -> None:
    subprocess.run([sys.executable, "-c", FORKING], check=True, timeout=120)


def test_a_result_that_outgrows_its_memory(hooks: Any) -> None:
    """There are two ids for each byte: the letter or digit, and the mark after it."""
    options: dict[str, Any] = {"pretokenizer": "gpt2", "end_of_word": "</w>", "end_of_word_glued": False}
    tok = bpe.train(texts=["a1"], num_merges=0, model="char", **options)
    text = "a1" * MB
    expected = np.tile(tok.encode("a1"), MB)
    assert len(expected) == 4 * MB
    for _ in range(2):
        assert np.array_equal(tok.encode(text), expected)
        job = _batch.EncodeJob(tok._engine.encoder, 2)
        job.add_items([text.encode()], np.array([0, 1], dtype=np.int64))
        job.prepare()
        hooks.work_alternated(job, 2)
        assert np.array_equal(job.result()[0], expected)
