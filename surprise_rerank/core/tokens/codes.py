"""Token vectors in 4, 2 or 1 bits a component, with a factor that keeps their products unbiased.

Vectors of length 1 are rotated (`rotation.py`). What all vectors x of a text have in common, their mean m, is
kept apart, in 8 bits. It is nearly all of the vector in models whose similarities live in a narrow cone,
such as e5. The direction y of the residual x - m has d components that are almost normal, of deviation
1 / sqrt(d). Each is rounded to one of 2^b odd whole numbers ("levels"), evenly spaced:

    c_i = floor(sqrt(d) y_i / h_b) + 2^(b-1), within [0, 2^b - 1];   l_i = 2 c_i - (2^b - 1)

h_b is the spacing that is best for a normal distribution (Max 1960, 'Quantizing for Minimum Distortion'); at
1 and 2 bits, uneven levels are no or 1 % better. The vector is then taken as m + |x - m| l / <l, y>. The part
of l / <l, y> along y is y itself, whatever was rounded: <l / <l, y>, y> = 1. The rest is orthogonal to y and,
as the rotation does not know the query, without a preferred direction. So the product with a query q of
length 1 is <q, x> without bias, and its error has the deviation

    |x - m| sqrt(1 - <q, y>^2) tan(a) / sqrt(d - 1),   cos(a) = <l, y> / |l|

(Gao and Long 2024, 'RaBitQ', arXiv:2405.12497, theorem 3.2, for 1 bit; arXiv:2409.09913 for more bits;
TurboQuant, arXiv:2504.19874, bounds what any such code can reach). tan(a) is .107 at 4 bits, .37 at 2 and
.75 at 1: for d = 384, |x - m| = .8 and <q, y> = .5 the deviation is .004, .013 and .027.

Nothing is learned from the documents, so that codes stay valid whatever is added later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray, row_norms, unit_rows
from surprise_rerank.core.tokens.rotation import rotated

Bits: TypeAlias = Literal[1, 2, 4]
Codes: TypeAlias = npt.NDArray[np.uint8]

_STEPS = 127  # of a mean's largest component
# The spacing of levels, in deviations of a component: least mean squared error of a normal distribution.
_SPACING: Mapping[Bits, float] = {1: 1.5958, 2: 0.9957, 4: 0.3352}


@dataclass(frozen=True, slots=True)
class TokenCode:
    """How unit vectors become bytes.

    A byte holds 8 / b components. Its lowest b bits are of the first part of the vector, the next of the
    second, and so on: a whole part is then read by one shift and one mask.

    Attributes:
        bits: b, of a component.
        dimension: d.
    """

    bits: Bits
    dimension: int

    @property
    def width(self) -> int:
        """Bytes of a vector."""
        return -(-self.dimension * self.bits // 8)

    @property
    def parts(self) -> int:
        """Components in a byte."""
        return 8 // self.bits

    @property
    def largest(self) -> int:
        """The largest level, 2^b - 1."""
        return 2**self.bits - 1

    def encode(self, unit: FloatArray, offsets: IntArray) -> tuple[Codes, Float32Array, Float32Array]:
        """Codes of vectors of length 1 or 0.

        Args:
            unit: (total, d) of n texts.
            offsets: (n + 1,) where the vectors of each text begin.

        Returns:
            (total, width) codes; (total,) factors |x - m| / <l, y>, 0 for a vector of zeros; and (n, d) the
            rotated means m, of the vectors that are not zeros.
        """
        x, owners = rotated(unit), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        known = np.any(x != 0, axis=1)
        counts = np.bincount(owners[known], minlength=len(offsets) - 1)
        sums = np.zeros((len(counts), self.dimension))
        filled = np.flatnonzero(np.diff(offsets))
        if len(filled):
            sums[filled] = np.add.reduceat(x, offsets[filled], axis=0, dtype=np.float64)
        steps, step = to_steps((sums / np.maximum(counts, 1)[:, None]).astype(np.float32))
        centers = steps * step[:, None]
        residuals = np.where(known[:, None], x - centers[owners], 0)
        lengths = row_norms(residuals)
        codes = self._rounded(unit_rows(residuals, lengths))
        products = np.einsum("nd,nd->n", self.levels(codes), residuals, dtype=np.float64)
        factors = np.divide(lengths**2, products, out=np.zeros_like(products), where=products > 0)
        return codes, factors.astype(np.float32), centers

    def _rounded(self, directions: Float32Array) -> Codes:
        step = np.float32(_SPACING[self.bits] / np.sqrt(max(self.dimension, 1)))
        whole = np.zeros((len(directions), self.width * self.parts), np.uint8)
        places = np.floor(directions / step) + 2 ** (self.bits - 1)
        whole[:, : self.dimension] = np.clip(places, 0, self.largest)
        codes = np.zeros((len(directions), self.width), np.uint8)
        for part in range(self.parts):
            codes |= whole[:, part * self.width : (part + 1) * self.width] << np.uint8(part * self.bits)
        return codes

    def levels(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
        """(n, d) levels of (n, width) codes: the reference form of what `products.py` unpacks."""
        parts = [codes >> np.uint8(part * self.bits) & np.uint8(self.largest) for part in range(self.parts)]
        whole = np.concatenate(parts, axis=1)[:, : self.dimension].astype(np.int8)
        found: npt.NDArray[np.int8] = 2 * whole - np.int8(self.largest)
        return found


def to_steps(centers: Float32Array) -> tuple[npt.NDArray[np.int8], Float32Array]:
    """(n, d) means in whole steps from -127 to 127, and (n,) the size of a step."""
    step = (np.abs(centers).max(axis=1, initial=0.0) / _STEPS).astype(np.float32)
    steps = np.rint(np.divide(centers, step[:, None], out=np.zeros_like(centers), where=step[:, None] > 0))
    return steps.astype(np.int8), step
