"""Running systems over questions, and measuring them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from surprise_rerank.candidates import Candidates, Query, Ranking
from surprise_rerank.connectors.systems.inputs import BuiltSystem
from surprise_rerank.documents import Document
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.eval.retrieval.measures import measure_run, parse_measures
from surprise_rerank.eval.retrieval.results import run_system

DATASET = RetrievalDataset(
    name="tiny",
    documents=tuple(Document(name, f"text {name}") for name in "abcde"),
    queries={"q1": "one", "q2": "two", "a": "three"},
    qrels={"q1": {"a": 1}, "q2": {"b": 2, "c": 1}, "a": {"b": 1}},
    split="test",
)


class Fixed:
    """A retriever that always finds the same documents in the same order, some with equal scores."""

    def __init__(self, ids: str, scores: list[float]) -> None:
        self.ids, self.values = ids, scores

    def retrieve(self, query: Query, depth: int, fields: frozenset = frozenset()) -> Candidates:
        return Candidates(tuple(self.ids[:depth]), {"fixed": np.array(self.values[:depth])})


def ranking(ids: str) -> Ranking:
    return Ranking(tuple(ids), np.linspace(1, 0, len(ids)))


def test_the_rank_is_measured_where_scores_are_equal() -> None:
    system = BuiltSystem("fixed", Fixed("abc", [1.0, 1.0, 1.0]))
    run, _ = run_system(system, [Query("one", id="q1")], 3, frozenset("abc"), lambda n: None)
    values, _ = measure_run(run, DATASET, parse_measures(["RR"]))
    assert values["RR"] == pytest.approx(1 / 3)  # trec_eval alone would put c, then b, before a


def test_only_a_document_with_the_text_of_the_question_is_the_question_itself() -> None:
    argument = "Small states cannot move. They have no land."
    documents = (
        Document("1", "wings that flutter at the speed of sound"),
        Document("2", "Small states cannot\nmove.  They have no land.", "house believes"),
        Document("3", "heat"),
    )
    queries = {"1": "wings that flutter", "2": argument, "4": "heat"}
    qrels = {"1": {"1": 1}, "2": {"3": 1}, "4": {"3": 1}}
    dataset = RetrievalDataset("numbers", documents, queries, qrels, "test")
    # Question 1 is a part of document 1, by chance of one number, and 4 has another number than its document.
    assert dataset.answers_itself == {"2"}


def test_a_question_does_not_find_itself() -> None:
    system = BuiltSystem("fixed", Fixed("abcde", [5, 4, 3, 2, 1]))
    queries = [Query("three", id="a"), Query("one", id="q1")]
    run, seconds = run_system(system, queries, 3, frozenset("abcde"), lambda n: None)
    assert run["a"].ids == ("b", "c", "d")
    assert run["q1"].ids == ("a", "b", "c")
    assert seconds.shape == (2,)


BAD_MEASURES = "nope nDCG@x nDCG@10) P@0 P@1.5 P AP(rel='a') nDCG(x=1)@10 RR(rel=0) AP@100000000000000000000"


@pytest.mark.parametrize("name", ["", *BAD_MEASURES.split()])
def test_an_unknown_measure_is_named(name: str) -> None:
    with pytest.raises(SurpriseRerankError, match="measure"):
        parse_measures([name])


def test_negative_relevances_are_not_relevant() -> None:
    # Without care, pytrec_eval crashes on these.
    qrels = {"q1": {"a": 1, "b": -1}, "q2": {"c": -2}, "a": {"b": 0}}
    measures = parse_measures(["nDCG@10", "R@100", "RR", "Success@1"])
    run = {name: ranking("abcde") for name in qrels}
    for _ in range(20):
        values, per_query = measure_run(run, replace(DATASET, qrels=qrels), measures)
    assert values["RR"] == pytest.approx(1 / 3)
    assert per_query["nDCG@10"] == {"q1": 1.0, "q2": 0.0, "a": 0.0}
