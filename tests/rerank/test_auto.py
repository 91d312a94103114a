"""The default system: the equations of its module, and what an index is searched with by default."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from words import WordEncoder

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.connectors.systems.explaining import explain_ranking
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermBatch, TermSpace
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.auto import PARTS, AutoReranker, AutoSettings, PoolAutoReranker
from surprise_rerank.rerank.feedback import contrast, shares
from surprise_rerank.rerank.fusion import without_length
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.surprise.ensemble import Ensemble

D = 5


class Drawn:
    """A corpus, a question and a pool, drawn from a seed."""

    def __init__(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)

        def vectors(count: int) -> np.ndarray:
            drawn = rng.normal(size=(count, D)) + 0.5
            return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)

        def tokens(count: int) -> TokenBatch:
            texts = [rng.normal(size=(int(rng.integers(1, 5)), D)) for _ in range(count)]
            return TokenBatch.from_arrays([t.astype(np.float32) for t in texts], D)

        def terms(count: int) -> TermBatch:
            drawn = [rng.choice(20, size=int(rng.integers(0, 6)), replace=False) for _ in range(count)]
            return TermBatch.of([(own, rng.uniform(0.3, 2.0, len(own))) for own in drawn])

        self.members, self.sample = vectors(12), tokens(21)
        self.corpus, self.words = Ensemble.from_vectors(self.members), TermSpace(terms(9))
        self.reranker = AutoReranker(self.corpus, self.sample, self.words, threads=1)
        self.query = Query("?", vectors(1)[0], rng.normal(size=(3, D)).astype(np.float32))
        self.moments = Moments(np.asarray(1.0), np.asarray(0.7), members=50)
        self.pool = Candidates(
            ids=tuple(f"d{i:02d}" for i in range(n)),
            scores={"bm25": rng.uniform(0.0, 6.0, n)},
            dense=vectors(n),
            tokens=tokens(n),
            terms=terms(n),
            corpus_moments={"bm25": self.moments},
        )


def z_of(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Deviations of each score above the mean of the others together with itself."""
    joined = [np.append(others, score) for score in scores]
    return np.array([(own[-1] - own.mean()) / own.std() if own.std() > 1e-12 else 0.0 for own in joined])


def expected(drawn: Drawn, trusting: bool) -> tuple[np.ndarray, float]:
    """The score as the module's docstring writes it, a document at a time, and the trust in the vectors."""
    pool, q = drawn.pool, drawn.query.require_dense().astype(np.float64)
    v = pool.require_dense().astype(np.float64)
    n = len(pool)
    members = drawn.members.astype(np.float64)
    z_cosine = z_of(v @ q, members @ q)
    z_bm25 = (np.asarray(pool.scores["bm25"]) - 1.0) / 0.7
    z_bm25 *= np.sqrt(50 / (51 + z_bm25**2))
    asked, tokens = drawn.query.require_tokens(), pool.require_tokens()
    inclusion, of_sample = (DynaMax().pool(asked, texts, threads=1) for texts in (tokens, drawn.sample))
    inclusion, of_sample = without_length(inclusion, tokens.lengths, of_sample, drawn.sample.lengths, 0.5)
    z_dynamax = z_of(inclusion, of_sample)

    def best(values: np.ndarray) -> list[int]:
        return sorted(range(n), key=lambda i: -values[i])[: min(10, (n + 1) // 2)]

    most = z_bm25[best(z_bm25)].mean()
    agreed = min(1.0, max(0.0, z_bm25[best(z_cosine)].mean() / most)) if most > 0 else 1.0
    t = 1.0 if trusting else float(min(1.0, max(0.0, (agreed - 0.25) / 0.15)))
    b = 0.6 * (2 - t) * z_bm25 + t * z_cosine + z_dynamax
    if n < 20:
        return b, t  # too few to tell what the best have more of
    ranks = np.array([1 + sum(other > own for other in b) for own in b])
    p = 1 / ranks**2.0
    against = p / p.sum() - 1 / n
    own, sample = drawn.words.unit(pool.terms), drawn.words.unit(drawn.words.sample)
    mixture = np.zeros(20)
    for j in range(n):
        terms, values = own[j]
        mixture[terms] += against[j] * values
    near = np.array([mixture[own[i][0]] @ own[i][1] for i in range(n)])
    usual = np.array([mixture[sample[i][0]] @ sample[i][1] for i in range(len(sample))])
    said = own.lengths > 0
    direction = against @ v
    by_words, by_vectors = np.where(said, z_of(near, usual), 0.0), z_of(v @ direction, members @ direction)
    return b + 0.5 * by_words + 0.25 * by_vectors, t


@given(st.integers(0, 10_000), st.integers(1, 30), st.booleans())
def test_the_score_is_the_one_of_the_equations(seed, n, trusting):
    drawn = Drawn(seed, n)
    own = replace(drawn.reranker, settings=AutoSettings(trust=None)) if trusting else drawn.reranker
    ranking = own.rerank(drawn.query, drawn.pool)
    scores, trust = expected(drawn, trusting)
    np.testing.assert_allclose(ranking.scores, scores[ranking.rows_in(drawn.pool)], atol=1e-4)
    np.testing.assert_allclose(sum(ranking.parts.values()), ranking.scores, atol=1e-9)
    assert tuple(ranking.parts) == PARTS
    assert ["trusted less" in note for note in ranking.notes] == [True] * (trust < 1)


@given(st.integers(0, 10_000), st.integers(1, 25))
def test_the_order_of_the_pool_says_nothing(seed, n):
    drawn = Drawn(seed, n)
    rng = np.random.default_rng(seed)
    query, pool = drawn.query, drawn.pool
    match seed % 3:
        case 1:  # documents that are equally near
            dense = pool.require_dense().copy()
            dense[: n // 2] = dense[0]
            pool = replace(pool, dense=dense)
        case 2:  # a question that the model knows nothing of
            query = replace(query, dense=np.zeros(D, np.float32), tokens=np.zeros((0, D), np.float32))
    first = drawn.reranker.rerank(query, pool)
    second = drawn.reranker.rerank(query, pool.take(rng.permutation(n)))
    scores = dict(zip(second.ids, second.scores, strict=True))
    np.testing.assert_allclose([scores[name] for name in first.ids], first.scores, atol=1e-6)


NO_TOKENS = (
    ("bm25", "cosine", "words", "vectors"),
    "without token vectors: {} none, so inclusion was left out",
)
NO_VECTORS = "without dense vectors: {} none, so cosine and feedback by vectors were left out"


@pytest.mark.parametrize(
    ("corpus", "query", "pool", "left", "told"),
    [
        ({"sample": None}, {}, {}, *NO_TOKENS),
        ({}, {"tokens": None}, {}, *NO_TOKENS),
        ({}, {}, {"tokens": None}, *NO_TOKENS),
        ({"corpus": None}, {}, {}, ("bm25", "dynamax", "words"), NO_VECTORS),
        ({}, {}, {"dense": None}, ("bm25", "dynamax", "words"), NO_VECTORS),
        (  # the candidates are still compared with each other
            *({}, {"dense": None}, {}, ("bm25", "dynamax", "words", "vectors")),
            "without dense vectors: {} none, so cosine was left out",
        ),
        (
            *({"words": None}, {}, {}, ("bm25", "cosine", "dynamax", "vectors")),
            "without words: terms are not there, so feedback by words was left out",
        ),
        (
            *({}, {}, {"scores": {}, "terms": None}, ("cosine", "dynamax", "vectors")),
            "without words: BM25 scores and terms are not there, so BM25 and feedback by words were left out",
        ),
    ],
)
def test_what_anybody_lacks_is_left_out_and_told(corpus, query, pool, left, told):
    drawn = Drawn(1, 12)
    reranker = replace(drawn.reranker, **corpus)
    fields = {"sample": "tokens", "corpus": "dense", "words": "terms"}
    assert reranker.needs == {"dense", "tokens", "terms"} - {fields[name] for name in corpus}
    ranking = reranker.rerank(replace(drawn.query, **query), replace(drawn.pool, **pool))
    who = "the corpus has" if corpus else "the question has" if query else "the candidates have"
    assert tuple(ranking.parts) == left
    assert ranking.notes[-1] == told.format(who)
    np.testing.assert_allclose(sum(ranking.parts.values()), ranking.scores, atol=1e-9)


@pytest.mark.parametrize("left", ["bm25", "cosine", "dynamax"])
def test_one_scorer_is_enough_and_none_is_an_error(left):
    drawn = Drawn(1, 12)
    reranker = AutoReranker(
        drawn.corpus if left == "cosine" else None, drawn.sample if left == "dynamax" else None
    )
    pool = drawn.pool if left == "bm25" else replace(drawn.pool, scores={}, corpus_moments={}, terms=None)
    ranking = reranker.rerank(drawn.query, pool)
    assert tuple(ranking.parts) == ((left, "vectors") if left == "cosine" else (left,))
    nothing = replace(drawn.pool, scores={}, corpus_moments={})
    with pytest.raises(DataError, match="nothing is there to rank 12 candidates by: without dense vectors"):
        AutoReranker(None).rerank(drawn.query, nothing)
    assert len(AutoReranker(None).rerank(drawn.query, nothing.take([]))) == 0


@given(st.integers(0, 10_000), st.floats(0.1, 10), st.floats(0.1, 10), st.sampled_from(["dot", "cosine"]))
def test_the_units_of_vectors_change_no_score(seed, of_query, of_documents, similarity):
    """Collections that compare by Dot may hold vectors of any length."""
    drawn = Drawn(seed, 12)
    query = Query("?", drawn.query.dense, drawn.query.tokens)
    first = AutoReranker(Ensemble.from_vectors(drawn.members)).rerank(query, drawn.pool)
    corpus = Ensemble.from_vectors(drawn.members * of_documents, similarity=similarity)
    second = AutoReranker(corpus).rerank(
        replace(query, dense=query.require_dense() * np.float32(of_query)),
        replace(drawn.pool, dense=drawn.pool.require_dense() * np.float32(of_documents)),
    )
    scores = dict(zip(second.ids, second.scores, strict=True))
    np.testing.assert_allclose([scores[name] for name in first.ids], first.scores, atol=2e-3)


def test_where_nobody_is_told_apart_nothing_is_fed_back():
    drawn = Drawn(7, 12)
    silent = replace(drawn.query, dense=np.zeros(D, np.float32), tokens=np.zeros((0, D), np.float32))
    pool = replace(
        drawn.pool, scores={"bm25": np.zeros(12)}, corpus_moments={"bm25": Moments(*np.zeros((2, 1)))}
    )
    ranking = drawn.reranker.rerank(silent, pool)
    assert not ranking.scores.any()
    assert ranking.ids == drawn.pool.ids


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_taken_away(part):
    drawn = Drawn(2, 12)
    less = replace(drawn.reranker, settings=AutoSettings(**{part: 0}))
    assert part not in less.rerank(drawn.query, drawn.pool).parts
    parts = drawn.reranker.parts(drawn.query, drawn.pool)
    weighted = drawn.reranker.weighted({part: 0.0, "cosine": 2.0}).rerank(drawn.query, drawn.pool)
    factors = (
        dict.fromkeys(PARTS, 1.0) | {"cosine": 2.0, part: 0.0} | ({part: 2.0} if part == "cosine" else {})
    )
    total = sum(factors[name] * own for name, own in parts.items())
    np.testing.assert_allclose(weighted.scores, total[weighted.rows_in(drawn.pool)])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bm25": -1}, "bm25 must be a number of at least 0, got -1"),
        ({"words": math.nan}, "words must be a number of at least 0, got nan"),
        ({"lengths": -0.1}, r"lengths must be a number from 0 to 1, got -0\.1"),
        ({"trust": (0.6, 0.5)}, r"trust must be two ascending shares, got \(0\.6, 0\.5\)"),
        ({"trust": ("a", "b")}, r"trust\[0\] must be a number from 0 to 1, got 'a'"),
        ({"trust": (0.1,)}, r"trust must be two ascending shares, got \(0\.1,\)"),
        ({"bm25": 0, "cosine": 0, "dynamax": 0}, "give one of them a weight"),
    ],
)
def test_numbers_out_of_range_are_told(wrong, message):
    with pytest.raises(DataError, match=message):
        AutoSettings(**wrong)


def test_weights_of_no_part_and_ensembles_of_distances_are_refused():
    drawn = Drawn(6, 3)
    with pytest.raises(DataError, match=r"weights\[0\]='colour' is not known"):
        drawn.reranker.weighted({"colour": 1.0})
    with pytest.raises(DataError, match="weights\\['bm25'\\] must be a number, got nan"):
        drawn.reranker.weighted({"bm25": math.nan})
    other = Ensemble.from_vectors(drawn.members, similarity="euclidean")
    with pytest.raises(DataError, match="give one of dot or cosine"):
        AutoReranker(other, drawn.sample)


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0]))
def test_lengths_lose_a_share_of_what_a_line_through_the_sample_gives(seed, n, share):
    rng = np.random.default_rng(seed)
    lengths, known = rng.integers(0, 300, n), rng.integers(0, 300, 20)
    scores, usual = rng.normal(size=n), rng.normal(size=20) + 0.3 * np.log1p(known)
    own, sample = without_length(scores, lengths, usual, known, share)
    few, _ = without_length(scores, lengths, usual[:19], known[:19], share)
    np.testing.assert_array_equal(few, scores)
    slope, _ = np.polyfit(np.log1p(known), usual, 1)
    middle = np.log1p(known).mean()
    np.testing.assert_allclose(own, scores - share * slope * (np.log1p(lengths) - middle), atol=1e-9)
    assert sample.mean() == pytest.approx(usual.mean())
    if share == 1.0:
        assert np.polyfit(np.log1p(known), sample, 1)[0] == pytest.approx(0.0, abs=1e-9)


# On an index

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


def documents(count: int) -> list[Document]:
    drawn = np.random.default_rng(count).integers(len(WORDS), size=(count, 6))
    return [Document(f"d{i}", " ".join(WORDS[j] for j in row), WORDS[row[0]]) for i, row in enumerate(drawn)]


def test_an_index_is_searched_by_auto(tmp_path: Path):
    encoder = WordEncoder()
    with DocumentIndex.open(tmp_path / "index", encoder) as index:
        index.sync(documents(60))
        ranking = index.pipeline().search("fox gnu hen")
        assert tuple(ranking.parts) == PARTS
        assert all(hit.text for hit in ranking)
        system = build_system("auto", index, NO_OPTIONS, None)
        assert system.summary == "auto of bm25, cosine, dynamax"
        (query,) = encode_queries(encoder, ["fox gnu hen"])
        pool = system.retriever.retrieve(query, 100, system.needs)
        whole = system.reranker.rerank(query, pool)
        assert whole.top(10).ids == ranking.ids
        told = explain_ranking(system, encoder, query, whole, [0])
        assert {share.name for share in told.shares} == set(PARTS)
        best, _ = index.text_reranker().rank("fox gnu hen", ["ant fox", "gnu hen"])
        assert best.position == 1


# `auto` over texts that no index knows: their own scores say what a usual one is.

TEXTS = ["tea and milk", "a wing gives lift", "the wing", "bread", "drag of a wing", "tea with bread"]


def scene(texts: list[str] = TEXTS) -> tuple[Query, Candidates]:
    encoder = WordEncoder()
    (query,) = encode_queries(encoder, ["wing lift"])
    encoded = encoder.encode(texts)
    ids = tuple(f"{i}" for i in range(len(texts)))
    return query, Candidates(ids=ids, dense=encoded.dense, tokens=encoded.tokens)


@pytest.mark.parametrize(
    ("lost", "parts"),
    [
        ((), ("cosine", "dynamax", "vectors")),
        (("tokens",), ("cosine", "vectors")),
        (("dense",), ("dynamax",)),
    ],
)
@pytest.mark.parametrize("trust", [None, (0.25, 0.4)])
def test_scores_are_those_of_auto_over_a_corpus_of_these_texts(lost, parts, trust):
    query, whole = scene()
    pool = replace(whole, **dict.fromkeys(lost))
    settings = AutoSettings(trust=trust)
    ranking = PoolAutoReranker(settings).rerank(query, pool)
    corpus = None if lost == ("dense",) else Ensemble.from_vectors(whole.dense, similarity="cosine")
    auto = AutoReranker(corpus, pool.tokens, settings=replace(settings, lengths=0))
    expected = auto.rerank(query, pool)
    assert ranking.ids == expected.ids
    np.testing.assert_array_equal(ranking.scores, expected.scores)
    assert tuple(ranking.parts) == parts
    assert ranking.notes[0].startswith("a usual score is the mean over the 6 texts at hand")
    assert ranking.notes[1:] == expected.notes


def test_without_vectors_and_tokens_nothing_is_ranked():
    query, pool = scene()
    with pytest.raises(DataError, match="nothing is there to rank 6 candidates by"):
        PoolAutoReranker().rerank(query, replace(pool, dense=None, tokens=None))


@pytest.mark.parametrize("texts", [[], ["wing"], ["wing"] * 7, ["", "", "wing"], [""]])
def test_any_list_has_finite_scores_and_equal_texts_equal_ones(texts: list[str]):
    query, pool = scene(texts)
    ranking = PoolAutoReranker().rerank(query, pool)
    assert len(ranking) == len(texts)
    # No member of n + 1 numbers is more than sqrt(n) deviations above their mean.
    bound = 2.5 * np.sqrt(len(texts) + 1)
    assert all(np.abs(own).max(initial=0.0) <= bound for own in ranking.parts.values())
    if len(set(texts)) == 1:
        assert not ranking.scores.any()
        assert ranking.ids == pool.ids


# What a pool tells about itself.

seeds = st.integers(0, 10_000)


@given(seeds, st.integers(0, 12))
def test_the_best_passage_gives_the_share_of_its_document(seed, n):
    rng = np.random.default_rng(seed)
    total = rng.normal(size=n)
    ids = [f"d{i}" for i in rng.integers(0, max(1, n // 2) + 1, size=n)]
    rows = np.flatnonzero(shares(total, ids)).tolist()
    assert len(rows) == len(set(ids))
    assert all(total[j] == max(total[k] for k in range(n) if ids[k] == ids[j]) for j in rows)


@given(seeds, st.integers(1, 60))
def test_what_the_best_have_is_measured_against_the_whole_pool(seed, n):
    rng = np.random.default_rng(seed)
    total, ids = rng.normal(size=n), [f"d{i}" for i in rng.integers(0, n, size=n)]
    found = contrast(total, ids)
    assert found.sum() == pytest.approx(0.0, abs=1e-12)
    counted = np.flatnonzero(shares(total, ids))
    if len(counted) < 20:
        assert not found.any()
        return
    np.testing.assert_allclose(found[counted], shares(total, ids)[counted] - 1 / len(counted))
    assert not np.delete(found, counted).any()
