"""One question end to end on a Qdrant server: MaxSim inside Qdrant in each storage, DynaMax on the client.

    rerank-eval --dataset beir/scifact --systems cosine --cache CACHE
    python benchmarks/token_server.py --dataset beir/scifact --cache CACHE --url http://127.0.0.1:6333 \
        --files /qdrant/storage

Every row is a way to rank the pool that cosine finds; the questions' encoding is left out, as it is the same
for all. The ways take turns, ten questions each, by REST and by gRPC; medians. `all tokens` are not merged,
`rescored` takes the float16 vectors for the scores that the codes gave. The bytes are those of the tokens'
own files, and of the packed tokens as text. The collections are deleted again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click
import ir_measures
import numpy as np
from machine import describe
from qdrant_client import QdrantClient, models
from served import drop, settle
from stored import documents_of

from surprise_rerank import DynaMaxReranker, Query
from surprise_rerank.candidates import Candidates, Ranking
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, IndexOptions, MaxSimRetriever
from surprise_rerank.connectors.qdrant.multivectors import CODED, query_vectors
from surprise_rerank.connectors.qdrant.schema import TOKENS
from surprise_rerank.connectors.qdrant.search.queries import (
    NO_OPTIONS,
    dense_stage,
    dense_vector,
    maxsim_stage,
)
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.options import present, report_option
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset

_TURN = 10
_BARE = IndexOptions(passages=None, bm25=None, packed_tokens=False)
_PACKED = replace(_BARE, packed_tokens=True)
STORED: dict[str, IndexOptions] = {
    "DynaMax on the client, int8": replace(_PACKED, token_storage="int8"),
    "DynaMax on the client, as by default": _PACKED,
    "float16, all tokens": replace(_BARE, token_vectors="float16", pooling=1),
    "uint8, all tokens": replace(_BARE, token_vectors="uint8", pooling=1),
    "turbo4, all tokens": replace(_BARE, token_vectors="turbo4", pooling=1),
    "float16, merged": replace(_BARE, token_vectors="float16"),
    "uint8, merged": replace(_BARE, token_vectors="uint8"),
    "turbo4, merged": replace(_BARE, token_vectors="turbo4"),
    "turbo2, merged": replace(_BARE, token_vectors="turbo2"),
    "turbo1, merged": replace(_BARE, token_vectors="turbo1"),
}
Way = Callable[[Query], Candidates | Ranking]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a collection's token vectors on disk, and of the part of them that is held in memory."""

    disk: int
    memory: int


def cosine(index: DocumentIndex, depth: int) -> Way:
    """The pool alone."""
    dense = DenseRetriever(index, exact=True)
    return lambda query: dense.retrieve(query, depth)


def rescored(index: DocumentIndex, depth: int) -> Way:
    """MaxSim by codes, and all of the pool again by the vectors that they were made of."""
    own = models.SearchParams(quantization=models.QuantizationSearchParams(rescore=True))

    def way(query: Query) -> Candidates:
        vectors = query_vectors(query.require_tokens(), "turbo1")
        stages = [dense_stage(dense_vector(query), depth), replace(maxsim_stage(vectors, depth), params=own)]
        return index.pools.run(lambda _: stages, depth, frozenset(), "maxsim", NO_OPTIONS.exactly())

    return way


def ways_of(name: str, index: DocumentIndex, depth: int) -> dict[str, Way]:
    """The ways to rank that an index is stored for."""
    dense = DenseRetriever(index, exact=True)
    if index.manifest.options.packed_tokens:
        ranker = DynaMaxReranker()
        return {name: lambda query: ranker.rerank(query, dense.retrieve(query, depth, ranker.needs))}
    maxsim = MaxSimRetriever(index, exact=True)
    ways: dict[str, Way] = {f"MaxSim, {name}": lambda query: maxsim.retrieve(query, depth)}
    if index.manifest.options.token_vectors in CODED:
        ways[f"MaxSim, {name}, rescored"] = rescored(index, depth)
    return ways


def sizes(index: DocumentIndex, files: Path | None) -> Sizes:
    """What the token vectors of an index take."""
    if index.manifest.options.packed_tokens:
        batches = index.storage.engine.scroll((TOKENS,))
        texts = [r.payload[TOKENS] for records in batches for r in records if TOKENS in r.payload]
        return Sizes(sum(map(len, texts)), 0)
    if files is None:
        return Sizes(0, 0)
    versions = sorted((files / "collections").glob(f"{index.storage.where.split(chr(39))[1]}@*[0-9]"))
    own = [p for p in versions[-1].rglob("*") if p.is_file() and "vector_storage-tokens" in str(p)]
    used = {path: path.stat().st_blocks * 512 for path in own}
    return Sizes(sum(used.values()), sum(size for path, size in used.items() if "quantized" in path.name))


@click.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--url", default="http://127.0.0.1:6333", show_default=True)
@click.option("--grpc-port", default=6334, show_default=True)
@click.option(
    "--files", type=click.Path(path_type=Path), help="The server's storage folder, for bytes on disk."
)
@click.option("--depth", default=100, show_default=True)
@click.option("--questions", default=100, show_default=True, help="That are timed; all are judged.")
@report_option
def main(
    dataset: str,
    cache: Path,
    url: str,
    grpc_port: int,
    files: Path | None,
    depth: int,
    questions: int,
    reports: tuple[Path, ...],
) -> None:
    """Print one line for each way."""
    print(describe("qdrant-client", "torch"))
    encoder, data = load_encoder(), load_dataset(dataset, None)
    documents, encoded = documents_of(dataset, cache, encoder)
    queries = encode_queries(encoder, list(data.queries.values()), list(data.queries))
    client = QdrantClient(url, check_compatibility=False)
    with ExitStack() as stack:
        taken: dict[str, Sizes] = {}
        ways: dict[str, dict[str, Way]] = {"REST": {}, "gRPC": {}}
        for number, (name, options) in enumerate(STORED.items()):
            collection = f"token-server-{number}"
            stack.callback(drop, client, collection)
            for transport, own in ways.items():
                index = DocumentIndex.open(
                    None,
                    encoder,
                    options=options,
                    url=url,
                    grpc_port=grpc_port,
                    prefer_grpc=transport == "gRPC",
                    collection=collection,
                )
                stack.callback(index.close)
                if not len(index):
                    begun = time.perf_counter()
                    index.sync(documents, encoded=encoded, background=False)
                    settle(client, collection)
                    print(f"{name}: stored in {time.perf_counter() - begun:.1f} s")
                if not own:
                    own["cosine, ids only"] = cosine(index, depth)
                mine = ways_of(name, index, depth)
                own.update(mine)
                taken.update(dict.fromkeys(mine, sizes(index, files)))
        runs, seconds = _timed(ways, queries, questions)
    client.close()
    rows: list[tuple[Cell, ...]] = []
    for name in ways["REST"]:
        value = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], data.qrels, runs[name])
        size = taken.get(name, Sizes(0, 0))
        rest, grpc = (1000 * float(np.median(seconds[transport, name])) for transport in ways)
        kilobytes = [part / len(documents) / 1000 for part in (size.disk, size.memory)]
        rows.append((name, rest, grpc, next(iter(value.values())), *kilobytes))
    title = f"{data.name}, {len(documents)} documents, pools of {depth} by cosine, on a server"
    columns = (
        Column("way"),
        Column("ms, REST", digits=1),
        Column("ms, gRPC", digits=1),
        Column("nDCG@10"),
        Column("kB a document", digits=1),
        Column("of these in memory", digits=1),
    )
    present(Report(title, (Table("way", title, columns, tuple(rows), keys=1),)), reports)


def _timed(
    ways: dict[str, dict[str, Way]], queries: list[Query], questions: int
) -> tuple[dict[str, dict[str, dict[str, float]]], dict[tuple[str, str], list[float]]]:
    """Runs by way, and seconds by transport and way."""
    runs: dict[str, dict[str, dict[str, float]]] = {name: {} for name in ways["REST"]}
    seconds: dict[tuple[str, str], list[float]] = {(t, n): [] for t, own in ways.items() for n in own}
    for query in queries[questions:]:
        for name, way in ways["REST"].items():
            runs[name][query.id] = _scores(way(query), query)
    for start in range(0, min(questions, len(queries)), _TURN):
        for transport, own in ways.items():
            for name, way in own.items():
                time.sleep(0.05)
                way(queries[start])
                for query in queries[start : min(start + _TURN, questions)]:
                    begun = time.perf_counter()
                    found = way(query)
                    seconds[transport, name].append(time.perf_counter() - begun)
                    runs[name][query.id] = _scores(found, query)
    return runs, seconds


def _scores(found: Candidates | Ranking, query: Query) -> dict[str, float]:
    """As a run has them; a question that is a document does not find itself."""
    scores = found.scores if isinstance(found, Ranking) else next(iter(found.scores.values()))
    return {name: float(s) for name, s in zip(found.ids, scores, strict=True) if name != query.id}


if __name__ == "__main__":
    main()
