"""Character models, trained by `tokenizers`, whose end-of-word suffix also occurs inside words: its ids and spans."""

from __future__ import annotations

import random

import numpy as np
import pytest
from peers import Peer
from strategies import SOAK

import bpe
from bpe.formats.huggingface import read, write
from bpe.vocab.spec import text_can_spell_mark

tokenizers = Peer("tokenizers")
models = Peer("tokenizers.models")
pre_tokenizers = Peer("tokenizers.pre_tokenizers")
trainers = Peer("tokenizers.trainers")


def words(rng: random.Random, letters: list[str], count: int, most: int = 8) -> list[str]:
    return ["".join(rng.choices(letters, k=rng.randint(1, most))) for _ in range(count)]


def trained(rng: random.Random, suffix: str, unk: str | None, fuse: bool) -> tuple[tokenizers.Tokenizer, list[str]]:
    """A vocabulary that `tokenizers` trained on few letters, including those of the suffix; and the letters."""
    peer = tokenizers.Tokenizer(models.BPE(unk_token=unk, end_of_word_suffix=suffix, fuse_unk=fuse))
    peer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    letters = sorted({*suffix, *rng.choices("abc_<é", k=2)})
    corpus = [*words(rng, letters, rng.randint(5, 40)), suffix * rng.randint(1, 3), "a" + suffix]
    corpus += [each for letter in letters for each in (letter, letter + suffix + rng.choice(letters))]
    trainer = trainers.BpeTrainer(
        vocab_size=rng.randint(10, 120),
        end_of_word_suffix=suffix,
        special_tokens=[] if unk is None else [unk],
        show_progress=False,
    )
    peer.train_from_iterator([" ".join(word for word in corpus for _ in range(rng.randint(1, 4)))], trainer)
    return peer, letters


def with_text_marks(
    rng: random.Random, suffix: str, unk: str | None, fuse: bool
) -> tuple[tokenizers.Tokenizer, list[str], bpe.Tokenizer]:
    """The same and our tokenizer of it, with a token that both the mark and text spell.

    Their trainer is not deterministic, so this tries several times.
    """
    for _ in range(100):
        peer, letters = trained(rng, suffix, unk, fuse)
        tok = bpe.Tokenizer(read(peer.to_str().encode()))
        if text_can_spell_mark(tok.spec):
            return peer, letters, tok
    raise AssertionError(f"no vocabulary of 100 has a token that text spells with the suffix {suffix!r}")


@pytest.mark.parametrize("suffix", ["_", "</w>", "b", "ab", "__", "é"])
@pytest.mark.parametrize("unk", [None, "<unk>"])
def test_ids_and_spans_are_those_of_tokenizers(suffix, unk):
    rng = random.Random(f"{suffix}{unk}")
    for fuse in (False, True):
        peer, letters, tok = with_text_marks(rng, suffix, unk, fuse)
        reloaded = bpe.Tokenizer(read(write(tok.spec)))
        theirs_again = tokenizers.Tokenizer.from_str(write(tok.spec).decode())
        assert reloaded == tok
        unreachable = set(tok.unreachable().tolist())
        for most in (3, 10, 30, 150):
            for _ in range(2 * SOAK):
                text = " ".join(words(rng, letters + ["x"] * (unk is not None), rng.randint(1, 5), most))
                wanted = peer.encode(text)
                if sum(end - start for start, end in wanted.offsets) < len(text.replace(" ", "")):
                    with pytest.raises(ValueError, match="is not in the vocabulary"):  # they drop such a character
                        tok.encode(text)
                    continue
                ids, spans = tok.encode_with_offsets(text)
                assert ids.tolist() == tok.encode(text).tolist() == reloaded.encode(text).tolist() == wanted.ids
                assert theirs_again.encode(text).ids == wanted.ids
                assert list(map(tuple, spans.tolist())) == wanted.offsets
                assert tok.tokens(text) == wanted.tokens
                lines = [line[6:] for line in tok.explain(text).splitlines() if line.startswith("  ids ")]
                assert [int(number) for line in lines for number in line.split()] == wanted.ids
                assert np.concatenate([*tok.encode_stream([text[:3], text[3:]])]).tolist() == wanted.ids
                assert unreachable.isdisjoint(wanted.ids)


@pytest.mark.parametrize("suffix", ["_", "</w>", "ab"])
def test_truncated_and_pruned_vocabularies_give_the_ids_of_tokenizers(suffix):
    """A token that is also a symbol stays when the merge that makes it is removed."""
    rng = random.Random(suffix)
    for _ in range(4):
        peer, letters = trained(rng, suffix, "<unk>", False)
        tok = bpe.Tokenizer(read(peer.to_str().encode()))
        shorter = tok.truncate_vocab(tok.vocab_size - 2)[0]
        pruned, _ = tok.without_tokens(rng.sample(range(1, tok.vocab_size), 2))
        for smaller in (shorter, pruned):
            theirs = tokenizers.Tokenizer.from_str(write(smaller.spec).decode())
            for text in words(rng, letters, 20, 12):
                assert smaller.encode(text).tolist() == theirs.encode(text).ids


def test_extending_such_a_vocabulary_is_refused():
    _, _, tok = with_text_marks(random.Random(4), "_", None, False)
    with pytest.raises(ValueError, match="stand both for the mark at a word's end and for"):
        bpe.extend(tok, {"a_b": 3}, tok.vocab_size + 2)


def test_a_suffix_of_one_letter_is_a_symbol_inside_words():
    """That letter used to be an unknown symbol inside words."""
    peer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="_"))
    peer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=12, end_of_word_suffix="_", special_tokens=["<unk>"], show_progress=False)
    peer.train_from_iterator(["a_b a_b x_ b"], trainer)
    tok = bpe.Tokenizer(read(peer.to_str().encode()))
    assert tok.encode("a_b x_").tolist() == peer.encode("a_b x_").ids
    assert tok.decode(tok.encode("a_b x_")) == "a_b x_"
    assert tok.decode([tok.token_id("a"), tok.token_id("_"), tok.token_id("b_"), tok.token_id("a")]) == "a_b a"
