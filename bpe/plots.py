"""Pictures of a tokenizer: plots with matplotlib (extra `plot`), and a text merge by merge.

`Tokenizer.show` draws the tokens of a text. Each plot is drawn on the axes given, or on new ones, and returns them, so
that titles and scales can be changed.

>>> import bpe
>>> from bpe.plots import show_merges
>>> tok = bpe.train(counts={"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, num_merges=3)
>>> print(show_merges(tok, "hug pun"))
step  merge                    tokens
   0                           h|u|g|·|p|u|n
   1  u + g (rank 0, id 256)   h|ug|·|p|u|n
   2  u + n (rank 1, id 257)   h|ug|·|p|un
   3  h + ug (rank 2, id 258)  hug|·|p|un
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from bpe.base.utf8 import TextLike, to_bytes
from bpe.drawing import draw_tokens
from bpe.encode.explain import list_merge_steps
from bpe.errors import describe, pluralize
from bpe.show.views import MergeSteps
from bpe.tokenizer import Tokenizer, check_tokenizer
from bpe.vocab.vocabulary import NO_TOKEN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_compression", "plot_frequencies", "plot_lengths", "show_merges"]

#: The most bytes of a text that `show_merges` takes: its time is quadratic in the longest word.
MAX_TEXT_BYTES = 10_000


def __dir__() -> list[str]:
    return __all__


def plot_lengths(tokenizer: Tokenizer, ax: Axes | None = None) -> Axes:
    """Plot how many tokens have each length in bytes.

    Args:
        tokenizer: the tokenizer.
        ax: the axes to draw on; None for new ones.

    Raises:
        ModuleNotFoundError: without matplotlib.

    """
    check_tokenizer(tokenizer)
    ax = get_axes(ax)
    lengths = tokenizer.token_byte_lengths
    counts = np.bincount(lengths[lengths > 0])
    used_lengths = np.flatnonzero(counts)
    ax.bar(used_lengths, counts[used_lengths])
    ax.set(xlabel="bytes in a token", ylabel="tokens", title="Length of tokens")
    return ax


def plot_frequencies(tokenizer: Tokenizer, texts: Iterable[TextLike], ax: Axes | None = None) -> Axes:
    """Plot how often each token occurs in texts, by its rank among them, on logarithmic axes.

    Args:
        tokenizer: the tokenizer.
        texts: as for `Tokenizer.encode_batch`.
        ax: as for `plot_lengths`.

    Raises:
        ModuleNotFoundError: without matplotlib.

    """
    check_tokenizer(tokenizer)
    ax = get_axes(ax)
    counts = np.bincount(tokenizer.encode_batch(texts).ids)
    sorted_counts = np.sort(counts[counts > 0])[::-1]
    ax.loglog(np.arange(1, len(sorted_counts) + 1), sorted_counts)
    ax.set(xlabel="rank by frequency", ylabel="occurrences", title="Frequency by rank")
    return ax


def plot_compression(tokenizer: Tokenizer, text: TextLike, ax: Axes | None = None) -> Axes:
    """Plot bytes per token of a text against the vocabulary's size, by truncating the vocabulary.

    Args:
        tokenizer: the tokenizer.
        text: as for `Tokenizer.encode`.
        ax: as for `plot_lengths`.

    Raises:
        ModuleNotFoundError: without matplotlib.
        ValueError: for an empty text; as `Tokenizer.encode`.

    """
    check_tokenizer(tokenizer)
    if not to_bytes(text):
        raise ValueError("the text is empty; give one with at least one byte")
    tokenizer.count_tokens(text)  # raises the errors of a text without ids
    ax = get_axes(ax)
    ax.plot(*zip(*measure_compression(tokenizer, text), strict=True), marker="o")
    ax.set(xscale="log", xlabel="vocabulary size", ylabel="bytes per token", title="Compression by vocabulary size")
    return ax


def show_merges(tokenizer: Tokenizer, text: TextLike) -> MergeSteps:
    """Show a text before any merge, and after each merge that changes it, in the order of ranks.

    In a notebook this is a slider through the steps, which works without a kernel; elsewhere, a header and a line for
    each.

    Args:
        tokenizer: the tokenizer.
        text: at most 10,000 bytes; a special token's name is ordinary text.

    Raises:
        TypeError: for a text that is not str or bytes.
        ValueError: for a longer text; for a tokenizer with merges across words, or with deletions.

    """
    check_tokenizer(tokenizer)
    if (size := len(to_bytes(text))) > MAX_TEXT_BYTES:
        raise ValueError(f"the text has {pluralize(size, 'byte')}; show_merges takes at most {MAX_TEXT_BYTES}")
    return MergeSteps(
        [
            (merge, draw_tokens(tokenizer, [(data, None if i == NO_TOKEN else i) for data, i in tokens]))
            for merge, tokens in list_merge_steps(tokenizer._engine, text)
        ]
    )


def measure_compression(tokenizer: Tokenizer, text: TextLike) -> list[tuple[int, float]]:
    """Measure the bytes per token of a text with this vocabulary and with smaller ones, truncated to powers of two.

    Returns:
        (vocabulary size, bytes per token), from the smallest vocabulary to the whole one. Each vocabulary is truncated
        from the next larger one, which is half the work of truncating the whole one each time.

    """
    size, smaller_tokenizer = len(to_bytes(text)), tokenizer
    sizes_and_ratios: list[tuple[int, float]] = []
    with suppress(ValueError):  # smaller than the alphabet, or a symbol without an id
        for power in range((tokenizer.vocab_size - 1).bit_length(), 0, -1):
            if 2**power < tokenizer.vocab_size:
                smaller_tokenizer, _ = smaller_tokenizer.truncate_vocab(2**power)
            sizes_and_ratios.append((smaller_tokenizer.vocab_size, size / max(1, smaller_tokenizer.count_tokens(text))))
    return sizes_and_ratios[::-1]


def get_axes(ax: Axes | None) -> Axes:
    """Return the given axes, or new ones.

    Raises:
        ModuleNotFoundError: without matplotlib.
        TypeError: for what are no axes of matplotlib.

    """
    try:
        from matplotlib import axes
    except ModuleNotFoundError:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'bytepair[plot]'") from None
    if ax is None:
        from matplotlib import pyplot as plt  # only here, since it chooses a backend

        return plt.subplots(layout="constrained")[1]
    if not isinstance(ax, axes.Axes):
        raise TypeError(f"ax is {describe(ax)}; it must be axes of matplotlib, such as plt.subplots()[1]")
    return ax


def plot_bars(
    values: Mapping[str, Mapping[str, tuple[float, float, float]]], label: str, ax: Axes | None = None
) -> Axes:
    """Draw groups of horizontal bars with intervals: by group and series, (value, low, high)."""
    ax = get_axes(ax)
    names = list(dict.fromkeys(name for series in values.values() for name in series))
    height = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        rows = [(row, series[name]) for row, series in enumerate(values.values()) if name in series]
        positions = [row + i * height for row, _ in rows]
        ax.barh(positions, [value for _, (value, _, _) in rows], height, label=name)
        middles = [(low + high) / 2 for _, (_, low, high) in rows]  # an interval need not hold the value
        half_widths = [(high - low) / 2 for _, (_, low, high) in rows]
        ax.errorbar(middles, positions, xerr=half_widths, fmt="none", ecolor="black")
    ax.set_yticks([row + 0.4 - height / 2 for row in range(len(values))], list(values))
    ax.invert_yaxis()
    ax.set_xlabel(label)
    if len(names) > 1:
        ax.legend()
    return ax
