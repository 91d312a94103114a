"""The systems that an index can be searched with: what each needs of it, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from surprise_rerank.arrays import Float32Array
from surprise_rerank.candidates import Field, Query
from surprise_rerank.connectors.hybrid import HybridRetriever
from surprise_rerank.connectors.qdrant import (
    DenseRetriever,
    DocumentIndex,
    MaxSimRetriever,
    SearchOptions,
    SparseRetriever,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.explain import ExplainingRetriever
from surprise_rerank.connectors.qdrant.retriever import SurpriseMode
from surprise_rerank.ensemble import Ensemble
from surprise_rerank.errors import DataError
from surprise_rerank.extras import is_installed
from surprise_rerank.fusion import BM25_WEIGHT
from surprise_rerank.rerank import (
    CosineScorer,
    DynaMaxReranker,
    DynaMaxScorer,
    FusionReranker,
    Reranker,
    RetrievedScorer,
    Scorer,
)

SystemName: TypeAlias = Literal["cosine", "surprise", "maxsim", "bm25", "dynamax", "fusion"]

# Documents over which fusion measures what a usual score is: the deviation of 256 is known to 4 %.
SAMPLE_SIZE = 256
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
        if not isinstance(self.reranker, FusionReranker):
            return self.name
        return f"{self.name} of {', '.join(scorer.name for scorer in self.reranker.scorers)}"

    @property
    def needs(self) -> frozenset[Field]:
        """What is fetched with the pool."""
        needs: frozenset[Field] = frozenset() if self.reranker is None else self.reranker.needs
        return needs | {"documents"}

    def steps(self, query: Query, depth: int) -> list[str]:
        """What is done for a query, a line each."""
        return [*self.retriever.steps(query, depth), *([self.reranking] if self.reranking else [])]


def default_system(index: DocumentIndex) -> SystemName:
    """The best that an index stores what is needed for."""
    if index.manifest.options.packed_tokens:
        return "fusion"
    return "cosine" if index.manifest.options.token_vectors is None else "maxsim"


def build_system(
    name: SystemName, index: DocumentIndex, options: SearchOptions, mode: SurpriseMode | None
) -> System:
    """A system on an index.

    Args:
        name: which one.
        index: that is searched.
        options: filter and search parameters.
        mode: where surprise is computed; for the system `surprise` only.

    Raises:
        DataError: if the index lacks what it needs.
        IndexMismatchError: if surprise is asked for and documents carry no moments, or others.
    """
    if mode is not None and name != "surprise":
        raise DataError(
            f"--mode tells where surprise is computed; it goes with --system surprise, not {name}"
        )
    return _BUILDERS[name](index, options, mode)


def _cosine(index: DocumentIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    return System("cosine", DenseRetriever(index, options=options))


def _surprise(index: DocumentIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if index.manifest.statistics is None:
        raise DataError(
            f"{index.where} has no ensemble, which surprise is measured against; give it one with "
            "'surprise-rerank ensemble set'"
        )
    if mode == "vector" and not index.manifest.options.surprise_vector:
        raise _lacking(index, "augmented vectors, which --mode vector searches", "--surprise-vector")
    return System("surprise", SurpriseRetriever(index, mode or "formula", options=options))


def _maxsim(index: DocumentIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if index.manifest.options.token_vectors is None:
        raise _lacking(index, "multivectors, which maxsim compares", "--tokens float16")
    return System("maxsim", MaxSimRetriever(index, options=options))


def _bm25(index: DocumentIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if index.manifest.options.bm25 is None:
        raise _lacking(index, "sparse vectors, which bm25 reads", "--bm25")
    return System("bm25", SparseRetriever(index, options))


def _dynamax(index: DocumentIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if not index.manifest.options.packed_tokens:
        raise _lacking(index, "packed token vectors, which dynamax compares", "--packed-tokens")
    reranking = "client: dynamax of the token vectors of all of these"
    return System("dynamax", DenseRetriever(index, options=options), DynaMaxReranker(), reranking)


def _fusion(index: DocumentIndex, options: SearchOptions, mode: SurpriseMode | None) -> System:
    if not index.manifest.options.packed_tokens:
        raise _lacking(index, "packed token vectors, which a fusion compares", "--packed-tokens")
    named, tokens = index.token_sample(SAMPLE_SIZE)
    ids = tuple(dict.fromkeys(named))  # of passages, some are of one document
    corpus = Ensemble.from_vectors(sampled_vectors(index, ids), sample_size=0, model=index.manifest.model)
    scorers: list[Scorer] = [CosineScorer(corpus), DynaMaxScorer(tokens)]
    retriever: ExplainingRetriever = DenseRetriever(index, options=options)
    weights = {}
    # Questions become terms in Edge's code, wherever the index is.
    if index.manifest.options.bm25 is not None and is_installed("qdrant_edge"):
        words = SparseRetriever(index, options)
        retriever = HybridRetriever(index, words, ids, options=options)
        scorers.insert(0, RetrievedScorer("bm25"))
        weights["bm25"] = BM25_WEIGHT
    voices = " + ".join(f"{weights[s.name]:g} {s.name}" if s.name in weights else s.name for s in scorers)
    reranking = f"client: {voices}, each in deviations above its mean over {len(ids)} sampled documents"
    return System("fusion", retriever, FusionReranker(scorers, "surprise", weights), reranking)


def sampled_vectors(index: DocumentIndex, ids: Sequence[str]) -> Float32Array:
    """(n, d) dense vectors of the first of a sample's documents: all would be read for every start.

    Documents of many passages count as many times, so fewer of them are read.
    """
    most = max(_FEWEST, round(SAMPLE_SIZE / index.pools.density))
    dense = index.fetch(ids[:most], frozenset({"dense"})).dense
    assert dense is not None
    return dense


def _lacking(index: DocumentIndex, what: str, option: str) -> DataError:
    return DataError(
        f"{index.where} stores no {what}; choose another --system, or make the index again with "
        f"'surprise-rerank index --rebuild {option}'"
    )


_Builder: TypeAlias = Callable[[DocumentIndex, SearchOptions, SurpriseMode | None], System]
_BUILDERS: dict[SystemName, _Builder] = {
    "cosine": _cosine,
    "surprise": _surprise,
    "maxsim": _maxsim,
    "bm25": _bm25,
    "dynamax": _dynamax,
    "fusion": _fusion,
}
