"""How large an ensemble must be: surprise with random ensembles of growing size, and cosine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Plot, Table
from surprise_rerank.eval.studies.classify.systems import HALF_POOLED, by_labels, qualities
from surprise_rerank.eval.studies.classify.task import ClassifyStudy, Task
from surprise_rerank.eval.studies.labelled import COSINE, LabelledVectors
from surprise_rerank.eval.studies.measurements import Shown
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


class EnsembleSizes(ClassifyStudy):
    """Ensembles are drawn from the texts, without their labels; the other texts are tested (inductive)."""

    heading = "Sizes of ensembles"
    keys = ("model", "template", "ensemble", "system")

    def read(self) -> Task:
        """The texts; ensembles that leave none to test are left out."""
        task, sizes = super().read(), self.settings.ensemble_size or ()
        self._sizes = [size for size in sizes if size < len(task.texts)]
        if not self._sizes:
            raise DataError(
                f"{task.texts.name} has {len(task.texts)} texts, the smallest ensemble {min(sizes)}: no "
                "text is left to test; give more texts or smaller ensembles"
            )
        self._draws = self.settings.draws or _DRAWS
        return task

    def measure(self, model: LabelledVectors) -> None:
        """Every size, with the same draws for every model and template."""
        texts, truth, templates = model.of(self.data.texts), self.data.truth, self.settings.templates
        total = len(set(templates)) * len(self._sizes) * self._draws
        with self.terminal.bar(f"{model.name}: drawing ensembles", total, "draws") as advance:
            for template, labels in self.data.labels_by_template(model.encoder, templates, self.leave_out):
                for size in self._sizes:
                    for number in range(self._draws):
                        rows = np.random.default_rng((_SEED, size, number)).permutation(len(texts))
                        ensemble = Ensemble.from_vectors(texts[rows[:size]], similarity="cosine")
                        tested = rows[size:]
                        for shown, (system, weight) in SYSTEMS.items():
                            mixing = (weight, self.settings.crossover_size)
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
        shown = [Shown("weight", 3), Shown("weighted F1", spread=True), Shown("ratio to cosine")]
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
        """How ensembles are drawn."""
        yield (
            f"random ensembles of each size: {self._draws}, from the {len(self.data.texts)} texts, without "
            "labels; the texts outside of the ensemble are tested (inductive)"
        )
        yield "dev.: standard deviation over the draws; ratio: of the means of surprise and cosine"
        yield "crossover: weight tanh(size / 1000)"
        left = [str(size) for size in self.settings.ensemble_size or () if size not in self._sizes]
        if left:
            yield f"ensembles of {', '.join(left)} leave no text to test and are left out"
        yield from self.data.remarks()
