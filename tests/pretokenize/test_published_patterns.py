"""Every scanner gives the pretokens of its published pattern in the `regex` package, for the same character classes.

The classes of `regex` depend on its release, so `characters.py` replaces characters whose class differs.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import sys
from functools import cache

import numpy as np
import pytest
import regex
from characters import find_spans_by_regex
from hypothesis import given
from hypothesis import strategies as st
from reference import CL100K, CLIP, GPT2, O200K
from strategies import SOAK, examples

from bpe.pretokenize import _safe_points as cutting
from bpe.pretokenize.patterns import NAMES, PATTERNS, SPELLINGS, WHOLE_TEXT
from bpe.pretokenize.pretokenizer import Pretokenizer, as_pretokenizer, get_scanner

# Characters of every class that a pattern distinguishes, of every length in UTF-8, and known difficult cases.
REPRESENTATIVES = [
    *("'", "\u017f", "\u212a", "s", "S", "l", "L", "t", "re", "VE", "M", "d", "a", "Z"),  # contractions, case folds
    *("é", "É", "ß", "ж", "Ж", "ǅ", "ʰ", "ª", "ー", "ア", "한", "語", "𝒜", "𝒶", "𐐀", "𐐨", "𠀀"),  # letters by case
    *("0", "7", "٣", "²", "Ⅷ", "½", "〇", "𝟘", "𐄇"),  # numbers of all three kinds
    *("\u0301", "\u0903", "\u20dd", "\U0001d165", "\ufe0f", "\u200d"),  # marks and joiners
    *(" ", "\t", "\n", "\r", "\r\n", "\u000b", "\u000c", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000"),
    *("\u001c", "\u001f", "\u180e", "\u200b", "\ufeff", "\u2060"),  # white space in some engines
    *("/", "!", ".", "-", "_", "<", "|", ">", "~", "\0", "\u007f", "。", "€", "😊", "👩‍👩‍👧", "🇰🇷", "\u0378", "\ue000"),
    *("<|endoftext|>", "<|startoftext|>", "<|ENDOFTEXT|>", "<|ſtartoftext|>"),
]
# Invalid UTF-8: stray continuations, truncated sequences, overlong forms, a surrogate, beyond the last code point.
BROKEN = [
    b"\x80",
    b"\xbf",
    b"\xc3",
    b"\xc0\xaf",
    b"\xe3\x82",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xff",
]
ATOMS = [text.encode() for text in REPRESENTATIVES] + BROKEN


@cache
def pretokenizer_of(name: str) -> Pretokenizer:
    return Pretokenizer(name)


def assert_same(name: str, data: bytes) -> None:
    """The scanner's spans equal the regular expression's."""
    pretokenizer = pretokenizer_of(name)
    assert pretokenizer.scanner is not None
    actual, expected = pretokenizer.spans(data), find_spans_by_regex(pretokenizer, data)
    if np.array_equal(actual[0], expected[0]) and np.array_equal(actual[1], expected[1]):
        return
    size = min(len(actual[0]), len(expected[0]))
    wrong = (actual[0][:size] != expected[0][:size]) | (actual[1][:size] != expected[1][:size])
    at = int(np.argmax(wrong)) if wrong.any() else size
    near = data[max(0, int(actual[0][max(0, at - 2)])) :][:60]
    got, want = ([(int(a), int(b)) for a, b in zip(*(x[at : at + 3] for x in pair))] for pair in (actual, expected))  # noqa: B905
    pytest.fail(f"{name}: pretoken {at} near {near!r}: scanner {got}, regex {want}")


# The scanners against the patterns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_code_point_between_a_letter_and_a_digit(name: str) -> None:
    """Compares every eighth code point of planes 0 and 1 and of the tags (in a soak test all), each 61st elsewhere.

    The table of classes has blocks of 128, so every block is used; `test_unicode_tables` holds the whole table, and the
    pretokens of every code point, to what was compared.
    """
    step = 8 if SOAK == 1 else 1
    points = itertools.chain(
        range(0, 0xD800, step), range(0xE000, 0x20000, step), range(0x20000, 0xE0000, 61),
        range(0xE0000, 0xE0200, step), range(0xE0200, sys.maxunicode + 1, 61),
    )  # fmt: skip
    text = "".join(f"x{chr(code)}1" for code in points)
    for start in range(0, len(text), 300_000):
        assert_same(name, text[start : start + 300_000].encode())


@pytest.mark.parametrize("name", NAMES)
def test_code_points_in_many_contexts(name: str) -> None:
    """Code points of each class that any pattern distinguishes, in contexts that lead to every branch.

    Each context has every ninth code point; which ones differs between contexts, and between patterns.
    """
    characters, step = characters_of_classes(), 9 if SOAK == 1 else 3
    for number, template in enumerate(("{0} ", " {0}{0}\n", "'{0}x", "!{0}{0}A a", "\n {0}\t{0}/")):
        text = "".join(map(template.format, characters[(number + NAMES.index(name)) % step :: step]))
        assert_same(name, text.encode())


@cache
def characters_of_classes() -> list[str]:
    """The characters, but one of 50 letters without case."""
    every = "".join(map(chr, itertools.chain(range(0xD800), range(0xE000, 0x20000), range(0xE0000, 0xE0200))))
    return regex.findall(r"[^\p{Lo}\p{Cn}\p{Co}]", every) + regex.findall(r"\p{Lo}", every)[::50]


def alone_and_joined(texts: list[bytes], name: str) -> list[bytes]:
    """Each third text, which ones depends on the pattern, and all texts joined to one; each text in a soak test."""
    return [*texts[NAMES.index(name) % 6 :: 6], b"".join(texts)] if SOAK == 1 else texts


@pytest.mark.parametrize("name", NAMES)
def test_texts_of_one_and_two_representatives(name: str) -> None:
    """Each representative, and each ordered pair of them."""
    for data in ATOMS:
        assert_same(name, data)
    for data in alone_and_joined([first + second for first, second in itertools.product(ATOMS, repeat=2)], name):
        assert_same(name, data)


@pytest.mark.parametrize("name", NAMES)
def test_sampled_texts_of_three_and_more_representatives(name: str) -> None:
    random_ = random.Random(f"triples {name}")
    for size, times in ((3, 700), (4, 400), (9, 150), (300, 8)):
        for _ in range(times * SOAK):
            assert_same(name, b"".join(random_.choices(ATOMS, k=size)))


SPACES = ["\n", "\r", " ", "\t", "\u3000", "\u0085", "a", "!"]
CASES = ["A", "a", "ア", "\u0301", "'", "s", "ſ", "ʰ", "ǅ", "!", " "]
MARKS = ["<|", "|>", "endoftext", "START", "oftext", "<|endoftext|>", "<|startoftext|>", " ", "'", "s", "1"]


@pytest.mark.parametrize("alphabet", [SPACES, CASES, MARKS], ids=["spaces", "cases", "marks"])
@pytest.mark.parametrize("name", NAMES)
def test_all_short_texts(name: str, alphabet: list[str]) -> None:
    """Every text of up to four letters of a small alphabet: white-space runs, case runs, special tokens."""
    for size in range(5 if len(alphabet) < 9 else 4):
        texts = ["".join(letters).encode() for letters in itertools.product(alphabet, repeat=size)]
        for data in texts if size < 3 else alone_and_joined(texts, name):
            assert_same(name, data)


@examples(22)
@given(atoms=st.lists(st.sampled_from(ATOMS), max_size=40), tail=st.binary(max_size=4))
def test_random_texts(atoms: list[bytes], tail: bytes) -> None:
    for name in NAMES:
        assert_same(name, b"".join(atoms) + tail)


@examples(32)
@given(text=st.text(max_size=60), data=st.binary(max_size=60))
def test_any_text_and_any_bytes(text: str, data: bytes) -> None:
    for name in NAMES:
        assert_same(name, text.encode("utf-8", "replace"))
        assert_same(name, data)


@pytest.mark.parametrize("name", NAMES)
def test_long_runs(name: str) -> None:
    for unit in (
        b"a",
        b"A",
        b"1",
        b" ",
        b"\n",
        b"!",
        b"'",
        b" \n",
        "ア".encode(),
        "\u3000".encode(),
        b"\xff",
        b"'s",
        b"<|",
        b"Aa",
    ):
        for prefix, suffix in ((b"", b""), (b" ", b"x"), (b"'", b"\n")):
            assert_same(name, prefix + unit * 10_000 + suffix)


@pytest.mark.parametrize(
    ("name", "published"),
    [("gpt2", GPT2), ("cl100k", CL100K), ("o200k", O200K), ("clip", CLIP), ("whitespace", r"\S+")],
)
def test_our_expression_equals_the_published_one(name: str, published: str) -> None:
    """The expression that we use for a name splits valid UTF-8 like the published expression."""
    pattern = regex.compile(published.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}"))
    random_ = random.Random(f"published {name}")
    flags = regex.IGNORECASE if name == "clip" else 0
    pattern = regex.compile(pattern.pattern, flags)
    for size, times in ((1, 300), (2, 2000), (3, 3000), (12, 500)):
        for _ in range(times):
            text = "".join(random_.choices(REPRESENTATIVES, k=size))
            assert pretokenizer_of(name).split(text) == [match[0] for match in pattern.finditer(text)], ascii(text)


def test_known_results_of_the_patterns() -> None:
    assert pretokenizer_of("gpt2").split("it's  3 o'clock,\n\nDon'T ") == [
        "it",
        "'s",
        " ",
        " 3",
        " o",
        "'",
        "clock",
        ",",
        "\n",
        "\n",
        "Don",
        "'",
        "T",
        " ",
    ]
    assert pretokenizer_of("cl100k").split("it'S 12345\r\n\n  x'ſ") == [
        "it",
        "'S",
        " ",
        "123",
        "45",
        "\r\n\n",
        " ",
        " x",
        "'ſ",
    ]
    assert pretokenizer_of("o200k").split("HelloWorld's ABCdef/\n/x") == ["Hello", "World's", " ABCdef", "/\n/", "x"]
    assert pretokenizer_of("clip").split("it's 12 <|endoftext|>!") == ["it", "'s", "1", "2", "<|endoftext|>", "!"]
    assert pretokenizer_of("whitespace").split("\u3000a b\u0085c\u200bd ") == ["a", "b", "c\u200bd"]


def test_white_space_at_the_end_is_one_pretoken() -> None:
    """cl100k and gpt2 keep trailing white space whole; so does o200k, by its last branch."""
    assert pretokenizer_of("gpt2").split("a \u3000") == ["a", " \u3000"]
    assert pretokenizer_of("cl100k").split("a\n \u3000") == ["a", "\n \u3000"]
    assert pretokenizer_of("o200k").split("a\n \u3000") == ["a", "\n", " \u3000"]
    assert pretokenizer_of("gpt2").split(" \u3000a") == [" ", "\u3000", "a"]


def test_invalid_bytes_belong_to_no_class() -> None:
    assert pretokenizer_of("gpt2").split_bytes(b"a\xff\xfeb \x80c") == [b"a", b"\xff\xfe", b"b", b" \x80", b"c"]
    assert pretokenizer_of("cl100k").split_bytes(b"\xe3\x82x \x82x") == [b"\xe3\x82", b"x", b" \x82", b"x"]


# Splitting a text into parts ------------------------------------------------------------------------------------------


def split_points(number: int, data: bytes, size: int) -> list[int]:
    """Safe split points for parts of about `size` bytes."""
    points = [0]
    while points[-1] < len(data):
        at = points[-1] + size
        points.append(cutting.find_next_split(number, data, at) if at < len(data) else len(data))
    return points


def assert_parts_scan_like_the_whole(name: str, data: bytes, size: int) -> None:
    pretokenizer = pretokenizer_of(name)
    number = pretokenizer.scanner
    assert number is not None
    points = split_points(number, data, size)
    assert points[0] == 0
    assert points[-1] == len(data)
    assert points == sorted(set(points))
    whole = pretokenizer.split_bytes(data)
    parts = [pretokenizer.split_bytes(data[a:b]) for a, b in itertools.pairwise(points)]
    assert [piece for part in parts for piece in part] == whole, (name, size, data, points)


@examples(22)
@given(
    atoms=st.lists(st.sampled_from([*ATOMS, b" a", b"a ", b"\n", b"a"]), max_size=60),
    size=st.integers(1, 40),
)
def test_parts_have_the_pretokens_of_the_whole(atoms: list[bytes], size: int) -> None:
    for name in NAMES:
        assert_parts_scan_like_the_whole(name, b"".join(atoms), size)


@pytest.mark.parametrize("name", NAMES)
def test_split_points_are_frequent_in_prose(name: str) -> None:
    data = "The quick brown fox, isn't it?\n\n  Über 12 Bären!\r\n".encode() * 200
    for size in (1, 7, 100, 1000):
        assert_parts_scan_like_the_whole(name, data, size)
    points = split_points(PATTERNS[name].scanner, data, 1000)
    assert max(np.diff(points)) < 1100


def test_split_points_are_frequent_in_text_without_spaces() -> None:
    data = "吾輩は猫である。\n名前はまだ無い。\n\n".encode() * 200
    for name in NAMES:
        assert_parts_scan_like_the_whole(name, data, 100)
        assert max(np.diff(split_points(PATTERNS[name].scanner, data, 100))) < 200


def test_a_text_without_pretokenizer_has_no_split_points() -> None:
    assert split_points(WHOLE_TEXT, b"a b c d", 1) == [0, 7]
    assert split_points(PATTERNS["gpt2"].scanner, b"", 1) == [0]


# The class ----------------------------------------------------------------------------------------------------------


def test_empty_text() -> None:
    for name in NAMES:
        starts, ends = pretokenizer_of(name).spans(b"")
        assert starts.dtype == ends.dtype == np.int64
        assert len(starts) == len(ends) == 0
        assert pretokenizer_of(name).split("") == []


@examples(32)
@given(text=st.text(alphabet="ab1 \n!é語\u0301'", max_size=40))
def test_pretokens_lose_only_white_space(text: str) -> None:
    for name in ("gpt2", "cl100k", "o200k"):
        assert "".join(pretokenizer_of(name).split(text)) == text
    for name in ("clip", "whitespace"):
        assert "".join(pretokenizer_of(name).split(text)) == "".join(text.split())


def test_intersections_without_v1_are_refused() -> None:
    for pattern in (r"[\w&&[^\d]]+", r"a|[^\]&&b]", r"\\[a&&b]", "[]&&]"):
        with pytest.raises(ValueError, match=r"has &&, which is two characters .*; put \(\?V1\) in front"):
            Pretokenizer.from_regex(pattern)
    assert Pretokenizer.from_regex(r"(?V1)[\w&&[^\d]]+").split("ab12&c") == ["ab", "c"]
    assert Pretokenizer.from_regex(r"(?iV1)[\w&&[^b]]+").split("aB1&c") == ["a", "1", "c"]
    for pattern in (r"a&&b", r"\[&&]", r"[&\&]+", "[a&]&+"):
        Pretokenizer.from_regex(pattern)


def test_from_regex() -> None:
    digits = Pretokenizer.from_regex(r"\d+")
    assert digits.scanner is None
    assert digits.split("ab12c3") == ["12", "3"]
    keep = Pretokenizer.from_regex(r"\d+", gaps="keep")
    assert keep.split("ab12c3é") == ["ab", "12", "c", "3", "é"]
    assert keep.split("") == []
    assert Pretokenizer.from_regex("x*").split("axxb") == ["xx"]
    assert Pretokenizer.from_regex("x*", gaps="keep").split("axxb") == ["a", "xx", "b"]
    assert Pretokenizer.from_regex(r"\s+").split("a\x1cb c") == [" "]
    assert Pretokenizer.from_regex(r"[^\s]+").split("a\x1cb c") == ["a\x1cb", "c"]
    assert Pretokenizer.from_regex(r"\\s").split("a\\s b") == ["\\s"]


def test_spellings_are_recognized() -> None:
    for pattern, name in SPELLINGS.items():
        assert Pretokenizer.from_regex(pattern).name == name
    assert Pretokenizer.from_regex(r"\S+", gaps="keep").name is None
    assert Pretokenizer.from_regex(r"\S+", gaps="keep").split("a b") == ["a", " ", "b"]


def test_prefix_space() -> None:
    prefixed = Pretokenizer("gpt2", add_prefix_space=True)
    assert prefixed.split("hi you") == [" hi", " you"]
    assert prefixed.split(" hi") == [" hi"]
    assert prefixed.split("") == []


def test_identity() -> None:
    kinds = [
        *(Pretokenizer(name) for name in NAMES),
        Pretokenizer("gpt2", add_prefix_space=True),
        Pretokenizer.from_regex("a+"),
        Pretokenizer.from_regex("a+", gaps="keep"),
        Pretokenizer.from_regex("a+", add_prefix_space=True),
    ]
    for i, one in enumerate(kinds):
        reloaded = pickle.loads(pickle.dumps(one))
        for other in (reloaded, copy.copy(one), copy.deepcopy(one)):
            assert other == one
            assert hash(other) == hash(one)
        assert reloaded.split("aab a") == one.split("aab a")
        assert eval(repr(one), {"Pretokenizer": Pretokenizer}) == one
        assert [one == other for other in kinds] == [i == j for j in range(len(kinds))]
    assert kinds[0] != "gpt2"


def test_as_pretokenizer() -> None:
    assert as_pretokenizer(None) is None
    assert as_pretokenizer("clip") == Pretokenizer("clip")
    assert get_scanner(None) == WHOLE_TEXT
    assert get_scanner(Pretokenizer.from_regex("a")) is None


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"pretokenizer is 'gpt3'; it must be one of 'gpt2', 'cl100k'"):
        Pretokenizer("gpt3")
    with pytest.raises(ValueError, match=r"pattern '\(' does not compile: .*; it must be a regular expression"):
        Pretokenizer.from_regex("(")
    with pytest.raises(TypeError, match=r"pattern is b'a', a bytes; it must be a str"):
        Pretokenizer.from_regex(b"a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"gaps is 'lose'; it must be one of 'drop', 'keep'"):
        Pretokenizer.from_regex("a", gaps="lose")
    with pytest.raises(
        TypeError, match=r"pretokenizer is 7, an int; it must be a name \(gpt2, .*\), a bpe.Pretokenizer, steps of"
    ):
        as_pretokenizer(7)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="a Pretokenizer is immutable: name cannot be set; make a new one"):
        Pretokenizer("gpt2").name = "clip"
    with pytest.raises(TypeError, match="text is 3, an int; it must be str or bytes"):
        Pretokenizer("gpt2").split(3)  # type: ignore[arg-type]
