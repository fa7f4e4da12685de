"""Streams, files, Arrow arrays, offsets, spans and truncation, each compared with `encode`."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import bpe
from bpe.base.utf8 import to_bytes
from bpe.corpus import reading
from bpe.encode import _batch, streams
from bpe.encode import blocks as encoding
from bpe.encode.offsets import OffsetEncoder
from bpe.encode.streams import NormalizerStream
from bpe.normalizers import (
    NFC,
    NFKC,
    NFKD,
    CollapseWhitespace,
    FixText,
    Lowercase,
    Normalizer,
    Replace,
    Sequence,
    Strip,
    UnescapeHTML,
)
from bpe.pretokenize import _safe_points as cutting
from bpe.pretokenize.patterns import METASPACE, NAMES, PATTERNS, SPACE_RUNS
from bpe.pretokenize.pretokenizer import Pretokenizer

TEXT = (
    "the low lower newest, 영화를 영화관에서 吾輩は猫である。\n名前はまだ無い。\n e\u0301 é 😊😊\n\n"
    "  it's 123 x\r\n\tif a:\n        b\0"
)
PIECES = [
    *TEXT,
    " ",
    "\n",
    "low",
    "<|end|>",
    "<|endless|>",
    "<|en",
    "d|>",
    "猫",
    "\u3000",
    "'s",
    "12",
    "\r",
    "\U0001f60a",
    *"\u0301\u0323\u1112\u1161\u11abΣσA.<",
    "&amp;",
    "&amp;lt;",
    "&notit;",
]


@cache
def tokenizer(kind: str) -> bpe.Tokenizer:
    """A small tokenizer of each kind that takes a different path through the code."""
    special = ["<|end|>", "<|endless|>"]
    common: dict[str, Any] = {"texts": [TEXT, "猫猫猫 画画画 low low"], "num_merges": 60, "special_tokens": special}
    if kind in NAMES:
        return bpe.train(pretokenizer=kind, **common)
    options: dict[str, dict[str, Any]] = {
        "regex": {"pretokenizer": Pretokenizer.from_regex(r"\w+|\W")},
        "regex with gaps kept": {"pretokenizer": Pretokenizer.from_regex(r"[a-z]+", gaps="keep")},
        "none": {"pretokenizer": None},
        "prefix": {"pretokenizer": Pretokenizer("gpt2", add_prefix_space=True)},
        "lower": {"normalizer": Lowercase()},
        "composed": {"normalizer": NFC()},
        "cleaned": {
            "normalizer": Sequence(UnescapeHTML(times=2), CollapseWhitespace(), Strip(), Lowercase(final_sigma=True)),
            "pretokenizer": Pretokenizer("gpt2", add_prefix_space=True),
        },
        "decomposed": {"normalizer": Sequence(NFKD(), Replace(r"\p{M}"), Strip(right=False), Replace("[0-9]", "##"))},
        "inserted": {"normalizer": Sequence(Strip(), Replace("^", "_"), Replace("low$", ""))},
        "char": {"model": "char", "unk_token": "<unk>", "pretokenizer": "gpt2"},
        "marked": {"model": "char", "unk_token": "<unk>", "end_of_word": "</w>", "pretokenizer": "whitespace"},
        "glued": {
            "model": "char",
            "unk_token": "<unk>",
            "end_of_word": "</w>",
            "end_of_word_glued": True,
            "pretokenizer": "whitespace",
        },
    }
    return bpe.train(**(common | options[kind]))


KINDS = (
    *NAMES,
    "regex",
    "regex with gaps kept",
    "none",
    "prefix",
    "lower",
    "composed",
    "cleaned",
    "decomposed",
    "inserted",
    "char",
    "marked",
    "glued",
)
WITHOUT_NORMALIZER = tuple(
    kind for kind in KINDS if kind not in ("lower", "composed", "cleaned", "decomposed", "inserted")
)
texts = st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=30).map("".join)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams encode as soon as text arrives."""
    monkeypatch.setattr(streams, "MIN_BUFFERED_BYTES", 1)


def joined(arrays: Iterator[Any]) -> list[int]:
    listed = list(arrays)
    assert all(array.dtype == np.uint32 and len(array) for array in listed)
    return [number for array in listed for number in array.tolist()]


# Streams ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("small_pieces")
def test_streams_split_anywhere_give_the_same_ids(kind: str) -> None:
    @examples(5)
    @given(text=texts, cuts=st.lists(st.integers(0, 200), max_size=8), allowed=st.sampled_from(["all", ()]))
    def check(text: str, cuts: list[int], allowed: Any) -> None:
        tok = tokenizer(kind)
        expected = tok.encode(text, allowed_special=allowed).tolist()
        bounds = sorted({0, len(text), *(cut for cut in cuts if cut <= len(text))})
        parts = [text[a:b] for a, b in pairwise(bounds)]
        assert joined(tok.encode_stream(parts, allowed_special=allowed)) == expected
        data = (
            text.encode("utf-8", "surrogatepass")
            if max(text, default="") < "\ud800"
            else text.encode("utf-8", "replace")
        )
        bounds = sorted({0, len(data), *(cut for cut in cuts if cut <= len(data))})
        parts_of_bytes = [data[a:b] for a, b in pairwise(bounds)]
        expected = tok.encode(data, allowed_special=allowed).tolist()
        assert joined(tok.encode_stream(parts_of_bytes, allowed_special=allowed)) == expected
        assert (
            joined(tok.encode_stream([data[i : i + 1] for i in range(len(data))], allowed_special=allowed)) == expected
        )

    check()


@pytest.mark.parametrize(
    ("one", "held"),
    [
        (Sequence(NFC(), Lowercase(), CollapseWhitespace(), Strip()), 2),
        (Sequence(NFKC(), Lowercase(final_sigma=True)), 10),
        (Sequence(UnescapeHTML(times=2), Replace("[0-9]", "0"), Replace(r"\p{M}")), 10),
        (Replace("low+", "x"), 15),
        (FixText(), 15),
    ],
    ids=repr,
)
def test_streams_hold_little_text_for_normalization(one: Normalizer, held: int) -> None:
    """They hold only text whose normal form may still change, and with `cut_after`, at most a line."""
    if isinstance(one, FixText):
        pytest.importorskip("ftfy")
    steps, lines = NormalizerStream(one), NormalizerStream(one, "\n")
    most = by_lines = 0
    for _ in range(20):
        for char in "lower and low\n":
            steps.push(char, final=False)
            lines.push(char, final=False)
            most, by_lines = max(most, steps.n_held), max(by_lines, lines.n_held)
    assert (most <= held) == (held < 15)
    assert by_lines <= 15


@pytest.mark.usefixtures("small_pieces")
def test_streams_split_at_cut_after() -> None:
    """For a user's pattern and a replacement within lines, ids are the same and are returned line by line."""
    pattern = Pretokenizer.from_regex(r"\w+|[^\w\n]|\n")
    for options in ({"pretokenizer": pattern}, {"normalizer": Replace("low+", "x"), "pretokenizer": pattern}):
        tok = bpe.train(texts=[TEXT], num_merges=40, **options)
        text = TEXT * 5
        for cut_after in ("\n", "名前"):
            arrays = list(tok.encode_stream(list(text), cut_after=cut_after))
            assert joined(iter(arrays)) == tok.encode(text).tolist()
            assert len(arrays) >= 5
        assert len(list(tok.encode_stream(list(text)))) == 1
    with pytest.raises(ValueError, match="cut_after is ''; it must be a str that is not empty"):
        tok.encode_stream(["a"], cut_after="")
    with pytest.raises(TypeError, match="cut_after is 5; it must be a str"):
        tok.encode_stream(["a"], cut_after=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.usefixtures("small_pieces")
def test_streams_of_any_bytes_give_the_same_ids(kind: str) -> None:
    @examples(7)
    @given(parts=st.lists(st.binary(max_size=5) | texts.map(str.encode), max_size=8))
    def check(parts: list[bytes]) -> None:
        tok = tokenizer(kind)
        assert joined(tok.encode_stream(parts)) == tok.encode(b"".join(parts)).tolist()

    check()


@pytest.mark.usefixtures("small_pieces")
def test_surrogates_are_encoded_the_same_however_a_stream_is_split() -> None:
    """A pair split between two chunks becomes its character; a lone surrogate becomes U+FFFD."""
    tok = tokenizer("gpt2")
    high, low = chr(0xD83D), chr(0xDE0A)
    for text in (high + low, "a" + high, high + "a" + low, low + high, high * 3 + low * 2, high):
        expected = tok.encode(text).tolist()
        for cut in range(len(text) + 1):
            assert joined(tok.encode_stream([text[:cut], text[cut:]])) == expected
        assert joined(tok.encode_stream(list(text))) == expected
    assert (
        joined(tok.encode_stream([high, b"a", bytearray(b"b"), memoryview(b"c")])) == tok.encode("\ufffdabc").tolist()
    )


def test_streams_use_bounded_memory_and_linear_time(tmp_path: Path) -> None:
    """Ids are returned while text arrives, and long text without a split point is searched once."""
    tok = tokenizer("cl100k")
    came = 0

    def chunks() -> Iterator[str]:
        nonlocal came
        for _ in range(200):
            came += 1
            yield TEXT * 100

    arrays = tok.encode_stream(chunks())
    next(arrays)
    assert came < 60
    for unit in ("a", " ", "。", "1", "\n"):
        text = unit * 600_000
        assert joined(tok.encode_stream([text[:300_001], text[300_001:]])) == tok.encode(text).tolist()
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 2000, encoding="utf-8")
    with open(path, encoding="utf-8", newline="") as file:
        assert joined(tok.encode_stream(file)) == tok.encode(TEXT * 2000).tolist()
    with open(path, "rb") as raw:
        assert joined(tok.encode_stream(iter(lambda: raw.read(1000), b""))) == tok.encode(TEXT * 2000).tolist()


@pytest.mark.usefixtures("small_pieces")
def test_streams_raise_the_errors_of_encode() -> None:
    tok = tokenizer("gpt2")
    arrays = tok.encode_stream(["low <|e", "nd", "|> low"], disallowed_special="all")
    with pytest.raises(ValueError, match=r"disallowed special token '<\|end\|>' at byte 4"):
        list(arrays)
    assert joined(tok.encode_stream(["<|end", "|>"], allowed_special="all", disallowed_special="all")) == [0]
    with pytest.raises(ValueError, match="which this tokenizer does not have"):
        tok.encode_stream([], allowed_special={"<none>"})
    for wrong in ("text", b"text", 5, None):
        with pytest.raises(TypeError, match="it must be an iterable of str or bytes"):
            tok.encode_stream(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="it must be str or bytes"):
        list(tok.encode_stream([5]))  # type: ignore[list-item]
    char = bpe.train(texts=["ab"], num_merges=1, model="char", pretokenizer="gpt2")
    with pytest.raises(ValueError, match="character 'z' of the text"):
        list(char.encode_stream(["a", "z"]))
    for parts, offset in (([b"a", b"\xff"], 1), (["ab", b"a\xc3", b"a"], 3), ([b"a\xc3\xa9", b"b\xf0\x9f"], 4)):
        with pytest.raises(ValueError, match=f"is not UTF-8: byte 0x.. at offset {offset} "):
            list(char.encode_stream(parts))
    assert list(tok.encode_stream([])) == []
    assert list(tok.encode_stream(["", b""])) == []


@examples(22)
@given(kind=st.sampled_from(NAMES), text=texts, more=texts, low=st.integers(0, 40))
def test_pretokens_do_not_change_at_a_safe_split_point(kind: str, text: str, more: str, low: int) -> None:
    """The two parts have the pretokens of the whole, whatever text follows."""
    pretokenizer = Pretokenizer(kind)
    assert pretokenizer.scanner is not None
    data, after = text.encode("utf-8", "replace"), more.encode("utf-8", "replace")
    cut = cutting.find_last_split(pretokenizer.scanner, data, min(low, len(data)))
    assert min(low, len(data)) <= cut <= len(data)
    if cut > low:
        whole = pretokenizer.split_bytes(data + after)
        assert pretokenizer.split_bytes(data[:cut]) + pretokenizer.split_bytes(data[cut:] + after) == whole


@examples(22)
@given(
    number=st.sampled_from([*(PATTERNS[name].scanner for name in NAMES), METASPACE, SPACE_RUNS]),
    parts=st.lists(
        st.sampled_from(
            ["a b", "a\nb", "a\n\nb", "1\nb", "a\u3000b", '"1",\n      ' * 9, "1, 2" * 9, "猫" * 30, "\u2581", "é"]
        ),
        max_size=12,
    ),
    low=st.integers(0, 600),
)
def test_the_last_split_point_is_found_from_any_distance(number: int, parts: list[str], low: int) -> None:
    """64 positions are rejected at once where there is none."""
    data = "".join(parts).encode()
    points = [at for at in range(low + 1, len(data)) if cutting.find_next_split(number, data, at) == at]
    assert cutting.find_last_split(number, data, low) == max(points, default=low)


# Files --------------------------------------------------------------------------------------------------------------


@examples(9)
@given(parts=st.lists(texts, max_size=5), end=st.sampled_from(["", "<|end|>", "\n"]))
def test_files_give_the_ids_of_their_text(tmp_path_factory: Any, parts: list[str], end: str) -> None:
    path = tmp_path_factory.mktemp("files") / "text.txt"
    data = "<|end|>".join(parts).encode("utf-8", "replace").replace(b"\0", b"0") + end.encode()  # NUL: binary data
    path.write_bytes(data)
    tok = tokenizer("cl100k")
    assert tok.encode_files(path).to_list() == [tok.encode(data).tolist()]
    documents = data.split(b"<|end|>")
    batch = tok.encode_files(path, separator="<|end|>")
    assert batch == tok.encode_batch(documents)
    assert tok.encode_files([path, str(path)], separator="<|end|>") == tok.encode_batch(documents * 2)
    assert tok.encode_files(path, per_line=True) == tok.encode_batch(list(io.BytesIO(data)))
    assert tok.encode_files(path, allowed_special="all").to_list() == [tok.encode(data, allowed_special="all").tolist()]
    assert tok.encode_files(path, separator="\n", threads=2) == tok.encode_batch(data.split(b"\n"))


def test_many_documents_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    lines = ["low lower", "", "猫", *(f"line {number}" for number in range(5000))]
    path.write_text("\n".join(lines), encoding="utf-8")
    tok = tokenizer("gpt2")
    assert tok.encode_files(path, separator="\n") == tok.encode_batch(lines)
    assert tok.encode_files(path, per_line=True).lengths.tolist() == [
        tok.count_tokens(line + "\n") for line in lines[:-1]
    ] + [tok.count_tokens(lines[-1])]


def test_a_large_document_is_divided_among_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_batch, "MAX_PART_BYTES", 500)
    monkeypatch.setattr(_batch, "MIN_PART_BYTES", 100)
    path = tmp_path / "text.txt"
    text = f"{TEXT * 30}<|end|>low<|end|><|end|>{TEXT * 50}".replace("\0", "0")  # with NUL, it would be binary data
    path.write_text(text, encoding="utf-8")
    for kind in KINDS:
        tok = tokenizer(kind)
        for separator in (None, "<|end|>"):
            for allowed in ("all", ()):
                documents = path.read_bytes().decode().split(separator) if separator else [path.read_bytes()]
                batch = tok.encode_files(path, separator=separator, threads=3, allowed_special=allowed)  # type: ignore[arg-type]
                assert batch == tok.encode_batch(documents, allowed_special=allowed)  # type: ignore[arg-type]


def test_files_that_are_refused(tmp_path: Path) -> None:
    tok = tokenizer("gpt2")
    path = tmp_path / "text.txt"
    path.write_bytes(b"low<|end|>")
    assert tok.encode_files([]).to_list() == []
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    assert tok.encode_files(empty).to_list() == [[]]
    assert tok.encode_files(empty, separator="x").to_list() == [[]]
    assert tok.encode_files(empty, per_line=True).to_list() == []
    with pytest.raises(OSError, match="none"):
        tok.encode_files([path, tmp_path / "none"])
    with pytest.raises(ValueError, match="give at most one of them"):
        tok.encode_files(path, separator="a", per_line=True)
    with pytest.raises(ValueError, match="separator is ''"):
        tok.encode_files(path, separator="")
    with pytest.raises(TypeError, match="it must be a str or None"):
        tok.encode_files(path, separator=b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="it must be a path"):
        tok.encode_files([5])  # type: ignore[list-item]
    with pytest.raises(bpe.FormatError, match=r"text\.txt: the text holds the disallowed special token"):
        tok.encode_files(path, disallowed_special="all")
    char = bpe.train(texts=["low"], num_merges=1, model="char", pretokenizer="gpt2")
    with pytest.raises(bpe.FormatError, match=r"text\.txt: character '<' of the text"):
        char.encode_files(path)


# Batches ------------------------------------------------------------------------------------------------------------


def test_batches_write_to_out() -> None:
    tok = tokenizer("gpt2")
    given_texts = ["low lower", "", "猫"]
    plain = tok.encode_batch(given_texts)
    for dtype in (np.uint32, np.uint16):
        out = np.zeros(100, dtype=dtype)
        batch = tok.encode_batch(given_texts, out=out)
        assert np.shares_memory(batch.ids, out)
        assert batch.ids.dtype == dtype
        assert batch == plain
        assert not out[len(batch.ids) :].any()
    assert tok.encode_batch(given_texts, out=np.zeros(len(plain.ids), dtype=np.uint32)) == plain
    with pytest.raises(ValueError, match=f"out has room for 1 ids, and there are {len(plain.ids)}"):
        tok.encode_batch(given_texts, out=np.zeros(1, dtype=np.uint32))
    for wrong in (np.zeros(9, dtype=np.int64), np.zeros((3, 3), dtype=np.uint32), [1, 2]):
        with pytest.raises(TypeError, match="it must be a NumPy array of uint32 or uint16, 1-D"):
            tok.encode_batch(given_texts, out=wrong)  # type: ignore[arg-type]
    frozen = np.zeros(100, dtype=np.uint32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        tok.encode_batch(given_texts, out=frozen)
    far = bpe.train(texts=["a"], num_merges=0, alphabet=bpe.Alphabet(first_id=70000))
    with pytest.raises(ValueError, match="out is uint16, and this vocabulary has ids up to 70255"):
        far.encode_batch(["a"], out=np.zeros(9, dtype=np.uint16))


def test_arrow_arrays_give_the_ids_of_their_texts() -> None:
    pa = pytest.importorskip("pyarrow")
    tok = tokenizer("cl100k")
    rows = ["low", None, "", "猫 lower", "x" * 40, None, "<|end|>"]
    expected = tok.encode_batch([row or "" for row in rows])
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        array = pa.array(rows, type=kind)
        assert tok.encode_batch(array) == expected
        assert tok.encode_batch(array.slice(2, 3)) == tok.encode_batch(["", "猫 lower", "x" * 40])
        assert tok.encode_batch(array.slice(1, 0)).to_list() == []
        chunked = pa.chunked_array([array.slice(0, 3), array.slice(3)])
        assert tok.encode_batch(chunked, threads=2) == expected
        assert tok.encode_batch(pa.chunked_array([], type=kind)).to_list() == []
        assert tok.count_tokens(array).tolist() == expected.lengths.tolist()
        assert tok.encode_batch(array, allowed_special="all")[6].tolist() == [tok.special_tokens["<|end|>"]]
        with pytest.raises(ValueError, match="disallowed special token"):
            tok.encode_batch(array, disallowed_special="all")
        assert tok.encode_batch(array, dropout=0.5, seed=1) == tok.encode_batch(
            [row or "" for row in rows], dropout=0.5, seed=1
        )
    assert tok.encode_batch(pa.array([None, None], type=pa.string())).to_list() == [[], []]
    with pytest.raises(TypeError, match="texts is an Arrow array of int64; it must be of string"):
        tok.encode_batch(pa.array([1, 2]))


# Offsets ------------------------------------------------------------------------------------------------------------


def check_offsets(tok: bpe.Tokenizer, text: str, allowed: Any) -> None:
    """Byte offsets enclose exactly the token's bytes; character offsets enclose the characters that contain them."""
    ids, spans = tok.encode_with_offsets(text, "byte", allowed_special=allowed)
    assert ids.tolist() == tok.encode(text, allowed_special=allowed).tolist()
    assert (spans.dtype, spans.shape) == (np.int64, (len(ids), 2))
    data = text.encode()
    mark = (tok.spec.end_of_word or "").encode()
    unknown = None if tok.spec.unk_token is None else tok.token_id(tok.spec.unk_token)
    ended = 0
    for number, (start, end) in zip(ids.tolist(), spans.tolist(), strict=True):
        assert ended <= start <= end <= len(data)
        ended = end
        token = tok.token_bytes(number)
        if mark and tok.spec.ends_word is not None and tok.spec.ends_word[number]:
            token = token[: len(token) - len(mark)]
        prefixed = tok.pretokenizer is not None and tok.pretokenizer.add_prefix_space
        if number == unknown:
            assert len(data[start:end].decode()) == 1
        elif prefixed and data[start:end] != token:
            assert data[start:end] == token[1:]
        else:
            assert data[start:end] == token
    same, characters = tok.encode_with_offsets(text, allowed_special=allowed)
    assert same.tolist() == ids.tolist()
    for (start, end), (first, last) in zip(spans.tolist(), characters.tolist(), strict=True):
        before, inside = text[:first].encode(), text[:last].encode()
        assert len(before) <= start <= end <= len(inside)
        if start < end:
            assert len(text[: first + 1].encode()) > start
            assert len(text[: last - 1].encode()) < end
        else:
            assert first == last


@pytest.mark.parametrize("kind", WITHOUT_NORMALIZER)
def test_offsets_enclose_the_tokens(kind: str) -> None:
    tok = tokenizer(kind)
    check_offsets(tok, TEXT, ())
    check_offsets(tok, f"<|end|>{TEXT}<|end|> zz猫\u0436", "all")

    @examples(7)
    @given(text=texts.map(lambda text: text.encode("utf-8", "replace").decode()), allowed=st.sampled_from(["all", ()]))
    def check(text: str, allowed: Any) -> None:
        check_offsets(tok, text, allowed)

    check()


@given(text=st.lists(st.sampled_from([*TEXT, "<|end|>", "é", "😊", "\ud83d", "  \n"]), max_size=40).map("".join))
def test_offsets_from_token_lengths_equal_those_from_pretokens(text: str) -> None:
    offsets = tokenizer("gpt2")._offset_encoder
    for allowed in (frozenset(), frozenset(["<|end|>"])):
        for given_text in (text, to_bytes(text), to_bytes(text)[1:]):
            for unit in ("byte", "char"):
                slow = offsets._encode_by_pretokens(given_text, to_bytes(given_text), allowed, unit)
                for fast, same in zip(offsets.encode(given_text, allowed, unit), slow, strict=True):
                    assert fast.tolist() == same.tolist()


def test_offsets_of_adjacent_unknown_characters_in_one_token() -> None:
    from dataclasses import replace

    tok = bpe.Tokenizer(replace(tokenizer("char").spec, fuse_unk=True))
    text = "low жжж low ж猫жж"
    ids, spans = tok.encode_with_offsets(text)
    unknown = tok.token_id("<unk>")
    assert [text[a:b] for number, (a, b) in zip(ids, spans.tolist(), strict=True) if number == unknown] == [
        "жжж",
        "ж",
        "жж",
    ]


def test_offsets_of_unknown_bytes() -> None:
    options: dict[str, Any] = {"alphabet": bpe.Alphabet("corpus"), "unk_token": "<unk>", "pretokenizer": "gpt2"}
    tok = bpe.train(texts=["low low"], num_merges=2, **options)
    ids, spans = tok.encode_with_offsets("low é\x00 low")
    assert (ids == tok.token_id("<unk>")).tolist() == [False, False, True, True, True, False, False]
    assert spans.tolist() == [[0, 3], [3, 4], [4, 5], [4, 5], [5, 6], [6, 7], [7, 10]]


def test_offsets_of_bytes_and_surrogates() -> None:
    tok = tokenizer("gpt2")
    spans = tok.encode_with_offsets(b"a\xff\xe7\x8c\xab\xe7b", "char")[1]
    text = b"a\xff\xe7\x8c\xab\xe7b".decode("utf-8", "surrogateescape")
    assert spans[-1].tolist() == [len(text) - 1, len(text)]
    pair = "a" + chr(0xD83D) + chr(0xDE0A) + "b" + chr(0xD83D)
    spans = tok.encode_with_offsets(pair)[1]
    ends = {tuple(span) for span in spans.tolist()}
    assert spans[0].tolist() == [0, 1]
    assert spans[-1].tolist() == [4, 5]
    assert ends <= {(0, 1), (1, 3), (3, 4), (4, 5)}
    assert tok.encode_with_offsets("")[1].shape == (0, 2)


def test_invalid_arguments_of_offsets_are_refused() -> None:
    with pytest.raises(ValueError, match="unit is 'word'; it must be one of 'char', 'byte'"):
        tokenizer("gpt2").encode_with_offsets("a", "word")
    with pytest.raises(ValueError, match="disallowed special token"):
        tokenizer("gpt2").encode_with_offsets("<|end|>", disallowed_special="all")
    with pytest.raises(TypeError, match="it must be str or bytes"):
        tokenizer("gpt2").encode_with_offsets(5)  # type: ignore[arg-type]


# Spans --------------------------------------------------------------------------------------------------------------


@examples(14)
@given(spans=st.lists(st.tuples(texts, st.booleans()), max_size=6), kind=st.sampled_from(KINDS))
def test_spans_give_the_ids_of_their_texts(spans: list[tuple[str, bool]], kind: str) -> None:
    tok = tokenizer(kind)
    spans = [(text.encode("utf-8", "replace").decode(), trusted) for text, trusted in spans]
    plain = "".join(text for text, _ in spans)
    assert tok.encode_spans([(text, False) for text, _ in spans]).tolist() == tok.encode(plain).tolist()
    assert tok.encode_spans([(plain, True)]).tolist() == tok.encode(plain, allowed_special="all").tolist()
    expected: list[int] = []
    held = ""
    for text, trusted in spans:
        for number, part in enumerate(text.split("<|end|>") if trusted else [text]):
            if number:
                expected += [*tok.encode(held).tolist(), tok.special_tokens["<|end|>"]]
                held = ""
            held += part
    expected += tok.encode(held).tolist()
    assert tok.encode_spans(spans, allowed_special={"<|end|>"}).tolist() == expected


def test_invalid_spans_are_refused() -> None:
    tok = tokenizer("gpt2")
    assert tok.encode_spans([]).tolist() == []
    assert tok.encode_spans([("<|e", True), ("nd|>", True)]).tolist() == tok.encode("<|end|>").tolist()
    for wrong in ([("a",)], ["ab"], [("a", 1)], [("a", "yes")], [5]):
        with pytest.raises(TypeError, match=r"it must be \(text, trusted\)"):
            tok.encode_spans(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="which this tokenizer does not have"):
        tok.encode_spans([("a", True)], allowed_special={"<none>"})


# Truncation ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_truncate_gives_a_prefix_of_the_ids(kind: str) -> None:
    tok = tokenizer(kind)

    @examples(5)
    @given(text=texts, most=st.integers(0, 40), allowed=st.sampled_from(["all", ()]))
    def check(text: str, most: int, allowed: Any) -> None:
        text = text.encode("utf-8", "replace").decode()
        cut = tok.truncate(text, most, allowed_special=allowed)
        assert isinstance(cut, str)
        assert text.startswith(cut)
        count = tok.count_tokens(text, allowed_special=allowed)
        kept = tok.count_tokens(cut, allowed_special=allowed)
        assert kept <= most
        if count <= most:
            assert cut == text
        as_bytes = tok.truncate(text.encode(), most, allowed_special=allowed)
        assert isinstance(as_bytes, bytes)
        assert as_bytes.decode() == cut

    check()


def test_truncate_keeps_all_tokens_that_fit() -> None:
    tok = tokenizer("gpt2")
    text = "low lower newest " * 50
    for most in range(60):
        cut = tok.truncate(text, most)
        assert tok.count_tokens(cut) == most
        assert tok.encode(cut).tolist() == tok.encode(text)[:most].tolist()
    long = text * 20_000
    assert tok.truncate(long, 5) == tok.truncate(text, 5)
    assert tok.truncate("a" * 3_000_000, 5) == tok.truncate("a" * 1000, 5)
    assert tok.truncate(bytearray(b"low low"), tok.count_tokens("low")) == b"low"
    assert tok.truncate("🙃🙃", 1) == ""
    assert tok.truncate("", 5) == ""
    assert tok.truncate("x<|end|>y", 2, allowed_special="all") == "x<|end|>"
    for wrong, error in ((-1, ValueError), (1.5, TypeError), ("1", TypeError)):
        with pytest.raises(error, match="max_tokens"):
            tok.truncate("a", wrong)  # type: ignore[arg-type]


def test_every_kind_of_text_is_accepted() -> None:
    tok = tokenizer("cl100k")
    ids = tok.encode(TEXT).tolist()
    for same in (TEXT.encode(), bytearray(TEXT.encode()), memoryview(TEXT.encode())):
        assert tok.encode(same).tolist() == ids
        assert tok.encode_batch([same, same]).to_list() == [ids, ids]
        assert tok.encode_with_offsets(same, "byte")[0].tolist() == ids
        assert tok.encode_spans([(same, True)]).tolist() == ids
        assert tok.count_tokens(same) == len(ids)
        assert tok.truncate(same, len(ids) + 1) == TEXT.encode()


def test_random_splits_of_a_long_text() -> None:
    tok = tokenizer("o200k")
    text = (TEXT + "<|end|>") * 3000
    expected = tok.encode(text, allowed_special="all").tolist()
    choose = random.Random(1)
    data = text.encode()
    bounds = [0, *sorted(choose.sample(range(len(data)), 30)), len(data)]
    parts = [data[a:b] for a, b in pairwise(bounds)]
    assert joined(tok.encode_stream(parts, allowed_special="all")) == expected


@pytest.mark.parametrize("separator", ["ab", "aa", "a", "\n", "low", "<|end|>", None])
def test_threads_find_documents_across_blocks(separator: str | None, tmp_path: Path, monkeypatch: Any) -> None:
    """Blocks may end in a separator, in a word, in a character, or between two separators."""
    monkeypatch.setattr(encoding, "MIN_PARALLEL_BYTES", 1)
    random_ = random.Random(3)
    path = tmp_path / "text"
    tok = tokenizer("cl100k")
    syllables = ["a", "ab", "low", "\n", " ", " ", "<|end|>", "<|end|>", "猫", "é", "1", "<|en", "😊b\n"]
    for size in (0, 1, 5, 40, 40, 600, 1800):
        monkeypatch.setattr(reading, "MAX_READ", random_.choice([1, 3, 7, 40, 300]))
        monkeypatch.setattr(reading, "MIN_READ", random_.choice([1, 10, 100]))
        data = "".join(random_.choices(syllables, k=size)).encode()
        path.write_bytes(data)
        for per_line in (False, separator is None):
            documents = list(io.BytesIO(data)) if per_line else data.split(separator.encode()) if separator else [data]
            expected = [tok.encode(document).tolist() for document in documents]
            for threads in (1, 2, 3):
                batch = tok.encode_files(path, separator=separator, per_line=per_line, threads=threads)
                assert batch.to_list() == expected


@examples(19)
@given(
    text=st.text(max_size=30)
    | st.lists(st.sampled_from([*"aé영😊 \n\t'1", " the", "\ud800", "<|end|>", "\0"])).map("".join),
    name=st.sampled_from([*NAMES, r"\p{L}+|\p{N}", None]),
    unit=st.sampled_from(["char", "byte"]),
)
def test_columns_of_plain_texts_are_those_of_traced_ones(text: str, name: str | None, unit: Any) -> None:
    """With a pattern that leaves out some of the text too."""
    pretokenizer = bpe.Pretokenizer.from_regex(name, gaps="drop") if name and "|" in name else name
    tok = column_tokenizer(pretokenizer)
    encoder = tok._offset_encoder
    for allowed in (frozenset[str](), frozenset(["<|end|>"])):
        for convention in ("whole", "tokenizers"):
            actual = encoder.encode_untrimmed(text, allowed, unit, convention)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(OffsetEncoder, "_encode_unchanged_text", lambda *given: None)
                expected = encoder.encode_untrimmed(text, allowed, unit, convention)
            assert [array.tolist() for array in actual[:3]] == [array.tolist() for array in expected[:3]]
            assert actual[3] == expected[3]


@cache
def column_tokenizer(pretokenizer: Any) -> bpe.Tokenizer:
    return bpe.train(
        texts=["the é영화 영화관 the 11 'the\n\n"] * 3,
        num_merges=30,
        pretokenizer=pretokenizer,
        special_tokens=["<|end|>"],
    )
