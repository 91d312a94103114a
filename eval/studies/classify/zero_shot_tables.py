"""Tables and plot of a classification by the names of the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from surprise_rerank.eval.reports.report import Cell, Column, Plot, Series, Table
from surprise_rerank.eval.reports.verdicts import best_of, difference_verdict
from surprise_rerank.eval.stats.significance import deviation, share_interval
from surprise_rerank.eval.studies.classify.measures import mean
from surprise_rerank.eval.studies.classify.outcomes import Key, Outcome, baseline_of, p_values
from surprise_rerank.eval.studies.labelled_models import COSINE

# Name of a measure of `Quality` -> heading.
MEASURES = {"accuracy": "accuracy", "macro_f1": "macro F1", "weighted_f1": "weighted F1"}
# In place of a system, where a model does not tell the labels apart.
NOT_MEASURABLE = "not measurable"
_KEYS = (Column("model"), Column("template"), Column("system"))


def systems_table(found: Mapping[Key, Outcome], left_out: Mapping[tuple[str, str], str]) -> Table:
    """A row for each model, template and system; deviations where there are several repeats.

    Args:
        found: what was measured.
        left_out: model, template -> why nothing was; a row without measures each, and a note.
    """
    repeated = any(len(outcome.qualities) > 1 for outcome in found.values())
    columns = [*_KEYS, Column("weight", 3)]
    for heading in MEASURES.values():
        columns.append(Column(heading, 4, "max"))
        if repeated:
            columns.append(Column(f"{heading} dev.", 4))
    columns += [Column("p (accuracy vs cosine)"), Column("p (Holm)")]
    p = p_values(found)
    rows: list[tuple[Cell, ...]] = []
    for key, outcome in found.items():
        cells: list[Cell] = [*key, mean(outcome.weights) if outcome.weights else None]
        for measure in MEASURES:
            values = outcome.values(measure)
            cells += [mean(values), deviation(values)] if repeated else [mean(values)]
        rows.append((*cells, *p.get(key, (None, None))))
    rows += [(*key, NOT_MEASURABLE, *[None] * (len(columns) - 3)) for key in left_out]
    notes = tuple(
        f"{model}, {template}: {NOT_MEASURABLE}, as {why}" for (model, template), why in left_out.items()
    )
    return Table(
        "zero-shot",
        "How well each system does",
        tuple(columns),
        tuple(rows),
        keys=3,
        notes=notes,
        verdict=_verdict(found, {key: corrected for key, (_, corrected) in p.items()}),
    )


def _verdict(found: Mapping[Key, Outcome], corrected: Mapping[Key, float]) -> str:
    """Of the system with the largest difference to its cosine; empty where nothing was compared.

    Args:
        found: what was measured.
        corrected: system -> Holm's p.
    """
    if not corrected:
        return ""
    gains = {
        key: _accuracy(found[key]) - _accuracy(found[baseline])
        for key in corrected
        if (baseline := baseline_of(key, found)) is not None
    }
    best = max(gains, key=lambda key: gains[key])
    # What all rows share is not said again.
    own = [part for j, part in enumerate(best) if j == 2 or len({key[j] for key in found}) > 1]
    texts = f"{len(found[best].rightness())} texts"
    return difference_verdict(", ".join(own), COSINE, "accuracy", gains[best], None, corrected[best], texts)


def _accuracy(outcome: Outcome) -> float:
    return mean(outcome.values("accuracy"))


def classes_table(found: Mapping[Key, Outcome], classes: Sequence[str]) -> Table:
    """A row for each model, template, system and class; the texts of all repeats are counted together."""
    columns = (
        *_KEYS,
        Column("class"),
        Column("texts"),
        Column("precision"),
        Column("recall"),
        Column("F1"),
        Column("share of texts"),
        Column("share of answers"),
    )
    rows = tuple(
        (*key, name, *cells)
        for key, outcome in found.items()
        for name, cells in zip(classes, _of_classes(outcome), strict=True)
    )
    notes = ("precision is empty where a class was never chosen, recall and F1 where it has no text",)
    return Table("zero-shot-classes", "Single classes", columns, rows, keys=4, notes=notes, detail=True)


def _of_classes(outcome: Outcome) -> Iterator[tuple[Cell, ...]]:
    counts = outcome.confusion if outcome.confusion is not None else np.zeros((0, 0), np.int64)
    total = max(int(counts.sum()), 1)
    for place in range(len(counts)):
        own, chosen = int(counts[place].sum()), int(counts[:, place].sum())
        right = int(counts[place, place])
        yield (
            own,
            right / chosen if chosen else None,
            right / own if own else None,
            2 * right / (own + chosen) if own else None,
            own / total,
            chosen / total,
        )


def accuracy_bars(found: Mapping[Key, Outcome]) -> Plot:
    """The accuracy of each system, a series for each model and template."""
    models = dict.fromkeys(model for model, _, _ in found)
    templates = dict.fromkeys(template for _, template, _ in found)
    groups: dict[str, list[tuple[str, float, int]]] = {}
    for (model, template, system), outcome in found.items():
        parts = [model] if len(models) > 1 else []
        parts += [template] if len(templates) > 1 else []
        bar = (system, mean(outcome.values("accuracy")), len(outcome.rightness()))
        groups.setdefault(" ".join(parts) or model, []).append(bar)
    series = []
    told = []
    for name, bars in groups.items():
        ends = [share_interval(value, texts) for _, value, texts in bars]
        series.append(
            Series(
                name,
                tuple(system for system, _, _ in bars),
                tuple(value for _, value, _ in bars),
                tuple(low for low, _ in ends),
                tuple(high for _, high in ends),
            )
        )
        best = best_of({system: value for system, value, _ in bars})
        told += [f"{name}: {best}." if len(groups) > 1 else f"{best}."] if best else []
    return Plot(
        "bars",
        "Accuracy",
        "system",
        "accuracy",
        tuple(series),
        "Lines: the 95 % interval of each accuracy over the texts (Wilson). Systems are compared on the same "
        "texts; of their differences the p of the table tells.",
        finding=" ".join(told),
    )
