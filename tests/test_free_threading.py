"""Eight threads share an object of each kind, with or without the GIL.

`benchmarks/checks/check_threads.py` does so for longer, and with more calls.

In free-threaded builds of Python 3.13 and later, importing the package must leave the GIL off.
"""

from __future__ import annotations

import copy
import gc
import pickle
import random
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.compat import huggingface
from bpe.data import Blocks, StreamingEncoder, TokenShards, encode_shards, write_shards

THREADS = 8
WORDS = [
    "low",
    "lower",
    "newest",
    " widest",
    "\n\n",
    "naïve",
    "두 번째",
    "줄",
    "日本語",
    "123",
    " 4567",
    "😀",
    "x" * 300,
]


def run(job: Callable[[int], None]) -> None:
    """Run `job(0)` to `job(7)` at the same time; raise the first error."""
    start = threading.Barrier(THREADS)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            start.wait(60)
            job(number)
        except BaseException as error:  # noqa: BLE001 (raised by the thread that waits)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def texts(seed: int, count: int) -> list[str]:
    """Texts whose words partly repeat, so that caches hit, miss and overflow."""
    choose = random.Random(seed)
    made = [f"{choose.choice(WORDS)}{choose.randrange(400)}" for _ in range(200)]
    return ["".join(choose.choices(made + WORDS, k=choose.randrange(60))) for _ in range(count)]


@pytest.fixture(scope="module")
def trained() -> bpe.Tokenizer:
    return bpe.train(texts=texts(0, 200), vocab_size=700, special_tokens=["<|end|>"], pretokenizer="o200k")


def test_the_garbage_collector_frees_what_an_error_holds(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    """A result that is not finished returns its memory to a pool, which must still exist then."""
    path = tmp_path / "text"
    path.write_bytes(b"low lower newest\n" * 100_000 + b"\xff")
    for threads in (1, 2):
        for _ in range(5):
            with pytest.raises(bpe.FormatError) as caught:
                trained.encode_files(path, threads=threads)
            caught.value.cycle = caught.value  # type: ignore[attr-defined] (its traceback holds the job)
            del caught
            gc.collect()
    assert trained.encode_batch(["low"]).to_list() == [trained.encode("low").tolist()]


@pytest.mark.parametrize("cache_memory", [None, "64K"])
def test_eight_threads_share_a_tokenizer(trained: bpe.Tokenizer, cache_memory: str | None) -> None:
    """Every method gives the same results as in one thread, also while words enter and leave the cache."""
    given = texts(1, 150)
    expected = [trained.encode(text).tolist() for text in given]
    shared = bpe.Tokenizer.from_spec(trained.spec, cache_memory=cache_memory)

    def job(number: int) -> None:
        order = list(range(len(given)))
        random.Random(number).shuffle(order)
        for index in order:
            assert shared.encode(given[index]).tolist() == expected[index]
        chosen = [given[index] for index in order]
        batch = shared.encode_batch(chosen, threads=1 + number % 3)
        assert batch.to_list() == [expected[index] for index in order]
        assert shared.decode_batch(batch) == chosen
        for index in order[:40]:
            text = given[index]
            assert shared.count_tokens(text) == len(expected[index])
            ids, offsets = shared.encode_with_offsets(text)
            assert ids.tolist() == expected[index]
            assert len(offsets) == len(ids)
            decoder = shared.decoder()
            assert "".join(decoder.push(i) for i in expected[index]) + decoder.flush() == text
        assert shared.encode("low<|end|>", allowed_special="all").tolist()[-1] == shared.token_id("<|end|>")

    run(job)


def test_eight_threads_share_word_counts() -> None:
    """No word is lost when eight threads add words while others merge and read."""
    given = [texts(seed, 30) for seed in range(THREADS)]
    expected = bpe.WordCounts()
    for part in given:
        for text in part:
            expected.add(text)
            expected.add(text)
    shared = bpe.WordCounts()

    def job(number: int) -> None:
        other = bpe.WordCounts()
        for text in given[number]:
            shared.add(text)
            other.add(text)
            assert shared["low"] >= 0
            assert len(shared.arrays()[2]) <= len(expected)
        shared.merge(other)
        shared.most_common(3)

    run(job)
    assert dict(shared.items()) == dict(expected.items())


def test_eight_trainings_at_once() -> None:
    """Eight concurrent trainings, with one and two threads each, give the same tokenizer."""
    given = texts(3, 120)
    expected = bpe.train(texts=given, vocab_size=500, threads=1)
    counts = bpe.count_words(texts=given)

    def job(number: int) -> None:
        assert bpe.train(texts=given, vocab_size=500, threads=1 + number % 2) == expected
        assert bpe.train(counts=counts, vocab_size=500, threads=1 + number % 2) == expected

    run(job)


def test_eight_threads_share_a_pretokenizer() -> None:
    given = texts(4, 100)
    for name in ("gpt2", "o200k", r"\w+|\W"):
        shared = bpe.Pretokenizer(name) if name.isalnum() else bpe.Pretokenizer.from_regex(name)
        expected = [list(shared.split(text)) for text in given]

        def job(number: int, shared: bpe.Pretokenizer = shared, expected: list[list[str]] = expected) -> None:
            for text, pieces in zip(given, expected, strict=True):
                assert list(shared.split(text)) == pieces

        run(job)


def test_eight_threads_share_an_iterator_of_batches(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    """Each batch is yielded once, and a copy goes on by itself."""
    write_shards([range(n % 60) for n in range(300)], tmp_path / "shards")
    rows = Blocks(TokenShards(tmp_path / "shards"), length=8)
    encoder = StreamingEncoder(texts(5, 60), trained, length=8, threads=1)
    for make in (lambda: rows.batches(4), lambda: encoder.batches(4)):
        expected = [repr(batch) for batch in make()]
        assert len(expected) > 50
        shared, given = make(), list[str]()

        def job(_: int, shared: Any = shared, given: list[str] = given) -> None:
            shared.state_dict()
            given.extend(repr(batch) for batch in shared)

        run(job)
        assert sorted(given) == sorted(expected)
    begun = rows.batches(4)
    next(begun)
    for again in (copy.copy(begun), copy.deepcopy(begun), pickle.loads(pickle.dumps(begun))):
        assert repr(next(again)) == repr(list(rows.batches(4))[1])


def test_eight_threads_share_sources(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    """A call counts the bad records that it skips itself, and the sources those of all calls."""
    path = tmp_path / "records.jsonl"
    path.write_text('{"text": "low"}\n{\n' * 400)
    shared = bpe.Sources(path, on_error="skip")

    def job(number: int) -> None:
        assert encode_shards(shared, trained, tmp_path / f"{number}", threads=1).skipped == 400
        assert bpe.count_words(files=shared, threads=1)["low"] == 400
        assert len(list(shared.documents())) == 400

    run(job)
    assert shared.skipped == 8 * 3 * 400


def test_eight_threads_share_what_another_one_changes(trained: bpe.Tokenizer) -> None:
    """A list and an array of the caller change while they are read: errors are those of a wrong id."""
    given = [text for text in texts(6, 30) if text]
    possible = {tuple(trained.encode(text).tolist()) for text in given}
    listed, array = list(given), np.full(3000, 300, dtype=np.uint32)
    batch = bpe.TokenBatch(array, np.arange(3001))

    def job(number: int) -> None:
        for turn in range(40):
            if number == 0:
                listed[:] = given[turn % 9 :]
                array[:] = 300 if turn % 2 else 0xFFFFFFFF
                del listed[turn % 9 :]
                continue
            assert {tuple(row) for row in trained.encode_batch(listed).to_list()} <= possible
            for call in (trained.decode, trained.decode_batch, trained.stochastok):
                with suppress(ValueError):
                    call(array if call != trained.decode_batch else batch)

    run(job)


def test_eight_threads_change_the_settings_of_one_tokenizer(trained: bpe.Tokenizer) -> None:
    """A call follows the settings of one moment, no added token is lost, and copies are whole."""
    shared = huggingface.Tokenizer(trained)
    ids = shared.encode("low lower newest 4567").ids
    assert len(ids) > 2
    results = {tuple(row[:12]) for part in (ids, ids[:2]) for row in (part, part + [1] * (12 - len(part)))}

    def job(number: int) -> None:
        for turn in range(30):
            change = (
                shared.no_truncation,
                lambda: shared.enable_truncation(2),
                shared.no_padding,
                lambda: shared.enable_padding(length=12, pad_id=1),
            )[(number + turn) % 4]
            change()
            made = copy.copy(shared) if turn % 2 else pickle.loads(pickle.dumps(shared))
            assert tuple(made.encode("low lower newest 4567").ids) in results
            assert tuple(shared.encode_batch(["low lower newest 4567"])[0].ids) in results
        assert shared.add_tokens([f"<{number}>"]) == 1
        assert shared.token_to_id(f"<{number}>") is not None

    run(job)
    added = sorted(shared.token_to_id(f"<{number}>") or 0 for number in range(THREADS))
    assert added == list(range(trained.n_vocab, trained.n_vocab + THREADS))


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python is built with the GIL")
def test_importing_leaves_the_gil_off() -> None:
    """Each kernel declares that it does not need the GIL; Python enables the GIL for modules that do not."""
    code = "import sys, bpe, bpe.cli; bpe.train(texts=['a b'], vocab_size=257); assert not sys._is_gil_enabled()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
