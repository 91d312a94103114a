"""Whether a p-value holds for several heavy-tailed scorers: scales of all questions, or of the others only.

A background has n questions, whose best scores by five scorers are drawn from one distribution, and a new
question comes from the same. T is the sum of a question's standardised scores. For the background's questions
the scales are of all of them, or of all others, as in `QuestionBackground`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.thresholds.background import Lines, lines_of

SCORERS, ALPHA = 5, 0.05
SIZES = (39, 99, 299)
DRAWS: Mapping[str, Callable[[np.random.Generator, tuple[int, int]], Float64Array]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal, 1.5": lambda rng, shape: np.exp(1.5 * rng.standard_normal(shape)),
    "Student's t, 2": lambda rng, shape: rng.standard_t(2, shape),
    "Cauchy": lambda rng, shape: rng.standard_cauchy(shape),
}
_ROUNDING = 1e-9


def passes(best: Float64Array, *, others: bool) -> bool:
    """Whether the last of (n + 1, k) questions reaches 1 - ALPHA among the others' T.

    Args:
        best: the background's best scores, and the new question's.
        others: whether a background question's scales are of all other ones.
    """
    background, new = best[:-1], best[-1:]
    n, k = background.shape
    usual, each = lines_of(background, np.zeros(n), np.ones(n), [False] * k)
    totals = _sums(background, usual)
    if others:
        totals = np.maximum(totals, _sums(background, each))
    p = (1 + np.count_nonzero(totals >= _sums(new, usual)[0])) / (n + 1)
    return bool(p <= ALPHA + _ROUNDING)


def _sums(best: Float64Array, scales: Lines) -> Float64Array:
    total: Float64Array = ((best - scales.means) / scales.deviations).sum(axis=1)
    return total


def tails_table(repetitions: int, seed: int = 0) -> Table:
    """The share of new questions that pass at ALPHA, by distribution and size of the background."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Cell, ...]] = []
    for name, draw in DRAWS.items():
        for n in SIZES:
            worlds = [draw(rng, (n + 1, SCORERS)) for _ in range(repetitions)]
            shares = [
                100 * float(np.mean([passes(w, others=others) for w in worlds])) for others in (False, True)
            ]
            rows.append((name, n, *shares))
    columns = (Column("scores"), Column("questions"), Column("scales of all", 1), Column("of the others", 1))
    error = 100 * np.sqrt(ALPHA * (1 - ALPHA) / repetitions)
    notes = (f"% of new questions that pass at {ALPHA:g}, {SCORERS} scorers; known to +-{error:.1f}",)
    return Table(
        "heavy-tails", f"{SCORERS} scorers with heavy tails", columns, tuple(rows), keys=2, notes=notes
    )
