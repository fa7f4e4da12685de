"""The summary of skipped tests that ends a run: `support/skips.py`."""

from __future__ import annotations

import pytest
from skips import MAX_GROUPS, name_absent, summarize


@pytest.mark.parametrize(
    ("reason", "absent"),
    [
        ("Skipped: could not import 'transformers.tokenization_utils': No module named 'transformers'", "transformers"),
        ("Skipped: docs/data_loader.md:86: needs torch", "torch"),
        ("Skipped: needs playwright, in the dependency group test-browser", "playwright"),
        ("Skipped: needs /dev/full", "/dev/full"),
        ("Skipped: llama.cpp is not installed", "llama.cpp"),
        ("Skipped: compares with the tokenizers package", "tokenizers"),
        (
            "Skipped: the shared corpus english is not beside this repository (../shared/data/corpora)",
            "the shared corpora and vocabularies",
        ),
        ("Skipped: docs/serving.md:41: it needs an event loop", None),
        ("Skipped: this format has no prefix space", None),
    ],
)
def test_a_reason_names_what_is_absent(reason: str, absent: str | None) -> None:
    assert name_absent(reason) == absent


def test_the_largest_groups_come_first() -> None:
    reasons = ["needs torch", "has no padding token", "needs ray", "could not import 'torch.utils.data'"]
    assert summarize(reasons) == ["    2 need torch", "    1 need ray", "    1 for other reasons"]
    assert summarize([]) == []


def test_the_summary_has_at_most_ten_lines_with_its_heading() -> None:
    reasons = [f"needs package_{index}" for index in range(30)]
    lines = summarize(reasons)
    assert len(lines) == MAX_GROUPS + 1 == 9
    assert sum(int(line.split()[0]) for line in lines) == len(reasons)
