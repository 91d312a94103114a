"""What a question costs, medians in milliseconds; ways take turns, so that a busy machine slows all of them.

    python benchmarks/latency.py engines --dataset DATA/beir/cranfield --folder FOLDER --url URL
    python benchmarks/latency.py questions --dataset beir/scifact --folder FOLDER --beside 0 --beside 6
    python benchmarks/latency.py together --dataset DATA/beir/cranfield

`engines` times retrieving and re-ranking ids, the questions being encoded before: on Qdrant Edge, and on a
server by REST and gRPC. `questions` is from text to documents, beside other busy programs, too. `together` is
`search_many` beside `search` one by one, with an embedder that answers after 50 ms and one that is here.
FOLDER keeps the index for another run; the server's collection is deleted again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
from machine import by_turns, describe
from qdrant_client import QdrantClient
from served import drop, settle

from surprise_rerank import DocumentIndex, FunctionEncoder, Query, Ranking, load_encoder
from surprise_rerank.connectors.qdrant import IndexOptions, Location
from surprise_rerank.connectors.systems import build_system
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset

# Modes behind a slash; `+texts` fetches the documents, too.
SYSTEMS = "cosine,cosine+texts,bm25,surprise/formula,surprise/vector,dynamax,fusion,auto"
_COLLECTION, _TURN, _TOGETHER, _REPETITIONS = "benchmark-latency", 10, 64, 3
Way: TypeAlias = Callable[[Query], Ranking]
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """What a question costs."""
    print(describe("torch", "qdrant-client", "qdrant-edge-py"))


def filled(where: Location, data: RetrievalDataset, encoder: Encoder, options: IndexOptions) -> DocumentIndex:
    """An index of the documents, which is made where it is not there yet."""
    index = DocumentIndex.open(where, encoder, options=options)
    if not len(index):
        index.sync(data.documents, background=False)
        if options.surprise_vector:
            index.set_ensemble(index.ensemble(), source="documents")
    return index


class _Counting:
    """An engine that counts what it is asked."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.asked = engine, 0

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._engine, name)

        def counted(*arguments: Any, **more: Any) -> Any:
            self.asked += 1
            return attribute(*arguments, **more)

        return counted if callable(attribute) else attribute


def way(name: str, index: DocumentIndex, depth: int) -> Way:
    """A system, as `SYSTEMS` names it."""
    name, _, texts = name.partition("+")
    system, _, mode = name.partition("/")
    built = build_system(system, index.corpus, mode=mode or None)  # type: ignore[arg-type]
    fields = built.needs | ({"documents"} if texts else frozenset())

    def ranked(query: Query) -> Ranking:
        pool = built.retriever.retrieve(query, depth, fields)
        if built.reranker is not None:
            return built.reranker.rerank(query, pool)
        return Ranking.order(pool, next(iter(pool.scores.values())))

    return ranked


def requests(way: Way, index: DocumentIndex, queries: Sequence[Query]) -> float:
    """Requests of a question on average."""
    storage: Any = index.corpus.storage
    engine = storage.engine
    storage.engine = counting = _Counting(engine)
    for query in queries:
        way(query)
    storage.engine = engine
    return counting.asked / len(queries)


@main.command()
@click.option("--dataset", required=True, help="A BEIR folder, or a name of ir_datasets.")
@click.option("--folder", type=_FOLDER, required=True, help="Where the Edge index is kept.")
@click.option("--url", help="Of a server; Edge alone without one.")
@click.option("--grpc-port", default=6334, show_default=True)
@click.option("--systems", default=SYSTEMS, show_default=True)
@click.option("--depth", default=100, show_default=True)
@click.option("--questions", default=100, show_default=True)
@click.option("--whole", is_flag=True, help="Documents are not split.")
@click.option("--every-token", is_flag=True, help="Tokens are not merged.")
def engines(
    dataset: str,
    folder: Path,
    url: str | None,
    grpc_port: int,
    systems: str,
    depth: int,
    questions: int,
    *,
    whole: bool,
    every_token: bool,
) -> None:
    """Systems on Edge, and on a server by REST and by gRPC: milliseconds and requests."""
    data, encoder = load_dataset(dataset, None), load_encoder()
    queries = encode_queries(encoder, list(data.queries.values())[:questions])
    options = IndexOptions(surprise_vector=True)
    options = replace(options, passages=None) if whole else options
    options = replace(options, pooling=1.0) if every_token else options
    name = f"{data.name.replace('/', '-')}{'-whole' * whole}{'-every-token' * every_token}-surprise"
    places = {"Edge": Location(folder / name)}
    with ExitStack() as stack:
        if url is not None:
            client = QdrantClient(url, check_compatibility=False)
            drop(client, _COLLECTION)  # what a run that was killed has left
            stack.callback(drop, client, _COLLECTION)
            places["REST"] = Location(url=url, collection=_COLLECTION, grpc_port=grpc_port)
            places["gRPC"] = replace(places["REST"], prefer_grpc=True)
        indexes = {
            name: stack.enter_context(filled(where, data, encoder, options)) for name, where in places.items()
        }
        if url is not None:
            settle(client, _COLLECTION)
        keys = {f"{name}, {place}": (name, place) for name in systems.split(",") for place in indexes}
        ways = {key: way(name, indexes[place], depth) for key, (name, place) in keys.items()}
        taken = by_turns(ways, queries, _TURN)
        print(f"{len(data.documents)} documents, {len(queries)} questions, pools of {depth}")
        print("| system | median, ms | 95 %, ms | requests |\n|---|---|---|---|")
        for key, milliseconds in taken.items():
            sent = requests(ways[key], indexes[keys[key][1]], queries[:_TURN])
            median, late = np.percentile(milliseconds, [50, 95])
            print(f"| {key} | {median:.1f} | {late:.1f} | {sent:.1f} |", flush=True)


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """So many other programs that never wait."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield
    finally:
        for program in running:
            program.kill()
            program.wait()


@main.command()
@click.option("--dataset", required=True, help="A BEIR folder, or a name of ir_datasets.")
@click.option("--folder", type=_FOLDER, required=True, help="Where the index is kept.")
@click.option("--systems", default="cosine,dynamax,fusion,auto", show_default=True)
@click.option("--depth", default=100, show_default=True)
@click.option("--questions", default=100, show_default=True)
@click.option("--beside", multiple=True, type=int, default=(0,), help="So many busy programs.  [default: 0]")
def questions(
    dataset: str, folder: Path, systems: str, depth: int, questions: int, beside: tuple[int, ...]
) -> None:
    """From text to documents on Edge."""
    data, encoder = load_dataset(dataset, None), load_encoder()
    texts = list(data.queries.values())[:questions]
    where = Location(folder / data.name.replace("/", "-"))
    with filled(where, data, encoder, IndexOptions()) as index:
        ways = {name: index.pipeline(name, depth=depth).search for name in systems.split(",")}
        print("| busy programs | system | median, ms | 95 %, ms | times the first |\n|---|---|---|---|---|")
        for programs in beside:
            with busy(programs):
                taken = by_turns(ways, texts)
            base = np.median(next(iter(taken.values())))
            for name, milliseconds in taken.items():
                median, late = np.percentile(milliseconds, [50, 95])
                print(
                    f"| {programs} | {name} | {median:.1f} | {late:.1f} | {median / base:.1f} |", flush=True
                )


def embedder(seconds: float, dimension: int = 384) -> FunctionEncoder:
    """Random vectors, after so many seconds, however many texts there are."""

    def embed(texts: Sequence[str]) -> list[Float32Array]:
        time.sleep(seconds)
        seeds = (np.random.default_rng(zlib.crc32(text.encode())) for text in texts)
        return [seed.normal(size=dimension).astype(np.float32) for seed in seeds]

    return FunctionEncoder(embed, name="random", batch=_TOGETHER)


@main.command()
@click.option("--dataset", required=True, help="A BEIR folder, or a name of ir_datasets.")
@click.option("--documents", default=500, show_default=True)
@click.option("--systems", default="cosine,fusion,auto", show_default=True)
def together(dataset: str, documents: int, systems: str) -> None:
    """Questions by `search_many` beside `search` one by one."""
    data = load_dataset(dataset, None)
    texts = list(data.queries.values())[:_TOGETHER]
    print("| embedder | system | ms a question, one by one | many | times |\n|---|---|---|---|---|")
    encoders: dict[str, Encoder] = {"50 ms": embedder(0.05), "here": load_encoder()}
    for name, encoder in encoders.items():
        with tempfile.TemporaryDirectory() as folder, DocumentIndex.open(folder, encoder) as index:
            index.sync(list(data.documents)[:documents])
            for system in systems.split(","):
                pipeline = index.pipeline(system)
                ways = {
                    "one": lambda some, by=pipeline: [by.search(question) for question in some],
                    "many": pipeline.search_many,
                }
                taken = by_turns(ways, [texts] * _REPETITIONS)
                one, many = (float(np.median(some)) / len(texts) for some in taken.values())
                print(f"| {name} | {system} | {one:.1f} | {many:.1f} | {one / many:.1f} |", flush=True)


if __name__ == "__main__":
    main()
