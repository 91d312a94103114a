"""An index whose points Ray's workers made: the same as one process makes, also when a worker is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.schema import STORED_FIELDS
from surprise_rerank.connectors.qdrant.writing import indexing
from surprise_rerank.connectors.similar import RayEncoder
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError

pytestmark = pytest.mark.slow


class Telling(WordEncoder):
    """Takes its time for documents, and notes the process that encodes them, so that a test can kill it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def encode(self, texts, kind="document", on_progress=None):
        if kind == "document":
            (self.folder / str(os.getpid())).touch()
            time.sleep(0.1)
        return super().encode(texts, kind, on_progress)


class Refusing(WordEncoder):
    """Refuses every document, as a model does that reads another language."""

    def encode(self, texts, kind="document", on_progress=None):
        raise DataError("the model refuses these texts")


def documents(count: int) -> list[Document]:
    """Texts of 8 to 30 words, as frequent as words are, so that next to no scores are equal."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 31, count)
    texts = [" ".join(f"w{word}" for word in rng.zipf(1.3, length) % 5000) for length in lengths]
    return [Document(f"d{i}", text) for i, text in enumerate(texts)]


def points(index: DocumentIndex) -> dict[Any, Any]:
    """Everything that is stored, by the ids of points."""
    batches = index.storage.engine.scroll(STORED_FIELDS, ("dense", "tokens", "bm25"))
    records = (record for batch in batches for record in batch)
    return {record.id: (record.payload, repr(sorted(record.vectors.items()))) for record in records}


def test_an_index_of_rays_workers_is_that_of_one_process_also_when_one_is_killed(
    tmp_path, cluster, monkeypatch
):
    monkeypatch.setattr(indexing, "_WINDOW", 16)
    processes = tmp_path / "processes"
    processes.mkdir()
    encoder, rows = Telling(processes), documents(600)
    for name in ("here", "ray"):
        with DocumentIndex.open(tmp_path / name, encoder) as index:
            index.sync(rows[:50], background=False)
            index.set_ensemble(index.ensemble())
    with DocumentIndex.open(tmp_path / "here", encoder) as here:
        here.sync(rows, background=False)
    for path in processes.iterdir():
        path.unlink()

    def kill() -> None:
        while not (workers := list(processes.iterdir())):
            time.sleep(0.02)
        os.kill(int(workers[0].name), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with DocumentIndex.open(tmp_path / "ray", RayEncoder(encoder, workers=2)) as index:
        assert index.sync(rows, background=False).added == 550
        assert index.sync(rows, background=False).unchanged == 600
    thread.join()
    assert len(list(processes.iterdir())) > 2  # two workers, and one in the place of the killed one
    assert str(os.getpid()) not in {path.name for path in processes.iterdir()}

    with (
        DocumentIndex.open(tmp_path / "here", encoder) as here,
        DocumentIndex.open(tmp_path / "ray", encoder) as clustered,
    ):
        assert set(clustered.ids()) == {row.id for row in rows}
        assert points(clustered) == points(here)
        for name in ("points", "filled", "terms", "counts"):
            ours, theirs = (getattr(index.term_statistics(), name) for index in (here, clustered))
            np.testing.assert_array_equal(theirs, ours)
        questions = [row.text[:40] for row in rows[:100]]
        # Not `auto`: two folders filled alike differ in it, as whose feedback counts may turn on a rounding.
        for system in ("cosine", "bm25", "dynamax"):
            pipelines = [index.pipeline(system) for index in (here, clustered)]
            orders = [[pipeline.search(question).ids for question in questions] for pipeline in pipelines]
            assert orders[0] == orders[1]


def test_an_error_of_a_worker_reaches_who_indexes(tmp_path, cluster):
    with (
        DocumentIndex.open(tmp_path / "index", RayEncoder(Refusing(), workers=1)) as index,
        pytest.raises(DataError, match="the model refuses these texts"),
    ):
        index.sync(documents(3), background=False)
