"""The systems that an evaluation adds to the register: variants for comparison, and BM25 by Lucene."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from surprise_rerank.connectors.qdrant.scored import InclusionScored
from surprise_rerank.connectors.qdrant.search.queries import TokenSample
from surprise_rerank.connectors.systems.building import auto
from surprise_rerank.connectors.systems.inputs import BuiltSystem
from surprise_rerank.connectors.systems.register import SYSTEMS, Need, System
from surprise_rerank.eval.retrieval.pools import Resources
from surprise_rerank.eval.retrieval.trec import Run
from surprise_rerank.rerank.fusion import BM25_WEIGHT, FusionMethod, FusionReranker
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.rerank.surprise import SurpriseReranker
from surprise_rerank.rerank.weight_fitting import fit_guarded
from surprise_rerank.similarities.table import find_similarity
from surprise_rerank.similarities.text_similarity import SimilarityReranker
from surprise_rerank.surprise.score import SurpriseModel, Weight

# Size of the pools that weights are fitted on.
_FIT_DEPTH = 100


def build(system: System, resources: Resources) -> BuiltSystem:
    """A system at work; a registered one is built as for an index, but its search is exact."""
    if resources.pool == system.name:  # the pool of its own search, whose order it keeps
        resources = replace(resources, pool=None)
    is_registered = SYSTEMS.get(system.name) is system
    return system.built(resources.of_index() if is_registered else resources)


def surprise(model: SurpriseModel, weight: Weight, shrink: float, resources: Resources) -> BuiltSystem:
    """A pool by surprise, the document as anchor."""
    reranker = SurpriseReranker(
        resources.anchors,
        model=model,
        weight=weight,
        shrink_mean=shrink,
        shrink_deviation=shrink,
        anchors=resources.corpus,
    )
    return BuiltSystem("surprise", resources.retriever("cosine"), reranker)


def _similarity(name: str, resources: Resources) -> BuiltSystem:
    named = find_similarity(name)
    reranker = SimilarityReranker(named.build(resources.fitting(named.fitted_on)), resources.encoder, name)
    return BuiltSystem(name, resources.retriever("cosine"), reranker)


def _bm25_lucene(resources: Resources) -> BuiltSystem:
    """BM25's own order, or a given pool in the order of its BM25 scores."""
    if resources.pool is None:
        return BuiltSystem("bm25-lucene", resources.retriever("bm25-lucene"))
    retriever = resources.retriever("bm25-lucene", bm25="bm25-lucene")
    return BuiltSystem("bm25-lucene", retriever, RetrievedScorer("bm25"))


def _fusion_lucene(method: FusionMethod, bm25_weight: float, resources: Resources) -> BuiltSystem:
    """The pools of Lucene's BM25 and of cosine, by the sum of their scores and DynaMax's."""
    tokens = resources.sample_tokens
    scorers: list[Scorer] = [CosineScorer(resources.corpus), DynaMaxScorer(sample=tokens, retrieved=True)]
    note, weights = "without BM25, of cosine and dynamax only", dict[str, float]()
    if resources.lucene is None:
        retriever = resources.retriever("cosine")
    else:
        note, weights = "", {"bm25": bm25_weight}
        scorers.insert(0, RetrievedScorer("bm25"))
        retriever = resources.retriever("both-lucene", bm25="bm25-lucene")
    scored = InclusionScored(retriever, resources.index, TokenSample(tokens))
    return BuiltSystem("fusion", scored, FusionReranker(scorers, method, weights), note=note)


def _fitted(make: Callable[[Resources], BuiltSystem], resources: Resources) -> BuiltSystem:
    """A system with weights that judged questions of another split teach, where they help."""
    built = make(resources)
    assert isinstance(built.reranker, FusionReranker)
    # A run has no pools of other questions.
    teacher = make(replace(resources, pool=None)) if isinstance(resources.pool, Run) else built
    pools = resources.lessons.pools(
        lambda query: teacher.retriever.retrieve(query, _FIT_DEPTH, teacher.needs)
    )
    fitted = fit_guarded(built.reranker, pools)
    note = "; ".join(text for text in (built.note, str(fitted)) if text)
    return replace(built, reranker=built.reranker.weighted(fitted.weights), note=note)


def _surprise(name: str, model: SurpriseModel, weight: Weight, shrink: float, summary: str) -> System:
    return System(name=name, summary=summary, build=partial(surprise, model, weight, shrink))


def similarity_system(name: str) -> System:
    """Cosine's pool by a similarity of this name; a DataError if there is none."""
    named = find_similarity(name)
    return System(
        name=name,
        summary=f"cosine's pool by {named.summary}",
        build=partial(_similarity, name),
        kind="late-interaction",
        module=named.module,
        extra=named.extra,
    )


def _fusion(name: str, method: FusionMethod, bm25_weight: float, summary: str) -> System:
    build = partial(_fusion_lucene, method, bm25_weight)
    return System(name=name, summary=summary, build=build, kind="hybrid", uses=frozenset({"lucene"}))


_JUDGED: frozenset[Need] = frozenset({"judgements"})

EVALUATED: Mapping[str, System] = MappingProxyType(
    {
        system.name: system
        for system in (
            System(
                name="bm25-lucene",
                summary="BM25 by Lucene (k1 = .9, b = .4) over title and text",
                build=_bm25_lucene,
                kind="sparse",
                needs=frozenset({"lucene"}),
            ),
            _surprise(
                *("surprise-crossover", "gaussian", "crossover", 0.0),
                "cosine's pool by surprise, Gaussian model, mixed with the cosine by the crossover weight",
            ),
            _surprise("surprise-mixed", "gaussian", 0.5, 0.0, "the same with w = .5"),
            _surprise(
                *("surprise-pooled", "pooled", 1.0, 0.0),
                "z with one deviation for all documents: only their means differ",
            ),
            _surprise("surprise-pooled-mixed", "pooled", 0.5, 0.0, "pooled surprise with w = .5"),
            _surprise(
                *("surprise-shrunk", "gaussian", 1.0, 0.5),
                "z with means and variances moved half way to those of all documents",
            ),
            _surprise(
                *("surprise-percentile", "percentile", "crossover", 0.0),
                "surprise with median and percentile in place of mean and deviation",
            ),
            _surprise(
                *("surprise-empirical", "empirical", "crossover", 0.0),
                "surprise by its definition, over a sample",
            ),
            System(
                name="auto-fitted",
                summary="auto with weights fitted on judged training questions, if they help on others",
                build=partial(_fitted, lambda resources: auto(resources.of_index())),
                kind="hybrid",
                needs=_JUDGED,
            ),
            _fusion(
                *("fusion-lucene", "surprise", BM25_WEIGHT),
                "BM25 by Lucene (weight .5) + cosine + dynamax, surprise-normalised per question",
            ),
            _fusion("fusion-lucene-equal", "surprise", 1.0, "the same with equal weights"),
            System(
                name="fusion-lucene-fitted",
                summary="the same with weights fitted on judged training questions, if they help on others",
                build=partial(_fitted, partial(_fusion_lucene, "surprise", 1.0)),
                kind="hybrid",
                needs=_JUDGED,
                uses=frozenset({"lucene"}),
            ),
            _fusion(
                *("fusion-lucene-zscore", "zscore", 1.0),
                "the same by deviations within the pool, equal weights",
            ),
            _fusion("fusion-lucene-rrf", "rrf", 1.0, "the same by reciprocal ranks, equal weights"),
            _fusion(
                "fusion-lucene-minmax", "minmax", 1.0, "the same by min-max over the pool, equal weights"
            ),
        )
    }
)
