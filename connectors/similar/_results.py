"""A result as a file, by its suffix, and groups of near-duplicates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from surprise_rerank import _border as border
from surprise_rerank.connectors.similar._comparing import ROWS
from surprise_rerank.connectors.similar._corpus import Corpus
from surprise_rerank.connectors.similar._folder import EXTRA, read_table
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core._files import disk_errors, whole_file

# Float32 vectors of equal texts can have a cosine of .99999998, which counts as 1.
_ROUNDING = 1e-6


def write(path: Path, tables: Iterable[Any]) -> int:
    """Write Arrow tables of one schema to a file, whole or not at all; returns how many rows there were.

    Raises:
        StoreError: if the disk is full, or cannot be written.
    """
    parquet, csv = import_extra("pyarrow.parquet", EXTRA), import_extra("pyarrow.csv", EXTRA)
    stream = iter(tables)
    first = next(stream)
    rows = 0
    with disk_errors(str(path)), whole_file(path, private=True) as file:
        suffix = path.suffix.lower()
        kind = {".parquet": parquet.ParquetWriter, ".csv": csv.CSVWriter, ".jsonl": _Lines}[suffix]
        with kind(file, first.schema) as writer:
            for table in (member for part in ((first,), stream) for member in part):
                writer.write_table(table)
                rows += table.num_rows
    return rows


class _Lines:
    """Writes a JSON object in a line for each row, as pyarrow's writers do other forms."""

    def __init__(self, file: Any, schema: Any) -> None:
        self._file = file

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """The file stays open."""

    def write_table(self, table: Any) -> None:
        for row in table.to_pylist():
            self._file.write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())


def pairs(paths: Iterable[Path]) -> Iterator[Any]:
    """The tables of the parts without the columns that only groups need."""
    return (read_table(path).drop_columns(ROWS) for path in paths)


def groups(
    paths: Iterable[Path], documents: Corpus, against: Corpus | None, column: str, least: float
) -> Any:
    """Groups of two and more documents that equal texts and pairs of at least a similarity connect.

    Args:
        paths: of the parts of the result.
        documents: whose neighbours were looked for.
        against: which could be neighbours; None where these are the same documents.
        column: of the similarity.
        least: from which on two documents are near-duplicates.

    Returns:
        An Arrow table of group (from 1, the largest first), document, size, and corpus where there are two.

    Raises:
        DataError: if the threshold is no similarity.
    """
    border.positive("the threshold of duplicates", least, 1)
    pyarrow = import_extra("pyarrow", EXTRA)
    corpora = [documents] if against is None else [documents, against]
    offset = 0 if against is None else len(documents)
    names = [name for corpus in corpora for name in corpus.ids.to_pylist()]
    place = ["documents"] * len(documents) + ["against"] * (0 if against is None else len(against))
    edges = []
    for path in paths:
        table = read_table(path, [*ROWS, column])
        one, other, similarity = (table[name].to_numpy() for name in (*ROWS, column))
        near = similarity >= least - _ROUNDING
        edges.append(np.stack([one[near], other[near] + offset]))
    for start, corpus, where in zip((0, offset), corpora, ("documents", "against"), strict=False):
        copies = [(len(names) + i, start + row) for i, (_, row) in enumerate(corpus.copies)]
        edges.append(np.array(copies, np.int64).reshape(-1, 2).T)
        names += [name for name, _ in corpus.copies]
        place += [where] * len(copies)
    ends = np.concatenate(edges, axis=1)
    graph = coo_array((np.ones(ends.shape[1], np.int8), tuple(ends)), shape=(len(names), len(names)))
    _, labels = connected_components(graph, directed=False)
    sizes = np.bincount(labels)
    members = np.flatnonzero(sizes[labels] > 1)
    members = members[np.lexsort((members, labels[members], -sizes[labels[members]]))]
    group_labels = labels[members]
    columns = {
        "group": np.cumsum(np.diff(group_labels, prepend=-1) != 0),
        "document": pyarrow.array([names[i] for i in members], pyarrow.large_string()),
        "size": sizes[group_labels],
    }
    if against is not None:
        columns["corpus"] = pyarrow.array([place[i] for i in members], pyarrow.string())
    return pyarrow.table(columns)
