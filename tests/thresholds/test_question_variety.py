"""Near-duplicates count as one question, and the questions of the package are varied."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.candidates import Candidates, Ranking
from surprise_rerank.errors import DataError
from surprise_rerank.thresholds.background import QuestionBackground
from surprise_rerank.thresholds.scales import lines, lines_without_each
from surprise_rerank.thresholds.varied_questions import (
    NEAR,
    nearest_pair,
    question_shares,
    varied_questions,
)

FOOTBALL = [f"who won the football game of {year}?" for year in range(1980, 2020)]


def background(questions: list[str]) -> QuestionBackground:
    rng = np.random.default_rng(0)
    pool = Candidates(ids=("d",))
    answers = ((q, Ranking.order(pool, rng.normal(size=1))) for q in questions)
    return QuestionBackground.of(answers)


def test_forty_questions_of_one_template_are_one_question_and_measure_no_threshold():
    assert question_shares(FOOTBALL).sum() == pytest.approx(1.0)
    with pytest.raises(DataError, match=r"40 .* count as 1 \(near-duplicates .* 'who won .* 0\.5000"):
        background(FOOTBALL).check(0.95)


def test_a_template_among_others_counts_once():
    others = list(varied_questions(30))
    made = background([*others, *FOOTBALL])
    assert (made.count, made.effective) == (70, pytest.approx(31.0))
    assert made.highest == pytest.approx(31 / 32)
    assert made.size == "70 background questions that count as 31"
    assert background(others).size == "30 background questions"


@given(st.lists(st.text("abc ?", max_size=12), max_size=12))
@settings(max_examples=100, deadline=None)
def test_shares_are_those_of_a_comparison_of_all_pairs(questions: list[str]):
    def grams(text: str) -> set[str]:
        spaced = f" {' '.join(''.join(c if c.isalnum() else ' ' for c in text).split())} "
        return {spaced[i : i + 3] for i in range(len(spaced) - 2)} or {spaced}

    def near(one: str, other: str) -> bool:
        a, b = grams(one), grams(other)
        return len(a & b) >= NEAR * len(a | b)

    expected = [1 / sum(near(own, other) for other in questions) for own in questions]
    np.testing.assert_allclose(question_shares(questions), expected)
    if all(share == 1 for share in expected):
        assert nearest_pair(questions) is None


def test_the_questions_of_the_package_are_of_many_topics_and_none_is_like_another():
    everything = varied_questions(2514)
    assert question_shares(everything).min() == 1.0
    assert varied_questions(300) == everything[:300]
    assert varied_questions(300, seed=1) != varied_questions(300)
    starts = Counter(" ".join(question.lower().split()[:3]) for question in everything)
    assert starts.most_common(1)[0][1] <= 20
    with pytest.raises(DataError, match="there are 2514 varied questions, asked for are 2515"):
        varied_questions(2515)


@given(st.integers(12, 40), st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_lines_without_each_question_are_those_of_the_others(n: int, k: int, seed: int):
    rng = np.random.default_rng(seed)
    best, logs, shares = rng.normal(5, 3, (n, k)), rng.uniform(0, 3, n), rng.uniform(0.2, 1, n)
    best[rng.random((n, k)) < 0.1] = -np.inf
    follows = [bool(flag) for flag in rng.integers(0, 2, k)]
    found = lines_without_each(best, logs, shares, follows)
    for i in range(n):
        keep = np.arange(n) != i
        others = lines(best[keep], logs[keep], shares[keep], follows)
        # A line is given at the mean length of its questions.
        means = others.means + others.slopes * (logs.mean() - logs[keep].mean())
        np.testing.assert_allclose(found.means[i], means, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.slopes[i], others.slopes, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.deviations[i], others.deviations, rtol=1e-6, atol=1e-8)


def test_with_five_heavy_tailed_scorers_no_more_pass_than_are_promised():
    rng = np.random.default_rng(0)
    names, n, trials = [f"s{j}" for j in range(5)], 39, 1500
    pool = Candidates(ids=("d",))
    texts = [f"q{i}" for i in range(n)]

    def ranking(values: np.ndarray) -> Ranking:
        return Ranking.order(pool, values[:1], raw={name: values[j : j + 1] for j, name in enumerate(names)})

    passed = 0
    for _ in range(trials):
        values = np.exp(1.5 * rng.normal(size=(n + 1, 5)))
        made = QuestionBackground.of(zip(texts, map(ranking, values[:-1]), strict=True))
        passed += made.surprise(made.totals_of(ranking(values[-1]), "q"))[0] >= 0.95
    assert passed / trials < 0.065  # 8.5 % if each is measured with scales that it is part of


def test_a_promise_has_the_interval_of_an_order_statistic():
    promise = background(list(varied_questions(300))).promise(0.05)
    rng = np.random.default_rng(0)
    k = int(np.ceil(0.95 * 301))
    shares = 1 - np.sort(rng.random((4000, 300)), axis=1)[:, k - 1]
    np.testing.assert_allclose(np.quantile(shares, [0.025, 0.975]), promise, atol=0.003)
    assert shares.std() == pytest.approx(np.sqrt(0.05 * 0.95 / 302), rel=0.1)
