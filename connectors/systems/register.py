"""The systems that an index can be searched with: what each needs of it, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.retrievers.base import ExplainingRetriever
from surprise_rerank.connectors.qdrant.retrievers.dense import (
    DenseRetriever,
    MaxSimRetriever,
    SurpriseMode,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.systems.fitted_weights import FITTED_SYSTEMS, load_weights
from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, SCORERS, AutoReranker, AutoSettings
from surprise_rerank.rerank.fusion import BM25_WEIGHT
from surprise_rerank.rerank.rerankers import DynaMaxReranker, FusionReranker, Reranker
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.rerank.weight_fitting import Weighted
from surprise_rerank.surprise.ensemble import Ensemble

SystemName: TypeAlias = Literal["auto", "cosine", "surprise", "maxsim", "bm25", "dynamax", "fusion"]

# Documents over which fusion measures what a usual score is: the deviation of 256 is known to 4 %.
SAMPLE_SIZE = 256
# The same for `auto`: half as many rank as well (docs/defaults.md), and questions are answered sooner.
AUTO_SAMPLE_SIZE = 128
_FEWEST = 32  # documents of the sample, where each has many passages


@dataclass(frozen=True, slots=True)
class System:
    """A system at work on an index.

    Attributes:
        name: what it is asked for by.
        retriever: makes the pool.
        reranker: orders it; None where the retriever's order stands.
        reranking: what the re-ranker does, in words.
    """

    name: SystemName
    retriever: ExplainingRetriever
    reranker: Reranker | None = None
    reranking: str = ""

    @property
    def summary(self) -> str:
        """Its name, and what it adds."""
        return f"{self.name} of {', '.join(self.scorers)}" if self.scorers else self.name

    @property
    def scorers(self) -> tuple[str, ...]:
        """What it adds, by name; nothing, where one score ranks."""
        if isinstance(self.reranker, AutoReranker):
            has_words = isinstance(self.retriever, HybridRetriever)
            return tuple(name for name in SCORERS if name != "bm25" or has_words)
        if isinstance(self.reranker, FusionReranker):
            return tuple(scorer.name for scorer in self.reranker.scorers)
        return ()

    @property
    def sample_size(self) -> int:
        """How many points stand for the corpus."""
        return AUTO_SAMPLE_SIZE if self.name == "auto" else SAMPLE_SIZE

    @property
    def needs(self) -> frozenset[Field]:
        """What is fetched with the pool."""
        needs: frozenset[Field] = frozenset() if self.reranker is None else self.reranker.needs
        return needs | {"documents"}

    def steps(self, query: Query, depth: int) -> list[str]:
        """What is done for a query, a line each."""
        return [*self.retriever.steps(query, depth), *([self.reranking] if self.reranking else [])]


def default_system(index: QdrantIndex) -> SystemName:
    """The best that an index stores what is needed for."""
    if index.manifest.options.packed_tokens:
        return "auto"
    return "cosine" if index.manifest.options.token_vectors is None else "maxsim"


def build_system(
    name: SystemName, index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None
) -> System:
    """A system on an index, with the weights that were fitted for it, if any were.

    Args:
        name: which one.
        index: that is searched.
        options: filter and search parameters.
        mode: where surprise is computed; for the system `surprise` only.

    Raises:
        DataError: if the index lacks what it needs, or fitted weights are damaged.
        IndexMismatchError: if surprise is asked for and documents carry no moments, or others; if weights
            were fitted with another model.
    """
    built = usual_system(name, index, options, mode)
    weights = load_weights(index, name) if name in FITTED_SYSTEMS else None
    if weights is None or not isinstance(built.reranker, Weighted):
        return built
    # A fusion has no weight for BM25 where it cannot be asked, and weights of such a fusion have none.
    known = {part: own for part, own in weights.items() if name == "auto" or part in built.scorers}
    reranker = built.reranker.weighted({**built.reranker.weights, **known})
    return replace(
        built, reranker=reranker, reranking=f"{built.reranking}; weights fitted on judged questions"
    )


def usual_system(
    name: SystemName, index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None
) -> System:
    """A system with its usual weights, whatever was fitted; otherwise as `build_system`.

    Raises:
        DataError: if the index lacks what it needs.
        IndexMismatchError: if surprise is asked for and documents carry no moments, or others.
    """
    if mode is not None and name != "surprise":
        raise DataError(
            f"--mode tells where surprise is computed; it goes with --system surprise, not {name}"
        )
    return _BUILDERS[name](index, options, mode)


def _cosine(index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    return System("cosine", DenseRetriever(index, options=options))


def _surprise(index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if index.manifest.statistics is None:
        raise DataError(
            f"{index.where} has no ensemble, which surprise is measured against; give it one with "
            "'surprise-rerank ensemble set'"
        )
    if mode == "vector" and not index.manifest.options.surprise_vector:
        raise _lacking(index, "augmented vectors, which --mode vector searches", "--surprise-vector")
    return System("surprise", SurpriseRetriever(index, mode or "formula", options=options))


def _maxsim(index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if index.manifest.options.token_vectors is None:
        raise _lacking(index, "multivectors, which maxsim compares", "--tokens float16")
    return System("maxsim", MaxSimRetriever(index, options=options))


def _bm25(index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if index.manifest.options.bm25 is None:
        raise _lacking(index, "sparse vectors, which bm25 reads", "--bm25")
    return System("bm25", SparseRetriever(index, options))


def _dynamax(index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if not index.manifest.options.packed_tokens:
        raise _lacking(index, "packed token vectors, which dynamax compares", "--packed-tokens")
    reranking = "client: dynamax of the token vectors of all of these"
    return System("dynamax", DenseRetriever(index, options=options), DynaMaxReranker(), reranking)


def _fusion(index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    sample = _sampled(index, SAMPLE_SIZE, "a fusion", frozenset({"dense"}))
    scorers: list[Scorer] = [CosineScorer(sample.corpus), DynaMaxScorer(sample.tokens)]
    retriever, has_words = _retriever(index, options, sample.ids)
    weights = {}
    if has_words:
        scorers.insert(0, RetrievedScorer("bm25"))
        weights["bm25"] = BM25_WEIGHT
    summed = " + ".join(f"{weights[s.name]:g} {s.name}" if s.name in weights else s.name for s in scorers)
    reranking = (
        f"client: {summed}, each in deviations above its mean over {len(sample.ids)} sampled documents"
    )
    return System("fusion", retriever, FusionReranker(scorers, "surprise", weights), reranking)


def _auto(index: QdrantIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    return auto_system(index, options)


def auto_system(
    index: QdrantIndex, options: SearchOptions = NO_OPTIONS, settings: AutoSettings = AUTO_DEFAULTS
) -> System:
    """The system `auto`, with other numbers than the usual ones for studies.

    Args:
        index: that is searched.
        options: filter and search parameters.
        settings: the numbers.

    Raises:
        DataError: if the index stores no token vectors.
    """
    has_words = _has_words(index)
    fields: frozenset[Field] = frozenset({"dense", "terms"} if has_words else {"dense"})
    sample = _sampled(index, AUTO_SAMPLE_SIZE, "auto", fields)
    retriever, _ = _retriever(index, options, sample.ids)
    reranker = AutoReranker(sample.corpus, sample.tokens, sample.words, settings)
    words = f"{settings.bm25:g} bm25 + " if has_words else ""
    reranking = (
        f"client: {words}cosine + dynamax, each in deviations above its mean over {len(sample.ids)} sampled "
        f"documents; feedback from the best, and from the {settings.nearest} nearest of each candidate"
    )
    return System("auto", retriever, reranker, reranking)


def _has_words(index: QdrantIndex) -> bool:
    """Whether BM25 can be asked: questions become terms in Edge's code, wherever the index is."""
    return index.manifest.options.bm25 is not None and is_installed("qdrant_edge")


def _retriever(
    index: QdrantIndex, options: SearchOptions, ids: tuple[str, ...]
) -> tuple[ExplainingRetriever, bool]:
    """Candidates by cosine, and by BM25 where it can be asked; and whether it can."""
    if not _has_words(index):
        return DenseRetriever(index, options=options), False
    return HybridRetriever(index, SparseRetriever(index, options), ids, options=options), True


@dataclass(frozen=True, slots=True)
class _Sample:
    """What stands for the corpus.

    Attributes:
        ids: of documents.
        tokens: their token vectors, of some passages only where documents have many.
        corpus: the ensemble of the first ones: all would be read for every start.
        words: the terms of the same, where they were asked for.
    """

    ids: tuple[str, ...]
    tokens: TokenBatch
    corpus: Ensemble
    words: TermSpace | None


def _sampled(index: QdrantIndex, size: int, reader: str, fields: frozenset[Field]) -> _Sample:
    if not index.manifest.options.packed_tokens:
        raise _lacking(index, f"packed token vectors, which {reader} compares", "--packed-tokens")
    named, tokens = index.token_sample(size)
    ids = tuple(dict.fromkeys(named))  # of passages, some are of one document
    found = sampled(index, ids, size, fields)
    corpus = Ensemble.from_vectors(found.require_dense(), sample_size=0, model=index.manifest.model)
    return _Sample(ids, tokens, corpus, None if found.terms is None else TermSpace(found.terms))


def sampled(index: QdrantIndex, ids: Sequence[str], size: int, fields: frozenset[Field]) -> Candidates:
    """The first of a sample's documents: all of them would be read for every start.

    Documents of many passages count as many times, so fewer of them are read.
    """
    most = max(_FEWEST, round(size / index.pools.density))
    return index.fetch(ids[:most], fields)


def _lacking(index: QdrantIndex, what: str, option: str) -> DataError:
    return DataError(
        f"{index.where} stores no {what}; choose another --system, or make the index again with "
        f"'surprise-rerank index --rebuild {option}'"
    )


_Builder: TypeAlias = Callable[[QdrantIndex, SearchOptions, SurpriseMode | None], System]
_BUILDERS: dict[SystemName, _Builder] = {
    "auto": _auto,
    "cosine": _cosine,
    "surprise": _surprise,
    "maxsim": _maxsim,
    "bm25": _bm25,
    "dynamax": _dynamax,
    "fusion": _fusion,
}
