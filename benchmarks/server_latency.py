"""A question on a Qdrant server, by REST and by gRPC, beside Edge: milliseconds and requests.

    python benchmarks/server_latency.py --dataset DATA/beir/cranfield --folder FOLDER --url URL

Documents are in passages, as a new index has them, with augmented vectors and an ensemble of the documents.
What is timed is retrieving and re-ranking ids; the questions are encoded before. Systems and engines take
turns, ten questions each; this process's processor time is Qdrant's, too, in Edge, and the client's alone on
a server. `surprise/vector` is the system `surprise` in the mode `vector`. FOLDER keeps the Edge index for
another run; the server's collection is deleted again, unless it is kept (`--keep`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import ir_measures
import numpy as np
from machine import describe
from qdrant_client import QdrantClient
from served import EncodedOnce, drop, settle

from surprise_rerank import Query
from surprise_rerank.candidates import Ranking
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.options import present, report_option
from surprise_rerank.eval.reports.report import Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset

SYSTEMS = "cosine,bm25,surprise/formula,surprise/vector,dynamax,fusion,auto"
EDGE, REST, GRPC = "Edge", "REST", "gRPC"
# How a server is asked: name -> what a location is told.
_KINDS: dict[str, dict[str, Any]] = {REST: {}, GRPC: {"prefer_grpc": True}}
_TURN = 10
Way = Callable[[Query], Ranking]


class _Counting:
    """An engine that counts what it is asked."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.asked = engine, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if not callable(found):
            return found

        def counted(*given: Any, **more: Any) -> Any:
            self.asked += 1
            return found(*given, **more)

        return counted


def way(name: str, index: DocumentIndex, depth: int) -> Way:
    """A system of the register, with its mode behind a slash."""
    system, _, mode = name.partition("/")
    built = build_system(system, index, mode=mode or None)  # type: ignore[arg-type]

    def ranked(query: Query) -> Ranking:
        pool = built.retriever.retrieve(query, depth, built.needs)
        if built.reranker is not None:
            return built.reranker.rerank(query, pool)
        return Ranking.order(pool, next(iter(pool.scores.values())))

    return ranked


def timed(
    ways: dict[tuple[str, str], Way], queries: list[Query]
) -> tuple[
    dict[tuple[str, str], list[tuple[float, float]]], dict[tuple[str, str], dict[str, dict[str, float]]]
]:
    """Seconds by the clock and of this process's processor, and rankings of each."""
    seconds: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in ways}
    runs: dict[tuple[str, str], dict[str, dict[str, float]]] = {key: {} for key in ways}
    for start in range(0, len(queries), _TURN):
        for key, own in ways.items():
            time.sleep(0.05)
            own(queries[start])
            for query in queries[start : start + _TURN]:
                begun = time.perf_counter(), time.process_time()
                ranking = own(query)
                seconds[key].append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
                scores = zip(ranking.ids, ranking.scores.tolist(), strict=True)
                runs[key][query.id] = {name: score for name, score in scores if name != query.id}
    return seconds, runs


def requests(way: Way, index: DocumentIndex, queries: list[Query]) -> float:
    """Requests of a question on average."""
    storage: Any = index.storage
    way(queries[0])  # what is read once
    engine = storage.engine
    storage.engine = counting = _Counting(engine)
    for query in queries:
        way(query)
    storage.engine = engine
    return counting.asked / len(queries)


@click.command()
@click.option("--dataset", required=True, help="A BEIR folder, or a name of ir_datasets.")
@click.option(
    "--folder", type=click.Path(path_type=Path), required=True, help="Where the Edge index is kept."
)
@click.option("--url", help="Of the server; Edge alone without one.")
@click.option("--grpc-port", default=6334, show_default=True)
@click.option("--collection", default="server-latency", show_default=True)
@click.option("--systems", default=SYSTEMS, show_default=True)
@click.option("--depth", default=100, show_default=True)
@click.option("--questions", type=int, help="How many of them; all by default.")
@click.option("--keep", is_flag=True, help="Leave the server's collection for another run.")
@report_option
def main(
    dataset: str,
    folder: Path,
    url: str | None,
    grpc_port: int,
    collection: str,
    systems: str,
    depth: int,
    questions: int | None,
    keep: bool,
    reports: tuple[Path, ...],
) -> None:
    """Print one line for each system."""
    print(describe("qdrant-client", "qdrant-edge-py", "torch"))
    data, encoder = load_dataset(dataset, None), EncodedOnce(load_encoder())
    texts = dict(list(data.queries.items())[:questions])
    queries = encode_queries(encoder, list(texts.values()), list(texts))
    options, names = IndexOptions(surprise_vector=True), systems.split(",")
    with ExitStack() as stack:

        def opened(where: Location) -> DocumentIndex:
            index = stack.enter_context(DocumentIndex.open(where, encoder, options=options))
            if not len(index):
                begun = time.perf_counter()
                index.sync(data.documents, background=False)
                index.set_ensemble(index.ensemble(), source="documents")
                print(f"{index.where}: {time.perf_counter() - begun:.0f} s")
            return index

        indexes = {EDGE: opened(Location(folder / data.name.replace("/", "-")))}
        if url is not None:
            client = QdrantClient(url, check_compatibility=False)
            if not keep:
                stack.callback(drop, client, collection)
            server = Location(url=url, collection=collection, grpc_port=grpc_port)
            indexes |= {kind: opened(replace(server, **how)) for kind, how in _KINDS.items()}
            settle(client, collection)
        ways = {(name, kind): way(name, index, depth) for name in names for kind, index in indexes.items()}
        seconds, runs = timed(ways, queries)
        asked = {key: requests(own, indexes[key[1]], queries) for key, own in ways.items()}
    judged = {name: data.qrels[name] for name in texts}
    rows = [
        (
            f"{name}, {kind}",
            *_times(seconds, name, kind),
            asked[name, kind],
            _ndcg(judged, runs[name, kind]),
            _alike(runs[name, kind], runs[name, EDGE]),
        )
        for name, kind in ways
    ]
    title = f"{data.name}, {len(data.documents)} documents, {len(queries)} questions, pools of {depth}"
    columns = (
        Column("system, engine"),
        Column("median, ms", digits=1),
        Column("p95, ms", digits=1),
        Column("times Edge", digits=2),
        Column("of this processor, ms", digits=1),
        Column("requests", digits=1),
        Column("nDCG@10"),
        Column("same ten as Edge", digits=3),
    )
    present(Report(title, (Table("system", title, columns, tuple(rows), keys=1),)), reports)


def _times(
    seconds: dict[tuple[str, str], list[tuple[float, float]]], name: str, kind: str
) -> tuple[float, float, float, float]:
    """Median and 95th percentile in ms, how often as long as in Edge, and ms of this processor."""
    taken, own = 1000 * np.array(seconds[name, kind]).T, 1000 * np.array(seconds[name, EDGE])[:, 0]
    median, late = np.percentile(taken[0], [50, 95])
    return float(median), float(late), float(median / np.median(own)), float(np.median(taken[1]))


def _ndcg(judged: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> float:
    return float(next(iter(ir_measures.calc_aggregate([ir_measures.nDCG @ 10], judged, run).values())))


def _alike(run: dict[str, dict[str, float]], other: dict[str, dict[str, float]]) -> float:
    """Share of questions with the same first ten."""
    return float(np.mean([_order(run[name]) == _order(other[name]) for name in run]))


def _order(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))[:10]


if __name__ == "__main__":
    main()
