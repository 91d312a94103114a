"""What is counted over all points of a foreign collection, each in one scroll, and how vectors are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from surprise_rerank.connectors.attached.vectors import VectorLayout
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.schema import Record, to_terms
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble

_SAMPLE = 4096  # vectors that are kept, for similarities without exact moments
_BYTES = 8 * 2**20  # of a page of vectors, as JSON
_NUMBER = 12  # bytes of a number in it
_PAGE = 2000  # points with sparse vectors
_PENDING = 32  # pages of terms that are added up together


def count_ensemble(
    engine: ClientEngine, layout: VectorLayout, model: str, advance: Callable[[int], None] = lambda n: None
) -> Ensemble:
    """The ensemble of all dense vectors.

    Args:
        engine: of the collection.
        layout: which vectors are compared.
        model: of the vectors.
        advance: called with the number of points of every page.

    Raises:
        DataError: if a vector has another dimension.
    """
    found = Ensemble.empty(layout.size, sample_size=_SAMPLE, model=model, similarity=layout.similarity)
    batch = max(1, min(10_000, _BYTES // (_NUMBER * layout.size)))
    for page in engine.scroll((), (layout.dense,), batch=batch):
        found = found.update(dense_of(page, layout)[0])
        advance(len(page))
    return found


def count_terms(
    engine: ClientEngine, vector: str, advance: Callable[[int], None] = lambda n: None
) -> TermStatistics:
    """The statistics of a sparse vector's terms over all points; see `count_ensemble`."""

    def pages() -> Iterator[TermStatistics]:
        for page in engine.scroll((), (vector,), batch=_PAGE):
            advance(len(page))
            yield TermStatistics.of(to_terms(page, vector))

    total, pending = TermStatistics.of(TermBatch.empty(0)), list[TermStatistics]()
    for own in pages():
        pending.append(own)
        if len(pending) == _PENDING:
            total, pending = TermStatistics.total([total, *pending]), []
    return TermStatistics.total([total, *pending])


def dense_of(page: Sequence[Record], layout: VectorLayout) -> tuple[Float32Array, list[int]]:
    """Dense vectors of points, as they are compared, and the rows of the points that have one."""
    rows = [i for i, record in enumerate(page) if record.vectors.get(layout.dense) is not None]
    vectors = np.array([page[i].vectors[layout.dense] for i in rows], np.float32)
    return layout.prepared(vectors.reshape(len(rows), layout.size)), rows


def tokens_of(page: Sequence[Record], layout: VectorLayout, where: str) -> TokenBatch:
    """The multivectors of points, which are a text's token vectors.

    Raises:
        DataError: if the collection has none.
    """
    if layout.tokens is None:
        raise DataError(
            f"{where} stores no token vectors; add them with enrich(tokens=True), or choose a system that "
            "needs none"
        )
    found = (record.vectors.get(layout.tokens) for record in page)
    size = layout.token_size
    rows = [np.array([] if own is None else own, np.float32).reshape(-1, size) for own in found]
    return TokenBatch.from_arrays(rows, size)
