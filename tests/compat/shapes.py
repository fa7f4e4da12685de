"""Small tokenizers of the `tokenizers` package, one for each shape of published BPE tokenizers."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

TEXTS = [
    "The quick brown fox jumps over the lazy dog. The low, lower and lowest prices!",
    "def main(args):\n    return [x ** 2 for x in range(10)]  # naïve café 한국어 日本語",
    "  leading and trailing  \n\n\t tabs 12345 3.14 — “quotes” 😀👍🏽 e\u0301",
]

#: Texts to encode: special tokens, white space, combining characters, text that no training saw.
HOSTILE = [
    "", " ", "  ", "\n", "a", "the lowest price", " the", "the ", "naïve café e\u0301 Å", "한국어 日本語 텍스트",
    "😀👍🏽",
    "<s>the</s>", "<s><s>", "a <mask> b", "a<mask>b", "C++ and c++ code", "the  dog   jumps\t\tover", "\u00a0x\u2028y",
    "don't I'LL we've", "１２３ 12345", "<pad>low<unk>", "\x00\x07", "Ġlow Ċ", "x" * 200,
]  # fmt: skip


def _train(model: Any, trainer: dict[str, Any], **components: Any) -> Any:
    from tokenizers import Tokenizer
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(model)
    for name, component in components.items():
        if name != "post_processor":
            setattr(tokenizer, name, component)
    tokenizer.train_from_iterator(TEXTS * 5, BpeTrainer(vocab_size=400, show_progress=False, **trainer))
    return tokenizer


@cache
def shape(name: str) -> str:
    """The tokenizer.json of a shape."""
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

    byte_level = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    special = {**byte_level, "special_tokens": ["<s>", "</s>", "<pad>", "<unk>"]}
    if name == "gpt2":
        tokenizer = _train(models.BPE(), special, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False))
        tokenizer.decoder, tokenizer.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    elif name == "llama3":
        pattern = (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+"
        )
        steps = [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
        tokenizer = _train(models.BPE(ignore_merges=True), special, pre_tokenizer=pre_tokenizers.Sequence(steps))
        tokenizer.decoder = decoders.ByteLevel()
        template = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    elif name == "roberta":
        tokenizer = _train(models.BPE(), special, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True))
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True)
        tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, special=True), "C++"])
    elif name == "bert":
        tokenizer = _train(models.BPE(), special, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False))
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.BertProcessing(("</s>", 1), ("<s>", 0))
    elif name == "nfc":
        tokenizer = _train(
            models.BPE(), special, normalizer=normalizers.NFC(),
            pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        )  # fmt: skip
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_tokens(["C++", AddedToken("<mask>", rstrip=True, special=True)])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A:2 </s>", pair="$B:4 </s> $A:3 </s>:1", special_tokens=[("</s>", 1)]
        )
    elif name == "characters":
        tokenizer = _train(
            models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
            {"special_tokens": ["<s>", "</s>", "<pad>", "<unk>"], "end_of_word_suffix": "</w>"},
            pre_tokenizer=pre_tokenizers.WhitespaceSplit(),
        )
        tokenizer.decoder = decoders.BPEDecoder()
    else:
        assert name == "words"  # a model without tokens of its own
        from tokenizers import Tokenizer

        tokenizer = Tokenizer(models.BPE())
        tokenizer.add_tokens(["my", "name", "is", "john", "pair"])
    json.loads(tokenizer.to_str())
    text: str = tokenizer.to_str()
    return text


SHAPES = ["gpt2", "llama3", "roberta", "bert", "nfc", "characters", "words"]
