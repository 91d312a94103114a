"""The rankings that verdicts are measured with, read once from the indexes that `rerank-eval` keeps.

A collection is asked its own questions, each also with its relevant documents taken out (`removed`),
questions of other collections, and the package's varied questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.schema import point_id
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.core.arrays import BoolArray, Float64Array, IntArray
from surprise_rerank.core.files import whole_file
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.fitting import TrainingQuestions
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.thresholds.varied_questions import varied_questions

Phase: TypeAlias = Literal["own", "packaged"]
DEPTH = 100
OWN, OTHERS, PACKAGED = 323, 60, 1260  # how many questions
# System -> its scorers, as a ranking names them, and where their scores are in the files.
SYSTEMS: Mapping[str, Mapping[str, str]] = {
    "cosine": {"cosine": "cosine"},
    "dynamax": {"dynamax": "dynamax"},
    "fusion": {"bm25": "bm25", "dynamax": "dynamax", "cosine": "cosine"},
    "auto": {"bm25": "bm25", "dynamax": "incl", "cosine": "cosine"},
}
# Scores of a candidate; `incl` is the token score of `auto`.
_SCORES = ("auto", "bm25", "cosine", "incl", "dynamax", "fusion")
_BATCH, _FIRST = 256, 10


@dataclass(frozen=True)
class Asked:
    """A question: of a collection or `varied`, and of one with judgements its id and document -> grade."""

    source: str
    text: str
    id: str = ""
    judged: Mapping[str, int] | None = None


@dataclass(frozen=True, eq=False)
class Rankings:
    """The candidates of q questions, in arrays of the largest pool's m places.

    Attributes:
        scores: name -> (q, m); NaN outside the pool.
        rows: (q, m) documents.
        inside: (q, m) whether there is a candidate.
        gains: (q, m) grades.
        dense: (q, d) question vectors.
        texts, source, removed: (q,) the questions, whose they are, whether their answers were filtered out.
        terms: words of each question, as BM25 counts them.
    """

    scores: Mapping[str, Float64Array]
    rows: IntArray
    inside: BoolArray
    gains: IntArray
    dense: np.ndarray
    texts: np.ndarray
    source: np.ndarray
    removed: BoolArray
    terms: tuple[IntArray, ...]

    @classmethod
    def load(cls, path: Path) -> Rankings:
        """The file that `read_rankings` wrote."""
        with np.load(path) as stored:
            inside = np.arange(stored["n"].max())[None] < stored["n"][:, None]

            def padded(name: str, outside: float, kind: type) -> np.ndarray:
                found = np.full(inside.shape, outside, kind)
                found[inside] = stored[name]
                return found

            return cls(
                {name: padded(name, np.nan, np.float64) for name in _SCORES},
                padded("rows", 0, np.int64),
                inside,
                padded("rel", 0, np.int64),
                stored["q"],
                *(stored[name] for name in ("text", "source", "removed")),
                tuple(np.split(stored["terms"], np.cumsum(stored["nterms"])[:-1])),
            )

    def take(self, rows: IntArray) -> Rankings:
        """Those of some questions."""
        parts = ("rows", "inside", "gains", "dense", "texts", "source", "removed")
        return replace(
            self,
            scores={name: own[rows] for name, own in self.scores.items()},
            terms=tuple(self.terms[row] for row in rows),
            **{name: getattr(self, name)[rows] for name in parts},
        )

    @cached_property
    def _near(self) -> BoolArray:
        cosine = np.where(self.inside, np.nan_to_num(self.scores["cosine"], nan=-np.inf), -np.inf)
        ranks = np.argsort(np.argsort(-cosine, axis=1, kind="stable"), axis=1)
        return (ranks < DEPTH) & self.inside

    def pool(self, system: str) -> BoolArray:
        """(q, m) the candidates of a system; without words these are the first 100 by cosine."""
        return ~np.isnan(self.scores[system]) if "bm25" in SYSTEMS[system] else self._near

    def raw(self, system: str) -> dict[str, Float64Array]:
        """Scorer -> (q, m) its scores; NaN outside the system's pool."""
        pool = self.pool(system)
        return {name: np.where(pool, self.scores[at], np.nan) for name, at in SYSTEMS[system].items()}

    def own(self, system: str) -> Float64Array:
        """(q, m) what a system ranks by; minus infinity outside its pool."""
        return np.where(self.pool(system), self.scores[system], -np.inf)

    def order(self, system: str) -> IntArray:
        """(q, m) places from the first to the last."""
        return np.argsort(-self.own(system), axis=1, kind="stable")

    def hits(self, system: str) -> BoolArray:
        """(q,) whether a relevant document is among the first ten."""
        first = np.take_along_axis(self.gains, self.order(system)[:, :_FIRST], 1)
        return np.asarray((first > 0).any(axis=1))


def asked_by(phase: Phase, name: str, dataset: RetrievalDataset, others: Mapping[str, str]) -> list[Asked]:
    """The questions of a phase: the package's (`packaged`), or the collection's and some of each other one.

    `others` are the other data sets, as `--dataset` names them, and the split that is asked.
    """
    if phase == "packaged":
        return [Asked("varied", text) for text in varied_questions(PACKAGED)]
    answerable = [q for q in dataset.queries if any(gain > 0 for gain in dataset.qrels.get(q, {}).values())]
    asked = [Asked(name, dataset.queries[q], q, dataset.qrels[q]) for q in _drawn(answerable, OWN, 0)]
    for spec, split in others.items():
        questions = list(dict.fromkeys(load_dataset(spec, split).queries.values()))
        asked += [Asked(Path(spec).name, text) for text in _drawn(questions, OTHERS, 1)]
    return asked


def _drawn(items: list[str], count: int, seed: int) -> list[str]:
    rows = np.sort(np.random.default_rng(seed).permutation(len(items))[:count])
    return [items[row] for row in rows]


def read_rankings(
    asked: Sequence[Asked],
    dataset: RetrievalDataset,
    spec: str,
    encoder: Encoder,
    *,
    cache: Path,
    into: Path,
    corpus: Path,
    terminal: Terminal,
) -> None:
    """Rank every question's pool by `auto` and `fusion`, and write all scores to the .npz file `into`.

    A judged question is also asked with its relevant documents filtered out. `spec` is the data set as
    `--dataset` names it, `corpus` a file of the documents' vectors and words, which is written where it is
    missing.
    """
    workspace = Workspace(cache, index_key(spec, dataset), encoder, None, terminal)
    lessons = TrainingQuestions(spec, "train", dataset.split, encoder, terminal)
    with workspace.resources(dataset, None, lessons, lucene=False) as resources:
        reader = _Reader(
            resources.index, {document.id: row for row, document in enumerate(dataset.documents)}
        )
        if not corpus.is_file():
            _write(corpus, reader.corpus())
        with terminal.bar("asking", len(asked), "questions") as advance:
            found = []
            for start in range(0, len(asked), _BATCH):
                part = asked[start : start + _BATCH]
                queries = encode_queries(encoder, [own.text for own in part], [own.id for own in part])
                for own, query in zip(part, queries, strict=True):
                    found += list(reader.cases(own, query))
                    advance(1)
    flat = {
        name: np.concatenate([case[name] for case in found]) for name in (*_SCORES, "rows", "rel", "terms")
    }
    each = {name: np.array([case[name] for case in found]) for name in ("source", "text", "removed", "q")}
    counts = {name: np.array([len(case[of]) for case in found]) for name, of in _COUNTED}
    _write(into, {**flat, **each, **counts})


_COUNTED = (("n", "rows"), ("nterms", "terms"))


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


class _Reader:
    """Asks an index, and keeps every candidate's scores; `places` are the documents' rows."""

    def __init__(self, index: DocumentIndex, places: Mapping[str, int]) -> None:
        bm25 = index.manifest.options.bm25
        if bm25 is None:
            raise DataError("the index stores no words, which the study needs; index the documents again")
        self.index, self.bm25, self.places = index, bm25, places
        self.auto, self.fusion = (build_system(name, index, fitted=False) for name in ("auto", "fusion"))

    def corpus(self) -> dict[str, np.ndarray]:
        """Vectors of the documents, and how many of them have each word."""
        found, words = self.index.fetch(list(self.places), frozenset({"dense"})), self.index.term_statistics()
        vectors = found.require_dense()
        dense = np.zeros((len(self.places), vectors.shape[1]), np.float32)
        dense[[self.places[name] for name in found.ids]] = vectors
        return {"dense": dense, "vocab": words.terms, "df": words.counts, "filled": np.int64(words.filled)}

    def cases(self, asked: Asked, query: Query) -> Iterator[dict[str, object]]:
        """The question's arrays; and again without its relevant documents."""
        yield self._case(asked, query, gone=None)
        if asked.judged:
            relevant = [name for name, gain in asked.judged.items() if gain > 0 and name in self.places]
            yield self._case(asked, query, gone=relevant)

    def _case(self, asked: Asked, query: Query, *, gone: Sequence[str] | None) -> dict[str, object]:
        judged, rankings = asked.judged or {}, []
        # Systems without words have pools of their own, which are among the first candidates of a larger one.
        for system, depth in ((self.fusion, 2 * DEPTH), (self.auto, DEPTH), (self.fusion, DEPTH)):
            retriever = system.retriever
            if gone is not None:
                without = models.HasIdCondition(has_id=[point_id(name) for name in gone])
                retriever = retriever.among(models.Filter(must_not=[without]))
            pool = retriever.retrieve(query, depth, system.reranker.needs)
            # BEIR's rule: a question that is a document does not find itself.
            rankings.append(system.reranker.rerank(query, pool.without(query.id) if query.id else pool))
        every, auto, fusion = rankings
        return {
            "rows": np.array([self.places[name] for name in every.ids], np.int32),
            "auto": _totals(auto, every),
            "bm25": _raw(every, "bm25"),
            "cosine": _raw(every, "cosine"),
            "incl": _raw(every, "dynamax"),
            "dynamax": _raw(every, "dynamax"),
            "fusion": _totals(fusion, every),
            "rel": np.array([judged.get(name, 0) for name in every.ids], np.int8),
            "terms": np.asarray(self.bm25.query(asked.text).indices, np.int64),
            "q": query.require_dense().astype(np.float32),
            "source": asked.source,
            "text": asked.text,
            "removed": gone is not None,
        }


def _totals(ranking: Ranking, every: Ranking) -> np.ndarray:
    """The scores of all candidates by a system; NaN for those that are not in its pool."""
    scores = dict(zip(ranking.ids, ranking.scores.tolist(), strict=True))
    return np.array([scores.get(name, np.nan) for name in every.ids], np.float32)


def _raw(ranking: Ranking, scorer: str) -> np.ndarray:
    found = ranking.raw.get(scorer)
    return np.full(len(ranking), np.nan, np.float32) if found is None else np.asarray(found, np.float32)
