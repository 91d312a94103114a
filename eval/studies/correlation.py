"""Do intrinsic scores predict downstream accuracy? Their correlation over a set of models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.eval.reports.report import Plot, Report, Series
from surprise_rerank.eval.reports.writing import read_values
from surprise_rerank.eval.stats import correlations
from surprise_rerank.eval.studies.study import Measurements, Shown

# A score and the similarity that it is of; what it is of each model.
Score: TypeAlias = tuple[str, str]
Scores: TypeAlias = dict[Score, dict[str, float]]
# Model -> task -> accuracy.
Accuracies: TypeAlias = dict[str, dict[str, float]]
Values: TypeAlias = Mapping[str, Any]

_LEAST_MODELS = 3
# All orders of up to `_EXACT_MODELS` models are tried for a p-value; of more, `_ORDERS` random ones.
_EXACT_MODELS = 7
_ORDERS = 9999
_MODELS = Shown("models", 0)
_EVALRANK = "evalrank-"
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
    """Read reports that `--report FILE.json` wrote: files, and those of folders by name."""
    reports: list[Values] = []
    for place in places:
        files = sorted(place.glob("*.json")) if place.is_dir() else [place]
        border.some(f"reports in {place}", files, "write one with --report FILE.json")
        reports += map(read_values, files)
    return reports


def correlate(reports: Sequence[Values]) -> Report:
    """Correlate every intrinsic score with the accuracy of every downstream task, over models.

    MR counts negatively, so that higher is better throughout. The mean is over the tasks that all models
    have. Of duplicate scores of a model, the last one counts.
    """
    scores, accuracies, repeated = _collected(reports)
    advice = "give one that `rerank-eval downstream --report FILE.json` wrote"
    border.some("reports with a table of downstream accuracies", accuracies, advice)
    tasks = list(dict.fromkeys(task for by_task in accuracies.values() for task in by_task))
    shared = [task for task in tasks if all(task in by_task for by_task in accuracies.values())]
    border.some(f"tasks that all of {', '.join(accuracies)} have", shared, "measure the same ones")
    means = {model: float(np.mean([by[task] for task in shared])) for model, by in accuracies.items()}
    measured = {
        score: {model: value for model, value in values.items() if model in means}
        for score, values in scores.items()
    }
    rows = {score: values for score, values in measured.items() if len(values) >= _LEAST_MODELS}
    if not rows:
        models = list(dict.fromkeys(model for values in measured.values() for model in values))
        raise DataError(
            f"{len(models)} models with an intrinsic score and downstream accuracies "
            f"({', '.join(models) or 'none'}), expected {_LEAST_MODELS} or more that share a score; "
            "intrinsic scores are those that `rerank-eval words`, `sentences` and `sts` wrote with --report "
            "FILE.json"
        )
    measurements = Measurements("score", "similarity")
    for score, values in rows.items():
        rho, p, pearson, kendall = _with_mean(values, means)
        of_mean = {"Spearman": rho, "p": p, "Pearson": pearson, "Kendall": kendall, "mean": rho}
        of_tasks = {task: _with_task(values, accuracies, task) for task in tasks}
        measurements.add(score, {"models": len(values), **of_mean, **of_tasks})
    exact = f"p: of Spearman's coefficient, two-sided, by permutation (exact up to {_EXACT_MODELS} models), "
    models = list(dict.fromkeys(model for values in rows.values() for model in values))
    fewest = min(map(len, rows.values()))
    orders = math.factorial(fewest) if fewest <= _EXACT_MODELS else _ORDERS + 1
    notes = [
        f"{len(models)} models: {', '.join(models)}; MR counts negatively",
        f"Few models say little: with {fewest}, no p-value can fall below {2 / orders:.2g}, and of "
        f"{len(rows)} rows some agree by chance; variants of one model are hardly models of their own.",
    ]
    if dropped := len(scores) - len(rows):
        few = f"fewer than {_LEAST_MODELS} models with downstream accuracies"
        notes.append(f"{dropped} scores of {few} are left out")
    if len(shared) < len(tasks):
        notes.append(f"mean: over {', '.join(shared)}, which all models have")
    for model, table in repeated:
        notes.append(f"{model} is given more than once in tables {table!r}: the later one counts")
    return Report(
        title="Correlation of intrinsic scores with downstream accuracy, over models",
        tables=(
            measurements.table(
                "correlation-mean",
                "Correlation with the mean accuracy",
                [_MODELS, Shown("Spearman", 3), Shown("p", 4), Shown("Pearson", 3), Shown("Kendall", 3)],
                (f"{exact}of each row alone.",),
            ),
            measurements.table(
                "correlation",
                "Spearman correlation with every task",
                [_MODELS, *(Shown(task, 2) for task in (*tasks, "mean"))],
                detail=True,
            ),
        ),
        plots=tuple(_plots(rows, means)),
        notes=tuple(notes),
        facts={"models": accuracies, "tasks of the mean": shared},
    )


def _collected(reports: Sequence[Values]) -> tuple[Scores, Accuracies, dict[tuple[str, str], None]]:
    """Return scores and accuracies of all reports, and the models and tables that occur twice."""
    scores: Scores = {}
    accuracies: Accuracies = {}
    repeated: dict[tuple[str, str], None] = {}
    for table, rows in (item for report in reports for item in report["tables"].items()):
        if table not in _TABLES:
            continue
        for model, score, value in _cells(table, rows):
            if table == "downstream":
                values, key = accuracies.setdefault(model, {}), score[0]
            else:
                values, key = scores.setdefault(score, {}), model
            if key in values:
                repeated[model, table] = None
            values[key] = value
    return scores, accuracies, repeated


def _cells(table: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Score, float]]:
    """Model, score and value of every number; higher is better."""
    keys, wanted = _TABLES[table]
    for row in rows:
        model, *more = map(str, list(row.values())[:keys])
        similarity = more[0] if more else ""
        # Of some years, or of whichever tasks were measured there: means of others are another score.
        partial = table == "downstream" or (table == "sts" and len(row) < keys + 6)
        for column, cell in list(row.items())[keys:]:
            if (wanted is not None and column not in wanted) or (column == "mean" and partial):
                continue
            if isinstance(cell, int | float):
                # In the table of downstream tasks, MR are the movie reviews.
                sign = -1 if wanted == _RANKS and column == "MR" else 1
                if table == "sts":
                    label = f"STS {column}" if column == "mean" else f"{column} mean"
                else:
                    label = " ".join(
                        (*([table[len(_EVALRANK) :]] if _EVALRANK in table else more[1:]), column)
                    )
                yield model, (label, similarity), sign * float(cell)


def _with_mean(values: Mapping[str, float], means: Mapping[str, float]) -> tuple[float, ...]:
    """Spearman's coefficient with the mean accuracy and its p by permutation, Pearson's and Kendall's."""
    x, y = (np.array([side[model] for model in values]) for side in (values, means))
    of = correlations(x, y)
    if not of.defined:
        return (math.nan,) * 4
    ranks, others = (stats.zscore(stats.rankdata(side)) for side in (x, y))
    result = stats.permutation_test(
        (ranks,),
        lambda ordered, axis: (ordered * others).mean(axis=axis),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=math.factorial(len(x)) if len(x) <= _EXACT_MODELS else _ORDERS,
        rng=np.random.default_rng(0),
    )
    return of.spearman, float(result.pvalue), of.pearson, of.kendall


def _with_task(values: Mapping[str, float], accuracies: Accuracies, task: str) -> float:
    """Over the models that have the score and the task; NaN where these are fewer than 3."""
    pairs = [(value, accuracies[m][task]) for m, value in values.items() if task in accuracies[m]]
    return correlations(*np.array(pairs).T).spearman if len(pairs) >= _LEAST_MODELS else math.nan


def _plots(rows: Scores, means: Mapping[str, float]) -> Iterator[Plot]:
    """MRR and the mean accuracy, for words and for sentences; by cosine, where it was measured."""
    for kind in ("words", "sentences"):
        measured = {named: values for (score, named), values in rows.items() if score == f"{kind} MRR"}
        if measured:
            similarity = "cosine" if "cosine" in measured else next(iter(measured))
            values = measured[similarity]
            rho = _with_mean(values, means)[0]
            yield Plot(
                "scatter",
                f"EvalRank of {kind} and downstream accuracy",
                f"MRR, {similarity}",
                "mean accuracy in %",
                tuple(Series(model, (value,), (means[model],)) for model, value in values.items()),
                finding=f"Every point is a model; Spearman's coefficient of the {len(values)} is {rho:.2f}.",
            )
