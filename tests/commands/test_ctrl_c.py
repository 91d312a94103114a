"""Ctrl-C at any moment: one line, exit code 130, and nothing that is half done."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import click
import pytest
from click.testing import CliRunner
from helpers.bench import SENTENCES, write_model, write_rows

from surprise_rerank.connectors.qdrant._engines.edge import EdgeEngine
from surprise_rerank.connectors.qdrant._storage.folder import FolderStorage
from surprise_rerank.eval.cli.exits import Commands, run
from surprise_rerank.eval.cli.surprise_rerank.main import command

CODE = "from surprise_rerank.eval.cli import entry; print(flush=True); entry.{program}()"


def interrupted(program: str, seconds: float, *arguments: object) -> tuple[int, str]:
    """Exit code and error stream of a command that gets a SIGINT so long after its first import."""
    running = subprocess.Popen(
        [sys.executable, "-P", "-c", CODE.format(program=program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    running.stdout.readline()
    time.sleep(seconds)
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=60)
    return running.returncode, error


@pytest.mark.parametrize("seconds", [0.02, 0.2, 0.5])
def test_an_interruption_of_the_imports_is_one_line(seconds):
    code, error = interrupted("rerank_eval", seconds, "--dataset", "demo", "--quiet")
    assert (code, error) == (130, "Interrupted.\n") or (
        code == 130 and error.startswith("Interrupted. What was indexed stays;") and error.count("\n") == 1
    )


@pytest.mark.parametrize("seconds", [0.3, 1.6])
def test_a_first_index_that_is_interrupted_leaves_nothing_or_what_goes_on(tmp_path, seconds):
    model = write_model(tmp_path / "words.txt")
    rows = [{"id": str(i), "text": SENTENCES[i % len(SENTENCES)]} for i in range(60_000)]
    documents = write_rows(tmp_path / "docs.jsonl", rows)
    folder = tmp_path / "deep" / "index"
    arguments = ("index", documents, "--model", model, "--index", folder, "--set", "background=no")
    code, error = interrupted("surprise_rerank", seconds, *arguments)
    assert code == 130, error
    assert error.count("\n") == 1
    assert error.startswith("Interrupted.")
    assert (tmp_path / "deep").exists() == ("What was stored stays" in error)


@pytest.mark.parametrize("step", [(EdgeEngine, "__init__"), (FolderStorage, "promote")])
def test_an_index_that_is_interrupted_while_it_is_made_leaves_nothing(tmp_path, monkeypatch, step):
    owner, name = step
    original, calls = getattr(owner, name), []

    def interrupted_once(*arguments: Any) -> None:
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        original(*arguments)

    monkeypatch.setattr(owner, name, interrupted_once)
    documents = write_rows(tmp_path / "docs.jsonl", [{"id": "1", "text": SENTENCES[0]}])
    model = write_model(tmp_path / "words.txt")
    index = ["index", documents, "--model", model, "--index", tmp_path / "deep" / "index"]
    done = CliRunner().invoke(command, list(map(str, index)))
    assert (done.exit_code, done.stderr) == (130, "Interrupted. Nothing was stored.\n")
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("raise RuntimeError(str(error)) from None", id="turned into an error of its own"),
        pytest.param("pass\n    time.sleep(30)", id="swallowed"),
    ],
)
def test_an_interruption_that_a_library_keeps_for_itself_is_one(then):
    code = """
import os, signal, sys, time
import click
from surprise_rerank.eval.cli.exits import Commands, interrupt, run

@click.group(cls=Commands, invoke_without_command=True)
def command():
    signal.signal(signal.SIGINT, interrupt)
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:
        {then}

sys.argv = ["command"]
run(command, "What was stored stays.")
"""
    ended = subprocess.run(
        [sys.executable, "-c", code.replace("{then}", then)], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (130, "Interrupted. What was stored stays.\n")


def test_an_interruption_while_options_are_read_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["command"])

    def interrupts(*_: object) -> None:
        raise KeyboardInterrupt

    @click.group(cls=Commands, invoke_without_command=True)
    @click.option("--at", callback=interrupts)
    def interrupted_command(at: str) -> None:
        """Come to nothing."""

    with pytest.raises(SystemExit) as ended:
        run(interrupted_command, "What was stored stays.")
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted. What was stored stays.\n"


def test_what_switches_interruptions_off_is_respected():
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + CODE.format(
        program="surprise_rerank"
    )
    running = subprocess.Popen([sys.executable, "-P", "-c", code, "--version"], stdout=subprocess.PIPE)
    running.stdout.readline()
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    assert b"version" in said
