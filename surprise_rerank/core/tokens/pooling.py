"""Fewer vectors for a text: tokens that say the same are merged.

Tokens of a text are clustered by Ward's method over their directions, and each cluster becomes one vector,
the mean of its members (Clavie, Chaffin and Adams 2024, 'Reducing the Footprint of Multi-Vector Retrieval
with Minimal Performance Impact via Token Pooling', arXiv:2409.14683). The vector knows its members, so that
it counts as many tokens as it stands for.
"""

from __future__ import annotations

import math

import numpy as np

from surprise_rerank.core.arrays import Float32Array, IntArray, row_norms, unit_rows
from surprise_rerank.core.tokens.batch import TokenBatch
from surprise_rerank.core.tokens.members import Members, offsets_of
from surprise_rerank.errors import DataError

# Tokens that are clustered together: the time grows with the square, and neighbours in a text are alike.
_TOGETHER = 512


def pooled_tokens(tokens: TokenBatch, factor: float, least: int = 1) -> TokenBatch:
    """A batch with n / factor vectors for a text of n tokens, in float32.

    Every text is merged alone, so that the result does not depend on the batch. Tokens of zeros, which no
    similarity counts, share one vector of zeros.

    Args:
        tokens: of which merged ones stay as they are.
        factor: tokens that a vector stands for, on average; 1 changes nothing.
        least: vectors that a text keeps, where it has as many tokens.

    Raises:
        DataError: if the factor or `least` is less than 1.
    """
    if not factor >= 1 or least < 1:
        raise DataError(
            f"tokens are merged by a factor of at least 1 into at least 1 vector, got {factor}, {least}"
        )
    if factor == 1 or tokens.members is not None:
        return tokens
    owners = [clusters(tokens.text(i, unit=True), factor, least) for i in range(len(tokens))]
    counts = np.array([own.max(initial=-1) + 1 for own in owners], np.int64)
    members = Members(np.concatenate([np.zeros(0, np.int64), *owners]), tokens.offsets)
    offsets = offsets_of(counts)
    means = np.concatenate(
        [np.zeros((0, tokens.dimension), np.float32)]
        + [_means(tokens[i], own) for i, own in enumerate(owners) if len(own)]
    )
    norms = row_norms(means)
    return TokenBatch(unit_rows(means, norms), norms.astype(np.float32), offsets, members=members)


def clusters(unit: Float32Array, factor: float, least: int = 1) -> IntArray:
    """(n,) the cluster of each token, numbered in the order of their first members.

    Ward's method merges the two clusters that add least to the squared distances from the clusters' means,
    until max(ceil(n / factor), least) are left. Long texts are clustered in stretches.

    Args:
        unit: (n, d) vectors of length 1 or 0.
        factor: tokens of a cluster, on average.
        least: clusters that are left, where there are as many tokens.
    """
    known = np.flatnonzero(unit.any(axis=1))
    found = np.full(len(unit), -1, np.int64)
    first, stretches = 0, math.ceil(len(known) / _TOGETHER)
    wanted = max(math.ceil(len(known) / factor), min(len(known), least))
    for i, stretch in enumerate(np.array_split(known, max(stretches, 1))):
        # The remainder goes to the first ones.
        own = wanted * (i + 1) // max(stretches, 1) - wanted * i // max(stretches, 1)
        found[stretch] = first + _ward(unit[stretch], max(own, 1))
        first = int(found.max(initial=-1)) + 1
    found[found < 0] = first
    return _in_order(found)


def _means(vectors: Float32Array, owners: IntArray) -> Float32Array:
    """(k, d) the mean of each cluster's vectors."""
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], np.arange(owners.max() + 1))
    counts = np.diff(np.append(starts, len(owners)))
    sums = np.add.reduceat(vectors[order], starts, dtype=np.float64)  # float32 may not hold them
    means: Float32Array = (sums / counts[:, None]).astype(np.float32)
    return means


def _ward(unit: Float32Array, count: int) -> IntArray:
    """(n,) the cluster of each vector of length 1, `count` of them."""
    from scipy.cluster.hierarchy import linkage

    n = len(unit)
    if count >= n:
        return np.arange(n)
    products = unit @ unit.T
    distances = np.sqrt(np.maximum(2.0 - 2.0 * products[np.triu_indices(n, 1)].astype(np.float64), 0.0))
    merged = linkage(distances, "ward")[: n - count, :2].astype(np.int64)
    # Cluster n + i is what step i merged; going back, each takes the name of the one that it went into.
    name = np.arange(2 * n - count)
    for i in range(len(merged) - 1, -1, -1):
        name[merged[i]] = name[n + i]
    return name[:n]


def _in_order(labels: IntArray) -> IntArray:
    """Labels numbered anew, in the order in which they occur."""
    _, firsts, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(firsts), np.int64)
    number[np.argsort(firsts)] = np.arange(len(firsts))
    return number[inverse]
