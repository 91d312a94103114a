"""Weights of a question's tokens, from a sample of the corpus' token vectors, without counting words."""

from __future__ import annotations

import numpy as np

from surprise_rerank.core.arrays import Float32Array, Float64Array, row_norms, unit_rows
from surprise_rerank.core.threads import row_products
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities.dynamax import DynaMax

# A similarity of .9 counts .43 of a document, one of .7 counts .06.
EXPONENT = 8.0


def token_weights(query: Float32Array, maxima: Float32Array) -> Float64Array:
    """(m,) weights of a question's tokens x_j, of their own length, which is their weight in mean pooling.

        w_j = |x_j| ln(1 + (n - n_j + .5) / (n_j + .5)),   n_j = sum_i max_ij^8

    n_j is in how many of n documents the token has a similar one; (n, m) `maxima` are each document's largest
    cosine with it, from 0 to 1. For word vectors, where the same word has the same vector, this is nearly the
    document frequency. Tokens in context are rarely equal, so all frequencies are small and the weights
    nearly equal. For such models the inverse frequency of words made rankings worse.
    """
    frequency, n = (np.clip(maxima, 0.0, 1.0).astype(np.float64) ** EXPONENT).sum(axis=0), len(maxima)
    weights: Float64Array = row_norms(query) * np.log1p((n - frequency + 0.5) / (frequency + 0.5))
    return weights


def measured_weights(
    query: Float32Array, sample: TokenBatch, *, threads: int | None = None
) -> tuple[Float64Array, Float32Array]:
    """`token_weights` of a question over a sample of the corpus, and the (n, m) maxima that they come from.

    Raises:
        DataError: if dimensions differ.
    """
    from surprise_rerank.similarities.kernels import pool_maxima  # which needs torch

    maxima = pool_maxima(
        unit_rows(query), sample, unit_tokens=True, of_documents=False, threads=threads
    ).of_query
    return token_weights(query, maxima), maxima


def weighted_inclusion(
    query: Float32Array, documents: TokenBatch, sample: TokenBatch, *, threads: int | None = None
) -> tuple[Float64Array, Float64Array]:
    """Inclusion of a question's weighted tokens: (n,) in every document of a pool, (s,) in those of a sample.

        sum_j w_j max_y <x_j, y> / sum_j w_j,   unit tokens, floored at 0

    Raises:
        DataError: if dimensions differ.
    """
    weights, usual = measured_weights(query, sample, threads=threads)
    scores = DynaMax().pool(query, documents, query_weights=weights, threads=threads)
    whole = weights.sum()
    return scores, row_products(usual, weights) / whole if whole > 0 else np.zeros(len(usual))
