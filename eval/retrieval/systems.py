"""The systems that `rerank-eval` compares: a name, what it is, and how it is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.connectors.qdrant import SparseRetriever
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.register import AUTO_SAMPLE_SIZE, auto_system
from surprise_rerank.errors import SurpriseRerankError, did_you_mean
from surprise_rerank.eval.retrieval.fitting import MOST_GUARDED
from surprise_rerank.eval.retrieval.pools import LexicallyScored, PoolName, Resources
from surprise_rerank.eval.retrieval.trec import Run
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, AUTO_ROBUST, AutoReranker, AutoSettings
from surprise_rerank.rerank.fusion import BM25_WEIGHT, FusionMethod
from surprise_rerank.rerank.rerankers import CosineReranker, FusionReranker, Reranker, SurpriseReranker
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.rerank.weight_fitting import fit_guarded
from surprise_rerank.similarities.registry import SIMILARITIES, NamedSimilarity
from surprise_rerank.similarities.reranker import SimilarityReranker
from surprise_rerank.surprise.score import SurpriseModel, Weight

# Size of the pools that fusion weights are fitted on.
_FIT_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Runner:
    """A system at work.

    Attributes:
        retriever: makes the pool.
        reranker: orders it; None where the retriever's order stands.
        note: what the table's reader must know.
    """

    retriever: Retriever
    reranker: Reranker | None = None
    note: str = ""

    @property
    def needs(self) -> frozenset[Field]:
        """Which optional fields of the pool must be filled."""
        return self.reranker.needs if self.reranker is not None else frozenset()

    def rank(self, query: Query, depth: int, *, drop_own_id: bool) -> Ranking:
        """The pool of a query in order.

        Args:
            query: encoded.
            depth: size of the pool.
            drop_own_id: leave out the document whose id is the question's (BEIR's rule).
        """
        pool = self.retriever.retrieve(query, depth + int(drop_own_id), self.needs)
        if drop_own_id:
            pool = pool.without(query.id)
        if not len(pool):  # a run that lacks the question
            return Ranking((), np.zeros(0))
        if self.reranker is not None:
            return self.reranker.rerank(query, pool).top(depth)
        return _as_retrieved(pool).top(depth)


@dataclass(frozen=True, slots=True)
class RunOfAnother:
    """A run of another program as a system: its order as it is, as deep as it is.

    Attributes:
        run: with the data set's ids.
        note: what the table's reader must know.
    """

    run: Run
    note: str = ""

    def rank(self, query: Query, depth: int, *, drop_own_id: bool) -> Ranking:
        """The question's ranking; none, where the run lacks the question."""
        ranking = self.run.rankings.get(query.id, Ranking((), np.zeros(0)))
        if not drop_own_id or query.id not in ranking.ids:
            return ranking
        kept = [i for i, name in enumerate(ranking.ids) if name != query.id]
        return Ranking(tuple(ranking.ids[i] for i in kept), ranking.scores[kept])


AnyRunner: TypeAlias = Runner | RunOfAnother
Builder: TypeAlias = Callable[[Resources], AnyRunner]


@dataclass(frozen=True, slots=True)
class System:
    """A system by name.

    Attributes:
        summary: one line for `--help` and reports.
        build: puts it together.
        bm25: whether it asks BM25, and whether it can do without.
        module: an optional one, other than BM25's, that it cannot do without.
        extra: the extra of this package that installs the module.
        fits: whether it learns from the judged questions of another split.
    """

    summary: str
    build: Builder
    bm25: Literal["none", "optional", "required"] = "none"
    module: str = ""
    extra: str = ""
    fits: bool = False


def find_systems(names: Sequence[str]) -> dict[str, System]:
    """The systems of these names.

    Raises:
        SurpriseRerankError: if one is not known; names the nearest.
    """
    for name in names:
        if name not in SYSTEMS:
            hint = did_you_mean(name, SYSTEMS)
            raise SurpriseRerankError(f"unknown system {name!r}; {hint}there are: {', '.join(SYSTEMS)}")
    return {name: SYSTEMS[name] for name in names}


def _as_retrieved(pool: Candidates) -> Ranking:
    """The pool in the retriever's own order, ties included, with its score; a line for each document."""
    ((name, scores),) = pool.scores.items()
    if pool.passages is not None:
        return Ranking.order(pool, scores, pool.scores)
    return Ranking(ids=pool.ids, scores=scores.astype("float64"), parts={name: scores.astype("float64")})


def bm25(resources: Resources) -> Runner:
    """BM25's own order, or a given pool in the order of its BM25 scores."""
    if resources.pool in (None, "bm25"):
        return Runner(resources.retriever("bm25"))
    return Runner(
        resources.retriever("bm25", bm25_scores=True), FusionReranker([RetrievedScorer("bm25")], "sum")
    )


def cosine(resources: Resources) -> Runner:
    """Cosine's own order, or a given pool in the order of its cosines."""
    if resources.pool in (None, "cosine"):
        return Runner(resources.retriever("cosine"))
    return Runner(resources.retriever("cosine"), CosineReranker(resources.corpus.similarity))


def surprise(model: SurpriseModel, weight: Weight, shrink: float, resources: Resources) -> Runner:
    """A pool by surprise, the document as anchor."""
    reranker = SurpriseReranker(
        resources.anchors,
        model=model,
        weight=weight,
        shrink_mean=shrink,
        shrink_deviation=shrink,
        anchors=resources.corpus,
    )
    return Runner(resources.retriever("cosine"), reranker)


def similarity(name: str, resources: Resources) -> Runner:
    """A pool by a similarity of the registry."""
    named = SIMILARITIES[name]
    reranker = SimilarityReranker(named.build(resources.fitting(named.fitted_on)), resources.encoder, name)
    return Runner(resources.retriever("cosine"), reranker)


def auto(settings: AutoSettings, resources: Resources) -> Runner:
    """What an index is searched with by default, the very same object, but that dense search is exact.

    Args:
        settings: its numbers.
        resources: what the system is made of.
    """
    index = resources.index
    system = auto_system(index, NO_OPTIONS.exactly(), settings)
    has_words = isinstance(system.retriever, HybridRetriever)
    note = "" if has_words else "without words: the index stores no sparse vectors"
    if resources.pool is None:
        return Runner(system.retriever, system.reranker, note)
    retriever = resources.retriever("cosine")
    if has_words:
        sample = tuple(dict.fromkeys(resources.sample_ids[:AUTO_SAMPLE_SIZE]))
        retriever = LexicallyScored(retriever, SparseRetriever(index), sample)
    return Runner(retriever, system.reranker, note)


def _auto_fitted(resources: Resources) -> Runner:
    plain = auto(AUTO_DEFAULTS, resources)
    # A run of another program has no pools of the questions that weights are fitted on.
    own = replace(resources, pool=None) if isinstance(resources.pool, Run) else resources
    teacher = auto(AUTO_DEFAULTS, own)
    assert isinstance(plain.reranker, AutoReranker)
    needs = plain.reranker.needs

    def retrieve(query: Query) -> Candidates:
        return teacher.retriever.retrieve(query, _FIT_DEPTH, needs)

    found = fit_guarded(plain.reranker, resources.lessons.pools(retrieve, MOST_GUARDED))
    notes = "; ".join(text for text in (plain.note, str(found)) if text)
    return Runner(plain.retriever, plain.reranker.weighted(found.weights), notes)


def _fusion(method: FusionMethod, bm25_weight: float, resources: Resources) -> Runner:
    if resources.bm25 is None:
        scorers = ("cosine", "dynamax")
        note = "without BM25, of cosine and dynamax only"
        return replace(fusion(scorers, method, {}, "cosine", resources), note=note)
    return fusion(("bm25", "cosine", "dynamax"), method, {"bm25": bm25_weight}, "both", resources)


def fusion(
    scorers: Sequence[str],
    method: FusionMethod,
    weights: Mapping[str, float],
    usual: PoolName,
    resources: Resources,
) -> Runner:
    """A pool by the sum of several scores.

    Args:
        scorers: of bm25, cosine and dynamax.
        method: how they come onto one scale.
        weights: of the scorers; 1 where not given.
        usual: where the pool comes from, unless the resources say otherwise.
        resources: what the system is made of.
    """
    known: dict[str, Scorer] = {
        "bm25": RetrievedScorer("bm25"),
        "cosine": CosineScorer(resources.corpus),
        "dynamax": DynaMaxScorer(resources.sample_tokens),
    }
    reranker = FusionReranker([known[name] for name in scorers], method, weights)
    return Runner(resources.retriever(usual, bm25_scores="bm25" in scorers), reranker)


def _fusion_fitted(resources: Resources) -> Runner:
    equal = _fusion("surprise", 1.0, resources)
    # A run of another program has no pools of the questions that weights are fitted on.
    own = replace(resources, pool=None) if isinstance(resources.pool, Run) else resources
    teacher = _fusion("surprise", 1.0, own)
    assert isinstance(equal.reranker, FusionReranker)

    def retrieve(query: Query) -> Candidates:
        return teacher.retriever.retrieve(query, _FIT_DEPTH, equal.needs)

    fitted = equal.reranker.fitted(resources.lessons.pools(retrieve))
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in fitted.weights.items())
    notes = [equal.note, f"weights fitted on {resources.lessons.split} questions: {weights}"]
    return Runner(equal.retriever, fitted, "; ".join(note for note in notes if note))


def _system(name: str, named: NamedSimilarity) -> System:
    summary = f"cosine's pool by {named.summary}"
    return System(summary, partial(similarity, name), module=named.module, extra=named.extra)


SYSTEMS: dict[str, System] = {
    "bm25": System("BM25 by Lucene (k1 = .9, b = .4) over title and text", bm25, bm25="required"),
    "cosine": System("dense vectors by cosine", cosine),
    "surprise": System(
        "cosine's pool by surprise, the document as anchor, Gaussian model, crossover weight",
        partial(surprise, "gaussian", "crossover", 0.0),
    ),
    "surprise-pure": System(
        "the same without the crossover: z alone", partial(surprise, "gaussian", 1.0, 0.0)
    ),
    "surprise-mixed": System("the same with w = .5", partial(surprise, "gaussian", 0.5, 0.0)),
    "surprise-pooled": System(
        "z with one deviation for all documents: only their means differ",
        partial(surprise, "pooled", 1.0, 0.0),
    ),
    "surprise-pooled-mixed": System("pooled surprise with w = .5", partial(surprise, "pooled", 0.5, 0.0)),
    "surprise-shrunk": System(
        "z with means and variances moved half way to those of all documents",
        partial(surprise, "gaussian", 1.0, 0.5),
    ),
    "surprise-percentile": System(
        "surprise with median and percentile in place of mean and deviation",
        partial(surprise, "percentile", "crossover", 0.0),
    ),
    "surprise-empirical": System(
        "surprise by its definition, over a sample", partial(surprise, "empirical", "crossover", 0.0)
    ),
    **{name: _system(name, named) for name, named in SIMILARITIES.items()},
    "auto": System(
        "what an index is searched with by default: pools of cosine and Qdrant's BM25; both and dynamax on "
        "one scale, with feedback",
        partial(auto, AUTO_DEFAULTS),
    ),
    "auto-robust": System(
        "auto with half of what hubs and lengths give taken from cosine and dynamax",
        partial(auto, AUTO_ROBUST),
    ),
    "auto-fitted": System(
        "the same with weights fitted on the judged questions of another split (--fit), if they help on "
        "those that were held back",
        _auto_fitted,
        fits=True,
    ),
    "fusion": System(
        "BM25 (weight .5) + cosine + dynamax over both pools, surprise-normalised per question",
        partial(_fusion, "surprise", BM25_WEIGHT),
        bm25="optional",
    ),
    "fusion-equal": System("the same with equal weights", partial(_fusion, "surprise", 1.0), bm25="optional"),
    "fusion-fitted": System(
        "the same with weights fitted on the judged questions of another split (--fit)",
        _fusion_fitted,
        bm25="optional",
        fits=True,
    ),
    "fusion-zscore": System(
        "the same by deviations within the pool, equal weights",
        partial(_fusion, "zscore", 1.0),
        bm25="optional",
    ),
    "fusion-rrf": System(
        "the same by reciprocal ranks, equal weights", partial(_fusion, "rrf", 1.0), bm25="optional"
    ),
    "fusion-minmax": System(
        "the same by min-max over the pool, equal weights", partial(_fusion, "minmax", 1.0), bm25="optional"
    ),
}
