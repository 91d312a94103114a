"""Products of a few query tokens with the many tokens of a pool, in the form in which they are stored.

A pool is cut into chunks that stay in a processor core's cache; a chunk is multiplied, its row and column
maxima are taken, and its products are forgotten, so that memory beside the pool stays bounded whatever its
size. Chunks are shared out to threads, each of which does its own work to the end: threads inside one small
product would wait for each other at every step, and badly where other programs compute on the same cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from surprise_rerank.arrays import Float32Array, IntArray
from surprise_rerank.errors import DataError
from surprise_rerank.tokens import TokenBatch

# Document tokens of a chunk, and products in it: a few MiB, about what a core keeps at hand.
_CHUNK_TOKENS = 4096
_CHUNK_PRODUCTS = 1 << 20
# An accelerator wants more at a time.
_DEVICE_TOKENS = 1 << 18
_DEVICE_PRODUCTS = 1 << 26

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
        threads: how many to use; as many as torch uses (`torch.get_num_threads()`) by default.
        device: where to multiply: `cpu`, `cuda`, `cuda:1`, ...

    Raises:
        DataError: if there are fewer than 1 threads, or no such device.
    """
    m = len(query)
    in_query = torch.zeros((len(documents), m))
    in_documents = torch.zeros(len(documents.directions)) if of_documents else None
    factors = torch.from_numpy(documents.scales if unit_tokens else documents.scales * documents.norms)
    lengths = torch.from_numpy(documents.lengths)
    place = _device(device)
    x = torch.from_numpy(query).to(place)

    def fill(texts: tuple[int, int]) -> None:
        start, stop = texts
        rows = slice(int(documents.offsets[start]), int(documents.offsets[stop]))
        directions = _tensor(documents.between(start, stop)).to(place)
        products = _products(directions, x).mul_(factors[rows, None].to(place))
        owners = torch.repeat_interleave(torch.arange(stop - start), lengths[start:stop]).to(place)
        best = torch.zeros((stop - start, m), device=place)  # the floor that maxima start from
        best.scatter_reduce_(0, owners[:, None].expand(-1, m), products, "amax")
        in_query[start:stop] = best.cpu()
        if in_documents is not None:
            in_documents[rows] = products.amax(dim=1).clamp_min_(0.0).cpu()

    if m:
        workers = _workers(threads) if place.type == "cpu" else 1
        _in_threads(fill, _chunks(documents.offsets, m, workers, place), workers)
    return PoolMaxima(in_query.numpy(), None if in_documents is None else in_documents.numpy())


def with_own_memberships(documents: TokenBatch, *, threads: int | None = None) -> TokenBatch:
    """The batch with every token's membership in its own text's fuzzy set, over raw dot products.

    Args:
        documents: any batch.
        threads: how many to use; as many as torch uses by default.
    """
    own = torch.zeros(len(documents.directions))

    def fill(texts: tuple[int, int]) -> None:
        for i in range(*texts):
            tokens = torch.from_numpy(documents[i])
            if len(tokens):
                rows = slice(int(documents.offsets[i]), int(documents.offsets[i + 1]))
                own[rows] = (tokens @ tokens.T).amax(dim=1).clamp_min_(0.0)

    workers = _workers(threads)
    _in_threads(fill, _chunks(documents.offsets, 1, workers, torch.device("cpu")), workers)
    return replace(documents, own=own.numpy())


def token_similarities(query: Float32Array, documents: TokenBatch, *, unit_tokens: bool) -> torch.Tensor:
    """(m, total) float32 dot products of query tokens with all document tokens."""
    factors = documents.scales if unit_tokens else documents.scales * documents.norms
    products = _products(_tensor(documents), torch.from_numpy(query)).mul_(torch.from_numpy(factors)[:, None])
    return products.T


def _tensor(documents: TokenBatch) -> torch.Tensor:
    """(total, d) stored directions, without a copy."""
    if documents.storage == "bfloat16":
        return torch.from_numpy(documents.directions.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(documents.directions)


def _products(directions: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """(t, m) float32 products of t stored tokens with m query tokens."""
    if directions.dtype == torch.int8 and directions.device.type == "cpu" and hasattr(torch, "_int_mm"):
        return _int8_products(directions, query)
    native = directions.dtype == torch.bfloat16 or directions.device.type != "cpu"
    if native and directions.is_floating_point():
        return (directions @ query.to(directions.dtype).T).to(torch.float32)
    # Processors multiply float16 slowly; a chunk's float32 copy costs a tenth of its product.
    return directions.to(torch.float32) @ query.T


def _int8_products(directions: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """(t, m) products without a float copy of the pool, exact to 1.6e-5 of a token's largest component.

    The query is split into two int8 parts, coarse + fine / 254, and both are multiplied at once: the
    hardware's int8 product of twice the rows is several times faster than the float one.
    """
    level = query.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / _LEVELS
    scaled = query / level
    coarse = scaled.round()
    fine = ((scaled - coarse) * _FINER).round()
    parts = torch.cat([coarse, fine]).to(torch.int8)
    products = torch._int_mm(directions, parts.T)
    m = len(query)
    whole = products[:, :m].to(torch.float32)
    return whole.add_(products[:, m:], alpha=1 / _FINER).mul_(level.T)


def _device(name: str) -> torch.device:
    try:
        place = torch.device(name)
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError) as error:  # torch asserts where it was built without CUDA
        reason = str(error).strip().split("\n")[0]
        raise DataError(f"the device {name!r} cannot be used: {reason}; give 'cpu' or 'cuda'") from error
    return place


def _workers(threads: int | None) -> int:
    if threads is not None and threads < 1:
        raise DataError(f"threads must be at least 1, got {threads}")
    return threads or torch.get_num_threads()


def _in_threads(
    work: Callable[[tuple[int, int]], None], chunks: Sequence[tuple[int, int]], workers: int
) -> None:
    """Do the work on all chunks; inside of it torch computes with one thread."""
    before = torch.get_num_threads()
    workers = min(workers, len(chunks))
    try:
        if workers > 1:
            with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                list(pool.map(work, chunks))
        elif workers:
            torch.set_num_threads(1)
            for chunk in chunks:
                work(chunk)
    finally:
        # The number belongs to a thread, but a new thread starts with the one that was set last.
        torch.set_num_threads(before)


def _chunks(offsets: IntArray, m: int, workers: int, place: torch.device) -> list[tuple[int, int]]:
    """Runs of consecutive texts of about equal numbers of tokens; a long text may stand alone.

    A multiple of the workers, so that none of them waits for another's last one.
    """
    on_cpu = place.type == "cpu"
    tokens, products = (_CHUNK_TOKENS, _CHUNK_PRODUCTS) if on_cpu else (_DEVICE_TOKENS, _DEVICE_PRODUCTS)
    largest = max(1, min(tokens, products // max(m, 1)))
    total = int(offsets[-1])
    parts = max(1, -(-total // (largest * workers))) * workers
    ends = np.searchsorted(offsets, total * np.arange(1, parts + 1) / parts, side="right") - 1
    bounds = np.unique([0, *ends]).tolist()
    return list(pairwise(bounds))
