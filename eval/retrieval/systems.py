"""The systems of an evaluation: what they are made of, where their candidates come from, and variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank._candidates import Candidates, Field, Query
from surprise_rerank._errors import MissingExtraError
from surprise_rerank._pipeline import Retriever
from surprise_rerank.connectors._lucene.bm25 import BM25Index, BM25Retriever
from surprise_rerank.connectors.qdrant._hybrid import (
    HybridRetriever,
    InclusionScored,
    LexicalIndex,
    LexicallyScored,
    SparseRetriever,
)
from surprise_rerank.connectors.qdrant._retrievers import DenseRetriever
from surprise_rerank.connectors.qdrant._search.index_corpus import IndexCorpus
from surprise_rerank.connectors.systems._building import auto
from surprise_rerank.connectors.systems._inputs import BuiltSystem, SystemInputs
from surprise_rerank.connectors.systems._register import SYSTEMS, Need, System
from surprise_rerank.core._extras import pip_line
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.eval.retrieval.datasets import TrainingQuestions
from surprise_rerank.eval.retrieval.runs import Run
from surprise_rerank.rerank._fusion import BM25_WEIGHT, FusionMethod, FusionReranker
from surprise_rerank.rerank._scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.rerank._surprise import SurpriseReranker
from surprise_rerank.rerank._weight_fitting import fit_guarded
from surprise_rerank.similarities._text_similarity import SimilarityReranker
from surprise_rerank.similarities.table import CorpusStatistics, FittedOn, find_similarity
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.score import SurpriseModel, Weight

# Candidates by cosine, by BM25 (Qdrant's, or Lucene's), or the union of both.
PoolName: TypeAlias = Literal["cosine", "bm25", "both", "bm25-lucene", "both-lucene"]
POOLS: tuple[PoolName, ...] = get_args(PoolName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources(SystemInputs):
    """What an evaluation has beside the index, for systems that need more than an index.

    Attributes:
        document_ids: of all documents.
        ensemble_of_documents: of all of them.
        sample_ids, sample_tokens: a uniform sample of the corpus, and its token vectors.
        lucene: the documents' words, where Pyserini is installed and a system asks for them.
        fitting: makes what similarities are fitted on: the words of all documents, and the sample.
        lessons: judged questions that weights are fitted on.
        pool: where every system takes its candidates from, in place of its usual place.
    """

    corpus: IndexCorpus
    document_ids: frozenset[str]
    ensemble_of_documents: Ensemble
    sample_ids: tuple[str, ...]
    sample_tokens: TokenBatch
    lucene: BM25Index | None
    encoder: Encoder
    fitting: Callable[[frozenset[FittedOn]], CorpusStatistics]
    lessons: TrainingQuestions
    pool: PoolName | Run | None = None

    @property
    def anchors(self) -> Ensemble:
        """The ensemble that surprise is measured against (`ensemble`): the documents by default."""
        return self.ensemble or self.ensemble_of_documents

    def of_index(self) -> SystemInputs:
        """What a system of an index is made of: search is exact, and candidates come from the given pool."""
        first_stage = None if self.pool is None else self.retriever(self.pool)
        return SystemInputs(
            corpus=self.corpus, options=self.options, first_stage=first_stage, ensemble=self.anchors
        )

    def retriever(self, usual: PoolName | Run, *, bm25: str = "") -> Retriever:
        """The first stage of a system, or `pool`; with scores by the `bm25` that is named, if one is."""
        pool = self.pool or usual
        match pool:
            case "both" | "both-lucene":
                found_by = "bm25" if pool == "both" else "bm25-lucene"
                words = self._words(found_by)
                retriever: Retriever = HybridRetriever(self.corpus, words, options=self.options)
                if bm25 == found_by:  # whose scores it gives already
                    return retriever
            case "cosine":
                retriever = DenseRetriever(self.corpus, options=self.options)
            case "bm25":
                retriever = SparseRetriever(self.corpus, self.options)
            case "bm25-lucene":
                retriever = BM25Retriever(self._lucene, self.corpus.fetch)
            case _:
                retriever = RunRetriever(pool, self.corpus, self.document_ids)
        return LexicallyScored(retriever, self._words(bm25)) if bm25 else retriever

    def _words(self, bm25: str) -> LexicalIndex:
        return SparseRetriever(self.corpus, self.options) if bm25 == "bm25" else self._lucene

    @property
    def _lucene(self) -> BM25Index:
        if self.lucene is None:
            raise MissingExtraError(f"Lucene's BM25 needs Pyserini: run {pip_line('pyserini')}")
        return self.lucene


@dataclass(frozen=True, slots=True)
class RunRetriever:
    """The candidates that a run file names, with the scores that it gives them, if the index has them."""

    run: Run
    corpus: IndexCorpus
    document_ids: frozenset[str]

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The first `depth` documents of the question's ranking; none, where the run lacks the question."""
        ranking = self.run.rankings.get(query.id)
        scores = {} if ranking is None else dict(zip(ranking.ids, ranking.scores.tolist(), strict=True))
        ids = [name for name in scores if name in self.document_ids][:depth]
        pool = self.corpus.fetch(ids, fields)
        return replace(pool, scores={"run": np.array([scores[name] for name in pool.ids], np.float64)})


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
        anchors=resources.ensemble_of_documents,
    )
    return BuiltSystem("surprise", resources.retriever("cosine"), reranker)


def _bm25_lucene(resources: Resources) -> BuiltSystem:
    """BM25's own order, or a given pool in the order of its BM25 scores."""
    if resources.pool is None:
        return BuiltSystem("bm25-lucene", resources.retriever("bm25-lucene"))
    retriever = resources.retriever("bm25-lucene", bm25="bm25-lucene")
    return BuiltSystem("bm25-lucene", retriever, RetrievedScorer("bm25"))


def _fusion_lucene(method: FusionMethod, bm25_weight: float, resources: Resources) -> BuiltSystem:
    """The pools of Lucene's BM25 and of cosine, by the sum of their scores and DynaMax's."""
    tokens = resources.sample_tokens
    scorers: list[Scorer] = [
        CosineScorer(resources.ensemble_of_documents),
        DynaMaxScorer(sample=tokens, retrieved=True),
    ]
    note, weights = "without BM25, of cosine and dynamax only", dict[str, float]()
    if resources.lucene is None:
        retriever = resources.retriever("cosine")
    else:
        note, weights = "", {"bm25": bm25_weight}
        scorers.insert(0, RetrievedScorer("bm25"))
        retriever = resources.retriever("both-lucene", bm25="bm25-lucene")
    scored = InclusionScored(retriever, resources.corpus, tokens)
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


def similarity_system(name: str) -> System:
    """Cosine's pool by a similarity of this name; a DataError if there is none."""
    named = find_similarity(name)

    def build(resources: Resources) -> BuiltSystem:
        similarity = named.build(resources.fitting(named.fitted_on))
        reranker = SimilarityReranker(similarity, resources.encoder, name)
        return BuiltSystem(name, resources.retriever("cosine"), reranker)

    return System(
        name=name,
        summary=f"cosine's pool by {named.summary}",
        build=build,
        kind="late-interaction",
        module=named.module,
        extra=named.extra,
    )


_SURPRISE: tuple[tuple[str, SurpriseModel, Weight, float, str], ...] = (
    (
        *("surprise-crossover", "gaussian", "crossover", 0.0),
        "cosine's pool by surprise, Gaussian model, mixed with the cosine by the crossover weight",
    ),
    ("surprise-mixed", "gaussian", 0.5, 0.0, "the same with w = .5"),
    (
        *("surprise-pooled", "pooled", 1.0, 0.0),
        "z with one deviation for all documents: only their means differ",
    ),
    ("surprise-pooled-mixed", "pooled", 0.5, 0.0, "pooled surprise with w = .5"),
    (
        *("surprise-shrunk", "gaussian", 1.0, 0.5),
        "z with means and variances moved half way to those of all documents",
    ),
    (
        *("surprise-percentile", "percentile", "crossover", 0.0),
        "surprise with median and percentile in place of mean and deviation",
    ),
    ("surprise-empirical", "empirical", "crossover", 0.0, "surprise by its definition, over a sample"),
)
_FUSIONS: tuple[tuple[str, FusionMethod, float, str], ...] = (
    (
        *("fusion-lucene", "surprise", BM25_WEIGHT),
        "BM25 by Lucene (weight .5) + cosine + dynamax, surprise-normalised per question",
    ),
    ("fusion-lucene-equal", "surprise", 1.0, "the same with equal weights"),
    ("fusion-lucene-zscore", "zscore", 1.0, "the same by deviations within the pool, equal weights"),
    ("fusion-lucene-rrf", "rrf", 1.0, "the same by reciprocal ranks, equal weights"),
    ("fusion-lucene-minmax", "minmax", 1.0, "the same by min-max over the pool, equal weights"),
)
_LUCENE: frozenset[Need] = frozenset({"lucene"})
_FITTED = partial(System, kind="hybrid", needs=frozenset[Need]({"judgements"}))


def _evaluated() -> Iterator[System]:
    summary = "BM25 by Lucene (k1 = .9, b = .4) over title and text"
    yield System(name="bm25-lucene", summary=summary, build=_bm25_lucene, kind="sparse", needs=_LUCENE)
    for name, model, weight, shrink, summary in _SURPRISE:
        yield System(name=name, summary=summary, build=partial(surprise, model, weight, shrink))
    for name, method, bm25_weight, summary in _FUSIONS:
        build = partial(_fusion_lucene, method, bm25_weight)
        yield System(name=name, summary=summary, build=build, kind="hybrid", uses=_LUCENE)
    learned = "weights fitted on judged training questions, if they help on others"
    build = partial(_fitted, lambda resources: auto(resources.of_index()))
    yield _FITTED(name="auto-fitted", summary=f"auto with {learned}", build=build)
    build = partial(_fitted, partial(_fusion_lucene, "surprise", 1.0))
    yield _FITTED(
        name="fusion-lucene-fitted", summary=f"fusion-lucene with {learned}", build=build, uses=_LUCENE
    )


EVALUATED: Mapping[str, System] = MappingProxyType({system.name: system for system in _evaluated()})
