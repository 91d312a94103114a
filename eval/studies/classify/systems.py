"""Ways to classify vectors: by the labels' vectors, plain and by surprise, and from examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from surprise_rerank.classify.classifier import ClassifierModel, SurpriseClassifier
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.labelled_models import COSINE, SURPRISE
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Weight

LOGISTIC = "logistic"
# The default of the classifier.
HALF_POOLED = "half-pooled"
_MODELS: Mapping[str, ClassifierModel] = {**SURPRISE, HALF_POOLED: "half-pooled"}
# By the labels' names alone.
ZERO_SHOT = (COSINE, *_MODELS)
# Converges on unit vectors of a hundred classes.
_ITERATIONS = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What a system makes of n texts.

    Attributes:
        places: (n,) places of the classes that were chosen.
        weight: of surprise against the cosine; None for a system that has none.
    """

    places: IntArray
    weight: float | None = None


def by_labels(
    system: str,
    labels: Mapping[str, Float32Array],
    texts: Float32Array,
    ensemble: Ensemble,
    weight: Weight,
) -> Answers:
    """Answers by the similarity to the labels.

    Args:
        system: of `ZERO_SHOT`.
        labels: class -> (d,) vector, in the order of the classes' characters.
        texts: (n, d) vectors.
        ensemble: of vectors that similarities are compared with, under the cosine.
        weight: of surprise.
    """
    if system == COSINE:
        plain = SurpriseClassifier(labels, weight=0.0).fit(texts, ensemble=ensemble)
        return Answers(_places(labels, plain.predict(texts)))
    classifier = SurpriseClassifier(labels, model=_MODELS[system], weight=weight)
    classifier.fit(texts, ensemble=ensemble)
    return Answers(_places(labels, classifier.predict(texts)), float(classifier.weight_))


def logistic_regression(
    examples: Float32Array, truth: IntArray, texts: Float32Array, regularisation: float = 1.0
) -> Answers:
    """Answers of a logistic regression on vectors, to convergence.

    Args:
        examples: (m, d) unit vectors.
        truth: (m,) places of their classes.
        texts: (n, d) unit vectors.
        regularisation: scikit-learn's C; a larger one trusts the examples more.

    Raises:
        DataError: if all examples are of one class.
    """
    if len(np.unique(truth)) < 2:
        raise DataError(f"all {len(truth)} examples are of one class; give some of two at least")
    model = LogisticRegression(C=regularisation, max_iter=_ITERATIONS)
    model.fit(examples.astype(np.float64), truth)
    return Answers(np.asarray(model.predict(texts.astype(np.float64)), dtype=np.int64))


def _places(labels: Mapping[str, Float32Array], chosen: np.ndarray) -> IntArray:
    return np.searchsorted(np.array(list(labels)), chosen).astype(np.int64)
