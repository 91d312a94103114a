"""Do intrinsic scores predict downstream accuracy? Their correlation over a set of models."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.reports.records import read_values
from surprise_rerank.eval.reports.report import Cell, Column, Plot, Report, Series, Table

# A score and the similarity that it is of.
Score: TypeAlias = tuple[str, str]
Values: TypeAlias = Mapping[str, Any]

_LEAST_MODELS = 3
# All orders of up to `_EXACT_MODELS` models are tried for a p-value; of more, `_ORDERS` random ones.
_EXACT_MODELS = 7
_ORDERS = 9999
# With more rows, a terminal shows the correlations with the mean alone.
_FEW = 40
_COEFFICIENTS: Mapping[str, Callable[..., Any]] = {
    "Spearman": stats.spearmanr,
    "Pearson": stats.pearsonr,
    "Kendall": stats.kendalltau,
}
_RANKS = ("MR", "MRR", "Hits@1", "Hits@3")
# Table -> how many columns are the keys of its rows, and which of the others are scores; None for all.
_TABLES: Mapping[str, tuple[int, tuple[str, ...] | None]] = {
    "downstream": (1, None),
    "evalrank-words": (2, _RANKS),
    "evalrank-sentences": (2, _RANKS),
    "word-similarity": (3, ("Pearson", "Spearman")),
    "sts": (2, None),
    "sts-weighted": (3, ("Pearson", "Spearman")),
}


def read_reports(places: Sequence[Path]) -> list[Values]:
    """The reports that `--report FILE.json` wrote, of files, and of folders by name."""
    return [read_values(file) for place in places for file in _files(place)]


def correlate(reports: Sequence[Values]) -> Report:
    """Correlate every intrinsic score with the accuracy of every downstream task, over models.

    MR counts negatively, so that higher is better throughout. The mean is over the tasks that all models
    have. Of duplicate scores of a model, the last one counts. The table `correlation-mean` is with the mean
    accuracy, `correlation` Spearman's with every task; rows are scores and similarities.
    """
    found = _Collected()
    for report in reports:
        found.add(report)
    tasks, shared = _tasks(found.downstream)
    means = {model: float(np.mean([own[t] for t in shared])) for model, own in found.downstream.items()}
    rows = {score: _Row(values, means) for score, values in found.intrinsic.items()}
    rows = {score: row for score, row in rows.items() if len(row.models) >= _LEAST_MODELS}
    if not rows:
        scored = dict.fromkeys(model for values in found.intrinsic.values() for model in values)
        both = [model for model in found.downstream if model in scored]
        raise DataError(
            f"{len(both)} models with an intrinsic score and downstream accuracies "
            f"({', '.join(both) or 'none'}), expected {_LEAST_MODELS} or more that share a score; intrinsic "
            "scores are those that `rerank-eval words`, `sentences` and `sts` wrote with --report FILE.json"
        )
    return Report(
        title="Correlation of intrinsic scores with downstream accuracy, over models",
        tables=(_with_mean(rows), _by_task(rows, found, tasks)),
        plots=tuple(_plots(rows)),
        notes=tuple(_notes(found, rows, tasks, shared)),
        facts={
            "models": {model: dict(accuracies) for model, accuracies in found.downstream.items()},
            "tasks of the mean": shared,
        },
    )


@dataclass
class _Collected:
    """The scores of all reports."""

    downstream: dict[str, dict[str, float]] = field(default_factory=dict)
    intrinsic: dict[Score, dict[str, float]] = field(default_factory=dict)
    repeated: dict[tuple[str, str], None] = field(default_factory=dict)

    def add(self, report: Values) -> None:
        """Take the scores of a report; they replace those of earlier ones."""
        tables = {name: rows for name, rows in report["tables"].items() if name in _TABLES}
        for table, rows in tables.items():
            for model, score, value in _cells(table, rows):
                if table == "downstream" and score[0] == "mean":
                    continue  # over whichever tasks were measured there
                if table == "downstream":
                    into, key = self.downstream.setdefault(model, {}), score[0]
                else:
                    into, key = self.intrinsic.setdefault(score, {}), model
                if key in into:
                    self.repeated[model, table] = None
                into[key] = value


class _Row:
    """A score and the mean accuracy, over the models that have both."""

    def __init__(self, values: Mapping[str, float], means: Mapping[str, float]) -> None:
        self.models = [model for model in values if model in means]
        self.x = np.array([values[model] for model in self.models])
        self.y = np.array([means[model] for model in self.models])

    def p_value(self) -> float:
        """Two-sided, of Spearman's coefficient, by permutation; NaN where it is not defined."""
        if math.isnan(coefficient("Spearman", self.x, self.y)):
            return math.nan
        x, y = (stats.zscore(stats.rankdata(values)) for values in (self.x, self.y))
        exact = len(x) <= _EXACT_MODELS
        result = stats.permutation_test(
            (x,),
            lambda ranks, axis: (ranks * y).mean(axis=axis),
            permutation_type="pairings",
            vectorized=True,
            n_resamples=math.factorial(len(x)) if exact else _ORDERS,
            rng=np.random.default_rng(0),
        )
        return float(result.pvalue)


def coefficient(name: str, x: Float64Array, y: Float64Array) -> float:
    """Spearman's rho, Pearson's r or Kendall's tau-b of n values; NaN where all of one side are equal."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(_COEFFICIENTS[name](x, y).statistic)


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    files = sorted(place.glob("*.json"))
    if not files:
        raise DatasetError(f"there is no .json in the folder {place}; write one with --report FILE.json")
    return files


def _cells(table: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Score, float]]:
    """Model, score and value of every number; higher is better."""
    keys, wanted = _TABLES[table]
    for row in rows:
        model, *more = map(str, list(row.values())[:keys])
        similarity = more[0] if more else ""
        for column, cell in list(row.items())[keys:]:
            if wanted is not None and column not in wanted:
                continue
            if column == "mean" and table == "sts" and len(row) < keys + 6:
                continue  # of some years only: means of other years are another score
            if isinstance(cell, int | float):
                # In the table of downstream tasks, MR are the movie reviews.
                sign = -1 if wanted == _RANKS and column == "MR" else 1
                yield model, (_label(table, more[1:], column), similarity), sign * float(cell)


def _label(table: str, data_set: Sequence[str], column: str) -> str:
    match table:
        case "evalrank-words":
            return f"words {column}"
        case "evalrank-sentences":
            return f"sentences {column}"
        case "sts":
            return f"STS {column}" if column == "mean" else f"{column} mean"
        case _:
            return " ".join((*data_set, column))


def _tasks(downstream: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """The tasks of any model, and those of all models."""
    if not downstream:
        raise DataError(
            "no report has a table of downstream accuracies; give one that `rerank-eval downstream --report "
            "FILE.json` wrote"
        )
    tasks = list(dict.fromkeys(task for own in downstream.values() for task in own))
    shared = [task for task in tasks if all(task in own for own in downstream.values())]
    if not shared:
        raise DataError(f"no task was measured with all of {', '.join(downstream)}; measure the same ones")
    return tasks, shared


def _with_mean(rows: Mapping[Score, _Row]) -> Table:
    columns = [Column("score"), Column("similarity"), Column("models"), Column("Spearman", 3), Column("p", 4)]
    cells: list[tuple[Cell, ...]] = []
    for score, row in rows.items():
        spearman, *others = (coefficient(name, row.x, row.y) for name in _COEFFICIENTS)
        cells.append((*score, len(row.models), spearman, row.p_value(), *others))
    return Table(
        "correlation-mean",
        "Correlation with the mean accuracy",
        (*columns, Column("Pearson", 3), Column("Kendall", 3)),
        tuple(cells),
        keys=2,
        notes=(
            "p: of Spearman's coefficient, two-sided, by permutation (exact up to "
            f"{_EXACT_MODELS} models), of each row alone.",
        ),
    )


def _by_task(rows: Mapping[Score, _Row], found: _Collected, tasks: Sequence[str]) -> Table:
    cells: list[tuple[Cell, ...]] = []
    for score, row in rows.items():
        values = found.intrinsic[score]
        by_task = [_with_task(values, found.downstream, task) for task in tasks]
        cells.append((*score, len(row.models), *by_task, coefficient("Spearman", row.x, row.y)))
    columns = (Column("score"), Column("similarity"), Column("models"))
    return Table(
        "correlation",
        "Spearman correlation with every task",
        (*columns, *(Column(task, 2) for task in tasks), Column("mean", 2)),
        tuple(cells),
        keys=2,
        detail=len(rows) > _FEW,
    )


def _with_task(
    values: Mapping[str, float], downstream: Mapping[str, Mapping[str, float]], task: str
) -> float:
    """Over the models that have the score and the task; NaN where these are fewer than 3."""
    pairs = [(value, downstream[m][task]) for m, value in values.items() if task in downstream.get(m, {})]
    return coefficient("Spearman", *np.array(pairs).T) if len(pairs) >= _LEAST_MODELS else math.nan


def _plots(rows: Mapping[Score, _Row]) -> Iterator[Plot]:
    """MRR and the mean accuracy, for words and for sentences; by cosine, where it was measured."""
    for kind in ("words", "sentences"):
        label = f"{kind} MRR"
        similarities = [similarity for name, similarity in rows if name == label]
        if not similarities:
            continue
        similarity = "cosine" if "cosine" in similarities else similarities[0]
        row = rows[label, similarity]
        rho = coefficient("Spearman", row.x, row.y)
        yield Plot(
            "scatter",
            f"EvalRank of {kind} and downstream accuracy",
            f"MRR, {similarity}",
            "mean accuracy in %",
            tuple(
                Series(model, (float(x),), (float(y),))
                for model, x, y in zip(row.models, row.x, row.y, strict=True)
            ),
            finding=f"Every point is a model; Spearman's coefficient of the {len(row.models)} is {rho:.2f}.",
        )


def _notes(
    found: _Collected, rows: Mapping[Score, _Row], tasks: Sequence[str], shared: Sequence[str]
) -> Iterator[str]:
    models = list(dict.fromkeys(model for row in rows.values() for model in row.models))
    fewest = min(len(row.models) for row in rows.values())
    yield f"{len(models)} models: {', '.join(models)}; MR counts negatively"
    orders = math.factorial(fewest) if fewest <= _EXACT_MODELS else _ORDERS + 1
    yield (
        f"Few models say little: with {fewest}, no p-value can fall below {2 / orders:.2g}, "
        f"and of {len(rows)} rows some agree by chance; variants of one model are hardly models of their own."
    )
    if len(shared) < len(tasks):
        yield f"mean: over {', '.join(shared)}, which all models have"
    for model, table in found.repeated:
        yield f"{model} is given more than once in tables {table!r}: the later one counts"
    dropped = len(found.intrinsic) - len(rows)
    if dropped:
        yield f"{dropped} scores of fewer than {_LEAST_MODELS} models with downstream accuracies are left out"
