"""`bpe.combine` against a naive twin that encodes tokens by the definition of BPE, and what it promises of texts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from options import from_reference_options
from strategies import corpora, examples

import bpe
from bpe.formats import huggingface
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import NO_TOKEN, Vocabulary

pytestmark = pytest.mark.usefixtures("quiet")
KINDS: dict[str, dict[str, Any]] = {
    "byte": {},
    "specials": {"special_tokens": ["<s>", "aa"], "first_id": 5},
    "char": {"model": "char"},
    "unk": {"model": "char", "unk_token": "<unk>", "special_tokens": ["<s>"]},
    "mark": {"model": "char", "end_of_word": "</w>"},
    "glued": {"model": "char", "end_of_word": "_", "end_of_word_glued": True, "first_id": 1},
    "byte glued": {"end_of_word": "</w>", "end_of_word_glued": True, "initial_alphabet": "corpus"},
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def trained(words: dict[str, int], kind: str, num_merges: int) -> bpe.Tokenizer:
    options = from_reference_options(**KINDS[kind], num_merges=num_merges)
    return bpe.train(counts=words, pretokenizer=None, **options)


def list_bytes(tok: bpe.Tokenizer) -> dict[bytes, int]:
    """The bytes of all tokens with their ids."""
    return {tok.token_bytes(token_id): token_id for token_id in tok.vocab().values()}


# The naive twin -------------------------------------------------------------------------------------------------------

#: A token: its text without the mark, and whether it ends a word.
Token = tuple[bytes, bool]


def read_token(tok: bpe.Tokenizer, token_id: int) -> Token:
    spec, token = tok.spec, tok.token_bytes(token_id)
    ends = spec.ends_word is not None and bool(spec.ends_word[token_id])
    return (token[: len(token) - len((spec.end_of_word or "").encode())] if ends else token), ends


def spell(tok: bpe.Tokenizer, token: Token) -> tuple[Token, ...]:
    """The symbols of a token's text."""
    text, ends = token
    parts = reference.byte_word(text) if tok.model == "byte" else tuple(char.encode() for char in text.decode())
    if ends and not tok.spec.end_of_word_glued:
        return (*((part, False) for part in parts), (b"", True))
    return tuple((part, ends and i == len(parts) - 1) for i, part in enumerate(parts))


def encode_symbols(symbols: list[Token], ranks: dict[tuple[Token, Token], int]) -> list[Token]:
    """Merge the leftmost pair of the lowest rank, again and again."""
    while len(symbols) > 1:
        rank, at = min((ranks.get(pair, NO_TOKEN), at) for at, pair in enumerate(pairwise(symbols)))
        if rank == NO_TOKEN:
            break
        (left, _), (right, ends) = symbols[at : at + 2]
        symbols[at : at + 2] = [(left + right, ends)]
    return symbols


def combine_naively(a: bpe.Tokenizer, b: bpe.Tokenizer, n_free: int) -> list[tuple[Token, tuple[Token, Token] | None]]:
    """The tokens that are added, each with the pair that its merge joins."""
    tokens = {read_token(a, token_id): token_id for token_id in a.vocab().values()}
    taken_bytes = set(list_bytes(a))
    ranks = {tuple(read_token(a, i) for i in pair): rank for rank, pair in enumerate(a.merges.tolist())}
    order = [read_token(b, i) for i in sorted(b.vocab().values()) if i not in b.special_tokens.values()]
    added: list[tuple[Token, tuple[Token, Token] | None]] = []
    symbols = {symbol for token in order for symbol in spell(b, token) if symbol in order}
    mark = (b.spec.end_of_word or "").encode()
    for symbol in [token for token in order if token in symbols]:
        if symbol not in tokens and symbol[0] + mark * symbol[1] not in taken_bytes and len(added) < n_free:
            tokens[symbol] = -1
            added.append((symbol, None))
    while True:
        n_before = len(added)
        for token in order:
            if token in tokens or token[0] + mark * token[1] in taken_bytes or token in symbols:
                continue
            symbols_of_token = list(spell(b, token))
            parts = encode_symbols(symbols_of_token, ranks)
            if set(parts) <= set(tokens) and len(parts) == 2 and len(added) < n_free:
                ranks[parts[0], parts[1]] = len(ranks) + len(a.merges)
                tokens[token] = -1
                added.append((token, (parts[0], parts[1])))
        if len(added) == n_before:
            return added


@each_kind
@examples(4)
@given(
    first=corpora(), second=corpora(), n_first=st.integers(0, 15), n_second=st.integers(0, 25), free=st.integers(0, 30)
)
def test_the_combination_is_that_of_the_naive_twin(
    kind: str, first: dict[str, int], second: dict[str, int], n_first: int, n_second: int, free: int
) -> None:
    a, b = trained(first, kind, n_first), trained(second, kind, n_second)
    tok, new_ids, lost = bpe.combine(a, b, vocab_size=a.vocab_size + free)
    expected = combine_naively(a, b, free)
    assert tok.vocab().items() >= a.vocab().items()
    n_old = a.spec.vocabulary.limit
    assert [read_token(tok, n_old + i) for i in range(len(tok.vocab()) - len(a.vocab()))] == [t for t, _ in expected]
    assert tok.merges[: len(a.merges)].tolist() == a.merges.tolist()
    new_pairs = [tuple(read_token(tok, i) for i in pair) for pair in tok.merges[len(a.merges) :].tolist()]
    assert new_pairs == [pair for _, pair in expected if pair is not None]
    # Each token of b is the same token in the combination, or is listed as lost.
    lost_ids = [token.id for token in lost]
    for token, token_id in list_bytes(b).items():
        assert (new_ids[token_id] == -1) == (token_id in lost_ids)
        assert token_id in lost_ids or tok.token_bytes(int(new_ids[token_id])) == token
    assert [token.token for token in lost] == [b.token_bytes(token_id) for token_id in lost_ids]


@each_kind
@examples(3)
@given(first=corpora(), second=corpora(), n_first=st.integers(0, 15), n_second=st.integers(0, 25))
def test_texts_become_the_tokens_of_a_with_some_joined(
    kind: str, first: dict[str, int], second: dict[str, int], n_first: int, n_second: int
) -> None:
    a, b = trained(first, kind, n_first), trained(second, kind, n_second)
    tok, _, _ = bpe.combine(a, b)
    known = [c for c in "abcd" if c.encode() in list_bytes(a)]
    for size in range(1, 5):
        for letters in product(known, repeat=size):
            text = "".join(letters)
            try:
                before = np.cumsum([len(a.token_bytes(i)) for i in a.encode(text).tolist()]).tolist()
            except ValueError:  # a symbol that cannot end a word
                continue
            after = np.cumsum([len(tok.token_bytes(i)) for i in tok.encode(text).tolist()]).tolist()
            assert set(after) <= set(before), (text, before, after)
    if tok.spec.end_of_word is None:
        for token_id in range(a.spec.vocabulary.limit, tok.spec.vocabulary.limit):
            assert tok.encode(tok.token_bytes(token_id)).tolist() == [token_id]
        new_unreachable = [i for i in tok.unreachable().tolist() if i >= a.spec.vocabulary.limit]
        assert new_unreachable == []


@examples(5)
@given(words=corpora(), n_merges=st.integers(0, 30), n_first=st.integers(0, 30))
def test_a_vocabulary_combined_with_its_own_beginning_is_itself(
    words: dict[str, int], n_merges: int, n_first: int
) -> None:
    whole = trained(words, "byte", n_merges)
    beginning = trained(words, "byte", min(n_first, n_merges))
    if len(whole.unreachable()):
        return  # merging does not make each token, and then some get another merge here
    tok, new_ids, lost = bpe.combine(beginning, whole)
    assert tok.vocab() == whole.vocab()
    assert tok.merges.tolist() == whole.merges.tolist()
    assert new_ids.tolist() == list(range(whole.vocab_size))
    assert lost == ()
    assert bpe.combine(whole, beginning).tokenizer == whole
    assert bpe.combine(whole, beginning).tokenizer.spec.training == whole.spec.training


def test_what_is_lost_is_said() -> None:
    a = bpe.train(texts=["the then he he"], vocab_size=259, special_tokens=["<s>", "abc"])
    b = bpe.train(texts=["abc", "abc", "tha that tha 12 34 1234 1234"], vocab_size=285, special_tokens=["<s>", "<pad>"])
    spec = b.spec
    tok, new_ids, lost = bpe.combine(a, b)
    assert {token.token: token.reason for token in lost if token.id in spec.special_tokens.values()} == {
        b"<pad>": "it is a special token; add it with tok.with_tokens(special=[...])"
    }
    assert new_ids[b.special_tokens["<s>"]] == a.special_tokens["<s>"]
    reasons = {token.token: token.reason for token in lost}
    assert reasons[b"abc"] == "a has a special token of this name"
    assert str(next(token for token in lost if token.token == b"abc")).endswith(
        "b'abc': a has a special token of this name"
    )
    limited = bpe.combine(a, b, vocab_size=a.vocab_size + 1)
    assert limited.tokenizer.vocab_size == a.vocab_size + 1
    assert {token.reason for token in limited.lost} >= {"vocab_size is reached"}
    assert tok.special_tokens == a.special_tokens
    assert (
        repr(bpe.combine(a, b))
        == f"Combination(tokenizer={tok!r}, new_ids=<{b.n_vocab} ids>, lost=<{len(lost)} tokens>)"
    )


def test_tokens_that_the_preparation_of_a_divides_are_lost() -> None:
    """A token that the pretokenizer or the normalizer of the first tokenizer never leaves whole would be dead."""
    a = bpe.train(texts=["low lower"], vocab_size=260, pretokenizer="gpt2", normalizer="lower")
    b = bpe.train(counts={"rk ": 9, "rk": 9, "Yo": 4}, num_merges=3, pretokenizer=None)
    tok, _, lost = bpe.combine(a, b)
    reasons = {token.token: token.reason for token in lost}
    assert reasons == {
        b"rk ": "a prepares its text as b'rk', b' ', not as one pretoken that has it",
        b"Yo": "a prepares its text as b'yo', not as one pretoken that has it",
    }
    assert b"rk" in tok.vocab()
    for token_id in range(a.spec.vocabulary.limit, tok.spec.vocabulary.limit):
        text = tok.token_bytes(token_id).decode()
        assert any(token_id in tok.encode(before + text + after) for before, after in product(("", "x"), repeat=2))


def test_the_merges_of_a_may_cut_a_token_elsewhere() -> None:
    """b makes "the" of "th" and "e"; a merges "he" first, so the merge of "t" and "he" makes it."""
    a = bpe.train(counts={"he": 9}, vocab_size=257)
    b = bpe.train(counts={"th": 9, "the": 5}, vocab_size=258)
    tok, _, lost = bpe.combine(a, b)
    assert tok.tokens("the") == [b"the"]
    assert [[tok.token_bytes(i) for i in pair] for pair in tok.merges.tolist()] == [
        [b"h", b"e"],
        [b"t", b"h"],
        [b"t", b"he"],
    ]
    assert lost == ()


def test_a_token_that_becomes_three_is_tried_again_after_the_others() -> None:
    spec = TokenizerSpec(
        "char",
        Vocabulary([(i, token) for i, token in enumerate([b"a", b"b", b"c", b"d", b"bc"])]),
        np.array([[1, 2]], dtype=np.int32),
        np.array([4], dtype=np.int32),
    )
    other = TokenizerSpec(
        "char",
        Vocabulary([(i, t) for i, t in enumerate([b"a", b"b", b"c", b"d", b"ab", b"cd", b"abcd", b"abc"])]),
        np.array([[0, 1], [2, 3], [4, 5], [4, 2]], dtype=np.int32),
        np.array([4, 5, 6, 7], dtype=np.int32),
    )
    tok, new_ids, lost = bpe.combine(bpe.Tokenizer(spec), bpe.Tokenizer(other))
    assert list(tok.vocab())[5:] == ["ab", "cd", "abc", "abcd"]
    assert new_ids.tolist() == [0, 1, 2, 3, 5, 6, 8, 7]
    assert lost == ()
    _, _, lost = bpe.combine(bpe.Tokenizer(spec), bpe.Tokenizer(other).without_tokens([7])[0])
    assert [str(token) for token in lost] == ["6 b'abcd': its text becomes 3 tokens, b'a', b'bc', b'd'"]


def test_symbols_that_only_b_has_come_first() -> None:
    a = bpe.train(counts={"low": 2}, model="char", num_merges=1, alphabet=bpe.Alphabet(byte_fallback=True))
    b = bpe.train(counts={"가나": 2}, model="char", num_merges=1)
    tok, _, lost = bpe.combine(a, b)
    assert list(tok.vocab())[a.vocab_size :] == ["가", "나", "가나"]
    assert (len(a.encode("가나")), tok.tokens("가나", as_text=True)) == (6, ["가나"])
    assert lost == ()
    limited = bpe.combine(a, b, vocab_size=a.vocab_size + 1)
    assert {token.reason for token in limited.lost} == {"vocab_size is reached"}
    byte_tokens = bpe.combine(b, a).lost
    assert {token.reason for token in byte_tokens} == {"it is neither a symbol of b nor the result of a merge"}
    assert len(byte_tokens) == 256


def test_bytes_that_b_adds_are_known_to_the_combination() -> None:
    """A file of a tokenizer with all bytes does not say what is done with others."""
    b = bpe.train(counts={"low": 2}, num_merges=1)
    a = bpe.Tokenizer(replace(b.without_tokens([b.token_id("z")])[0].spec, drop_unknown=True))
    tok, _, _ = bpe.combine(a, b)
    assert not tok.spec.drop_unknown
    assert bpe.Tokenizer(huggingface.read(huggingface.write(tok.spec))) == tok
    assert bpe.combine(a, a).tokenizer == a


def test_published_vocabularies_combine(shared_vocab: Any) -> None:
    """The first 20,000 tokens of r50k and those of o200k: sizes, ids and texts fit, and the result can be saved."""
    a = bpe.Tokenizer.from_tiktoken(shared_vocab("r50k_base.tiktoken"), "gpt2").truncate_vocab(20_000)[0]
    b = bpe.Tokenizer.from_tiktoken(shared_vocab("cl100k_base.tiktoken"), "cl100k").truncate_vocab(30_000)[0]
    tok, _, lost = bpe.combine(a, b)
    assert tok.vocab().items() >= a.vocab().items()
    assert len(lost) + len(set(tok.vocab()) & set(b.vocab())) == b.vocab_size
    text = "The quick brown fox; 다람쥐 헌 쳇바퀴에 naïve façade, don't you\n\n    return x_1234 + self.foo" * 3
    assert len(tok.encode(text)) <= len(a.encode(text))
    assert tok.decode(tok.encode(text)) == text
    assert not (tok.unreachable() >= a.spec.vocabulary.limit).any()


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"model": "char"}, r"model of a is 'byte', and of b 'char'; only tokenizers with the same symbols"),
        (
            {"model": "char"},
            {"model": "char", "end_of_word": "</w>"},
            r"end_of_word of a is None, and of b '</w>'; only tokenizers with the same symbols can be combined",
        ),
    ],
    ids=["symbols", "marks"],
)
def test_tokenizers_with_other_symbols_are_refused(first: Any, second: Any, message: str) -> None:
    a, b = (bpe.train(counts={"low": 3}, num_merges=1, **options) for options in (first, second))
    with pytest.raises(ValueError, match=message):
        bpe.combine(a, b)


def test_other_arguments_are_refused() -> None:
    tok = bpe.train(counts={"low": 3}, vocab_size=258)
    with pytest.raises(TypeError, match=r"b is 'tok.json', a str; it must be a bpe.Tokenizer"):
        bpe.combine(tok, "tok.json")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a is None; it must be a bpe.Tokenizer"):
        bpe.combine(None, tok)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"vocab_size is 257, but the tokenizer has 258 tokens; it must be at least"):
        bpe.combine(tok, tok, vocab_size=257)
    picky = bpe.research.train_picky(texts=["low lower lowest"] * 3, vocab_size=260, threshold=0.9)
    with pytest.raises(ValueError, match=r"combining is not defined for a PickyBPE model"):
        bpe.combine(tok, picky)
    with pytest.raises(ValueError, match=r"extending is not defined for a PickyBPE model"):
        bpe.combine(picky, tok)
