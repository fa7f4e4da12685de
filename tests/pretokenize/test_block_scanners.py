"""The scanners that read 64 bytes at a time equal their twins that read one character at a time, and `regex`.

Hostile text consists of random pieces that the patterns distinguish (contractions in every case, white space of every
kind, marks, digits and letters of several scripts and lengths, broken UTF-8), so that every boundary between classes
occurs at every position of a block. A billion bytes have been compared once; the tests compare some millions.

    python tests/pretokenize/test_block_scanners.py SEED BYTES      compare that many bytes
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from bpe import Pretokenizer
from bpe.base._cpu import LEVELS, get_vector_level, set_vector_level
from bpe.pretokenize import _scanner as scan
from bpe.pretokenize.patterns import ALIASES, DEEPSEEK_STEPS, PATTERNS, SPELLINGS

#: The vector level to restore.
VECTORS = get_vector_level()

BY_BLOCKS = {name: pattern.scanner for name, pattern in PATTERNS.items() if name != "deepseek_v3"}
WORDS = (  # noqa: SIM905
    "' ' ' s S t d m ll LL ve re VE l L ſ K A B a b c x É é ß ǅ ʰ ا 語 モ 한 글 \u0301 \u0308 0 1 2 9 ٣ ½ ３ Ⅷ "
    ". , ! - / / _ “ ” — … € 😀 👩‍🔬 🇰🇷 word Hello HELLO hello the don't 1234567 语言处理 日本語の文 한국어 "
    "Привет Ελλάδα <| |> <|startoftext|> <|EndOfText|> <|ſtartoftext|> endoftext \u0345 "
    "हिन्दी বাংলা ி \u093f \u0e49 \u17d2 ที่ ไทย ស្រី ქ Ა ạ Ạ Việt ᾼ ၁ ᅟ ་ \u200d \u064b \ufe0f"
).split()
SPACES = [*"    ", "  ", "    ", *"\t\n\n\r\x0b\x1c\0", "\n\n", "\r\n", *"\x85\xa0\u3000\u2028\u180e\u200b"]
BROKEN = [b"\xff", b"\x80", b"\xe3\x81", b"\xf0\x9f", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"]
PIECES = [piece.encode() for piece in WORDS + SPACES] + BROKEN


def hostile(seed: int, size: int) -> Iterator[bytes]:
    """Texts of a few bytes to some 100,000, made of all pieces or of a few, `size` bytes in all."""
    source = random.Random(seed)
    while size > 0:
        pieces = source.choice([PIECES, source.sample(PIECES, 3), source.sample(PIECES, 4), source.sample(PIECES, 12)])
        if source.random() < 0.2:
            pieces = pieces[:4] + [bytes([source.randrange(32, 127)]) for _ in range(6)]
        text = b"".join(source.choices(pieces, k=source.choice([3, 10, 30, 100, 300, 3000, 30000])))
        size -= len(text)
        yield text


def assert_equal(found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray], text: bytes) -> None:
    """Fail with the first pretokens that differ."""
    if all(map(np.array_equal, found, expected)):
        return
    rows = [list(zip(*(bound.tolist() for bound in pair), strict=True)) for pair in (found, expected)]
    at = next(i for i, (a, b) in enumerate(zip(*rows, strict=False)) if a != b)
    shown = [[text[start:end] for start, end in row[max(0, at - 2) : at + 2]] for row in rows]
    pytest.fail(f"at pretoken {at} of {len(text)} bytes: {shown[0]} instead of {shown[1]}")


@pytest.mark.parametrize("name", BY_BLOCKS)
def test_block_scanners_equal_character_scanners(name: str) -> None:
    for text in hostile(1, 1_500_000):
        assert_equal(
            scan.find_spans(BY_BLOCKS[name], text), scan.find_spans(BY_BLOCKS[name], text, by_character=True), text
        )


@pytest.mark.parametrize("name", PATTERNS)
def test_scanners_equal_the_expression(name: str) -> None:
    pretokenizer = Pretokenizer(name)
    for text in hostile(2, 150_000):
        assert_equal(pretokenizer.spans(text), pretokenizer.find_spans_by_regex(text), text)


def by_steps(text: str) -> list[str]:
    """Split by DeepSeek's three expressions, each applied to the pieces of the one before; unmatched text is kept."""
    pieces = [text]
    for step in map(regex.compile, DEEPSEEK_STEPS):
        cut: list[str] = []
        for piece in pieces:
            bounds = sorted({0, len(piece), *(bound for match in step.finditer(piece) for bound in match.span())})
            cut += [piece[start:end] for start, end in itertools.pairwise(bounds)]
        pieces = cut
    return pieces


def test_deepseek_equals_its_three_expressions() -> None:
    pretokenizer = Pretokenizer("deepseek_v3")
    assert pretokenizer.split("!abé 12345 語の!x  1") == by_steps("!abé 12345 語の!x  1")
    for text in hostile(4, 300_000):
        plain = text.decode("utf-8", "ignore")
        assert pretokenizer.split(plain) == by_steps(plain), ascii(plain)


def test_aliases_and_spellings_equal_the_named_pattern() -> None:
    for alias, name in ALIASES.items():
        assert Pretokenizer(alias) == Pretokenizer(name)
    for spelling, name in SPELLINGS.items():
        assert Pretokenizer.from_regex(spelling).name == name
        for text in hostile(5, 10_000):
            own = Pretokenizer.from_regex(f"(?:){spelling}" if not spelling.startswith("(?") else spelling)
            assert_equal(Pretokenizer(name).spans(text), own.find_spans_by_regex(text), text)


@pytest.mark.parametrize("level", LEVELS)
def test_every_vector_level_gives_the_same_pretokens(level: str) -> None:
    """A level that the machine lacks falls back to one that it has."""
    try:
        assert set_vector_level(LEVELS[level]) <= LEVELS[level]
        for scanner in BY_BLOCKS.values():
            for text in hostile(3, 300_000):
                assert_equal(scan.find_spans(scanner, text), scan.find_spans(scanner, text, by_character=True), text)
    finally:
        set_vector_level(VECTORS)


@pytest.mark.parametrize("level", ["none", "avx2", "avx512"])
def test_every_character_of_two_and_three_bytes(level: str) -> None:
    """Each alone or doubled, in random order, between letters, spaces and characters of several scripts."""
    chars = [chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000]
    rng = random.Random(6)
    rng.shuffle(chars)
    text = "".join(char * rng.choice((1, 1, 2)) + rng.choice(("", "", *" aA\n1가ん。яЯ")) for char in chars).encode()
    try:
        set_vector_level(LEVELS[level])
        for scanner in BY_BLOCKS.values():
            assert_equal(scan.find_spans(scanner, text), scan.find_spans(scanner, text, by_character=True), text)
    finally:
        set_vector_level(VECTORS)


@pytest.mark.parametrize("name", BY_BLOCKS)
def test_every_byte_at_every_position_of_a_block(name: str) -> None:
    """Each byte at all 64 positions, between letters, spaces and newlines."""
    scanner = BY_BLOCKS[name]
    for before, after in ((b"x", b"x"), (b" ", b" "), (b"\n", b"a"), (b"!", b"\n"), ("語".encode(), b"7")):
        text = b"".join(before * size + bytes([byte]) + after * 3 for size in range(66) for byte in range(0, 256, 3))
        assert_equal(scan.find_spans(scanner, text), scan.find_spans(scanner, text, by_character=True), text)


@given(st.lists(st.sampled_from(PIECES), max_size=80).map(b"".join), st.sampled_from(sorted(BY_BLOCKS)))
def test_random_short_texts(text: bytes, name: str) -> None:
    assert_equal(
        scan.find_spans(BY_BLOCKS[name], text), scan.find_spans(BY_BLOCKS[name], text, by_character=True), text
    )
    assert scan.count(BY_BLOCKS[name], text) == len(scan.find_spans(BY_BLOCKS[name], text)[0])


@pytest.mark.parametrize("name", BY_BLOCKS)
def test_long_runs(name: str) -> None:
    letters = ("a", "語", " ", "\n", "!", "7", "'s", "aB", "\u3000", "\u0301")
    for letter, tail in itertools.product(letters, ("", "x", " ", "\n", " x")):
        text = (letter * 20_000 + tail).encode()
        assert_equal(
            scan.find_spans(BY_BLOCKS[name], text), scan.find_spans(BY_BLOCKS[name], text, by_character=True), text
        )


@pytest.mark.parametrize("name", BY_BLOCKS)
def test_runs_of_ideographs_before_any_text(name: str) -> None:
    """The runs are longer than a block, before them text that may join a word, after them text that may continue it."""
    tails = [
        "",
        "'s",
        "'S x",
        "'語",
        "a",
        "A",
        "Aa",
        "aA",
        "я",
        "Я",
        "\u0301",
        "ー",
        "7",
        "。",
        "'",
        " a",
        "\n",
        "\xff",
    ]
    parts = [
        before + "語" * size + tail
        for before in ("", " ", "。", "a", "A", "\u3000", "'s", "7", "\n")
        for size in (20, 21, 22, 43, 1400)
        for tail in tails
    ]
    for text in ("\n".join(parts).encode(), "".join(parts).encode()):
        assert_equal(
            scan.find_spans(BY_BLOCKS[name], text), scan.find_spans(BY_BLOCKS[name], text, by_character=True), text
        )


if __name__ == "__main__":
    compared = 0
    for hostile_text in hostile(int(sys.argv[1]), int(float(sys.argv[2]))):
        for number in BY_BLOCKS.values():
            assert_equal(
                scan.find_spans(number, hostile_text),
                scan.find_spans(number, hostile_text, by_character=True),
                hostile_text,
            )
        compared += len(hostile_text)
    sys.stdout.write(f"{compared} bytes compared, no difference\n")
