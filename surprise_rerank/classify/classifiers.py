"""Classifiers of texts by similarity to labels, plain and by surprise (scikit-learn's interface).

Documents are the keys, labels play q, and the ensemble consists of documents (arXiv 2308.09765). A text gets
the label that it is more similar to than other texts are, instead of the one of the highest raw similarity.
So a broad label does not attract all texts.

The classifiers know labels by their names, without any example (zero-shot), by the centres of their examples'
vectors, or by training on a few examples (`few_shot.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, get_args

from surprise_rerank.classify.few_shot import FewShotTraining
from surprise_rerank.classify.label_classifier import LabelClassifier
from surprise_rerank.classify.labels import DEFAULT_TEMPLATE
from surprise_rerank.core.arrays import FloatArray
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.loading import DEFAULT_MODEL
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight

ClassifierModel: TypeAlias = SurpriseModel | Literal["half-pooled"]

# A label's own variance is partly the labels' difference and partly chance and the texts that have the label.
# Half of the way to the pooled one was chosen by leaving one data set out (docs/classification.md).
_HALF = 0.5
_MODELS: tuple[str, ...] = (*get_args(SurpriseModel), "half-pooled")


class CosineClassifier(LabelClassifier):
    """The label of the highest cosine.

    Args:
        labels: names; or a mapping from a class to its name, to several descriptions (the mean of their
            vectors counts), or to a vector. By default the classes of y: by their names where X are texts and
            the classes are strings, otherwise by the centres of their examples.
        template: the text that a name is put into before it is encoded; None for the name alone.
        encoder: a model's name for `load_encoder`, or an encoder; loaded when a text must be encoded.
        exclusive: whether a text has one label; if not, `predict` returns an indicator.
        threshold: the least cosine of a label that does not exclude others, or of the best label where there
            is a `none_label`.
        none_label: the class of a text whose best label stays under the threshold; None: always the best.
        training: how to learn from y; None: labels are their descriptions, or the centres of the examples.

    >>> import numpy as np
    >>> classifier = CosineClassifier(labels={"fruit": [1.0, 0.0], "tools": [0.0, 1.0]})
    >>> classifier.fit(np.eye(2)).predict([[0.2, 0.9]]).tolist()
    ['tools']
    """

    def _surprise(self) -> Surprise:
        return Surprise(self.ensemble_, weight=0.0)

    def _certainty(self, vectors: FloatArray) -> FloatArray:
        return self._scorer.similarities(vectors)


class SurpriseClassifier(LabelClassifier):
    """The most surprising label: the one that the text is more similar to than other texts are.

    Args:
        labels: this and the next ones are those of `CosineClassifier`.
        template: as there.
        encoder: as there.
        exclusive: as there.
        threshold: the least Sigma_w of a label that does not exclude others, or of the best label where there
            is a `none_label`; .5 by default, as published.
        none_label: as for `CosineClassifier`.
        training: as for `CosineClassifier`.
        model: of the ensemble's similarities: `gaussian`, `pooled`, `percentile` and `empirical` as for
            `Surprise`; `half-pooled` is between the first (published: each label has its own deviation) and
            the second (one for all labels): a label's variance is the mean of both.
        weight: w of (4): a number from 0 (cosine) to 1, or `crossover` for tanh(|E| / 1000), published.

    Attributes:
        weight_: w that is used.

    >>> import numpy as np
    >>> texts = np.array([[0.9, 0.8], [0.8, 0.9], [0.95, 0.7], [0.7, 0.95]])
    >>> labels = {"fruit": [1.0, 0.2], "tools": [0.5, 0.5]}
    >>> CosineClassifier(labels).fit(texts).predict(texts).tolist()
    ['tools', 'tools', 'tools', 'tools']
    >>> SurpriseClassifier(labels, weight=1.0).fit(texts).predict(texts).tolist()
    ['fruit', 'tools', 'fruit', 'tools']
    """

    default_threshold: ClassVar[float | None] = 0.5

    weight_: float

    def __init__(
        self,
        labels: Any = None,
        *,
        template: str | None = DEFAULT_TEMPLATE,
        encoder: str | Encoder = DEFAULT_MODEL,
        exclusive: bool = True,
        threshold: float | None = None,
        none_label: Any = None,
        training: FewShotTraining | None = None,
        model: ClassifierModel = "half-pooled",
        weight: Weight = "crossover",
    ) -> None:
        super().__init__(
            labels,
            template=template,
            encoder=encoder,
            exclusive=exclusive,
            threshold=threshold,
            none_label=none_label,
            training=training,
        )
        self.model = model
        self.weight = weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.model not in _MODELS:
            raise DataError(f"model must be one of {', '.join(_MODELS)}, got {self.model!r}")
        self._of_ensemble(Ensemble.empty(1))

    def _surprise(self) -> Surprise:
        anchors = Ensemble.from_vectors(self.label_vectors_, similarity="cosine")
        return self._of_ensemble(self.ensemble_, anchors)

    def _of_ensemble(self, ensemble: Ensemble, anchors: Ensemble | None = None) -> Surprise:
        if self.model == "half-pooled":
            return Surprise(ensemble, weight=self.weight, shrink_deviation=_HALF, anchors=anchors)
        return Surprise(ensemble, model=self.model, weight=self.weight, anchors=anchors)

    def _rescore(self) -> None:
        super()._rescore()
        self.weight_ = self._scorer.weight

    def _certainty(self, vectors: FloatArray) -> FloatArray:
        return self._scorer.probabilities(vectors)
