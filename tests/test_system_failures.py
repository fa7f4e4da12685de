"""Calls of the system that fail: a little of what `benchmarks/checks/check_failures.py` tries, and what it found."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checks import FOLDER

import bpe
from bpe.base.utf8 import read_file
from bpe.data import TokenShards, encode_shards, write_shards
from bpe.data.formats.files import ShardFile


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
def test_whatever_fails_files_stay_whole_and_objects_usable() -> None:
    command = [sys.executable, "check_failures.py", "save", "--most", "1"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 faults") == 1


def test_each_fault_to_plant_has_its_place() -> None:
    """`benchmarks/reliability/planted_faults.py` changes one place of a file, which must be there."""
    path = FOLDER.parent / "reliability" / "planted_faults.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = {name: (script.ROOT / fault.file).read_text().count(fault.old) for name, fault in script.FAULTS.items()}
    assert {name: number for name, number in found.items() if number != 1} == {}


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc/self/mem, which cannot be read from 0 on")
def test_an_error_while_a_file_is_read_names_it() -> None:
    for read in (read_file, bpe.Tokenizer.load, bpe.WordCounts.load):
        with pytest.raises(OSError, match="/proc/self/mem"):
            read("/proc/self/mem")


def test_a_shard_that_cannot_be_begun_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(ShardFile, "write", fail)
    for format_name in ("native", "parquet"):
        with pytest.raises(OSError, match="No space left"):
            write_shards([[1, 2]], tmp_path / format_name, format=format_name)
        assert not list((tmp_path / format_name).glob(".*"))


def test_a_short_write_of_the_journal_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for a full disk."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2 + 1]))
    tok = bpe.train(texts=["low lower"] * 3, vocab_size=260)
    (tmp_path / "text").write_text("low lower lowest")
    encode_shards(tmp_path / "text", tok, tmp_path / "shards")
    assert np.array_equal(TokenShards(tmp_path / "shards").document(0), tok.encode("low lower lowest"))
