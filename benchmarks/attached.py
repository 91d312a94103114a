"""What attaching a foreign collection gives and costs.

    python benchmarks/attached.py rank --dataset ../shared/data/beir/cranfield
    python benchmarks/attached.py scale --points 100000
    python benchmarks/attached.py scale --points 100000 --url http://127.0.0.1:6333

`rank` stores a data set as somebody's own code would: texts, titles and numbers as ids, vectors of one model.
The store's own order is compared with what the attached collection ranks by, as it is and enriched. Logged
questions are those of the other half of the data set's. `--sparse-model` stores the vectors of a learned
sparse encoder in place of BM25's, and prints what these are worth.

`scale` attaches a large collection of random vectors: seconds and memory until the first ranked question.
"""

from __future__ import annotations

import argparse
import resource
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

import ir_measures
import numpy as np
from qdrant_client import QdrantClient, models
from sentence_transformers import SparseEncoder

from surprise_rerank import FunctionEncoder
from surprise_rerank.candidates import Query
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.readers.datasets import open_source
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.pipeline import Pipeline

_NAME = "benchmark_attached"
_BATCH = 256


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    rank = commands.add_parser("rank")
    rank.add_argument("--dataset", required=True)
    rank.add_argument("--split")
    rank.add_argument("--model", default="all-MiniLM-L6-v2", help="of the dense vectors")
    rank.add_argument("--token-model", default="all-MiniLM-L6-v2")
    rank.add_argument("--sparse-model", help="a SparseEncoder, whose vectors are stored and asked in place")
    rank.set_defaults(run=_rank)
    scale = commands.add_parser("scale")
    scale.add_argument("--points", type=int, default=100_000)
    scale.add_argument("--dimension", type=int, default=384)
    scale.set_defaults(run=_scale)
    for one in (rank, scale):
        one.add_argument("--url", help="of a Qdrant server; local mode in memory by default")
    given = parser.parse_args()
    client = QdrantClient(url=given.url, timeout=600) if given.url else QdrantClient(":memory:")
    _clean(client)  # what a run that was killed has left
    try:
        given.run(given, client)
    finally:
        _clean(client)


def _clean(client: QdrantClient) -> None:
    for found in client.get_collections().collections:
        if found.name.startswith(_NAME):
            client.delete_collection(found.name)


def _rank(given: argparse.Namespace, client: QdrantClient) -> None:
    source = open_source(given.dataset, given.split)
    documents, questions, qrels = list(source.documents()), source.queries(), source.qrels()
    encoder = load_encoder(given.model)
    ids = {str(i): document.id for i, document in enumerate(documents)}
    queries = encode_queries(encoder, list(questions.values()), list(questions))
    texts = [document.content for document in documents]
    if given.sparse_model:
        model = SparseEncoder(given.sparse_model, device="cpu")
        rows = [own.coalesce() for own in model.encode_document(texts, show_progress_bar=False)]
        learned = [SparseVector(own.indices()[-1].numpy(), own.values().numpy()) for own in rows]
        _fill(client, _NAME, documents, encoder, learned, idf=False)
        with Collection.attach(client, f"{_NAME}_words", embed=encoder, sparse=model) as sparse:
            systems = ("bm25", "cosine", "fusion", "auto")
            _print({name: _measured(sparse.pipeline(name), queries, ids) for name in systems}, qrels)
        return
    _fill(client, _NAME, documents, encoder, Bm25().documents(texts))
    tokens = None if given.token_model == given.model else load_encoder(given.token_model)
    rows: dict[str, Callable[[], Pipeline]] = {}
    with Collection.attach(client, _NAME, embed=encoder, token_encoder=tokens) as plain:
        rows["the store's own order"] = lambda: plain.pipeline("cosine")
        rows["surprise, its own vectors"] = lambda: plain.pipeline("surprise")
        rows["fusion, attached"] = lambda: plain.pipeline("fusion")
        rows["auto, attached"] = lambda: plain.pipeline("auto")
        table = {name: _measured(make(), queries, ids) for name, make in rows.items()}
        table["surprise, logged questions"] = _crossed(plain, queries, ids)
    with Collection.attach(client, f"{_NAME}_words", embed=encoder, token_encoder=tokens) as sparse:
        table["auto, attached, with its sparse vectors"] = _measured(sparse.pipeline("auto"), queries, ids)
    with Collection.attach(client, _NAME, embed=encoder, token_encoder=tokens) as rich:
        begun = time.perf_counter()
        report = rich.enrich()
        print(f"enriched in {time.perf_counter() - begun:.0f} s: {report}")
        both = encode_queries(rich.encoder, list(questions.values()), list(questions))
        for system in ("bm25", "dynamax", "fusion", "auto"):
            table[f"{system}, enriched"] = _measured(rich.pipeline(system), both, ids)
        rich.remove_enrichment()
    _print(table, qrels)


def _fill(
    client: QdrantClient,
    name: str,
    documents: list[Document],
    encoder: Encoder,
    words: Sequence[SparseVector],
    *,
    idf: bool = True,
) -> None:
    """The documents twice: with dense vectors, and with sparse vectors too."""
    vectors = encoder.encode([document.content for document in documents]).dense
    params = models.VectorParams(size=encoder.dimension, distance=models.Distance.COSINE)
    sparse = models.SparseVectorParams(modifier=models.Modifier.IDF if idf else None)
    client.create_collection(name, params)
    client.create_collection(
        f"{name}_words",
        {"dense": params},
        sparse_vectors_config={"words": sparse},
    )
    for start in range(0, len(documents), _BATCH):
        rows = range(start, min(start + _BATCH, len(documents)))
        payloads = [{"title": documents[i].title, "text": documents[i].text} for i in rows]
        plain = [
            models.PointStruct(id=i, vector=vectors[i].tolist(), payload=payload)
            for i, payload in zip(rows, payloads, strict=True)
        ]
        client.upsert(name, plain)
        both = [
            models.PointStruct(id=i, vector=_vectors(vectors[i], words[i]), payload=payload)
            for i, payload in zip(rows, payloads, strict=True)
        ]
        client.upsert(f"{name}_words", both)


def _vectors(dense: Float32Array, words: SparseVector) -> dict[str, object]:
    sparse = models.SparseVector(indices=words.indices.tolist(), values=words.values.tolist())
    return {"dense": dense.tolist(), **({"words": sparse} if sparse.indices else {})}


def _measured(
    pipeline: Pipeline, queries: list[Query], ids: Mapping[str, str]
) -> tuple[list[ir_measures.ScoredDoc], float]:
    """A run, and milliseconds a question, texts included."""
    run, seconds = [], []
    for query in queries:
        begun = time.perf_counter()
        ranking = pipeline.rank(query)
        seconds.append(time.perf_counter() - begun)
        # By rank: equal scores are ordered by the measures otherwise.
        run += [ir_measures.ScoredDoc(query.id, ids[name], -i) for i, name in enumerate(ranking.ids)]
    return run, 1000 * float(np.median(seconds))


def _crossed(
    collection: Collection, queries: list[Query], ids: Mapping[str, str]
) -> tuple[list[ir_measures.ScoredDoc], float]:
    """Surprise against the questions of the other half."""
    run: list[ir_measures.ScoredDoc] = []
    ms = []
    for own, other in ((queries[::2], queries[1::2]), (queries[1::2], queries[::2])):
        collection.set_questions([query.text for query in other])
        part, took = _measured(collection.pipeline("surprise"), own, ids)
        run, ms = run + part, [*ms, took]
    collection.set_questions([])
    return run, float(np.mean(ms))


def _print(
    table: Mapping[str, tuple[list[ir_measures.ScoredDoc], float]], qrels: Mapping[str, Mapping[str, int]]
) -> None:
    print("| | nDCG@10 | R@100 | ms/question |\n|---|---|---|---|")
    for name, (run, ms) in table.items():
        found = ir_measures.calc_aggregate([ir_measures.nDCG @ 10, ir_measures.R @ 100], qrels, run)
        shown = [f"{found[own]:.4f}".lstrip("0") for own in (ir_measures.nDCG @ 10, ir_measures.R @ 100)]
        print(f"| {name} | {' | '.join(shown)} | {ms:.1f} |")


def _scale(given: argparse.Namespace, client: QdrantClient) -> None:
    rng = np.random.default_rng(0)
    n, d = given.points, given.dimension
    params = models.VectorParams(size=d, distance=models.Distance.COSINE)
    client.create_collection(_NAME, params)
    for points in _random_points(rng, n, d):
        client.upsert(_NAME, points)
    encoder = FunctionEncoder(_embedding(d), name="random")
    rows = []

    def step(name: str, act: Callable[[], object]) -> object:
        begun = time.perf_counter()
        found = act()
        seconds = time.perf_counter() - begun
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append((name, seconds, f"{memory:.2f} GiB"))
        return found

    collection = step("attach", lambda: Collection.attach(client, _NAME, embed=encoder))
    assert isinstance(collection, Collection)
    step("first question, cosine", lambda: collection.pipeline("cosine").search("a b c"))
    step("first question, auto", lambda: collection.pipeline("auto").search("a b c"))
    step("statistics, and first question by surprise", lambda: collection.pipeline("surprise").search("a b"))
    step("next question by surprise", lambda: collection.pipeline("surprise").search("a b"))
    step("statistics counted again", collection.refresh)
    print("| step | seconds | most memory so far |\n|---|---|---|")
    for name, seconds, memory in rows:
        print(f"| {name} | {seconds:.2f} | {memory} |")


def _embedding(d: int) -> Callable[[list[str]], list[list[float]]]:
    def embed(texts: list[str]) -> list[list[float]]:
        return [np.random.default_rng(len(text)).standard_normal(d).tolist() for text in texts]

    return embed


def _random_points(rng: np.random.Generator, n: int, d: int) -> Iterator[list[models.PointStruct]]:
    """Points with texts of 150 words."""
    words = [f"word{i}" for i in range(20_000)]
    for start in range(0, n, 1000):
        vectors = rng.standard_normal((min(1000, n - start), d)).astype(np.float32)
        yield [
            models.PointStruct(
                id=str(uuid.UUID(bytes=rng.bytes(16), version=4)),
                vector=vector.tolist(),
                payload={
                    "text": " ".join(words[i] for i in rng.integers(0, len(words), 150)),
                },
            )
            for vector in vectors
        ]


if __name__ == "__main__":
    main()
