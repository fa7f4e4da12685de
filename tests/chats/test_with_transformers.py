"""Conversations as transformers encodes them. `benchmarks/peers/check_chats.py` takes published templates."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from conversations import compare_conversation, draw_conversation, make_tokenizers
from strategies import SOAK
from templates import TEMPLATES

pytest.importorskip("transformers", reason="needs transformers 5")


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_ids_and_masks_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for tokenizer, peer in make_tokenizers(TEMPLATES[name], tmp_path):
        for index in range(15 * SOAK):
            conversation = draw_conversation(random.Random(f"{name} {index}"), list(tokenizer.special_tokens))
            assert compare_conversation(tokenizer, peer, conversation, counts) == "", index
    assert counts["with tokens of users"]
    assert counts["unknown"] <= 5
