"""Killed at random moments, here and as a worker of Ray: the same pairs as without."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from surprise_rerank.connectors.similar import RayCluster, SimilaritySettings, similar_documents
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.errors import StoreError

KILLS = 5
# Parts of 32 documents, and each takes a little.
JOB = """
import sys, time
import numpy as np
from surprise_rerank.connectors.similar import SimilaritySettings, similar_documents
from surprise_rerank.connectors.similar import comparing, corpus, settings

corpus.CHUNK = 64
settings._PART_ROWS["surprise"] = 32
write = comparing._Comparer.write
comparing._Comparer.write = lambda self, number: (time.sleep(0.02), write(self, number))
x = np.load(sys.argv[1])
print("begun", flush=True)
similar = similar_documents((range(len(x)), x), SimilaritySettings(k=5), folder=sys.argv[2])
similar.write(sys.argv[3])
similar.forget()
"""


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "x.npy"
    np.save(path, unit_rows(np.random.default_rng(0).normal(size=(1500, 24)).astype(np.float32)))
    return path


def job(vectors: Path, work: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", JOB, str(vectors), str(work), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_job_that_is_killed_again_and_again_gives_the_same_pairs(tmp_path, vectors):
    whole, out, work = tmp_path / "whole.csv", tmp_path / "out.csv", tmp_path / "work"
    assert job(vectors, tmp_path / "other", whole).wait() == 0
    rng, killed = random.Random(0), 0
    for _ in range(KILLS):
        process = job(vectors, work, out)
        assert process.stdout is not None
        process.stdout.readline()
        before = len(list(work.glob("pairs-*.parquet")))
        time.sleep(rng.uniform(0, 0.6))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        assert len(list(work.glob("pairs-*.parquet"))) >= before
        assert not out.exists()
    assert killed == KILLS
    assert job(vectors, work, out).wait() == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not work.exists()


class Slow:
    """Sleeps in every part and tells its process, so that a test can kill it."""

    def __init__(self, make, folder):
        self.make, self.folder = make, folder

    def __call__(self):
        step = self.make()
        (Path(self.folder) / str(os.getpid())).touch()

        def slow(number):
            time.sleep(0.3)
            step(number)

        return slow


@pytest.mark.slow
def test_a_worker_of_ray_that_is_killed_changes_nothing(tmp_path, vectors, cluster, monkeypatch):
    monkeypatch.setitem(SimilaritySettings.__init__.__globals__["_PART_ROWS"], "surprise", 100)
    x, settings = np.load(vectors), SimilaritySettings(k=5)
    here = similar_documents((range(len(x)), x), settings).table()
    processes = tmp_path / "processes"
    processes.mkdir()

    def kill() -> None:
        while not (running := list(processes.iterdir())):
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(int(running[0].name), signal.SIGKILL)

    def run(make, numbers, advance):
        cluster.run(Slow(make, str(processes)), numbers, advance)

    thread = threading.Thread(target=kill)
    thread.start()
    similar = similar_documents((range(len(x)), x), settings, folder=tmp_path / "work", run=run)
    thread.join()
    assert len(list(processes.iterdir())) >= 2
    assert similar.table().equals(here)


def broken():
    def step(number):
        raise StoreError("the disk of the worker is full")

    return step


@pytest.mark.slow
def test_an_error_of_a_worker_is_ours(cluster):
    with pytest.raises(StoreError, match="the disk of the worker is full"):
        cluster.run(broken, [0, 1], lambda count: None)


@pytest.mark.timeout(100)  # Ray itself tries for five minutes
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:100000"])
def test_a_cluster_that_is_not_there_is_an_error_at_once(address, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(StoreError, match="cannot be reached"):
        RayCluster(address).run(broken, [0], lambda count: None)
