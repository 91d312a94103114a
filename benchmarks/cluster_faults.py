"""What a fault of a node costs who asks, indexes, rebuilds or sets an ensemble meanwhile.

    QDRANT_URL=... QDRANT_STOP_NODE=... python benchmarks/cluster_faults.py          (see cluster_nodes.py)
    python benchmarks/cluster_faults.py --replicas 1 --work search --work index --fault killed

One process asks all the time, another thread works, and a second after it began a node is

    killed    and started again `--down` seconds later, as a supervisor does;
    paused    for `--pause` seconds: connections stay, nobody answers;
    away      killed, and started when the work is done.

Questions are of documents that no work changes, so that every answer must be the one from before. At the end,
when every copy of every shard is active, each node is asked alone for all documents and all answers: `lost`
counts documents that a node lacks or has otherwise, `differ` answers that are others than before. `again` is
how long after the node's start a question is answered.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from typing import Any, Literal, TypeAlias

import click
import numpy as np
from cluster_nodes import ClusterNodes
from qdrant_client import QdrantClient, models
from served import drop

from surprise_rerank import Document, Ensemble, FunctionEncoder, Query, SurpriseRerankError
from surprise_rerank.connectors.qdrant import (
    DocumentIndex,
    IndexOptions,
    Location,
    RetryPolicy,
    SearchOptions,
)
from surprise_rerank.encoders.base import encode_queries

Work: TypeAlias = Literal["search", "index", "rebuild", "ensemble"]
FaultKind: TypeAlias = Literal["killed", "paused", "away"]
Answer: TypeAlias = tuple[tuple[str, ...], tuple[float, ...]]
NODES = {"client's": 1, "another": 2}  # numbers of addresses; requests go to the first
SHARDS = 6
_COLLECTION, _DIMENSION, _DEPTH = "benchmark-faults", 64, 10
_BEFORE_FAULT, _AFTERWARDS = 1.0, 5.0  # seconds
_OPTIONS = IndexOptions(passages=None, tokens=False, bm25=None, payload_indexes={"metadata.part": "integer"})
_OLD = SearchOptions(
    filter=models.Filter(must=[models.FieldCondition(key="metadata.part", match=models.MatchValue(value=0))])
).exactly()


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is done while what happens.

    Attributes:
        replicas: copies of each shard.
        node: of `NODES`.
        work: done meanwhile; questions are asked in any case.
        fault: of the node.
        documents: that are there before; as many are added by `index`.
        pause, down: seconds that a node is paused for, and until one that was killed is started.
    """

    replicas: int
    node: str
    work: Work
    fault: FaultKind
    documents: int = 3000
    pause: float = 30.0
    down: float = 3.0

    @property
    def patience(self) -> float:
        """Seconds that a request of the work is sent again for; with one copy it would wait for itself."""
        return 60.0 if self.replicas == 1 and self.fault == "away" else 300.0


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


def embed(texts: list[str]) -> np.ndarray:
    """Vectors drawn from the hashes of texts: encoding costs nothing that could hide the server."""
    seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts]
    return np.array([np.random.default_rng(seed).standard_normal(_DIMENSION) for seed in seeds])


def documents(part: int, count: int) -> list[Document]:
    """The documents of one part."""
    return [
        Document(f"{part}-{i}", f"document {i} of part {part}", metadata={"part": part}) for i in range(count)
    ]


def opened(urls: Sequence[str], patience: float = 300.0, **more: Any) -> DocumentIndex:
    """The index."""
    encoder = FunctionEncoder(embed, name="hashes", dimension=_DIMENSION, batch=512)
    retries = RetryPolicy(time_limit=patience)
    place = Location(url=list(urls), collection=_COLLECTION, retries=retries)
    return DocumentIndex.open(place, encoder, options=_OPTIONS, **more)


def answer(index: DocumentIndex, query: Query) -> Answer:
    """Ids and scores of the best documents of part 0."""
    ranking = index.corpus.search(query, _DEPTH, options=_OLD)
    return ranking.ids, tuple(np.asarray(ranking.scores["cosine"]).tolist())


@contextmanager
def asking(
    urls: Sequence[str], expected: Sequence[tuple[Query, Answer]], outcome: Outcome
) -> Iterator[Callable[[float], float]]:
    """A thread that asks one question after the other; gives when one of after a time was answered."""
    ending, answered = threading.Event(), threading.Condition()
    answers: list[tuple[float, float]] = []  # when a question was asked, and answered

    def ask() -> None:
        for query, expected_answer in itertools.cycle(expected):
            if ending.wait(0.01):  # two cores for everything
                return
            begun = time.monotonic()
            try:
                outcome.differ += answer(index, query) != expected_answer
                with answered:
                    answers.append((begun, time.monotonic()))
                    answered.notify_all()
            except SurpriseRerankError as error:
                outcome.failed += 1
                outcome.errors.append(f"question: {error}")
            outcome.asked += 1
            outcome.slowest = max(outcome.slowest, time.monotonic() - begun)

    def first_after(start: float) -> float:
        with answered:
            return answered.wait_for(lambda: next((end for begun, end in answers if begun > start), 0), 120)

    thread = threading.Thread(target=ask, daemon=True)
    with opened(urls) as index:
        thread.start()
        try:
            yield first_after
        finally:
            ending.set()
            thread.join()


def work(scenario: Scenario, index: DocumentIndex) -> None:
    """What is done; of `search` nothing, for as long as the fault lasts."""
    if scenario.work == "search":
        lasting = scenario.down if scenario.fault == "killed" else scenario.pause
        time.sleep(_BEFORE_FAULT + lasting + _AFTERWARDS)
    elif scenario.work == "index":
        index.sync(documents(1, scenario.documents), background=False)
    elif scenario.work == "rebuild":
        index.rebuild(documents(0, scenario.documents), background=False)
    else:
        texts = [f"question {i}" for i in range(1000)]
        index.set_ensemble(Ensemble.from_vectors(index.encoder.encode(texts).dense, model=index.encoder.name))


def run(scenario: Scenario, nodes: ClusterNodes) -> Outcome:
    """Make an index, let the fault happen under work, and count; nothing stays on the nodes."""
    outcome = Outcome()
    settings = {"shard_number": SHARDS, "replication_factor": scenario.replicas}
    nodes.wait_until_ready()
    _remove(nodes)  # what a run that was killed has left
    try:
        with opened(nodes.urls, scenario.patience, collection_settings=settings) as index:
            index.sync(documents(0, scenario.documents), background=False)
            index.set_ensemble(index.ensemble(), source="documents")
            queries = encode_queries(index.encoder, [f"question {i}" for i in range(20)])
            expected = [(query, answer(index, query)) for query in queries]
            with asking(nodes.urls, expected, outcome) as first_after:
                done, back = threading.Event(), list[float]()
                fault = threading.Thread(target=_happen, args=(scenario, nodes, done, back))
                begun = time.monotonic()
                fault.start()
                try:
                    work(scenario, index)
                except SurpriseRerankError as error:
                    outcome.errors.append(f"{scenario.work}: {error}")
                outcome.worked = time.monotonic() - begun
                done.set()
                fault.join()
                outcome.again = (first_after(back[0]) or np.nan) - back[0]
            if any(error.startswith(f"{scenario.work}:") for error in outcome.errors):
                nodes.wait_until_ready()
                work(scenario, index)  # again, as the error says; it must succeed now
        nodes.wait_until_ready()
        nodes.wait_until_whole(f"{_COLLECTION}@")
        _check(scenario, nodes, expected, outcome)
    finally:
        _remove(nodes)
    return outcome


def _happen(scenario: Scenario, nodes: ClusterNodes, done: threading.Event, back: list[float]) -> None:
    node, paused = NODES[scenario.node], scenario.fault == "paused"
    time.sleep(_BEFORE_FAULT)
    nodes.run("PAUSE" if paused else "STOP", node)
    if scenario.fault == "away":
        done.wait()
    else:
        time.sleep(scenario.pause if paused else scenario.down)
    back.append(time.monotonic())
    nodes.run("RESUME" if paused else "START", node)


def _check(
    scenario: Scenario, nodes: ClusterNodes, expected: Sequence[tuple[Query, Answer]], outcome: Outcome
) -> None:
    """Ask every node alone for everything."""
    parts = (0, 1) if scenario.work == "index" else (0,)
    stored = {document.id: document for part in parts for document in documents(part, scenario.documents)}
    for url in nodes.urls:
        with opened([url]) as index:
            fetched = index.fetch(list(stored), frozenset({"documents"}), skip_missing=True)
            by_id = {document.id: document for document in fetched.documents or ()}
            outcome.lost += abs(len(index) - len(stored))
            outcome.lost += sum(by_id.get(name) != document for name, document in stored.items())
            outcome.differ += sum(answer(index, query) != before for query, before in expected)
            if index.status().behind:
                outcome.errors.append(f"{index.status().behind} documents have moments of another ensemble")


def _remove(nodes: ClusterNodes) -> None:
    with suppress(Exception):  # a node that is still away; what was found out is told
        drop(QdrantClient(url=nodes.urls[-1], check_compatibility=False, timeout=30), _COLLECTION)


def _several(name: str, choices: Sequence[Any], default: Sequence[Any] | None = None) -> Any:
    return click.option(name, multiple=True, type=click.Choice(choices), default=default or choices)


@click.command()
@_several("--replicas", (1, 2), (2, 1))
@_several("--node", [*NODES])
@_several("--work", Work.__args__)  # type: ignore[attr-defined]
@_several("--fault", FaultKind.__args__)  # type: ignore[attr-defined]
@click.option("--documents", "count", default=3000, show_default=True)
@click.option("--pause", default=30.0, show_default=True, help="Seconds that a node is paused for.")
@click.option("--down", default=3.0, show_default=True, help="Seconds until one that was killed is started.")
def main(count: int, pause: float, down: float, **chosen: Any) -> None:
    """Print the table, a row when it is known."""
    nodes = ClusterNodes.of_environment()
    heads = ("copies", "node", "work", "fault", "asked", "failed", "slowest", "work took", "lost", "differ")
    print(f"| {' | '.join((*heads, 'again', 'errors'))} |\n|{'---|' * (len(heads) + 2)}", flush=True)
    # By name: options come in the order in which the command line has them.
    choices = (chosen[name] for name in ("replicas", "node", "work", "fault"))
    for replicas, node, doing, fault in itertools.product(*choices):
        outcome = run(Scenario(replicas, node, doing, fault, count, pause, down), nodes)
        *numbers, _ = astuple(outcome)
        shown = [f"{number:.2f}" if isinstance(number, float) else str(number) for number in numbers]
        errors = "; ".join(dict.fromkeys(outcome.errors))
        print(f"| {' | '.join([str(replicas), node, doing, fault, *shown, errors])} |", flush=True)


if __name__ == "__main__":
    main()
