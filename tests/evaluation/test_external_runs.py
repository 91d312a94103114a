"""Run files as systems and as candidates, through the whole evaluation; what is refused before it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.files import write_beir, write_lines, write_vectors

from surprise_rerank import DataError, DatasetError, SurpriseRerankError
from surprise_rerank.core._extras import is_installed
from surprise_rerank.eval.cli.rerank_eval.main import command
from surprise_rerank.eval.retrieval.comparison import differences
from surprise_rerank.eval.retrieval.evaluation import Evaluation, check_together, evaluate
from surprise_rerank.eval.retrieval.runs import SystemResult
from surprise_rerank.eval.retrieval.settings import RetrievalSettings

ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat", "pig", "hen")
QUERIES = {"q1": "the cat sleeps", "q2": "a dog barks", "q3": "milk of the cow"}


@pytest.fixture
def settings(tmp_path: Path) -> RetrievalSettings:
    documents = {f"d{i}": f"the {animal} eats grass" for i, animal in enumerate(ANIMALS)}
    judged = [("q1", "d0", 1), ("q2", "d1", 1), ("q3", "d3", 2)]
    folder = write_beir(tmp_path / "animals", documents, QUERIES, judged)
    words = sorted({*ANIMALS, "the", "a", "of", "sleeps", "barks", "milk", "eats", "grass"})
    vectors = write_vectors(tmp_path / "tiny.txt", words)
    return RetrievalSettings(
        dataset=str(folder),
        systems=("cosine",),
        model=str(vectors),
        cache=tmp_path / "cache",
        measures=("nDCG@10", "RR"),
    )


def named(evaluation: Evaluation) -> dict[str, SystemResult]:
    return {result.name: result for result in evaluation.results}


def test_one_pool_for_all_systems_and_a_run_as_a_system(settings, tmp_path):
    run = tmp_path / "pool.trec"
    run.write_text(
        "".join(f"{q} Q0 {d} 1 {s} x\n" for q in QUERIES for d, s in (("d2", 3), ("d7", 2), ("no", 1)))
    )
    wide = replace(
        settings, systems=("cosine", "dynamax", "surprise"), candidates=str(run), runs=(f"theirs={run}",)
    )
    results = named(evaluate(wide))
    assert {frozenset(r.run["q1"].ids) for n, r in results.items() if n != "theirs"} == {
        frozenset({"d2", "d7"})
    }
    # The run itself is measured as it is, unknown documents included.
    assert results["theirs"].run["q1"].ids == ("d2", "d7", "no")
    ranking = named(evaluate(settings))["cosine"].run["q1"]
    scores = dict(zip(ranking.ids, ranking.scores, strict=True))
    pooled = results["cosine"].run["q1"]
    assert pooled.scores == pytest.approx([scores[name] for name in pooled.ids], abs=1e-6)
    shallow = named(evaluate(replace(wide, depth=1)))
    assert shallow["dynamax"].run["q1"].ids == ("d2",)


def test_a_run_is_found_by_the_name_of_the_data_set(settings, tmp_path):
    (tmp_path / "animals-test").mkdir()
    (tmp_path / "animals-test" / "theirs.trec").write_text("q1 Q0 d0 1 1 x\n")
    pattern = str(tmp_path / "{dataset}" / "theirs.trec")
    assert named(evaluate(replace(settings, runs=(pattern,))))["theirs"].run["q1"].ids == ("d0",)


def test_two_runs_are_compared_with_each_other(settings, tmp_path):
    for name, documents in {"a": ("d7", "d2"), "b": ("d2", "d7")}.items():
        lines = [f"{q} Q0 {d} 1 {2 - i} x\n" for q in QUERIES for i, d in enumerate(documents)]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    runs = tuple(f"{name}={tmp_path / name}.trec" for name in "ab")
    of_runs = replace(
        settings, systems=("a",), runs=runs, baseline="a", model="no/such-model"
    )  # none is loaded
    evaluation = evaluate(of_runs)
    assert named(evaluation).keys() == {"a", "b"}
    assert [difference.system for difference in differences(evaluation, "a")] == ["b"]
    with pytest.raises(DataError, match="system='c' is not known"):
        evaluate(replace(of_runs, systems=("c",)))


def test_what_cannot_work_is_told_before_anything_is_measured(settings, tmp_path):
    check_together(settings, [settings.dataset])
    with pytest.raises(DatasetError, match="two data sets are called 'animals-test'"):
        check_together(settings, [settings.dataset, f"{settings.dataset}/"])
    with pytest.raises(DatasetError, match=r"there is no run file animals-test/none\.trec"):
        check_together(replace(settings, runs=("a={dataset}/none.trec",)), [settings.dataset])
    with pytest.raises(DatasetError, match=r"there is no run file bm52 .candidates are also cosine"):
        check_together(replace(settings, candidates="bm52"), [settings.dataset])
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "theirs.trec").write_text("q1 Q0 d0 1 1 x\n")
    run = str(tmp_path / "runs" / "theirs.trec")
    with pytest.raises(DataError, match="lies in --run-dir, where it could be overwritten"):
        check_together(replace(settings, runs=(run,)), [settings.dataset], tmp_path / "runs")


def test_what_the_systems_and_the_questions_do_not_allow_is_refused(settings, tmp_path):
    with pytest.raises(DataError, match="'dynamx' is not among the systems; did you mean 'dynamax'"):
        evaluate(replace(settings, systems=("cosine", "dynamax"), baseline="dynamx"))
    with pytest.raises(SurpriseRerankError, match="ERR@10 cannot be measured"):
        evaluate(replace(settings, measures=("ERR@10",)))
    run = write_lines(tmp_path / "cosine.trec", "q1 Q0 d0 1 1 x")
    with pytest.raises(DataError, match="two systems have the name 'cosine'; name the run: runs=NAME="):
        evaluate(replace(settings, runs=(str(run),)))
    notes = evaluate(replace(settings, systems=("dynamax",))).notes
    assert "nothing is compared: the baseline cosine is not among the systems" in notes


def test_texts_and_questions_of_ones_own_are_ranked_without_judgements(settings, tmp_path):
    shutil.rmtree(Path(settings.dataset, "qrels"))
    systems = ["cosine", *(["bm25-lucene"] if is_installed("pyserini") else [])]
    line = ["--dataset", settings.dataset, "--systems", ",".join(systems), "--model", settings.model]
    line += ["--set", f"cache={settings.cache}", "--set", "judged=nothing"]
    refused = CliRunner().invoke(command, line)
    assert "say where to write them, --run-dir FOLDER" in str(refused.exception)
    done = CliRunner().invoke(command, [*line, "--run-dir", str(tmp_path / "rankings")])
    assert done.exit_code == 0, done.output + str(done.exception)
    assert "nothing measured" in done.output
    assert "nDCG" not in done.output
    for system in systems:
        lines = (tmp_path / "rankings" / f"{system}.trec").read_text().splitlines()
        first = {line.split()[0]: line.split()[2] for line in reversed(lines)}
        if system == "bm25-lucene":
            assert first == {"q1": "d0", "q2": "d1", "q3": "d3"}
        else:
            assert first.keys() == QUERIES.keys()
