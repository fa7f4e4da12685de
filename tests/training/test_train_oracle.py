"""Training gives the merges, counts and ids of the naive oracle, under all four tie rules."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from strategies import SOAK, TIE_BREAKS, corpora, each_tie_break, examples

import bpe
from bpe.pretokenize.pretokenizer import Pretokenizer

pytestmark = pytest.mark.usefixtures("quiet")
each_rule = pytest.mark.parametrize("tie_break", TIE_BREAKS)


# Corpora ------------------------------------------------------------------------------------------------------------


def trained(**options: Any) -> tuple[bpe.Tokenizer, list[tuple[Any, Any, Any, int]]]:
    """A tokenizer, and its merges as `on_merge` received them; checks their numbers."""
    learned: list[tuple[Any, Any, Any, int]] = []

    def on_merge(step: int, left: Any, right: Any, token: Any, count: int) -> None:
        assert step == len(learned) + 1
        assert token == left + right
        assert type(count) is int
        learned.append((left, right, token, count))

    return bpe.train(**from_reference_options(**options), on_merge=on_merge), learned


def assert_agrees(
    tok: bpe.Tokenizer, learned: list[tuple[Any, Any, Any, int]], expected: reference.Trained[Any]
) -> None:
    """Compare merges, counts, vocabulary and ids."""
    assert learned == [(step.left, step.right, step.left + step.right, step.count) for step in expected.steps]
    assert tok.vocab() == expected.ids
    assert list(tok.vocab().values()) == sorted(expected.ids.values())
    assert tok.vocab_size == len(expected.ids)
    ids = expected.ids
    assert [tuple(pair) for pair in tok.merges.tolist()] == [(ids[left], ids[right]) for left, right in expected.ranks]
    assert tok.merges.dtype == np.int32
    assert tok.spec.training is not None
    assert tok.spec.training.merges == len(expected.steps)


def mark_length(mark: str | None, glued: bool) -> Callable[[str], int]:
    """A function that counts the symbols of a token of a character model."""

    def length(token: str) -> int:
        if mark is not None and token.endswith(mark):
            return len(token) - len(mark) + (not glued)
        return len(token)

    return length


def check_byte_model(words: dict[str, int], num_merges: int, tie_break: str) -> None:
    tok, learned = trained(counts=words, num_merges=num_merges, tie_break=tie_break)
    expected = reference.train(
        {reference.byte_word(word.encode()): count for word, count in words.items()},
        num_merges=num_merges,
        tie_break=tie_break,
        alphabet=reference.gpt2_byte_order(),
    )
    assert_agrees(tok, learned, expected)


def char_alphabet(words: dict[str, int], mark: str | None, glued: bool) -> list[str]:
    """The symbols of a character model in id order: characters by code point, then the mark or the marked ones."""
    letters = sorted(set("".join(words)))
    if mark is None:
        return letters
    return [*letters, *(char + mark for char in sorted({word[-1] for word in words}))] if glued else [*letters, mark]


# Against the oracle ---------------------------------------------------------------------------------------------------


@examples(8)
@given(words=corpora(), num_merges=st.integers(0, 40))
def test_byte_models_equal_the_oracles(words: dict[str, int], num_merges: int) -> None:
    for tie_break in each_tie_break():
        check_byte_model(words, num_merges, tie_break)


@examples(8)
@given(
    words=corpora(),
    extra=st.integers(0, 40),
    min_frequency=st.integers(0, 6),
    max_token_length=st.none() | st.integers(1, 6),
    special_tokens=st.sampled_from([(), ("<s>", "<pad>"), ("ab",), ("aa", "<s>")]),
    first_id=st.sampled_from([0, 1, 100]),
)
def test_byte_models_with_options_equal_the_oracles(
    words: dict[str, int],
    extra: int,
    min_frequency: int,
    max_token_length: int | None,
    special_tokens: tuple[str, ...],
    first_id: int,
) -> None:
    order = reference.gpt2_byte_order()
    used = {byte for word in words for byte in reference.byte_word(word.encode())}
    alphabet = [byte for byte in order if byte in used]
    vocab_size = len(alphabet) + len(special_tokens) + extra
    for tie_break in each_tie_break():
        tok, learned = trained(
            counts={word.encode(): count for word, count in words.items()},
            vocab_size=vocab_size,
            initial_alphabet="corpus",
            min_frequency=min_frequency,
            max_token_length=max_token_length,
            special_tokens=special_tokens,
            first_id=first_id,
            tie_break=tie_break,
        )
        expected = reference.train(
            {reference.byte_word(word.encode()): count for word, count in words.items()},
            vocab_size=vocab_size,
            tie_break=tie_break,
            alphabet=alphabet,
            specials=[name.encode() for name in special_tokens],
            min_frequency=min_frequency,
            max_token_length=max_token_length,
            first_id=first_id,
        )
        assert_agrees(tok, learned, expected)
        assert tok.vocab_size <= vocab_size
        assert tok.special_tokens == {name: first_id + i for i, name in enumerate(special_tokens)}
        if tok.vocab_size == vocab_size:
            assert tok.spec.training.stopped is None
        else:
            assert tok.spec.training.stopped in ("no pairs left", "min_frequency")
            if min_frequency < 2:
                assert tok.spec.training.stopped == "no pairs left"


@pytest.mark.parametrize("glued", [None, False, True], ids=["no mark", "own mark", "glued mark"])
@examples(4)
@given(
    words=corpora(),
    num_merges=st.integers(0, 40),
    min_frequency=st.integers(1, 4),
    max_token_length=st.none() | st.none() | st.integers(1, 6),
    mark=st.sampled_from(["</w>", "_", "\uffff"]),
)
def test_character_models_equal_the_oracles(
    glued: bool | None,
    words: dict[str, int],
    num_merges: int,
    min_frequency: int,
    max_token_length: int | None,
    mark: str,
) -> None:
    end_of_word = None if glued is None else mark
    for tie_break in each_tie_break():
        tok, learned = trained(
            counts=words,
            num_merges=num_merges,
            model="char",
            end_of_word=end_of_word,
            end_of_word_glued=bool(glued),
            min_frequency=min_frequency,
            max_token_length=max_token_length,
            tie_break=tie_break,
        )
        expected = reference.train(
            {reference.char_word(word, end_of_word, bool(glued)): count for word, count in words.items()},
            num_merges=num_merges,
            tie_break=tie_break,
            alphabet=char_alphabet(words, end_of_word, bool(glued)),
            min_frequency=min_frequency,
            length=mark_length(end_of_word, bool(glued)),
            max_token_length=max_token_length,
        )
        assert_agrees(tok, learned, expected)


@examples(7)
@given(words=corpora(("ab", "abc")), data=st.data())
def test_character_models_with_alphabet_and_unknown_token(words: dict[str, int], data: st.DataObject) -> None:
    """The given symbols come first, in their order; the unknown token has an entry like a special token."""
    given_symbols = data.draw(st.lists(st.sampled_from("abcxyz"), unique=True, max_size=6))
    rest = [char for char in sorted(set("".join(words))) if char not in given_symbols]
    for tie_break in each_tie_break():
        tok, learned = trained(
            counts=words,
            num_merges=12,
            model="char",
            initial_alphabet=given_symbols,
            special_tokens=["<s>"],
            unk_token="<unk>",
            tie_break=tie_break,
        )
        expected = reference.train(
            {tuple(word): count for word, count in words.items()},
            num_merges=12,
            tie_break=tie_break,
            alphabet=[*given_symbols, *rest],
            specials=["<s>", "<unk>"],
        )
        assert_agrees(tok, learned, expected)
        assert tok.special_tokens == {"<s>": 0}
        assert tok.spec.unk_token == "<unk>"


@each_rule
def test_long_repetitive_words(tie_break: str) -> None:
    """Longer words than hypothesis generates: runs, alternations, Fibonacci and Thue-Morse words, with unary counts."""
    fibonacci = ["a", "ab"]
    while len(fibonacci[-1]) < 150:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    morse = "".join("ab"[i.bit_count() % 2] for i in range(128))
    for words in (
        {"a" * 100: 1},
        {"a" * n: 1 for n in range(1, 40)},
        {"ab" * 60: 1, "ba" * 60: 1},
        {"aab" * 40: 2, "baa" * 40: 1, "aba" * 40: 1},
        {fibonacci[-1]: 1, fibonacci[-1][::-1]: 1},
        {morse: 1, morse[::-1]: 2},
        {"a" * n + "b" + "a" * (30 - n): 1 for n in range(31)},
    ):
        for num_merges in (3, 200):
            check_byte_model(words, num_merges, tie_break)


@each_rule
def test_many_random_corpora(tie_break: str) -> None:
    """In addition to hypothesis's: 50 seeded random corpora per rule, each merged until no pair is left."""
    random_ = random.Random(f"corpora {tie_break}")
    order = reference.gpt2_byte_order()
    for _ in range(50 * SOAK):
        letters = "abcd"[: random_.randint(1, 4)]
        words = {
            "".join(random_.choices(letters, k=random_.choice((1, 2, 3, 5, 8, 13)))): random_.randint(
                1, random_.choice((1, 3, 9))
            )
            for _ in range(random_.randint(1, 10))
        }
        tok, learned = trained(counts=words, num_merges=10_000, tie_break=tie_break)
        expected = reference.train(
            {reference.byte_word(word.encode()): count for word, count in words.items()},
            tie_break=tie_break,
            alphabet=order,
        )
        assert_agrees(tok, learned, expected)
        assert tok.spec.training.stopped == "no pairs left"
        assert all(len(symbols) == 1 for symbols, _ in expected.words)


# Forms of the corpus --------------------------------------------------------------------------------------------------

SENTENCES = [
    "the low lower newest widest, isn't it?",
    "  two  spaces\n\nand lines\r\n",
    "영화를 영화관에서 보지 못한 것을",
    "吾輩は猫である。名前はまだ無い。",
    "aaaa abab aaab 1234567 😊😊",
    "",
]


def same(tok: bpe.Tokenizer, other: bpe.Tokenizer) -> None:
    assert tok == other
    assert tok.fingerprint == other.fingerprint
    assert tok.vocab() == other.vocab()
    assert np.array_equal(tok.merges, other.merges)


@each_rule
def test_training_from_texts_equals_the_oracle(tie_break: str) -> None:
    """Pretokens are counted in order of first appearance."""
    random_ = random.Random(5)
    texts = ["".join(random_.choices(SENTENCES, k=4)) for _ in range(30)]
    pretokenizer = Pretokenizer("gpt2")
    words = reference.count_words(piece for text in texts for piece in pretokenizer.split_bytes(text))
    tok, learned = trained(texts=texts, num_merges=120, tie_break=tie_break)
    expected = reference.train(
        {reference.byte_word(word): count for word, count in words.items()},
        num_merges=120,
        tie_break=tie_break,
        alphabet=reference.gpt2_byte_order(),
    )
    assert_agrees(tok, learned, expected)


@each_rule
@pytest.mark.parametrize("model", ["byte", "char"])
def test_threads_grouping_and_types_do_not_change_the_tokenizer(tie_break: str, model: str, tmp_path: Any) -> None:
    """Any number of threads, any grouping of documents, str or bytes, texts or files give the same tokenizer."""
    random_ = random.Random(7)
    documents = [
        "".join(random_.choices(SENTENCES, k=random_.randint(0, 6))) + random_.choice("xyz") for _ in range(90)
    ]
    options: dict[str, Any] = {
        "num_merges": 60,
        "rules": bpe.MergeRules(tie_break=tie_break),  # type: ignore[arg-type]
        "model": model,
        "pretokenizer": "gpt2",
        "special_tokens": ["<|endoftext|>"],
    }
    expected = bpe.train(texts=documents, threads=1, **options)
    for threads in (1, 2, 8, None):
        same(bpe.train(texts=documents, threads=threads, **options), expected)
    same(bpe.train(texts=iter(documents), **options), expected)
    same(bpe.train(texts=[document.encode() for document in documents], **options), expected)
    same(bpe.train(texts=[memoryview(document.encode()) for document in documents], **options), expected)
    for size in (1, 7, 90):
        groups = ["<|endoftext|>".join(documents[i : i + size]) for i in range(0, len(documents), size)]
        same(bpe.train(texts=groups, threads=2, **options), expected)
        paths = []
        for i, group in enumerate(groups[:20]):
            paths.append(tmp_path / f"{size}-{i}.txt")
            paths[-1].write_bytes(group.encode())
        part = bpe.train(texts=groups[:20], **options)
        same(bpe.train(files=paths, threads=2, **options), part)
        same(bpe.train(files=bpe.Sources(map(str, paths), separator="<|endoftext|>"), threads=2, **options), part)
    counts = bpe.count_words(texts=documents, pretokenizer="gpt2", special_tokens=["<|endoftext|>"])
    same(bpe.train(counts=counts, **options), expected)


@pytest.mark.parametrize("tie_break", ["id", "first"])
def test_threads_that_share_a_large_corpus(tie_break: str) -> None:
    """A corpus of many megabytes in many parts, as one document and as many."""
    random_ = random.Random(11)
    stems = ["".join(random_.choices("aeioustrnl", k=random_.randint(1, 9))) for _ in range(5000)]
    words = [random_.choice(stems) for _ in range(400_000)]
    whole = " ".join(words) * 5
    documents = [whole[i : i + 100_003] for i in range(0, len(whole), 100_003)]
    assert len(whole) > 9 << 20
    for texts in ([whole], documents):
        results = [
            bpe.train(texts=texts, num_merges=300, threads=threads, rules=bpe.MergeRules(tie_break=tie_break))
            for threads in (1, 2, 8)
        ]
        for result in results[1:]:
            same(result, results[0])


def test_default_rule_does_not_depend_on_the_order_of_documents() -> None:
    random_ = random.Random(13)
    documents = ["".join(random_.choices(SENTENCES, k=3)) for _ in range(60)]
    expected = bpe.train(texts=documents, num_merges=200)
    for _ in range(5):
        random_.shuffle(documents)
        same(bpe.train(texts=documents, num_merges=200), expected)


# Stopping -----------------------------------------------------------------------------------------------------------


def test_training_stops_when_no_pairs_are_left(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("bpe").setLevel(logging.NOTSET)
    with caplog.at_level(logging.WARNING, logger="bpe"):
        tok = bpe.train(counts={"abc": 2}, vocab_size=1000)
    assert tok.vocab_size == 258
    assert tok.spec.training.stopped == "no pairs left"
    assert "no pairs left" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="bpe"):
        tok = bpe.train(counts={"abc": 2, "xy": 1}, vocab_size=1000, min_frequency=2)
    assert tok.spec.training.stopped == "min_frequency"
    assert tok.vocab_size == 258
    assert "min_frequency" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="bpe"):
        tok = bpe.train(counts={"abc": 2}, vocab_size=258)
    assert tok.spec.training.stopped is None
    assert not caplog.text


def test_training_without_merges() -> None:
    tok = bpe.train(counts={"abc": 2}, num_merges=0)
    assert tok.vocab_size == 256
    assert tok.merges.shape == (0, 2)
    assert tok.spec.training.stopped is None
    assert tok.decode(tok.encode("abc é")) == "abc é"


def test_counts_have_64_bits() -> None:
    _, learned = trained(counts={"ab": 2**59, "abc": 2**60}, num_merges=2)
    assert learned == [(b"a", b"b", b"ab", 2**59 + 2**60), (b"ab", b"c", b"abc", 2**60)]


@each_rule
def test_counts_over_32_bits_do_not_wrap(tie_break: str) -> None:
    """If a count wrapped at 2**31 or 2**32, its pair would merge too late."""
    counts = {"ab": 2_500_000_000, "cd": 2_400_000_000, "ef": 2**40, "gh": 2**32 + 1, "ij": 2**31, "kl": 2_000_000_000}
    _, learned = trained(counts=counts, num_merges=6, tie_break=tie_break)
    assert [(token.decode(), count) for _, _, token, count in learned] == sorted(
        counts.items(), key=lambda item: -item[1]
    )
    _, learned = trained(counts={f"x{letter}": 2**31 - 1 for letter in "abcd"}, num_merges=1, model="char")
    assert learned[0][3] == 2**31 - 1
    _, learned = trained(counts={f"xy{letter}": 2**31 - 1 for letter in "abcd"}, num_merges=1, model="char")
    assert learned == [("x", "y", "xy", 4 * (2**31 - 1))]


def test_words_with_count_zero_are_ignored() -> None:
    tok, learned = trained(counts={"xy": 0, "ab": 1}, num_merges=5)
    assert learned == [(b"a", b"b", b"ab", 1)]
    assert tok.spec.training.stopped == "no pairs left"


def test_limit_alphabet_keeps_the_most_frequent_characters() -> None:
    """No merge contains another character."""
    tok, learned = trained(
        counts={"aab": 3, "axb": 2, "ba": 1},
        num_merges=9,
        model="char",
        limit_alphabet=2,
        unk_token="?",
        tie_break="first",
    )
    assert set(tok.vocab()) == {"?", "a", "b", "aa", "aab", "ba"}
    assert learned == [("a", "a", "aa", 3), ("aa", "b", "aab", 3), ("b", "a", "ba", 1)]
    assert tok.tokens("axb") == ["a", "?", "b"]
