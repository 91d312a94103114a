"""Statistics of stored documents: computed, refreshed, versioned, and never mixed up."""

import numpy as np
import pytest
from conftest import require_one_ranking
from helpers.words import WordEncoder

from surprise_rerank import Candidates, DataError, Document, Ensemble, IndexMismatchError
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SurpriseRetriever
from surprise_rerank.connectors.qdrant._writing import statistics
from surprise_rerank.encoders.base import encode_queries

OPTIONS = IndexOptions(passages=None, surprise_vector=True)
DOCUMENTS = [Document(f"d{i}", f"w{i} w{i % 7} w{i % 3}") for i in range(50)]
QUESTIONS = [f"w{i} w{i % 5}" for i in range(20)]


def ensemble(encoder: WordEncoder, questions: list[str], model: str = "words") -> Ensemble:
    return Ensemble.from_vectors(encoder.encode(questions).dense, model=model)


def ranked(index: DocumentIndex, mode: str = "formula") -> Candidates:
    (query,) = encode_queries(index.encoder, ["w1 w2"])
    return SurpriseRetriever(index.corpus, mode=mode, pool=1000, exact=True).retrieve(query, 1000)


def moments(index: DocumentIndex) -> np.ndarray:
    return ranked(index).scores["surprise"]


def test_documents_that_come_later_get_their_statistics_at_indexing(open_index):
    encoder = WordEncoder()
    with open_index(encoder, options=OPTIONS) as index:
        index.sync(DOCUMENTS[:20])
        questions = ensemble(encoder, QUESTIONS)
        assert index.set_ensemble(questions, source="logged questions") == 20
    with open_index(encoder) as index:
        index.sync(DOCUMENTS)
        assert index.status().behind == 0
        assert len(moments(index)) == 50
        require_one_ranking(index, ranked(index), ranked(index, "vector"))


def test_questions_are_added_to_a_running_ensemble(open_index):
    encoder = WordEncoder()
    with open_index(encoder, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.set_ensemble(ensemble(encoder, QUESTIONS))
        before = moments(index)
        assert index.add_questions(["w1 w9", "w8"]) == 22
        status = index.status()
        assert status.behind == 50
        assert (status.manifest.statistics.count, status.manifest.latest.count) == (20, 22)
        # Until the pass, everything goes on with the old ones, new documents too.
        np.testing.assert_array_equal(moments(index), before)
        index.sync([Document("late", "w1")])
        assert len(moments(index)) == 51
    with open_index(encoder) as index:
        assert index.refresh_statistics() == 51
        assert index.status().behind == 0
        assert index.refresh_statistics() == 0
        after = moments(index)
        require_one_ranking(index, ranked(index), ranked(index, "vector"))
        index.set_ensemble(ensemble(encoder, [*QUESTIONS, "w1 w9", "w8"]))
        np.testing.assert_allclose(moments(index), after, atol=1e-5)


def test_an_interrupted_pass_goes_on_and_is_never_used_half_done(open_index, monkeypatch):
    encoder = WordEncoder()
    monkeypatch.setattr(statistics, "_BATCH", 10)
    with open_index(encoder, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.set_ensemble(ensemble(encoder, QUESTIONS))
        written = 0

        def interrupted(count: int) -> None:
            nonlocal written
            written += count
            if written == 30:
                raise KeyboardInterrupt

        other = ensemble(encoder, QUESTIONS[:10])
        from surprise_rerank.connectors.qdrant._writing.statistics import Statistics

        latest = Statistics.of(other, "others")
        statistics.set_latest(index.corpus.storage, latest)
        with pytest.raises(KeyboardInterrupt):
            statistics.refresh(index.corpus.storage, latest, interrupted)
        with pytest.raises(IndexMismatchError, match=r"30 documents .* another ensemble"):
            SurpriseRetriever(index.corpus)
    with open_index(encoder) as index:
        assert index.status().behind == 20
        assert index.refresh_statistics() == 20
        require_one_ranking(index, ranked(index), ranked(index, "vector"))


def test_a_document_that_the_ensemble_gives_no_spread_keeps_its_similarity(open_index):
    encoder = WordEncoder()
    with open_index(encoder, options=OPTIONS) as index:
        index.sync([*DOCUMENTS, Document("empty", "")])
        index.set_ensemble(ensemble(encoder, QUESTIONS))
        (query,) = encode_queries(encoder, ["w1 w2"])
        for mode in ("formula", "vector"):
            pool = SurpriseRetriever(index.corpus, mode=mode, pool=1000, exact=True).retrieve(query, 1000)
            assert pool.scores["surprise"][pool.ids.index("empty")] == 0.0


def test_ensembles_that_do_not_fit_are_named(open_index):
    encoder = WordEncoder()
    with open_index(encoder) as index:
        index.sync(DOCUMENTS)
        with pytest.raises(IndexMismatchError, match="has no ensemble yet"):
            index.add_questions(["w1"])
        with pytest.raises(IndexMismatchError, match="has no ensemble yet"):
            index.refresh_statistics()
        with pytest.raises(IndexMismatchError, match=r"'another'.*'words'"):
            index.set_ensemble(ensemble(encoder, QUESTIONS, model="another"))
        with pytest.raises(DataError, match="the ensemble's dimension must be 16, got 8"):
            index.set_ensemble(Ensemble.from_vectors(np.eye(8)))
        with pytest.raises(
            DataError, match="the ensemble's number of members must be a whole number of at least 2, got 1"
        ):
            index.set_ensemble(ensemble(encoder, QUESTIONS[:1]))
        with pytest.raises(DataError, match="shrink_mean"):
            index.set_ensemble(ensemble(encoder, QUESTIONS), shrink_mean=2.0)
        with pytest.raises(DataError, match="euclidean"):
            index.set_ensemble(Ensemble.from_vectors(np.eye(16), similarity="euclidean"))
        assert index.manifest.latest is None


def test_shrinking_to_other_documents_is_another_version(open_index):
    encoder = WordEncoder()
    with open_index(encoder, options=OPTIONS) as index:
        index.sync(DOCUMENTS[:20])
        questions = ensemble(encoder, QUESTIONS)
        index.set_ensemble(questions, shrink_mean=1.0, shrink_deviation=0.5)
        index.sync(DOCUMENTS)
        assert index.set_ensemble(questions, shrink_mean=1.0, shrink_deviation=0.5) == 50
        require_one_ranking(index, ranked(index), ranked(index, "vector"))


def test_questions_that_come_during_a_pass_lose_no_ensemble(open_index):
    encoder = WordEncoder()
    with open_index(encoder, options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.set_ensemble(ensemble(encoder, QUESTIONS))
        index.add_questions(["w1 w9"])
        latest = statistics.load(index.corpus.storage, index.manifest.latest, "words")

        def another(count: int) -> None:
            # What add_questions does, from another process.
            statistics.set_latest(index.corpus.storage, latest.extended(encoder.encode(["w7"]).dense))

        statistics.refresh(index.corpus.storage, latest, another)
    with open_index(encoder) as index:
        assert index.sync([*DOCUMENTS, Document("late", "w1")]).added == 1
        assert (index.manifest.statistics.count, index.manifest.latest.count) == (21, 22)
        assert index.refresh_statistics() == 51
