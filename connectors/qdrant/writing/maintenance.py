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
from surprise_rerank.connectors.qdrant.storage.base import Home
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


def documents(home: Home) -> int:
    """Number of documents."""
    return home.engine.count(WITH_VECTORS if home.manifest.options.passages is None else _is(NUMBER, 0))


def density(home: Home) -> float:
    """Points per document; 1 for an empty index."""
    if home.manifest.options.passages is None:
        return 1.0
    return home.engine.count(WITH_VECTORS) / max(documents(home), 1) or 1.0


def behind(home: Home, record: StatisticsRecord) -> int:
    """Number of points whose moments are of another ensemble, or that have none."""
    return home.engine.count(_outdated(record))


def status(home: Home) -> IndexStatus:
    """The state of an index."""
    manifest = home.manifest
    return IndexStatus(
        where=home.where,
        engine=home.engine.kind,
        documents=documents(home),
        points=home.engine.count(WITH_VECTORS),
        manifest=manifest,
        behind=0 if manifest.latest is None else behind(home, manifest.latest),
    )


def delete(home: Home, ids: Sequence[str]) -> int:
    """Remove documents with all their points; returns how many there were."""
    removed = 0
    for start in range(0, len(ids), _LOOKED_UP):
        part = ids[start : start + _LOOKED_UP]
        found = home.engine.retrieve([point_id(name) for name in part], (ID, PASSAGES))
        delete_documents(home.engine, [(r.payload[ID], r.payload.get(PASSAGES, 1)) for r in found])
        removed += len(found)
    return removed


def document_ensemble(home: Home, sample_size: int) -> Ensemble:
    """The ensemble of all stored dense vectors, in one pass."""
    dimension = home.manifest.dimension
    batches = (
        np.array([r.vectors[DENSE] for r in batch], np.float32).reshape(len(batch), dimension)
        for batch in home.engine.scroll((), (DENSE,), condition=WITH_VECTORS)
    )
    return Ensemble.from_batches(batches, sample_size=sample_size, model=home.manifest.model)


def set_latest(home: Home, latest: Statistics) -> None:
    """Keep an ensemble as the latest; documents have its moments after `refresh`."""
    home.write_file(statistics.file_name(latest.record), latest.ensemble.to_bytes())
    before = home.reload()
    home.save(replace(before, latest=latest.record))
    _forget(home, before.latest)


def carry_over(before: Home, after: Home) -> None:
    """Let a new version of the same model begin with the ensembles of the one that it is to replace."""
    manifest = before.reload()
    for record in (manifest.statistics, manifest.latest):
        if record is not None:
            kept = statistics.load(before, record, manifest.model)
            after.write_file(statistics.file_name(record), kept.ensemble.to_bytes())
    after.save(replace(after.reload(), statistics=manifest.statistics, latest=manifest.latest))


def refresh(home: Home, latest: Statistics, on_progress: Callable[[int], object]) -> int:
    """Give the latest moments to every point that has others, and put them into use; returns how many."""
    changed, passed = 0, -1
    # Again for what was added meanwhile. A scroll goes on from an id: what leaves the filter behind it does
    # not matter.
    while passed:
        passed = 0
        outdated = _outdated(latest.record)
        for records in home.engine.scroll((), (DENSE,), batch=_LOOKED_UP, condition=outdated):
            _write(home, latest, records)
            passed += len(records)
            on_progress(len(records))
        changed += passed
    before = home.reload()
    if before.statistics != latest.record:
        # Another process may have set a later one meanwhile, and forgotten this.
        home.write_file(statistics.file_name(latest.record), latest.ensemble.to_bytes())
        home.save(replace(before, statistics=latest.record))
        _forget(home, before.statistics)
    if changed:
        home.engine.finish()
    return changed


def _write(home: Home, latest: Statistics, records: Sequence[Record]) -> None:
    if not records:
        return
    vectors = np.array([record.vectors[DENSE] for record in records], np.float32)
    moments = latest.moments(vectors)
    if home.manifest.options.surprise_vector:
        augmented = latest.augmented(vectors, moments)
        home.engine.set_vectors([(r.id, {SURPRISE: v}) for r, v in zip(records, augmented, strict=True)])
    # The version last: a point that carries it has everything else.
    home.engine.set_payloads(
        [(r.id, payload) for r, payload in zip(records, latest.payloads(moments), strict=True)]
    )


def _forget(home: Home, record: StatisticsRecord | None) -> None:
    """Delete the ensemble of a record that is not used any more."""
    used = {r.ensemble for r in (home.manifest.statistics, home.manifest.latest) if r is not None}
    if record is not None and record.ensemble not in used:
        home.delete_file(statistics.file_name(record))


def _is(key: str, value: str | int) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key=key, match=models.MatchValue(value=value))])


def _outdated(record: StatisticsRecord) -> models.Filter:
    current = models.FieldCondition(key=STATISTICS, match=models.MatchValue(value=record.version))
    return models.Filter(must=WITH_VECTORS.must, must_not=[current])


def token_sample(home: Home, size: int) -> tuple[tuple[str, ...], TokenBatch]:
    """Document ids and token vectors of the points of the smallest ids."""
    records = home.engine.smallest(size, (ID,), WITH_VECTORS)
    return tuple(r.payload[ID] for r in records), packed_tokens(home, [r.id for r in records])


def packed_tokens(home: Home, points: Sequence[str]) -> TokenBatch:
    """The token vectors of points, in their order.

    Raises:
        DataError: if the index holds none, or lost some.
    """
    if not home.manifest.options.packed_tokens:
        raise DataError("the index holds no token vectors (it was made with packed_tokens=False)")
    found = home.engine.retrieve([tokens_id(point) for point in points], (TOKENS,)) if points else []
    payloads = {record.id: record.payload for record in found}
    missing = sum(tokens_id(point) not in payloads for point in points)
    if missing:
        raise DataError(f"{missing} documents were deleted meanwhile, or lost their token vectors; ask again")
    return to_tokens([payloads[tokens_id(point)] for point in points], home.manifest.dimension)
