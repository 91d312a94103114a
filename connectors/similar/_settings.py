"""What a job computes of every document."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError

Similarity: TypeAlias = Literal["surprise", "cosine", "dynamax"]
Search: TypeAlias = Literal["exact", "graph"]

SUFFIXES = (".parquet", ".csv", ".jsonl")  # of results
# The least similarity of near-duplicates. Copies of abstracts with sentences or words left out had a DynaMax
# of .91 where their cosine was .95; other abstracts stayed below .73 and .83 (docs/similar.md).
DUPLICATE = {"surprise": 0.95, "cosine": 0.95, "dynamax": 0.9}
# Documents of a part of the result; one of DynaMax takes a hundred times as long.
_PART_ROWS = {"surprise": 2048, "cosine": 2048, "dynamax": 256}


@dataclass(frozen=True, slots=True)
class SimilaritySettings:
    """What is computed of every document.

    Attributes:
        k: how many neighbours of each; all that are above the threshold where None.
        above: the least value of a pair, of what `similarity` names.
        similarity: what ranks: the surprise z of the cosine, the cosine, or DynaMax of the `pool` documents
            of the largest surprise.
        pool: for `dynamax`, how many documents are compared token by token.
        search: `exact` compares with every document; `graph` asks the collection that the documents are in.
        tenant: whose documents of an index are compared; those of all by default, by ids as TENANT/ID.
    """

    k: int | None = 10
    above: float | None = None
    similarity: Similarity = "surprise"
    pool: int = 100
    search: Search = "exact"
    tenant: str | None = None

    def __post_init__(self) -> None:
        border.choice("similarity", self.similarity, get_args(Similarity))
        border.choice("search", self.search, get_args(Search))
        border.optional(border.number, "above", self.above)
        if self.k is None and (self.above is None or self.search == "graph"):
            raise DataError("give k, the number of neighbours; above alone is for the exact search")
        border.count("pool", self.pool, 1 if self.k is None else border.count("k", self.k, 1, 1000))

    @property
    def part_rows(self) -> int:
        """How many documents a part of the result is about: what a kill loses at most."""
        return _PART_ROWS[self.similarity]


def require_suffix(path: Path) -> None:
    """Refuse a file that nothing here can write, before anything is computed.

    Raises:
        DataError: if its suffix is not known, or its folder is not there or may not be written to.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: a result is written by its suffix; choose {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent}; make it, or choose another one")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path}: you may not write into {path.parent}; choose another folder")
