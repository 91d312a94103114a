"""Blue and green: a new version takes the old one's place in one step, or not at all."""

import pytest
from helpers.words import Acting, WordEncoder, interrupted

from surprise_rerank import Document, Ensemble, IndexMismatchError, StoreError
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SurpriseRetriever
from surprise_rerank.encoders.base import encode_queries

OLD = [Document(f"d{i}", f"w{i} old") for i in range(30)]
NEW = [Document(f"d{i}", f"w{i} new") for i in range(10, 40)]


def texts(index: DocumentIndex) -> set[str]:
    (query,) = encode_queries(index.encoder, ["w12"])
    pool = index.corpus.search(query, 100, frozenset({"documents"}))
    return {d.text for d in pool.documents}


def test_a_new_version_replaces_the_old_one(open_index):
    encoder = WordEncoder()
    with open_index(encoder) as index:
        index.sync(OLD)
        index.set_ensemble(Ensemble.from_vectors(encoder.encode(["w1", "w2 w3"]).dense), source="questions")
        report = index.rebuild(NEW, options=IndexOptions(passages=None, surprise_vector=True))
        assert report.added == 30
        assert texts(index) == {d.text for d in NEW}
        assert index.manifest.options.surprise_vector
        assert index.status().behind == 0
        pool = SurpriseRetriever(index.corpus, mode="vector").retrieve(encode_queries(encoder, ["w12"])[0], 5)
        assert len(pool) == 5
    with open_index(WordEncoder()) as index:
        assert texts(index) == {d.text for d in NEW}
        assert index.sync(NEW).unchanged == 30
        index.rebuild(OLD)
    with open_index(WordEncoder()) as index:
        assert texts(index) == {d.text for d in OLD}
        assert index.manifest.statistics is not None


def test_another_model_takes_over(open_index):
    other = WordEncoder(dimension=8, name="other", fingerprint="1")
    with open_index(WordEncoder()) as index:
        index.sync(OLD)
        index.set_ensemble(index.ensemble())
        index.rebuild(OLD, encoder=other)
        assert index.manifest.model == "other"
        assert index.manifest.statistics is None  # the old model's ensemble fits no more
    with open_index(other) as index:
        assert len(index) == 30
    with pytest.raises(IndexMismatchError, match="'other'"):
        open_index(WordEncoder())


def test_until_then_the_old_version_answers_and_an_interrupted_rebuild_goes_on(open_index):
    many = [Document(str(i), f"text w{i}") for i in range(600)]
    with open_index(WordEncoder()) as index:
        index.sync(OLD)
    with open_index(WordEncoder()) as index:
        for after in (300, 1):
            with pytest.raises(KeyboardInterrupt):
                index.rebuild(many, encoder=interrupted(after))
            assert texts(index) == {d.text for d in OLD}
    encoder = WordEncoder()
    with open_index(encoder) as index:
        assert len(index) == 30
        assert index.rebuild(many).unchanged >= 256
        assert len(index) == 600
    assert len(encoder.encoded_texts) < 400


def test_a_reader_follows_to_the_new_version(open_index):
    with open_index(WordEncoder()) as index:
        index.sync(OLD)
        if index.corpus.engine == "edge":
            pytest.skip("an embedded store is open in one process only")
        with open_index(WordEncoder()) as writer:
            writer.rebuild(NEW)
        assert texts(index) == {d.text for d in NEW}
        other = WordEncoder(dimension=8, name="other", fingerprint="1")
        with open_index(WordEncoder()) as writer:
            writer.rebuild(NEW, encoder=other)
        with pytest.raises(StoreError, match="does not exist any more"):
            texts(index)


def test_an_index_can_be_looked_at_without_its_model(open_index):
    with open_index(WordEncoder()) as index:
        index.sync(OLD)
    with open_index(None) as index:
        assert index.manifest.model == "words"
        assert len(index) == 30
        with pytest.raises(StoreError, match=r"load_encoder\('words'\)"):
            index.sync(OLD)
    with pytest.raises(StoreError, match="there is no index"):
        DocumentIndex.open("/nonexistent-index", None)


def test_added_questions_survive_a_rebuild(open_index):
    encoder = WordEncoder()
    with open_index(encoder) as index:
        index.sync(OLD)
        index.set_ensemble(Ensemble.from_vectors(encoder.encode(["w1", "w2 w3", "w4"]).dense))
        index.add_questions(["w5", "w6 w7"])
        index.rebuild(NEW)
        assert index.manifest.statistics.count == 3
        assert index.manifest.latest.count == 5
        assert len(SurpriseRetriever(index.corpus).retrieve(encode_queries(encoder, ["w12"])[0], 5)) == 5
        index.refresh_statistics()
    with open_index(WordEncoder()) as index:
        assert index.manifest.statistics.count == 5
        assert index.sync([*NEW, Document("later", "w1")]).added == 1
        assert index.status().behind == 0


def test_a_process_that_missed_a_rebuild_cannot_replace_it(open_index):
    with open_index(WordEncoder()) as stale:
        stale.sync(OLD)
        if stale.corpus.engine == "edge":
            pytest.skip("an embedded store is open in one process only")
        with open_index(WordEncoder()) as other:
            other.rebuild(NEW)
        with pytest.raises(StoreError, match=r"another process has put version 2-.* open it again"):
            stale.rebuild(OLD, options=IndexOptions(passages=None, tokens=False))
        assert texts(stale) == {d.text for d in NEW}
        # Having met the new version, it goes on with that.
        stale.set_ensemble(Ensemble.from_vectors(WordEncoder().encode(["w1", "w2"]).dense))
        assert stale.rebuild(OLD).added == 30
    with open_index(WordEncoder()) as index:
        assert texts(index) == {d.text for d in OLD}
        assert index.manifest.statistics.count == 2
        assert index.sync(NEW).added == 10


def test_two_builders_of_different_models_do_not_meet(open_index):
    with open_index(WordEncoder()) as first:
        first.sync(OLD)
        if first.corpus.engine == "edge":
            pytest.skip("an embedded store is open in one process only")
        retrained = WordEncoder(name="retrained", fingerprint="2")

        def meanwhile() -> None:
            with open_index(WordEncoder()) as second:
                second.rebuild(NEW, encoder=retrained)

        with pytest.raises(StoreError, match=r"does not exist any more|another process has put version"):
            first.rebuild(OLD, encoder=Acting(meanwhile, name="third", fingerprint="3"))
    with open_index(retrained) as index:
        assert texts(index) == {d.text for d in NEW}
