"""Token vectors of this project's form beside Qdrant Edge's own multivectors, quantized in every way it has.

    python -m benchmarks.token_peers --data DATA --cache CACHE --dataset cacm --dataset cranfield

The tokens are those of an index of `rerank-eval --token-storage int8`, all of them or merged as `TokenForm`
merges them. Cosine's 100 are ranked by MaxSim: inside Edge, which finds them in the same request, or here, on
tokens that are read from an index (retrieval and reading are counted). Edge re-scores with the quantized
vectors alone. The ways take turns, so that a busy machine slows all of them; medians.
"""

from __future__ import annotations

import base64
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import qdrant_edge as edge

from benchmarks.machine import describe
from benchmarks.stored import documents_of
from benchmarks.study.__main__ import SPLITS
from benchmarks.study.collection import Case
from benchmarks.study.token_forms import DEPTH, Variant, made, read_tokens
from surprise_rerank import DynaMaxReranker, Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, IndexOptions
from surprise_rerank.core.tokens import TokenBatch, TokenForm, pack_tokens
from surprise_rerank.core.tokens.form import INT8
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.options import present, report_option
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.similarities.kernels import in_form

MODEL = "all-MiniLM-L6-v2"
_BATCH = 64
_ONE_SEGMENT = 10**9
Way = Callable[[Query], list[str]]


def quantizations() -> Mapping[str, Any]:
    """Edge's own, by name; the vectors beside them are in float16."""
    bits = edge.TurboQuantBitSize
    return {
        "float16": None,
        "int8, scalar": edge.ScalarQuantizationConfig(edge.ScalarType.Int8),
        "binary": edge.BinaryQuantizationConfig(
            query_encoding=edge.BinaryQuantizationQueryEncoding.Scalar8Bits
        ),
        "turbo, 4 bits": edge.TurboQuantQuantizationConfig(bits=bits.Bits4),
        "turbo, 2 bits": edge.TurboQuantQuantizationConfig(bits=bits.Bits2),
        "turbo, 1 bit": edge.TurboQuantQuantizationConfig(bits=bits.Bits1),
    }


class Shard:
    """Documents in Edge: dense vectors, and tokens as a multivector.

    Args:
        folder: for its files.
        ids: n document ids.
        dense: (n, d).
        tokens: of the documents.
        quantization: of the multivector.
    """

    def __init__(
        self, folder: Path, ids: list[str], dense: np.ndarray, tokens: TokenBatch, quantization: Any
    ) -> None:
        self.ids, self.quantized = ids, quantization is not None
        multi = edge.EdgeVectorParams(
            size=tokens.dimension,
            distance=edge.Distance.Dot,
            multivector_config=edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim),
            datatype=edge.VectorStorageDatatype.Float16,
            quantization_config=quantization,
            hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
        )
        vectors = {"dense": edge.EdgeVectorParams(dense.shape[1], edge.Distance.Dot), "tokens": multi}
        # Edge quantizes when it optimizes a segment that is larger than this.
        optimizers = edge.EdgeOptimizersConfig(
            default_segment_number=1, max_segment_size=_ONE_SEGMENT, indexing_threshold=1
        )
        folder.mkdir(parents=True)
        self.folder = folder
        self.shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors, optimizers=optimizers))
        for start in range(0, len(ids), _BATCH):
            points = []
            for i in range(start, min(start + _BATCH, len(ids))):
                rows = tokens.text(i, unit=True)
                rows = rows if len(rows) else np.zeros((1, tokens.dimension), np.float32)
                points.append(edge.Point(i, {"dense": dense[i].tolist(), "tokens": rows.tolist()}, None))
            self.shard.update(edge.UpdateOperation.upsert_points(points))
        self.shard.flush()
        while self.shard.optimize():
            pass
        self.shard.flush()

    def ranked(self, query: Query) -> list[str]:
        """Ids of cosine's 100, by MaxSim."""
        params = edge.SearchParams(
            exact=False,
            quantization=edge.QuantizationSearchParams(ignore=not self.quantized, rescore=False),
        )
        exact = edge.SearchParams(exact=True)
        first = edge.Prefetch(
            limit=DEPTH,
            query=edge.Query.Nearest(query.require_dense().tolist(), using="dense"),
            params=exact,
        )
        tokens = query.require_tokens()
        unit = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
        found = self.shard.query(
            edge.QueryRequest(
                limit=DEPTH,
                query=edge.Query.Nearest(unit.tolist(), using="tokens"),
                prefetches=[first],
                params=params,
            )
        )
        return [self.ids[int(point.id)] for point in found]

    def sizes(self) -> tuple[int, int]:
        """Bytes of the tokens in float16, and of their quantized form, on disk."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and "tokens" in str(path)]
        quantized = [path for path in files if "quant" in path.name]
        return (
            sum(path.stat().st_blocks * 512 for path in files if path not in quantized),
            sum(path.stat().st_blocks * 512 for path in quantized),
        )


def ours(index: DocumentIndex) -> Way:
    """Retrieved and re-ranked here."""
    retriever, reranker = DenseRetriever(index), DynaMaxReranker()
    return lambda query: list(reranker.rerank(query, retriever.retrieve(query, DEPTH, reranker.needs)).ids)


def ndcg(cases: Sequence[Case], way: Way, queries: Sequence[Query]) -> float:
    """Mean nDCG@10, with the study's judgements."""
    values = []
    for case, query in zip(cases, queries, strict=True):
        places = {name: -float(place) for place, name in enumerate(way(query))}
        values.append(case.ndcg(np.array([places.get(name, -np.inf) for name in case.ids])))
    return float(np.mean(values))


def times(ways: Mapping[str, Way], queries: Sequence[Query], rounds: int) -> dict[str, float]:
    """Median milliseconds of a question; ten questions a turn."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            way(queries[0])
            start = time.perf_counter()
            for query in queries[:10]:
                way(query)
            found[name].append((time.perf_counter() - start) * 100)
    return {name: statistics.median(own) for name, own in found.items()}


def rows_of(dataset: str, spec: str, cache: Path, rounds: int, scratch: Path) -> list[tuple[Cell, ...]]:
    """A row for each way of a data set."""
    encoder, data = load_encoder(MODEL, cache=cache), load_dataset(spec, SPLITS[dataset])
    tokens = read_tokens(data, spec, encoder, cache=cache, questions=200, terminal=Terminal(quiet=True))
    collection, form = tokens.collection, TokenForm()
    asked = [data.queries[case.name] for case in collection.cases]
    queries = encode_queries(encoder, asked, [case.name for case in collection.cases])
    ids, dense, n = list(collection.corpus.ids), collection.corpus.dense, len(collection.corpus.ids)
    merged = made(tokens.documents, Variant(TokenForm("int8", form.pooling, form.least)))
    ways: dict[str, Way] = {}
    sizes: dict[str, tuple[float | None, float]] = {}
    for kept, batch in (("all tokens", tokens.documents), ("merged", merged)):
        for kind, quantization in quantizations().items():
            label = f"Edge, {kind}, {kept}"
            shard = Shard(scratch / label.replace(", ", "-"), ids, dense, batch, quantization)
            ways[label] = shard.ranked
            original, quantized = shard.sizes()
            sizes[label] = (original / n, quantized / n if quantized else original / n)
    with contextlib.ExitStack() as stack:
        documents, encoded = documents_of(spec, cache, encoder)
        for label, own in (("ours, int8, all tokens", INT8), (f"ours, {form}", form)):
            options = IndexOptions(passages=None, token_storage=own.storage, pooling=own.pooling)
            folder = scratch / own.storage
            index = stack.enter_context(DocumentIndex.open(folder, encoder, options=options))
            index.sync(documents, encoded=encoded, background=False)
            ways[label] = ours(index)
            blobs = pack_tokens(in_form(tokens.documents.take(collection.corpus.sample), own))
            sizes[label] = (None, float(np.mean([len(base64.b64encode(blob)) for blob in blobs])))
        quality = {label: ndcg(collection.cases, way, queries) for label, way in ways.items()}
        spent = times(ways, queries, rounds)
    return [(dataset, label, quality[label], *sizes[label], spent[label]) for label in ways]


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The folder with beir/.")
@click.option(
    "--cache", type=click.Path(path_type=Path), required=True, help="Where rerank-eval keeps indexes."
)
@click.option("--dataset", "names", multiple=True, required=True, type=click.Choice(list(SPLITS)))
@click.option("--rounds", default=7, show_default=True)
@report_option
def main(data: Path, cache: Path, names: tuple[str, ...], rounds: int, reports: tuple[Path, ...]) -> None:
    """Print a row for each way and data set."""
    print(describe("qdrant-edge-py", "torch"))
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        spec = str(data / "beir" / name) if (data / "beir" / name).is_dir() else name
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            rows += rows_of(name, spec, cache, rounds, Path(scratch))
    columns = (
        *(Column("collection"), Column("way"), Column("nDCG@10")),
        *(Column("bytes beside", 0), Column("bytes that are scored", 0), Column("ms", 1)),
    )
    title = f"MaxSim over cosine's {DEPTH}, {MODEL}"
    notes = ("bytes of a document on disk; Edge keeps the float16 vectors beside the quantized ones",)
    present(Report(title, (Table("token-peers", title, columns, tuple(rows), keys=2, notes=notes),)), reports)


if __name__ == "__main__":
    main()
