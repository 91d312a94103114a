"""Similarities as a user meets them: on strings, in the re-ranker, and as systems of an evaluation."""

from collections.abc import Sequence

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import Candidates, DataError, Document, MissingExtraError, Query, TextSimilarity
from surprise_rerank.core._extras import is_installed
from surprise_rerank.encoders.base import Kind, encode_queries
from surprise_rerank.similarities.table import SIMILARITIES

CORPUS = ["a cat sleeps", "the dog barks at the cat", "the sun is a star", "a dog sleeps in the sun"]
DOCUMENTS = [*CORPUS, "", "a cat sleeps a cat"]
AVAILABLE = [
    name
    for name, named in SIMILARITIES.items()
    if (not named.module or is_installed(named.module)) and "embedding" not in named.fitted_on
]
FITTED = [name for name in AVAILABLE if SIMILARITIES[name].fitted_on]


def pool(encoder: WordEncoder, texts: Sequence[str] = DOCUMENTS) -> Candidates:
    """Candidates as an index gives them: tokens, and documents with title and text."""
    documents = tuple(
        Document(id=f"d{i}", title=" ".join(text.split()[:1]), text=" ".join(text.split()[1:]))
        for i, text in enumerate(texts)
    )
    tokens = encoder.encode([document.content for document in documents]).tokens
    return Candidates(ids=tuple(d.id for d in documents), tokens=tokens, documents=documents)


# On strings


@pytest.mark.parametrize("name", AVAILABLE)
def test_every_name_works_on_strings(name):
    similarity = TextSimilarity(name, WordEncoder()).fit(CORPUS)
    scores = similarity.scores("a cat sleeps", DOCUMENTS)
    assert scores.shape == (len(DOCUMENTS),)
    assert np.isfinite(scores).all()
    assert scores[4] == 0.0
    pairs = similarity.pairs(["a cat sleeps"] * len(DOCUMENTS), DOCUMENTS)
    np.testing.assert_allclose(pairs, scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", FITTED)
def test_a_name_that_is_fitted_on_a_corpus_asks_for_it(name):
    similarity = TextSimilarity(name, WordEncoder())
    for use in (
        lambda: similarity.scores("a", ["b"]),
        lambda: similarity.pairs(["a"], ["b"]),
        lambda: similarity.reranker(),
    ):
        with pytest.raises(DataError, match=f"'{name}' is fitted on a corpus .*: call fit"):
            use()
    assert similarity.fit(CORPUS) is similarity
    assert np.isfinite(similarity.scores("a", ["b"])).all()


def test_bad_calls_are_told():
    with pytest.raises(DataError, match="did you mean 'wmd'"):
        TextSimilarity("wdm", WordEncoder())
    similarity = TextSimilarity("set-jaccard", WordEncoder())
    with pytest.raises(DataError, match="the number of second texts must be 1, got 2"):
        similarity.pairs(["a"], ["b", "c"])
    with pytest.raises(DataError, match="texts must be at least one, got none"):
        TextSimilarity("sif-cosine", WordEncoder()).fit([])


def test_pairs_are_encoded_alike_on_both_sides():
    class Prompting(WordEncoder):
        def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
            return super().words([f"{kind}: {text}" for text in texts], kind)

    assert TextSimilarity("set-jaccard", Prompting()).pairs(["a b"], ["a b"]).tolist() == [1.0]
    assert TextSimilarity("set-jaccard", Prompting()).scores("a b", ["a b"]).tolist() == [0.5]


# In the re-ranker


@pytest.mark.parametrize("name", AVAILABLE)
def test_every_name_reranks_stored_candidates(name):
    encoder = WordEncoder(dimension=32)
    similarity = TextSimilarity(name, encoder).fit(CORPUS)
    reranker = similarity.reranker()
    (query,) = encode_queries(encoder, ["a cat sleeps"])
    candidates = pool(encoder)
    ranking = reranker.rerank(query, candidates)
    assert sorted(ranking.ids) == sorted(candidates.ids)
    expected = dict(zip(candidates.ids, similarity.scores("a cat sleeps", DOCUMENTS), strict=True))
    for hit in ranking:
        assert hit.score == hit.parts[name] == pytest.approx(expected[hit.id], rel=0.1, abs=0.05)
    assert (np.diff(ranking.scores) <= 0).all()


def test_needs_are_no_more_than_what_is_read():
    def needs(name: str) -> frozenset[str]:
        return TextSimilarity(name, WordEncoder()).fit(CORPUS).reranker().needs

    assert needs("dynamax") == needs("dynamax-jaccard") == needs("dynamax-idf") == {"tokens"}
    assert needs("dynamax-jaccard-set") == needs("sif-cosine") == {"tokens", "documents"}
    assert needs("bag-jaccard") == {"documents"}


def test_text_that_does_not_belong_to_the_stored_tokens_is_refused():
    encoder = WordEncoder()
    reranker = TextSimilarity("sif-cosine", encoder).fit(CORPUS).reranker()
    (query,) = encode_queries(encoder, ["a cat sleeps"])
    stored, others = pool(encoder), pool(encoder, ["a cat", *DOCUMENTS[1:]])
    mixed = Candidates(stored.ids, tokens=stored.tokens, documents=others.documents)
    with pytest.raises(
        DataError,
        match=r"the numbers of words of texts must be \[3, 6, 5, 6, 0, 5\], got \[2, 6, 5, 6, 0, 5\]",
    ):
        reranker.rerank(query, mixed)
    with pytest.raises(DataError, match="the number of words must be 3, got 1"):
        reranker.rerank(Query(text="cat", tokens=query.tokens), stored)
    with pytest.raises(DataError, match="the query's token vectors must be there, got None"):
        reranker.rerank(Query(text="cat"), stored)


# In an evaluation


def test_word_movers_distance_without_its_library_names_the_pip_line(monkeypatch):
    monkeypatch.setattr("surprise_rerank.core._extras.is_installed", lambda module: False)
    similarity = TextSimilarity("wmd", WordEncoder())
    with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[transport\]'"):
        similarity.scores("a", ["b"])
