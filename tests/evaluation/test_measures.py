"""Running systems over questions, TREC run files, and measures that are trec_eval's."""

from dataclasses import replace

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import Candidates, DataError, Document, Query, Ranking, SurpriseRerankError
from surprise_rerank.connectors.systems import BuiltSystem
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.eval.retrieval.runs import measure_run, parse_measures, read_run, run_system, write_run

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


def test_the_rank_is_measured_where_scores_are_equal():
    system = BuiltSystem("fixed", Fixed("abc", [1.0, 1.0, 1.0]))
    run, _ = run_system(system, [Query("one", id="q1")], 3, frozenset("abc"), lambda n: None)
    values, _ = measure_run(run, DATASET, parse_measures(["RR"]))
    assert values["RR"] == pytest.approx(1 / 3)  # trec_eval alone would put c, then b, before a


def test_only_a_document_with_the_text_of_the_question_is_the_question_itself():
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


def test_a_question_does_not_find_itself():
    system = BuiltSystem("fixed", Fixed("abcde", [5, 4, 3, 2, 1]))
    queries = [Query("three", id="a"), Query("one", id="q1")]
    run, seconds = run_system(system, queries, 3, frozenset("abcde"), lambda n: None)
    assert run["a"].ids == ("b", "c", "d")
    assert run["q1"].ids == ("a", "b", "c")
    assert seconds.shape == (2,)


BAD_MEASURES = "nope nDCG@x nDCG@10) P@0 P@1.5 P AP(rel='a') nDCG(x=1)@10 RR(rel=0) AP@100000000000000000000"


@pytest.mark.parametrize("name", ["", *BAD_MEASURES.split()])
def test_an_unknown_measure_is_named(name):
    with pytest.raises(SurpriseRerankError, match="measure"):
        parse_measures([name])


def test_negative_relevances_are_not_relevant():
    # Without care, pytrec_eval crashes on these.
    qrels = {"q1": {"a": 1, "b": -1}, "q2": {"c": -2}, "a": {"b": 0}}
    measures = parse_measures(["nDCG@10", "R@100", "RR", "Success@1"])
    run = {name: ranking("abcde") for name in qrels}
    for _ in range(20):
        values, per_query = measure_run(run, replace(DATASET, qrels=qrels), measures)
    assert values["RR"] == pytest.approx(1 / 3)
    assert per_query["nDCG@10"] == {"q1": 1.0, "q2": 0.0, "a": 0.0}


DOCUMENTS = [f"d{i}" for i in range(12)]
QUESTIONS = ["q1", "q2", "q3"]
# By ir_measures' name and by trec_eval's.
MEASURES = {
    "nDCG@10": "ndcg_cut_10",
    "nDCG@3": "ndcg_cut_3",
    "R@5": "recall_5",
    "RR": "recip_rank",
    "Success@1": "success_1",
    "P@5": "P_5",
    "AP": "map",
    "AP@5": "map_cut_5",
}

# Few values, so that there are many ties; some differ in float64 alone.
SCORES = st.sampled_from([1.0, 1.0 + 1e-12, 0.5, 0.0, -2.0, 3e38])
RUNS = st.dictionaries(
    st.sampled_from(QUESTIONS), st.dictionaries(st.sampled_from(DOCUMENTS), SCORES, min_size=1)
)
QRELS = st.fixed_dictionaries(
    {name: st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 3), min_size=1) for name in QUESTIONS}
)


def dataset(qrels: dict[str, dict[str, int]]) -> RetrievalDataset:
    documents = tuple(Document(name, name) for name in DOCUMENTS)
    return RetrievalDataset("random", documents, {name: name for name in qrels}, qrels, "test")


def by_trec_eval(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> dict[str, float]:
    """Means over all judged questions; trec_eval leaves out those that the run lacks."""
    wanted = {"ndcg_cut.3,10", "recall.5", "recip_rank", "success.1", "P.5", "map", "map_cut.5"}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, wanted)
    values = evaluator.evaluate(run)
    return {
        ours: sum(values[q][theirs] if q in values else 0.0 for q in qrels) / len(qrels)
        for ours, theirs in MEASURES.items()
    }


@given(run=RUNS.filter(bool), qrels=QRELS)
def test_measures_are_trec_evals_with_ties_missing_questions_and_grades(tmp_path_factory, run, qrels):
    path = tmp_path_factory.mktemp("runs") / "random.trec"
    lines = [f"{q} Q0 {d} 1 {score!r} x\n" for q, scores in run.items() for d, score in scores.items()]
    path.write_text("".join(lines))
    values, _ = measure_run(read_run(path).rankings, dataset(qrels), parse_measures(list(MEASURES)))
    assert values == pytest.approx(by_trec_eval(run, qrels), abs=1e-9)


@given(run=RUNS.filter(bool), qrels=QRELS)
def test_a_run_file_read_by_trec_eval_gives_the_same_figures(tmp_path_factory, run, qrels):
    # Our own rankings break ties by id, ascending, and are written so that trec_eval does not undo that.
    path = tmp_path_factory.mktemp("runs") / "ours.trec"
    rankings = {
        query: Ranking(tuple(names), np.array([scores[name] for name in names]))
        for query, scores in run.items()
        for names in [sorted(scores, key=lambda name: (-np.float32(scores[name]), name))]
    }
    write_run(path, rankings, "ours")
    measures = parse_measures(list(MEASURES))
    values, _ = measure_run(rankings, dataset(qrels), measures)
    again = ir_measures.calc_aggregate(list(measures.values()), qrels, ir_measures.read_trec_run(str(path)))
    assert {str(measure): value for measure, value in again.items()} == pytest.approx(values)


def test_white_space_in_ids_does_not_break_a_run_file(tmp_path):
    path = tmp_path / "run.trec"
    write_run(path, {"q 1": Ranking(("a b", "c"), np.array([2.0, 1.0]))}, "my system")
    assert path.read_text().splitlines() == [
        "q%201 Q0 a%20b 1 2.0 my%20system",
        "q%201 Q0 c 2 1.0 my%20system",
    ]
    run = read_run(path).named(["q 1"], ["a b", "c"])
    assert run.rankings["q 1"].ids == ("a b", "c")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("q Q0 a 1 1.0 x\nq Q0 b 2\n", "line 2: .*expected question Q0 document"),
        ("q Q0 a 1 high x\n", "line 1: could not convert string to float"),
        ("q Q0 a 1 nan x\n", "line 1: 'nan' is no finite number"),
        ("q Q0 a 1 2 x\nq Q0 a 2 1 x\n", "line 2: the document 'a' comes twice for the question 'q'"),
        ("\n", "holds no ranking"),
        ("", "holds no ranking"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path, content, said):
    path = tmp_path / "theirs.trec"
    path.write_text(content)
    with pytest.raises(DataError, match=said) as error:
        read_run(path)
    assert str(path) in str(error.value)
