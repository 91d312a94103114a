from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sklearn.metrics import adjusted_rand_score, v_measure_score

from surprise_rerank.classify.cluster import DEFAULT_WEIGHT, SurpriseAssignment, SurpriseKMeans
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.rerank_eval.cluster import command
from surprise_rerank.eval.labelled.data import LabelledTexts, read_labelled
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.stats.significance import holm
from surprise_rerank.eval.studies.cluster import evaluation, runs
from surprise_rerank.eval.studies.cluster.assignments import Assignment, find_assignments
from surprise_rerank.eval.studies.cluster.evaluation import evaluate_clustering
from surprise_rerank.eval.studies.cluster.runs import Run, measure
from surprise_rerank.eval.studies.cluster.settings import ClusterSettings
from surprise_rerank.eval.studies.result_cache import ResultCache

TOPICS = {
    "animal": "dog cat horse sheep cow goat",
    "food": "bread milk cheese apple soup rice",
    "sky": "sun moon star cloud rain wind",
}
Call = Callable[..., Result]


def labelled_texts(n: int = 60, seed: int = 0) -> LabelledTexts:
    """Texts of four words of a topic, sorted by topic, as files often are."""
    rng = np.random.default_rng(seed)
    labels = sorted(list(TOPICS)[i % 3] for i in range(n))
    texts = [" ".join(rng.choice(TOPICS[label].split(), 4)) + f" n{i}" for i, label in enumerate(labels)]
    return LabelledTexts.of("topics.jsonl", texts, labels)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A file of word vectors in which a topic's words lie together."""
    rng = np.random.default_rng(0)
    lines = []
    for topic in TOPICS.values():
        middle = rng.normal(size=8)
        lines += [
            f"{word} {' '.join(f'{x:.4f}' for x in middle + 0.7 * rng.normal(size=8))}"
            for word in topic.split()
        ]
    path = tmp_path / "small.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    data = labelled_texts()
    path = tmp_path / "topics.jsonl"
    rows = zip(data.texts, data.labels, strict=True)
    path.write_text("".join(json.dumps({"text": t, "label": label}) + "\n" for t, label in rows))
    return path


@pytest.fixture
def evaluate(vectors: Path, tmp_path: Path) -> Callable[..., Report]:
    def run(*names: str, data: LabelledTexts | None = None, **more: object) -> Report:
        own = {"models": (str(vectors),), "cache": tmp_path / "c", "repeats": 3}
        settings = ClusterSettings(assignments=names or ("surprise", "pooled"), **{**own, **more})  # type: ignore[arg-type]
        return evaluate_clustering([data or labelled_texts()], settings)

    return run


@pytest.fixture
def call(vectors: Path, tmp_path: Path) -> Call:
    def run(*arguments: object) -> Result:
        given = ["--model", str(vectors), "--cache", str(tmp_path / "c"), *map(str, arguments)]
        return CliRunner().invoke(command, given)

    return run


# Assignments


def test_assignments_are_found_by_name_and_weight() -> None:
    found = find_assignments(["pooled", "surprise@0.5", "empirical@crossover", "cosine", "pooled"])
    assert found == (
        Assignment("cosine", "gaussian", 0.0),
        Assignment("pooled", "pooled", 1.0),
        Assignment("surprise@0.5", "gaussian", 0.5),
        Assignment("empirical@crossover", "empirical", "crossover"),
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("suprise", "did you mean 'surprise'"),
        ("cosine@0.5", "there is no assignment 'cosine@0.5'|did you mean"),
        ("surprise@2", "weight '2', expected a number from 0 to 1, or crossover"),
        ("surprise@nan", "weight 'nan'"),
        ("surprise@", "weight ''"),
    ],
)
def test_unknown_assignments_are_told(name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_assignments([name])


# Measures


def test_a_run_is_what_scikit_learn_measures_of_the_estimators() -> None:
    rng = np.random.default_rng(0)
    labels = [f"c{i % 4}" for i in range(80)]
    points = (rng.normal(size=(4, 6))[np.arange(80) % 4] + rng.normal(size=(80, 6))).astype(np.float32)
    found = measure(points, labels, find_assignments(["surprise"]), clusters=4, seed=3)
    centres = SurpriseKMeans(4, weight=0.0, random_state=3).fit(points)
    surprised = SurpriseAssignment(centres, weight=1.0).fit(points)
    for name, chosen in (("cosine", centres.labels_), ("surprise", surprised.labels_)):
        assert found[name].v_measure == v_measure_score(labels, chosen)
        assert found[name].ari == adjusted_rand_score(labels, chosen)
        assert found[name].nmi == pytest.approx(found[name].v_measure)
        sizes = np.bincount(chosen)
        assert (found[name].largest, found[name].smallest) == (sizes.max(), sizes.min())
    assert found["cosine"].moved == 0
    assert found["surprise"].moved == (centres.labels_ != surprised.labels_).mean() > 0


def test_equal_texts_leave_clusters_empty() -> None:
    points = np.repeat(np.eye(2, dtype=np.float32), 5, axis=0)
    found = measure(points, list("aaaaabbbbb"), find_assignments([]), clusters=4, seed=0)
    assert found["cosine"].empty == 2
    assert found["cosine"].v_measure == found["cosine"].ari == 1


# The evaluation


def test_a_report_has_a_row_for_each_assignment(evaluate: Callable[..., Report]) -> None:
    report = evaluate("surprise", "pooled@0.5")
    quality = report.table("cluster")
    key = "topics.jsonl / small.txt"
    assert [row[2] for row in quality.rows] == ["cosine", "surprise", "pooled@0.5"]
    assert quality.cell(f"{key} / cosine", "V-measure") > 60  # type: ignore[operator]
    assert quality.cell(f"{key} / cosine", "V - cosine") is None
    gain = quality.cell(f"{key} / surprise", "ARI") - quality.cell(f"{key} / cosine", "ARI")  # type: ignore[operator]
    assert quality.cell(f"{key} / surprise", "ARI - cosine") == pytest.approx(gain)
    differences = report.table("cluster-differences")
    assert differences.cell(f"{key} / surprise / ARI", "difference") == pytest.approx(gain)
    assert [row[-1] for row in differences.rows] == holm([row[-2] for row in differences.rows])  # type: ignore[misc]
    assert "not on others" in " ".join(differences.notes)
    details = report.table("cluster-details")
    assert details.detail
    assert details.cell(f"{key} / cosine", "largest") >= 20  # type: ignore[operator]
    (facts,) = report.facts["clusterings"]
    assert (facts["texts"], facts["labels"], facts["clusters"]) == (60, 3, 3)
    assert len(facts["runs"]["surprise"]) == 3
    assert [plot.kind for plot in report.plots] == ["bars", "bars"]


def test_several_files_and_models_stand_under_one_another(vectors: Path, tmp_path: Path) -> None:
    other = vectors.with_name("other.txt")
    other.write_text(vectors.read_text().replace("0", "1"))
    second = labelled_texts(30, seed=1)
    data = [labelled_texts(), LabelledTexts.of("second.csv", list(second.texts), list(second.labels))]
    models = (str(vectors), str(other))
    settings = ClusterSettings(models=models, assignments=(), repeats=2, cache=tmp_path / "c")
    report = evaluate_clustering(data, settings)
    assert [row[:2] for row in report.table("cluster").rows] == [
        ("topics.jsonl", "small.txt"),
        ("topics.jsonl", "other.txt"),
        ("second.csv", "small.txt"),
        ("second.csv", "other.txt"),
    ]
    assert [table.name for table in report.tables] == ["cluster", "cluster-details"]


def test_one_repeat_has_no_deviation(evaluate: Callable[..., Report]) -> None:
    report = evaluate(repeats=1)
    assert report.table("cluster").rows[1][4] is None
    assert report.table("cluster-differences").rows[0][5:8] == (None, None, None)
    assert report.table("cluster-differences").rows[0][-2:] == (1.0, 1.0)


def test_a_limit_draws_a_sample_of_a_sorted_file(evaluate: Callable[..., Report]) -> None:
    report = evaluate(limit=30)
    (facts,) = report.facts["clusterings"]
    assert (facts["texts"], facts["labels"]) == (30, 3)
    assert facts == evaluate(limit=30).facts["clusterings"][0]
    assert any("a random sample" in note for note in report.notes)


# Resuming


def test_what_was_measured_is_read_again(evaluate: Callable[..., Report]) -> None:
    first = evaluate("surprise")
    more = evaluate("pooled", "surprise", repeats=4)
    assert any("6 of 12 runs were measured before" in note for note in more.notes)
    (before,), (after,) = first.facts["clusterings"], more.facts["clusterings"]
    for name in ("cosine", "surprise"):
        assert after["runs"][name][:3] == before["runs"][name]
    assert not any("measured before" in note for note in evaluate(seed=100).notes)
    assert not any("measured before" in note for note in evaluate(clusters=2).notes)


def test_an_interrupted_evaluation_goes_on(
    evaluate: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [2]

    def interrupted(*arguments: object, **more: object) -> dict[str, Run]:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return measure(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(evaluation, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate()
    monkeypatch.setattr(evaluation, "measure", measure)
    assert any("6 of 9 runs were measured before" in note for note in evaluate().notes)


def test_runs_are_found_by_their_key_alone(tmp_path: Path) -> None:
    folder, key = ResultCache(tmp_path, dict[str, Run]), {"data": "1", "seed": 0}
    run = Run(0.5, 0.5, 0.5, 0.25, 0.5, 0.0, 9, 1, 0, 0.75, 1.5, 0.5)
    assert folder.find(key) is None
    folder.keep(key, {"cosine": asdict(run)})
    assert folder.find(key) == {"cosine": run}
    folder.keep(key, {"cosine": asdict(run), "pooled": asdict(replace(run, moved=0.5))})
    assert list(folder.find(key) or {}) == ["cosine", "pooled"]
    assert folder.find({**key, "seed": 1}) is None
    (path,) = folder.path.iterdir()
    content = path.read_text()
    for damage in (
        "",
        "{",
        "[]",
        '{"key": 1}',
        content.replace("0.25", '"much"'),
        content.replace('"ari"', '"x"'),
    ):
        path.write_text(damage)
        assert folder.find(key) is None


# The command


def test_the_command_shows_and_writes_its_tables(call: Call, file: Path, tmp_path: Path) -> None:
    done = call(file, "--repeats", 2, "--report", tmp_path / "r.json", "--report", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert f"surprise@{DEFAULT_WEIGHT}" in done.stdout
    assert "Differences to the cosine" in done.stdout
    assert "homogeneity" not in done.stdout
    assert "topics.jsonl 60 texts, 3 labels, 3 clusters" in done.stderr
    assert {path.name for path in tmp_path.glob("r.*")} == {"r.json", "r.html"}
    assert "homogeneity" in call(file, "--repeats", 2, "--details").stdout


def test_columns_can_be_named(call: Call, tmp_path: Path) -> None:
    data = labelled_texts()
    path = tmp_path / "topics.csv"
    rows = [f"{text},{label}" for text, label in zip(data.texts, data.labels, strict=True)]
    path.write_text("\n".join(["what was said,topic", *rows]))
    done = call(
        path, "--text", "what was said", "--label", "topic", "--repeats", 1, "--assignments", "pooled"
    )
    assert done.exit_code == 0, done.output
    assert "60 texts, 3 labels" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clusters", "61"], "61 clusters for 60 texts; ask for 60 at most"),
        (["--assignments", "euclid"], "there is no assignment 'euclid'"),
        (["--label", "topic"], "topic"),
        (["--report", "r.doc"], "no format for the suffix"),
    ],
)
def test_what_cannot_be_done_is_told(call: Call, file: Path, arguments: list[str], message: str) -> None:
    done = call(file, *arguments)
    assert done.exit_code
    assert message in str(done.exception)


def test_files_that_cannot_be_compared_are_refused(call: Call, file: Path, tmp_path: Path) -> None:
    twin = tmp_path / "other" / file.name
    twin.parent.mkdir()
    twin.write_text(file.read_text())
    assert "two files are called 'topics.jsonl'" in str(call(file, twin).exception)
    same = tmp_path / "same.jsonl"
    same.write_text('{"text": "a dog", "label": "x"}\n{"text": "a cat", "label": "x"}\n')
    assert "every text has the label 'x'" in str(call(same).exception)
    assert read_labelled(same).classes == ("x",)


def test_an_interruption_tells_what_stays(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "SurpriseKMeans", interrupt)
    done = call(file)
    assert done.exit_code == 130
    assert "Repeats that were measured stay" in done.output


def test_help_has_examples_and_needs_no_torch() -> None:
    code = (
        "import sys; from surprise_rerank.eval.cli.rerank_eval.cluster import command\n"
        "try: command(['--help'])\n"
        "finally: assert not {'torch', 'sklearn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "rerank-eval cluster tweet.jsonl" in done.stdout
    assert f"surprise@{DEFAULT_WEIGHT}" in done.stdout
