"""The systems that `rerank-eval` compares: a name, what it is, and how it is put together."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.connectors.hybrid import HybridRetriever
from surprise_rerank.connectors.pyserini import BM25Index, BM25Retriever
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex
from surprise_rerank.encoders import Encoder
from surprise_rerank.ensemble import Ensemble
from surprise_rerank.errors import MissingExtraError, SurpriseRerankError
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.extras import pip_line
from surprise_rerank.fusion import FusionMethod
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank import (
    CosineScorer,
    DynaMaxScorer,
    FusionReranker,
    Reranker,
    RetrievedScorer,
    Scorer,
    SurpriseReranker,
)
from surprise_rerank.similarities import SIMILARITIES, Corpus, FittedOn, NamedSimilarity
from surprise_rerank.similarity_rerank import SimilarityReranker
from surprise_rerank.surprise import SurpriseModel, Weight
from surprise_rerank.tokens import TokenBatch

# BM25's deviations spread twice as wide over a pool as those of cosine and DynaMax (2.2 to 1.0 and 1.2), so
# with equal weights it decides alone. Chosen on 400 training questions of scifact (nDCG@10 .743 -> .746) and
# the development questions of nfcorpus (.336 -> .340).
BM25_WEIGHT = 0.5

# Documents over which fusion measures what a usual score is: the deviation of 256 is known to 4 %.
SAMPLE_SIZE = 256

# Size of the pools that fusion weights are fitted on.
_FIT_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Resources:
    """What systems are made of.

    Attributes:
        index: the documents.
        corpus: the ensemble of all documents.
        anchors: the ensemble that surprise is measured against (`--ensemble`).
        sample_ids: ids of a uniform sample of the corpus.
        sample_tokens: their token vectors.
        bm25: the documents' words, where Pyserini is installed.
        encoder: that the documents were encoded with.
        fitting: what similarities are fitted on: the words of all documents, and the sample's token vectors;
            read when it is first asked for.
        lessons: judged questions that fusion weights are fitted on.
    """

    index: DocumentIndex
    corpus: Ensemble
    anchors: Ensemble
    sample_ids: tuple[str, ...]
    sample_tokens: TokenBatch
    bm25: BM25Index | None
    encoder: Encoder
    fitting: Callable[[frozenset[FittedOn]], Corpus]
    lessons: Lessons


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
        if self.reranker is not None:
            return self.reranker.rerank(query, pool).top(depth)
        return _as_retrieved(pool).top(depth)


Builder: TypeAlias = Callable[[Resources], Runner]


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
            near = difflib.get_close_matches(name, SYSTEMS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise SurpriseRerankError(f"unknown system {name!r}; {hint}there are: {', '.join(SYSTEMS)}")
    return {name: SYSTEMS[name] for name in names}


def _as_retrieved(pool: Candidates) -> Ranking:
    """The pool in the retriever's own order, ties included, with its score; a line for each document."""
    ((name, scores),) = pool.scores.items()
    if pool.passages is not None:
        return Ranking.order(pool, scores, pool.scores)
    return Ranking(ids=pool.ids, scores=scores.astype("float64"), parts={name: scores.astype("float64")})


def _bm25(resources: Resources) -> Runner:
    if resources.bm25 is None:
        raise MissingExtraError(f"bm25 needs Pyserini: run {pip_line('pyserini')}")
    return Runner(BM25Retriever(resources.bm25, resources.index))


def _cosine(resources: Resources) -> Runner:
    return Runner(DenseRetriever(resources.index, exact=True))


def _surprise(model: SurpriseModel, weight: Weight, shrink: float, resources: Resources) -> Runner:
    reranker = SurpriseReranker(
        resources.anchors,
        model=model,
        weight=weight,
        shrink_mean=shrink,
        shrink_deviation=shrink,
        anchors=resources.corpus,
    )
    return Runner(DenseRetriever(resources.index, exact=True), reranker)


def _similarity(name: str, resources: Resources) -> Runner:
    named = SIMILARITIES[name]
    reranker = SimilarityReranker(named.build(resources.fitting(named.fitted_on)), resources.encoder, name)
    return Runner(DenseRetriever(resources.index, exact=True), reranker)


def _fusion(method: FusionMethod, bm25_weight: float, resources: Resources) -> Runner:
    scorers: list[Scorer] = [CosineScorer(resources.corpus), DynaMaxScorer(resources.sample_tokens)]
    if resources.bm25 is None:
        note = "without BM25, of cosine and dynamax only"
        return Runner(DenseRetriever(resources.index, exact=True), FusionReranker(scorers, method), note)
    sample = tuple(dict.fromkeys(resources.sample_ids))  # of passages, some are of one document
    retriever = HybridRetriever(resources.index, resources.bm25, sample, exact=True)
    reranker = FusionReranker([RetrievedScorer("bm25"), *scorers], method, {"bm25": bm25_weight})
    return Runner(retriever, reranker)


def _fusion_fitted(resources: Resources) -> Runner:
    equal = _fusion("surprise", 1.0, resources)
    assert isinstance(equal.reranker, FusionReranker)

    def retrieve(query: Query) -> Candidates:
        return equal.retriever.retrieve(query, _FIT_DEPTH, equal.needs)

    fitted = equal.reranker.fitted(resources.lessons.pools(retrieve))
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in fitted.weights.items())
    notes = [equal.note, f"weights fitted on {resources.lessons.split} questions: {weights}"]
    return Runner(equal.retriever, fitted, "; ".join(note for note in notes if note))


def _system(name: str, named: NamedSimilarity) -> System:
    summary = f"cosine's pool by {named.summary}"
    return System(summary, partial(_similarity, name), module=named.module, extra=named.extra)


SYSTEMS: dict[str, System] = {
    "bm25": System("BM25 by Lucene (k1 = .9, b = .4) over title and text", _bm25, bm25="required"),
    "cosine": System("dense vectors by cosine", _cosine),
    "surprise": System(
        "cosine's pool by surprise, the document as anchor, Gaussian model, crossover weight",
        partial(_surprise, "gaussian", "crossover", 0.0),
    ),
    "surprise-pure": System(
        "the same without the crossover: z alone", partial(_surprise, "gaussian", 1.0, 0.0)
    ),
    "surprise-mixed": System("the same with w = .5", partial(_surprise, "gaussian", 0.5, 0.0)),
    "surprise-pooled": System(
        "z with one deviation for all documents: only their means differ",
        partial(_surprise, "pooled", 1.0, 0.0),
    ),
    "surprise-pooled-mixed": System("pooled surprise with w = .5", partial(_surprise, "pooled", 0.5, 0.0)),
    "surprise-shrunk": System(
        "z with means and variances moved half way to those of all documents",
        partial(_surprise, "gaussian", 1.0, 0.5),
    ),
    "surprise-percentile": System(
        "surprise with median and percentile in place of mean and deviation",
        partial(_surprise, "percentile", "crossover", 0.0),
    ),
    "surprise-empirical": System(
        "surprise by its definition, over a sample", partial(_surprise, "empirical", "crossover", 0.0)
    ),
    **{name: _system(name, named) for name, named in SIMILARITIES.items()},
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
