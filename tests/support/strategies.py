"""Hypothesis strategies for corpora, the tie rules, how many examples a test tries, and interrupted trainings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st

TIE_BREAKS = ("id", "first", "smallest", "greatest")

#: Multiplies the examples and random cases of the tests that use it. The extra stage `soak` of .ci/run sets it.
SOAK = int(os.environ.get("BPE_SOAK", "1"))
#: For tests that compare every case of something that cheaper tests, in each run, hold to a digest.
only_in_a_soak_test = pytest.mark.skipif(SOAK == 1, reason="needs BPE_SOAK: a soak test")


def examples(n: int, **options: Any) -> settings:
    """Settings for so many examples: few enough for every run, and more of them in a soak test."""
    return settings(max_examples=n * SOAK, **options)


def words_over(letters: str) -> st.SearchStrategy[str]:
    """Words over a few letters: arbitrary, runs of one letter (aaaa) or of two (abab), and concatenations of these."""
    letter = st.sampled_from(letters)
    run = st.tuples(letter, st.integers(1, 9)).map(lambda x: x[0] * x[1])
    pairs = st.tuples(letter, letter, st.integers(1, 5)).map(lambda x: (x[0] + x[1]) * x[2])
    plain = st.text(letter, min_size=1, max_size=8)
    return st.one_of(plain, run, pairs, st.lists(st.one_of(plain, run, pairs), min_size=2, max_size=4).map("".join))


@st.composite
def corpora(
    draw: st.DrawFn, alphabets: tuple[str, ...] = ("a", "ab", "abc", "abcd", "aé語😊", "~a! ", "ba", "dcba")
) -> dict[str, int]:
    """Words with counts, in any order. Counts are small, so that ties are frequent, or large."""
    letters = draw(st.sampled_from(alphabets))
    words = draw(st.lists(words_over(letters), min_size=1, max_size=12, unique=True))
    max_count = draw(st.sampled_from([1, 2, 5, 2**40]))
    counts = draw(st.lists(st.integers(1, max_count), min_size=len(words), max_size=len(words)))
    return dict(zip(words, counts, strict=True))


def each_tie_break() -> Iterator[str]:
    """The tie rules, all within one hypothesis example; its report of a failure ends with the rule that failed."""
    for tie_break in TIE_BREAKS:
        note(f"{tie_break=}")
        yield tie_break


def interrupt_at(step: int) -> Callable[..., None]:
    """An `on_merge` that interrupts the training after so many merges."""

    def on_merge(n_done: int, *_: object) -> None:
        if n_done == step:
            raise KeyboardInterrupt

    return on_merge
