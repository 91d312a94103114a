"""Clusterings of labelled texts, from names of models and files to a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.files import cache_folder
from surprise_rerank.errors import DataError
from surprise_rerank.eval.labelled.data import LabelledTexts
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies.cluster.assignments import find_assignments
from surprise_rerank.eval.studies.cluster.runs import Run, measure
from surprise_rerank.eval.studies.cluster.settings import ClusterSettings
from surprise_rerank.eval.studies.cluster.tables import Clustering, plots, tables
from surprise_rerank.eval.studies.labelled_models import LabelledVectors, load_models
from surprise_rerank.eval.studies.result_cache import ResultCache
from surprise_rerank.eval.studies.sentence_models import refuse_duplicates


def evaluate_clustering(
    files: Sequence[LabelledTexts], settings: ClusterSettings, terminal: Terminal | None = None
) -> Report:
    """Compare assignments of texts to the same k-means centres with the texts' labels.

    Vectors and finished repeats are kept in the cache: what was measured before is read.

    Args:
        files: at least one, of different names.
        settings: how to cluster.
        terminal: for progress and messages; none by default.

    Returns:
        The tables `cluster`, `cluster-details` and `cluster-differences`, a row for each file, model and
        assignment.

    Raises:
        DataError: if there is no file, two have one name, one has fewer than two labels or fewer texts than
            clusters, or two models have one name.
        SurpriseRerankError: if a model cannot be loaded, or results cannot be kept.
    """
    terminal = terminal or Terminal(quiet=True)
    folder = settings.cache or cache_folder()
    models = load_models(settings.models, folder, terminal)
    data = [file.sample(settings.limit) for file in files]
    _check(data, settings)
    measurement = _Measurement(settings, ResultCache(folder / "cluster", dict[str, Run]), terminal)
    found = []
    for model in models:
        found += [measurement.clustering(model, file) for file in data]
    found.sort(key=lambda clustering: [file.name for file in data].index(clustering.data))
    return Report(
        title="Clusters of texts beside their labels",
        tables=tables(found),
        plots=plots(found),
        notes=(*_protocol(settings, data), *measurement.results.remarks("runs")),
        facts={
            "repeats": settings.repeats,
            "seed": settings.seed,
            "clusterings": [clustering.facts() for clustering in found],
        },
    )


def _clusters_of(settings: ClusterSettings, data: LabelledTexts) -> int:
    return len(data.classes) if settings.clusters is None else settings.clusters


def _check(data: Sequence[LabelledTexts], settings: ClusterSettings) -> None:
    if not data:
        raise DataError("no texts to cluster; give at least one file")
    refuse_duplicates([file.name for file in data], "files", "give each once, or rename one")
    for file in data:
        if len(file.classes) < 2:
            raise DataError(
                f"{file.name}: every text has the label {file.labels[0]!r}; clusters are compared with two "
                "labels or more"
            )
        clusters = _clusters_of(settings, file)
        if clusters > len(file):
            raise DataError(
                f"{file.name}: {clusters} clusters for {len(file)} texts; ask for {len(file)} at most"
            )


@dataclass
class _Measurement:
    """Repeats: read where they are kept, measured and kept where not."""

    settings: ClusterSettings
    results: ResultCache[dict[str, Run]]
    terminal: Terminal

    def __post_init__(self) -> None:
        self.assignments = find_assignments(self.settings.assignments)

    def clustering(self, model: LabelledVectors, data: LabelledTexts) -> Clustering:
        """All repeats of a model on a file."""
        # Texts are compared with texts: for models with prompts, both sides have the one of a query.
        vectors, encoder = model.of(data, "query"), model.encoder
        clusters, repeats = _clusters_of(self.settings, data), self.settings.repeats
        runs: dict[str, list[Run]] = {assignment.name: [] for assignment in self.assignments}
        with self.terminal.bar(f"{model.name}: {data.name}", repeats, "repeats") as advance:
            for seed in range(self.settings.seed, self.settings.seed + repeats):
                key: dict[str, str | int | None] = {
                    "model": encoder.name,
                    "fingerprint": encoder.fingerprint,
                    "dimension": encoder.dimension,
                    "data": data.digest,
                    "clusters": clusters,
                    "seed": seed,
                }
                repeat = self._repeat(key, vectors, data.labels, clusters, seed)
                for name, own in runs.items():
                    own.append(repeat[name])
                advance(1)
        return Clustering(
            data.name,
            model.name,
            len(data),
            len(data.classes),
            clusters,
            {n: tuple(own) for n, own in runs.items()},
        )

    def _repeat(
        self,
        key: dict[str, str | int | None],
        vectors: np.ndarray,
        labels: Sequence[str],
        clusters: int,
        seed: int,
    ) -> dict[str, Run]:
        kept = self.results.find(key) or {}
        missing = [a for a in self.assignments if a.name not in kept]
        self.results.asked += len(self.assignments)
        self.results.found += len(self.assignments) - len(missing)
        if missing:
            kept |= measure(vectors, labels, missing, clusters=clusters, seed=seed)
            self.results.keep(key, {name: asdict(run) for name, run in kept.items()})
        return kept


def _protocol(settings: ClusterSettings, data: Sequence[LabelledTexts]) -> list[str]:
    notes = [
        f"Each repeat: centres of k-means++ and k-means on unit vectors, seeds {settings.seed} "
        f"to {settings.seed + settings.repeats - 1}; every assignment takes the same centres.",
        "cosine: the nearest centre. The others: the most surprising one, the ensemble being the texts "
        "themselves; the weight is 1, or what stands behind @.",
    ]
    if settings.limit is not None:
        notes.append(f"Of each file {settings.limit} texts at most, a random sample that is always the same.")
    left_out = [f"{file.name} {file.left_out}" for file in data if file.left_out]
    if left_out:
        notes.append(f"Rows left out: {', '.join(left_out)}.")
    return notes
