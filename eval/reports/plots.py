"""Plots as SVG, the same bytes for the same data."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from xml.dom import minidom

import numpy as np

from surprise_rerank.core.extras import import_extra
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Mark, Plot, Series

# Okabe and Ito's colours, which the colour-blind can distinguish; without yellow, which is faint on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_GAIN, _LOSS = _COLOURS[:2]
_LINES = ("-", "--", "-.", ":")
_MARKERS = "os^DvPX"
_INK = "#222222"

# Small and with large letters, to be read on a phone without scrolling.
_WIDTH, _HEIGHT = 6.4, 4.1  # inches
_NAMED_BARS = 40
_BAR = 0.25  # inches
_MOST_MARKERS = 40
_LONGEST = 36  # characters of a name
_LEGEND = 66  # characters in a row

_MARK = "#d55e00"
_MARK_SIZE = 10.0  # points
_MARK_ROWS = 4  # names of marks above each other, at most
_AXIS = 330.0  # about how many pixels of 1/72 inch the x axis has
_LETTER = 6.2  # and a digit of a mark's name

_NAME_SIZE = 10.5  # points
_RADIUS = 4.0  # of a point, in pixels of 1/72 inch
# Where the name of a point may be: directions, from the best to the worst, and distances.
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_DISTANCES = (6.0, 16.0, 28.0, 42.0, 58.0)
# From which on a line leads from a name to its point.
_FAR = 10.0
_LEADER = {"arrowstyle": "-", "color": "#888888", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3}

# No characters of XML.
_NO_XML = re.compile("[\ufffe\uffff]")

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": _INK,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.labelsize": 12,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 72,
    "font.size": 11.5,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "legend.handlelength": 3,
    # Texts stay texts, to be searched; a dollar in them begins no formula.
    "svg.fonttype": "none",
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def to_svg(plot: Plot) -> str:
    """A plot as an `<svg>` element on white, for a page, or as a file of its own.

    Args:
        plot: lines with markers; points, those that are alone in their series with the name beside them;
            bars, sorted where there is one series, without names where there are more than 40; or steps.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    figures = import_extra("matplotlib.figure", "report")
    with _drawing(plot):
        figure = figures.Figure(figsize=(_WIDTH, _height(plot)), layout="constrained", facecolor="white")
        axes = figure.subplots()
        _DRAWN[plot.kind](plot, axes)
        _finish(plot, figure, axes)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return _accessible(file.getvalue(), plot)


@contextmanager
def _drawing(plot: Plot) -> Iterator[None]:
    """Our style in place of the user's; characters that the measuring font lacks are the browser's matter."""
    style = import_extra("matplotlib.style", "report")
    with (
        style.context(["default", _STYLE | {"svg.hashsalt": f"plot {one_line(plot.title)}"}]),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def _height(plot: Plot) -> float:
    bars = _named_bars(plot)
    return max(_HEIGHT / 2, 1.1 + _BAR * bars * len(plot.series) ** 0.5) if bars else _HEIGHT


def _named_bars(plot: Plot) -> int:
    """How many bars, or groups of them, have their names beside them."""
    labels = len(_labels(plot.series)) if plot.kind == "bars" else 0
    return labels if labels <= _NAMED_BARS else 0


def _lines(plot: Plot, axes: Any) -> None:
    for i, series in enumerate(plot.series):
        few = len(series.x) <= _MOST_MARKERS
        axes.plot(
            series.x if _is_named(series) else _finite(series.x),
            _finite(series.y),
            label=_name(series.name),
            color=_COLOURS[i % len(_COLOURS)],
            linestyle=_LINES[i % len(_LINES)],
            linewidth=1.8,
            marker=_MARKERS[i % len(_MARKERS)] if few else "",
            markersize=5,
        )


def _points(plot: Plot, axes: Any) -> None:
    alone = [series for series in plot.series if len(series.x) == 1]
    for i, series in enumerate(s for s in plot.series if len(s.x) != 1):
        axes.scatter(
            _finite(series.x),
            _finite(series.y),
            s=34,
            label=_name(series.name),
            color=_COLOURS[(i + bool(alone)) % len(_COLOURS)],
            marker=_MARKERS[(i + bool(alone)) % len(_MARKERS)],
            alpha=0.8,
        )
    for series in alone:
        axes.scatter(_finite(series.x), _finite(series.y), s=34, color=_COLOURS[0])
    axes.margins(0.09)


def _bars(plot: Plot, axes: Any) -> None:
    if not _named_bars(plot):
        _many_bars(plot, axes)
        return
    labels = _labels(plot.series)
    width = 0.8 / len(plot.series)
    for i, series in enumerate(plot.series):
        heights = dict(zip(series.x, _finite(series.y), strict=True))
        values = np.array([heights.get(label, math.nan) for label in labels])
        axes.barh(
            np.arange(len(labels)) + width * (i - (len(plot.series) - 1) / 2),
            values,
            width,
            label=_name(series.name),
            color=_colours(i, values, alone=len(plot.series) == 1),
            hatch="" if i < len(_COLOURS) else "///",
        )
    axes.set_yticks(range(len(labels)), [_name(str(label)) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.axvline(0, color=_INK, linewidth=0.8)
    axes.grid(visible=False, axis="y")


def _many_bars(plot: Plot, axes: Any) -> None:
    """Bars without names, as filled steps: one path for the gains and one for the losses."""
    for i, series in enumerate(plot.series):
        values = _finite(series.y)
        values = np.sort(values[~np.isnan(values)])[::-1]
        borders = np.arange(len(values) + 1) + 0.5
        if len(plot.series) > 1:
            _steps(axes, i, values, borders, _name(series.name))
            continue
        for colour, part in ((_GAIN, values > 0), (_LOSS, values < 0)):
            axes.stairs(np.where(part, values, 0), borders, fill=True, color=colour)
    axes.axhline(0, color=_INK, linewidth=0.8)
    axes.margins(x=0.01)


def _histogram(plot: Plot, axes: Any) -> None:
    for i, series in enumerate(plot.series):
        _steps(axes, i, _finite(series.y), _finite(series.x), _name(series.name))
    for i, curve in enumerate(plot.curves):
        axes.plot(
            _finite(curve.x),
            _finite(curve.y),
            color=_INK,
            linestyle=_LINES[i % len(_LINES)],
            linewidth=1.6,
            label=_name(curve.name),
        )
    marks = [mark for mark in plot.marks if math.isfinite(mark.x)]
    if marks:
        _place_marks(marks, axes)


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
        name = _name(mark.name)
        axes.axvline(mark.x, color=_MARK, linewidth=1.1)
        half = (_LETTER * len(name) + 4) / 2 * scale
        left, right = mark.x - half, mark.x + half
        free = (i for i, row in enumerate(rows) if all(right < a or left > b for a, b in row))
        number = next(free, None)
        if number is None:
            continue
        rows[number].append((left, right))
        axes.annotate(
            name,
            (mark.x, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 2 + number * (_MARK_SIZE + 1)),
            textcoords="offset points",
            fontsize=_MARK_SIZE,
            color=_INK,
            ha="center",
            va="bottom",
        )


def _steps(axes: Any, i: int, heights: Any, borders: Any, name: str) -> None:
    colour, line = _COLOURS[i % len(_COLOURS)], _LINES[i % len(_LINES)]
    axes.stairs(heights, borders, fill=True, color=colour, alpha=0.3)
    axes.stairs(heights, borders, color=colour, linestyle=line, linewidth=1.6, label=name)


_DRAWN = {"line": _lines, "scatter": _points, "bars": _bars, "histogram": _histogram}


def _finish(plot: Plot, figure: Any, axes: Any) -> None:
    """Scales, labels of the axes, the legend, and the names of points."""
    ticker = import_extra("matplotlib.ticker", "report")
    if plot.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(_log_ticks(axes, ticker))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    elif plot.kind == "line" and _all_whole(plot.series):
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    labels = [_name(plot.x_label), _name(plot.y_label)]
    if _named_bars(plot):
        labels.reverse()
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    handles, names = axes.get_legend_handles_labels()
    if len(plot.series) + len(plot.curves) > 1 and handles:
        columns = max(1, min(len(names), _LEGEND // (6 + max(map(len, names)))))
        figure.legend(handles, names, loc="outside lower center", ncols=columns)
    if plot.kind == "scatter":
        _place_names([series for series in plot.series if len(series.x) == 1], figure, axes)


def _place_names(alone: Sequence[Series], figure: Any, axes: Any) -> None:
    """Write the names of single points beside them, greedily: each where it covers least.

    Args:
        alone: series of one point.
        figure: of matplotlib, drawn but for these.
        axes: its axes, whose scales are final.
    """
    if not alone:
        return
    backend = import_extra("matplotlib.backends.backend_agg", "report")
    renderer = backend.FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    frame = axes.get_window_extent(renderer).extents
    dots = axes.transData.transform([(_finite(series.x)[0], _finite(series.y)[0]) for series in alone])
    drawn = np.all((dots >= frame[:2]) & (dots <= frame[2:]), axis=1)
    taken = np.column_stack([dots - _RADIUS, dots + _RADIUS])[drawn]
    for i in np.flatnonzero(drawn).tolist():
        dot, point = dots[i], (alone[i].x[0], alone[i].y[0])
        style = {"textcoords": "offset points", "fontsize": _NAME_SIZE, "va": "bottom"}
        text = axes.annotate(_name(alone[i].name), point, (0, 0), **style)
        size = text.get_window_extent(renderer).size
        boxes = [_box(dot, size, *direction, far) for far in _DISTANCES for direction in _DIRECTIONS]
        best = min(range(len(boxes)), key=lambda k: _cost(boxes[k], taken, frame))
        text.set_position(boxes[best][:2] - dot)
        if _DISTANCES[best // len(_DIRECTIONS)] > _FAR:
            start = np.clip(dot, boxes[best][:2], boxes[best][2:])
            axes.annotate("", point, start - dot, textcoords="offset points", arrowprops=_LEADER)
        taken = np.vstack([taken, boxes[best]])


def _box(dot: Any, size: Any, dx: int, dy: int, distance: float) -> Any:
    """Left, lower, right and upper border of a text in a direction from a dot."""
    width, height = size
    left = dot[0] + dx * distance - (0.5 - dx / 2) * width
    lower = dot[1] + dy * distance - (0.5 - dy / 2) * height
    return np.array([left, lower, left + width, lower + height])


def _cost(box: Any, taken: Any, frame: Any) -> float:
    """What a box covers, and what of it is outside of the frame, in square pixels."""
    covered = _common(box, taken).sum()
    outside = (box[2] - box[0]) * (box[3] - box[1]) - _common(box, frame[None])[0]
    return float(covered + 2 * outside)


def _common(box: Any, others: Any) -> Any:
    """The areas that a box shares with others."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return np.prod(np.maximum(sides, 0), axis=1)


def _log_ticks(axes: Any, ticker: Any) -> Any:
    """Ticks for a logarithmic scale: powers of ten alone leave a short one without any."""
    low, high = axes.get_xlim()
    if high < 4 * low:
        return ticker.MaxNLocator(6, steps=[1, 2, 5, 10])
    return ticker.LogLocator(subs=(1, 2, 5) if high < 500 * low else (1,))


def _all_whole(many: Sequence[Series]) -> bool:
    return all(not isinstance(x, str) and float(x).is_integer() for series in many for x in series.x)


def _labels(many: Sequence[Series]) -> list[Any]:
    """The labels of bars; of a single series, from the largest gain to the largest loss."""
    if len(many) == 1:
        order = np.argsort(-_finite(many[0].y), kind="stable")
        return [many[0].x[i] for i in order]
    return list(dict.fromkeys(label for series in many for label in series.x))


def _colours(i: int, values: Any, *, alone: bool) -> list[str] | str:
    if alone:
        return [_LOSS if value < 0 else _GAIN for value in values]
    return _COLOURS[i % len(_COLOURS)]


def _is_named(series: Series) -> bool:
    return any(isinstance(x, str) for x in series.x)


def _finite(values: Sequence[Any]) -> Any:
    """Numbers as float64, with NaN for what is infinite, too: it is left out."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _name(text: str) -> str:
    """A text as a plot shows it: one line, not too long, of characters that XML has."""
    shown = _NO_XML.sub("\ufffd", one_line(text))
    shown = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
    # matplotlib hides names that begin with an underscore.
    return f"\u200b{shown}" if shown.startswith("_") else shown


def _accessible(svg: bytes, plot: Plot) -> str:
    """The drawing with what a page needs: no ids but those referred to, a title and a description."""
    title, note = (_NO_XML.sub("\ufffd", one_line(text)) for text in (plot.title, plot.note))
    document = minidom.parseString(svg)
    root: Any = document.documentElement
    for name in ("metadata", "style"):
        for element in list(root.getElementsByTagName(name)):
            element.parentNode.removeChild(element)
    referred = set(re.findall(rb"#([\w-]+)", svg))
    for element in root.getElementsByTagName("*"):
        if element.hasAttribute("id") and element.getAttribute("id").encode() not in referred:
            element.removeAttribute("id")
    for name, value in {
        "role": "img",
        "aria-label": title,
        # In place of the style that matplotlib gives to all elements of the page.
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }.items():
        root.setAttribute(name, value)
    for name in ("width", "height"):
        root.removeAttribute(name)
    first = root.firstChild
    for name, text in (("title", title), ("desc", note)):
        if text:
            element = document.createElement(name)
            element.appendChild(document.createTextNode(text))
            root.insertBefore(element, first)
    return str(root.toxml())
