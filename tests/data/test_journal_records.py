"""Damaged records of the journal: each is refused in words, or the run gives the bytes of an undisturbed one."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import lzma
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from shard_corpus import END, make_texts, open_sources, read_files, small_groups, tokenizer, write_corpus
from strategies import SOAK

import bpe
from bpe.data import Manifest, encode_shards, journal, outputs
from bpe.data.manifest import ShardEntry
from bpe.errors import FormatError

__all__ = ["small_groups", "tokenizer"]  # fixtures

WAYS: dict[str, dict[str, Any]] = {
    "in order": {"shard_size": 800},
    "split": {"shard_size": 800, "validation": 0.3},
    "shuffled": {"seed": 1, "shards": 4, "validation": 0.3},
    "in buckets": {"seed": 1, "shards": 4},
}
RECORDS = {"in order": 4, "split": 4, "shuffled": 6, "in buckets": 2}
DEEP: list[Any] = []
for _ in range(2000):
    DEEP = [DEEP]


class StopError(Exception):
    """Ends a run."""


class Begun:
    """A run that stopped after some steps, and the result of an undisturbed one."""

    def __init__(self, folder: Path, tokenizer: bpe.Tokenizer, way: str, paths: list[Path] | None = None) -> None:
        self._folder, self._tokenizer, self._options = folder, tokenizer, WAYS[way]
        self._paths = paths or write_corpus(folder / "corpus", make_texts(31, 150))
        self._expected = self._encode("whole")
        self.steps = 0

        def stop(event: str) -> None:
            self.steps += event == "recorded"
            if self.steps == RECORDS[way]:
                raise StopError

        journal.failpoint = stop
        try:
            with pytest.raises(StopError):
                self._encode("half")
        finally:
            journal.failpoint = None
        self.lines = (folder / "half" / journal.JOURNAL_NAME).read_bytes().splitlines(keepends=True)

    def _encode(self, name: str) -> dict[str, bytes]:
        is_text = ".txt" in self._paths[0].name
        corpus = open_sources(self._paths) if is_text else bpe.Sources(self._paths)
        encode_shards(corpus, self._tokenizer, self._folder / name, threads=1, **self._options)
        return read_files(self._folder / name)

    def refuses(self, data: bytes) -> bool:
        """Whether a run with this journal is refused; else its result must be right."""
        shutil.rmtree(self._folder / "out", ignore_errors=True)
        shutil.copytree(self._folder / "half", self._folder / "out")
        (self._folder / "out" / journal.JOURNAL_NAME).write_bytes(data)
        try:
            contents = self._encode("out")
        except ValueError as error:
            return "remove" in str(error) or bool(pytest.fail(f"{error} names no fix"))
        assert contents == self._expected
        return False


@pytest.fixture(params=WAYS)
def begun(request: Any, tmp_path: Path, tokenizer: bpe.Tokenizer, small_groups: None, monkeypatch: Any) -> Begun:
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 6000)
    return Begun(tmp_path, tokenizer, request.param)


def test_bytes(begun: Begun) -> None:
    """Changed bits, and bytes that are lost, added or zero."""
    data, random = b"".join(begun.lines), Random(0)
    assert not begun.refuses(data)
    for _ in range(15 * SOAK):
        offset, changed_data = random.randrange(len(data)), bytearray(data)
        if random.random() < 0.6:
            changed_data[offset] ^= 1 << random.randrange(8)
        elif random.random() < 0.5:
            del changed_data[offset : offset + random.randrange(1, 30)]
        else:
            changed_data[offset : offset + 4] = random.choice([bytes(4), b'"', b"0", b"\n", b"\xff"])
        begun.refuses(bytes(changed_data))
    for length in (len(data) - 1, len(data) - 20):  # as after a crash
        assert not begun.refuses(data[:length])


def find_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from find_paths(value[key], (*path, key))


def test_values_with_a_right_checksum(begun: Begun) -> None:
    random = Random(1)
    accepted = 0
    for _ in range(20 * SOAK):
        index = random.randrange(1, len(begun.lines))
        record = json.loads(begun.lines[index])
        del record["crc32"]
        path = random.choice([keys for keys in find_paths(record) if keys and keys[0] != "used"])
        parent = record
        for key in path[:-1]:
            parent = parent[key]
        old = parent[path[-1]]
        values = [None, -1, 0, 1.5, "x", [], {}, 2**70, True, [old]]
        values += [old + 1, old - 1, old + 20] * 3 if type(old) is int else []
        values += [old[:-1], old + old[:1], old[::-1]] * 3 if isinstance(old, list) else []
        parent[path[-1]] = random.choice(values)
        line = journal._format_line(record)
        accepted += not begun.refuses(b"".join([*begun.lines[:index], line, *begun.lines[index + 1 :]]))
    assert accepted < 10 * SOAK  # values that change nothing


def test_lines(begun: Begun) -> None:
    for index in range(1, len(begun.lines)):
        lines_before, line, lines_after = begun.lines[:index], begun.lines[index], begun.lines[index + 1 :]
        begun.refuses(b"".join([*lines_before, *lines_after]))
        begun.refuses(b"".join([*lines_before, line, line, *lines_after]))
    deep_list = b"[" * 5000 + b"]" * 5000
    for line in (b"7\n", b"null\n", b"\n", b'{"crc32": 1}\n', deep_list + b"\n", b'{"next": ' + b"9" * 5000 + b"}\n"):
        assert begun.refuses(b"".join([*begun.lines, line]))
        assert begun.refuses(b"".join([line, *begun.lines[1:]]))


def test_the_error_names_the_line_the_rule_and_the_fix(begun: Begun, tmp_path: Path, tokenizer: bpe.Tokenizer) -> None:
    begun.lines[1] = begun.lines[1].replace(b'"next"', b'"text"')
    path = tmp_path / "half" / journal.JOURNAL_NAME
    path.write_bytes(b"".join(begun.lines))
    with pytest.raises(FormatError, match=r"journal\.jsonl, line 2: .* its crc32 is .*; to start over, remove .*half"):
        begun._encode("half")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_no_journal(tmp_path: Path, tokenizer: bpe.Tokenizer) -> None:
    (path,) = write_corpus(tmp_path / "corpus", ["low"], 1)
    for name, make in (("folder", os.mkdir), ("pipe", os.mkfifo), ("link", lambda at: os.symlink("/dev/zero", at))):
        (tmp_path / name).mkdir()
        make(tmp_path / name / journal.JOURNAL_NAME)
        with pytest.raises(FormatError, match="this is no journal"):
            encode_shards(open_sources([path]), tokenizer, tmp_path / name)


def test_finished_shards_are_compared_with_their_files(begun: Begun, tmp_path: Path) -> None:
    shards = [*(tmp_path / "half").glob("*.npy")]
    if not shards:  # in buckets
        bucket = next(path for path in sorted((tmp_path / "half" / ".buckets").iterdir()) if path.stat().st_size)
        os.truncate(bucket, 0)
        assert not begun.refuses(b"".join(begun.lines))  # they are made again
        return
    data = bytearray(shards[0].read_bytes())
    data[-1] ^= 1
    shards[0].write_bytes(data)
    with pytest.raises(ValueError, match=r"a finished shard is damaged, or the journal is: .*CRC-32"):
        begun._encode("half")


def test_lost_buckets_of_a_finished_reading_are_refused(
    tmp_path: Path, tokenizer: bpe.Tokenizer, small_groups: None
) -> None:
    begun = Begun(tmp_path, tokenizer, "in buckets")  # with one checkpoint, after all documents
    shutil.rmtree(tmp_path / "half" / ".buckets")
    with pytest.raises(ValueError, match=r"bucket files in .* are missing now"):
        begun._encode("half")


def test_a_manifest_that_cannot_be_opened_is_not_written(tmp_path: Path) -> None:
    entry = ShardEntry("a:b", 1, 1, ())
    with pytest.raises(FormatError, match="it must be a list with the shard's files"):
        Manifest("native", "uint16", (entry,)).write(tmp_path)
    assert not os.listdir(tmp_path)


def write_file(folder: Path, name: str, texts: list[str]) -> Path:
    """A file of this name, whose endings say what it is."""
    path = folder / name
    kind, _, packed = name.partition(".")[2].partition(".")
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"text": texts}), path, row_group_size=40)
        return path
    if kind == "csv":
        rows = io.StringIO()
        lines = [["text"], *([text.replace(" low", "\nlow")] for text in texts)]
        csv.writer(rows, lineterminator="\n").writerows(lines)
        data = rows.getvalue().encode()
    elif kind == "jsonl":
        data = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)
    else:
        data = "".join(text + END for text in texts).encode()
    path.write_bytes({"": bytes, "gz": gzip.compress, "xz": lzma.compress}[packed](data))
    return path


@pytest.mark.parametrize(
    ("name", "way"),
    [(name, "in order") for name in ("a.txt.gz", "a.txt", "a.jsonl.xz", "a.csv", "a.csv.gz", "a.parquet")]
    + [("a.csv.gz", "in buckets")],
)
def test_forged_positions_in_files_of_all_kinds(
    tmp_path: Path, tokenizer: bpe.Tokenizer, small_groups: None, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    """A place of the journal that another hand has changed, checksum included, moves no document."""
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 6000)
    monkeypatch.setattr("bpe.corpus.parquet.MAX_ROWS", 15)
    texts = [text or "low" for text in make_texts(37, 150)]
    begun = Begun(tmp_path, tokenizer, way, [write_file(tmp_path, name, texts)])
    last_index = max(i for i, line in enumerate(begun.lines) if json.loads(line).get("next"))
    changes = [{0: 1}, {1: 1}, {1: -7}, {2: 1}, {3: 1}, {3: -1}, {4: 1}, {4: -1}, {3: -1, 4: 1}, {3: 1, 4: -1}]
    changes += [{2: 1, 3: -1}, {1: 1, 2: -15}, {1: 9, 3: -1, 4: 1}]
    assert not begun.refuses(b"".join(begun.lines[: last_index + 1]))
    for change in changes:
        record = json.loads(begun.lines[last_index])
        del record["crc32"]
        for index, step in change.items():
            record["next"][index] += step
        begun.refuses(b"".join([*begun.lines[:last_index], journal._format_line(record)]))


# Going on with what has changed ---------------------------------------------------------------------------------------


def make_lines(index: int, bad: bool) -> bytes:
    lines = [json.dumps({"text": f"low lower {index} {i}" * (i % 7 * 5)}).encode() + b"\n" for i in range(60)]
    return b"".join([b'{"text": \n' if bad else lines[0], *lines[1:]])


@pytest.mark.parametrize(
    ("change", "way"),
    [(change, "in order") for change in ("mended", "left out", "skipped", "renamed", "used")]
    + [("mended", "split"), ("skipped", "in buckets")],
)
def test_only_what_finished_steps_used_must_be_the_same(
    tmp_path: Path, tokenizer: bpe.Tokenizer, small_groups: None, monkeypatch: pytest.MonkeyPatch, way: str, change: str
) -> None:
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 1500)
    monkeypatch.chdir(tmp_path)
    names = [f"{number}.jsonl" for number in range(4)]
    for number, name in enumerate(names):
        Path(name).write_bytes(make_lines(number, number == 2))
    with pytest.raises(FormatError, match=r"2\.jsonl, line 1"):
        encode_shards(bpe.Sources(names), tokenizer, "out", **WAYS[way])
    assert Path("out", journal.JOURNAL_NAME).read_text().count("\n") > 1
    options: dict[str, Any] = {}
    if change == "mended":
        Path(names[2]).write_bytes(make_lines(2, bad=False))
    elif change == "left out":
        del names[2]
    elif change == "skipped":
        options = {"on_error": "skip", "encoding_errors": "replace"}
    elif change == "renamed":
        names, options = [f"./{name}" for name in names], {"on_error": "skip"}
    else:
        Path(names[0]).write_bytes(make_lines(9, bad=False))
        with pytest.raises(ValueError, match="out was made from other sources"):
            encode_shards(bpe.Sources(names, on_error="skip"), tokenizer, "out", **WAYS[way])
        return

    def stop(_: str) -> None:
        raise StopError

    monkeypatch.setattr(journal, "failpoint", stop)  # the journal has the new header then
    with pytest.raises(StopError):
        encode_shards(bpe.Sources(names, **options), tokenizer, "out", **WAYS[way])
    monkeypatch.setattr(journal, "failpoint", None)
    encode_shards(bpe.Sources(names, **options), tokenizer, "out", **WAYS[way])
    encode_shards(bpe.Sources(names, **options), tokenizer, "whole", **WAYS[way])
    assert read_files(Path("out")) == read_files(Path("whole"))


@pytest.mark.parametrize(
    ("name", "way"),
    [(name, "in order") for name in ("a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.xz", "a.csv", "a.parquet")]
    + [("a.txt", "split"), ("a.jsonl.xz", "split"), ("a.jsonl", "in buckets"), ("a.parquet", "in buckets")],
)
def test_a_file_that_is_mended_behind_what_shards_have(
    tmp_path: Path, tokenizer: bpe.Tokenizer, small_groups: None, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    """A single file whose bad record stopped the run: mended, it is gone on with, and the result is that of all of it.

    A change in the part that shards were made of is refused.
    """
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 1500)
    monkeypatch.setattr("bpe.corpus.parquet.MAX_ROWS", 15)
    texts = [each or "low" for each in make_texts(37, 150)]
    marked = [*texts]
    marked[120] = "@"  # becomes a byte that no text has
    path, given = tmp_path / name, {"separator": END} if ".txt" in name else {}

    def encode(out: str) -> None:
        encode_shards(bpe.Sources(path, **given), tokenizer, tmp_path / out, threads=1, **WAYS[way])

    def put(texts: list[str], time: int) -> None:
        replaced = write_file(tmp_path, name, texts)
        if "@" in texts and name != "a.parquet":
            packed = {".gz": gzip, ".xz": lzma}.get(path.suffix)
            data = replaced.read_bytes() if packed is None else packed.decompress(replaced.read_bytes())
            data = data.replace(b"@", b"\xff")
            path.write_bytes(data if packed is None else packed.compress(data))
        elif "@" in texts:
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            cells = [each.encode().replace(b"@", b"\xff") for each in texts]
            pq.write_table(pa.table({"text": pa.array(cells, pa.binary())}), path, row_group_size=40)
        os.utime(path, (time, time))

    put(marked, 1000)
    for _ in range(50):  # how much was written before the error depends on the threads
        with pytest.raises(FormatError, match="UTF-8"):
            encode("out")
        if (tmp_path / "out" / journal.JOURNAL_NAME).read_text().count("\n") > 1:
            break
    else:
        pytest.fail("no step was recorded")
    texts[120] = "newest widest"
    put(texts, 2000)
    other = ["wider", *texts[1:]]
    shutil.copytree(tmp_path / "out", tmp_path / "other")
    encode("out")
    encode("whole")
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")
    put(other, 3000)
    with pytest.raises(ValueError, match=r"made from other sources: the size of|been modified since"):
        encode("other")


def test_another_way_to_write_a_name_is_the_same_file(
    tmp_path: Path, tokenizer: bpe.Tokenizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mv").write_text("low" + END)
    Path("link").symlink_to("mv")
    for name in ("mv", "./mv", str(tmp_path / "mv"), f"../{tmp_path.name}/mv", "link"):
        with caplog.at_level(logging.INFO, "bpe"):
            encode_shards(bpe.Sources(name, separator=END), tokenizer, "out")
    assert caplog.text.count("nothing to do") == 4
