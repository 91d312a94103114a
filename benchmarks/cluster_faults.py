"""What a fault of a node costs who asks, indexes, rebuilds or sets an ensemble meanwhile.

    QDRANT_URL=... QDRANT_STOP_NODE=... python benchmarks/cluster_faults.py          (see cluster_nodes.py)
    python benchmarks/cluster_faults.py --replicas 1 --work search,index --fault killed
    python benchmarks/cluster_faults.py --away 5,30,120         the first address alone, under indexing

One process asks all the time, another thread works, and a second after it began a node is

    killed    and started again three seconds later, as a supervisor does;
    paused    for `--pause` seconds: connections stay, nobody answers;
    away      killed, and started when the work is done.

Questions are exact and of documents that no work changes, so that every answer must be the one from before.
At the end, when every copy of every shard is active, each node is asked alone for all documents and all
answers: `lost` counts documents that a node lacks or has otherwise, `differ` answers that are others than
before, under way and at the end. `again` is how long after the node's start a question is answered. With one
copy of each shard questions must fail while a node is away; work goes on when it is back, or is done again.

Vectors are drawn from the hash of a text: the encoder costs nothing that could hide the server.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from cluster_nodes import ClusterNodes
from qdrant_client import QdrantClient, models

from surprise_rerank import Document, Query
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SearchOptions
from surprise_rerank.connectors.qdrant.location import RetryPolicy
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.function import FunctionEncoder
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.surprise.ensemble import Ensemble

Work: TypeAlias = Literal["search", "index", "rebuild", "ensemble"]
FaultKind: TypeAlias = Literal["killed", "paused", "away"]
NODES = {"client's": 1, "another": 2}  # numbers of addresses; requests go to the first
SHARDS = 6
_DIMENSION = 64
_DEPTH = 10
_BEFORE_FAULT = 1.0
_SUPERVISED = 3.0
_AFTERWARDS = 5.0  # seconds of questions after the fault, where nothing else is done
_OPTIONS = IndexOptions(passages=None, tokens=False, bm25=None, payload_indexes={"metadata.part": "integer"})
_OLD = SearchOptions(
    filter=models.Filter(must=[models.FieldCondition(key="metadata.part", match=models.MatchValue(value=0))])
).exactly()
Answer: TypeAlias = tuple[tuple[str, ...], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is done while what happens.

    Attributes:
        replicas: copies of each shard.
        node: of `NODES`.
        work: done meanwhile; questions are asked in any case.
        fault: of the node.
        documents: that are there before; as many are added by `index`.
        pause: seconds that a node is paused for.
        patience: seconds that a request of the work is sent again for.
    """

    replicas: int
    node: str
    work: Work
    fault: FaultKind
    documents: int = 4000
    pause: float = 30.0
    patience: float = 300.0


@dataclass(slots=True)
class Outcome:
    """What came of it; times in seconds."""

    asked: int = 0
    failed: int = 0
    slowest: float = 0.0
    worked: float = 0.0
    lost: int = 0
    differ: int = 0
    again: float | None = None
    errors: list[str] = field(default_factory=list)

    @property
    def cells(self) -> list[str]:
        """Of a row of the table."""
        again = "" if self.again is None else f"{self.again:.1f}"
        counts = [str(self.asked), str(self.failed), f"{self.slowest:.2f}", f"{self.worked:.1f}"]
        return [*counts, str(self.lost), str(self.differ), again, "; ".join(dict.fromkeys(self.errors))]


HEADER = (
    *(own.name for own in fields(Scenario)[:4]),
    *("asked", "failed", "slowest s", "work s", "lost", "differ", "again s", "errors"),
)


def encoder() -> FunctionEncoder:
    """Vectors of texts, drawn from their hashes."""

    def embed(texts: list[str]) -> np.ndarray:
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        return np.array([np.random.default_rng(seed).standard_normal(_DIMENSION) for seed in seeds])

    return FunctionEncoder(embed, name="hashes", dimension=_DIMENSION, batch=512)


def documents(part: int, count: int) -> list[Document]:
    """The documents of one part."""
    return [
        Document(f"{part}-{i}", f"document {i} of part {part}", metadata={"part": part}) for i in range(count)
    ]


def opened(urls: Sequence[str], collection: str, patience: float = 300.0, **more: Any) -> DocumentIndex:
    """The index; asking is never patient for longer than working."""
    return DocumentIndex.open(
        None,
        encoder(),
        url=list(urls),
        collection=collection,
        options=_OPTIONS,
        retries=RetryPolicy(time_limit=patience),
        **more,
    )


class Asking:
    """A thread that asks one question after the other, and counts.

    Args:
        index: that is asked; its own, as others work on theirs.
        queries: asked in turn.
        expected: the answer to each.
        outcome: what is counted in.
    """

    def __init__(
        self, index: DocumentIndex, queries: Sequence[Query], expected: Sequence[Answer], outcome: Outcome
    ) -> None:
        self._index, self._queries, self._expected = index, queries, expected
        self._outcome = outcome
        self._ending = threading.Event()
        self._answered = threading.Condition()
        self._answered_at: list[tuple[float, float]] = []  # when a question was asked, and answered
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def wait_for_answer(self, since: float, seconds: float = 120.0) -> float | None:
        """Seconds from a time until a question was answered that was asked after it; None if none was."""

        def first() -> float | None:
            return next((end - since for begun, end in self._answered_at if begun > since), None)

        with self._answered:
            return self._answered.wait_for(first, seconds)

    def _run(self) -> None:
        for query, expected in itertools.cycle(zip(self._queries, self._expected, strict=True)):
            if self._ending.is_set():
                return
            begun = time.monotonic()
            try:
                found = answer(self._index, query)
            except SurpriseRerankError as error:
                self._outcome.failed += 1
                self._outcome.errors.append(f"question: {error}")
            else:
                self._outcome.differ += found != expected
                with self._answered:
                    self._answered_at.append((begun, time.monotonic()))
                    self._answered.notify_all()
            self._outcome.asked += 1
            self._outcome.slowest = max(self._outcome.slowest, time.monotonic() - begun)
            self._ending.wait(0.01)  # two cores for everything


def answer(index: DocumentIndex, query: Query) -> Answer:
    """Ids and scores of the best documents of part 0."""
    found = index.search(query, _DEPTH, options=_OLD)
    return found.ids, tuple(np.asarray(found.scores["cosine"]).tolist())


def run(scenario: Scenario, nodes: ClusterNodes) -> Outcome:
    """Make an index, let the fault happen under work, and count; nothing stays on the nodes."""
    outcome, name = Outcome(), f"faults-{uuid.uuid4().hex[:8]}"
    settings = {"shard_number": SHARDS, "replication_factor": scenario.replicas}
    nodes.wait_until_ready()
    try:
        with opened(nodes.urls, name, scenario.patience, collection_settings=settings) as index:
            index.sync(documents(0, scenario.documents), background=False)
            index.set_ensemble(index.ensemble(), source="documents")
            queries = encode_queries(index.encoder, [f"question {i}" for i in range(20)])
            expected = [answer(index, query) for query in queries]
            with opened(nodes.urls, name) as asked, Asking(asked, queries, expected, outcome) as asking:
                _under_fault(scenario, nodes, index, outcome, asking)
        nodes.wait_until_ready()
        nodes.wait_until_whole(f"{name}@")
        _check(scenario, nodes, name, queries, expected, outcome)
    finally:
        _removed(nodes, name)
    return outcome


def _under_fault(
    scenario: Scenario, nodes: ClusterNodes, index: DocumentIndex, outcome: Outcome, asking: Asking
) -> None:
    node, done = NODES[scenario.node], threading.Event()
    back: list[float] = []

    def happen() -> None:
        time.sleep(_BEFORE_FAULT)
        nodes.run("PAUSE" if scenario.fault == "paused" else "STOP", node)
        if scenario.fault == "away":
            done.wait()
        else:
            time.sleep(scenario.pause if scenario.fault == "paused" else _SUPERVISED)
        back.append(time.monotonic())
        nodes.run("RESUME" if scenario.fault == "paused" else "START", node)

    fault = threading.Thread(target=happen)
    begun = time.monotonic()
    fault.start()
    try:
        if scenario.work == "search":
            lasting = {"killed": _SUPERVISED, "paused": scenario.pause, "away": scenario.pause}
            time.sleep(_BEFORE_FAULT + lasting[scenario.fault] + _AFTERWARDS)
        else:
            _work(scenario, index)
    except SurpriseRerankError as error:
        outcome.errors.append(f"{scenario.work}: {error}")
    finally:
        outcome.worked = time.monotonic() - begun
        done.set()
        fault.join()
    outcome.again = asking.wait_for_answer(back[0])
    if any(own.startswith(f"{scenario.work}:") for own in outcome.errors):
        nodes.wait_until_ready()
        _work(scenario, index)  # again, as the error says; it must succeed now


def _work(scenario: Scenario, index: DocumentIndex) -> None:
    old = documents(0, scenario.documents)
    if scenario.work == "index":
        index.sync(documents(1, scenario.documents), background=False)
    elif scenario.work == "rebuild":
        index.rebuild(old, background=False)
    elif scenario.work == "ensemble":
        texts = [f"question {i}" for i in range(1000)]
        index.set_ensemble(Ensemble.from_vectors(index.encoder.encode(texts).dense, model=index.encoder.name))


def _check(
    scenario: Scenario,
    nodes: ClusterNodes,
    name: str,
    queries: Sequence[Query],
    expected: Sequence[Answer],
    outcome: Outcome,
) -> None:
    """Ask every node alone for everything."""
    parts = (0, 1) if scenario.work == "index" else (0,)
    stored = [document for part in parts for document in documents(part, scenario.documents)]
    for url in nodes.urls:
        with opened([url], name) as index:
            outcome.lost += abs(len(index) - len(stored))
            for start in range(0, len(stored), 1000):
                part = stored[start : start + 1000]
                found = index.fetch([d.id for d in part], frozenset({"documents"}), skip_missing=True)
                there = {d.id: d for d in found.documents or ()}
                outcome.lost += sum(there.get(document.id) != document for document in part)
            outcome.differ += sum(
                answer(index, query) != own for query, own in zip(queries, expected, strict=True)
            )
            if index.status().behind:
                outcome.errors.append(f"{index.status().behind} documents have moments of another ensemble")


def _removed(nodes: ClusterNodes, name: str) -> None:
    with contextlib.suppress(Exception):  # a node that is still away; what was found out is told
        client = QdrantClient(url=nodes.urls[-1], check_compatibility=False, timeout=30)
        for found in client.get_collections().collections:
            if found.name.startswith(f"{name}@"):
                client.delete_collection(found.name)


def run_away(nodes: ClusterNodes, seconds: float, count: int) -> tuple[str, ...]:
    """A server that is killed under indexing, and started so many seconds later: cells of a row."""
    name, url = f"faults-{uuid.uuid4().hex[:8]}", nodes.urls[:1]

    def happen() -> None:
        time.sleep(_BEFORE_FAULT)
        nodes.run("STOP", 1)
        time.sleep(seconds)
        nodes.run("START", 1)

    told = ""
    fault = threading.Thread(target=happen)
    with opened(url, name) as index:
        begun = time.monotonic()
        fault.start()
        try:
            index.sync(documents(0, count), background=False)
        except SurpriseRerankError as error:
            told = str(error)
        took = time.monotonic() - begun
        fault.join()
        ClusterNodes(url, nodes.commands).wait_until_ready()
        again = index.sync(documents(0, count), background=False).added
        stored = len(index)
    _removed(ClusterNodes(url, nodes.commands), name)
    return f"{seconds:.0f}", f"{took:.1f}", str(again), str(count - stored), told


def scenarios(given: argparse.Namespace) -> Iterator[Scenario]:
    """Those that were asked for."""
    chosen = itertools.product(given.replicas, given.node, given.work, given.fault)
    for replicas, node, work, fault in chosen:
        patience = 60.0 if replicas == 1 and fault == "away" else 300.0  # it would wait for the end of itself
        yield Scenario(replicas, node, work, fault, given.documents, given.pause, patience)


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _header(names: Sequence[str]) -> str:
    return f"{_row(names)}\n|{'---|' * len(names)}"


def main() -> None:
    """Print the table, a row when it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])

    def listed(*known: str) -> Any:
        return lambda text: (
            [own for own in known if own in text.split(",")] or parser.error(f"one of {known}")
        )

    parser.add_argument("--replicas", type=lambda text: [int(own) for own in text.split(",")], default=[2, 1])
    parser.add_argument("--node", type=listed(*NODES), default=list(NODES))
    parser.add_argument("--work", type=listed(*get_args(Work)), default=list(get_args(Work)))
    parser.add_argument("--fault", type=listed(*get_args(FaultKind)), default=list(get_args(FaultKind)))
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--pause", type=float, default=30.0)
    parser.add_argument("--away", type=lambda text: [float(own) for own in text.split(",")])
    given = parser.parse_args()
    nodes = ClusterNodes.of_environment()
    if given.away:
        print(_header(("away s", "work s", "stored by another run", "lost", "error")), flush=True)
        for seconds in given.away:
            print(_row(run_away(nodes, seconds, given.documents)), flush=True)
        return
    print(_header(HEADER), flush=True)
    for scenario in scenarios(given):
        outcome = run(scenario, nodes)
        print(_row([*astuple(scenario)[:4], *outcome.cells]), flush=True)


if __name__ == "__main__":
    main()
