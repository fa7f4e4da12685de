"""`bpe train` by language, with seeds and for several sizes; `bpe merge-counts --weights`; `bpe info --plot`."""

from __future__ import annotations

import re
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


FILES = ["--language", "en=en.txt", "--language", "ko=ko.txt"]


def test_languages_equal_the_library(folder: Path, capsys: Any) -> None:
    files = {name: f"{name}.txt" for name in TEXTS}
    counts = {name: bpe.count_words(files=path) for name, path in files.items()}
    for name, each in counts.items():
        each.save(f"{name}.counts")
    for flags, fair in (
        ([], bpe.ParityAware()),
        (["--ratio", "en=1", "--ratio", "ko=2.5"], bpe.ParityAware(ratios={"en": 1.0, "ko": 2.5})),
        (["--window", "5", "--alpha", "1.5"], bpe.ParityAware(window_size=5, alpha=1.5)),
        (["--dev", "en=en.txt", "--dev", "ko=ko.counts"], bpe.ParityAware(dev=counts)),
        (["--global-merges", "3"], bpe.ParityAware(global_merges=3)),
    ):
        expected = bpe.train(files=files, vocab_size=280, fair=fair)
        for corpus in (FILES, ["--language", "en=en.counts", "--language", "ko=ko.counts"]):
            assert main(["train", *corpus, *flags, "-o", "out.json", "--vocab-size", "280", "--quiet"]) == 0
            assert bpe.Tokenizer.load("out.json") == expected
    assert capsys.readouterr() == ("", "")


def test_seeds_and_sizes_equal_the_library(folder: Path, capsys: Any) -> None:
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nĠ c\n", encoding="utf-8")
    seeds = bpe.Seeds(merges=[("t", "h"), (" ", "c")], tokens=["hat"])
    expected = bpe.train(files="en.txt", vocab_size=[265, 262], seeds=seeds)
    flags = ["--seed-merges", "merges.txt", "--seed-token", "hat", "--vocab-size", "265,262"]
    assert main(["train", "en.txt", "-o", "tok.json", *flags]) == 0
    assert [bpe.Tokenizer.load(f"tok-{size}.json") for size in (265, 262)] == expected
    assert not Path("tok.json").exists()
    said = capsys.readouterr().err.splitlines()[-2:]
    assert [line.split(", learned")[0] for line in said] == ["bpe: 265 tokens, 9 merges", "bpe: 262 tokens, 6 merges"]
    (folder / "merges.txt").write_text("t h x\n", encoding="utf-8")
    fails(capsys, ["train", "en.txt", "-o", "tok.json", *flags], 1, "line 1 is 't h x'")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["en.txt", *FILES], "give either FILES or --counts words.counts, or --language"),
        (["en.txt", "--window", "9"], "--window needs --language"),
        (["en.txt", "--dev", "en=en.txt"], "--dev needs --language"),
        ([*FILES, "--superwords", "270"], "leave FILES, --counts and --superwords out"),
        (["--language", "en"], "has no name; give NAME=VALUE"),
        ([*FILES, "--ratio", "en=0"], "'0' is not a number above 0"),
        ([*FILES, "--vocab-size", "300,x"], "is not a whole number"),
    ],
)
def test_wrong_use_is_refused(flags: list[str], message: str, folder: Path, capsys: Any) -> None:
    size = [] if "--vocab-size" in flags else ["--vocab-size", "300"]
    fails(capsys, ["train", *flags, *size, "-o", "out.json"], 2, re.escape(message))


def test_weights_equal_the_library(folder: Path, capsys: Any) -> None:
    merged = bpe.WordCounts()
    for name, weight in (("en", 2), ("ko", 0.5)):
        counts = bpe.count_words(files=f"{name}.txt")
        counts.save(f"{name}.counts")
        merged.merge(counts, weight)
    names = ["en.counts", "ko.counts"]
    assert main(["merge-counts", *names, "-o", "all.counts", "--weights", "2,1/2", "--quiet"]) == 0
    assert bpe.WordCounts.load("all.counts") == merged
    wrong = ["merge-counts", *names, "-o", "all.counts", "--weights"]
    fails(capsys, [*wrong, "2"], 2, "--weights has 1 number; give one for each")
    fails(capsys, [*wrong, "2,0"], 2, "is no list of numbers above 0")


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
    monkeypatch.setattr("bpe.show.colours.use_colour", lambda _: True)
    assert main(["info", "--plot", "tok.json"]) == 0
    assert "\x1b[38;5;74m█" in capsys.readouterr().out
    bpe.count_words(files="en.txt").save("en.counts")
    fails(capsys, ["info", "--plot", "en.counts"], 2, "--plot draws the training of a tokenizer")
    tok.truncate_vocab(260)[0].save("old.json")
    fails(capsys, ["info", "--plot", "old.json"], 1, "has no record of its training")
