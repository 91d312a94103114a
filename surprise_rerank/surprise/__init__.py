"""The surprise score, and the ensembles that it is measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.surprise.anchor_scores import AnchorScores as AnchorScores
    from surprise_rerank.surprise.ensemble import Ensemble as Ensemble
    from surprise_rerank.surprise.linear_form import LinearForm as LinearForm
    from surprise_rerank.surprise.linear_form import augmented_documents as augmented_documents
    from surprise_rerank.surprise.linear_form import augmented_query as augmented_query
    from surprise_rerank.surprise.neighbours import Neighbours as Neighbours
    from surprise_rerank.surprise.neighbours import nearest as nearest
    from surprise_rerank.surprise.sampled import SampledEnsemble as SampledEnsemble
    from surprise_rerank.surprise.sampled import of_documents as of_documents
    from surprise_rerank.surprise.sampled import of_questions as of_questions
    from surprise_rerank.surprise.score import Surprise as Surprise
    from surprise_rerank.surprise.score import SurpriseModel as SurpriseModel
    from surprise_rerank.surprise.score import SurpriseScores as SurpriseScores
    from surprise_rerank.surprise.score import Weight as Weight
    from surprise_rerank.surprise.score import crossover_weight as crossover_weight
    from surprise_rerank.surprise.score import empirical_probability as empirical_probability
    from surprise_rerank.surprise.score import log_survival as log_survival
    from surprise_rerank.surprise.score import normalized_similarity as normalized_similarity
    from surprise_rerank.surprise.score import normalized_similarity_exact as normalized_similarity_exact
    from surprise_rerank.surprise.score import probability as probability
    from surprise_rerank.surprise.score import probability_by_definition as probability_by_definition
    from surprise_rerank.surprise.score import z_scores as z_scores

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "anchor_scores": "AnchorScores",
        "ensemble": "Ensemble",
        "linear_form": "LinearForm augmented_documents augmented_query",
        "neighbours": "Neighbours nearest",
        "sampled": "SampledEnsemble of_documents of_questions",
        "score": "Surprise SurpriseModel SurpriseScores Weight crossover_weight empirical_probability "
        "log_survival normalized_similarity normalized_similarity_exact probability "
        "probability_by_definition z_scores",
    },
)
