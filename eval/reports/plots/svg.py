"""A plot as an SVG element: the size of its figure, what is common to all kinds, and what a page needs."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from xml.dom import minidom

from surprise_rerank.core.extras import import_extra
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.plots import bars, curves, points, ranks
from surprise_rerank.eval.reports.plots.style import HEIGHT, LABEL, LEGEND, SMALL, STYLE, WIDTH
from surprise_rerank.eval.reports.plots.texts import clean, shown, width
from surprise_rerank.eval.reports.report import Plot, Series

_DRAWN = {
    "line": curves.lines,
    "scatter": points.points,
    "bars": bars.bars,
    "histogram": curves.histogram,
    "forest": bars.forest,
    "gains": bars.gains,
    "ranks": ranks.ranks,
}
_HANDLE = 60.0  # of a legend's entry, with the space around it
_LEGEND_ROW = 18.0


def to_svg(plot: Plot) -> str:
    """A plot as an `<svg>` element on white, for a page, or as a file of its own.

    Args:
        plot: of any kind; its texts may be hostile, and of any length.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    with _drawing(plot):
        file = io.BytesIO()
        figure_of(plot).savefig(file, format="svg", metadata={"Date": None})
    return _accessible(file.getvalue(), plot)


def figure_of(plot: Plot) -> Any:
    """A plot as a figure of matplotlib, all of whose texts lie inside of it.

    Raises:
        MissingExtraError: if matplotlib is not installed.
    """
    with _drawing(plot):
        alone = points.alone_in(plot)
        figure, axes = _figure(plot, [])
        if not alone or points.place_names(points.names_of(plot), plot, figure, axes):
            return _laid_out(figure)
        # Names that find no room beside their points stand below, and their numbers beside the points.
        figure, axes = _figure(plot, points.key_of(plot))
        points.place_names([str(i) for i in range(1, len(alone) + 1)], plot, figure, axes)
        return _laid_out(figure)


def _figure(plot: Plot, key: Sequence[str]) -> tuple[Any, Any]:
    """A figure without the names of points.

    Args:
        plot: to be drawn.
        key: lines for its legend, besides the series.
    """
    figures = import_extra("matplotlib.figure", "report")
    figure = figures.Figure(figsize=(WIDTH / 72, HEIGHT / 72), layout="constrained", facecolor="white")
    axes = figure.subplots()
    _DRAWN[plot.kind](plot, axes)
    _label(plot, axes)
    rows = _legend(plot, key, figure, axes)
    figure.set_figheight((_height(plot) + _LEGEND_ROW * rows) / 72)
    return figure, axes


def _height(plot: Plot) -> float:
    own = ranks.height(plot) if plot.kind == "ranks" else bars.height(plot)
    return HEIGHT if own is None else own


def _laid_out(figure: Any) -> Any:
    """The figure with its layout as it is: what comes later moves nothing."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


@contextmanager
def _drawing(plot: Plot) -> Iterator[None]:
    """Our style in place of the user's; characters that the measuring font lacks are the browser's matter."""
    style = import_extra("matplotlib.style", "report")
    with (
        style.context(["default", STYLE | {"svg.hashsalt": f"plot {one_line(plot.title)}"}]),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def _label(plot: Plot, axes: Any) -> None:
    """Scales, and labels of the axes, which are all horizontal: there they have the most room."""
    ticker = import_extra("matplotlib.ticker", "report")
    if plot.kind == "ranks":
        return
    if plot.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(_log_ticks(axes, ticker))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    elif plot.kind == "line" and _all_whole(plot.series):
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    elif plot.kind in ("forest", "gains") or bars.named_bars(plot):
        axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    if plot.kind in ("forest", "gains"):  # their axes leave room on both sides
        axes.figure.supxlabel(shown(plot.y_label, LABEL, 0.94 * WIDTH), fontsize=LABEL)
        return
    if bars.named_bars(plot):
        axes.set_xlabel(shown(plot.y_label, LABEL, 0.94 * WIDTH), loc="right")
        return
    axes.set_xlabel(shown(plot.x_label, LABEL, 0.8 * WIDTH))
    if plot.kind == "histogram":  # above it are the names of its marks
        axes.set_ylabel(shown(plot.y_label, LABEL, 0.6 * HEIGHT))
    else:
        axes.set_title(shown(plot.y_label, LABEL, 0.8 * WIDTH), pad=8)


def _legend(plot: Plot, key: Sequence[str], figure: Any, axes: Any) -> int:
    """The legend below the plot; returns how many rows it has."""
    rows = 0
    handles, names = axes.get_legend_handles_labels()
    if len(plot.series) + len(plot.curves) > 1 and handles:
        columns = _columns(names, LEGEND, _HANDLE)
        figure.legend(handles, names, loc="outside lower center", ncols=columns)
        rows += math.ceil(len(names) / columns)
    if key:
        lines = import_extra("matplotlib.lines", "report")
        columns = _columns(key, SMALL, 24.0)
        figure.legend(
            [lines.Line2D([], [], linestyle="") for _ in key],
            key,
            loc="outside lower left",
            ncols=columns,
            handlelength=0,
            handletextpad=0,
            fontsize=SMALL,
        )
        rows += math.ceil(len(key) / columns)
    return rows


def _columns(names: Sequence[str], size: float, beside: float) -> int:
    widest = max(width(name, size) for name in names) + beside
    return max(1, min(len(names), int(WIDTH // widest)))


def _log_ticks(axes: Any, ticker: Any) -> Any:
    """Ticks for a logarithmic scale: powers of ten alone leave a short one without any."""
    low, high = axes.get_xlim()
    if high < 4 * low:
        return ticker.MaxNLocator(6, steps=[1, 2, 5, 10])
    return ticker.LogLocator(subs=(1, 2, 5) if high < 500 * low else (1,))


def _all_whole(many: Sequence[Series]) -> bool:
    return all(not isinstance(x, str) and float(x).is_integer() for series in many for x in series.x)


def _accessible(svg: bytes, plot: Plot) -> str:
    """The drawing with what a page needs: no ids but those referred to, a title and a description."""
    title, note = clean(plot.title), clean(" ".join(filter(None, (plot.finding, plot.note))))
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
