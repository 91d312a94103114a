"""One thread for what one question multiplies."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermBatch, TermSpace
from surprise_rerank.core.threads import using_threads
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank.auto import AutoReranker
from surprise_rerank.surprise.ensemble import Ensemble


def test_a_limit_holds_for_its_block_and_its_thread() -> None:
    before, seen = torch.get_num_threads(), list[int]()
    with using_threads(3):
        assert torch.get_num_threads() == 3
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads what each thread has computed from /proc")
def test_a_question_is_ranked_by_the_thread_that_asks() -> None:
    rng = np.random.default_rng(5)
    reranker, query, pool = _scene(rng)
    reranker.rerank(query, pool)
    own, others = _ticks()
    while _ticks()[0] - own < 40:
        reranker.rerank(query, pool)
    after, after_others = _ticks()
    # Threads of an earlier product may look for work a moment longer.
    assert after_others - others <= 0.2 * (after - own)


def _ticks() -> tuple[int, int]:
    """What this thread has computed, and what all others of the process, in hundredths of a second."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[int(task.name)] = int(fields[11]) + int(fields[12])
    own = found.pop(threading.get_native_id())
    return own, sum(found.values())


def _scene(rng: np.random.Generator, n: int = 200, d: int = 384) -> tuple[AutoReranker, Query, Candidates]:
    """A question of 60 tokens, and a pool as large as that of a hybrid search."""

    def unit(*shape: int) -> Float32Array:
        return unit_rows(rng.normal(size=shape).astype(np.float32))

    def terms(count: int) -> TermBatch:
        texts = [np.unique(rng.integers(0, 2000, 60)) for _ in range(count)]
        return TermBatch.of([(own, np.ones(len(own))) for own in texts])

    def tokens(count: int) -> TokenBatch:
        return TokenBatch.from_arrays([unit(40, d) for _ in range(count)])

    reranker = AutoReranker(Ensemble.from_vectors(unit(128, d)), tokens(128), TermSpace(terms(128)))
    pool = Candidates(
        tuple(f"d{i:03}" for i in range(n)),
        scores={"bm25": rng.random(n)},
        dense=unit(n, d),
        tokens=tokens(n),
        terms=terms(n),
        corpus_moments={"bm25": Moments(np.asarray(0.1), np.asarray(0.2))},
    )
    return reranker, Query("long " * 60, unit(d), unit(60, d)), pool
