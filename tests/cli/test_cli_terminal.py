"""What reaches a terminal: no control character of a name, a path or a token; and streams that are closed or full."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bpe
from bpe.cli import main
from bpe.errors import FormatError, escape_unprintable, get_log, short_repr

#: What a terminal obeys or hides, but for newlines and tabs.
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
NAMES = ["\x1b[31mred\x1b[0m", "a\u202eb", "x\ny", "\x9b31m", "z\u2066w", "\x7fz"]
posix = pytest.mark.skipif(os.name != "posix", reason="needs file names and streams of POSIX")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer, a text and word counts with hostile names."""
    path = tmp_path_factory.mktemp("names\x1b[2J")
    tok = bpe.train(texts=["low lower lowest"], vocab_size=266, special_tokens=NAMES)
    tok.save(path / "t\x1b]0;title\x07\udcff.json")
    bpe.train(texts=["low newer"], vocab_size=262, special_tokens=NAMES[:4]).save(path / "plain.json")
    (path / "bad\x9b.json").write_text('{"model": {"type": "BPE", "vocab": {"\x7f": 0}, "merges": ["\u202e \u001b"]}}')
    (path / "t\x1b[2J\u202e.txt").write_text("low lower\n")
    return path


LINES = [
    "info TOK", "info BAD", "info none\x1b", "count -t TOK TEXT", "count -t TOK TEXT PLAIN", "evaluate TOK TEXT",
    "evaluate TOK PLAIN TEXT", "evaluate TOK TEXT --json", "sanity-check TOK PLAIN", "convert TOK o\x1b.tiktoken",
    "diff TOK PLAIN", "diff TOK PLAIN TEXT", "show -t TOK \x1b[31m", "show -t TOK --explain \x1b[31m\u202e",
    "encode -t TOK TEXT -o e\x1b.npy", "encode -t TOK none\x1b", "decode -t TOK TEXT", "verify none\x1b",
    "train TEXT --vocab-size 258 -o o\x1b.json --special-token \x1b", "train none\x1b* --vocab-size 258 -o o.json",
    "train TEXT --vocab-size \x1b -o o.json", "x\x1b", "train --ab\x1b", "count-words TEXT -o w\x1b.counts",
    "info w\x1b.counts", "edit TOK -o e\x1b.json --add z\x1b[1m", "report TOK TEXT -o r\x1b.html",
    "train TEXT TEXT --per-line",
    "encode -t TOK TEXT --format megatron -o shards\x1b", "info shards\x1b",
    "train --counts TEXT --vocab-size 300 -o o.json",
]  # fmt: skip


@posix
@pytest.mark.parametrize("line", LINES)
def test_control_characters_are_spelled(
    folder: Path, line: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(folder)
    files = {"TOK": "t\x1b]0;title\x07\udcff.json", "BAD": "bad\x9b.json", "TEXT": "t\x1b[2J\u202e.txt"}
    files["PLAIN"] = "plain.json"
    main([files.get(word, word) for word in line.split(" ")])
    output = b"".join(capfdbinary.readouterr()).decode("utf-8", "surrogateescape")
    assert output or line.startswith("encode")
    assert RAW.findall(output) == []


@posix
def test_lines_cannot_be_forged(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["info", str(folder / "plain.json")]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert r"x\x0ay 2" in out
    assert all(re.match(r"\S[^:]*: +\S", line) for line in out.splitlines())


def test_pages_have_no_control_characters(folder: Path, tmp_path: Path) -> None:
    from bpe.report import write_page

    tok = bpe.Tokenizer.load(folder / "plain.json")
    write_page(tmp_path / "page.html", dict.fromkeys(NAMES, tok), texts={"t\x1b\u202e": ["\x1b[2J <|\u202e"]})
    assert RAW.findall((tmp_path / "page.html").read_text("utf-8")) == []


def test_errors_and_the_log_spell_them(caplog: pytest.LogCaptureFixture) -> None:
    error = FormatError("the name is \x1b", path="a\x1b[2J\udcff.json", where="line \u202e")
    assert str(error) == r"a\x1b[2J\xff.json, line \u202e: the name is \x1b"
    assert (error.path, error.message) == ("a\x1b[2J\udcff.json", "the name is \x1b")

    class Hostile:
        def __repr__(self) -> str:
            return "\x1b[2J"

    assert short_repr(Hostile()) == r"\x1b[2J"
    assert short_repr("\u202e") == r"'\u202e'"
    with caplog.at_level(logging.INFO, "bpe"):
        for name in ("bpe", "bpe.cli", "bpe.wordcounts"):
            get_log(name).warning("%s of %d", "a\x1b%s", 3)
        logging.getLogger("bpe").info("%s", "é 한")
    assert caplog.messages == [r"a\x1b%s of 3"] * 3 + ["é 한"]
    assert caplog.records[-1].args == ("é 한",)  # what is printable stays as it is


def test_texts_stay_as_they_are() -> None:
    for text in ("é 한 😀 👩‍💻 ‌ می‌خواهم a b", "", "\u00a0\u3000"):
        assert escape_unprintable(text) == text
    assert escape_unprintable("a\tb\nc\U000e0041", keep="\t") == r"a" + "\t" + r"b\x0ac\U000e0041"


def run_in_shell(line: str, folder: Path) -> tuple[int, str]:
    """The status of a command in a shell, and what it says on the streams that are open."""
    line = line.replace("bpe ", f"{sys.executable} -m bpe ", 1)
    paths = os.pathsep.join([str(Path(bpe.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = ["/bin/sh", "-c", line]
    process = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    return process.returncode, process.stdout + process.stderr


@posix
@pytest.mark.parametrize(
    ("line", "status", "pattern"),
    [
        ("bpe train t.txt --vocab-size 260 -o o.json >&-", 0, r"bpe: 260 tokens.*"),
        ("bpe train t.txt --vocab-size 260 -o o.json <&- >&- 2>&-", 0, ""),
        ("bpe train t.txt --vocab-size 260 -o o.json 2>/dev/full", 0, ""),
        ("bpe train - --vocab-size 260 -o o.json <&-", 1, "bpe: error: stdin is closed, and - reads it; .*"),
        ("bpe info plain.json >&-", 1, "bpe: error: stdout: Bad file descriptor"),
        ("bpe --version >/dev/full", 1, "bpe: error: stdout: No space left on device"),
        ("bpe train --help >&-", 1, "bpe: error: stdout: Bad file descriptor"),
        ("bpe none 2>/dev/full", 2, ""),
    ],
)
def test_streams_that_are_closed_or_full(folder: Path, line: str, status: int, pattern: str) -> None:
    if "/dev/full" in line and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    (folder / "t.txt").write_text("low lower lowest\n" * 3)
    (folder / "o.json").unlink(missing_ok=True)
    found_status, text = run_in_shell(line, folder)
    assert (found_status, bool(re.fullmatch(pattern, text.strip()))) == (status, True), text
    assert (folder / "o.json").exists() is ("train t.txt" in line)


@posix
def test_a_reader_of_stderr_that_leaves_does_not_end_the_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of progress that cannot be written was taken for a reader of stdout that has enough: nothing was saved."""
    from bpe.base import progress

    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(progress, "LINE_INTERVAL_SECONDS", 0)
    (folder / "t.txt").write_text("low lower lowest\n" * 3)
    with open(write, "w") as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        assert main(["train", str(folder / "t.txt"), "--vocab-size", "260", "-o", str(folder / "p.json")]) == 0
        monkeypatch.undo()
    assert (folder / "p.json").exists()


@posix
@pytest.mark.parametrize(
    "start", ["-m bpe", "-c 'import sys; sys.argv[0] = \"x/bpe\"; from bpe.cli import main; main()'"]
)
def test_interrupted_while_modules_are_imported(folder: Path, start: str) -> None:
    """The process waits in an import, where a hook of the interpreter lets it."""
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    (hook / "sitecustomize.py").write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which the process that runs the tests may ignore
        "class Wait:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'bpe.cli.arguments':\n"
        "            print('waits', flush=True)\n"
        "            time.sleep(30)\n"
        "sys.meta_path.insert(0, Wait())\n"
    )
    paths = os.pathsep.join([str(hook), str(Path(bpe.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command, pipe = ["/bin/sh", "-c", f"exec {sys.executable} {start} info plain.json"], subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waits\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (-signal.SIGINT, b"")
