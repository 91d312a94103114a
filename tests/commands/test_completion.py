"""What a shell completes, and that it does so at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from surprise_rerank.connectors.systems.register import SYSTEMS
from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.rerank_eval.main import command as rerank_eval
from surprise_rerank.eval.cli.surprise_rerank.main import command as surprise_rerank
from surprise_rerank.eval.retrieval.measures import parse_measures
from surprise_rerank.eval.retrieval.settings import DEFAULTS
from surprise_rerank.eval.retrieval.systems import EVALUATED
from surprise_rerank.similarities.table import with_raw


def completed(command: object, arguments: list[str], begun: str) -> list[str]:
    shell = ShellComplete(command, {}, "x", "X")  # type: ignore[arg-type]
    return [item.value for item in shell.get_completions(arguments, begun) if item.type == "plain"]


def test_the_names_are_those_that_there_are() -> None:
    assert [*completion.SIMILARITIES, *completion.RAW] == list(with_raw())
    assert sorted(completion.EVALUATED) == sorted(EVALUATED)
    assert len(parse_measures(completion.MEASURES)) == len(completion.MEASURES)


@pytest.mark.parametrize(
    ("arguments", "begun", "expected"),
    [
        (["--systems"], "fusion", ["fusion", *(n for n in completion.EVALUATED if n.startswith("fusion"))]),
        (["--systems"], "cosine,surprise-mixed,dynamax-i", ["dynamax-idf", "dynamax-inclusion"]),
        (["--baseline"], "cos", ["cosine"]),
        (["--measures"], "nDCG@10 R@", ["R@100", "R@10", "R@1000"]),
        (["--dataset"], "", ["demo"]),
        (["--dataset"], "beir/scif", ["beir/scifact", "beir/scifact/test", "beir/scifact/train"]),
    ],
)
def test_options_of_an_evaluation(arguments: list[str], begun: str, expected: list[str]) -> None:
    found = completed(rerank_eval, arguments, begun)
    assert all(value.startswith(begun) for value in found)
    written = len(begun) - len(begun.replace(",", " ").split(" ")[-1])
    ends = [value[written:] for value in found]
    assert [end for end in ends if not end.endswith("-raw")] == expected


def test_systems_and_sources_of_an_index() -> None:
    assert completed(surprise_rerank, ["search", "--system"], "") == list(SYSTEMS)
    assert completed(surprise_rerank, ["index"], "beir/nfcorpus/d") == ["beir/nfcorpus/dev"]
    assert completed(surprise_rerank, ["similar"], "de") == ["demo"]


def test_completing_names_imports_nothing_heavy() -> None:
    source = (
        "import os, sys, contextlib\n"
        "from surprise_rerank.eval.cli.rerank_eval.main import command\n"
        "with contextlib.suppress(SystemExit): command(prog_name='rerank-eval')\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sklearn', 'ir_measures', 'ir_datasets'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    asked = {
        "_RERANK_EVAL_COMPLETE": "bash_complete",
        "COMP_WORDS": "rerank-eval --systems dyn",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
        check=True,
    )
    *found, heavy = done.stdout.splitlines()
    assert "plain,dynamax-inclusion" in found
    assert heavy == "[]"


def test_the_list_of_systems_begins_with_the_default_ones() -> None:
    lines = CliRunner().invoke(rerank_eval, ["--systems", "help"]).output.splitlines()
    default = [line.split()[0] for line in lines if line.endswith("(compared by default)")]
    assert sorted(default) == sorted(DEFAULTS.systems)
    assert [line.split()[0] for line in lines[: len(default)]] == default
    assert {line.split()[0] for line in lines} >= {name.removesuffix("-raw") for name in EVALUATED}
