"""Places before and after, with a line between the two of each document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from surprise_rerank.eval.reports.plots.style import FAINT, GAIN, INK, LOSS, NAME, ROW, SMALL, WIDTH
from surprise_rerank.eval.reports.plots.texts import folded, shown
from surprise_rerank.eval.reports.report import Plot

_GAP = 0.6  # rows between places that do not follow each other
_NAME_ROOM = 0.54 * WIDTH


def height(plot: Plot) -> float:
    """How high a figure of so many documents is."""
    return 50.0 + 1.35 * ROW * max(len(plot.series), 1)


def ranks(plot: Plot, axes: Any) -> None:
    """Numbers of the places before on the left, of those after and the documents on the right."""
    series = sorted(plot.series, key=lambda own: own.y[1])
    left = _heights([own.y[0] for own in series])
    right = {i: float(i) for i in range(len(series))}
    scale = max((len(series) - 1) / max([*left.values(), 1.0]), 0) if left else 1.0
    scale = min(scale, 1.0)
    for i, own in enumerate(series):
        before, after = own.y
        colour = _colour(before, after)
        _text(f"{after:g}", 1.0, right[i], axes, "left", dx=8, colour=INK, weight="bold")
        _text(folded(own.name, SMALL, _NAME_ROOM, 2), 1.0, right[i], axes, "left", dx=30, colour=INK)
        axes.plot(1, right[i], "o", color=colour, markersize=5, clip_on=False)
        if math.isnan(before):
            _text("not found", 1.0, right[i], axes, "right", dx=-8, colour=FAINT)
            continue
        axes.plot([0, 1], [scale * left[i], right[i]], color=colour, linewidth=2, clip_on=False)
        axes.plot(0, scale * left[i], "o", color=colour, markersize=5, clip_on=False)
        _text(f"{before:g}", 0.0, scale * left[i], axes, "right", dx=-8, colour=INK)
    axes.set_xlim(0, 1)
    axes.set_ylim(max(len(series) - 0.5, 0.5), -1.1)
    for x, label, room in ((0.0, plot.x_label, 0.24), (1.0, plot.y_label, 0.5)):
        _text(shown(label, SMALL, room * WIDTH), x, -0.85, axes, "left", dx=-18 * (x == 0), colour=FAINT)
    axes.set_axis_off()


def _heights(before: Sequence[float]) -> dict[int, float]:
    """Row -> height on the left: in the order of the places, with gaps where some are not shown."""
    order = sorted((i for i in range(len(before)) if not math.isnan(before[i])), key=before.__getitem__)
    found: dict[int, float] = {}
    last, at = 0.0, 0.0
    for number, i in enumerate(order):
        if number:
            at += 1 + (_GAP if before[i] > last + 1 else 0)
        elif before[i] > 1:
            at = _GAP
        found[i], last = at, before[i]
    return found


def _colour(before: float, after: float) -> str:
    if math.isnan(before):
        return GAIN
    if after == before:
        return FAINT
    return GAIN if after < before else LOSS


def _text(
    text: str, x: float, y: float, axes: Any, side: str, *, dx: float, colour: str, weight: str = "normal"
) -> None:
    axes.annotate(
        text,
        (x, y),
        (dx, 0),
        textcoords="offset points",
        fontsize=NAME if weight == "bold" else SMALL,
        fontweight=weight,
        color=colour,
        ha=side,
        va="center",
        annotation_clip=False,
    )
