"""Eight threads share an object of each kind, with or without the GIL.

`benchmarks/checks/check_threads.py` does so for longer, and for more objects.

In free-threaded builds of Python 3.13 and later, importing the package must leave the GIL off.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from shared_objects import CASES
from shared_objects import texts as make_texts
from strategies import SOAK

import bpe

#: Of the objects in `shared_objects.py`, those that are made soon.
OBJECTS = (
    "arguments", "added_tokens", "blocks", "byte", "decoders", "huggingface", "iterators", "pretokenizers",
    "prompt_cache", "sources", "token_batch", "uncached", "word_counts",
)  # fmt: skip
THREADS = 8


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
    made: list[str] = make_texts(seed, count)
    return made


@pytest.fixture(scope="module")
def trained() -> bpe.Tokenizer:
    return bpe.train(texts=texts(0, 200), vocab_size=700, special_tokens=["<|end|>"], pretokenizer="o200k")


def test_the_garbage_collector_frees_what_an_error_holds(trained: bpe.Tokenizer, tmp_path: Path) -> None:
    """A result that is not finished returns its memory to a pool, which must still exist then."""
    path = tmp_path / "text"
    path.write_bytes(b"low lower newest\n" * 30_000 + b"\xff")
    for threads in (1, 2):
        for _ in range(5):
            with pytest.raises(bpe.FormatError) as caught:
                trained.encode_files(path, threads=threads)
            caught.value.cycle = caught.value  # type: ignore[attr-defined] (its traceback holds the job)
            del caught
            gc.collect()
    assert trained.encode_batch(["low"]).to_list() == [trained.encode("low").tolist()]


def test_eight_trainings_at_once() -> None:
    """Eight concurrent trainings, with one and two threads each, give the same tokenizer."""
    given = texts(3, 120)
    expected = bpe.train(texts=given, vocab_size=500, threads=1)
    counts = bpe.count_words(texts=given)

    def job(number: int) -> None:
        assert bpe.train(texts=given, vocab_size=500, threads=1 + number % 2) == expected
        assert bpe.train(counts=counts, vocab_size=500, threads=1 + number % 2) == expected

    run(job)


@pytest.mark.parametrize("name", OBJECTS)
def test_eight_threads_share_an_object(name: str, tmp_path: Path) -> None:
    """Each result is one that some order of the calls gives, and in the end nothing is lost."""
    shared = CASES[name](tmp_path)

    def job(number: int) -> None:
        chosen = random.Random(number)
        faults = list(filter(None, (shared.step(number, chosen) for _ in range(3 * SOAK))))
        assert not faults

    run(job)
    assert not list(shared.finish())


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python is built with the GIL")
def test_importing_leaves_the_gil_off() -> None:
    """Each kernel declares that it does not need the GIL; Python enables the GIL for modules that do not."""
    code = "import sys, bpe, bpe.cli; bpe.train(texts=['a b'], vocab_size=257); assert not sys._is_gil_enabled()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
