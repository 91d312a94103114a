"""Inclusion computed by Qdrant from multivectors: the scores, and the rankings of fusion and auto by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import Opener
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import models
from words import WordEncoder

from surprise_rerank import Document, Passages
from surprise_rerank.candidates import Candidates, Inclusion, Query, Ranking
from surprise_rerank.connectors.qdrant import DenseRetriever, IndexOptions
from surprise_rerank.connectors.qdrant.multivectors import (
    TokenStorage,
    document_vectors,
    query_vectors,
    similarities,
    token_vectors,
)
from surprise_rerank.connectors.qdrant.retrievers.inclusion import (
    FoundInclusion,
    InclusionScored,
    QdrantInclusion,
)
from surprise_rerank.connectors.qdrant.schema import TOKEN_COUNT, point_id
from surprise_rerank.connectors.systems.building import build_system, dynamax
from surprise_rerank.connectors.systems.built import BuiltSystem
from surprise_rerank.connectors.systems.explaining import explain_ranking
from surprise_rerank.connectors.systems.inputs import SystemInputs, inputs_of
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.token_weights import weighted_inclusion

D = 48
WORDS = [f"word{i}" for i in range(300)]
# What a mean of cosines of D components may be off by, where the merged tokens are compared.
ERRORS: dict[TokenStorage, float] = {"float16": 2e-3, "uint8": 0.01}
NATIVE = IndexOptions(packed_tokens=False, token_vectors="float16", passages=None)


def corpus(seed: int, count: int = 60) -> list[Document]:
    rng = np.random.default_rng(seed)
    return [Document(f"d{i}", " ".join(rng.choice(WORDS, rng.integers(20, 200)))) for i in range(count)]


def question(encoder: WordEncoder, seed: int = 0) -> Query:
    rng = np.random.default_rng(seed)
    (query,) = encode_queries(encoder, [" ".join(rng.choice(WORDS, 6))])
    return query


def answered(
    inclusion: QdrantInclusion, query: Query, points: Sequence[str], documents: Sequence[str] = ()
) -> FoundInclusion:
    """What Qdrant answers for these points and documents."""
    asked = inclusion.asked(query)
    assert asked is not None
    return asked.found(inclusion.index.pools.every({"asked": asked.of(points, documents)})["asked"])


def included(inclusion: QdrantInclusion, query: Query, names: list[str]) -> Inclusion:
    """Of documents, half of them by the ids of their points."""
    half = [point_id(name) for name in names[::2]]
    found = answered(inclusion, query, half, names[1::2])
    records = inclusion.index.storage.engine.retrieve([point_id(name) for name in names], (TOKEN_COUNT,))
    lengths = {record.id: record.payload[TOKEN_COUNT] for record in records}
    points = [point_id(name) for name in names]
    return found.of(points, np.array([lengths[point] for point in points]))


def ranked(built: BuiltSystem, query: Query, depth: int = 20) -> Ranking:
    pool = built.retriever.retrieve(query, depth, built.needs)
    return (
        built.reranker.rerank(query, pool) if built.reranker else Ranking.order(pool, pool.scores["dynamax"])
    )


@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize("storage", list(ERRORS))
def test_scores_inside_qdrant_are_the_inclusion_of_the_merged_tokens(
    open_index: Opener, storage: TokenStorage, weighs: bool
) -> None:
    """Of candidates and of the sample, with and without weights of the question's tokens."""
    encoder = WordEncoder(D)
    with open_index(encoder, options=replace(NATIVE, token_vectors=storage)) as index:

        @settings(deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(seed=st.integers(0, 2**32))
        def check(seed: int) -> None:
            own, query = corpus(seed, 30), question(encoder, seed)
            index.sync(own, prune=True, background=False)
            inclusion = QdrantInclusion.of(index, 16, weighs=weighs)
            found = included(inclusion, query, [d.id for d in own])
            merged = TokenForm("float32", index.manifest.options.token_form.pooling).of(
                encoder.encode([d.content for d in own]).require_tokens()
            )
            places = {point_id(d.id): i for i, d in enumerate(own)}
            sample = merged.take([places[point] for point in inclusion.sample])
            assert found.lengths.tolist() == merged.token_counts.tolist()
            assert found.usual_lengths.tolist() == sample.token_counts.tolist()
            if weighs:
                scores, usual = weighted_inclusion(query.require_tokens(), merged, sample)
            else:
                tokens = query.require_tokens() / np.linalg.norm(query.require_tokens(), axis=1)[:, None]
                scores, usual = (
                    np.array([(batch.text(i, unit=True) @ tokens.T).max(0).mean() for i in range(len(batch))])
                    for batch in (merged, sample)
                )
            np.testing.assert_allclose(found.scores, scores, rtol=0, atol=ERRORS[storage])
            np.testing.assert_allclose(found.usual, usual, rtol=0, atol=ERRORS[storage])

        check()


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 40),
    d=st.sampled_from([8, 48, 384]),
    storage=st.sampled_from(["float16", "uint8"]),
)
def test_multivectors_come_back_as_token_vectors(seed: int, rows: int, d: int, storage: TokenStorage) -> None:
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(rows, d))
    unit = tokens / np.linalg.norm(tokens, axis=1)[:, None]
    back = token_vectors(document_vectors(tokens, storage), storage)
    assert back.shape == unit.shape
    np.testing.assert_allclose(
        (back * unit).sum(axis=1), 1, rtol=0, atol=1e-6 if storage == "float16" else 1e-3
    )
    weights = rng.uniform(0.1, 3, rows)
    asked = query_vectors(tokens, storage, weights).astype(np.float64)
    stored = document_vectors(rng.normal(size=(20, d)), storage)
    (score,) = similarities([(asked @ stored.T).max(axis=1).sum()], tokens, storage, weights)
    exact = (unit @ token_vectors(stored, storage).T).max(axis=1) @ weights
    assert score == pytest.approx(exact, abs=0.02 * weights.sum() if storage == "uint8" else 1e-4 * rows)


@pytest.mark.parametrize("passages", [None, Passages(40, 5)])
@pytest.mark.parametrize("name", ["dynamax", "fusion", "auto"])
def test_systems_rank_as_with_packed_tokens(open_index: Opener, name: str, passages: Passages | None) -> None:
    """Float vectors in both places, so that nothing but float16's rounding differs."""
    encoder = WordEncoder(D, window=40)
    options = IndexOptions(token_vectors="float16", token_storage="int8", pooling=1, passages=passages)
    with open_index(encoder, options=options) as index:
        index.sync(corpus(1), background=False)
        here, there = (build_system(name, index, mode=mode) for mode in ("client", "maxsim"))
        assert here.scorers == there.scorers
        for seed in range(4):
            query = question(encoder, seed)
            ours, theirs = ranked(here, query), ranked(there, query)
            assert set(ours.ids) == set(theirs.ids)
            known = dict(zip(theirs.ids, theirs.scores, strict=True))
            differences = [abs(known[own] - score) for own, score in zip(ours.ids, ours.scores, strict=True)]
            assert max(differences) < (0.01 if name == "dynamax" else 0.1)
            assert ours.ids[0] == theirs.ids[0] or ours.scores[0] - ours.scores[1] < 0.1


@pytest.mark.parametrize("passages", [None, Passages(40, 5)])
def test_fusion_inside_qdrant_reads_nothing_but_scores(open_index: Opener, passages: Passages | None) -> None:
    encoder = WordEncoder(D, window=40)
    with open_index(encoder, options=replace(NATIVE, passages=passages)) as index:
        index.sync(corpus(9, 150), background=False)
        built, query = build_system("fusion", index), question(encoder, 3)
        assert not built.needs
        pool = built.retriever.retrieve(query, 20, built.needs)
        assert pool.dense is None
        vectors = built.retriever.retrieve(query, 20, frozenset({"dense"})).require_dense()
        np.testing.assert_allclose(pool.scores["cosine"], vectors @ query.require_dense(), atol=1e-5)
        assert len(pool) > 20, "some were found by BM25 alone"


def test_an_index_of_multivectors_alone_has_all_systems_of_tokens(open_index: Opener) -> None:
    encoder = WordEncoder(D)
    with open_index(encoder, options=NATIVE) as index:
        index.sync(corpus(2), background=False)
        assert inputs_of(index).default == "auto"
        assert {"auto", "dynamax", "fusion", "maxsim"} <= set(inputs_of(index).possible)
        assert inputs_of(index).token_mode == "maxsim"
        query = question(encoder)
        for name in ("auto", "dynamax", "fusion"):
            built = build_system(name, index)
            assert not built.note
            ranking = ranked(built, query)
            assert len(ranking) >= 20
            assert not any("left out" in note for note in ranking.notes)
            assert "MaxSim" in " ".join(built.steps(query, 5))
        for name in ("auto", "dynamax", "fusion"):
            with pytest.raises(DataError, match=r"no packed token vectors, which the mode 'client' compares"):
                build_system(name, index, mode="client")


def test_what_is_not_stored_is_said(open_index: Opener) -> None:
    encoder = WordEncoder(D)
    with open_index(encoder, options=IndexOptions(passages=None)) as index:
        index.sync(corpus(2, 5), background=False)
        assert inputs_of(index).token_mode == "client"
        with pytest.raises(DataError, match=r"no multivectors, which the mode 'maxsim' compares.*--tokens"):
            build_system("auto", index, mode="maxsim")
        with pytest.raises(DataError, match=r"'auto' has no mode 'vector'; choose one of client, maxsim"):
            build_system("auto", index, mode="vector")
        with pytest.raises(DataError, match=r"'cosine' has one place only.*choose one of auto, dynamax, fus"):
            build_system("cosine", index, mode="maxsim")


def test_a_question_without_token_vectors_is_ranked_by_the_rest(open_index: Opener) -> None:
    encoder = WordEncoder(D)
    with open_index(encoder, options=NATIVE) as index:
        index.sync(corpus(3), background=False)
        query = replace(question(encoder), tokens=None)
        for name in ("auto", "fusion"):
            ranking = ranked(build_system(name, index), query)
            assert any("without token vectors: the question has none" in note for note in ranking.notes)


def test_documents_that_were_deleted_meanwhile_have_no_score(open_index: Opener) -> None:
    encoder = WordEncoder(D)
    with open_index(encoder, options=NATIVE) as index:
        index.sync(corpus(5, 20), background=False)
        inclusion = QdrantInclusion.of(index, 8, weighs=False)
        index.delete(["d3"])
        found = answered(inclusion, question(encoder), [point_id("d3"), *inclusion.sample])
        assert np.isnan(found.of([point_id("d3")], np.array([7])).scores[0])
        assert len(found.usual) == len(found.usual_lengths) == len(found.scores)


def test_a_given_pool_is_scored_inside_qdrant(open_index: Opener) -> None:
    encoder = WordEncoder(D)
    with open_index(encoder, options=NATIVE) as index:
        index.sync(corpus(6, 30), background=False)
        query = question(encoder)
        given = dynamax(SystemInputs(index=index, first_stage=DenseRetriever(index)))
        own = ranked(build_system("dynamax", index), query)
        ranking = ranked(given, query)
        assert ranking.ids == own.ids
        np.testing.assert_allclose(ranking.scores, own.scores, atol=1e-6)
        few = models.Filter(must=[models.FieldCondition(key="id", match=models.MatchAny(any=["d1", "d2"]))])
        narrowed = given.retriever
        assert isinstance(narrowed, InclusionScored)
        assert set(narrowed.among(few).retrieve(query, 9).ids) == {"d1", "d2"}


@pytest.mark.parametrize(("passages", "with_packed"), [(None, 2), (Passages(40, 5), 3)])
def test_a_question_takes_two_requests(
    open_index: Opener, monkeypatch: pytest.MonkeyPatch, passages: Passages | None, with_packed: int
) -> None:
    encoder = WordEncoder(D, window=40)
    with open_index(encoder, options=IndexOptions(token_vectors="float16", passages=passages)) as index:
        index.sync(corpus(7, 150), background=False)
        asked: list[int] = []
        engine = type(index.storage.engine)
        before = engine.query_batch

        def counted(own: Any, requests: list[Any], *more: Any) -> Any:
            asked.append(len(requests))
            return before(own, requests, *more)

        monkeypatch.setattr(engine, "query_batch", counted)
        counts = {}
        for mode in ("client", "maxsim"):
            built, query = build_system("auto", index, mode=mode), question(encoder)
            asked.clear()
            ranked(built, query, 100)
            counts[mode] = len(asked)
        assert counts == {"client": with_packed, "maxsim": 2}


def test_explain_reads_the_sample_by_the_same_way(open_index: Opener) -> None:
    encoder = WordEncoder(D)
    with open_index(encoder, options=NATIVE) as index:
        index.sync(corpus(8, 40), background=False)
        query = question(encoder)
        for name in ("auto", "fusion", "dynamax"):
            built = build_system(name, index)
            pool = built.retriever.retrieve(query, 20, built.needs | {"documents"})
            assert built.reranker is not None
            ranking = built.reranker.rerank(query, pool)
            told = explain_ranking(built, encoder, query, ranking.with_scores_of(pool), [0])
            share = next(own for own in told.shares if own.name == "dynamax")
            assert share.moments.members == 40
            assert told.matches[0]


def test_pools_join_and_shrink_with_their_inclusion() -> None:
    one = Inclusion(np.array([1.0, 2.0]), np.array([5, 6]), np.array([0.5]), np.array([4]))
    first = Candidates(("a", "b"), inclusion=one)
    second = Candidates(("c",), inclusion=one.take([1]))
    joined = first.join(second).take([2, 0])
    assert joined.require_inclusion().scores.tolist() == [2.0, 1.0]
    assert joined.require_inclusion().lengths.tolist() == [6, 5]
    with pytest.raises(DataError, match="'inclusion' is filled in one of two pools only"):
        first.join(Candidates(("c",)))
    with pytest.raises(DataError, match="no store has computed inclusion"):
        Candidates(("a",)).require_inclusion()
