"""Compare with results in a file, which would reveal a change that library, oracle and patterns have in common.

`data/golden.json` was made with this library: a page in several scripts, its pretokens for every named pattern, 60
byte-level merges with their counts for each tie rule, and the page's ids.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import reference

import bpe

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "golden.json").read_text(encoding="utf-8"))
TEXT: str = GOLDEN["text"]


@pytest.mark.parametrize("name", GOLDEN["splits"])
def test_splits(name: str) -> None:
    assert bpe.Pretokenizer(name).split(TEXT) == GOLDEN["splits"][name]


@pytest.mark.parametrize("tie_break", GOLDEN["merges"])
def test_merges(tie_break: str) -> None:
    made: list[list[Any]] = []
    tok = bpe.train(
        texts=[TEXT],
        num_merges=60,
        on_merge=lambda step, left, right, token, count: made.append([left.hex(), right.hex(), count]),
        rules=bpe.MergeRules(tie_break=tie_break),
    )
    assert made == GOLDEN["merges"][tie_break]
    words = reference.count_words(piece.encode() for piece in GOLDEN["splits"]["gpt2"])
    oracle = reference.train(
        {reference.byte_word(word): count for word, count in words.items()},
        num_merges=60,
        tie_break=tie_break,
        alphabet=reference.gpt2_byte_order(),
    )
    assert made == [[step.left.hex(), step.right.hex(), step.count] for step in oracle.steps]
    if tie_break == "id":
        assert tok.encode(TEXT).tolist() == GOLDEN["ids"]
    assert tok.decode(tok.encode(TEXT)) == TEXT
