"""Scorers: each has a score for every candidate of a pool, with mean and deviation over the corpus.

`FusionReranker` and `AutoReranker` are made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from surprise_rerank import border
from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.core.arrays import Float64Array, FloatArray, VectorSimilarity, pair_similarities
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.surprise.ensemble import Ensemble

# What a note calls a field.
FIELD_NAMES: Mapping[Field, str] = {
    "dense": "dense vectors",
    "tokens": "token vectors",
    "terms": "terms",
    "documents": "texts",
}


class Scorer(Protocol):
    """One of the scores that a fusion adds up."""

    @property
    def name(self) -> str:
        """What its part is called in a ranking."""

    @property
    def needs(self) -> frozenset[Field]:
        """Which optional fields of `Candidates` must be filled."""

    def scores(self, query: Query, candidates: Candidates) -> FloatArray:
        """(n,) its score of every candidate; NaN where it has none."""

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Mean and deviation of its scores for this query over the corpus, or a sample of it."""


@dataclass(frozen=True, slots=True)
class CosineScorer:
    """The similarity of dense vectors that an `ensemble` of the corpus has, with exact moments over it.

    Where it is `retrieved`, the candidates come with it as `Candidates.scores["cosine"]`, and no vectors are
    needed here.
    """

    ensemble: Ensemble
    name: str = "cosine"
    retrieved: bool = False

    @property
    def needs(self) -> frozenset[Field]:
        """Dense vectors, where they are compared here."""
        return frozenset() if self.retrieved else frozenset({"dense"})

    def scores(self, query: Query, candidates: Candidates) -> FloatArray:
        """(n,) cosines."""
        if self.retrieved and "cosine" in candidates.scores:
            return candidates.scores["cosine"]
        return dense_similarities(query, candidates, self.ensemble.similarity)

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Exact moments over the ensemble of documents."""
        return self.ensemble.moments(query.require_dense())


@dataclass(frozen=True, slots=True)
class DynaMaxScorer:
    """DynaMax over token vectors, with moments over a uniform `sample` of the corpus.

    Where it is `retrieved`, the candidates come with inclusion that their store has computed, and no token
    vectors are needed here.
    """

    sample: TokenBatch
    similarity: DynaMax = field(default_factory=DynaMax)
    name: str = "dynamax"
    retrieved: bool = False

    @property
    def needs(self) -> frozenset[Field]:
        """Token vectors, where they are compared here."""
        return frozenset() if self.retrieved else frozenset({"tokens"})

    def scores(self, query: Query, candidates: Candidates) -> FloatArray:
        """(n,) similarities."""
        if self.retrieved:
            return candidates.require_inclusion().scores
        return self.similarity.pool(query.require_tokens(), candidates.require_tokens())

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Moments over the sample of the corpus."""
        if self.retrieved:
            return Moments.of(candidates.require_inclusion().usual)
        return Moments.of(self.similarity.pool(query.require_tokens(), self.sample))


@dataclass(frozen=True, slots=True)
class RetrievedScorer:
    """Scores that a retriever put into the candidates, with their moments over the corpus (BM25)."""

    name: str
    needs: ClassVar[frozenset[Field]] = frozenset()

    def scores(self, query: Query, candidates: Candidates) -> FloatArray:
        """(n,) the retriever's scores; a DataError if no retriever of that name filled them in."""
        return candidates.scores[border.choice("the candidates' scores", self.name, candidates.scores)]

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """The moments that the retriever filled in; a DataError if it did not."""
        moments = candidates.corpus_moments.get(self.name)
        return border.present(f"moments of {self.name!r} over the corpus", moments, "use rrf or minmax")


def dense_similarities(query: Query, candidates: Candidates, similarity: VectorSimilarity) -> Float64Array:
    """(n,) similarities of the candidates' vectors to the query's.

    Raises:
        DataError: if dense vectors are missing or of another dimension than the query's.
    """
    dense, vectors = query.require_dense(), candidates.require_dense()
    border.equal("the shape of the query's vector", dense.shape, vectors.shape[1:], "use one encoder")
    return pair_similarities(vectors, dense, similarity)


def who_lacks(name: Field, query: Query, candidates: Candidates) -> str:
    """Who has no vectors of this kind, with the verb: `the question has`; empty where both have them."""
    if name in ("dense", "tokens") and getattr(query, name) is None:
        return "the question has"
    return "the candidates have" if getattr(candidates, name) is None else ""


def who_lacks_inclusion(query: Query, candidates: Candidates) -> str:
    """Who keeps a store from computing inclusion; empty where it did."""
    if candidates.inclusion is not None:
        return ""
    return "the question has" if query.tokens is None else "the candidates have"


def absence(scorer: Scorer, query: Query, candidates: Candidates) -> str:
    """A sentence that says why a scorer is left out of a sum; empty where it can score the candidates."""
    lacking = {name: who_lacks(name, query, candidates) for name in sorted(scorer.needs)}
    if isinstance(scorer, DynaMaxScorer) and scorer.retrieved:
        lacking["tokens"] = who_lacks_inclusion(query, candidates)
    for name, who in lacking.items():
        if who:
            return f"without {FIELD_NAMES[name]}: {who} none, so {scorer.name} was left out"
    if isinstance(scorer, RetrievedScorer) and scorer.name not in candidates.scores:
        return f"without scores of {scorer.name}: the candidates have none, so it was left out"
    return ""
