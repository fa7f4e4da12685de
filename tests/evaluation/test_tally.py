"""The kernels of evaluation against their twin in plain Python, on many scripts and on bytes that are no text."""

from __future__ import annotations

import random
from functools import cache

import naive
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import bpe
from bpe.base._cpu import LEVELS, get_vector_level, set_vector_level
from bpe.evaluation._tally import COLUMNS, MAX_TOKEN_BYTES, TokenTally
from bpe.evaluation.adapters import NO_SIZES, index_tokens
from bpe.evaluation.vocabulary_metrics import SCRIPT_NAMES, find_shapes

sum_text = cache(naive.sum_text)

VECTORS = get_vector_level()
MODES = ("script", "spaces", "characters")
PIECES = [
    *("a", "bc", " ", "  ", "\n", "\t", "\r\n", "1", "23", "456789", "é", "ß", "\u00a0", "\u0085", "\u3000", "\u2003"),
    *("\u1680", "\u2028", "\u200b", "한국", "ㅋ", "㈀", "㉠", "か", "漢", "。", "ー", "กำ", "😀", "𠀀", "Ａ", "ｱ", "ﾡ"),
    *("a\u0301", "٣", "x" * 70, "9" * 70, "漢" * 23, "한" * 22, "\u4dc0", "\u9fff", "\ua000", "\u2e80", "\u3130"),
]
BROKEN = [b"\xff", b"\xe3\x80", b"\xed\xa0\x80", b"\xc3", b"\x80", b"\xf0\x9f\x98", b"\xc2", b"\xe3"]

texts = st.lists(st.sampled_from([piece.encode() for piece in PIECES]), max_size=12).map(b"".join)
broken = st.lists(st.sampled_from([piece.encode() for piece in PIECES] + BROKEN), max_size=12).map(b"".join)


#: The columns of a text, of its tokens, and of the words and so on of an aligned text.
F1 = COLUMNS.index("number_f1")
TEXT = slice(COLUMNS.index("tokens"))
TOKENS = slice(COLUMNS.index("tokens"), F1)
ALIGNED = slice(COLUMNS.index("aligned_words"), None)


def begin_tally(documents: list[bytes], mode: str, lengths: NDArray[np.int64], max_counted: int = 1000) -> TokenTally:
    """A tally of documents in one buffer."""
    data = b"".join(documents)
    ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    starts = ends - np.array([len(document) for document in documents], dtype=np.int64)
    tally = TokenTally(lengths, MODES.index(mode), max_counted=max_counted)
    tally.begin(data, starts, ends, reference.is_whole(data))
    return tally


def cut_tokens(data: bytes, sizes: list[int]) -> list[bytes]:
    """The text in pieces of these sizes, again and again."""
    tokens: list[bytes] = []
    start = 0
    while start < len(data):
        size = sizes[len(tokens) % len(sizes)]
        tokens.append(data[start : start + size])
        start += size
    return tokens


@pytest.mark.parametrize("mode", MODES)
@given(
    documents=st.lists(st.one_of(texts, broken), max_size=4), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5)
)
def test_sums_equal_those_of_the_twin(mode: str, documents: list[bytes], sizes: list[int]) -> None:
    rows = [cut_tokens(data, sizes) for data in documents]
    ids = np.array([len(token) for row in rows for token in row], dtype=np.uint32)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    for given_sizes in (np.empty(0, dtype=np.uint32), ids):
        tally = begin_tally(documents, mode, np.arange(16), max_counted=5)  # moved to the totals again and again
        tally.add(ids, offsets, given_sizes)
        for index, (data, row) in enumerate(zip(documents, rows, strict=True)):
            text = sum_text(data, mode)
            cut, f1 = naive.sum_cuts(data, naive.find_cuts(row), mode)
            assert tally.rows[index, TEXT].tolist() == text
            assert tally.rows[index, TOKENS].tolist() == [len(row), 1, *cut]
            assert tally.rows[index, ALIGNED].tolist() == text[2:]
            rounding = 1e-10 * (1 + text[4])  # each is rounded to a multiple of 2**-32
            assert tally.rows[index, F1] == pytest.approx(f1, abs=rounding)
        assert tally.counts().tolist() == np.bincount(ids, minlength=16).tolist()


@pytest.mark.parametrize("longest", [MAX_TOKEN_BYTES, 5000])
@pytest.mark.parametrize("level", LEVELS)
def test_long_texts_equal_the_twin_at_every_vector_level(level: str, longest: int) -> None:
    """Texts that end near the ends of windows and of chunks of blocks; tokens that reach over several of them."""
    rng = random.Random(7)
    text = "".join(rng.choices(PIECES, k=6000)).encode()
    documents = [text[:size] for size in (4095, 4096, 4097, 2047, 2048, 2049, 8192, 0, 12_345)]
    rows = [cut_tokens(data, rng.choices(range(1, 9), k=50) + sizes) for data in documents for sizes in ([], [longest])]
    documents = [data for data in documents for _ in range(2)]
    ids = np.array([len(token) for row in rows for token in row], dtype=np.uint32)
    try:
        set_vector_level(LEVELS[level])
        tally = begin_tally(documents, "script", np.arange(longest + 1))
        tally.add(ids, np.cumsum([0, *map(len, rows)]), NO_SIZES if longest == MAX_TOKEN_BYTES else ids)
    finally:
        set_vector_level(VECTORS)
    for index, (data, row) in enumerate(zip(documents, rows, strict=True)):
        assert tally.rows[index, TEXT].tolist() == sum_text(data, "script")
        cut, _ = naive.sum_cuts(data, naive.find_cuts(row), "script")
        assert tally.rows[index, TOKENS].tolist() == [len(row), 1, *cut]


@pytest.mark.parametrize("size", [700, 900, MAX_TOKEN_BYTES])
def test_tokens_that_reach_over_two_windows_keep_their_boundaries(size: int) -> None:
    """Eight tokens are counted before the window is looked at; the last ones begin after the next window."""
    data = ("ab, " * 30_000).encode()
    row = cut_tokens(data, [1, 2, 3, *[size] * 61])
    lengths = np.array([len(token) for token in row], dtype=np.uint32)
    tally = begin_tally([data], "script", np.arange(MAX_TOKEN_BYTES + 1))
    tally.add(np.append(lengths, [1] * 200).astype(np.uint32), np.array([0, len(row)]), NO_SIZES)
    cut, _ = naive.sum_cuts(data, naive.find_cuts(row), "script")
    assert tally.rows[0, TOKENS].tolist() == [len(row), 1, *cut]


def test_documents_whose_tokens_have_another_length_are_not_aligned() -> None:
    tally = begin_tally([b"abc 12", b"de"], "script", np.arange(8))
    tally.add(np.array([3, 7, 2], dtype=np.uint32), np.array([0, 2, 3]), NO_SIZES)
    assert tally.rows[:, TOKENS].tolist() == [[2, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    assert tally.rows[0].tolist() == [6, 6, 2, 0, 1, 0, 2, *[0] * 10]


def test_tokens_that_reach_far_beyond_a_text_leave_no_trace_in_the_next() -> None:
    documents = [b"a" * 64, b"b c" * 30, b"d" * 4096, b"e f" * 30, b"g" * 70, b"h i" * 30]
    tally = begin_tally(documents, "script", np.arange(10_001))
    rows = [[10_000, 1, 10_000], [90], [4095, 9000, 1], [90], [60, *[30] * 200], [90]]
    ids = np.array([token for row in rows for token in row], dtype=np.uint32)
    tally.add(ids, np.cumsum([0, *map(len, rows)]), ids)
    unaligned, aligned = [[n, 0, 0, 0, 0, 0] for n in (3, 3, 201)], [1, 1, 0, 0, 0, 0]
    assert tally.rows[:, TOKENS].tolist() == [unaligned[0], aligned, unaligned[1], aligned, unaligned[2], aligned]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 8192])
def test_tokens_without_bytes_at_the_end_of_a_text_leave_no_trace_in_the_next(size: int) -> None:
    """Nor do tokens of an empty text."""
    for n in (4, 80, 8000):
        rows = [[size, 0, 0], [n], [1, 2, 0], [n]]
        tally = begin_tally([b"a" * size, b"i" * n, b"", b"i" * n], "script", np.arange(8193))
        ids = np.array([token for row in rows for token in row], dtype=np.uint32)
        tally.add(ids, np.cumsum([0, *map(len, rows)]), ids)
        assert tally.rows[[1, 3], TOKENS].tolist() == [[1, 1, 0, 0, 0, 0]] * 2


def test_numbers_may_be_longer_than_a_window() -> None:
    """Boundaries are compared with groups from the right, whose places only the end of a number tells."""
    documents = [b"1" * 10_000, b"x " + b"2" * 4094 + b" 33", b"4" * 4096 + b"5"]
    rows = [cut_tokens(data, [3, 1, 3, 3, 2]) for data in documents]
    ids = np.array([len(token) for row in rows for token in row], dtype=np.uint32)
    tally = begin_tally(documents, "script", np.arange(4))
    tally.add(ids, np.cumsum([0, *map(len, rows)]), NO_SIZES)
    for index, (data, row) in enumerate(zip(documents, rows, strict=True)):
        cut, f1 = naive.sum_cuts(data, naive.find_cuts(row), "script")
        assert tally.rows[index, TEXT].tolist() == sum_text(data, "script")
        assert tally.rows[index, TOKENS].tolist() == [len(row), 1, *cut]
        assert tally.rows[index, F1] == pytest.approx(f1, abs=1e-9)


def test_bad_arrays_are_refused() -> None:
    ids = np.array([1, 4], dtype=np.uint32)

    def tally() -> TokenTally:
        return begin_tally([b"abc"], "script", np.zeros(4, dtype=np.uint32))

    for few in (ids, np.array([1] * 9 + [4] + [1] * 9, dtype=np.uint32)):  # in the loop of several and after it
        with pytest.raises(ValueError, match="has the id 4; it must be below 4"):
            tally().add(few, np.array([0, len(few)]), NO_SIZES)
    with pytest.raises(ValueError, match="offset"):
        tally().add(ids, np.array([0, 3]), NO_SIZES)
    with pytest.raises(ValueError, match="1 sizes for 2 tokens"):
        tally().add(ids, np.array([0, 2]), ids[:1])
    with pytest.raises(ValueError, match="text 1 of 1"):
        tally().add(ids[:1], np.array([0, 1, 1]), NO_SIZES)
    with pytest.raises(ValueError, match="within"):
        tally().begin(b"abc", np.array([0]), np.array([4]), True)


def test_a_tally_without_texts_takes_no_ids_of_any() -> None:
    """Before `begin`, and after `end`, which lets go of the buffer."""
    ids, offsets = np.ones(3, dtype=np.uint32), np.array([0, 3])
    with pytest.raises(ValueError, match="text 0 of 0"):
        TokenTally(np.ones(2), 0).add(ids, offsets, NO_SIZES)
    buffer = bytearray(b"abc")
    tally = TokenTally(np.ones(2), 0)
    tally.begin(buffer, np.array([0]), np.array([3]), True)
    with pytest.raises(BufferError):
        buffer.append(0)
    tally.end()
    buffer.append(0)
    with pytest.raises(ValueError, match="text 0 of 0"):
        tally.add(ids, offsets, NO_SIZES)


@given(st.lists(broken.map(lambda data: data[:12]), max_size=8))
def test_shapes_equal_those_of_the_twin(tokens: list[bytes]) -> None:
    vocab = {token: token_id for token_id, token in enumerate(dict.fromkeys(tokens)) if token}
    shapes = find_shapes(index_tokens(vocab, len(tokens), special_ids=set()))
    for token, token_id in vocab.items():
        is_whole = reference.is_whole(token)
        assert shapes.is_whole[token_id] == is_whole
        assert shapes.is_crossing[token_id] == (not is_whole and naive.is_crossing(token))
        assert shapes.has_leading_space[token_id] == (is_whole and naive.has_leading_space(token))
        assert shapes.has_inner_space[token_id] == (is_whole and naive.has_inner_space(token))


@pytest.mark.parametrize(
    ("token", "script"),
    [
        *(("low", "Latin"), (" é", "Latin"), ("123", "Common"), ("한국", "Hangul"), ("ㅋ", "Hangul"), ("漢", "Han")),
        *(
            ("ひら", "Hiragana"),
            ("漢字か", "Mixed"),
            ("aя", "Mixed"),
            ("ᚠ", "Other"),
            ("жa1", "Mixed"),
            ("a\u0301", "Latin"),
        ),
    ],
)
def test_scripts(token: str, script: str) -> None:
    shapes = find_shapes(index_tokens({token.encode(): 0, b"\xed\x95": 1}, 2, special_ids=set()))
    assert [SCRIPT_NAMES[index] for index in shapes.scripts.tolist()] == [script, "Partial"]


def test_scripts_without_spaces_have_a_word_for_each_character() -> None:
    """Also those of UAX #14, class SA, beside Thai; Hangul, Cham and Georgian have spaces."""
    tok = bpe.train(texts=["a"], vocab_size=256)
    apart = ["ខ្ញុំស្រឡាញ់", "ຂ້ອຍຮັກ", "ကျွန်တော်", "ཁྱེད་རང", "ᦺᦑᦟᦹᧉ", "ภาษา"]
    for text in [*apart, "안녕하세요", "ꨀꨁꨂ", "გამარჯობა"]:
        [result] = bpe.evaluate(tok, texts=[text])
        assert result["fertility"] == len(text.encode()) / (len(text) if text in apart else 1), text
