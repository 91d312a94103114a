"""The rankings that verdicts are measured with, read once from the indexes that `rerank-eval` keeps.

A collection is asked its own questions, each also with its relevant documents taken out (`removed`),
questions of other collections, and the package's varied questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from surprise_rerank.candidates import Query, Ranking
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.schema import point_id
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.thresholds.varied_questions import varied_questions

Phase: TypeAlias = Literal["own", "packaged"]
DEPTH = 100
OWN, OTHERS, PACKAGED = 323, 60, 1260  # how many questions
# Scores of a candidate; `inclusion` is the token score of `auto`.
SCORES = ("auto", "bm25", "cosine", "incl", "dynamax", "fusion")
_BATCH = 256


@dataclass(frozen=True)
class Asked:
    """A question of one phase.

    Attributes:
        source: the collection, or `varied`.
        text: the question.
        id: of a question with judgements; empty otherwise.
        judged: document -> grade; None for a question of something else.
    """

    source: str
    text: str
    id: str = ""
    judged: Mapping[str, int] | None = None


def asked_by(phase: Phase, name: str, dataset: RetrievalDataset, others: Mapping[str, str]) -> list[Asked]:
    """The questions of a phase.

    Args:
        phase: `own` is the collection's questions and some of each other one; `packaged` is the package's.
        name: of the collection.
        dataset: its documents, and the questions of the wanted split.
        others: the other data sets, as `--dataset` names them, and the split that is asked.
    """
    if phase == "packaged":
        return [Asked("varied", text) for text in varied_questions(PACKAGED)]
    asked = _own(name, dataset)
    for spec, split in others.items():
        questions = list(dict.fromkeys(load_dataset(spec, split).queries.values()))
        asked += [Asked(Path(spec).name, text) for text in _drawn(questions, OTHERS, 1)]
    return asked


def _own(name: str, dataset: RetrievalDataset) -> list[Asked]:
    """Questions with relevant documents; all of them, or `OWN` drawn ones."""
    answerable = [q for q in dataset.queries if any(gain > 0 for gain in dataset.qrels.get(q, {}).values())]
    return [Asked(name, dataset.queries[q], q, dataset.qrels[q]) for q in _drawn(answerable, OWN, 0)]


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
    """Rank every question's pool by `auto` and `fusion`, and write all scores to a file.

    Args:
        asked: questions; a judged one is also asked with its relevant documents filtered out.
        dataset: with the documents.
        spec: as `--dataset` names it.
        encoder: of the index.
        cache: where indexes are kept.
        into: the .npz file of the rankings.
        corpus: the .npz file of the documents' vectors and words; written where it is missing.
        terminal: for progress.
    """
    workspace = Workspace(cache, index_key(spec, dataset), encoder, None, terminal)
    lessons = Lessons(spec, "train", dataset.split, encoder, terminal)
    with workspace.resources(dataset, None, lessons, lucene=False) as resources:
        index = resources.index
        bm25 = index.manifest.options.bm25
        if bm25 is None:
            raise DataError("the index stores no words, which the study needs; index the documents again")
        places = {document.id: row for row, document in enumerate(dataset.documents)}
        if not corpus.is_file():
            _write(corpus, _corpus(index, places))
        with terminal.bar("asking", len(asked), "questions") as advance:
            found = []
            for start in range(0, len(asked), _BATCH):
                part = asked[start : start + _BATCH]
                queries = encode_queries(encoder, [own.text for own in part], [own.id for own in part])
                reader = _Reader(index, bm25, places)
                for own, query in zip(part, queries, strict=True):
                    found += list(reader.cases(own, query))
                    advance(1)
    _write(into, _columns(found))


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)  # type: ignore[arg-type]
    part.replace(path)


def _corpus(index: DocumentIndex, places: Mapping[str, int]) -> dict[str, np.ndarray]:
    found = index.fetch(list(places), frozenset({"dense", "terms"}))
    if found.terms is None:
        raise DataError("the index stores no words, which the study needs; index the documents again")
    vectors = found.require_dense()
    dense = np.zeros((len(places), vectors.shape[1]), np.float32)
    dense[[places[name] for name in found.ids]] = vectors
    vocabulary, counts = np.unique(found.terms.terms, return_counts=True)
    filled = np.int64(np.count_nonzero(found.terms.lengths))
    return {"dense": dense, "vocab": vocabulary, "df": counts, "filled": filled}


class _Reader:
    """Asks an index, and keeps every candidate's scores."""

    def __init__(self, index: DocumentIndex, bm25: Bm25, places: Mapping[str, int]) -> None:
        self.auto, self.fusion = (build_system(name, index, fitted=False) for name in ("auto", "fusion"))
        self.bm25, self.places = bm25, places

    def cases(self, asked: Asked, query: Query) -> Iterator[dict[str, object]]:
        """The question's arrays; and again without its relevant documents."""
        yield self._case(asked, query, removed=False)
        if asked.judged:
            yield self._case(asked, query, removed=True)

    def _case(self, asked: Asked, query: Query, *, removed: bool) -> dict[str, object]:
        from qdrant_client import models

        judged = asked.judged or {}
        rankings = []
        for system in (self.auto, self.fusion):  # of the same pool; inclusion is weighted in one of them
            retriever = system.retriever
            if removed:
                gone = [point_id(name) for name, gain in judged.items() if gain > 0 and name in self.places]
                without = models.HasIdCondition(has_id=gone)
                retriever = retriever.among(models.Filter(must_not=[without]))
            pool = retriever.retrieve(query, DEPTH, system.reranker.needs)
            # BEIR's rule: a question that is a document does not find itself.
            rankings.append(system.reranker.rerank(query, pool.without(query.id) if query.id else pool))
        auto, fusion = rankings
        by_name = {name: place for place, name in enumerate(fusion.ids)}
        order = np.array([by_name[name] for name in auto.ids], np.int64)
        ideal = np.sort([max(gain, 0) for gain in judged.values()])[::-1][:10]
        return {
            "rows": np.array([self.places[name] for name in auto.ids], np.int32),
            "auto": auto.scores.astype(np.float32),
            "bm25": _raw(auto, "bm25"),
            "cosine": _raw(auto, "cosine"),
            "incl": _raw(auto, "dynamax"),
            "dynamax": _raw(fusion, "dynamax")[order],
            "fusion": fusion.scores[order].astype(np.float32),
            "rel": np.array([judged.get(name, 0) for name in auto.ids], np.int8),
            "terms": np.asarray(self.bm25.query(asked.text).indices, np.int64),
            "q": query.require_dense().astype(np.float32),
            "source": asked.source,
            "text": asked.text,
            "removed": removed,
            "ideal": float((ideal / np.log2(2 + np.arange(len(ideal)))).sum()),
        }


def _raw(ranking: Ranking, scorer: str) -> np.ndarray:
    found = ranking.raw.get(scorer)
    return np.full(len(ranking), np.nan, np.float32) if found is None else np.asarray(found, np.float32)


def _columns(cases: Sequence[Mapping[str, object]]) -> dict[str, np.ndarray]:
    flat = {
        name: np.concatenate([case[name] for case in cases]) for name in (*SCORES, "rows", "rel", "terms")
    }
    each = {
        name: np.array([case[name] for case in cases]) for name in ("source", "text", "removed", "ideal", "q")
    }
    sizes = {"n": "rows", "nterms": "terms"}
    counts = {name: np.array([len(case[of]) for case in cases]) for name, of in sizes.items()}  # type: ignore[arg-type]
    return {**flat, **each, **counts}
