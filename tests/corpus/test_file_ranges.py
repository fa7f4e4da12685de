"""Files that several threads read in ranges: one result for all numbers of threads and sizes of ranges, and files that
are changed before they are opened or while they are read.

A pipe is read to its end before the next file is opened. So what the writer of a pipe does to the files after it,
before it writes, happens after they are listed and before they are opened.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import SOAK

import bpe
from bpe.corpus import reading, sources
from bpe.data import encode_shards
from bpe.encode import blocks as encoding

TEXT = "low lower lowest new newer newest wide wider widest 영화를 猫である é 😊 it's 123\n"
SEPARATORS = (None, "lines", "\n", "aa", "<|end|>", "é")
PARTS = [*"ab\n 1é猫", "aa", " low", "<|end|>", "<|end|>", "<|en", "ab", "😊b\n", " lower" * 9, "\n\n"]
TOKENIZER = bpe.train(texts=[TEXT] * 3, num_merges=40, pretokenizer="cl100k", special_tokens=["<|end|>", "ab"])


@pytest.fixture(params=[64, 1 << 16], ids=["ranges", "files"])
def small_ranges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of 64 bytes, or of a file, so that any number of threads works on small files."""
    set_ranges(monkeypatch, request.param)


def set_ranges(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr(reading, "MAX_READ", size)
    patch.setattr(reading, "MIN_READ", max(size // 3, 1))
    patch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)


def write_files(choose: random.Random, folder: Path) -> list[Path]:
    """Some files of random texts, of which some are empty, compressed or there twice."""
    paths = []
    for number in range(choose.randint(1, 9)):
        data = "".join(choose.choices(PARTS, k=choose.choice([0, 1, 5, 60, 400]))).encode()
        name = choose.choice(["txt", "txt", "txt.gz"])
        paths.append(folder / f"{number}.{name}")
        paths[-1].write_bytes(gzip.compress(data) if name == "txt.gz" else data)
    return choose.choices(paths, k=len(paths)) if choose.random() < 0.2 else paths


def naive_documents(paths: list[Path], separator: str | None) -> list[str]:
    texts = [(gzip.decompress if path.suffix == ".gz" else bytes)(path.read_bytes()).decode() for path in paths]
    if separator == "lines":
        return [line for text in texts for line in text.splitlines(keepends=True)]
    return [part for text in texts for part in ([text] if separator is None else text.split(separator))]


def source_of(paths: list[Path], separator: str | None) -> bpe.Sources:
    lines = separator == "lines"
    return bpe.Sources(paths, separator=None if lines else separator, per_line=lines)


# One result -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8, 16])
def test_ids_do_not_depend_on_threads_or_ranges(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(threads)
    for number in range(10 * SOAK):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths, separator = write_files(choose, folder), choose.choice(SEPARATORS)
        options: dict[str, Any] = {
            "allowed_special": choose.choice([(), "all"]),
            "prepend": choose.choice([None, 3, "<|end|>"]),
            "append": choose.choice([None, 5]),
        }
        expected = TOKENIZER.encode_batch(naive_documents(paths, separator), **options)
        set_ranges(monkeypatch, choose.choice([1, 3, 7, 40, 300, 5000]))
        assert TOKENIZER.encode_files(source_of(paths, separator), threads=threads, **options) == expected
        out = choose.choice([expected.ids.copy(), expected.ids.astype("uint16"), expected.ids[:0].repeat(2)])
        out = out if out.size else expected.ids.repeat(2)
        out[:] = 0
        written = TOKENIZER.encode_files(source_of(paths, separator), threads=threads, out=out, **options)
        assert written == expected
        assert not out.size or written.ids.size == 0 or written.ids.base is not None


@pytest.mark.parametrize("threads", [1, 2, 8, 16])
def test_counts_and_their_order_do_not_depend_on_threads_or_ranges(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = random.Random(threads)
    for number in range(6 * SOAK):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths, separator = write_files(choose, folder), choose.choice(SEPARATORS)
        expected = bpe.count_words(texts=naive_documents(paths, separator), special_tokens=["ab"])
        set_ranges(monkeypatch, choose.choice([1, 7, 40, 300, 5000]))
        counts = bpe.count_words(files=source_of(paths, separator), special_tokens=["ab"], threads=threads)
        assert list(counts.items()) == list(expected.items())


@pytest.mark.parametrize("form", ["native", "megatron"])
def test_shards_do_not_depend_on_threads_or_ranges(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    paths = write_files(random.Random(7), tmp_path / "in")
    contents: set[tuple[tuple[str, bytes], ...]] = set()
    for threads in (1, 2, 8, 16):
        for size in (7, 300):
            set_ranges(monkeypatch, size)
            folder = tmp_path / f"{threads}-{size}"
            encode_shards(source_of(paths, "\n"), TOKENIZER, folder, format=form, shard_size=100, threads=threads)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            contents.add(tuple((path.name, path.read_bytes()) for path in files))
    assert len(contents) == 1


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("ending", ["txt", "txt.gz", "jsonl", "jsonl.gz", "csv"])
@pytest.mark.parametrize("seed", range(2 * SOAK))
def test_bad_records_are_skipped_alike_with_and_without_a_kernel(
    seed: int, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts those that are not UTF-8, of other files the lines that are no records."""
    choose = random.Random(seed)
    paths = [tmp_path / f"{index}.{ending}" for index in range(choose.randint(1, 4))]
    for path in paths:
        data = make_bad_records(choose, ending.removesuffix(".gz"))
        path.write_bytes(gzip.compress(data) if ending.endswith(".gz") else data)
    options = {"separator": choose.choice([None, "<|end|>", "\n", "aa"])} if ending.startswith("txt") else {}
    results: list[tuple[Any, ...]] = []
    for threads in (1, 2, 8):  # the first without a kernel
        with monkeypatch.context() as patch:
            if not results:
                patch.setattr(bpe.Sources, "_count_units_for_kernel", lambda *_: 0)
            found = bpe.Sources(paths, on_error="skip", **options)
            ids = TOKENIZER.encode_files(found, threads=threads, allowed_special="all").to_list()
            n_skipped = [found.skipped]
            counts = bpe.count_words(files=found, threads=threads, pretokenizer="cl100k")
            n_skipped.append(found.skipped - n_skipped[0])
            results.append((ids, sorted(counts.items()), n_skipped, bpe.evaluate(TOKENIZER, found).to_dict()))
    assert results[1] == results[0]
    assert results[2] == results[0]


def test_bad_records_before_an_error_are_counted_once(tmp_path: Path) -> None:
    """Python code looks at a block again for the error of a symbol that has no id, and for special tokens."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"low\n<|end|>\xff\nlower\n")
    letters = bpe.train(texts=["low er"], vocab_size=8, model="char", pretokenizer="whitespace")
    found = bpe.Sources(path, separator="\n", on_error="skip")
    assert letters.encode_files(found).to_list()[0]
    assert found.skipped == 1
    assert TOKENIZER.encode_files(found, disallowed_special="all").to_list()[0]
    assert found.skipped == 2
    path.write_bytes(b"low\n\xff\nzebra\n")
    found = bpe.Sources(path, separator="\n", on_error="skip")
    with pytest.raises(ValueError, match="character 'z' of the text"):
        letters.encode_files(found)
    assert found.skipped == 1


def make_bad_records(choose: random.Random, ending: str) -> bytes:
    """Make the content of a file, a third of whose documents are bad."""
    texts = ["".join(choose.choices(PARTS, k=choose.randint(0, 30))) for _ in range(choose.randint(0, 40))]
    if ending == "txt":
        bad = [b"", b"", b"\xff", b"\xc3"]
        return b"".join(text.encode() + choose.choice(bad) + b"<|end|>\n" for text in texts)
    if ending == "jsonl":
        bad_lines = [b"{", b"[]", b'{"text": null}', b"{}", b'{"text": "\xff"}', b""]
        lines = [
            choose.choice(bad_lines) if choose.random() < 0.3 else json.dumps({"text": text}).encode() for text in texts
        ]
        return b"\n".join(lines)
    rows = [
        choose.choice([b"1,2,3", b"\xff,1", b"one", b""]) if choose.random() < 0.3 else b'"%b",1' % text.encode()
        for text in texts
    ]
    return b"text,n\n" + b"\n".join(rows)


# Files that are changed -----------------------------------------------------------------------------------------------


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\nmore text" * 50)


def overwrite(path: Path) -> None:
    with path.open("rb+") as file:
        file.write(b"\nchanged")


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"\nanother text" * 40)
    other.replace(path)


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CALLS: dict[str, Callable[[list[Path], int], Any]] = {
    "encode": lambda paths, threads: TOKENIZER.encode_files(paths, threads=threads).to_list(),
    "lines": lambda paths, threads: TOKENIZER.encode_files(paths, per_line=True, threads=threads).to_list(),
    "count": lambda paths, threads: list(bpe.count_words(files=paths, threads=threads).items()),
}


#: One thread reads alike whatever is made of the blocks.
each_call = pytest.mark.parametrize(
    ("call", "threads"), [pytest.param(CALLS["count"], 1, id="count-1"), *((call, 8) for call in CALLS.values())]
)


@pytest.fixture
def open_files() -> Iterator[None]:
    """No descriptor stays open, whatever the test does."""
    before = count_descriptors()
    yield
    assert count_descriptors() <= before


def count_descriptors() -> int:
    gc.collect()  # an error's traceback may hold the reader
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def call_with_change(paths: list[Path], change: Callable[[Path], None], call: Any, threads: int) -> Any:
    """Make a call that reads a pipe, then the files, the last of which is changed before it is opened."""
    pipe = paths[0].with_name("pipe")
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb") as file:
            change(paths[-1])
            file.write(TEXT.encode() * 20)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return call([pipe, *paths], threads)
    finally:
        writer.join()
        pipe.unlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.usefixtures("small_ranges", "open_files")
@each_call
@pytest.mark.parametrize("change", [shrink, grow, overwrite, replace, Path.unlink, become_folder])
def test_a_file_that_is_changed_before_it_is_opened(
    change: Callable[[Path], None], call: Any, threads: int, tmp_path: Path
) -> None:
    """It is read as it is then, or the error names it."""
    paths = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in paths:
        path.write_bytes(b"\n" + TEXT.encode() * 30)
    first = tmp_path / "first"
    first.write_bytes(TEXT.encode() * 20)
    if change in (Path.unlink, become_folder):
        with pytest.raises(OSError, match=r"2\.txt"):
            call_with_change(paths, change, call, threads)
    else:
        result = call_with_change(paths, change, call, threads)
        assert result == call([first, *paths], 1)


@pytest.mark.usefixtures("small_ranges", "open_files")
@each_call
@pytest.mark.parametrize("change", [shrink, grow, overwrite, replace, Path.unlink])
def test_a_file_that_is_changed_while_it_is_read(
    change: Callable[[Path], None], call: Any, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that loses its name is read as it was; another change is an error that names the file."""
    paths = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in paths:
        path.write_bytes(b'[{"' + TEXT.encode() * 30)
        os.utime(path, ns=(1, 1))
    expected = call(paths, 1)
    changed = threading.Lock()

    def warn_about_text(_: bytes, name: str, *__: Any) -> None:
        if name.endswith("1.txt") and changed.acquire(blocking=False):
            change(paths[1])

    monkeypatch.setattr(sources, "warn_about_text", warn_about_text)  # called while the file is open
    if change in (replace, Path.unlink):
        assert call(paths, threads) == expected
    else:
        with pytest.raises(OSError, match=r"1\.txt (got shorter|was changed) while it was read"):
            call(paths, threads)
    assert changed.locked()


@pytest.mark.usefixtures("small_ranges", "open_files")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_many_files_need_few_descriptors(call: Any, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    paths = [tmp_path / f"{number}.txt" for number in range(400)]
    for number, path in enumerate(paths):
        path.write_bytes(TEXT.encode() * (number % 3 + 1))
    expected = call(paths, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, hard))
    try:
        assert call(paths, 8) == expected
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("small_ranges", "open_files")
@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_error_of_the_first_file_is_raised(call: Any, threads: int, tmp_path: Path) -> None:
    """Of files that are not UTF-8, the first is named with the offset, whichever thread has read its range first."""
    paths = [tmp_path / f"{number}.txt" for number in range(6)]
    for number, path in enumerate(paths):
        path.write_bytes(TEXT.encode() * 9 + (b"\xff" + TEXT.encode() * 9 if number in (2, 3, 5) else b""))
    for _ in range(5):
        with pytest.raises(bpe.FormatError, match=r"2\.txt") as caught:
            call(paths, threads)
        assert caught.value.where == f"offset {len(TEXT.encode()) * 9}"
    shutil.copy(paths[0], paths[2])
    with pytest.raises(bpe.FormatError, match=r"3\.txt"):
        call(paths, threads)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_pipe_that_is_read_in_several_parts_is_written_to_an_array(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "READ_AHEAD_BYTES", 500)
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 30)
    expected = TOKENIZER.encode_files([path, path]).ids
    for dtype in (np.uint32, np.uint16):
        # The array is part of another one, which is not where the ids begin.
        out = np.zeros(len(expected) + 9, dtype=dtype)[4:]
        batch = call_with_change([path], lambda _: None, partial(encode_pipe_into, out), threads)
        assert batch.ids.tolist() == [*TOKENIZER.encode(TEXT * 20).tolist(), *TOKENIZER.encode(TEXT * 30).tolist()]
        assert np.shares_memory(batch.ids, out)


def encode_pipe_into(out: Any, paths: list[Path], threads: int) -> bpe.TokenBatch:
    return TOKENIZER.encode_files(paths, threads=threads, out=out)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("threads", [1, 3])
def test_an_array_that_is_not_aligned_or_has_gaps_gets_the_ids(threads: int, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 30)
    expected = TOKENIZER.encode_files(path).ids
    size = len(expected)
    unaligned = np.frombuffer(bytearray(4 * size + 1), dtype=np.uint8)[1:].view(np.uint32)
    for out in (unaligned, np.zeros(2 * size, dtype=np.uint32)[::2], np.zeros(size, dtype=np.uint16)):
        assert TOKENIZER.encode_files(path, threads=threads, out=out).ids.tolist() == expected.tolist()
        assert out.tolist() == expected.tolist()
    with pytest.raises(ValueError, match=f"out has room for 5 ids, and there are {size}"):
        TOKENIZER.encode_files(path, threads=threads, out=np.zeros(5, dtype=np.uint32))
