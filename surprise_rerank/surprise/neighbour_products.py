"""Scores of a block of queries against a block of keys in float32, to find candidates for exact scoring.

One product of augmented vectors gives the surprise z of every pair (`linear_form.py`). Comparing and choosing
take place where the product is, in a processor's memory or an accelerator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray

# Rows and columns of the pairs that were picked, and their scores.
Picked: TypeAlias = tuple[IntArray, IntArray, Float32Array]

# Columns whose k-th best is taken for that of the block, for rows without a result yet.
_FIRST_COLUMNS = 2048
# Pairs that are chosen at a time: of many equal documents, all pairs are chosen.
_PICKED = 1 << 20
# Units in the last place of a product's inputs: float32, and TensorFloat-32 where a user switched it on.
FLOAT32, _TENSOR_FLOAT32 = 2.0**-24, 2.0**-11


class Products(Protocol):
    """Products of one block of queries with one block of keys after another."""

    @property
    def unit(self) -> float:
        """The relative rounding of one factor."""
        ...

    def multiply(self, keys: Float32Array) -> None:
        """Multiply with (n, d + 1) augmented keys, and keep the scores."""
        ...

    def kth_best(self, k: int) -> Float64Array:
        """(m,) at most the k-th best score of each query; -inf where there are fewer than k keys."""
        ...

    def at_least(self, thresholds: Float64Array) -> Iterator[Picked]:
        """The pairs that score at least their query's threshold, ordered by query, some queries at a time."""
        ...


def products(queries: Float32Array, device: str) -> Products:
    """The products of (m, d + 1) augmented queries, on a device by torch's name.

    Raises:
        DataError: if there is no such device.
    """
    return CpuProducts(queries) if device == "cpu" else TorchProducts(queries, device)


class CpuProducts:
    """In numpy, whose product and comparisons were faster on two cores than torch's, alone and in threads."""

    unit = FLOAT32

    def __init__(self, queries: Float32Array) -> None:
        self._queries = queries
        self._memory = np.empty(0, np.float32)
        self._flags = np.empty(0, np.bool_)
        self._scores = np.empty((len(queries), 0), np.float32)

    def multiply(self, keys: Float32Array) -> None:
        """See `Products`."""
        shape = (len(self._queries), len(keys))
        size = shape[0] * shape[1]
        if len(self._memory) < size:  # used again: new memory costs a large part of a product
            self._memory, self._flags = np.empty(size, np.float32), np.empty(size, np.bool_)
        self._scores = np.matmul(self._queries, keys.T, out=self._memory[:size].reshape(shape))

    def kth_best(self, k: int) -> Float64Array:
        """See `Products`."""
        first = self._scores[:, : max(_FIRST_COLUMNS, k)]
        n = first.shape[1]
        if n < k:
            return np.full(len(first), -np.inf)
        return np.partition(first, n - k, axis=1)[:, n - k].astype(np.float64)

    def at_least(self, thresholds: Float64Array) -> Iterator[Picked]:
        """See `Products`."""
        scores, width = self._scores, self._scores.shape[1]
        flags = self._flags[: scores.size].reshape(scores.shape)
        np.greater_equal(scores, _rounded_down(thresholds)[:, None], out=flags)
        few = np.count_nonzero(flags) <= _PICKED
        for part in [slice(0, len(scores))] if few else _parts(np.count_nonzero(flags, axis=1)):
            chosen = np.flatnonzero(flags[part])
            rows, columns = np.divmod(chosen, width)
            yield rows + part.start, columns, scores[part].ravel()[chosen]


class TorchProducts:
    """In torch, on an accelerator or the processor."""

    def __init__(self, queries: Float32Array, device: str) -> None:
        import torch

        from surprise_rerank.core.device import device_of

        self._torch = torch
        self._device = device_of(device)
        self._queries = torch.from_numpy(queries).to(self._device)
        self._scores = torch.empty((len(queries), 0), device=self._device)

    @property
    def unit(self) -> float:
        """See `Products`; coarser where TensorFloat-32 was switched on."""
        if self._device.type != "cuda":
            return FLOAT32
        settings = self._torch.backends.cuda.matmul
        # Where the newer setting was used, reading the older one is an error.
        newer = getattr(settings, "fp32_precision", None)
        coarse = settings.allow_tf32 if newer is None else newer == "tf32"
        return _TENSOR_FLOAT32 if coarse else FLOAT32

    def multiply(self, keys: Float32Array) -> None:
        """See `Products`."""
        self._scores = self._queries @ self._torch.from_numpy(keys).to(self._device).T

    def kth_best(self, k: int) -> Float64Array:
        """See `Products`."""
        if self._scores.shape[1] < k:
            return np.full(len(self._queries), -np.inf)
        best = self._torch.topk(self._scores, k, dim=1, sorted=True).values[:, -1]
        return np.asarray(best.cpu().numpy(), np.float64)

    def at_least(self, thresholds: Float64Array) -> Iterator[Picked]:
        """See `Products`."""
        least = self._torch.from_numpy(_rounded_down(thresholds)).to(self._device)
        flags = self._scores >= least[:, None]
        for part in _parts(flags.sum(dim=1).cpu().numpy()):
            rows, columns = flags[part].nonzero(as_tuple=True)
            scores = self._scores[part][rows, columns]
            yield rows.cpu().numpy() + part.start, columns.cpu().numpy(), scores.cpu().numpy()


def _parts(counts: IntArray) -> list[slice]:
    """Runs of rows that have so many flags together, at most; a row may have more."""
    whole = np.cumsum(counts)
    ends = [0]
    while ends[-1] < len(counts):
        before = int(whole[ends[-1] - 1]) if ends[-1] else 0
        end = int(np.searchsorted(whole, before + _PICKED, side="right"))
        ends.append(max(end, ends[-1] + 1))
    return [slice(*pair) for pair in pairwise(ends)]


def _rounded_down(thresholds: Float64Array) -> Float32Array:
    """The largest float32 that is not above a threshold, so that rounding misses no pair."""
    nearest = thresholds.astype(np.float32)
    down: Float32Array = np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return down
