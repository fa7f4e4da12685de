"""The progress of a training, for programs and for people at a terminal, and interruption by Ctrl-C."""

from __future__ import annotations

import io
import os
import re
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bpe
from bpe.base import progress
from bpe.base.progress import progress_bar
from bpe.cli import main
from bpe.cli import training as cli
from bpe.training import checkpoint as checkpoint_module
from bpe.training import trainer as learning

TEXT = "the low lower newest widest, isn't it? aaaa abab aaab naïve café " * 40


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize("model", ["byte", "char"])
def test_the_progress_function_is_called(text: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MERGES_PER_CALL", 4)
    calls: list[bpe.base.Progress] = []
    steps: list[Any] = []
    options: dict[str, Any] = {"files": text, "num_merges": 10, "model": model, "pretokenizer": "gpt2"}
    tok = bpe.train(progress=calls.append, **options)
    assert bpe.train(on_merge=lambda *state: steps.append(state), **options) == tok
    size = text.stat().st_size
    assert calls[0] == bpe.base.Progress("count", size, size)
    assert calls[1:] == [
        bpe.base.Progress("merge", done, 10, token=steps[done - 1][3], count=steps[done - 1][4]) for done in (4, 8, 10)
    ]
    calls.clear()
    bpe.count_words(texts=[TEXT], progress=calls.append)
    assert calls == [bpe.base.Progress("count", len(TEXT.encode()), None)]


def test_a_function_that_raises_ends_the_training(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MERGES_PER_CALL", 4)
    expected = bpe.train(files=text, vocab_size=270)

    class EnoughError(Exception):
        pass

    def stop(event: bpe.base.Progress) -> None:
        if event.stage == "merge" and event.done == 8:
            raise EnoughError

    with pytest.raises(EnoughError):
        bpe.train(files=text, vocab_size=270, progress=stop, checkpoint=tmp_path / "ckpt")
    calls: list[bpe.base.Progress] = []
    assert bpe.train(files=text, vocab_size=270, progress=calls.append, checkpoint=tmp_path / "ckpt") == expected
    assert [state.done for state in calls] == [12, 14], "a resumed training counts no word and makes no merge again"
    assert {state.total for state in calls} == {14}
    longer: list[bpe.base.Progress] = []
    bpe.extend(expected, {"lower": 3}, 273, progress=longer.append)
    assert longer[-1] == bpe.base.Progress("merge", 3, 3, token=longer[-1].token, count=3)


def test_other_values_of_progress_are_refused(text: Path) -> None:
    tok = bpe.train(files=text, num_merges=1)
    for call in (
        lambda: bpe.train(files=text, num_merges=1, progress="yes"),  # type: ignore[arg-type]
        lambda: bpe.count_words(files=text, progress="yes"),  # type: ignore[arg-type]
        lambda: bpe.extend(tok, {"a": 1}, 300, progress="yes"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="progress is 'yes', a str; it must be True for bars on stderr, False for"):
            call()


def test_a_progress_bar_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the merges done and in all, the last token as text, its count, the time left; nothing off a terminal."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar(True, "merge", 100, "merges", 20) as bar:
            bar(40, lambda: b" caf\xc3", 12345)
            bar(39, lambda: "x" * 50, 7)
        shown = stream.getvalue()
        if not stream.isatty():
            assert shown == ""
            continue
        last = shown.rstrip("\n").split("\r")[-1]
        assert "merging:  99%" in last
        assert "99/100 [" in last
        assert "<" in last, "the bar shows the time left"
        assert "merges/s" in last
        assert f"{'x' * 23}… 7]" in last


class Clock:
    """A clock that the test moves forward."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_estimated_time_left_is_stable() -> None:
    """At a constant pace the estimate is exact. For merges, the first of which take longest, it is close and smooth."""
    clock = Clock()
    estimate = progress.Estimate("count", 1000, 0, clock)
    assert estimate.estimate_left() is None
    for done in range(1, 1000):
        clock.now += 2
        estimate.done += 1
        assert estimate.estimate_left() == pytest.approx(2 * (1000 - done))
    assert estimate.rate == pytest.approx(0.5)

    for power in (0.25, 0.35, 0.5):  # the exponents of other corpora
        clock = Clock()
        estimate = progress.Estimate("merge", 32000, 0, clock)
        costs = [number ** (power - 1) for number in range(1, 32001)]
        before, most = None, sum(costs)
        for number, cost in enumerate(costs, 1):
            clock.now += cost
            most -= cost
            estimate.done += 1
            left = estimate.estimate_left()
            assert left is not None
            if 1000 < number < 32000:
                assert 1 / 3 < left / most < 3, "a constant pace would be off by 13 times here"
                assert before is None or left < before + cost
                before = left


def test_a_resumed_training_estimates_its_remaining_time() -> None:
    clock = Clock()
    estimate = progress.Estimate("merge", 2000, 1000, clock)
    assert estimate.estimate_left() is None
    clock.now += 10
    estimate.done += 500
    left = estimate.estimate_left()
    assert left is not None
    assert 8 < left < 10
    assert estimate.rate == 50


def test_no_estimate_without_a_total() -> None:
    estimate = progress.Estimate("count", None, 0)
    estimate.done += 5
    assert estimate.estimate_left() is None
    clock = Clock()
    grown = progress.Estimate("count", 10, 0, clock)  # the file grew while it was read
    clock.now += 1
    grown.done += 20
    assert grown.estimate_left() == 0


def test_progress_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line per 30 s: the stage, how far it is, the rate, the time left; no line for a short job."""
    clock, stream = Clock(), io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    monkeypatch.setattr(progress.Estimate.__init__, "__defaults__", (clock,))
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(True, "count", 10**9, "B") as advance:
        for _ in range(100):
            clock.now += 1
            advance(10**7)
    assert stream.getvalue().splitlines() == [
        "bpe: counting: 30%, 300.0 MB of 1.0 GB, 10.0 MB/s, 1:10 min left",
        "bpe: counting: 60%, 600.0 MB of 1.0 GB, 10.0 MB/s, 40 s left",
        "bpe: counting: 90%, 900.0 MB of 1.0 GB, 10.0 MB/s, 10 s left",
        "bpe: counting: done, 1.0 GB in 1:40 min",
    ]
    stream.truncate(stream.seek(0))
    with progress_bar(True, "merge", None, "merges", 200) as advance:
        clock.now += 29
        advance(1, lambda: b"the", 3)
        assert not stream.getvalue()
        clock.now += 31
        advance(1199, lambda: b"the", 3)
    assert stream.getvalue().splitlines()[0] == "bpe: merging: 1,400 merges, 20 merges/s"
    stream.truncate(stream.seek(0))
    with progress_bar(True, "merge", 100, "merges") as advance:
        advance(100, lambda: b"the", 3)
    assert not stream.getvalue()


def test_progress_without_stderr(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without a console on Windows has no stderr."""
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(progress, "LINE_INTERVAL_SECONDS", 0.0)
    assert bpe.train(files=text, num_merges=3, progress=True) == bpe.train(files=text, num_merges=3)


NOTEBOOK = """
import io, sys, types, warnings
warnings.simplefilter("error")
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["IPython"] = shell = types.ModuleType("IPython")
shell.get_ipython = lambda: None
import bpe
sys.stderr = io.StringIO()
bpe.train(texts=["low lower lowest"], num_merges=3, progress=True)
print(sys.stderr.getvalue())
"""


def test_a_notebook_without_ipywidgets_has_bars_of_text() -> None:
    """There is no warning about them."""
    pytest.importorskip("tqdm")
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, timeout=120, check=True)
    assert "merging: 100%" in done.stdout
    assert done.stderr == ""


def test_large_corpora_report_every_early_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the first merges take seconds each, they are made one by one; the result is the same."""
    counts = bpe.count_words(texts=[TEXT])
    expected = bpe.train(counts=counts, num_merges=30)
    monkeypatch.setattr(learning, "MANY_WORDS", 1)
    for short, calls in ((0.0, 30), (1e9, 5)):  # 5 calls: 1, 2, 4, 8 and 15 merges
        monkeypatch.setattr(learning, "SHORT_CALL_SECONDS", short)
        seen: list[bpe.base.Progress] = []
        assert bpe.train(counts=counts, num_merges=30, progress=seen.append) == expected
        assert len(seen) == calls


def interruptible(argv: list[str], **more: Any) -> subprocess.Popen[bytes]:
    """A process that handles SIGINT, like one at a terminal; a background job of a shell ignores it."""
    return subprocess.Popen(argv, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **more)


def test_ctrl_c_saves_the_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status is 130, and the same command resumes to the result of an uninterrupted training."""
    (tmp_path / "words.txt").write_text(" ".join(f"word{i * i}" for i in range(3000)))
    options = [str(tmp_path / "words.txt"), "--vocab-size", "2000", "--checkpoint", str(tmp_path / "ckpt")]
    argv = [sys.executable, "-m", "bpe", "train", *options, "-o", str(tmp_path / "t.json")]
    with interruptible([*argv, "--trace"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"step\t")
        assert running.stdout.readline().startswith(b"1\t")  # it waits until the pipe is read
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        said = running.stderr.read().decode()
        assert running.wait(timeout=120) == 130
    last = said.splitlines()[-1]
    match = re.fullmatch(r"bpe: interrupted: the checkpoint (.*) has the word counts and (\d+) merges?; (.*)", last)
    assert match, said
    assert match[1] == str(tmp_path / "ckpt")
    assert match[3] == "the same command goes on from there"
    state = checkpoint_module.read_progress(tmp_path / "ckpt")
    assert state == (int(match[2]), "the word counts")
    assert not (tmp_path / "t.json").exists()
    capsys.readouterr()
    assert main(argv[3:]) == 0
    assert (
        f"bpe: resuming at merge {state[0]} of 1744, from the checkpoint {tmp_path / 'ckpt'}" in capsys.readouterr().err
    )
    assert bpe.Tokenizer.load(tmp_path / "t.json") == bpe.train(files=tmp_path / "words.txt", vocab_size=2000)


@pytest.mark.parametrize("moment", ["counting", "indexing", "writing", "done"])
def test_ctrl_c_prints_what_was_saved(
    text: Path, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    out, ckpt, again = tmp_path / "t.json", tmp_path / "ckpt", "the same command goes on from there"
    argv = ["train", str(text), "-o", str(out), "--num-merges", "5"]
    if moment == "counting":
        monkeypatch.setattr("bpe.training.job.fill_from_corpus", interrupt)
    elif moment == "indexing":
        monkeypatch.setattr(learning, "make_trainer", interrupt)
    elif moment == "writing":
        monkeypatch.setattr(bpe.Tokenizer, "save", interrupt)
    else:
        monkeypatch.setattr(cli, "pluralize", interrupt)
    for checkpoint, expected in (
        ([], "nothing was saved"),
        (
            ["--checkpoint", str(ckpt)],
            {
                "counting": "nothing was saved",
                "indexing": f"the checkpoint {ckpt} has the word counts and 0 merges; {again}",
                "writing": f"the checkpoint {ckpt} has the word counts and 5 merges; {again}",
            }.get(moment, ""),
        ),
    ):
        said = f"{out} saved" if moment == "done" else expected
        assert main([*argv, *checkpoint, "--quiet"]) == 130
        assert capsys.readouterr().err == f"bpe: interrupted: {said}\n"
        assert out.exists() == (moment == "done")
        out.unlink(missing_ok=True)


def test_the_command_shows_bars_at_a_terminal(text: Path, tmp_path: Path) -> None:
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    argv = [sys.executable, "-m", "bpe", "train", str(text), "-o", str(tmp_path / "t.json"), "--vocab-size", "280"]
    running = subprocess.Popen(argv, stderr=child)
    os.close(child)
    shown = b""
    with suppress(OSError):  # the other end is closed
        while piece := os.read(parent, 4096):
            shown += piece
    os.close(parent)
    assert running.wait(timeout=120) == 0
    assert b"counting: 100%" in shown
    assert b"indexing pairs" in shown
    assert b"merging: 100%" in shown
    assert b"writing" in shown
    assert b"280 tokens, 24 merges" in shown


def test_a_file_that_is_not_a_checkpoint_is_refused(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", str(text), "-o", str(tmp_path / "t.json"), "--num-merges", "5", "--checkpoint"]
    for path, message in (
        (text, "is one of the inputs or the output and would replace it; name another with --checkpoint"),
        (tmp_path / "t.json", "is one of the inputs or the output and would replace it"),
        (tmp_path / "no" / "ckpt", "the checkpoint's folder .* does not exist; make it first"),
    ):
        assert main([*argv, str(path)]) == 1
        err = capsys.readouterr().err
        assert err.startswith("bpe: error: the checkpoint")
        assert err.count("\n") == 1
        assert message.replace(".*", f"{tmp_path / 'no'}") in err
    path = str(tmp_path / "ckpt")
    assert main([*argv, path, "--quiet"]) == 0
    assert main([*argv, path, "--quiet", "--tie-break", "first"]) == 1
    assert "was made with --tie-break id, but --tie-break first is requested" in capsys.readouterr().err
