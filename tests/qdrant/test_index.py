"""The same behaviour over every storage of Qdrant that is available."""

import tracemalloc

import numpy as np
import pytest
from helpers.words import WordEncoder, interrupted
from hypothesis import given, settings
from hypothesis import strategies as st
from qdrant_client import models

from surprise_rerank import (
    DataError,
    Document,
    DynaMaxScorer,
    Ensemble,
    IndexMismatchError,
    IndexOptions,
    Pipeline,
    Query,
    StoreError,
)
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, Location, RetryPolicy
from surprise_rerank.connectors.qdrant._schema import point_id
from surprise_rerank.connectors.qdrant._writing.inventory import Inventory
from surprise_rerank.connectors.readers import Fields, open_documents
from surprise_rerank.core.tokens import pooled_tokens
from surprise_rerank.encoders.base import encode_queries

ALL_FIELDS = frozenset({"dense", "tokens", "documents"})

DOCUMENTS = [
    Document("1", "the cat sat on the mat"),
    Document("2", "dogs bark at night", title="Dogs"),
    Document("3", ""),
    Document("é/ü 4", "nul \x00 and \ud800 and 😀 and " + "word " * 10_000),
    Document("5", "quantum computers factor integers", metadata={"year": 1994, "tags": ["a", "b"]}),
]


def query(encoder: WordEncoder, text: str) -> Query:
    return encode_queries(encoder, [text])[0]


def test_what_was_stored_comes_back_and_is_not_encoded_again(open_index):
    with open_index(WordEncoder()) as index:
        assert index.sync(DOCUMENTS).added == 5
    encoder = WordEncoder()
    with open_index(encoder) as index:
        report = index.sync(DOCUMENTS)
        assert (report.added, report.updated, report.unchanged, report.removed) == (0, 0, 5, 0)
        assert encoder.encoded_texts == []
        found = index.fetch([d.id for d in reversed(DOCUMENTS)], ALL_FIELDS)
    assert found.documents == tuple(reversed(DOCUMENTS))
    expected = encoder.encode([d.content for d in reversed(DOCUMENTS)])
    np.testing.assert_allclose(found.dense, expected.dense, atol=1e-6)
    merged = pooled_tokens(expected.tokens)
    np.testing.assert_allclose(found.tokens.directions, merged.directions, atol=1e-3)
    np.testing.assert_array_equal(found.tokens.offsets, merged.offsets)
    np.testing.assert_array_equal(found.tokens.norms, merged.norms)
    np.testing.assert_array_equal(found.tokens.token_counts, expected.tokens.lengths)


def test_only_what_changed_is_encoded_and_what_is_gone_is_pruned_on_request(open_index):
    encoder = WordEncoder()
    with open_index(encoder) as index:
        index.sync(DOCUMENTS)
        encoder.encoded_texts.clear()
        changed = [
            Document("1", "a new text", metadata={"year": 1995}),
            *DOCUMENTS[1:3],
            Document("6", "six"),
        ]
        kept = index.sync(changed)
        assert len(index) == 6
        pruned = index.sync(changed, prune=True)
        assert len(index) == 4
        assert index.fetch(["1"], ALL_FIELDS).documents == (changed[0],)
        with pytest.raises(DataError, match="'5'"):
            index.fetch(["1", "5"], ALL_FIELDS)
    assert sorted(encoder.encoded_texts) == ["a new text", "six"]
    assert (kept.added, kept.updated, kept.unchanged, kept.removed) == (1, 1, 2, 0)
    assert (pruned.added, pruned.updated, pruned.unchanged, pruned.removed) == (0, 0, 4, 2)


def test_search_ranks_by_cosine(open_index):
    encoder = WordEncoder()
    texts = [f"w{i} w{i % 7} w{i % 3}" for i in range(60)]
    with open_index(encoder) as index:
        index.sync(Document(str(i), text) for i, text in enumerate(texts))
        question = query(encoder, "w3 w1")
        pool = index.corpus.search(question, 10, frozenset({"dense"}), exact=True)
    assert question.dense is not None
    cosines = encoder.encode(texts).dense @ question.dense
    np.testing.assert_allclose(pool.scores["cosine"], np.sort(cosines)[::-1][:10], atol=1e-6)
    assert pool.dense is not None
    np.testing.assert_allclose(pool.dense @ question.dense, pool.scores["cosine"], atol=1e-6)


def test_the_ensemble_of_the_index_is_that_of_its_vectors(open_index):
    encoder = WordEncoder()
    documents = [Document(str(i), f"w{i} w{i % 5}") for i in range(40)]
    with open_index(encoder) as index:
        index.sync(documents)
        stored = index.ensemble()
        ids, tokens = index.corpus.token_sample(7)
    direct = Ensemble.from_vectors(encoder.encode([d.content for d in documents]).dense, model="words")
    assert stored.count == 40
    np.testing.assert_allclose(stored.mean, direct.mean, atol=1e-6)
    np.testing.assert_allclose(stored.covariance, direct.covariance, atol=1e-6)
    assert len(set(ids)) == len(tokens) == 7


def test_an_index_of_another_model_is_an_error_that_names_both(open_index):
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS)
    with pytest.raises(IndexMismatchError, match=r"(?s)'words'.*'other'.*retrained"):
        open_index(WordEncoder(name="other", fingerprint="retrained"))
    with open_index(WordEncoder(name="the-same-model-in-a-folder")) as index:
        assert len(index) == len(DOCUMENTS)


def test_bad_documents_are_refused_before_anything_is_stored(open_index):
    with open_index(WordEncoder()) as index:
        with pytest.raises(DataError, match="'1' occurs twice"):
            index.sync([DOCUMENTS[0], DOCUMENTS[0]])
        with pytest.raises(DataError, match="a document's id must be a string that is not empty, got ''"):
            index.sync([Document("", "text")])
        with pytest.raises(DataError, match="document 'm': metadata"):
            index.sync([DOCUMENTS[0], Document("m", "text", metadata={"a": {1, 2}})])
        for odd in (2**63, "\ud800"):
            with pytest.raises(DataError, match="document 'm': metadata"):
                index.sync([DOCUMENTS[0], Document("m", "text", metadata={"deep": [{"a": odd}]})])
        assert len(index) == 0


def test_an_interrupted_run_goes_on_where_it_stopped(open_index):
    documents = [Document(str(i), f"text w{i}") for i in range(600)]
    with pytest.raises(KeyboardInterrupt), open_index(interrupted(500)) as index:
        index.sync(documents)
    encoder = WordEncoder()
    with open_index(encoder) as index:
        report = index.sync(documents)
        assert len(index) == 600
    assert report.unchanged == 512
    assert len(encoder.encoded_texts) == 88


def test_an_empty_index_answers_with_an_empty_pool(open_index):
    encoder = WordEncoder()
    with open_index(encoder) as index:
        assert index.sync([]).added == 0
        pool = index.corpus.search(query(encoder, "anything"), 10, ALL_FIELDS)
        assert pool.ids == ()
        assert index.ensemble().count == 0
        assert index.corpus.token_sample(5)[0] == ()
        assert Pipeline(encoder, DenseRetriever(index.corpus), DynaMaxScorer()).search("x").ids == ()


def test_a_folder_that_is_not_an_index_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(IndexMismatchError, match="not made by surprise-rerank"):
        DocumentIndex.open(tmp_path, WordEncoder())
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_a_run_that_was_killed_before_its_manifest_was_whole_begins_again(tmp_path):
    (tmp_path / ".index.json.0123.part").write_text("{")
    with DocumentIndex.open(tmp_path, WordEncoder()) as index:
        assert index.sync(DOCUMENTS).added == 5


def test_a_half_made_shard_is_made_again(tmp_path):
    DocumentIndex.open(tmp_path / "index", WordEncoder()).close()
    made = tmp_path / "index" / "1" / "edge"
    made.rename(made.with_name("edge.part"))
    for last in (tmp_path / "index" / "index.json", tmp_path / "index" / "1" / "edge.files.json"):
        last.unlink(missing_ok=True)  # which are written last
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        assert index.sync(DOCUMENTS).added == 5


@pytest.mark.parametrize("name", ["", "a:b", "a/b"])
def test_a_name_that_qdrant_refuses_is_told(name):
    with pytest.raises((StoreError, DataError), match="collection"):
        DocumentIndex.open(Location(":memory:", collection=name), WordEncoder())


def test_a_url_in_the_place_of_a_folder_is_a_collection_of_a_server():
    once = RetryPolicy(attempts=1)
    with pytest.raises(StoreError, match=r"http://127\.0\.0\.1:9"):
        DocumentIndex.open(Location(url="http://127.0.0.1:9", collection="papers", retries=once), None)
    with pytest.raises(DataError, match="names no collection"):
        DocumentIndex.open("http://127.0.0.1:9", None)


def test_a_location_is_a_folder_or_a_server_and_shows_no_secret(monkeypatch):
    with pytest.raises(DataError, match="folder= and url= are both given; give the one where"):
        Location("index", "http://me:hidden@host")
    place = Location(url="http://me:hidden@host", collection="books", api_key="s3cr3t-key")
    assert repr(place) == "Location('http://host', collection='books')"
    assert str(place) == "http://host, collection 'books'"
    assert place.server == "the Qdrant server at http://host"
    assert str(Location("index")) == "index"
    assert not Location().is_given
    monkeypatch.setenv("QDRANT_API_KEY", "usual-key")
    assert place.key == "s3cr3t-key"
    assert Location(url="http://host").key == "usual-key"


def test_a_full_disk_is_told_before_the_engine_meets_it(tmp_path, monkeypatch):
    import shutil

    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(DOCUMENTS[:2])
        monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 0))
        with pytest.raises(StoreError, match="disk is full"):
            index.sync(DOCUMENTS)
        monkeypatch.undo()
        assert index.sync(DOCUMENTS).unchanged == 2


@settings(deadline=None, max_examples=25)
@given(st.text(max_size=30), st.text(max_size=30))
def test_point_ids_are_stable_and_keep_documents_apart(first, second):
    first, second = Document(first or "x", "").id, Document(second or "y", "").id
    assert point_id("1") == "07b62a14-1b96-50bb-b05c-f38421afb909"  # as in every index that exists
    assert (point_id(first) == point_id(second)) == (first == second)


def test_the_sample_is_the_same_wherever_the_corpus_is_stored(tmp_path):
    documents = [Document(str(i), f"w{i}") for i in range(50)]
    samples = []
    for place, collection in ((tmp_path / "folder", "one"), (":memory:", "another")):
        with DocumentIndex.open(Location(place, collection=collection), WordEncoder()) as index:
            index.sync(documents)
            samples.append(index.corpus.token_sample(10)[0])
    assert samples[0] == samples[1]
    assert samples[0] == tuple(sorted((d.id for d in documents), key=point_id))[:10]


def test_prune_removes_only_documents_of_the_sources_that_were_given(tmp_path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync([Document("a", "dogs", source="x"), Document("b", "cats", source="x")])
        index.sync([Document("c", "owls", source="y")])
        assert index.sync([Document("a", "dogs", source="x")], prune=True).removed == 1
        assert len(index) == 2
        assert index.sync([Document("a", "dogs")], prune=True).removed == 1


def test_a_document_does_not_take_the_place_of_another_sources_one(open_index, tmp_path):
    texts = {"a": ["Oil the chain.", "Check the tyre."], "b": ["Cats sleep.", "Check the tyre."]}
    sources = {}
    for name, lines in texts.items():
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(["text", *lines, ""]))
        sources[name] = open_documents(file, fields=Fields(id="row"))

    def held(index: DocumentIndex) -> dict[str, str]:
        documents = index.corpus.documents(["1", "2", "b/1", "b/2"])
        return {name: document.text for name, document in documents.items()}

    with open_index(WordEncoder()) as index:
        index.sync(sources["a"])
        said = (
            r"'1' of \S+b\.csv would take the place of another one of that id, which was read from \S+a\.csv"
        )
        with pytest.raises(DataError, match=said):
            index.sync(sources["b"])
        assert held(index) == {"1": "Oil the chain.", "2": "Check the tyre."}
        report = index.sync(sources["b"].with_prefix("b/"), prune=True)
        assert (report.added, report.removed, len(index)) == (2, 0, 4)
        assert held(index)["b/1"] == "Cats sleep."
        report = index.sync(sources["b"], replace=True)  # its second row is the same text
        assert (report.updated, report.unchanged) == (1, 1)
        assert held(index)["1"] == "Cats sleep."
        index.sync([Document("1", "A text from nowhere.")])
        assert index.sync(sources["a"]).updated == 1
        assert held(index)["1"] == "Oil the chain."


def test_the_ids_of_a_pass_are_on_disk_and_not_in_memory():
    """A pass over twice as many documents took 8 MB for their ids alone, and 40 MB to prune."""
    sizes = []
    for count in (5_000, 30_000):
        tracemalloc.start()
        with Inventory(IndexOptions(), None) as inventory:
            assert all(inventory.see(f"document {i}", f"folder/{i}") for i in range(count))
            assert not inventory.see("document 7", "elsewhere")
            assert sum(1 for _ in inventory.seen()) == count
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(sizes) < 2**16


def test_ids_are_read_as_they_are_wanted_and_deleted_as_they_are_read(open_index, monkeypatch):
    """All ids of an index may not fit into memory."""
    with open_index(WordEncoder()) as index:
        index.sync([Document(f"d{i}", f"word{i}", metadata={"odd": i % 2}) for i in range(1500)])
        scroll, pages = index.corpus.storage.engine.scroll, []

        def counted(*arguments, **options):
            for records in scroll(*arguments, **options):
                pages.append(len(records))
                yield records

        monkeypatch.setattr(index.corpus.storage.engine, "scroll", counted)
        assert next(index.ids()).startswith("d")
        assert pages == [1000]
        odd = models.FieldCondition(key="metadata.odd", match=models.MatchValue(value=1))
        assert index.delete(filter=models.Filter(must=[odd])) == 750
        assert {int(name[1:]) % 2 for name in index.ids()} == {0}
        assert len(index) == 750
