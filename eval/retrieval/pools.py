"""Where a system's candidates come from: cosine, BM25, both, or a run of another program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.lucene.bm25 import BM25Index, BM25Retriever
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever, LexicalIndex
from surprise_rerank.core.extras import pip_line
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import MissingExtraError
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.eval.retrieval.trec import Run
from surprise_rerank.pipeline import Retriever
from surprise_rerank.similarities.registry import CorpusStatistics, FittedOn
from surprise_rerank.surprise.ensemble import Ensemble

PoolName: TypeAlias = Literal["cosine", "bm25", "both"]
POOLS: tuple[PoolName, ...] = ("cosine", "bm25", "both")


@dataclass(frozen=True, slots=True)
class Resources:
    """What systems are made of.

    Attributes:
        index: the documents.
        document_ids: of all of them.
        corpus: the ensemble of all documents.
        anchors: the ensemble that surprise is measured against (`--ensemble`).
        sample_ids: ids of a uniform sample of the corpus.
        sample_tokens: their token vectors.
        bm25: the documents' words, where Pyserini is installed and a system asks for them.
        encoder: that the documents were encoded with.
        fitting: what similarities are fitted on: the words of all documents, and the sample's token vectors;
            read when it is first asked for.
        lessons: judged questions that fusion weights are fitted on.
        pool: where every system takes its candidates from, in place of its usual place.
    """

    index: DocumentIndex
    document_ids: frozenset[str]
    corpus: Ensemble
    anchors: Ensemble
    sample_ids: tuple[str, ...]
    sample_tokens: TokenBatch
    bm25: BM25Index | None
    encoder: Encoder
    fitting: Callable[[frozenset[FittedOn]], CorpusStatistics]
    lessons: Lessons
    pool: PoolName | Run | None = None

    @property
    def words(self) -> BM25Index:
        """The documents' words.

        Raises:
            MissingExtraError: if Pyserini is not installed.
        """
        if self.bm25 is None:
            raise MissingExtraError(f"bm25 needs Pyserini: run {pip_line('pyserini')}")
        return self.bm25

    def retriever(self, usual: PoolName, *, bm25_scores: bool = False) -> Retriever:
        """The first stage of a system.

        Args:
            usual: where it takes its candidates from, unless `pool` says otherwise.
            bm25_scores: whether its re-ranker reads BM25's scores of all candidates.

        Raises:
            MissingExtraError: if Pyserini is needed and not installed.
        """
        pool = self.pool or usual
        # Exact search: figures must not depend on an approximate index.
        match pool:
            case "both":
                sample = tuple(dict.fromkeys(self.sample_ids))  # of passages, some are of one document
                return HybridRetriever(self.index, self.words, sample, exact=True)
            case "cosine":
                retriever: Retriever = DenseRetriever(self.index, exact=True)
            case "bm25":
                retriever = BM25Retriever(self.words, self.index)
            case _:
                retriever = RunRetriever(pool, self.index, self.document_ids)
        if bm25_scores:
            return LexicallyScored(retriever, self.words, tuple(dict.fromkeys(self.sample_ids)))
        return retriever


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


@dataclass(frozen=True, slots=True)
class LexicallyScored:
    """Candidates of another retriever with their BM25 scores, and the query's BM25 moments.

    Attributes:
        retriever: finds the candidates.
        words: the same documents' words.
        sample: ids of a uniform sample of the corpus, for the moments.
    """

    retriever: Retriever
    words: LexicalIndex
    sample: tuple[str, ...]

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """As the other retriever does."""
        pool = self.retriever.retrieve(query, depth, fields)
        return replace(
            pool,
            scores={**pool.scores, "bm25": self.words.score(query.text, pool.ids)},
            corpus_moments={**pool.corpus_moments, "bm25": self.words.moments(query.text, self.sample)},
        )
