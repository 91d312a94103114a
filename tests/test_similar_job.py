"""A similarity job: its stages, what it keeps, and how it goes on."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank.connectors.similar import encoding
from surprise_rerank.connectors.similar.corpus import EncodedCorpus, store_chunk
from surprise_rerank.connectors.similar.encoding import Model, Vectors, store_documents
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.connectors.similar.threads import Threads
from surprise_rerank.connectors.similar.workers import Sources
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.neighbours import neighbours_by_definition

pytest.importorskip("pyarrow")

WORDS = ["dog", "cat", "wolf", "fox", "tree", "leaf", "root", "stone", "river", "sea", "ship", "sail", "wind"]


def documents(count: int, prefix: str = "", seed: int = 0) -> list[Document]:
    random = np.random.default_rng(seed)
    return [Document(f"{prefix}{i}", " ".join(random.choice(WORDS, 6))) for i in range(count)]


def sources(*collections: Sequence[Document]) -> Sources:
    return Sources([f"source {i}" for i in range(len(collections))], list(collections))


THREE = SimilaritySettings(k=3)


def job(folder: Path, settings: SimilaritySettings = THREE, **options: object) -> SimilarityJob:
    return SimilarityJob(folder, settings, model=Model("words", WordEncoder), **options)


def rows_of(job: SimilarityJob) -> list[dict[str, object]]:
    return [row for batch in job.batches() for row in batch.to_pylist()]


@pytest.fixture
def small_chunks(monkeypatch):
    """Several chunks and parts of a few documents."""
    monkeypatch.setattr(encoding, "CHUNK", 16)


def test_every_document_gets_its_neighbours_by_definition(tmp_path, small_chunks):
    own = documents(50)
    done = job(tmp_path)
    done.prepare(sources(own[:20], own[20:]))
    rows = rows_of(done)
    vectors = WordEncoder().encode([d.content for d in own]).dense
    keys = done.neighbours.keys(done.ensemble, 0)
    expected = neighbours_by_definition(vectors, keys)
    expected = expected.take(expected.query != expected.key).best(3)
    assert [row["document"] for row in rows] == [str(i) for i in expected.query]
    assert [row["neighbour"] for row in rows] == [str(i) for i in expected.key]
    assert [row["surprise"] for row in rows] == expected.z.tolist()
    assert [row["rank"] for row in rows] == [1, 2, 3] * 50
    assert len(done.documents.chunks) == 2 + 2  # a source begins a chunk of its own


def test_the_ensemble_is_that_of_all_neighbours(tmp_path):
    done = job(tmp_path)
    done.prepare(sources(documents(30)), sources(documents(40, "other", seed=1)))
    vectors = WordEncoder().encode([d.content for d in documents(40, seed=1)]).dense
    expected = Ensemble.from_vectors(vectors, sample_size=0)
    assert done.ensemble.count == 40
    np.testing.assert_allclose(done.ensemble.mean, expected.mean, atol=1e-12)
    assert {str(row["neighbour"])[:5] for row in rows_of(done)} == {"other"}


def test_partial_ensembles_merge_to_the_whole(tmp_path, monkeypatch):
    from surprise_rerank.connectors.similar import corpus as module

    done = job(tmp_path)
    done.prepare(sources(documents(50)))
    whole = done.neighbours.vectors(0, 50)
    monkeypatch.setattr(module, "ENSEMBLE_ROWS", 16)
    merged = Threads(1).ensemble(done.neighbours, "cpu")
    assert merged.count == 50
    np.testing.assert_allclose(merged.scatter, Ensemble.from_vectors(whole).scatter, atol=1e-10)


def test_what_is_done_is_not_done_again(tmp_path, small_chunks):
    first = job(tmp_path)
    first.prepare(sources(documents(40)))
    expected = rows_of(first)

    def never() -> Encoder:
        raise AssertionError("everything is encoded already")

    again = SimilarityJob(tmp_path, SimilaritySettings(k=3), model=Model("words", never))
    again.prepare(sources(documents(40)))
    for path in first.parts():
        path.touch()  # they are read, not written
    before = {path: path.stat().st_mtime_ns for path in first.parts()}
    assert rows_of(again) == expected
    assert {path: path.stat().st_mtime_ns for path in again.parts()} == before


def test_other_settings_use_the_same_vectors(tmp_path):
    job(tmp_path).prepare(sources(documents(20)))
    other = SimilarityJob(tmp_path, SimilaritySettings(k=1), model=Model("words", lambda: 1 / 0))
    other.prepare(sources(documents(20)))
    assert len(rows_of(other)) == 20


def test_a_changed_document_is_encoded_again_and_all_is_compared_anew(tmp_path, small_chunks):
    own = documents(40)
    first = job(tmp_path)
    first.prepare(sources(own))
    before = rows_of(first)
    own[5] = Document("5", "ship sail sea")
    encoder = WordEncoder()
    second = SimilarityJob(tmp_path, SimilaritySettings(k=3), model=Model("words", lambda: encoder))
    second.prepare(sources(own))
    assert len(encoder.encoded_texts) == 16  # its chunk
    assert rows_of(second) != before
    fresh = job(tmp_path / "fresh")
    fresh.prepare(sources(own))
    assert rows_of(second) == rows_of(fresh)


def test_a_folder_of_another_job_is_refused(tmp_path):
    job(tmp_path).prepare(sources(documents(5)))
    other = SimilarityJob(tmp_path, SimilaritySettings(), model=Model("letters", WordEncoder))
    with pytest.raises(DataError, match=r"not the same model\); delete it, or choose another work folder"):
        other.prepare(sources(documents(5)))
    with pytest.raises(DataError, match="not the same sources"):
        job(tmp_path).prepare(sources(documents(5), documents(5, "x")))


def test_ids_that_stand_twice_are_named(tmp_path, small_chunks):
    twice = [*documents(30), Document("7", "dog")]
    with pytest.raises(DataError, match="id '7' is a duplicate: documents 8 and 31 have it with different"):
        job(tmp_path).prepare(sources(twice))


def test_a_source_that_is_read_once_needs_no_second_reading(tmp_path):
    once = job(tmp_path)
    once.prepare(sources(iter(documents(10))))
    assert len(rows_of(once)) == 30


def test_no_documents_and_empty_ids_are_refused(tmp_path):
    with pytest.raises(DataError, match="there are no documents in source 0"):
        job(tmp_path / "a").prepare(sources([]))
    with pytest.raises(DataError, match=r"empty id: number 1 of chunk-00000-0000000; give it one"):
        job(tmp_path / "b").prepare(sources([Document("", "dog")]))


def test_vectors_that_are_known_need_no_model(tmp_path):
    random = np.random.default_rng(0)
    vectors = random.normal(size=(30, 8)).astype(np.float32)
    given = Vectors("mine", [(list(range(20)), vectors[:20]), (list(range(20, 30)), vectors[20:])])
    done = SimilarityJob(tmp_path, SimilaritySettings(k=2))
    done.prepare(given)
    np.testing.assert_array_equal(done.documents.vectors(0, 30), unit_rows(vectors))
    assert len(rows_of(done)) == 60


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((["a"], np.ones((2, 3))), "mine: 1 ids for 2 vectors"),
        ((["a"], np.full((1, 3), np.nan)), "vectors of mine holds NaN"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(tmp_path, batch, message):
    with pytest.raises(DataError, match=message):
        SimilarityJob(tmp_path, SimilaritySettings()).prepare(Vectors("mine", [batch]))


def test_the_corpus_hands_out_any_rows(tmp_path, small_chunks):
    own = documents(50)
    done = job(tmp_path, SimilaritySettings(similarity="dynamax", pooling=1))
    done.prepare(sources(own))
    rows = np.array([49, 0, 17, 17, 3])
    encoded = WordEncoder().encode([own[i].content for i in rows])
    assert done.documents.ids(rows).to_pylist() == ["49", "0", "17", "17", "3"]
    np.testing.assert_array_equal(done.documents.vectors_of(rows), encoded.dense)
    np.testing.assert_array_equal(
        done.documents.vectors(15, 18), done.documents.vectors_of(np.arange(15, 18))
    )
    tokens = done.documents.tokens_of(rows)
    assert tokens.storage == "int8"
    np.testing.assert_array_equal(tokens.directions, encoded.tokens.stored("int8").directions)
    assert done.documents.ids(np.zeros(0, np.int64)).to_pylist() == []


def test_a_corpus_that_is_not_complete_is_refused(tmp_path):
    with pytest.raises(StoreError, match="holds no complete corpus; run the job again"):
        EncodedCorpus.open(tmp_path)


def test_a_damaged_corpus_is_told(tmp_path):
    (tmp_path / "corpus.json").write_text("{")
    with pytest.raises(StoreError, match=r"corpus\.json is damaged, or not surprise-rerank"):
        EncodedCorpus.open(tmp_path)


def test_two_workers_that_store_one_chunk_agree(tmp_path):
    vectors = np.eye(2, dtype=np.float32)
    for _ in range(2):
        store_chunk(tmp_path, "chunk", "digits", ["a", "b"], vectors)
    assert json.loads((tmp_path / "chunk" / "chunk.json").read_text())["rows"] == 2
    store_chunk(tmp_path, "chunk", "others", ["a"], vectors[:1])
    assert json.loads((tmp_path / "chunk" / "chunk.json").read_text())["rows"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["chunk"]


def test_vectors_are_those_of_the_chunk_in_whatever_order_texts_are_long(tmp_path):
    own = [Document(str(i), " ".join(WORDS[: 1 + i % 7])) for i in range(300)]
    store_documents(tmp_path, "chunk", own, WordEncoder, model="words", tokens=None)
    stored = np.load(tmp_path / "chunk" / "vectors.npy")
    np.testing.assert_array_equal(stored, WordEncoder().encode([d.content for d in own]).dense)


def test_a_job_that_is_not_prepared_says_so(tmp_path):
    with pytest.raises(DataError, match="not prepared yet"):
        next(job(tmp_path).batches())
    with pytest.raises(DataError, match="need a model"):
        SimilarityJob(tmp_path, SimilaritySettings()).prepare(sources(documents(3)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": None}, "give k"),
        ({"similarity": "jaccard"}, "choose cosine or dynamax or both"),
        ({"mode": "fast"}, "choose exact or index"),
        ({"k": 10_000}, "k must be at most 4,096, got 10,000"),
        ({"k": 2.5}, "k must be a whole number, got 2.5"),
        ({"pool": 5, "similarity": "both"}, "pool must be at least 10, got 5"),
        ({"similarity": "dynamax", "mode": "index"}, "choose similarity 'both'"),
    ],
)
def test_senseless_settings_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        SimilaritySettings(**values)


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path):
    own = tmp_path / "documents" / "letter.txt"
    own.parent.mkdir()
    own.write_text("Dear Sir")
    with pytest.raises(StoreError, match="holds other files than those of a job; choose another"):
        job(tmp_path).prepare(sources(documents(5)))
    assert [path.name for path in tmp_path.rglob("*")] == ["documents", "letter.txt"]


def test_vectors_of_two_models_are_refused(tmp_path):
    random = np.random.default_rng(0)
    one, other = (Vectors("mine", [(["a", "b"], random.normal(size=(2, d)))]) for d in (4, 3))
    with pytest.raises(DataError, match="dimension 4 cannot be compared with vectors of dimension 3"):
        SimilarityJob(tmp_path, SimilaritySettings()).prepare(one, other)


def test_what_was_made_of_documents_that_changed_goes(tmp_path):
    random = np.random.default_rng(0)
    vectors = random.normal(size=(20, 4))
    for count in (20, 10):
        done = SimilarityJob(tmp_path, SimilaritySettings(k=2))
        done.prepare(Vectors("mine", [(list(map(str, range(count))), vectors[:count])]))
        assert len(rows_of(done)) == 2 * count
    kept = tmp_path / "index" / "0123456789ab.txt"
    kept.parent.mkdir()
    kept.touch()
    draft = tmp_path / "documents" / f".chunk.{'0' * 32}.part"
    draft.touch()
    again = SimilarityJob(tmp_path, SimilaritySettings(k=2))
    again.prepare(Vectors("mine", [(list(map(str, range(10))), vectors[:10])]))
    assert draft.exists()  # it may be another worker's
    os.utime(draft, (0, 0))
    again.prepare(Vectors("mine", [(list(map(str, range(10))), vectors[:10])]))
    made = sorted(path.name.partition("-")[0] for path in tmp_path.iterdir())
    assert made == ["documents", "ensemble", "index", "parts"]
    assert len(list((tmp_path / "documents" / "moments").iterdir())) == 1
    assert not draft.exists()
    assert kept.exists()


@pytest.mark.parametrize(
    ("name", "message"), [("", "an empty id"), ("\ud800", "lone surrogates, which are no characters")]
)
def test_ids_of_vectors_must_be_texts(tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        SimilarityJob(tmp_path, SimilaritySettings()).prepare(Vectors("mine", [([name], np.ones((1, 3)))]))


def test_a_copy_of_the_documents_is_another_corpus(tmp_path):
    """Compared with a copy, a document finds itself; compared with itself, it does not."""
    random = np.random.default_rng(0)
    given = Vectors("mine", [(list(map(str, range(20))), random.normal(size=(20, 4)))])
    for against in (None, given, None):
        done = SimilarityJob(tmp_path, SimilaritySettings(k=20))
        done.prepare(given, against)
        itself = [row for row in rows_of(done) if row["document"] == row["neighbour"]]
        assert len(itself) == (0 if against is None else 20)


def test_a_job_that_is_prepared_again_has_the_new_documents(tmp_path):
    random = np.random.default_rng(0)
    vectors = random.normal(size=(20, 4))
    again = SimilarityJob(tmp_path, SimilaritySettings(k=1))
    for count in (5, 20):
        again.prepare(Vectors("mine", [(list(map(str, range(count))), vectors[:count])]))
        assert len(rows_of(again)) == count


def test_the_number_of_threads_does_not_change_a_bit(tmp_path):
    """At some dimensions, 300 for one, a product of two threads has other last bits."""
    from threadpoolctl import threadpool_limits

    vectors = np.random.default_rng(0).normal(size=(9000, 300)).astype(np.float32)
    given = Vectors("mine", [(list(map(str, range(9000))), vectors)])
    contents = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            done = SimilarityJob(tmp_path / str(threads), SimilaritySettings(k=1), workers=Threads(threads))
            done.prepare(given)
            mean = done.neighbours.keys(done.ensemble, 0).moments.deviation
        contents.append((done.ensemble.to_bytes(), mean.tobytes()))
    assert contents[0] == contents[1]


def test_batches_of_vectors_must_be_of_one_dimension(tmp_path):
    with pytest.raises(DataError, match="batch 2 has vectors of dimension 4, those before have 3"):
        SimilarityJob(tmp_path, SimilaritySettings()).prepare(
            Vectors("mine", [(["a"], np.ones((1, 3))), (["b"], np.ones((1, 4)))])
        )


def test_a_device_that_is_not_there_is_told_before_anything_is_encoded(tmp_path):
    encoder = WordEncoder()
    with pytest.raises(DataError, match="device 'nowhere' cannot be used"):
        SimilarityJob(
            tmp_path, SimilaritySettings(), model=Model("words", lambda: encoder), device="nowhere"
        ).prepare(sources(documents(3)))
    assert encoder.encoded_texts == []


def test_equal_settings_have_equal_digits():
    assert (
        SimilaritySettings(k=np.int64(3), above=3).digest
        == SimilaritySettings(k=3, above=np.float32(3)).digest
    )


def test_everything_that_the_package_names_is_there():
    import surprise_rerank.connectors.similar as package

    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    from surprise_rerank.connectors.similar import sample_check

    assert callable(sample_check)


def test_a_document_that_comes_again_is_left_out_and_another_text_is_refused() -> None:
    one, other = Document("a", "dogs bark"), Document("b", "cats sleep")
    count, left = encoding.once([[one, other], [one]], lambda read: None)
    assert count == 2
    assert [document.id for source in left for document in source] == ["a", "b"]
    with pytest.raises(DataError, match=r"'a' .*documents 1 and 2 .*different texts"):
        encoding.once([[one], [Document("a", "dogs bark.")]], lambda read: None)


def test_of_a_long_document_that_comes_again_no_text_is_kept() -> None:
    def read() -> Iterator[Document]:
        for number in (*range(200), *range(200)):
            yield Document(str(number), f"{number}" + "x" * 50_000)

    class Again:
        def __iter__(self) -> Iterator[Document]:
            return read()

    tracemalloc.start()
    try:
        assert encoding.once([Again()], lambda read: None)[0] == 200
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
