"""How large an ensemble must be: surprise with random ensembles of growing size, and cosine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from surprise_rerank.connectors.progress import Advance, Terminal
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.files import cache_folder
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Cell, Column, Plot, Report, Series, Table
from surprise_rerank.eval.stats.significance import deviation
from surprise_rerank.eval.studies.classify.measures import Quality, mean
from surprise_rerank.eval.studies.classify.settings import EnsembleSizeSettings
from surprise_rerank.eval.studies.classify.systems import HALF_POOLED, by_labels
from surprise_rerank.eval.studies.classify.task import Task
from surprise_rerank.eval.studies.labelled_models import COSINE, load_models
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Weight

# Row of the table -> system, weight.
SYSTEMS: dict[str, tuple[str, Weight]] = {
    COSINE: (COSINE, 0.0),
    "surprise, crossover": ("surprise", "crossover"),
    "surprise, weight 1": ("surprise", 1.0),
    "pooled, crossover": ("pooled", "crossover"),
    "half-pooled, crossover": (HALF_POOLED, "crossover"),
    "half-pooled, weight 1": (HALF_POOLED, 1.0),
}


@dataclass(slots=True)
class _Measured:
    """Weighted F1 and weights of a system with ensembles of one size, a value for each draw."""

    f1: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


# Model, template, size, system.
_Key = tuple[str, str, int, str]


def evaluate_ensemble_size(
    task: Task, settings: EnsembleSizeSettings, terminal: Terminal | None = None
) -> Report:
    """Measure surprise with random ensembles of growing size, and cosine.

    The texts that are not in the ensemble are tested (inductive).

    Args:
        task: the ensembles are drawn from its texts, without their labels.
        settings: what is measured.
        terminal: for progress; quiet by default.

    Returns:
        The table `ensemble-size`, a row for each model, template, size and system.

    Raises:
        DataError: if no size leaves a text to be tested, or no model tells the labels apart.
        SurpriseRerankError: if a model cannot be loaded, or vectors cannot be kept.
    """
    terminal = terminal or Terminal(quiet=True)
    wanted = tuple(dict.fromkeys(settings.sizes))
    sizes = tuple(size for size in wanted if size < len(task.texts))
    if not sizes:
        raise DataError(
            f"{task.texts.name} has {len(task.texts)} texts, the smallest ensemble {min(wanted)}: no text is "
            "left to test; give more texts or smaller ensembles"
        )
    templates = tuple(dict.fromkeys(settings.templates))
    measured: dict[_Key, _Measured] = {}
    left_out: list[str] = []
    described = []
    for vectors in load_models(settings.models, settings.cache or cache_folder(), terminal):
        described.append(vectors.described())
        texts = vectors.of(task.texts)
        total = len(templates) * len(sizes) * settings.draws
        with terminal.bar(f"{vectors.name}: drawing ensembles", total, "draws") as advance:
            for template in templates:
                try:
                    labels = task.label_vectors(vectors.encoder, template)
                except DataError as error:
                    left_out.append(f"{vectors.name}, {template}: not measurable, as {error}")
                    terminal.say(left_out[-1])
                    advance(len(sizes) * settings.draws)
                    continue
                found = _sizes(task, labels, texts, sizes, settings, advance)
                measured.update(
                    {(vectors.name, template, size, system): m for (size, system), m in found.items()}
                )
    if not measured:
        raise DataError(left_out[0])
    return Report(
        f"Sizes of ensembles: {task.texts.name}",
        (_table(measured),),
        tuple(_plots(measured)),
        (*_notes(task, settings, sizes), *left_out, *task.remarks()),
        {
            **task.facts(),
            "draws": settings.draws,
            "seed": settings.seed,
            "models": described,
        },
    )


def _sizes(
    task: Task,
    labels: Mapping[str, Float32Array],
    texts: Float32Array,
    sizes: Sequence[int],
    settings: EnsembleSizeSettings,
    advance: Advance,
) -> dict[tuple[int, str], _Measured]:
    """Every size, with the same draws for every model and template."""
    found: dict[tuple[int, str], _Measured] = {}
    for size in sizes:
        for number in range(settings.draws):
            rows = np.random.default_rng((settings.seed, size, number)).permutation(len(texts))
            ensemble, tested = Ensemble.from_vectors(texts[rows[:size]], similarity="cosine"), rows[size:]
            for shown, (system, weight) in SYSTEMS.items():
                answers = by_labels(system, labels, texts[tested], ensemble, weight)
                measured = found.setdefault((size, shown), _Measured())
                measured.f1.append(Quality.of(task.truth[tested], answers.places).weighted_f1)
                if answers.weight is not None:
                    measured.weights.append(answers.weight)
            advance(1)
    return found


def _ratio(measured: dict[_Key, _Measured], key: _Key) -> float:
    """Mean F1 by the mean of cosine with the same ensembles; NaN where that is 0."""
    cosine = mean(measured[(*key[:3], COSINE)].f1)
    return mean(measured[key].f1) / cosine if cosine > 0 else float("nan")


def _table(measured: dict[_Key, _Measured]) -> Table:
    columns = (
        Column("model"),
        Column("template"),
        Column("ensemble"),
        Column("system"),
        Column("weight", 3),
        Column("weighted F1"),
        Column("F1 dev."),
        Column("ratio to cosine"),
    )
    rows: list[tuple[Cell, ...]] = []
    for key, found in measured.items():
        ratio = None if key[3] == COSINE else _ratio(measured, key)
        weight = mean(found.weights) if found.weights else None
        rows.append((*key, weight, mean(found.f1), deviation(found.f1), ratio))
    return Table("ensemble-size", "Means over random ensembles", columns, tuple(rows), keys=4)


def _plots(measured: dict[_Key, _Measured]) -> Iterator[Plot]:
    for model, template in dict.fromkeys((key[0], key[1]) for key in measured):
        own = [key for key in measured if key[:2] == (model, template)]
        series = tuple(
            Series(
                system,
                tuple(float(key[2]) for key in own if key[3] == system),
                tuple(_ratio(measured, key) for key in own if key[3] == system),
            )
            for system in SYSTEMS
        )
        yield Plot(
            "line",
            f"Surprise by cosine: {model}, {template}",
            "texts in the ensemble",
            "weighted F1 by that of cosine",
            series,
            "Ratios of means over the draws; above 1 surprise is better than cosine.",
            log_x=True,
            finding=_finding(series),
        )


def _finding(series: Sequence[Series]) -> str:
    """From which size on the first system is above cosine in all larger ones."""
    told = []
    for own in series:
        points = sorted(zip(np.asarray(own.x, np.float64).tolist(), own.y, strict=True))
        below = [x for x, y in points if not y > 1]
        above = [x for x, _ in points if not below or x > max(below)]
        if not above:
            told.append(f"{own.name} is not above cosine in the largest ensemble.")
        else:
            told.append(f"{own.name} is above cosine from {above[0]:g} texts on.")
    return " ".join(told)


def _notes(task: Task, settings: EnsembleSizeSettings, sizes: Sequence[int]) -> Iterator[str]:
    yield (
        f"random ensembles of each size: {settings.draws}, from the {len(task.texts)} texts, without labels; "
        "the texts outside of the ensemble are tested (inductive)"
    )
    yield "dev.: standard deviation over the draws; ratio: of the means of surprise and cosine"
    yield "crossover: weight tanh(size / 1000)"
    left = [size for size in dict.fromkeys(settings.sizes) if size not in sizes]
    if left:
        yield f"ensembles of {', '.join(map(str, left))} leave no text to test and are left out"
