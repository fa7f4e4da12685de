"""Encoding equals the naive reference for every kind of model; special tokens, batches, `explain`."""

from __future__ import annotations

import base64
import random
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from strategies import examples

import bpe
from bpe.normalizers import NFC, CollapseWhitespace, Lowercase, Sequence, Strip
from bpe.pretokenize.patterns import NAMES
from bpe.pretokenize.pretokenizer import Pretokenizer

CORPUS = [
    "the low lower lowest newer newest widest, isn't it? It'S 12345 6!\n",
    "  aaaa abab aaab bbbb ababab\t\r\n\n aa ",
    "영화를 영화관에서 보는 내내 영화 보지",
    "吾輩は猫である。名前はまだ無い。猫猫猫",
    "Über Äpfel e\u0301e\u0301 😊😊 👩‍👩‍👧 naïve ＡＢＣ",
]
SPECIALS = ("<|endoftext|>", "<|end", "<pad>")
ATOMS = [
    *("the", "low", "er", "est", "new", " ", "  ", "\n", "\t", "a", "b", "aa", "ab", "ba", "'s", "'S", "'", "1", "23"),
    *("영화", "관에서", "보", "猫", "である", "。", "é", "e\u0301", "😊", "\u3000", "!", "Ü", "zz", "\0", "Ａ"),
    *SPECIALS,
]

OPTIONS: dict[str, dict[str, Any]] = {
    **{f"byte {name}": {"pretokenizer": name} for name in NAMES},
    "byte whole": {"pretokenizer": None},
    "byte regex": {"pretokenizer": Pretokenizer.from_regex(r"\w+|\s+")},
    "byte regex gaps": {"pretokenizer": Pretokenizer.from_regex("[ae]+", gaps="keep")},
    "byte prefix space": {"pretokenizer": Pretokenizer("gpt2", add_prefix_space=True)},
    "byte normalizer": {
        "pretokenizer": "gpt2",
        "normalizer": Sequence(NFC(), Lowercase(), CollapseWhitespace(), Strip()),
    },
    "byte corpus alphabet": {"pretokenizer": "gpt2", "initial_alphabet": "corpus", "unk_token": "<unk>"},
    "byte glued mark": {"pretokenizer": "clip", "end_of_word": "</w>", "end_of_word_glued": True},
    "byte own mark": {"pretokenizer": "whitespace", "end_of_word": "</w>"},
    "byte first id": {"pretokenizer": "gpt2", "alphabet": bpe.Alphabet(first_id=1000)},
    "char": {"model": "char", "unk_token": "<unk>"},
    "char gpt2": {"model": "char", "pretokenizer": "gpt2", "unk_token": "<unk>"},
    "char whole": {"model": "char", "pretokenizer": None, "unk_token": "<unk>"},
    "char own mark": {"model": "char", "end_of_word": "</w>", "unk_token": "<unk>"},
    "char glued mark": {"model": "char", "end_of_word": "</w>", "end_of_word_glued": True, "unk_token": "<unk>"},
    "char odd mark": {"model": "char", "end_of_word": "·", "unk_token": "<unk>", "limit_alphabet": 20},
    "char special unknown": {"model": "char", "unk_token": "<pad>"},
}
each_model = pytest.mark.parametrize("kind", OPTIONS)


@cache
def model(kind: str) -> bpe.Tokenizer:
    return bpe.train(texts=CORPUS, num_merges=90, special_tokens=SPECIALS, **from_reference_options(**OPTIONS[kind]))


class Naive:
    """Encodes in the naive way, from a tokenizer's public attributes."""

    def __init__(self, tok: bpe.Tokenizer) -> None:
        self.tok = tok
        self.chars = tok.model == "char"
        self.ids: dict[Any, int] = dict(tok.vocab())
        for name in (*tok.special_tokens, *([tok.spec.unk_token] if tok.spec.unk_token else [])):
            self.ids.pop(name if self.chars else name.encode(), None)
        names = {token_id: token for token, token_id in self.ids.items()}
        self.ranks = {(names[a], names[b]): rank for rank, (a, b) in enumerate(tok.merges.tolist())}
        self.unknown = None if tok.spec.unk_token is None else tok.token_id(tok.spec.unk_token)

    def symbols(self, piece: bytes) -> tuple[Any, ...]:
        mark, glued = self.tok.spec.end_of_word, self.tok.spec.end_of_word_glued
        if self.chars:
            return reference.char_word(piece.decode(), mark, glued)
        word = reference.byte_word(piece)
        if mark is None or not word:
            return word
        return (*word[:-1], word[-1] + mark.encode()) if glued else (*word, mark.encode())

    def segment(self, text: str) -> list[Any]:
        """The tokens of a text without special tokens."""
        if self.tok.normalizer is not None:
            text = self.tok.normalizer(text)
        cut = self.tok.pretokenizer
        pieces = [text.encode()] if cut is None else cut.split_bytes(text)
        return [token for piece in pieces if piece for token in reference.encode_word(self.symbols(piece), self.ranks)]

    def encode(self, text: str, allowed: tuple[str, ...] = ()) -> list[int]:
        ids: list[int] = []
        for part, special in reference.split_specials(text, allowed):
            if special:
                ids.append(self.tok.special_tokens[part])
            else:
                unknown = -1 if self.unknown is None else self.unknown
                ids += [self.ids.get(token, unknown) for token in self.segment(part)]
        return ids


@cache
def naive(kind: str) -> Naive:
    return Naive(model(kind))


texts_of_atoms = st.lists(st.sampled_from(ATOMS), max_size=14).map("".join)


# Naive reference ------------------------------------------------------------------------------------------------------


@each_model
@examples(5)
@given(text=texts_of_atoms, allowed=st.sampled_from([(), SPECIALS, SPECIALS[:1], SPECIALS[1:]]))
def test_encoding_equals_the_naive_reference(kind: str, text: str, allowed: tuple[str, ...]) -> None:
    tok = model(kind)
    expected = naive(kind).encode(text, allowed)
    ids = tok.encode(text, allowed_special=allowed)
    assert ids.tolist() == expected
    assert (ids.dtype, ids.ndim) == (np.uint32, 1)
    for same in (text.encode(), bytearray(text.encode()), memoryview(text.encode())):
        assert tok.encode(same, allowed_special=allowed).tolist() == expected
    assert tok.count_tokens(text, allowed_special=allowed) == len(expected)
    if not allowed:
        assert tok.encode(text).tolist() == expected
        assert tok.encode_batch([text, text]).to_list() == [expected, expected]


@each_model
@examples(4)
@given(text=texts_of_atoms)
def test_tokens_are_those_of_the_ids(kind: str, text: str) -> None:
    tok = model(kind)
    unknown = None if tok.spec.unk_token is None else tok.token_id(tok.spec.unk_token)
    ids = tok.encode(text).tolist()
    names = {token_id: token for token, token_id in tok.vocab().items()}
    tokens = tok.tokens(text)
    assert tokens == [names[token_id] for token_id in ids]
    assert all(isinstance(token, str if tok.model == "char" else bytes) for token in tokens)
    if unknown is not None and unknown in ids:
        assert (tok.spec.unk_token if tok.model == "char" else tok.spec.unk_token.encode()) in tokens
    with_special = tok.tokens(text, allowed_special="all")
    assert with_special == [names[token_id] for token_id in tok.encode(text, allowed_special="all").tolist()]


@each_model
@examples(4)
@given(texts=st.lists(texts_of_atoms, max_size=8), allowed=st.sampled_from([(), "all", SPECIALS[1:]]))
def test_batches_equal_single_texts(kind: str, texts: list[str], allowed: Any) -> None:
    tok = model(kind)
    expected = [tok.encode(text, allowed_special=allowed).tolist() for text in texts]
    for threads in (1, 2, 8, None):
        batch = tok.encode_batch(texts, threads=threads, allowed_special=allowed)
        assert batch.to_list() == expected
        assert batch.ids.dtype in (np.uint16, np.uint32)
        assert batch.offsets.dtype == np.int64
    assert tok.encode_batch(iter([text.encode() for text in texts]), allowed_special=allowed).to_list() == expected
    lengths = tok.count_tokens(texts, allowed_special=allowed)
    assert lengths.dtype == np.int64
    assert lengths.tolist() == [len(row) for row in expected]


@pytest.mark.parametrize("kind", ["byte gpt2", "byte cl100k", "byte whole", "byte normalizer", "char own mark"])
def test_large_batches_are_the_same_on_any_number_of_threads(kind: str) -> None:
    """Batches of megabytes, so that threads share them: many texts, a few long ones, some empty ones."""
    tok = model(kind)
    random_ = random.Random(kind)
    texts = ["".join(random_.choices(ATOMS, k=random_.choice((0, 3, 50, 400)))) for _ in range(1000)]
    texts += ["", "".join(random_.choices(ATOMS, k=60_000)), ""]
    if kind == "byte whole":
        texts = texts[:500]
    expected = tok.encode_batch(texts, threads=1)
    for threads in (2, 8):
        assert tok.encode_batch(texts, threads=threads) == expected
    assert tok.encode_batch(texts, threads=2, allowed_special="all") == tok.encode_batch(
        texts, threads=1, allowed_special="all"
    )
    for at in range(0, len(texts), 97):
        assert expected[at].tolist() == tok.encode(texts[at]).tolist()
    assert expected[3].tolist() == naive(kind).encode(texts[3])


@examples(22)
@given(
    data=st.binary(max_size=40),
    more=st.lists(st.sampled_from([b"\xff", b"low", b" ", b"\xed\x98\x81", b"\xe3\x81", b"aa", b"\n"])),
)
def test_byte_models_encode_any_bytes(data: bytes, more: list[bytes]) -> None:
    """Bytes that are not UTF-8 have ids like all others and decode to themselves."""
    data += b"".join(more)
    for kind in ("byte gpt2", "byte cl100k", "byte o200k", "byte whole", "byte regex gaps"):
        tok, plain = model(kind), naive(kind)
        cut = tok.pretokenizer
        pieces = [data] if cut is None else cut.split_bytes(data)
        expected = [
            plain.ids[token] for piece in pieces for token in reference.encode_word(plain.symbols(piece), plain.ranks)
        ]
        assert tok.encode(data).tolist() == expected
        assert tok.decode_bytes(expected) == data


# Ranks ----------------------------------------------------------------------------------------------------------------


def rank_file(folder: Path, ranks: dict[bytes, int]) -> Path:
    path = folder / "ranks.tiktoken"
    path.write_bytes(
        b"".join(base64.b64encode(token) + b" " + str(rank).encode() + b"\n" for token, rank in ranks.items())
    )
    return path


@st.composite
def rank_vocabularies(draw: st.DrawFn) -> dict[bytes, int]:
    """All bytes and some tokens of a few letters, in any order, even in orders that training cannot produce."""
    words = draw(st.lists(st.text("abc", min_size=2, max_size=6).map(str.encode), unique=True, max_size=25))
    tokens = [bytes([byte]) for byte in range(256)]
    index = draw(st.sampled_from([0, 97, 98, 256]))
    tokens[index:index] = words
    return {token: rank for rank, token in enumerate(tokens)}


@examples(10)
@given(ranks=rank_vocabularies(), texts=st.lists(st.text("abcd", max_size=25), min_size=1, max_size=8))
def test_any_ranks_follow_tiktokens_rule(tmp_path_factory: Any, ranks: dict[bytes, int], texts: list[str]) -> None:
    tok = bpe.Tokenizer.from_tiktoken(rank_file(tmp_path_factory.mktemp("ranks"), ranks), None)
    for text in texts:
        assert tok.encode(text).tolist() == (reference.tiktoken_encode(text.encode(), ranks) if text else [])


@examples(8)
@given(
    words=st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=10, unique=True),
    texts=st.lists(st.text("abc", max_size=30), min_size=1, max_size=8),
    size=st.integers(256, 300),
)
def test_ranks_of_a_trained_vocabulary_encode_like_its_merges(
    tmp_path_factory: Any, words: list[str], texts: list[str], size: int
) -> None:
    """With the tokens of a trained model as ranks, tiktoken's rule and the merges agree."""
    trained = bpe.train(counts=dict.fromkeys(words, 1), vocab_size=size, pretokenizer=None)
    tok = bpe.Tokenizer.from_tiktoken(rank_file(tmp_path_factory.mktemp("ranks"), trained.vocab()), None)
    for text in texts:
        expected = reference.tiktoken_encode(text.encode(), trained.vocab()) if text else []
        assert tok.encode(text).tolist() == expected
        assert trained.encode(text).tolist() == expected
    assert np.array_equal(tok.merges, trained.merges)


@examples(14)
@given(ranks=rank_vocabularies(), text=st.text("abcd \n", max_size=40))
def test_any_ranks_equal_tiktoken(tmp_path_factory: Any, ranks: dict[bytes, int], text: str) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    peer = tiktoken.Encoding("made up", pat_str=reference.CL100K, mergeable_ranks=ranks, special_tokens={})
    tok = bpe.Tokenizer.from_tiktoken(rank_file(tmp_path_factory.mktemp("ranks"), ranks), "cl100k")
    assert tok.encode(text).tolist() == peer.encode(text)


# Long runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["byte gpt2", "byte cl100k", "byte o200k", "byte whole", "byte glued mark", "char", "char own mark"]
)
def test_a_million_letters_round_trip(kind: str) -> None:
    """A million times one letter, and a million letters without a space, decode to themselves; with others, fewer."""
    tok = model(kind)
    random_ = random.Random(2)
    size = 1_000_000 if kind in ("byte gpt2", "char") else 150_000
    for text in ("a" * size, "ab" * (size // 2), "".join(random_.choices("abelnorstw", k=size)), "영화" * (size // 3)):
        ids = tok.encode(text)
        assert tok.decode(ids) == text
        assert len(ids) < len(text) or "b" in text


@pytest.mark.parametrize("kind", ["byte gpt2", "byte whole", "char", "char glued mark"])
def test_words_of_all_lengths_equal_the_naive_reference(kind: str) -> None:
    """Lengths around those at which the encoder changes its method; runs and random words."""
    tok, plain = model(kind), naive(kind)
    random_ = random.Random(3)
    for size in (*range(1, 70), 127, 128, 129, 255, 256, 257, 600):
        for text in (
            "a" * size,
            "ab" * (size // 2),
            "".join(random_.choices("abelnorstw", k=size)),
            ("영화관" * size)[:size],
        ):
            assert tok.encode(text).tolist() == plain.encode(text)


def test_more_words_than_the_cache_holds() -> None:
    """The second pass has the ids of the first."""
    tok = model("byte gpt2")
    random_ = random.Random(4)
    words = ["".join(random_.choices("abelnorstw영", k=random_.randint(1, 25))) for _ in range(40_000)]
    text = " ".join(words)
    first = tok.encode(text)
    assert np.array_equal(tok.encode(text), first)
    plain = naive("byte gpt2")
    assert tok.encode(" ".join(words[-300:])).tolist() == plain.encode(" ".join(words[-300:]))
    shuffled = words[:]
    random_.shuffle(shuffled)
    rows = tok.encode_batch([" " + word for word in shuffled])
    by_word = dict(zip(shuffled, rows.to_list(), strict=True))
    assert tok.encode(" " + text).tolist() == [token_id for word in words for token_id in by_word[word]]


# Special tokens -------------------------------------------------------------------------------------------------------


def test_allowed_and_disallowed_special_tokens() -> None:
    tok = model("byte gpt2")
    text = "low<|endoftext|>low<pad>"
    end, pad = tok.special_tokens["<|endoftext|>"], tok.special_tokens["<pad>"]
    plain = tok.encode(text).tolist()
    assert not {end, pad} & set(plain)
    assert tok.decode(plain) == text
    low = tok.encode("low").tolist()
    assert tok.encode(text, allowed_special="all").tolist() == [*low, end, *low, pad]
    assert tok.encode(text, allowed_special={"<pad>"}).tolist() == [*tok.encode("low<|endoftext|>low").tolist(), pad]
    assert tok.encode(text, allowed_special=["<|endoftext|>"])[len(low)] == end
    assert tok.encode(text, disallowed_special=()).tolist() == plain
    for disallowed in ("all", {"<pad>"}, ["<pad>", "<|endoftext|>"]):
        with pytest.raises(ValueError, match=r"(?s)disallowed special token .*allowed_special=.*ordinary text.*'all'"):
            tok.encode(text, disallowed_special=disallowed)
        with pytest.raises(ValueError, match="disallowed special token"):
            tok.encode_batch(["low", text], disallowed_special=disallowed)
        with pytest.raises(ValueError, match="disallowed special token"):
            tok.count_tokens(text.encode(), disallowed_special=disallowed)
    with pytest.raises(ValueError, match=r"'<\|endoftext\|>' at byte 3"):
        tok.encode(text, allowed_special={"<pad>"}, disallowed_special="all")
    assert tok.encode("low", disallowed_special="all").tolist() == low
    assert tok.encode(text, allowed_special="all", disallowed_special="all").tolist() == [*low, end, *low, pad]
    with pytest.raises(ValueError, match=r"allowed_special has \['<nope>'\], which this tokenizer does not have"):
        tok.encode("low", allowed_special={"<nope>"})
    with pytest.raises(TypeError, match=r'allowed_special is \'<pad>\'; it must be "all" or a collection'):
        tok.encode("low", allowed_special="<pad>")


def test_the_longer_special_token_is_found() -> None:
    tok = model("byte gpt2")
    ids = tok.special_tokens
    assert tok.encode("<|endoftext|><|end", allowed_special="all").tolist() == [ids["<|endoftext|>"], ids["<|end"]]
    text = tok.encode("oftext|>").tolist()
    assert tok.encode("<|endoftext|>", allowed_special={"<|end"}).tolist() == [ids["<|end"], *text]


def test_special_tokens_as_in_tiktoken(tmp_path: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"lo": 256, b"low": 257}
    special = {"<|endoftext|>": 260, "<pad>": 300}
    tok = bpe.Tokenizer.from_tiktoken(rank_file(tmp_path, ranks), "gpt2", special)
    peer = tiktoken.Encoding("made up", pat_str=reference.GPT2, mergeable_ranks=ranks, special_tokens=special)
    text = "low<|endoftext|> low<pad>\n<|endoftext|>"
    for allowed in ((), {"<pad>"}, "all"):
        kept = allowed if allowed == "all" else set(allowed)
        assert tok.encode(text, allowed_special=allowed).tolist() == peer.encode(
            text, allowed_special=kept, disallowed_special=()
        )
    assert tok.encode(text).tolist() == peer.encode_ordinary(text)
    assert tok.vocab_size == 260
    assert tok.decode([260, 257, 300]) == "<|endoftext|>low<pad>"


def test_special_tokens_are_found_before_normalization() -> None:
    """Special tokens are searched in the original text; only the text around them is normalized."""
    tok = bpe.train(texts=["low"], num_merges=2, special_tokens=["<PAD>"], normalizer=Lowercase())
    assert tok.decode(tok.encode("LOW<PAD>LOW", allowed_special="all")) == "low<PAD>low"
    assert tok.encode("<pad>", allowed_special="all").tolist() == tok.encode("<PAD>").tolist()


# Unknown symbols ------------------------------------------------------------------------------------------------------


def test_symbols_outside_the_alphabet_are_unknown_or_refused() -> None:
    tok = bpe.train(counts={"hug": 3, "pug": 1}, num_merges=2, model="char")
    for text, char in (("hug bog", "b"), ("한", "한"), ("ugly", "l"), (b"hog", "o")):
        with pytest.raises(
            ValueError, match=rf"character '{char}' of the text .* is not in the vocabulary, .*unk_token='<unk>'"
        ):
            tok.encode(text)
        with pytest.raises(ValueError, match=rf"character '{char}'"):
            tok.encode_batch(["hug", text])
        with pytest.raises(ValueError, match=rf"character '{char}'"):
            tok.count_tokens([text])
    assert tok.tokens("hug bog") == ["hug", "b", "o", "g"]
    assert tok.encode("hug").tolist() == [tok.token_id("hug")]
    bytes_ = bpe.train(counts={"hug": 3}, num_merges=2, alphabet=bpe.Alphabet(initial="corpus"))
    with pytest.raises(ValueError, match="byte 0x62 of the text 'bug' is not in the vocabulary"):
        bytes_.encode("bug")
    assert bytes_.tokens("bug") == [b"b", b"ug"] if b"ug" in bytes_.vocab() else [b"b", b"u", b"g"]


def test_each_unknown_symbol_is_one_token() -> None:
    tok = bpe.train(counts={"hug": 3, "pug": 1}, num_merges=2, model="char", unk_token="?")
    assert tok.tokens("xxug 한hug") == ["?", "?", "ug", "?", "hug"]
    assert tok.encode("xx").tolist() == [tok.token_id("?")] * 2
    assert tok.token_id("?") == 0
    glued = bpe.train(
        counts={"hug": 3}, num_merges=2, model="char", unk_token="?", end_of_word="_", end_of_word_glued=True
    )
    assert glued.tokens("gux") == ["g", "u", "?"]
    own = bpe.train(counts={"hug": 3}, num_merges=2, model="char", unk_token="?", end_of_word="_")
    assert own.tokens("hux") == ["hu", "?", "_"]


# Other texts ----------------------------------------------------------------------------------------------------------


@each_model
def test_empty_texts(kind: str) -> None:
    tok = model(kind)
    for text in ("", b"", bytearray(), memoryview(b"")):
        ids = tok.encode(text)
        assert ids.tolist() == []
        assert ids.dtype == np.uint32
        assert tok.encode(text, allowed_special="all").tolist() == []
        assert tok.tokens(text) == []
        assert tok.count_tokens(text) == 0
    for texts in ([], (), iter([])):
        batch = tok.encode_batch(texts)
        assert len(batch) == 0
        assert batch.offsets.tolist() == [0]
        assert batch.ids.dtype == np.uint32
    assert tok.encode_batch(["", ""]).to_list() == [[], []]
    assert tok.count_tokens([]).tolist() == []
    assert isinstance(tok.explain(""), str)


def test_lone_surrogates_become_replacement_characters() -> None:
    """A lone surrogate becomes U+FFFD, a pair its character, as in tiktoken."""
    high, low = chr(0xD83D), chr(0xDE0A)
    for kind in OPTIONS:
        tok = model(kind)
        assert tok.encode(f"low{high}{low}").tolist() == tok.encode("low😊").tolist()
        assert tok.encode(f"low{high} {low}").tolist() == tok.encode("low\ufffd \ufffd").tolist()
        assert tok.encode_batch([f"{low}low"]).to_list() == [tok.encode("\ufffdlow").tolist()]
        assert (
            tok.encode(f"{high}<pad>", allowed_special="all").tolist()
            == tok.encode("\ufffd<pad>", allowed_special="all").tolist()
        )
        with pytest.raises(ValueError, match="disallowed special token '<pad>'"):
            tok.encode(f"{high}<pad>", disallowed_special="all")


@pytest.mark.parametrize("text", [None, 3, 1.5, ["a"], {"a"}, object()])
def test_values_that_are_not_text_are_refused(text: Any) -> None:
    tok = model("byte gpt2")
    for call in (tok.encode, tok.tokens, tok.explain):
        with pytest.raises(TypeError, match=r"text is .*; it must be str or bytes"):
            call(text)
    with pytest.raises(TypeError, match=r"text 1 is .*; it must be str or bytes"):
        tok.encode_batch(["a", text])
    with pytest.raises(TypeError):
        tok.encode(text, disallowed_special="all")


@pytest.mark.parametrize("texts", ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_one_text_instead_of_a_batch_is_refused(texts: Any) -> None:
    with pytest.raises(TypeError, match=r"texts is one \w+; it must be an iterable of texts: \["):
        model("byte gpt2").encode_batch(texts)


def test_threads_argument() -> None:
    tok = model("byte gpt2")
    for threads, error in ((0, ValueError), (-1, ValueError), (1.0, TypeError), ("2", TypeError)):
        with pytest.raises(error, match=r"threads is .*; it must be"):
            tok.encode_batch(["a"], threads=threads)


def test_results_are_writable_copies() -> None:
    tok = model("byte gpt2")
    ids = tok.encode("low lower")
    expected = ids.tolist()
    ids[:] = 0
    assert tok.encode("low lower").tolist() == expected


def test_buffers_that_are_not_contiguous() -> None:
    data = memoryview(b"l.o.w. .l.o.w.")[::2]
    assert model("byte gpt2").encode(data).tolist() == model("byte gpt2").encode("low low").tolist()


# explain --------------------------------------------------------------------------------------------------------------


@each_model
def test_explain_shows_every_merge(kind: str) -> None:
    tok = model(kind)
    explained = tok.explain("lowest newest")
    assert len(explained.splitlines()) > 4
    assert "rank" in explained
    for token_id in tok.encode("lowest newest").tolist():
        assert str(token_id) in explained
    assert isinstance(tok.explain("zz 한 \0"), str)
    assert isinstance(tok.explain(b"zz \xed\x95\x9c"), str)


# The vocabulary -------------------------------------------------------------------------------------------------------


@each_model
def test_token_and_id_lookups(kind: str) -> None:
    tok = model(kind)
    vocab = tok.vocab()
    assert len(vocab) == tok.vocab_size == len(tok)
    lengths = tok.token_byte_lengths
    assert lengths.dtype == np.uint32
    for token, token_id in vocab.items():
        data = token.encode() if isinstance(token, str) else token
        assert tok.token_bytes(token_id) == data
        assert tok.token_id(token) == token_id
        assert lengths[token_id] == len(data)
    for name, token_id in tok.special_tokens.items():
        assert tok.token_id(name) == token_id
    first = tok.spec.vocabulary.limit - tok.vocab_size
    assert sorted(vocab.values()) == list(range(first, first + tok.vocab_size))
    assert tok.merges.shape == (len(tok.merges), 2)
    assert tok.merges.dtype == np.int32
    merged_tokens = [tok.token_bytes(a) + tok.token_bytes(b) for a, b in tok.merges.tolist()]
    assert tok.spec.ranks() == {token: rank for rank, token in reversed(list(enumerate(merged_tokens)))}
    for wrong in (-1, tok.spec.vocabulary.limit, 2**40):
        with pytest.raises(ValueError, match=r"(token id|token_id) (is )?-?\d+"):
            tok.token_bytes(wrong)
    with pytest.raises(ValueError, match="'no such token' is no token of this vocabulary"):
        tok.token_id("no such token")
    with pytest.raises(TypeError, match="token is 3, an int; it must be str or bytes"):
        tok.token_id(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="token_id is 'a', a str; it must be an int"):
        tok.token_bytes("a")  # type: ignore[arg-type]


def test_a_tokenizers_arrays_are_read_only() -> None:
    """The arrays that a tokenizer returns cannot be used to change it."""
    tok = bpe.train(texts=CORPUS, num_merges=20)
    expected = tok.encode(CORPUS[0]).tolist()
    before = tok.fingerprint
    for array in (tok.merges, tok.token_byte_lengths):
        with suppress(ValueError):
            array[:] = 0
    tok.vocab().clear()
    tok.special_tokens["x"] = 3
    assert tok.encode(CORPUS[0]).tolist() == expected
    assert tok.merges.any()
    assert bpe.Tokenizer(tok.spec).fingerprint == before


def test_tokenizers_are_compared_by_content(tmp_path: Path) -> None:
    kinds = [model(kind) for kind in OPTIONS]
    assert len({tok.fingerprint for tok in kinds}) == len(kinds)
    assert len(set(kinds)) == len(kinds)
    retrained = bpe.train(texts=CORPUS, num_merges=90, special_tokens=SPECIALS, pretokenizer="gpt2")
    assert retrained == model("byte gpt2")
    assert hash(retrained) == hash(model("byte gpt2"))
    assert retrained != bpe.train(texts=CORPUS, num_merges=89, special_tokens=SPECIALS, pretokenizer="gpt2")
    assert retrained != "tokenizer"
    assert bpe.Tokenizer(retrained.spec) == retrained
    assert retrained.fingerprint[:12] in repr(retrained)
    assert len(retrained.fingerprint) == 64
    with pytest.raises(TypeError, match="spec is 3, an int"):
        bpe.Tokenizer(3)  # type: ignore[arg-type]


@each_model
def test_saved_and_loaded_tokenizers_are_equal(kind: str, tmp_path: Path) -> None:
    tok = model(kind)
    tok.save(tmp_path / "tokenizer.json")
    reloaded = bpe.Tokenizer.load(tmp_path / "tokenizer.json")
    assert reloaded == tok
    if tok.spec.training is not None:
        assert reloaded.spec.training == replace(tok.spec.training, seconds=0.0)
    random_ = random.Random(kind)
    for _ in range(50):
        text = "".join(random_.choices(ATOMS, k=12))
        assert reloaded.encode(text, allowed_special="all").tolist() == tok.encode(text, allowed_special="all").tolist()
        assert reloaded.decode(reloaded.encode(text)) == tok.decode(tok.encode(text))
