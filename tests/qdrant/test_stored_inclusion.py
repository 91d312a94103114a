"""Inclusion computed by Qdrant from multivectors: the scores, and the rankings of fusion and auto by it."""

import numpy as np
import pytest
from helpers.words import WordEncoder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import models

from surprise_rerank import DataError, Document, Passages, Query, Ranking
from surprise_rerank.connectors.qdrant import DenseRetriever, IndexOptions
from surprise_rerank.connectors.qdrant._hybrid import InclusionScored
from surprise_rerank.connectors.qdrant._schema import point_id
from surprise_rerank.connectors.qdrant._search.queries import InclusionQuestion
from surprise_rerank.connectors.systems import BuiltSystem, SystemInputs, build_system
from surprise_rerank.connectors.systems._building import dynamax, possible_systems
from surprise_rerank.connectors.systems._explaining import explain_ranking
from surprise_rerank.core.tokens import pooled_tokens
from surprise_rerank.encoders.base import encode_queries

D = 48
WORDS = [f"word{i}" for i in range(300)]
ERROR = 2e-3  # what a mean of cosines may be off by in float16
WHOLE = IndexOptions(passages=None)


def corpus(seed: int, count: int = 60) -> list[Document]:
    rng = np.random.default_rng(seed)
    return [Document(f"d{i}", " ".join(rng.choice(WORDS, rng.integers(20, 200)))) for i in range(count)]


def question(encoder: WordEncoder, seed: int = 0, words: int = 6) -> Query:
    rng = np.random.default_rng(seed)
    (query,) = encode_queries(encoder, [" ".join(rng.choice(WORDS, words))])
    return query


def ranked(built: BuiltSystem, query: Query, depth: int = 20) -> Ranking:
    return built.reranker.rerank(query, built.retriever.retrieve(query, depth, built.needs))


def test_scores_inside_qdrant_are_the_inclusion_of_the_merged_tokens(open_index):
    """Of candidates and of the sample."""
    encoder = WordEncoder(D)
    with open_index(encoder, options=WHOLE) as index:

        @settings(deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(seed=st.integers(0, 2**32))
        def check(seed: int) -> None:
            documents, query = corpus(seed, 30), question(encoder, seed)
            index.sync(documents, prune=True, background=False)
            names, tokens = index.corpus.token_sample(16)
            asked = InclusionQuestion.of(query, tokens)
            assert asked is not None
            pool = index.fetch([d.id for d in documents], frozenset())
            inclusion = index.corpus.with_inclusion(pool, asked).require_inclusion()
            merged = pooled_tokens(
                encoder.encode([d.content for d in documents]).require_tokens(), index.corpus.layout.pooling
            )
            places = {d.id: i for i, d in enumerate(documents)}
            sample = merged.take([places[name] for name in names])
            assert inclusion.lengths.tolist() == merged.token_counts.tolist()
            assert inclusion.usual_lengths.tolist() == sample.token_counts.tolist()
            unit = query.require_tokens() / np.linalg.norm(query.require_tokens(), axis=1)[:, None]
            scores, usual = (
                np.array([(batch.text(i, unit=True) @ unit.T).max(0).mean() for i in range(len(batch))])
                for batch in (merged, sample)
            )
            np.testing.assert_allclose(inclusion.scores, scores, rtol=0, atol=ERROR)
            np.testing.assert_allclose(inclusion.usual, usual, rtol=0, atol=ERROR)

        check()


def test_damaged_token_vectors_are_named_with_their_document(open_index):
    with open_index(WordEncoder(D), options=WHOLE) as index:
        index.sync(corpus(12, 4), background=False)
        index.corpus.storage.engine.set_payloads([(point_id("d2"), {"token_shape": "AAAA"})])
        with pytest.raises(DataError, match=r"of document 'd2' are damaged .*rebuild the index"):
            index.fetch(["d1", "d2"], frozenset({"tokens"}))


@pytest.mark.parametrize(
    ("name", "passages"), [("dynamax", None), ("fusion", Passages(40, 5)), ("auto", Passages(40, 5))]
)
def test_systems_rank_texts_as_they_rank_inside_qdrant(open_index, name, passages):
    """Nothing but rounding differs where token vectors, and dense ones, are read and compared here."""
    encoder = WordEncoder(D, window=40)
    with open_index(encoder, options=IndexOptions(passages)) as index:
        index.sync(corpus(1), background=False)
        inside, here = (build_system(name, index.corpus, of_texts=of_texts) for of_texts in (False, True))
        assert here.scorers == inside.scorers
        assert "tokens" in here.needs
        assert "tokens" not in inside.needs
        for seed in range(4):
            query = question(encoder, seed, words=6 + 10 * seed)
            ours, theirs = ranked(here, query), ranked(inside, query)
            assert set(ours.ids) == set(theirs.ids)
            # Feedback is of what each finds first: a search knows its lists, given texts are one list.
            for part in set(ours.parts) - {"feedback"}:
                known, pairs = (
                    dict(
                        zip(
                            zip(ranking.ids, ranking.passages or ranking.ids, strict=True),
                            ranking.parts[part],
                            strict=True,
                        )
                    )
                    for ranking in (theirs, ours)
                )
                same = known.keys() & pairs.keys()  # another passage of a document may be the best
                assert len(same) > 0.8 * len(known)
                differences = [abs(known[line] - pairs[line]) for line in same]
                assert max(differences) < (0.01 if name == "dynamax" else 0.1)


@pytest.mark.parametrize("passages", [None, Passages(40, 5)])
def test_nothing_but_scores_travels(open_index, passages):
    encoder = WordEncoder(D, window=40)
    with open_index(encoder, options=IndexOptions(passages)) as index:
        index.sync(corpus(9, 150), background=False)
        built, query = build_system("fusion", index.corpus), question(encoder, 3, words=30)
        assert not built.needs & {"dense", "tokens"}
        pool = built.retriever.retrieve(query, 20, frozenset())
        vectors = built.retriever.retrieve(query, 20, frozenset({"dense"})).require_dense()
        np.testing.assert_allclose(pool.scores["cosine"], vectors @ query.require_dense(), atol=1e-5)
        nearest = index.corpus.search(query, 20).ids
        assert set(pool.ids) - set(nearest), "some were found by BM25 alone"


def test_what_is_not_stored_is_said(open_index):
    encoder = WordEncoder(D)
    with open_index(encoder, options=IndexOptions(passages=None, tokens=False)) as index:
        index.sync(corpus(2, 5), background=False)
        with pytest.raises(DataError, match=r"has no token vectors, which dynamax compares; .*tokens=yes"):
            build_system("dynamax", index.corpus)
        with pytest.raises(DataError, match=r"has no token vectors; store them"):
            index.fetch(["d1"], frozenset({"tokens"}))
        assert index.corpus.default_system == "auto"  # by its words
        assert "dynamax" not in possible_systems(index.corpus)
        with pytest.raises(DataError, match=r"'cosine' has one place only.*or choose one of surprise"):
            build_system("cosine", index.corpus, mode="formula")
    with pytest.raises(DataError, match=r"pooling=2\.0 is of token vectors, and tokens=False stores none"):
        IndexOptions(tokens=False, pooling=2)


def test_a_given_pool_is_scored_inside_qdrant(open_index):
    encoder = WordEncoder(D)
    with open_index(encoder, options=WHOLE) as index:
        index.sync(corpus(6, 30), background=False)
        query = question(encoder)
        of_pool = dynamax(SystemInputs(corpus=index.corpus, first_stage=DenseRetriever(index.corpus)))
        expected = ranked(build_system("dynamax", index.corpus), query)
        ranking = ranked(of_pool, query)
        assert ranking.ids == expected.ids
        np.testing.assert_allclose(ranking.scores, expected.scores, atol=1e-6)
        few = models.Filter(must=[models.FieldCondition(key="id", match=models.MatchAny(any=["d1", "d2"]))])
        narrowed = of_pool.retriever
        assert isinstance(narrowed, InclusionScored)
        assert set(narrowed.among(few).retrieve(query, 9).ids) == {"d1", "d2"}


def test_explain_reads_the_sample_by_the_same_way(open_index):
    encoder = WordEncoder(D)
    with open_index(encoder, options=WHOLE) as index:
        index.sync(corpus(8, 40), background=False)
        query = question(encoder)
        for name in ("auto", "fusion", "dynamax"):
            built = build_system(name, index.corpus)
            pool = built.retriever.retrieve(query, 20, built.needs | {"documents"})
            ranking = built.reranker.rerank(query, pool)
            told = explain_ranking(built, encoder, query, pool, ranking.with_scores_of(pool), [0])
            share = next(each for each in told.shares if each.name == "dynamax")
            assert share.moments.members == 40
            assert told.matches[0]
