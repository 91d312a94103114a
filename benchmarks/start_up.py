"""What the commands below cost from the shell: processor and wall seconds, the best of a few.

    python benchmarks/start_up.py

Wall seconds are those until the first byte of a result, or of an error.

An index of some documents of the built-in demo is made first, and a folder of the same in BEIR's form. Beside
the commands stand the floor (an empty Python, `import torch`) and the packaged model with one question: what
`search` takes beyond that is its own. Processor seconds are the user's and the system's of a process and all
that it waited for; the model's threads are held to one, as two would be counted twice.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import httpx
from machine import describe

from surprise_rerank import Document, load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.readers.demo import DemoDocumentation

# As they are installed.
_ENTRY = "from surprise_rerank.eval.cli.entry import {0}; {0}()"
_SEARCH, _EVALUATE = _ENTRY.format("surprise_rerank"), _ENTRY.format("rerank_eval")
_MODEL = "from surprise_rerank import load_encoder; load_encoder().encode(['how to'], kind='query')"
_QUESTION = "test whether two samples differ"
_OUTPUT = Path(os.devnull)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a process: of the processors for all of it, and by the clock until its first output."""

    processor: float
    wall: float


@dataclass(frozen=True, slots=True)
class Use:
    """A Python program with its arguments.

    Attributes:
        code: what runs it.
        arguments: on its command line.
        until: whether it is ready, for one that serves.
        code_of_exit: what it must end with.
    """

    code: str
    arguments: Sequence[object] = ()
    until: Callable[[], bool] | None = None
    code_of_exit: int = 0

    def cost(self) -> Cost:
        """What it costs; one that serves is ended when it is ready."""
        arguments = [str(own) for own in self.arguments]
        start = time.perf_counter()
        running = subprocess.Popen(
            [sys.executable, "-P", "-c", self.code, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if self.code_of_exit == 0 else subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert running.stdout is not None
        if self.until is None:
            running.stdout.read(1)
        else:
            while not self.until():
                time.sleep(0.02)
        first = time.perf_counter()
        if self.until is not None:
            running.send_signal(signal.SIGTERM)
        running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        if running.returncode != self.code_of_exit:
            raise SystemExit(f"{' '.join(arguments)} ended with {running.returncode}")
        return Cost(used.ru_utime + used.ru_stime, first - start)


@contextlib.contextmanager
def prepared(count: int) -> Iterator[tuple[Path, Path]]:
    """An index of so many documents, and a folder in BEIR's form."""
    data = DemoDocumentation()
    documents = list(itertools.islice(data.documents(), count))
    with tempfile.TemporaryDirectory() as made:
        index, beir = Path(made, "index"), Path(made, "beir")
        with DocumentIndex.open(index, load_encoder(), options=IndexOptions(passages=None)) as opened:
            opened.sync(documents, background=False)
            opened.term_statistics()
        _write(beir / "corpus.jsonl", [_json(document) for document in documents])
        known = {document.id for document in documents}
        judged = {name: own for name, own in data.qrels().items() if known >= set(own)}
        asked, questions = data.queries(), list(judged)[:5]
        texts = [json.dumps({"_id": name, "text": asked[name]}) for name in questions]
        _write(beir / "queries.jsonl", texts)
        rows = [f"{name}\t{own}\t1" for name in questions for own in judged[name]]
        _write(beir / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *rows])
        yield index, beir


def _json(document: Document) -> str:
    return json.dumps({"_id": document.id, "title": document.title, "text": document.text})


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def _is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/ready").status_code == 200
    return False


@contextlib.contextmanager
def served(index: Path, port: int) -> Iterator[None]:
    """A server that is ready; it waits beside all the other commands, as a reader of the same index."""
    with _OUTPUT.open("wb") as nowhere:
        arguments = [sys.executable, "-P", "-c", _SEARCH, "serve", "--index", str(index), "--port", str(port)]
        running = subprocess.Popen(arguments, stdout=nowhere, stderr=nowhere)
    try:
        while not _is_ready(f"http://127.0.0.1:{port}"):
            time.sleep(0.1)
        yield
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def commands(index: Path, beir: Path, port: int) -> Iterator[tuple[str, Use]]:
    """Commands with what runs each."""
    place = ("--index", index)
    folder, other, counted = beir.parent, _free_port(), itertools.count()
    yield "an empty Python", Use("print()")
    yield "`import torch`", Use("import torch; print()")
    yield "the packaged model, one question", Use(f"{_MODEL}; print()")
    yield "`surprise-rerank --help`", Use(_SEARCH, ("--help",))
    yield "`search --help`", Use(_SEARCH, ("search", "--help"))
    yield "`rerank-eval --help`", Use(_EVALUATE, ("--help",))
    yield "`rerank-eval --systems help`", Use(_EVALUATE, ("--systems", "help"))
    yield "a wrong option", Use(_SEARCH, ("search", _QUESTION, *place, "--sytem", "auto"), code_of_exit=2)
    missing = ("index", folder / "no.jsonl", "--index", folder / "new")
    yield "`index`, no such file", Use(_SEARCH, missing, code_of_exit=2)
    yield "`index`, nothing new", Use(_SEARCH, ("index", beir, *place, "--set", "background=no"))
    yield "`status`", Use(_SEARCH, ("status", *place))
    for system in ("bm25", "cosine", "dynamax", "auto"):
        yield f"`search --system {system}`", Use(_SEARCH, ("search", _QUESTION, *place, "--system", system))
    yield "`search --explain`", Use(_SEARCH, ("search", _QUESTION, *place, "--explain"))
    yield (
        "`serve`, until it is ready",
        Use(_SEARCH, ("serve", *place, "--port", other), lambda: _is_ready(f"http://127.0.0.1:{other}")),
    )
    yield (
        "`similar --index`",
        Use(_SEARCH, ("similar", "--index", index, "--out", _Numbered(folder, counted))),
    )
    arguments = ("--dataset", beir, "--set", f"cache={folder / 'cache'}", "--systems", "auto", "--quiet")
    yield "`rerank-eval`, warm, 5 questions", Use(_EVALUATE, arguments)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A file of results that is not there yet, each time."""

    folder: Path
    counted: Iterator[int]

    def __str__(self) -> str:
        return str(self.folder / f"neighbours-{next(self.counted)}.csv")


def main() -> None:
    """Print the table: of each command the best of some rounds, after one for caches."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="commands that contain this")
    asked = parser.parse_args()
    print(describe("torch", "sentence-transformers", "qdrant-client", "qdrant-edge-py"))
    port = _free_port()
    with prepared(asked.documents) as (index, beir), served(index, port):
        print("\n| command | processor seconds | first output |\n|---|---|---|")
        for name, use in commands(index, beir, port):
            if asked.only in name:
                costs = [use.cost() for _ in range(asked.rounds + 1)][1:]
                processor, wall = (min(own) for own in zip(*map(astuple, costs), strict=True))
                print(f"| {name} | {processor:.2f} | {wall:.2f} |", flush=True)


if __name__ == "__main__":
    main()
