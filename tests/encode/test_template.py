"""Template ids around encoded texts, decoding without special tokens, and tokens added and removed again."""

from dataclasses import replace

import numpy as np
import pytest

import bpe
from bpe.vocab.editing import without_special_tokens


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    """A tokenizer with a template of two ids before a text and one after it."""
    trained = bpe.train(texts=["low lower lowest"] * 3, vocab_size=262, special_tokens=["<s>", "<sys>", "</s>"])
    return bpe.Tokenizer(replace(trained.spec, template=((0, 1), (2,))))


TEXTS = ["low lowest", "", "é<s>", "x" * 300]


def test_template_surrounds_text_batch_and_offsets(tok: bpe.Tokenizer) -> None:
    for text in TEXTS:
        plain, spans = tok.encode_with_offsets(text)
        ids, template_spans = tok.encode_with_offsets(text, template=True)
        assert ids.tolist() == [0, 1, *plain.tolist(), 2] == tok.encode(text, template=True).tolist()
        assert ids.dtype == np.uint32
        assert template_spans.tolist() == [[0, 0], [0, 0], *spans.tolist(), [0, 0]]
    batch = tok.encode_batch(TEXTS, template=True)
    assert batch.to_list() == [tok.encode(text, template=True).tolist() for text in TEXTS]
    assert tok.encode_batch([], template=True).to_list() == []
    out = np.zeros(1000, dtype=np.uint32)
    assert tok.encode_batch(TEXTS, template=True, out=out) == batch
    assert out[0] == 0
    assert out[1] == 1


def test_template_is_optional_and_absent_templates_add_nothing(tok: bpe.Tokenizer) -> None:
    assert tok.encode("low").tolist() == tok.encode("low", template=False).tolist()
    plain = bpe.Tokenizer(replace(tok.spec, template=None))
    assert plain.encode("low", template=True).tolist() == tok.encode("low").tolist()


def test_template_and_prepend_are_refused_together(tok: bpe.Tokenizer) -> None:
    with pytest.raises(ValueError, match="prepend is '<s>', and template is True; pass one of them"):
        tok.encode_batch(["a"], template=True, prepend="<s>")


def test_template_with_dropout(tok: bpe.Tokenizer) -> None:
    ids = tok.encode("low lowest", dropout=1.0, seed=1, template=True).tolist()
    assert ids[:2] + ids[-1:] == [0, 1, 2]
    assert ids[2:-1] == tok.encode("low lowest", dropout=1.0, seed=1).tolist()


def test_decode_skips_special_tokens_only(tok: bpe.Tokenizer) -> None:
    chat = tok.with_tokens(special=["<|user|>"], added=["C++"])
    ids = chat.encode("<|user|>low C++</s>", template=True, allowed_special="all")
    assert chat.decode(ids) == "<s><sys><|user|>low C++</s></s>"
    assert chat.decode(ids, skip_special=True) == "low C++"
    assert chat.decode_bytes(ids, skip_special=True) == b"low C++"
    rows = chat.encode_batch(["low", "", "<|user|>"], template=True, allowed_special="all")
    assert chat.decode_batch(rows, skip_special=True) == ["low", "", ""]
    assert chat.decode_batch(rows.to_list(), skip_special=True) == ["low", "", ""]
    assert chat.decode([], skip_special=True) == ""


@pytest.mark.parametrize("bad", [[65, 999], [2**32 - 1]])
def test_decode_without_special_refuses_unknown_ids(tok: bpe.Tokenizer, bad: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"token id {bad[-1]} at position {len(bad) - 1}"):
        tok.decode(bad, skip_special=True)
    with pytest.raises(ValueError, match=f"token id {bad[-1]}"):
        tok.decode_batch(bpe.TokenBatch.from_lists([[0, *bad]]), skip_special=True)


def test_tokens_are_removed_again(tok: bpe.Tokenizer) -> None:
    more = tok.with_tokens(special=["<|a|>", "<|b|>"], added=["<|c|>"])
    assert more.without_tokens(["<|c|>", "<|a|>", "<|b|>"])[0] == tok
    less, new_ids = more.without_tokens(["<|b|>"], renumber=False)
    assert new_ids.tolist() == [*range(263), -1, 264]
    assert less.special_tokens == {**tok.special_tokens, "<|a|>": 262, "<|c|>": 264}
    assert less.vocab_size == 264
    assert less.n_vocab == 265
    assert less.encode("<|b|>").tolist() == tok.encode("<|b|>").tolist()
    assert less.decode(less.encode("<|a|><|b|><|c|>", allowed_special="all")) == "<|a|><|b|><|c|>"
    assert less.without_tokens([], renumber=False)[0] == less
    dense, new_ids = less.without_tokens([])
    assert dense == more.without_tokens(["<|b|>"])[0] == more.without_tokens([more.token_id("<|b|>")])[0]
    assert new_ids.tolist() == [*range(263), -1, 263]
    assert dense.special_tokens == {**tok.special_tokens, "<|a|>": 262, "<|c|>": 263}


def test_removing_refuses_what_the_tokenizer_needs(tok: bpe.Tokenizer) -> None:
    with pytest.raises(ValueError, match="'<s>' has the id 0, which the template has"):
        tok.without_tokens(["<s>"])
    with pytest.raises(ValueError, match="'low' is no special or added token"):
        tok.without_tokens(["low"])
    with pytest.raises(TypeError, match="tokens is 'low', a str; it must be a list or an array of ids"):
        tok.without_tokens("low")
    words = bpe.train(texts=["ab"], model="char", num_merges=1, unk_token="<unk>")
    with pytest.raises(ValueError, match="'<unk>' is no special or added token"):
        words.without_tokens(["<unk>"])
    spec = bpe.train(texts=["ab"], model="char", num_merges=1, special_tokens=["<x>"]).spec
    merges, results = np.array([[0, 0]], dtype=spec.merges.dtype), np.array([0], dtype=spec.merge_results.dtype)
    with pytest.raises(ValueError, match="'<x>' has the id 0, which a merge has"):
        without_special_tokens(replace(spec, merges=merges, merge_results=results), ["<x>"])


def test_names_of_the_first_and_last_token(tok: bpe.Tokenizer) -> None:
    assert (tok.bos_token, tok.eos_token) == ("<s>", "</s>")
    both = bpe.train(texts=["a"], vocab_size=258, special_tokens=["</s>", "<|endoftext|>"])
    assert (both.bos_token, both.eos_token) == (None, "<|endoftext|>")
    end = bpe.train(texts=["a"], vocab_size=258, special_tokens=["<pad>", "<|endoftext|>"])
    assert (end.bos_token, end.eos_token) == (None, "<|endoftext|>")
