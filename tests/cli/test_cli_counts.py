"""`bpe count-words`, `bpe merge-counts`, `bpe train --counts`, and `bpe info` for a file of counts."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import fails

import bpe
from bpe.cli import main

PARTS = [
    "low lower lowest\nlow naïve<|end|>low\n",
    "\n새로운 단어 new newer 12\r\n  low",
    "newest 3 low<|end|><|end|>단어  \n",
]

#: Flags of `count-words` and the options of the library that they are.
COUNT_OPTIONS = [
    ([], {}),
    (["--separator", "<|end|>"], {"separator": "<|end|>"}),
    (["--separator", r"\n"], {"separator": "\n"}),
    (["--per-line"], {"per_line": True}),
]

#: Flags of `count-words` and the settings of the counts that they make.
SETTINGS = [
    ("--pretokenizer cl100k", {"pretokenizer": "cl100k"}),
    ("--pretokenizer none", {"pretokenizer": None}),
    (r"--pattern \w+|\n", {"pretokenizer": bpe.Pretokenizer.from_regex(r"\w+|\n")}),
    ("--special-token <|end|> --special-token low", {"special_tokens": ["<|end|>", "low"]}),
    ("--normalizer lower", {"normalizer": bpe.normalizers.Lowercase()}),
    (
        "--normalizer nfd --remove [0-9] --normalizer strip",
        {"normalizer": [bpe.normalizers.NFD(), bpe.normalizers.Remove("[0-9]"), bpe.normalizers.Strip()]},
    ),
]


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    """A corpus of three files."""
    paths = [tmp_path / f"{index}.txt" for index in range(len(PARTS))]
    for path, text in zip(paths, PARTS, strict=True):
        path.write_bytes(text.encode())
    return list(map(str, paths))


@pytest.fixture
def out(tmp_path: Path) -> str:
    folder = tmp_path / "out"
    folder.mkdir()
    return str(folder / "words.counts")


# count-words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(
    ("cut", "kept"),
    COUNT_OPTIONS,
)
def test_count_words_equals_the_library(
    parts: list[str], out: str, capsys: Any, cut: list[str], kept: dict[str, Any], threads: str
) -> None:
    assert main(["count-words", *parts, "-o", out, *cut, "--threads", threads, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    counts = bpe.WordCounts.load(out)
    assert counts == bpe.count_words(files=bpe.Sources(parts, **kept))
    assert os.listdir(Path(out).parent) == ["words.counts"]


@pytest.mark.parametrize(
    ("argv", "options"),
    SETTINGS,
)
def test_options_reach_the_counts(parts: list[str], out: str, argv: str, options: dict[str, Any]) -> None:
    assert main(["count-words", *parts, "-o", out, "--quiet", *argv.split()]) == 0
    assert bpe.WordCounts.load(out) == bpe.count_words(files=parts, **options)


@pytest.mark.parametrize("cut", [[], ["--per-line"], ["--separator", "<|end|>"]])
def test_stdin_gives_the_counts_of_the_file(parts: list[str], out: str, monkeypatch: Any, cut: list[str]) -> None:
    data = Path(parts[0]).read_bytes()
    assert main(["count-words", parts[0], parts[1], "-o", out, *cut]) == 0
    expected = Path(out).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["count-words", "-", parts[1], "-o", out, *cut]) == 0
    assert Path(out).read_bytes() == expected


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
@pytest.mark.parametrize("cut", [[], ["--per-line"]])
def test_a_pipe_gives_the_counts_of_the_file(parts: list[str], out: str, tmp_path: Path, cut: list[str]) -> None:
    assert main(["count-words", parts[0], "-o", out, *cut]) == 0
    expected = Path(out).read_bytes()
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cp", parts[0], str(tmp_path / "pipe")]) as writer:
        try:
            assert main(["count-words", str(tmp_path / "pipe"), "-o", out, *cut]) == 0
        finally:
            writer.kill()
    assert Path(out).read_bytes() == expected


def test_the_log_has_a_summary_of_the_counts(parts: list[str], out: str, capsys: Any) -> None:
    assert main(["count-words", *parts, "-o", out]) == 0
    counts = bpe.count_words(files=parts)
    captured = capsys.readouterr()
    assert captured.out == ""
    pattern = rf"bpe: {len(counts)} distinct words, {counts.total} in all, counted in \d+\.\d s: .*words\.counts\n"
    assert re.fullmatch(pattern, captured.err)
    assert main(["merge-counts", out, out, "-o", out + "2"]) == 0
    expected = f"bpe: {len(counts)} distinct words, {2 * counts.total} in all, from 2 files: {out}2\n"
    assert capsys.readouterr() == ("", expected)


# merge-counts and train -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie_break", ["id", "first"])  # "first" needs the order of the words
@pytest.mark.parametrize("model", [[], ["--model", "char", "--end-of-word", "</w>"]])
@pytest.mark.parametrize("cut", [[], ["--per-line"], ["--separator", "<|end|>"]])
def test_merged_parts_train_the_same_tokenizer(
    parts: list[str], out: str, tie_break: str, model: list[str], cut: list[str]
) -> None:
    """Counting in parts, merging and training gives the file that training on the files gives."""
    words = ["--pretokenizer", "whitespace", "--special-token", "<|end|>", "--normalizer", "nfc"]
    learn = ["--num-merges", "30", "--tie-break", tie_break, "--special-token", "<|end|>", *model, "--quiet"]
    for index, part in enumerate(parts):
        assert main(["count-words", part, "-o", f"{out}.{index}", *words, *cut]) == 0
    assert main(["merge-counts", *(f"{out}.{index}" for index in range(len(parts))), "-o", out]) == 0
    assert main(["count-words", *parts, "-o", f"{out}.whole", *words, *cut]) == 0
    assert Path(out).read_bytes() == Path(f"{out}.whole").read_bytes(), "counts or their order differ"
    assert main(["train", "--counts", out, "-o", f"{out}.json", *learn]) == 0
    assert main(["train", *parts, "-o", f"{out}.whole.json", *learn, *words[:2], *words[4:], *cut]) == 0
    assert Path(f"{out}.json").read_bytes() == Path(f"{out}.whole.json").read_bytes()


def test_merging_a_single_part(parts: list[str], out: str) -> None:
    assert main(["count-words", parts[0], "-o", out]) == 0
    assert main(["merge-counts", out, "-o", out + "2"]) == 0
    assert Path(out).read_bytes() == Path(out + "2").read_bytes()


def test_training_names_separators_that_are_not_tokens(parts: list[str], out: str, capsys: Any) -> None:
    assert main(["count-words", *parts, "-o", out, "--special-token", "<|end|>", "--quiet"]) == 0
    argv = ["train", "--counts", out, "-o", out + ".json", "--vocab-size", "260"]
    assert main([*argv, "--quiet"]) == 0
    err = capsys.readouterr().err
    rule = "<|end|> separated the text of the counts and is no token; name it as a special token to make it one"
    assert err == f"bpe: {rule}\n"
    assert main([*argv, "--quiet", "--special-token", "<|end|>"]) == 0
    assert capsys.readouterr().err == ""


def test_counts_beyond_32_bits_are_merged_and_trained_on(tmp_path: Path, capsys: Any) -> None:
    counts = bpe.WordCounts("whitespace")
    counts.update({"hug": 2**40, "pug": 2**40 + 1, "hugs": 3})
    paths = [str(tmp_path / "a.counts"), str(tmp_path / "b.counts")]
    counts.save(paths[0])
    assert main(["merge-counts", paths[0], paths[0], "-o", paths[1], "--quiet"]) == 0
    assert bpe.WordCounts.load(paths[1])["pug"] == 2**41 + 2
    argv = ["train", "--counts", paths[1], "-o", str(tmp_path / "t.json"), "--num-merges", "2", "--trace", "--quiet"]
    assert main(argv) == 0
    assert (
        capsys.readouterr().out
        == f"step\tleft\tright\ttoken\tcount\n1\tu\tg\tug\t{2**42 + 8}\n2\th\tug\thug\t{2**41 + 6}\n"
    )


# info -----------------------------------------------------------------------------------------------------------------


def test_info_describes_counts(tmp_path: Path, capsys: Any) -> None:
    counts = bpe.count_words(texts=["low low low er", "<s>"], normalizer=bpe.normalizers.NFC(), special_tokens=["<s>"])
    counts.save(tmp_path / "words.counts")
    assert main(["info", str(tmp_path / "words.counts")]) == 0
    facts = dict(re.split(r":\s+", line, maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert facts == {
        "file": "word counts",
        "distinct words": "3",
        "words in all": "4",
        "special tokens": "<s>",
        "pretokenizer": "gpt2, pretokens found by a scanner",
        "normalizer": "NFC()",
        "words of": "documents",
        "most frequent": "·low|low|·er",
    }
    bpe.WordCounts(None).save(tmp_path / "none.counts")
    assert main(["info", str(tmp_path / "none.counts")]) == 0
    out = capsys.readouterr().out
    assert "none: a text is one word\n" in out
    assert out.endswith("most frequent:    none\n")


def test_info_of_damaged_counts(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "words.counts"
    bpe.count_words(texts=["low lower"]).save(path)
    path.write_bytes(path.read_bytes()[:-1])
    fails(capsys, ["info", str(path)], 1, r"bpe: error: .*words\.counts: the checksum is wrong")


# Bad input ------------------------------------------------------------------------------------------------------------


def test_invalid_input_leaves_the_old_file(parts: list[str], out: str, tmp_path: Path, capsys: Any) -> None:
    main(["count-words", parts[0], "-o", out, "--quiet"])
    old_content = Path(out).read_bytes()
    other = str(tmp_path / "other.counts")
    bpe.WordCounts("cl100k").save(other)
    text, gone, target = parts[0], str(tmp_path / "gone"), str(tmp_path / "c.counts")
    full = bpe.WordCounts()
    full.update({"a": 2**63 - 1})
    full.save(tmp_path / "full.counts")
    damaged = tmp_path / "damaged.counts"
    damaged.write_bytes(old_content[:-40])
    (tmp_path / "empty").mkdir()
    there = sorted(path.name for path in tmp_path.iterdir())
    for argv, pattern in (
        (["count-words", text, gone, "-o", target], "gone: No such file"),
        (["count-words", str(tmp_path / "empty"), "-o", target], "the directory has no files"),
        (["merge-counts", out, gone, "-o", target], "gone: No such file"),
        (["merge-counts", out, text, "-o", target], r"0\.txt: begins with .*: this is not a file of word counts"),
        (["merge-counts", out, str(damaged), "-o", target], r"damaged\.counts: the checksum is wrong"),
        (
            ["merge-counts", out, other, "-o", target],
            r"other\.counts: .*made with --pretokenizer cl100k.*made with the same settings",
        ),
        (["merge-counts", out, str(tmp_path / "full.counts"), "-o", target], r"full\.counts: the counts sum to"),
        (["train", "--counts", gone, "-o", target, "--vocab-size", "300"], "gone: No such file"),
        (["train", "--counts", str(damaged), "-o", target, "--vocab-size", "300"], "the checksum is wrong"),
        (["train", "--counts", other, "-o", target, "--vocab-size", "300"], "no words"),
        (
            ["train", "--counts", out, "-o", target, "--vocab-size", "300", "--pretokenizer", "o200k"],
            "made with --pretokenizer gpt2, .* is requested",
        ),
        (
            ["train", "--counts", out, "-o", target, "--vocab-size", "300", "--normalizer", "nfc"],
            "made with no --normalizer, but --normalizer NFC",
        ),
    ):
        fails(capsys, argv, 1, "^bpe: error: .*" + pattern)
    assert sorted(path.name for path in tmp_path.iterdir()) == there
    assert Path(out).read_bytes() == old_content


def test_invalid_outputs_are_refused_first(
    parts: list[str], out: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    main(["count-words", parts[0], "-o", out, "--quiet"])
    old_content = Path(out).read_bytes()
    monkeypatch.setattr(bpe, "count_words", None)  # must not be called
    monkeypatch.setattr(bpe.WordCounts, "load", None)
    nowhere = str(tmp_path / "no" / "out")
    for command in (["count-words", parts[0]], ["merge-counts", out]):
        fails(capsys, [*command, "-o", nowhere], 1, "folder .*no does not exist; make it first")
        fails(capsys, [*command, "-o", str(tmp_path)], 1, "is a folder")
        fails(capsys, [*command, "-o", command[1]], 1, "is one of the inputs")
    assert Path(out).read_bytes() == old_content


def test_ctrl_c_leaves_no_files(parts: list[str], out: str, capsys: Any, monkeypatch: Any) -> None:
    def interrupted(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bpe, "count_words", interrupted)
    fails(capsys, ["count-words", *parts, "-o", out], 130, "^bpe: interrupted: nothing was saved\n$")
    assert os.listdir(Path(out).parent) == []
