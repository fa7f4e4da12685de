"""The command `bpe`: results for programs, and `bpe extend` and `bpe truncate`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import fails

import bpe
from bpe.cli import arguments, main
from bpe.data import encode_shards

PAGE = next(folder for folder in Path(__file__).resolve().parents if (folder / "docs").exists()) / "docs"


@pytest.fixture
def tok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bpe.Tokenizer:
    monkeypatch.chdir(tmp_path)
    tokenizer = bpe.train(texts=["low lower lowest 한"] * 3, vocab_size=262, special_tokens=["<|end|>"])
    tokenizer.save("tok.json")
    Path("a.txt").write_text("low lower\n")
    Path("b.txt").write_text("")
    return tokenizer


def run_json(capsys: pytest.CaptureFixture[str], line: str, status: int = 0) -> Any:
    assert main([*line.split(), "--json", "--quiet"]) == status
    return json.loads(capsys.readouterr().out)


def test_count(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    n_tokens = tok.count_tokens("low lower\n")
    expected = {"tokens": n_tokens, "bytes": 10, "bytes_per_token": 10 / n_tokens}
    assert run_json(capsys, "count a.txt b.txt -t tok.json") == {
        "files": [
            {"file": "a.txt", **expected},
            {"file": "b.txt", "tokens": 0, "bytes": 0, "bytes_per_token": None},
        ],
        "total": expected,
    }


def test_info(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, "info tok.json")
    assert result["kind"] == "tokenizer"
    assert (result["vocab_size"], result["n_vocab"], result["merges"]) == (262, 262, len(tok.merges))
    assert result["special_tokens"] == {"<|end|>": 0}
    assert result["fingerprint"] == tok.fingerprint
    assert result["training"]["curve"][0]["merges"] == 1
    bpe.count_words(texts=["low low\x1b"]).save("w.counts")
    result = run_json(capsys, "info w.counts")
    assert (result["kind"], result["words"]) == ("word counts", 3)
    assert {"word": "low", "count": 1} in result["most_frequent"]


def test_show(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, "show low글 -t tok.json")
    assert result["ids"] == tok.encode("low글").tolist()
    assert result["tokens"][0] == {"id": tok.token_id("low"), "text": "low", "bytes": "6c6f77", "start": 0, "end": 3}
    assert "".join(token["bytes"] for token in result["tokens"]) == "low글".encode().hex()
    assert main(["show", "low글", "-t", "tok.json", "--ids"]) == 0
    ids = tok.encode("low글").tolist()
    spellings = ["low", "글₁", "글₂", "글₃"]
    assert capsys.readouterr().out == "".join(f"{i:>8}  {text}\n" for i, text in zip(ids, spellings, strict=True))


def test_diff(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "diff tok.json tok.json a.txt") == {"equal": True, "differences": [], "files": []}
    tok.truncate_vocab(258)[0].save("small.json")
    result = run_json(capsys, "diff tok.json small.json a.txt b.txt", 1)
    assert result["equal"] is False
    assert {"vocabulary", "merges"} <= {difference["kind"] for difference in result["differences"]}
    assert [(file["file"], file["documents"], file["document"]) for file in result["files"]] == [("a.txt", 1, 0)]


def test_verify(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    encode_shards("a.txt", tok, "shards")
    assert run_json(capsys, "verify shards") == {"sound": True, "defects": []}
    next(Path("shards").glob("*.offsets.npy")).unlink()
    result = run_json(capsys, "verify shards", 1)
    assert result["sound"] is False
    assert len(result["defects"]) >= 1


def test_sanity_check(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, "sanity-check tok.json")
    assert result["tok"]["failed"] is False
    assert {finding["check"] for finding in result["tok"]["findings"]} >= {"numbers", "lost text"}
    assert all(finding["level"] in ("ok", "warning") for finding in result["tok"]["findings"])


def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, "demo --vocab-size 300")
    assert result["same"] is True
    assert result["vocab_size"] == 300
    assert set(result["megabytes_per_second"]) == {"training", "encoding", "decoding"}


def test_unprintable_characters_are_escaped(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "\x1b\u202e\x7f\U000e0041", "-t", "tok.json", "--json"]) == 0
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert json.loads(out)["tokens"][0]["text"] == "\x1b"


def test_the_page_lists_the_keys(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command with --json has a row in the documentation with all keys of its result."""
    page = (PAGE / "command_line.md").read_text(encoding="utf-8")
    names = {
        name
        for name, command in arguments.COMMANDS.items()
        if any(action.dest == "json" for action in arguments.build_parser(name)._actions)
    }
    encode_shards("a.txt", tok, "shards")
    lines = "count a.txt -t tok.json, info tok.json, show x -t tok.json, diff tok.json tok.json, verify shards"
    for line in [*lines.split(", "), "sanity-check tok.json", "demo --vocab-size 300"]:
        name = line.split()[0]
        row = re.search(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
        assert row is not None, name
        if name != "sanity-check":
            assert set(run_json(capsys, line)) <= set(re.findall(r"`(\w+)`", row[1])), name
        names.remove(name)
    assert names == {"evaluate"}


def test_truncate(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    tok = tok.with_tokens(special=["<|more|>"])
    tok.save("more.json")
    assert (
        main(["truncate", "more.json", "-o", "small.json", "--vocab-size", "260", "--remap", "new_ids.npy", "--quiet"])
        == 0
    )
    expected, new_ids = tok.truncate_vocab(260)
    assert bpe.Tokenizer.load("small.json") == expected
    assert np.array_equal(np.load("new_ids.npy"), new_ids)
    assert expected.n_vocab == 260
    assert main(["truncate", "more.json", "-o", "kept.json", "--vocab-size", "260", "--keep-ids", "--quiet"]) == 0
    assert bpe.Tokenizer.load("kept.json").token_id("<|more|>") == tok.token_id("<|more|>")
    fails(
        capsys,
        ["truncate", "more.json", "-o", "x.json", "--vocab-size", "999"],
        1,
        "bpe extend makes a vocabulary larger",
    )
    fails(capsys, ["truncate", "more.json", "-o", "more.json", "--vocab-size", "260"], 1, "one of the inputs")


def test_extend(tok: bpe.Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.txt").write_text("newest widest newest\n" * 3)
    assert (
        main(["extend", "c.txt", "-t", "tok.json", "-o", "longer.json", "--vocab-size", "265", "--per-line", "--quiet"])
        == 0
    )
    counts = bpe.count_words(
        files=bpe.Sources("c.txt", per_line=True), pretokenizer=tok.pretokenizer, special_tokens=tok.special_tokens
    )
    assert bpe.Tokenizer.load("longer.json") == bpe.extend(tok, counts, 265)
    fails(
        capsys,
        ["extend", "c.txt", "-t", "tok.json", "-o", "x.json", "--vocab-size", "9"],
        1,
        "bpe truncate makes a vocabulary sm",
    )
    fails(
        capsys, ["extend", "c.txt", "-t", "tok.json", "-o", "tok.json", "--vocab-size", "265"], 1, "one of the inputs"
    )
