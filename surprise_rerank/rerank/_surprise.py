"""The surprise score as a re-ranker of its own: the ensemble decides the order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, get_args

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query, Ranking
from surprise_rerank.core.arrays import FloatArray, is_linear
from surprise_rerank.rerank._scorers import dense_similarities
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight

Anchor: TypeAlias = Literal["document", "query"]


@dataclass(frozen=True)
class SurpriseReranker:
    """Orders documents by the surprise of their similarity to the query; see `Surprise`.

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
