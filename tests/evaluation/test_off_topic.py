"""`rerank-eval off-topic`: thresholds beside what they promise, and statistics beside each other."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from files import write_beir, write_lines, write_vectors

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.cli.rerank_eval.main import command
from surprise_rerank.eval.studies.off_topic.evaluation import halves, questions_of
from surprise_rerank.eval.studies.off_topic.scores import (
    FUSION,
    AskedQuestion,
    background_of,
    passed,
    question_contrast,
    totals,
)
from surprise_rerank.surprise.ensemble import Ensemble

TOPICS = {
    "flight": ["wing", "lift", "drag", "flow", "heat", "wave", "beam"],
    "food": ["tea", "milk", "bread", "salt", "jam", "egg", "rye"],
}


# Questions that are nearly equal count as one.
NUMBERS = (hash((i, "question")) & 2**64 - 1 for i in itertools.count())


def asked(cosine: list[float], **more: list[float]) -> AskedQuestion:
    scores = {name: np.array(own) for name, own in {"cosine": cosine, **more}.items()}
    return AskedQuestion(f"question {next(NUMBERS):x}", {"contrast": scores["cosine"], **scores})


def test_thresholds_are_those_of_the_background():
    others = [asked([0.1 * i, 0.0]) for i in range(20)]
    background = background_of(others, "raw cosine")
    assert passed(others, background, "raw cosine", 0.5) == pytest.approx(45)
    assert passed([asked([9.0])], background, "raw cosine", 0.05) == 100.0
    assert passed([asked([-9.0])], background, "raw cosine", 0.5) == 0.0


def test_fusion_takes_the_contrast_for_the_cosine():
    others = [asked([0.1 * i], dynamax=[0.2 * i], contrast=[0.3 * i]) for i in range(20)]
    names = {"fusion": {"dynamax", "contrast"}, "dynamax": {"dynamax", "contrast"}}
    names |= {"cosine": {"contrast"}, "raw dynamax": {"dynamax"}, "raw cosine": {"cosine"}}
    assert {view: set(background_of(others, view).names) for view in names} == names
    nothing = asked([], contrast=[], dynamax=[])
    assert totals([nothing], background_of(others, FUSION), FUSION)[0] == -np.inf


def test_contrast_is_the_z_of_each_document_over_the_other_questions():
    rng = np.random.default_rng(0)
    questions, documents = unit_rows(rng.normal(size=(30, 8))), unit_rows(rng.normal(size=(5, 8)))
    pool = Candidates(ids=tuple("abcde"), dense=documents)
    members = Ensemble.from_vectors(questions)
    query = Query("q", dense=unit_rows(rng.normal(size=(1, 8)))[0])
    own = documents @ questions.T
    expected = (documents @ query.dense - own.mean(axis=1)) / own.std(axis=1)
    np.testing.assert_allclose(question_contrast(query, pool, members), expected, rtol=1e-5)
    others = own[:, 1:]
    without = (own[:, 0] - others.mean(axis=1)) / others.std(axis=1)
    member = Query("q0", dense=questions[0])
    np.testing.assert_allclose(question_contrast(member, pool, members, is_member=True), without, rtol=1e-4)


def test_questions_come_from_texts_and_tables_each_once(tmp_path: Path):
    (tmp_path / "some.txt").write_text("Why?\n\n  What   now? \nWhy?\n")
    (tmp_path / "some.jsonl").write_text('{"text": "Who?", "label": "x"}\n')
    assert questions_of(tmp_path / "some.jsonl") == ["Who?"]
    asked_once = questions_of(tmp_path / "some.txt")
    with pytest.raises(DataError, match="few holds 2 questions; give at least 20"):
        halves("few", asked_once, 100)
    many = list(map(str, range(100)))
    assert halves("many", [*many, "0", " 1 "], 30) == halves("many", many, 30)
    for limit in (30, 100):
        first, second = halves("many", many, limit)
        assert len({*first, *second}) == limit == 2 * len(first)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two corpora of their own words in BEIR's layout, and word vectors of both."""
    place = tmp_path_factory.mktemp("off-topic")
    write_vectors(place / "vectors.txt", itertools.chain(*TOPICS.values()), 16)
    for name, words in TOPICS.items():
        pairs = {str(i): pair for i, pair in enumerate(itertools.combinations(sorted(words), 2))}
        documents = {f"d{i}": f"{a} {b} {a}" for i, (a, b) in pairs.items()}
        questions = {f"q{i}": f"{b} {a}" for i, (a, b) in pairs.items()}
        write_beir(place / name, documents, questions, [(f"q{i}", f"d{i}", 1) for i in pairs])
    food = TOPICS["food"]
    write_lines(place / "more.txt", *(f"{w} {v} tea" for w in food for v in food[:4]))
    return place


def run(folders: Path, *more: str, datasets: str = "flight,food") -> Result:
    given = ",".join(str(folders / name) for name in datasets.split(","))
    place = ("--set", f"cache={folders / 'cache'}", "--model", str(folders / "vectors.txt"), "--quiet")
    return CliRunner().invoke(command, ["off-topic", "--dataset", given, *place, *more])


def test_the_command_tells_thresholds_and_statistics(folders: Path):
    report = folders / "report.json"
    result = run(folders, "--questions", str(folders / "more.txt"), "--report", str(report))
    assert result.exit_code == 0, (result.output, result.exception)
    tables = json.loads(report.read_text())["tables"]
    assert set(tables) == {"thresholds", "auroc"}
    rows = {row["scorer"]: row for row in tables["thresholds"] if row["corpus"] == "flight"}
    assert {"cosine", "dynamax", "fusion"} <= set(rows)
    assert all(0 <= row["passed at 0.2"] <= 60 for row in rows.values())
    aurocs = [row for row in tables["auroc"] if row["corpus"] == "flight"]
    assert {row["off-topic"] for row in aurocs} == {"food", "more"}
    assert all(row["fusion"] > 0.95 for row in aurocs)
    assert "Off-topic questions that pass, %" in result.output


def test_what_cannot_be_measured_is_told(folders: Path):
    for more, datasets, told in (
        ((), "flight", "is the only source of questions"),
        (("--set", "alphas=5"), "flight,food", "give shares between 0 and 1"),
        (("--questions", "nowhere.txt"), "flight,food", "nowhere.txt"),
    ):
        result = run(folders, *more, datasets=datasets)
        assert isinstance(result.exception, DataError | DatasetError), result.output
        assert told in str(result.exception)
