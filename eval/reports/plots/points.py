"""Points, with names that overlap nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.extras import import_extra
from surprise_rerank.eval.reports.plots.curves import finite, legend_name
from surprise_rerank.eval.reports.plots.style import COLOURS, MARKERS, NAME, SMALL, WIDTH
from surprise_rerank.eval.reports.plots.texts import shown
from surprise_rerank.eval.reports.report import Plot, Series

_RADIUS = 4.0  # of a point
# Where the name of a point may be: directions, from the best to the worst, and distances.
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_DISTANCES = (6.0, 16.0, 28.0, 42.0, 58.0, 78.0, 100.0)
# From which on a line leads from a name to its point.
_FAR = 10.0
_LEADER = {"arrowstyle": "-", "color": "#888888", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3}
_LONGEST_NAME = 0.5 * WIDTH
_MOST_NAMES = 16  # beside points; more are numbers


def points(plot: Plot, axes: Any) -> None:
    """A point for each pair of numbers; the names of those that are alone in their series come later."""
    alone = alone_in(plot)
    for i, series in enumerate(s for s in plot.series if len(s.x) != 1):
        axes.scatter(
            finite(series.x),
            finite(series.y),
            s=34,
            label=legend_name(series),
            color=COLOURS[(i + bool(alone)) % len(COLOURS)],
            marker=MARKERS[(i + bool(alone)) % len(MARKERS)],
            alpha=0.8,
        )
    for series in alone:
        axes.scatter(finite(series.x), finite(series.y), s=34, color=COLOURS[0])
    axes.margins(0.09)


def alone_in(plot: Plot) -> list[Series]:
    """The series of one point, of a plot of points."""
    return [s for s in plot.series if len(s.x) == 1] if plot.kind == "scatter" else []


def names_of(plot: Plot) -> list[str]:
    """What stands beside the points that are alone, where there is room for it."""
    return [shown(series.name, NAME, _LONGEST_NAME) for series in alone_in(plot)]


def key_of(plot: Plot) -> list[str]:
    """Numbers and names, for a legend, where names find no room beside their points."""
    room = WIDTH / 2 - 30
    return [shown(f"{i}  {s.name}", SMALL, room) for i, s in enumerate(alone_in(plot), start=1)]


def place_names(names: Sequence[str], plot: Plot, figure: Any, axes: Any) -> bool:
    """Write texts beside single points, greedily: each where it covers least.

    Args:
        names: of the points that are alone, or their numbers.
        plot: whose points these are.
        figure: of matplotlib, drawn but for these.
        axes: its axes, whose scales are final.

    Returns:
        Whether nothing is covered, and nothing outside of the frame.
    """
    alone = alone_in(plot)
    backend = import_extra("matplotlib.backends.backend_agg", "report")
    renderer = backend.FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    frame = axes.get_window_extent(renderer).extents
    dots = axes.transData.transform([(finite(series.x)[0], finite(series.y)[0]) for series in alone])
    drawn = np.all((dots >= frame[:2]) & (dots <= frame[2:]), axis=1)
    taken = np.column_stack([dots - _RADIUS, dots + _RADIUS])[drawn]
    total = 0.0
    for i in np.flatnonzero(drawn).tolist():
        dot, point = dots[i], (alone[i].x[0], alone[i].y[0])
        style = {"textcoords": "offset points", "fontsize": NAME, "va": "bottom"}
        text = axes.annotate(names[i], point, (0, 0), **style)
        text.set_in_layout(False)
        size = text.get_window_extent(renderer).size
        boxes = [_box(dot, size, *direction, far) for far in _DISTANCES for direction in _DIRECTIONS]
        costs = [_cost(box, taken, frame) for box in boxes]
        best = min(range(len(boxes)), key=costs.__getitem__)
        total += costs[best]
        text.set_position(boxes[best][:2] - dot)
        if _DISTANCES[best // len(_DIRECTIONS)] > _FAR:
            start = np.clip(dot, boxes[best][:2], boxes[best][2:])
            leader = axes.annotate("", point, start - dot, textcoords="offset points", arrowprops=_LEADER)
            leader.set_in_layout(False)
        taken = np.vstack([taken, boxes[best]])
    return math.isclose(total, 0, abs_tol=1.0) and len(alone) <= _MOST_NAMES


def _box(dot: Any, size: Any, dx: int, dy: int, distance: float) -> Float64Array:
    """Left, lower, right and upper border of a text in a direction from a dot."""
    width, height = size
    left = dot[0] + dx * distance - (0.5 - dx / 2) * width
    lower = dot[1] + dy * distance - (0.5 - dy / 2) * height
    return np.array([left, lower, left + width, lower + height])


def _cost(box: Any, taken: Any, frame: Any) -> float:
    """What a box covers, and what of it is outside of the frame, in square points."""
    covered = _common(box, taken).sum()
    outside = (box[2] - box[0]) * (box[3] - box[1]) - _common(box, frame[None])[0]
    return float(covered + 2 * outside)


def _common(box: Any, others: Any) -> Any:
    """The areas that a box shares with others."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return np.prod(np.maximum(sides, 0), axis=1)
