"""Plots as SVG, by matplotlib."""

from __future__ import annotations

import io
import itertools
import re
import textwrap
import warnings
from typing import Any

import markupsafe
import numpy as np

from surprise_rerank.core._extras import import_extra
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Plot

# Okabe and Ito's colours, which the colour-blind can distinguish; without yellow, which is faint on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKERS = "os^DvPX*<>"
# Inches: with letters of 11 points they are read on a phone without scrolling.
_WIDTH, _HEIGHT, _ROW = 5.2, 3.8, 0.25
_LINE = 30  # characters of a name beside bars or in a legend
_STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    # Texts stay texts, to be searched; a dollar in them begins no formula.
    "svg.fonttype": "none",
    "text.parse_math": False,
}


def to_svg(plot: Plot) -> str:
    """A plot as an `<svg>` element on white; its texts may be hostile, and of any length: none is cut."""
    style = import_extra("matplotlib.style", "report")
    figures = import_extra("matplotlib.figure", "report")
    draw = {"line": _lines, "scatter": _points, "bars": _bars, "histogram": _histogram}[plot.kind]
    drawing_style = {**_STYLE, "svg.hashsalt": one_line(plot.title)}
    with style.context(["default", drawing_style]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font|Matplotlib currently does not")
        figure = figures.Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = figure.subplots()
        draw(plot, axes)
        handles, names = axes.get_legend_handles_labels()
        if len(names) > 1:
            columns = min(2 if max(map(len, names)) > 18 else 3, len(names))
            figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=10)
        file = io.BytesIO()
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    return _element(file.getvalue().decode(), plot)


def _lines(plot: Plot, axes: Any) -> None:
    """A line with markers for each series; with its intervals where it has them."""
    for series, style in zip(plot.series, _styles(), strict=False):
        y = _finite(series.y)
        is_named = any(isinstance(x, str) for x in series.x)
        x: Any = list(map(_name, map(str, series.x))) if is_named else _finite(series.x)
        ends = np.abs(np.vstack([y - series.low, series.high - y])) if series.low else None
        axes.errorbar(x, y, yerr=ends, label=_name(series.name), markersize=5, capsize=3, **style)
    _label(plot, axes)


def _points(plot: Plot, axes: Any) -> None:
    """Points of another colour and form for each series; what each is stands in the legend."""
    for series, style in zip(plot.series, _styles(), strict=False):
        label = _name(series.name)
        axes.plot(_finite(series.x), _finite(series.y), label=label, markersize=8, linestyle="", **style)
    axes.margins(0.1)
    _label(plot, axes)


def _bars(plot: Plot, axes: Any) -> None:
    """Bars with their names on the left, from the top to the bottom; with their intervals."""
    labels = list(dict.fromkeys(str(label) for series in plot.series for label in series.x))
    thick = 0.8 / max(len(plot.series), 1)
    for i, (series, colour) in enumerate(zip(plot.series, itertools.cycle(_COLOURS), strict=False)):
        rows = np.array([labels.index(str(label)) for label in series.x]) + thick * (i + 0.5) - 0.4
        y = _finite(series.y)
        alone = [_COLOURS[1] if value < 0 else _COLOURS[0] for value in y]
        colours = alone if len(plot.series) == 1 else colour
        axes.barh(rows, y, thick, label=_name(series.name), color=colours)
        if series.low:
            ends = np.maximum(np.vstack([y - series.low, series.high - y]), 0)
            axes.errorbar(y, rows, xerr=ends, fmt="none", ecolor="#222222", capsize=3)
    axes.set_yticks(range(len(labels)), [_name(label, lines=2) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.axvline(0, color="#222222", linewidth=0.8)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(_name(plot.y_label, lines=3))
    lines = sum(1 + ("\n" in _name(label, lines=2)) for label in labels)
    axes.figure.set_figheight(1.2 + _ROW * lines * max(1.0, len(plot.series) / 2))


def _histogram(plot: Plot, axes: Any) -> None:
    """Filled steps, curves over them, and marks with their names above."""
    for series, colour in zip(plot.series, itertools.cycle(_COLOURS), strict=False):
        axes.stairs(series.y, series.x, fill=True, color=colour, alpha=0.4, label=_name(series.name))
    for curve in plot.curves:
        axes.plot(curve.x, curve.y, color="#222222", label=_name(curve.name))
    for mark in plot.marks:
        axes.axvline(mark.x, color=_COLOURS[1], linewidth=1)
        place = {"xycoords": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "bottom"}
        axes.annotate(_name(mark.name), (mark.x, 1.01), fontsize=8, **place)
    _label(plot, axes)


def _styles() -> Any:
    """Colours and markers; only after 70 of them two are alike."""
    colours, markers = itertools.cycle(_COLOURS), itertools.cycle(_MARKERS)
    return ({"color": c, "marker": m} for c, m in zip(colours, markers, strict=False))


def _label(plot: Plot, axes: Any) -> None:
    axes.set_xlabel(_name(plot.x_label, lines=3))
    axes.set_ylabel(_name(plot.y_label, lines=3))
    if plot.log_x:
        ticker = import_extra("matplotlib.ticker", "report")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def _name(text: str, lines: int = 1) -> str:
    """A text in so many lines; the rest of a long one is left out."""
    folded = "\n".join(textwrap.wrap(_clean(text), _LINE, max_lines=lines, placeholder="…"))
    # matplotlib hides names that begin with an underscore.
    return f"\u200b{folded}" if folded.startswith("_") else folded


def _clean(text: str) -> str:
    """A text in one line, of characters that XML has."""
    return re.sub("[\ufffe\uffff]", "\ufffd", one_line(text))


def _finite(values: Any) -> Float64Array:
    """Numbers as float64, with NaN for what is infinite, too: it is left out."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _element(file: str, plot: Plot) -> str:
    """The drawing without what is for files, with a name for those who do not see it."""
    svg = file[file.index("<svg") :]
    # Its style is for all elements of a page.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    referred = set(re.findall(r"#([\w-]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda attribute: attribute[0] if attribute[1] in referred else "", svg)
    svg = re.sub(r' (?:width|height)="[^"]*pt"', "", svg, count=2)
    name = markupsafe.escape(_clean(plot.title))
    return svg.replace("<svg", f'<svg role="img" aria-label="{name}" stroke-linejoin="round"', 1)
