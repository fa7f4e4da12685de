"""The number of times that merging visits the symbols of a hard text is small, however long the text is.

That is counted, not timed: merging counts its steps, to know when to look for signals.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import bpe
from bpe.encode.engine import Engine
from bpe.merge._long_merge import set_huge_window
from bpe.vocab.spec import TokenizerSpec
from bpe.vocab.vocabulary import ORDINARY, Vocabulary

SIZES = 1 << 14, 1 << 16  # approximate numbers of characters of a text
LONGEST = 30  # approximate number of characters of the longest token
LETTERS = "abcdefghijklmnopqrstuvwxyz"
IDEOGRAPHS = [chr(0x4E00 + i) for i in range(500)]

#: Work that a symbol may take, in ids that a kernel writes in the same time.
MOST = 40


def random_text(letters: Sequence[str], size: int) -> str:
    return "".join(random.Random(size).choices(letters, k=size))


def repeated(period: str, size: int) -> str:
    return (period * (size // len(period) + 1))[:size]


def runs(period: str, longest: int, others: Sequence[str], size: int) -> str:
    """Repetitions of a period up to a random length, each followed by something else."""
    choose = random.Random(size)
    n = 2 * size // longest
    return "".join(repeated(period, choose.randint(1, longest)) + choose.choice(others) for _ in range(n))


def run_between_letters(size: int) -> str:
    letters = random_text(LETTERS, size // 3)
    return letters + repeated("a", size // 3) + letters


#: Name → a function from a number of characters to a text.
HARD: dict[str, Callable[[int], str]] = {
    "one letter": partial(repeated, "a"),
    "spaces": partial(repeated, " "),
    "newlines": partial(repeated, "\n"),
    "'s": partial(repeated, "'s"),
    "a and b alternated": partial(repeated, "ab"),
    "the alphabet to and fro": partial(repeated, LETTERS + LETTERS[-2:0:-1]),
    "dashes": partial(repeated, "-" * 70 + "\n"),
    **{
        f"a period of {period}": partial(repeated, random_text(LETTERS, period))
        for period in (3, 7, 26, 63, 64, 320, 1000)
    },
    "letters": partial(random_text, LETTERS),
    "digits": partial(random_text, "0123456789"),
    "four letters": partial(random_text, "acgt"),
    "two letters": partial(random_text, "ab"),
    "CJK": partial(random_text, IDEOGRAPHS),
    "long runs": partial(runs, "a", 1000, LETTERS),
    "short runs": partial(runs, "a", 30, "ab"),
    "one letter off a period": partial(runs, "abc", 200, ["d", "abd"]),
    "a run within letters": run_between_letters,
}


@cache
def trained(kind: str) -> TokenizerSpec:
    """A vocabulary trained on letters and digits, on all kinds of text, or on a run, whose tokens exceed a window."""
    if kind == "doubled":
        return bpe.train(texts=["a" * 10_000], num_merges=12, pretokenizer=None).spec
    texts = [HARD[name](4000) for name in (("letters", "digits") if kind == "letters" else HARD)]
    texts = [text[at : at + LONGEST] for text in texts for at in range(0, len(text), LONGEST)]
    model = "char" if kind == "characters" else "byte"
    return bpe.train(texts=texts, num_merges=1000, model=model, pretokenizer=None).spec


def spec_for(way: str, kind: str) -> TokenizerSpec:
    """A vocabulary for which long pieces are merged by this algorithm."""
    spec = trained(kind)
    if way == "heap":
        return replace(spec, unk_token="ab")  # merges can continue from it
    if way == "large ranks":
        ranks = np.arange(len(spec.merges), dtype=np.int32) + (1 << 26)  # too large for windows
        return replace(spec, merge_ranks=ranks)
    return spec


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
def test_hard_texts_are_gone_over_a_few_times(hooks: Any, way: str, kind: str) -> None:
    """Every symbol at least once, or what does the work does not count it; and no more often in a longer text.

    The symbols of a run of one byte may not be visited at all.
    """
    merger = Engine(spec_for(way, kind)).merger
    for name, text_of in HARD.items():
        texts = [text_of(size) for size in SIZES]
        symbols = [len(text) if kind == "characters" else len(text.encode()) for text in texts]
        times = [hooks.merging(merger, text.encode())[1] / n for text, n in zip(texts, symbols, strict=True)]
        assert (len(set(texts[0])) > 1) <= times[0] <= MOST, name
        assert times[1] <= times[0] + 1, name


@pytest.fixture
def huge_windows() -> Iterator[Callable[[int], object]]:
    """Sets the symbols of the windows that a piece is merged in after it was given up."""
    before = set_huge_window(1 << 20)
    yield set_huge_window
    set_huge_window(before)


@pytest.mark.parametrize("kind", ["all", "letters", "characters", "doubled", "long tokens"])
@pytest.mark.parametrize("size", [100, 700, 5000])
def test_huge_windows_give_the_ids_of_the_whole_piece(
    hooks: Any, huge_windows: Callable[[int], object], kind: str, size: int
) -> None:
    texts = {name: text_of(SIZES[0]) for name, text_of in HARD.items()}
    spec = long_tokens() if kind == "long tokens" else trained(kind)
    texts["long tokens"] = LONG_TOKEN * 4 + LONG_TOKEN[:-1] + "x" + LONG_TOKEN[1:]
    merger = Engine(spec).merger
    for name, text in texts.items():
        huge_windows(1 << 40)
        expected = hooks.merging(merger, text.encode())[0]
        huge_windows(size)
        assert hooks.merging(merger, text.encode())[0].tolist() == expected.tolist(), name


LONG_TOKEN = "A" + random_text(LETTERS, 2999)


@cache
def long_tokens() -> TokenizerSpec:
    """A vocabulary with a token that is longer than a window, and no short cut to it: each merge adds a letter."""
    base = bpe.train(texts=["a"], vocab_size=256, pretokenizer=None)
    tokens, merges, left = [], [], base.token_id(LONG_TOKEN[0])
    for n in range(2, len(LONG_TOKEN) + 1):
        tokens.append(LONG_TOKEN[:n].encode())
        merges.append((left, base.token_id(LONG_TOKEN[n - 1])))
        left = 254 + n
    vocabulary = base.spec.vocabulary
    blob = vocabulary.blob + b"".join(tokens)
    offsets = np.concatenate((vocabulary.offsets, vocabulary.offsets[-1] + np.cumsum([len(token) for token in tokens])))
    kinds = np.concatenate((vocabulary.kinds, np.full(len(tokens), ORDINARY, dtype=vocabulary.kinds.dtype)))
    return replace(
        base.spec,
        vocabulary=Vocabulary.from_arrays(blob=blob, offsets=offsets, kinds=kinds),
        merges=np.array(merges, dtype=np.int32),
        merge_results=np.arange(256, 256 + len(merges), dtype=np.int32),
    )


def test_a_piece_whose_windows_fail_takes_memory_for_a_huge_window_only(
    hooks: Any, huge_windows: Callable[[int], object]
) -> None:
    huge_windows(20_000)
    merger, text = Engine(long_tokens()).merger, LONG_TOKEN.encode()
    sizes = []
    for n in (100, 200):
        ids, _, size = hooks.merging(merger, text * n)
        assert ids.tolist() == [len(text) + 254] * n
        sizes.append(size)
    assert sizes[0] == sizes[1] < 20_000 * 60
