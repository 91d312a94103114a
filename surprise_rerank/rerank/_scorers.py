"""Scorers: each gives every candidate of a pool a score, and knows what is usual for it over the corpus.

A scorer is a re-ranker by itself: it orders by its own scores. `FusionReranker` adds several on one scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, get_args

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Inclusion, Query, Ranking
from surprise_rerank.core.arrays import Float64Array, FloatArray, VectorSimilarity, pair_similarities
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities._dynamax import DynaMax
from surprise_rerank.surprise._ensemble import Ensemble

# What a note calls a field.
FIELD_NAMES: Mapping[Field, str] = {
    "dense": "dense vectors",
    "tokens": "token vectors",
    "documents": "texts",
}
_FEWEST = 20  # texts that a line is drawn through


class Reranker(Protocol):
    """Anything that orders a candidate pool for a query."""

    @property
    def needs(self) -> frozenset[Field]:
        """Which optional fields of `Candidates` must be filled."""

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool in order, best first."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredScores:
    """A scorer's scores of n candidates, and what is usual for them over the corpus.

    Attributes:
        raw: (n,) its own scores.
        scores: (n,) what is compared with the moments: the same, or less what has no bearing on relevance.
        moments: of such scores over the corpus, or a sample of it.
    """

    raw: Float64Array
    scores: Float64Array
    moments: Moments


class Scorer(ABC):
    """One of the scores that a fusion adds up, or that orders a pool alone.

    A new one has a name, `scores` and `moments`; `needs` and `absence`, where it may lack something.
    """

    name: str  # what its part is called in a ranking
    # Whether scores of one question say nothing beside those of another, so that no background reads them.
    is_relative: ClassVar[bool] = False

    @property
    def is_of_pool(self) -> bool:
        """Whether its moments are those of the candidates, as it knows no corpus."""
        return False

    @property
    def needs(self) -> frozenset[Field]:
        """Which optional fields of `Candidates` must be filled."""
        return frozenset()

    @abstractmethod
    def scores(self, query: Query, candidates: Candidates) -> FloatArray:
        """(n,) its score of every candidate; NaN where it has none."""

    @abstractmethod
    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Mean and deviation of its scores for this query over the corpus, or a sample of it."""

    def measured(self, query: Query, candidates: Candidates) -> MeasuredScores:
        """Return its scores, with their mean and deviation over the corpus."""
        scores = np.asarray(self.scores(query, candidates), np.float64)
        return MeasuredScores(scores, scores, self.moments(query, candidates))

    def absence(self, query: Query, candidates: Candidates) -> str | None:
        """Why a fusion leaves it out here, as a sentence or an empty string; None where it can score."""
        for name in sorted(self.needs):
            if name in ("dense", "tokens") and getattr(query, name) is None:
                who = "the question has"
            elif getattr(candidates, name) is None:
                who = "the candidates have"
            else:
                continue
            return f"without {FIELD_NAMES[name]}: {who} none, so {self.name} was left out"
        return None

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by this score alone; last what has none."""
        scores = np.asarray(self.scores(query, candidates), np.float64)
        parts = {self.name: np.where(np.isnan(scores), -np.inf, scores)}
        return Ranking.order(candidates, parts[self.name], parts, raw=parts)


@dataclass(frozen=True)
class CosineScorer(Scorer):
    """The similarity of a document's dense vector to the question's.

    Attributes:
        ensemble: of the corpus, for exact moments; those of the pool stand for them without one.
        similarity: how vectors are compared: as the ensemble's are, where there is one. The default, `dot`,
            is the cosine: encoders give vectors of length 1.
        retrieved: whether the candidates come with it, as `Candidates.scores["cosine"]`, so that no vectors
            are needed here.
    """

    ensemble: Ensemble | None = None
    similarity: VectorSimilarity = "dot"
    name: str = "cosine"
    retrieved: bool = False

    def __post_init__(self) -> None:
        border.fields(self, ensemble=border.or_none(border.instance, Ensemble), retrieved=border.flag)
        border.choice("similarity", self.similarity, get_args(VectorSimilarity))
        if self.ensemble is not None:
            object.__setattr__(self, "similarity", self.ensemble.similarity)

    @property
    def is_of_pool(self) -> bool:
        """Whether moments are those of the candidates, as there is no ensemble."""
        return self.ensemble is None

    @property
    def needs(self) -> frozenset[Field]:
        """Dense vectors, where they are compared here."""
        return frozenset() if self.retrieved else frozenset({"dense"})

    def scores(self, query: Query, candidates: Candidates) -> FloatArray:
        """(n,) similarities; a DataError if dense vectors are missing or of another dimension."""
        if self.retrieved and "cosine" in candidates.scores:
            return candidates.scores["cosine"]
        return dense_similarities(query, candidates, self.similarity)

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Exact moments over the ensemble, or those of the pool."""
        if self.ensemble is None:
            return Moments.of(np.asarray(self.scores(query, candidates), np.float64))
        return self.ensemble.moments(query.require_dense()).single()


@dataclass(frozen=True)
class DynaMaxScorer(Scorer):
    """A fuzzy-set similarity of a document's tokens to the question's.

    The default, inclusion over the query's universe, suits search: a short question is compared with the part
    of a document that covers it, not with the whole document.

    Attributes:
        sample: token vectors of a uniform sample of the corpus, for moments; those of the pool stand for them
            without one.
        lengths: the share, from 0 to 1, of what a document's length predicts that its score loses in a sum.
        threads: to use; by default one for a pool of some milliseconds, and torch's number for a larger one.
        device: where to multiply: `cpu`, `cuda`, ...
        retrieved: whether the candidates come with inclusion that their store has computed, so that no token
            vectors are needed here.
    """

    similarity: DynaMax = field(default_factory=DynaMax)
    sample: TokenBatch | None = None
    lengths: float = 0.0
    threads: int | None = None
    device: str = "cpu"
    retrieved: bool = False
    name: str = "dynamax"

    def __post_init__(self) -> None:
        border.fields(
            self,
            similarity=lambda name, value: border.instance(name, value, DynaMax),
            sample=border.or_none(border.instance, TokenBatch),
            lengths=border.share,
            threads=border.or_none(border.count),
            device=border.text,
            retrieved=border.flag,
        )

    @property
    def is_of_pool(self) -> bool:
        """Whether moments are those of the candidates, as there is no sample of the corpus."""
        return self.sample is None and not self.retrieved

    @property
    def needs(self) -> frozenset[Field]:
        """Token vectors, where they are compared here."""
        return frozenset() if self.retrieved else frozenset({"tokens"})

    def scores(self, query: Query, candidates: Candidates) -> Float64Array:
        """(n,) similarities; a DataError if tokens are missing or of another dimension."""
        if self.retrieved:
            return candidates.require_inclusion().scores
        tokens, documents = query.require_tokens(), candidates.require_tokens()
        return self.similarity.pool(tokens, documents, threads=self.threads, device=self.device)

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Moments over the sample of the corpus, or those of the pool."""
        return Moments.of(self._inclusion(query, candidates).usual)

    def measured(self, query: Query, candidates: Candidates) -> MeasuredScores:
        """Scores less what lengths predict, with moments of the same over the sample."""
        inclusion = self._inclusion(query, candidates)
        scores, usual = without_length(inclusion, self.lengths)
        return MeasuredScores(inclusion.scores, scores, Moments.of(usual))

    def absence(self, query: Query, candidates: Candidates) -> str | None:
        """Why a fusion leaves it out here; None where it can score."""
        if not self.retrieved:
            return Scorer.absence(self, query, candidates)
        if candidates.inclusion is not None:
            return None
        who = "the question has" if query.tokens is None else "the candidates have"
        return f"without token vectors: {who} none, so {self.name} was left out"

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by similarity of tokens; a DataError if these are missing or of another dimension."""
        tokens, notes = query.require_tokens(), list[str]()
        # Last what a store gave no score, as it was deleted meanwhile.
        scores = np.nan_to_num(self.scores(query, candidates), nan=0.0)
        is_empty = not self.retrieved and not len(tokens) and not candidates.require_tokens().offsets[-1]
        if len(candidates) and is_empty:
            # Word vectors know none of the words, or the encoder gives no tokens.
            notes = ["neither the question nor any candidate has a token vector, so all scores are 0"]
        return Ranking.order(candidates, scores, {self.name: scores}, notes)

    def _inclusion(self, query: Query, candidates: Candidates) -> Inclusion:
        """Scores of the pool and of the sample, with lengths."""
        if self.retrieved:
            return candidates.require_inclusion()
        documents = candidates.require_tokens()
        scores = self.scores(query, candidates)
        if self.sample is None:
            return Inclusion(scores, documents.token_counts, scores, documents.token_counts)
        usual = self.similarity.pool(query.require_tokens(), self.sample, threads=self.threads)
        return Inclusion(scores, documents.token_counts, usual, self.sample.token_counts)


@dataclass(frozen=True)
class RetrievedScorer(Scorer):
    """Scores that a retriever put into the candidates, with their moments over the corpus (BM25)."""

    name: str

    def scores(self, query: Query, candidates: Candidates) -> FloatArray:
        """(n,) the retriever's scores; a DataError if no retriever of that name filled them in."""
        return candidates.scores[border.choice("the candidates' scores", self.name, candidates.scores)]

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """The moments that the retriever filled in; a DataError if it did not."""
        moments = candidates.corpus_moments.get(self.name)
        return border.present(f"moments of {self.name!r} over the corpus", moments, "use rrf or minmax")

    def absence(self, query: Query, candidates: Candidates) -> str | None:
        """Why a fusion leaves it out here; None where it can score."""
        if self.name in candidates.scores:
            return None
        return f"without scores of {self.name}: the candidates have none, so it was left out"


def without_length(inclusion: Inclusion, share: float) -> tuple[Float64Array, Float64Array]:
    """(n,) scores of a pool and (s,) of a sample, less a share of what their numbers of tokens predict.

    Inclusion takes the largest similarity over a document's tokens, so a document with more tokens has more
    chances. The sample of the corpus shows how many more: with b the least-squares slope over it, and a the
    share, from 0 to 1,

        s_i - a b (log(1 + l_i) - mean log(1 + l)).

    A sample of fewer than 20 shows nothing, and all scores stay.
    """
    scores, usual = inclusion.scores, inclusion.usual
    if len(usual) < _FEWEST or not share:
        return scores, usual
    lengths = np.log1p(inclusion.usual_lengths.astype(np.float64))
    middle = lengths.mean()
    about = lengths - middle
    spread = float(about @ about)
    slope = float(about @ usual) / spread if spread > 0 else 0.0
    away = np.log1p(inclusion.lengths.astype(np.float64)) - middle
    return scores - share * slope * away, usual - share * slope * about


def dense_similarities(query: Query, candidates: Candidates, similarity: VectorSimilarity) -> Float64Array:
    """(n,) similarities of the candidates' vectors to the query's.

    Raises:
        DataError: if dense vectors are missing or of another dimension than the query's.
    """
    dense, vectors = query.require_dense(), candidates.require_dense()
    border.equal("the shape of the query's vector", dense.shape, vectors.shape[1:], "use one encoder")
    return pair_similarities(vectors, dense, similarity)
