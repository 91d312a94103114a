"""What an adapter of a framework adds to the bare re-ranker, for one question and 100 documents.

    python benchmarks/adapters.py

Documents are stored (their vectors are fetched by id), or encoded on the fly by an encoder that knows all
vectors already: what a model takes would hide the rest. The adapters and the bare `TextReranker.rank` take
turns in changing order; differences of their medians are right on a machine that does nothing else. So each
adapter is timed alone, too: with a re-ranker that has its answer ready. An adapter whose framework is not
installed is left out with a note.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from machine import describe, interleaved

from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoded, Kind
from surprise_rerank.errors import MissingExtraError
from surprise_rerank.text_reranker import RankedText, RankedTexts, TextReranker

QUESTION = "which of these words is rare"
DIMENSION, WORDS = 384, 50
LIMIT_MS = 1.0
Work = Callable[[], object]


class KnownEncoder:
    """Random vectors, made once for each list of texts."""

    name, dimension, fingerprint, window = "known", DIMENSION, "0", None

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], Encoded] = {}

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        """The vectors of this list; the same ones every time."""
        key = tuple(texts)
        if key not in self._known:
            rng = np.random.default_rng(len(self._known))
            tokens = [rng.standard_normal((len(text.split()), DIMENSION), np.float32) for text in texts]
            dense = unit_rows(np.array([own.mean(axis=0) for own in tokens]))
            self._known[key] = Encoded(dense, TokenBatch.from_arrays(tokens, DIMENSION))
        return self._known[key]

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """One string for every token vector."""
        return [text.split() for text in texts]

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[np.ndarray]:
        """Nothing that is measured here splits texts."""
        raise NotImplementedError


class Answered(TextReranker):
    """A re-ranker that has its answer ready: what an adapter takes with it, it takes alone."""

    ANSWER: ClassVar[RankedTexts] = RankedTexts()

    def rank(self, question: str, texts: Sequence[str], **options: object) -> RankedTexts:
        """The texts, turned round."""
        return self.ANSWER


def langchain(reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRerank.compress_documents`."""
    from surprise_rerank.connectors import langchain as host

    given = [host.Document(d.text, id=d.id, metadata=dict(d.metadata)) for d in documents]
    rerank = host.SurpriseRerank(reranker=reranker, top_n=None)
    return lambda: rerank.compress_documents(given, QUESTION)


def rerankers(reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRanker.rank`."""
    from surprise_rerank.connectors import rerankers as host

    given = [host.Document(d.text, doc_id=d.id, metadata=dict(d.metadata)) for d in documents]
    ranker = host.SurpriseRanker(reranker)
    return lambda: ranker.rank(QUESTION, given)


def pyterrier(reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseTransformer.transform` of a first stage's result frame."""
    from surprise_rerank.connectors import pyterrier as host

    found = {"qid": "1", "query": QUESTION, "score": 0.5, "rank": 0}
    given = host.pd.DataFrame([{**found, "docno": d.id, "text": d.text} for d in documents])
    transformer = host.SurpriseTransformer(reranker)
    return lambda: transformer.transform(given)


def llama_index(reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRerank.postprocess_nodes`; its texts show no metadata to models."""
    from surprise_rerank.connectors import llama_index as host

    nodes = [host.TextNode(id_=d.id, text=d.text, metadata=dict(d.metadata)) for d in documents]
    for node in nodes:
        node.excluded_embed_metadata_keys = list(node.metadata)
    given = [host.NodeWithScore(node=node, score=0.5) for node in nodes]
    rerank = host.SurpriseRerank(reranker=reranker, top_n=len(given))
    return lambda: rerank.postprocess_nodes(given, query_str=QUESTION)


def haystack(reranker: TextReranker, documents: Sequence[Document]) -> Work:
    """`SurpriseRanker.run`."""
    from surprise_rerank.connectors import haystack as host

    given = [host.Document(id=d.id, content=d.text, meta=dict(d.metadata)) for d in documents]
    ranker = host.SurpriseRanker(reranker=reranker, top_k=len(given))
    return lambda: ranker.run(QUESTION, given)


def works(reranker: TextReranker, documents: Sequence[Document]) -> dict[str, Work]:
    """The bare re-ranker and what is installed of the adapters, by name."""
    ids, texts = [d.id for d in documents], [d.text for d in documents]
    found: dict[str, Work] = {"bare": lambda: reranker.rank(QUESTION, texts, ids=ids)}
    for make in (langchain, rerankers, pyterrier, llama_index, haystack):
        try:
            found[make.__name__] = make(reranker, documents)
        except MissingExtraError as error:
            print(f"left out: {error}")
    return found


def report(what: str, taken: dict[str, Work], alone: dict[str, Work], rounds: int) -> None:
    """A line for each: milliseconds, what was added to the bare ones, and what the adapter takes alone."""
    times = dict(zip(taken, interleaved(list(taken.values()), rounds), strict=True))
    own = dict(zip(alone, interleaved(list(alone.values()), rounds), strict=True))
    bare_best, bare = times.pop("bare")
    print(f"\n{what}: bare TextReranker.rank {bare * 1e3:.2f} ms (best {bare_best * 1e3:.2f})")
    for name, (best, median) in times.items():
        added, least, itself = (1e3 * t for t in (median - bare, best - bare_best, own[name][1]))
        verdict = "" if max(added, itself) <= LIMIT_MS else f"  more than {LIMIT_MS:g} ms"
        line = f"  {name:<12} {median * 1e3:7.2f} ms, {added:+6.2f} (best {least:+6.2f}), alone {itself:5.2f}"
        print(line + verdict)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 5000, WORDS)) for _ in range(given.documents)]
    documents = [
        Document(f"document-{i}", text, metadata={"source": f"file-{i}.txt", "page": i})
        for i, text in enumerate(texts)
    ]
    print(describe("langchain-core", "rerankers", "pyterrier", "llama-index-core", "haystack-ai"))
    count = len(documents)
    Answered.ANSWER = RankedTexts(
        RankedText(str(i), i / count, {"dynamax": i / count}, position=i) for i in reversed(range(count))
    )
    encoder = KnownEncoder()
    alone = works(Answered(encoder), documents)
    report("on the fly", works(TextReranker(encoder), documents), alone, given.rounds)
    with DocumentIndex.open(":memory:", encoder, options=IndexOptions(passages=None, bm25=None)) as index:
        index.sync(documents, background=False)
        report("stored", works(index.text_reranker("dynamax"), documents), alone, given.rounds)


if __name__ == "__main__":
    main()
