"""Ensembles of anything under any similarity, through a sample of their members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import Float64Array, require_rows
from surprise_rerank.core.moments import Moments

Anchors = TypeVar("Anchors")


@dataclass(frozen=True, slots=True, eq=False)
class SampledEnsemble(Generic[Anchors]):
    """An ensemble under any similarity: DynaMax, BM25, a function of the caller.

    Attributes:
        similarity: anchors -> (n, s) their similarities to the sampled members.
        sampled: s, how many members are compared.
        count: |E|; more than `sampled` where the members are a sample without replacement.

    >>> words = ["tea", "team", "steam"]
    >>> def letters_shared(anchors):
    ...     return [[len(set(a) & set(w)) / len(set(a) | set(w)) for w in words] for a in anchors]
    >>> ensemble = SampledEnsemble(letters_shared, sampled=3, count=3)
    >>> ensemble.moments(["meat"]).mean.round(3)
    array([0.85])
    """

    similarity: Callable[[Anchors], Any]
    sampled: int
    count: int

    def __post_init__(self) -> None:
        border.count("sampled", self.sampled, 0, self.count)

    def similarities(self, anchors: Anchors) -> Float64Array:
        """(n, s) similarities of the anchors to the sampled members."""
        values = np.asarray(self.similarity(anchors), dtype=np.float64)
        require_rows(values, "similarities to the sampled members", self.sampled)
        return values

    def moments(self, anchors: Anchors) -> Moments:
        """(n,) means and deviations over the sampled members."""
        return Moments.of_rows(self.similarities(anchors))

    def percentiles(self, anchors: Anchors) -> Moments:
        """(n,) medians and distances from the median to the 84.134th percentile."""
        return Moments.percentiles(self.similarities(anchors))
