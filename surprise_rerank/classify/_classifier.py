"""A classifier of texts by similarity to labels, by surprise or plain (scikit-learn's interface).

Documents are the keys, labels play q, and the ensemble consists of documents (arXiv 2308.09765). A text gets
the label that it is more similar to than other texts are, instead of the one of the highest raw similarity.
So a broad label does not attract all texts.

It knows labels by their names, without any example (zero-shot), by the centres of their examples' vectors, or
by training on a few examples (`few_shot.py`).
"""

from __future__ import annotations

import copy
import dataclasses
import json
import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, IndexMismatchError
from surprise_rerank.classify._labels import (
    DEFAULT_TEMPLATE,
    Labels,
    centroids,
    check_template,
    classes_in,
    members_of,
)
from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    TrainingHistory,
    fine_tune,
    fit_linear_map,
    mapped,
)
from surprise_rerank.core._files import disk_errors, staged_folder
from surprise_rerank.core.arrays import BoolArray, Float32Array, FloatArray
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.encoders.base import Encoder, Kind, dense_vectors, texts_of
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.score import CROSSOVER_SIZE, Surprise, SurpriseModel, Weight

ClassifierModel: TypeAlias = SurpriseModel | Literal["half-pooled"]

_MODELS: tuple[str, ...] = (*get_args(SurpriseModel), "half-pooled")
# A label's own variance is partly the labels' difference and partly chance and the texts that have the label.
# Half of the way to the pooled one was chosen by leaving one data set out (docs/classification.md).
_HALF = 0.5
# Cosines become logits by this factor, as sentence-transformers' losses have it.
_COSINE_SCALE = 20.0
# Shares that have log odds; float64 separates scores down to the first.
_SMALLEST, _LARGEST = 1e-300, 1 - 1e-16

# The folder of a saved classifier.
_DESCRIPTION, _ARRAYS, _ENSEMBLE, _ENCODER = "classifier.json", "labels.npz", "ensemble.npz", "encoder"
# Parameters that are stored otherwise, or not needed once the labels have vectors.
_STORED_OTHERWISE = ("labels", "encoder", "training")


class SurpriseClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that gives a text the label to which it is more similar than other texts are.

    Args:
        labels: names; or a mapping from a class to its name, to several descriptions (the mean of their
            vectors counts), or to a vector. By default the classes of y: by their names where X are texts and
            the classes are strings, otherwise by the centres of their examples.
        template: the text that a name is put into before it is encoded; None for the name alone.
        encoder: a model's name for `load_encoder`, or an encoder; loaded when a text must be encoded.
        exclusive: whether a text has one label; if not, `predict` returns an indicator.
        threshold: the least Sigma_w (at weight 0, cosine) of a label that does not exclude others, or of the
            best label where there is a `none_label`.
        none_label: the class of a text whose best label stays under the threshold; None: always the best.
        training: how to learn from y; None: labels are their descriptions, or the centres of the examples.
        model: as for `Surprise`, of the ensemble's similarities; in `half-pooled` a label's variance is the
            mean of its own (`gaussian`, published) and of that of all labels (`pooled`).
        weight: w of (4): a number from 0, the plain classifier by the highest cosine, to 1; or `crossover`
            for tanh(|E| / crossover_size), published.
        crossover_size: N_cross of (5).

    Attributes:
        classes_: (L,) what is predicted.
        label_vectors_: (L, d) unit vectors of the labels.
        ensemble_: what similarities are compared with.
        weight_: w that is used.
        encoder_: that was loaded or trained; None if none was needed.
        linear_map_: (d, d) that was trained on frozen vectors; None if there is none.
        history_: of the training; None if there was none.

    >>> import numpy as np
    >>> texts = np.array([[0.9, 0.8], [0.8, 0.9], [0.95, 0.7], [0.7, 0.95]])
    >>> labels = {"fruit": [1.0, 0.2], "tools": [0.5, 0.5]}
    >>> SurpriseClassifier(labels, weight=0.0).fit(texts).predict(texts).tolist()
    ['tools', 'tools', 'tools', 'tools']
    >>> SurpriseClassifier(labels, weight=1.0).fit(texts).predict(texts).tolist()
    ['fruit', 'tools', 'fruit', 'tools']
    """

    classes_: npt.NDArray[Any]
    label_vectors_: Float32Array
    ensemble_: Ensemble
    weight_: float
    encoder_: Encoder | None
    linear_map_: Float32Array | None
    history_: TrainingHistory | None
    # Of the weights that a saved classifier's labels are from; None in one that was fitted here.
    fingerprint_: str | None

    def __init__(
        self,
        labels: Any = None,
        *,
        template: str | None = DEFAULT_TEMPLATE,
        encoder: str | Encoder = DEFAULT_MODEL,
        exclusive: bool = True,
        threshold: float = 0.5,
        none_label: Any = None,
        training: FewShotTraining | None = None,
        model: ClassifierModel = "half-pooled",
        weight: Weight = "crossover",
        crossover_size: float = CROSSOVER_SIZE,
    ) -> None:
        self.labels = labels
        self.template = template
        self.encoder: Any = encoder
        self.exclusive = exclusive
        self.threshold = threshold
        self.none_label = none_label
        self.training = training
        self.model = model
        self.weight = weight
        self.crossover_size = crossover_size

    def fit(self, X: Any, y: Any = None, *, ensemble: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Learn the labels' vectors, and the ensemble that scores are compared with.

        Args:
            X: n texts, or (n, d) vectors.
            y: n classes; n collections of classes or an (n, L) indicator where labels do not exclude each
                other; None for a classification by the labels' descriptions alone.
            ensemble: unlabelled texts, vectors or an `Ensemble` (under the cosine) in place of X. The more
                similar they are to the texts of `predict`, the better.
        """
        self._check_parameters()
        labels = None if self.labels is None else Labels.of(self.labels)
        if labels is not None and self.none_label in labels.classes.tolist():
            raise DataError(f"none_label {self.none_label!r} is a label, too; name it otherwise")
        self.encoder_ = None if isinstance(self.encoder, str) else self.encoder
        self.linear_map_, self.history_, self.fingerprint_ = None, None, None
        texts = texts_of(X)
        examples: FloatArray | list[str]
        if texts is None:
            examples, y = self._checked(X, y, labels)
        else:
            examples = texts
            for name in ("n_features_in_", "feature_names_in_"):  # of vectors of an earlier fit
                self.__dict__.pop(name, None)
        members = self._learn_classes(examples, y, labels)
        if labels is None and texts is not None and self.classes_.dtype.kind == "U":
            labels = Labels.of(self.classes_)
        if self.training is not None and self.training.method == "fine-tune":
            self._fine_tune(texts, members, labels, ensemble)
        vectors = self._encoded(examples)
        if labels is None:
            self.label_vectors_ = centroids(vectors, np.asarray(members))
        else:
            self.label_vectors_ = labels.vectors(self.template, lambda some: self._encode(some, "query"))
        dimension = self.label_vectors_.shape[1]
        border.equal("the dimension of the labels", dimension, vectors.shape[1], "use one model for both")
        if self.training is not None and self.training.method == "linear":
            self.linear_map_, self.history_ = fit_linear_map(
                vectors, np.asarray(members), self.label_vectors_, self.training
            )
            self.label_vectors_ = mapped(self.label_vectors_, self.linear_map_)
        self._set_ensemble(vectors if ensemble is None else ensemble)
        self._fitted = self.get_params(deep=False)
        return self

    def with_ensemble(self, X: Any) -> Self:  # noqa: N803
        """A copy that compares with another ensemble: texts, vectors, or an `Ensemble` of them.

        `predict` scores every text against the stored ensemble, so that its class does not depend on the
        other texts of the call (inductive). `classifier.with_ensemble(X).predict(X)` uses the batch itself
        (transductive), as the paper does.
        """
        check_is_fitted(self, "label_vectors_")
        other = copy.copy(self)
        other._set_ensemble(X)
        return other

    def decision_function(self, X: Any) -> FloatArray:  # noqa: N803
        """(n, L) scores to choose by: z at weight 1, Sigma_w of (4) below it, the cosine at weight 0.

        Of two exclusive classes (n,) log odds of the second, as scikit-learn has it.
        """
        vectors = self._vectors(X)
        if self.exclusive and len(self.classes_) == 2:
            logits = self._logits(vectors)
            return np.asarray(logits[:, 1] - logits[:, 0])
        return self._scorer.scores(vectors)

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """(n,) the best label of each text; (n, L) bool for labels that do not exclude each other."""
        vectors = self._vectors(X)
        if not self.exclusive:
            return np.asarray(self._certainty(vectors) >= self.threshold)
        best = self._scorer.nearest(vectors)
        if self.none_label is None:
            return np.asarray(self.classes_[best])
        certain = self._certainty(vectors)[np.arange(len(best)), best] >= self.threshold
        return np.asarray(np.append(self.classes_, self.none_label)[np.where(certain, best, -1)])

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """(n, L) probabilities.

        For exclusive labels they sum to 1: the softmax of the surprise's log odds, or of 20 times the cosine.
        They order the labels as `predict` does, and are not calibrated. For labels that do not exclude each
        other, each is the number that the threshold is compared with. That is Sigma_w of (4), which at weight
        1 is the share of the ensemble that is less similar to the label, by the model of the score; or at
        weight 0 the cosine (0 where it is negative).
        """
        vectors = self._vectors(X)
        if not self.exclusive:
            return np.clip(self._certainty(vectors), 0.0, 1.0)
        return np.asarray(special.softmax(self._logits(vectors), axis=1))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a fitted classifier to a new folder, whole or not at all: JSON, arrays, a trained encoder."""
        folder = border.path("folder", folder)
        check_is_fitted(self, "label_vectors_")
        target = Path(folder)
        if target.exists():
            raise DataError(f"{target} exists; name a new folder, or remove it first")
        # The parameters of `fit`, whatever they were set to afterwards.
        fitted, training = self._fitted, self._fitted["training"]
        encoder = fitted["encoder"] if isinstance(fitted["encoder"], str) else fitted["encoder"].name
        trained = training is not None and training.method == "fine-tune"
        description = {
            "parameters": {name: value for name, value in fitted.items() if name not in _STORED_OTHERWISE},
            "training": None if training is None else dataclasses.asdict(training),
            "classes": self.classes_.tolist(),
            "n_features_in": getattr(self, "n_features_in_", None),
            "encoder": encoder,
            "fingerprint": self.fingerprint_ if self.encoder_ is None else self.encoder_.fingerprint,
            "trained": trained,
        }
        arrays = {"label_vectors": self.label_vectors_}
        if self.linear_map_ is not None:
            arrays["linear_map"] = self.linear_map_
        what = f"the classifier {target}"
        with staged_folder(target, _DESCRIPTION, what) as draft, disk_errors(what):
            (draft / _DESCRIPTION).write_text(json.dumps(description, default=_number), encoding="utf-8")
            np.savez(draft / _ARRAYS, allow_pickle=False, **arrays)
            self.ensemble_.save(draft / _ENSEMBLE)
            if trained and isinstance(self.encoder_, SentenceTransformerEncoder):
                # A model card would be written by asking the model hub.
                self.encoder_.model.save_pretrained(str(draft / _ENCODER), create_model_card=False)

    @classmethod
    def load(cls, folder: str | PathLike[str], encoder: Encoder | None = None) -> Self:
        """Read what `save` wrote, with an encoder in place of the one that it names; nothing is executed."""
        folder = border.path("folder", folder)
        encoder = None if encoder is None else as_encoder(encoder)
        source = Path(folder)
        try:
            stored = json.loads((source / _DESCRIPTION).read_text(encoding="utf-8"))
            classifier = cls(
                encoder=stored["encoder"] if encoder is None else encoder, **stored["parameters"]
            )
            classifier.training = (
                None if stored["training"] is None else FewShotTraining(**stored["training"])
            )
            classifier.classes_ = np.array(stored["classes"])
            classifier.fingerprint_, classifier.history_ = stored["fingerprint"], None
            if stored["n_features_in"] is not None:
                classifier.n_features_in_ = int(stored["n_features_in"])
            with np.load(source / _ARRAYS, allow_pickle=False) as arrays:
                classifier.label_vectors_ = arrays["label_vectors"]
                classifier.linear_map_ = arrays.get("linear_map")
            ensemble = Ensemble.load(source / _ENSEMBLE)
            # The encoder of another classifier is loaded when a text must be encoded.
            classifier.encoder_ = encoder
            if stored["trained"] and encoder is None:
                classifier.encoder_ = load_encoder(str(source / _ENCODER), trainable=True)
        except FileNotFoundError as error:
            raise DataError(f"{source} holds no saved classifier: {error.filename} is missing") from None
        except (EOFError, OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"{source} is damaged: {error}; save the classifier again") from error
        if classifier.encoder_ is not None:
            classifier._require_same_weights(classifier.encoder_)
        classifier._check_parameters()
        classifier._fitted = classifier.get_params(deep=False)
        classifier._set_ensemble(ensemble, is_mapped=True)
        return classifier

    def _certainty(self, vectors: FloatArray) -> FloatArray:
        """(n, L) what thresholds are compared with."""
        by_cosine = self.weight == 0
        return self._scorer.similarities(vectors) if by_cosine else self._scorer.probabilities(vectors)

    def _logits(self, vectors: FloatArray) -> FloatArray:
        """(n, L) what a softmax makes probabilities of; finite wherever the scores are."""
        scores = self._scorer.scores(vectors).astype(np.float64)
        if self._scorer.weight == 0:
            return np.asarray(_COSINE_SCALE * scores)
        if self._scorer.weight == 1 and self._scorer.model != "empirical":
            return np.asarray(special.log_ndtr(scores) - special.log_ndtr(-scores))
        # Psi_hat leaves [0, 1] for cosines below 0; such scores stay in order.
        inside = np.clip(scores, _SMALLEST, _LARGEST)
        return np.asarray(special.logit(inside) + (scores - inside))

    def _check_parameters(self) -> None:
        check_template(self.template)
        border.flags(exclusive=self.exclusive)
        border.optional(border.instance, "training", self.training, FewShotTraining)
        if not isinstance(self.encoder, str):
            border.able("encoder", self.encoder, "encode", "a model's name or an encoder")
        border.number("threshold", self.threshold)
        if not self.exclusive and self.none_label is not None:
            raise DataError("none_label is for exclusive labels; others are simply all False")
        border.choice("model", self.model, _MODELS)
        self._surprise(Ensemble.empty(1))  # refuses a weight that is none

    def _surprise(self, ensemble: Ensemble, anchors: Ensemble | None = None) -> Surprise:
        """What similarities to labels are turned into."""
        model = self.model
        return Surprise(
            ensemble,
            "gaussian" if model == "half-pooled" else model,
            self.weight,
            shrink_deviation=_HALF if model == "half-pooled" else 0.0,
            anchors=anchors,
            crossover_size=self.crossover_size,
        )

    def _checked(self, X: Any, y: Any, labels: Labels | None) -> tuple[FloatArray, Any]:  # noqa: N803
        """Vectors and classes, refused as scikit-learn does it."""
        if y is None and labels is None:
            # scikit-learn's words, which its checks look for.
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None: "
                "give classes, or labels= to classify by what they are called"
            )
        if y is None or labels is not None or not self.exclusive:
            return self._valid(X, reset=True), y
        if isinstance(y, list):
            classes_in(y)  # scikit-learn would make strings of numbers among strings
        vectors, classes = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(classes)
        return np.asarray(vectors), classes

    def _valid(self, X: Any, *, reset: bool) -> FloatArray:  # noqa: N803
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=reset))

    def _learn_classes(self, examples: Any, y: Any, labels: Labels | None) -> BoolArray | None:
        """Set the classes, and return which example belongs to which: (n, L)."""
        if y is None:
            labels = border.present("y or labels", labels, "give one of them, for the classes")
            if self.training is not None:
                raise DataError("training needs examples: give y, or training=None to classify by names")
            self.classes_ = labels.classes
            return None
        self.classes_ = classes_in(y, self.none_label) if labels is None else labels.classes
        members = members_of(y, self.classes_, self.none_label)
        border.equal("the length of y", len(members), len(examples), "give one for each text or vector")
        return members

    def _fine_tune(
        self, texts: list[str] | None, members: BoolArray | None, labels: Labels | None, ensemble: Any
    ) -> None:
        assert self.training is not None
        if texts is None or members is None:
            raise DataError("fine-tuning needs texts; for vectors give FewShotTraining(method='linear')")
        if ensemble is not None and texts_of(ensemble) is None:
            raise DataError(
                "the ensemble must be texts where the encoder is trained: it changes their vectors"
            )
        described = [] if labels is None else labels.texts(self.template)
        if not described or any(len(group) != 1 for group in described):
            raise DataError("fine-tuning needs one text for every label; give labels={class: text}")
        self.encoder_, self.history_ = fine_tune(
            self._loaded(), texts, members, [text for (text,) in described], self.training
        )

    def _loaded(self) -> Encoder:
        if self.encoder_ is None:
            fine_tuned = self.training is not None and self.training.method == "fine-tune"
            encoder = load_encoder(self.encoder, trainable=fine_tuned)
            self._require_same_weights(encoder)
            self.encoder_ = encoder
        return self.encoder_

    def _require_same_weights(self, encoder: Encoder) -> None:
        if self.fingerprint_ is not None and encoder.fingerprint != self.fingerprint_:
            raise IndexMismatchError(
                f"the labels were encoded by weights {self.fingerprint_}, {encoder.name!r} has "
                f"{encoder.fingerprint}; give the encoder that it was fitted with, or fit it again"
            )

    def _encode(self, texts: Sequence[str], kind: Kind) -> Float32Array:
        return dense_vectors(self._loaded(), texts, kind)

    def _encoded(self, texts_or_vectors: Any) -> FloatArray:
        """Vectors as the encoder makes them, or as they were given."""
        texts = texts_of(texts_or_vectors)
        return np.asarray(texts_or_vectors) if texts is None else self._encode(texts, "document")

    def _vectors(self, X: Any) -> FloatArray:  # noqa: N803
        """Vectors as they are scored."""
        check_is_fitted(self, "label_vectors_")
        texts = texts_of(X)
        vectors = self._valid(X, reset=False) if texts is None else self._encode(texts, "document")
        return vectors if self.linear_map_ is None else mapped(vectors, self.linear_map_)

    def _set_ensemble(self, ensemble: Any, *, is_mapped: bool = False) -> None:
        """Compare with these from now on: texts, vectors, or an `Ensemble`, of mapped vectors or others."""
        dimension = self.label_vectors_.shape[1]
        if isinstance(ensemble, Ensemble):
            if self.linear_map_ is not None and not is_mapped:
                raise DataError("an Ensemble cannot go through the linear map; give its texts or vectors")
            border.equal("the ensemble's similarity", ensemble.similarity, "cosine", "make it of cosines")
            border.equal("the ensemble's dimension", ensemble.dimension, dimension, "use one model for both")
            self.ensemble_ = ensemble
        else:
            vectors = self._encoded(ensemble)
            border.equal("the dimension of the ensemble", vectors.shape[1:], (dimension,), "use one model")
            scored = vectors if self.linear_map_ is None else mapped(vectors, self.linear_map_)
            self.ensemble_ = Ensemble.from_vectors(scored, similarity="cosine")
        anchors = Ensemble.from_vectors(self.label_vectors_, similarity="cosine")
        self._scorer = AnchorScores(self.label_vectors_, self._surprise(self.ensemble_, anchors))
        self.weight_ = self._scorer.weight


def _number(value: object) -> Any:
    """A number of numpy's as Python's, for what json cannot write."""
    if isinstance(value, np.generic):
        return value.item()
    raise DataError(f"{value!r:.60} ({type(value).__name__}) cannot be saved; use strings or numbers")
