"""Half as many tokens of each document: left out, or merged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.cluster import hierarchy

from surprise_rerank.core.arrays import Float32Array, row_norms, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError

FORMS = ("longest half", "every other", "pairs", "clusters")
_BLOCK = 256


def reduced(tokens: TokenBatch, form: str, advance: Callable[[int], None] = lambda count: None) -> TokenBatch:
    """The same texts with half of their tokens, rounded up, stored as before.

    Args:
        tokens: of n texts.
        form: `longest half` leaves out those of the shortest vectors, `every other` each second one; `pairs`
            adds neighbours, `clusters` what Ward's method puts together (Clavie, Chaffin and Adams, 'Reducing
            the footprint of multi-vector retrieval with minimal performance impact via token pooling', 2024).
        advance: called with the number of texts of every finished part.

    Raises:
        DataError: if the form is not known.
    """
    if form not in _REDUCE:
        raise DataError(f"tokens cannot be reduced by {form!r}; choose one of {', '.join(FORMS)}")
    parts = []
    for start in range(0, len(tokens), _BLOCK):
        rows = range(start, min(start + _BLOCK, len(tokens)))
        texts = [_REDUCE[form](tokens[i]) if tokens.lengths[i] > 1 else tokens[i] for i in rows]
        parts.append(TokenBatch.from_arrays(texts, tokens.dimension).stored(tokens.storage))
        advance(len(rows))
    return TokenBatch.concatenate(parts)


def _longest(x: Float32Array) -> Float32Array:
    kept = np.sort(np.argsort(-row_norms(x), kind="stable")[: -(-len(x) // 2)])
    return x[kept]


def _pairs(x: Float32Array) -> Float32Array:
    return np.add.reduceat(x, np.arange(0, len(x), 2), axis=0)


def _clusters(x: Float32Array) -> Float32Array:
    tree = hierarchy.ward(unit_rows(x).astype(np.float64))
    labels = hierarchy.fcluster(tree, -(-len(x) // 2), criterion="maxclust") - 1
    merged = np.zeros((labels.max() + 1, x.shape[1]), np.float32)
    np.add.at(merged, labels, x)
    return merged


_REDUCE: dict[str, Callable[[Float32Array], Float32Array]] = {
    "longest half": _longest,
    "every other": lambda x: x[::2],
    "pairs": _pairs,
    "clusters": _clusters,
}
