"""Killed processes: nothing is lost, nothing is there twice, and the next run goes on."""

import random
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from helpers.programs import Program
from helpers.words import WordEncoder

from surprise_rerank import Document, Ensemble, Passages
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SurpriseRetriever
from surprise_rerank.connectors.qdrant._engines import edge_shard
from surprise_rerank.encoders.base import encode_queries

TOTAL = 1000
KILLS = 10
QUESTIONS = ["w1 w2", "w3", "w4 w5 w6"]
# Passages, an ensemble and an augmented vector: everything that is written in several steps.
OPTIONS = IndexOptions(passages=Passages(overlap=2), surprise_vector=True)


def serve(told: Connection, folder: Path, most_in_log: int) -> None:
    """Changes the index in small steps, as a server does, and waits to be killed."""
    edge_shard._MOST_IN_LOG = most_in_log
    with opened(folder) as index:
        index.corpus.storage.engine.leave_to_others()
        for document in documents()[8:20]:
            index.sync([document], background=False)
        index.delete(["3"])
        told.send("done")
        time.sleep(60)


def fill(told: Connection, folder: Path, method: str) -> None:
    """Opens the index and fills it."""
    with opened(folder) as index:
        told.send("open")
        getattr(index, method)(documents())
        told.send("done")


def killed(folder: Path, method: str, when: Callable[[], None], *, opened: bool) -> bool:
    """Kill one that fills an index, some time after it has begun or has opened it; whether it was done."""
    program = Program(fill, folder, method)
    if opened:
        assert program.said() == "open"
    when()
    return "done" in program.kill()


def documents() -> list[Document]:
    """Every fifth one is in several passages."""
    return [Document(str(i), f"text w{i} " + "word. " * (40 if i % 5 == 0 else 3)) for i in range(TOTAL)]


def opened(folder: Path) -> DocumentIndex:
    """The index, with an ensemble."""
    encoder = WordEncoder(window=12)
    index = DocumentIndex.open(folder, encoder, options=OPTIONS)
    if index.manifest.statistics is None:
        index.set_ensemble(Ensemble.from_vectors(encoder.encode(QUESTIONS).dense))
    return index


@pytest.mark.slow
def test_kills_lose_nothing_and_store_nothing_twice(tmp_path):
    with opened(tmp_path / "unbroken") as index:
        index.sync(documents())
        expected = state(index)
    moments = random.Random(4)
    folder = tmp_path / "killed"
    before = 0
    for kill in range(KILLS):
        # Every fourth one while it opens the index.
        seconds = moments.uniform(0.0, 0.4 if kill % 4 else 0.05)
        was_done = killed(folder, "sync", partial(time.sleep, seconds), opened=kill % 4 > 0)
        with opened(folder) as index:
            now = len(index)
            assert before <= now <= TOTAL
            before = now
            if was_done or now == TOTAL:  # there is nothing left to interrupt: begin again
                index.delete([str(i) for i in range(TOTAL)])
                assert index.status().points == 0
                before = 0
    with opened(folder) as index:
        report = index.sync(documents())
        assert report.added + report.updated + report.unchanged == TOTAL
        assert state(index) == expected


def state(index: DocumentIndex) -> dict[tuple[str, int], tuple[object, ...]]:
    """Everything that is stored, by document and passage."""
    ids = [str(i) for i in range(TOTAL)]
    found = index.fetch(ids, frozenset({"documents", "dense", "tokens"}))
    assert found.passages is not None
    points = {
        (name, passage.number): (
            found.documents[i],
            passage,
            found.dense[i].tobytes(),
            found.tokens.directions[found.tokens.offsets[i] : found.tokens.offsets[i + 1]].tobytes(),
        )
        for i, (name, passage) in enumerate(zip(found.ids, found.passages, strict=True))
    }
    status = index.status()
    assert (len(index), status.points, status.behind) == (TOTAL, len(points), 0)
    (query,) = encode_queries(index.encoder, ["w1 text word."])
    pools = [
        SurpriseRetriever(index.corpus, mode=mode, pool=10_000).retrieve(query, 50)
        for mode in ("formula", "vector")
    ]
    assert pools[0].ids == pools[1].ids
    return points


@pytest.mark.parametrize("most_in_log", [5, 10_000])
def test_what_a_server_has_answered_is_there_after_it_was_killed(tmp_path, most_in_log):
    """Also what its segments on disk lack: they are written now and then, the log with every change."""
    with opened(tmp_path) as index:
        index.sync(documents()[:8], background=False)
    program = Program(serve, tmp_path, most_in_log)
    assert program.said() == "done"
    program.kill()
    with opened(tmp_path) as index:
        assert set(index.ids()) == {str(i) for i in range(20) if i != 3}
        report = index.sync(documents()[:20], background=False)
        assert (report.added, report.unchanged) == (1, 19)
        assert index.status().behind == 0


def test_a_killed_rebuild_leaves_the_old_version_in_use(tmp_path):
    folder = tmp_path / "index"
    with opened(folder) as index:
        index.sync(documents()[:100])

    def begun() -> None:
        while not (folder / "2" / "manifest.json").exists():
            time.sleep(0.01)
        time.sleep(0.2)

    assert not killed(folder, "rebuild", begun, opened=True)
    with opened(folder) as index:
        assert len(index) == 100
        index.rebuild(documents()[:300])
        assert len(index) == 300
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["2"]
