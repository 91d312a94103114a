"""Classification by the names of the labels, from names of models to a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.connectors.progress import Advance, Terminal
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.core.files import cache_folder
from surprise_rerank.errors import DataError
from surprise_rerank.eval.labelled.data import LabelledTexts, read_texts
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies.classify.draws import draw_examples, draw_texts
from surprise_rerank.eval.studies.classify.outcomes import NO_TEMPLATE, Key, Outcome
from surprise_rerank.eval.studies.classify.settings import TRAIN, ZeroShotSettings
from surprise_rerank.eval.studies.classify.systems import LOGISTIC, ZERO_SHOT, by_labels, logistic_regression
from surprise_rerank.eval.studies.classify.task import Task
from surprise_rerank.eval.studies.classify.zero_shot_tables import (
    accuracy_bars,
    classes_table,
    systems_table,
)
from surprise_rerank.eval.studies.labelled_models import LabelledVectors, load_models
from surprise_rerank.surprise.ensemble import Ensemble


def evaluate_zero_shot(task: Task, settings: ZeroShotSettings, terminal: Terminal | None = None) -> Report:
    """Classify texts by the names of their labels, with every model and template.

    Args:
        task: `task.other` are the texts to learn from, where there are any.
        settings: how.
        terminal: for progress; quiet by default.

    Returns:
        The tables `zero-shot`, a row for each model, template and system, or one that says that a model does
        not tell the labels apart; and `zero-shot-classes`, a row for each class, too.

    Raises:
        DataError: if the settings do not fit the texts, or no model tells the labels apart.
        SurpriseRerankError: if a model cannot be loaded, or vectors cannot be kept.
    """
    terminal = terminal or Terminal(quiet=True)
    models = load_models(settings.models, settings.cache or cache_folder(), terminal)
    study = _Study(task, settings, terminal)
    found: dict[Key, Outcome] = {}
    described = []
    for vectors in models:
        described.append(vectors.described())
        found.update(study.outcomes(vectors))
    if not found:
        raise DataError(next(iter(study.left_out.values())))
    return Report(
        f"Classification by the names of the labels: {task.texts.name}",
        (
            systems_table(found, study.left_out),
            classes_table(found, task.classes),
        ),
        (accuracy_bars(found),),
        (*study.notes(), *task.remarks()),
        {**study.facts(), "models": described},
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """Rows of the texts of a repeat.

    Attributes:
        tested: of the task's texts.
        examples: of the texts to learn from.
    """

    tested: IntArray
    examples: IntArray


class _Study:
    """The draws and the ensemble, which are the same for every model."""

    def __init__(self, task: Task, settings: ZeroShotSettings, terminal: Terminal) -> None:
        self._task = task
        self._settings = settings
        self._terminal = terminal
        self._ensemble = self._read_ensemble()
        self._source = task.texts if task.other is None else task.other
        self._source_truth = task.truth if task.other is None else task.other_truth
        self._learns = task.other is not None or settings.shots is not None
        if self._learns and len(np.unique(self._source_truth)) < 2:
            raise DataError(f"the texts of {self._source.name} have one label; learning needs two at least")
        self._draws = [self._drawn(number) for number in range(settings.repeats)]
        self.left_out: dict[tuple[str, str], str] = {}  # model, template -> why it cannot be measured

    def outcomes(self, vectors: LabelledVectors) -> dict[Key, Outcome]:
        """What a model's systems make of the texts."""
        texts = vectors.of(self._task.texts)
        ensembles = self._ensembles(vectors, texts)
        templates = tuple(dict.fromkeys(self._settings.templates))
        found: dict[Key, Outcome] = {}
        total = len(templates) * len(self._draws) * len(ZERO_SHOT)
        with self._terminal.bar(f"{vectors.name}: classifying", total, "classifications") as advance:
            for template in templates:
                try:
                    labels = self._task.label_vectors(vectors.encoder, template)
                except DataError as error:
                    self.left_out[vectors.name, template] = str(error)
                    self._terminal.say(f"{vectors.name}, {template}: {error}")
                    advance(len(self._draws) * len(ZERO_SHOT))
                    continue
                for draw, ensemble in zip(self._draws, ensembles, strict=True):
                    tested = texts[draw.tested]
                    for system in ZERO_SHOT:
                        answers = by_labels(system, labels, tested, ensemble, self._settings.weight)
                        outcome = found.setdefault((vectors.name, template, system), Outcome())
                        outcome.add(self._task.truth[draw.tested], answers, len(labels), draw.tested)
                        advance(1)
        if self._learns:
            with self._terminal.bar(f"{vectors.name}: learning", len(self._draws), "repeats") as advance:
                found[vectors.name, NO_TEMPLATE, LOGISTIC] = self._learnt(vectors, advance)
        return found

    def _ensembles(self, vectors: LabelledVectors, texts: Float32Array) -> list[Ensemble]:
        """What each draw is compared with: the texts that were given for it, or the tested ones."""
        if self._ensemble is not None:
            return [Ensemble.from_vectors(vectors.of(self._ensemble), similarity="cosine")] * len(self._draws)
        return [Ensemble.from_vectors(texts[draw.tested], similarity="cosine") for draw in self._draws]

    def _learnt(self, vectors: LabelledVectors, advance: Advance) -> Outcome:
        texts, source = vectors.of(self._task.texts), vectors.of(self._source)
        outcome = Outcome()
        for draw in self._draws:
            answers = logistic_regression(
                source[draw.examples],
                self._source_truth[draw.examples],
                texts[draw.tested],
                self._settings.regularisation,
            )
            outcome.add(self._task.truth[draw.tested], answers, len(self._task.classes), draw.tested)
            advance(1)
        return outcome

    def _read_ensemble(self) -> LabelledTexts | None:
        chosen = self._settings.ensemble
        if chosen is None:
            return None
        if chosen == TRAIN:
            if self._task.other is None:
                raise DataError(
                    "the ensemble `train` are the texts to learn from, and there are none; give --train"
                )
            return self._task.other
        path = Path(chosen)
        return LabelledTexts.of(path.name, [*read_texts(path, text=self._settings.text)], [])

    def _drawn(self, number: int) -> _Draw:
        rng = np.random.default_rng((self._settings.seed, number))
        rows = np.arange(len(self._task.texts))
        shots = self._settings.shots
        examples = np.arange(len(self._source_truth))
        if shots is not None:
            examples = draw_examples(self._source_truth, shots, self._task.classes, rng)
            if self._task.other is None:
                rows = np.setdiff1d(rows, examples)
        if not len(rows):
            raise DataError(f"all {len(examples)} texts are examples, none is left to test; give fewer shots")
        return _Draw(draw_texts(rows, self._settings.sample, rng), examples)

    def notes(self) -> Iterator[str]:
        """Notes for readers."""
        settings, draw = self._settings, self._draws[0]
        drawn = f", drawn at random in each of {settings.repeats} repeats" if settings.repeats > 1 else ""
        yield f"texts tested: {len(draw.tested)}{drawn}; classes to choose from: {len(self._task.classes)}"
        if self._ensemble is None:
            yield "ensemble: the tested texts themselves, without their labels (transductive)"
        else:
            yield f"ensemble: the texts of {self._ensemble.name} ({len(self._ensemble)}; inductive)"
        weight = settings.weight
        shown = "tanh(size of the ensemble / 1000)" if weight == "crossover" else str(weight)
        yield f"weight: of surprise against the cosine, {shown}"
        if self._learns:
            yield (
                f"{LOGISTIC}: logistic regression on the model's vectors, C = {settings.regularisation:g}, "
                f"learnt from labelled texts of {self._source.name}: {len(draw.examples)}"
            )
        yield "macro F1: the mean over the classes that have texts; weighted F1: by their number of texts"
        over = "McNemar's exact test over the texts"
        if settings.repeats > 1:
            over = "the paired randomisation test over the texts, each with the share of its repeats"
        yield f"p: against {self._compared()}, by {over}"

    def _compared(self) -> str:
        if self._learns and len(self._settings.templates) > 1:
            return f"cosine with the same template ({LOGISTIC}: with the first)"
        return "cosine"

    def facts(self) -> dict[str, Any]:
        """ZeroShotSettings and sizes."""
        settings = self._settings
        return {
            **self._task.facts(),
            "tested": len(self._draws[0].tested),
            "examples": len(self._draws[0].examples) if self._learns else 0,
            "templates": list(settings.templates),
            "ensemble": None if self._ensemble is None else self._ensemble.name,
            "weight": settings.weight,
            "regularisation": settings.regularisation,
            "shots": settings.shots,
            "repeats": settings.repeats,
            "sample": settings.sample,
            "seed": settings.seed,
        }
