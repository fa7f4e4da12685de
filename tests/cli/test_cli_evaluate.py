"""The commands `bpe evaluate` and `bpe sanity-check`."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import TEXT, fails

import bpe
from bpe.cli import main


@pytest.fixture
def files(tokenizer_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two tokenizers and two texts, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(tokenizer_file, "a.json")
    bpe.train(texts=[TEXT] * 2, vocab_size=280).save("b.json")
    Path("ko.txt").write_text("다람쥐 헌\n쳇바퀴에 타고파\n다람쥐\n", encoding="utf-8")
    Path("en.txt").write_text("low lower\nnewest 1234\n", encoding="utf-8")
    return tmp_path


def test_json_is_the_result_of_the_library(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "a.json", "ko=ko.txt", "en.txt", "b.json", "--per-line", "--json"]) == 0
    loaded = {name: bpe.Tokenizer.load(f"{name}.json") for name in "ab"}
    sources = {name: bpe.Sources(f"{name}.txt", per_line=True) for name in ("ko", "en")}
    expected = bpe.evaluate(loaded, sources).to_dict()
    assert json.loads(capsys.readouterr().out) == expected


def test_one_corpus_is_flat_unless_it_is_named(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "a.json", "en.txt", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["tokenizer"], result["bytes"], "corpora" in result) == ("a", 22, False)
    assert main(["evaluate", "a.json", "english=en.txt", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["corpora"]) == ["english"]


def test_records_are_documents_beside_lines(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.jsonl").write_text('{"text": "low\\nlower"}\n{"text": "lower"}\n')
    assert main(["evaluate", "a.json", "rows.jsonl", "en.txt", "--per-line", "--json"]) == 0
    corpora = json.loads(capsys.readouterr().out)["corpora"]
    assert {name: metrics["documents"] for name, metrics in corpora.items()} == {"rows": 2, "en": 2}


def test_outputs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "a.json", "b.json", "ko.txt", "en.txt", "--per-line"]) == 0
    table = capsys.readouterr().out
    assert "bytes per token" in table
    assert "ko: b takes" in table
    assert "bytes per token ↑" in table
    assert "What these figures say: " in table
    rows = table.split("\n\n")[1].splitlines()[1:]
    assert len(rows) <= 15
    assert main(["evaluate", "a.json", "b.json", "ko.txt", "en.txt", "--per-line", "--all"]) == 0
    all_rows = capsys.readouterr().out.split("\n\n")[1].splitlines()[1:]
    names, all_names = ({row.split("  ")[0] for row in lines} for lines in (rows, all_rows))
    assert names < all_names
    assert f"; {len(all_rows) - len(rows)} more metrics: bpe evaluate --all" in table
    assert main(["evaluate", "--csv", "a.json", "en.txt"]) == 0  # a.json is a tokenizer, and no output
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["tokens"] for row in rows] == [
        str(bpe.Tokenizer.load("a.json").count_tokens(Path("en.txt").read_text()))
    ]
    assert main(["evaluate", "a.json", "en.txt", "--json", "out.json"]) == 0
    assert main(["evaluate", "a.json", "en.txt", "--json", "out.json"]) == 0  # replaces it
    assert json.loads(Path("out.json").read_text())["documents"] == 1
    assert capsys.readouterr().out == ""
    Path("words").write_text("new est\nlow er\n")
    assert main(["evaluate", "a.json", "en.txt", "--json", "--morphemes", "words"]) == 0
    assert json.loads(capsys.readouterr().out)["morpheme_words"] == 2


def test_html(files: Path) -> None:
    assert main(["evaluate", "a.json", "en.txt", "--html", "page.html"]) == 0
    assert "<html" in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("argv", "status", "pattern"),
    [
        (["ko.txt"], 2, "none of PATHS is a tokenizer"),
        (["a.json", "b.json"], 2, "all of PATHS are tokenizers"),
        (["a.json", "none.txt"], 1, r"none\.txt"),
        (["a.json", "en.txt", "--json", "none/x.json"], 1, "folder none does not exist"),
        (["a.json", "en.txt", "--reference", "ko"], 1, "reference is 'ko'"),
        (["a.json", "en.txt", "-t", "ko.txt"], 1, r"ko\.txt"),
        (["a.json", "-", "--html", "page.html"], 2, "it cannot be stdin"),
    ],
)
def test_bad_use(files: Path, capsys: pytest.CaptureFixture[str], argv: list[str], status: int, pattern: str) -> None:
    fails(capsys, ["evaluate", *argv], status, pattern)


def test_sanity_check(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = bpe.train(texts=["low lower lowest"], vocab_size=258)
    sound.save("sound.json")
    assert main(["sanity-check", "sound.json", "ko.txt", "--per-line"]) == 0
    out = capsys.readouterr().out
    assert "ok       lost text: 16 texts came back unchanged" in out
    bpe.train(texts=["low 12"], num_merges=2, model="char").save("random.json")
    assert main(["sanity-check", "sound.json", "random.json", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert "random:" in out
    assert "failure  lost text: " in out
    allowed = [word for check in ("lost text", "numbers", "repeatable") for word in ("--allow", check)]
    assert main(["sanity-check", "random.json", *allowed]) == 0
    assert "allowed  lost text: " in capsys.readouterr().out


def test_sanity_check_reads_whole_files(tmp_path, capsys):
    """The last document, which loses a character, begins after 9 MB."""
    tok = bpe.train(texts=["low lower"], vocab_size=258, pretokenizer=bpe.Pretokenizer.from_regex("[^#]+"))
    tok.save(tmp_path / "t.json")
    (tmp_path / "a.txt").write_text("low lower " * 900_000 + "\nlow #5 lower\n")
    argv = ["sanity-check", str(tmp_path / "t.json"), str(tmp_path / "a.txt"), "--per-line"]
    main(argv)
    assert re.search(r"failure  lost text: .*'low #5 lower.* came back as 'low 5 lower", capsys.readouterr().out)
