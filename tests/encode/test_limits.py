"""Chunks, truncation and counts up to a limit: promises for tokenizers of every shape, boundaries, cost and errors."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import regex
from checks import load_check
from conftest import CORPORA
from limits import find_broken_promise, find_difference, find_wrong_chunk, find_wrong_end
from strategies import SOAK

import bpe
from bpe.encode import Chunk, limits
from bpe.encode import chunks as chunking
from bpe.encode.streams import MIN_BUFFERED_BYTES
from bpe.errors import FormatError

check_prompts = load_check("check_prompts")
TEXT = "The low lower newest. It's 123 wide, is it?\nNo! 吾輩は猫である。名前は無い。 é 😊\n\n  영화를 보다.\r\n"
#: One token for each byte, so that limits are numbers of bytes.
BYTES = bpe.train(texts=["a"], vocab_size=256, pretokenizer="cl100k")
NORMALIZER = bpe.normalizers.Sequence(bpe.normalizers.Prepend("▁"), bpe.normalizers.Replace(" ", "▁"))
SUPERWORDS = bpe.SuperWords(transition=275)
TOKENIZERS = {
    "bytes": BYTES,
    "words": bpe.train(texts=[TEXT] * 3, vocab_size=300, pretokenizer="cl100k", special_tokens=["<|end|>"]),
    "prefix": bpe.train(texts=[TEXT] * 3, vocab_size=300, pretokenizer=bpe.Pretokenizer("gpt2", add_prefix_space=True)),
    "nfc": bpe.train(texts=[TEXT] * 3, vocab_size=300, normalizer="nfc"),
    "sentencepiece": bpe.train(texts=[TEXT] * 3, vocab_size=300, pretokenizer=None, normalizer=NORMALIZER),
    "superwords": bpe.train(texts=[TEXT] * 3, vocab_size=300, superwords=SUPERWORDS),
    "characters": bpe.train(texts=[TEXT] * 3, num_merges=40, model="char", unk_token="<unk>", end_of_word="</w>"),
    "regex": bpe.train(texts=[TEXT] * 3, vocab_size=300, pretokenizer=bpe.Pretokenizer.from_regex(r"\w+|\W")),
}


def texts_of(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


# Promises -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_texts_are_as_promised(name: str) -> None:
    pieces = [*TEXT, *TEXT.split(), *(3 * ["<|end|>"])]
    assert find_difference(random.Random(name), TOKENIZERS[name], pieces, 20 * SOAK) is None


@pytest.mark.parametrize("kind", ["generated", "trained"])
def test_random_tokenizers_are_as_promised(kind: str) -> None:
    for seed in range(5 * SOAK):
        rng = random.Random(f"{kind} {seed}")
        try:
            tok, pieces = getattr(check_prompts, f"draw_{kind}")(rng)
        except FormatError:
            continue
        if not tok.spec.dropout:
            assert find_difference(rng, tok, pieces, 4) is None, seed


@pytest.mark.parametrize("language", CORPORA)
def test_the_shared_corpora(
    language: str, corpus: Callable[[str, int], bytes], shared_vocab: Callable[[str], Path]
) -> None:
    text = corpus(language, 100_000).decode("utf-8", "ignore")
    tok = bpe.Tokenizer.from_tiktoken(shared_vocab("cl100k_base.tiktoken"), "cl100k")
    for boundaries in chunking.BOUNDARIES:
        for overlap in (0, 40):
            chunks = tok.chunk(text, 256, overlap=overlap, boundaries=boundaries)
            assert find_broken_promise(tok, text, chunks, 256, overlap, ()) is None
            if overlap == 0:
                assert "".join(texts_of(chunks)) == text
                assert sum(chunk.n_tokens for chunk in chunks) / len(chunks) > 150


def test_the_checks_find_broken_promises() -> None:
    class Broken(bpe.Tokenizer):
        """A tokenizer whose chunks, ends or counts are wrong."""

        def chunk(self, text: Any, *args: Any, **options: Any) -> Any:
            chunks = list(super().chunk(text, *args, **options))
            return chunks[1:] if isinstance(text, str) else iter(chunks[1:])

        def truncate(self, text: Any, *args: Any, **options: Any) -> Any:
            return text

    rng, tok = random.Random(0), Broken(BYTES.spec)
    assert find_wrong_chunk(rng, tok, "a b", 9)
    assert find_wrong_end(rng, tok, "long text", 2)


# Boundaries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two. Three. ", ["One.", " Two.", " Three.", " "]),
        ("Really?! Yes... Well", ["Really?!", " Yes...", " Well"]),
        ('He said "No." Then "Yes!" She', ['He said "No."', ' Then "Yes!"', " She"]),
        ("(One.) [Two.] Go", ["(One.)", " [Two.]", " Go"]),
        ("See e.g. this. Now", ["See e.g. this.", " Now"]),
        ("It is 3.14 or x.y. No", ["It is 3.14 or x.y.", " No"]),
        ("a\nb\r\nc\rd\u2028e", ["a\n", "b\r\n", "c\r", "d\u2028", "e"]),
        ("One.\n\nTwo", ["One.\n", "\n", "Two"]),
        ("猫。犬！「無い。」と", ["猫。", "犬！", "「無い。」", "と"]),
        ("Она. он. Да… нет… Да", ["Она. он.", " Да… нет…", " Да"]),
        ("تمام؟ نعم", ["تمام؟", " نعم"]),
    ],
)
def test_ends_of_sentences(text: str, expected: list[str]) -> None:
    """A limit that two sentences exceed, and none."""
    longest = max(BYTES.count_tokens(part) for part in expected)
    chunks = texts_of(BYTES.chunk(text, longest))
    assert "".join(chunks) == text
    ends = {sum(map(len, expected[: n + 1])) for n in range(len(expected))}
    assert {sum(map(len, chunks[: n + 1])) for n in range(len(chunks))} <= ends
    pattern = re.compile(chunking._PATTERNS["sentence"])
    assert [match.end() for match in pattern.finditer(text)] == sorted(
        ends - ({len(text)} if not text.endswith(("\n",)) else set())
    )


@pytest.mark.parametrize(
    ("boundaries", "expected"),
    [
        ("line", ["A b c.\n", "D e.", " F g\n"]),
        ("sentence", ["A b c.\n", "D e.", " F g\n"]),
        ("word", ["A b c.\n", "D e. F", " g\n"]),
        ("token", ["A b c.\n", "D e. F ", "g\n"]),
        (re.compile(r"\w "), ["A b ", "c.\nD ", "e. F g\n"]),
        (re.compile(r"(?=[a-z])"), ["A b ", "c.\nD ", "e. F g\n"]),
        (regex.compile(r"(?=\p{Lu})"), ["A b c.\n", "D e. ", "F g\n"]),
    ],
    ids=["line", "sentence", "word", "token", "after", "before", "regex"],
)
def test_kinds_of_boundaries(boundaries: Any, expected: list[str]) -> None:
    assert texts_of(BYTES.chunk("A b c.\nD e. F g\n", 7, boundaries=boundaries)) == expected


def test_what_is_too_long_is_cut_at_the_next_kind() -> None:
    text = "One two. " + "three " * 4 + "x" * 25 + "\n"
    assert texts_of(BYTES.chunk(text, 10, boundaries="line")) == [
        "One two.", " three", " three", " three", " three", " " + "x" * 9, "x" * 10, "x" * 6 + "\n",
    ]  # fmt: skip
    assert texts_of(BYTES.chunk("吾輩は猫であるxyz", 9, boundaries="word")) == ["吾輩は", "猫であ", "るxyz"]
    assert texts_of(BYTES.chunk("キャット。", 6, boundaries="word")) == ["キャ", "ッ", "ト。"]


def test_characters_are_whole() -> None:
    assert texts_of(BYTES.chunk("é😊é", 5, boundaries="token")) == ["é", "😊", "é"]
    pair = "\ud83d\ude0a"
    assert texts_of(BYTES.chunk(f"a{pair}{pair}\ud83d", 5, boundaries="token")) == [f"a{pair}", pair, "\ud83d"]


def test_an_overlap_begins_at_a_boundary() -> None:
    text = "A one. B two. C three. D four."
    assert BYTES.chunk(text, 16, overlap=8) == [
        Chunk("A one. B two.", 0, 13, 13),
        Chunk(" B two. C three.", 6, 22, 16),
        Chunk(" three. D four.", 15, 30, 15),
    ]
    assert texts_of(BYTES.chunk("aaaa bb cc. Dddddd.", 12, overlap=8)) == ["aaaa bb cc.", " cc. Dddddd."]
    assert texts_of(BYTES.chunk("aaaaaaaa. Bbbbbbbbb.", 11, overlap=8)) == ["aaaaaaaa.", " Bbbbbbbbb."]
    assert texts_of(BYTES.chunk("abcdefgh", 5, overlap=2, boundaries="token")) == ["abcde", "defgh"]


def test_no_text_has_no_chunk() -> None:
    assert BYTES.chunk("", 5) == []
    assert list(BYTES.chunk(iter(["", ""]), 5)) == []


# Streams --------------------------------------------------------------------------------------------------------------


def test_a_stream_is_read_as_it_is_needed() -> None:
    n_read = 0

    def parts() -> Iterator[str]:
        nonlocal n_read
        for _ in range(100_000):
            n_read += 1
            yield "One two three. "

    chunks = BYTES.chunk(parts(), 60, overlap=20)
    assert n_read == 0
    for n, chunk in enumerate(chunks, 1):
        assert chunk.end - chunk.start <= 60
        assert n_read * 15 <= chunk.end + 2 * chunking.MARGIN
        if n == 1000:
            break


def test_a_stream_holds_little_text(monkeypatch: pytest.MonkeyPatch) -> None:
    longest, read = 0, chunking._HeldText.read

    def watch(text: chunking._HeldText, start: int, end: int) -> int:
        nonlocal longest
        result = read(text, start, end)
        longest = max(longest, len(text._held))
        return result

    monkeypatch.setattr(chunking._HeldText, "read", watch)
    chunks = list(BYTES.chunk(("One two three. " for _ in range(5000)), 60, overlap=20))
    assert chunks[-1].end == 75_000
    assert longest < 3 * chunking.MARGIN


def test_an_open_file(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT * 50, encoding="utf-8", newline="")
    with open(tmp_path / "text.txt", encoding="utf-8", newline="") as file:
        assert list(TOKENIZERS["words"].chunk(file, 20)) == TOKENIZERS["words"].chunk(TEXT * 50, 20)


def test_parts_of_a_subclass_of_str_with_other_methods() -> None:
    class Odd(str):
        __slots__ = ()

        def __bool__(self) -> bool:
            return False

        def __len__(self) -> int:
            return 0

        def __getitem__(self, index: Any) -> str:
            return "?"

    for text in (Odd(TEXT), [Odd(TEXT[:9]), Odd(TEXT[9:])]):
        assert list(BYTES.chunk(text, 20, overlap=5)) == BYTES.chunk(TEXT, 20, overlap=5)


# Cost -----------------------------------------------------------------------------------------------------------------

#: Pieces that are repeated to a text of `HOSTILE_CHARS`.
HOSTILE = {
    "letters": "x",
    "spaces": " ",
    "newlines": "\n",
    "dots": ".",
    "closing": '."',
    "wide": "。」",
    "marks": "\u0301",
    "emoji": "😊",
    "words": "a ",
    "specials": "<|end|>",
    "mixed": "word. " * 50 + "y" * 700,
}
HOSTILE_CHARS = 2000


@pytest.mark.parametrize(
    ("name", "overlap"), [("words", 0), ("words", 16), ("nfc", 0), ("sentencepiece", 16), ("superwords", 0)]
)
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_text_that_is_encoded_is_linear(kind: str, name: str, overlap: int) -> None:
    tok, text = TOKENIZERS[name], (HOSTILE[kind] * HOSTILE_CHARS)[:HOSTILE_CHARS]
    n_chars = 0

    def watch(function: Any, *args: Any, **options: Any) -> Any:
        nonlocal n_chars
        n_chars += len(args[0])
        return function(*args, **options)

    functions = partial(watch, tok.truncate), partial(watch, tok.count_tokens)
    chunks = list(chunking.divide(tok.spec, text, 64, overlap, "sentence", *functions))
    assert sum(len(chunk.text) for chunk in chunks) <= 2 * len(text)
    assert n_chars < 30 * len(text) + 10_000


# Truncation and counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "expected"), [("right", "abcde"), ("left", "fghij"), ("middle", "abcij")])
def test_truncation_on_each_side(side: limits.Side, expected: str) -> None:
    assert BYTES.truncate("abcdefghij", 5, side=side) == expected
    assert BYTES.truncate(b"abcdefghij", 5, side=side) == expected.encode()
    assert BYTES.truncate("abcdefghij", 10, side=side) == "abcdefghij"
    assert BYTES.truncate("abcdefghij", 0, side=side) == ""
    assert BYTES.truncate("éé", 3, side=side) == "é"
    assert BYTES.truncate("éé".encode(), 3, side=side) == "é".encode()


@pytest.mark.parametrize("name", TOKENIZERS)
def test_little_is_left_out_on_the_left(name: str) -> None:
    """The end that is kept lacks at most two of the tokens that fit."""
    tok, text = TOKENIZERS[name], "the low lower newest wide " * 20
    for max_tokens in range(4, 60, 7):
        part = tok.truncate(text, max_tokens, side="left")
        assert text.endswith(part)
        assert max_tokens - 2 <= tok.count_tokens(part) <= max_tokens


def test_only_the_end_of_a_long_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tok, text = TOKENIZERS["words"], "low lower " * 100_000
    n_bytes, encode = 0, bpe.encode.offsets.OffsetEncoder.encode  # type: ignore[attr-defined]

    def watch(self: Any, text: Any, *args: Any) -> Any:
        nonlocal n_bytes
        n_bytes += len(text)
        return encode(self, text, *args)

    monkeypatch.setattr(bpe.encode.offsets.OffsetEncoder, "encode", watch)  # type: ignore[attr-defined]
    assert text.endswith(tok.truncate(text, 100, side="left"))
    assert n_bytes < 5000


def test_counts_with_a_limit() -> None:
    tok = TOKENIZERS["words"]
    assert [tok.count_tokens("abc", limit=limit) for limit in range(5)] == [1, 2, 3, 3, 3]
    assert tok.count_tokens(["abc", "", "a"], limit=1).tolist() == [2, 0, 1]
    assert tok.count_tokens("<|end|>a", limit=5, allowed_special="all") == 2
    with pytest.raises(ValueError, match="disallowed special token"):
        tok.count_tokens("<|end|>a", limit=5, disallowed_special="all")
    long_text = "low " * MIN_BUFFERED_BYTES
    assert tok.count_tokens(long_text, limit=10**9) == tok.count_tokens(long_text)


@pytest.mark.parametrize("name", ["words", "nfc"])
def test_only_the_beginning_of_a_long_text_is_counted(name: str) -> None:
    """The disallowed token at the end is not found."""
    tok = TOKENIZERS[name].with_tokens(special=["<|stop|>"])
    text = "low lower newest " * 10_000 + "<|stop|>"
    for value in (text, text.encode()):
        assert tok.count_tokens(value, limit=100, disallowed_special="all") == 101
        with pytest.raises(ValueError, match="disallowed special token"):
            tok.count_tokens(value, limit=10**6, disallowed_special="all")


# Errors ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": b"a"}, "text is .*; it must be a str, or an iterable of str such as an open file"),
        ({"text": 5}, "text is 5, an int; it must be a str"),
        ({"max_tokens": 0}, "max_tokens is 0; it must be at least 1"),
        ({"max_tokens": "9"}, "max_tokens is '9', a str; it must be an int"),
        ({"overlap": -1}, "overlap is -1; it must be at least 0"),
        ({"overlap": 9}, "overlap is 9; it must be less than max_tokens, which is 9"),
        ({"boundaries": "paragraph"}, "boundaries is 'paragraph'; it must be one of 'sentence', 'line', .* re.compile"),
        ({"boundaries": re.compile(b"x")}, "boundaries is a pattern of bytes"),
        ({"allowed_special": ["<|x|>"]}, r"<\|x\|>"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    """They raise when `chunk` is called, for parts of a text too."""
    arguments = {"text": iter(["a"]), "max_tokens": 9} | options
    with pytest.raises((TypeError, ValueError), match=message):
        BYTES.chunk(**arguments)


def test_other_errors() -> None:
    with pytest.raises(
        ValueError, match=r"the character '😊' at position 2 has 4 tokens, and max_tokens is 3; .*max_tokens=4 or more"
    ):
        BYTES.chunk("a 😊", 3)
    with pytest.raises(TypeError, match=r"a part of the text is b'a'.*; it must be str"):
        list(BYTES.chunk([b"a"], 3))  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a part of the text is None; it must be str"):
        list(BYTES.chunk(["a", None, "b"], 3))  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"a dropout of 0\.1, so the numbers of tokens are random"):
        bpe.Tokenizer(dataclasses.replace(BYTES.spec, dropout=0.1)).chunk("a", 3)
    with pytest.raises(ValueError, match="side is 'top'; it must be one of 'right', 'left', 'middle'"):
        BYTES.truncate("a", 3, side="top")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="limit is -1; it must be at least 0"):
        BYTES.count_tokens("a", limit=-1)
