"""`max_memory` and `cache_memory`: the values that they accept, and that they limit memory and nothing else."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.base.memory_limits import MIN_MEMORY, check_memory, measure_memory


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("20G", 20 << 30),
        ("15.5 GiB", 31 << 29),
        ("9000mb", 9000 << 20),
        (" 40000000K ", 40000000 << 10),
        (1 << 40, 1 << 40),
    ],
)
def test_amounts_of_memory_are_parsed(value: int | str, expected: int) -> None:
    assert check_memory(value) == expected


@pytest.mark.parametrize("value", ["", "2X", "G", "-1G", "1e9", "2 G G"])
def test_an_invalid_amount_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"must be a number of bytes, or one with a unit: '2G'"):
        bpe.train(counts={"ab": 1}, num_merges=1, max_memory=value)


@pytest.mark.parametrize("value", ["9" * 5000, "9" * 400 + "K"])
def test_an_amount_beyond_all_numbers_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"it must be less than 2\*\*1024 bytes"):
        bpe.train(counts={"ab": 1}, num_merges=1, max_memory=value)


@pytest.mark.parametrize("value", [1.5, b"2G", True])
def test_an_amount_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="max_memory is"):
        bpe.train(counts={"ab": 1}, num_merges=1, max_memory=value)  # type: ignore[arg-type]


def test_the_error_for_too_little_memory_names_the_least_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpe.training.job.fill_from_corpus", None)  # must not be called
    with pytest.raises(ValueError, match="it must be at least") as caught:
        bpe.train(texts=["ab"], num_merges=1, max_memory="100K")
    monkeypatch.undo()
    least = int(str(caught.value).split()[-1])
    assert least % (1 << 20) == 0
    assert measure_memory() < least <= measure_memory() + 2 * MIN_MEMORY
    with pytest.raises(ValueError, match="it must be at least") as caught:
        bpe.train(counts={"ab": 1}, num_merges=1, max_memory=1000)
    least = int(str(caught.value).split()[-1])
    assert measure_memory() < least <= measure_memory() + 2 * MIN_MEMORY
    assert bpe.train(counts={"ab": 1}, num_merges=1, max_memory=2 * least).merges.tolist() == [[64, 65]]


@pytest.mark.parametrize("value", ["200G", "4000T", 2**63 - 1])
@pytest.mark.parametrize(
    "train",
    [
        bpe.train,
        partial(bpe.train, superwords=bpe.SuperWords(258)),
        partial(bpe.research.train_seeded, bpe.research.Seeds(tokens=["low"])),
        lambda texts, **options: bpe.research.train_parity(texts={"a": texts, "b": texts}, **options),
    ],
)
def test_a_limit_far_above_what_the_machine_has_is_no_limit(value: int | str, train: Any) -> None:
    """Memory for pairs is what the corpus can use, not all that the limit leaves."""
    texts = ["low lower lowest"] * 3
    assert train(texts=texts, vocab_size=262, max_memory=value) == train(texts=texts, vocab_size=262)


def test_a_limit_that_no_machine_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match=rf"max_memory is {2**70}; it must be from 1 to {2**63 - 1}"):
        bpe.train(texts=["low"], num_merges=1, max_memory=2**70)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 12 MB in which no word occurs twice, the worst case for a table of words."""
    path = tmp_path_factory.mktemp("memory") / "corpus.txt"
    random_ = np.random.default_rng(8)
    weights = 1 / np.arange(1, 21)
    ends = np.cumsum(random_.integers(10, 28, 600_000, endpoint=True) + 1)
    text = np.searchsorted(np.cumsum(weights / weights.sum()), random_.random(ends[-1])).astype(np.uint8) + ord("a")
    text[ends - 1] = ord(" ")
    path.write_bytes(text.tobytes())
    return path


PROGRAM = """
import sys, bpe
from bpe.base.memory_limits import MIN_MEMORY, measure_memory
given, train = sys.argv[2], bpe.train
most = None if given == "none" else measure_memory() + MIN_MEMORY + (8 << 20) if given == "little" else int(given)
tok = train(files=sys.argv[1], vocab_size=400, pretokenizer="whitespace", threads=2, max_memory=most)
peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))
print(tok.fingerprint, int(peak) << 10, most)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_training_stays_within_max_memory(corpus: Path) -> None:
    found = []
    for most in ("none", "little"):
        command = [sys.executable, "-c", PROGRAM, str(corpus), most]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        found.append(done.stdout.split())
    assert found[0][0] == found[1][0]
    most, peaks = int(found[1][2]), [int(peak) for _, peak, _ in found]
    assert peaks[1] <= most < peaks[0]


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of the process is read from /proc")
def test_the_error_names_the_memory_that_the_symbols_need(corpus: Path, tmp_path: Path) -> None:
    wide = PROGRAM.replace("vocab_size=400", "vocab_size=66_000")  # symbols of 32 bits
    wide = f"from bpe.training import job; job.SAMPLING_ERROR = 1e9  # count to the end\n{wide}"
    some = tmp_path / "some.txt"
    some.write_bytes(corpus.read_bytes()[:7_000_000])
    command = [sys.executable, "-c", wide, str(some), "little"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    found = re.search(r"words of \d+ symbols need (\d+) bytes \(\d+ MB\); raise it to that", done.stderr)
    assert found
    command = [sys.executable, "-c", wide, str(some), found[1]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout.split()[1]) <= int(found[1])


# The word cache -------------------------------------------------------------------------------------------------------

ENCODING = """
import gc, random, sys, bpe
from bpe._kernel_hooks import cache_state
from bpe.base.memory_limits import measure_memory
tok = bpe.Tokenizer(bpe.train(texts=["low lower lowest"], vocab_size=270).spec, cache_memory=sys.argv[1])
random_ = random.Random(4)
tok.encode("low lower")
before = measure_memory()
for _ in range(8):
    words = (random_.randbytes(random_.choice((3, 5, 8, 20, 60))).hex() for _ in range(20_000))
    text = " ".join(words)
    tok.encode(text)
    del text, words
gc.collect()
print(measure_memory() - before, cache_state(tok._engine.encoder)["bytes"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of the process is read from /proc")
@pytest.mark.parametrize(("given", "most"), [("32M", 32 << 20), ("2M", 2 << 20)])
def test_the_cache_stays_within_cache_memory(given: str, most: int) -> None:
    """Encode distinct words of every length that the cache has a table for.

    The bound for the process is loose, since the C library does not return all memory of the texts to the system.
    """
    done = subprocess.run(
        [sys.executable, "-c", ENCODING, given], capture_output=True, text=True, check=True, timeout=120
    )
    process, cache = map(int, done.stdout.split())
    assert process < 100 << 20
    assert 0 < cache <= most


def test_cache_memory_survives_copies_and_does_not_affect_equality() -> None:
    tok = bpe.train(texts=["low lower lowest"], vocab_size=270)
    small = bpe.Tokenizer(tok.spec, cache_memory=100_000)
    assert (tok.cache_memory, small.cache_memory) == (32 << 20, 100_000)
    assert small == tok
    assert pickle.loads(pickle.dumps(small)).cache_memory == small.truncate_vocab(260)[0].cache_memory == 100_000
    with pytest.raises(ValueError, match="cache_memory is 'much'"):
        bpe.Tokenizer(tok.spec, cache_memory="much")
    with pytest.raises((TypeError, ValueError)):
        bpe.Tokenizer(tok.spec, cache_memory=-1)
