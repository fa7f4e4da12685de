"""`bpe report` and `bpe play`."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import bpe
from bpe.cli import main
from bpe.cli.comparing import is_tokenizer, name_paths


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, merges in (("a", 5), ("b", 12)):
        (tmp_path / name).mkdir()
        bpe.train(texts=["low lower lowest 한국어"] * 3, num_merges=merges).save(tmp_path / name / "tokenizer.json")
    (tmp_path / "ko.txt").write_text("한국어 한국\n한국\n", encoding="utf-8")
    (tmp_path / "en.txt").write_text("low lower\nlowest\n", encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"text": "low"}\n{"text": "lower"}\n', encoding="utf-8")
    return tmp_path


def test_two_paths_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"two of PATHS are named ko: a.txt and b.txt; give each a name"):
        name_paths(["ko=a.txt", "ko=b.txt"])


def test_report(folder, capsys):
    argv = ["report", "a/tokenizer.json", "ko.txt", "b", "en.txt", "rows.jsonl", "-o", "report.html", "--per-line"]
    assert main(argv) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<h1>Tokenizer report: a, b</h1>" in page
    assert "ko: b needs" in page
    assert "rows" in page
    assert "fewer tokens than a [" in page
    assert capsys.readouterr().err == "bpe: report.html: a, b\n"


def test_report_without_texts(folder):
    assert main(["report", "a", "b", "-o", "report.html", "--quiet"]) == 0
    assert "What differs" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["ko.txt", "-o", "r.html"], 2, "none of PATHS is a tokenizer"),
        (["a", "absent.txt", "-o", "r.html"], 1, "absent.txt"),
        (["a", "-", "-o", "r.html"], 2, "it cannot be stdin"),
        (["a", "ko.txt", "-o", "ko.txt"], 1, "is one of the inputs"),
        (["a", "ko.txt", "-o", "absent/r.html"], 1, "absent"),
        (["a", "-t", "ko.txt", "-o", "r.html"], 1, "ko.txt"),
    ],
)
def test_bad_use_of_report(folder, capsys, argv, status, message):
    assert main(["report", *argv]) == status
    assert message in capsys.readouterr().err
    assert not (folder / "r.html").exists()


def test_names_and_kinds_of_paths(folder):
    assert list(name_paths(["a/tokenizer.json", "b/tokenizer.json", "x/ko.txt", "y/ko.txt"])) == [
        "a",
        "b",
        "ko",
        "y/ko.txt",
    ]
    are_tokenizers = {
        path: is_tokenizer(path) for path in ("a", "a/tokenizer.json", "ko.txt", "rows.jsonl", "absent", "-")
    }
    assert are_tokenizers == {
        "a": True,
        "a/tokenizer.json": True,
        **dict.fromkeys(("ko.txt", "rows.jsonl", "absent", "-"), False),
    }


def test_files_of_codes_and_compiled_files_are_tokenizers(folder):
    Path("codes").write_text("l o\nlo w\nlow </w>\n")  # subword-nmt 0.1 wrote no header
    Path("pairs").write_text("l o\nlo w\n")
    bpe.Tokenizer.load("a").save("a.compiled")
    assert [is_tokenizer(path) for path in ("codes", "pairs", "a.compiled")] == [True, False, True]


def test_play_serves_until_ctrl_c(folder):
    argv = [sys.executable, "-m", "bpe", "play", "a", "b", "--port", "0"]
    # A background job of a shell ignores SIGINT, and so do its child processes; a command at a terminal does not.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    buffered = {"env": os.environ | {"PYTHONUNBUFFERED": ""}}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes, **heeding, **buffered) as process:
        try:
            url = urlsplit(process.stdout.readline().strip())
            assert url.hostname == "127.0.0.1"
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
            connection.request("GET", "/?text=lowest")
            page = connection.getresponse().read().decode()
            connection.close()
            assert page.count('<div class="panel">') == 2
            process.send_signal(signal.SIGINT)
            _, log_text = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert log_text.splitlines() == ["bpe: a, b; Ctrl-C ends it", "bpe: ended"]


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["--host", "0.0.0.0"], 1, "pass --allow-network"),
        (["--port", "70000"], 2, "it must be a whole number from 0 to 65535"),
        (["absent.json"], 1, "absent.json"),
    ],
)
def test_bad_use_of_play(folder, capsys, argv, status, message):
    assert main(["play", "a", *argv]) == status
    assert message in capsys.readouterr().err
