"""Tables and plot of few-shot classification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from surprise_rerank.eval.reports.report import Cell, Column, Plot, Series, Table
from surprise_rerank.eval.reports.verdicts import best_of
from surprise_rerank.eval.stats.significance import deviation
from surprise_rerank.eval.studies.classify.few_shot_systems import FewShotResult
from surprise_rerank.eval.studies.classify.measures import mean

# Model, shots, system, seed -> its result.
Cells: TypeAlias = dict[tuple[str, int, str, int], FewShotResult]

_MEASURES = {"weighted_f1": "weighted F1", "macro_f1": "macro F1", "accuracy": "accuracy"}


def systems_table(cells: Cells) -> Table:
    """A row for each model, number of examples and system: means and deviations over the draws."""
    columns = [Column("model"), Column("k"), Column("system")]
    for heading in _MEASURES.values():
        columns += [Column(heading), Column(f"{heading} dev.")]
    columns.append(Column("seconds of training", 1))
    rows: list[tuple[Cell, ...]] = []
    for key, results in _groups(cells).items():
        values: list[Cell] = []
        for measure in _MEASURES:
            own = [float(getattr(result.quality, measure)) for result in results]
            values += [mean(own), deviation(own)]
        rows.append((*key, *values, mean([result.seconds for result in results])))
    notes = ("dev.: standard deviations over the draws; seconds: means",)
    return Table(
        "few-shot", "Means over the draws of examples", tuple(columns), tuple(rows), keys=3, notes=notes
    )


def draws_table(cells: Cells) -> Table:
    """A row for each model, number of examples, system and draw."""
    columns = (
        Column("model"),
        Column("k"),
        Column("system"),
        Column("draw"),
        *(Column(heading) for heading in _MEASURES.values()),
        Column("weight", 3),
        Column("epochs"),
        Column("loss reached"),
        Column("seconds of training", 1),
    )
    rows = tuple(
        (
            *key,
            *(float(getattr(result.quality, measure)) for measure in _MEASURES),
            result.weight,
            result.epochs,
            {True: "yes", False: "no", None: None}[result.reached],
            result.seconds,
        )
        for key, result in cells.items()
    )
    notes = ("loss reached: whether the training's loss became low enough before its last epoch",)
    return Table("few-shot-draws", "Single draws", columns, rows, keys=4, notes=notes, detail=True)


def learning_curve(cells: Cells) -> Iterator[Plot]:
    """Weighted F1 over the number of examples, a plot for each model."""
    found = {key: [r.quality.weighted_f1 for r in results] for key, results in _groups(cells).items()}
    for model in dict.fromkeys(model for model, _, _ in found):
        series = []
        for system in dict.fromkeys(system for _, _, system in found):
            points = sorted((k, values) for (m, k, s), values in found.items() if (m, s) == (model, system))
            if points:
                series.append(
                    Series(
                        system,
                        tuple(float(k) for k, _ in points),
                        tuple(mean(values) for _, values in points),
                        tuple(min(values) for _, values in points),
                        tuple(max(values) for _, values in points),
                    )
                )
        fewest = min(k for m, k, _ in found if m == model)
        best = best_of({s: mean(own) for (m, k, s), own in found.items() if (m, k) == (model, fewest)})
        yield Plot(
            "line",
            f"Learning from few examples: {model}",
            "examples of each class",
            "weighted F1",
            tuple(series),
            "Means over the draws of examples, and lines from the worst draw to the best.",
            finding=f"With {fewest} examples of each class {best}." if best else "",
        )


def _groups(cells: Cells) -> dict[tuple[str, int, str], list[FewShotResult]]:
    groups: dict[tuple[str, int, str], list[FewShotResult]] = {}
    for (model, shots, system, _), result in cells.items():
        groups.setdefault((model, shots, system), []).append(result)
    return groups
