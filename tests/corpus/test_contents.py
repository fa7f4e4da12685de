"""Data that only looks like text by its name: archives, binary files, records; and which files a folder has."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import sqlite3
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source_files import read, write_columns

import bpe
from bpe.corpus.contents import MAX_FIRST_LINE_BYTES, SAMPLE_BYTES
from bpe.corpus.listing import list_sources


def tar(kind: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"low"))
    return out.getvalue()


def saved(write: Any) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


BINARY = {
    "a tar archive, not text; unpack it first": tar(),
    "a tar archive": tar(tarfile.GNU_FORMAT),
    "zip data": saved(lambda out: zipfile.ZipFile(out, "w").close()),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\0\4",
    "a RAR archive": b"Rar!\x1a\x07\x01\0",
    "a PDF document": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "an image": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "a NumPy array": saved(lambda out: np.save(out, np.arange(3))),
    "a pickle": pickle.dumps({"a": [1, "b"]}),
    "a program": b"\x7fELF\2\1\1\0",
    "word counts": saved(lambda out: out.write(b"BPECOUNT\1\0\0\0")),
    "Parquet data": b"PAR1\x15\4\x15\0",
    "byte 3 is NUL": b"low\0er",
    "UTF-16 text; convert it to UTF-8 first: iconv -f UTF-16BE": "low lower".encode("utf-16-be"),
}
PACK: dict[str, Any] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("kind", BINARY)
def test_binary_data_is_refused_whatever_packs_it(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tok = bpe.train(texts=["low"], vocab_size=256)
    for ending, pack in PACK.items():
        path = tmp_path / f"data{ending}"
        path.write_bytes(pack(BINARY[kind]))
        for errors in ("strict", "replace"):
            with pytest.raises(bpe.FormatError, match=rf"data{ending}: .*{kind}"):
                bpe.count_words(files=bpe.Sources(path, encoding_errors=errors))  # type: ignore[arg-type]
    assert bpe.count_words(files=bpe.Sources(tmp_path / "data", encoding_errors="bytes")).total > 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BINARY[kind])))
    with pytest.raises(bpe.FormatError, match=rf"stdin: .*{kind}"):
        tok.encode_files("-")


def test_a_database_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "words.db")) as made:
        made.execute("create table words(word)")
    with pytest.raises(bpe.FormatError, match="this is an SQLite database"):
        bpe.Sources(tmp_path / "words.db")


def test_nul_is_read_where_it_is_expected(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"low\0er")
    assert read(bpe.Sources(path, format="text")) == ["low\0er"]
    assert read(bpe.Sources(path, separator="\0")) == ["low", "er"]


def test_text_that_begins_like_a_signature_is_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("ORC, BMW, MZ", "BM", "PAR1", "GIF89a", "GGUF", "RIFF raff WAVE", "ID3", "MM", "II*", "%PDF files",
                 "x" * 257 + "ustar ", "!<arch>\n", "070701", "OggS", "{ {", "[1, 2]\n[3]", "{\n}\n{}",
                 '{ "a" said he'):  # fmt: skip
        path.write_text(text)
        assert read(bpe.Sources(path)) == [text]


LINES = '{"text": "low"}\n{"text": "lower"}\n'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", LINES),
        ("a.jsonl.1", '{"body": "low"}\n'),
        ("a", "\ufeff\n " + LINES),
        ("a.txt", '{"text": "low"}'),
        ("a.txt", '{"body": 1}\n{"body": 2}\n'),
        ("a.txt", json.dumps({"n": 1, "text": "x" * 3 * SAMPLE_BYTES}) + "\n"),
        ("a.txt", json.dumps({"n": 1, "text": "x" * 2 * MAX_FIRST_LINE_BYTES}) + "\n"),
        ("a.txt", json.dumps({"n": "x" * SAMPLE_BYTES}) + "\n" + LINES),
        ("a.json", '[\n{"text": "low"},\n{"text": "lower"}]'),
    ],
)
def test_records_under_other_names_are_refused(name: str, data: str, tmp_path: Path) -> None:
    for ending, pack in PACK.items():
        path = tmp_path / f"{name}{ending}"
        path.write_bytes(pack(data.encode()))
        with pytest.raises(bpe.FormatError, match=r'looks like .*format="jsonl".* or format="text" to read the file'):
            read(bpe.Sources(path))
        assert read(bpe.Sources(path, format="text")) == [data]
    path = tmp_path / name
    path.write_text(data)
    if "text" not in data:
        with pytest.raises(bpe.FormatError, match="looks like JSON Lines"):
            bpe.Sources(path, field="body.x")


def test_json_that_is_no_record_is_text(tmp_path: Path) -> None:
    for text in ('{"name": "x"}\n', '{\n "text": 1\n}', '[{"name": 1}]', '{"name": "' + "x" * 2 * SAMPLE_BYTES + '"}'):
        (tmp_path / "a.json").write_text(text)
        assert read(bpe.Sources(tmp_path)) == [text]


# Folders --------------------------------------------------------------------------------------------------------------


def test_links_to_folders_are_followed_without_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("loop/sub/a.txt", "other/b.txt", "other/.c/d.txt", "outer/inner/e.txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    Path("loop/sub/up").symlink_to("..")
    Path("loop/self").symlink_to(".")
    Path("main").mkdir()
    Path("main/linked").symlink_to("../other")
    Path("main/f.txt").write_text("f")
    Path("outer/inner/top").symlink_to("../../outer")
    for pattern, expected in (
        ("loop/**/*.txt", ["loop/sub/a.txt"]),
        ("loop/**", ["loop/sub/a.txt"]),
        ("loop", ["loop/sub/a.txt"]),
        ("main", ["main/f.txt", "main/linked/b.txt"]),
        ("main/**/*.txt", ["main/f.txt", "main/linked/b.txt"]),
        ("outer/inner", ["outer/inner/e.txt"]),
        ("**/inner/**/*.txt", ["outer/inner/e.txt"]),
        ("loop/**/sub/**/*.txt", ["loop/sub/a.txt"]),
        (f"{tmp_path}/**/b.*", [f"{tmp_path}/main/linked/b.txt", f"{tmp_path}/other/b.txt"]),
    ):
        assert [file.name for file in bpe.Sources(pattern).files] == expected, pattern
    Path("main/gone").symlink_to("nothing")
    with pytest.raises(FileNotFoundError, match="gone"):
        bpe.Sources("main")


def test_records_of_datasets_are_no_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders that `save_to_disk` of the package `datasets` writes, of one data set and of several."""
    monkeypatch.chdir(tmp_path)
    for name in ("test", "train"):
        Path("saved", name).mkdir(parents=True)
        write_columns(Path("saved", name, "data-00000-of-00001.arrow"), [name])
        for record in ("state.json", "dataset_info.json"):
            Path("saved", name, record).write_text("{}")
    Path("saved/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for path in ("saved", "saved/**", "saved/*/*"):
        assert read(bpe.Sources(path)) == ["test", "train"]
    assert read(bpe.Sources("saved/train")) == ["train"]
    os.remove("saved/train/data-00000-of-00001.arrow")
    assert [file.name for file in list_sources("saved/train", "auto", None)] == [
        "saved/train/dataset_info.json",
        "saved/train/state.json",
    ]


def test_json_that_is_read_as_text_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One object with the field, or an array of others, may be a document of its own: it is read, and logged."""
    path = tmp_path / "a.json"
    for data, logged in (
        (b'{\n "text": "a",\n "id": 1\n}', True),
        (b'{"data": [{"text": "a"}]}', True),
        (b'[\n  {"content": "a"},\n  {"content": "b"}\n]', True),
        (b'{\n "name": "a"\n}', False),
        (b"[1, 2]", False),
    ):
        path.write_bytes(data)
        for call in (
            lambda: list(bpe.Sources(path).documents()) == [path.read_bytes()],
            lambda: bpe.count_words(files=path).total > 0,
        ):
            caplog.clear()
            assert call()
            assert caplog.text.count("begins like JSON and is read as text") == logged, data
        caplog.clear()
        assert list(bpe.Sources(path, format="text").documents()) == [data]
        assert not caplog.text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe that is named is read; one that is among the files of a folder would be waited for without end."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("low")
    os.mkfifo(tmp_path / "in" / "pipe")
    for named in (tmp_path, tmp_path / "in", f"{tmp_path}/**"):
        with pytest.raises(OSError, match=r"a pipe, a socket or a device in a folder; move it: .*in/pipe"):
            bpe.Sources(named)
    assert bpe.Sources(tmp_path / "in" / "pipe").files[0].kind == "pipe"
