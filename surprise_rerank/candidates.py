"""The objects that flow: a `Query` goes in, `Candidates` are scored, a `Ranking` comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from surprise_rerank.arrays import Float32Array, Float64Array, FloatArray
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.moments import Moments
from surprise_rerank.tokens import TokenBatch

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """An encoded query.

    Attributes:
        text: the words.
        dense: (d,) its dense vector, where an encoder made one.
        tokens: (m, d) its token vectors, where an encoder made them.
        id: its name in a data set; empty for a question that somebody types.
    """

    text: str
    dense: Float32Array | None = None
    tokens: Float32Array | None = None
    id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """A candidate pool as one struct of arrays; all are aligned with `ids`.

    Attributes:
        ids: n document ids, in the order of the first retrieval stage.
        scores: scorer's name -> (n,) its scores; NaN where that scorer did not look at the document.
        dense: (n, d) dense vectors, where fetched.
        tokens: n lists of token vectors, where fetched.
        documents: n documents, where fetched.
        backgrounds: scorer's name -> the moments of this query's scores over the corpus, where known.
    """

    ids: tuple[str, ...]
    scores: Mapping[str, FloatArray] = field(default_factory=dict)
    dense: Float32Array | None = None
    tokens: TokenBatch | None = None
    documents: tuple[Document, ...] | None = None
    backgrounds: Mapping[str, Moments] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.ids)
        sizes: dict[str, int] = {f"scores[{name!r}]": len(values) for name, values in self.scores.items()}
        for name in ("dense", "tokens", "documents"):
            part = getattr(self, name)
            if part is not None:
                sizes[name] = len(part)
        for name, size in sizes.items():
            if size != n:
                raise DataError(f"Candidates.{name} has {size} entries for {n} ids")

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.ArrayLike) -> Candidates:
        """The candidates at these positions, in this order."""
        index = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            ids=tuple(self.ids[i] for i in index),
            scores={name: values[index] for name, values in self.scores.items()},
            dense=None if self.dense is None else self.dense[index],
            tokens=None if self.tokens is None else self.tokens.take(index),
            documents=None if self.documents is None else tuple(self.documents[i] for i in index),
        )

    def join(self, other: Candidates) -> Candidates:
        """Both pools in a row; a scorer that only one of them has is NaN for the other's documents.

        Raises:
            DataError: if a document is in both, or a field is filled in one only.
        """
        twice = sorted(set(self.ids) & set(other.ids))
        if twice:
            raise DataError(f"the document {twice[0]!r} is in both pools; join disjoint pools")
        for name in ("dense", "tokens", "documents"):
            if (getattr(self, name) is None) != (getattr(other, name) is None):
                raise DataError(f"the field {name!r} is filled in one of two pools only; fetch it for both")

        def part(pool: Candidates, name: str) -> FloatArray:
            return pool.scores.get(name, np.full(len(pool), np.nan))

        names = [*self.scores, *(name for name in other.scores if name not in self.scores)]
        both_dense = (self.dense, other.dense)
        both_tokens = (self.tokens, other.tokens)
        both_documents = (self.documents, other.documents)
        return Candidates(
            ids=self.ids + other.ids,
            scores={name: np.concatenate([part(self, name), part(other, name)]) for name in names},
            dense=_joined(both_dense, np.concatenate),
            tokens=_joined(both_tokens, TokenBatch.concatenate),
            documents=_joined(both_documents, lambda parts: parts[0] + parts[1]),
            backgrounds={**other.backgrounds, **self.backgrounds},
        )

    def without(self, document_id: str) -> Candidates:
        """The pool without one document (a question that is itself in the corpus must not find itself)."""
        if document_id not in self.ids:
            return self
        return self.take([i for i, name in enumerate(self.ids) if name != document_id])


@dataclass(frozen=True, slots=True)
class Hit:
    """One line of a ranking: a document, its score, and what each scorer gave it."""

    id: str
    score: float
    parts: Mapping[str, float]
    document: Document | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Documents in order, best first.

    Attributes:
        ids: n document ids.
        scores: (n,) descending; their meaning is the re-ranker's.
        parts: name -> (n,) what each scorer contributed, aligned with `ids`.
        documents: n documents, where the candidates had them.
        notes: what the reader of the scores must know (a score that was not defined, say).
    """

    ids: tuple[str, ...]
    scores: Float64Array
    parts: Mapping[str, Float64Array] = field(default_factory=dict)
    documents: tuple[Document, ...] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def order(
        cls,
        candidates: Candidates,
        scores: FloatArray,
        parts: Mapping[str, FloatArray] | None = None,
        notes: Sequence[str] = (),
    ) -> Ranking:
        """Sort a pool by score, descending; ties go by id, so that every store gives the same order.

        Raises:
            DataError: if the scores are not one finite number per candidate (minus infinity is allowed too).
        """
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != (len(candidates),):
            raise DataError(f"{values.shape} scores for {len(candidates)} candidates")
        bad = np.flatnonzero(~(values < np.inf))
        if len(bad):
            name, value = candidates.ids[bad[0]], values[bad[0]]
            raise DataError(f"the score of document {name!r} is {value}; scores must be finite numbers")
        names = np.asarray(candidates.ids, dtype=object)
        index = np.array(sorted(range(len(values)), key=lambda i: (-values[i], names[i])), dtype=np.int64)
        documents = candidates.documents
        return cls(
            ids=tuple(candidates.ids[i] for i in index),
            scores=values[index],
            parts={k: np.asarray(v, dtype=np.float64)[index] for k, v in (parts or {}).items()},
            documents=None if documents is None else tuple(documents[i] for i in index),
            notes=tuple(notes),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hit]:
        for i, name in enumerate(self.ids):
            yield Hit(
                id=name,
                score=float(self.scores[i]),
                parts={part: float(values[i]) for part, values in self.parts.items()},
                document=None if self.documents is None else self.documents[i],
            )

    def top(self, k: int) -> Ranking:
        """The first k documents."""
        return replace(
            self,
            ids=self.ids[:k],
            scores=self.scores[:k],
            parts={name: values[:k] for name, values in self.parts.items()},
            documents=None if self.documents is None else self.documents[:k],
        )


def _joined(pair: tuple[T | None, T | None], join: Callable[[Sequence[T]], T]) -> T | None:
    first, second = pair
    return None if first is None or second is None else join((first, second))
