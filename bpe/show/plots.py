"""Charts with matplotlib, which is imported only here (the extra `plot`).

Each function draws on the axes it is given, or on new ones, and returns them, so that titles and scales can be changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def new_axes(ax: Axes | None) -> Axes:
    """The given axes, or new ones.

    Raises:
        ModuleNotFoundError: without matplotlib.

    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ModuleNotFoundError:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'bytepair[plot]'") from None
    return plt.subplots(layout="constrained")[1]


def lengths(token_lengths: NDArray[np.uint32], ax: Axes | None = None) -> Axes:
    """A histogram of the lengths of tokens in bytes."""
    ax = new_axes(ax)
    counts = np.bincount(token_lengths)
    used = np.flatnonzero(counts)
    ax.bar(used, counts[used])
    ax.set(xlabel="bytes in a token", ylabel="tokens", title="Length of tokens")
    return ax


def frequencies(counts: NDArray[np.int64], ax: Axes | None = None) -> Axes:
    """How often tokens occur, from the most frequent to the rarest that occurs; both axes are logarithmic."""
    ax = new_axes(ax)
    ordered = np.sort(counts[counts > 0])[::-1]
    ax.loglog(np.arange(1, len(ordered) + 1), ordered)
    ax.set(xlabel="rank by frequency", ylabel="occurrences", title="Frequency by rank")
    return ax


def compression(points: Sequence[tuple[int, float]], ax: Axes | None = None) -> Axes:
    """Bytes per token for vocabularies of several sizes, as (size, bytes per token)."""
    ax = new_axes(ax)
    ax.plot(*zip(*points, strict=True), marker="o")
    ax.set(xscale="log", xlabel="vocabulary size", ylabel="bytes per token", title="Compression by vocabulary size")
    return ax


def bars(values: Mapping[str, Mapping[str, tuple[float, float, float]]], label: str, ax: Axes | None = None) -> Axes:
    """Groups of horizontal bars with intervals: by group and series, (value, low, high)."""
    ax = new_axes(ax)
    names = list(dict.fromkeys(name for series in values.values() for name in series))
    height = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        rows = [(at, series[name]) for at, series in enumerate(values.values()) if name in series]
        at = [row + i * height for row, _ in rows]
        middle = [value for _, (value, _, _) in rows]
        whiskers = [[value - low for _, (value, low, _) in rows], [high - value for _, (value, _, high) in rows]]
        ax.barh(at, middle, height, xerr=whiskers, label=name)
    ax.set_yticks([row + 0.4 - height / 2 for row in range(len(values))], list(values))
    ax.invert_yaxis()
    ax.set_xlabel(label)
    if len(names) > 1:
        ax.legend()
    return ax
