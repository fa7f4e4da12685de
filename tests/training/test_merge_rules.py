"""`bpe.MergeRules` gives the merges of a naive oracle that counts every pair anew at each step and asks its rules."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import reference
import regex
from merge_rules import RecordingVeto, begins_character, draw_rules, draw_words, make_veto
from options import from_reference_options
from strategies import SOAK, interrupt_at

import bpe
from bpe.training import trainer as learning
from bpe.training.merge_rules import TIE_BREAKS

pytestmark = pytest.mark.usefixtures("quiet")

BYTE_ORDER = reference.gpt2_byte_order()
#: Settings of the kernel that lead to one epoch, many epochs, no lists, a filter, several threads.
SWITCHES: tuple[dict[str, Any], ...] = (
    {},
    {"ratio": 1, "max_dense_tokens": 0},
    {"memory": 2000, "ratio": 1},
    {"memory": 20_000, "may_grow": False, "max_dense_tokens": 0},
    {"threads": 3, "min_cells": 5, "parallel_threshold": 2},
)

#: Rules that are refused.
INVALID_RULES = [
    ({"whole_characters": 1}, TypeError, "whole_characters is 1, an int; it must be a bool"),
    ({"veto": "x"}, TypeError, "veto is 'x'; it must be callable as"),
    ({"max_words": 0}, ValueError, "max_words is 0"),
    ({"forbidden": "ab"}, TypeError, "forbidden is .*; it must be a tuple of str"),
    ({"forbidden": ("",)}, ValueError, "each must be a str of at least one character"),
    ({"forbidden": ("a",) * 65}, ValueError, "forbidden has 65 strings; it may have at most 64"),
]


def merges_of(tok: bpe.Tokenizer) -> list[tuple[Any, Any]]:
    tokens = {token_id: token for token, token_id in tok.vocab().items()}
    return [(tokens[left], tokens[right]) for left, right in tok.merges.tolist()]


def trained(switches: dict[str, Any], **options: Any) -> bpe.Tokenizer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "tuning_for_tests", switches)
        return bpe.train(**from_reference_options(**options))


# Merges ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_merges_of_bytes_are_the_oracles(tie_break: str) -> None:
    random_ = random.Random(f"rules {tie_break}")
    for _ in range(18 * SOAK):
        words, modulus = draw_words(random_), random_.choice((0, 2, 3))
        veto, naive_veto = (RecordingVeto(modulus) if modulus else None for _ in range(2))
        rules = draw_rules(random_, veto)
        options: dict[str, Any] = {"num_merges": random_.choice((3, 40)), "tie_break": tie_break}
        options["min_frequency"] = random_.choice((1, 1, 2))
        tok = trained(random_.choice(SWITCHES), counts=words, rules=rules, pretokenizer=None, **options)
        expected = reference.train(
            {reference.byte_word(word.encode()): count for word, count in words.items()},
            alphabet=BYTE_ORDER,
            veto=make_veto(bpe.MergeRules(**{**vars(rules), "veto": naive_veto})),
            **options,
        )
        assert merges_of(tok) == [(step.left, step.right) for step in expected.steps], (words, rules, options)
        if veto is not None and naive_veto is not None:
            assert veto.calls == naive_veto.calls


@pytest.mark.parametrize("glued", [None, False, True])
def test_merges_of_characters_are_the_oracles(glued: bool | None) -> None:
    random_ = random.Random(f"characters {glued}")
    mark = None if glued is None else "</w>"
    for _ in range(12 * SOAK):
        words, modulus = draw_words(random_), random_.choice((0, 3))
        veto, naive_veto = (RecordingVeto(modulus) if modulus else None for _ in range(2))
        rules = replace(draw_rules(random_, veto), tie_break="smallest")
        tok = bpe.train(
            counts=words, rules=rules, pretokenizer=None, model="char", num_merges=20,
            end_of_word=mark, end_of_word_glued=bool(glued),
        )  # fmt: skip
        expected = reference.train(
            {reference.char_word(word, mark, bool(glued)): count for word, count in words.items()},
            veto=make_veto(bpe.MergeRules(**{**vars(rules), "veto": naive_veto}), mark or ""),
            num_merges=20,
            tie_break="smallest",
        )
        assert merges_of(tok) == [(step.left, step.right) for step in expected.steps], (words, rules)
        if veto is not None and naive_veto is not None:
            assert veto.calls == naive_veto.calls


def test_marks_after_bytes_follow_whole_characters() -> None:
    words = {"né": 5, "né語": 3}
    for glued in (False, True):
        options: dict[str, Any] = {"end_of_word": "</w>", "end_of_word_glued": glued}
        rules = bpe.MergeRules(whole_characters=True)
        tok = bpe.train(counts=words, rules=rules, num_merges=40, pretokenizer=None, **options)
        for token, token_id in tok.vocab().items():
            whole = reference.is_whole(token.removesuffix(b"</w>"))
            assert token_id < 256 + 256 * glued or begins_character(token) or whole
        assert len(tok.encode("né")) == 1


def test_superwords_obey_the_rules_in_both_stages() -> None:
    random_ = random.Random("superwords")
    for _ in range(18 * SOAK):
        lines = [" ".join(random_.choices(("the", "я", "语", "é", "a:", "end"), k=6)) + "\n" for _ in range(6)]
        rules = draw_rules(random_, None)
        superwords = bpe.SuperWords(262, max_words=3, first_pretokenizer="gpt2")
        tok = bpe.train(texts=lines, vocab_size=285, superwords=superwords, rules=rules)
        words = bpe.count_words(texts=lines, pretokenizer="gpt2")
        one = reference.train(
            {reference.byte_word(word): count for word, count in words.items()},
            alphabet=BYTE_ORDER, vocab_size=262, veto=make_veto(rules),
        )  # fmt: skip
        merges = [(step.left, step.right) for step in one.steps]
        units = reference.count_words(lines)
        split = {reference.byte_word(unit.encode()): count for unit, count in units.items()}
        for left, right in merges:
            split = {reference.merge_all(symbols, left, right): count for symbols, count in split.items()}
        both = bpe.MergeRules(
            rules.whole_characters, rules.one_script, min(3, rules.max_words or 3), (*rules.forbidden, ": ")
        )
        first = [*BYTE_ORDER, *(left + right for left, right in merges)]
        two = reference.train(split, alphabet=first, vocab_size=285, veto=make_veto(both))
        assert merges_of(tok) == merges + [(step.left, step.right) for step in two.steps], (lines, rules)


def test_extending_with_rules_goes_on_where_training_stopped() -> None:
    random_ = random.Random("extend")
    for _ in range(12 * SOAK):
        words, rules = draw_words(random_), draw_rules(random_, None)
        whole = bpe.train(counts=words, num_merges=12, rules=rules, pretokenizer=None)
        first = bpe.train(counts=words, num_merges=5, rules=rules, pretokenizer=None)
        assert bpe.extend(first, words, whole.vocab_size, rules=rules) == whole


def test_refused_pairs_leave_the_memory_to_others() -> None:
    """Refused pairs, with long lists and more frequent than the others, do not hold up training in little memory."""
    words = {f"ab{chr(0x4E00 + i)}cd": 2 for i in range(40)} | {"xyz": 3, "xy": 2}
    options: dict[str, Any] = {"counts": words, "num_merges": 30, "pretokenizer": None, "special_tokens": ["ab", "cd"]}
    options["rules"] = bpe.MergeRules(whole_characters=True, veto=lambda left, right, count: count > 50)
    assert trained({"memory": 24_000, "may_grow": False, "max_dense_tokens": 0, "ratio": 1}, **options) == trained(
        {}, **options
    )


# Resuming, errors, the command line -----------------------------------------------------------------------------------


def test_a_checkpoint_resumes_with_the_same_rules_only(tmp_path: Path) -> None:
    texts = ["я and a, я and a: 語 and語"] * 3
    saved = tmp_path / "saved"

    def train(rules: bpe.MergeRules | None, most: int = 280, **options: Any) -> bpe.Tokenizer:
        return bpe.train(texts=texts, vocab_size=most, rules=rules, checkpoint=saved, **options)

    rules = bpe.MergeRules(whole_characters=True, veto=lambda left, right, _: right == b"n")
    with pytest.raises(KeyboardInterrupt):
        train(rules, on_merge=interrupt_at(5))
    with pytest.raises(ValueError, match=r"made with whole_characters=True, but whole_characters=None"):
        train(None)
    assert train(rules) == bpe.train(texts=texts, vocab_size=280, rules=rules)
    other = bpe.MergeRules(whole_characters=True, veto=lambda left, right, _: right == b"d")
    with pytest.raises(bpe.FormatError, match="the checkpoint is not of this training"):
        train(other)


def test_an_error_in_a_veto_ends_the_training() -> None:
    def veto(left: bytes, right: bytes, count: int) -> bool:
        raise LookupError("no such pair")

    with pytest.raises(LookupError, match="no such pair"):
        bpe.train(texts=["aa"], num_merges=1, rules=bpe.MergeRules(veto=veto))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    INVALID_RULES,
)
def test_invalid_rules_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bpe.MergeRules(**options)
    with pytest.raises(TypeError, match=r"rules is .*; it must be a bpe.MergeRules or None"):
        bpe.train(texts=["aa"], num_merges=1, rules=options)  # type: ignore[arg-type]


# Digits that are apart ------------------------------------------------------------------------------------------------

NUMBERS = "１２３４ ٣٤٥ १२३ ½² Ⅷ 12 a１b 一，１帯，𝟘𝟙"


def test_split_digits_keeps_the_digits_of_all_scripts_apart() -> None:
    """In a byte model no token has a part of a number and a part of another character."""
    options: dict[str, Any] = {"texts": [NUMBERS] * 9, "vocab_size": 500, "split_digits": True}
    for tok in (
        bpe.train(**options),
        bpe.train(**options, pretokenizer=None),
        bpe.train(**options, rules=bpe.MergeRules(one_script=True)),
        bpe.research.train_picky(0.9, **options),
    ):
        for text in (NUMBERS, "１２", "x１y", "१२१", "帯１，２，𝟙", "，１" * 3):
            pieces = tok.tokens(text)
            bounds, end = {0, *accumulate(map(len, pieces))}, 0
            for char in text:
                begin, end = end, end + len(char.encode())
                assert not regex.match(r"\p{N}", char) or {begin, end} <= bounds, (text, pieces)
    tok = bpe.train(texts=["１２３４ １２３４"] * 9, vocab_size=300, split_digits=True)
    assert len(tok.tokens("１２３４")) == 4


def test_split_digits_refuses_seeds_that_join_numbers() -> None:
    for seed in ("a１", "１２", "12", "1"):
        with pytest.raises(ValueError, match="has a digit, which split_digits keeps apart"):
            bpe.research.train_seeded(bpe.research.Seeds(tokens=[seed]), texts=["a"], vocab_size=300, split_digits=True)
    tok = bpe.research.train_seeded(bpe.research.Seeds(tokens=["１"]), texts=["a"], vocab_size=258, split_digits=True)
    assert "１".encode() in tok.tokens("１")


def test_extending_keeps_numbers_apart() -> None:
    counts = bpe.count_words(texts=[NUMBERS] * 9)
    tok = bpe.train(counts=counts, vocab_size=280, split_digits=True)
    larger = bpe.train(counts=counts, vocab_size=300, split_digits=True)
    assert bpe.extend(tok, counts, 300, split_digits=True) == larger
