"""Smaller vocabularies with new ids: the table of new ids, and what else of a tokenizer.json names ids.

`tokenizers` reads the files and gives the same ids, with its post-processor and padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bpe
from bpe.compat import huggingface as compat
from bpe.formats import huggingface

tokenizers: Any = pytest.importorskip("tokenizers")

NAMES = ["[PAD]", "<x>", "[CLS]", "[SEP]"]


def tokenizer(kind: str) -> bpe.Tokenizer:
    """A tokenizer whose post-processor and padding name the special tokens above the merges."""
    from tokenizers import processors

    tok = bpe.train(texts=["low lower lowest newest widest"] * 3, num_merges=16).with_tokens(special=NAMES)
    peer = tokenizers.Tokenizer.from_str(huggingface.write(tok.spec).decode())
    cls, sep = (("[CLS]", tok.token_id("[CLS]")), ("[SEP]", tok.token_id("[SEP]")))
    template = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[cls, sep]
    )
    peer.post_processor = {
        "template": template,
        "bert": processors.BertProcessing(sep, cls),
        "roberta": processors.RobertaProcessing(sep, cls),
        "sequence": processors.Sequence([processors.ByteLevel(trim_offsets=True), template]),
    }[kind]
    peer.enable_padding(pad_id=tok.token_id("[PAD]"), pad_token="[PAD]")
    return bpe.Tokenizer(huggingface.read(peer.to_str().encode()))


@pytest.mark.parametrize("kind", ["template", "bert", "roberta", "sequence"])
def test_post_processor_and_padding_have_the_new_ids(kind: str) -> None:
    tok = tokenizer(kind)
    for smaller, new_ids in (
        tok.truncate_vocab(tok.vocab_size - 5),
        tok.without_tokens(["<x>"]),
        tok.without_tokens([60, tok.token_id("<x>")]),
        tok.truncate_vocab(tok.vocab_size - 5, renumber=False),
    ):
        assert [new_ids[i] for i in tok.special_tokens.values() if new_ids[i] >= 0] == [
            *smaller.special_tokens.values()
        ]
        peer = tokenizers.Tokenizer.from_str(huggingface.write(smaller.spec).decode())
        cls, sep, pad = (smaller.token_id(name) for name in ("[CLS]", "[SEP]", "[PAD]"))
        assert peer.encode("low lower").ids == smaller.encode("low lower", template=True).tolist()
        pair = peer.encode("low", "new").ids
        assert (pair[0], pair[-1], pair.count(sep)) == (cls, sep, 3 if kind == "roberta" else 2)
        rows = [encoding.ids for encoding in peer.encode_batch(["low lower lowest", "l"])]
        assert rows[1][-1] == pad
        assert [encoding.ids for encoding in compat.Tokenizer(smaller).encode_batch(["low lower lowest", "l"])] == rows


@pytest.mark.parametrize("kind", ["template", "bert", "roberta", "sequence"])
def test_a_removed_token_is_not_added(kind: str) -> None:
    tok = tokenizer(kind)
    for name in ("[SEP]", "[CLS]"):
        smaller, _ = tok.without_tokens([tok.token_id(name)])
        peer = tokenizers.Tokenizer.from_str(huggingface.write(smaller.spec).decode())
        assert peer.encode("low").ids == smaller.encode("low", template=True).tolist()
    assert tok.without_tokens(["[PAD]"])[0].spec.padding is None


def test_the_table_maps_encoded_text() -> None:
    """Where no merge of a text was removed, its new ids are those that the table gives."""
    tok = bpe.train(texts=["low lower lowest newest widest"] * 3, num_merges=16, special_tokens=["<s>"])
    unused = sorted(set(range(1, tok.n_vocab)) - set(tok.spec.merges.ravel()) - set(tok.encode("low lower").tolist()))
    smaller, new_ids = tok.without_tokens([i for i in unused if len(tok.token_bytes(i)) > 1])
    assert smaller.vocab_size < tok.vocab_size
    assert np.array_equal(new_ids[tok.encode("low lower")], smaller.encode("low lower"))
    kept, same = tok.without_tokens([i for i in unused if len(tok.token_bytes(i)) > 1], renumber=False)
    assert same[new_ids >= 0].tolist() == np.flatnonzero(new_ids >= 0).tolist()
    assert kept.without_tokens([])[0] == smaller


def test_deletions_have_new_ids() -> None:
    texts = ["low lower lowest slow slower slowest"] * 5
    tok = bpe.research.train_picky(0.5, texts=texts, vocab_size=270, special_tokens=["<a>", "<b>"])
    assert tok.spec.events is not None
    assert len(tok.spec.events.deletions)
    for names in (["<a>"], ["<b>"], ["<a>", "<b>"]):
        smaller, new_ids = tok.without_tokens(names)
        kept, _ = tok.without_tokens(names, renumber=False)
        text = "slowest lower lows"
        assert (
            smaller.encode(text).tolist() == new_ids[tok.encode(text)].tolist() == new_ids[kept.encode(text)].tolist()
        )
        assert smaller.decode(smaller.encode(text)) == text
        assert [*smaller.vocab()] == [*kept.vocab()]
    with pytest.raises(ValueError, match="removing tokens by their ids is not defined for a PickyBPE model"):
        tok.without_tokens([0])
