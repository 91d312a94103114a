"""Clusterings: `rerank-eval cluster`, from files to tables."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from helpers.files import write_rows, write_vectors
from sklearn.metrics import adjusted_rand_score, v_measure_score

from surprise_rerank import DataError, SurpriseAssignment, SurpriseKMeans
from surprise_rerank.classify._cluster import DEFAULT_WEIGHT
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.eval.cli.rerank_eval.studies import cluster as command
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.stats import holm
from surprise_rerank.eval.studies.cluster import clustering, find_assignments, measure
from surprise_rerank.eval.studies.settings import ClusterSettings

TOPICS = {
    "animal": "dog cat horse sheep cow goat",
    "food": "bread milk cheese apple soup rice",
    "sky": "sun moon star cloud rain wind",
}
Call = Callable[..., Result]


def topics(path: Path, n: int = 60) -> Path:
    """Texts of four words of a topic, sorted by topic, as files often are."""
    rng = np.random.default_rng(0)
    labels = sorted(list(TOPICS)[i % 3] for i in range(n))
    texts = [" ".join(rng.choice(TOPICS[label].split(), 4)) + f" n{i}" for i, label in enumerate(labels)]
    return write_rows(path, [{"text": t, "label": label} for t, label in zip(texts, labels, strict=True)])


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A file of word vectors in which a topic's words lie together."""
    rng = np.random.default_rng(0)
    middles = {topic: rng.normal(size=8) for topic in TOPICS}
    near = {w: middles[name] + 0.7 * rng.normal(size=8) for name in TOPICS for w in TOPICS[name].split()}
    return write_vectors(tmp_path / "small.txt", near)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return topics(tmp_path / "topics.jsonl")


@pytest.fixture
def evaluate(vectors: Path, file: Path, tmp_path: Path) -> Callable[..., Report]:
    def run(*names: str, **more: object) -> Report:
        usual = {"models": (str(vectors),), "files": (file,), "cache": tmp_path / "c", "repeats": 3}
        settings = ClusterSettings(assignments=names, **{**usual, **more})
        return clustering(settings, Terminal(quiet=True)).report()

    return run


@pytest.fixture
def call(vectors: Path, tmp_path: Path) -> Call:
    def run(*arguments: object) -> Result:
        options = ["--model", str(vectors), "--set", f"cache={tmp_path / 'c'}", *map(str, arguments)]
        return CliRunner().invoke(command, options)

    return run


def test_assignments_are_found_by_name_and_weight():
    assignments = find_assignments(["pooled", "surprise@0.5", "empirical@crossover", "cosine", "pooled"])
    assert dict(assignments) == {
        "cosine": ("gaussian", 0.0),
        "pooled": ("pooled", 1.0),
        "surprise@0.5": ("gaussian", 0.5),
        "empirical@crossover": ("empirical", "crossover"),
    }
    assert next(iter(assignments)) == "cosine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("suprise", "did you mean 'surprise'"),
        ("cosine@0.5", "assignment='cosine' is not known"),
        ("surprise@2", "weight must be crossover, or a number from 0 to 1, got '2'"),
        ("surprise@nan", "got 'nan'"),
        ("surprise@", "got ''"),
    ],
)
def test_unknown_assignments_are_told(name, message):
    with pytest.raises(DataError, match=message):
        find_assignments([name])


def test_a_run_is_what_scikit_learn_measures_of_the_estimators():
    rng = np.random.default_rng(0)
    labels = [f"c{i % 4}" for i in range(80)]
    points = (rng.normal(size=(4, 6))[np.arange(80) % 4] + rng.normal(size=(80, 6))).astype(np.float32)
    measured = measure(points, labels, find_assignments(["surprise"]), clusters=4, seed=3)
    centres = SurpriseKMeans(4, weight=0.0, random_state=3).fit(points)
    surprised = SurpriseAssignment(centres, weight=1.0).fit(points)
    for name, chosen in (("cosine", centres.labels_), ("surprise", surprised.labels_)):
        assert measured[name]["V-measure"] == 100 * v_measure_score(labels, chosen)
        assert measured[name]["ARI"] == 100 * adjusted_rand_score(labels, chosen)
    assert measured["surprise"]["moved %"] == 100 * (centres.labels_ != surprised.labels_).mean() > 0


def test_a_report_has_a_row_for_each_assignment(evaluate):
    report = evaluate("surprise", "pooled@0.5")
    quality = report.table("cluster")
    key = "topics.jsonl / small.txt"
    assert [row[2] for row in quality.rows] == ["cosine", "surprise", "pooled@0.5"]
    assert quality.cell(f"{key} / cosine", "V-measure") > 60
    assert quality.cell(f"{key} / cosine", "V - cosine") is None
    gain = quality.cell(f"{key} / surprise", "ARI") - quality.cell(f"{key} / cosine", "ARI")
    assert quality.cell(f"{key} / surprise", "ARI - cosine") == pytest.approx(gain)
    differences = report.table("cluster-differences")
    assert differences.cell(f"{key} / surprise / ARI", "difference") == pytest.approx(gain)
    assert [row[-1] for row in differences.rows] == holm([row[-2] for row in differences.rows])
    assert [len(values["ARI"]) for values in report.facts["values"]] == [3, 3, 3]
    assert [plot.kind for plot in report.plots] == ["bars", "bars"]
    once = evaluate("surprise", repeats=1)
    assert "V-measure dev." not in [column.name for column in once.table("cluster").columns]
    assert once.table("cluster-differences").rows[0][-2:] == (1.0, 1.0)


def test_the_command_shows_and_writes_its_tables(call, file, tmp_path):
    done = call(file, "--set", "repeats=2", "--report", tmp_path / "r.json", "--report", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert f"surprise@{DEFAULT_WEIGHT}" in ClusterSettings(files=()).assignments
    assert "Differences to the cosine" in done.stdout
    assert {path.name for path in tmp_path.glob("r.*")} == {"r.json", "r.html"}


def test_what_cannot_be_done_is_told(call, file, tmp_path):
    twin, same = tmp_path / "other" / file.name, tmp_path / "same.jsonl"
    twin.parent.mkdir()
    twin.write_text(file.read_text())
    write_rows(same, [{"text": "a dog", "label": "x"}, {"text": "a cat", "label": "x"}])
    for arguments, message in (
        (
            [file, "--set", "clusters=61"],
            "clusters of topics.jsonl must be a whole number from 1 to 60, got 61",
        ),
        ([file, "--set", "assignments=euclid"], "assignment='euclid' is not known"),
        ([file, "--label-field", "topic"], "topic"),
        ([file, twin], "names of files must differ, got 'topics.jsonl' twice"),
        ([same], "labels of same.jsonl must be at least 2, got 1"),
    ):
        done = call(*arguments)
        assert done.exit_code
        assert message in str(done.exception)
