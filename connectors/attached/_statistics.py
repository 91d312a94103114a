"""What is counted over the points of a foreign collection, in one scroll, and kept in files beside it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence

from surprise_rerank.connectors.attached._layouts import is_random
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._schema import PointId, given_point_id
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._storage.files import Files, digest_of
from surprise_rerank.connectors.qdrant._writing.term_statistics import TermStatistics
from surprise_rerank.core._process import PerProcess
from surprise_rerank.surprise._ensemble import Ensemble

_VECTORS = "vectors.npz"
# A mean or deviation of which a twentieth is of other vectors changes by less than its own error of a sample.
_STALE = 0.05
_PAGE = 10_000  # ids in a request
_TERMS_PAGE = 2000  # points with sparse vectors
_MEMBERS = 4096  # vectors that are kept, for similarities without exact moments
_BYTES, _NUMBER = 8 * 2**20, 12  # of a page of vectors, as JSON, and of a number in it


class CountedStatistics:
    """The ensemble of a collection's vectors, the statistics of its own words, and samples of its points.

    They are counted where none are kept that fit. Threads may share it.
    """

    def __init__(self, points: ClientEngine, vectors: VectorLayout, files: Files, model: str) -> None:
        self._points, self._vectors, self._files, self._model = points, vectors, files, model
        self._ensemble: Ensemble | None = None
        self._terms: TermStatistics | None = None
        self._terms_file = f"terms-{digest_of((vectors.sparse or '').encode())[:8]}.npz"
        self._samples: dict[int, list[PointId]] = {}
        self._lock = PerProcess(threading.RLock)

    def ensemble(self) -> Ensemble:
        """Return the ensemble of the collection's own vectors."""
        with self._lock.get():
            if self._ensemble is None:
                content, vectors = self._files.read_file(_VECTORS), self._vectors
                if content is not None:
                    kept = Ensemble.from_bytes(content, f"{self._points.where}: {_VECTORS}")
                    is_same = self._model in ("", kept.model) or not kept.model
                    is_alike = (kept.dimension, kept.similarity) == (vectors.size, vectors.similarity)
                    if is_same and is_alike and self._is_recent(kept.count):
                        self._ensemble = kept
            return self._count_vectors() if self._ensemble is None else self._ensemble

    def terms(self) -> TermStatistics:
        """Return what every term of the collection's own sparse vectors weighs."""
        with self._lock.get():
            if self._terms is None and (content := self._files.read_file(self._terms_file)) is not None:
                kept = TermStatistics.from_bytes(content)
                self._terms = kept if self._is_recent(kept.points) else None
            return self._count_terms() if self._terms is None else self._terms

    def refresh(self) -> None:
        """Count the statistics that are kept again; others are counted when they are first needed."""
        with self._lock.get():
            self._samples, self._ensemble, self._terms = {}, None, None
            for name, count in ((_VECTORS, self._count_vectors), (self._terms_file, self._count_terms)):
                if self._files.read_file(name) is not None:
                    count()

    def sample(self, size: int) -> Sequence[PointId]:
        """Return a uniform sample of points: the smallest ids, or hashes of ids that are not random."""
        with self._lock.get():
            if size not in self._samples:
                first = next(iter(self._points.scroll((), batch=min(size, 256))), [])
                if self._points.kind == "server" and all(is_random(record.id) for record in first):
                    names = [record.id for record in next(iter(self._points.scroll((), batch=size)), [])]
                else:
                    pages = self._points.scroll((), batch=_PAGE)
                    every = (record.id for page in pages for record in page)
                    names = sorted(every, key=lambda name: uuid.uuid5(uuid.NAMESPACE_OID, name).int)[:size]
                self._samples[size] = [given_point_id(name) for name in names]
            return self._samples[size]

    def _is_recent(self, count: int) -> bool:
        points = self._points.count()
        return abs(count - points) <= _STALE * points

    def _count_vectors(self) -> Ensemble:
        vectors = self._vectors
        counted = Ensemble.empty(
            vectors.size, sample_size=_MEMBERS, model=self._model, similarity=vectors.similarity
        )
        batch = max(1, min(_PAGE, _BYTES // (_NUMBER * vectors.size)))
        for page in self._points.scroll((), (vectors.dense,), batch=batch):
            counted = counted.update(vectors.dense_of(page)[0])
        self._files.write_file(_VECTORS, counted.to_bytes())
        self._ensemble = counted
        return counted

    def _count_terms(self) -> TermStatistics:
        vector = self._vectors.sparse or ""
        pages = self._points.scroll((), (vector,), batch=_TERMS_PAGE)
        self._terms = TermStatistics.counted(pages, vector)
        self._files.write_file(self._terms_file, self._terms.to_bytes())
        return self._terms
