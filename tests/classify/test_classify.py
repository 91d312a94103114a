"""The classifier by similarity to labels: scikit-learn's contract, the published behaviour, the borders."""

import json

import numpy as np
import pandas as pd
import pytest
from helpers.tiny_models import tiny_bert
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, special
from sklearn.utils.estimator_checks import parametrize_with_checks

from surprise_rerank import DataError, Ensemble, IndexMismatchError, SurpriseClassifier
from surprise_rerank.classify.few_shot import FewShotTraining
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

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


def plain(labels: object = None, **more: object) -> SurpriseClassifier:
    """The classifier by the highest cosine."""
    return SurpriseClassifier(labels, weight=0.0, **more)


@parametrize_with_checks([SurpriseClassifier(), plain(), SurpriseClassifier(model="empirical", weight=1.0)])
def test_scikit_learn_takes_it_for_one_of_its_own(estimator, check):
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


# Scores


def test_surprise_undoes_the_pull_of_a_broad_label():
    points, y, labels = cone()
    assert (plain(labels).fit(points).predict(points) == y).mean() < 0.8
    assert (SurpriseClassifier(labels).fit(points).predict(points) == y).mean() > 0.85


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(2, 6), st.floats(0, 4))
def test_half_pooled_takes_the_mean_of_a_labels_variance_and_that_of_all(seed, n, count, narrow):
    rng = np.random.default_rng(seed)
    texts = rng.normal(size=(n, 5)) + narrow * rng.normal(size=5)
    labels = rng.normal(size=(count, 5)) + narrow
    classifier = SurpriseClassifier(dict(enumerate(labels)), weight=1.0, exclusive=False).fit(texts)
    cosine = np.array([[x @ q / (np.linalg.norm(x) * np.linalg.norm(q)) for q in labels] for x in texts])
    own = cosine.var(axis=0)
    expected = (cosine - cosine.mean(axis=0)) / np.sqrt((own + own.mean()) / 2)
    np.testing.assert_allclose(classifier.decision_function(texts), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_a_text_is_scored_against_the_stored_ensemble_and_a_copy_against_its_own(model):
    points, _, labels = cone()
    classifier = SurpriseClassifier(labels, model=model, weight=1.0).fit(points)
    whole = classifier.decision_function(points)
    np.testing.assert_allclose(classifier.decision_function(points[:1])[0], whole[0], rtol=1e-6)
    few = points[:20]
    batch = classifier.with_ensemble(few)
    assert (batch.ensemble_.count, classifier.ensemble_.count) == (20, 300)
    np.testing.assert_array_equal(classifier.decision_function(points), whole)
    fresh = SurpriseClassifier(labels, model=model, weight=1.0).fit(few)
    np.testing.assert_array_equal(batch.predict(few), fresh.predict(few))
    ensemble = Ensemble.from_vectors(points, similarity="cosine")
    given = SurpriseClassifier(labels, model=model, weight=1.0).fit(few, ensemble=ensemble)
    np.testing.assert_allclose(given.decision_function(points), whole)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_probabilities_sum_to_one_and_order_as_scores_do(model, weight):
    points, _, labels = cone()
    classifier = SurpriseClassifier(labels, model=model, weight=weight).fit(points)
    far = np.vstack([points, 50 * np.array(list(labels.values())), -points])
    found = classifier.predict_proba(far)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(classifier.classes_[found.argmax(axis=1)], classifier.predict(far))
    if weight == 0.5:
        shares = classifier.decision_function(far)
        inside = ((shares > 0) & (shares < 1)).all(axis=1)
        assert inside.sum() > 100
        expected = special.softmax(special.logit(shares[inside]), axis=1)
        np.testing.assert_allclose(found[inside], expected, atol=1e-6)


# Labels


def test_labels_that_an_encoder_does_not_tell_apart_are_refused():
    # The mean of word vectors has no order of words, and unknown words have no vector.
    for names in (["bank interest", "interest bank"], ["", " "]):
        with pytest.raises(DataError, match="have the same vector") as error:
            SurpriseClassifier(names, encoder=WordEncoder()).fit(NEWS)
        assert all(repr(name) in str(error.value) for name in names)
    with pytest.raises(DataError, match="the labels 1 and 2 have the same vector"):
        SurpriseClassifier({1: [1.0, 2.0], 2: [2.0, 4.0]}).fit(np.eye(2))


def test_names_in_a_template_need_no_example():
    encoder = WordEncoder()
    classifier = plain(NAMES, template="it is {}", encoder=encoder).fit(NEWS)
    assert set(encoder.encoded_texts[len(NEWS) :]) == {"it is team match", "it is bank interest"}
    expected = ["team match", "team match", "bank interest", "bank interest", "team match", "bank interest"]
    for texts in (NEWS, np.array(NEWS), pd.Series(NEWS, index=range(3, 9))):
        assert classifier.predict(texts).tolist() == expected
    assert SurpriseClassifier(NAMES, encoder=encoder, weight=1.0).fit(NEWS).predict(NEWS).tolist() == expected


def test_a_class_may_have_several_descriptions_and_a_name_may_meet_stored_vectors():
    encoder = WordEncoder()
    labels = {1: ["team", "match"], 2: "bank"}
    by_text = plain(labels, template=None, encoder=encoder).fit(NEWS)
    vectors = encoder.encode(NEWS).dense
    by_vector = plain(labels, template=None, encoder=encoder).fit(vectors)
    assert by_text.predict(NEWS).tolist() == by_vector.predict(vectors).tolist() == [1, 1, 2, 2, 1, 2]
    parts = encoder.encode(["team", "match"]).dense.mean(axis=0)
    np.testing.assert_allclose(by_text.label_vectors_[0], parts / np.linalg.norm(parts), atol=1e-6)


def test_classes_of_y_are_described_by_their_names_or_by_the_centres_of_their_examples():
    encoder = WordEncoder()
    y = [NAMES[0], NAMES[0], NAMES[1], NAMES[1], NAMES[0], NAMES[1]]
    assert plain(encoder=encoder).fit(NEWS, y).predict(NEWS).tolist() == y
    vectors = encoder.encode(NEWS).dense
    centred = plain().fit(vectors, y)
    expected = vectors[[0, 1, 4]].mean(axis=0)
    np.testing.assert_allclose(centred.label_vectors_[1], expected / np.linalg.norm(expected), atol=1e-6)
    numbers = [0, 0, 1, 1, 0, 1]
    by_text = plain(encoder=encoder).fit(NEWS, numbers)
    np.testing.assert_allclose(by_text.label_vectors_[::-1], centred.label_vectors_)
    assert by_text.predict(NEWS).tolist() == numbers


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_labels_that_do_not_exclude_each_other(weight):
    how = {"exclusive": False, "threshold": 0.3, "encoder": WordEncoder(), "template": None, "weight": weight}
    y = [["team"], ["team", "national"], ["bank"], ["bank"], ["team"], []]
    classifier = SurpriseClassifier(**how).fit(NEWS, y)
    assert classifier.classes_.tolist() == ["bank", "national", "team"]
    found = classifier.predict(NEWS)
    assert (found.dtype, found.shape) == (bool, (6, 3))
    np.testing.assert_array_equal(found, classifier.predict_proba(NEWS) >= 0.3)
    names = ["bank", "national", "team"]
    indicator = np.array([[c in row for c in names] for row in y])
    for given_ in (indicator, indicator.astype(int), sparse.csr_array(indicator), pd.DataFrame(indicator)):
        again = SurpriseClassifier(names, **how).fit(NEWS, given_)
        np.testing.assert_array_equal(again.predict(NEWS), found)


def test_a_text_of_no_label_is_told_so():
    encoder = WordEncoder()
    classifier = SurpriseClassifier(
        NAMES, template=None, encoder=encoder, weight=1.0, none_label="none of these", threshold=0.7
    ).fit(NEWS)
    found = classifier.predict([NAMES[0], NAMES[1], "entirely other words here"])
    assert found.tolist() == ["team match", "bank interest", "none of these"]
    by_cosine = plain(NAMES, template=None, encoder=encoder, none_label="none").fit(NEWS)
    assert by_cosine.predict(["entirely other words", "bank interest"]).tolist() == ["none", "bank interest"]
    y = ["team match", "none", "bank interest", "bank interest", "none", "none"]
    learnt = plain(encoder=encoder, none_label="none").fit(NEWS, y)
    assert learnt.classes_.tolist() == ["bank interest", "team match"]


# What is refused


def test_what_cannot_be_used_is_refused_in_one_line():
    encoder = WordEncoder()
    points, y, labels = cone()
    own = Ensemble.from_vectors(points, similarity="cosine")
    trained = SurpriseClassifier(labels, training=LINEAR)
    several = plain(labels, exclusive=False)
    for message, call in {
        "same description": lambda: plain(["a", "b", "a"]).fit(points),
        "labels must be at least one, got none": lambda: plain([]).fit(points),
        "must be a list of names": lambda: plain("sport").fit(points),
        "expected a text, a list of texts, or a vector": lambda: plain({"a": 3}).fit(points),
        r"a label must be a string or a number, got \('a', 1\)": lambda: plain({("a", 1): [1.0, 0.0]}).fit(
            np.eye(2)
        ),
        "exactly once": lambda: plain(NAMES, template="this").fit(NEWS),
        r"\{\} exactly once": lambda: plain(NAMES, template="{:>9}").fit(NEWS),
        r"exactly once, got '\{'": lambda: plain(NAMES, template="{").fit(NEWS),
        "one of the labels: team, bank, got 'art'": lambda: plain(["team", "bank"], encoder=encoder).fit(
            NEWS, ["art"] * 6
        ),
        "requires y to be passed": lambda: plain().fit(points),
        "y or labels must be there, got None": lambda: plain(encoder=encoder).fit(NEWS),
        "X must be a list of texts, got 'the team'": lambda: plain(NAMES, encoder=encoder).fit("the team"),
        r"X\[1\] must be a string, got 3": lambda: plain(NAMES, encoder=encoder).fit(["a", 3]),
        "the length of y must be 6, got 2": lambda: plain(encoder=encoder).fit(NEWS, NAMES),
        "none_label is for exclusive": lambda: plain(NAMES, exclusive=False, none_label="x").fit(NEWS),
        "is a label, too": lambda: plain(["a", "b"], none_label="b").fit(NEWS),
        "number from 0 to 1, got 2": lambda: SurpriseClassifier(labels, weight=2).fit(points),
        "training needs examples": lambda: plain(labels, training=FewShotTraining()).fit(points),
        "fine-tuning needs texts": lambda: plain(labels, training=FewShotTraining()).fit(points, y),
        "one text for every label": lambda: plain(encoder=encoder, training=FewShotTraining()).fit(
            NEWS, [0, 0, 1, 1, 0, 1]
        ),
        "dimension of the labels must be 12, got 16": lambda: plain(NAMES, encoder=encoder).fit(points),
        "dimension of label 1 must be 2, got 3": lambda: plain({"a": [1.0, 2], "b": [1.0, 2, 3]}).fit(points),
        "similarity must be 'cosine', got 'dot'": lambda: plain(labels).fit(
            points, ensemble=Ensemble.from_vectors(points)
        ),
        r"dimension of the ensemble must be \(12,\), got \(4,\)": lambda: (
            plain(labels).fit(points).with_ensemble(np.ones((3, 4)))
        ),
        "cannot go through the linear map": lambda: trained.fit(points, y, ensemble=own),
        "go through the linear": lambda: trained.fit(points, y).with_ensemble(own),
        "labels for the columns of y must be there, got None": lambda: plain(exclusive=False).fit(
            points, np.eye(3)[y]
        ),
        "with 3 columns": lambda: several.fit(points, np.zeros((300, 2))),
        "a class in y must be a string or a number, got None": lambda: plain(encoder=encoder).fit(
            NEWS, ["a", None, "b", "a", "b", "a"]
        ),
        "y must be strings or numbers, got .* use either for all classes": lambda: plain().fit(
            np.eye(6), ["a", 1, "b", "a", "b", "a"]
        ),
        "classes in y must be at least one, got none": lambda: plain(encoder=encoder, none_label="none").fit(
            NEWS, ["none"] * 6
        ),
    }.items():
        with pytest.raises(DataError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


# Fitting again, saving


def test_fitting_again_forgets_and_parameters_set_later_do_not_count(tmp_path):
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


@pytest.mark.parametrize("training", [None, FewShotTraining(method="linear", max_epochs=30)])
def test_a_saved_classifier_answers_as_before(tmp_path, training):
    encoder = WordEncoder()
    y = [1, 1, 2, 2, 1, 2]
    classifier = SurpriseClassifier({1: NAMES[0], 2: NAMES[1]}, encoder=encoder, training=training)
    classifier.fit(NEWS, y).save(tmp_path / "saved")
    loaded = SurpriseClassifier.load(tmp_path / "saved", encoder=encoder)
    np.testing.assert_array_equal(loaded.decision_function(NEWS), classifier.decision_function(NEWS))
    np.testing.assert_array_equal(loaded.predict(NEWS), classifier.predict(NEWS))
    assert loaded.classes_.dtype == classifier.classes_.dtype
    with pytest.raises(DataError, match="exists; name a new folder"):
        classifier.save(tmp_path / "saved")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saved"]


def test_a_saved_classifier_refuses_other_weights_and_damaged_files(tmp_path):
    SurpriseClassifier(NAMES, encoder=WordEncoder()).fit(NEWS).save(tmp_path / "saved")
    with pytest.raises(IndexMismatchError, match="weights 0, 'words' has 1"):
        SurpriseClassifier.load(tmp_path / "saved", encoder=WordEncoder(fingerprint="1"))
    with pytest.raises(DataError, match="holds no saved classifier"):
        SurpriseClassifier.load(tmp_path / "other")
    arrays = tmp_path / "saved" / "labels.npz"
    whole = arrays.read_bytes()
    for content in (b"nothing", b"", whole[: len(whole) // 2]):
        arrays.write_bytes(content)
        with pytest.raises(DataError, match="damaged"):
            SurpriseClassifier.load(tmp_path / "saved", encoder=WordEncoder())
    (tmp_path / "saved" / "classifier.json").write_text(json.dumps({"classes": []}))
    with pytest.raises(DataError, match="damaged"):
        SurpriseClassifier.load(tmp_path / "saved", encoder=WordEncoder())


# Training


def test_a_fine_tuned_classifier_learns_and_is_saved_with_its_encoder(tmp_path):
    texts, y = NEWS, ["sport", "sport", "money", "money", "sport", "money"]
    words = sorted({word for text in [*texts, "sport", "money"] for word in text.split()})
    encoder = SentenceTransformerEncoder(tiny_bert(tmp_path, words), "tiny")
    training = FewShotTraining(learning_rate=3e-3)
    classifier = SurpriseClassifier(encoder=encoder, training=training)
    with pytest.raises(DataError, match="the ensemble must be texts"):
        classifier.fit(texts, y, ensemble=np.eye(16))
    classifier.fit(texts, y)
    assert classifier.history_.reached
    assert classifier.encoder_ is not encoder
    assert classifier.predict(texts).tolist() == y
    classifier.save(tmp_path / "saved")
    loaded = SurpriseClassifier.load(tmp_path / "saved")
    np.testing.assert_allclose(
        loaded.decision_function(texts), classifier.decision_function(texts), atol=1e-4
    )
    assert loaded.training == training


@pytest.mark.parametrize("weight", [0.0, "crossover"])
def test_a_linear_map_learns_from_frozen_vectors(weight):
    points, y, labels = cone(classes=4)
    training = FewShotTraining(method="linear", max_epochs=60)
    untrained = SurpriseClassifier(labels, weight=weight).fit(points, y)
    trained = SurpriseClassifier(labels, weight=weight, training=training)
    trained.fit(points[:60], y[:60], ensemble=points)
    assert trained.ensemble_.count == 300
    rest = points[60:]
    assert (trained.predict(rest) == y[60:]).mean() > (untrained.predict(rest) == y[60:]).mean()
