"""`bpe train` by language, with seeds and for several sizes; `bpe merge-counts --weights`; `bpe info --plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import fails

import bpe
from bpe.cli import main

TEXTS = {"en": "the cat and the hat, lower lowest\n" * 9, "ko": "고양이와 모자 고양이\n" * 4}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a text for each language."""
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_sizes_equal_the_library(folder: Path, capsys: Any) -> None:
    expected = bpe.train(files="en.txt", vocab_size=[265, 262])
    assert main(["train", "en.txt", "-o", "tok.json", "--vocab-size", "265,262"]) == 0
    assert [bpe.Tokenizer.load(f"tok-{size}.json") for size in (265, 262)] == expected
    assert not Path("tok.json").exists()
    log_lines = capsys.readouterr().err.splitlines()[-2:]
    assert [line.split(", learned")[0] for line in log_lines] == [
        "bpe: 265 tokens, 9 merges",
        "bpe: 262 tokens, 6 merges",
    ]
    fails(capsys, ["train", "en.txt", "-o", "tok.json", "--vocab-size", "300,x"], 2, "is not a whole number")


def test_weights_equal_the_library(folder: Path, capsys: Any) -> None:
    merged = bpe.WordCounts()
    for name, weight in (("en", 2), ("ko", 0.5)):
        counts = bpe.count_words(files=f"{name}.txt")
        counts.save(f"{name}.counts")
        merged.merge(counts, weight)
    names = ["en.counts", "ko.counts"]
    assert main(["merge-counts", *names, "-o", "all.counts", "--weights", "2,1/2", "--quiet"]) == 0
    assert bpe.WordCounts.load("all.counts") == merged
    command = ["merge-counts", *names, "-o", "all.counts", "--weights"]
    fails(capsys, [*command, "2"], 2, "--weights has 1 number; give one for each")
    fails(capsys, [*command, "2,0"], 2, "is no list of numbers above 0")


def test_info_draws_the_curve(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tok = bpe.train(files="en.txt", vocab_size=262)
    tok.save("tok.json")
    capsys.readouterr()
    assert main(["info", "--plot", "tok.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "merges  count  bytes per token"
    assert tok.spec.training is not None
    assert len(lines) == 1 + len(tok.spec.training.curve)
    assert lines[-1].endswith("█" * 40)
    monkeypatch.setattr("bpe.show.terminal.use_colour", lambda _: True)
    assert main(["info", "--plot", "tok.json"]) == 0
    assert "\x1b[38;5;74m█" in capsys.readouterr().out
    bpe.count_words(files="en.txt").save("en.counts")
    fails(capsys, ["info", "--plot", "en.counts"], 2, "--plot draws the training of a tokenizer")
    tok.truncate_vocab(260)[0].save("old.json")
    fails(capsys, ["info", "--plot", "old.json"], 1, "has no record of its training")
