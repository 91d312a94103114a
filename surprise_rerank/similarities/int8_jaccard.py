"""DynaMax-Jaccard of many pairs of texts, equal to the last bit on every machine.

`DynaMax("jaccard", "joint")` over unit tokens, as the paper has it: the universe is the tokens of both texts
X and Y, each of which belongs to its own text with membership 1, so that

    J(X, Y) = (sum over x of mu_Y(x) + sum over y of mu_X(y)) / (|X| + |Y|),   mu_Y(x) = max(0, max <x, y>)

The last bits of `DynaMax.pool` depend on the rest of the pool, because its sums begin where a chunk begins.
Here tokens are compared as stored, in int8. Their products are whole numbers, which are exact in any order of
summation. Memberships are added up in whole numbers of 2^-32, which is exact, too. So the result does not
depend on blocks, threads, workers or processors, and J(X, Y) = J(Y, X). A vector that several tokens were
merged into counts as many times, which are whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

import numpy as np
import torch

from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.device import device_of, processor_has
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import known_tokens

# (t, d) and (m, d) int8 -> (t, m) float32: the whole numbers of their products.
_Product: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# Tokens of one side that are multiplied at a time, and products: about the size of a processor's cache.
_TOKENS, _PRODUCTS = 256, 1 << 19
# An accelerator is faster with more at a time.
_DEVICE_TOKENS, _DEVICE_PRODUCTS = 4096, 1 << 26
# Memberships are added up in whole numbers of this part.
_PARTS = 2.0**32
# The largest product of two components, and the whole numbers up to which float32 is exact.
_LARGEST, _WITHOUT_GAPS = 127**2, 1 << 24


def joint_jaccard(first: TokenBatch, second: TokenBatch, *, device: str = "cpu") -> Float64Array:
    """The similarity of every text of one batch to every text of another.

    Args:
        first: n texts; other storages than int8 are rounded to it.
        second: k texts of the same dimension.
        device: where to multiply: `cpu`, `cuda`, ...

    Returns:
        (n, k) float64, from 0 to 1; 0 where neither text has tokens.

    Raises:
        DataError: if the dimensions differ, or there is no such device.

    >>> tea, green_tea = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> joint_jaccard(TokenBatch.from_arrays([tea]), TokenBatch.from_arrays([tea, green_tea])).round(3)
    array([[1.   , 0.667]])
    """
    if first.dimension != second.dimension:
        raise DataError(f"token vectors of dimension {first.dimension} and {second.dimension} do not compare")
    place = device_of(device)
    x, y = _Side(first.stored("int8"), place), _Side(second.stored("int8"), place)
    multiply = _product(place, first.dimension)
    on_cpu = place.type == "cpu"
    tokens, products = (_TOKENS, _PRODUCTS) if on_cpu else (_DEVICE_TOKENS, _DEVICE_PRODUCTS)
    common = np.zeros((len(first), len(second)))
    for a, b in _runs(x.offsets, tokens):
        width = max(int(x.offsets[b] - x.offsets[a]), 1)
        for c, d in _runs(y.offsets, max(products // width, 1)):
            common[a:b, c:d] = _common(x, (a, b), y, (c, d), multiply)
    sizes = x.sizes[:, None] + y.sizes
    similarity: Float64Array = np.divide(common, sizes, out=np.zeros_like(common), where=sizes > 0)
    return similarity


@cache
def multiplies_int8() -> bool:
    """Whether this processor multiplies int8 faster than float32, and exactly.

    With AVX2 alone torch takes thirty times as long as for float32 (measured on Zen 3). Some processors add
    the products up in 16 bits, which overflow. It is False where torch does not report the capabilities.
    """
    return processor_has("avx512_vnni", "avx_vnni", "amx_int8") and int8_is_exact()


@cache
def int8_is_exact() -> bool:
    """Whether torch's products of int8 are exact here, however fast."""
    if not hasattr(torch, "_int_mm"):
        return False
    largest = torch.full((128, 512), 127, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest[:64].T) == 512 * 127**2).all())


class _Side:
    """The texts of one side, where they are multiplied."""

    def __init__(self, batch: TokenBatch, place: torch.device) -> None:
        self.offsets = batch.offsets
        self.weights = batch.weights
        self.sizes = _sums(self.weights * known_tokens(batch), batch.offsets)
        self.tokens = torch.from_numpy(np.ascontiguousarray(batch.directions)).to(place)
        self.scales = torch.from_numpy(np.ascontiguousarray(batch.scales)).to(place)

    def rows(self, texts: tuple[int, int]) -> slice:
        """Where the tokens of consecutive texts are."""
        return slice(int(self.offsets[texts[0]]), int(self.offsets[texts[1]]))

    def starts(self, texts: tuple[int, int]) -> IntArray:
        """Where each text begins and ends among the tokens of consecutive ones."""
        starts: IntArray = self.offsets[texts[0] : texts[1] + 1] - self.offsets[texts[0]]
        return starts


def _common(
    x: _Side, of_x: tuple[int, int], y: _Side, of_y: tuple[int, int], multiply: _Product
) -> Float64Array:
    """(n, k) sums over both texts' tokens of the membership in the other text."""
    rows, columns = y.rows(of_y), x.rows(of_x)
    starts, lasts = x.starts(of_x), y.starts(of_y)
    n, k = len(starts) - 1, len(lasts) - 1
    if rows.start == rows.stop or columns.start == columns.stop:
        return np.zeros((n, k))
    raw = multiply(y.tokens[rows], x.tokens[columns])
    # The factors of both tokens are multiplied first: then the rounding is symmetric.
    shares = raw.mul_(y.scales[rows, None] * x.scales[columns])
    owners = torch.from_numpy(np.repeat(np.arange(k), np.diff(lasts))).to(shares.device)
    in_y = torch.zeros((k, shares.shape[1]), device=shares.device)
    in_y.scatter_reduce_(0, owners[:, None].expand(-1, shares.shape[1]), shares, "amax")
    in_x = torch.zeros((n, shares.shape[0]), device=shares.device)
    for text in np.flatnonzero(np.diff(starts)).tolist():
        torch.amax(shares[:, int(starts[text]) : int(starts[text + 1])], dim=1, out=in_x[text])
    inside = _sums(_parts(in_y) * x.weights[columns], starts).T
    whole: Float64Array = (inside + _sums(_parts(in_x) * y.weights[rows], lasts)) / _PARTS
    return whole


def _parts(memberships: torch.Tensor) -> IntArray:
    """Memberships in whole numbers of 2^-32, whose sums are exact."""
    parts = memberships.clamp_(0.0, 1.0).double().mul_(_PARTS).round_()
    whole: IntArray = parts.to(torch.int64).cpu().numpy()
    return whole


def _sums(values: IntArray, ends: IntArray) -> IntArray:
    """(..., total) numbers of tokens to (..., n) sums over each text, from where the texts begin and end."""
    before = np.zeros((*values.shape[:-1], values.shape[-1] + 1), np.int64)
    np.cumsum(values, axis=-1, out=before[..., 1:])
    sums: IntArray = np.diff(before[..., ends], axis=-1)
    return sums


def _runs(offsets: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Runs of consecutive texts that have at most so many tokens; a longer text is a run of its own."""
    start, texts = 0, len(offsets) - 1
    while start < texts:
        stop = int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1
        yield start, max(stop, start + 1)
        start = max(stop, start + 1)


def _product(place: torch.device, dimension: int) -> _Product:
    """The fastest product that is exact."""
    # `_int_mm` is wrong where tokens have one component.
    if place.type == "cpu" and dimension > 1 and multiplies_int8():
        return lambda tokens, others: torch._int_mm(tokens, others.T).float()
    wide = torch.float32 if dimension * _LARGEST < _WITHOUT_GAPS else torch.float64
    return lambda tokens, others: (tokens.to(wide) @ others.to(wide).T).float()
