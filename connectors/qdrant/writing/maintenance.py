"""What is done to an index beside filling and searching it: statistics, deletions, its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from qdrant_client import models

from surprise_rerank.connectors.qdrant.manifest import Manifest, StatisticsRecord
from surprise_rerank.connectors.qdrant.schema import (
    DENSE,
    ID,
    NUMBER,
    PASSAGES,
    STATISTICS,
    SURPRISE,
    TOKENS,
    WITH_VECTORS,
    Record,
    point_id,
    to_tokens,
    tokens_id,
)
from surprise_rerank.connectors.qdrant.storage.base import Storage
from surprise_rerank.connectors.qdrant.writing import statistics
from surprise_rerank.connectors.qdrant.writing.pipeline import delete_documents
from surprise_rerank.connectors.qdrant.writing.statistics import Statistics
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble

_LOOKED_UP = 1000


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What an index holds.

    Attributes:
        where: the place.
        engine: `edge`, `local` or `server`.
        documents: number of documents.
        points: number of points that are found: documents, or passages where they are split.
        manifest: how it was made.
        behind: points whose moments are not those of the latest ensemble.
    """

    where: str
    engine: str
    documents: int
    points: int
    manifest: Manifest
    behind: int

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return {**values, "manifest": self.manifest.to_json()}


def documents(storage: Storage) -> int:
    """Number of documents."""
    return storage.engine.count(WITH_VECTORS if storage.manifest.options.passages is None else _is(NUMBER, 0))


def density(storage: Storage) -> float:
    """Points per document; 1 for an empty index."""
    if storage.manifest.options.passages is None:
        return 1.0
    return storage.engine.count(WITH_VECTORS) / max(documents(storage), 1) or 1.0


def behind(storage: Storage, record: StatisticsRecord) -> int:
    """Number of points whose moments are of another ensemble, or that have none."""
    return storage.engine.count(_outdated(record))


def status(storage: Storage) -> IndexStatus:
    """The state of an index."""
    manifest = storage.manifest
    return IndexStatus(
        where=storage.where,
        engine=storage.engine.kind,
        documents=documents(storage),
        points=storage.engine.count(WITH_VECTORS),
        manifest=manifest,
        behind=0 if manifest.latest is None else behind(storage, manifest.latest),
    )


def delete(storage: Storage, ids: Sequence[str]) -> int:
    """Remove documents with all their points; returns how many there were."""
    removed = 0
    for start in range(0, len(ids), _LOOKED_UP):
        part = ids[start : start + _LOOKED_UP]
        found = storage.engine.retrieve([point_id(name) for name in part], (ID, PASSAGES))
        delete_documents(storage.engine, [(r.payload[ID], r.payload.get(PASSAGES, 1)) for r in found])
        removed += len(found)
    return removed


def document_ensemble(storage: Storage, sample_size: int) -> Ensemble:
    """The ensemble of all stored dense vectors, in one pass."""
    dimension = storage.manifest.dimension
    batches = (
        np.array([r.vectors[DENSE] for r in batch], np.float32).reshape(len(batch), dimension)
        for batch in storage.engine.scroll((), (DENSE,), condition=WITH_VECTORS)
    )
    return Ensemble.from_batches(batches, sample_size=sample_size, model=storage.manifest.model)


def set_latest(storage: Storage, latest: Statistics) -> None:
    """Keep an ensemble as the latest; documents have its moments after `refresh`."""
    storage.write_file(statistics.file_name(latest.record), latest.ensemble.to_bytes())
    before = storage.reload()
    storage.save(replace(before, latest=latest.record))
    _forget(storage, before.latest)


def carry_over(before: Storage, after: Storage) -> None:
    """Let a new version of the same model begin with the ensembles of the one that it is to replace."""
    manifest = before.reload()
    for record in (manifest.statistics, manifest.latest):
        if record is not None:
            kept = statistics.load(before, record, manifest.model)
            after.write_file(statistics.file_name(record), kept.ensemble.to_bytes())
    after.save(replace(after.reload(), statistics=manifest.statistics, latest=manifest.latest))


def refresh(storage: Storage, latest: Statistics, on_progress: Callable[[int], object]) -> int:
    """Give the latest moments to every point that has others, and put them into use; returns how many."""
    changed, passed = 0, -1
    # Again for what was added meanwhile. A scroll goes on from an id: what leaves the filter behind it does
    # not matter.
    while passed:
        passed = 0
        outdated = _outdated(latest.record)
        for records in storage.engine.scroll((), (DENSE,), batch=_LOOKED_UP, condition=outdated):
            _write(storage, latest, records)
            passed += len(records)
            on_progress(len(records))
        changed += passed
    before = storage.reload()
    if before.statistics != latest.record:
        # Another process may have set a later one meanwhile, and forgotten this.
        storage.write_file(statistics.file_name(latest.record), latest.ensemble.to_bytes())
        storage.save(replace(before, statistics=latest.record))
        _forget(storage, before.statistics)
    if changed:
        storage.engine.finish()
    return changed


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
        storage.delete_file(statistics.file_name(record))


def _is(key: str, value: str | int) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key=key, match=models.MatchValue(value=value))])


def _outdated(record: StatisticsRecord) -> models.Filter:
    current = models.FieldCondition(key=STATISTICS, match=models.MatchValue(value=record.version))
    return models.Filter(must=WITH_VECTORS.must, must_not=[current])


def token_sample(storage: Storage, size: int) -> tuple[tuple[str, ...], TokenBatch]:
    """Document ids and token vectors of the points of the smallest ids."""
    records = storage.engine.smallest(size, (ID,), WITH_VECTORS)
    return tuple(r.payload[ID] for r in records), packed_tokens(storage, [r.id for r in records])


def packed_tokens(storage: Storage, points: Sequence[str]) -> TokenBatch:
    """The token vectors of points, in their order.

    Raises:
        DataError: if the index holds none, or lost some.
    """
    if not storage.manifest.options.packed_tokens:
        raise DataError("the index holds no token vectors (it was made with packed_tokens=False)")
    found = storage.engine.retrieve([tokens_id(point) for point in points], (TOKENS,)) if points else []
    payloads = {record.id: record.payload for record in found}
    missing = sum(tokens_id(point) not in payloads for point in points)
    if missing:
        raise DataError(f"{missing} documents were deleted meanwhile, or lost their token vectors; ask again")
    return to_tokens([payloads[tokens_id(point)] for point in points], storage.manifest.dimension)
