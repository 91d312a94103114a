"""Which vectors a foreign collection has, and which of them are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from qdrant_client import models

from surprise_rerank.connectors.qdrant.schema import UNNAMED, Record
from surprise_rerank.core.arrays import Float32Array, VectorSimilarity, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError, did_you_mean

_SIMILARITIES: Mapping[models.Distance, VectorSimilarity] = {
    models.Distance.COSINE: "dot",
    models.Distance.DOT: "dot",
    models.Distance.EUCLID: "euclidean",
    models.Distance.MANHATTAN: "manhattan",
}
# Vectors whose lengths differ from 1 by less are taken for unit vectors: float16 and APIs round.
_ROUNDED = 1e-2


@dataclass(frozen=True, slots=True)
class VectorLayout:
    """The vectors that are compared.

    Of a collection without dense vectors `dense` is the multivector, whose MaxSim finds documents then.
    """

    dense: str  # name of the dense vector; empty for the one without a name
    size: int  # its dimension
    distance: models.Distance  # how Qdrant compares it
    tokens: str | None = None  # name of the multivector of tokens
    token_size: int = 0  # the dimension of the tokens
    token_cosines: bool = False  # whether Qdrant compares tokens by the cosine: MaxSim is inclusion then
    sparse: str | None = None  # name of the sparse vector of words
    idf: bool = False  # whether Qdrant multiplies its values with the IDF
    unit: bool = True  # whether dense vectors have length 1

    @property
    def has_dense(self) -> bool:
        """Whether there is one dense vector of each document."""
        return self.dense != self.tokens

    @property
    def using(self) -> str | None:
        """The dense vector in a request."""
        return self.dense or None

    @property
    def similarity(self) -> VectorSimilarity:
        """How documents are compared with questions here.

        |x - y|^2 = 2 - 2 <x, y> for unit vectors, so that their Euclidean distance orders as the cosine does;
        the sum of |x_i - y_i| does not.
        """
        own = _SIMILARITIES[self.distance]
        return "dot" if self.unit and own != "manhattan" else own

    @property
    def score(self) -> str:
        """What the scores of Qdrant's search are called."""
        if not self.has_dense:
            return "MaxSim"
        name = _SIMILARITIES[self.distance]
        return name if name != "dot" else ("cosine" if self.unit else "dot")

    def scores(self, found: Float32Array) -> Float32Array:
        """Qdrant's scores, as higher for nearer: a distance x becomes 1 / (1 + x)."""
        if _SIMILARITIES[self.distance] == "dot":
            return found
        return np.asarray(1.0 / (1.0 + found), np.float32)

    def dense_of(self, page: Sequence[Record]) -> tuple[Float32Array, list[int]]:
        """Dense vectors of points, as they are compared, and the rows of the points that have one."""
        rows = [i for i, record in enumerate(page) if record.vectors.get(self.dense) is not None]
        vectors = np.array([page[i].vectors[self.dense] for i in rows], np.float32)
        vectors = vectors.reshape(len(rows), self.size)
        # Qdrant scales those that it compares by the cosine.
        return (unit_rows(vectors) if self.distance == models.Distance.COSINE else vectors), rows

    def tokens_of(self, page: Sequence[Record], where: str) -> TokenBatch:
        """The multivectors of points, which are a text's token vectors; a DataError if there are none."""
        if self.tokens is None:
            raise DataError(
                f"{where} has no token vectors; add them with enrich(tokens=True), or choose a system that "
                "needs none"
            )
        found = (record.vectors.get(self.tokens) for record in page)
        size = self.token_size
        rows = [np.array([] if own is None else own, np.float32).reshape(-1, size) for own in found]
        return TokenBatch.from_arrays(rows, size)

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for `status`."""
        named = repr(self.dense) if self.dense else "the one without a name"
        lengths = "" if self.unit else ", not of length 1"
        dense = f"{named}, {self.size} dimensions, {self.distance.value}{lengths}"
        tokens = (
            "none" if self.tokens is None else f"multivector {self.tokens!r}, {self.token_size} dimensions"
        )
        idf = ", with Qdrant's IDF" if self.idf else ""
        return [
            ("dense vector", dense if self.has_dense else "none: documents are found by MaxSim"),
            ("token vectors", tokens),
            ("sparse vector", "none" if self.sparse is None else f"{self.sparse!r}{idf}"),
        ]


def find_vectors(
    config: models.CollectionParams,
    where: str,
    *,
    vector: str | None = None,
    multivector: str | None = None,
    sparse_vector: str | None = None,
    size: int | None = None,
) -> VectorLayout:
    """The vectors of a collection, by name, or the only ones of their kind, or of the model's dimension.

    Raises:
        DataError: if a name is not there, there are several and none was named, or the dimension is another
            one than the model's; lists what there is.
    """
    dense, multi = _params(config)
    words = config.sparse_vectors or {}
    if not dense and not multi:
        raise DataError(
            f"{where} has no dense vectors and no multivectors, which documents are found by; it has "
            f"{_listed(words) or 'none at all'}"
        )
    token_name = _chosen("multivector", multivector, multi, where) if multi or multivector else None
    sparse_name = _chosen("sparse_vector", sparse_vector, words, where) if words or sparse_vector else None
    token_size = 0 if token_name is None else multi[token_name].size
    idf = sparse_name is not None and words[sparse_name].modifier == models.Modifier.IDF
    if not dense and vector is None and token_name is not None:
        distance = models.Distance(multi[token_name].distance)
        if _SIMILARITIES[distance] != "dot":
            raise DataError(f"{where}: {token_name!r} is compared by {distance.value}, not by Cosine or Dot")
        return VectorLayout(
            token_name, token_size, distance, token_name, token_size, sparse=sparse_name, idf=idf
        )
    fitting = {name: params for name, params in dense.items() if params.size == size}
    own = _chosen("vector", vector, fitting if vector is None and len(fitting) == 1 else dense, where)
    if size is not None and dense[own].size != size:
        raise DataError(
            f"{where}: the vector {own!r} has {dense[own].size} dimensions, the model's have {size}; give "
            "the model that the collection was made with (embed=), or another vector="
        )
    distance = models.Distance(dense[own].distance)
    cosines = token_name is not None and models.Distance(multi[token_name].distance) == models.Distance.COSINE
    return VectorLayout(
        own, dense[own].size, distance, token_name, token_size, cosines, sparse=sparse_name, idf=idf
    )


def are_unit(vectors: Float32Array) -> bool:
    """Whether (n, d) vectors have length 1, but for rounding; zeros are no text's vector and do not count."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    known = lengths[lengths > 0]
    return bool((np.abs(known - 1) < _ROUNDED).all())


def _params(
    config: models.CollectionParams,
) -> tuple[dict[str, models.VectorParams], dict[str, models.VectorParams]]:
    """Dense vectors and multivectors by name."""
    given: Any = config.vectors or {}
    named = given if isinstance(given, Mapping) else {UNNAMED: given}
    dense = {name: params for name, params in named.items() if params.multivector_config is None}
    return dense, {name: params for name, params in named.items() if name not in dense}


def _chosen(option: str, asked: str | None, known: Mapping[str, Any], where: str) -> str:
    """The name that was asked for, or the only one."""
    kind = "dense vector" if option == "vector" else option.replace("_", " ")
    if asked is not None:
        if asked not in known:
            hint = did_you_mean(asked, known)
            raise DataError(f"{where} has no {kind} {asked!r}; {hint}there is {_listed(known) or 'none'}")
        return asked
    if len(known) == 1 or UNNAMED in known:
        return UNNAMED if UNNAMED in known else next(iter(known))
    raise DataError(
        f"{where} has several vectors of the kind {kind}: {_listed(known)}; name one with {option}= "
        "(in the file of --config)"
    )


def _listed(names: Any) -> str:
    return ", ".join(repr(name) if name else "one without a name" for name in names)
