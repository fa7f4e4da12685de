"""`on_error="skip_files"`: damaged files are left out as a whole, and listed; the result is as without them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import bpe
from bpe.cli import main
from bpe.corpus import sources as sources_module
from bpe.errors import FormatError

TEXTS = [f"low lower {number} newest 다람쥐 naïve" for number in range(2000)]
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture(scope="module")
def tokenizer() -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS, vocab_size=300)


def make_lines(file_format: str, texts: list[str]) -> bytes:
    """Make the content of a file with these documents."""
    rows = {"jsonl": '{{"text": "{}"}}\n', "csv": "{}\n", "txt": "{}\n"}[file_format]
    head = "text\n" if file_format == "csv" else ""
    return (head + "".join(rows.format(text) for text in texts)).encode()


def write_corpus(folder: Path, file_format: str, compression: str, damaged: set[int]) -> list[Path]:
    """Write five compressed files, of which those in `damaged` end early, or have other bytes in the middle."""
    paths = []
    for index in range(5):
        data = COMPRESSORS[compression](make_lines(file_format, TEXTS[index::5]))
        if index in damaged:
            middle = len(data) // 2
            data = data[:middle] if index % 2 else data[:middle] + b"damage" * 20 + data[middle + 120 :]
        paths.append(folder / f"{index}.{file_format}.{compression}")
        paths[-1].write_bytes(data)
    return paths


def open_corpus(paths: list[Path], on_error: str = "skip_files") -> bpe.Sources:
    return bpe.Sources(paths, per_line=".txt." in paths[0].name, on_error=on_error)  # type: ignore[arg-type]


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("file_format", ["jsonl", "csv", "txt"])
def test_results_are_those_without_the_damaged_files(tmp_path, tokenizer, file_format, compression):
    damaged = {0, 3}
    paths = write_corpus(tmp_path, file_format, compression, damaged)
    sound = [path for index, path in enumerate(paths) if index not in damaged]
    expected = list(open_corpus(sound, "raise").documents())
    sources = open_corpus(paths)
    assert list(sources.documents()) == expected
    assert [*sources.damaged_files] == [str(paths[0]), str(paths[3])]
    assert "damaged before byte" in sources.damaged_files[str(paths[0])]
    assert "ends early" in sources.damaged_files[str(paths[3])]
    for threads in (1, 2, 8):
        batch = tokenizer.encode_files(open_corpus(paths), threads=threads)
        expected_batch = tokenizer.encode_files(open_corpus(sound, "raise"), threads=threads)
        assert np.array_equal(batch.ids, expected_batch.ids)
        assert np.array_equal(batch.offsets, expected_batch.offsets)
        assert bpe.count_words(files=open_corpus(paths), threads=threads) == bpe.count_words(
            files=open_corpus(sound, "raise")
        )
    trained = bpe.train(files=open_corpus(paths), vocab_size=280)
    assert trained == bpe.train(files=open_corpus(sound, "raise"), vocab_size=280)


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_damaged_columns_are_left_out(tmp_path, file_format):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    feather = pytest.importorskip("pyarrow.feather")
    paths = [tmp_path / f"{index}.{file_format}" for index in range(4)]
    for index, path in enumerate(paths):
        table = pa.table({"text": TEXTS[index::4]})
        if file_format == "parquet":
            pq.write_table(table, path, row_group_size=100)
        else:
            feather.write_feather(table, path, compression="zstd", chunksize=100)
    for index, size in ((1, 0.5), (2, 0.99)):
        data = paths[index].read_bytes()
        paths[index].write_bytes(data[: int(len(data) * size)])
    sources = bpe.Sources(paths, on_error="skip_files")
    assert list(sources.documents()) == [text.encode() for index in (0, 3) for text in TEXTS[index::4]]
    assert [*sources.damaged_files] == [str(paths[1]), str(paths[2])]
    with pytest.raises(FormatError, match='pass on_error="skip_files" to leave out such files'):
        list(bpe.Sources(paths, on_error="skip").documents())
    with pytest.raises(FormatError, match="there is no column 'other'"):  # no damage
        list(bpe.Sources(paths, field="other", on_error="skip_files").documents())


def test_damage_of_one_part_of_a_file_leaves_out_all_parts(tmp_path, monkeypatch):
    """All ranks find the same files, though each reads only a part of a large Parquet file."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(sources_module, "UNIT_BYTES", 2000)
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for path in paths:
        pq.write_table(pa.table({"text": TEXTS}), path, row_group_size=100, compression="none", use_dictionary=False)
    data = paths[0].read_bytes()
    start = data.index(TEXTS[1950].encode()) - 60
    paths[0].write_bytes(data[:start] + b"\xff" * 50 + data[start + 50 :])
    sources = bpe.Sources(paths, on_error="skip_files")
    assert len(sources.units()) > 8
    parts = [sources.part(rank, 4) for rank in range(4)]
    joined = [text for part in parts for text in part.documents()]
    if sources.damaged_files:  # as far as pyarrow finds it
        assert joined == [text.encode() for text in TEXTS]
    assert joined == list(sources.documents())


@pytest.mark.parametrize("encoding_errors", ["strict", "replace", "bytes"])
def test_damage_after_a_file_that_cannot_be_damaged(tmp_path, tokenizer, encoding_errors):
    """Readers without Python code read several files each, but no damaged one."""
    (tmp_path / "a.txt").write_text("low lower\n" * 50, encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(TEXTS).encode())[:-20])
    (tmp_path / "c.txt").write_text("newest\n" * 50, encoding="utf-8")
    for threads in (1, 2):
        sources = bpe.Sources([*sorted(tmp_path.iterdir())], on_error="skip_files", encoding_errors=encoding_errors)
        batch = tokenizer.encode_files(sources, threads=threads)
        assert tokenizer.decode_batch(batch) == ["low lower\n" * 50, "newest\n" * 50]
        assert [*sources.damaged_files] == [str(tmp_path / "b.txt.gz")]


def test_what_is_no_damage_stays_an_error_or_a_bad_record(tmp_path):
    good, bad = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    good.write_bytes(gzip.compress(b'{"text": "low"}\nno JSON\n'))
    bad.write_bytes(gzip.compress(b'{"text": "low"}\n' * 9)[:-9])
    sources = bpe.Sources([good, bad], on_error="skip_files")
    assert list(sources.documents()) == [b"low"]
    assert sources.skipped == 1
    assert [*sources.damaged_files] == [str(bad)]
    with pytest.raises(FormatError, match='pass on_error="skip_files" to leave out such files'):
        list(bpe.Sources([good, bad], on_error="skip").documents())
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"\x89PNG\r\n\x1a\n" + bytes(100)))
    with pytest.raises(FormatError, match=r"PNG|text"):
        list(bpe.Sources(tmp_path / "c.gz", on_error="skip_files").documents())
    shutil.rmtree(tmp_path)
    with pytest.raises(FileNotFoundError):
        list(sources.with_own_count().documents())


@pytest.mark.parametrize("on_error", ["raise", "skip_files"])
@pytest.mark.parametrize("compression", COMPRESSORS)
def test_damage_of_a_pipe_is_an_error_that_does_not_advise_to_skip_it(compression, on_error):
    data = COMPRESSORS[compression](b"low lower\n")
    for piped, message in ((data[:-3], "ends early"), (data + b"rest", "what follows is no")):
        reading_end, writing_end = os.pipe()
        os.write(writing_end, piped)
        os.close(writing_end)
        try:
            with pytest.raises(FormatError, match=message) as caught:
                list(bpe.Sources(f"/dev/fd/{reading_end}", on_error=on_error).documents())
        finally:
            os.close(reading_end)
        assert "on_error" not in str(caught.value)
        assert "download" in str(caught.value)


def test_the_command_lists_the_damaged_files(tmp_path, tokenizer, capsys, caplog):
    tokenizer.save(tmp_path / "tok.json")
    paths = write_corpus(tmp_path, "jsonl", "gz", {1, 2})
    argv = ["count", "-t", str(tmp_path / "tok.json"), *map(str, paths)]
    assert main(argv) == 1
    assert "--on-error skip_files" in capsys.readouterr().err
    assert main([*argv, "--on-error", "skip_files"]) == 0
    error = capsys.readouterr().err + caplog.text
    assert f"2 damaged files left out: {paths[1]}, {paths[2]}" in error
