"""Clusterings of labelled texts, from names of models and files to a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, v_measure_score

from surprise_rerank import border
from surprise_rerank.classify.cluster import SurpriseAssignment, SurpriseKMeans
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.errors import DataError, did_you_mean
from surprise_rerank.eval.reports.report import Report, Table
from surprise_rerank.eval.stats.significance import difference_interval, holm, paired_randomization
from surprise_rerank.eval.studies.classify.answers import group_texts
from surprise_rerank.eval.studies.labelled import COSINE, SURPRISE, LabelledTexts, load_models, read_labelled
from surprise_rerank.eval.studies.measurements import Key, Measurements
from surprise_rerank.eval.studies.settings import ClusterSettings, to_weight
from surprise_rerank.surprise.score import SurpriseModel, Weight

# Name as it is shown -> model of the surprise score, and weight: at 0 the nearest centre by the cosine.
Assignments: TypeAlias = Mapping[str, tuple[SurpriseModel, Weight]]

_TESTED = ("V-measure", "ARI")


def find_assignments(names: Iterable[str]) -> Assignments:
    """Assignments by their names, once each, the cosine first: the others are compared with it.

    Args:
        names: `cosine`, `surprise` (the Gaussian model), `pooled`, `percentile`, `empirical`; an `@`
            and a weight from 0 to 1, or `crossover`, may follow. Without it the weight is 1.
    """
    assignments: dict[str, tuple[SurpriseModel, Weight]] = {COSINE: ("gaussian", 0.0)}
    for name in names:
        model, at, weight = name.partition("@")
        if name != COSINE and model not in SURPRISE:
            choices = (COSINE, *SURPRISE)
            raise DataError(
                f"there is no assignment {name!r}; {did_you_mean(model, choices)}choose from "
                f"{', '.join(choices)}; a weight may follow, as in surprise@0.5"
            )
        try:
            assignments.setdefault(name, (SURPRISE.get(model, "gaussian"), to_weight(weight) if at else 1.0))
        except ValueError as error:
            raise DataError(f"assignment {name!r}: the weight {error}") from None
    return assignments


def evaluate_clustering(settings: ClusterSettings, terminal: Terminal) -> Report:
    """Compare assignments of texts to the same k-means centres with the texts' labels.

    Returns:
        The tables `cluster` and `cluster-differences`, a row for each file, model and assignment; or
        `answers`, the cluster of each text.
    """
    if settings.answers:
        return group_texts(settings, terminal)
    assignments = find_assignments(settings.assignments)
    models = load_models(settings, terminal)
    data = [read_labelled(file, **settings.columns()).sample(settings.limit) for file in settings.files]
    clusters = _clusters(data, settings)
    measurements = Measurements("data", "model", "assignment")
    for model in models:
        for texts in data:
            # Texts are compared with texts: for models with prompts, both sides have the one of a query.
            vectors = model.of(texts, "query")
            title = f"{model.name}: {texts.name}"
            with terminal.bar(title, settings.repeats, "repeats") as advance:
                for seed in range(settings.repeats):
                    by_assignment = measure(vectors, texts.labels, assignments, clusters[texts.name], seed)
                    for name, values in by_assignment.items():
                        measurements.add((texts.name, model.name, name), values)
                    advance(1)
    differences = _differences(measurements)
    return Report(
        title="Clusters of texts beside their labels",
        tables=tuple(_tables(measurements, differences)),
        plots=tuple(measurements.plot("bars", f"{name} by assignment", name) for name in _TESTED),
        notes=tuple(_notes(settings, data, clusters)),
        facts={"settings": settings.facts(), "clusters": clusters, "values": measurements.facts()},
    )


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


def _clusters(data: Sequence[LabelledTexts], settings: ClusterSettings) -> dict[str, int]:
    """File -> number of clusters."""
    border.distinct("names of files", [texts.name for texts in data], "give each once, or rename one")
    numbers = {}
    for texts in data:
        if len(texts.classes) < 2:
            raise DataError(
                f"{texts.name}: every text has the label {texts.labels[0]!r}; clusters are compared with two "
                "labels or more"
            )
        numbers[texts.name] = settings.clusters or len(texts.classes)
        if numbers[texts.name] > len(texts):
            raise DataError(
                f"{texts.name}: {numbers[texts.name]} clusters for {len(texts)} texts; ask for "
                f"{len(texts)} at most"
            )
    return numbers


def _differences(measurements: Measurements) -> Measurements:
    """Of every assignment to the cosine: mean, interval, p."""
    differences = Measurements("data", "model", "assignment", "measure")
    tested = {}
    for key in measurements:
        for name in _TESTED if key[-1] != COSINE else ():
            place: Key = (*key, name)
            first, second = (measurements.values(position, name) for position in ((*key[:-1], COSINE), key))
            tested[place] = paired_randomization(first, second)
            wins, losses = int((second > first).sum()), int((second < first).sum())
            differences.add(place, {"difference": (second - first).mean(), "wins": wins, "losses": losses})
            if len(first) > 1:
                low, high = difference_interval(first, second)
                differences.add(place, {"low": low, "high": high})
    for (place, p), corrected in zip(tested.items(), holm(list(tested.values())), strict=True):
        differences.add(place, {"p": p, "p (Holm)": corrected})
    return differences


def _tables(measurements: Measurements, differences: Measurements) -> Iterator[Table]:
    shown = [("V-measure", 2, True), ("V - cosine", 2, False), ("ARI", 2, True), ("ARI - cosine", 2, False)]
    yield measurements.table(
        "cluster",
        "Clusters beside labels, x 100: means over the repeats",
        [*shown, ("moved %", 1, False)],
        (
            "dev.: standard deviation over the repeats. moved: points in another cluster than by the cosine. "
            "NMI, by the arithmetic mean of the entropies, is equal to the V-measure.",
        ),
    )
    if len(differences):
        shown = [(name, 2, False) for name in ("difference", "low", "high")]
        shown += [(name, 0, False) for name in ("wins", "losses")]
        yield differences.table(
            "cluster-differences",
            "Differences to the cosine on the same centres, x 100",
            [*shown, ("p", 4, False), ("p (Holm)", 4, False)],
            (
                "low and high: 95 % BCa interval of the mean difference over the repeats. p: paired "
                "randomisation test over the repeats, two-sided; Holm's correction is for all comparisons of "
                "the table. It tells whether a difference holds for other seeds of k-means on these texts, "
                "not on others.",
            ),
        )


def _notes(
    settings: ClusterSettings, data: Sequence[LabelledTexts], clusters: Mapping[str, int]
) -> Iterator[str]:
    for texts in data:
        number = len(texts.classes)
        yield f"{texts.name}: {len(texts)} texts, {number} labels, {clusters[texts.name]} clusters"
        if texts.left_out:
            yield f"{texts.name}: {texts.left_out} malformed rows left out"
    yield (
        f"each repeat: centres of k-means++ and k-means on unit vectors, seeds 0 to {settings.repeats - 1}; "
        "every assignment takes the same centres"
    )
    yield (
        "cosine: the nearest centre. The others: the most surprising one, the ensemble being the texts "
        "themselves; the weight is 1, or what stands behind @"
    )
    if settings.limit is not None:
        yield f"of each file {settings.limit} texts at most, a random sample that is always the same"
