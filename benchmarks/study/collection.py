"""A collection for the study: every document's exact scores for every question, and pools of them.

It is read once from the index that `rerank-eval` keeps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surprise_rerank.candidates import Candidates, Inclusion, Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex, SparseRetriever
from surprise_rerank.connectors.qdrant.hybrid import in_turn
from surprise_rerank.connectors.systems.inputs import SAMPLE_SIZE
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.files import whole_file
from surprise_rerank.core.moments import Moments
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, TrainingQuestions
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.surprise.ensemble import Ensemble

# Each retriever's part of a pool, as in `rerank-eval` and in a search.
DEPTH = 100
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class Collection:
    """n documents in the order of their ids, and q questions that have a relevant one.

    Attributes:
        ids: (n,) of the documents.
        dense: (n, d) vectors.
        lengths: (n,) numbers of tokens.
        sample: (s,) positions of the documents that stand for the corpus.
        names: (q,) of the questions.
        questions: (q, d) vectors.
        own: (q,) the position of a question that is a document, which does not find itself; -1 elsewhere.
        bm25: (q, n) scores.
        weights: (q,) the mean weight of a question's words; 0 where the model does not read the documents.
        inclusion: (q, n) of the question's tokens.
        grades: (q, n) of relevance.
        ideal: (q,) the DCG@10 of the best order.
    """

    ids: npt.NDArray[np.str_]
    dense: Float32Array
    lengths: IntArray
    sample: IntArray
    names: npt.NDArray[np.str_]
    questions: Float32Array
    own: IntArray
    bm25: Float32Array
    weights: Float64Array
    inclusion: Float32Array
    grades: npt.NDArray[np.int8]
    ideal: Float64Array

    @cached_property
    def ensemble(self) -> Ensemble:
        """The sample's dense vectors, which cosines are measured against."""
        return Ensemble.from_vectors(self.dense[self.sample], sample_size=0)

    @cached_property
    def cosines(self) -> Float32Array:
        """(q, n) of the questions with the documents."""
        return self.questions @ self.dense.T

    def best(self, i: int, scores: npt.NDArray[Any], depth: int, above: float = -np.inf) -> IntArray:
        """The positions of the best documents for question i by (n,) scores above a bound, best first."""
        open_to = scores > above
        if self.own[i] >= 0:
            open_to[self.own[i]] = False
        order = np.lexsort((np.arange(len(scores)), -scores))
        return order[open_to[order]][:depth]

    def pool(self, i: int, depth: int = DEPTH) -> Case:
        """The best by cosine and by BM25 in turn, as `HybridRetriever` has them."""
        near, matching = self.best(i, self.cosines[i], depth), self.best(i, self.bm25[i], depth, 0.0)
        return Case(self, i, np.array(sorted(in_turn(depth, near.tolist(), matching.tolist())), np.int64))

    @cached_property
    def pools(self) -> list[Case]:
        """The pool of each question."""
        return [self.pool(i) for i in range(len(self.names))]


@dataclass(frozen=True, eq=False)
class Case:
    """Question i with a pool: (n,) `rows` of the collection, ascending."""

    of: Collection
    i: int
    rows: IntArray

    @cached_property
    def query(self) -> Query:
        """The question, whose tokens are compared already."""
        return Query(str(self.of.names[self.i]), self.of.questions[self.i])

    @cached_property
    def candidates(self) -> Candidates:
        """The pool, with everything that re-rankers of an index are given."""
        of, rows = self.of, self.rows
        bm25, inclusion = (scores[self.i].astype(np.float64) for scores in (of.bm25, of.inclusion))
        moments = Moments(np.asarray(bm25.mean()), np.asarray(bm25.std()), members=len(bm25))
        compared = Inclusion(inclusion[rows], of.lengths[rows], inclusion[of.sample], of.lengths[of.sample])
        return Candidates(
            tuple(of.ids[rows].tolist()),
            scores={"bm25": bm25[rows]},
            dense=of.dense[rows],
            corpus_moments={"bm25": moments},
            inclusion=compared,
            words=float(bm25.max()) / weight if (weight := float(of.weights[self.i])) else None,
        )

    def ndcg(self, scores: Float64Array) -> float:
        """nDCG@10 of the pool in the order of these scores; of equal ones the lower id comes first."""
        best = np.argsort(-scores, kind="stable")[:_SHOWN]
        gains = self.of.grades[self.i, self.rows[best]] / self.of.ideal[self.i]
        return float((gains / np.log2(2 + np.arange(len(best)))).sum())


def read_collection(
    dataset: RetrievalDataset,
    spec: str,
    encoder: Encoder,
    *,
    cache: Path,
    questions: int | None = None,
    terminal: Terminal | None = None,
) -> Collection:
    """From the cache folder, or from the index.

    `spec` is the data set as `--dataset` names it; in `cache` indexes are kept, and what is read of this one.
    A SurpriseRerankError if documents are split, or the index stores no words.
    """
    terminal = terminal or Terminal(quiet=True)
    queries = dict(list(dataset.queries.items())[:questions])
    workspace = Workspace(cache, index_key(spec, dataset), encoder, None, terminal)
    path = cache / workspace.name / "study" / f"{_digest(dataset, queries)}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        lessons = TrainingQuestions(spec, "train", dataset.split, encoder, terminal)
        with workspace.resources(dataset, None, lessons, lucene=False) as resources:
            sample = resources.sample_ids[:SAMPLE_SIZE]
            arrays = _read(resources.index, sample, queries, dataset.qrels, encoder, terminal)
        with whole_file(path) as file:
            np.savez(file, **arrays)
    with np.load(path, allow_pickle=False) as kept:
        return Collection(**{field.name: kept[field.name] for field in fields(Collection)})


def _digest(dataset: RetrievalDataset, questions: Mapping[str, str]) -> str:
    parts = [f"{document.id}\0{document.content_hash}" for document in dataset.documents]
    parts += [f"{name}\0{text}" for name, text in questions.items()]
    joined = "\0".join(["scores", dataset.split, *parts])
    return hashlib.sha256(joined.encode(errors="surrogatepass")).hexdigest()[:16]


def _read(
    index: DocumentIndex,
    sample: Sequence[str],
    texts: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    encoder: Encoder,
    terminal: Terminal,
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a `Collection`."""
    names, tokens = index.token_sample(len(index))
    if len(set(names)) < len(names):
        raise DataError("the study compares whole documents; index them without passages")
    order = np.argsort(names)
    ids, tokens = [names[i] for i in order], tokens.take(order)
    stored, retriever = index.fetch(ids, frozenset({"dense"})), SparseRetriever(index)
    place = {name: i for i, name in enumerate(ids)}
    judged_texts = {name: text for name, text in texts.items() if max(qrels[name].values(), default=0) > 0}
    queries = encode_queries(encoder, list(judged_texts.values()), list(judged_texts))
    words, weights, inclusion, ideal = [], [], [], []
    grades = np.zeros((len(queries), len(ids)), np.int8)
    with terminal.bar("reading", len(queries), "questions") as advance:
        for row, query in enumerate(queries):
            words.append(retriever.score(query.text, ids).astype(np.float32))
            worth = retriever.worth(retriever.vector(query.text), 1.0)  # of a score of 1
            weights.append(1 / worth if worth else 0.0)
            inclusion.append(DynaMax().pool(query.require_tokens(), tokens).astype(np.float32))
            judged = {name: max(gain, 0) for name, gain in qrels[query.id].items()}
            best = np.sort(list(judged.values()))[::-1][:_SHOWN]
            ideal.append(float((best / np.log2(2 + np.arange(len(best)))).sum()))
            for name, gain in judged.items():
                if name in place:
                    grades[row, place[name]] = gain
            advance(1)
    return {
        "ids": np.array(ids),
        "dense": stored.require_dense(),
        "lengths": tokens.token_counts,
        "sample": np.array([place[name] for name in sample], np.int64),
        "names": np.array(list(judged_texts)),
        "questions": np.stack([query.require_dense() for query in queries]),
        "own": np.array([place.get(name, -1) for name in judged_texts], np.int64),
        "bm25": np.stack(words),
        "weights": np.array(weights),
        "inclusion": np.stack(inclusion),
        "grades": grades,
        "ideal": np.array(ideal),
    }
