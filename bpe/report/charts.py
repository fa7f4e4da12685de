"""Charts as inline SVG with a table of their numbers: lines, columns, and bars with intervals.

A chart is a `<figure>`: a caption, the picture, and the numbers to unfold, for readers who do not see it. Colours
are classes `s0` to `s5` of the page's style, so that both themes can set them; lines differ in their dashes too.
Pictures are 400 units wide and as wide as their column, so that their text stays legible on a phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, log10

from bpe.show.html import Heading, Html, format_number, make_scroll_box, make_table, to_html

WIDTH, HEIGHT = 400, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 44
N_SERIES = 6

Points = Sequence[tuple[float, float]]


def draw_line_chart(
    title: str, series: Mapping[str, Points], labels: tuple[str, str], *, log_x: bool = False, log_y: bool = False
) -> Html:
    """Draw lines through points; a point of a logarithmic axis that is not positive is left out.

    Args:
        title: the caption.
        series: by name, the points (x, y), x ascending.
        labels: what the axes show.
        log_x: whether the x axis is logarithmic.
        log_y: whether the y axis is logarithmic.

    """
    drawable_series = {
        name: [(x, y) for x, y in points if (x > 0 or not log_x) and (y > 0 or not log_y)]
        for name, points in series.items()
    }
    all_points = [point for points in drawable_series.values() for point in points]
    if not all_points:
        return Html("")
    x_axis = Axis([x for x, _ in all_points], (_LEFT, WIDTH - _RIGHT), log=log_x)
    y_axis = Axis([y for _, y in all_points], (HEIGHT - _BOTTOM, _TOP), log=log_y, from_zero=not log_y)
    shapes = [_draw_grid(x_axis, y_axis, labels)]
    for i, (name, series_points) in enumerate(drawable_series.items()):
        positions = [(x_axis.position(x), y_axis.position(y)) for x, y in series_points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in positions)
        shapes.append(f'<g class="s{i % N_SERIES}"><polyline points="{path}"/>')
        if len(positions) <= 24:
            shapes += [
                f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="3">'
                f"<title>{to_html(name)}: {format_number(x)}, {format_number(y)}</title></circle>"
                for (cx, cy), (x, y) in zip(positions, series_points, strict=True)
            ]
        shapes.append("</g>")
    xs = sorted({x for series_points in drawable_series.values() for x, _ in series_points})
    by_x = {name: dict(series_points) for name, series_points in drawable_series.items()}
    rows = [[x, *(by_x[name].get(x) for name in drawable_series)] for x in _thin_out(xs, 24)]
    return _wrap_figure(
        title, list(drawable_series), shapes, HEIGHT, make_table([labels[0], *drawable_series], rows, caption=labels[1])
    )


def draw_column_chart(
    title: str, groups: Sequence[str], series: Mapping[str, Sequence[float]], labels: tuple[str, str]
) -> Html:
    """Draw groups of columns side by side, such as a histogram of several vocabularies."""
    y_axis = Axis([value for values in series.values() for value in values], (HEIGHT - _BOTTOM, _TOP), from_zero=True)
    group_width = (WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    bar_width = 0.8 * group_width / max(1, len(series))
    shapes = [_draw_grid(None, y_axis, labels)]
    label_step = ceil(len(groups) / 12)
    shapes += [
        f'<text x="{_LEFT + group_width * (i + 0.5):.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
        f"{to_html(group)}</text>"
        for i, group in enumerate(groups)
        if i % label_step == 0
    ]
    for i, (name, values) in enumerate(series.items()):
        shapes.append(f'<g class="s{i % N_SERIES}">')
        for j, value in enumerate(values):
            top = y_axis.position(value)
            shapes.append(
                f'<rect x="{_LEFT + group_width * (j + 0.1) + bar_width * i:.1f}" y="{top:.1f}" '
                f'width="{max(bar_width - 0.5, 0.5):.1f}" height="{HEIGHT - _BOTTOM - top:.1f}">'
                f"<title>{to_html(name)}, {to_html(groups[j])}: {format_number(value)}</title></rect>"
            )
        shapes.append("</g>")
    rows = [[Heading(group), *(values[j] for values in series.values())] for j, group in enumerate(groups)]
    return _wrap_figure(title, list(series), shapes, HEIGHT, make_table([labels[0], *series], rows, caption=labels[1]))


def draw_bar_chart(title: str, groups: Mapping[str, Mapping[str, tuple[float, float, float]]], label: str) -> Html:
    """Draw horizontal bars with intervals.

    Args:
        title: the caption.
        groups: by group and series, (value, low end, high end) of the interval.
        label: what the axis shows.

    """
    names = list(dict.fromkeys(name for series in groups.values() for name in series))
    values = [value for series in groups.values() for interval in series.values() for value in interval]
    if not values:
        return Html("")
    row_height = 14
    group_height = 20 + row_height * len(names) + 8
    height = _TOP + group_height * len(groups) + _BOTTOM
    axis = Axis(values, (12, WIDTH - 48), from_zero=True)
    shapes = [
        f'<g class="grid"><line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>'
        f'<text x="{x:.1f}" y="{height - _BOTTOM + 16}" text-anchor="middle">{format_number(tick)}</text></g>'
        for tick, x in ((tick, axis.position(tick)) for tick in axis.ticks)
    ]
    shapes.append(_draw_axis_label(label, WIDTH / 2, height - 8))
    for i, (group, series) in enumerate(groups.items()):
        top = _TOP + group_height * i
        shapes.append(f'<text class="group" x="12" y="{top + 14}">{to_html(_shorten(group, 44))}</text>')
        for j, name in enumerate(names):
            if name in series:
                shapes.append(
                    _draw_bar(axis, series[name], top + 20 + row_height * j, row_height - 2, j, f"{group}, {name}")
                )
    columns = ["corpus", "tokenizer", label]
    if any(high > low for series in groups.values() for _, low, high in series.values()):
        columns.append("interval")
    rows = [
        [Heading(group), name, value, f"{format_number(low)} to {format_number(high)}"][: len(columns)]
        for group, series in groups.items()
        for name, (value, low, high) in series.items()
    ]
    return _wrap_figure(title, names, shapes, height, make_table(columns, rows))


def _draw_bar(
    axis: Axis, interval: tuple[float, float, float], y: float, height: float, series_index: int, name: str
) -> str:
    value, low, high = interval
    middle, start, end, right = y + height / 2, axis.position(low), axis.position(high), axis.position(value)
    whisker = (
        f'<path class="whisker" d="M{start:.1f} {middle:.1f}H{end:.1f}M{start:.1f} {y + 2:.1f}v{height - 4}M{end:.1f} '
        f'{y + 2:.1f}v{height - 4}"/>'
        if high > low
        else ""
    )
    return (
        f'<g class="s{series_index % N_SERIES}"><rect x="12" y="{y:.1f}" width="{max(0.0, right - 12):.1f}" '
        f'height="{height}"><title>{to_html(name)}: {format_number(value)}, {format_number(low)} to '
        f"{format_number(high)}</title></rect>{whisker}</g>"
        f'<text x="{max(end, right) + 4:.1f}" y="{y + height - 2:.1f}">{format_number(round(value, 3))}</text>'
    )


class Axis:
    """Positions of values along an axis, and the values that get a tick.

    >>> axis = Axis([0, 10], (0, 100))
    >>> axis.ticks, axis.position(5)
    ([0.0, 2.0, 4.0, 6.0, 8.0, 10.0], 50.0)
    >>> Axis([1, 1000], (0, 90), log=True).ticks
    [1.0, 10.0, 100.0, 1000.0]

    """

    def __init__(
        self, values: Sequence[float], ends: tuple[float, float], *, log: bool = False, from_zero: bool = False
    ) -> None:
        self._log = log
        low, high = float(min(values, default=0)), float(max(values, default=1))
        if log:
            low, high = floor(log10(low)), ceil(log10(high))
            high += high == low
            tick_step = ceil((high - low) / 6)
            self.ticks = [10.0**power for power in range(int(low), int(high) + 1, tick_step)]
        else:
            low = min(0, low) if from_zero else low
            high += (high <= low) * (abs(low) or 1)
            step = _round_step((high - low) / 4)
            low, high = floor(low / step) * step, ceil(high / step) * step
            self.ticks = [round(low + i * step, 10) for i in range(round((high - low) / step) + 1)]
        self._low, self._high, self._ends = low, high, ends

    def position(self, value: float) -> float:
        """Return the position of a value."""
        fraction = ((log10(value) if self._log else value) - self._low) / (self._high - self._low)
        return self._ends[0] + fraction * (self._ends[1] - self._ends[0])


def _round_step(step: float) -> float:
    """Round a step up to 1, 2 or 5 times a power of ten, or down a little."""
    power = 10.0 ** floor(log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * 0.8)


def _draw_grid(x_axis: Axis | None, y_axis: Axis, labels: tuple[str, str]) -> str:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    shapes = ['<g class="grid">']
    for tick in y_axis.ticks:
        y = y_axis.position(tick)
        shapes.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_format_tick(tick)}</text>')
    for tick in x_axis.ticks if x_axis else ():
        x = x_axis.position(tick) if x_axis else 0
        shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        shapes.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_format_tick(tick)}</text>')
    middle = (_TOP + bottom) / 2
    shapes.append(_draw_axis_label(labels[0], (_LEFT + right) / 2, HEIGHT - 8))
    shapes.append(
        f'<text class="label" x="13" y="{middle}" text-anchor="middle" transform="rotate(-90 13 {middle})">'
        f"{to_html(labels[1])}</text></g>"
    )
    return "".join(shapes)


def _draw_axis_label(label: str, x: float, y: float) -> str:
    return f'<text class="label" x="{x:.1f}" y="{y}" text-anchor="middle">{to_html(label)}</text>'


def _wrap_figure(title: str, names: Sequence[str], shapes: Sequence[str], height: float, number_table: str) -> Html:
    legend_items = "".join(
        f'<li class="s{i % N_SERIES}"><svg viewBox="0 0 24 10" aria-hidden="true"><line x1="0" x2="24" y1="5" y2="5"/>'
        f"</svg>{to_html(name)}</li>"
        for i, name in enumerate(names)
    )
    legend = f'<ul class="key">{legend_items}</ul>' if len(names) > 1 else ""
    return Html(
        f"<figure><figcaption>{to_html(title)}</figcaption>{legend}"
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{to_html(title)}">'
        f"{''.join(shapes)}</svg>"
        "<details><summary>The numbers</summary>"
        f"{make_scroll_box(f'{title}: the numbers', number_table)}</details></figure>"
    )


def _format_tick(value: float) -> str:
    """Format a number on an axis.

    >>> _format_tick(200000), _format_tick(1e9), _format_tick(0.5)
    ('200k', '1G', '0.5')
    """
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _shorten(name: str, max_length: int) -> str:
    return name if len(name) <= max_length else name[: max_length - 1] + "…"


def _thin_out(values: Sequence[float], max_values: int) -> list[float]:
    """Pick at most `max_values` values, evenly spread, with the first and the last."""
    if len(values) <= max_values:
        return list(values)
    return [values[round(i * (len(values) - 1) / (max_values - 1))] for i in range(max_values)]


def pick_ranks(n: int, max_ranks: int = 64) -> list[int]:
    """Pick ranks from 1 to n, evenly on a logarithmic axis.

    >>> pick_ranks(5), pick_ranks(0)
    ([1, 2, 3, 4, 5], [])
    """
    if n <= max_ranks:
        return list(range(1, n + 1))
    ranks = sorted({round(n ** (i / (max_ranks - 1))) for i in range(max_ranks)})
    return [a for a, b in pairwise([*ranks, n + 1]) if a < b]
