"""Documents and vectors of an index that rerank-eval made, so that benchmarks need not encode again."""

from __future__ import annotations

from pathlib import Path

from surprise_rerank import Document
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.encoders.base import Encoded, Encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key


def index_of(dataset: str, cache: Path, encoder: Encoder) -> Path:
    """The folder of the index that rerank-eval made of a data set."""
    key = index_key(dataset, load_dataset(dataset, None))
    workspace = Workspace(cache, key, encoder, None, Terminal(quiet=True))
    return cache / workspace.name / "qdrant"


def documents_of(dataset: str, cache: Path, encoder: Encoder) -> tuple[list[Document], Encoded]:
    """All documents of a data set, with dense vectors, and tokens as they are stored."""
    with DocumentIndex.open(index_of(dataset, cache, encoder), encoder) as index:
        ids = [document.id for document in load_dataset(dataset, None).documents]
        found = index.fetch(ids, frozenset({"documents", "dense", "tokens"}))
    assert found.documents is not None
    assert found.dense is not None
    assert found.tokens is not None
    return list(found.documents), Encoded(found.dense, found.tokens)
