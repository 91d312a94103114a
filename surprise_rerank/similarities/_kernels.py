"""Products of a few query tokens with the many tokens of a pool.

A pool is divided into chunks that fit the processor's cache. After a chunk is multiplied, only its row and
column maxima are kept, so that memory beside the pool is bounded for any size. One thread multiplies what
takes it some milliseconds: two are at most 1.7 times as fast there, and a tenth as fast beside other busy
programs. It does so by numpy, since torch takes longer to import than a search. On larger pools all threads
work on one chunk at a time, by torch. Separate threads for whole chunks were as fast there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from surprise_rerank._errors import DataError
from surprise_rerank.core._computing import products, using_threads
from surprise_rerank.core._extras import importing
from surprise_rerank.core._process import limit_torch
from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray, row_norms
from surprise_rerank.core.tokens import TokenBatch

Texts: TypeAlias = tuple[int, int]  # from one position to before another

# Document tokens of a chunk, and its products: a few MiB, about the size of a processor's cache.
_CHUNK_TOKENS = 8192
_CHUNK_PRODUCTS = 1 << 20
# An accelerator is faster with more at a time.
_DEVICE_TOKENS = 1 << 18
_DEVICE_PRODUCTS = 1 << 26
# Components of a pool that one thread multiplies: about 1,000 documents of merged tokens.
_ALONE = 1 << 24
# Products of token vectors; sums of their terms, in any order, are at most as large.
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class PoolMaxima:
    """Row and column maxima of one matrix product, at least 0: m query tokens with those of n documents."""

    of_query: Float32Array  # (n, m) of each document and query token; 0 for documents without tokens
    of_documents: Float32Array | None  # (total,) of every document token; None where it was not asked for


def pool_maxima(
    query: Float32Array,
    documents: TokenBatch,
    *,
    unit_tokens: bool,
    of_documents: bool,
    threads: int | None = None,
    device: str = "cpu",
) -> PoolMaxima:
    """Row and column maxima of the products of query tokens with document tokens, floored at 0.

    Args:
        query: (m, d) token vectors, as they are to be multiplied.
        documents: a pool.
        unit_tokens: whether document tokens count with length 1, or with their own.
        of_documents: whether the maxima of the document tokens are wanted too.
        threads: how many to use; by default one for a pool of up to 2^24 components, and as many as torch
            uses (`torch.get_num_threads()`) for a larger one.
        device: where to multiply: `cpu`, `cuda`, `cuda:1`, ...
    """
    m = len(query)
    _require_in_range(row_norms(query), np.ones(1) if unit_tokens else documents.norms)
    if device == "cpu" and threads in (None, 1) and _is_small(documents):
        return _small_maxima(query, documents, unit_tokens=unit_tokens, of_documents=of_documents)
    with importing("torch"):
        import torch

    from surprise_rerank.core._computing import device_of

    limit_torch()
    in_query = torch.zeros((len(documents), m))
    in_documents = torch.zeros(len(documents.norms)) if of_documents else None
    place = device_of(device)
    chunks = _chunks(documents.offsets, m, on_cpu=place.type == "cpu") if m else []
    factors = None if unit_tokens else torch.from_numpy(documents.norms)
    lengths, stored = torch.from_numpy(documents.lengths), torch.from_numpy(documents.directions)
    x = torch.from_numpy(query).to(place).T

    # New memory for each product can take as long as the product: the system maps it page by page.
    largest = max((int(documents.offsets[b] - documents.offsets[a]) for a, b in chunks), default=0)
    out = torch.empty((largest, m), device=place)
    with using_threads(_threads(documents, threads)):
        for start, stop in chunks:
            rows = documents.rows_between(start, stop)
            if rows.start == rows.stop:
                continue
            block = stored[rows].to(place, torch.float32)
            dots = torch.mm(block, x, out=out[: len(block)])
            if factors is not None:
                dots.mul_(factors[rows, None].to(place))
            owners = torch.repeat_interleave(torch.arange(stop - start), lengths[start:stop]).to(place)
            best = torch.zeros((stop - start, m), device=place)  # the floor that maxima start from
            best.scatter_reduce_(0, owners[:, None].expand(-1, m), dots, "amax")
            in_query[start:stop] = best.cpu()
            if in_documents is not None:
                in_documents[rows] = dots.amax(dim=1).clamp_min_(0.0).cpu()
    return PoolMaxima(in_query.numpy(), None if in_documents is None else in_documents.numpy())


def _small_maxima(
    query: Float32Array, documents: TokenBatch, *, unit_tokens: bool, of_documents: bool
) -> PoolMaxima:
    """The same in this thread alone, of all chunks at once."""
    in_query = np.zeros((len(documents), len(query)), np.float32)
    filled, dots = np.flatnonzero(documents.lengths), np.zeros((0, len(query)), np.float32)
    if len(filled):
        dots = products(np.asarray(documents.directions, np.float32), query)
        if not unit_tokens:
            dots *= documents.norms[:, None]
        in_query[filled] = np.maximum.reduceat(dots, documents.offsets[filled], axis=0)
    in_documents = dots.max(axis=1, initial=0.0) if of_documents else None
    return PoolMaxima(np.maximum(in_query, 0.0), in_documents)


def own_memberships(documents: TokenBatch, *, threads: int | None = None) -> Float32Array:
    """(total,) every token's membership in its own text's fuzzy set, over raw dot products."""
    if documents.own is not None:
        return documents.own
    _require_in_range(documents.norms, documents.norms)
    with importing("torch"):
        import torch

    limit_torch()
    memberships = torch.zeros(len(documents.norms))
    with using_threads(_threads(documents, threads)):
        for i in np.flatnonzero(documents.lengths).tolist():
            tokens, first = torch.from_numpy(documents[i]), int(documents.offsets[i])
            at = 0
            for part in torch.split(tokens, max(1, _CHUNK_PRODUCTS // len(tokens))):
                rows = slice(first + at, first + at + len(part))
                memberships[rows] = (part @ tokens.T).amax(dim=1).clamp_min_(0.0)
                at += len(part)
    return memberships.numpy()


def _require_in_range(one: FloatArray, other: FloatArray) -> None:
    """Refuse tokens of lengths whose products leave float32, which would silently give other scores."""
    longest = [float(lengths.max(initial=0.0)) for lengths in (one, other)]
    if longest[0] * longest[1] > _LARGEST:
        raise DataError(
            f"tokens of length {longest[0]:.3g} and {longest[1]:.3g} have products beyond {_LARGEST:.2g}, "
            "the largest of float32; divide all token vectors by one number, or compare unit tokens"
        )


def _threads(documents: TokenBatch, threads: int | None) -> int | None:
    """How many threads to multiply with; None for as many as torch uses."""
    return 1 if threads is None and _is_small(documents) else threads


def _is_small(documents: TokenBatch) -> bool:
    return int(documents.offsets[-1]) * documents.dimension <= _ALONE


def _chunks(offsets: IntArray, m: int, *, on_cpu: bool) -> list[Texts]:
    """Runs of consecutive texts of about equal numbers of tokens; a long text may be a run of its own."""
    tokens, products = (_CHUNK_TOKENS, _CHUNK_PRODUCTS) if on_cpu else (_DEVICE_TOKENS, _DEVICE_PRODUCTS)
    largest = max(1, min(tokens, products // max(m, 1)))
    total = int(offsets[-1])
    parts = max(1, -(-total // largest))
    ends = np.searchsorted(offsets, total * np.arange(1, parts + 1) / parts, side="right") - 1
    return list(pairwise(np.unique([0, *ends]).tolist()))
