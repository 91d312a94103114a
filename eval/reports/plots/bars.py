"""What stands in rows below each other: bars, systems with their intervals, questions by gain and loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.plots.curves import finite, legend_name, steps
from surprise_rerank.eval.reports.plots.style import (
    BAND,
    COLOURS,
    FAINT,
    GAIN,
    INK,
    LEFT,
    LOSS,
    NAME,
    ROW,
    SMALL,
    WIDTH,
    sign_colour,
)
from surprise_rerank.eval.reports.plots.texts import folded, shown
from surprise_rerank.eval.reports.report import Plot, Series

_NAMED_BARS = 60
_AROUND = 80.0  # height of axes, labels and margins together
_NAMED_GAINS = 8  # and as many losses
_ALL_NAMED = 20  # from as many on only the largest gains and losses have a name
_THIN, _MOST_THIN = 3.0, 5 * ROW  # height of a question without a name, and of all of them


def height(plot: Plot) -> float | None:
    """How high a figure of rows must be, without its legend; None where the usual height will do."""
    if plot.kind == "forest":
        return _AROUND + 1.2 * ROW * (len(_first(plot).y) + 1)
    if plot.kind == "gains":
        return _AROUND + sum(row.height for row in _rows_of(_first(plot)))
    names = named_bars(plot)
    return max(_AROUND + 2 * ROW, _AROUND + ROW * names * len(plot.series) ** 0.5) if names else None


def named_bars(plot: Plot) -> int:
    """How many bars, or groups of them, have their names beside them."""
    labels = len(_labels(plot.series)) if plot.kind == "bars" else 0
    return labels if labels <= _NAMED_BARS else 0


def bars(plot: Plot, axes: Any) -> None:
    """Bars with their names and intervals; sorted where there is one series."""
    if not named_bars(plot):
        _many_bars(plot, axes)
        return
    labels = _labels(plot.series)
    thick = 0.8 / len(plot.series)
    for i, series in enumerate(plot.series):
        places = {label: place for place, label in enumerate(series.x)}
        chosen = [places.get(label) for label in labels]
        values = _picked(series.y, chosen)
        rows = np.arange(len(labels)) + thick * (i - (len(plot.series) - 1) / 2)
        axes.barh(
            rows,
            values,
            thick,
            label=legend_name(series),
            color=_colours(i, values, alone=len(plot.series) == 1),
            hatch="" if i < len(COLOURS) else "///",
        )
        if series.low:
            low, high = _picked(series.low, chosen), _picked(series.high, chosen)
            ends = np.maximum(np.vstack([values - low, high - values]), 0)
            axes.errorbar(values, rows, xerr=ends, fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
    axes.set_yticks(range(len(labels)), [shown(str(label), NAME, LEFT) for label in labels], fontsize=NAME)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(visible=False, axis="y")


def forest(plot: Plot, axes: Any) -> None:
    """A line for each system: its difference as a point, the interval as a line, numbers on the right.

    What is certain (the interval excludes the baseline) is filled and coloured.
    """
    series = _first(plot)
    order = np.argsort(-finite(series.y), kind="stable").tolist()
    for row, i in enumerate(order):
        value = float(finite(series.y)[i])
        low, high = (series.low[i], series.high[i]) if series.low else (value, value)
        certain = low > 0 or high < 0
        colour = sign_colour(value) if certain else FAINT
        axes.plot([low, high], [row, row], color=colour, linewidth=2.2, solid_capstyle="butt")
        face = colour if certain else "white"
        axes.plot(value, row, "o", color=colour, markerfacecolor=face, markersize=8, markeredgewidth=1.8)
        if series.beside:
            _at_right(shown(series.beside[i], SMALL, 0.4 * WIDTH), row, axes)
    names = [shown(str(series.x[i]), NAME, 0.3 * WIDTH) for i in order]
    axes.set_yticks(range(len(order)), names, fontsize=NAME)
    axes.set_ylim(len(order) - 0.4, -0.9)
    for mark in plot.marks:
        axes.axvline(mark.x, color=INK, linewidth=1.4)
        axes.annotate(
            shown(mark.name, SMALL, 0.4 * WIDTH),
            (mark.x, 1),
            (0, 3),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            fontsize=SMALL,
            color=INK,
            ha="center",
            va="bottom",
        )
    axes.margins(x=0.06)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def gains(plot: Plot, axes: Any) -> None:
    """Questions from the largest gain to the largest loss.

    The largest have their words and values beside them, those between them have neither; those that stay are
    one row.
    """
    rows = _rows_of(_first(plot))
    top = 0.0
    ticks, labels = [], []
    for row in rows:
        if not row.values:
            axes.axhspan(top, top + row.height, color=BAND, linewidth=0)
        elif not row.is_named:  # one path for all of them
            borders = np.linspace(top, top + row.height, len(row.values) + 1)
            colour = sign_colour(row.values[0])
            axes.stairs(row.values, borders, orientation="horizontal", fill=True, color=colour)
        else:
            value = row.values[0]
            axes.barh(top + row.height / 2, value, 0.72 * row.height, color=sign_colour(value))
            axes.annotate(
                f"{value:+.2f}",
                (value, top + row.height / 2),
                (4 if value > 0 else -4, 0),
                textcoords="offset points",
                fontsize=SMALL,
                ha="left" if value > 0 else "right",
                va="center",
            )
        ticks.append(top + row.height / 2)
        labels.append(folded(row.label, SMALL, LEFT, 2))
        top += row.height
    axes.set_yticks(ticks, labels, fontsize=SMALL, linespacing=1.05)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_color(INK if row.is_named else FAINT)
        tick.set_fontweight("normal" if row.is_named else "bold")
    axes.set_ylim(max(top, 1.0), 0)
    axes.axvline(0, color=INK, linewidth=0.8)
    # Room for the values beside the bars.
    low, high = (float(bound) for bound in axes.dataLim.intervalx)
    if low < high:
        axes.set_xlim(low - 0.16 * (high - low) * (low < 0), high + 0.16 * (high - low) * (high > 0))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a plot of gains.

    Attributes:
        label: the words of a question, or how many there are.
        values: of its questions; none of those that stay.
        height: in points.
        is_named: whether it is one question.
    """

    label: str
    values: tuple[float, ...]
    height: float
    is_named: bool


def _rows_of(series: Series) -> list[_Row]:
    values = finite(series.y)
    order = np.argsort(-values, kind="stable").tolist()
    better = [(float(values[i]), str(series.x[i])) for i in order if values[i] > 0]
    worse = [(float(values[i]), str(series.x[i])) for i in order if values[i] < 0]
    same = int((values == 0).sum())
    few = len(better) + len(worse) <= _ALL_NAMED
    most = _ALL_NAMED if few else _NAMED_GAINS
    rows = [_named(*one) for one in better[:most]]
    rows += _unnamed(better[most:], "gain")
    if same:
        rows.append(_Row(f"{_questions(same)} unchanged", (), ROW, is_named=False))
    rows += _unnamed(worse[: max(len(worse) - most, 0)], "lose")
    rows += [_named(*one) for one in worse[max(len(worse) - most, 0) :]]
    return rows


def _named(value: float, label: str) -> _Row:
    return _Row(label, (value,), 1.35 * ROW, is_named=True)


def _unnamed(some: Sequence[tuple[float, str]], verb: str) -> Iterator[_Row]:
    if some:
        thin = min(max(_THIN * len(some), ROW), _MOST_THIN)
        verb = verb if len(some) > 1 else f"{verb}s"
        yield _Row(f"{len(some)} more {verb}", tuple(value for value, _ in some), thin, is_named=False)


def _questions(count: int) -> str:
    return f"{count} question{'s' * (count > 1)}"


def _many_bars(plot: Plot, axes: Any) -> None:
    """Bars without names, as filled steps: one path for the gains and one for the losses."""
    for i, series in enumerate(plot.series):
        values = finite(series.y)
        values = np.sort(values[~np.isnan(values)])[::-1]
        borders = np.arange(len(values) + 1) + 0.5
        if len(plot.series) > 1:
            steps(axes, i, values, borders, legend_name(series))
            continue
        for colour, part in ((GAIN, values > 0), (LOSS, values < 0)):
            axes.stairs(np.where(part, values, 0), borders, fill=True, color=colour)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.margins(x=0.01)


def _at_right(text: str, row: int, axes: Any) -> None:
    axes.annotate(
        text,
        (1, row),
        (8, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        fontsize=SMALL,
        va="center",
    )


def _first(plot: Plot) -> Series:
    return plot.series[0] if plot.series else Series("", (), ())


def _labels(many: Sequence[Series]) -> list[Any]:
    """The labels of bars; of a single series, from the largest to the smallest."""
    if len(many) == 1:
        order = np.argsort(-finite(many[0].y), kind="stable")
        return [many[0].x[i] for i in order]
    return list(dict.fromkeys(label for series in many for label in series.x))


def _picked(values: Sequence[float], places: Sequence[int | None]) -> Float64Array:
    return finite([math.nan if place is None else values[place] for place in places])


def _colours(i: int, values: Any, *, alone: bool) -> list[str] | str:
    return [sign_colour(value) for value in values] if alone else COLOURS[i % len(COLOURS)]
