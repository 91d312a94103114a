"""What a command imports: modules that take long, and that it does without, stay out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.named_index import write_index
from helpers.programs import exit_code

from surprise_rerank import load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.eval.cli.surprise_rerank.main import main

# Seconds of imports, each.
SLOW = ("torch", "sentence_transformers", "transformers", "sklearn", "pandas", "matplotlib", "scipy", "numba")
CODE = """
import atexit, json, os, sys
atexit.register(lambda: os.write({file}, json.dumps(sorted(sys.modules)).encode()))
from surprise_rerank.eval.cli.{command}.main import main
main()
"""


def imported(command: str, *arguments: object) -> set[str]:
    """The modules of a process that has run a command."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as modules:
        done = subprocess.Popen(
            [sys.executable, "-c", CODE.format(file=write, command=command), *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            pass_fds=[write],
            cwd=Path(__file__).parents[2],
        )
        os.close(write)
        names = json.loads(modules.read())
        assert done.wait(60) == 0
    return set(names)


@pytest.mark.parametrize("command", ["surprise_rerank", "rerank_eval"])
def test_help_imports_nothing_that_takes_long(command):
    unwanted = {*SLOW, "numpy", "qdrant_client", "ir_datasets", "opentelemetry"}
    assert not imported(command, "--help") & unwanted


def special_alone(modules: set[str]) -> bool:
    """Of scipy at most the special functions (.1 s): its distributions take ten times that."""
    return not modules & {"scipy.stats", "scipy.optimize", "scipy.cluster", "scipy.spatial"}


def test_status_and_a_search_by_words_import_no_library_of_models(named_index):
    modules = imported("surprise_rerank", "search", "--system", "bm25", "dog", "--index", named_index)
    assert not modules & {*SLOW, "opentelemetry"}
    # The interval of a background's promise is a quantile of the Beta distribution.
    modules = imported("surprise_rerank", "status", "--index", named_index)
    assert modules & set(SLOW) <= {"scipy"}
    assert special_alone(modules)


def test_a_search_by_tokens_multiplies_by_torch_and_no_more(named_index):
    modules = imported("surprise_rerank", "search", "--system", "auto", "dog", "--index", named_index)
    assert modules & {*SLOW, "opentelemetry"} <= {"torch", "scipy"}
    assert special_alone(modules)


def test_a_search_by_words_needs_no_model_and_others_say_that_it_is_gone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path / "cache"))
    place = ("--index", write_index(tmp_path))
    with DocumentIndex.open(place[1], load_encoder(str(tmp_path / "vectors.txt"))) as index:
        expected = index.pipeline("bm25").search("loud dog")
    (tmp_path / "vectors.txt").unlink()
    search = ("search", "loud dog", *place, "--json", "--system")
    assert exit_code(main, "surprise-rerank", *search, "bm25") == 0
    (hit,) = json.loads(capsys.readouterr().out)["hits"]
    assert (hit["id"], hit["score"]) == (expected.ids[0], pytest.approx(expected.scores[0]))
    assert exit_code(main, "surprise-rerank", "search", *search[1:], "bm25", "--explain") == 0
    assert json.loads(capsys.readouterr().out)["candidates"][0]["id"] == hit["id"]
    for system in ("cosine", "auto"):
        assert exit_code(main, "surprise-rerank", *search, system) == 2
        assert "vectors.txt" in capsys.readouterr().err
