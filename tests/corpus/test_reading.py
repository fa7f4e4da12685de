"""Reading text files: blocks, files that change during the call, files that are not text; ids around documents."""

from __future__ import annotations

import gzip
import io
import itertools
import logging
import os
import random
import re
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_files import write
from strategies import examples

import bpe
from bpe.base._cpu import get_vector_level, set_vector_level
from bpe.base.utf8 import find_utf8_error
from bpe.cli import encoding as cli
from bpe.cli import main
from bpe.corpus import contents, parquet, reading, sources, streams
from bpe.corpus._file_reader import FileReader, may_begin_otherwise
from bpe.corpus._parquet_headers import find_column_chunks, read_page_header
from bpe.corpus.sources import Sources
from bpe.data.formats import thrift
from bpe.encode import blocks as encoding
from bpe.formats import id_files

#: The vector level to restore.
VECTORS = get_vector_level()

KINDS: dict[str, dict[str, Any]] = {
    "scanner": {"pretokenizer": "cl100k"},
    "normalizer": {"pretokenizer": "gpt2", "normalizer": bpe.normalizers.NFC()},
    "pattern": {"pretokenizer": bpe.Pretokenizer.from_regex(r"\w+|\W")},
    "none": {"pretokenizer": None},
    "characters": {"model": "char", "unk_token": "<unk>"},
    "mark": {"model": "char", "unk_token": "<unk>", "end_of_word": "</w>"},
}
TEXT = "low lower newest, 영화를 영화관에서 猫である。\n名前は e\u0301 é 😊\n\n  it's 123 x<|end|>"
_MADE: dict[str, bpe.Tokenizer] = {}


def tokenizer(kind: str) -> bpe.Tokenizer:
    if kind not in _MADE:
        _MADE[kind] = bpe.train(
            texts=[TEXT] * 3, num_merges=40, special_tokens=["<|end|>", "ab", "</s>"], **KINDS[kind]
        )
    return _MADE[kind]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_READ", 64)
    monkeypatch.setattr(reading, "MIN_READ", 16)
    monkeypatch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)


def naive_documents(text: str, separator: str | None, per_line: bool) -> list[str]:
    if per_line:
        return [line.decode() for line in io.BytesIO(text.encode())]
    return [text] if separator is None else text.split(separator)


# Blocks ---------------------------------------------------------------------------------------------------------------


@examples(14)
@given(
    text=st.lists(
        st.sampled_from([*"ab\n 1é猫", "aa", " low", "<|end|>", "<|end|>", "<|en", "</s>", "😊b\n", " lower" * 9]),
        max_size=60,
    ).map("".join),
    kind=st.sampled_from(list(KINDS)),
    cut=st.sampled_from([None, "\n", "a", "aa", "aba", "ab", "<|end|>", "é", "lines"]),
    special=st.booleans(),
    bos_eos=st.sampled_from([(None, None), (None, "<|end|>"), (3, None), ("<|end|>", 5)]),
    size=st.sampled_from([1, 3, 7, 40, 300]),
    threads=st.sampled_from([1, 2, 3]),
)
def test_blocks_of_any_size_give_the_ids_of_the_documents(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    kind: str,
    cut: str | None,
    special: bool,
    bos_eos: tuple[Any, Any],
    size: int,
    threads: int,
) -> None:
    """Every kind of separator and tokenizer, blocks that end anywhere, one or several threads, one job or several."""
    tok = tokenizer(kind)
    path = tmp_path_factory.mktemp("blocks") / "text"
    path.write_bytes(text.encode())
    separator, per_line = (None, True) if cut == "lines" else (cut, False)
    before, after = ([] if name is None else [tok.special_tokens.get(name, name)] for name in bos_eos)
    documents = naive_documents(text, separator, per_line)
    allowed = "all" if special else ()
    expected = [before + tok.encode(document, allowed_special=allowed).tolist() + after for document in documents]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", size)
        patch.setattr(reading, "MIN_READ", max(size // 3, 1))
        patch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)
        batch = tok.encode_files(
            [path, path],
            separator=separator,
            per_line=per_line,
            threads=threads,
            allowed_special=allowed,
            prepend=bos_eos[0],
            append=bos_eos[1],
        )
    assert batch.to_list() == expected * 2


def test_word_counts_do_not_depend_on_blocks(small_blocks: None, tmp_path: Path) -> None:
    choose = random.Random(5)
    path = tmp_path / "text"
    for _ in range(12):
        text = "".join(choose.choices(["a", "b", "aa", "\n", " low", " ", "<|end|>", "é", "猫"], k=400))
        path.write_bytes(text.encode())
        for separator, per_line in ((None, False), ("aa", False), ("<|end|>", False), (None, True)):
            made: dict[str, Any] = {"pretokenizer": choose.choice(["gpt2", None]), "special_tokens": ["ab", "<|end|>"]}
            expected = bpe.count_words(texts=naive_documents(text, separator, per_line), **made)
            for threads in (1, 2):
                counts = bpe.count_words(
                    files=bpe.Sources(path, separator=separator, per_line=per_line), threads=threads, **made
                )
                assert counts == expected


def test_no_buffer_is_much_larger_than_a_block(
    small_blocks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither counting nor encoding holds the whole file in memory."""
    taken: list[int] = []
    take = reading.BufferPool.take

    def recording_take(buffers: reading.BufferPool, size: int) -> bytearray:
        taken.append(size)
        return take(buffers, size)

    open_block = encoding._BlockOpener.open

    def recording_open(opener: Any, block: Any) -> Any:
        taken.append(len(block.text.obj))
        return open_block(opener, block)

    monkeypatch.setattr(bpe.Sources, "_count_units_for_kernel", lambda *_: 0)
    monkeypatch.setattr(reading.BufferPool, "take", recording_take)
    monkeypatch.setattr(encoding._BlockOpener, "open", recording_open)
    path = tmp_path / "text"
    path.write_bytes(("low lower lowest\n" * 3000).encode())
    tok = tokenizer("scanner")
    for threads in (1, 2):
        tok.encode_files(path, separator="low", encoding_errors="replace", threads=threads)
    bpe.count_words(files=bpe.Sources(path, encoding_errors="replace"), threads=2)
    assert len(taken) > 2000
    assert max(taken) < 2 * 64


def test_several_threads_raise_the_error_of_the_first_block(small_blocks: None, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"low lower \xff" * 500)
    for _ in range(10):
        with pytest.raises(bpe.FormatError) as caught:
            tokenizer("scanner").encode_files(path, threads=3)
        assert caught.value.where == "offset 10"


# Files that change while they are read --------------------------------------------------------------------------------


@pytest.fixture
def shrinking(small_blocks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is truncated to 100 bytes when its first block is read, or after its third."""
    path = tmp_path / "shrinking.txt"
    path.write_bytes(b'{"w lower lowest\n' * 600)  # begins as JSON may, so that Python code checks it
    schedule = reading.ReadSchedule.record_read
    done = 0

    def read(self: reading.ReadSchedule, count: int) -> None:
        nonlocal done
        schedule(self, count)
        done += 1
        if done == 3:
            os.truncate(path, 100)

    monkeypatch.setattr(reading.ReadSchedule, "record_read", read)
    for module in (sources, reading):  # where a kernel reads the file, or text that Python code replaces
        monkeypatch.setattr(module, "check_text", lambda *_: os.truncate(path, 100))
    return path


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "call",
    [
        lambda path, threads: tokenizer("scanner").encode_files(path, threads=threads),
        lambda path, threads: tokenizer("scanner").encode_files(path, per_line=True, threads=threads),
        lambda path, threads: tokenizer("normalizer").encode_files(path, per_line=True, threads=threads),
        lambda path, threads: tokenizer("pattern").encode_files(path, separator="w", threads=threads),
        lambda path, threads: bpe.count_words(files=path, threads=threads),
        lambda path, threads: bpe.train(files=path, num_merges=3, threads=threads),
        lambda path, threads: tokenizer("scanner").encode_files(path, threads=threads, encoding_errors="replace"),
    ],
)
def test_a_file_that_shrinks_is_an_error(shrinking: Path, call: Any, threads: int) -> None:
    with pytest.raises(
        OSError, match=r"shrinking\.txt (got shorter while it was read: it had 10200 bytes, and now ends|was changed)"
    ):
        call(shrinking, threads)


@pytest.mark.parametrize("argv", [["count"], ["encode", "-o", "OUT.npy"], ["encode", "-o", "OUT", "--per-line"]])
def test_a_file_that_shrinks_leaves_no_partial_output(
    shrinking: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, tok = shrinking.parent / "out", shrinking.parent / "t.json"
    tokenizer("scanner").save(tok)
    out.mkdir()
    assert main([word.replace("OUT", f"{out}/ids") for word in argv] + [str(shrinking), "-t", str(tok)]) == 1
    said = capsys.readouterr()
    assert re.fullmatch(r"bpe: error: \S+shrinking\.txt got shorter while it was read: .*\n", said.err)
    assert said.out == ""
    assert list(out.iterdir()) == []


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def overwrite(path: Path) -> None:
    with path.open("rb+") as file:
        file.write(path.read_bytes()[:1])


@pytest.mark.parametrize(
    ("change", "ending"),
    [(append, ending) for ending in ("txt", "jsonl", "csv")]
    + [(overwrite, ending) for ending in ("txt", "txt.gz", "jsonl", "csv", "parquet", "arrow")],
)
def test_a_file_that_is_changed_meanwhile_is_an_error(
    change: Any, ending: str, small_blocks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / f"a.{ending}", ['{"low lower'] * 50)
    if ending == "jsonl":  # begins so that Python code checks it
        path.write_bytes(contents.UTF8_BOM + path.read_bytes())
    os.utime(path, ns=(1, 1))
    watch_for_changes = streams.watch_for_changes

    def changing(file: Any, *given: Any) -> None:
        watch_for_changes(file, *given)
        change(path)

    for module in (streams, parquet):
        monkeypatch.setattr(module, "watch_for_changes", changing)
    monkeypatch.setattr(sources, "check_text", lambda *_: change(path))  # where a kernel reads the file
    tok = tokenizer("scanner")
    for call in (tok.encode_files, lambda path: bpe.count_words(files=path), lambda path: bpe.evaluate(tok, path)):
        with pytest.raises(OSError, match=rf"a\.{ending} was changed while it was read"):
            call(path)


def test_a_file_that_is_changed_between_its_parts_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"low\n" * 50)
    monkeypatch.setattr(sources, "UNIT_BYTES", 100)
    os.utime(path, ns=(1, 1))
    found = Sources(path, per_line=True).part(0, 1).blocks(None, 1)
    next(found)
    overwrite(path)
    with pytest.raises(OSError, match=r"was changed"):
        list(found)


def test_a_file_that_is_changed_between_two_stages_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("by the way, " * 50)
    os.utime(path, ns=(1, 1))
    two_stages = partial(bpe.train, superwords=bpe.SuperWords(transition=260))
    for train in (two_stages, partial(bpe.research.train_boundless, 260)):
        with pytest.raises(OSError, match="was changed"):
            train(files=path, vocab_size=262, on_merge=lambda *_: append(path))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")
def test_a_file_of_unknown_size_is_read_to_its_end() -> None:
    assert len(tokenizer("scanner").encode_files("/proc/self/status").ids) > 100


def test_a_read_error_names_the_file() -> None:
    class Broken:
        def readinto(self, buffer: memoryview) -> int:
            raise OSError(5, "Input/output error")

    stream = reading.Stream(Broken(), "text")
    with pytest.raises(OSError, match=r"Input/output error: 'text'"):
        list(reading.read_text(stream, None, reading.BufferPool(), reading.ReadSchedule(None, 1)))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_read_error_of_a_kernel_names_the_file(tmp_path: Path, threads: int, small_blocks: None) -> None:
    cases = ((tmp_path, IsADirectoryError), (tmp_path / "absent", FileNotFoundError))
    for (name, error), size in itertools.product(cases, (1, 1 << 30)):
        reader = FileReader([str(name)], np.array([[0, 0, -1, size]]), [], False, [], False)
        with pytest.raises(error, match=re.escape(repr(str(name)))):
            encoding.encode_next_blocks(tokenizer("scanner")._engine, iter([reader]), threads, 1000)


def test_a_reader_that_is_closed_while_others_read_closes_its_files_after_them(tmp_path: Path, hooks: Any) -> None:
    """An exception of a signal handler ends the generator that has the reader, in one thread, while others read."""
    texts = {str(tmp_path / name): b"low lower newest\n" * count for name, count in (("a", 900), ("b", 1), ("c", 700))}
    for name, text in texts.items():
        Path(name).write_bytes(text)
    units = np.array([[index, 0, -1, 1 << 30] for index in range(3)])
    before = os.listdir("/dev/fd")
    reader = FileReader(list(texts), units, [], False, [], False, block_bytes=1000)
    assert b"".join(hooks.read_after_close(reader)) == b"".join(texts.values())
    assert reader.is_finished
    assert os.listdir("/dev/fd") == before


SIGNATURES = [signature for signature, _ in (*contents._COMPRESSIONS.values(), *contents._SIGNATURES)]


@given(
    st.sampled_from([signature.replace(rb"(?=.*\0)", rb".{0,5}\0") for signature in SIGNATURES]).flatmap(
        lambda signature: st.from_regex(re.compile(signature, re.DOTALL))
    )
    | st.binary(min_size=1, max_size=20)
    | st.text(' \n\ufeff{[]"abß猫', min_size=1).map(str.encode)
)
def test_first_bytes_that_python_code_does_not_check_are_text(first_bytes: bytes) -> None:
    if first_bytes and not may_begin_otherwise(first_bytes):
        contents.check_text(first_bytes[: contents.SIGNATURE_BYTES], "text")
        assert not contents._BEGINS_RECORD.match(first_bytes)
        assert not first_bytes.startswith(contents.UTF8_BOM)


def test_most_texts_begin_so_that_no_python_code_checks_them() -> None:
    for text in ("Low lower", "low\r\n", "#!/bin/sh\n", "# Low", '"""Low."""', "가나다라마바사", "猫である。猫である"):
        assert not may_begin_otherwise(text.encode()), text
    for text in ("[1] Low", "[[low]]", "{low: 1}", "\n" * 40 + "low", " \t\r\n[ low", "{{ low }}", "[]"):
        assert not may_begin_otherwise(text.encode()), text


def test_special_tokens_and_bad_bytes_between_blocks_of_a_kernel(small_blocks: None, tmp_path: Path) -> None:
    """Blocks that Python code has to prepare alternate with those that it has not."""
    path, tok = tmp_path / "text", tokenizer("scanner")
    texts = ["low lower\n" * 30 + "<|end|>" + " newest" * 40 + "ab", "", "é猫 lower" * 50]
    path.write_text("</s>".join(texts))
    for threads in (1, 2):
        batch = tok.encode_files(path, separator="</s>", threads=threads, allowed_special="all")
        assert batch == tok.encode_batch(texts, allowed_special="all")
        with pytest.raises(bpe.FormatError, match=r"<\|end\|>"):
            tok.encode_files(path, separator="</s>", threads=threads, disallowed_special="all")
    path.write_bytes(path.read_bytes() + b"\xff" + b" low" * 100)
    with pytest.raises(bpe.FormatError, match="byte 0xff is not UTF-8"):
        tok.encode_files(path, threads=2)
    assert tok.encode_files(path, encoding_errors="bytes").to_list() == [tok.encode(path.read_bytes()).tolist()]


# Files that are not text ----------------------------------------------------------------------------------------------

NO_TEXT = {
    "zip data, not text; decompress it first": b"PK\x03\x04rest",
    "zip data": gzip.compress(b"PK\x03\x04rest"),
    "gzip data": gzip.compress(gzip.compress(b"low")),
    r"UTF-16 \(little-endian\) text; convert it to UTF-8 first: iconv -f UTF-16 -t UTF-8": "low".encode("utf-16"),
    r"UTF-16 \(big-endian\)": b"\xfe\xff" + "low".encode("utf-16-be"),
    r"UTF-32 \(little-endian\)": "low".encode("utf-32"),
    r"UTF-32 \(big-endian\)": b"\0\0\xfe\xff" + "low".encode("utf-32-be"),
}


@pytest.mark.parametrize("message", NO_TEXT)
def test_the_error_names_the_kind_of_a_file_that_is_not_text(
    tmp_path: Path, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, saved = tmp_path / "data", tmp_path / "t.json"
    path.write_bytes(NO_TEXT[message])
    tok = tokenizer("scanner")
    for errors in ("strict", "replace"):
        for call in (tok.encode_files, bpe.count_words, partial(bpe.train, num_merges=1)):
            with pytest.raises(bpe.FormatError, match=rf"data: this is {message}"):
                call(files=bpe.Sources(path, encoding_errors=errors))  # type: ignore[operator, arg-type]
    assert len(tok.encode_files(path, encoding_errors="bytes").ids)
    tok.save(saved)
    for command in (["encode", "-t"], ["count", "-t"], ["count-words", "-o"], ["train", "--num-merges", "1", "-o"]):
        for name in (str(path), "-"):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(NO_TEXT[message])))
            target = str(saved if command[-1] == "-t" else tmp_path / "made")
            assert main([*command, target, name]) == 1
            shown = "stdin" if name == "-" else str(path)
            assert re.search(rf"^bpe: error: {re.escape(shown)}: this is {message}.*\n\Z", capsys.readouterr().err)
    assert not (tmp_path / "made").exists()


def test_a_byte_order_mark_is_encoded_with_one_warning(
    small_blocks: None, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path, saved = tmp_path / "text", tmp_path / "t.json"
    data = b"\xef\xbb\xbf" + b"low lower\n" * 50
    path.write_bytes(data)
    tok = tokenizer("scanner")
    with caplog.at_level(logging.WARNING, logger="bpe"):
        assert tok.encode_files(path, threads=2).to_list() == [tok.encode(data).tolist()]
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        f"{path} begins with a UTF-8 byte order mark, which is encoded as text"
    ]
    tok.save(saved)
    assert main(["encode", str(path), "-t", str(saved)]) == 0
    assert capsys.readouterr().err.count("byte order mark") == 1


# Bytes that are not UTF-8 ---------------------------------------------------------------------------------------------

PIECES = [b"a", b"low ", "é".encode(), "猫".encode(), "😊".encode(), b"ab" * 40, b"\xed\x9f\xbf", b"\xee\x80\x80"]
WRONG = [
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xc1\xbf",
    b"\xf5",
    b"\x80",
    b"\xe7",
]


def python_error(data: bytes) -> tuple[int, str] | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start, error.reason
    return None


@pytest.mark.parametrize("level", [0, 2, 3])
def test_utf8_validation_equals_pythons(level: int) -> None:
    set_vector_level(level)
    try:
        choose = random.Random(7)
        for _ in range(4000):
            data = b"".join(choose.choices(PIECES, k=choose.randrange(60)))
            if choose.random() < 0.6:
                at = choose.randrange(len(data) + 1)
                data = data[:at] + choose.choice([*WRONG, bytes([choose.randrange(256)])]) + data[at:]
            if choose.random() < 0.5:
                data = data[: choose.randrange(len(data) + 1)]
            assert find_utf8_error(data) == python_error(data)
    finally:
        set_vector_level(VECTORS)


@examples(14)
@given(
    parts=st.lists(st.sampled_from([*PIECES[:5], b"\n", b" ", b"<|end|>", *WRONG]), max_size=40),
    size=st.sampled_from([1, 2, 5, 64]),
    threads=st.sampled_from([1, 2]),
    separator=st.sampled_from([None, "<|end|>", "é"]),
)
def test_encoding_errors(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], size: int, threads: int, separator: str | None
) -> None:
    """ "strict" names the first wrong byte, "replace" equals Python's, "bytes" keeps them, in blocks of any size."""
    data = b"".join(parts)
    path = tmp_path_factory.mktemp("errors") / "text"
    path.write_bytes(data)
    tok, error = tokenizer("scanner"), python_error(data)
    replaced = data.decode("utf-8", "replace")
    given: dict[str, Any] = {"separator": separator, "threads": threads}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", size)
        patch.setattr(reading, "MIN_READ", size)
        patch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)
        if error is None:
            assert (
                tok.encode_files(path, **given).to_list()
                == tok.encode_batch([data] if separator is None else data.split(separator.encode())).to_list()
            )
        else:
            for call in (
                lambda: tok.encode_files(path, **given),
                lambda: bpe.count_words(files=bpe.Sources(path, separator=separator), threads=threads),
            ):
                with pytest.raises(bpe.FormatError, match=f"byte 0x{data[error[0]]:02x} is not UTF-8") as caught:
                    call()
                assert caught.value.where == f"offset {error[0]}"
        texts = [replaced] if separator is None else replaced.split(separator)
        assert tok.encode_files(path, encoding_errors="replace", **given).to_list() == tok.encode_batch(texts).to_list()
        replacing = bpe.Sources(path, separator=separator, encoding_errors="replace")
        assert bpe.count_words(files=replacing, threads=threads) == bpe.count_words(texts=texts)
        raw = [data] if separator is None else data.split(separator.encode())
        assert tok.encode_files(path, encoding_errors="bytes", **given).to_list() == tok.encode_batch(raw).to_list()
        keeping = bpe.Sources(path, separator=separator, encoding_errors="bytes")
        assert bpe.count_words(files=keeping, threads=threads) == bpe.count_words(texts=raw)


def test_encoding_errors_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = b"low \xff lower"
    path, saved = tmp_path / "text", tmp_path / "t.json"
    path.write_bytes(data)
    tok = tokenizer("scanner")
    tok.save(saved)
    for name in (str(path), "-"):
        for errors, text in (("replace", data.decode("utf-8", "replace")), ("bytes", data)):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
            assert main(["encode", name, "-t", str(saved), "--encoding-errors", errors]) == 0
            assert [int(word) for word in capsys.readouterr().out.split()] == tok.encode(text).tolist()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert main(["encode", name, "-t", str(saved)]) == 1
        assert "offset 4: byte 0xff is not UTF-8 (invalid start byte)" in capsys.readouterr().err
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        made = ["train", name, "--num-merges", "1", "--quiet", "--encoding-errors", "bytes", "-o", str(tmp_path / "m")]
        assert main(made) == 0
        assert bpe.Tokenizer.load(tmp_path / "m") == bpe.train(texts=[data], num_merges=1)


def test_invalid_values_of_encoding_errors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"low")
    with pytest.raises(ValueError, match="encoding_errors is 'ignore'; it must be one of 'strict', 'replace', 'bytes'"):
        tokenizer("scanner").encode_files(path, encoding_errors="ignore")  # type: ignore[arg-type]
    for call in (tokenizer("characters").encode_files, lambda files: bpe.train(files=files, **CHARS)):
        with pytest.raises(ValueError, match="encoding_errors is 'bytes', but a character model has no symbols for"):
            call(bpe.Sources(path, encoding_errors="bytes"))


CHARS: dict[str, Any] = {"model": "char", "num_merges": 1}


# Ids around documents -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_prepend_and_append_in_a_batch(kind: str) -> None:
    tok = tokenizer(kind)
    end = tok.special_tokens["<|end|>"]
    texts = ["low", "", "low<|end|>er", "猫 é", "low lower " * 3]
    rows = [tok.encode(text).tolist() for text in texts]
    allowed = [tok.encode(text, allowed_special="all").tolist() for text in texts]
    assert tok.encode_batch(texts, append="<|end|>").to_list() == [[*row, end] for row in rows]
    assert tok.encode_batch(texts, prepend=5).to_list() == [[5, *row] for row in rows]
    both = tok.encode_batch(texts, prepend=int(np.int64(5)), append=end, allowed_special="all")
    assert both.to_list() == [[5, *row, end] for row in allowed]
    assert tok.encode_batch([], append=end).to_list() == []
    out = np.zeros(500, dtype=np.uint16)
    assert tok.encode_batch(texts * 3, append=end, out=out, threads=2).to_list() == [[*row, end] for row in rows * 3]
    with_dropout = tok.encode_batch(texts, append=end, dropout=1e-9, seed=1)
    assert with_dropout.to_list() == [[*row, end] for row in rows]
    pa = pytest.importorskip("pyarrow")
    assert tok.encode_batch(pa.array(texts), prepend=5, append=end) == tok.encode_batch(texts, prepend=5, append=end)


def test_prepend_and_append_with_long_texts_on_several_threads() -> None:
    tok = tokenizer("scanner")
    texts = ["low lower lowest " * 30_000, "", "猫 é " * 20_000, "low"] * 2
    batch = tok.encode_batch(texts, prepend="<|end|>", append=9, threads=2)
    plain = tok.encode_batch(texts, threads=1)
    assert all(
        np.array_equal(row, [tok.special_tokens["<|end|>"], *expected.tolist(), 9])
        for row, expected in zip(batch, plain, strict=True)
    )


def test_invalid_values_of_prepend_and_append_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tok = tokenizer("scanner")
    path, saved = tmp_path / "text", tmp_path / "t.json"
    path.write_text("low")
    tok.save(saved)
    wrong: list[tuple[Any, type[Exception], str]] = [
        ("<|no|>", ValueError, r"append is '<\|no\|>', which is no special token of this tokenizer \(its special"),
        (10**6, ValueError, "append is 1000000, which is no id of this tokenizer; give the id of a token, or the name"),
        (-1, ValueError, "append is -1; it must be at least 0"),
        (True, TypeError, "append is True"),
        (1.5, TypeError, "append is 1.5, a float; it must be an int"),
    ]
    for value, error, message in wrong:
        with pytest.raises(error, match=message):
            tok.encode_batch(["low"], append=value)
        with pytest.raises(error, match=message):
            tok.encode_files(path, append=value)
    for value, message in (
        ("<|no|>", r"--append is '<\|no\|>', which is no special"),
        ("999999", "--append is 999999"),
    ):
        assert main(["encode", str(path), "-t", str(saved), "--append", value]) == 1
        assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("kind", ["scanner", "normalizer", "pattern"])
@pytest.mark.parametrize("size", [16, 1 << 20])
def test_prepend_and_append_on_the_command_line(
    kind: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file and through a pipe; `count` includes the added ids."""
    monkeypatch.setattr(cli, "_GROUP_BYTES", size)
    monkeypatch.setattr(reading, "MAX_READ", size)
    tok = tokenizer(kind)
    path, saved, ids = tmp_path / "text", tmp_path / "t.json", tmp_path / "ids.npy"
    text = "low lower\nlowest newest " * 10 + "<|end|>" + "x" * 40 + "<|end|>"
    path.write_text(text)
    tok.save(saved)
    tokens = ["--prepend", "5", "--append", "<|end|>"]
    for cut, documents in (([], [text]), (["--separator", "<|end|>"], text.split("<|end|>"))):
        expected = tok.encode_batch(documents, prepend=5, append="<|end|>")
        for name in (str(path), "-"):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
            assert main(["encode", name, "-t", str(saved), "-o", str(ids), *cut, *tokens]) == 0
            assert bpe.TokenBatch(np.load(ids), np.load(tmp_path / "ids.offsets.npy")) == expected
        notes = capsys.readouterr().err.splitlines()
        assert bool(notes) != bool(cut)  # of the name in the text; blocks of 16 bytes may cut it
        found = re.compile(r"'<\|end\|>' occurs at least (1 time|2 times) as ordinary text")
        assert all(found.search(note) for note in notes)
    assert main(["count", str(path), "-t", str(saved), *tokens]) == 0
    assert int(capsys.readouterr().out.split("\n")[1].split()[0]) == len(tok.encode(text)) + 2


def test_a_separator_that_is_a_token_gives_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, saved = tmp_path / "text", tmp_path / "t.json"
    path.write_text("low<|end|>lower")
    tokenizer("scanner").save(saved)
    argv = ["encode", str(path), "-t", str(saved), "--separator", "<|end|>"]
    assert main([*argv, "-o", str(tmp_path / "x.npy")]) == 0
    assert capsys.readouterr().err == (
        f"bpe: the separator <|end|> gives no id: only {tmp_path}/x.offsets.npy says where documents end; add --append "
        "'<|end|>' to write its id after each\n"
    )
    assert main(argv) == 0
    assert "only line ends say where documents end; add --append '<|end|>'" in capsys.readouterr().err
    for more in (["--append", "3"], ["--prepend", "<|end|>"], ["--quiet"]):
        assert main([*argv, *more]) == 0
        assert capsys.readouterr().err == ""
    assert main([*argv[:-1], "\\n"]) == 0
    assert capsys.readouterr().err == ""


def test_pipes_and_files_in_one_call(tmp_path: Path, small_blocks: None) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    tok, pipe, path = tokenizer("scanner"), tmp_path / "pipe", tmp_path / "text"
    data = b"low lower lowest\n" * 500
    path.write_bytes(data)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert tok.encode_files([path, pipe, path], threads=2, append=3) == tok.encode_batch([data] * 3, append=3)
    writer.join()


def test_a_file_of_ids_that_shrinks_while_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "ids.npy"
    np.save(path, np.arange(1_000_000, dtype=np.uint32))
    np.save(tmp_path / "ids.offsets.npy", np.arange(0, 1_000_001, 1000))
    with path.open("rb") as file:
        found = id_files.read_ids(file, str(path))
        assert next(found)[1].tolist() == list(range(1000))
        os.truncate(path, 2_000_000)
        with pytest.raises(OSError, match=r"ids\.npy got shorter while it was read"):
            list(found)


def test_pipes_are_read_by_the_callers_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C cannot interrupt another thread that waits for a pipe, and would have to wait for it."""
    readers: set[int] = set()
    fill = reading._CheckedReader.fill

    def recording(self: reading._CheckedReader, room: memoryview) -> int:
        readers.add(threading.get_ident())
        return fill(self, room)

    monkeypatch.setattr(reading._CheckedReader, "fill", recording)
    tok = bpe.train(texts=["low lower"], vocab_size=260)
    data = b"low lower newest " * 200_000  # more blocks than the threads take at first
    calls: list[Any] = [
        lambda path: tok.encode_files(path, threads=3).ids.tolist() == tok.encode(data).tolist(),
        lambda path: bpe.count_words(files=path, threads=3) == bpe.count_words(texts=[data]),
        lambda path: bpe.train(files=path, threads=3, vocab_size=260) == bpe.train(texts=[data], vocab_size=260),
    ]
    for number, call in enumerate(calls):
        pipe = tmp_path / str(number)
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        assert call(pipe)
        writer.join()
    assert readers == {threading.get_ident()}


def test_sizes_of_reads() -> None:
    """One thread reads the same size each time; several start and end with less, and never read as much at once."""
    alone = reading.ReadSchedule(None, 1)
    assert [alone.take_size() for _ in range(3)] == [reading.MAX_READ] * 3
    schedule, left, sizes = reading.ReadSchedule(20 << 20, 2), 20 << 20, []
    while left > 0:
        sizes.append(schedule.take_size())
        schedule.record_read(sizes[-1])
        left -= sizes[-1]
    top = sizes.index(reading.MAX_SHARED_READ)
    assert sizes[0] == sizes[-1] == reading.MIN_READ
    assert max(sizes) == reading.MAX_SHARED_READ
    assert sizes == sorted(sizes[:top]) + sorted(sizes[top:], reverse=True)


# Footers of Parquet files ---------------------------------------------------------------------------------------------


def make_footer(groups: int, columns: int) -> bytes:
    """Make a footer as writers do: fields before and after those that are read, and those that a column may lack."""
    integer = partial(thrift.make_integer, kind=thrift.I64)
    row_groups: list[Any] = []
    for group in range(groups):
        column_list: list[Any] = []
        for column in range(columns):
            data: thrift.Struct = {1: thrift.make_integer(6), 3: thrift.make_list(thrift.BINARY, [b"text", b""])}
            data |= {6: integer(group * 1000), 7: integer(column + 5), 9: integer(1 << 40)}
            data |= {11: integer(7)} if column % 2 else {}
            data |= {12: (thrift.STRUCT, {1: (thrift.BINARY, b"low" * 20), 7: (1, None)}), 14: integer(3)}
            column_list.append({1: (thrift.BINARY, b"a"), 2: integer(4), 3: (thrift.STRUCT, data)})
        row_groups.append({1: thrift.make_list(thrift.STRUCT, column_list), 2: integer(9), 3: integer(2)})
    fields: thrift.Struct = {
        1: thrift.make_integer(2),
        2: thrift.make_list(thrift.STRUCT, [{4: (thrift.BINARY, b"x")}]),
    }
    fields |= {3: integer(8), 4: thrift.make_list(thrift.STRUCT, row_groups), 40: (thrift.BINARY, b"writer")}
    return thrift.serialize(fields)


def find_chunks_naively(footer: bytes, column: int) -> list[list[int]]:
    """Find them in the footer as a whole."""
    fields, size = thrift.parse(footer)
    assert size == len(footer)
    chunks = []
    for group in fields[4][1][1] if 4 in fields else []:
        data = group[1][1][1][column][3][1]
        stored = (data[field][1] if field in data and data[field][0] == thrift.I64 else 0 for field in (11, 9, 7, 6))
        chunks.append([value >> 1 ^ -(value & 1) for value in stored])
    return chunks


def test_columns_of_footers_equal_the_naive_twin() -> None:
    random_, n_found = random.Random(5), 0
    for groups, columns in ((0, 1), (1, 1), (3, 2), (20, 17)):
        footer = make_footer(groups, columns)
        for column in range(columns):
            assert find_column_chunks(footer, column).tolist() == find_chunks_naively(footer, column)
        for end in range(0, len(footer), 1 + len(footer) // 500):
            with pytest.raises(ValueError, match="the footer is"):
                find_column_chunks(footer[:end], 0)
        for _ in range(500 if columns < 9 and groups else 0):
            damaged = bytearray(footer)
            for _ in range(random_.choice((1, 1, 3))):
                damaged[random_.randrange(len(footer))] ^= 1 << random_.randrange(8)
            try:
                found = find_column_chunks(bytes(damaged), columns - 1).tolist()
            except ValueError:
                continue
            try:
                naive = find_chunks_naively(bytes(damaged), columns - 1)
            except (IndexError, KeyError, TypeError, AssertionError):  # no footer of Parquet any more
                continue
            n_found += 1
            assert [[value % 2**64 for value in row] for row in found] == [
                [value % 2**64 for value in row] for row in naive
            ]
    assert n_found > 100
    for content in (
        b"\x1c" * 70 + bytes(70),
        b"\x49\xfc" + b"\xff" * 9 + b"\1",
        footer + b"\0",
        b"\x1f\0",
        b"\x1b\xff",
    ):
        with pytest.raises(ValueError, match="the footer is"):
            find_column_chunks(content, 0)


def read_header_naively(data: bytes) -> list[int]:
    """Read the header of a page as a whole: its numbers, -1 for what it lacks, and its size."""
    fields, size = thrift.parse(data)

    def get(struct: thrift.Struct, number: int) -> int:
        kind, value = struct.get(number, (0, -1))
        return value >> 1 ^ -(value & 1) if kind == thrift.I32 else -1

    numbers = [get(fields, number) for number in (1, 2, 3)] + [-1, -1]
    for number, encoding_field in ((5, 2), (8, 4)):
        if fields.get(number, (0, None))[0] == thrift.STRUCT:
            numbers[3:] = [get(fields[number][1], 1), get(fields[number][1], encoding_field)]
    return [*numbers, size]


def test_headers_of_pages_equal_the_naive_twin() -> None:
    random_, n_found = random.Random(6), 0
    integer = thrift.make_integer
    statistics: thrift.Struct = {3: thrift.make_integer(4, thrift.I64), 5: (thrift.BINARY, b"low" * 50), 7: (1, None)}
    for data_field, encoding_field in ((5, 2), (7, 2), (8, 4)):
        page: thrift.Struct = {1: integer(70), encoding_field: integer(8), 6: (thrift.STRUCT, statistics)}
        page = dict(sorted(page.items()))
        fields = {
            1: integer(3),
            2: integer(1 << 20),
            3: integer(900),
            4: integer(77),
            data_field: (thrift.STRUCT, page),
        }
        header = thrift.serialize(fields)
        numbers = read_header_naively(header)
        assert read_page_header(header + b"page") == tuple(numbers)
        assert numbers[3:] == [*((-1, -1) if data_field == 7 else (70, 8)), len(header)]
        assert all(read_page_header(header[:end]) is None for end in range(len(header)))
        for _ in range(1500):
            damaged = bytearray(header)
            damaged[random_.randrange(len(header))] ^= 1 << random_.randrange(8)
            found = read_page_header(bytes(damaged))
            with suppress(IndexError, TypeError, RecursionError):  # no struct any more
                naive = read_header_naively(bytes(damaged))
                n_found += found is not None
                expected = [value % 2**64 for value in naive]
                assert found is None or [value % 2**64 for value in found] == expected
    assert n_found > 1000
    assert read_page_header(b"\x1c" * 70 + bytes(70)) is None  # structs in structs
