"""Systems from a YAML file, run files as systems and as pools, through the whole evaluation."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from surprise_rerank.errors import DataError, DatasetError, SurpriseRerankError
from surprise_rerank.eval.retrieval import workspace
from surprise_rerank.eval.retrieval.evaluation import Evaluation, check_together, evaluate
from surprise_rerank.eval.retrieval.results import SystemResult
from surprise_rerank.eval.retrieval.settings import RetrievalSettings
from surprise_rerank.eval.retrieval.yaml_systems import RunFiles, read_systems

NEEDS_BM25 = pytest.mark.skipif(not workspace.has_lucene(), reason="the extra 'pyserini' is not installed")

ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat", "pig", "hen")
QUERIES = {"q1": "the cat sleeps", "q2": "a dog barks", "q3": "milk of the cow"}


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A small file of word vectors: a model that loads in no time."""
    rng = np.random.default_rng(0)
    words = sorted({*ANIMALS, "the", "a", "of", "sleeps", "barks", "milk", "eats", "grass"})
    lines = [f"{word} " + " ".join(f"{x:.4f}" for x in rng.normal(size=8)) for word in words]
    path = tmp_path / "tiny.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def settings(tmp_path: Path, vectors: Path) -> RetrievalSettings:
    folder = tmp_path / "animals"
    (folder / "qrels").mkdir(parents=True)
    corpus = [
        json.dumps({"_id": f"d{i}", "title": "", "text": f"the {animal} eats grass"})
        for i, animal in enumerate(ANIMALS)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(corpus))
    queries = [json.dumps({"_id": name, "text": text}) for name, text in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(queries))
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td0\t1\nq2\td1\t1\nq3\td3\t2\n"
    )
    return RetrievalSettings(
        dataset=str(folder),
        systems=("cosine",),
        model=str(vectors),
        cache=tmp_path / "cache",
        measures=("nDCG@10", "RR"),
    )


def named(evaluation: Evaluation) -> dict[str, SystemResult]:
    return {result.name: result for result in evaluation.results}


def described(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "systems.yaml"
    path.write_text(text)
    return path


@NEEDS_BM25
def test_every_kind_of_description_runs(settings: RetrievalSettings, tmp_path: Path) -> None:
    (tmp_path / "theirs.trec").write_text("q1 Q0 d5 1 3.0 x\nq1 Q0 d0 2 2.0 x\nq2 Q0 d1 1 1.0 x\n")
    path = described(
        tmp_path,
        """
systems:
  light: {rerank: surprise, model: pooled, weight: 0.2, shrink: 0.5}
  tversky: {rerank: dynamax, measure: tversky, universe: joint, alpha: 1, beta: 0.05, unit_tokens: false}
  words-first: {rerank: dynamax, pool: bm25}
  both: {rerank: fusion, method: zscore, scorers: [bm25, cosine], weights: {bm25: 0.7}}
  without-words: {rerank: fusion, scorers: [cosine, dynamax]}
  theirs: {run: theirs.trec}
  on-theirs: {rerank: dynamax-jaccard, pool: theirs.trec}
  cosine-on-words: {rerank: cosine, pool: bm25}
""",
    )
    results = named(evaluate(replace(settings, systems_from=path)))
    names = ["cosine", "light", "tversky", "words-first", "both", "without-words", "theirs", "on-theirs"]
    assert list(results) == [*names, "cosine-on-words"]
    assert results["theirs"].run["q1"].ids == ("d5", "d0")
    assert results["theirs"].values["RR"] == pytest.approx((0.5 + 1 + 0) / 3)
    # Only what BM25 finds is ranked: documents that share a word with the question.
    assert set(results["words-first"].run["q2"].ids) == {"d1"}
    assert results["cosine-on-words"].run["q2"].ids == ("d1",)
    # A run's pool is re-ranked; the question that it lacks has no documents.
    assert set(results["on-theirs"].run["q1"].ids) == {"d0", "d5"}
    assert results["on-theirs"].run["q3"].ids == ()
    assert np.isnan(results["theirs"].milliseconds)


def test_one_pool_for_all_systems(settings: RetrievalSettings, tmp_path: Path) -> None:
    run = tmp_path / "pool.trec"
    run.write_text(
        "".join(f"{q} Q0 {d} 1 {s} x\n" for q in QUERIES for d, s in (("d2", 3), ("d7", 2), ("no", 1)))
    )
    wide = replace(
        settings, systems=("cosine", "dynamax", "surprise"), pool=str(run), runs=(f"theirs={run}",)
    )
    results = named(evaluate(wide))
    assert {frozenset(r.run["q1"].ids) for n, r in results.items() if n != "theirs"} == {
        frozenset({"d2", "d7"})
    }
    # The run itself is measured as it is, unknown documents included.
    assert results["theirs"].run["q1"].ids == ("d2", "d7", "no")
    own = named(evaluate(settings))["cosine"].run["q1"]
    scores = dict(zip(own.ids, own.scores, strict=True))
    pooled = results["cosine"].run["q1"]
    assert pooled.scores == pytest.approx([scores[name] for name in pooled.ids], abs=1e-6)
    shallow = named(evaluate(replace(wide, depth=1)))
    assert shallow["dynamax"].run["q1"].ids == ("d2",)


def test_a_run_is_found_by_the_name_of_the_data_set(settings: RetrievalSettings, tmp_path: Path) -> None:
    (tmp_path / "animals-test").mkdir()
    (tmp_path / "animals-test" / "theirs.trec").write_text("q1 Q0 d0 1 1 x\n")
    pattern = str(tmp_path / "{dataset}" / "theirs.trec")
    assert named(evaluate(replace(settings, runs=(pattern,))))["theirs"].run["q1"].ids == ("d0",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("systems: [", "is not YAML"),
        ("systems: {}", "expected a mapping `systems:`"),
        ("other: 1", "expected a mapping `systems:`"),
        ("systems: {a: fast}", "a: expected keys and values, got 'fast'"),
        ("systems: {cosine: {rerank: dynamax}}", "a system of that name is built in"),
        ("systems: {a/b: {rerank: dynamax}}", "a name is a text without slashes"),
        ("systems: {a: {rerank: dynmax}}", "a: rerank is 'dynmax'; did you mean 'dynamax'?"),
        ("systems: {a: {pool: bm25}}", "a: no rerank .and no run. is given"),
        ("systems: {a: {rerank: surprise, wieght: 1}}", "a: unknown key 'wieght'; did you mean 'weight'?"),
        ("systems: {a: {rerank: surprise, weight: 2}}", "a: weight is 2, expected a number from 0 to 1"),
        ("systems: {a: {rerank: surprise, weight: yes}}", "a: weight is True, expected a number"),
        ("systems: {a: {rerank: dynamax, unit_tokens: 1}}", "unit_tokens is 1, expected true or false"),
        ("systems: {a: {rerank: fusion, scorers: [colbert]}}", "scorers is .* expected a list of bm25"),
        ("systems: {a: {rerank: fusion, weights: {colbert: 1}}}", "weights is .* expected numbers for"),
        ("systems: {a: {rerank: fusion, weights: {bm25: .inf}}}", "weight of bm25 is inf, expected a number"),
        ("systems: {a: {rerank: cosine, shrink: 1}}", "unknown key 'shrink'"),
        ("systems: {a: {run: nothing.trec}}", "a: there is no run file"),
        (
            "systems: {a: {rerank: cosine, pool: bm52}}",
            "a: there is no run file .*; a pool is also",
        ),
        ("systems: {a: {rerank: cosine}, a: {rerank: dynamax}}", "'a' comes twice"),
        ("systems: {a: {rerank: fusion, scorers: [cosine, cosine]}}", "expected each once"),
        ("systems: {a: {rerank: dynamax, alpha: 2}}", "alpha and beta belong to measure: tversky"),
        ("systems: {a: {rerank: dynamax, measure: tversky, alpha: 1" + "0" * 400 + "}}", "alpha is 1000"),
        ("systems: {a: {run: b.trec, pool: bm25}}", "unknown key 'pool'"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_system(tmp_path: Path, text: str, said: str) -> None:
    path = described(tmp_path, text)
    with pytest.raises(SurpriseRerankError, match=said) as told:
        read_systems(path, lambda folder: RunFiles(folder, "tiny", ("q1",), ("d1",)))
    assert str(tmp_path) in str(told.value)


def test_a_run_of_another_data_set_is_refused(settings: RetrievalSettings, tmp_path: Path) -> None:
    run = tmp_path / "other.trec"
    run.write_text("x1 Q0 d0 1 1 x\n")
    with pytest.raises(DatasetError, match="ranks none of the 3 questions, such as 'q1'; its first is 'x1'"):
        evaluate(replace(settings, runs=(str(run),)))


def test_what_cannot_work_is_told_before_anything_is_measured(
    settings: RetrievalSettings, tmp_path: Path
) -> None:
    check_together(settings, [settings.dataset])
    with pytest.raises(DatasetError, match="two data sets are called 'animals-test'"):
        check_together(settings, [settings.dataset, f"{settings.dataset}/"])
    with pytest.raises(DatasetError, match=r"there is no run file animals-test/none\.trec"):
        check_together(replace(settings, runs=("a={dataset}/none.trec",)), [settings.dataset])
    with pytest.raises(DatasetError, match=r"there is no run file bm52 .a pool is also one of cosine"):
        check_together(replace(settings, pool="bm52"), [settings.dataset])
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "theirs.trec").write_text("q1 Q0 d0 1 1 x\n")
    path = described(tmp_path, "systems: {a: {run: runs/theirs.trec}}")
    run = str(tmp_path / "runs" / "theirs.trec")
    for given in (replace(settings, runs=(run,)), replace(settings, systems_from=path)):
        with pytest.raises(DataError, match="lies in --run-dir, where it could be overwritten"):
            check_together(given, [settings.dataset], tmp_path / "runs")


def test_a_run_in_the_users_folder_is_found_by_both_readings(
    settings: RetrievalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.trec").write_text("q1 Q0 d0 1 1 x\n")
    (tmp_path / "deep").mkdir()
    path = described(tmp_path / "deep", "systems: {a: {run: ~/mine.trec}}")
    check_together(replace(settings, systems_from=path), [settings.dataset])
    assert named(evaluate(replace(settings, systems_from=path)))["a"].run["q1"].ids == ("d0",)


def test_a_baseline_that_is_no_system_is_refused(settings: RetrievalSettings) -> None:
    with pytest.raises(DataError, match="'dynamx' is not among the systems; did you mean 'dynamax'"):
        evaluate(replace(settings, systems=("cosine", "dynamax"), baseline="dynamx"))
    notes = evaluate(replace(settings, systems=("dynamax",))).notes
    assert "nothing is compared: the baseline cosine is not among the systems" in notes


def test_a_measure_that_cannot_take_the_questions_ids_is_told_first(settings: RetrievalSettings) -> None:
    with pytest.raises(SurpriseRerankError, match="ERR@10 cannot be measured"):
        evaluate(replace(settings, measures=("ERR@10",)))


@pytest.mark.parametrize("name", ["../../up", "a\\b", " "])
def test_a_name_that_could_be_no_file_is_refused(
    settings: RetrievalSettings, tmp_path: Path, name: str
) -> None:
    run = tmp_path / "theirs.trec"
    run.write_text("q1 Q0 d0 1 1 x\n")
    with pytest.raises(SurpriseRerankError, match=r"cannot be used|there is no run file"):
        evaluate(replace(settings, runs=(f"{name}={run}",)))


def test_two_systems_of_one_name_are_refused(settings: RetrievalSettings, tmp_path: Path) -> None:
    run = tmp_path / "cosine.trec"
    run.write_text("q1 Q0 d0 1 1 x\n")
    with pytest.raises(DataError, match="two systems have the name 'cosine'; name the run: --run NAME="):
        evaluate(replace(settings, runs=(str(run),)))


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "theirs.trec").write_text("q1 Q0 d1 1 1 x\n")
    systems = read_systems(
        described(tmp_path, example), lambda folder: RunFiles(folder, "tiny", ("q1",), ("d1",))
    )
    assert len(systems) == 6
    assert [systems[name].needs for name in ("by-words", "words-first")] == [{"sparse"}] * 2
