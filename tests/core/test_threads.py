"""One thread for what one question multiplies."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import torch

from surprise_rerank.core._computing import using_threads


def test_a_limit_holds_for_its_block_and_its_thread():
    before, seen = torch.get_num_threads(), list[int]()
    with using_threads(3):
        with using_threads(None):
            assert torch.get_num_threads() == 3
        with using_threads(1):
            assert torch.get_num_threads() == 1
            other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
            other.start()
            other.join()
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    assert seen == [before]


# A question of 60 tokens, and a pool as large as that of a hybrid search.
CODE = """
import time
import numpy as np
from surprise_rerank import Candidates, Ensemble, Query
from surprise_rerank.rerank._auto import AUTO
from surprise_rerank.core.tokens import TokenBatch

rng = np.random.default_rng(5)
vectors = lambda *shape: rng.normal(size=shape).astype(np.float32)
tokens = lambda count: TokenBatch.from_arrays([vectors(40, 384) for _ in range(count)])
reranker, _ = AUTO.reranker(Ensemble.from_vectors(vectors(128, 384)), tokens(128), words=False)
pool = Candidates(tuple(f"d{i:03}" for i in range(200)), dense=vectors(200, 384), tokens=tokens(200))
query = Query("long " * 60, vectors(384), vectors(60, 384))
reranker.rerank(query, pool)
time.sleep(0.3)  # threads of an earlier product look for work a moment longer
whole, own = time.process_time(), time.thread_time()
while time.thread_time() - own < 0.3:
    reranker.rerank(query, pool)
mine = time.thread_time() - own
print((time.process_time() - whole) / mine)
"""


def test_a_question_is_ranked_by_the_thread_that_asks():
    """In a process that may use more of them, as those of the tests may not."""
    environment = {**os.environ, "OMP_NUM_THREADS": "4"}
    command, root = [sys.executable, "-c", CODE], Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, check=True)
    assert float(done.stdout) < 1.2
