"""Tokenizers whose tokens are not characters, and whose decoders do more than join tokens."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import bpe
from bpe.vocab.output_steps import ByteFallback, DecodeMetaspace, DecodeStrip, Fuse

TEXT = "the low lower newest, 영화를 영화관에서 吾輩は猫 e\u0301 é 😊😊 👩‍👩‍👧\n\n  it's\0"


@cache
def make_byte_model() -> bpe.Tokenizer:
    """A model whose merges divide characters: a token may contain parts of two characters."""
    return bpe.train(texts=[TEXT, "猫猫猫 画画画"], num_merges=60, special_tokens=["<|end|>"], pretokenizer="gpt2")


@cache
def make_with_mark(glued: bool, model: str = "char") -> bpe.Tokenizer:
    return bpe.train(
        texts=[TEXT],
        num_merges=40,
        model=model,
        end_of_word="</w>",
        end_of_word_glued=glued,
        unk_token="<unk>" if model == "char" else None,
        special_tokens=["<|end|>"],
        pretokenizer="whitespace",
    )


def make_with_steps(*kinds: str) -> bpe.Tokenizer:
    """A model with decoder steps: byte tokens are held back, and spaces at both ends are stripped."""
    tok = bpe.train(
        texts=[TEXT.replace(" ", "▁")],
        vocab_size=400,
        model="char",
        unk_token="<unk>",
        alphabet=bpe.Alphabet(byte_fallback=True),
    )
    steps = [DecodeMetaspace(), *([ByteFallback(), Fuse()] if "bytes" in kinds else [Fuse()])]
    return bpe.Tokenizer(replace(tok.spec, decoder=(*steps, DecodeStrip(" ", 1, 1))))
