"""Lines, and histograms with curves and marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.plots.style import COLOURS, INK, LEGEND, LINES, MARKERS, SMALL, WIDTH
from surprise_rerank.eval.reports.plots.texts import shown, width
from surprise_rerank.eval.reports.report import Mark, Plot, Series

_MOST_MARKERS = 40
_MARK, _MARK_ROWS = "#d55e00", 4  # names of marks above each other, at most
_AXIS = 0.6 * WIDTH  # at least how long the x axis is
_LONGEST_MARK = 0.3 * WIDTH


def lines(plot: Plot, axes: Any) -> None:
    """A line with markers for each series; with its intervals where it has them."""
    for i, series in enumerate(plot.series):
        few = len(series.x) <= _MOST_MARKERS
        style = {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i % len(LINES)], "linewidth": 1.8}
        marker = {"marker": MARKERS[i % len(MARKERS)] if few else "", "markersize": 5}
        is_named = any(isinstance(x, str) for x in series.x)
        x = series.x if is_named else finite(series.x)
        y = finite(series.y)
        axes.plot(x, y, label=legend_name(series), **style, **marker)
        if series.low:
            ends = np.abs(np.vstack([y - finite(series.low), finite(series.high) - y]))
            axes.errorbar(x, y, yerr=ends, fmt="none", ecolor=style["color"], elinewidth=1, capsize=3)


def histogram(plot: Plot, axes: Any) -> None:
    """Filled steps, curves over them, and marks."""
    for i, series in enumerate(plot.series):
        steps(axes, i, finite(series.y), finite(series.x), legend_name(series))
    for i, curve in enumerate(plot.curves):
        style = {"color": INK, "linestyle": LINES[i % len(LINES)], "linewidth": 1.6}
        axes.plot(finite(curve.x), finite(curve.y), label=legend_name(curve), **style)
    marks = [mark for mark in plot.marks if math.isfinite(mark.x)]
    if marks:
        _place_marks(marks, axes)


def steps(axes: Any, i: int, heights: Any, borders: Any, name: str) -> None:
    """A histogram of one series, which those below can be seen through."""
    colour, line = COLOURS[i % len(COLOURS)], LINES[i % len(LINES)]
    axes.stairs(heights, borders, fill=True, color=colour, alpha=0.3)
    axes.stairs(heights, borders, color=colour, linestyle=line, linewidth=1.6, label=name)


def finite(values: Sequence[Any]) -> Float64Array:
    """Numbers as float64, with NaN for what is infinite, too: it is left out."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def legend_name(series: Series) -> str:
    """The name of a series, as a legend has room for it."""
    return shown(series.name, LEGEND, 0.8 * WIDTH)


def _place_marks(marks: Sequence[Mark], axes: Any) -> None:
    """A line for every mark; its name above the frame, in the lowest row that has room for it, if any has.

    The first marks are placed first: what finds no room is a later one.
    """
    ends = [*axes.get_xlim(), *(mark.x for mark in marks)]
    margin = 0.02 * (max(ends) - min(ends))
    low, high = axes.set_xlim(min(ends) - margin, max(ends) + margin)
    rows: list[list[tuple[float, float]]] = [[] for _ in range(_MARK_ROWS)]
    scale = (high - low) / _AXIS
    for mark in marks:
        name = shown(mark.name, SMALL, _LONGEST_MARK)
        axes.axvline(mark.x, color=_MARK, linewidth=1.1)
        half = (width(name, SMALL) + 6) / 2 * scale
        # From one of the frame's ends where it would be beyond.
        side, at = "center", mark.x
        if mark.x - half < low:
            side, at = "left", low
        elif mark.x + half > high:
            side, at = "right", high
        left = at - {"left": 0, "center": half, "right": 2 * half}[side]
        right = left + 2 * half
        free = (i for i, row in enumerate(rows) if all(right < a or left > b for a, b in row))
        number = next(free, None)
        if number is None:
            continue
        rows[number].append((left, right))
        axes.annotate(
            name,
            (at, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 2 + number * (SMALL + 1.5)),
            textcoords="offset points",
            fontsize=SMALL,
            color=INK,
            ha=side,
            va="bottom",
            annotation_clip=False,
        )
