"""Counts that a caller gives must agree with the tokenizer and the options in everything that changes words."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import bpe
from bpe.cli import main

TEXTS = ["low<|end|>lower<|end|>low<|end|>"]
END = ["<|end|>"]


def test_counts_without_the_special_tokens_are_refused(tmp_path: Path, capsys: Any) -> None:
    plain, apart = bpe.count_words(texts=TEXTS), bpe.count_words(texts=TEXTS, special_tokens=[*END, "<|x|>"])
    tok = bpe.train(texts=TEXTS, vocab_size=258, special_tokens=END)
    message = r"made without the special token '<\|end\|>'.*count again with special_tokens="
    fair, superwords = bpe.ParityAware(), bpe.SuperWords(transition=258)
    for call in (
        lambda counts: bpe.train(counts=counts, vocab_size=258, special_tokens=END),
        lambda counts: bpe.train(counts={"a": counts, "b": counts}, vocab_size=258, special_tokens=END, fair=fair),
        lambda counts: bpe.extend(tok, counts, 259),
        lambda counts: bpe.prune(tok, 257, counts=counts),
        lambda counts: bpe.adapt(tok, 257, counts=counts),
    ):
        with pytest.raises(ValueError, match=message):
            call(plain)
        call(apart)
    both = plain, superwords.count_words(2, texts=TEXTS)
    with pytest.raises(ValueError, match=message):
        bpe.train(counts=both, vocab_size=259, special_tokens=END, superwords=superwords)
    assert bpe.train(counts=apart, vocab_size=258, special_tokens=END) == tok
    assert bpe.train(counts=dict(plain.items()), vocab_size=258, special_tokens=END) != tok
    plain.save(tmp_path / "c")
    argv = ["train", "--counts", str(tmp_path / "c"), "-o", str(tmp_path / "t"), "--num-merges", "2", "--quiet"]
    assert main([*argv, "--special-token", "<|end|>"]) == 1
    assert "count again with --special-token" in capsys.readouterr().err


def test_separators_that_become_no_token_are_named(caplog: pytest.LogCaptureFixture) -> None:
    apart = bpe.count_words(texts=TEXTS, special_tokens=END)
    with caplog.at_level(logging.WARNING, logger="bpe"):
        bpe.train(counts=apart, vocab_size=258)
    assert [each.getMessage().partition(";")[0] for each in caplog.records] == [
        "<|end|> separated the text of the counts and is no token"
    ]
