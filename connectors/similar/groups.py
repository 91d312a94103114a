"""Near-duplicate groups: documents that pairs of a high similarity connect.

A group is a connected component of the graph whose edges are the pairs that were found with at least a
threshold of similarity. Pairs are read in batches; what stays in memory is two numbers for each document,
and a few more for each that is in a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from surprise_rerank.connectors.similar.corpus import EXTRA, EncodedCorpus
from surprise_rerank.connectors.similar.outputs import ROW_COLUMNS, Target, part_batches
from surprise_rerank.connectors.similar.settings import Similarity, SimilaritySettings
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.extras import import_extra
from surprise_rerank.errors import DataError

# The least similarity of documents that count as the same. Copies of abstracts with sentences or words
# left out had a DynaMax of .91 where their cosine was .95; other abstracts stayed below .73 and .83
# (docs/similar.md).
DUPLICATE: dict[Similarity, float] = {"cosine": 0.95, "dynamax": 0.9, "both": 0.9}

# Of 4 bytes, where that is enough.
_Nodes: TypeAlias = NDArray[np.signedinteger[Any]]

# Float32 vectors of equal texts can have a cosine of .99999998, which counts as 1.
_ROUNDING = 1e-6

_BATCH = 1 << 18  # members whose ids are looked up at a time


class Components:
    """Connected components of a graph whose edges come in batches, in 4 bytes a node (8 from 2^31 nodes on).

    Args:
        nodes: how many there are.

    >>> components = Components(5)
    >>> components.join(np.array([0, 3]), np.array([4, 1]))
    >>> components.join(np.array([4]), np.array([1]))
    >>> components.smallest().tolist()
    [0, 0, 2, 0, 0]
    """

    def __init__(self, nodes: int) -> None:
        # Every node points to a smaller one of its component, or to itself.
        self._parents: _Nodes = np.arange(nodes, dtype=np.int32 if nodes < 1 << 31 else np.int64)

    def join(self, one: IntArray, other: IntArray) -> None:
        """Add the edges (one[i], other[i])."""
        roots, places = np.unique(self._roots(np.concatenate([one, other])), return_inverse=True)
        edges = (places[: len(one)], places[len(one) :])
        graph = coo_array((np.ones(len(one), np.int8), edges), shape=(len(roots), len(roots)))
        _, labels = connected_components(graph, directed=False)
        _, first = np.unique(labels, return_index=True)  # the smallest, as roots ascend
        self._parents[roots] = roots[first[labels]]

    def smallest(self) -> _Nodes:
        """(nodes,) the smallest node of each node's component."""
        for nodes in _blocks(len(self._parents)):
            self._roots(nodes)  # keeps what it finds; the blocks before are done, so the way is short
        return self._parents

    def _roots(self, nodes: IntArray) -> _Nodes:
        found = self._parents[nodes]
        while True:
            above = self._parents[found]
            if np.array_equal(above, found):
                self._parents[nodes] = found
                return found
            found = above


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of two and more documents, the largest first; of equals, the one whose first document is first.

    Attributes:
        rows: (m,) the members, group after group, each in the order of the documents. Rows of another corpus
            that documents were compared with come after those of the documents.
        sizes: (g,) of the groups.
    """

    rows: IntArray
    sizes: IntArray

    def __len__(self) -> int:
        return len(self.sizes)

    @classmethod
    def of(cls, components: Components) -> Groups:
        """The components of two and more nodes."""
        smallest = components.smallest()
        sizes = np.zeros_like(smallest)
        for nodes in _blocks(len(smallest)):
            roots, counts = np.unique(smallest[nodes], return_counts=True)
            sizes[roots] += counts.astype(sizes.dtype)
        members = np.concatenate(
            [nodes[sizes[smallest[nodes]] > 1] for nodes in _blocks(len(smallest))] or [np.zeros(0, np.int64)]
        )
        roots = smallest[members]
        order = np.lexsort((members, roots, -sizes[roots]))
        own = sizes[sizes > 1].astype(np.int64)
        return cls(members[order], own[np.argsort(-own, kind="stable")])

    @property
    def numbers(self) -> IntArray:
        """(m,) the group of each member, from 1."""
        return np.repeat(np.arange(1, len(self) + 1), self.sizes)


def _blocks(nodes: int) -> Iterator[IntArray]:
    for start in range(0, nodes, _BATCH):
        yield np.arange(start, min(start + _BATCH, nodes))


def require_threshold(threshold: float) -> None:
    """Refuse a threshold that is no similarity.

    Raises:
        DataError: if it is not above 0 and at most 1.
    """
    if not 0 < threshold <= 1:
        raise DataError(f"the threshold of duplicates must be above 0 and at most 1, got {threshold:g}")


def near_duplicates(
    parts: Iterable[Path],
    documents: EncodedCorpus,
    against: EncodedCorpus | None,
    settings: SimilaritySettings,
    threshold: float,
) -> Groups:
    """The groups that pairs of at least a similarity make.

    Args:
        parts: of the result.
        documents: whose neighbours were looked for.
        against: which could be neighbours; None where these are the same documents.
        settings: what was computed.
        threshold: the least similarity: the cosine, or DynaMax where that was computed.

    Raises:
        DataError: if the threshold is no similarity.
        StoreError: if a part cannot be read.
    """
    require_threshold(threshold)
    column = "cosine" if settings.similarity == "cosine" else "dynamax"
    offset = 0 if against is None else len(documents)
    components = Components(len(documents) + (0 if against is None else len(against)))
    for path in parts:
        for batch in part_batches(path, (*ROW_COLUMNS, column)):
            one, other, similarity = (batch.column(name).to_numpy() for name in (*ROW_COLUMNS, column))
            near = similarity >= threshold - _ROUNDING
            components.join(one[near], other[near] + offset)
    return Groups.of(components)


def write_groups(
    target: Target, groups: Groups, documents: EncodedCorpus, against: EncodedCorpus | None
) -> None:
    """Write groups as rows of group, document and size; and the corpus, where there are two.

    Raises:
        StoreError: if the disk is full, or cannot be written.
    """
    pyarrow = import_extra("pyarrow", EXTRA)
    fields = [("group", pyarrow.int64()), ("document", pyarrow.large_string()), ("size", pyarrow.int64())]
    if against is not None:
        fields.append(("corpus", pyarrow.string()))
    schema = pyarrow.schema(fields)
    target.write(schema, _batches(schema, groups, documents, against))


def _batches(
    schema: Any, groups: Groups, documents: EncodedCorpus, against: EncodedCorpus | None
) -> Iterator[Any]:
    pyarrow = import_extra("pyarrow", EXTRA)
    numbers = groups.numbers
    for start in range(0, len(groups.rows), _BATCH):
        rows, own = groups.rows[start : start + _BATCH], numbers[start : start + _BATCH]
        columns = [own, ids_of(rows, documents, against), groups.sizes[own - 1]]
        if against is not None:
            columns.append(np.where(rows < len(documents), "documents", "against"))
        arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pyarrow.record_batch(arrays, schema=schema)


def ids_of(rows: IntArray, documents: EncodedCorpus, against: EncodedCorpus | None) -> Any:
    """The ids of rows of `Groups`, as an Arrow array of strings.

    Args:
        rows: those of another corpus come after those of the documents.
        documents: whose neighbours were looked for.
        against: the other corpus; None where there is none.
    """
    if against is None:
        return documents.ids(rows)
    pyarrow = import_extra("pyarrow", EXTRA)
    first = rows < len(documents)
    found = pyarrow.concat_arrays([documents.ids(rows[first]), against.ids(rows[~first] - len(documents))])
    places = np.argsort(np.concatenate([np.flatnonzero(first), np.flatnonzero(~first)]))
    return found.take(pyarrow.array(places))
