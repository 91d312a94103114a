"""The most surprising neighbours of many documents, exactly, by blocked matrix products.

    z(d, n) = (<d, n> - mu_n) / sigma_n,   mu_n = n.m,  sigma_n^2 = n' C n

The neighbour n is the anchor: a document that is similar to everything has a large mu, and is no surprising
neighbour. Documents are read in blocks, so that memory does not grow with them. A block's float32 product
finds the candidates, with a margin for its rounding. Each candidate is scored again in float64, by a sum
whose order does not depend on the block. So the result depends on the vectors and moments alone, and not on
blocks, threads, workers or the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank.core.arrays import BoolArray, Float32Array, Float64Array, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.vectors import pair_similarities
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.linear_form import LinearForm, augmented_documents, augmented_query
from surprise_rerank.surprise.neighbour_products import FLOAT32, products

# Queries and keys of a block: their float32 product takes 128 MiB.
QUERY_BLOCK, KEY_BLOCK = 4096, 8192
# Pairs that are scored in float64 at a time, in the cache; and that one block of queries may have.
_PAIRS = 1 << 9
MOST_PAIRS = 1 << 24
# Keys whose constants differ by less than about this factor are multiplied together.
_ALIKE = 16.0


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """A block of documents that may be neighbours.

    Attributes:
        vectors: (n, d) float32 unit vectors.
        moments: (n,) of their similarity to the ensemble.
        first: the row of the first one in the corpus.
    """

    vectors: Float32Array
    moments: Moments
    first: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Pairs of a query and a neighbour, each query's best first; of equals, the one of the lower row.

    Attributes:
        query: (p,) positions among the queries, ascending.
        key: (p,) rows in the corpus.
        similarity: (p,) what surprise is over: the cosine, or DynaMax.
        z: (p,) its surprise; the plain similarity where the neighbour has no spread.
    """

    query: IntArray
    key: IntArray
    similarity: Float64Array
    z: Float64Array

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def none(cls) -> Neighbours:
        """No pairs."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    @property
    def ranks(self) -> IntArray:
        """(p,) each pair's rank among those of its query, from 1."""
        starts = np.searchsorted(self.query, self.query)
        ranks: IntArray = np.arange(len(self), dtype=np.int64) - starts + 1
        return ranks

    def take(self, index: IntArray | BoolArray) -> Neighbours:
        """The pairs at these positions, or where a mask is set."""
        return Neighbours(self.query[index], self.key[index], self.similarity[index], self.z[index])

    @classmethod
    def joined(cls, parts: Sequence[Neighbours]) -> Neighbours:
        """All pairs of several, in the order of neighbours."""
        arrays = zip(*((p.query, p.key, p.similarity, p.z) for p in parts), strict=True)
        return cls(*map(np.concatenate, arrays)).sorted() if parts else cls.none()

    def sorted(self) -> Neighbours:
        """In the order of neighbours: by query, then by z descending, then by row."""
        return self.take(np.lexsort((self.key, -self.z, self.query)))

    def best(self, k: int) -> Neighbours:
        """The first k of each query."""
        return self.take(self.ranks <= k)


def neighbours_by_definition(
    queries: Float32Array, keys: Keys, k: int | None = None, above: float | None = None
) -> Neighbours:
    """All pairs scored one by one: the reference form, for small corpora.

    Args:
        queries: (m, d) unit vectors.
        keys: the whole corpus.
        k: how many of each query; all where None.
        above: the smallest z.
    """
    form = LinearForm.of(keys.moments)
    rows, columns = np.divmod(np.arange(len(queries) * len(keys.vectors)), max(len(keys.vectors), 1))
    similarity = pair_similarities(queries[rows], keys.vectors[columns]) if len(rows) else np.zeros(0)
    z = form.take(columns).scores(similarity)
    found = Neighbours(rows, columns + keys.first, similarity, z).sorted()
    found = found if above is None else found.take(found.z >= above)
    return found if k is None else found.best(k)


class NeighbourSearch:
    """The most surprising neighbours of a block of queries; keys come in blocks, in any order.

    Args:
        queries: (m, d) float32 unit vectors.
        k: how many of each query; all that are above the threshold where None.
        above: the smallest z that counts.
        own: (m,) the rows of the queries in the corpus of the keys, which are omitted; None where they are of
            another corpus.
        device: where to multiply: `cpu`, `cuda`, ...

    Raises:
        DataError: if neither k nor a threshold is given, or k is not positive, or there is no such device.

    >>> x = np.eye(3, dtype=np.float32)
    >>> search = NeighbourSearch(x, k=1, own=np.arange(3))
    >>> search.add(Keys(x, Moments(np.array([0.2, 0.1, 0.3]), np.ones(3))))
    >>> search.found().key
    array([1, 0, 1])
    """

    def __init__(
        self,
        queries: Float32Array,
        *,
        k: int | None = None,
        above: float | None = None,
        own: IntArray | None = None,
        device: str = "cpu",
    ) -> None:
        check_wanted(k, above)
        self._queries = queries
        self._k, self._above, self._own = k, above, own
        self._products = products(augmented_query(queries), device)
        self._found = Neighbours.none()
        self._rest: list[Neighbours] = []  # of each block, where there is no k

    def add(self, keys: Keys) -> None:
        """Take one more block of keys into account.

        Raises:
            DataError: if the threshold lets through more pairs than can be held.
        """
        if not len(keys.vectors) or not len(self._queries):
            return
        form = LinearForm.of(keys.moments)
        for columns in _alike(form):
            self._add(keys, form, columns)

    def _add(self, keys: Keys, form: LinearForm, chosen: IntArray | slice) -> None:
        """Take the keys at these positions into account."""
        part = Moments(keys.moments.mean[chosen], keys.moments.deviation[chosen])
        self._products.multiply(augmented_documents(keys.vectors[chosen], part))
        error = rounding(form.take(chosen), self._queries.shape[1], self._products.unit)
        places = np.arange(len(keys.vectors))[chosen]
        for rows, picked, rough in self._products.at_least(self._thresholds(error)):
            columns = places[picked]
            others = np.ones(len(rows), np.bool_)
            if self._own is not None:
                others = self._own[rows] != keys.first + columns
            if self._k is not None:
                others[others] = _near_best(rows[others], rough[others], self._k, 2 * error)
            self._keep(rows[others], columns[others], keys, form)

    def found(self) -> Neighbours:
        """The neighbours among all keys that were added."""
        return self._found if self._k is not None else Neighbours.joined(self._rest)

    def _thresholds(self, error: float) -> Float64Array:
        """(m,) the least float32 score of a pair that is a candidate."""
        m = len(self._queries)
        least = np.full(m, -np.inf if self._above is None else self._above - error)
        if self._k is None:
            return least
        last = self._found.ranks == self._k
        known = np.full(m, -np.inf)
        known[self._found.query[last]] = self._found.z[last] - error
        if not np.isfinite(known).all():
            # One more than k, as a query may be among the keys itself.
            unknown = self._products.kth_best(self._k + (self._own is not None)) - 2 * error
            known = np.maximum(known, unknown)
        thresholds: Float64Array = np.maximum(least, known)
        return thresholds

    def _keep(self, rows: IntArray, columns: IntArray, keys: Keys, form: LinearForm) -> None:
        """Score pairs exactly, and keep those that belong to the result so far."""
        if self._k is None:
            require_few(sum(map(len, self._rest)) + len(rows), self._above, len(self._queries))
        similarity = exact_cosines(self._queries, rows, keys.vectors, columns)
        z = form.take(columns).scores(similarity)
        added = Neighbours(rows, columns + keys.first, similarity, z)
        if self._above is not None:
            added = added.take(z >= self._above)
        if self._k is not None:
            self._found = Neighbours.joined([self._found, added]).best(self._k)
            return
        self._rest.append(added)


def _alike(form: LinearForm) -> list[IntArray] | list[slice]:
    """The positions of the keys, in groups that round alike.

    The rounding of a block is that of its largest constants. One key of a tiny deviation would make all pairs
    of the block candidates.
    """
    scale = np.abs(form.slope) + np.abs(form.intercept)
    steps = np.rint(np.log(scale / np.median(scale)) / np.log(_ALIKE))
    if not steps.any():
        return [slice(None)]
    return [np.flatnonzero(steps == step) for step in np.unique(steps)]


def rounding(form: LinearForm, dimension: int, unit: float = FLOAT32) -> float:
    """How far a float32 score of unit vectors can lie from the exact one.

    A sum of n products has a relative error of at most n units, of the sum of their absolute values.

    Args:
        form: of the keys.
        dimension: d of the vectors.
        unit: the relative rounding of one factor.
    """
    largest = float((np.abs(form.slope) + np.abs(form.intercept)).max())
    return 2 * (dimension + 4) * unit * largest


def exact_cosines(
    queries: Float32Array, rows: IntArray, keys: Float32Array, columns: IntArray
) -> Float64Array:
    """(p,) cosines of p pairs of unit vectors, each by a sum whose order depends on the pair alone.

    Args:
        queries: (m, d).
        rows: (p,) of the queries.
        keys: (n, d).
        columns: (p,) of the keys.
    """
    similarity = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS):
        part = slice(start, start + _PAIRS)
        similarity[part] = pair_similarities(queries[rows[part]], keys[columns[part]])
    return similarity


def require_few(pairs: int, above: float | None, documents: int) -> None:
    """Refuse more pairs of a block of documents than can be held.

    Raises:
        DataError: if there are.
    """
    if pairs > MOST_PAIRS:
        raise DataError(
            f"a surprise above {above} lets through more than {MOST_PAIRS:,} pairs of {documents} documents; "
            "raise it, or give k"
        )


def check_wanted(k: int | None, above: float | None) -> None:
    """Refuse a request for no pairs, or for all.

    Raises:
        DataError: if neither is given, k is not positive or the threshold is not finite.
    """
    if k is None and above is None:
        raise DataError("give k, the number of neighbours, or above, the smallest surprise, or both")
    if k is not None and k < 1:
        raise DataError(f"k must be at least 1, got {k}")
    if above is not None and not np.isfinite(above):
        raise DataError(f"above must be a finite surprise z, got {above}")


def _near_best(rows: IntArray, scores: Float32Array, k: int, margin: float) -> BoolArray:
    """(p,) whether each score is at most a margin below the k-th best of its row; rows ascend."""
    if not len(rows):
        return np.ones(0, np.bool_)
    order = np.lexsort((-scores, rows))
    starts = np.searchsorted(rows, rows)
    last = np.arange(len(rows)) == starts + k - 1  # rows ascend, so positions in order are those in the rows
    least = np.full(int(rows[-1]) + 1, -np.inf)
    least[rows[last]] = scores[order][last].astype(np.float64) - margin
    near: BoolArray = scores >= least[rows]
    return near
