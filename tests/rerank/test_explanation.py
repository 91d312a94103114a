"""How a ranking comes about: token matches, distributions, shares, and what an index adds to them."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError, Document, DynaMax, Passages, Pipeline, QuestionBackground, Ranking
from surprise_rerank._explanation import RankingExplanation, ScoreDistribution, ScorerShare, span
from surprise_rerank.connectors.qdrant import Bm25, DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems import build_system
from surprise_rerank.connectors.systems._explaining import explain_ranking
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch, pooled_tokens
from surprise_rerank.similarities._token_matches import token_matches

WORDS = (
    *("dogs", "bark", "cats", "sleep", "wings", "lift", "air", "birds"),
    *("sing", "trees", "night", "owners", "hunt", "mice", "quick", "strangers"),
)
ENCODER = WordEncoder(dimension=16, window=200)
QUESTION = "why do dogs bark at night"


# Tokens


def tokens(seed: int, count: int, dimension: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)


@pytest.mark.parametrize("pooling", [1, 3])
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(0, 30))
def test_the_contributions_sum_to_the_score_of_what_is_stored(pooling, seed, m, k):
    query = tokens(seed, m, 24)
    stored = pooled_tokens(TokenBatch.from_arrays([tokens(seed + 1, k, 24)], 24), pooling, 2)
    matches = token_matches(query, stored, [f"q{i}" for i in range(m)], [f"d{i}" for i in range(k)])
    score = DynaMax().pool(query, stored)[0]
    # The fast product rounds the question to whole numbers, which few components show.
    assert sum(match.contribution for match in matches) == pytest.approx(score, abs=1e-2)
    for match in matches:
        assert 0 <= match.similarity <= 1
        assert (match.match in match.members) == (match.match is not None)
        if match.position is not None and stored.members is not None:
            owners = stored.members.text(0)
            merged = np.flatnonzero(owners == owners[match.position])
            assert match.members == tuple(f"d{i}" for i in merged)


def test_a_match_of_merged_tokens_shows_the_words_that_were_merged():
    heart, wing = [1.0, 0.0, 0.1], [0.0, 1.0, 0.0]
    batch = TokenBatch.from_arrays([np.array([wing, heart, heart, [1.0, 0.01, 0.1], wing])])
    merged = pooled_tokens(batch, 2.5, 1)
    words = ["wing", "cardiac", "Heart", "attack", "wing"]
    same, first, twice = token_matches(
        np.array([heart, heart, wing]), merged, ["heart", "valve", "lift"], words
    )
    assert (same.match, same.position, same.members) == ("Heart", 2, ("cardiac", "Heart", "attack"))
    assert same.matched(5) == "Heart · cardiac · attack"
    assert same.matched(2) == "Heart · cardiac ..."
    assert (first.match, first.position) == ("cardiac", 1)
    assert (twice.match, twice.position, twice.members) == ("wing", 0, ("wing", "wing"))
    assert twice.matched(2) == "wing"
    (nothing,) = token_matches(-np.array([heart]), merged, ["x"], words)
    assert nothing.matched(3) == ""
    assert nothing.members == ()
    for document, count in ((merged, 5), (batch[0], 5)):
        with pytest.raises(DataError, match=rf"the document's words must be {count}, got 2"):
            token_matches(np.array([heart]), document, ["x"], ["b", "c"])


# Distributions


def distribution(values: list[float], scorer: str = "cosine", anchor: str | None = None) -> ScoreDistribution:
    sample = np.array(values)
    finite = sample[np.isfinite(sample)]
    return ScoreDistribution(scorer, "some", sample, Moments(finite.mean(), finite.std()), anchor)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300))
def test_every_value_of_a_sample_stands_in_its_histogram(values):
    drawn = distribution(values)
    histogram = drawn.histogram()
    assert histogram.counts.sum() == len(values)
    assert 8 <= len(histogram.counts) <= 40
    low, high = span(drawn)
    assert low <= min(values) <= max(values) <= high


# Explanations


def test_ranks_before_are_those_of_one_scorer_alone():
    ranking = Ranking(("a", "b", "c", "d"), np.array([4.0, 3.0, 2.0, 1.0]))
    raw = np.array([0.1, np.nan, 0.7, 0.1])
    share = ScorerShare("cosine", raw, Moments(np.array(0.2), np.array(0.1)), 0.0, np.zeros(4))
    explanation = RankingExplanation(
        "q", ranking, (0, 1, 2), (share,), ("cosine",), (distribution([0.1, 0.3]),)
    )
    assert explanation.before("cosine") == [2, None, 1, 2]
    assert explanation.places(explanation.distributions[0]) == [(1, 0.1), (3, 0.7)]
    first, second, third = json.loads(json.dumps(explanation.to_json(), allow_nan=False))["candidates"]
    assert [c["before"]["cosine"] for c in (first, second, third)] == [2, None, 1]
    assert second["scorers"]["cosine"]["raw"] is None
    assert third["scorers"]["cosine"]["z"] == pytest.approx(5.0)
    assert first["tokens"] is first["total"] is first["percentile"] is None


# Of an index


def documents(count: int = 40) -> list[Document]:
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(WORDS, size=12 if i % 5 else 60)) for i in range(count)]
    return [Document(f"d{i:02}", text, title=f"Note {i}") for i, text in enumerate(texts)]


@pytest.fixture(scope="module", params=[None, Passages(tokens=20, overlap=4)], ids=["whole", "passages"])
def index(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DocumentIndex]:
    options = IndexOptions(
        passages=request.param,
        bm25=Bm25(),
    )
    with DocumentIndex.open(tmp_path_factory.mktemp("i") / "index", ENCODER, options=options) as opened:
        opened.sync(documents())
        opened.set_ensemble(opened.ensemble(), source="documents")
        yield opened


def explained(
    index: DocumentIndex, name: str, background: QuestionBackground | None = None
) -> RankingExplanation:
    system = build_system(name, index.corpus, NO_OPTIONS, None)
    answer = Pipeline(ENCODER, system.retriever, system.reranker, background=background).answer(
        QUESTION, None
    )
    ranking = answer.shown.with_scores_of(answer.pool)
    return explain_ranking(system, ENCODER, answer.query, answer.pool, ranking, range(5), background)


@pytest.mark.parametrize("name", ["cosine", "surprise", "dynamax", "fusion", "bm25"])
def test_what_the_scorers_gave_sums_to_the_score(index, name):
    explanation = explained(index, name)
    total = np.sum([share.contribution for share in explanation.shares], axis=0)
    np.testing.assert_allclose(total, explanation.ranking.scores, atol=1e-6)
    assert {entry.scorer for entry in explanation.distributions} == {
        share.name for share in explanation.shares
    }
    json.dumps(explanation.to_json(), allow_nan=False)


def test_surprise_has_each_documents_own_distribution(index):
    explanation = explained(index, "surprise")
    share = explanation.share("surprise")
    np.testing.assert_allclose(share.z, explanation.ranking.scores, atol=2e-5)
    anchored = [entry for entry in explanation.distributions if entry.anchor is not None]
    assert [entry.anchor for entry in anchored] == list(explanation.ranking.ids[:3])
    for row, entry in enumerate(anchored):
        # Of so few members, all are in the sample.
        assert entry.sample.mean() == pytest.approx(float(entry.moments.mean), abs=1e-5)
        assert entry.sample.std() == pytest.approx(float(entry.moments.deviation), abs=1e-5)
        assert explanation.places(entry) == [(row + 1, pytest.approx(float(share.raw[row])))]


def test_tokens_are_those_of_the_passage_and_sum_to_its_score(index):
    explanation = explained(index, "fusion")
    similar = explanation.share("dynamax").raw
    assert sorted(explanation.matches) == list(range(5))
    for row, matches in explanation.matches.items():
        assert [match.token for match in matches] == QUESTION.split()
        assert sum(match.contribution for match in matches) == pytest.approx(similar[row], abs=2e-3)
        content = explanation.ranking.documents[row].content.lower().split()
        for match in matches:
            assert match.match in content
            if match.token in content and explanation.ranking.passages is None:
                assert match.match == match.token
                assert match.similarity == pytest.approx(1.0, abs=2e-3)


def test_a_background_gives_totals_their_place(index):
    rng = np.random.default_rng(5)
    words = ["tax", "law", "bank", "loan", "rate"]
    others = [" ".join(rng.choice(words, size=size)) for size in rng.integers(1, 9, size=40)]
    background = index.pipeline("fusion").with_background(others, scorer="test").current_background()
    explanation = explained(index, "fusion", background)
    assert len(explanation.totals.sample) == 40
    written = json.loads(json.dumps(explanation.to_json(), allow_nan=False))
    assert written["background"]["count"] == 40
    assert sum(written["background"]["histogram"]["counts"]) + written["background"]["found_nothing"] == 40
    best = written["candidates"][0]
    for hit in written["candidates"]:
        total = sum(
            scorer["weight"] * (hit["raw"][scorer["name"]] - scorer["mean"]) / scorer["deviation"]
            for scorer in written["background"]["scorers"]
        )
        assert hit["total"] == pytest.approx(total)
    assert max(hit["percentile"] for hit in written["candidates"]) == best["percentile"]
    assert explanation.total_places()[0] == (1, best["total"])
