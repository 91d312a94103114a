"""Products of a few query tokens with the many tokens of a pool, in the form in which they are stored."""

from __future__ import annotations

import torch

from surprise_rerank.arrays import Float32Array
from surprise_rerank.tokens import TokenBatch

_LEVELS = 127
# One level of the query's second int8 part: the rounding of the first lies within half a level of it.
_FINER = 2 * _LEVELS


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
