"""Similarities of token vectors as EvalRank's measure."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.eval.studies.evalrank.ranks import Measure
from surprise_rerank.similarities.bags import Texts
from surprise_rerank.similarities.definitions import Similarity

# The kernels take maxima and sums of float32 products.
_ROUNDING = 1e-5


class TokenMeasure(Measure):
    """A similarity of token vectors, the first item being the query.

    Args:
        similarity: of bags of tokens.
        texts: m items.
    """

    def __init__(self, similarity: Similarity, texts: Texts) -> None:
        self.similarity = similarity
        self.texts = texts

    def scores(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) scores of n pairs of items."""
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        values = [self.similarity.pair(self.texts[a], self.texts[b]) for a, b in pairs]
        return np.array(values, dtype=np.float64)

    def limits(self, first: IntArray, second: IntArray) -> Float64Array:
        """(n,) what a score must exceed to be more than the pair's."""
        return self.scores(first, second) + _ROUNDING

    def rows(self, first: IntArray) -> Float64Array:
        """(b, m) scores of b first items and every item."""
        # A thread for every question: torch's own threads wait for each other in a loop, and beside another
        # busy program that took ten times as long.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(threads) as workers:
                return np.stack(list(workers.map(self._row, first.tolist())))
        finally:
            torch.set_num_threads(threads)

    def _row(self, first: int) -> Float64Array:
        return self.similarity.pool(self.texts[first], self.texts)
