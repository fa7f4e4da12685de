"""Superword vocabularies are encoded in two stages, with the ids of merging by rank."""

from __future__ import annotations

import random
from dataclasses import replace
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
from bpe.base._cpu import set_vector_level
from bpe.merge.two_stages import find_pretoken_rules
from bpe.pretokenize.pretokenizer import PipelinePretokenizer, Pretokenizer
from bpe.pretokenize.steps import DIGIT_GROUPS, ByteLevel, Digits, Split
from bpe.training.superwords import SuperWords

pytestmark = pytest.mark.usefixtures("quiet")

#: How a text is divided → the transition and what else makes the vocabulary.
KINDS = {"lines": SuperWords, "paper": SuperWords.paper, "v2": SuperWords.v2}
STEPS = PipelinePretokenizer(Digits(), Split(DIGIT_GROUPS), ByteLevel(use_regex=False))
WORDS = ["the", "end", "of", "a", "day", "in", "2024", "no", "by", "way", "é", "語", "日本", "it's", "--", "“so”"]
ENDS = ["\n", ".\n", ", ", ": ", "\r\n", "\n\n    ", "  ", "\t", "...", "\u00a0", " \n"]


def sentences(seed: int, n: int = 60) -> list[str]:
    """Texts that repeat phrases, so that tokens across words are learned."""
    chosen = random.Random(seed)
    phrases = [" ".join(chosen.choices(WORDS, k=chosen.randint(1, 7))) for _ in range(12)]
    return ["".join(chosen.choice(phrases) + chosen.choice(ENDS) for _ in range(6)) for _ in range(n)]


@cache
def tokenizer(kind: str, seed: int = 0) -> bpe.Tokenizer:
    """A small superword vocabulary."""
    superwords = KINDS[kind](320, max_words=None, forbidden=(), lines=seed != 1)
    return bpe.train(texts=sentences(seed), vocab_size=470, superwords=superwords)


def merged(tok: bpe.Tokenizer, data: bytes) -> list[int]:
    """The ids by the definition: the best pair of each unit again and again."""
    spec = tok.spec
    ranks = {tuple(pair): rank for rank, pair in enumerate(spec.merges.tolist())}
    results = {
        tuple(pair): result for pair, result in zip(spec.merges.tolist(), spec.merge_results.tolist(), strict=True)
    }
    ids: list[int] = []
    for unit in [data] if tok.pretokenizer is None else tok.pretokenizer.split_bytes(data):
        parts = [tok.token_id(bytes([byte])) for byte in unit]
        while True:
            pairs = [(ranks[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in ranks]
            if not pairs:
                break
            at = min(pairs)[1]
            parts[at : at + 2] = [results[parts[at], parts[at + 1]]]
        ids += parts
    return ids


#: Text of a few words, numbers, runs, any white space, longer characters, and bytes that are no UTF-8.
DATA = st.lists(
    st.one_of(
        st.sampled_from(WORDS + ENDS).map(str.encode),
        st.sampled_from(
            [" the end", " of the day", "\n\n", "1234567", "½12", "٣٤٥٦", "a" * 70, " " * 33, "=" * 20]
        ).map(str.encode),
        st.text(st.sampled_from("aB éßǅ日1½ \t\r\n\u3000\u00a0.,/-'\u0301\u200b\U0001f600\U00011f51"), max_size=6).map(
            str.encode
        ),
        st.binary(max_size=3),
    ),
    max_size=10,
).map(b"".join)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
@examples(7)
@given(data=DATA)
def test_ids_are_those_of_merging_by_rank(kind: str, seed: int, data: bytes) -> None:
    tok = tokenizer(kind, seed)
    assert tok._engine.encoder.high_merges is not None
    assert tok.encode(data).tolist() == merged(tok, data)


@pytest.mark.parametrize("kind", KINDS)
@examples(7)
@given(data=DATA)
def test_vocabularies_without_merges_across_words(kind: str, data: bytes) -> None:
    """Texts of a few bytes are divided into pretokens, too. Training that ends before the transition gives such."""
    tok = bpe.train(counts={b"'e": 9, b"en": 9, b"-1": 9}, num_merges=3, pretokenizer=KINDS[kind](256).pretokenizer)
    assert tok._engine.encoder.high_merges is None
    for text in (data.decode(errors="ignore"), "''end", "--1"):
        ids = merged(tok, text.encode())
        assert tok.encode(text).tolist() == ids
        assert tok.encode_batch([text]).to_list() == [ids]
        assert tok.count_tokens(text) == len(ids)


@pytest.mark.parametrize("normalizer", [None, "lower"])
@pytest.mark.parametrize("kind", KINDS)
@examples(7)
@given(data=DATA)
def test_pretokens_that_are_given_are_not_divided(kind: str, normalizer: str | None, data: bytes) -> None:
    """Whether a space before a number is a pretoken of its own, the characters after it say."""
    words = {b"> ": 9, b"-- ": 9, b" 1": 9, b"'e": 3}
    superwords = KINDS[kind](256)
    tok = bpe.train(counts=words, num_merges=5, pretokenizer=superwords.pretokenizer, normalizer=normalizer)
    for text in (data.decode(errors="ignore"), "a > 3", "-- 1 -- "):
        ids = tok.encode(text).tolist()
        assert ids == merged(tok, (text.lower() if normalizer else text).encode())
        assert tok.encode_with_offsets(text)[0].tolist() == ids
        assert tok.encode_with_offsets(text, convention="tokenizers")[0].tolist() == ids


@cache
def texts_and_ids(kind: str) -> tuple[list[str], list[list[int]]]:
    """Texts shorter and longer than a chunk, and their ids by the naive twin."""
    texts = [*sentences(5, 10), "", " ", "".join(sentences(6, 12)), "日本語" * 60 + " the end" * 100]
    return texts, [merged(tokenizer(kind), text.encode()) for text in texts]


@pytest.mark.parametrize("level", [0, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_encoding_gives_the_same_ids(kind: str, level: int, tmp_path: Path) -> None:
    """Batches, threads, files, streams, spans of offsets and counts, of texts shorter and longer than a chunk."""
    previous_level = set_vector_level(level)
    try:
        tok = bpe.Tokenizer(tokenizer(kind).spec)
        texts, expected = texts_and_ids(kind)
        assert [tok.encode(text).tolist() for text in texts] == expected
        for threads in (1, 2):
            assert [ids.tolist() for ids in tok.encode_batch(texts, threads=threads)] == expected
            path = tmp_path / "texts.txt"
            path.write_text("<|end|>".join(texts), newline="")
            assert [ids.tolist() for ids in tok.encode_files(path, separator="<|end|>", threads=threads)] == expected
        assert tok.count_tokens(texts[-2]) == len(expected[-2])
        stream = tok.encode_stream(texts[-2][i : i + 7] for i in range(0, len(texts[-2]), 7))
        assert np.concatenate(list(stream)).tolist() == expected[-2]
        for text, ids in zip(texts[:6], expected, strict=False):
            given, spans = tok.encode_with_offsets(text, unit="byte")
            assert given.tolist() == ids
            assert [text.encode()[a:b] for a, b in spans.tolist()] == [tok.token_bytes(token_id) for token_id in ids]
    finally:
        set_vector_level(3)
    assert previous_level <= level


@pytest.mark.parametrize("level", [0, 3])
def test_long_rows_of_joined_tokens(level: int) -> None:
    """Low tokens that are all joined, in numbers that need every way of merging, and across blocks and chunks."""
    texts = ["a a a a b a b b a a c a b\n" * 3] * 5
    tok = bpe.train(texts=texts, vocab_size=272, superwords=SuperWords(262, max_words=None))
    assert tok._engine.encoder.high_merges is not None
    chosen = random.Random(1)
    previous_level = set_vector_level(level)
    try:
        for n in (2, 3, 23, 24, 25, 64, 65, 256, 257, 400):
            for letters in ("a", "abc"):
                text = f"c c\n{' '.join(chosen.choices(letters, k=n))}"
                assert tok.encode(text).tolist() == merged(tok, text.encode())
    finally:
        set_vector_level(3)
    assert previous_level <= level


@pytest.mark.parametrize("apart", [True, False])
def test_short_numbers_with_and_without_merges_across_their_ends(apart: bool) -> None:
    """Numbers of one to three digits are no units of their own if no merge joins them to anything else."""
    texts = ["a 12 b 345 x7 1½ 2½ 6789 end\n", "12 b 345 x7\n"] * 4
    units = SuperWords.paper(300, max_words=None, forbidden=())
    tok = bpe.train(texts=texts, vocab_size=310, superwords=units if apart else SuperWords(300, max_words=None))
    tok = bpe.Tokenizer(replace(tok.spec, pretokenizer=units.pretokenizer))
    assert tok._engine.encoder.high_merges is not None
    chosen = random.Random(1)
    parts = ["a ", "12", " b ", "345", " x", "7", "½", "\u0663", "é", "語", "6789", "\n", "1", " end"]
    for text in ("".join(chosen.choices(parts, k=k)) for k in range(1, 60)):
        assert tok.encode(text).tolist() == merged(tok, text.encode())


@pytest.mark.parametrize("pretokenizer", [SuperWords.paper(300).pretokenizer, SuperWords.v2(300).pretokenizer, STEPS])
@examples(9)
@given(data=DATA)
def test_units_are_those_of_the_pretokenizer(pretokenizer: Any, data: bytes) -> None:
    """Without merges but of bytes in a unit, ids show where units end."""
    rules = find_pretoken_rules(pretokenizer)
    assert rules is not None
    tok = one_token_units(pretokenizer)
    sizes = [len(unit) for unit in pretokenizer.split_bytes(data)]
    ids = tok.encode(data)
    lengths = tok.token_byte_lengths[ids]
    ends = np.cumsum(lengths)
    assert set(np.cumsum(sizes).tolist()) <= set(ends.tolist())
    assert ids.tolist() == merged(tok, data)


@cache
def one_token_units(pretokenizer: Pretokenizer) -> bpe.Tokenizer:
    """A vocabulary whose merges cross everything that a unit's end does not forbid."""
    texts = ["12345 67890 .,.. a1b2 ½12 ٣٤٥٦٧ --  \n\n /// x  y\n"] * 3
    trained = bpe.train(texts=texts, vocab_size=330, superwords=SuperWords(300, max_words=None, forbidden=()))
    return bpe.Tokenizer(replace(trained.spec, pretokenizer=pretokenizer))


def test_which_vocabularies_have_two_stages() -> None:
    texts = sentences(0)
    plain = bpe.train(texts=texts, vocab_size=400, pretokenizer="gpt2")
    assert plain._engine.encoder.high_merges is None
    whole = bpe.train(texts=texts, vocab_size=400, pretokenizer=None)
    assert whole._engine.encoder.high_merges is None, "its merges join words from the first on"
    assert tokenizer("lines")._engine.encoder.high_merges is not None
    extended = bpe.extend(plain, SuperWords(400).count_words(2, texts=texts), 450, superwords=SuperWords(400))
    assert extended._engine.encoder.high_merges is not None
    data = "".join(texts[:3]).encode()
    assert extended.encode(data).tolist() == merged(extended, data)


def test_a_byte_without_a_token_is_refused() -> None:
    texts = sentences(0)
    tok = bpe.train(texts=texts, vocab_size=400, superwords=SuperWords(200), alphabet=bpe.Alphabet(initial="corpus"))
    assert tok._engine.encoder.high_merges is not None
    with pytest.raises(ValueError, match="Q"):
        tok.encode("the end of the Queue")
    assert tok.encode("the end of the day").tolist() == merged(tok, b"the end of the day")
