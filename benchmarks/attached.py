"""What attaching a foreign collection gives and costs.

    python benchmarks/attached.py rank --dataset DATA/beir/cranfield
    python benchmarks/attached.py scale --points 100000 --url http://127.0.0.1:6333

`rank` stores a data set as somebody's own code would: texts, titles and numbers as ids, vectors of one model.
The store's own order is compared with what the attached collection ranks by, as it is and enriched. Logged
questions are those of the other half of the data set's. `--sparse-model` stores the vectors of a learned
sparse encoder in place of BM25's, and prints what these are worth. `scale` attaches a large collection of
random vectors: seconds and memory until the first ranked question.
"""

from __future__ import annotations

import resource
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import ir_measures
import numpy as np
from qdrant_client import QdrantClient, models
from sentence_transformers import SparseEncoder

from surprise_rerank import FunctionEncoder, load_encoder
from surprise_rerank.candidates import Query
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.pipeline import Pipeline

_NAME, _WORDS, _BATCH = "benchmark_attached", "benchmark_attached_words", 256
_MEASURES = (ir_measures.nDCG @ 10, ir_measures.R @ 100)
Run = list[ir_measures.ScoredDoc]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """What attaching a foreign collection gives and costs."""


def _opened(url: str | None) -> QdrantClient:
    client = QdrantClient(url=url, timeout=600) if url else QdrantClient(":memory:")
    for name in (_NAME, _WORDS):  # what an earlier run has left
        client.delete_collection(name)
    return client


def fill(
    client: QdrantClient,
    name: str,
    dense: Float32Array,
    payloads: Sequence[dict[str, str]],
    words: Any = None,
) -> None:
    """Points with payloads and dense vectors, and sparse ones named `words` where there are some."""
    params = models.VectorParams(size=dense.shape[1], distance=models.Distance.COSINE)
    if words is None:
        client.create_collection(name, params)
    else:
        modifier = models.Modifier.IDF if words[0] == "bm25" else None
        sparse = {"words": models.SparseVectorParams(modifier=modifier)}
        client.create_collection(name, {"dense": params}, sparse_vectors_config=sparse)
    for start in range(0, len(dense), _BATCH):
        points = []
        for i in range(start, min(start + _BATCH, len(dense))):
            vector: Any = dense[i].tolist()
            if words is not None:
                own = words[1][i]
                vector = {"dense": vector}
                if len(own.indices):
                    indices, values = own.indices.tolist(), own.values.tolist()
                    vector["words"] = models.SparseVector(indices=indices, values=values)
            points.append(models.PointStruct(id=i, vector=vector, payload=payloads[i]))
        client.upsert(name, points)


def measured(pipeline: Pipeline, queries: Sequence[Query], ids: Sequence[str]) -> tuple[Run, float]:
    """A run, and milliseconds a question, texts included."""
    run, seconds = [], []
    for query in queries:
        begun = time.perf_counter()
        ranking = pipeline.answer(query, None).shown
        seconds.append(time.perf_counter() - begun)
        # By rank: equal scores are ordered by the measures otherwise.
        run += [ir_measures.ScoredDoc(query.id, ids[int(name)], -i) for i, name in enumerate(ranking.ids)]
    return run, 1000 * float(np.median(seconds))


@main.command()
@click.option("--dataset", required=True)
@click.option("--split")
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True, help="Of the dense vectors.")
@click.option("--token-model", default="all-MiniLM-L6-v2", show_default=True)
@click.option(
    "--sparse-model", help="A SparseEncoder, whose vectors are stored and asked in place of BM25's."
)
@click.option("--url", help="Of a Qdrant server; local mode in memory by default.")
def rank(
    dataset: str, split: str | None, model: str, token_model: str, sparse_model: str | None, url: str | None
) -> None:
    """nDCG@10, recall and milliseconds of what a collection ranks by."""
    data, client, encoder = load_dataset(dataset, split), _opened(url), load_encoder(model)
    ids = [document.id for document in data.documents]
    texts = [document.content for document in data.documents]
    payloads = [{"title": document.title, "text": document.text} for document in data.documents]
    dense, questions = encoder.encode(texts).dense, list(data.queries.values())
    queries = encode_queries(encoder, questions, list(data.queries))
    tokens = None if token_model == model else load_encoder(token_model)
    table: dict[str, tuple[Run, float]] = {}
    if sparse_model:
        sparse = SparseEncoder(sparse_model, device="cpu")
        rows = [own.coalesce() for own in sparse.encode_document(texts, show_progress_bar=False)]
        learned = [SparseVector(own.indices()[-1].numpy(), own.values().numpy()) for own in rows]
        fill(client, _WORDS, dense, payloads, ("learned", learned))
        with Collection.attach(client, _WORDS, embed=encoder, sparse=sparse) as attached:
            for system in ("bm25", "cosine", "fusion", "auto"):
                table[system] = measured(attached.pipeline(system), queries, ids)
        _print(table, data.qrels)
        return
    fill(client, _NAME, dense, payloads)
    fill(client, _WORDS, dense, payloads, ("bm25", Bm25().documents(texts)))
    with Collection.attach(client, _NAME, embed=encoder, token_encoder=tokens) as plain:
        for system in ("cosine", "surprise", "fusion", "auto"):
            table[f"{system}, attached"] = measured(plain.pipeline(system), queries, ids)
        run: Run = []
        for own, other in ((queries[::2], queries[1::2]), (queries[1::2], queries[::2])):
            plain.set_questions([query.text for query in other])
            part, took = measured(plain.pipeline("surprise"), own, ids)
            run += part
        plain.set_questions([])
        table["surprise, logged questions"] = run, took
    with Collection.attach(client, _WORDS, embed=encoder, token_encoder=tokens) as with_words:
        table["auto, attached, with its sparse vectors"] = measured(with_words.pipeline("auto"), queries, ids)
    with Collection.attach(client, _NAME, embed=encoder, token_encoder=tokens) as rich:
        begun = time.perf_counter()
        print(f"{rich.enrich()} in {time.perf_counter() - begun:.0f} s")
        both = encode_queries(rich.encoder, questions, list(data.queries))
        for system in ("bm25", "dynamax", "fusion", "auto"):
            table[f"{system}, enriched"] = measured(rich.pipeline(system), both, ids)
        rich.remove_enrichment()
    _print(table, data.qrels)


def _print(table: Mapping[str, tuple[Run, float]], qrels: Mapping[str, Mapping[str, int]]) -> None:
    print("| | nDCG@10 | R@100 | ms/question |\n|---|---|---|---|")
    for name, (run, ms) in table.items():
        found = ir_measures.calc_aggregate(_MEASURES, qrels, run)
        print(f"| {name} | {' | '.join(f'{found[own]:.4f}' for own in _MEASURES)} | {ms:.1f} |")


@main.command()
@click.option("--points", default=100_000, show_default=True)
@click.option("--dimension", default=384, show_default=True)
@click.option("--url", help="Of a Qdrant server; local mode in memory by default.")
def scale(points: int, dimension: int, url: str | None) -> None:
    """Seconds and memory until the first ranked question of a large collection."""
    client, rng = _opened(url), np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(20_000)])
    payloads = [{"text": " ".join(words[rng.integers(0, len(words), 150)])} for _ in range(points)]

    def embed(texts: Sequence[str]) -> Float32Array:
        seeds = (np.random.default_rng(zlib.crc32(text.encode())) for text in texts)
        return np.array([own.standard_normal(dimension, np.float32) for own in seeds])

    fill(client, _NAME, embed([payload["text"] for payload in payloads]), payloads)
    print("| step | seconds | most memory so far |\n|---|---|---|")

    def step(name: str, act: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        found = act()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"| {name} | {time.perf_counter() - begun:.2f} | {memory:.2f} GiB |", flush=True)
        return found

    encoder = FunctionEncoder(embed, name="random")
    collection = step("attach", lambda: Collection.attach(client, _NAME, embed=encoder))
    for system in ("cosine", "auto"):
        step(f"first question, {system}", lambda own=system: collection.pipeline(own).search("a b c"))
    step("statistics, and first question by surprise", lambda: collection.pipeline("surprise").search("a b"))
    step("next question by surprise", lambda: collection.pipeline("surprise").search("a b"))
    step("statistics counted again", collection.refresh)


if __name__ == "__main__":
    main()
