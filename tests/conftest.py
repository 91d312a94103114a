"""Fixtures that tests share."""

import contextlib
import os
import shutil

# Haystack reports every pipeline to its makers unless it is told not to, before it is imported.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

# A background of 300 questions for every index of every test takes longer than the tests. Some ask for it.
os.environ.setdefault("SURPRISE_RERANK_BACKGROUND", "off")

import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from helpers.faults import TOO_OLD, FaultyMemory, Proxy, cleaned, server_url
from helpers.named_index import write_index
from hypothesis import settings
from qdrant_client import QdrantClient

from surprise_rerank import Candidates, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex, Location
from surprise_rerank.connectors.qdrant._engines.nodes import Node, Nodes
from surprise_rerank.connectors.qdrant._storage import server as server_storage
from surprise_rerank.connectors.qdrant._writing.term_statistics import TermStatistics

# OpenVINO would export every tiny model of every test. Its own tests take this back.
sys.modules.setdefault("openvino", None)

# Few examples with every change, many at night. Another program on the machine is no fault of the product's.
settings.register_profile("few", deadline=None, max_examples=10)
settings.register_profile("many", deadline=None, max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))

# Opens the same index again and again: an encoder, and options of `DocumentIndex.open`.
Opener: TypeAlias = Callable[..., DocumentIndex]


def pytest_configure() -> None:
    """Files of tests in memory: an embedded store that writes through to a disk takes four times as long."""
    memory = "/dev/shm"
    if os.path.isdir(memory) and shutil.disk_usage(memory).free > 8 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: a fifth of the time tests wait for a server or another process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: a process that begins the longest one last keeps the others waiting."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A real server that is too old for what a test needs skips it, in the words that a user reads."""
    try:
        return (yield)
    except StoreError as error:
        if pyfuncitem.get_closest_marker("server") and TOO_OLD in str(error):
            pytest.skip(str(error))
        raise


def require_one_ranking(index: DocumentIndex, first: Candidates, *others: Candidates) -> None:
    """The same documents in the same order, with equal scores of surprise.

    A server's scores are equal but for their rounding to float32, and ordered but for what that makes equal.
    """
    for other in others:
        if index.corpus.engine != "server":
            assert other.ids == first.ids
            np.testing.assert_array_equal(other.scores["surprise"], first.scores["surprise"])
            continue
        np.testing.assert_allclose(other.scores["surprise"], first.scores["surprise"], rtol=1e-5, atol=1e-5)
        theirs = dict(zip(other.ids, other.scores["surprise"], strict=True))
        for name, score in zip(first.ids, first.scores["surprise"], strict=True):
            assert theirs.get(name, first.scores["surprise"][-1]) == pytest.approx(score, rel=1e-5, abs=1e-5)


@pytest.fixture
def in_front() -> Iterator[Proxy]:
    """A proxy in front of a real server; the collections of its prefix are removed afterwards."""
    with Proxy(server_url()) as proxy, cleaned(server_url(), proxy.prefix) as proxy.store:
        yield proxy


@pytest.fixture(params=["memory", pytest.param("server", marks=pytest.mark.server)])
def qdrant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyMemory | Proxy]:
    """A Qdrant that is opened by its url, and whose requests fail when they are told to."""
    if request.param == "server":
        yield request.getfixturevalue("in_front")
        return
    memory = FaultyMemory()

    def reached(location: Location) -> Nodes:
        return Nodes([Node(memory)], "server", location.server, location.retries)

    monkeypatch.setattr(Nodes, "of", reached)
    yield memory
    memory.store.close()


@pytest.fixture(
    params=[
        "edge",
        "memory",
        pytest.param("server", marks=pytest.mark.server),
        pytest.param("server by gRPC", marks=pytest.mark.server),
    ]
)
def open_index(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Opener]:
    """A function that opens the same index again and again, in every storage that is available."""
    kind = request.param
    if kind == "edge":
        yield lambda encoder, **more: DocumentIndex.open(tmp_path / "index", encoder, **more)
        return
    if kind == "memory":  # that of one client, which is closed with the test
        with contextlib.closing(QdrantClient(":memory:")) as client, monkeypatch.context() as patch:
            patch.setattr(client, "close", lambda: None)
            patch.setattr(server_storage, "QdrantClient", lambda _: client)
            yield lambda encoder, **more: DocumentIndex.open(":memory:", encoder, **more)
        return
    url = server_url()
    collection = f"test-{uuid.uuid4()}"
    with cleaned(url, collection):
        place = Location(url=url, collection=collection, prefer_grpc=kind.endswith("gRPC"))
        yield lambda encoder, **more: DocumentIndex.open(place, encoder, **more)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many points each pass of counting found."""
    passes: list[int] = []
    count = TermStatistics.counted

    def noted(*arguments: Any) -> TermStatistics:
        statistics = count(*arguments)
        passes.append(statistics.points)
        return statistics

    monkeypatch.setattr(TermStatistics, "counted", noted)
    return passes


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of test data that lies beside the project, not in it."""
    default = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SURPRISE_RERANK_SHARED", default)) / "data"
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set SURPRISE_RERANK_SHARED to the folder that holds data/")
    return folder


@pytest.fixture
def ir_datasets_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """A function that gives ir_datasets a home; it reads part of that at import, so it is imported again."""

    def loaded() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] == "ir_datasets"]

    def move(home: Path) -> None:
        monkeypatch.setenv("IR_DATASETS_HOME", str(home))
        for name in loaded():
            monkeypatch.delitem(sys.modules, name)

    yield move
    for name in loaded():
        del sys.modules[name]


@pytest.fixture(scope="module")
def named_index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small index that is opened by its name."""
    folder = tmp_path_factory.mktemp("named")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SURPRISE_RERANK_CACHE", str(folder / "cache"))
        return write_index(folder)
