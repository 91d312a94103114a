"""The best neighbours of many documents, exactly, by blocked matrix products in torch.

    z(d, n) = (<d, n> - mu_n) / sigma_n,   mu_n = n.m,  sigma_n^2 = n' C n

The neighbour n is the anchor: a document that is similar to everything has a large mu, and is no surprising
neighbour. One product of augmented vectors gives z of every pair. It finds the pairs in float32; those that
are found are scored again in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surprise_rerank._errors import DataError
from surprise_rerank.core._computing import device_of
from surprise_rerank.core._extras import importing
from surprise_rerank.core.arrays import BoolArray, Float32Array, Float64Array, IntArray, pair_similarities
from surprise_rerank.surprise.linear_form import LinearForm, augmented_documents, augmented_query

with importing("torch"):
    import torch

# Keys of a block: the float32 product with 2,048 queries takes 64 MiB.
KEY_BLOCK = 8192
# Pairs of a block of queries that can be held.
MOST_PAIRS = 1 << 24
# Pairs whose vectors are gathered at a time.
_PAIRS = 1 << 13


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Pairs of a query and a neighbour, each query's best first; of equals, the one of the lower row.

    Attributes:
        query: (p,) positions among the queries, ascending.
        key: (p,) rows of the neighbours.
        similarity: (p,) the dot product of the two.
        z: (p,) its score by the linear form: the surprise, or the similarity itself.
    """

    query: IntArray
    key: IntArray
    similarity: Float64Array
    z: Float64Array

    def __len__(self) -> int:
        return len(self.query)

    @property
    def ranks(self) -> IntArray:
        """(p,) each pair's rank among those of its query, from 1."""
        ranks: IntArray = np.arange(len(self)) - np.searchsorted(self.query, self.query) + 1
        return ranks

    def take(self, index: IntArray | BoolArray) -> Neighbours:
        """The pairs at these positions, or where a mask is set."""
        return Neighbours(self.query[index], self.key[index], self.similarity[index], self.z[index])

    def best(self, k: int | None, above: float | None = None) -> Neighbours:
        """Those above a threshold, in order, and the first k of each query."""
        kept = self if above is None else self.take(self.z >= above)
        kept = kept.take(np.lexsort((kept.key, -kept.z, kept.query)))
        return kept if k is None else kept.take(kept.ranks <= k)


def scored_pairs(
    queries: Float32Array, keys: Float32Array, form: LinearForm, query: IntArray, key: IntArray
) -> Neighbours:
    """These pairs with their similarity and score in float64, in the order in which they are given."""
    similarity = np.empty(len(query))
    for start in range(0, len(query), _PAIRS):
        part = slice(start, start + _PAIRS)
        similarity[part] = pair_similarities(queries[query[part]], keys[key[part]])
    return Neighbours(query, key, similarity, form.take(key).scores(similarity))


def nearest(
    queries: Float32Array,
    keys: Float32Array,
    form: LinearForm,
    *,
    k: int | None = None,
    above: float | None = None,
    query_rows: IntArray | None = None,
    device: str = "cpu",
) -> Neighbours:
    """The neighbours of some queries among all keys, by the score slope * <q, key> + intercept.

    >>> x, plain = np.eye(3, dtype=np.float32), LinearForm(np.ones(3), np.array([-0.2, -0.1, -0.3]))
    >>> nearest(x, x, plain, k=1, query_rows=np.arange(3)).key
    array([1, 0, 1])

    Args:
        queries: (m, d) vectors, at most some thousands.
        keys: (n, d) vectors; may be mapped from a file.
        form: of the keys; slope 1 and intercept 0 rank by the plain similarity.
        k: how many of each query; all that are above the threshold where None.
        above: the smallest score that counts.
        query_rows: (m,) the rows of the queries among the keys, which are left out; None where they are none.
        device: where to multiply: `cpu`, `cuda`, ...
    """
    place = device_of(device)
    directions = torch.from_numpy(augmented_query(queries)).to(place)

    def augmented(part: slice) -> torch.Tensor:
        return torch.from_numpy(augmented_documents(keys[part], form.take(part))).to(place)

    floor = torch.full((len(queries),), -torch.inf if above is None else above, device=place)
    best = _none()
    for first in range(0, len(keys), KEY_BLOCK):
        scores = directions @ augmented(slice(first, first + KEY_BLOCK)).T
        if query_rows is not None:
            mine = np.flatnonzero((query_rows >= first) & (query_rows < first + scores.shape[1]))
            scores[mine, query_rows[mine] - first] = -torch.inf
        if k is not None and first == 0:
            hits = _top(scores, k, floor)
        else:
            hits = torch.nonzero(scores >= floor[:, None] if k is None else scores > floor[:, None])
        if len(best) + len(hits) > MOST_PAIRS:
            raise DataError(
                f"a score above {above} lets through more than {MOST_PAIRS:,} pairs of {len(queries)} "
                "documents; raise it, or give k"
            )
        rows, columns = hits[:, 0], hits[:, 1]
        values = scores[rows, columns].cpu().numpy().astype(np.float64)
        best = _joined(best, Neighbours(rows.cpu().numpy(), first + columns.cpu().numpy(), values, values), k)
        if k is not None:
            last = best.ranks == k
            least = torch.from_numpy(best.z[last].astype(np.float32)).to(place)
            floor[torch.from_numpy(best.query[last]).to(place)] = least
    return scored_pairs(queries, keys, form, best.query, best.key).best(k, above)


def _none() -> Neighbours:
    return Neighbours(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


def _top(scores: torch.Tensor, k: int, floor: torch.Tensor) -> torch.Tensor:
    """(p, 2) row and column of the k best of each row that are above its floor."""
    values, columns = torch.topk(scores, min(k, scores.shape[1]), dim=1)
    rows, places = torch.nonzero((values >= floor[:, None]) & (values > -torch.inf), as_tuple=True)
    return torch.stack([rows, columns[rows, places]], dim=1)


def _joined(one: Neighbours, other: Neighbours, k: int | None) -> Neighbours:
    if k is not None and not len(other):
        return one
    arrays = ((getattr(part, name) for part in (one, other)) for name in Neighbours.__slots__)
    return Neighbours(*(np.concatenate(list(pair)) for pair in arrays)).best(k)
