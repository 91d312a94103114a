"""What systems are made of in an evaluation, and where their candidates come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.document_index import DocumentIndex
from surprise_rerank.connectors.lucene.bm25 import BM25Index, BM25Retriever
from surprise_rerank.connectors.qdrant.hybrid import HybridRetriever, LexicalIndex, SparseRetriever
from surprise_rerank.connectors.qdrant.retrievers import DenseRetriever
from surprise_rerank.connectors.qdrant.scored import LexicallyScored
from surprise_rerank.connectors.systems.inputs import SystemInputs
from surprise_rerank.core.extras import pip_line
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import MissingExtraError
from surprise_rerank.eval.retrieval.datasets import TrainingQuestions
from surprise_rerank.eval.retrieval.trec import Run
from surprise_rerank.pipeline import Retriever
from surprise_rerank.similarities.table import CorpusStatistics, FittedOn
from surprise_rerank.surprise.ensemble import Ensemble

# Candidates by cosine, by BM25 (Qdrant's, or Lucene's), or the union of both.
PoolName: TypeAlias = Literal["cosine", "bm25", "both", "bm25-lucene", "both-lucene"]
POOLS: tuple[PoolName, ...] = get_args(PoolName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources(SystemInputs):
    """What an evaluation has beside the index, for systems that need more than an index.

    Attributes:
        document_ids: of all documents.
        corpus: the ensemble of all documents.
        sample_ids: ids of a uniform sample of the corpus.
        sample_tokens: their token vectors.
        lucene: the documents' words, where Pyserini is installed and a system asks for them.
        encoder: that the documents were encoded with.
        fitting: what similarities are fitted on: the words of all documents, and the sample's token vectors;
            read when it is first asked for.
        lessons: judged questions that weights are fitted on.
        pool: where every system takes its candidates from, in place of its usual place.
    """

    index: DocumentIndex
    document_ids: frozenset[str]
    corpus: Ensemble
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
        return self.ensemble or self.corpus

    def of_index(self) -> SystemInputs:
        """What a system of an index is made of: search is exact, and candidates come from the given pool."""
        first_stage = None if self.pool is None else self.retriever(self.pool)
        return SystemInputs(
            index=self.index, options=self.options, first_stage=first_stage, ensemble=self.anchors
        )

    def retriever(self, usual: PoolName | Run, *, bm25: str = "") -> Retriever:
        """The first stage of a system: its usual one, unless `pool` says otherwise.

        `bm25` says whose BM25 scores of all candidates its re-ranker reads: `bm25` is Qdrant's, `bm25-lucene`
        Lucene's.
        """
        pool = self.pool or usual
        match pool:
            case "both" | "both-lucene":
                found_by = "bm25" if pool == "both" else "bm25-lucene"
                words = self._words(found_by)
                retriever: Retriever = HybridRetriever(self.index, words, options=self.options)
                if bm25 == found_by:  # whose scores it gives already
                    return retriever
            case "cosine":
                retriever = DenseRetriever(self.index, options=self.options)
            case "bm25":
                retriever = SparseRetriever(self.index, self.options)
            case "bm25-lucene":
                retriever = BM25Retriever(self._lucene, self.index.fetch)
            case _:
                retriever = RunRetriever(pool, self.index, self.document_ids)
        return LexicallyScored(retriever, self._words(bm25)) if bm25 else retriever

    def _words(self, bm25: str) -> LexicalIndex:
        return SparseRetriever(self.index, self.options) if bm25 == "bm25" else self._lucene

    @property
    def _lucene(self) -> BM25Index:
        if self.lucene is None:
            raise MissingExtraError(f"Lucene's BM25 needs Pyserini: run {pip_line('pyserini')}")
        return self.lucene


@dataclass(frozen=True, slots=True)
class RunRetriever:
    """The candidates that a run file names, with the scores that it gives them.

    Attributes:
        run: with the data set's ids.
        index: where vectors, tokens and texts come from.
        document_ids: of the index; what else the run names is left out.
    """

    run: Run
    index: DocumentIndex
    document_ids: frozenset[str]

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The first `depth` documents of the question's ranking; none, where the run lacks the question."""
        ranking = self.run.rankings.get(query.id)
        scores = {} if ranking is None else dict(zip(ranking.ids, ranking.scores.tolist(), strict=True))
        ids = [name for name in scores if name in self.document_ids][:depth]
        pool = self.index.fetch(ids, fields)
        return replace(pool, scores={"run": np.array([scores[name] for name in pool.ids], np.float64)})
