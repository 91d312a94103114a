"""Clusterings of labelled texts, from names of models and files to a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, v_measure_score

from surprise_rerank import _border as border
from surprise_rerank.classify._cluster import SurpriseAssignment, SurpriseKMeans
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.eval.reports.report import Plot, Table
from surprise_rerank.eval.stats import difference_interval, holm, paired_randomization
from surprise_rerank.eval.studies.labelled import (
    COSINE,
    SURPRISE,
    Answers,
    LabelledStudy,
    LabelledTexts,
    LabelledVectors,
    read_labelled,
)
from surprise_rerank.eval.studies.settings import ClusterSettings, to_weight
from surprise_rerank.eval.studies.study import Key, Measurements, Shown
from surprise_rerank.surprise.score import SurpriseModel, Weight

# Name as it is shown -> model of the surprise score, and weight: at 0 the nearest centre by the cosine.
Assignments: TypeAlias = Mapping[str, tuple[SurpriseModel, Weight]]

_TESTED = ("V-measure", "ARI")


def find_assignments(names: Iterable[str]) -> Assignments:
    """Assignments by names such as surprise@0.5, once each, the cosine first; without a weight it is 1."""
    assignments: dict[str, tuple[SurpriseModel, Weight]] = {COSINE: ("gaussian", 0.0)}
    for name in names:
        model, at, weight = name.partition("@")
        if name != COSINE:
            border.choice("assignment", model, SURPRISE)
        assignments.setdefault(name, (SURPRISE.get(model, "gaussian"), to_weight(weight) if at else 1.0))
    return assignments


def clustering(settings: ClusterSettings, terminal: Terminal) -> ClusterStudy | Answers:
    """The study that settings ask for; or the clusters of texts without labels, by the usual weight."""
    if not settings.answers:
        return ClusterStudy(settings, terminal)
    advice = "answers=yes needs it: give --set clusters=N"
    clusterer = SurpriseKMeans(border.present("clusters", settings.clusters, advice), random_state=0)

    def groups(model: LabelledVectors, texts: LabelledTexts) -> Iterable[int]:
        return map(int, clusterer.fit_predict(model.of(texts, "query")))

    return Answers(settings, terminal, settings.files, "cluster", groups)


class ClusterStudy(LabelledStudy[ClusterSettings, list[LabelledTexts]]):
    """Assignments of texts to the same k-means centres, compared with the texts' labels."""

    title = "Clusters of texts beside their labels"
    keys = ("data", "model", "assignment")

    def read(self) -> list[LabelledTexts]:
        settings = self.settings
        self._assignments = find_assignments(settings.assignments)
        data = [read_labelled(file, **settings.columns()).sample(settings.limit) for file in settings.files]
        border.distinct("names of files", [texts.name for texts in data], "give each once, or rename one")
        for texts in data:
            border.some(f"labels of {texts.name}", texts.classes, "clusters are compared with them", 2)
            border.count(f"clusters of {texts.name}", self._clusters(texts), 1, len(texts))
        return data

    def _clusters(self, texts: LabelledTexts) -> int:
        return self.settings.clusters or len(texts.classes)

    def measure(self, model: LabelledVectors) -> None:
        for texts in self.data:
            # Texts are compared with texts: for models with prompts, both sides have the one of a query.
            vectors, repeats = model.of(texts, "query"), self.settings.repeats
            with self.terminal.bar(f"{model.name}: {texts.name}", repeats, "repeats") as advance:
                for seed in range(repeats):
                    how = (self._assignments, self._clusters(texts), seed)
                    for name, values in measure(vectors, texts.labels, *how).items():
                        self.measurements.add((texts.name, model.name, name), values)
                    advance(1)

    def tables(self) -> Iterator[Table]:
        shown = [Shown("V-measure", 2, spread=True), Shown("V - cosine", 2), Shown("ARI", 2, spread=True)]
        yield self.measurements.table(
            "cluster",
            "Clusters beside labels, x 100: means over the repeats",
            [*shown, Shown("ARI - cosine", 2), Shown("moved %", 1)],
            (
                "dev.: standard deviation over the repeats. moved: points in another cluster than by the "
                "cosine. NMI, by the arithmetic mean of the entropies, is equal to the V-measure.",
            ),
        )
        differences = self._differences()
        if len(differences):
            shown = [Shown(name, 2) for name in ("difference", "low", "high")]
            shown += [*(Shown(name, 0) for name in ("wins", "losses")), Shown("p"), Shown("p (Holm)")]
            yield differences.table(
                "cluster-differences",
                "Differences to the cosine on the same centres, x 100",
                shown,
                (
                    "low and high: 95 % BCa interval of the mean difference over the repeats. p: paired "
                    "randomisation test over the repeats, two-sided; Holm's correction is for all "
                    "comparisons of the table. It tells whether a difference holds for other seeds of "
                    "k-means on these texts, not on others.",
                ),
            )

    def _differences(self) -> Measurements:
        """Of every assignment to the cosine: mean, interval, p."""
        differences = Measurements(*self.keys, "measure")
        tested = dict[Key, float]()
        for key in self.measurements:
            for name in _TESTED if key[-1] != COSINE else ():
                place: Key = (*key, name)
                first, second = (self.measurements.values(k, name) for k in ((*key[:-1], COSINE), key))
                tested[place] = paired_randomization(first, second)
                wins, losses = int((second > first).sum()), int((second < first).sum())
                differences.add(
                    place, {"difference": (second - first).mean(), "wins": wins, "losses": losses}
                )
                if len(first) > 1:
                    low, high = difference_interval(first, second)
                    differences.add(place, {"low": low, "high": high})
        for (place, p), corrected in zip(tested.items(), holm(list(tested.values())), strict=True):
            differences.add(place, {"p": p, "p (Holm)": corrected})
        return differences

    def plots(self) -> Iterator[Plot]:
        return (self.measurements.plot("bars", f"{name} by assignment", name) for name in _TESTED)

    def notes(self) -> Iterator[str]:
        for texts in self.data:
            sizes = f"{len(texts)} texts, {len(texts.classes)} labels, {self._clusters(texts)} clusters"
            yield f"{texts.name}: {sizes}"
            yield from texts.remarks()
        yield (
            f"each repeat: centres of k-means++ and k-means on unit vectors, seeds 0 to "
            f"{self.settings.repeats - 1}; every assignment takes the same centres"
        )
        yield (
            "cosine: the nearest centre. The others: the most surprising one, the ensemble being the texts "
            "themselves; the weight is 1, or what stands behind @"
        )
        if self.settings.limit is not None:
            yield f"of each file {self.settings.limit} texts at most, a random sample that is always the same"

    def facts(self) -> dict[str, Any]:
        clusters = {texts.name: self._clusters(texts) for texts in self.data}
        values = self.measurements.facts()
        return {"settings": self.settings.facts(), "clusters": clusters, "values": values}


def measure(
    vectors: Float32Array, labels: Sequence[str], assignments: Assignments, clusters: int, seed: int
) -> dict[str, dict[str, float]]:
    """Assignment, the cosine first -> its measures for (n, d) vectors, on the same centres; shares x 100."""
    with warnings.catch_warnings():
        # Fewer different texts than clusters: some stay empty, which is counted.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres = SurpriseKMeans(clusters, weight=0.0, random_state=seed).fit(vectors)
    measured: dict[str, dict[str, float]] = {}
    for name, (model, weight) in assignments.items():
        assigned = SurpriseAssignment(centres, model=model, weight=weight).fit(vectors)
        v_measure = 100 * v_measure_score(labels, assigned.labels_)
        ari = 100 * adjusted_rand_score(labels, assigned.labels_)
        values = {"V-measure": v_measure, "ARI": ari}
        if name != COSINE:
            cosine = measured[COSINE]
            values |= {"V - cosine": v_measure - cosine["V-measure"], "ARI - cosine": ari - cosine["ARI"]}
            values["moved %"] = 100 * float((assigned.labels_ != centres.labels_).mean())
        measured[name] = values
    return measured
