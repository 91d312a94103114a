"""What every command costs from the shell: processor and wall seconds of whole processes, the best of a few.

    python benchmarks/start_up.py

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
from dataclasses import dataclass
from pathlib import Path

import httpx
from machine import describe

from surprise_rerank import Document, load_encoder
from surprise_rerank.connectors.datasets.demo import DemoDocumentation
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions

_MAIN = "from surprise_rerank.eval.cli.{0}.main import main; main()"
_SEARCH, _EVALUATE = _MAIN.format("surprise_rerank"), _MAIN.format("rerank_eval")
_MODEL = (
    "from surprise_rerank import load_encoder; load_encoder(backend='auto').encode(['how to'], kind='query')"
)
_QUESTION = "test whether two samples differ"
_OUTPUT = Path(os.devnull)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a process: of the processors, and by the clock."""

    processor: float
    wall: float


def cost(code: str, arguments: Sequence[object] = (), until: Callable[[], bool] | None = None) -> Cost:
    """What a Python program costs; one that serves is ended when it is ready."""
    start = time.perf_counter()
    with _OUTPUT.open("wb") as nowhere:
        running = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *map(str, arguments)],
            stdout=nowhere,
            stderr=nowhere,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        while until is not None and not until():
            time.sleep(0.02)
        ready = time.perf_counter()
        if until is not None:
            running.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))} ended with {running.returncode}")
    end = time.perf_counter() if until is None else ready
    return Cost(used.ru_utime + used.ru_stime, end - start)


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


def commands(index: Path, beir: Path, port: int) -> Iterator[tuple[str, Callable[[], Cost]]]:
    """Every command with what runs it."""
    place = ("--index", index)
    url = f"http://127.0.0.1:{port}"

    def of(code: str, *arguments: object) -> Callable[[], Cost]:
        return lambda: cost(code, arguments)

    yield "an empty Python", of("pass")
    yield "`import torch`", of("import torch")
    yield "the packaged model, one question", of(_MODEL)
    yield "`surprise-rerank --help`", of(_SEARCH, "--help")
    yield "`search --help`", of(_SEARCH, "search", "--help")
    yield "`rerank-eval --help`", of(_EVALUATE, "--help")
    yield "`status`", of(_SEARCH, "status", *place)
    for system in ("bm25", "cosine", "dynamax", "auto"):
        yield f"`search --system {system}`", of(_SEARCH, "search", _QUESTION, *place, "--system", system)
    yield "`search --server`", of(_SEARCH, "search", _QUESTION, "--server", url)
    other = _free_port()
    own = ("serve", *place, "--port", other)
    yield (
        "`serve`, until it is ready",
        lambda: cost(_SEARCH, own, lambda: _is_ready(f"http://127.0.0.1:{other}")),
    )
    results = itertools.count()
    source = ("similar", "--from-index", index, "--out")
    yield (
        "`similar --from-index`",
        lambda: cost(_SEARCH, [*source, beir.parent / f"neighbours-{next(results)}.csv"]),
    )
    cache = beir.parent / "cache"
    arguments = ("--dataset", beir, "--cache", cache, "--systems", "auto", "--quiet")
    yield "`rerank-eval`, warm, 5 questions", of(_EVALUATE, *arguments)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="commands that contain this")
    asked = parser.parse_args()
    print(describe("torch", "sentence-transformers", "qdrant-client", "qdrant-edge-py"))
    port = _free_port()
    with prepared(asked.documents) as (index, beir), served(index, port):
        print("\n| command | processor seconds | wall seconds |\n|---|---|---|")
        for name, run in commands(index, beir, port):
            if asked.only in name:
                run()  # caches of pages, and what the first call of a command makes
                rounds = [run() for _ in range(asked.rounds)]
                processor, wall = min(own.processor for own in rounds), min(own.wall for own in rounds)
                print(f"| {name} | {processor:.2f} | {wall:.2f} |", flush=True)


if __name__ == "__main__":
    main()
