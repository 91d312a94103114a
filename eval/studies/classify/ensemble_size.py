"""How large an ensemble must be: surprise with random ensembles of growing size, and cosine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Plot, Table
from surprise_rerank.eval.studies.classify.systems import HALF_POOLED, by_labels, qualities
from surprise_rerank.eval.studies.classify.task import Task
from surprise_rerank.eval.studies.labelled import COSINE, LabelledVectors
from surprise_rerank.eval.studies.measurements import Measurements
from surprise_rerank.eval.studies.settings import ClassifySettings
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
_DRAWS = 10
_SEED = 0


class EnsembleSizes:
    """Ensembles are drawn from the texts, without their labels; the other texts are tested (inductive)."""

    title = "Sizes of ensembles"

    def __init__(self, task: Task, settings: ClassifySettings, terminal: Terminal) -> None:
        wanted = settings.ensemble_size or ()
        self._sizes = [size for size in wanted if size < len(task.texts)]
        self._left = [size for size in wanted if size not in self._sizes]
        if not self._sizes:
            raise DataError(
                f"{task.texts.name} has {len(task.texts)} texts, the smallest ensemble {min(wanted)}: no "
                "text is left to test; give more texts or smaller ensembles"
            )
        self._task = task
        self._settings = settings
        self._draws = settings.draws or _DRAWS
        self._terminal = terminal
        self.measurements = Measurements("model", "template", "ensemble", "system")

    def measure(self, model: LabelledVectors, leave_out: Callable[[str], None]) -> None:
        """Every size, with the same draws for every model and template."""
        texts, truth, templates = model.of(self._task.texts), self._task.truth, self._settings.templates
        total = len(set(templates)) * len(self._sizes) * self._draws
        with self._terminal.bar(f"{model.name}: drawing ensembles", total, "draws") as advance:
            for template, labels in self._task.labels_by_template(model.encoder, templates, leave_out):
                for size in self._sizes:
                    for number in range(self._draws):
                        rows = np.random.default_rng((_SEED, size, number)).permutation(len(texts))
                        ensemble = Ensemble.from_vectors(texts[rows[:size]], similarity="cosine")
                        tested = rows[size:]
                        for shown, (system, weight) in SYSTEMS.items():
                            mixing = (weight, self._settings.crossover_size)
                            places, used = by_labels(system, labels, texts[tested], ensemble, *mixing)
                            f1 = qualities(truth[tested], places)["weighted F1"]
                            key = (model.name, template, size, shown)
                            self.measurements.add(key, {"weight": used, "weighted F1": f1})
                        advance(1)
                    self._compare((model.name, template, size))

    def _compare(self, place: tuple[str, str, int]) -> None:
        cosine = self.measurements.mean((*place, COSINE), "weighted F1")
        for system in SYSTEMS:
            if system != COSINE and cosine:
                f1 = self.measurements.mean((*place, system), "weighted F1")
                ratio = None if f1 is None else f1 / cosine
                self.measurements.add((*place, system), {"ratio to cosine": ratio})

    def tables(self) -> Iterator[Table]:
        """A row for each model, template, size and system."""
        shown = [("weight", 3, False), ("weighted F1", 4, True), ("ratio to cosine", 4, False)]
        yield self.measurements.table("ensemble-size", "Means over random ensembles", shown)

    def plots(self) -> Iterator[Plot]:
        """The ratio over the size."""
        yield self.measurements.plot(
            "line",
            "Surprise by cosine",
            "ratio to cosine",
            log_x=True,
            note="Ratios of means over the draws; above 1 surprise is better than cosine.",
        )

    def notes(self) -> Iterator[str]:
        """Notes for readers."""
        yield (
            f"random ensembles of each size: {self._draws}, from the {len(self._task.texts)} texts, without "
            "labels; the texts outside of the ensemble are tested (inductive)"
        )
        yield "dev.: standard deviation over the draws; ratio: of the means of surprise and cosine"
        yield "crossover: weight tanh(size / 1000)"
        if self._left:
            yield f"ensembles of {', '.join(map(str, self._left))} leave no text to test and are left out"
