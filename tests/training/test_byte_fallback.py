"""Training with byte fallback, character coverage and split digits, against a naive oracle and `tokenizers`."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from options import from_reference_options
from peers import Peer

import bpe

tokenizers = Peer("tokenizers")

SPECIALS = ["<unk>", "<s>", "</s>"]
DIGITS = set("0123456789０１２３４５６７８９")

#: Options that are refused.
INVALID_OPTIONS = [
    ({"byte_fallback": 1}, TypeError, "byte_fallback"),
    ({"split_digits": "yes"}, TypeError, "split_digits"),
    ({"character_coverage": "all"}, TypeError, "coverage is 'all'"),
    ({"character_coverage": 0}, ValueError, "above 0"),
    ({"character_coverage": float("nan")}, ValueError, "above 0"),
    ({"model": "byte", "byte_fallback": True}, ValueError, 'model="char"'),
    ({"model": "byte", "character_coverage": 0.9}, ValueError, 'model="char"'),
    ({"byte_fallback": True, "special_tokens": ["<0x41>"]}, ValueError, "<0x41>"),
    ({"byte_fallback": True, "end_of_word": "</w>"}, ValueError, "end_of_word"),
    ({"byte_fallback": True, "num_merges": None, "vocab_size": 10}, ValueError, "256 bytes"),
]


def naive_alphabet(counts, coverage):
    """The most frequent characters that cover that part of the corpus, sorted; SentencePiece's rule."""
    characters = Counter()
    for word, count in counts.items():
        for char in word:
            characters[char] += count
    kept, covered = [], 0
    for char, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if covered >= coverage * characters.total():
            break
        covered += count
        kept.append(char)
    return sorted(kept)


def naive_merges(counts, n_merges, alphabet, apart):
    """Merge the most frequent pair again and again, of equal ones that of the smallest ids; (merges, tokens by id)."""
    ids = {char: token_id for token_id, char in enumerate(alphabet)}
    words = [([char if char in ids and char not in apart else None for char in word], n) for word, n in counts.items()]
    merges = []
    while len(merges) < n_merges:
        pairs = Counter()
        for symbols, count in words:
            for pair in pairwise(symbols):
                if None not in pair:
                    pairs[pair] += count
        if not pairs:
            break
        left, right = max(pairs, key=lambda pair: (pairs[pair], -ids[pair[0]], -ids[pair[1]]))
        merges.append((left, right))
        ids.setdefault(left + right, len(ids))
        for symbols, _ in words:
            offset = 0
            while offset < len(symbols) - 1:
                if (symbols[offset], symbols[offset + 1]) == (left, right):
                    symbols[offset : offset + 2] = [left + right]
                offset += 1
    return merges, list(ids)


def random_counts(rng):
    characters = rng.choice(["ab12é한", "abcdeé😊12３", "▁abc9"])
    return {
        "▁" + "".join(rng.choices(characters, k=rng.randrange(1, 8))): rng.randrange(1, 50)
        for _ in range(rng.randrange(1, 40))
    }


@pytest.mark.parametrize("seed", range(12))
def test_merges_equal_the_naive_oracle_and_ids_those_of_tokenizers(seed, tmp_path):
    rng = random.Random(seed)
    counts = random_counts(rng)
    coverage, digits, fallback = rng.choice([1, 0.99, 0.9, 0.7]), rng.random() < 0.6, rng.random() < 0.7
    options = {
        "model": "char", "pretokenizer": None, "special_tokens": SPECIALS, "unk_token": "<unk>",
        "byte_fallback": fallback, "character_coverage": coverage, "split_digits": digits,
    }  # fmt: skip
    tok = bpe.train(counts=counts, num_merges=20, **from_reference_options(**options))
    merges, tokens = naive_merges(counts, 20, naive_alphabet(counts, coverage), DIGITS if digits else set())
    assert list(tok.vocab())[3 + 256 * fallback :] == tokens
    names = {token_id: token for token, token_id in tok.vocab().items()}
    assert [(names[left], names[right]) for left, right in tok.merges.tolist()] == merges
    half = bpe.train(counts=counts, num_merges=8, **from_reference_options(**options))
    assert bpe.extend(half, counts, tok.vocab_size, split_digits=digits) == tok
    tok.save(tmp_path / "tokenizer.json")
    assert bpe.Tokenizer.load(tmp_path / "tokenizer.json") == tok
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for _ in range(10):
        text = "".join(rng.choices("▁abc129é한😊xж \n", k=rng.randrange(30)))
        assert tok.encode(text).tolist() == peer.encode(text).ids
        assert tok.decode(peer.encode(text).ids) == peer.decode(peer.encode(text).ids, skip_special_tokens=False)
        if fallback:
            assert tok.decode(tok.encode(text)) == text


def test_every_text_has_ids_with_byte_fallback():
    tok = bpe.train(counts={"ab": 1}, num_merges=1, pretokenizer=None, alphabet=bpe.Alphabet(byte_fallback=True))
    assert tok.model == "char"
    assert tok.tokens("abé\n") == ["ab", "<0xC3>", "<0xA9>", "<0x0A>"]
    assert tok.decode(tok.encode("abé\n한😊")) == "abé\n한😊"
    assert tok.encode_with_offsets("é한")[1].tolist() == [[0, 1], [0, 1], [1, 2], [1, 2], [1, 2]]
    byte_tokens = [tok.token_id(f"<0x{byte:02X}>") for byte in range(256)]
    unreachable_ids = set(tok.unreachable().tolist())
    unreachable = [byte for byte in range(256) if byte_tokens[byte] in unreachable_ids]
    assert unreachable == [0x61, 0x62, 0xC0, 0xC1, *range(0xF5, 0x100)]
    pruned, _ = tok.without_tokens([byte_tokens[0xE9]])
    with pytest.raises(ValueError, match="not in the vocabulary"):
        pruned.encode("鏡")


def test_a_checkpoint_keeps_the_options(tmp_path):
    options = {
        "counts": {"ab1": 3, "abc2": 2, "é": 1}, "num_merges": 3, "byte_fallback": True, "pretokenizer": None,
        "character_coverage": 0.95, "split_digits": True, "checkpoint": tmp_path / "c",
    }  # fmt: skip
    tok = bpe.train(**from_reference_options(**options))
    assert bpe.train(**from_reference_options(**options)) == tok
    with pytest.raises(ValueError, match="split_digits"):
        bpe.train(**from_reference_options(**{**options, "split_digits": False}))
    with pytest.raises(ValueError, match="character_coverage"):
        bpe.train(**from_reference_options(**{**options, "character_coverage": 0.5}))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    INVALID_OPTIONS,
)
def test_options_are_checked(options, error, match):
    with pytest.raises(error, match=match):
        bpe.train(**from_reference_options(**{"counts": {"ab": 1}, "num_merges": 1, "pretokenizer": None, **options}))
