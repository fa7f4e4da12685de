"""The commands on sources of other formats than text: formats, fields, bad records, parts."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.cli import main

TEXTS = ["low lower", "newest é", "", "widest\nlow"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of files with the same documents each."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = "".join(json.dumps({"body": text}) + "\n" for text in TEXTS).encode()
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines))
    (folder / "c.csv").write_text('id,body\n1,low lower\n2,newest é\n3,\n4,"widest\nlow"\n', encoding="utf-8")
    return folder


def test_every_command_reads_them(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, expected = str(tmp_path / "t.json"), bpe.train(texts=TEXTS * 3, vocab_size=270)
    assert main(["train", str(corpus), "--field", "body", "-o", saved, "--vocab-size", "270"]) == 0
    assert bpe.Tokenizer.load(saved) == expected
    counts_path = str(tmp_path / "w.counts")
    assert main(["count-words", str(corpus / "*"), "--column", "body", "-o", counts_path]) == 0
    assert bpe.WordCounts.load(counts_path) == bpe.count_words(texts=TEXTS * 3)
    ids = tmp_path / "ids.npy"
    assert main(["encode", str(corpus), "--field", "body", "-t", saved, "-o", str(ids)]) == 0
    assert np.load(ids).tolist() == expected.encode_batch(TEXTS * 3).ids.tolist()
    capsys.readouterr()
    assert main(["count", str(corpus), "--field", "body", "-t", saved]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[3] for row in rows[1:]] == [str(path) for path in sorted(corpus.iterdir())] + ["total"]
    assert {row[1] for row in rows[1:4]} == {str(sum(len(text.encode()) for text in TEXTS))}


@pytest.mark.parametrize("pretokenizer", ["gpt2", "none"])
def test_stdin_in_another_format(
    corpus: Path, tmp_path: Path, pretokenizer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "t.json")
    tok = bpe.train(texts=TEXTS, num_merges=5, pretokenizer=None if pretokenizer == "none" else "gpt2")
    tok.save(saved)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((corpus / "b.jsonl.gz").read_bytes())))
    assert main(["encode", "-", "--input-format", "jsonl", "--field", "body", "-t", saved]) == 0
    lines = capsys.readouterr().out.split("\n")[:-1]
    assert [list(map(int, line.split())) for line in lines] == [tok.encode(text).tolist() for text in TEXTS]


def test_bad_records(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (corpus / "a.jsonl").open("a") as file:
        file.write('{"body": null}\n{"body": "end"}\n')
    out = str(tmp_path / "w.counts")
    argv: list[Any] = ["count-words", str(corpus), "--field", "body", "-o", out]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert "a.jsonl, line 5: field 'body' is null; it must be a string; correct it, or pass --on-error skip" in error
    assert main([*argv, "--on-error", "skip"]) == 0
    assert "1 bad record left out" in capsys.readouterr().err
    assert bpe.WordCounts.load(out) == bpe.count_words(texts=[*TEXTS, "end", *TEXTS * 2])
    assert main([*argv[:-4], "--field", "text", "-o", out]) == 1
    error = capsys.readouterr().err
    assert (
        "a.jsonl, line 1: there is no field 'text', only 'body'; pass the name of the text, such as --field body"
        in error
    )


def test_parts_add_up(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(tmp_path / f"{part}.counts") for part in range(4)]
    for part, name in enumerate(names):
        assert main(["count-words", str(corpus), "--field", "body", "--part", f"{part}/4", "-o", name]) == 0
    merged = str(tmp_path / "merged.counts")
    assert main(["merge-counts", *names, "-o", merged]) == 0
    assert bpe.WordCounts.load(merged) == bpe.count_words(texts=TEXTS * 3)
    for bad in ("4/4", "0/0", "1", "-1/4", "a/b", "0/1000000000"):
        assert main(["count-words", str(corpus), "--field", "body", f"--part={bad}", "-o", merged]) == 2
        assert "is no part: give I/N with I from 0 to N - 1, and N from 1 to 999999999, such" in capsys.readouterr().err


def test_text_with_another_name(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "w.counts")
    argv = ["count-words", str(corpus / "c.csv"), "--per-line", "-o", out]
    assert main(argv) == 1
    assert "is for text, but" in (error := capsys.readouterr().err)
    assert "c.csv is read as csv" in error
    assert main([*argv, "--input-format", "text"]) == 0
    lines = (corpus / "c.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    assert bpe.WordCounts.load(out) == bpe.count_words(texts=lines)
