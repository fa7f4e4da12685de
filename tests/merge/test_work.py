"""How often merging goes over a hard text, by each way that a long piece is merged: a few times, however long it is.

That is counted, not timed: `Scratch.work` grows by the symbols of windows and a heap's entries. Not here: which ids
come out (`test_engine.py`), how long it takes (`bench_hard.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

import bpe
from bpe.encode.engine import Engine
from bpe.merge import _long_merge as windows
from bpe.vocab.spec import TokenizerSpec

SIZES = 1 << 14, 1 << 16  # characters of a text, about
LONGEST = 30  # characters of a token, about
LETTERS = "abcdefghijklmnopqrstuvwxyz"
IDEOGRAPHS = [chr(0x4E00 + i) for i in range(500)]

#: Times that a symbol may be gone over.
MOST = 16


def any_of(letters: Sequence[str], size: int) -> str:
    return "".join(random.Random(size).choices(letters, k=size))


def again(period: str, size: int) -> str:
    return (period * (size // len(period) + 1))[:size]


def runs(period: str, longest: int, others: Sequence[str], size: int) -> str:
    """Again and again a period up to some place, and then something else."""
    choose = random.Random(size)
    n = 2 * size // longest
    return "".join(again(period, choose.randint(1, longest)) + choose.choice(others) for _ in range(n))


def within(size: int) -> str:
    letters = any_of(LETTERS, size // 3)
    return letters + again("a", size // 3) + letters


#: By name, what makes a text of so many characters.
HARD: dict[str, Callable[[int], str]] = {
    "one letter": partial(again, "a"),
    "spaces": partial(again, " "),
    "newlines": partial(again, "\n"),
    "'s": partial(again, "'s"),
    "a and b alternated": partial(again, "ab"),
    "the alphabet to and fro": partial(again, LETTERS + LETTERS[-2:0:-1]),
    "dashes": partial(again, "-" * 70 + "\n"),
    **{f"a period of {period}": partial(again, any_of(LETTERS, period)) for period in (3, 7, 26, 63, 64, 320, 1000)},
    "letters": partial(any_of, LETTERS),
    "digits": partial(any_of, "0123456789"),
    "four letters": partial(any_of, "acgt"),
    "two letters": partial(any_of, "ab"),
    "CJK": partial(any_of, IDEOGRAPHS),
    "long runs": partial(runs, "a", 1000, LETTERS),
    "short runs": partial(runs, "a", 30, "ab"),
    "one letter off a period": partial(runs, "abc", 200, ["d", "abd"]),
    "a run within letters": within,
}


@cache
def trained(kind: str) -> TokenizerSpec:
    """Merges of letters and digits, of all kinds of text, or of a run, whose tokens become longer than windows."""
    if kind == "doubled":
        return bpe.train(texts=["a" * 10_000], num_merges=12, pretokenizer=None).spec
    texts = [HARD[name](4000) for name in (("letters", "digits") if kind == "letters" else HARD)]
    texts = [text[at : at + LONGEST] for text in texts for at in range(0, len(text), LONGEST)]
    model = "char" if kind == "characters" else "byte"
    return bpe.train(texts=texts, num_merges=1000, model=model, pretokenizer=None).spec


def spec_for(way: str, kind: str) -> TokenizerSpec:
    """A vocabulary that is merged in this way."""
    spec = trained(kind)
    if way == "heap":
        return replace(spec, unk_token="ab")  # from which merging goes on
    if way == "large ranks":
        return replace(spec, merge_ranks=np.arange(len(spec.merges), dtype=np.int32) + (1 << 26))  # too great for rows
    return spec


@pytest.fixture
def few_symbols() -> Iterator[None]:
    """Few symbols of a long piece are held at once."""
    before = windows.hold_symbols(0)
    yield
    windows.hold_symbols(before)


@pytest.mark.usefixtures("few_symbols")
@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("windows", "all"),
        ("windows", "letters"),
        ("windows", "characters"),
        ("windows", "doubled"),
        ("heap", "characters"),
        ("large ranks", "all"),
        ("large ranks", "letters"),
        ("large ranks", "characters"),
    ],
)
def test_hard_texts_are_gone_over_a_few_times(way: str, kind: str) -> None:
    """Every symbol at least once, or what does the work does not count it; and no more often in a longer text."""
    kernel = Engine(spec_for(way, kind)).kernel
    for name, text_of in HARD.items():
        texts = [text_of(size) for size in SIZES]
        symbols = [len(text) if kind == "characters" else len(text.encode()) for text in texts]
        times = [kernel.work_of(text.encode()) / n for text, n in zip(texts, symbols, strict=True)]
        assert 1 <= times[0] <= MOST, name
        assert times[1] <= times[0] + 1, name
