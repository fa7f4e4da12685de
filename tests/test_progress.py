"""What a program and a person at a terminal see of a training as it goes on, and how Ctrl-C ends it."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bpe
from bpe import learning
from bpe.cli import main
from bpe.progress import progress_bar

TEXT = "the low lower newest widest, isn't it? aaaa abab aaab naïve café " * 40


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize("model", ["byte", "char"])
def test_a_function_is_told(text: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MERGES_PER_CALL", 4)
    told: list[bpe.Progress] = []
    steps: list[Any] = []
    options: dict[str, Any] = {"files": text, "num_merges": 10, "model": model, "pretokenizer": "gpt2"}
    tok = bpe.train(progress=told.append, **options)
    assert bpe.train(on_merge=lambda *each: steps.append(each), **options) == tok
    size = text.stat().st_size
    assert told[0] == bpe.Progress("count", size, size)
    assert told[1:] == [
        bpe.Progress("merge", done, 10, token=steps[done - 1][3], count=steps[done - 1][4]) for done in (4, 8, 10)
    ]
    told.clear()
    bpe.count_words(texts=[TEXT], progress=told.append)
    assert told == [bpe.Progress("count", len(TEXT.encode()), None)]


def test_a_function_that_raises_ends_the_training(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MERGES_PER_CALL", 4)
    expected = bpe.train(files=text, vocab_size=270)

    class EnoughError(Exception):
        pass

    def stop(told: bpe.Progress) -> None:
        if told.stage == "merge" and told.done == 8:
            raise EnoughError

    with pytest.raises(EnoughError):
        bpe.train(files=text, vocab_size=270, progress=stop, checkpoint=tmp_path / "ckpt")
    told: list[bpe.Progress] = []
    assert bpe.train(files=text, vocab_size=270, progress=told.append, checkpoint=tmp_path / "ckpt") == expected
    assert [each.done for each in told] == [12, 14], "no word is counted and no merge made again"
    assert {each.total for each in told} == {14}
    longer: list[bpe.Progress] = []
    bpe.extend(expected, {"lower": 3}, 273, progress=longer.append)
    assert longer[-1] == bpe.Progress("merge", 3, 3, token=longer[-1].token, count=3)


def test_what_is_neither(text: Path) -> None:
    tok = bpe.train(files=text, num_merges=1)
    for call in (
        lambda: bpe.train(files=text, num_merges=1, progress="yes"),  # type: ignore[arg-type]
        lambda: bpe.count_words(files=text, progress="yes"),  # type: ignore[arg-type]
        lambda: bpe.extend(tok, {"a": 1}, 300, progress="yes"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="progress is 'yes', a str; it must be True for bars on stderr, False for"):
            call()


def test_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merges of all, the last token as people read it, its count, the time left; nothing without a terminal."""

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
        assert "merge:  99%" in last
        assert "99/100 [" in last
        assert "<" in last, "the time left"
        assert "merges/s" in last
        assert f"{'x' * 23}… 7]" in last


def interruptible(argv: list[str], **more: Any) -> subprocess.Popen[bytes]:
    """A process that heeds SIGINT, as one at a terminal does; a background job of a shell would not."""
    return subprocess.Popen(argv, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **more)


def test_ctrl_c_saves_the_checkpoint(tmp_path: Path) -> None:
    """Exit status 130 after some merges, and the same command goes on to what it would have made."""
    (tmp_path / "words.txt").write_text(" ".join(f"word{i * i}" for i in range(3000)))
    options = [str(tmp_path / "words.txt"), "--vocab-size", "2000", "--checkpoint", str(tmp_path / "ckpt")]
    argv = [sys.executable, "-m", "bpe", "train", *options, "-o", str(tmp_path / "t.json")]
    with interruptible([*argv, "--trace"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"1\t")  # then it waits for the pipe to be read
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        told = running.stderr.read().decode()
        assert running.wait(timeout=120) == 130
    assert told.endswith(f"bpe: the same command goes on from the checkpoint {tmp_path / 'ckpt'}\nbpe: interrupted\n")
    assert not (tmp_path / "t.json").exists()
    assert main([*argv[3:], "--quiet"]) == 0
    assert bpe.Tokenizer.load(tmp_path / "t.json") == bpe.train(files=tmp_path / "words.txt", vocab_size=2000)


def test_bars_at_a_terminal(text: Path, tmp_path: Path) -> None:
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
    assert b"count: 100%" in shown
    assert b"merge: 100%" in shown
    assert b"280 tokens, 24 merges" in shown


def test_command_line_refuses_a_checkpoint_that_is_something_else(
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
    assert "was made with tie_break='id', but tie_break='first' is asked for" in capsys.readouterr().err
