"""`Sources`: every format and compression, pipes, text, listing, positions, parts and threads."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import pickle
import random
import sys
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_files import (
    COLUMNS,
    PACKERS,
    join_blocks,
    make_jsonl,
    read,
    use_small_blocks,
    write,
    write_columns,
    write_compressed,
    zstd,
)
from strategies import examples

import bpe
from bpe.corpus import listing, parquet, reading, sources, streams
from bpe.corpus._listing import FileMeasurer
from bpe.corpus.blocks import Position, make_document_end_finder, make_safe_end_finder
from bpe.corpus.listing import list_sources


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_blocks(monkeypatch)


# Every format and compression -----------------------------------------------------------------------------------------

TEXTS = ["low lower", "", "é猫 newest", 'a\n"b",\tc', "  x\r\ny ", "😊" * 9, "last"]
ENDINGS = [f".{kind}{ending}" for kind in ("txt", "jsonl", "csv", "tsv") for ending in PACKERS]
ENDINGS += [f".{kind}" for kind in COLUMNS]


@pytest.mark.parametrize("ending", ENDINGS)
def test_documents_do_not_depend_on_the_format(ending: str, small: None, tmp_path: Path) -> None:
    path = write(tmp_path / f"a{ending}", TEXTS)
    found = bpe.Sources(path, separator="|" if ".txt" in ending else None)
    assert read(found) == TEXTS
    assert [text.decode() for text in found.documents()] == TEXTS
    tok = bpe.train(texts=TEXTS, vocab_size=270)
    assert bpe.train(files=found, vocab_size=270) == tok
    assert bpe.count_words(files=found, threads=2) == bpe.count_words(texts=TEXTS)
    for threads in (1, 2):
        assert tok.encode_files(found, threads=threads, append=3).to_list() == [
            [*tok.encode(text).tolist(), 3] for text in TEXTS
        ]
    with closing(found.blocks(None, 1)) as blocks:
        assert abs(sum(block.disk_bytes for block in blocks) - (found.size or 0)) <= 8000 * (
            ending in (".arrow", ".feather")
        )


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_formats_in_one_call(threads: int, small: None, tmp_path: Path) -> None:
    for ending in ENDINGS:
        write(tmp_path / f"a{ending}", TEXTS)
    tok = bpe.train(texts=TEXTS, vocab_size=270)
    found = bpe.Sources(tmp_path, separator="|")
    assert [Path(file.name).name for file in found.files] == sorted(f"a{ending}" for ending in ENDINGS)
    assert tok.encode_files(found, threads=threads).to_list() == [tok.encode(text).tolist() for text in TEXTS] * len(
        ENDINGS
    )
    assert bpe.count_words(files=found, threads=threads) == bpe.count_words(texts=TEXTS * len(ENDINGS))
    assert not [thread for thread in threading.enumerate() if thread.name == "bpe_reader"]


def test_the_argument_format_overrides_the_name(tmp_path: Path) -> None:
    table = write_compressed(tmp_path / "a.csv", b"text,x\nlow,1\n")
    assert read(bpe.Sources(table)) == ["low"]
    assert read(bpe.Sources(table, format="text")) == ["text,x\nlow,1\n"]
    assert read(bpe.Sources(table, format="text", per_line=True)) == ["text,x\n", "low,1\n"]
    records = write_compressed(tmp_path / "c4.json.gz", make_jsonl(["low", "b"]))
    assert read(bpe.Sources(records, format="jsonl")) == ["low", "b"]
    columns = write_columns(tmp_path / "part-0", ["a", "b"])
    assert read(bpe.Sources(columns, format="arrow")) == ["a", "b"]
    with pytest.raises(ValueError, match=r'per_line=True is for text, but .*a\.csv is read as csv.*format="text"'):
        bpe.Sources(table, per_line=True)


def test_the_representation_says_how_much_there_is(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("low\n" * 5, encoding="utf-8")
    all_files = bpe.Sources(tmp_path)
    assert repr(all_files) == "Sources(2 files, 40 bytes)"
    assert repr(all_files.select_file(0)) == "Sources(1 file, 20 bytes)"


def test_compression_is_recognized_by_content(tmp_path: Path) -> None:
    for name, pack in PACKERS.items():
        path = tmp_path / f"plain{name[1:]}.txt"
        path.write_bytes(pack(b"low lower"))
        assert read(bpe.Sources(path)) == ["low lower"]
        if name:
            assert b"low lower" not in join_blocks(bpe.Sources(path, encoding_errors="bytes").blocks(None, 1))
    path.rename(tmp_path / "x.gz")
    with pytest.raises(bpe.FormatError, match=r"x\.gz: its name says that it is gzip data, but it is zstd data"):
        bpe.Sources(tmp_path / "x.gz")
    (tmp_path / "empty.gz").write_bytes(b"")
    with pytest.raises(bpe.FormatError, match=r"empty\.gz: its name says that it is gzip data, but it is empty"):
        bpe.Sources(tmp_path / "empty.gz")


# Compression ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [ending for ending in PACKERS if ending])
def test_every_member_is_read(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concatenated gzip members, zstd frames, bz2 and xz streams; empty ones, padding, and skippable frames."""
    pack, parts = PACKERS[ending], [b"low ", b"", b"lower " * 1000, b"", b"newest"]
    between = {".gz": b"\0" * 700, ".xz": b"\0" * 8, ".zst": b"\x50\x2a\x4d\x18\x03\0\0\0xyz", ".bz2": b""}[ending]
    path = tmp_path / f"a.txt{ending}"
    for size in (3, 1 << 18):
        monkeypatch.setattr(streams, "COMPRESSED_READ_BYTES", size)
        path.write_bytes(between.join(pack(part) for part in parts) + between)
        if ending == ".zst":
            path.write_bytes(between + path.read_bytes())
        assert read(bpe.Sources(path)) == [b"".join(parts).decode()]


@pytest.mark.parametrize("ending", [ending for ending in PACKERS if ending])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_truncated_and_damaged_data_name_the_file(
    ending: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "COMPRESSED_READ_BYTES", 1 << 13)  # of some 20 KB
    texts = ["".join(random.Random(number).choices("abcdefgh \n", k=2000)) for number in range(25)]
    path = write(tmp_path / f"{name}{ending}", texts)
    data = path.read_bytes()
    tok = bpe.train(texts=texts[:2], vocab_size=260)
    for part in (data[:-5], data[: len(data) // 2], data + data[:-1]):
        path.write_bytes(part)
        for threads in (1, 2):
            with pytest.raises(bpe.FormatError, match=rf"{name}{ending}: the \w+ data ends early, .* incomplete"):
                tok.encode_files(path, threads=threads)
            with pytest.raises(bpe.FormatError, match=rf"{name}{ending}: the \w+ data ends early"):
                bpe.count_words(files=path, threads=threads)
    path.write_bytes(data[: len(data) // 2] + bytes(90) + data[len(data) // 2 + 90 :])
    with pytest.raises(bpe.FormatError, match=rf"{name}{ending}.*: (the \w+ data is damaged|byte|the line|the row)"):
        tok.encode_files(path)


@pytest.mark.parametrize("ending", [ending for ending in PACKERS if ending])
def test_bytes_after_compressed_data_are_refused(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, path = PACKERS[ending](b"low lower\n"), tmp_path / f"a.txt{ending}"
    padding = b"\0" * 8 if ending in (".gz", ".xz") else b""
    for size in (3, 1 << 18):
        monkeypatch.setattr(streams, "COMPRESSED_READ_BYTES", size)
        for rest in (b"r", b"rest", b"garbage" * 40):
            path.write_bytes(data + data + padding + rest)
            end = 2 * len(data) + len(padding)
            rule = rf"the \w+ data ends before byte {end}, and what follows is no .*: it begins with b'{rest[0]:c}"
            with pytest.raises(bpe.FormatError, match=rf"{ending}: {rule}.* \(head -c {end}\), or copy"):
                bpe.count_words(files=path)
            path.write_bytes(path.read_bytes()[:end])  # the advice
            assert bpe.count_words(files=path)["low"] == 2
        path.write_bytes(data + data[:8])
        with pytest.raises(bpe.FormatError, match="data ends early"):
            bpe.count_words(files=path)


def test_long_zstd_windows(tmp_path: Path) -> None:
    """A frame that declares a window of 2 GB, which decompressors refuse by default."""
    path = tmp_path / "a.txt.zst"
    options = {
        zstd.CompressionParameter.window_log: 31,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
        zstd.CompressionParameter.compression_level: 1,
    }
    packer = zstd.ZstdCompressor(options=options)
    text = b"low lower newest " * 1000
    with pytest.MonkeyPatch.context():
        path.write_bytes(window_of_2_gb(packer.compress(text) + packer.flush()))
    with pytest.raises(zstd.ZstdError):
        zstd.decompress(path.read_bytes())
    assert read(bpe.Sources(path)) == [text.decode()]


def test_what_is_unpacked_has_a_limit_that_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"low lower newest " * 1000
    for ending, compress in (("gz", gzip.compress), ("xz", lzma.compress)):
        path = tmp_path / f"a.txt.{ending}"
        path.write_bytes(compress(text[:100]) + compress(text[100:]))
        monkeypatch.setattr(streams, "max_unpacked_bytes", len(text))
        assert read(bpe.Sources(path)) == [text.decode()]
        monkeypatch.setattr(streams, "max_unpacked_bytes", len(text) - 1)
        with pytest.raises(bpe.FormatError, match=r"more than 16999 bytes unpacked.*streams\.max_unpacked_bytes"):
            read(bpe.Sources(path))


def test_windows_have_a_limit_that_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "max_window_bytes", 1 << 20)
    options = {zstd.CompressionParameter.window_log: 24, zstd.CompressionParameter.content_size_flag: 0}
    packer = zstd.ZstdCompressor(options=options)
    contents = {"a.txt.xz": lzma.compress(b"low lower"), "a.txt.zst": packer.compress(b"low lower") + packer.flush()}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(bpe.FormatError, match=r"a window of more than 1048576 bytes.*streams\.max_window_bytes"):
            read(bpe.Sources(tmp_path / name))


def window_of_2_gb(frame: bytes) -> bytes:
    """A zstd frame of unknown content size with its window descriptor set to 2 GiB (RFC 8878, 3.1.1.1)."""
    descriptor = frame[4]
    assert not descriptor & 0x23, "neither a single segment nor a dictionary"
    fields = {0: 0, 1: 2, 2: 4, 3: 8}[descriptor >> 6]
    return frame[:4] + bytes([descriptor & 0x3F]) + bytes([(31 - 10) << 3]) + frame[6 + fields :]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text formats are read from pipes and standard input, compressed too; formats with an index are not."""
    for name in ("a.txt", "b.jsonl", "c.csv", "d.jsonl"):
        data = PACKERS[".zst" if name[0] == "d" else ""](write(tmp_path / f"file.{name[2:]}", TEXTS).read_bytes())
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(data,))
        writer.start()
        given = bpe.Sources(tmp_path / name, separator="|" if name == "a.txt" else None)
        assert (given.regular, given.size) == (False, None)
        assert read(given) == TEXTS
        writer.join()
        with pytest.raises(ValueError, match="has no size, so it cannot be divided into parts"):
            given.part(0, 2)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        given = bpe.Sources("-", format=name[2:].replace("txt", "text"), separator="|" if name == "a.txt" else None)
        assert read(given) == TEXTS
    os.mkfifo(tmp_path / "a.parquet")
    pytest.importorskip("pyarrow")
    with pytest.raises(bpe.FormatError, match="a parquet file cannot be read from a pipe"):
        read(bpe.Sources(tmp_path / "a.parquet"))


# Text -----------------------------------------------------------------------------------------------------------------


def ended(text: str, separator: str) -> list[str]:
    """The documents of a text where each separator ends one."""
    found = text.split(separator)
    return found if found[-1] else found[:-1]


@examples(27)
@given(
    text=st.text(st.sampled_from("ab|猫"), max_size=40),
    separator=st.sampled_from(["|", "ab", "aa", "||"]),
    size=st.sampled_from([1, 3, 10, 1000]),
    whole=st.booleans(),
)
def test_a_separator_may_end_documents(
    text: str, separator: str, size: int, whole: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ends") / "a.txt"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", size)
        for given_sources, expected in (
            (bpe.Sources([path, path], separator=separator), text.split(separator) * 2),
            (bpe.Sources([path, path], separator=separator).with_ending_separators(), ended(text, separator) * 2),
        ):
            cut = (
                make_document_end_finder([separator.encode()], False)
                if whole
                else make_safe_end_finder(any_position, [separator.encode()])
            )
            assert join_blocks(given_sources.blocks(cut, 1)) == [document.encode() for document in expected]


def any_position(text: memoryview, low: int) -> int:
    """The last boundary of characters before the end of the text."""
    found = reading.find_last_character_end(bytearray(text), low, len(text) - 1)
    return low if found is None else found[0]


def test_text_with_bad_bytes_loses_only_those_documents(small: None, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"low|b\xff|" + b"lower " * 30 + b"||\xc3")
    skipping = bpe.Sources([path, path], separator="|", on_error="skip")
    tok = bpe.train(texts=["low"], vocab_size=256)
    assert (
        tok.encode_files(skipping, threads=2).to_list()
        == [tok.encode(text).tolist() for text in ["low", "lower " * 30, ""]] * 2
    )
    assert skipping.skipped == 4
    whole = bpe.Sources([path, write(tmp_path / "b.txt", ["fine"])], on_error="skip")
    assert (read(whole), whole.skipped) == (["fine"], 1)
    lines = bpe.Sources(path, per_line=True, on_error="skip")
    assert (read(lines), lines.skipped) == ([], 1)


def test_empty_files(tmp_path: Path) -> None:
    for name, options, expected in (
        ("a.txt", {}, [""]),
        ("a.txt", {"separator": "|"}, [""]),
        ("a.txt", {"separator": "|", "separator_ends": True}, []),
        ("a.txt", {"per_line": True}, []),
        ("a.jsonl", {}, []),
        ("a.csv", {}, []),
    ):
        (tmp_path / name).write_bytes(b"")
        assert read(bpe.Sources(tmp_path / name, **options)) == expected  # type: ignore[arg-type]
        tok = bpe.train(texts=["low"], vocab_size=256)
        assert tok.encode_files(bpe.Sources(tmp_path / name, **options)).to_list() == [[] for _ in expected]  # type: ignore[arg-type]
    assert read(bpe.Sources(write_compressed(tmp_path / "b.jsonl.zst", b""))) == []
    assert read(bpe.Sources(write_columns(tmp_path / "c.parquet", []))) == []


# Listing --------------------------------------------------------------------------------------------------------------


def test_globs_and_directories_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b/2.txt", "b/10.txt", "a/x/1.txt", "c.txt", "_SUCCESS", ".hidden/x.txt", "a/.part.crc", "[1].txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    assert read(bpe.Sources(".")) == ["[1].txt", "a/x/1.txt", "b/10.txt", "b/2.txt", "c.txt"]
    assert read(bpe.Sources(["c.txt", "b/*.txt", "b/2.txt"])) == ["c.txt", "b/10.txt", "b/2.txt", "b/2.txt"]
    assert read(bpe.Sources("**/[0-9].txt")) == ["a/x/1.txt", "b/2.txt"]
    assert read(bpe.Sources("[1].txt")) == ["[1].txt"]
    with pytest.raises(FileNotFoundError, match="the pattern matches no file"):
        bpe.Sources("*.md")
    Path("empty").mkdir()
    with pytest.raises(FileNotFoundError, match="the directory has no files"):
        bpe.Sources("empty")
    with pytest.raises(ValueError, match="named twice"):
        bpe.Sources(["-", "-"])
    for bad in (3, b"a.txt", [3], [b"a.txt"]):
        with pytest.raises(TypeError, match="it must be a path"):
            bpe.Sources(bad)  # type: ignore[arg-type]
    assert list_sources([], "auto", None) == ()
    assert read(bpe.Sources([])) == []


def test_names_of_a_class_of_str_are_paths(tmp_path: Path) -> None:
    """Those of a NumPy array are such."""
    (tmp_path / "a.txt").write_text("low")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"lower"))
    names = np.array([os.fspath(tmp_path / "a.txt"), os.fspath(tmp_path / "b.txt.gz")])
    for threads in (1, 2):
        counts = bpe.count_words(files=names, threads=threads)
        assert dict(counts.items()) == {b"low": 1, b"lower": 1}
    assert bpe.Sources(names).plan() == bpe.Sources(names.tolist()).plan()


BEGINNINGS = [
    b"", b"low lower", b" \n", b"\n{", b"[1]", b'{"text": "low"}', b'{\n"a"', b"\xef\xbb\xbflow", b"\xff\xfelow",
    b"low\xff", b"a\0b", b"low" * 2000 + b"\0", b"BM", b"BZh91AY&SY", b"But", b"%PDF-1", b"RIFF0000WAVE\0",
    b"q\xc7\xa1", b"\x1f\x8b\x08\0", b"PAR1\0", b"\x7fELF",
    b"{\\rtf1", b'[ {"text": 1}]', b'[{"text": 1}\n]', b"[[{", b"{}", b" " * 5000 + b'{"text": 1}',
    b"[" + b" " * 5000 + b'{"text": 1}', b'{"k": "' + b"a" * 5000 + b'", "text": 1}\n{"k": 1}',
]  # fmt: skip


@pytest.mark.parametrize("format_", ["auto", "text", "jsonl", "parquet"])
@pytest.mark.parametrize("encoding_errors", ["strict", "bytes"])
def test_measured_files_are_described_as_python_code_does(
    format_: str, encoding_errors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel leaves out only work: with all files left to Python code, the descriptions and errors are the same."""

    def describe(path: Path) -> Any:
        try:
            return bpe.Sources(path, format=format_, encoding_errors=encoding_errors).files
        except (ValueError, OSError) as error:
            return type(error), str(error)

    paths = [tmp_path / "absent", tmp_path]
    for number, first_bytes in enumerate(BEGINNINGS):
        for name in ("txt", "jsonl", "txt.gz", "csv.bz2", "parquet", "B\udcff"):
            paths.append(tmp_path / f"{number}.{name}")
            paths[-1].write_bytes(first_bytes)
    described = [describe(path) for path in paths]
    monkeypatch.setattr(listing, "_measure_files", lambda names: [(-1, False)] * len(names))
    assert described == [describe(path) for path in paths]


def test_many_files_are_measured_by_several_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "FILES_PER_THREAD", 3)
    monkeypatch.setattr(listing, "resolve_threads", lambda _: 5)
    paths = [tmp_path / f"{number}.txt" for number in range(200)]
    for number, path in enumerate(paths):
        path.write_bytes(b"[low" if number % 7 == 0 else b"low" * number)
    n_threads, n_open = threading.active_count(), len(os.listdir("/proc/self/fd"))
    assert [file.size for file in bpe.Sources(paths).files] == [path.stat().st_size for path in paths]
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (n_threads, n_open)
    paths[11].unlink()
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(FileNotFoundError, match=r"11\.txt"):
            bpe.Sources([*paths, bad])
        with pytest.raises(ValueError, match=r"null (byte|character)|surrogates not allowed"):
            bpe.Sources([bad, *paths])


def test_stamps_are_those_of_stat(tmp_path: Path) -> None:
    """In ns, before 1970 too; None for what is no file."""
    expected: dict[str, tuple[int, int] | None] = {}
    for time in (0, -1, -1_500_000_001, 10**18 + 7, 1 << 62):
        path = tmp_path / f"{time}.txt"
        path.write_bytes(b"low" * len(expected))
        os.utime(path, ns=(time, time))
        expected[str(path)] = path.stat().st_size, path.stat().st_mtime_ns
    expected |= dict.fromkeys(("", "a\0b", "\ud800", "s3://bucket/low.txt", str(tmp_path / "absent")))
    assert FileMeasurer(list(expected)).read_stamps() == list(expected.values())
    assert FileMeasurer([]).read_stamps() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_listing_opens_no_pipe(tmp_path: Path) -> None:
    """The writer of a pipe would end its wait, and be killed when it writes."""
    os.mkfifo(tmp_path / "pipe")
    opened = threading.Event()

    def write() -> None:
        with (tmp_path / "pipe").open("wb") as file:
            opened.set()
            file.write(b"low")

    writer = threading.Thread(target=write)
    writer.start()
    sources = bpe.Sources(tmp_path / "pipe")
    assert not opened.wait(0.1)
    assert read(sources) == ["low"]
    writer.join()


def test_remote_files(small: None, tmp_path: Path) -> None:
    """Every format on a file system of fsspec; local paths do not need it."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.rm("/bpe-test", recursive=True) if memory.exists("/bpe-test") else None
    for ending in (".jsonl.zst", ".parquet", ".csv", ".txt", ".arrow"):
        memory.pipe(f"/bpe-test/d/a{ending}", write(tmp_path / f"a{ending}", TEXTS).read_bytes())
    memory.pipe("/bpe-test/d/_SUCCESS", b"")
    local, remote = bpe.Sources(tmp_path, separator="|"), bpe.Sources("memory://bpe-test/d", separator="|")
    assert [file.name for file in remote.files] == sorted(f"memory:///bpe-test/d/a{e}" for e in (
        ".jsonl.zst", ".parquet", ".csv", ".txt", ".arrow"
    ))  # fmt: skip
    assert (read(remote), remote.size, remote.regular) == (read(local), local.size, False)
    assert read(bpe.Sources("memory://bpe-test/d/*.csv")) == TEXTS
    assert bpe.count_words(files=remote, threads=2) == bpe.count_words(files=local)
    assert [text for k in range(3) for text in read(remote.part(k, 3))] == read(local)
    with pytest.raises(FileNotFoundError, match=r"no file of this name: 'memory://bpe-test/nothing'"):
        bpe.Sources("memory://bpe-test/nothing")
    with pytest.raises(ValueError, match=r"nosuch://x: .*name a scheme that fsspec knows"):
        bpe.Sources("nosuch://x")
    memory.rm("/bpe-test", recursive=True)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("a.parquet", "pyarrow", "corpus"), ("a.arrow", "pyarrow", "corpus"), ("a.txt.zst", zstd.__name__, "corpus")],
)
def test_missing_packages_are_named(
    name: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / name, ["low"])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{name}: .* needs the package .*pip install 'bytepair\[{extra}\]'"):
        read(bpe.Sources(path))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"s3://b/x: a path with a scheme needs .*pip install 'bytepair\[remote\]'"):
        bpe.Sources("s3://b/x")
    monkeypatch.setitem(sys.modules, "isal", None)
    assert read(bpe.Sources([write(tmp_path / "b.jsonl.gz", TEXTS), write(tmp_path / "b.csv", TEXTS)])) == TEXTS * 2


# Positions and parts --------------------------------------------------------------------------------------------------


@examples(7)
@given(
    files=st.lists(
        st.tuples(
            st.sampled_from(ENDINGS), st.lists(st.text(st.sampled_from("ab\né猫"), max_size=12), min_size=1, max_size=9)
        ),
        min_size=1,
        max_size=3,
    ),
    ends=st.booleans(),
    keep=st.booleans(),
    errors=st.sampled_from(["strict", "replace"]),
    on_error=st.sampled_from(["raise", "skip"]),
    anywhere=st.booleans(),
    size=st.sampled_from([1, 5, 30, 1000]),
)
def test_reading_goes_on_from_any_position(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[str, list[str]]],
    ends: bool,
    keep: bool,
    errors: Any,
    on_error: Any,
    anywhere: bool,
    size: int,
) -> None:
    """From each position that reading gave, with any number of documents more, reading gives all the rest."""
    folder = tmp_path_factory.mktemp("positions")
    paths = [write(folder / f"{number}{ending}", texts) for number, (ending, texts) in enumerate(files)]
    cutting: dict[str, Any] = {"per_line": True} if keep else {"separator": "|"}
    textual = any(".txt" in ending for ending, _ in files)
    given_sources = bpe.Sources(
        paths, encoding_errors=errors, on_error=on_error, separator_ends=ends, **(cutting if textual else {})
    )
    separators = given_sources.separators
    cut = make_safe_end_finder(any_position, separators) if anywhere else make_document_end_finder(separators, keep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", size)
        patch.setattr("bpe.corpus.blocks.BLOCK_BYTES", size)
        patch.setattr(parquet, "BATCH_BYTES", size * 10)
        blocks = list(given_sources.blocks(cut, 1))
        whole, before = join_blocks(blocks, release=False), 0
        for block in blocks:
            begun = len(block.find_documents(keep_empty=True)[0]) - (not block.begins_document)
            if block.begins_document:
                for more in {0, 1, begun - 1, begun} & set(range(begun + 1)):
                    at = Position(block.file_index, block.resume_offset, block.documents_to_skip + more)
                    rest = given_sources.blocks(cut, 1, start=at)
                    assert join_blocks(rest) == whole[before + more :], (at, whole)
            before += begun
        assert before == len(whole)
        assert join_blocks(given_sources.blocks(cut, 1, start=Position(len(paths), 0))) == []


def test_a_block_is_given_before_the_next_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a separator ends documents, too; then the block's text is still in a processor's cache."""
    monkeypatch.setattr(reading, "MAX_READ", 64)
    reads: list[int] = []
    monkeypatch.setattr(reading.ReadSchedule, "record_read", lambda self, count: reads.append(count))
    sources = bpe.Sources(write(tmp_path / "a.txt", ["ab " * 60, "cd " * 60]), separator="|", separator_ends=True)
    cut = make_safe_end_finder(any_position, sources.separators)
    for number, block in enumerate(sources.blocks(cut, 1), start=1):
        assert len(reads) == number
        assert len(block.text) > 60 or sum(reads) == 361
        block.release()


def test_positions_elsewhere_are_refused(tmp_path: Path) -> None:
    given_sources = bpe.Sources(write(tmp_path / "a.jsonl", ["a", "b"]))
    for position, message in (
        (Position(1, 5), "is no position in these sources"),
        (Position(3, 0, 1), "is no position"),
        (Position(0, 0, 3), "has 2 documents after it in its file"),
    ):
        with pytest.raises(ValueError, match=message):
            read(given_sources, start=position)


@examples(5)
@given(
    files=st.lists(
        st.tuples(
            st.sampled_from([".txt", ".jsonl", ".jsonl.gz", ".parquet", ".csv", ".arrow"]),
            st.lists(st.text(st.sampled_from("ab\né"), max_size=30), min_size=1, max_size=15),
        ),
        min_size=1,
        max_size=4,
    ),
    ends=st.booleans(),
    keep=st.booleans(),
    unit=st.sampled_from([20, 100, 1 << 20]),
    count=st.integers(1, 9),
)
def test_parts_in_order_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[tuple[str, list[str]]],
    ends: bool,
    keep: bool,
    unit: int,
    count: int,
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    paths = [write(folder / f"{number}{ending}", texts) for number, (ending, texts) in enumerate(files)]
    cutting: dict[str, Any] = {"per_line": True} if keep else {"separator": "|"}
    textual = any(ending == ".txt" for ending, _ in files)
    whole = bpe.Sources(paths, separator_ends=ends, **(cutting if textual else {}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "UNIT_BYTES", unit)
        patch.setattr(reading, "MAX_READ", 25)
        parts = [whole.part(number, count) for number in range(count)]
        expected = read(whole)
        assert [text for part in parts for text in read(part)] == expected
        assert sum(part.size or 0 for part in parts) == (whole.size or 0)
        assert sum(len(part.units()) for part in parts) == len(whole.units())
        plans = [json.loads(json.dumps(part.plan())) for part in parts]
        assert len({json.dumps(plan) for plan in plans if plan["part"]}) == len([p for p in plans if p["part"]])
        for part in parts:
            copied = pickle.loads(pickle.dumps(part))
            assert (read(copied), copied.plan()) == (read(part), part.plan())
            for block in list(part.blocks(make_document_end_finder(whole.separators, keep), 1)):
                assert join_blocks(part.blocks(None, 1, start=block.resume_position))


def test_large_files_have_several_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "UNIT_BYTES", 1000)
    texts = [f"document {number}" for number in range(300)]
    for name, options, least in (
        ("a.jsonl", {}, 9),
        ("a.txt", {"separator": "|"}, 3),
        ("a.txt", {"separator": "\n"}, 1),  # does not occur
        ("a.txt", {}, 1),
        ("a.jsonl.gz", {}, 1),
        ("a.csv", {}, 1),
        ("a.parquet", {}, 3),
    ):
        found = bpe.Sources(write(tmp_path / name, texts), **options)  # type: ignore[arg-type]
        units = found.units()
        assert len(units) >= least
        assert (len(units) == 1) == (least == 1)
        assert sum(unit.disk_bytes or 0 for unit in units) == found.size
        assert [text for k in range(7) for text in read(found.part(k, 7))] == read(found)
    for number, count in ((1, 1), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="it must be"):
            found.part(number, count)


def test_errors_in_a_part_name_the_line_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "UNIT_BYTES", 1000)
    path = tmp_path / "a.jsonl"
    path.write_bytes(make_jsonl([f"document {number}" for number in range(200)]) + b"{}\n")
    part = bpe.Sources(path).part(2, 3)
    assert part.units()[0].start > 0
    with pytest.raises(bpe.FormatError, match=r"a\.jsonl, line 201: there is no field 'text'"):
        read(part)
    first = next(iter(part.blocks(None, 1)))
    with pytest.raises(bpe.FormatError, match=r"a\.jsonl, line 201: "):
        read(bpe.Sources(path), start=first.resume_position)


# Threads --------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["ahead", "not ahead"])
def reads_ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether threads read compressed files of any size, or small ones are read without."""
    ahead: bool = request.param
    monkeypatch.setattr(streams, "MIN_THREAD_BYTES", 0 if ahead else 1 << 20)
    return ahead


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "bpe_reader"]


@pytest.mark.parametrize("name", ["a.jsonl.zst", "a.parquet", "a.txt.gz"])
def test_the_reading_thread_ends_with_the_generator(name: str, reads_ahead: bool, small: None, tmp_path: Path) -> None:
    path = write(tmp_path / name, ["low lower"] * 5000)
    found = bpe.Sources(path)
    blocks = found.blocks(make_document_end_finder([b" "], False), 1)
    next(blocks)
    blocks.close()
    assert readers() == []
    blocks = found.blocks(make_document_end_finder([b" "], False), 1)
    next(blocks)
    del blocks
    assert readers() == []
    never_begun = found.blocks(None, 1)
    assert readers() == []
    never_begun.close()


def test_reading_ahead_is_bounded_and_errors_arrive_in_order() -> None:
    from bpe.corpus.streams import read_ahead

    made: list[int] = []

    def items() -> Iterable[int]:
        for number in range(100):
            made.append(number)
            yield number
        raise OSError("the end")

    ended = read_ahead(iter(items()), lambda _: 10, 30)
    assert next(ended) == 0
    ended.close()
    assert len(made) <= 1 + 3 + 1
    made.clear()
    ahead = read_ahead(iter(items()), lambda _: 10, 30)
    assert [next(ahead) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(made) <= 5 + 3 + 2
    found: list[int] = []
    with pytest.raises(OSError, match="the end"):
        found.extend(ahead)
    assert found == list(range(5, 100))
    assert readers() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside a thread is what is tested
@pytest.mark.parametrize(("threads", "first"), [(1, "packed"), (3, "packed"), (3, "plain")])
def test_a_forked_child_reads_all_that_is_left_or_is_refused(
    threads: int, first: str, reads_ahead: bool, tmp_path: Path
) -> None:
    """Those of the file that is read, and of those that are read ahead of their turn."""
    names = ["a.jsonl" if first == "plain" else "a.jsonl.zst", "b.jsonl.zst", "c.jsonl.zst"]
    sizes = [100 if first == "plain" else 4000, 4000, 4000]
    paths = [write(tmp_path / name, ["low lower" * 60] * size) for name, size in zip(names, sizes, strict=True)]
    found = bpe.Sources(paths)
    blocks = found.blocks(None, threads)
    n_documents = len(next(blocks).starts)
    child = os.fork()
    if child == 0:
        try:
            n_left = sum(len(block.starts) for block in blocks)
            may_read = first == "plain" or not reads_ahead  # opened after the fork, or read by no thread
            os._exit(0 if may_read and n_left == sum(sizes) - n_documents else 3)
        except RuntimeError as error:
            blocks.close()
            os._exit(0 if "forked" in str(error) and len(read(found)) == sum(sizes) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert n_documents + sum(len(block.starts) for block in blocks) == sum(sizes)
    assert readers() == []


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv"])
@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_compressed_files_that_are_read_before_their_turn(
    kind: str, ending: str, reads_ahead: bool, tmp_path: Path
) -> None:
    """The documents, the file of an error, and that no file or thread is left, do not depend on the threads."""
    texts = [[f"low {i} {j}" * 50 for j in range(200)] for i in range(7)]
    paths = [write(tmp_path / f"{i}.{kind}{ending}", file_texts) for i, file_texts in enumerate(texts)]
    paths[3:3] = [write(tmp_path / f"plain.{kind}", ["est"]), paths[1]]
    tok = bpe.train(texts=["low"], vocab_size=257)
    expected = tok.encode_files(bpe.Sources(paths, separator="|" if kind == "txt" else None), threads=1)
    counts = bpe.count_words(files=paths, threads=1)
    for threads in (2, 20):
        batch = tok.encode_files(bpe.Sources(paths, separator="|" if kind == "txt" else None), threads=threads)
        assert batch.to_list() == expected.to_list()
        assert list(bpe.count_words(files=paths, threads=threads).items()) == list(counts.items())
    n_threads, n_open = threading.active_count(), len(os.listdir("/proc/self/fd"))
    sources = bpe.Sources(paths)
    paths[-1].write_bytes(paths[-1].read_bytes()[:-40])
    paths[-2].unlink()
    for threads in (1, 2, 4):
        with pytest.raises(FileNotFoundError, match=rf"5\.{kind}"):
            tok.encode_files(sources, threads=threads)
    paths[2].write_bytes(paths[2].read_bytes()[:-40])
    for threads in (1, 2, 20):
        with pytest.raises(bpe.FormatError, match=rf"2\.{kind}.*(damaged|ends early)"):
            tok.encode_files(sources, threads=threads)
        with closing(sources.blocks(None, threads)) as blocks:
            next(blocks)
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (n_threads, n_open)
