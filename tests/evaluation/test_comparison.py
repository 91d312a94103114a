"""Data sets and systems side by side: tables, differences, averages, plots, and the files they go to."""

import json

import numpy as np
import pytest

from surprise_rerank import Ranking
from surprise_rerank.eval.retrieval.comparison import compare, differences, write_results
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.runs import SystemResult
from surprise_rerank.eval.stats import holm, paired_randomization

MEASURES = ("nDCG@10", "RR")


def result(name: str, values: dict[str, float], documents: str = "ab") -> SystemResult:
    run = {query: Ranking(tuple(documents), np.linspace(1, 0.1, len(documents))) for query in values}
    means = dict.fromkeys(MEASURES, sum(values.values()) / len(values))
    return SystemResult(name, run, means, dict.fromkeys(MEASURES, values), np.full(len(values), 0.002))


def evaluation(name: str, questions: int, *gains: float) -> Evaluation:
    rng = np.random.default_rng(questions)
    base = {f"q{i}": float(value) for i, value in enumerate(rng.random(questions))}
    systems = [result("cosine", base)]
    for i, gain in enumerate(gains):
        values = {query: value + gain + float(rng.normal(0, 0.05)) for query, value in base.items()}
        systems.append(result(f"s{i}", values, "ba"))
    qrels = {query: {"a": 1, "c": 1, "x": 0} for query in base}
    return Evaluation(
        name, f"{name} [b]", MEASURES, tuple(systems), qrels, ("a note",), {"seconds_in_all": 1.0}
    )


def test_a_table_shows_every_system_and_measure():
    report = compare([evaluation("tiny/test", 30, 0.1)])
    table = report.table("tiny/test")
    assert [column.name for column in table.columns[:3]] == ["system", *MEASURES]
    assert table.cell("s0", "ms/question") == pytest.approx(2.0)
    assert table.cell("cosine", "p (Holm)") is None
    assert table.cell("s0", "p (Holm)") < 0.001
    assert table.notes == ("a note",)
    system = report.facts["systems"]["s0"]
    assert system["nDCG@10"] == table.cell("s0", "nDCG@10")
    assert system["low"] < system["difference"] < system["high"]
    assert report.facts["per_question"]["s0"]["RR"]["q0"]
    assert [note.partition(":")[0] for note in report.notes] == ["nDCG@10", "p (Holm)", "ms/question"]


def test_all_pairs_are_compared_in_all_measures_with_one_correction():
    several = evaluation("one/test", 40, 0.1, 0.11)
    table = compare([several], all_pairs=True).table("pairs of one/test")
    assert [row[:2] for row in table.rows] == [("cosine", "s0"), ("cosine", "s1"), ("s0", "s1")]
    assert [column.name for column in table.columns] == [
        "system",
        "other",
        *(f"{p}{m}" for m in MEASURES for p in ("", "p ")),
    ]
    uncorrected = {d.system: d for d in differences(several, "cosine")}
    assert table.cell("cosine / s0", "RR") == pytest.approx(uncorrected["s0"].mean)
    p = [row[i] for row in table.rows for i in (3, 5)]
    raw = [paired_randomization(*_pair(several, *row[:2])) for row in table.rows for _ in MEASURES]
    assert p == holm(raw)


def _pair(several: Evaluation, first: str, second: str) -> list[np.ndarray]:
    values = {result.name: result.per_query["RR"] for result in several.results}
    return [np.array([values[name][query] for query in sorted(values[name])]) for name in (first, second)]


def test_differences_are_corrected_for_all_comparisons_of_the_report():
    evaluations = [evaluation("one/test", 40, 0.01, 0.02), evaluation("two/test", 40, 0.0)]
    every = [difference for e in evaluations for difference in differences(e, "cosine")]
    for difference in every:
        assert difference.wins + difference.losses + difference.ties == 40
        assert difference.low < difference.mean < difference.high
    report = compare(evaluations)
    cells = [report.table("one/test").cell(name, "p (Holm)") for name in ("s0", "s1")]
    cells.append(report.table("two/test").cell("s0", "p (Holm)"))
    assert cells == pytest.approx(holm([difference.p for difference in every]))


def test_the_verdict_is_of_the_best_system_beside_the_baseline():
    for gains, start in (((0.05, 0.1), "s1 +."), ((-0.1, -0.2), "no system is above cosine"), ((), "")):
        verdict = compare([evaluation("tiny/test", 40, *gains)]).table("tiny/test").verdict
        assert verdict.startswith(start)
        assert bool(verdict) == bool(gains)


def test_averages_are_macro_and_pooled_over_questions():
    evaluations = [evaluation("one/test", 10, 0.1), evaluation("two/test", 90, 0.1, 0.2)]
    table = compare(evaluations).table("averages")
    small, large = (e.results[0].values["RR"] for e in evaluations)
    assert table.cell("macro / cosine", "RR") == pytest.approx((small + large) / 2)
    assert table.cell("pooled / cosine", "RR") == pytest.approx(0.1 * small + 0.9 * large)
    assert table.cell("pooled / s0", "p") < 0.001
    # What one of the data sets lacks has no average.
    assert {row[1] for row in table.rows} == {"cosine", "s0"}


def test_nothing_is_compared_without_the_baseline():
    report = compare([evaluation("tiny/test", 10, 0.1)], baseline="bm25")
    assert [table.name for table in report.tables] == ["tiny/test"]
    assert "p (Holm)" not in [column.name for column in report.table("tiny/test").columns]


def test_results_are_written_whole(tmp_path):
    evaluations = [evaluation("a/b/test", 3, 0.1), evaluation("c/test", 2, 0.1)]
    report = compare(evaluations)
    write_results(tmp_path, evaluations, report)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()) == [
        "a-b-test/cosine.trec",
        "a-b-test/s0.trec",
        "c-test/cosine.trec",
        "c-test/s0.trec",
        "results.json",
    ]
    value = evaluations[0].results[1].per_query["RR"]["q1"]
    written = json.loads((tmp_path / "results.json").read_text())["datasets"]
    assert written.keys() == {"a/b/test", "c/test"}
    assert written["a/b/test"]["per_question"]["s0"]["RR"]["q1"] == value
    write_results(tmp_path / "one", evaluations[:1], compare(evaluations[:1]))
    assert (tmp_path / "one" / "cosine.trec").is_file(), "without folders"
