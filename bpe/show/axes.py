"""Axes of matplotlib, which is imported only here (the extra `plot`), and bars on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

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


def plot_bars(
    values: Mapping[str, Mapping[str, tuple[float, float, float]]], label: str, ax: Axes | None = None
) -> Axes:
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
