"""A tokenizer from a vocabulary and merges in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.text.letters import spell_token_in_letters

TEXTS = ["low lower lowest  newer", "naïve 한 \x00\n", "<|endoftext|> <a b>"]


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=TEXTS * 3, vocab_size=290, pretokenizer="cl100k", special_tokens=["<a b>", "<|endoftext|>"])


def parts(tok: bpe.Tokenizer, kind: str) -> tuple[Any, Any]:
    """A vocabulary and its merges, in one of the forms that are read."""
    specials = set(tok.special_tokens.values())
    tokens = {token_id: tok.token_bytes(token_id) for token_id in range(tok.n_vocab)}
    pairs = [(tokens[left], tokens[right]) for left, right in tok.merges.tolist()]
    if kind == "bytes":
        return {token: token_id for token_id, token in tokens.items()}, pairs
    letters = {
        token_id: token.decode() if token_id in specials else spell_token_in_letters(token)
        for token_id, token in tokens.items()
    }
    merges = [(spell_token_in_letters(left), spell_token_in_letters(right)) for left, right in pairs]
    vocab = {token: np.int64(token_id) for token_id, token in letters.items()}
    return vocab, merges if kind == "letters" else [" ".join(pair) for pair in merges]


@pytest.mark.parametrize("kind", ["bytes", "letters", "lines"])
def test_all_forms_give_the_same_tokenizer(tok: bpe.Tokenizer, kind: str) -> None:
    vocab, merges = parts(tok, kind)
    for merges_given in (merges, iter(merges), [list(pair) if isinstance(pair, tuple) else pair for pair in merges]):
        loaded = bpe.Tokenizer.from_vocab_merges(vocab, merges_given, "cl100k", tok.special_tokens, cache_memory="1M")
        assert loaded.encode_batch(TEXTS, allowed_special="all") == tok.encode_batch(TEXTS, allowed_special="all")
        assert (loaded.vocab(), loaded.special_tokens, loaded.cache_memory) == (
            tok.vocab(),
            tok.special_tokens,
            1 << 20,
        )


def test_a_file_and_what_is_in_memory(tok: bpe.Tokenizer, tmp_path: Path) -> None:
    vocab, merges = parts(tok, "lines")
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")
    (tmp_path / "vocab.json").write_text(
        json.dumps({token: int(token_id) for token, token_id in vocab.items()}), "utf-8"
    )
    expected = bpe.Tokenizer.from_vocab_merges(vocab, merges, None)
    for files_given in ((vocab, tmp_path / "merges.txt"), (str(tmp_path / "vocab.json"), merges)):
        assert bpe.Tokenizer.from_vocab_merges(*files_given, None) == expected
    assert expected.special_tokens == {"<|endoftext|>": tok.special_tokens["<|endoftext|>"]}


def test_the_ids_of_tokenizers(tok: bpe.Tokenizer) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="compares with the tokenizers package")
    vocab, merges = parts(tok, "letters")
    peer = tokenizers.Tokenizer(
        tokenizers.models.BPE({token: int(token_id) for token, token_id in vocab.items()}, merges)
    )
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    loaded = bpe.Tokenizer.from_vocab_merges(vocab, merges)
    for text in TEXTS[:2]:
        assert loaded.encode(text).tolist() == peer.encode(text).ids


VOCAB = {letter: token_id for token_id, letter in enumerate("low")}


@pytest.mark.parametrize(
    ("vocab", "merges", "kind", "message"),
    [
        ({1: 2}, [], TypeError, "a token of vocab is 1, an int; it must be bytes, or a str in GPT-2's letters"),
        ({"a": "x"}, [], TypeError, "the id of 'a' is 'x', a str; it must be an int"),
        ({"a": True}, [], TypeError, "the id of 'a' is True, a bool; it must be an int"),
        ({b" ": 1, "Ġ": 2}, [], bpe.FormatError, "'Ġ' occurs twice, as bytes and in letters"),
        ({"a": 1, "b": 1}, [], bpe.FormatError, "token id 1 is given twice"),
        ({"a": -1}, [], bpe.FormatError, "-1 is not a token id"),
        ({"\ud800": 1}, [], bpe.FormatError, "lone surrogate"),
        (VOCAB, ["l  o"], TypeError, r"merges\[0\] is 'l  o', a str; it must be a pair of tokens"),
        (VOCAB, ["l o", ("l", "o", "w")], TypeError, r"merges\[1\] is \('l', 'o', 'w'\), a tuple; it must be a pair"),
        (VOCAB, [("l", 3)], TypeError, r"a token of merges\[0\] is 3, an int"),
        (VOCAB, [(" ", "o")], bpe.FormatError, r"merges\[0\]: it is \(' ', 'o'\); tokens are bytes, or str in GPT-2's"),
        (VOCAB, [("\ud800", "o")], ValueError, "lone surrogate"),
        (VOCAB, [("x", "o")], bpe.FormatError, "'x o': its left part 'x' is not in the vocab"),
        (VOCAB, [("l", "o")], bpe.FormatError, "'lo'"),
        (VOCAB, 3, TypeError, "merges is 3, an int; it must be a path, or pairs of tokens"),
    ],
)
def test_what_does_not_fit_is_refused(vocab: Any, merges: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        bpe.Tokenizer.from_vocab_merges(vocab, merges)
