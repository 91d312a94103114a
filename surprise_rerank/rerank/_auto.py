"""The sums that systems rank by: `fusion`, and the default, `auto`.

Scorers are measured in deviations z above this question's mean over the corpus: BM25, the cosine, inclusion
of the question's tokens, less half of what a document's length predicts, and feedback (`feedback.py`), the
similarity to what the best documents by the first three have more of than the pool:

    auto = 1/2 z_bm25 + z_dynamax + [t z_cosine + (1 - t) z_bm25] + 3/4 [t z_feedback + (1 - t) z_bm25],

where t, from 0 to 1, is the trust in the dense vectors for this question (`fusion.Trust`): BM25 stands for
them where they are not trusted. `fusion` is 1/2 z_bm25 + z_cosine + z_dynamax.

What is not there is left out, and the ranking's notes say so. One scorer is enough. Feedback depends on the
pool. Nothing is trained. docs/results.md reports where the numbers come from, what each part is worth on
collections that they were not chosen on, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank._feedback import Feedback, FeedbackScorer
from surprise_rerank.rerank._fusion import BM25_WEIGHT, FusionReranker, Trust
from surprise_rerank.rerank._scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.surprise._ensemble import Ensemble


@dataclass(frozen=True, slots=True)
class SumSettings:
    """The weights and other numbers that a sum of scorers is made with.

    Attributes:
        weights: scorer's name -> weight; 1 where not given. Feedback is added where it has one.
        lengths: the share, from 0 to 1, of what a document's length predicts that its inclusion loses.
        trust: how weights follow the question.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    lengths: float = 0.0
    trust: Trust | None = None

    def reranker(
        self,
        corpus: Ensemble | None,
        tokens: TokenBatch | None,
        *,
        words: bool,
        cosines: bool = False,
        inclusion: bool = False,
    ) -> tuple[FusionReranker, Feedback | None]:
        """The sum of what a collection has, and what a retriever makes its second question by, if any.

        Args:
            corpus: documents that stand for the collection; None where they have no dense vectors.
            tokens: token vectors of such documents; None without any.
            words: whether candidates come with BM25's scores.
            cosines: whether they come with cosines, and with feedback; else vectors are compared here.
            inclusion: whether they come with inclusion; else token vectors are compared here.
        """
        scorers: list[Scorer] = [RetrievedScorer("bm25")] if words else []
        if corpus is not None:
            scorers.append(CosineScorer(corpus, retrieved=cosines))
        if tokens is not None:
            scorers.append(DynaMaxScorer(sample=tokens, lengths=self.lengths, retrieved=inclusion))
        names = {scorer.name for scorer in scorers}
        weights = {name: weight for name, weight in self.weights.items() if name in names}
        first = FusionReranker(scorers, "surprise", weights, self.trust)
        if corpus is None or not self.weights.get("feedback"):
            return first, None
        feedback = Feedback(first, corpus)
        scorers = [*scorers, FeedbackScorer(None if cosines else feedback)]
        weights["feedback"] = self.weights["feedback"]
        return FusionReranker(scorers, "surprise", weights, self.trust), feedback if cosines else None


FUSION = SumSettings({"bm25": BM25_WEIGHT})
AUTO = SumSettings({"bm25": BM25_WEIGHT, "feedback": 0.75}, lengths=0.5, trust=Trust())


def auto_of_texts() -> FusionReranker:
    """`auto` without an index: cosine and inclusion, in deviations above their means over the texts at hand.

    These stand for a sample of the corpus. Words and lengths are left out: what they weigh would come from
    the few texts. With one text all z are 0. docs/results.md reports what the order is worth.
    """
    return FusionReranker([CosineScorer(), DynaMaxScorer()])
