"""Conversion of texts to UTF-8 and back, against Python's own."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe import Tokenizer
from bpe.base import utf8
from bpe.base._cpu import LEVELS, get_vector_level, set_vector_level
from bpe.base._utf8 import decode_utf8, encode_utf8, join_utf8, read_bytes
from bpe.base.utf8 import read_all, read_file, to_bytes, to_str

WIDTHS = ["", "low", "x" * 200, "é", "naïve " * 30, "낮은 low", "한" * 100, "😀", "a😀한é" * 40, "\ud83d\ude0a"]


@given(st.lists(st.one_of(st.sampled_from([*WIDTHS, "\ud800"]), st.text(), st.binary()), max_size=12))
def test_joined_texts_are_the_bytes_of_each(texts: list[str | bytes]) -> None:
    data, offsets = join_utf8(texts)
    expected = [to_bytes(text) for text in texts]
    assert data.tobytes() == b"".join(expected)
    assert [data[a:b].tobytes() for a, b in pairwise(offsets)] == expected


@given(st.one_of(st.sampled_from(WIDTHS), st.text()), st.sampled_from([0, 1, 5000]))
def test_a_text_is_encoded_and_decoded_as_by_python(text: str, repeats: int) -> None:
    text = text * repeats + text
    data = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    assert encode_utf8(text) == to_bytes(text) == data
    decoded = decode_utf8(data, "strict")
    assert decoded == to_str(data, "strict") == data.decode()
    assert hash(decoded) == hash(data.decode())
    if len(decoded) != 1:  # Python shares the objects of single characters, which may hold their UTF-8 too
        assert sys.getsizeof(decoded) == sys.getsizeof(data.decode())


@given(st.binary(), st.sampled_from(["replace", "ignore", "surrogateescape", "strict"]))
def test_bytes_are_decoded_with_the_error_handler(data: bytes, errors: str) -> None:
    def try_to_decode(decode: Callable[[bytes, str], str]) -> object:
        try:
            return decode(data, errors)
        except UnicodeDecodeError as error:
            return error.args

    assert try_to_decode(decode_utf8) == try_to_decode(lambda data, errors: data.decode("utf-8", errors))


@pytest.mark.parametrize("size", [1, 20_000])
@pytest.mark.parametrize("data", [b"a", b"\xff", "é".encode()], ids=["ascii", "invalid", "latin1"])
def test_an_error_handler_is_taken_or_refused_as_by_python(data: bytes, size: int) -> None:
    class Name(str):
        __slots__ = ()

    for decode in (to_str, decode_utf8):
        assert decode(data * size, Name("replace")) == (data * size).decode("utf-8", "replace")
        for errors in (None, 3, b"strict"):
            with pytest.raises(TypeError, match="errors"):
                decode(data * size, errors)  # type: ignore[arg-type]


def test_runs_of_ascii_between_other_characters_are_decoded() -> None:
    """Runs of every length up to three words of 8 bytes, before characters of two to four bytes, and at the end."""
    for char in ("é", "\u07ff", "한", "😀"):
        for n in range(25):
            text = char + "abcdefgh"[: n % 8] + "x" * (n - n % 8)
            for whole in (text, text + char, text * 3, "y" * n + char + char):
                assert decode_utf8(whole.encode(), "strict") == whole


def test_every_character_is_encoded_and_decoded() -> None:
    for start in range(0, sys.maxunicode + 1, 1000):
        text = "".join(map(chr, range(start, min(start + 1000, sys.maxunicode + 1))))
        data = text.encode("utf-8", "ignore")
        assert decode_utf8(data, "strict") == data.decode()
        assert encode_utf8(data.decode()) == data


@pytest.mark.parametrize("level", ["none", "avx2", "avx512"])
def test_every_vector_level_gives_the_same_bytes(level: str) -> None:
    """Characters of one to four bytes, and surrogates, at every position of eight and sixteen units."""
    chars = ["a", "\x7f", "\x80", "\u07ff", "\u0800", "한", "\ud7ff", "\ue000", "\uffff", "\ud83d", "\ude0a"]
    texts = [
        left * i + char + right * (20 - i) for left in chars for char in chars for right in "a한" for i in range(17)
    ]
    texts += [text + "😀" for text in texts[::7]] + ["".join(chars) * 3, "".join(chars[:9])]
    previous = get_vector_level()
    try:
        set_vector_level(LEVELS[level])
        joined, offsets = join_utf8(texts)
    finally:
        set_vector_level(previous)
    data = joined.tobytes()
    assert [data[a:b] for a, b in pairwise(offsets)] == [to_bytes(text) for text in texts]


def test_only_str_and_bytes_are_joined() -> None:
    with pytest.raises(TypeError, match="Expected bytes, got int"):
        join_utf8(["low", 5])  # type: ignore[list-item]


def test_a_file_is_read_whole_whatever_its_size_was(tmp_path: Path) -> None:
    """Also where it grows or shrinks between the look at its size and reading."""
    content = bytes(range(256)) * 20_000  # more than two huge pages
    (tmp_path / "file").write_bytes(content)
    assert read_file(tmp_path / "file") == content
    for size in (0, 1, len(content) - 1, len(content), len(content) + 1, 2 * len(content)):
        with open(tmp_path / "file", "rb") as file:
            assert read_bytes(file, size) == content
            assert read_bytes(file, size) == b""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs sparse files and /dev/zero")
def test_no_file_is_read_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "whole").write_bytes(b"low")
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 42)
    assert read_file(tmp_path / "whole") == read_file(tmp_path / "whole", 3) == b"low"
    assert read_all(io.BytesIO(b"low"), "stdin", 3) == b"low"
    for name, most in (("sparse", utf8.max_file_bytes), ("whole", 2)):
        with pytest.raises(OSError, match=rf"it has more than {most} bytes.*{name}"):
            read_file(tmp_path / name, most)
    with pytest.raises(OSError, match=r"it has more than 2097152 bytes.*stdin"), open("/dev/zero", "rb") as endless:
        read_all(endless, "stdin", 1 << 21)
    with pytest.raises(OSError, match="it is a device"):
        read_file("/dev/zero")
    monkeypatch.setattr(utf8, "max_file_bytes", 2)
    with pytest.raises(OSError, match=r"it has more than 2 bytes.*set bpe\.base\.utf8\.max_file_bytes"):
        Tokenizer.load(tmp_path / "whole")
