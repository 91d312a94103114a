"""Surprise as constants that an index can store: z is linear in the similarity, so any engine can rank by it.

    z = (Psi - mu_q) / sigma_q = slope * Psi + intercept,  slope = 1 / sigma_q,  intercept = -mu_q / sigma_q

The document is q, so slope and intercept belong to the document and are computed at indexing. A formula over
a first stage's score needs only these two constants. A dot product needs one more dimension:

    z = [d / sigma, -mu / sigma] . [q, 1]

With it an inner-product index retrieves by surprise directly, without a candidate pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import Float32Array, Float64Array, matrix
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise.score import has_spread


@dataclass(frozen=True, slots=True, eq=False)
class LinearForm:
    """z = slope * Psi + intercept for n documents.

    Attributes:
        slope: (n,) 1 / sigma; 1 for a document whose surprise is not defined.
        intercept: (n,) -mu / sigma; 0 for a document whose surprise is not defined, so that its score is the
            plain similarity.
    """

    slope: Float64Array
    intercept: Float64Array

    @classmethod
    def of(cls, moments: Moments) -> LinearForm:
        """The constants of documents with these (n,) moments."""
        mean, deviation = np.broadcast_arrays(*(np.atleast_1d(a) for a in (moments.mean, moments.deviation)))
        defined = has_spread(moments)
        slope = np.divide(1.0, deviation, out=np.ones(mean.shape), where=defined)
        return cls(slope, np.where(defined, -mean * slope, 0.0))

    def take(self, index: npt.NDArray[np.int64] | slice) -> LinearForm:
        """The constants of the documents at these positions."""
        return LinearForm(self.slope[index], self.intercept[index])

    def scores(self, similarity: npt.ArrayLike) -> Float64Array:
        """(n,) scores of (n,) similarities, as an engine computes them from its stored constants."""
        return self.slope * np.asarray(similarity, np.float64) + self.intercept


def augmented_documents(vectors: npt.ArrayLike, form: LinearForm) -> Float32Array:
    """(n, d + 1) [d / sigma, -mu / sigma]: their dot product with an `augmented_query` is the surprise z."""
    documents = matrix(vectors, "document vectors")
    border.equal("the shape of the moments", form.slope.shape, (len(documents),))
    out = np.empty((len(documents), documents.shape[1] + 1), np.float32)
    # Multiplied in float64 and rounded once, without a matrix of float64 in between.
    np.multiply(documents, form.slope[:, None], out=out[:, :-1], casting="same_kind")
    out[:, -1] = form.intercept
    return out


def augmented_query(query: npt.ArrayLike) -> Float32Array:
    """The query [q, 1] that augmented documents are searched with: (d,) -> (d + 1,), (n, d) -> (n, d + 1)."""
    vectors = np.asarray(query, dtype=np.float32)
    ones = np.ones((*vectors.shape[:-1], 1), np.float32)
    return np.concatenate([vectors, ones], axis=-1)
