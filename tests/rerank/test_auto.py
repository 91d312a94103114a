"""The default system: the equations of its module, and what an index is searched with by default."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import Candidates, DataError, Document, DynaMax, Ensemble, FusionReranker, Query
from surprise_rerank._candidates import Inclusion
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems import build_system
from surprise_rerank.connectors.systems._explaining import explain_ranking
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.rerank import Trust
from surprise_rerank.rerank._auto import AUTO, auto_of_texts
from surprise_rerank.rerank._feedback import best_and_others, shares
from surprise_rerank.rerank._scorers import without_length

PARTS = ("bm25", "cosine", "dynamax", "feedback")

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

        self.members, self.sample = vectors(12), tokens(21)
        self.corpus = Ensemble.from_vectors(self.members)
        self.reranker = self.auto()
        self.query = Query("?", vectors(1)[0], rng.normal(size=(3, D)).astype(np.float32))
        self.moments = Moments(np.asarray(1.0), np.asarray(0.7), members=50)
        self.pool = Candidates(
            ids=tuple(f"d{i:02d}" for i in range(n)),
            scores={"bm25": rng.uniform(0.0, 6.0, n)},
            dense=vectors(n),
            tokens=tokens(n),
            corpus_moments={"bm25": self.moments},
        )

    def auto(self, **changes: object) -> FusionReranker:
        settings = replace(AUTO, **changes)
        return settings.reranker(self.corpus, self.sample, words=True)[0]


def z_of(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Deviations of each score above the mean of the others together with itself."""
    joined = [np.append(others, score) for score in scores]
    return np.array([(row[-1] - row.mean()) / row.std() if row.std() > 1e-12 else 0.0 for row in joined])


def even(count: int) -> list[int]:
    """Six of so many places at even distances; all where there are fewer."""
    return np.linspace(0, count - 1, min(6, count)).round().astype(int).tolist()


def expected(drawn: Drawn, trusting: bool) -> tuple[np.ndarray, float]:
    """The score as the module's docstring writes it, a document at a time, and the trust in the vectors."""
    pool, q = drawn.pool, drawn.query.require_dense().astype(np.float64)
    v = pool.require_dense().astype(np.float64)
    n = len(pool)
    members = drawn.members.astype(np.float64)
    z_cosine = z_of(v @ q, members @ q)
    bm25 = np.asarray(pool.scores["bm25"])
    z_bm25 = (bm25 - 1.0) / 0.7
    z_bm25 *= np.sqrt(50 / (51 + z_bm25**2))
    tokens_asked, tokens = drawn.query.require_tokens(), pool.require_tokens()
    inclusion, usual = (DynaMax().pool(tokens_asked, texts, threads=1) for texts in (tokens, drawn.sample))
    corrected, sample = without_length(Inclusion(inclusion, tokens.lengths, usual, drawn.sample.lengths), 0.5)
    z_dynamax = z_of(corrected, sample)

    def best(values: np.ndarray) -> list[int]:
        return sorted(range(n), key=lambda i: -values[i])[: min(10, (n + 1) // 2)]

    most = z_bm25[best(z_bm25)].mean()
    agreed = min(1.0, max(0.0, z_bm25[best(z_cosine)].mean() / most)) if most > 0 else 1.0
    t = 1.0 if trusting else float(min(1.0, max(0.0, (agreed - 0.25) / 0.15)))
    b = 0.5 * z_bm25 + z_dynamax + t * z_cosine + (1 - t) * z_bm25
    if n < 20:
        return b, t  # too few to tell what the best have more of
    nearest, worded = (sorted(range(n), key=lambda i: -values[i]) for values in (v @ q, bm25))
    first = list(dict.fromkeys([*nearest[:6], *[i for i in worded if bm25[i] > 0][:6]]))
    further = []
    for ranked in (nearest, worded):
        left = [i for i in ranked if i not in first]
        further += [left[place] for place in even(len(left))]
    further = list(dict.fromkeys(further))
    ranks = np.array([1 + sum(b[other] > b[i] for other in first) for i in first])
    p = 1 / ranks**2.0
    mean = len(first) / n * v[first].mean(axis=0) + (1 - len(first) / n) * v[further].mean(axis=0)
    f = (p / p.sum()) @ v[first] - mean
    return b + 0.75 * (t * z_of(v @ f, members @ f) + (1 - t) * z_bm25), t


@given(st.integers(0, 10_000), st.integers(1, 40), st.booleans())
def test_the_score_is_the_one_of_the_equations(seed, n, trusting):
    drawn = Drawn(seed, n)
    reranker = drawn.auto(trust=None) if trusting else drawn.reranker
    ranking = reranker.rerank(drawn.query, drawn.pool)
    scores, trust = expected(drawn, trusting)
    np.testing.assert_allclose(ranking.scores, scores[ranking.rows_in(drawn.pool)], atol=1e-4)
    np.testing.assert_allclose(sum(ranking.parts.values()), ranking.scores, atol=1e-9)
    assert tuple(ranking.parts) == PARTS
    assert tuple(ranking.raw) == PARTS[:3]  # feedback does not compare with that of other questions
    assert ["trusted less" in note for note in ranking.notes] == [True] * (trust < 1)


@given(st.integers(0, 10_000), st.integers(1, 40))
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


NO_TOKENS = (("bm25", "cosine", "feedback"), "without token vectors: {} none, so dynamax was left out")


@pytest.mark.parametrize(
    ("query", "pool", "left", "note"),
    [
        ({"tokens": None}, {}, *NO_TOKENS),
        ({}, {"tokens": None}, *NO_TOKENS),
        (
            {},
            {"dense": None},
            ("bm25", "dynamax"),
            "without dense vectors: {} none, so feedback was left out",
        ),
        ({}, {"scores": {}}, PARTS[1:], "without scores of bm25: {} none, so it was left out"),
    ],
)
def test_what_anybody_lacks_is_left_out_and_told(query, pool, left, note):
    drawn = Drawn(1, 12)
    assert drawn.reranker.needs == {"dense", "tokens"}
    ranking = drawn.reranker.rerank(replace(drawn.query, **query), replace(drawn.pool, **pool))
    assert tuple(ranking.parts) == left
    assert ranking.notes[-1] == note.format("the question has" if query else "the candidates have")
    np.testing.assert_allclose(sum(ranking.parts.values()), ranking.scores, atol=1e-9)


def test_a_collection_is_ranked_by_what_it_has():
    drawn = Drawn(1, 12)
    alone = {
        "bm25": AUTO.reranker(None, None, words=True),
        "cosine": AUTO.reranker(drawn.corpus, None, words=False),
        "dynamax": AUTO.reranker(None, drawn.sample, words=False),
    }
    for name, (reranker, feedback) in alone.items():
        assert feedback is None  # a retriever makes it where Qdrant gives the scores
        parts = tuple(reranker.rerank(drawn.query, drawn.pool).parts)
        assert parts == ((name, "feedback") if name == "cosine" else (name,))
    reranker, feedback = AUTO.reranker(drawn.corpus, None, words=True, cosines=True, inclusion=True)
    assert reranker.needs == frozenset()
    assert feedback is not None
    with pytest.raises(DataError, match="scorers"):
        AUTO.reranker(None, None, words=False)


@given(st.integers(0, 10_000), st.floats(0.1, 10), st.floats(0.1, 10), st.sampled_from(["dot", "cosine"]))
def test_the_units_of_vectors_change_no_score(seed, of_query, of_documents, similarity):
    """Collections that compare by Dot may hold vectors of any length."""
    drawn = Drawn(seed, 30)
    settings = replace(AUTO, trust=None)
    plain, _ = settings.reranker(drawn.corpus, None, words=True)
    first = plain.rerank(drawn.query, drawn.pool)
    corpus = Ensemble.from_vectors(drawn.members * of_documents, similarity=similarity)
    second = settings.reranker(corpus, None, words=True)[0].rerank(
        replace(drawn.query, dense=drawn.query.require_dense() * np.float32(of_query)),
        replace(drawn.pool, dense=drawn.pool.require_dense() * np.float32(of_documents)),
    )
    scores = dict(zip(second.ids, second.scores, strict=True))
    np.testing.assert_allclose([scores[name] for name in first.ids], first.scores, atol=2e-3)


def test_where_nobody_is_told_apart_nothing_is_fed_back():
    drawn = Drawn(7, 30)
    silent = replace(drawn.query, dense=np.zeros(D, np.float32), tokens=np.zeros((0, D), np.float32))
    pool = replace(
        drawn.pool, scores={"bm25": np.zeros(30)}, corpus_moments={"bm25": Moments(*np.zeros((2, 1)))}
    )
    ranking = drawn.reranker.rerank(silent, pool)
    assert not ranking.scores.any()
    assert ranking.ids == drawn.pool.ids


@pytest.mark.parametrize("part", PARTS)
def test_weights_are_factors_of_what_is_added(part):
    drawn = Drawn(2, 30)
    reranker = drawn.reranker if part != "bm25" else replace(drawn.reranker, trust=None)
    parts = reranker.parts(drawn.query, drawn.pool)
    weights = dict.fromkeys(PARTS, 1.0) | {"cosine": 2.0} | {part: 0.0}
    ranking = reranker.weighted(weights).rerank(drawn.query, drawn.pool)
    total = sum(weights[name] * part for name, part in parts.items())
    np.testing.assert_allclose(ranking.scores, total[ranking.rows_in(drawn.pool)], atol=1e-9)


@pytest.mark.parametrize(
    ("words", "trust"), [(None, 0.0), (0.0, 1.0), (1.0, 1.0), (1.5, 0.75), (2.0, 0.5), (3.0, 0.0), (9.0, 0.0)]
)
def test_a_word_of_the_question_is_no_evidence_against_the_vectors(words, trust):
    """BM25's best twenty are the last by cosine; that counts with the words that its best score is worth."""
    z = {"cosine": np.linspace(3, -3, 40), "bm25": np.linspace(-3, 3, 40)}
    assert Trust().of(z, range(40), words) == pytest.approx(trust)
    agreeing = {"cosine": z["bm25"], "bm25": z["bm25"]}
    assert Trust().of(agreeing, range(40), words) == 1


def test_numbers_out_of_range_are_told():
    for low, high in ((0.6, 0.5), (-0.1, 0.5), (0.5, 1.5), (math.nan, 0.5)):
        with pytest.raises(DataError, match=r"ascending numbers|from 0 to 1"):
            Trust(low, high)


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([0.0, 0.5, 1.0]))
def test_lengths_lose_a_share_of_what_a_line_through_the_sample_gives(seed, n, share):
    rng = np.random.default_rng(seed)
    lengths, usual_lengths = rng.integers(0, 300, n), rng.integers(0, 300, 20)
    scores, usual = rng.normal(size=n), rng.normal(size=20) + 0.3 * np.log1p(usual_lengths)
    corrected, sample = without_length(Inclusion(scores, lengths, usual, usual_lengths), share)
    few, _ = without_length(Inclusion(scores, lengths, usual[:19], usual_lengths[:19]), share)
    np.testing.assert_array_equal(few, scores)
    slope, _ = np.polyfit(np.log1p(usual_lengths), usual, 1)
    middle = np.log1p(usual_lengths).mean()
    np.testing.assert_allclose(corrected, scores - share * slope * (np.log1p(lengths) - middle), atol=1e-9)
    assert sample.mean() == pytest.approx(usual.mean())
    if share == 1.0:
        assert np.polyfit(np.log1p(usual_lengths), sample, 1)[0] == pytest.approx(0.0, abs=1e-9)


def test_the_best_of_each_list_are_read_and_some_of_the_others():
    best, others = best_and_others("abcdefghijklmnop", "zyabxwvutsrq")
    assert best == [*"abcdefzyxw"]
    assert others == [*"giklnpvutsrq"]
    assert best_and_others("ab", "") == (["a", "b"], [])


# On an index

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]


def documents(count: int) -> list[Document]:
    drawn = np.random.default_rng(count).integers(len(WORDS), size=(count, 6))
    return [Document(f"d{i}", " ".join(WORDS[j] for j in row), WORDS[row[0]]) for i, row in enumerate(drawn)]


def test_an_index_is_searched_by_auto(tmp_path):
    encoder = WordEncoder()
    with DocumentIndex.open(tmp_path / "index", encoder) as index:
        index.sync(documents(60))
        ranking = index.pipeline().search("fox gnu hen")
        assert tuple(ranking.parts) == PARTS
        assert all(hit.text for hit in ranking)
        system = build_system("auto", index.corpus, NO_OPTIONS, None)
        assert system.summary == "auto of bm25, cosine, dynamax, feedback"
        assert system.needs == frozenset()  # scores alone come from Qdrant
        (query,) = encode_queries(encoder, ["fox gnu hen"])
        pool = system.retriever.retrieve(query, 100, system.needs)
        whole = system.reranker.rerank(query, pool)
        assert whole.top(10).ids == ranking.ids
        explained = explain_ranking(system, encoder, query, pool, whole, [0])
        assert {share.name for share in explained.shares} == set(PARTS)
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
    [((), ("cosine", "dynamax")), (("tokens",), ("cosine",)), (("dense",), ("dynamax",))],
)
def test_scores_are_those_of_a_sum_over_a_corpus_of_these_texts(lost, parts):
    query, whole = scene()
    pool = replace(whole, **dict.fromkeys(lost))
    ranking = auto_of_texts().rerank(query, pool)
    corpus = None if lost == ("dense",) else Ensemble.from_vectors(whole.dense)
    reranker, _ = replace(AUTO, lengths=0, weights={}).reranker(corpus, pool.tokens, words=False)
    expected = reranker.rerank(query, pool)
    assert ranking.ids == expected.ids
    np.testing.assert_allclose(ranking.scores, expected.scores, atol=1e-5)
    assert tuple(ranking.parts) == parts
    assert any("the mean over the 6 texts at hand" in note for note in ranking.notes)


def test_without_vectors_and_tokens_nothing_is_ranked():
    query, pool = scene()
    with pytest.raises(DataError, match="the candidates' dense vectors must be there"):
        auto_of_texts().rerank(query, replace(pool, dense=None, tokens=None))


@pytest.mark.parametrize("texts", [[], ["wing"], ["wing"] * 7, ["", "", "wing"], [""]])
def test_any_list_has_finite_scores_and_equal_texts_equal_ones(texts):
    query, pool = scene(texts)
    ranking = auto_of_texts().rerank(query, pool)
    assert len(ranking) == len(texts)
    # No member of n + 1 numbers is more than sqrt(n) deviations above their mean.
    bound = 2.5 * np.sqrt(len(texts) + 1)
    assert all(np.abs(part).max(initial=0.0) <= bound for part in ranking.parts.values())
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
