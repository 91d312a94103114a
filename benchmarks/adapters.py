"""What an adapter of a framework adds to the bare re-ranker, for one question and 100 documents of 50 words.

    python benchmarks/adapters.py

Documents are stored: their vectors are fetched by id. Adapters and the bare `TextReranker.rank` take turns;
differences of their medians are right on a machine that does nothing else. So each adapter is timed alone,
too: with a re-ranker that has its answer ready. A framework that is not installed is left out with a note.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

import click
import numpy as np
from machine import describe, interleaved

from surprise_rerank import Document, DocumentIndex, Ranking, TextReranker, load_encoder
from surprise_rerank.connectors.qdrant import IndexOptions
from surprise_rerank.connectors.readers.demo import DemoDocumentation
from surprise_rerank.errors import MissingExtraError

QUESTION, _WORDS = "test whether two samples differ", 50
Work: TypeAlias = Callable[[], object]


class Answered(TextReranker):
    """A re-ranker that has its answer ready, the texts turned round."""

    def rank(self, question: str, texts: Sequence[str], **options: object) -> Ranking:
        """The same every time."""
        positions = tuple(reversed(range(len(texts))))
        scores = np.array(positions) / len(texts)
        return Ranking(tuple(map(str, positions)), scores, {"cosine": scores}, positions=positions)


def langchain(host: Any, reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRerank.compress_documents`."""
    given = [host.Document(d.text, id=d.id, metadata=dict(d.metadata)) for d in documents]
    rerank = host.SurpriseRerank(reranker=reranker, top_n=None)
    return lambda: rerank.compress_documents(given, QUESTION)


def rerankers(host: Any, reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRanker.rank`."""
    given = [host.Document(d.text, doc_id=d.id, metadata=dict(d.metadata)) for d in documents]
    ranker = host.SurpriseRanker(reranker)
    return lambda: ranker.rank(QUESTION, given)


def pyterrier(host: Any, reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseTransformer.transform` of a first stage's result frame."""
    found = {"qid": "1", "query": QUESTION, "score": 0.5, "rank": 0}
    given = host.pd.DataFrame([{**found, "docno": d.id, "text": d.text} for d in documents])
    transformer = host.SurpriseTransformer(reranker)
    return lambda: transformer.transform(given)


def llama_index(host: Any, reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRerank.postprocess_nodes`; its texts show no metadata to models."""
    nodes = [host.TextNode(id_=d.id, text=d.text, metadata=dict(d.metadata)) for d in documents]
    for node in nodes:
        node.excluded_embed_metadata_keys = list(node.metadata)
    given = [host.NodeWithScore(node=node, score=0.5) for node in nodes]
    rerank = host.SurpriseRerank(reranker=reranker, top_n=len(given))
    return lambda: rerank.postprocess_nodes(given, query_str=QUESTION)


def haystack(host: Any, reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRanker.run`."""
    given = [host.Document(id=d.id, content=d.text, meta=dict(d.metadata)) for d in documents]
    ranker = host.SurpriseRanker(reranker=reranker, top_k=len(given))
    return lambda: ranker.run(QUESTION, given)


@click.command()
@click.option("--documents", "count", default=100, show_default=True)
@click.option("--rounds", default=200, show_default=True)
@click.option("--system", default="cosine", show_default=True)
def main(count: int, rounds: int, system: str) -> None:
    """Print milliseconds, what was added to the bare ones, and what the adapter takes alone."""
    documents = [
        replace(document, text=" ".join(document.text.split()[:_WORDS]))
        for document in islice(DemoDocumentation().documents(), count)
    ]
    print(describe("langchain-core", "rerankers", "pyterrier", "llama-index-core", "haystack-ai"))
    encoder = load_encoder()
    ids, texts = [d.id for d in documents], [d.text for d in documents]
    with (
        tempfile.TemporaryDirectory() as folder,
        DocumentIndex.open(folder, encoder, options=IndexOptions(passages=None, bm25=None)) as index,
    ):
        index.sync(documents, background=False)
        stored, answered = index.text_reranker(system), Answered(encoder)
        works: dict[str, Work] = {"bare": lambda: stored.rank(QUESTION, texts, ids=ids)}
        alone: dict[str, Work] = {}
        for make in (langchain, rerankers, pyterrier, llama_index, haystack):
            try:
                host = importlib.import_module(f"surprise_rerank.connectors.{make.__name__}")
                works[make.__name__] = make(host, stored, documents)
                alone[make.__name__] = make(host, answered, documents)
            except MissingExtraError as error:
                print(f"left out: {error}")
        times, own = timed(works, rounds), timed(alone, rounds)
    for name, median in times.items():
        more = f", {median - times['bare']:+.2f}, alone {own[name]:.2f}" if name in own else ""
        print(f"{name:<12} {median:7.2f} ms{more}")


def timed(ways: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Name -> median in milliseconds."""
    found = interleaved([*ways.values()], rounds)
    return {name: 1000 * median for name, (_, median) in zip(ways, found, strict=True)}


if __name__ == "__main__":
    main()
