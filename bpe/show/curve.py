"""The curve of a training as lines for a terminal: a bar for each row. Pure functions.

Charts with matplotlib: `bpe/plots.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Parts of a character cell, from an eighth to a whole.
_BLOCKS = " ▏▎▍▌▋▊▉█"
_COLOUR, _RESET = "\x1b[38;5;74m", "\x1b[0m"
#: The most cells of a bar.
WIDTH = 40


def draw_curve(curve: Sequence[tuple[int, int, float]], *, colour: bool = False, width: int = WIDTH) -> list[str]:
    """A heading, and a line for each row (merges, count, bytes per token) with a bar up to `width` cells long.

    >>> for line in draw_curve([(1, 1200, 1.5), (2, 30, 2.0)], width=8):
    ...     print(line)
    merges  count  bytes per token
         1  1,200  1.500 ██████
         2     30  2.000 ████████

    """
    heads = ("merges", "count", "bytes per token")
    cells = [(f"{merges:,}", f"{count:,}", f"{length:.3f}") for merges, count, length in curve]
    wide = [max(len(head), *(len(row[i]) for row in cells), 0) for i, head in enumerate(heads[:2])]
    most = max((length for _, _, length in curve), default=1.0)
    lines = [f"{heads[0]:>{wide[0]}}  {heads[1]:>{wide[1]}}  {heads[2]}"]
    for (merges, count, length), (_, _, value) in zip(cells, curve, strict=True):
        drawn = bar(value / most if most > 0 else 0.0, width)
        drawn = f"{_COLOUR}{drawn}{_RESET}" if colour and drawn else drawn
        lines.append(f"{merges:>{wide[0]}}  {count:>{wide[1]}}  {length} {drawn}".rstrip())
    return lines


def bar(part: float, width: int) -> str:
    """A bar of this part of `width` cells, to an eighth of a cell.

    >>> bar(0.5, 5)
    '██▌'
    """
    eighths = round(max(0.0, min(part, 1.0)) * width * 8)
    return _BLOCKS[8] * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
