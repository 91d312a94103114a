"""Index mode: augmented vectors in Qdrant, what is found in them, and how much that is."""

from __future__ import annotations

import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import models
from qdrant_rest import HTML_PAGE, CutBody, QdrantRest, Status, fresh_collection
from real_server import cleaned, server_url
from words import WordEncoder

from surprise_rerank.connectors.qdrant.engines.graph import wait_until_indexed
from surprise_rerank.connectors.qdrant.engines.nodes import Nodes
from surprise_rerank.connectors.similar import corpus, threads
from surprise_rerank.connectors.similar import settings as similar_settings
from surprise_rerank.connectors.similar.encoding import Model, Vectors
from surprise_rerank.connectors.similar.index import augmented
from surprise_rerank.connectors.similar.index import scorer as index_scorer
from surprise_rerank.connectors.similar.index.augmented import AugmentedIndex
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.connectors.similar.index.scorer import IndexScorer
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.connectors.similar.recall import interval, sample_check
from surprise_rerank.connectors.similar.scorers import ExactScorer
from surprise_rerank.connectors.similar.scoring import PartScorer
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.connectors.similar.threads import Threads
from surprise_rerank.connectors.similar.workers import Sources
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.surprise import neighbours as module_of_neighbours

pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

BLOCK = 128


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of a few documents."""
    for module in (augmented, corpus, index_scorer):
        monkeypatch.setattr(module, "KEY_BLOCK", BLOCK)


@pytest.fixture(
    params=[
        "edge",
        "rest",
        pytest.param("server", marks=pytest.mark.server),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexLocation]:
    """Where an index may be: in a folder, on a server of the tests' own, on a real one where there is one."""
    if request.param == "edge":
        yield IndexLocation(folder=tmp_path / "index")
        return
    url = request.getfixturevalue("rest").url if request.param == "rest" else server_url()
    place = IndexLocation(url=url, collection=fresh_collection())
    with cleaned(url, place.collection):
        yield place


def clustered(n: int, d: int = 12, seed: int = 0, copies: int = 0) -> np.ndarray:
    """Vectors in groups, the last ones equal."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(n // 25, 1), d))
    vectors = centres[random.integers(0, len(centres), n)] + 0.3 * random.normal(size=(n, d)) + 0.2
    if copies:
        vectors[-copies:] = vectors[-1]
    return vectors.astype(np.float32)


def given(vectors: np.ndarray, name: str = "vectors", prefix: str = "d") -> Vectors:
    steps = range(0, len(vectors), 100)
    batches = [
        ([f"{prefix}{i}" for i in range(s, min(s + 100, len(vectors)))], vectors[s : s + 100]) for s in steps
    ]
    return Vectors(name, batches)


def prepared(
    folder: Path,
    settings: SimilaritySettings,
    documents: Vectors,
    against: Vectors | None = None,
    **options: object,
) -> SimilarityJob:
    job = SimilarityJob(folder, settings, workers=Threads(2), **options)
    job.prepare(documents, against)
    return job


def parts(job: SimilarityJob) -> list[bytes]:
    return [path.read_bytes() for path in job.parts()]


def opened(job: SimilarityJob) -> AugmentedIndex:
    return AugmentedIndex(job.task.index, job.neighbours, job.ensemble)


def dropped(job: SimilarityJob) -> None:
    """Delete the index of a job."""
    location = job.task.index
    if location.url is None:
        shutil.rmtree(Path(location.folder) / location.name(job.neighbours))
        return
    client = Nodes.of(location).client
    client.delete_collection(location.name(job.neighbours))
    client.close()


INDEXED = SimilaritySettings(k=5, mode="index")


def exact(settings: SimilaritySettings) -> SimilaritySettings:
    return replace(settings, mode="exact")


@pytest.mark.parametrize(
    "settings",
    [
        INDEXED,
        replace(INDEXED, k=None, above=3.0),
        replace(INDEXED, above=3.0),
        replace(INDEXED, k=400, pool=400),
    ],
    ids=["k", "above", "both", "all"],
)
def test_without_a_graph_every_part_is_that_of_exact_mode(tmp_path, place, settings):
    documents = given(clustered(300))
    job = prepared(tmp_path / "job", settings, documents, index=place)
    assert parts(job) == parts(prepared(tmp_path / "exact", exact(settings), documents))


def test_thousands_of_documents_of_which_many_are_equal_are_found_as_in_exact_mode(tmp_path, place):
    # With 200 equal documents the first answer is full of them, and which ones is up to Qdrant.
    documents = given(clustered(400 if place.url else 3000, copies=200))
    job = prepared(tmp_path / "job", INDEXED, documents, index=place)
    assert parts(job) == parts(prepared(tmp_path / "exact", exact(INDEXED), documents))


def test_a_document_is_no_neighbour_of_its_own_but_one_of_another_corpus_may_be_equal(tmp_path, place):
    documents, others = given(clustered(150)), given(clustered(150), prefix="other")
    same = prepared(tmp_path / "same", INDEXED, documents, index=place)
    table = parquet.read_table(next(same.parts()))
    assert not any(a == b for a, b in zip(*(table.column(i).to_pylist() for i in (0, 1)), strict=True))
    both = prepared(tmp_path / "both", INDEXED, documents, others, index=place)
    table = parquet.read_table(next(both.parts()))
    nearest = {row["document"]: row["neighbour"] for row in table.to_pylist() if row["cosine"] > 1 - 1e-6}
    assert len(nearest) > 100  # the surprise of others can be larger
    assert nearest.items() <= {f"d{i}": f"other{i}" for i in range(150)}.items()
    assert parts(both) == parts(prepared(tmp_path / "exact", exact(INDEXED), documents, others))


def test_candidates_of_an_index_are_scored_again_by_dynamax(tmp_path, place):
    pytest.importorskip("torch")
    random = np.random.default_rng(0)
    words = ["dog", "cat", "wolf", "fox", "tree", "leaf", "root", "stone", "river", "sea", "ship", "sail"]
    texts = [Document(str(i), " ".join(random.choice(words, 6))) for i in range(120)]
    settings = SimilaritySettings(k=3, similarity="both", pool=20, mode="index", ensemble_sample=20)

    def result(mode_settings: SimilaritySettings, folder: str, **options: object) -> list[bytes]:
        job = SimilarityJob(tmp_path / folder, mode_settings, model=Model("words", WordEncoder), **options)
        job.prepare(Sources(["texts"], [texts]))
        return parts(job)

    assert result(settings, "job", index=place) == result(exact(settings), "exact")


def test_what_a_graph_finds_is_scored_as_in_exact_mode(tmp_path):
    documents = given(clustered(8000, d=400))  # Edge builds graphs from 10 MB on
    job = prepared(tmp_path, replace(INDEXED, ef=64), documents)
    rows = np.arange(0, 8000, 40)
    found = IndexScorer(job.documents, job.documents, job.ensemble, job.settings, job.task.index).neighbours(
        rows
    )
    true = ExactScorer(job.documents, job.documents, job.ensemble, job.settings).neighbours(rows)
    known = {(q, k): (s, z) for q, k, s, z in zip(true.query, true.key, true.similarity, true.z, strict=True)}
    pairs = list(zip(found.query, found.key, found.similarity, found.z, strict=True))
    shared = [pair for pair in pairs if pair[:2] in known]
    assert len(pairs) == 1000
    assert len(shared) > 950
    assert all(known[q, k] == (s, z) for q, k, s, z in shared)


def test_an_index_that_is_there_is_not_filled_again(tmp_path, place):
    documents = given(clustered(300))
    job = prepared(tmp_path / "job", INDEXED, documents, index=place)
    with opened(job) as index:
        assert index.missing() == []
        assert index.search(np.ones((1, 13), np.float32), 400, ef=64)[0][0].tolist() != []
    again = prepared(tmp_path / "job", replace(INDEXED, k=2), documents, index=place)
    assert parts(again) == parts(prepared(tmp_path / "exact", exact(replace(INDEXED, k=2)), documents))


def test_blocks_that_are_missing_or_stored_in_part_are_known_and_filled(tmp_path, place):
    job = prepared(tmp_path / "exact", exact(INDEXED), given(clustered(500)))
    with AugmentedIndex(place, job.documents, job.ensemble) as index:
        index.create()
        index.create()
        assert index.missing() == [0, 128, 256, 384]
        assert index.fill_block(128) == 128
        index._store(384, index.vectors(384)[:100])
        assert index.missing() == [0, 256, 384]
        assert [index.rows(first) for first in index.missing()] == [128, 128, 116]
    assert parts(prepared(tmp_path / "job", INDEXED, given(clustered(500)), index=place)) == parts(job)


CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import test_similar_index as tests
from surprise_rerank.connectors.similar import corpus
from surprise_rerank.connectors.similar.index import augmented
from surprise_rerank.connectors.similar.index import scorer as index_scorer
for module in (augmented, corpus, index_scorer):
    module.KEY_BLOCK = tests.BLOCK
fill, left = augmented.AugmentedIndex.fill_block, [2]
def dying(self, first):
    rows = fill(self, first)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows
augmented.AugmentedIndex.fill_block = dying
place = augmented.IndexLocation(folder=Path(sys.argv[3])) if len(sys.argv) < 5 else augmented.IndexLocation(
    url=sys.argv[3], collection=sys.argv[4])
tests.prepared(Path(sys.argv[2]), tests.INDEXED, tests.given(tests.clustered(500)), index=place)
"""


def test_a_process_killed_while_it_fills_leaves_an_index_that_the_next_one_completes(tmp_path, place):
    where = [place.url, place.collection] if place.url else [str(place.folder)]
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path / "job"), *where]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    filled: list[int] = []
    fill = AugmentedIndex.fill_block
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            AugmentedIndex, "fill_block", lambda self, first: filled.append(first) or fill(self, first)
        )
        job = prepared(tmp_path / "job", INDEXED, given(clustered(500)), index=place)
    assert filled == [256, 384]
    assert parts(job) == parts(prepared(tmp_path / "exact", exact(INDEXED), given(clustered(500))))


def test_a_changed_corpus_has_another_index(tmp_path, place):
    first = prepared(tmp_path / "one", INDEXED, given(clustered(200)), index=place)
    changed = clustered(200)
    changed[7] = -changed[7]
    second = prepared(tmp_path / "two", INDEXED, given(changed), index=place)
    assert place.name(first.neighbours) != place.name(second.neighbours)
    assert parts(second) == parts(prepared(tmp_path / "exact", exact(INDEXED), given(changed)))
    assert parts(first) == parts(prepared(tmp_path / "before", exact(INDEXED), given(clustered(200))))


def test_an_index_that_was_deleted_is_made_again(tmp_path, place):
    job = prepared(tmp_path / "job", INDEXED, given(clustered(200)), index=place)
    dropped(job)
    with opened(job) as index:
        index.create()
        assert index.missing() == [0, 128]


def test_workers_that_can_fill_an_index_on_a_server_do(tmp_path, rest):
    class Fillers(Threads):
        """Two processes would each take a block."""

        def fill_index(self, place: IndexLocation, corpus, ensemble: Path) -> None:
            from surprise_rerank.surprise.ensemble import Ensemble

            with AugmentedIndex(place, corpus, Ensemble.load(ensemble)) as index:
                self.filled = [index.fill_block(first) for first in index.missing()]

    workers = Fillers(1)
    place = IndexLocation(url=rest.url, collection=fresh_collection())
    job = SimilarityJob(tmp_path / "job", INDEXED, workers=workers, index=place)
    job.prepare(given(clustered(300)))
    assert workers.filled == [128, 128, 44]
    assert parts(job) == parts(prepared(tmp_path / "exact", exact(INDEXED), given(clustered(300))))


def test_a_check_of_a_sound_result_finds_every_pair(tmp_path, place):
    job = prepared(tmp_path, INDEXED, given(clustered(400)), index=place)
    done = sample_check(job, 100)
    assert (done.size, done.documents, done.k) == (100, 400, 5)
    assert (done.found, done.pairs, done.recall, done.high) == (500, 500, 1.0, 1.0)
    assert done.low == pytest.approx(0.97)  # nobody can be sure of the 300 others
    assert str(done) == (
        "recall@5 1.0000 (95 % interval 0.9700 to 1.0000): 500 of 500 pairs of 100 of 400 documents"
    )


def damage(job: SimilarityJob, rows: set[int]) -> None:
    """Take the last two neighbours of some documents away, and give them a wrong first one."""
    path = next(job.parts())
    table = parquet.read_table(path)
    kept = [
        {**row, "neighbour_row": row["document_row"]}
        if row["rank"] == 1 and row["document_row"] in rows
        else row
        for row in table.to_pylist()
        if row["document_row"] not in rows or row["rank"] <= 3
    ]
    parquet.write_table(type(table).from_pylist(kept, table.schema), path)


def test_a_check_counts_what_is_missing_and_what_is_wrong(tmp_path):
    job = prepared(tmp_path, INDEXED, given(clustered(400)))
    damage(job, set(range(0, 400, 4)))
    whole = sample_check(job, 1000)
    assert (whole.size, whole.pairs, whole.found) == (400, 2000, 2000 - 3 * 100)
    assert whole.recall == whole.low == whole.high == 0.85
    sample = sample_check(job, 150)
    assert asdict(sample) == asdict(sample_check(job, 150))
    assert sample.low < 0.85 < sample.high
    assert sample.low < sample.recall < sample.high


def test_a_check_of_a_threshold_counts_pairs(tmp_path):
    settings = replace(INDEXED, k=None, above=3.0)
    job = prepared(tmp_path, settings, given(clustered(400)))
    pairs = sum(parquet.read_metadata(path).num_rows for path in job.parts())
    done = sample_check(job, 400)
    assert (done.pairs, done.found, done.recall) == (pairs, pairs, 1.0)
    assert str(done).startswith("recall above 3 1.0000 ")
    none = prepared(tmp_path / "none", replace(settings, above=1000.0), given(clustered(50)))
    assert asdict(sample_check(none)) | {"pairs": 0, "recall": 1.0} == asdict(sample_check(none))


def test_a_check_needs_a_sample(tmp_path):
    job = prepared(tmp_path, INDEXED, given(clustered(50)))
    with pytest.raises(DataError, match="a sample needs at least one document, got 0"):
        sample_check(job, 0)


def test_intervals_hold_the_true_share_about_as_often_as_they_say():
    random = np.random.default_rng(0)
    corpus_found = random.binomial(10, random.choice([1.0, 0.9, 0.5], 5000, p=[0.7, 0.2, 0.1]))
    wanted, true = np.full(200, 10), corpus_found.sum() / 50_000
    held = 0
    for _ in range(500):
        _, low, high = interval(random.choice(corpus_found, 200, replace=False), wanted, 5000)
        held += low <= true <= high
    assert 0.92 < held / 500 < 0.98


def test_documents_that_are_as_near_as_the_last_are_looked_for_until_there_are_too_many(
    tmp_path, place, monkeypatch
):
    monkeypatch.setattr(index_scorer, "_MOST_EQUAL", 32)
    job = prepared(tmp_path / "job", INDEXED, given(clustered(300, copies=200)), index=place)
    table = parquet.read_table(next(job.parts()))
    true = parquet.read_table(
        next(prepared(tmp_path / "exact", exact(INDEXED), given(clustered(300, copies=200))).parts())
    )
    for column in ("document", "rank", "surprise"):
        assert table.column(column).equals(true.column(column))


def test_a_threshold_that_lets_too_much_through_is_told(tmp_path, place, monkeypatch):
    monkeypatch.setattr(module_of_neighbours, "MOST_PAIRS", 1000)
    job = prepared(tmp_path, replace(INDEXED, k=None, above=-5.0), given(clustered(200)), index=place)
    with pytest.raises(
        DataError, match=r"a surprise above -5.0 lets through more than 1,000 pairs .*; raise it, or"
    ):
        parts(job)


@pytest.mark.parametrize("fault", [Status(503), CutBody(), Status(429, headers={"Retry-After": "0"})])
def test_faults_of_a_server_that_pass_lose_nothing(tmp_path, rest, fault):
    place = IndexLocation(url=rest.url, collection=fresh_collection())
    for method, ending in (("PUT", "/points"), ("POST", "/points/query/batch"), ("POST", "/points/count")):
        rest.fault(method, ending, fault)
    try:
        job = prepared(tmp_path / "job", INDEXED, given(clustered(200)), index=place)
        assert parts(job) == parts(prepared(tmp_path / "exact", exact(INDEXED), given(clustered(200))))
    finally:
        rest.heal()


def test_blocks_are_sent_in_halves_where_a_server_takes_less(tmp_path):
    with QdrantRest(limit=20_000) as server:
        job = prepared(
            tmp_path, replace(INDEXED, k=2), given(clustered(200)), index=IndexLocation(url=server.url)
        )
        assert server.count("PUT", "/points") > 2
        with opened(job) as index:
            assert index.missing() == []


def test_settings_reach_the_collection(tmp_path, rest):
    place = IndexLocation(url=rest.url, collection=fresh_collection(), settings={"replication_factor": 2})
    rest.forget()
    job = prepared(tmp_path, INDEXED, given(clustered(50)), index=place)
    made = [
        seen for seen in rest.seen if seen.method == "PUT" and seen.path.endswith(place.name(job.neighbours))
    ]
    assert [b'"replication_factor":2' in seen.body for seen in made] == [True]
    wrong = replace(place, collection=fresh_collection(), settings={"replicas": 2})
    with pytest.raises(
        DataError, match=r"^'replicas' is no setting of a collection; .*, replication_factor, "
    ):
        prepared(tmp_path, INDEXED, given(clustered(50)), index=wrong)


def test_a_server_that_is_not_there_is_told_in_a_line(tmp_path):
    with QdrantRest() as server:
        place = IndexLocation(url=server.url)
        job = prepared(tmp_path / "job", INDEXED, given(clustered(200)), index=place)
        server.stop()
        with pytest.raises(StoreError, match=r"^cannot reach the Qdrant server at http://[^\n]*$"):
            parts(job)
        with pytest.raises(StoreError, match=r"^cannot reach the Qdrant server at http://[^\n]*$"):
            prepared(tmp_path / "job", INDEXED, given(clustered(200)), index=place)
        server.start()
        server.fault("GET", "/collections", HTML_PAGE)
        with pytest.raises(
            StoreError, match=r"^what answers as [^\n]* does not answer like Qdrant; check the url$"
        ):
            prepared(tmp_path / "job", INDEXED, given(clustered(200)), index=place)
    with pytest.raises(StoreError, match=r"^'nonsense://x' is not the url of a Qdrant server|^cannot reach"):
        prepared(tmp_path / "job", INDEXED, given(clustered(200)), index=IndexLocation(url="nonsense://x"))


def test_a_collection_that_was_deleted_is_told_and_made_again(tmp_path, rest):
    place = IndexLocation(url=rest.url, collection=fresh_collection())
    job = prepared(tmp_path, INDEXED, given(clustered(100)), index=place)
    dropped(job)
    with pytest.raises(StoreError, match="the collection does not exist any more; index again"):
        parts(job)
    job.prepare(given(clustered(100)))
    assert len(parts(job)) == 1


def test_a_shard_is_for_one_process_at_a_time(tmp_path):
    job = prepared(tmp_path, INDEXED, given(clustered(100)))
    with (
        opened(job),
        pytest.raises(StoreError, match="has it open; close that one, or use a server"),
    ):
        parts(job)
    assert len(parts(job)) == 1


@pytest.mark.parametrize("settings", [INDEXED, replace(INDEXED, similarity="both", pool=20)])
def test_whoever_stops_reading_a_result_lets_go_of_the_index(tmp_path, monkeypatch, place, settings):
    pytest.importorskip("torch")
    kept, closed = [], []
    monkeypatch.setattr(threads, "PartScorer", lambda work: kept.append(PartScorer(work)) or kept[-1])
    monkeypatch.setitem(similar_settings._PART_ROWS, settings.similarity, 20)
    monkeypatch.setattr(AugmentedIndex, "close", lambda self: closed.append(self) or self._engine.close())
    texts = [Document(str(i), f"dog cat {i}") for i in range(60)]
    job = SimilarityJob(tmp_path / "job", settings, model=Model("words", WordEncoder), index=place)
    job.prepare(Sources(["texts"], [texts]))
    for _ in range(2):
        before = len(closed)
        reading = job.parts()
        next(reading)
        reading.close()
        assert len(closed) == before + 1
        for path in job.task.parts.iterdir():
            path.unlink()
    assert len(kept) == 2


def test_an_index_that_is_finished_needs_no_room_on_the_disk(tmp_path, monkeypatch):
    job = prepared(tmp_path, INDEXED, given(clustered(100)))
    with opened(job) as index:
        index.fill_block(0)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2**20))
        with pytest.raises(StoreError, match="the disk is full"):  # as it was written to since
            prepared(tmp_path, INDEXED, given(clustered(100)))
    prepared(tmp_path, INDEXED, given(clustered(100)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2**20))
    again = prepared(tmp_path, replace(INDEXED, k=2), given(clustered(100)))
    assert len(parts(again)) == 1


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2**20))
    with pytest.raises(StoreError, match=r"the disk is full \(1 MiB are free, 256 MiB are needed\)"):
        prepared(tmp_path, INDEXED, given(clustered(100)))


def test_a_place_is_a_folder_or_a_server(tmp_path):
    with pytest.raises(DataError, match="are both given; give the one where the index is"):
        IndexLocation(folder=tmp_path, url="http://localhost:6333")
    with pytest.raises(
        DataError, match=r"settings of a collection \(shard_number\) are for a server; give its url"
    ):
        IndexLocation(folder=tmp_path, settings={"shard_number": 2})


def test_a_place_passes_to_workers_with_the_key_that_nobody_sees(tmp_path, monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "top-secret")
    place = IndexLocation(url="http://me:hidden@localhost:6333").of_job(tmp_path)
    assert repr(place) == "IndexLocation('http://localhost:6333', collection='similar')"
    there = pickle.loads(pickle.dumps(place))
    assert there == place
    assert there.api_key == "top-secret"
    assert repr(IndexLocation().of_job(Path("job"))) == "IndexLocation('job/index', collection='similar')"


def info(status: str, indexed: int = 0, error: str | None = None) -> models.CollectionInfo:
    """What a server tells of a collection of a thousand points."""
    told = models.OptimizersStatusOneOf.OK if error is None else models.OptimizersStatusOneOf1(error=error)
    return models.CollectionInfo.model_construct(
        status=models.CollectionStatus(status),
        optimizer_status=told,
        indexed_vectors_count=indexed,
        points_count=1000,
    )


def waited(told: Iterator[models.CollectionInfo], patience: float = 60.0) -> tuple[list[int], int]:
    advanced, resumed = [], [0]

    def resume() -> None:
        resumed[0] += 1

    wait_until_indexed(lambda: next(told), resume, "there", advanced.append, patience=patience, pause=0.001)
    return advanced, resumed[0]


def test_a_server_is_waited_for_until_it_has_built_its_graphs():
    told = [info("grey"), info("yellow", 200), info("green", 200), info("yellow", 700), info("green", 1000)]
    assert waited(iter([*told, info("green", 1000)])) == ([200, 500, 300], 1)


def test_a_server_that_does_not_get_on_is_told():
    with pytest.raises(
        StoreError, match=r"there: no more than 200 of 1,000 vectors are indexed, and none was added"
    ):
        waited(islice(iter(lambda: info("yellow", 200), None), 100), patience=0.01)
    with pytest.raises(
        StoreError, match="there: the server cannot index it: no memory; see the server's log"
    ):
        waited(iter([info("red", error="no\nmemory")]))
