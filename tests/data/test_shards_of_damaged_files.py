"""`encode_shards` with `on_error="skip_files"`: damaged files are left out, listed, and can be added when mended."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from shard_corpus import END, make_texts, read_files, read_rows, run_until_killed, small_groups, tokenizer
from strategies import SOAK

import bpe
from bpe.cli import main
from bpe.data import Manifest, convert_shards, encode_shards, verify
from bpe.errors import FormatError

__all__ = ["small_groups", "tokenizer"]  # fixtures

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
DAMAGED = (0, 2, 5)


def write_corpus(folder: Path, damaged: tuple[int, ...] = DAMAGED) -> list[Path]:
    """Write six compressed files of documents, of which some end early."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{index}.txt.gz" for index in range(6)]
    for index, path in enumerate(paths):
        data = compress(index)
        path.write_bytes(data[:-20] if index in damaged else data)
    return paths


def compress(seed: int) -> bytes:
    return gzip.compress("".join(text + END for text in make_texts(seed, 20)).encode(), mtime=0)


def open_sources(paths: list[Path], on_error: Any = "skip_files") -> bpe.Sources:
    return bpe.Sources(paths, separator=END, on_error=on_error)


def list_rows(tok: bpe.Tokenizer, seeds: tuple[int, ...]) -> list[list[int]]:
    return [tok.encode(text).tolist() for seed in seeds for text in make_texts(seed, 20)]


@pytest.mark.parametrize("options", [{"shard_size": 300}, {"shards": 2, "seed": 5}], ids=["in order", "shuffled"])
@needs_fork
@pytest.mark.usefixtures("small_groups")
def test_a_killed_run_lists_the_damaged_files_of_all_runs(tmp_path, tokenizer, options):
    paths = write_corpus(tmp_path / "corpus")

    def run(out: Path) -> Manifest:
        return encode_shards(open_sources(paths), tokenizer, out, threads=2, **options)

    manifest = run(tmp_path / "whole")
    assert [*manifest.damaged_files] == [str(paths[index]) for index in DAMAGED]
    assert all("ends early" in reason for reason in manifest.damaged_files.values())
    rows = read_rows(tmp_path / "whole")
    expected_rows = list_rows(tokenizer, (1, 3, 4))
    assert rows == expected_rows if "seed" not in options else sorted(rows) == sorted(expected_rows)
    assert verify(tmp_path / "whole") == []
    assert run(tmp_path / "whole") == manifest == Manifest.read(tmp_path / "whole")
    expected = read_files(tmp_path / "whole")
    for event in range(0, 60, 9):
        out = tmp_path / f"out{event}"
        if not run_until_killed(event, lambda out=out: run(out)):
            break
        assert run(out) == manifest
        assert read_files(out) == expected
    assert event > 10


def test_a_mended_file_is_added(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "corpus")
    out = tmp_path / "out"
    encode_shards(open_sources(paths), tokenizer, out)
    paths[2].write_bytes(compress(2))
    assert verify(out) == []
    converted = convert_shards(out, tmp_path / "converted", "datatrove")  # its samples are of the same documents
    assert converted.damaged_files == Manifest.read(out).damaged_files
    assert verify(tmp_path / "converted") == []
    with pytest.raises(ValueError, match=r"are in .* already"):  # not with the others
        encode_shards(open_sources(paths), tokenizer, out, extend=True)
    manifest = encode_shards(open_sources([paths[2]]), tokenizer, out, extend=True)
    assert read_rows(out) == list_rows(tokenizer, (1, 3, 4, 2))
    assert verify(out) == []
    assert encode_shards(open_sources([paths[2]]), tokenizer, out, extend=True) == manifest
    added = encode_shards(open_sources([paths[0]]), tokenizer, out, extend=True)  # still damaged
    assert str(paths[0]) in added.damaged_files
    assert read_rows(out) == list_rows(tokenizer, (1, 3, 4, 2))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.usefixtures("small_groups")
def test_a_run_that_a_damaged_file_stopped_goes_on_without_it(tmp_path, tokenizer, on_error):
    paths = write_corpus(tmp_path / "corpus", (3,))
    paths[3].write_bytes(paths[3].read_bytes()[:12])  # no document of it is read
    out = tmp_path / "out"
    with pytest.raises(FormatError, match="ends early"):
        encode_shards(open_sources(paths, on_error), tokenizer, out, shard_size=300)
    manifest = encode_shards(open_sources(paths), tokenizer, out, shard_size=300)
    assert [*manifest.damaged_files] == [str(paths[3])]
    assert read_rows(out) == list_rows(tokenizer, (0, 1, 2, 4, 5))
    encode_shards(open_sources(paths), tokenizer, tmp_path / "fresh", shard_size=300)
    assert read_rows(tmp_path / "fresh") == read_rows(out)


@pytest.mark.usefixtures("small_groups")
def test_documents_of_a_damaged_file_in_finished_shards_are_not_kept(tmp_path, tokenizer):
    paths = write_corpus(tmp_path / "corpus", (3,))
    out = tmp_path / "out"
    with pytest.raises(FormatError, match="ends early"):
        encode_shards(open_sources(paths, "raise"), tokenizer, out, shard_size=100)
    with pytest.raises(ValueError, match=r"3.txt.gz is damaged, and documents of it are in finished shards.*remove "):
        encode_shards(open_sources(paths), tokenizer, out, shard_size=100)


@pytest.mark.parametrize("kind", ["damaged", "empty"])
@needs_fork
def test_a_file_without_documents_that_was_changed_meanwhile_is_refused(tmp_path, tokenizer, kind):
    """A file between two with documents counts as read, so its new documents are not lost."""
    corpus, texts = tmp_path / "corpus", ["low", "lower", "newest", "wide", "widest", "new"]
    corpus.mkdir()
    paths = [corpus / f"{index}.txt.gz" for index in range(3)]
    for index, path in enumerate(paths):
        path.write_bytes(gzip.compress("".join(text + END for text in texts[index * 2 :][:2]).encode()))
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[:-9] if kind == "damaged" else gzip.compress(b""))
    shutil.copytree(corpus, tmp_path / "copy")
    n_refused = n_right = 0
    for event in range(60) if SOAK > 1 else range(kind == "empty", 60, 3):
        out = tmp_path / f"out{event}"
        if not run_until_killed(
            event, lambda out=out: encode_shards(open_sources(paths), tokenizer, out, shard_size=1)
        ):
            break
        paths[1].write_bytes(whole)
        try:
            encode_shards(open_sources(paths), tokenizer, out, shard_size=1)
        except ValueError as error:
            assert "other sources" in str(error)  # noqa: PT017 (either way is right)
            n_refused += 1
        else:
            assert read_rows(out) == [tokenizer.encode(text).tolist() for text in texts]
            n_right += 1
        shutil.copy2(tmp_path / "copy" / paths[1].name, paths[1])
    assert n_refused > 1
    assert n_right > 1


def test_the_command_lists_them(tmp_path, tokenizer, capsys, caplog):
    paths = write_corpus(tmp_path / "corpus")
    tokenizer.save(tmp_path / "tok.json")
    argv = ["encode", "-t", str(tmp_path / "tok.json"), "-o", str(tmp_path / "out"), "--format", "native"]
    assert main([*argv, "--separator", END, "--on-error", "skip_files", *map(str, paths)]) == 0
    listed = ", ".join(str(paths[index]) for index in DAMAGED)
    assert f"3 damaged files left out: {listed}" in capsys.readouterr().err + caplog.text
    assert [*Manifest.read(tmp_path / "out").damaged_files] == [str(paths[index]) for index in DAMAGED]
