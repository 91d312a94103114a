"""Histograms of block characters: a sample, the model's curve, and where candidates lie, a line each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surprise_rerank.core.arrays import FloatArray
from surprise_rerank.diagnosis.explanation import ScoreDistribution, span

_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLAIN = " .:-=+*#@"
_LABEL = 8  # characters before each line
_WIDEST = 8  # characters of a bin
# Lines for the ranks of candidates that lie close together.
_RANK_LINES = 3


def drawn(
    distribution: ScoreDistribution,
    places: Sequence[tuple[int, float]],
    width: int = 64,
    encoding: str | None = "utf-8",
) -> list[str]:
    """The lines of a histogram: the sample, the model's curve where there is one, ranks, and the scale.

    Args:
        distribution: with a sample of at least one value.
        places: ranks and similarities of candidates, best first; ranks that find no room are left out.
        width: characters of a line, beside its label.
        encoding: of the terminal or file; one without block characters gets others.
    """
    low, high = span(distribution, [place for _, place in places])
    # Few values in many bins would show no shape.
    step = round(np.clip(width / (2 * np.sqrt(len(distribution.values))), 1, _WIDEST))
    width -= width % step
    borders = np.linspace(low, high, width // step + 1)
    counts, expected = distribution.histogram(borders).counts, distribution.expected(borders)
    levels = _levels(encoding)
    largest = float(max(counts.max(), expected.max(), 1e-12))
    # What is there at all is seen, of the sample; of the curve, what is nearer to a block than to none.
    lines = [_line("sample", _bars(np.ceil(8 * counts / largest), step, levels))]
    if distribution.has_curve:
        lines.append(_line("model", _bars(np.round(8 * expected / largest), step, levels)))
    lines += [
        _line("ranks" if number == 0 else "", row)
        for number, row in enumerate(_ranks(places, low, high, width))
    ]
    first, last = f"{low:.4g}", f"{high:.4g}"
    return [*lines, _line("", f"{first}{last:>{width - len(first)}}")]


def _levels(encoding: str | None) -> str:
    try:
        _BLOCKS.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _BLOCKS


def _bars(heights: FloatArray, step: int, levels: str) -> str:
    return "".join(levels[int(height)] * step for height in np.clip(heights, 0, len(levels) - 1))


def _ranks(places: Sequence[tuple[int, float]], low: float, high: float, width: int) -> list[str]:
    """Ranks below their places, the best first; a rank beside another one goes a line further down."""
    rows = [[" "] * width for _ in range(_RANK_LINES)]
    for rank, place in places:
        text = str(rank)
        column = min(int((place - low) / (high - low) * width), width - 1)
        start = min(max(column - len(text) // 2, 0), width - len(text))
        # With a character between two ranks, which would read as one.
        around = slice(max(start - 1, 0), start + len(text) + 1)
        row = next((row for row in rows if not "".join(row[around]).strip()), None)
        if row is not None:
            row[start : start + len(text)] = text
    return [line for line in ("".join(row) for row in rows) if line.strip()]


def _line(label: str, drawing: str) -> str:
    return f"  {label:<{_LABEL}}{drawing}".rstrip()
