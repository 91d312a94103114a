"""Killed processes: nothing is lost, nothing is there twice, and the next run goes on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SurpriseRetriever
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.surprise.ensemble import Ensemble

TOTAL = 2000
KILLS = 20
QUESTIONS = ["w1 w2", "w3", "w4 w5 w6"]
# Passages, an ensemble and an augmented vector: everything that is written in several steps.
OPTIONS = IndexOptions(passages=Passages(overlap=2), surprise_vector=True)
# Imports once, then forks a process for every line that it reads; each opens the index and fills it.
# Arrow is imported after a fork, if at all: its allocator has a thread, and a child can hang for ever.
NURSERY = textwrap.dedent(
    """
    import os
    import sys
    from pathlib import Path
    sys.path[:0] = sys.argv[2:]
    from test_interruptions import documents, opened
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            with opened(Path(sys.argv[1])) as index:
                print("open", flush=True)
                getattr(index, line.strip())(documents())
                print("done", flush=True)
            os._exit(0)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)
    """
)


class Nursery:
    """Processes that fill one index, to be killed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-P", "-c", NURSERY, str(folder), *map(str, Path(__file__).parents[:2])]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        assert self._parent.wait(10) == 0

    def kill(self, method: str, when: Callable[[], None], *, opened: bool) -> list[str]:
        """Start one, kill it at some time after it began or opened the index; returns what it said."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(method, file=self._parent.stdin, flush=True)
        said = [self._parent.stdout.readline().strip()]
        while (opened and "open" not in said) or not any(line.isdecimal() for line in said):
            said.append(self._parent.stdout.readline().strip())
        when()
        with contextlib.suppress(ProcessLookupError):  # it was done already
            os.kill(next(int(line) for line in said if line.isdecimal()), signal.SIGKILL)
        while said[-1] != "ended":
            said.append(self._parent.stdout.readline().strip())
        return said


def documents() -> list[Document]:
    """Every fifth one is in several passages."""
    return [Document(str(i), f"text w{i} " + "word. " * (40 if i % 5 == 0 else 3)) for i in range(TOTAL)]


def opened(folder: Path) -> DocumentIndex:
    """The index, with an ensemble."""
    encoder = WordEncoder(window=12)
    index = DocumentIndex.open(folder, encoder, options=OPTIONS)
    if index.manifest.statistics is None:
        index.set_ensemble(Ensemble.from_vectors(encoder.encode(QUESTIONS).dense))
    return index


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    with opened(tmp_path / "unbroken") as index:
        index.sync(documents())
        expected = state(index)
    moments = random.Random(4)
    folder = tmp_path / "killed"
    before = 0
    with Nursery(folder) as nursery:
        for kill in range(KILLS):
            # Every fourth one while it opens the index.
            longest = 0.6 if kill % 4 else 0.05
            seconds = moments.uniform(0.0, longest)
            said = nursery.kill("sync", lambda seconds=seconds: time.sleep(seconds), opened=kill % 4 > 0)
            with opened(folder) as index:
                now = len(index)
                assert before <= now <= TOTAL
                before = now
                if "done" in said or now == TOTAL:  # there is nothing left to interrupt: begin again
                    index.delete([str(i) for i in range(TOTAL)])
                    assert index.status().points == 0
                    before = 0
    with opened(folder) as index:
        report = index.sync(documents())
        assert report.added + report.updated + report.unchanged == TOTAL
        assert state(index) == expected


def state(index: DocumentIndex) -> dict[tuple[str, int], tuple[object, ...]]:
    """Everything that is stored, by document and passage."""
    ids = [str(i) for i in range(TOTAL)]
    found = index.fetch(ids, frozenset({"documents", "dense", "tokens"}))
    assert found.documents is not None
    assert found.dense is not None
    assert found.tokens is not None
    assert found.passages is not None
    points = {
        (name, passage.number): (
            found.documents[i],
            passage,
            found.dense[i].tobytes(),
            found.tokens.directions[found.tokens.offsets[i] : found.tokens.offsets[i + 1]].tobytes(),
        )
        for i, (name, passage) in enumerate(zip(found.ids, found.passages, strict=True))
    }
    status = index.status()
    assert (len(index), status.points, status.behind) == (TOTAL, len(points), 0)
    (query,) = encode_queries(index.encoder, ["w1 text word."])
    pools = [
        SurpriseRetriever(index, mode=mode, pool=10_000).retrieve(query, 50) for mode in ("formula", "vector")
    ]
    assert pools[0].ids == pools[1].ids
    return points


def test_a_killed_rebuild_leaves_the_old_version_in_use(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with opened(folder) as index:
        index.sync(documents()[:100])

    def begun() -> None:
        while not (folder / "2" / "manifest.json").exists():
            time.sleep(0.01)
        time.sleep(0.2)

    with Nursery(folder) as nursery:
        assert "done" not in nursery.kill("rebuild", begun, opened=True)
    with opened(folder) as index:
        assert len(index) == 100
        index.rebuild(documents())
        assert len(index) == TOTAL
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["2"]
