"""Retrieve and re-rank in a row, with and without a re-ranker, in a thread or not."""

import asyncio
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import (
    Candidates,
    DataError,
    Document,
    DynaMaxScorer,
    Passage,
    Pipeline,
    Query,
    SearchOptions,
)
from surprise_rerank._candidates import Field

DOCUMENTS = tuple(Document(id=f"d{i}", text=text) for i, text in enumerate(["a wing", "the lift", "a drag"]))


@dataclass
class Pool:
    """A retriever that gives one pool, and remembers what it was asked and where."""

    candidates: Candidates
    requests: list[tuple[str, int, frozenset[Field], str]] = field(default_factory=list)

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        self.requests.append((query.text, depth, fields, threading.current_thread().name))
        return self.candidates


def pool(**scores: list[float]) -> Candidates:
    tokens = WordEncoder().encode([d.content for d in DOCUMENTS]).tokens
    arrays = {name: np.array(values) for name, values in scores.items()}
    return Candidates(ids=("d0", "d1", "d2"), scores=arrays, tokens=tokens, documents=DOCUMENTS)


def test_the_reranker_orders_the_pool():
    retriever = Pool(pool(bm25=[3.0, 2.0, 1.0]))
    ranking = Pipeline(WordEncoder(), retriever, DynaMaxScorer()).search("lift", top_k=2)
    assert ranking.ids[0] == "d1"
    assert len(ranking) == 2
    assert retriever.requests[0][:3] == ("lift", 100, {"tokens", "documents"})


def test_without_a_reranker_the_first_scores_order_the_pool_and_all_are_shown():
    retriever = Pool(pool(rrf=[0.1, 0.3, 0.2], bm25=[9.0, 8.0, 7.0]))
    ranking = Pipeline(WordEncoder(), retriever, options=SearchOptions(depth=5)).search("wing", top_k=20)
    assert ranking.ids == ("d1", "d2", "d0")
    assert ranking.scores.tolist() == [0.3, 0.2, 0.1]
    assert ranking.parts["bm25"].tolist() == [8.0, 7.0, 9.0]
    assert [hit.document.id for hit in ranking] == ["d1", "d2", "d0"]
    assert retriever.requests[0][1:3] == (20, {"documents"})
    lacking = Pipeline(WordEncoder(), Pool(pool(bm25=[np.nan, -5.0, 1.0]))).search("wing")
    assert lacking.ids == ("d2", "d1", "d0")
    assert lacking.scores.tolist() == [1.0, -5.0, -np.inf]


def test_passages_become_documents_before_the_ranking_is_cut():
    passages = (Passage(0, 0, 1), Passage(1, 1, 6), Passage(0, 0, 8))
    documents = (DOCUMENTS[0], DOCUMENTS[0], DOCUMENTS[1])
    candidates = Candidates(
        ids=("d0", "d0", "d1"),
        scores={"dot": np.array([3.0, 4.0, 1.0])},
        documents=documents,
        passages=passages,
    )
    first, second = Pipeline(WordEncoder(), Pool(candidates)).search("wing", top_k=2)
    assert (first.id, first.score, first.text) == ("d0", 4.0, " wing")
    assert (second.id, second.text) == ("d1", "the lift")


def test_neither_a_reranker_nor_scores_is_refused_unless_nothing_was_found():
    with pytest.raises(
        DataError, match="gave no scores to order documents by; give the pipeline a re-ranker"
    ):
        Pipeline(WordEncoder(), Pool(pool())).search("wing")
    assert len(Pipeline(WordEncoder(), Pool(Candidates(ids=()))).search("wing")) == 0


def test_asearch_gives_what_search_gives_from_another_thread():
    retriever = Pool(pool(bm25=[3.0, 2.0, 1.0]))
    pipeline = Pipeline(WordEncoder(), retriever, DynaMaxScorer())
    expected = pipeline.search("lift", 2)

    async def both():
        return await asyncio.gather(pipeline.asearch("lift", 2), pipeline.asearch("lift", top_k=2))

    for ranking in asyncio.run(both()):
        assert ranking.ids == expected.ids
        np.testing.assert_array_equal(ranking.scores, expected.scores)
    assert {name.split("_")[0] for *_, name in retriever.requests[1:]} == {"asyncio"}


def test_a_call_has_its_own_options():
    retriever = Pool(pool(bm25=[3.0, 2.0, 1.0]))
    pipeline = Pipeline(WordEncoder(), retriever, options=SearchOptions(depth=50))
    assert pipeline.search("wing", 1, depth=7).ids == ("d0",)
    assert retriever.requests[-1][1] == 7
    pipeline.search("wing", depth=None, filter=None, min_percentile=None)
    assert retriever.requests[-1][1] == pipeline.options.depth == 50
    for options, message in [
        ({"dept": 3}, "search has no setting 'dept'; did you mean 'depth'.*collapse.*filter.*min_percentile"),
        (
            {"filter": object()},
            "retriever must be one of an index, got a Pool",
        ),
        ({"min_percentile": 0.5}, "min_percentile"),
    ]:
        with pytest.raises(DataError, match=message):
            pipeline.search("wing", **options)
