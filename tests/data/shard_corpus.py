"""Text corpora for tests of shards, their files and rows afterwards, and runs that are killed."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

import bpe
from bpe.data import Manifest, TokenShards, grouping, journal
from bpe.data.formats import SHARD_FORMATS, reading
from bpe.data.manifest import ShardEntry
from bpe.data.writing import write_batches

END = "<|endoftext|>"
WORDS = "low lower lowest new newer newest 다람쥐 헌 쳇바퀴 naïve café wide wider widest 0 1 22 333\n"


@pytest.fixture(scope="module")
def tokenizer() -> bpe.Tokenizer:
    return bpe.train(texts=[WORDS * 20], vocab_size=300, special_tokens=[END])


def make_texts(seed: int, count: int) -> list[str]:
    """Make texts of very different lengths, some empty, some of many lines."""
    random = Random(seed)
    words = WORDS.split(" ")
    sizes = [0, 0, 1, 2, 3, 10, 50, 300]
    return [" ".join(random.choices(words, k=random.choice(sizes))) for _ in range(count)]


def write_corpus(folder: Path, texts: list[str], files: int = 3) -> list[Path]:
    """Write text files with the documents, which END separates."""
    folder.mkdir(exist_ok=True)
    paths = []
    for index in range(files):
        part = texts[index * len(texts) // files : (index + 1) * len(texts) // files]
        paths.append(folder / f"{index}.txt")
        paths[-1].write_text("".join(text + END for text in part), encoding="utf-8")
    return paths


def open_sources(paths: list[Path]) -> bpe.Sources:
    return bpe.Sources(paths, separator=END)


def read_files(folder: Path) -> dict[str, bytes]:
    """Read the content of all files in a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_rows(folder: Path, split: str | None = None) -> list[list[int]]:
    return [row.tolist() for row in TokenShards(folder, split).documents]


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups of a few documents, and blocks of a few hundred bytes."""
    monkeypatch.setattr(grouping, "FIRST_GROUP_BYTES", 1000)
    monkeypatch.setattr(grouping, "MIN_GROUP_BYTES", 300)
    monkeypatch.setattr(grouping, "MAX_GROUP_BYTES", 3000)
    monkeypatch.setattr(grouping, "MAX_WRITTEN_BYTES", 1500)
    monkeypatch.setattr("bpe.corpus.reading.MAX_READ", 400)
    monkeypatch.setattr("bpe.corpus.reading.MIN_READ", 100)


def write_divided_shards(folder: Path, format_name: str = "native") -> None:
    """Write shards of a divided corpus: 5 documents for training, 2 for validation."""
    entries: list[ShardEntry] = []
    for split, count in (("train", 5), ("val", 2)):
        batch = reading.DocumentBatch(np.full(count, count), np.ones(count, dtype=np.int64), True, True, None)
        stem = {"stem": split, "split": split}
        entries += write_batches([batch], SHARD_FORMATS[format_name], folder, np.dtype("<u2"), **stem)
    Manifest(format_name, "uint16", tuple(entries)).write(folder)


def run_until_killed(event: int, run: Callable[[], object]) -> bool:
    """Run in a child process that kills itself at an event, counted from 0; False if the run ended before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the threads of pytest-xdist
        child = os.fork()
    if child == 0:
        n_left = event

        def count(_: str) -> None:
            nonlocal n_left
            n_left -= 1
            if n_left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            journal.failpoint = count
            run()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), "the run failed"
    return status != 0
