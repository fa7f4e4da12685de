"""Checkpoints: a training stopped at any moment resumes with the same result, or a clear error."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from source_files import use_small_blocks, write
from strategies import TIE_BREAKS, corpora, each_tie_break, examples

import bpe
from bpe.base.memory_limits import measure_memory
from bpe.count import counting
from bpe.count._word_table import set_call_seconds
from bpe.training import checkpoint as checkpoint_module
from bpe.training import job as training
from bpe.training.checkpoint import Checkpoint, identify_files

pytestmark = pytest.mark.usefixtures("quiet", "saves_after_each_block")
TEXT = "the low lower newest widest, isn't it? aaaa abab aaab 영화를 영화관에서 보지 못한 것을 naïve café "

#: Options of trainings that are interrupted while they merge.
MODELS = [
    {"special_tokens": ["<s>"], "first_id": 3},
    {"model": "char", "unk_token": "<unk>", "limit_alphabet": 26},
    {"model": "char", "end_of_word": "</w>"},
    {"model": "char", "end_of_word": "</w>", "end_of_word_glued": True, "min_frequency": 2, "max_token_length": 5},
    {"initial_alphabet": range(256), "pretokenizer": None},
]

#: Files and options of trainings that are interrupted while they count.
COUNTINGS = [
    (".txt", {}),
    (".txt", {"separator": "|"}),
    (".txt", {"per_line": True}),
    (".txt", {"encoding_errors": "replace"}),
    (".txt.gz", {}),
    (".txt", {"normalizer": "nfc"}),
    (".jsonl", {}),
    (".csv", {}),
    (".parquet", {}),
    (".txt", {"superwords": bpe.SuperWords(transition=262)}),
    (".txt", {"spilling": True}),
]


class StopHereError(Exception):
    """Raised by these tests to stop a training."""


@pytest.fixture
def saves_after_each_block() -> Iterator[None]:
    seconds = set_call_seconds(0)
    yield
    set_call_seconds(seconds)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of text."""
    random_ = random.Random(3)
    words = TEXT.split()
    made = []
    for name in ("one.txt", "two.txt"):
        made.append(tmp_path / name)
        made[-1].write_text(" ".join(random_.choices(words, k=3000)), encoding="utf-8")
    return made


def stopping(at: int) -> Any:
    """An `on_merge` callback that stops the training at a step."""

    def on_merge(step: int, *_: object) -> None:
        if step == at:
            raise StopHereError

    return on_merge


def interrupted(at: int, **options: Any) -> None:
    with pytest.raises(StopHereError):
        bpe.train(**from_reference_options(**options), on_merge=stopping(at))


# Resuming -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@pytest.mark.parametrize(
    "model",
    MODELS,
    ids=["byte", "unk", "mark", "glued", "no pretokenizer"],
)
def test_resuming_gives_the_same_result(
    files: list[Path], tmp_path: Path, model: dict[str, Any], tie_break: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"num_merges": 60, "tie_break": tie_break, **model}
    expected = bpe.train(**from_reference_options(files=files, **options))
    path = tmp_path / "run.ckpt"
    for at in (1, 2, 13, 22):
        interrupted(at, files=files, checkpoint=path, **options)
    monkeypatch.setattr(training, "fill_from_corpus", None)  # the counts are saved: nothing is counted
    tok = bpe.train(**from_reference_options(files=files, checkpoint=path, **options))
    assert tok == expected
    assert tok.spec.training is not None
    assert expected.spec.training is not None
    assert (tok.spec.training.merges, tok.spec.training.stopped) == (
        expected.spec.training.merges,
        expected.spec.training.stopped,
    )
    assert bpe.train(**from_reference_options(files=files, checkpoint=path, **options)) == expected, (
        "resuming after the end gives the same result"
    )


@examples(5)
@given(words=corpora(), at=st.lists(st.integers(1, 30), min_size=1, max_size=3), most=st.integers(1, 40))
def test_resuming_any_corpus_at_any_step_gives_the_same_merges(
    words: dict[str, int], at: list[int], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """If two merges make the same token, a pair may be merged twice; so it may after resuming."""
    for tie_break in each_tie_break():
        path = tmp_path_factory.mktemp("run") / "ckpt"
        check_resuming(path, at, {"counts": words, "num_merges": most, "tie_break": tie_break})


def check_resuming(path: Path, at: list[int], options: dict[str, Any]) -> None:
    calls: list[Any] = []
    expected = bpe.train(**from_reference_options(**options), on_merge=lambda *each: calls.append(each))
    by_step: dict[int, Any] = {}

    def on_merge(step: int, *rest: Any) -> None:
        by_step[step] = (step, *rest)
        if step in at:
            raise StopHereError

    for _ in range(len(at) + 1):
        try:
            assert bpe.train(**from_reference_options(**options), on_merge=on_merge, checkpoint=path) == expected
        except StopHereError:
            continue
        break
    assert list(by_step.values()) == calls
    assert bpe.train(**from_reference_options(**options), checkpoint=path) == expected


def test_training_resumes_from_every_saved_state(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed training leaves one of these states."""
    options: dict[str, Any] = {"num_merges": 40, "tie_break": "first"}
    expected = bpe.train(**from_reference_options(files=files, **options))
    states: list[Path] = []
    replace = os.replace

    def recording_replace(source: Any, target: Any) -> None:
        replace(source, target)
        states.append(tmp_path / f"state{len(states)}")
        states[-1].mkdir()
        for path in tmp_path.glob("run.ckpt*"):
            shutil.copy(path, states[-1])

    monkeypatch.setattr(checkpoint_module, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(os, "replace", recording_replace)
    bpe.train(
        files=files, checkpoint=tmp_path / "run.ckpt", on_merge=lambda *_: None, **from_reference_options(**options)
    )
    monkeypatch.setattr(os, "replace", replace)
    # One before counting, one between the files, one after it, one before the first merge, one after each merge, one at
    # the end.
    assert len(states) == 1 + 1 + 1 + 1 + 40 + 1
    assert [path.name for path in states[0].iterdir()] == ["run.ckpt"]
    for state in states:
        assert bpe.train(files=files, checkpoint=state / "run.ckpt", **from_reference_options(**options)) == expected
        assert sorted(path.name for path in state.iterdir()) == ["run.ckpt", "run.ckpt.counts"]


def test_a_training_killed_several_times_resumes(files: list[Path], tmp_path: Path) -> None:
    """SIGKILL comes before counting is done, and then some merges later each time."""
    program = """
import sys, bpe, bpe.training.checkpoint
bpe.training.checkpoint.SAVE_EVERY = 0.0
def on_merge(step, *_): print(step, "." * 65536, flush=True)  # more than a pipe holds: it waits to be read
print("begun", flush=True)
tok = bpe.train(files=sys.argv[2:], num_merges=70, checkpoint=sys.argv[1], on_merge=on_merge)
print(tok.fingerprint)
"""
    expected = bpe.train(files=files, num_merges=70)
    argv = [sys.executable, "-c", program, str(tmp_path / "ckpt"), *map(str, files)]
    for lines in (1, 2, 15, 15):
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert all(running.stdout.readline() for _ in range(lines))
            running.send_signal(signal.SIGKILL)
        assert running.returncode == -signal.SIGKILL
    (tmp_path / ".ckpt.bpe-0123456789abcdef.tmp").touch()
    (tmp_path / ".ckpt.counts.bpe-0123456789abcdef.tmp").touch()
    process = subprocess.run(argv, capture_output=True, text=True, check=True)
    _, first, *_, fingerprint = process.stdout.splitlines()
    assert int(first.split()[0]) > 23, "each run resumes from the merges of the runs before"
    assert fingerprint == expected.fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt", "ckpt.counts", "one.txt", "two.txt"]


def test_headers_have_a_limit(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bpe.train(files=files, vocab_size=270, checkpoint=tmp_path / "c")
    monkeypatch.setattr("bpe.base.utf8.max_file_bytes", 100)
    with pytest.raises(bpe.FormatError, match=r"its header has \d+ bytes; at most 100 are read \(bpe\.base\.utf8\."):
        bpe.train(files=files, vocab_size=270, checkpoint=tmp_path / "c")


def test_an_interrupt_is_raised_even_if_saving_fails(files: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    def on_merge(*_: object) -> None:
        shutil.rmtree(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bpe.train(files=files, num_merges=5, checkpoint=folder / "ckpt", on_merge=on_merge)


def test_a_full_disk_does_not_end_the_training(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first merge has been made by then; before it, a full disk is an error."""
    monkeypatch.setattr(checkpoint_module, "SAVE_EVERY", 0.0)
    logging.getLogger("bpe").setLevel(logging.WARNING)
    expected = bpe.train(files=files, num_merges=5)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def on_merge(*_: object) -> None:
        monkeypatch.setattr(os, "replace", full)

    options: dict[str, Any] = {"files": files, "num_merges": 5, "checkpoint": tmp_path / "ckpt"}
    assert bpe.train(**from_reference_options(**options), on_merge=on_merge) == expected
    assert "ckpt could not be saved: [Errno 28] No space left on device" in caplog.text
    with pytest.raises(OSError, match="No space left"):
        bpe.train(**from_reference_options(**{**options, "checkpoint": tmp_path / "other"}))


def test_the_checkpoint_is_saved_regularly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    checkpoint = Checkpoint(tmp_path / "ckpt", {})
    before = (tmp_path / "ckpt").read_bytes()
    clock[0] += 29
    checkpoint.save_merges_if_due(lambda: np.array([[1, 2, 3, 4]]))
    assert (tmp_path / "ckpt").read_bytes() == before
    clock[0] += 2
    checkpoint.save_merges_if_due(lambda: np.array([[1, 2, 3, 4]]))
    assert (tmp_path / "ckpt").read_bytes() != before
    assert Checkpoint(tmp_path / "ckpt", {}).merges.tolist() == [[1, 2, 3, 4]]


# The source of the corpus ------------------------------------------------------------------------------------------


TEXTS = [TEXT * (i % 3) + str(i) for i in range(60)]


def stop_after_saves(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Save after each block; the training stops after `most` saves."""
    save, saves = Checkpoint.save_partial_counts, []

    def saving(self: Checkpoint, *given: Any) -> None:
        save(self, *given)
        saves.append(given[1])
        if len(saves) == most:
            raise StopHereError

    monkeypatch.setattr(Checkpoint, "save_partial_counts", saving)
    monkeypatch.setattr(checkpoint_module, "SAVE_EVERY", -1.0)
    monkeypatch.setattr(checkpoint_module, "PAUSE_PER_SAVING", 0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("ending", "options"),
    COUNTINGS,
)
def test_counting_resumes_from_every_saved_state(
    ending: str, options: dict[str, Any], threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted training goes on in the middle of a file, with the same counts and the same tokens."""
    use_small_blocks(monkeypatch)
    paths = [write(tmp_path / f"{name}{ending}", TEXTS) for name in "ab"]
    if options.pop("spilling", False):
        monkeypatch.setattr(
            counting.ThreadTables, "max_table_size", property(lambda _: 1, lambda *_: None), raising=False
        )
    made: dict[str, Any] = {"files": paths, "vocab_size": 265, "threads": threads, **options}
    expected = bpe.train(**from_reference_options(**made))
    checkpoint = tmp_path / "run.ckpt"
    for most in (1, 2, 5):
        with monkeypatch.context() as patch, pytest.raises(StopHereError) if most == 1 else suppress(StopHereError):
            stop_after_saves(patch, most)
            bpe.train(**from_reference_options(**made), checkpoint=checkpoint)
        if most == 1:
            with pytest.raises(bpe.FormatError, match="the counts of a part of a corpus"):
                bpe.WordCounts.load(f"{checkpoint}.counts")
    assert bpe.train(**from_reference_options(**made), checkpoint=checkpoint) == expected
    if "superwords" not in options:
        assert bpe.WordCounts.load(f"{checkpoint}.counts") == bpe.count_words(
            **from_reference_options(files=paths, **options)
        )


@pytest.mark.parametrize("separator", [None, "|"])
def test_counting_resumes_in_the_middle_of_a_text(
    separator: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel reads a text in several calls."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{TEXT}{i}|" for i in range(90_000)), encoding="utf-8")
    expected, made = (
        bpe.count_words(files=bpe.Sources(path, separator=separator)),
        {"files": path, "separator": separator},
    )
    with monkeypatch.context() as patch:
        stop_after_saves(patch, 1)
        with pytest.raises(StopHereError):
            bpe.train(**from_reference_options(**made), num_merges=1, checkpoint=tmp_path / "c")
    unfinished = checkpoint_module.read_counts(f"{tmp_path / 'c'}.counts")[1]
    assert 0 < unfinished[1] < path.stat().st_size
    bpe.train(**from_reference_options(**made), num_merges=1, checkpoint=tmp_path / "c")
    assert bpe.WordCounts.load(f"{tmp_path / 'c'}.counts") == expected


def test_words_that_need_too_much_memory_end_the_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts so far are kept, and the same call with more memory goes on from them."""
    path, checkpoint = tmp_path / "a.txt", tmp_path / "c"
    words = "\n".join(f"{i:08d}" for i in range(500_000))
    path.write_text(words.translate(str.maketrans("0123456789", "abcdefghij")))
    made: dict[str, Any] = {"files": path, "num_merges": 3, "threads": 1, "checkpoint": checkpoint}
    with monkeypatch.context() as patch:
        patch.setattr("bpe.training.job.check_memory", lambda _: measure_memory() + (6 << 20))
        patch.setattr("bpe.training.job.MIN_PAIR_MEMORY", 0)
        with pytest.raises(ValueError, match=r"max_memory is .* the words counted so far, about \d+ of \d+ symbols"):
            bpe.train(**from_reference_options(**made), max_memory=1)
    counts, unfinished = checkpoint_module.read_counts(f"{checkpoint}.counts")
    assert 100_000 < len(counts) < 450_000
    assert unfinished[1] < path.stat().st_size
    expected = bpe.count_words(files=path)
    assert bpe.train(**from_reference_options(**made)) == bpe.train(counts=expected, num_merges=3)
    assert bpe.WordCounts.load(f"{checkpoint}.counts") == expected


def test_bad_records_before_a_saved_state_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_blocks(monkeypatch)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "low"}\n{"text": 1}\n' * 50)
    with monkeypatch.context() as patch:
        stop_after_saves(patch, 3)
        with pytest.raises(StopHereError):
            bpe.train(files=bpe.Sources(path, on_error="skip"), num_merges=2, checkpoint=tmp_path / "c")
    sources = bpe.Sources(path, on_error="skip")
    bpe.train(files=sources, num_merges=2, checkpoint=tmp_path / "c")
    assert sources.skipped == 50


def test_a_checkpoint_without_merges_does_not_hinder_other_options(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fix that an error advises is another option, or another file: what was not used may change."""
    checkpoint = tmp_path / "c"
    with pytest.raises(ValueError, match="it must be at least 257"):
        bpe.train(files=files, vocab_size=256, special_tokens=["<s>"], checkpoint=checkpoint)
    monkeypatch.setattr(training, "fill_from_corpus", None)  # the counts are there
    tok = bpe.train(files=files, vocab_size=258, special_tokens=["<s>"], checkpoint=checkpoint)
    monkeypatch.undo()
    assert tok == bpe.train(files=files, vocab_size=258, special_tokens=["<s>"])
    with pytest.raises(ValueError, match="was made with vocab_size=258, but vocab_size=259"):
        bpe.train(files=files, vocab_size=259, special_tokens=["<s>"], checkpoint=checkpoint)
    checkpoint.unlink()
    Path(f"{checkpoint}.counts").unlink()

    files[1].write_bytes(b"low\xff")
    with pytest.raises(bpe.FormatError, match="not UTF-8"):
        bpe.train(files=files, vocab_size=260, checkpoint=checkpoint)
    assert bpe.train(files=bpe.Sources(files, encoding_errors="replace"), vocab_size=259, checkpoint=checkpoint)
    checkpoint.unlink()
    Path(f"{checkpoint}.counts").unlink()

    files[1].write_bytes(b"low\xff")
    with monkeypatch.context() as patch:
        stop_after_saves(patch, 1)  # between the two files
        with pytest.raises(StopHereError):
            bpe.train(files=files, vocab_size=260, threads=1, checkpoint=checkpoint)
    with pytest.raises(bpe.FormatError, match="not UTF-8"):
        bpe.train(files=files, vocab_size=260, threads=1, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="was made with pretokenizer="):
        bpe.train(files=files, vocab_size=260, pretokenizer="llama3", checkpoint=checkpoint)
    with pytest.raises(ValueError, match=r"is of another corpus: it has file .*one\.txt"):
        bpe.train(files=files[1:], vocab_size=260, checkpoint=checkpoint)
    files[1].write_text("low lower")
    assert bpe.train(files=files, vocab_size=260, checkpoint=checkpoint) == bpe.train(files=files, vocab_size=260)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_checkpoint_is_a_regular_file(files: list[Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder.counts").mkdir()
    for path in ("/dev/zero", "/dev/null", tmp_path / "pipe", tmp_path, tmp_path / "folder"):
        with pytest.raises(OSError, match="it is no regular file"):
            bpe.train(files=files, vocab_size=260, checkpoint=path)


def test_texts_and_counts_are_identified_by_their_counts(tmp_path: Path) -> None:
    texts = [TEXT, TEXT[:20]] * 3
    counts = bpe.count_words(texts=texts)
    expected = bpe.train(texts=texts, num_merges=30)
    for name, corpus in (("texts", {"texts": texts}), ("counts", {"counts": counts})):
        path = tmp_path / name
        interrupted(10, checkpoint=path, num_merges=30, **corpus)
        assert not (tmp_path / f"{name}.counts").exists()
        with pytest.raises(
            ValueError, match="another corpus: its word counts differ; to start over, delete it or name"
        ):
            bpe.train(texts=texts[1:], num_merges=30, checkpoint=path)
        assert bpe.train(checkpoint=path, num_merges=30, **corpus) == expected
    assert bpe.train(texts=texts, num_merges=30, checkpoint=tmp_path / "counts") == expected


def test_missing_or_changed_corpus_files_after_counting(
    files: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = bpe.train(files=files, num_merges=30)
    path, counts = tmp_path / "ckpt", tmp_path / "ckpt.counts"
    interrupted(10, files=files, num_merges=30, checkpoint=path)
    counts.write_bytes(counts.read_bytes()[:-1])
    logging.getLogger("bpe").setLevel(logging.WARNING)
    assert bpe.train(files=files, num_merges=30, checkpoint=path) == expected
    assert "counted again" in caplog.text
    interrupted(30, files=files, num_merges=40, checkpoint=tmp_path / "other")
    (tmp_path / "other.counts").unlink()
    assert bpe.train(files=files, num_merges=40, checkpoint=tmp_path / "other").spec.training.merges == 40
    shutil.copy(counts, tmp_path / "third.counts")
    with pytest.raises(ValueError, match=r"third.counts exists without its checkpoint .*third, and would be replaced"):
        bpe.train(files=files, num_merges=30, checkpoint=tmp_path / "third")


def test_files_are_identified_as_by_stat(files: list[Path]) -> None:
    """A file that was removed since it was listed is the error of `os.stat`."""
    sources = bpe.Sources(files)
    states = [(path, path.stat()) for path in files]
    assert identify_files(sources) == [[str(path), state.st_size, state.st_mtime_ns] for path, state in states]
    files[-1].unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(str(files[-1]))):
        identify_files(sources)


# Refused checkpoints --------------------------------------------------------------------------------------------------

OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"vocab_size": 300, "num_merges": None}, "vocab_size=None, but vocab_size=300"),
    ({"num_merges": 31}, "num_merges=30, but num_merges=31"),
    ({"model": "char", "pretokenizer": "gpt2"}, "model='byte', but model='char'"),
    ({"tie_break": "first"}, "tie_break='id', but tie_break='first'"),
    ({"min_frequency": 2}, "min_frequency=1, but min_frequency=2"),
    ({"max_token_length": 9}, "max_token_length=None, but max_token_length=9"),
    ({"limit_alphabet": 260}, "limit_alphabet=None, but limit_alphabet=260"),
    ({"special_tokens": ["<s>"]}, r"special_tokens=\[\], but special_tokens=\['<s>'\]"),
    ({"unk_token": "?!"}, "unk_token=None, but unk_token='\\?!'"),
    ({"end_of_word": "</w>"}, "end_of_word=None, but end_of_word='</w>'"),
    ({"initial_alphabet": "corpus"}, "initial_alphabet=None, but initial_alphabet='corpus'"),
    ({"initial_alphabet": [1]}, r"initial_alphabet=None, but initial_alphabet=\[1\]"),
    ({"first_id": 7}, "first_id=0, but first_id=7"),
    ({"pretokenizer": "cl100k"}, "pretokenizer="),
    ({"normalizer": bpe.normalizers.NFC()}, "normalizer=None, but normalizer="),
    ({"separator": "\n"}, r"separator=None, but separator='\\n'"),
    ({"per_line": True}, "per_line=None, but per_line=True"),
]


@pytest.mark.parametrize(("other", "message"), OTHERS, ids=[message.split("=")[0] for _, message in OTHERS])
def test_other_options_are_refused(files: list[Path], tmp_path: Path, other: dict[str, Any], message: str) -> None:
    path = tmp_path / "ckpt"
    interrupted(3, files=files, num_merges=30, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(
        ValueError,
        match=f"checkpoint .* was made with {message}.*pass the same value to resume it; to start over, delete it",
    ):
        bpe.train(**from_reference_options(**{"files": files, "num_merges": 30, "checkpoint": path, **other}))
    assert path.read_bytes() == before


def test_other_files_are_refused(files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "ckpt"
    interrupted(3, files=files, num_merges=30, checkpoint=path)
    for other, message in (
        (files[:1], "of 2 files, not of 1"),
        (files[::-1], "it has file '.*one.txt' of .* bytes, .* and now there is '.*two.txt'"),
        ([*files, files[0]], "of 2 files, not of 3"),
    ):
        with pytest.raises(ValueError, match=f"of another corpus: {message}.*to start over"):
            bpe.train(files=other, num_merges=30, checkpoint=path)
    os.utime(files[1], ns=(0, 1_700_000_000_000_000_000))
    with pytest.raises(ValueError, match=r"two.txt' of .* bytes, last changed 2023-11-14 22:13:20 UTC; to start over"):
        bpe.train(files=files, num_merges=30, checkpoint=path)


def test_files_that_are_not_checkpoints_are_refused(files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "ckpt"
    options: dict[str, Any] = {"files": files, "num_merges": 30, "checkpoint": path}
    interrupted(3, **options)
    good = path.read_bytes()
    for bad, message in (
        (b"", "begins with b''"),
        (b"some notes", "begins with b'some not'"),
        (good[:-1], "the checksum is wrong"),
        (good[:60] + b"x" + good[61:], "the checksum is wrong"),
        (good[:8], "the checksum is wrong"),
    ):
        path.write_bytes(bad)
        with pytest.raises(bpe.FormatError, match=message) as caught:
            bpe.train(**from_reference_options(**options))
        assert caught.value.path == str(path)
        assert path.read_bytes() == bad
    path.unlink()
    (tmp_path / "ckpt.counts").unlink()
    for checkpoint, error, message in (
        (tmp_path / "nowhere" / "ckpt", ValueError, "folder .*nowhere does not exist"),
        (tmp_path, OSError, "it is no regular file"),
        (7, TypeError, "checkpoint is 7, an int; it must be a path"),
    ):
        with pytest.raises(error, match=message):
            bpe.train(**from_reference_options(**{**options, "checkpoint": checkpoint}))
    with pytest.raises(bpe.FormatError, match="this is not a checkpoint"):
        bpe.train(**from_reference_options(**{**options, "checkpoint": files[0]}))
    assert files[0].stat().st_size > 1000, "the corpus is not replaced"


@pytest.mark.parametrize("count", [0, 9], ids=["a count of 0", "another count"])
def test_forged_merges_in_a_checkpoint_are_refused(tmp_path: Path, count: int) -> None:
    """The checksum is right, but a merge makes an existing symbol's token or has a wrong count."""
    path = tmp_path / "run.ckpt"
    options: dict[str, Any] = {"counts": {"ab" * 4 + "c": 9, "cab": 3}, "model": "char", "pretokenizer": None}
    interrupted(1, num_merges=5, checkpoint=path, threads=1, **options)
    data = path.read_bytes()
    size = int.from_bytes(data[12:20], "little")
    header = json.loads(data[20 : 20 + size])
    for merge, wrong in (
        ([0, 1, 2, count], f"merge 0 is of tokens 0 and 1 into 2, {count} times, but this training learns .* into 3"),
        ([0, 1, 3, count], f"merge 0 is of tokens 0 and 1 into 3, {count} times, but .* into 3, 39 times"),
        ([0, -1, 3, count], "merge 0 is of tokens 0 and -1 into 3"),
    ):
        merges = np.array([merge, [2, 2, 4, 1]], dtype="<i8")
        made = json.dumps(header | {"merges": 2}).encode()
        forged = data[:12] + len(made).to_bytes(8, "little") + made + merges.tobytes()
        path.write_bytes(forged + hashlib.sha256(forged).digest())
        with pytest.raises(bpe.FormatError, match=rf"run.ckpt: the checkpoint is not of this training.*{wrong}"):
            bpe.train(num_merges=5, checkpoint=path, threads=1, **from_reference_options(**options))
    made = json.dumps(header | {"files": [3]}).encode()
    forged = data[:12] + len(made).to_bytes(8, "little") + made + data[20 + size : -32]
    path.write_bytes(forged + hashlib.sha256(forged).digest())
    with pytest.raises(bpe.FormatError, match=r"the header is not valid: files is \[3\]"):
        bpe.train(num_merges=5, checkpoint=path, threads=1, **from_reference_options(**options))
