"""Killed at random moments: the same pairs as without."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from surprise_rerank import StoreError
from surprise_rerank.connectors.similar import RayCluster, SimilaritySettings, similar_documents
from surprise_rerank.core.arrays import unit_rows

KILLS = 3
# Parts of 32 documents, and each takes a little.
JOB = """
import sys, time
import numpy as np
from surprise_rerank.connectors.similar import SimilaritySettings, similar_documents
from surprise_rerank.connectors.similar import _comparing as comparing, _corpus as corpus
from surprise_rerank.connectors.similar import _settings as settings

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


def job(*arguments: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", JOB, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_job_that_is_killed_again_and_again_gives_the_same_pairs(tmp_path):
    vectors, work, out, whole = (tmp_path / name for name in ("x.npy", "work", "out.csv", "whole.csv"))
    x = unit_rows(np.random.default_rng(0).normal(size=(1500, 24)).astype(np.float32))
    np.save(vectors, x)
    similar_documents((range(len(x)), x), SimilaritySettings(k=5)).write(whole)
    rng = random.Random(0)
    for _ in range(KILLS):
        process = job(vectors, work, out)
        process.stdout.readline()
        before = len(list(work.glob("pairs-*.parquet")))
        time.sleep(rng.uniform(0, 0.6))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert len(list(work.glob("pairs-*.parquet"))) >= before
        assert not out.exists()
    assert job(vectors, work, out).wait() == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not work.exists()


@pytest.mark.timeout(100)  # Ray itself tries for five minutes
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:100000"])
def test_a_cluster_that_is_not_there_is_an_error_at_once(address, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(StoreError, match="cannot be reached"):
        RayCluster(address).run(lambda: None, [0], lambda count: None)
