"""Other questions' best candidates as an ensemble: p-values, thresholds, promises, and the file."""

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import Candidates, DataError, QuestionBackground, Ranking
from surprise_rerank.thresholds import monitor, promise
from surprise_rerank.thresholds._background import lines_of
from surprise_rerank.thresholds.varied_questions import NEAR, question_shares, varied_questions


def ranking(**raw: list[float]) -> Ranking:
    """Documents d0, d1, ... ordered by their first raw score."""
    first = np.array(next(iter(raw.values())), dtype=np.float64)
    pool = Candidates(ids=tuple(f"d{i}" for i in range(len(first))))
    return Ranking.order(pool, np.nan_to_num(first, nan=-1e9), raw={n: np.array(v) for n, v in raw.items()})


def one_score(values: list[float], questions: list[str] | None = None) -> QuestionBackground:
    names = questions or [f"q{i}" for i in range(len(values))]
    return QuestionBackground.of(
        (name, ranking(cosine=[value, -9.0])) for name, value in zip(names, values, strict=True)
    )


def best(background: QuestionBackground, question: str = "a question", **raw: list[float]) -> float:
    """The percentile of the first document."""
    return background.judged(ranking(**raw), question).percentile[0]


def words(count: int, seed: int) -> str:
    """A question of so many random words: questions that are nearly equal count as one."""
    rng = np.random.default_rng([count, seed])
    return " ".join("".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 6)) for _ in range(count))


def test_the_percentile_is_the_share_of_questions_whose_best_document_has_less():
    judged = one_score([0.1 * i for i in range(19)]).judged(ranking(cosine=[0.05, 0.95, 9.0]), "q")
    assert judged.ids == ("d2", "d1", "d0")
    assert judged.percentile.tolist() == [19 / 20, 10 / 20, 1 / 20]
    assert best(one_score([0.5] * 20), cosine=[0.5]) == 0  # it only equals the others


def test_the_percentile_falls_along_a_ranking_whose_order_is_another():
    pool = Candidates(ids=("a", "b", "c"))
    order = Ranking.order(pool, np.array([3.0, 2.0, 1.0]), raw={"cosine": np.array([0.2, 0.9, 0.1])})
    percentiles = one_score(np.linspace(0, 1, 19).tolist()).judged(order, "q").percentile
    assert percentiles[0] == percentiles[1] > percentiles[2]


@given(st.integers(19, 60), st.integers(0, 10_000), st.sampled_from([0.05, 0.1, 0.2]))
def test_no_more_than_alpha_of_the_same_kind_of_questions_pass(count, seed, alpha):
    """Over all ways to leave one of n + 1 questions out, which is what exchangeable means."""
    scores = np.random.default_rng(seed).standard_cauchy(count + 1)
    each = [best(one_score(np.delete(scores, i).tolist()), cosine=[score]) for i, score in enumerate(scores)]
    assert np.mean(np.array(each) >= 1 - alpha - 1e-9) <= alpha + 1e-9


def test_with_five_heavy_tailed_scorers_no_more_pass_than_are_promised():
    rng, names, passed = np.random.default_rng(0), [f"s{j}" for j in range(5)], []
    for _ in range(600):
        *others, new = (
            ranking(**{name: [value] for name, value in zip(names, row, strict=True)})
            for row in np.exp(1.5 * rng.normal(size=(40, 5)))
        )
        background = QuestionBackground.of((f"q{i}", other) for i, other in enumerate(others))
        passed.append(background.judged(new, "q").percentile[0] >= 0.95)
    assert np.mean(passed) < 0.065  # 8.5 % if each is measured with scales that it is part of


@given(st.integers(12, 40), st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_lines_without_each_question_are_those_of_the_others(n, k, seed):
    rng = np.random.default_rng(seed)
    scores, logs, shares = rng.normal(5, 3, (n, k)), rng.uniform(0, 3, n), rng.uniform(0.2, 1, n)
    scores[rng.random((n, k)) < 0.1] = -np.inf
    follows = [bool(flag) for flag in rng.integers(0, 2, k)]
    _, lines = lines_of(scores, logs, shares, follows)
    for i in range(n):
        keep = np.arange(n) != i
        others, _ = lines_of(scores[keep], logs[keep], shares[keep], follows)
        for part, expected in zip(lines, others, strict=True):
            np.testing.assert_allclose(part[i], expected, rtol=1e-6, atol=1e-8)


def test_several_scorers_are_added_in_deviations_of_their_best_with_half_the_weight_for_bm25():
    values = np.random.default_rng(0).normal(size=(40, 2)) * [0.1, 7.0] + [0.5, 20.0]
    background = QuestionBackground.of(
        ("q", ranking(cosine=[cosine, -1.0], bm25=[bm25, 0.0])) for cosine, bm25 in values
    )
    expected = ((np.array([0.9, 10.0]) - values.mean(axis=0)) / values.std(axis=0)) @ [1.0, 0.5]
    assert background.totals_of(ranking(cosine=[0.9], bm25=[10.0]), "q") == pytest.approx([expected])
    missing = background.totals_of(ranking(cosine=[np.nan], bm25=[np.nan]), "q")
    assert missing == pytest.approx([0.0])  # no evidence either way


def test_only_the_mean_of_bm25_follows_the_number_of_words_within_the_lengths_that_are_known():
    rng = np.random.default_rng(0)
    drawn = list(zip(rng.integers(1, 20, 200).tolist(), rng.normal(size=200).tolist(), strict=True))
    background = QuestionBackground.of(
        (words(n, i), ranking(bm25=[5 + 10 * np.log(n) + noise], cosine=[0.1 * n]))
        for i, (n, noise) in enumerate(drawn)
    )
    by_name = dict(zip(background.names, background.scales.slopes, strict=True))
    assert 8 < by_name["bm25"] < 10  # a little less: ten questions of no slope stand against 200
    assert by_name["cosine"] == 0
    most, beyond = (background.means_for(" ".join(["w"] * n)) for n in (19, 500))
    assert beyond.tolist() == most.tolist()


@pytest.mark.parametrize("odd", [0.0, 60.0])
def test_one_question_of_a_length_of_its_own_decides_nothing(odd):
    rng = np.random.default_rng(0)
    answers = [(words(5, i), ranking(bm25=[10 + noise])) for i, noise in enumerate(rng.normal(size=200))]
    background = QuestionBackground.of([*answers, ("a b c d e f", ranking(bm25=[odd]))])
    others = [best(background, "a b c d e f", bm25=[10 + noise]) for noise in rng.normal(size=400)]
    assert np.mean(np.array(others) >= 0.95) < 0.1


def test_a_question_that_equals_all_others_does_not_stand_out_where_one_of_them_is_odd():
    """Scales without a question must not put it below a new one of the same scores."""
    plain, odd = ranking(bm25=[0.0], dynamax=[0.0]), ranking(bm25=[5.0], dynamax=[5.0])
    texts = varied_questions(20)
    background = QuestionBackground.of((text, odd if i == 19 else plain) for i, text in enumerate(texts))
    assert best(background, bm25=[0.0], dynamax=[0.0]) < 0.2


def test_questions_that_found_nothing_count_as_the_least():
    nothing = Ranking((), np.zeros(0))
    answers = [(f"q{i}", ranking(cosine=[float(i)])) for i in range(10)]
    background = QuestionBackground.of([*answers, *((f"r{i}", nothing) for i in range(9))])
    assert background.count == 19
    assert best(background, cosine=[-5.0]) == 9 / 20
    assert len(background.judged(nothing, "q")) == 0


def test_what_cannot_be_told_is_refused():
    background = one_score([float(i) for i in range(19)])
    background.check(0.95)
    few = r"19 background questions measure a percentile of at most 0\.9500.* at least 99 different ones"
    for wrong, message in (
        (0.99, few),
        (1.0, "choose one below 1"),
        (1.5, "from 0 to 1"),
        (np.nan, "from 0 to 1"),
    ):
        with pytest.raises(DataError, match=message):
            background.check(wrong)
    with pytest.raises(DataError, match="9 of 9 background questions found candidates; give at least 10"):
        one_score([1.0] * 9)
    with pytest.raises(DataError, match=r"the scorers of the ranking must be \('cosine',\), got \('bm25',\)"):
        background.judged(ranking(bm25=[1.0]), "q")
    with pytest.raises(DataError, match=r"the scorers of 'odd' must be \('cosine',\), got \('bm25',\)"):
        QuestionBackground.of([("q", ranking(cosine=[1.0]))] * 10 + [("odd", ranking(bm25=[1.0]))])


@given(st.lists(st.text("abc ?", max_size=12), max_size=12))
@settings(max_examples=50, deadline=None)
def test_shares_are_those_of_a_comparison_of_all_pairs(questions):
    def grams(text: str) -> set[str]:
        spaced = f" {' '.join(''.join(c if c.isalnum() else ' ' for c in text).split())} "
        return {spaced[i : i + 3] for i in range(len(spaced) - 2)} or {spaced}

    def near(one: str, other: str) -> bool:
        a, b = grams(one), grams(other)
        return len(a & b) >= NEAR * len(a | b)

    expected = [1 / sum(near(question, other) for other in questions) for question in questions]
    np.testing.assert_allclose(question_shares(questions), expected)


def test_the_questions_of_the_package_are_of_many_topics_and_none_is_like_another():
    everything = varied_questions(2514)
    assert question_shares(everything).min() == 1.0
    assert varied_questions(300) == everything[:300]
    starts = Counter(" ".join(question.lower().split()[:3]) for question in everything)
    assert starts.most_common(1)[0][1] <= 20
    with pytest.raises(DataError, match="count must be a whole number from 1 to 2514, got 2515"):
        varied_questions(2515)


def test_a_promise_has_the_interval_of_an_order_statistic():
    rng = np.random.default_rng(0)
    interval = promise(one_score(rng.normal(size=300).tolist(), list(varied_questions(300))), 0.05)
    shares = 1 - np.sort(rng.random((4000, 300)), axis=1)[:, int(np.ceil(0.95 * 301)) - 1]
    np.testing.assert_allclose(np.quantile(shares, [0.025, 0.975]), interval, atol=0.003)


def test_a_monitor_tells_how_many_questions_are_unrelated_and_whether_they_find_more_or_less():
    rng = np.random.default_rng(0)
    background = one_score(rng.normal(size=300).tolist(), list(varied_questions(300)))

    def told(*shifts: float) -> tuple[float, float, int]:
        values = np.concatenate([rng.normal(shift, 1, 500) for shift in shifts])
        return monitor(background, [best(background, cosine=[value]) for value in values])

    assert told(0) == (pytest.approx(0.05, abs=0.04), pytest.approx(1, abs=0.15), 0)
    assert told(0, 9) == (pytest.approx(0.525, abs=0.04), pytest.approx(0.5, abs=0.1), 0)
    assert [told(shift).drift for shift in (1.5, -1.5)] == [1, -1]
    with pytest.raises(DataError, match="percentiles must be at least one, got none"):
        monitor(background, [])


@given(st.integers(1, 30), st.integers(10, 40))
@settings(max_examples=20, deadline=None)
def test_a_background_comes_back_from_its_bytes(length, count):
    background = QuestionBackground.of(
        (" ".join([f"w{i}"] * length), ranking(bm25=[float(i)])) for i in range(count)
    )
    again = QuestionBackground.from_bytes(background.to_bytes(), "here")
    assert again.to_bytes() == background.to_bytes()
    np.testing.assert_array_equal(again.totals, background.totals)
    assert best(again, bm25=[5.5]) == best(background, bm25=[5.5])


@given(st.integers(0, 2**31), st.integers(0, 255))
@settings(max_examples=100, deadline=None)
def test_any_damage_is_one_error(place, byte):
    whole = one_score([float(i) for i in range(19)]).to_bytes()
    content = bytearray(whole)
    content[place % len(content)] = byte
    for damaged in (bytes(content), content[: place % len(content)]):
        with suppress(DataError):
            assert QuestionBackground.from_bytes(damaged, "here").to_bytes() == whole
