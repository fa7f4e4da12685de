"""`encode_shards` after a kill, a full disk, Ctrl-C or an error: the same call goes on, and the result is the same."""

from __future__ import annotations

import errno
import gzip
import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from shard_corpus import (
    END,
    WORDS,
    make_texts,
    open_sources,
    read_files,
    run_until_killed,
    small_groups,
    tokenizer,
    write_corpus,
)
from strategies import SOAK

import bpe
from bpe.corpus import reading
from bpe.data import encode_shards, grouping, journal, outputs
from bpe.errors import FormatError

__all__ = ["small_groups", "tokenizer"]  # fixtures

WAYS: dict[str, dict[str, Any]] = {
    "in order": {"shard_size": 3000},
    "three files": {"format": "datatrove", "append": None, "shard_size": 3000},
    "one shard": {"format": "nanogpt", "append": None},
    "split": {"shard_size": 3000, "validation": 0.3},
    "shuffled": {"shards": 3, "seed": 5, "validation": 0.2},
    "megatron": {"shard_size": 2000, "format": "megatron", "append": END},
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("small_groups")
def test_kills_at_chosen_events(tmp_path, tokenizer, monkeypatch, way):
    """A kill at the first and the last events, and at some between."""
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 8000)
    paths = write_corpus(tmp_path / "c", make_texts(11, 80))
    events: list[str] = []
    monkeypatch.setattr(journal, "failpoint", events.append)
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole", threads=1, **WAYS[way])
    monkeypatch.setattr(journal, "failpoint", None)
    expected = read_files(tmp_path / "whole")
    for number, event in enumerate(sorted({*range(0, len(events), len(events) // (3 * SOAK) + 1), len(events) - 2})):
        out = tmp_path / f"out{event}"

        def run(threads: int, out: Path = out) -> bpe.data.Manifest:
            return encode_shards(open_sources(paths), tokenizer, out, threads=threads, **WAYS[way])

        assert run_until_killed(event, lambda: run(1))
        if number % 3 == 0:
            run_until_killed(event // 2, lambda: run(2))  # once more, with other threads
        run(1 + number % 2)
        assert read_files(out) == expected, f"killed at event {event}, {events[event]}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("small_groups")
def test_kills_one_after_the_other(tmp_path, tokenizer, monkeypatch):
    """Every run gets a little further than the one before, in another number of threads."""
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 8000)
    paths = write_corpus(tmp_path / "c", make_texts(12, 150))
    for way in ("in order", "shuffled"):
        encode_shards(open_sources(paths), tokenizer, tmp_path / f"{way} whole", **WAYS[way])
        out = tmp_path / way
        runs = 0
        while run_until_killed(
            15, lambda out=out, way=way: encode_shards(open_sources(paths), tokenizer, out, **WAYS[way])
        ):
            runs += 1
            assert runs < 30, "no progress"
        assert runs > 1
        assert read_files(out) == read_files(tmp_path / f"{way} whole")


def test_real_kills_at_random_moments(tmp_path, tokenizer):
    """Processes killed from outside, while they run the command line."""
    paths = write_corpus(tmp_path / "c", make_texts(13, 6000))
    tokenizer.save(tmp_path / "t.json")
    command = [sys.executable, "-m", "bpe", "encode", *map(str, paths), "--separator", END, "--shard-size", "20000"]
    command += ["-t", str(tmp_path / "t.json"), "--format", "native", "--threads", "2", "--quiet", "-o"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    expected = read_files(tmp_path / "whole")
    random = Random(0)
    out = tmp_path / "out"
    for _ in range(3):
        process = subprocess.Popen([*command, str(out)])
        deadline = time.monotonic() + 20
        while not (out / "journal.jsonl").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(random.random() * 0.1)
        process.kill()
        process.wait()
    subprocess.run([*command, str(out)], check=True)
    assert read_files(out) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("ending", [".jsonl", ".csv.gz", ".parquet", ".txt", " mixed"])
@pytest.mark.usefixtures("small_groups")
def test_bad_records_are_counted_over_all_runs(tmp_path, tokenizer, monkeypatch, ending):
    """The manifest has the number of an undisturbed run, however often the command was killed."""
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 4000)
    monkeypatch.setattr(reading, "MAX_READ", 2000)
    endings = [".jsonl", ".parquet", ".csv"] if ending == " mixed" else [ending] * 3
    paths = [tmp_path / f"{number}{end}" for number, end in enumerate(endings)]
    for number, path in enumerate(paths):
        write_with_bad_records(path, make_texts(20 + number, 120))
    options = {"separator": END} if ending == ".txt" else {}
    assert bpe.Sources(paths).kernel_reads_all == (ending not in (".parquet", " mixed"))

    def encode(out: str, way: str) -> bpe.data.Manifest:
        return encode_shards(
            bpe.Sources(paths, on_error="skip", **options),
            tokenizer,
            tmp_path / out,
            **WAYS[way],
        )

    for way in ("in order", "shuffled") if ending in (".jsonl", " mixed") else ("in order",):
        whole = encode(f"{way} whole", way)
        assert whole.skipped == 3 * (120 // 7 + 1)
        runs = 0
        while run_until_killed(24, lambda way=way: encode(way, way)):
            runs += 1
            assert runs < 30, "no progress"
        assert runs
        assert encode(way, way) == whole
        assert read_files(tmp_path / way) == read_files(tmp_path / f"{way} whole")


@pytest.mark.parametrize(
    ("ending", "threads"), [(".jsonl", 1), (".jsonl", 2), (".csv", 5), (".csv.gz", 2), (".txt", 1), (".txt", 5)]
)
@pytest.mark.usefixtures("small_groups")
def test_resume_points_count_the_bad_records_before_them(tmp_path, tokenizer, ending, threads):
    """Where threads read blocks side by side, too. The naive twin reads what is before a point from another file."""
    paths = [tmp_path / f"{number}{ending}" for number in range(4)]
    for path, size in zip(paths, [120, 0, 1, 90], strict=True):
        write_with_bad_records(path, make_texts(40 + size, size))
    options = {"separator": END, "separator_ends": True} if ending == ".txt" else {}

    def read(data: bytes) -> tuple[int, int]:
        (tmp_path / f"part{ending}").write_bytes(gzip.compress(data) if ending == ".csv.gz" else data)
        part = bpe.Sources(tmp_path / f"part{ending}", on_error="skip", **options)
        return sum(1 for _ in part.documents()), part.skipped

    texts = [gzip.decompress(path.read_bytes()) if ending == ".csv.gz" else path.read_bytes() for path in paths]
    totals = [read(text) for text in texts]
    sources = bpe.Sources(paths, on_error="skip", **options)
    assert sources.kernel_reads_all
    groups = list(grouping.GroupEncoder(sources, tokenizer._engine, (None, None), frozenset()).encode(threads))
    n_runs = 0
    for group in groups:
        for run in group.runs:
            n_documents, n_bad = read(texts[run.file_index][: run.offset])
            n_bad += sum(skipped for _, skipped in totals[: run.file_index])
            assert (run.index_in_file, run.bad_records) == (n_documents, n_bad)
            n_runs += 1
    assert n_runs > 8
    assert sum(group.n_complete for group in groups) == sum(n_documents for n_documents, _ in totals)
    assert sources.skipped == sum(skipped for _, skipped in totals)


def write_with_bad_records(path: Path, texts: list[str]) -> None:
    """Write documents as a file of the format that its name says, every seventh of them bad."""
    bad_rows = [index % 7 == 0 for index in range(len(texts))]
    rows = list(zip(texts, bad_rows, strict=True))
    if path.suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"text": [None if is_bad else text for text, is_bad in rows]}), path, row_group_size=25)
    elif path.suffix == ".jsonl":
        path.write_text("".join("{\n" if is_bad else json.dumps({"text": text}) + "\n" for text, is_bad in rows))
    elif ".csv" in path.suffixes:
        quoted = ("too,many,cells\n" if is_bad else f'"{text}",1\n' for text, is_bad in rows)
        data = ("text,n\n" + "".join(quoted)).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    else:
        path.write_bytes(b"".join((b"\xff" if is_bad else text.encode()) + END.encode() for text, is_bad in rows))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("small_groups")
def test_standard_input_is_read_again_from_its_beginning(tmp_path, tokenizer, monkeypatch, caplog):
    """A run that was killed goes on with the same input, of which it leaves out what it has."""
    (path,) = write_corpus(tmp_path / "c", make_texts(23, 100), 1)

    def encode(out: str) -> bpe.data.Manifest:
        with open(path) as file:
            monkeypatch.setattr("sys.stdin", file)
            return encode_shards(bpe.Sources("-", separator=END), tokenizer, tmp_path / out, shard_size=1500)

    encode("whole")
    assert run_until_killed(14, lambda: encode("out"))
    with caplog.at_level("INFO", logger="bpe"):
        encode("out")
    assert "the pipe must give the same text from its beginning again" in caplog.text
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")


# The journal ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path, tokenizer, small_groups) -> tuple[list[Path], Path]:
    """A folder that was killed after three shards."""
    paths = write_corpus(tmp_path / "c", make_texts(14, 200))
    out = tmp_path / "out"
    run_until_killed(20, lambda: encode_shards(open_sources(paths), tokenizer, out, shard_size=1500))
    assert (out / journal.JOURNAL_NAME).read_text().count("\n") > 2
    return paths, out


def test_a_line_that_is_cut_off_is_written_again(begun, tmp_path, tokenizer):
    paths, out = begun
    name = out / journal.JOURNAL_NAME
    whole = name.read_bytes()
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole", shard_size=1500)
    name.write_bytes(whole[:-7])
    encode_shards(open_sources(paths), tokenizer, out, shard_size=1500)
    assert read_files(out) == read_files(tmp_path / "whole")


def test_a_damaged_journal_is_refused(begun, tokenizer):
    paths, out = begun
    name = out / journal.JOURNAL_NAME
    name.write_bytes(b"{]\n" + name.read_bytes())
    with pytest.raises(FormatError, match="no journal"):
        encode_shards(open_sources(paths), tokenizer, out, shard_size=1500)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"shard_size": 1600}, "shard_size was 1500 and is 1600"),
    ({"shard_size": 1500, "allowed_special": "all"}, r"allowed_special \(--allow-special\) was False and is True"),
    ({"shard_size": 1500, "seed": 1}, r"seed \(--shuffle\) was None"),
])  # fmt: skip
def test_other_options_are_refused_while_unfinished(begun, tokenizer, arguments, message):
    paths, out = begun
    with pytest.raises(ValueError, match=message):
        encode_shards(open_sources(paths), tokenizer, out, **arguments)


@pytest.mark.parametrize("shuffle", [None, 1])
def test_an_attempt_without_a_finished_shard_does_not_block_others(tmp_path, tokenizer, caplog, shuffle):
    path, out = tmp_path / "a.jsonl", tmp_path / "out"
    path.write_text('{"text": "low"}\n{"content": "new"}\n')
    other = bpe.train(texts=["low"], vocab_size=260, special_tokens=[END])
    with pytest.raises(FormatError, match="line 2"):
        encode_shards(bpe.Sources(path), other, out, seed=shuffle)
    assert (out / journal.JOURNAL_NAME).exists()
    caplog.set_level(logging.INFO, "bpe")
    encode_shards(bpe.Sources(path, on_error="skip"), tokenizer, out)
    assert "has no finished shard; starting anew" in caplog.text
    encode_shards(bpe.Sources(path, on_error="skip"), tokenizer, tmp_path / "whole")
    assert read_files(out) == read_files(tmp_path / "whole")


def test_other_files_in_a_failed_attempt_are_left_alone(tmp_path, tokenizer):
    path, out = tmp_path / "a.jsonl", tmp_path / "out"
    path.write_text('{"content": "new"}\n')
    with pytest.raises(FormatError):
        encode_shards(bpe.Sources(path), tokenizer, out)
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="other sources: field was 'text' and is 'content'"):
        encode_shards(bpe.Sources(path, field="content"), tokenizer, out)
    assert (out / "thesis.tex").exists()


def test_a_source_that_was_written_again_is_refused(begun, tokenizer):
    paths, out = begun
    text = paths[0].read_bytes()
    paths[0].write_bytes(text[:-40] + b"x" * (40 - len(END)) + END.encode())
    os.utime(paths[0], ns=(1, 1))
    with pytest.raises(ValueError, match="a file has been modified since"):
        encode_shards(open_sources(paths), tokenizer, out, shard_size=1500)


def test_another_tokenizer_is_refused(begun):
    paths, out = begun
    other = bpe.train(texts=["low"], vocab_size=260, special_tokens=[END])
    with pytest.raises(ValueError, match="the tokenizer's fingerprint was"):
        encode_shards(open_sources(paths), other, out, shard_size=1500)


def test_a_finished_shard_that_is_gone_is_an_error(begun, tokenizer):
    paths, out = begun
    (out / "tokens-00001.npy").unlink()
    with pytest.raises(ValueError, match=r"tokens-00001.npy was finished, and is missing now"):
        encode_shards(open_sources(paths), tokenizer, out, shard_size=1500)


def test_leftovers_are_removed(begun, tokenizer):
    paths, out = begun
    (out / ".tokens-00007.npy.bpe-0123456789abcdef.tmp").write_bytes(b"half")
    encode_shards(open_sources(paths), tokenizer, out, shard_size=1500)
    assert not [name for name in read_files(out) if name.startswith(".")]


def test_two_processes_cannot_write_to_one_folder(begun, tokenizer):
    paths, out = begun
    with journal.lock_folder(out), pytest.raises(ValueError, match="another process is writing to"):
        encode_shards(open_sources(paths), tokenizer, out, shard_size=1500)
    encode_shards(open_sources(paths), tokenizer, out, shard_size=1500)


@pytest.mark.parametrize(("winerror", "error_type"), [(32, ValueError), (5, PermissionError)])
def test_a_folder_is_locked_on_windows(tmp_path, monkeypatch, winerror, error_type):
    monkeypatch.setattr(journal, "fcntl", None)
    with journal.lock_folder(tmp_path / "out"):
        assert (tmp_path / "out" / ".bpe-lock").exists()
    assert read_files(tmp_path / "out") == {}
    refusal = PermissionError(errno.EACCES, "Access is denied")
    refusal.winerror = winerror  # type: ignore[attr-defined]

    def refuse(path):
        raise refusal

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(error_type), journal.lock_folder(tmp_path / "out"):
            pass


def test_buckets_that_lost_data_are_made_again(tmp_path, tokenizer, monkeypatch, small_groups):
    monkeypatch.setattr(outputs, "CHECKPOINT_BYTES", 5000)
    paths = write_corpus(tmp_path / "c", make_texts(15, 200))
    way = {"shards": 2, "seed": 1}
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole", **way)
    out = tmp_path / "out"
    assert run_until_killed(8, lambda: encode_shards(open_sources(paths), tokenizer, out, **way))
    buckets = sorted((out / ".buckets").iterdir())
    assert buckets
    for path in buckets:
        os.truncate(path, 0)  # as after a power failure
    encode_shards(open_sources(paths), tokenizer, out, **way)
    assert read_files(out) == read_files(tmp_path / "whole")


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["in order", "shuffled"])
@pytest.mark.usefixtures("small_groups")
def test_an_error_of_the_writer_reaches_the_caller_at_once(tmp_path, tokenizer, monkeypatch, way):
    paths = write_corpus(tmp_path / "c", make_texts(16, 2000))
    read: list[int] = []
    begin = grouping._GroupBuilder.begin_group

    def counted(self: Any, **options: bool) -> int:
        read.append(1)
        return begin(self, **options)

    def fails(event: str) -> None:
        if event in ("written", "bucketed"):
            raise OSError(errno.ENOSPC, "No space left on device", "tokens-00000.npy")

    monkeypatch.setattr(grouping._GroupBuilder, "begin_group", counted)
    monkeypatch.setattr(journal, "failpoint", fails)
    with pytest.raises(OSError, match=r"No space left on device: 'tokens-00000.npy'"):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out", **WAYS[way])
    assert len(read) < 10
    names = {name for name in read_files(tmp_path / "out") if not name.startswith(".buckets")}
    assert names - {"tokenizer.json"} == {"journal.jsonl"}  # the tokenizer is written meanwhile
    monkeypatch.setattr(journal, "failpoint", None)
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out", **WAYS[way])
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole", **WAYS[way])
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")


def test_a_full_disk_names_the_file_and_goes_on_with_room(tmp_path, tokenizer):
    """A limit on the size of files stands for the full disk."""
    paths = write_corpus(tmp_path / "c", make_texts(17, 4000))
    tokenizer.save(tmp_path / "t.json")
    command = [sys.executable, "-m", "bpe", "encode", *map(str, paths), "--separator", END, "--quiet"]
    command += ["-t", str(tmp_path / "t.json"), "--format", "native", "-o", str(tmp_path / "out")]

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

    failed = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert re.search(r"error: .*out/tokens-00000\.npy: File too large", failed.stderr), failed.stderr
    assert not [name for name in read_files(tmp_path / "out") if name.endswith(".tmp")]
    subprocess.run(command, check=True)
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole")
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")


@pytest.mark.usefixtures("small_groups")
def test_an_interrupt_says_what_is_finished(tmp_path, tokenizer, monkeypatch):
    paths = write_corpus(tmp_path / "c", make_texts(18, 200))
    seen = 0

    def interrupt(_: bpe.base.Progress) -> None:
        nonlocal seen
        seen += 1
        if seen == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"\d+ shards finished in .*out; the same command goes on from there"):
        encode_shards(open_sources(paths), tokenizer, tmp_path / "out", shard_size=1500, progress=interrupt)
    encode_shards(open_sources(paths), tokenizer, tmp_path / "out", shard_size=1500)
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole", shard_size=1500)
    assert read_files(tmp_path / "out") == read_files(tmp_path / "whole")


def test_a_long_document_in_a_file_with_others(tmp_path, tokenizer, small_groups):
    """Groups begin within the document, so the place to go on from lies before it."""
    texts = ["low", WORDS * 100, "new", WORDS * 150, WORDS, "", WORDS * 80]
    paths = write_corpus(tmp_path / "c", texts, 1)
    encode_shards(open_sources(paths), tokenizer, tmp_path / "whole", shard_size=10)
    for event in range(0, 40, 8):
        out = tmp_path / f"out{event}"
        run_until_killed(event, lambda out=out: encode_shards(open_sources(paths), tokenizer, out, shard_size=10))
        encode_shards(open_sources(paths), tokenizer, out, shard_size=10, threads=2)
        assert read_files(out) == read_files(tmp_path / "whole")
