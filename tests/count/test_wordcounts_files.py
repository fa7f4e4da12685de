"""Files of word counts: their contents, and that damaged or partly written ones are refused.

Also the division of text files into documents, whose words are counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe.count.sealed_files import COUNTS_FORMAT

# Documents in files ---------------------------------------------------------------------------------------------------

lines = st.lists(
    st.sampled_from([b"low", b" ", b"\n", b"\r\n", b"\r", "\u2028".encode(), b"\xff", b"  ", b"\x85"]), max_size=12
)


@given(chunks=lines, pretokenizer=st.sampled_from(["gpt2", "cl100k", "whitespace", None]), threads=st.integers(1, 2))
def test_per_line_makes_each_line_a_document(
    tmp_path_factory: Any, chunks: list[bytes], pretokenizer: Any, threads: int
) -> None:
    """A line ends after its line feed and nowhere else; `bpe train --per-line` does the same."""
    data = b"".join(chunks)
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(data)
    documents = [part + b"\n" for part in data.split(b"\n")]
    documents[-1] = documents[-1][:-1]
    options: dict[str, Any] = {"pretokenizer": pretokenizer, "threads": threads}
    lines = bpe.Sources(path, encoding_errors="bytes", per_line=True)
    parts = bpe.Sources(path, encoding_errors="bytes", separator="\n")
    counts = bpe.count_words(files=lines, **options)
    assert counts == bpe.count_words(texts=documents, **options)
    assert bpe.count_words(files=parts, **options) == bpe.count_words(texts=data.split(b"\n"), **options)
    if pretokenizer is not None and pretokenizer != "whitespace":
        assert sum(len(word) * count for word, count in counts.items()) == len(data), "no byte is lost"


def test_per_line_over_several_files_and_parts(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", 50)
    data = "low lower\n\n  newest 단어\r\nwide" * 40
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(data.encode())
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for threads in (1, 2, 8):
        counts = bpe.count_words(files=bpe.Sources(files, per_line=True), threads=threads)
        assert counts == bpe.count_words(texts=2 * data.encode().splitlines(keepends=True))
    tok = bpe.train(files=bpe.Sources(files, per_line=True), num_merges=20)
    assert tok == bpe.train(counts=counts, num_merges=20)


def test_a_separator_and_per_line_exclude_each_other() -> None:
    message = r"separator is '\\n' and per_line is True; give at most one of them"
    with pytest.raises(ValueError, match=message):
        bpe.count_words(files=bpe.Sources([], separator="\n", per_line=True))
    with pytest.raises(ValueError, match=message):
        bpe.train(files=bpe.Sources([], separator="\n", per_line=True), num_merges=1)


# Counts beyond 32 bits ------------------------------------------------------------------------------------------------

LARGE = {"hug": 2**40, "pug": 2**40 + 1, "a word longer than a slot holds": 2**41 + 3, "rare": 1}


def large() -> bpe.WordCounts:
    counts = bpe.WordCounts("whitespace")
    counts.update(LARGE)
    return counts


def test_large_counts_survive_files_pickles_and_merging(tmp_path: Path) -> None:
    counts, path = large(), tmp_path / "a.counts"
    counts.save(path)
    again = bpe.WordCounts.load(path)
    assert again == pickle.loads(pickle.dumps(counts)) == counts
    assert dict(again.items()) == {word.encode(): count for word, count in LARGE.items()}
    again |= counts
    again.save(path)
    again = bpe.WordCounts.load(path)
    assert dict(again.items()) == {word.encode(): 2 * count for word, count in LARGE.items()}
    assert again.total == 2 * sum(LARGE.values())


@pytest.mark.parametrize("longest", [1, 255, 256, 65_535, 65_536])
def test_every_width_of_lengths_and_counts(tmp_path: Path, longest: int) -> None:
    """Lengths and counts are stored in the narrowest type that fits; the total length may need a wider one."""
    for highest in (0, 255, 256, 65_536, 2**32 - 1, 2**32, 2**53 + 1, 2**62):
        counts = bpe.WordCounts()
        counts.update({f"{number:03}": number for number in range(1000)} | {"x" * longest: highest})
        counts.save(tmp_path / "a.counts")
        assert bpe.WordCounts.load(tmp_path / "a.counts") == counts, highest


def test_large_counts_survive_arrow() -> None:
    pytest.importorskip("pyarrow")
    assert bpe.WordCounts.from_arrow(large().to_arrow(), "whitespace") == large()


@pytest.mark.parametrize("model", ["byte", "char"])
def test_large_counts_survive_training(tmp_path: Path, model: Any) -> None:
    large().save(tmp_path / "a.counts")
    words_read: list[tuple[Any, int]] = []
    bpe.train(
        counts=bpe.WordCounts.load(tmp_path / "a.counts"),
        model=model,
        num_merges=3,
        on_merge=lambda step, left, right, token, count: words_read.append((token, count)),
        rules=bpe.MergeRules(max_token_length=3, tie_break="first"),
    )
    if model == "byte":
        words_read = [(token.decode(), count) for token, count in words_read]
    assert words_read == naive_merges(3)
    assert max(count for _, count in words_read) > 2**41


def naive_merges(number: int) -> list[tuple[str, int]]:
    """The most frequent pairs of LARGE, merged by a naive trainer, with tokens of at most 3 symbols."""
    pieces = [(list(word), count) for word, count in LARGE.items()]
    learned = []
    for _ in range(number):
        pairs: dict[tuple[str, str], int] = {}
        for symbols, count in pieces:
            for pair in pairwise(symbols):
                if len("".join(pair)) <= 3:
                    pairs[pair] = pairs.get(pair, 0) + count
        best = max(pairs, key=lambda pair: pairs[pair])
        learned.append(("".join(best), pairs[best]))
        for symbols, _ in pieces:
            offset = 0
            while offset < len(symbols) - 1:
                if (symbols[offset], symbols[offset + 1]) == best:
                    symbols[offset : offset + 2] = ["".join(best)]
                offset += 1
    return learned


def test_sums_over_63_bits_are_refused(tmp_path: Path) -> None:
    counts = bpe.WordCounts()
    counts.update({"a": 2**62})
    counts.save(tmp_path / "a.counts")
    again = bpe.WordCounts.load(tmp_path / "a.counts")
    with pytest.raises(ValueError, match=rf"the counts sum to {2**63}; the sum must be at most 2\*\*63 - 1"):
        again |= counts
    assert again == counts, "nothing was added"


# Damaged files --------------------------------------------------------------------------------------------------------


def test_every_altered_byte_and_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.counts"
    counts = bpe.WordCounts("gpt2", bpe.normalizers.NFC(), ["<s>"])
    counts.update({"low": 2**40, "é": 0, "a word longer than a slot holds": 3})
    counts.save(path)
    good = path.read_bytes()
    damaged = [good[:size] for size in range(len(good))] + [good[start:] for start in range(1, len(good))]
    for offset in range(len(good)):
        damaged += [
            good[:offset] + bytes([good[offset] ^ change]) + good[offset + 1 :] for change in (1 << offset % 8, 16)
        ]
        damaged += [
            good[:offset] + bytes([good[offset] ^ 255]) + good[offset + 1 :],
            good[:offset] + good[offset + 1 :],
        ]
    damaged += [good + b"\0", good + good, good[:-32], b"\0" * len(good), good[::-1]]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(bpe.FormatError, match=r"a\.counts: ") as caught:
            bpe.WordCounts.load(path)
        assert caught.value.path == str(path)
    path.write_bytes(good)
    assert bpe.WordCounts.load(path) == counts


def forged(
    header: Any, lengths: bytes = b"\3\2", counts: bytes = b"\7\1", blob: bytes = b"lowab", version: int = 1
) -> bytes:
    """A file with a correct checksum and arbitrary contents."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    data = (
        COUNTS_FORMAT.magic
        + version.to_bytes(4, "little")
        + len(text).to_bytes(8, "little")
        + text
        + lengths
        + counts
        + blob
    )
    return data + hashlib.sha256(data).digest()


HEADER: dict[str, Any] = {
    "words": 2,
    "bytes": 5,
    "lengths": "|u1",
    "counts": "|u1",
    "pretokenizer": None,
    "normalizer": None,
    "special_tokens": [],
}


def test_the_layout_is_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "a.counts"
    path.write_bytes(forged(HEADER))
    counts = bpe.WordCounts.load(path)
    assert list(counts.items()) == [(b"low", 7), (b"ab", 1)]
    wide = np.array([7, 2**63 - 8], "<u8").tobytes()
    path.write_bytes(forged({**HEADER, "lengths": "<u4", "counts": "<u8"}, np.array([3, 2], "<u4").tobytes(), wide))
    assert list(bpe.WordCounts.load(path).items()) == [(b"low", 7), (b"ab", 2**63 - 8)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (forged(HEADER, version=2), "is of version 2; this release reads version 1"),
        (forged([]), "header is not valid"),
        (forged(b"{"), "header is not valid"),
        (forged(b"\xff"), "header is not valid"),
        (forged(b"[" * 100_000), "header is not valid"),
        (forged({}), "header is not valid: 'pretokenizer'"),
        (forged({**HEADER, "words": 3}), "header declares 11 payload bytes; the file has 9"),
        (forged({**HEADER, "words": -1}), "words is -1; it must be at least 0"),
        (forged({**HEADER, "words": 1.0}), "words is 1.0, a float"),
        (forged({**HEADER, "words": 10**30}), "words is 1000"),
        (forged({**HEADER, "bytes": 4}), "header declares 8 payload bytes"),
        (forged({**HEADER, "bytes": -1}), "bytes is -1"),
        (forged({**HEADER, "lengths": "|i1"}), "lengths is '|i1'; it must be one of"),
        (forged({**HEADER, "lengths": "O"}), "lengths is 'O'; it must be one of"),
        (forged({**HEADER, "counts": "<f8"}), "counts is '<f8'; it must be one of"),
        (forged({**HEADER, "counts": ["|u1"]}), "counts is "),
        (forged(HEADER, lengths=b"\3\1"), "the lengths of the words are wrong"),
        (forged(HEADER, lengths=b"\5\0"), "the lengths of the words are wrong"),
        (
            forged({**HEADER, "lengths": "<u8"}, np.array([2**64 - 1, 6], "<u8").tobytes()),
            "the lengths of the words are wrong",
        ),
        (
            forged({**HEADER, "counts": "<u8"}, counts=np.array([2**63, 1], "<u8").tobytes()),
            f"a count is {2**63}; it must be at most",
        ),
        (
            forged({**HEADER, "counts": "<u8"}, counts=np.array([2**63 - 1, 1], "<u8").tobytes()),
            "the counts sum to more than",
        ),
        (forged({**HEADER, "bytes": 4}, b"\2\2", blob=b"abab"), "a word occurs twice"),
        (forged({**HEADER, "pretokenizer": {"type": "Nope"}}), "header is not valid"),
        (forged({**HEADER, "pretokenizer": 3}), "header is not valid"),
        (forged({**HEADER, "normalizer": {"type": "Nope"}}), "header is not valid"),
        (forged({**HEADER, "normalizer": 3}), "header is not valid"),
        (forged({**HEADER, "special_tokens": 3}), "header is not valid"),
        (forged({**HEADER, "special_tokens": [""]}), "header is not valid"),
        (COUNTS_FORMAT.magic + b"\0" * 44, "the checksum is wrong"),
        (COUNTS_FORMAT.magic, "the checksum is wrong"),
        (b"", "begins with b'', not b'BPECOUNT': this is not a file of word counts"),
    ],
)
def test_a_file_with_a_correct_checksum_is_validated_too(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.counts"
    path.write_bytes(data)
    with pytest.raises(bpe.FormatError) as caught:
        bpe.WordCounts.load(path)
    assert message in str(caught.value)
    assert caught.value.path == str(path)


# Interrupted saves ------------------------------------------------------------------------------------------------

SAVE = """
import os, sys, time
import bpe, bpe.base.atomic_files

def stop():
    print("here", flush=True)
    time.sleep(60)

class Slow:
    def __init__(self, file):
        self.file, self.parts = file, 0
    def write(self, part):
        self.file.write(part[: len(part) // 2])
        self.file.flush()
        self.parts += 1
        if self.parts == int(sys.argv[2]):
            stop()
        self.file.write(part[len(part) // 2 :])
    def __getattr__(self, name):
        return getattr(self.file, name)

from contextlib import contextmanager
import bpe.count.sealed_files
from bpe.base.atomic_files import atomic_write as whole

@contextmanager
def slow(path):
    with whole(path) as file:
        yield Slow(file)

if sys.argv[2] == "fsync":
    os.fsync = lambda number: stop()
elif sys.argv[2] == "rename":
    os.replace = lambda *paths: stop()
else:
    bpe.count.sealed_files.atomic_write = slow
counts = bpe.count_words(texts=["new newer newest"] * 3)
counts.save(sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["1", "2", "4", "5", "fsync", "rename"])
def test_a_save_that_is_killed_leaves_the_old_file(tmp_path: Path, moment: str) -> None:
    """The process is killed in a write, before the flush to disk, or before the renaming."""
    path = tmp_path / "a.counts"
    old = bpe.count_words(texts=["low lower"])
    old.save(path)
    before = path.read_bytes()
    with subprocess.Popen([sys.executable, "-c", SAVE, str(path), moment], stdout=subprocess.PIPE) as saving:
        assert saving.stdout is not None
        assert saving.stdout.readline() == b"here\n"
        saving.kill()
        assert saving.wait(timeout=120) == -signal.SIGKILL
    assert path.read_bytes() == before
    assert bpe.WordCounts.load(path) == old
    (half,) = (name for name in os.listdir(tmp_path) if name != path.name)
    assert half.endswith(".tmp"), "what was being written is not under a name that a pattern like *.counts finds"
    if moment.isdigit():
        with pytest.raises(bpe.FormatError):
            bpe.WordCounts.load(tmp_path / half)
    old.merge(old)
    old.save(path)
    assert bpe.WordCounts.load(path)["low"] == 2


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "a.counts"
    counts = bpe.count_words(texts=["low lower"])
    counts.save(path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    counts.add("more")
    with pytest.raises(OSError, match="No space left"):
        counts.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.counts"]


def test_words_have_a_limit_that_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.counts"
    bpe.count_words(texts=["low lower low"]).save(path)
    monkeypatch.setattr("bpe.count.sealed_files.max_words", 3)
    n_words = len(bpe.WordCounts.load(path))
    monkeypatch.setattr("bpe.count.sealed_files.max_words", n_words - 1)
    with pytest.raises(
        bpe.FormatError, match=rf"a\.counts.*has {n_words} words; at most .* \(bpe\.count\.sealed_files\."
    ):
        bpe.WordCounts.load(path)
