"""Folders that a killed `write_shards` or `convert_shards` has left: refused by all readers, completed later."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from shard_corpus import read_files, run_until_killed

from bpe.cli import main
from bpe.data import Blocks, Manifest, TokenShards, convert_shards, journal, verify, write_shards
from bpe.errors import FormatError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

DOCS = [[token_id, token_id + 1] for token_id in range(30)]


def write_parts(folder: Path) -> None:
    """Shards in the folders of parts."""
    shards = []
    for name in ("0", "1"):
        for shard in write_shards(DOCS, folder / name, shard_size=20).shards:
            files = tuple(replace(file, name=f"{name}/{file.name}") for file in shard.files)
            shards.append(replace(shard, stem=f"{name}/{shard.stem}", files=files))
    Manifest("native", "uint16", tuple(shards)).write(folder)


CALLS: dict[str, Callable[[Path, Path], object]] = {
    "write": lambda _, out: write_shards(DOCS, out, shard_size=20),
    "write megatron": lambda _, out: write_shards(DOCS, out, shard_size=20, format="megatron"),
    "convert": lambda source, out: convert_shards(source / "0", out, "datatrove"),
    "convert to one": lambda source, out: convert_shards(source, out, "nanogpt", end_of_text=99),
    "convert parts": lambda source, out: convert_shards(source, out, "native"),
}


def is_refused(read: Callable[[], object]) -> bool:
    try:
        read()
    except (FormatError, FileNotFoundError):
        return True
    return False


def is_refused_by_all(out: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether the folder is refused, by every reader."""
    copy, lines = out.parent / "copy", verify(out)
    answers = {is_refused(lambda: TokenShards(out)), is_refused(lambda: Blocks(TokenShards(out), 2))}
    answers |= {is_refused(lambda: convert_shards(out, copy)), main(["verify", str(out), "--quiet"]) == 1}
    answers.add(bool(lines) and all("manifest" in line for line in lines))
    shutil.rmtree(copy, ignore_errors=True)
    capsys.readouterr()
    assert len(answers) == 1
    return answers.pop()


@pytest.mark.parametrize("name", CALLS)
def test_kills(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_parts(tmp_path / "source")
    events: list[str] = []
    monkeypatch.setattr(journal, "failpoint", events.append)
    CALLS[name](tmp_path / "source", tmp_path / "whole")
    monkeypatch.setattr(journal, "failpoint", None)
    for event in range(0, len(events), 1 + len(events) // 4):
        out = tmp_path / f"out{event}"
        assert run_until_killed(event, lambda out=out: CALLS[name](tmp_path / "source", out))
        assert (out / journal.JOURNAL_NAME).exists()
        inner = [path.parent for path in out.glob("*/*.npy")]
        if events[event] == "manifest written":
            TokenShards(out)
            continue
        assert is_refused_by_all(out, capsys)
        assert all((path / journal.JOURNAL_NAME).exists() or events[event] == "manifest" for path in inner)
        CALLS[name](tmp_path / "source", out)  # the same call again
        assert read_files(out) == read_files(tmp_path / "whole")


def test_a_later_call_with_fewer_shards_leaves_none_of_the_others(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_until_killed(8, lambda: write_shards(DOCS, out, shard_size=4))
    assert len([*out.glob("*.offsets.npy")]) > 2
    with pytest.raises(ValueError, match="id -1 is out of range"):  # after an error the mark stays
        write_shards([[1], [-1]], out, shard_size=4, largest_id=31)
    with pytest.raises(FormatError, match="not finished: run the same command again"):
        TokenShards(out)
    write_shards(DOCS[:2], out, shard_size=4, largest_id=31)
    assert sorted(read_files(out)) == ["manifest.json", "tokens-00000.npy", "tokens-00000.offsets.npy"]


def test_another_call_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_until_killed(4, lambda: write_shards(DOCS, out, shard_size=4))
    with pytest.raises(ValueError, match="format was 'native' and is 'megatron'"):
        write_shards(DOCS, out, shard_size=4, format="megatron")
    write_shards(DOCS, tmp_path / "source")
    with pytest.raises(ValueError, match="writer was 'write_shards' and is 'convert_shards'"):
        convert_shards(tmp_path / "source", out)
    with journal.lock_folder(out), pytest.raises(ValueError, match="another process is writing to"):
        write_shards(DOCS, out, shard_size=4)


def test_other_files_may_be_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    write_shards(DOCS, tmp_path)
    assert TokenShards(tmp_path).n_documents == len(DOCS)
