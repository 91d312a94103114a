"""Vectors as a corpus has them: around topics, in a cone."""

from __future__ import annotations

import numpy as np

from surprise_rerank.core.arrays import unit_rows

CLUSTERS = 1000


def clustered(first: int, last: int, dimension: int) -> np.ndarray:
    """(last - first, d) unit vectors around centres that lie in a cone; another first row gives others."""
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, dimension), dtype=np.float32)
    centres[:, 0] += 0.3 * dimension**0.5
    random = np.random.default_rng([1, first])
    noise = random.standard_normal((last - first, dimension), dtype=np.float32)
    return unit_rows(centres[random.integers(0, CLUSTERS, last - first)] + noise)
