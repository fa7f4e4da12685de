"""Documents and blocks: the division of a corpus into blocks does not change its word counts."""

from __future__ import annotations

import io
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe.corpus import documents, reading
from bpe.corpus.blocks import make_safe_end_finder, make_text_blocks, split_spans
from bpe.corpus.sources import Sources


def naive_split(text: bytes, strings: list[bytes], keep: bool, empty: bool) -> list[bytes]:
    """The pieces between strings, found from left to right; the longest string at a position is taken."""
    pieces, start, at = [], 0, 0
    while at < len(text):
        here = max((s for s in strings if text.startswith(s, at)), key=len, default=b"")
        if here:
            pieces.append(text[start : at + len(here) if keep else at])
            start = at = at + len(here)
        else:
            at += 1
    return [piece for piece in [*pieces, text[start:]] if piece or (empty and not keep)]


@given(
    text=st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b"<|", b"<|x|>", b"\xff", b"\0"]), max_size=30),
    strings=st.lists(st.sampled_from([b"a", b"ab", b"aa", b"aba", b"\n", b"<|x|>", b"|>"]), max_size=4, unique=True),
    keep=st.booleans(),
    empty=st.booleans(),
    bounds=st.lists(st.integers(0, 40), max_size=4),
)
def test_split_equals_the_naive_split(
    text: list[bytes], strings: list[bytes], keep: bool, empty: bool, bounds: list[int]
) -> None:
    data = b"".join(text)
    edges = sorted({0, len(data), *(bound for bound in bounds if bound < len(data))})
    pairs = np.array(list(pairwise(edges)), dtype=np.int64).reshape(-1, 2)
    starts, ends = split_spans(data, pairs[:, 0].copy(), pairs[:, 1].copy(), strings, keep, empty)
    expected = [piece for a, b in pairs for piece in naive_split(data[a:b], strings, keep, empty)]
    assert [data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)] == expected


@given(
    text=st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b"\r\n", b"\xff", b"\0"]), max_size=30),
    separator=st.sampled_from([b"a", b"ab", b"aa", b"aba", b"\n", b"\0"]),
)
def test_str_bytes_and_files_are_split_alike(text: list[bytes], separator: bytes) -> None:
    """Empty pieces count, also those of an empty text; no empty line follows a file's last newline."""
    data = b"".join(text)
    whole = np.array([0], dtype=np.int64), np.array([len(data)], dtype=np.int64)
    for strings, keep, expected in (
        ([separator], False, data.split(separator)),
        ([b"\n"], True, list(io.BytesIO(data))),
        ([], False, [data]),
    ):
        starts, ends = split_spans(data, *whole, strings, keep, True)
        assert [data[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)] == expected


LINES = "low lower\nlowest <|x y|> new, newer\n\nthe end of it <|x y|><|x y|>語 語語\u3000words and words\n"
TEXT = LINES * 30


@pytest.mark.parametrize(
    ("pretokenizer", "size"),
    [
        *(("gpt2", size) for size in (1, 7, 1000)),
        ("whitespace", 7),
        (None, 1),
        (bpe.Pretokenizer.from_regex(r"\w+"), 1000),
    ],
)
@pytest.mark.parametrize(
    "options", [{}, {"separator": "<|x y|>"}, {"separator": " "}, {"per_line": True}, {"separator": "\n\n"}]
)
@pytest.mark.parametrize("specials", [(), ("<|x y|>",), ("e of", "wor")])
def test_blocks_of_every_size_have_the_same_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    pretokenizer: Any,
    options: dict[str, Any],
    specials: tuple[str, ...],
) -> None:
    """Blocks end at every position, also inside separators and special tokens, and the counts are the same."""
    path = tmp_path / "text"
    text = LINES * (4 if size < 64 else 30)
    path.write_bytes(text.encode())
    if options.get("per_line"):
        documents = text.splitlines(keepends=True)
    else:
        documents = text.split(options["separator"]) if options else [text]
    made: dict[str, Any] = {"pretokenizer": pretokenizer, "special_tokens": specials}
    expected = bpe.count_words(texts=documents, **made)
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", size)
    monkeypatch.setattr(reading, "MAX_READ", size)
    assert bpe.count_words(files=bpe.Sources([path], **options), **made) == expected
    monkeypatch.setattr(reading, "MIN_READ", max(size // 2, 1))
    assert bpe.count_words(files=bpe.Sources([path], **options), threads=2, **made) == expected
    assert bpe.count_words(texts=documents, threads=2, **made) == expected


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("size", [50, 1000, 1 << 20])
@pytest.mark.parametrize("pretokenizer", ["gpt2", None])
def test_pipes_have_the_same_counts_as_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, pretokenizer: str | None
) -> None:
    """Input of unknown size is read to its end."""
    monkeypatch.setattr(reading, "MAX_READ", size)
    made: dict[str, Any] = {"pretokenizer": pretokenizer, "special_tokens": ["e of"]}
    expected = bpe.count_words(texts=TEXT.split("<|x y|>"), **made)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT.encode(),))
    writer.start()
    assert bpe.count_words(files=bpe.Sources([pipe], separator="<|x y|>"), threads=2, **made) == expected
    writer.join()


def test_errors_name_the_offset_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_READ", 16)
    monkeypatch.setattr(reading, "MIN_READ", 8)
    path = tmp_path / "bad.txt"
    path.write_bytes(b"low lower " * 20 + b"\xff" + b" low\xfe" * 20)
    with pytest.raises(bpe.FormatError, match=r"bad\.txt, offset 200: byte 0xff is not UTF-8 \(invalid start byte\); "):
        bpe.train(files=path, num_merges=1, model="char", pretokenizer="whitespace", threads=2)


def test_blocks_cover_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks follow each other without gaps, have the requested sizes, and reuse few buffers."""
    monkeypatch.setattr(reading, "MAX_READ", 500)
    monkeypatch.setattr(reading, "MIN_READ", 60)
    path, data = tmp_path / "text", TEXT.encode()
    path.write_bytes(data)
    for threads in (1, 2, 5):
        joined, sizes, buffers = b"", [], set()
        cut = make_safe_end_finder(lambda text, low: len(text), [])
        for block in Sources(path).blocks(cut, threads):
            assert block.offset == len(joined)
            joined += bytes(block.text)
            sizes.append(block.disk_bytes)
            buffers.add(id(block.text.obj))  # type: ignore[union-attr]
            block.release()
        assert joined == data
        assert sum(sizes) == len(data)
        assert max(sizes) <= 500
        assert len(buffers) <= 4  # blocks that grow need a larger one
        if threads > 1:
            assert sizes[0] == 60  # the first block is small, so that no thread waits long
            assert max(sizes[-4:-1]) <= 60
    small = list(make_text_blocks(["ab", b"", "cd"], None))
    assert [bytes(block.text) for block in small] == [b"abcd"]
    assert [array.tolist() for array in small[0].find_documents()] == [[0, 2, 2], [2, 2, 4]]


# Arrow ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["string", "binary", "large_string", "large_binary"])
@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("options", [{}, {"special_tokens": ["<|x y|>"]}, {"pretokenizer": None}])
def test_arrow_arrays_have_the_counts_of_their_texts(
    monkeypatch: pytest.MonkeyPatch, kind: str, size: int, options: dict[str, Any]
) -> None:
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr("bpe.corpus.blocks.BLOCK_BYTES", size)
    monkeypatch.setattr(documents, "BLOCK_BYTES", size)
    rows = ["low lower", None, "", TEXT[:300], "low", None, "語 語語", TEXT[:90], ""]
    array = pa.array(rows, type=getattr(pa, kind)())
    for first, last in ((0, 9), (1, 3), (2, 8), (4, 4), (0, 4)):
        texts = [row or "" for row in rows[first:last]]
        expected = bpe.count_words(texts=texts, **options)
        part = array.slice(first, last - first)
        for given_array in (part, pa.chunked_array([part.slice(0, 2), part.slice(2)], type=array.type)):
            for threads in (1, 2):
                assert bpe.count_words(texts=given_array, threads=threads, **options) == expected
    assert bpe.train(texts=array, num_merges=9) == bpe.train(texts=[row or "" for row in rows], num_merges=9)
    assert bpe.count_words(texts=pa.chunked_array([], type=array.type)) == bpe.count_words(texts=[])


def test_other_arrow_arrays_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match=r"texts is an Arrow array of int64; it must be of string, .*array\.cast\("):
        bpe.count_words(texts=pa.array([1, 2]))
    chunks = pa.chunked_array([[b"low"], [b"\xec", b"\x8a\x88"]])
    with pytest.raises(ValueError, match="text 1 is not UTF-8: byte 0xec at offset 0"):
        bpe.train(texts=chunks, num_merges=1, model="char")
    assert bpe.train(texts=chunks, num_merges=1).merges.shape == (1, 2)
    done: list[bpe.base.Progress] = []
    bpe.count_words(texts=chunks, progress=done.append)
    assert done[-1].done == 6
