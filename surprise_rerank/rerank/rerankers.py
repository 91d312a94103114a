"""Re-rankers: pure functions from an encoded query and a candidate pool to a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, Protocol, TypeAlias, get_args

import numpy as np

from surprise_rerank import border
from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.core.arrays import (
    Float64Array,
    FloatArray,
    VectorSimilarity,
    is_linear,
)
from surprise_rerank.rerank.fusion import (
    POOL_SCALES,
    FusionMethod,
    surprise_normalized,
    weighted_sum,
)
from surprise_rerank.rerank.scorers import Scorer, absence, dense_similarities
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight

Anchor: TypeAlias = Literal["document", "query"]


class Reranker(Protocol):
    """Anything that orders a candidate pool for a query."""

    @property
    def needs(self) -> frozenset[Field]:
        """Which optional fields of `Candidates` must be filled."""

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool in order, best first."""


@dataclass(frozen=True, slots=True)
class CosineReranker:
    """Orders documents by the similarity of their dense vectors to the query's.

    The default, `dot`, is the cosine: encoders give vectors of length 1.
    """

    similarity: VectorSimilarity = "dot"
    needs: ClassVar[frozenset[Field]] = frozenset({"dense"})

    def __post_init__(self) -> None:
        border.choice("similarity", self.similarity, get_args(VectorSimilarity))

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by similarity; a DataError as of `dense_similarities`."""
        parts = {"cosine": dense_similarities(query, candidates, self.similarity)}
        return Ranking.order(candidates, parts["cosine"], parts, raw=parts)


@dataclass(frozen=True)
class SurpriseReranker:
    """Orders documents by the surprise of their similarity to the query; `Surprise` has the other attributes.

    Attributes:
        ensemble: of questions or of documents, as vectors of the same encoder; its similarity is the one that
            documents are compared by.
        anchor: what q is. `document` corrects for documents that are near to everything, and changes the
            order; `query` keeps the similarity's order and makes the score comparable across queries.
    """

    ensemble: Ensemble
    model: SurpriseModel = "gaussian"
    weight: Weight = "crossover"
    anchor: Anchor = "document"
    shrink_mean: float = 0.0
    shrink_deviation: float = 0.0
    anchors: Ensemble | None = None
    needs: ClassVar[frozenset[Field]] = frozenset({"dense"})

    def __post_init__(self) -> None:
        border.instance("ensemble", self.ensemble, Ensemble)
        border.optional(border.instance, "anchors", self.anchors, Ensemble)
        border.choice("anchor", self.anchor, get_args(Anchor))
        _ = self.surprise  # raises its errors now, not at the first question

    @cached_property
    def surprise(self) -> Surprise:
        """The score that it ranks by."""
        return Surprise(
            self.ensemble, self.model, self.weight, self.shrink_mean, self.shrink_deviation, self.anchors
        )

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by surprise; for documents whose surprise is not defined the similarity alone counts.

        A note in the ranking reports them.

        Raises:
            DataError: if dense vectors are missing or of another dimension than the ensemble's.
        """
        dense, vectors = query.require_dense(), candidates.require_dense()
        kind = self.ensemble.similarity
        name = "cosine" if is_linear(kind) else kind  # stored vectors have length 1
        similarity = dense_similarities(query, candidates, kind)
        result = self.surprise.scores(similarity, vectors if self.anchor == "document" else dense[None, :])
        notes = []
        if not result.defined.all():
            undefined = int((~result.defined).sum())
            notes.append(
                f"surprise is not defined for {undefined} of {len(candidates)} documents (an ensemble of "
                f"{self.ensemble.count} members gives them no spread); their score is the {name} alone"
            )
        parts: dict[str, FloatArray] = {name: similarity, "z": result.z, "probability": result.probability}
        return Ranking.order(candidates, result.score, parts, notes, raw={"surprise": result.z})


@dataclass(frozen=True, slots=True)
class DynaMaxReranker:
    """Orders documents by a fuzzy-set similarity of their tokens to the query's.

    The default, inclusion over the query's universe, suits search: a short question is compared with the part
    of a document that covers it, not with the whole document.

    Attributes:
        threads: to use; by default one for a pool of some milliseconds, and torch's number for a larger one.
        device: where to multiply: `cpu`, `cuda`, ...
        retrieved: whether the candidates come with inclusion that their store has computed, so that no token
            vectors are needed here.
    """

    similarity: DynaMax = field(default_factory=DynaMax)
    threads: int | None = None
    device: str = "cpu"
    retrieved: bool = False

    def __post_init__(self) -> None:
        border.instance("similarity", self.similarity, DynaMax)
        border.fields(self, threads=border.or_none(border.count), device=border.text, retrieved=border.flag)

    @property
    def needs(self) -> frozenset[Field]:
        """Token vectors, where they are compared here."""
        return frozenset() if self.retrieved else frozenset({"tokens"})

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by similarity of tokens; a DataError if these are missing or of another dimension."""
        if self.retrieved:
            query.require_tokens()
            # Last what the store gave no score, as it was deleted meanwhile.
            found = np.nan_to_num(candidates.require_inclusion().scores, nan=0.0)
            return Ranking.order(candidates, found, {"dynamax": found})
        asked, documents = query.require_tokens(), candidates.require_tokens()
        scores = self.similarity.pool(asked, documents, threads=self.threads, device=self.device)
        notes = []
        if len(candidates) and not len(asked) and not documents.offsets[-1]:
            # Word vectors know none of the words, or the encoder gives no tokens.
            notes.append("neither the question nor any candidate has a token vector, so all scores are 0")
        return Ranking.order(candidates, scores, {"dynamax": scores}, notes)


@dataclass(frozen=True, slots=True)
class FusionReranker:
    """Orders documents by the weighted sum of several scorers on one scale.

    A scorer that lacks what it needs is left out, and a note in the ranking says so.

    Attributes:
        scorers: of different names.
        method: `surprise` (deviations above this query's mean over the corpus), `rrf`, `minmax` or `zscore`
            (both over the pool), or `sum` (the scores as they are).
        weights: scorer's name -> weight; 1 where not given. `fitted` learns them.
    """

    scorers: Sequence[Scorer]
    method: FusionMethod = "surprise"
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        is_list = isinstance(self.scorers, list | tuple)
        if not is_list or not all(hasattr(scorer, "moments") for scorer in self.scorers):
            border.refuse("scorers", self.scorers, "a list of scorers", "each has name, needs and scores")
        names = [scorer.name for scorer in self.scorers]
        border.some("scorers", names, "give a list of scorers")
        border.distinct("the names of scorers", names, "rename one")
        border.choice("method", self.method, get_args(FusionMethod))
        border.mapping("weights", self.weights, border.number)
        border.choices("weights", list(self.weights), names)

    @property
    def needs(self) -> frozenset[Field]:
        """What the scorers need, together."""
        return frozenset().union(*(scorer.needs for scorer in self.scorers))

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by the sum; `parts` holds each scorer's normalised scores, `raw` its own scores.

        Raises:
            DataError: if all scorers lack what they need.
        """
        notes = [note for scorer in self.scorers if (note := absence(scorer, query, candidates))]
        raw, parts = self._scored(query, candidates)
        return Ranking.order(candidates, weighted_sum(parts, self.weights), parts, notes, raw=raw)

    def parts(self, query: Query, candidates: Candidates) -> dict[str, Float64Array]:
        """Scorer's name -> (n,) its scores of the pool, on the common scale."""
        return self._scored(query, candidates)[1]

    def weighted(self, weights: Mapping[str, float]) -> FusionReranker:
        """The same fusion with other weights."""
        return replace(self, weights=border.mapping("weights", weights))

    def _scored(
        self, query: Query, candidates: Candidates
    ) -> tuple[dict[str, FloatArray], dict[str, Float64Array]]:
        """Each scorer's own scores, and the same on the common scale."""
        there = [scorer for scorer in self.scorers if not absence(scorer, query, candidates)]
        raw, parts = {}, {}
        for scorer in there or self.scorers:  # where none is there, the first one's error tells what to do
            raw[scorer.name] = own = scorer.scores(query, candidates)
            if self.method == "surprise":
                parts[scorer.name] = surprise_normalized(own, scorer.moments(query, candidates))
            else:
                parts[scorer.name] = POOL_SCALES[self.method](own)
        return raw, parts
