"""Candidates from dense and lexical search together."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import Candidates, DataError, Document, DynaMaxScorer, Passages
from surprise_rerank.connectors._lucene.bm25 import BM25Index, BM25Retriever
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SearchOptions, SparseRetriever
from surprise_rerank.connectors.qdrant._hybrid import HybridRetriever, with_words
from surprise_rerank.core.moments import Moments
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.eval.retrieval.workspace import has_lucene

ENCODER = WordEncoder()
DOCUMENTS = [Document(str(i), f"w{i} w{i % 7} w{i % 3} common") for i in range(50)]
ALL_FIELDS = frozenset({"dense", "tokens", "documents"})


class Overlap:
    """A plain lexical index: the number of words in common."""

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], np.ndarray]:
        scores = self.score(query, [d.id for d in DOCUMENTS])
        order = [i for i in np.argsort(-scores, kind="stable")[:depth] if scores[i] > 0]
        return tuple(DOCUMENTS[i].id for i in order), scores[order]

    def score(self, query: str, ids: Sequence[str]) -> np.ndarray:
        words = set(query.split())
        return np.array([float(len(words & set(DOCUMENTS[int(i)].text.split()))) for i in ids])

    def moments(self, query: str) -> Moments:
        scores = self.score(query, [d.id for d in DOCUMENTS])
        return Moments(scores.mean(), scores.std())


def test_a_filter_that_does_not_reach_the_words_is_refused(index):
    with pytest.raises(DataError, match="filter, tenant and unit do not reach a Overlap; leave them out"):
        HybridRetriever(index.corpus, Overlap()).among(models.Filter())


@pytest.fixture
def index() -> Iterator[DocumentIndex]:
    with DocumentIndex.open(":memory:", ENCODER) as opened:
        opened.sync(DOCUMENTS)
        yield opened


@pytest.mark.parametrize("depth", [8, 9, 200])
def test_the_pool_is_the_best_of_both_in_turn_with_both_scores(index, depth):
    lexical = Overlap()
    (query,) = encode_queries(ENCODER, ["w13 w6 w41 other"])
    pool = HybridRetriever(index.corpus, lexical).retrieve(query, depth, ALL_FIELDS)
    nearest = index.corpus.search(query, depth).ids
    words, _ = lexical.search(query.text, depth)
    in_turn = [name for pair in zip_longest(nearest, words) for name in pair if name is not None]
    kept = list(dict.fromkeys(in_turn))[:depth]
    assert list(pool.ids) == [name for name in nearest if name in kept] + [
        name for name in words if name in kept and name not in nearest
    ]
    np.testing.assert_array_equal(pool.scores["bm25"], lexical.score(query.text, pool.ids))
    assert np.isfinite(pool.scores["cosine"][: sum(name in nearest for name in kept)]).all()
    assert pool.dense is not None
    assert pool.tokens is not None
    assert pool.documents is not None
    assert len(pool.dense) == len(pool.tokens) == len(pool.documents) == len(pool.ids)
    assert [d.id for d in pool.documents] == list(pool.ids)
    assert pool.corpus_moments["bm25"].mean == lexical.moments(query.text).mean


@pytest.mark.skipif(not has_lucene(), reason="the extra 'pyserini' is not installed")
def test_bm25_of_lucene_fits_the_same_places(index, tmp_path):
    (query,) = encode_queries(ENCODER, ["w13 w6 w41 other"])
    with BM25Index.open_or_build(tmp_path / "bm25", DOCUMENTS, "v") as lexical:
        pool = HybridRetriever(index.corpus, lexical).retrieve(query, 8, ALL_FIELDS)
        found = BM25Retriever(lexical, index.fetch).retrieve(query, 8, frozenset({"tokens"}))
    assert pool.scores["bm25"][pool.ids.index("13")] == pool.scores["bm25"].max()
    assert DynaMaxScorer().rerank(query, found).ids[0] == "13"


@dataclass(frozen=True)
class _Elsewhere:
    """The words of an index as if they were somebody else's, so that each part is asked for by itself."""

    words: SparseRetriever

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], np.ndarray]:
        return self.words.search(query, depth)

    def score(self, query: str, ids: Sequence[str]) -> np.ndarray:
        return self.words.score(query, ids)

    def moments(self, query: str) -> Moments:
        return self.words.moments(query)


LONG = [
    Document(str(i), " ".join(f"w{i + j % 9} w{(i * j) % 31}." for j in range(i % 12))) for i in range(90)
]
PASSAGES = {"whole": None, "split": Passages(12, 2), "by three": Passages(12, 2, best=3)}
LEFT_OUT = models.FieldCondition(key="id", match=models.MatchAny(any=["3", "4", "12", "30"]))
NARROWED = {
    "plain": SearchOptions(),
    "filter": SearchOptions(filter=models.Filter(must_not=[LEFT_OUT])),
    "offset": SearchOptions(offset=2),
    "threshold": SearchOptions(score_threshold=0.5),
}


@pytest.mark.parametrize("form", PASSAGES)
def test_what_is_asked_together_is_what_is_asked_part_by_part(open_index, form):
    with open_index(ENCODER, options=IndexOptions(passages=PASSAGES[form])) as index:
        index.sync(LONG)
        for options in NARROWED.values():
            words = SparseRetriever(index.corpus, options)
            for depth in (3, 110):
                for query in encode_queries(ENCODER, ["w3 w4 none w80", "nothing here"]):
                    fields = frozenset({"dense", "tokens", "documents"})
                    found, expected = (
                        HybridRetriever(index.corpus, own, exact=True).retrieve(query, depth, fields)
                        for own in (words, _Elsewhere(words))
                    )
                    _assert_same(found, expected)


def _assert_same(found: Candidates, expected: Candidates) -> None:
    assert found.ids == expected.ids
    assert found.passages == expected.passages
    assert found.documents == expected.documents
    assert list(found.scores) == list(expected.scores)
    for name, scores in expected.scores.items():
        np.testing.assert_allclose(found.scores[name], scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.require_dense(), expected.require_dense())
    np.testing.assert_array_equal(found.tokens.directions, expected.tokens.directions)
    own, other = found.corpus_moments["bm25"], expected.corpus_moments["bm25"]
    np.testing.assert_allclose([own.mean, own.deviation], [other.mean, other.deviation], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", PASSAGES)
def test_a_pool_knows_how_many_words_its_best_score_is_worth(open_index, form):
    """In a search, and where its texts are re-ranked; not of a model that is known not to read them."""
    question = encode_queries(ENCODER, ["w3 w4 w80"])[0]
    with open_index(ENCODER, options=IndexOptions(passages=PASSAGES[form])) as index:
        index.sync(LONG)
        words = SparseRetriever(index.corpus)
        weights, best = words.vector(question.text).values, words.search(question.text, 1)[1][0]
        assert len(weights) == 3  # a word that no document has has the largest weight
        pool = HybridRetriever(index.corpus, words).retrieve(question, 50)
        assert pool.words == pytest.approx(float(best) / float(weights.mean()))
        assert with_words(index.fetch(pool.ids, {"dense"}), words, question.text).words == pool.words
        index.corpus.model = "all-MiniLM-L6-v2"
        index.corpus.storage.save(replace(index.manifest, language="german"))
        assert HybridRetriever(index.corpus, words).retrieve(question, 50).words is None


@pytest.mark.parametrize(
    ("form", "most", "system"),
    [("whole", 2, "cosine"), ("whole", 4, "auto"), ("split", 3, "fusion"), ("by three", 5, "auto")],
)
def test_a_question_takes_few_requests(open_index, form, most, system):
    with open_index(ENCODER, options=IndexOptions(passages=PASSAGES[form])) as index:
        index.sync(LONG)
        pipeline = index.pipeline(system)
        pipeline.search("w3 w4 w30")  # which reads what does not depend on the question
        engine: Any = index.corpus.storage.engine
        counted = _Counting(engine)
        index.corpus.storage.engine = counted
        for question in ("w3 w4 w30", "w12 none w80", "nothing here"):
            pipeline.search(question)
            assert counted.requests.total() <= most, counted.requests
            counted.requests.clear()


class _Counting:
    """An engine that counts what is asked of it."""

    def __init__(self, engine: Any) -> None:
        self._engine, self.requests = engine, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._engine, name)
        if callable(own):
            self.requests[name] += 1
        return own
