"""What Ray's workers make is what one process makes, also when a worker is killed."""

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, StoreError
from surprise_rerank.connectors._lucene.signal_handlers import kept_handlers
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant._schema import STORED_FIELDS
from surprise_rerank.connectors.qdrant._writing import indexing
from surprise_rerank.connectors.similar import RayCluster, RayEncoder, SimilaritySettings, similar_documents
from surprise_rerank.core.arrays import unit_rows

ray = pytest.importorskip("ray")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Ray on this machine, whose workers can import what tests define; a place is free while others end."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        environment.setenv("RAY_memory_monitor_refresh_ms", "0")
        # By itself 15: beside other tests, workers get a fiftieth of a core then, and Ray gives up waiting.
        environment.setenv("RAY_worker_niceness", "0")
        environment.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]))
        with kept_handlers():  # of a Java in this process
            ray.init(
                address="local",
                num_cpus=4,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                object_store_memory=200 * 2**20,
                _temp_dir=tempfile.mkdtemp(prefix="ray-"),  # short: the paths of its sockets have a limit
                log_to_driver=False,
            )
        yield RayCluster(workers=2)
        with kept_handlers():
            ray.shutdown()


@contextlib.contextmanager
def killing(processes: Path, seconds: float = 0.0) -> Iterator[None]:
    """Kill the first worker that notes itself in the folder, so much later; another one takes its place."""
    processes.mkdir()

    def kill() -> None:
        while not (workers := list(processes.iterdir())):
            time.sleep(0.02)
        time.sleep(seconds)
        os.kill(int(workers[0].name), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join()
    assert len(list(processes.iterdir())) >= 2
    assert not (processes / str(os.getpid())).exists()


class Telling(WordEncoder):
    """Takes its time for documents, and notes the process that encodes them, so that a test can kill it."""

    def __init__(self, processes: Path) -> None:
        super().__init__()
        self.processes = processes

    def encode(self, texts, kind="document", on_progress=None):
        if kind == "document":
            (self.processes / str(os.getpid())).touch()
            time.sleep(0.1)
        return super().encode(texts, kind, on_progress)


class Refusing(WordEncoder):
    """Refuses every document, as a model does that reads another language."""

    def encode(self, texts, kind="document", on_progress=None):
        raise DataError("the model refuses these texts")


def documents(count: int) -> list[Document]:
    """Texts of 8 to 30 words, as frequent as words are, so that next to no scores are equal."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 31, count)
    texts = [" ".join(f"w{word}" for word in rng.zipf(1.3, length) % 5000) for length in lengths]
    return [Document(f"d{i}", text) for i, text in enumerate(texts)]


def points(index: DocumentIndex) -> dict[Any, Any]:
    """Everything that is stored, by the ids of points."""
    batches = index.corpus.storage.engine.scroll(STORED_FIELDS, ("dense", "tokens", "bm25"))
    records = (record for batch in batches for record in batch)
    return {record.id: (record.payload, repr(sorted(record.vectors.items()))) for record in records}


def test_an_index_of_rays_workers_is_that_of_one_process(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(indexing, "_WINDOW", 16)
    encoder, rows = WordEncoder(), documents(600)
    for name in ("here", "ray"):
        with DocumentIndex.open(tmp_path / name, encoder) as index:
            index.sync(rows[:50], background=False)
            index.set_ensemble(index.ensemble())
    with DocumentIndex.open(tmp_path / "here", encoder) as here:
        here.sync(rows, background=False)
    telling = RayEncoder(Telling(tmp_path / "processes"), workers=2)
    with killing(tmp_path / "processes"), DocumentIndex.open(tmp_path / "ray", telling) as index:
        assert index.sync(rows, background=False).added == 550
        assert index.sync(rows, background=False).unchanged == 600
    with (
        DocumentIndex.open(tmp_path / "here", encoder) as here,
        DocumentIndex.open(tmp_path / "ray", encoder) as clustered,
    ):
        assert points(clustered) == points(here)
        for name in ("points", "filled", "terms", "counts"):
            ours, theirs = (getattr(index.corpus.term_statistics(), name) for index in (here, clustered))
            np.testing.assert_array_equal(theirs, ours)
        questions = [row.text[:40] for row in rows[:100]]
        # Not `auto`: two folders filled alike differ in it, as whose feedback counts may turn on a rounding.
        for system in ("cosine", "bm25", "dynamax"):
            pipelines = [index.pipeline(system) for index in (here, clustered)]
            orders = [[pipeline.search(question).ids for question in questions] for pipeline in pipelines]
            assert orders[0] == orders[1]


class Slow:
    """Sleeps in every part and notes its process, so that a test can kill it."""

    def __init__(self, make, processes):
        self.make, self.processes = make, processes

    def __call__(self):
        step = self.make()
        (Path(self.processes) / str(os.getpid())).touch()

        def slow(number):
            time.sleep(0.3)
            step(number)

        return slow


def test_pairs_of_rays_workers_are_those_of_one_process(tmp_path, cluster, monkeypatch):
    monkeypatch.setitem(SimilaritySettings.__init__.__globals__["_PART_ROWS"], "surprise", 100)
    x = unit_rows(np.random.default_rng(0).normal(size=(1500, 24)).astype(np.float32))
    here = similar_documents((range(len(x)), x), SimilaritySettings(k=5)).table()

    def run(make, numbers, advance):
        cluster.run(Slow(make, str(tmp_path / "processes")), numbers, advance)

    with killing(tmp_path / "processes", 0.5):
        settings = {"folder": tmp_path / "work", "run": run}
        similar = similar_documents((range(len(x)), x), SimilaritySettings(k=5), **settings)
    assert similar.table().equals(here)


def broken():
    def step(number):
        raise StoreError("the disk of the worker is full")

    return step


def test_an_error_of_a_worker_is_ours(tmp_path, cluster):
    with pytest.raises(StoreError, match="the disk of the worker is full"):
        cluster.run(broken, [0, 1], lambda count: None)
    with (
        DocumentIndex.open(tmp_path / "index", RayEncoder(Refusing(), workers=1)) as index,
        pytest.raises(DataError, match="the model refuses these texts"),
    ):
        index.sync(documents(3), background=False)
