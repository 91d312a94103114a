"""Products of a few query tokens with the many tokens of a pool, in the form in which they are stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from surprise_rerank.arrays import Float32Array, IntArray
from surprise_rerank.tokens import TokenBatch

# What a chunk's products and copies take stays in the processor's cache, and below the size from which the
# allocator asks the system for fresh pages every time.
_CHUNK_TOKENS = 8192

_LEVELS = 127
# One level of the query's second int8 part: the rounding of the first lies within half a level of it.
_FINER = 2 * _LEVELS


@dataclass(frozen=True, slots=True, eq=False)
class PoolMaxima:
    """What one matrix product tells of a query (m tokens) and every document of a pool.

    Attributes:
        of_query: (n, m) float32; for document i and query token j, max(0, max over the document's tokens y of
            <x_j, y>); 0 for documents without tokens.
        of_documents: (total,) float32; for every document token, max(0, max over query tokens x of <x, y>);
            None where it was not asked for.
    """

    of_query: Float32Array
    of_documents: Float32Array | None


def pool_maxima(
    query: Float32Array, documents: TokenBatch, *, unit_tokens: bool, of_documents: bool
) -> PoolMaxima:
    """Row and column maxima of the products of query tokens with document tokens, floored at 0.

    Args:
        query: (m, d) token vectors, as they are to be multiplied.
        documents: a pool.
        unit_tokens: whether document tokens count with length 1, or with their own.
        of_documents: whether the maxima of the document tokens are wanted too.
    """
    in_query = np.zeros((len(documents), len(query)), np.float32)
    in_documents = np.zeros(len(documents.directions), np.float32) if of_documents else None
    if not len(query):
        return PoolMaxima(in_query, in_documents)
    for start, stop in _chunks(documents.offsets):
        chunk = documents.between(start, stop)
        filled = np.flatnonzero(chunk.lengths)
        if not len(filled):
            continue
        similarities = token_similarities(query, chunk, unit_tokens=unit_tokens).clamp_min_(0.0)
        firsts = chunk.offsets[filled]
        in_query[start + filled] = np.maximum.reduceat(similarities.numpy(), firsts, axis=1).T
        if in_documents is not None:
            rows = slice(documents.offsets[start], documents.offsets[stop])
            in_documents[rows] = similarities.amax(dim=0).numpy()
    return PoolMaxima(in_query, in_documents)


def token_similarities(query: Float32Array, documents: TokenBatch, *, unit_tokens: bool) -> torch.Tensor:
    """Dot products of query tokens with all document tokens.

    Args:
        query: (m, d) token vectors.
        documents: a pool.
        unit_tokens: whether document tokens count with length 1, or with their own.

    Returns:
        (m, total) float32.
    """
    directions = torch.from_numpy(documents.directions)
    factors = documents.scales if unit_tokens else documents.scales * documents.norms
    multiply = _int8_product if directions.dtype == torch.int8 else _float_product
    return multiply(torch.from_numpy(query), directions).mul_(torch.from_numpy(factors))


def _float_product(query: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
    return query @ directions.to(torch.float32).T


def _int8_product(query: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
    """(m, total) products without a float copy of the pool, exact to 1.6e-5 of a token's largest component.

    The query is split into two int8 parts, coarse + fine / 254, and both are multiplied at once: the
    hardware's int8 product of twice the rows is several times faster than the float one.
    """
    level = query.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / _LEVELS
    scaled = query / level
    coarse = scaled.round()
    fine = ((scaled - coarse) * _FINER).round()
    parts = torch.cat([coarse, fine]).to(torch.int8)
    products = torch._int_mm(parts, directions.T).to(torch.float32)
    m = len(query)
    return products[:m].add_(products[m:], alpha=1 / _FINER).mul_(level)


def _chunks(offsets: IntArray) -> list[tuple[int, int]]:
    """Runs of consecutive texts of at most _CHUNK_TOKENS tokens together (a longer text stands alone)."""
    chunks = []
    start, n = 0, len(offsets) - 1
    while start < n:
        stop = int(np.searchsorted(offsets, offsets[start] + _CHUNK_TOKENS, side="right")) - 1
        stop = min(max(stop, start + 1), n)
        chunks.append((start, stop))
        start = stop
    return chunks
