"""Token vectors as Qdrant's multivectors, so that Qdrant itself computes MaxSim: in float16, bytes or codes.

MaxSim adds, over the query's tokens, the largest cosine that a token of the document has with it (Khattab and
Zaharia 2020, arXiv:2004.12832). Qdrant's dot product of unit vectors gives it; for float16 that is all. Bytes
are unsigned in Qdrant, in documents and queries alike, and of one scale for all documents. To lose little,

1. a unit vector x of d dimensions is rotated into n = d + 1, by the inverse DCT of (0, signs * x). That
   spreads outlying dimensions over all, and the n components of the result y sum to 0, their constant part;
2. a document token is 128 + round(S y), clipped, with S = 127 / min(1, 4.5 / sqrt(n)): the components of
   rotated vectors are distributed almost normally, of deviation 1 / sqrt(n); one in 150,000 is clipped;
3. padding makes the components of every row sum to the same K, in spite of rounding and clipping. Those move
   the sum by n / 2 and 127 n / 81 at most, so n / 254 + n / 81 components of 128 +- 127 always suffice;
4. a query token is 128 + r, r = round(s y), s = 127 / the query's largest component, and 128 in the padding.

Then query token . document token = 128 K + 128 sum(r) + s S cosine, but for rounding: the document's part is
the cosine alone. Rounding gives it an error of deviation sqrt((1/S^2 + 1/s^2) / 12), about .015 / sqrt(n).
On scifact (all-MiniLM-L6-v2, d = 384; questions of 21 tokens, MaxSim about 5.9), the error of MaxSim is .0035
(root mean square) and .018 at most; in float16 .0001 and .0004.

turbo4, turbo2 and turbo1 are vectors in float16 on disk, and beside them codes of 4, 2 or 1 bits a component
in memory: Qdrant's TurboQuant (Zandieh, Daliri, Hadian and Mirrokni 2025, arXiv:2504.19874). MaxSim is
computed from the codes; the vectors are what Qdrant makes new codes of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float32Array, Float64Array, matrix, unit_rows
from surprise_rerank.core.tokens.codes import Bits
from surprise_rerank.core.tokens.rotation import spreading_signs
from surprise_rerank.errors import DataError

TokenStorage: TypeAlias = Literal["float16", "uint8", "turbo4", "turbo2", "turbo1"]

# Bits of a component in the codes that Qdrant computes with, where there are some.
CODED: Mapping[str, Bits] = {"turbo4": 4, "turbo2": 2, "turbo1": 1}

_ZERO = 128  # the byte of the value 0
_LARGEST = 127  # and how far one may be from it
# In deviations of a component: on scifact 4 to 5 are alike, 3.5 clips and 6 rounds 1.3 times as much away.
_RANGE = 4.5


def dimension(d: int, storage: TokenStorage) -> int:
    """Dimension of the multivectors in Qdrant: d in float16 and in codes, about 1.02 d + 1 in bytes.

    Args:
        d: of the token vectors.
        storage: of the multivectors.

    Raises:
        DataError: if the storage is not known.
    """
    _require_storage(storage)
    return d + 1 + _padding(d + 1) if storage == "uint8" else d


def datatype(storage: TokenStorage) -> Literal["float16", "uint8"]:
    """The collection's datatype of the vectors."""
    return "uint8" if storage == "uint8" else "float16"


def document_vectors(tokens: npt.ArrayLike, storage: TokenStorage) -> Float32Array:
    """A document's multivector, for a collection of `Distance.DOT` and that storage.

    Qdrant refuses empty multivectors: a document without tokens gets one row that has cosine 0 with every
    query token, as a token of zeros has.

    Args:
        tokens: (n, d), of any length.
        storage: of the multivectors.

    Returns:
        (max(n, 1), dimension(d, storage)); whole numbers from 0 to 255 for uint8.

    Raises:
        DataError: if tokens are not finite numbers of shape (n, d).
    """
    unit = _unit_tokens(tokens, storage)
    if storage != "uint8":
        return unit
    rotated = _rotated(unit)
    n = rotated.shape[1]
    steps = np.clip(np.rint(rotated * _document_scale(n)), -_LARGEST, _LARGEST)
    return np.hstack([steps, _made_up(steps.sum(axis=1), _padding(n))]) + np.float32(_ZERO)


def token_vectors(multivector: npt.ArrayLike, storage: TokenStorage) -> Float32Array:
    """What `document_vectors` made a document's multivector of: (n, d) of length 1, but for rounding.

    Args:
        multivector: (n, dimension(d, storage)) as Qdrant gives it back.
        storage: of the multivectors.
    """
    rows: Float32Array = np.asarray(multivector, np.float32)
    if storage == "uint8":
        from scipy import fft

        n = next(k for k in range(rows.shape[1] + 1) if k + _padding(k) == rows.shape[1])
        coefficients = fft.dct(rows[:, :n] - np.float32(_ZERO), axis=1, norm="ortho")[:, 1:]
        rows = coefficients.astype(np.float32) * spreading_signs(n - 1)
    return unit_rows(rows)


def query_vectors(
    tokens: npt.ArrayLike, storage: TokenStorage, weights: Float64Array | None = None
) -> Float32Array:
    """A query's multivector, to search documents of that storage with.

    Args:
        tokens: (m, d), of any length; for m = 0 there is one row, with which every document scores the same.
        storage: of the multivectors.
        weights: (m,) how much each token counts, at least 0; 1 where not given.

    Returns:
        (max(m, 1), dimension(d, storage)).

    Raises:
        DataError: if tokens are not finite numbers of shape (m, d).
    """
    unit = _weighted(_unit_tokens(tokens, storage), weights)
    if storage != "uint8":
        return unit
    steps, _ = _query_steps(unit)
    return np.pad(steps, ((0, 0), (0, _padding(steps.shape[1])))) + np.float32(_ZERO)


def similarities(
    scores: npt.ArrayLike,
    query_tokens: npt.ArrayLike,
    storage: TokenStorage,
    weights: Float64Array | None = None,
) -> Float64Array:
    """MaxSim, from what Qdrant gave as scores.

    Args:
        scores: (k,) of documents stored as `document_vectors`, for `query_vectors` of the same arguments.
        query_tokens: (m, d) the query's tokens.
        storage: of the multivectors.
        weights: (m,) how much each token counts.

    Returns:
        (k,) the sum over query tokens of weight times the largest cosine with a token of the document; 0 for
        m = 0.

    Raises:
        DataError: if query_tokens are not finite numbers of shape (m, d).
    """
    given = np.asarray(scores, dtype=np.float64)
    unit = _weighted(_unit_tokens(query_tokens, storage), weights)
    if storage != "uint8":
        return given
    steps, scale = _query_steps(unit)
    n = steps.shape[1]
    row_sum = _ZERO * (n + _padding(n))
    known = _ZERO * (row_sum * len(steps) + float(steps.sum(dtype=np.float64)))
    cosines: Float64Array = (given - known) / (scale * _document_scale(n))
    return cosines


def _require_storage(storage: str) -> None:
    if storage not in get_args(TokenStorage):
        known = ", ".join(get_args(TokenStorage))
        raise DataError(f"token vectors cannot be stored as {storage!r}; choose one of {known}")


def _unit_tokens(tokens: npt.ArrayLike, storage: TokenStorage) -> Float32Array:
    _require_storage(storage)
    unit = unit_rows(matrix(tokens, "tokens"))
    if unit.shape[1] == 0:
        raise DataError("tokens have dimension 0; give an array of shape (n, d), also where n is 0")
    return unit if len(unit) else np.zeros((1, unit.shape[1]), dtype=np.float32)


def _weighted(unit: Float32Array, weights: Float64Array | None) -> Float32Array:
    """Tokens times their weights: MaxSim is linear in each of the query's vectors."""
    if weights is None or not len(weights):
        return unit
    return unit * weights[:, None].astype(np.float32)


def _padding(n: int) -> int:
    return math.ceil(n / (4 * _RANGE**2) + n / (2 * _LARGEST))


def _document_scale(n: int) -> float:
    return _LARGEST / min(1.0, _RANGE / math.sqrt(n))


def _rotated(unit: Float32Array) -> Float32Array:
    """Rows (m, d) -> (m, d + 1), the same products among them, each summing to 0."""
    from scipy import fft

    coefficients = np.pad(unit * spreading_signs(unit.shape[1]), ((0, 0), (1, 0)))
    return fft.idct(coefficients, axis=1, norm="ortho").astype(np.float32, copy=False)


def _query_steps(unit: Float32Array) -> tuple[Float32Array, float]:
    """A query's rotated tokens in whole steps, and how many make 1."""
    rotated = _rotated(unit)
    # One scale for all tokens, because MaxSim adds over them.
    scale = _LARGEST / (float(np.abs(rotated).max()) or 1.0)
    return np.rint(rotated * scale), scale


def _made_up(sums: Float32Array, padding: int) -> Float32Array:
    """Rows of whole numbers that add up to -sums, each at most 127 in size: (m,) -> (m, padding)."""
    before = np.arange(padding, dtype=np.float32) * _LARGEST
    size: Float32Array = np.clip(np.abs(sums)[:, None] - before, 0, _LARGEST)
    return -np.sign(sums)[:, None] * size
