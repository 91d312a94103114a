"""What unlabelled vectors tell of cones, means, deviations and hubs: by definition, and where it is known."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.core.arrays import Float32Array, Float64Array, unit_rows
from surprise_rerank.diagnosis.diagnosis import Diagnosis, diagnose
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble


def ensemble(vectors: Float64Array) -> Ensemble:
    return Ensemble.from_vectors(unit_rows(vectors), model="words")


def spread(count: int, seed: int = 0, dimension: int = 24) -> Float64Array:
    """Vectors of all directions."""
    return np.random.default_rng(seed).normal(size=(count, dimension))


def numbers(found: Diagnosis) -> list[float]:
    counts = (found.among_documents, found.among_questions)
    flat = [*asdict(found).values(), *(number for own in counts for number in asdict(own).values())]
    return [number for number in flat if isinstance(number, (int, float))]


def occurrences_by_definition(documents: Float32Array, searching: Float32Array, own: bool) -> list[int]:
    found = [0] * len(documents)
    for row, vector in enumerate(searching.astype(np.float64)):
        nearest = sorted(
            (-float(document @ vector), place)
            for place, document in enumerate(documents.astype(np.float64))
            if not (own and place == row)
        )
        for _, place in nearest[:10]:
            found[place] += 1
    return found


@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), asked=st.integers(2, 30), shift=st.floats(0, 4))
@settings(max_examples=40, deadline=None)
def test_the_numbers_are_those_of_their_definitions(seed: int, n: int, asked: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    axis = shift * rng.normal(size=6)
    d, q = ensemble(axis + rng.normal(size=(n, 6))), ensemble(axis + rng.normal(size=(asked, 6)))
    found = diagnose(d, q)
    cosines = d.sample.astype(np.float64) @ q.sample.astype(np.float64).T
    for own, cone in ((d, found.document_cone), (q, found.question_cone)):
        pairs = own.sample.astype(np.float64) @ own.sample.astype(np.float64).T
        assert cone == pytest.approx(pairs[~np.eye(len(pairs), dtype=bool)].mean(), abs=1e-6)
    assert found.pair_cone == pytest.approx(cosines.mean(), abs=1e-6)

    about = cosines - cosines.mean(axis=0)  # of one question's documents
    left = about.var(axis=1, ddof=1).mean()
    same = max(about.mean(axis=1).var() - left / asked, 0.0)
    assert found.mean_share == pytest.approx(same / (same + left), abs=1e-5)

    if asked >= 4:
        halves = [cosines[:, half::2].var(axis=1) for half in (0, 1)]
        shared = ((halves[0] - halves[0].mean()) * (halves[1] - halves[1].mean())).mean()
        expected = np.sqrt(max(shared, 0) / (halves[0].mean() * halves[1].mean())) / 2
        assert found.deviation_spread == pytest.approx(expected, abs=1e-4)

    for counted, searching, own in ((found.among_documents, d, True), (found.among_questions, q, False)):
        counts = np.array(occurrences_by_definition(d.sample, searching.sample, own))
        assert counted.unfound == pytest.approx((counts == 0).mean())
        assert counted.largest == pytest.approx(counts.max() / searching.count)
        deviation = counts.std()
        skewness = ((counts - counts.mean()) ** 3).mean() / deviation**3 if deviation else 0.0
        assert counted.skewness == pytest.approx(skewness, abs=1e-9)


def test_directions_without_a_preference_have_no_cone_no_common_mean_and_no_hubs() -> None:
    found = diagnose(ensemble(spread(1500)), ensemble(spread(700, seed=1)))
    assert abs(found.document_cone) < 0.005
    assert abs(found.question_cone) < 0.005
    assert abs(found.pair_cone) < 0.005
    assert found.mean_share < 0.005
    assert found.deviation_spread < 0.03
    for counted in (found.among_documents, found.among_questions):
        assert counted.skewness == pytest.approx(counted.chance_skewness, abs=0.4)
        assert counted.unfound == pytest.approx(counted.chance_unfound, abs=0.03)


def test_a_cone_of_known_width_is_told() -> None:
    axis = np.eye(200)[0]
    # Noise at right angles to the axis, as long as the axis times .5: the mean cosine is 1 / (1 + .25).
    noise = unit_rows(np.random.default_rng(0).normal(size=(900, 200)) * (1 - axis)) * 0.5
    found = diagnose(ensemble(axis + noise[:500]), ensemble(axis + noise[500:]))
    assert found.document_cone == pytest.approx(0.8, abs=0.002)
    assert found.question_cone == pytest.approx(0.8, abs=0.002)
    assert found.pair_cone == pytest.approx(0.8, abs=0.002)


def test_documents_that_lie_at_different_heights_raise_the_mean_share() -> None:
    rng = np.random.default_rng(0)
    axis = np.eye(24)[0]
    questions = ensemble(2 * axis + 0.4 * rng.normal(size=(400, 24)))
    shares = [
        diagnose(
            ensemble(axis * rng.normal(size=(600, 1)) * width + rng.normal(size=(600, 24))), questions
        ).mean_share
        for width in (0.0, 1.0, 3.0)
    ]
    assert shares == sorted(shares)
    assert shares[2] > shares[0] + 0.3


def test_hubs_that_were_planted_are_found() -> None:
    rng = np.random.default_rng(0)
    documents, questions = rng.normal(size=(800, 24)), rng.normal(size=(300, 24)) + 0.5
    plain = diagnose(ensemble(documents), ensemble(questions)).among_questions
    documents[:5] = 1 + 0.3 * rng.normal(size=(5, 24))
    planted = diagnose(ensemble(documents), ensemble(questions)).among_questions
    assert planted.skewness > plain.skewness + 2
    assert planted.largest > 0.3
    assert planted.largest > 3 * plain.largest
    assert planted.unfound > plain.unfound > plain.chance_unfound


def test_deviations_of_known_spread_are_told() -> None:
    # Cosines of one half of the documents are +-.6, of the other +-.3: variances .36 and .09.
    documents = np.repeat(np.eye(3)[:2], 50, axis=0)
    signs = np.array([(a, b) for a in (-1, 1) for b in (-1, 1)] * 20, dtype=float)
    questions = np.column_stack([0.6 * signs[:, 0], 0.3 * signs[:, 1], np.full(80, np.sqrt(0.55))])
    questions = questions[np.random.default_rng(0).permutation(80)]
    found = diagnose(ensemble(documents), ensemble(questions))
    assert found.deviation_spread == pytest.approx(0.135 / 0.225 / 2, abs=0.05)


def test_few_questions_do_not_look_like_a_common_mean_or_like_different_deviations() -> None:
    documents = ensemble(spread(400))
    few = [diagnose(documents, ensemble(spread(8, seed))) for seed in range(1, 60)]
    # Without the correction the share would be an eighth, and deviations would differ by about a quarter.
    assert np.mean([own.mean_share for own in few]) < 0.03
    assert np.mean([own.deviation_spread for own in few]) < 0.12

    axis = np.eye(24)[0]
    tilted = 0.6 * axis + 0.4 * np.random.default_rng(2).normal(size=(4000, 24))
    whole = diagnose(documents, ensemble(tilted)).mean_share
    parts = [diagnose(documents, ensemble(tilted[i : i + 10])).mean_share for i in range(0, 1000, 10)]
    assert np.mean(parts) == pytest.approx(whole, abs=0.03)


@pytest.mark.parametrize("documents", [0, 1, 2, 3])
@pytest.mark.parametrize("questions", [0, 1, 2, 3])
def test_next_to_nothing_gives_finite_numbers_and_the_cosine(documents: int, questions: int) -> None:
    found = diagnose(ensemble(spread(documents)), ensemble(spread(questions, seed=1)))
    assert np.isfinite(numbers(found)).all()
    assert found.advice == "cosine"
    assert "too few" in found.reason


@pytest.mark.parametrize(
    ("width", "advice", "told"),
    [
        (30.0, "cosine", "no narrow cone"),
        (0.5, "measure", "a narrow cone"),
        (0.1, "cosine", "hardly differ"),
    ],
)
def test_only_a_narrow_cone_that_leaves_documents_apart_calls_for_surprise(
    width: float, advice: str, told: str
) -> None:
    noise = unit_rows(spread(400)).astype(np.float64) * width
    found = diagnose(ensemble(np.eye(24)[0] + noise[:200]), ensemble(np.eye(24)[0] + noise[200:]))
    assert found.advice == advice
    assert f"is {found.document_cone:.2f}" in found.reason
    assert told in found.reason
    titles = diagnose(ensemble(np.eye(24)[0] + noise[:200]), ensemble(noise[200:]), asked=False)
    assert titles.advice == "cosine", "surprise over titles can lose"
    few = diagnose(ensemble(np.eye(24)[0] + noise[:99]), ensemble(np.eye(24)[0] + noise[200:]))
    assert few.advice == "cosine"
    assert few.reason.startswith("99 documents and 200 questions are too few")


def test_vectors_of_zeros_and_equal_vectors_give_finite_numbers() -> None:
    for documents in (np.zeros((5, 3)), np.ones((5, 3))):
        found = diagnose(ensemble(documents), ensemble(np.ones((6, 3))))
        assert np.isfinite(numbers(found)).all()
        assert found.mean_share == 0
        assert found.deviation_spread == 0


def test_the_order_of_documents_and_questions_does_not_matter() -> None:
    d, q = spread(300) + 1, spread(90, seed=1) + 1
    found, turned = diagnose(ensemble(d), ensemble(q)), diagnose(ensemble(d[::-1]), ensemble(q[::-1]))
    assert numbers(found) == pytest.approx(numbers(turned))


def test_other_lengths_similarities_and_dimensions_are_refused() -> None:
    units = ensemble(spread(5))
    with pytest.raises(DataError, match=r"documents.*length 1.*similarity='cosine'"):
        diagnose(Ensemble.from_vectors(3 * spread(5)), units)
    with pytest.raises(DataError, match=r"questions.*'euclidean'"):
        diagnose(units, Ensemble.from_vectors(spread(5), similarity="euclidean"))
    with pytest.raises(DataError, match="dimension"):
        diagnose(units, ensemble(spread(5, dimension=7)))
