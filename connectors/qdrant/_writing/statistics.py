"""Every document's moments over an ensemble: what is stored of them, and how they are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, IndexMismatchError
from surprise_rerank.connectors.qdrant._manifest import StatisticsRecord
from surprise_rerank.connectors.qdrant._schema import (
    DENSE,
    MU,
    NUMBER,
    SIGMA,
    STATISTICS,
    SURPRISE,
    Payload,
    Record,
)
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.linear_form import LinearForm, augmented_documents
from surprise_rerank.surprise.score import has_spread

if TYPE_CHECKING:  # which needs torch
    from surprise_rerank.rerank._surprise import SurpriseReranker

_BATCH = 1000  # points that are refreshed together


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The Gaussian surprise of documents as anchors, over one ensemble."""

    record: StatisticsRecord  # what the collection remembers of it
    ensemble: Ensemble  # the members

    @classmethod
    def of(
        cls,
        ensemble: Ensemble,
        source: str,
        *,
        shrink_mean: float = 0.0,
        shrink_deviation: float = 0.0,
        documents: Ensemble | None = None,
    ) -> Statistics:
        """Statistics over an ensemble; see `DocumentIndex.set_ensemble`.

        The documents are the population that shares moments; they are needed where something is shrunk.

        Raises:
            DataError: if the ensemble has fewer than two members, or compares otherwise than by dot product.
        """
        border.count("the ensemble's number of members", ensemble.count, 2)
        advice = "Qdrant compares unit vectors so; make it with similarity='dot'"
        border.equal("the ensemble's similarity", ensemble.similarity, "dot", advice)
        shrinks = bool(shrink_mean or shrink_deviation)
        pooled = ensemble.pooled(documents) if shrinks else Moments(np.zeros(()), np.zeros(()))
        record = StatisticsRecord(
            ensemble=ensemble.identity,
            count=ensemble.count,
            source=source,
            shrink_mean=float(shrink_mean),
            shrink_deviation=float(shrink_deviation),
            pooled_mean=float(pooled.mean),
            pooled_deviation=float(pooled.deviation),
        )
        return cls(record, ensemble)

    def extended(self, members: Float32Array) -> Statistics:
        """Return the statistics with members added; what documents share stays as it was measured."""
        ensemble = self.ensemble.update(members)
        record = replace(self.record, ensemble=ensemble.identity, count=ensemble.count)
        return Statistics(record, ensemble)

    def moments(self, vectors: Float32Array) -> Moments:
        """(n,) means and deviations of (n, d) documents; 0 and 1 where the ensemble gives them no spread.

        With 0 and 1 the score of such a document is its plain similarity, in every place that computes it.
        """
        record = self.record
        measured = self.ensemble.moments(vectors)
        if record.shrink_mean or record.shrink_deviation:
            pooled = Moments(np.asarray(record.pooled_mean), np.asarray(record.pooled_deviation))
            measured = measured.shrunk(pooled, mean=record.shrink_mean, deviation=record.shrink_deviation)
        defined = has_spread(measured)
        return Moments(np.where(defined, measured.mean, 0.0), np.where(defined, measured.deviation, 1.0))

    def payloads(self, moments: Moments) -> list[Payload]:
        """What each document's payload holds of its moments."""
        rows = zip(moments.mean.tolist(), moments.deviation.tolist(), strict=True)
        return [{MU: mean, SIGMA: deviation, STATISTICS: self.record.version} for mean, deviation in rows]

    def augmented(self, vectors: Float32Array, moments: Moments) -> Sequence[Float32Array]:
        """(d + 1,) vector of every document, whose dot product with [q, 1] is its surprise."""
        return list(augmented_documents(vectors, LinearForm.of(moments)))


def file_name(record: StatisticsRecord) -> str:
    """What the ensemble of a record is called among an index's files."""
    return f"ensemble-{record.ensemble}.npz"


def load(storage: Storage, record: StatisticsRecord, model: str) -> Statistics:
    """The statistics that a record names.

    Raises:
        IndexMismatchError: if the ensemble is missing, damaged, or of another model than the index.
    """
    content = storage.read_file(file_name(record))
    if content is None:
        raise IndexMismatchError(
            f"{storage.where} has lost the ensemble {record.ensemble} of its statistics; set it again"
        )
    try:
        ensemble = Ensemble.from_bytes(content, f"{storage.where}: {file_name(record)}")
    except DataError as error:
        raise IndexMismatchError(f"{error}; or set that of the index again (set_ensemble)") from error
    require_model(ensemble, model, storage.where)
    return Statistics(record, ensemble)


def surprise_reranker(kept: Statistics | None, documents: Callable[[], Ensemble]) -> SurpriseReranker:
    """Return a re-ranker of texts by surprise, over the kept ensemble, or else over all `documents`."""
    from surprise_rerank.rerank._surprise import SurpriseReranker

    if kept is None:
        return SurpriseReranker(documents(), weight=1.0)
    shrinks = (kept.record.shrink_mean, kept.record.shrink_deviation)
    anchors = documents() if any(shrinks) else None
    return SurpriseReranker(kept.ensemble, "gaussian", 1.0, "document", *shrinks, anchors)


def require_model(ensemble: Ensemble, model: str, where: str) -> None:
    """Refuse an ensemble of another model's vectors.

    Raises:
        IndexMismatchError: if it names another model; the message names both.
    """
    if ensemble.model and ensemble.model != model:
        raise IndexMismatchError(
            f"the ensemble is of model {ensemble.model!r}, {where} is of {model!r}; use one model for both"
        )


def behind(storage: Storage, record: StatisticsRecord) -> int:
    """Number of points whose moments are of another ensemble, or that have none."""
    return storage.engine.count(_outdated(record))


def documents_behind(storage: Storage, record: StatisticsRecord) -> int:
    """Number of documents of such points; at least 1 where there is such a point."""
    points, firsts = behind(storage, record), storage.manifest.options.firsts()
    if firsts is None or not points:
        return points
    return max(storage.engine.count(models.Filter(must=[firsts], must_not=_outdated(record).must_not)), 1)


def set_latest(storage: Storage, latest: Statistics) -> None:
    """Keep an ensemble as the latest; documents have its moments after `refresh`."""
    storage.engine.claim()
    storage.write_file(file_name(latest.record), latest.ensemble.to_bytes())
    before = storage.reload()
    storage.save(replace(before, latest=latest.record))
    _forget(storage, before.latest)


def carry_over(before: Storage, after: Storage) -> None:
    """Let a new version of the same model begin with the ensembles of the one that it is to replace."""
    manifest = before.reload()
    for record in (manifest.statistics, manifest.latest):
        if record is not None:
            kept = load(before, record, manifest.model)
            after.write_file(file_name(record), kept.ensemble.to_bytes())
    after.save(replace(after.reload(), statistics=manifest.statistics, latest=manifest.latest))


def refresh(storage: Storage, latest: Statistics, on_progress: Callable[[int], object]) -> int:
    """Give the latest moments to every point that has others, and put them into use.

    Returns how many documents were changed, and reports them; passages after the first count as none.
    """
    documents, changed, passed = 0, 0, -1
    # Again for what was added meanwhile. A scroll goes on from an id: what leaves the filter behind it does
    # not matter.
    while passed:
        passed = 0
        outdated = _outdated(latest.record)
        for records in storage.engine.scroll((NUMBER,), (DENSE,), batch=_BATCH, condition=outdated):
            _write(storage, latest, records)
            passed += len(records)
            firsts = sum(record.payload.get(NUMBER, 0) == 0 for record in records)
            documents += firsts
            on_progress(firsts)
        changed += passed
    before = storage.reload()
    if before.statistics != latest.record:
        # Another process may have set a later one meanwhile, and forgotten this.
        storage.write_file(file_name(latest.record), latest.ensemble.to_bytes())
        storage.save(replace(before, statistics=latest.record))
        _forget(storage, before.statistics)
    if changed:
        storage.engine.finish()
    return documents


def _write(storage: Storage, latest: Statistics, records: Sequence[Record]) -> None:
    if not records:
        return
    vectors = np.array([record.vectors[DENSE] for record in records], np.float32)
    moments = latest.moments(vectors)
    if storage.manifest.options.surprise_vector:
        augmented = latest.augmented(vectors, moments)
        storage.engine.set_vectors([(r.id, {SURPRISE: v}) for r, v in zip(records, augmented, strict=True)])
    # The version last: a point that carries it has everything else.
    storage.engine.set_payloads(
        [(r.id, payload) for r, payload in zip(records, latest.payloads(moments), strict=True)]
    )


def _forget(storage: Storage, record: StatisticsRecord | None) -> None:
    """Delete the ensemble of a record that is not used any more."""
    used = {r.ensemble for r in (storage.manifest.statistics, storage.manifest.latest) if r is not None}
    if record is not None and record.ensemble not in used:
        storage.delete_file(file_name(record))


def _outdated(record: StatisticsRecord) -> models.Filter:
    current = models.FieldCondition(key=STATISTICS, match=models.MatchValue(value=record.version))
    return models.Filter(must_not=[current])
