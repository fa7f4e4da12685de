"""Documents of records: the lines of JSON Lines, the rows of CSV, TSV, Parquet and Arrow; and bad records.

The naive twin reads whole files with the standard library.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from source_files import (
    COLUMNS,
    join_blocks,
    make_jsonl,
    read,
    use_small_blocks,
    write,
    write_columns,
    write_compressed,
)
from strategies import examples

import bpe
from bpe.corpus import jsonl as jsonl_module
from bpe.corpus import page_headers, parquet, reading
from bpe.corpus._json_fields import FieldPath
from bpe.corpus.blocks import Position
from bpe.encode import blocks as encoding
from bpe.errors import FormatError

BYTES = bpe.train(texts=["low"], vocab_size=257)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_blocks(monkeypatch)


# JSON Lines -----------------------------------------------------------------------------------------------------------


def test_json_lines_of_all_kinds(small: None, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"text": "bom"}\r\n\r\n  \n{"text":"\\u00e9\\n\\ud83d\\ude0a", "n": NaN, "big": '
        + b"9" * 5000
        + b"}\n"
        b'{"text": "half \\ud800"}\n \t{"a": {"text": 3}, "text": "", "text": "twice"} \n\n{"text": "no newline"}'
    )
    expected = ["bom", "é\n😊", "half \ufffd", "twice", "no newline"]
    assert read(bpe.Sources(path)) == expected
    path.write_bytes(b'{"a": {"b c": {"d": "deep"}, "d": 1}}\n{"a": {"b c": {"d": ""}}}\n')
    assert read(bpe.Sources(path, field="a.b c.d")) == ["deep", ""]
    path.write_bytes(b'{"a": {"n": 1, "body": "deep"}}')
    with pytest.raises(bpe.FormatError, match=r"no field 'a\.text', only 'a\.n', 'a\.body'; pass .* field='a\.body'"):
        read(bpe.Sources(path, field="a.text"))
    for field in ("", "a.", ".a", 3):
        with pytest.raises(ValueError, match=r"field is .*it must be the name of a field"):
            bpe.Sources(path, field=field)


BAD_LINES = {
    b'{"text": "a"': r"the line is not a JSON value \(Expecting ',' delimiter.*\); each line must be",
    b'{"text": "a"} {"text": "b"}': r"the line is not a JSON value \(Extra data",
    b'{"text": null}': r"field 'text' is null; it must be a string",
    b'{"text": 3}': r"field 'text' is a number; it must be a string",
    b'{"text": ["a"]}': "field 'text' is an array",
    b'{"body": "a", "id": 1}': r"there is no field 'text', only 'body', 'id'; pass .* field='body'",
    b'{"id": 1, "body": "a"}': r"there is no field 'text', only 'id', 'body'; pass .* field='body'",
    b'{"id": 1}': r"there is no field 'text', only 'id', and no text",
    b"{}": "there is no field 'text', and no other",
    b'["text"]': "the record is an array; it must be an object with a field 'text'",
    b'"text"': "the record is the string 'text'",
    b'{"text": "a\xff"}': r"byte 0xff at column 12 is not UTF-8 \(invalid start byte\)",
    b'{"text": "a", "b": "\xff"}': r"byte 0xff at column 21 is not UTF-8",
    b"[" * 100_000: "the record is nested too deeply",
}


def read_no_field(field: str) -> FieldPath:
    """Instead of the kernel's path, one with too many names: every line goes through the standard library."""
    return FieldPath([field.encode()] * 100)


@pytest.mark.parametrize("bad", list(BAD_LINES), ids=lambda bad: bad[:20].decode("utf-8", "replace"))
@pytest.mark.parametrize(("fast", "ending"), [(True, ""), (True, ".gz"), (False, "")])
def test_bad_json_lines(
    bad: bytes, fast: bool, ending: str, small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr("bpe.corpus.jsonl.make_field_path", read_no_field)
    path = write_compressed(tmp_path / f"a.jsonl{ending}", b'{"text": "low"}\n\n%s\n{"text": "lower"}\n%s' % (bad, bad))
    with pytest.raises(
        bpe.FormatError, match=rf'a\.jsonl{ending}, line 3: {BAD_LINES[bad]}.*; correct it, .*on_error="skip"'
    ):
        read(bpe.Sources(path))
    for threads in (1, 2):
        with pytest.raises(bpe.FormatError, match=rf"a\.jsonl{ending}, line 3: "):
            bpe.count_words(files=path, threads=threads)
        with pytest.raises(bpe.FormatError, match=rf"a\.jsonl{ending}, line 3: {BAD_LINES[bad]}"):
            BYTES.encode_files(path, threads=threads)
    skipping = bpe.Sources(path, on_error="skip")
    assert read(skipping) == ["low", "lower"]
    assert skipping.skipped == 2


#: Lines that the kernel reads to their end or hands over: escapes, numbers, names that come twice or have escapes.
UNUSUAL = [
    rb'{"text": "\ud83d\ude00 \u00e9\n\"\\\/\t"}', rb'{"text": "\ud83d"}', rb'{"text": "\ude00\ud83d"}',
    rb'{"text": "\x"}',
    rb'{"text": "\u00g0"}', rb'{"text": "low\"', b' {"n": [-1.5e+3, 0, [], {"text": null}], "text" :\t"a"} \r',
    b'{"n": 01, "text": "a"}', b'{"n": -, "text": "a"}', b'{"n": 1., "text": "a"}', b'{"n": nul, "text": "a"}',
    rb'{"te\u0078t": "a"}', b'{"text": "a", "text": "b"}', b'{"text": "a", "text": 1}', b'{"text": "a",}',
    b'{"text": "a"',
    b'{"n": ' + b"[" * 70 + b"]" * 70 + b', "text": "a"}',
]  # fmt: skip

LINE = st.one_of(
    st.sampled_from(UNUSUAL),
    st.sampled_from([b"", b" ", b"\r", b"{}", b"null", b'{"text": "a\x01b"}', b'{"text": "\xc3"}', b'{"text":"a"}}']),
    st.text(max_size=9).map(lambda text: json.dumps({"text": text}, ensure_ascii=False).encode("utf-8", "replace")),
    st.recursive(st.none() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["text", "a", ""]), inner
    ), max_leaves=5).map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=6).map(lambda data: b'{"text": "' + data.replace(b"\n", b"") + b'"}'),
)  # fmt: skip


@example(lines=UNUSUAL, bom=False, size=1000)
@examples(14)
@given(lines=st.lists(LINE, max_size=8), bom=st.booleans(), size=st.sampled_from([1, 7, 1000]))
def test_json_lines_equal_the_naive_twin(
    lines: list[bytes], bom: bool, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also without the kernel: the documents do not depend on which lines it reads."""
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + b"\n".join(lines))
    expected, bad, first_bad = [], 0, 0
    for number, line in enumerate(lines, 1):
        if not line.strip(b" \t\r"):
            continue
        try:
            value = json.loads(line.decode())["text"]
        except (ValueError, KeyError, TypeError):
            value = None
        if isinstance(value, str):
            expected.append(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        else:
            bad, first_bad = bad + 1, first_bad or number
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", size)
        for make_field_path in (jsonl_module.make_field_path, read_no_field):
            patch.setattr(jsonl_module, "make_field_path", make_field_path)
            found = bpe.Sources(path, on_error="skip")
            assert (read(found), found.skipped) == (expected, bad)
        patch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)
        for threads in (1, 3):
            if bad:
                with pytest.raises(bpe.FormatError, match=f"line {first_bad}: "):
                    BYTES.encode_files([path, path], threads=threads)
                continue
            batch = BYTES.encode_files([path, path], threads=threads)
            assert [BYTES.decode(ids) for ids in batch.to_list()] == expected * 2


def test_json_lines_of_several_files_and_formats(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take lines of any file; special tokens, ids around documents, positions and counts are as in memory."""
    monkeypatch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)
    texts = [f'low{"er" * (i % 5)}<|end|>\n"{i}é" est' for i in range(60)]
    paths = [write(tmp_path / f"{i}.jsonl{'.gz' * (i == 3)}", texts[10 * i : 10 * i + 10]) for i in range(6)]
    paths.insert(2, write(tmp_path / "a.txt", ["low", "est"]))
    (tmp_path / "empty.jsonl").write_bytes(b"\n \r\n")
    paths.insert(4, tmp_path / "empty.jsonl")
    tok = bpe.train(texts=texts, vocab_size=300, special_tokens=["<|end|>"])
    everything = [*texts[:20], "low|est", *texts[20:]]
    for options in ({}, {"allowed_special": "all"}, {"allowed_special": "all", "append": "<|end|>"}):
        expected = [
            tok.encode(text, allowed_special=options.get("allowed_special", ())).tolist()
            + [tok.special_tokens["<|end|>"]] * ("append" in options)
            for text in everything
        ]
        for threads in (1, 2, 5):
            assert tok.encode_files(paths, threads=threads, **options).to_list() == expected  # type: ignore[arg-type]
    with pytest.raises(bpe.FormatError, match=r"0\.jsonl.*<\|end\|>"):
        tok.encode_files(paths, threads=2, disallowed_special="all")
    for threads in (1, 2, 5):
        counts = bpe.count_words(files=paths, threads=threads)
        assert list(counts.items()) == list(bpe.count_words(texts=everything).items())


def test_blank_lines_take_no_memory(tmp_path: Path) -> None:
    """Each is handed to the standard library, between two calls of the kernel."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "low"}\n\n' * 1000)
    tracemalloc.start()
    try:
        assert read(bpe.Sources(tmp_path / "a.jsonl")) == ["low"] * 1000
        assert tracemalloc.get_traced_memory()[1] < 15 << 20
    finally:
        tracemalloc.stop()


def test_a_line_of_30_mb(tmp_path: Path) -> None:
    """Time is linear, and memory twice the line: what is read, and its text."""
    text = "low lower " * 3_000_000
    (tmp_path / "a.jsonl").write_bytes(make_jsonl(["before", text, "after"]))
    del text
    tracemalloc.start()
    try:
        with closing(bpe.Sources(tmp_path / "a.jsonl").blocks(None, 1)) as blocks:
            assert sum(len(block.text) for block in blocks) == 30_000_011
        assert tracemalloc.get_traced_memory()[1] < 72 << 20
    finally:
        tracemalloc.stop()


# CSV and TSV ----------------------------------------------------------------------------------------------------------

CELL = st.text(st.sampled_from('ab,"\t\n\r é猫'), max_size=8)


@examples(32)
@given(rows=st.lists(st.tuples(CELL, CELL), max_size=12), tabs=st.booleans(), ends=st.sampled_from(["\n", "\r\n"]),
       bom=st.booleans(), quoting=st.booleans(), size=st.sampled_from([1, 9, 1000]))  # fmt: skip
def test_delimited_files_equal_the_naive_twin(
    rows: list[tuple[str, str]],
    tabs: bool,
    ends: str,
    bom: bool,
    quoting: bool,
    size: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    quoting |= any(
        "\r" in cell for row in rows for cell in row
    )  # the writer does not quote \r, and then the reader refuses it
    path = tmp_path_factory.mktemp("rows") / f"a.{'tsv' if tabs else 'csv'}"
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as file:
        kind: Any = {"delimiter": "\t" if tabs else ",", "lineterminator": ends}
        writer = csv.writer(file, quoting=csv.QUOTE_ALL if quoting else csv.QUOTE_MINIMAL, **kind)
        writer.writerows([["a\nb", "text"], *rows])
    with path.open(encoding="utf-8-sig", newline="") as file:
        expected = [row["text"] for row in csv.DictReader(file, delimiter=kind["delimiter"])]
    assert expected == [row[1] for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", size)
        assert read(bpe.Sources(path, quoting="excel")) == expected


def read_rows_naively(data: bytes, delimiter: str, quoting: str, max_row: int) -> tuple[list[bytes], list[int], bool]:
    """Read the second of two columns by the standard library, line by line: (texts, lines of bad rows, whether one of
    several lines has ended that)."""
    lines = iter(data.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True) if b"\r" not in data else [
        *(line + b"\n" for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1]), data.split(b"\n")[-1]
    ])  # fmt: skip
    n_taken = size = 0

    def take_lines() -> Any:
        nonlocal n_taken, size
        for line in lines:
            if line:
                n_taken, size = n_taken + 1, size + len(line)
                if size > max_row:
                    raise csv.Error("long")
                yield line.decode("utf-8", "surrogateescape")

    def make_reader() -> Any:
        kind: Any = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
        return csv.reader(take_lines(), delimiter=delimiter, quoting=kind, strict=True)

    texts, bad, rows = [], [], make_reader()
    assert next(rows) == ["id", "text"]
    while True:
        size, first = 0, n_taken
        try:
            row = next(rows, None)
            if row is None:
                return texts, bad, False
            ends = [end for line in (0, -1) for end in [delimiter.join(row).split("\n")[line]]]
            swallows = n_taken > first + 1 and all(end.count(delimiter) == 1 for end in ends)
            if row and quoting == "auto" and delimiter == "\t" and swallows:
                return texts, [*bad, first + 1], True
            if row:
                if len(row) != 2:
                    raise csv.Error("columns")
                row[1].encode("utf-8", "surrogateescape").decode()
                texts.append(row[1].encode())
        except (csv.Error, UnicodeDecodeError) as error:
            bad.append(first + 1)
            if quoting == "auto" and n_taken > first + 1:
                return texts, bad, True
            if isinstance(error, csv.Error):
                rows = make_reader()


ROW_PIECES = b'a|\t|,|"|""|\n|\r\n|\r|\xff|\xc3\xa9|","|"\n"|1,a\n|x,"b"\n'.split(b"|")


@examples(35)
@given(pieces=st.lists(st.sampled_from(ROW_PIECES), max_size=30), tabs=st.booleans(), bom=st.booleans(),
       quoting=st.sampled_from(["auto", "excel", "none"]), size=st.sampled_from([1, 3, 8, 1000]),
       max_row=st.sampled_from([9, 14, 1000]))  # fmt: skip
def test_rows_of_any_bytes_equal_the_naive_twin(
    pieces: list[bytes],
    tabs: bool,
    bom: bool,
    quoting: Any,
    size: int,
    max_row: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Broken rows, too: the same texts, the same bad rows, for any blocks and threads."""
    delimiter, path = "\t" if tabs else ",", tmp_path_factory.mktemp("rows") / f"a.{'tsv' if tabs else 'csv'}"
    rows = b"".join(pieces).replace(b",", delimiter.encode())
    data = (b"\xef\xbb\xbf" if bom else b"") + b"id%btext\n" % delimiter.encode() + rows
    path.write_bytes(data)
    expected, bad, is_refused = read_rows_naively(data, delimiter, quoting, max_row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", size)
        patch.setattr("bpe.corpus.delimited.max_row_bytes", max_row)
        patch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)
        skipping = bpe.Sources(path, quoting=quoting, on_error="skip")
        if is_refused:
            with pytest.raises(bpe.FormatError, match=f"line {bad[-1]}: the row is bad"):
                read(skipping)
        else:
            assert ([text.encode() for text in read(skipping)], skipping.skipped) == (expected, len(bad))
        for threads in (1, 3):
            sources = bpe.Sources([path, path], quoting=quoting)
            if bad:
                with pytest.raises(bpe.FormatError, match=f"line {bad[0]}: the row is bad"):
                    BYTES.encode_files(sources, threads=threads)
            else:
                batch = BYTES.encode_files(sources, threads=threads)
                assert [BYTES.decode_bytes(ids) for ids in batch.to_list()] == expected * 2


def test_a_quotation_mark_that_swallows_rows_is_an_error(small: None, tmp_path: Path) -> None:
    """TSV without quoting; CSV, and TSV with quoting, whose fields have lines of their own."""
    path, options = (
        tmp_path / "a.tsv",
        r"ends in line 4.*: pass quoting=\"none\" if they are text, quoting=\"excel\" if",
    )
    stray = b'id\ttext\n1\t"Hello, he said\n2\tbye\n3\tend"\n4\tx\n'
    for data in (
        stray,
        b'id\ttext\n1\t"Hello\n\n2\tbye" he\n',
        b'text\n"Hello\nlow\nend"\n',
        b'id\ttext\tx\n1\t"Hello\tx\n2\ty\tz\n3\t4"\t5\n',
    ):
        path.write_bytes(data)
        for on_error in ("raise", "skip"):
            with pytest.raises(bpe.FormatError, match=rf"a\.tsv, line 2: the row is bad: .*{options}"):
                read(bpe.Sources(path, on_error=on_error))  # type: ignore[arg-type]
    path.write_bytes(stray)
    assert read(bpe.Sources(path, quoting="none")) == ['"Hello, he said', "bye", 'end"', "x"]
    assert read(bpe.Sources(path, quoting="excel")) == ["Hello, he said\n2\tbye\n3\tend", "x"]
    assert bpe.Sources(path, quoting="none").plan()["quoting"] == "none"
    path.write_bytes(b'text\tid\n"two\nlines"\t1\n"a ""b"""\t2\n')
    assert read(bpe.Sources(path)) == ["two\nlines", 'a "b"']
    table = tmp_path / "a.csv"
    table.write_bytes(b'id,text\n1,"low\n2,er"\n3,"never\n4,closed\n')
    for on_error in ("raise", "skip"):
        with pytest.raises(bpe.FormatError, match=r"line 4: the row is bad: unexpected end of data; it begins"):
            read(bpe.Sources(table, on_error=on_error))  # type: ignore[arg-type]
    assert read(bpe.Sources(table, quoting="none")) == ['"low', 'er"', '"never', "closed"]


def test_bad_rows(small: None, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,text\n1,low\n2\n3,"b\n\nc"\n4,a,b\n5,\xff\n6,"a"b\n7,lower\n')
    with pytest.raises(
        bpe.FormatError, match=r"a\.csv, line 3: the row is bad: it has 1 field, and the header has 2; "
    ):
        read(bpe.Sources(path))
    skipping = bpe.Sources(path, on_error="skip")
    assert (read(skipping), skipping.skipped) == (["low", "b\n\nc", "lower"], 4)
    for line, row, message in (
        (4, b"4,a,b", "it has 3 fields"),
        (4, b"4,\xff", r"byte 0xff of column 'text' is not UTF-8"),
        (4, b'5,"a"b', r"',' expected after '\"'"),
        (4, b'5,"never closed\n6,b', "unexpected end of data"),
    ):
        path.write_bytes(b'id,text\n1,"a\nb"\n' + row + b"\n")
        with pytest.raises(bpe.FormatError, match=rf"a\.csv, line {line}: the row is bad: {message}"):
            read(bpe.Sources(path))
    assert read(bpe.Sources(path, quoting="excel", on_error="skip")) == ["a\nb"]
    limit = csv.field_size_limit()
    path.write_bytes(b"text\n" + b"x" * 1_000_000 + b"\n")
    assert [len(text) for text in read(bpe.Sources(path))] == [1_000_000]
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("size", [1, 1 << 17])
def test_blank_lines_before_the_header_of_any_number(
    ending: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_READ", size)
    path = write_compressed(tmp_path / f"a.csv{ending}", b"\n" * (2 * size + 3) + b"\r\ntext\nlow\n\nlower\n")
    for on_error in ("raise", "skip"):
        sources = bpe.Sources(path, on_error=on_error)
        assert (list(sources.documents()), sources.skipped) == ([b"low", b"lower"], 0)
    with closing(bpe.Sources(path).blocks(None, 1, unsplittable=[])) as blocks:
        reader: Any = next(blocks)
        assert len(reader.read_block(reading.BufferPool()).starts) == 0
        assert reader.resume_position == Position(0, 0)  # the header is yet to come


def test_the_lines_of_many_bad_rows_are_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\n" + b"a,b\n" * 60_000 + b"low\n")  # a minute if each counted from the beginning
    sources = bpe.Sources(path, on_error="skip")
    assert (list(sources.documents()), sources.skipped) == ([b"low"], 60_000)
    with pytest.raises(FormatError, match=r"a\.csv, line 2: "):
        list(bpe.Sources(path).documents())


def test_a_quote_that_is_never_closed_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bpe.corpus.delimited.max_row_bytes", 1000)
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\nlow\n" + b'"never\n' + b"row\n" * 1000)
    with pytest.raises(
        bpe.FormatError, match=r"a\.csv, line 3: the row is bad: the row has more than .* quotation mark"
    ):
        read(bpe.Sources(path))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.parquet", "a.arrow", "a.feather"])
def test_a_missing_column_names_the_others(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, ["low"])
    names = r"'id', 'text'(, 'url')?"
    with pytest.raises(bpe.FormatError, match=rf"{name}: there is no column 'body', only {names}; pass the name of"):
        read(bpe.Sources(path, field="body"))


# Parquet and Arrow ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", COLUMNS)
def test_null_rows(ending: str, small: None, tmp_path: Path) -> None:
    texts = ["low", None, "é", None, None, "x", "y", None]
    path = write_columns(tmp_path / f"a.{ending}", texts)
    with pytest.raises(bpe.FormatError, match=rf"a\.{ending}, row 2: column 'text' is null; .*on_error=\"skip\""):
        read(bpe.Sources(path))
    skipping = bpe.Sources(path, on_error="skip")
    assert (read(skipping), skipping.skipped) == (["low", "é", "x", "y"], 4)
    assert read(skipping, start=Position(0, 1, 1)) == ["y"]


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary", "dictionary", "string_view"])
def test_column_types(kind: str, small: None, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    made = pa.dictionary(pa.int32(), pa.string()) if kind == "dictionary" else getattr(pa, kind)()
    texts = ["low", "low", "é", "", "lower" * 20]
    for ending in ("arrow", "feather"):
        path = write_columns(tmp_path / f"a.{ending}", list(texts), kind=made)
        assert read(bpe.Sources(path)) == texts
    with pytest.raises(bpe.FormatError, match=r"a\.feather: column 'id' is of type int64, not text"):
        read(bpe.Sources(path, field="id"))


@pytest.mark.parametrize("wrong", [2, -1, 10**9])
@pytest.mark.parametrize("kind", ["dictionary", "nested", "string_view"])
def test_columns_that_refer_to_what_they_do_not_have(kind: str, wrong: int, tmp_path: Path) -> None:
    """An index that its dictionary does not have, and a text outside the buffers of its column."""
    pa = pytest.importorskip("pyarrow")
    array = pa.DictionaryArray.from_arrays(pa.array([0, wrong], pa.int32()), pa.array(["low", "é"]), safe=False)
    if kind == "nested":
        array = pa.StructArray.from_arrays([array], ["b"])
    elif kind == "string_view":
        views = np.array([20, 0, 0, wrong], dtype=np.int32).tobytes()
        array = pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(views), pa.py_buffer(b"low" * 7)])
    batch = pa.record_batch({"text": array})
    for number, create in enumerate((pa.ipc.new_file, pa.ipc.new_stream)):
        path = tmp_path / f"{number}.arrow"
        with create(str(path), batch.schema) as writer:
            writer.write_batch(batch)
        source = bpe.Sources(path, field="text.b" if kind == "nested" else "text")
        for call in (read, lambda files: bpe.count_words(files=files)):
            with pytest.raises(bpe.FormatError, match=rf"{number}\.arrow: the arrow data cannot be read"):
                call(source)


@pytest.mark.parametrize("kind", ["dictionary", "string_view"])
def test_encoded_columns_that_are_not_utf8(kind: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    array = pa.array([b"low", b"\xff", b"low"], pa.binary()).view("string")
    array = array.dictionary_encode() if kind == "dictionary" else array.cast(pa.string_view())
    batch = pa.record_batch({"text": array})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), batch.schema) as writer:
        writer.write_batch(batch)
    assert read(bpe.Sources(tmp_path / "a.arrow", encoding_errors="replace")) == ["low", "\ufffd", "low"]
    with pytest.raises(bpe.FormatError, match=r"a\.arrow, row 2: the text is not UTF-8"):
        read(bpe.Sources(tmp_path / "a.arrow"))


PAGES: dict[str, dict[str, Any]] = {
    "dictionary page": {},
    "dictionary page, version 2": {"data_page_version": "2.0", "compression": "zstd"},
    "shared prefixes": {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
    "plain": {"use_dictionary": False, "write_batch_size": 5, "data_page_size": 2000},
}


@pytest.mark.parametrize("kind", [*PAGES, "dictionary", "nested", "Arrow dictionary", "Arrow views"])
def test_few_texts_are_decoded_at_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a dictionary, prefixes or views repeat a long text."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(parquet, "BATCH_BYTES", 4000)
    monkeypatch.setattr(page_headers, "max_decoded_bytes", 8000)
    texts = ["low"] * 300 + ["lower " * 200] * 100 + ["x", "y" * 20_000] + ["low"] * 300
    array, path = pa.array(texts), tmp_path / ("a.arrow" if kind.startswith("Arrow") else "a.parquet")
    array = array.dictionary_encode() if kind.endswith("dictionary") else array
    array = array.cast(pa.string_view()) if kind == "Arrow views" else array
    array = pa.StructArray.from_arrays([array], ["b"]) if kind == "nested" else array
    table = pa.table({"text": array})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=500, **PAGES.get(kind, {}))
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    sizes: list[int] = []
    read_documents = parquet.read_arrow_documents
    monkeypatch.setattr(
        parquet, "read_arrow_documents", lambda array: sizes.append(array.nbytes) or read_documents(array)
    )
    sources = bpe.Sources(path, field="text.b" if kind == "nested" else "text")
    assert read(sources) == texts
    assert max(sizes) < 25_000
    assert sum(size > 10_000 for size in sizes) == 1
    at = Position(0, 1 if path.suffix == ".parquet" else 0, 7)
    assert read(sources, start=at) == texts[507 if path.suffix == ".parquet" else 7 :]


def test_large_pages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_columns(tmp_path / "a.parquet", ["low " * 1000], rows=1)
    monkeypatch.setattr(page_headers, "max_page_bytes", 1000)
    with pytest.raises(FormatError, match=r"a\.parquet: a page of the column has 40\d\d bytes, and at most 1000"):
        read(bpe.Sources(path))


@pytest.mark.parametrize(("compression", "version"), [(None, "V4"), (None, "V5"), ("zstd", "V5"), ("lz4", "V5")])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_large_record_batches_are_refused(
    kind: str, compression: str | None, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of an Arrow file may have so many bytes unpacked as the limit says, its dictionary too, and no more."""
    pa = pytest.importorskip("pyarrow")
    options = pa.ipc.IpcWriteOptions(
        compression=compression,
        metadata_version=getattr(pa.ipc.MetadataVersion, version),
        use_legacy_format=version == "V4" and kind == "stream",  # of such a file, pyarrow 24 reads no single column
    )
    texts = ["low " * 500, "lower"] * 300
    for array in (pa.array(texts), pa.array(texts).dictionary_encode()):
        batch = pa.record_batch({"id": pa.array(range(600)), "text": array})
        path = tmp_path / "a.arrow"
        new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with new(str(path), batch.schema, options=options) as writer:
            for _ in range(3):
                writer.write_batch(batch)
        # The column before it does not count.
        arrays = [array.indices, array.dictionary] if isinstance(array, pa.DictionaryArray) else [array]
        n_bytes = max(sum(buffer.size for buffer in part.buffers() if buffer is not None) for part in arrays)
        monkeypatch.setattr(page_headers, "max_decoded_bytes", n_bytes)
        assert read(bpe.Sources(path)) == texts * 3
        monkeypatch.setattr(page_headers, "max_decoded_bytes", n_bytes - 1)
        if compression is None:
            assert read(bpe.Sources(path)) == texts * 3
        else:
            with pytest.raises(
                FormatError, match=rf"a\.arrow: a record batch has {n_bytes} bytes unpacked, and at most"
            ):
                read(bpe.Sources(path))


def test_all_columns_count_where_buffers_are_counted_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of nulls has no buffers in a record batch, and a union has others than its type says."""
    pa = pytest.importorskip("pyarrow")
    texts, path = ["low " * 500, "lower"] * 300, tmp_path / "a.arrow"
    sizes = []
    for other in (pa.array([[[1, 2]] * 40] * 600), pa.array([{"a": "b", "c": [1]}] * 600), pa.nulls(600)):
        batch = pa.record_batch({"other": other, "id": pa.array(range(600)), "text": texts})
        with pa.ipc.new_file(str(path), batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(batch)
        monkeypatch.setattr(page_headers, "max_decoded_bytes", 1)
        with pytest.raises(FormatError, match="a record batch has") as caught:
            read(bpe.Sources(path))
        sizes.append(int(str(caught.value).split("has ")[1].split()[0]))
    text_size = sum(buffer.size for buffer in batch.column(2).buffers() if buffer is not None)
    assert sizes == [text_size, text_size, text_size + batch.column(1).buffers()[1].size]


def test_rows_after_page_headers_that_are_not_valid(tmp_path: Path) -> None:
    """Nothing is known of them, so they are decoded one by one."""
    pytest.importorskip("pyarrow.parquet")
    path = write_columns(tmp_path / "a.parquet", ["low", "lower"] * 500, rows=1000)
    with open(path, "rb") as file:
        chunk = page_headers.read_column_chunks(file, 1)[0]
    data, source = path.read_bytes(), bpe.Sources(path).files[0]
    for content, count in (
        (data, 300),
        (data[: chunk.data_page + 3], 1),
        (b"\xff" * len(data), 1),
        (b"\x1c" * 5000, 1),  # nested too deeply
        (b"\x19\xf2" + b"\xff" * 9 + b"\1" + data, 1),  # a list that declares too much
        (b"", 1),
    ):
        pages = page_headers.ColumnPages(io.BytesIO(content), chunk, source, keeps_dictionary=False)
        assert [pages.take_rows(300) for _ in range(3)] == [count] * 3
    assert [pages.take_rows(300, 1) for _ in range(3)] == [1] * 3
    for start, size in ((-5, 99), (1 << 62, 1 << 62), (4, 0)):
        forged = page_headers.ColumnChunk(0, start, size, size)
        pages = page_headers.ColumnPages(io.BytesIO(data), forged, source, keeps_dictionary=False)
        assert pages.take_rows(300) == 1


def test_columns_are_where_pyarrow_finds_them(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [
        {"text": "low " * (number % 9), "meta": {"id": number, "tags": ["a", "é"][: number % 3]}}
        for number in range(500)
    ]
    table = pa.Table.from_pylist(rows)
    for options in (
        {},
        {"compression": "zstd", "write_page_index": True},
        {"use_dictionary": False, "write_statistics": False},
    ):
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=90, **options)
        metadata = pq.ParquetFile(tmp_path / "a.parquet").metadata
        for column in range(metadata.num_columns):
            with open(tmp_path / "a.parquet", "rb") as file:
                found = page_headers.read_column_chunks(file, column)
            expected = [metadata.row_group(index).column(column) for index in range(metadata.num_row_groups)]
            assert found == [
                (
                    chunk.dictionary_page_offset or 0,
                    chunk.data_page_offset,
                    chunk.total_compressed_size,
                    chunk.total_uncompressed_size,
                )
                for chunk in expected
            ]


def test_footers_that_are_damaged_are_refused_or_read(tmp_path: Path) -> None:
    """pyarrow would end the process over a column's sizes that contradict each other."""
    pq = pytest.importorskip("pyarrow.parquet")
    path, texts = tmp_path / "a.parquet", ["low", "lower", ""] * 5
    pq.write_table(importlib.import_module("pyarrow").table({"text": texts}), path, use_dictionary=False)
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    read_counts = {"same": 0, "other": 0, "refused": 0}
    for position in range(size):
        damaged = bytearray(data)
        damaged[len(data) - 8 - size + position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            documents = list(bpe.Sources(path).documents())
            read_counts["same" if documents == [text.encode() for text in texts] else "other"] += 1
        except FormatError:
            read_counts["refused"] += 1
    assert read_counts["same"] > 100 < read_counts["refused"]


def test_null_entries_of_a_dictionary_are_nulls(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int32()), pa.array(["low", None, "é"]))
    table = pa.table({"text": array})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    sources = bpe.Sources(tmp_path / "a.arrow", on_error="skip")
    assert (read(sources), sources.skipped) == (["low", "é"], 2)


def test_nested_columns(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"a": {"b": "low"}, "c.d": "x"}, {"a": {"b": "é"}, "c.d": "y"}, {"a": None, "c.d": "z"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    skipping = bpe.Sources(tmp_path / "a.parquet", field="a.b", on_error="skip")
    assert (read(skipping), skipping.skipped) == (["low", "é"], 1)
    assert read(bpe.Sources(tmp_path / "a.parquet", field="c.d")) == ["x", "y", "z"]
    with pytest.raises(bpe.FormatError, match=r"there is no column 'a\.x', only 'a\.b'"):
        read(bpe.Sources(tmp_path / "a.parquet", field="a.x"))
    with pytest.raises(bpe.FormatError, match="column 'a' is of type struct"):
        read(bpe.Sources(tmp_path / "a.parquet", field="a"))


@pytest.mark.parametrize("ending", COLUMNS)
def test_columns_that_are_not_utf8(ending: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = [b"low", b"\xc3", b"\xa9 x", b"ok", b"\xff"]  # rows 2 and 3 are UTF-8 only together
    array = pa.array(rows, type=pa.binary())
    path = write_columns(tmp_path / f"a.{ending}", ["x"])
    table = pa.table({"text": array})
    if ending == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        with (pa.ipc.new_stream if ending == "arrow" else pa.ipc.new_file)(str(path), table.schema) as writer:
            writer.write_table(table)
    tok = bpe.train(texts=["low"], vocab_size=256)
    for call in (tok.encode_files, lambda path: bpe.count_words(files=path)):
        with pytest.raises(
            bpe.FormatError, match=rf"a\.{ending}, row 2: the text is not UTF-8 \(byte 0xc3 at offset 0"
        ):
            call(path)
    assert read(bpe.Sources(path, encoding_errors="replace")) == [row.decode("utf-8", "replace") for row in rows]
    assert join_blocks(bpe.Sources(path, encoding_errors="bytes").blocks(None, 1)) == rows
    skipping = bpe.Sources(path, on_error="skip")
    assert (read(skipping), skipping.skipped) == (["low", "ok"], 3)


def test_column_files_that_are_not(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for ending in COLUMNS:
        path = write_columns(tmp_path / f"a.{ending}", ["low"] * 2000, rows=100)
        data = path.read_bytes()
        for bad in (b"", b"low lower", data[: len(data) // 2]):
            path.write_bytes(bad)
            with pytest.raises(bpe.FormatError, match=rf"a\.{ending}: the \w+ data cannot be read \(.*; copy or write"):
                read(bpe.Sources(path))
    (tmp_path / "v1.feather").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(bpe.FormatError, match=r"v1\.feather: this is Feather version 1"):
        read(bpe.Sources(tmp_path / "v1.feather"))


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """Which of two columns has the text is not guessed."""
    (tmp_path / "a.csv").write_text("text,id,text\na,1,b\n")
    (tmp_path / "a.tsv").write_text("text\ttext\na\tb\n")
    paths = [tmp_path / "a.csv", tmp_path / "a.tsv"]
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        pass
    else:
        table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
        pq.write_table(table, tmp_path / "a.parquet")
        with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
            file.write_table(table)
        paths += [tmp_path / "a.parquet", tmp_path / "a.arrow"]
    for path in paths:
        with pytest.raises(FormatError, match="there are 2 columns 'text', and one has the text; rename the others"):
            list(bpe.Sources(path).documents())
    (tmp_path / "a.csv").write_text("text,id,id\na,1,b\n")
    assert list(bpe.Sources(tmp_path / "a.csv").documents()) == [b"a"]


def test_another_delimiter_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text;id\na;1\n")
    with pytest.raises(FormatError, match="if ';' separates columns here, write the file with commas"):
        list(bpe.Sources(tmp_path / "a.csv").documents())
