"""`bpe.evaluation.sanity_check` finds planted defects, and none in a sound tokenizer."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest

import bpe
from bpe.evaluation.sanity import has_failure
from bpe.vocab.vocabulary import SPECIAL, Vocabulary


@pytest.fixture(scope="module")
def tok() -> bpe.Tokenizer:
    return bpe.train(texts=["low lower lowest 한국 we'll"] * 3, vocab_size=270, special_tokens=["<|end|>"])


def list_levels(tokenizer: Any, *texts: str) -> dict[str, str]:
    return {finding.check: finding.level for finding in bpe.evaluation.sanity_check(tokenizer, texts)}


def change_spec(tok: bpe.Tokenizer, **fields: Any) -> bpe.Tokenizer:
    return bpe.Tokenizer(dataclasses.replace(tok.spec, **fields))


def test_a_sound_tokenizer(tok: bpe.Tokenizer) -> None:
    findings = bpe.evaluation.sanity_check(tok, ["any text"])
    assert not has_failure(findings)
    assert [finding.check for finding in findings] == [
        *("reachable tokens", "lost text", "numbers", "special tokens", "repeatable", "ids", "characters")
    ]
    assert str(findings[1]) == "ok       lost text: 14 texts came back unchanged, 1 of them given"


def test_one_text_is_not_several(tok: bpe.Tokenizer) -> None:
    for wrong in ("any text", b"any text", 5):
        with pytest.raises(TypeError, match="texts is"):
            bpe.evaluation.sanity_check(tok, wrong)  # type: ignore[arg-type]


def test_tokens_that_encoding_never_produces(tok: bpe.Tokenizer) -> None:
    vocabulary = tok.spec.vocabulary
    special = list(vocabulary.items(SPECIAL))
    plain = [item for item in vocabulary.items() if item not in special]
    wider = change_spec(tok, vocabulary=Vocabulary([*plain, (300, b"zzz")], special))
    findings = {finding.check: finding for finding in bpe.evaluation.sanity_check(wider)}
    assert findings["reachable tokens"].level == "failure"
    assert "300 b'zzz'" in findings["reachable tokens"].message
    assert findings["ids"].level == "warning"


def test_parts_of_other_tokens_are_no_failure() -> None:
    tok = bpe.train(counts={"'l": 5, "'ll": 5}, vocab_size=257)
    assert (tok.tokens("'l"), tok.tokens("'ll")) == ([b"'", b"l"], [b"'l", b"l"])
    assert list_levels(tok)["reachable tokens"] == "warning"


def test_a_pretokenizer_of_another_vocabulary() -> None:
    without_pretokenizer = bpe.train(texts=["a b c d"] * 2, vocab_size=262, pretokenizer=None)
    mismatched = change_spec(without_pretokenizer, pretokenizer=bpe.train(texts=["a"], vocab_size=256).pretokenizer)
    assert list_levels(without_pretokenizer)["reachable tokens"] == "ok"
    assert list_levels(mismatched)["reachable tokens"] == "failure"


def test_lost_text(tok: bpe.Tokenizer) -> None:
    assert list_levels(change_spec(tok, normalizer=bpe.normalizers.Lowercase()))["lost text"] == "warning"
    small = bpe.train(texts=["low"], num_merges=2, model="char", unk_token="<unk>")
    findings = {finding.check: finding for finding in bpe.evaluation.sanity_check(small)}
    assert findings["lost text"].level == "failure"
    without = bpe.train(texts=["low"], num_merges=2, model="char")
    assert list_levels(without)["lost text"] == "failure"
    assert has_failure(bpe.evaluation.sanity_check(without))


def test_numbers_that_are_cut_by_their_digits() -> None:
    random = bpe.train(texts=["12 12 345 345"] * 3, vocab_size=260)
    findings = {finding.check: finding for finding in bpe.evaluation.sanity_check(random)}
    assert findings["numbers"].level == "warning"
    assert "|" in findings["numbers"].message
    assert "training with split_digits=True (bpe train --split-digits)" in findings["numbers"].message


def test_the_defaults_of_training_pass() -> None:
    texts = [f"In {year} there were {year * 7} of {year % 90}" for year in range(1900, 2020)]
    findings = bpe.evaluation.sanity_check(bpe.train(texts=texts, vocab_size=400))
    assert {finding.check for finding in findings if finding.level == "warning"} >= {"numbers"}
    assert not has_failure(findings)
    split = bpe.evaluation.sanity_check(bpe.train(texts=texts, vocab_size=400, split_digits=True))
    assert next(finding for finding in split if finding.check == "numbers").level == "ok"


def test_a_tokenizer_that_cuts_numbers_otherwise_each_time() -> None:
    class Unsteady:
        """In every other call, it begins all numbers with single digits."""

        calls = 0
        vocab = {bytes([byte]): byte for byte in range(256)} | {b"%02d" % n: 256 + n for n in range(100)}

        def encode_batch(self, texts: list[str]) -> list[list[int]]:
            self.calls += texts[0].isdigit()
            return [self.encode(text.encode(), self.calls % 2 * 2 + index % 2) for index, text in enumerate(texts)]

        def encode(self, data: bytes, single: int) -> list[int]:
            size = 2 if data.isdigit() else 1
            bounds = [*range(min(single, len(data))), *range(single, len(data), size), len(data)]
            return [self.vocab[data[start:end]] for start, end in pairwise(bounds)]

    findings = {finding.check: finding for finding in bpe.evaluation.sanity_check(Unsteady())}
    assert findings["numbers"].level == "warning"
    assert findings["numbers"].message.count("|") >= 3


def test_special_tokens_that_text_imitates(tok: bpe.Tokenizer) -> None:
    assert list_levels(tok)["special tokens"] == "ok"
    assert list_levels(tok.with_tokens(added=["<b>"]))["special tokens"] == "warning"


def test_ids_that_change(tok: bpe.Tokenizer) -> None:
    assert list_levels(change_spec(tok, dropout=0.5))["repeatable"] == "failure"


def test_a_tokenizer_of_another_package(tok: bpe.Tokenizer, tmp_path: Any) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tok.save(tmp_path / "t.json")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    assert list_levels(peer)["special tokens"] == "failure"
    assert list_levels(peer)["lost text"] == "ok"
