"""Scores without what a document owes to its length alone.

Inclusion takes the largest similarity over a document's tokens, so a document with more of them has more
chances. How much more is read off the sample of the corpus that scores are measured against anyway: a line
through scores over the logarithm of lengths.
"""

from __future__ import annotations

import numpy as np

from surprise_rerank.core.arrays import Float64Array, IntArray


def without_length(
    scores: Float64Array, lengths: IntArray, usual: Float64Array, usual_lengths: IntArray, share: float
) -> tuple[Float64Array, Float64Array]:
    """Scores of a pool and of a sample, less a share of what their lengths let expect.

        s_i - a b (log(1 + l_i) - mean log(1 + l)),   b the least-squares slope over the sample

    Args:
        scores: (n,) of the pool.
        lengths: (n,) numbers of tokens.
        usual: (s,) of the sample.
        usual_lengths: (s,) numbers of tokens.
        share: a, from 0, which changes nothing, to 1.
    """
    known = np.log1p(usual_lengths.astype(np.float64))
    about = known - known.mean() if len(known) else known
    spread = float(about @ about)
    slope = float(about @ usual) / spread if spread > 0 else 0.0
    middle = known.mean() if len(known) else 0.0
    own = np.log1p(lengths.astype(np.float64)) - middle
    return scores - share * slope * own, usual - share * slope * about
