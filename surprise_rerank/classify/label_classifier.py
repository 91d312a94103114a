"""What both classifiers by labels share: labels, training, the ensemble, predictions and saved folders."""

from __future__ import annotations

import copy
import dataclasses
import json
import zipfile
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from surprise_rerank.classify.few_shot import FewShotTraining, TrainingHistory
from surprise_rerank.classify.finetune import fine_tune, save_model
from surprise_rerank.classify.labels import (
    DEFAULT_TEMPLATE,
    Labels,
    centroids,
    check_template,
    class_array,
    classes_in,
    has_strings_and_numbers,
    members_of,
)
from surprise_rerank.classify.linear_map import LinearMap, fit_linear_map
from surprise_rerank.core.arrays import BoolArray, Float32Array, FloatArray
from surprise_rerank.core.files import whole_folder
from surprise_rerank.encoders.base import Encoder, Kind
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.encoders.text_vectors import dense_vectors, texts_of
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise

Progress = Callable[[int], None]
# Cosines become logits by this factor, as sentence-transformers' losses have it.
_COSINE_SCALE = 20.0
# Shares that have log odds; float64 separates scores down to the first.
_SMALLEST, _LARGEST = 1e-300, 1 - 1e-16

# The folder of a saved classifier.
_FORMAT = 1
_DESCRIPTION, _ARRAYS, _ENSEMBLE, _ENCODER = "classifier.json", "labels.npz", "ensemble.npz", "encoder"
# Parameters that are stored elsewhere, or not needed once the labels have vectors.
_STORED_ELSEWHERE = ("labels", "encoder", "training")


class LabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A text gets the label of its highest score; subclasses define the score.

    Attributes:
        classes_: (L,) what is predicted.
        label_vectors_: (L, d) unit vectors of the labels.
        ensemble_: what similarities are compared with.
        encoder_: that was loaded or trained; None if none was needed.
        linear_map_: that was trained on frozen vectors; None if there is none.
        history_: of the training; None if there was none.
    """

    classes_: npt.NDArray[Any]
    label_vectors_: Float32Array
    ensemble_: Ensemble
    encoder_: Encoder | None
    linear_map_: LinearMap | None
    history_: TrainingHistory | None
    # Of the weights that a saved classifier's labels are from; None in one that was fitted here.
    fingerprint_: str | None

    default_threshold: ClassVar[float | None] = None

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
    ) -> None:
        self.labels = labels
        self.template = template
        self.encoder: Any = encoder
        self.exclusive = exclusive
        self.threshold = threshold
        self.none_label = none_label
        self.training = training

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Any = None,
        *,
        ensemble: Any = None,
        on_progress: Progress | None = None,
    ) -> Self:
        """Learn the labels' vectors, and the ensemble that scores are compared with.

        Args:
            X: n texts, or (n, d) vectors.
            y: n classes; n collections of classes or an (n, L) indicator where labels do not exclude each
                other; None for a classification by the labels' descriptions alone.
            ensemble: unlabelled texts, vectors or an `Ensemble` (under the cosine) in place of X. The more
                similar they are to the texts of `predict`, the better.
            on_progress: called with the number of texts of every encoded batch or training step.

        Returns:
            The classifier itself.

        Raises:
            DataError: if the input or a parameter cannot be used.
            ModelError: if the encoder cannot be loaded or trained.
        """
        self._check_parameters()
        labels = None if self.labels is None else Labels.of(self.labels)
        if labels is not None and self.none_label in labels.classes.tolist():
            raise DataError(f"none_label {self.none_label!r} is a label, too; name it otherwise")
        self.encoder_ = None if isinstance(self.encoder, str) else self.encoder
        self.linear_map_, self.history_, self.fingerprint_ = None, None, None
        texts = texts_of(X)
        examples, y = (texts, y) if texts is not None else self._checked(X, y, labels)
        if texts is not None:
            self._forget_features()
        members = self._learn_classes(examples, y, labels)
        if ensemble is not None:
            self._require_untrained(ensemble)
        if labels is None and texts is not None and self.classes_.dtype.kind in "UT":
            labels = Labels.of(self.classes_)
        self._fine_tune(texts, members, labels, on_progress)
        vectors = self._encoded(examples, on_progress)
        self.label_vectors_ = self._find_label_vectors(vectors, members, labels)
        self._fit_map(vectors, members, on_progress)
        self._set_ensemble(vectors if ensemble is None else ensemble, on_progress)
        self._fitted = self.get_params(deep=False)
        return self

    def with_ensemble(self, X: Any, on_progress: Progress | None = None) -> Self:  # noqa: N803
        """A copy of the fitted classifier that compares with another ensemble.

        `predict` scores every text against the stored ensemble, so that its class does not depend on the
        other texts of the call (inductive). `classifier.with_ensemble(X).predict(X)` uses the batch itself
        (transductive), as the paper does.

        Args:
            X: texts; vectors of `encoder_`; or an `Ensemble` of such vectors under the cosine, where no
                linear map was trained.
            on_progress: called with the number of texts of every encoded batch.

        Raises:
            DataError: if it cannot be used.
        """
        check_is_fitted(self, "label_vectors_")
        other = copy.copy(self)
        other._set_ensemble(X, on_progress)
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
            return np.asarray(self._certainty(vectors) >= self._threshold())
        best = self._scorer.nearest(vectors)
        if self.none_label is None:
            return np.asarray(self.classes_[best])
        found = class_array([*self.classes_.tolist(), self.none_label])
        certain = self._certainty(vectors)[np.arange(len(best)), best] >= self._threshold()
        return np.asarray(found[np.where(certain, best, len(self.classes_))])

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """(n, L) probabilities.

        For exclusive labels they sum to 1: the softmax of the surprise's log odds, or of 20 times the cosine.
        They order the labels as `predict` does, and are not calibrated. For labels that do not exclude each
        other, each is the number that the threshold is compared with. That is Sigma_w of (4), which at weight
        1 is the share of the ensemble that is less similar to the label, by the model of the score; or the
        cosine (0 where it is negative).
        """
        vectors = self._vectors(X)
        if not self.exclusive:
            return np.clip(self._certainty(vectors), 0.0, 1.0)
        return np.asarray(special.softmax(self._logits(vectors), axis=1))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a fitted classifier to a new folder, whole or not at all: JSON, arrays, a trained encoder.

        Raises:
            DataError: if the folder exists, or a class or parameter cannot be written as JSON.
        """
        check_is_fitted(self, "label_vectors_")
        target = Path(folder)
        if target.exists():
            raise DataError(f"{target} exists; name a new folder, or remove it first")
        description = json.dumps(self._description(), indent=1, default=_as_json)
        arrays: dict[str, Any] = {"label_vectors": self.label_vectors_}
        if self.linear_map_ is not None:
            arrays["linear_map"] = self.linear_map_.weights
        try:
            with whole_folder(target) as draft:
                (draft / _DESCRIPTION).write_text(description, encoding="utf-8")
                np.savez(draft / _ARRAYS, **arrays)
                self.ensemble_.save(draft / _ENSEMBLE)
                if self._has_trained_encoder():
                    self._save_encoder(draft / _ENCODER)
        except OSError as error:
            raise DataError(f"cannot write the classifier {target}: {error.strerror or error}") from error

    @classmethod
    def load(cls, folder: str | PathLike[str], encoder: Encoder | None = None) -> Self:
        """Read what `save` wrote; nothing in it is executed.

        Args:
            folder: that was written.
            encoder: in place of loading the one that the folder names.

        Raises:
            DataError: if the folder holds no such classifier, or is damaged.
            IndexMismatchError: if the encoder has other weights than the one that the labels are from.
        """
        source = Path(folder)
        try:
            stored = json.loads((source / _DESCRIPTION).read_text(encoding="utf-8"))
            if stored["format"] != _FORMAT or stored["class"] != cls.__name__:
                raise DataError(
                    f"{source} holds a {stored['class']} of format {stored['format']}, expected a "
                    f"{cls.__name__} of format {_FORMAT}"
                )
            training = None if stored["training"] is None else FewShotTraining(**stored["training"])
            found = cls(encoder=stored["encoder"] if encoder is None else encoder, **stored["parameters"])
            found.classes_ = class_array(stored["classes"])
            found.fingerprint_, trained = stored["fingerprint"], bool(stored["trained"])
            history = stored["history"]
            if history is not None:
                history = TrainingHistory(**{**history, "losses": tuple(history["losses"])})
            found.history_ = history
            if stored["n_features_in"] is not None:
                found.n_features_in_ = int(stored["n_features_in"])
            with np.load(source / _ARRAYS, allow_pickle=False) as arrays:
                found.label_vectors_ = np.asarray(arrays["label_vectors"], dtype=np.float32)
                has_map = "linear_map" in arrays
                found.linear_map_ = LinearMap(np.asarray(arrays["linear_map"])) if has_map else None
            classes, vectors = len(found.classes_), len(found.label_vectors_)
            if classes != vectors:
                raise DataError(f"{source} is damaged: {classes} classes, {vectors} vectors")
            ensemble = Ensemble.load(source / _ENSEMBLE)
        except DataError:
            raise
        except FileNotFoundError as error:
            raise DataError(f"{source} holds no saved classifier: {error.filename} is missing") from None
        except (EOFError, OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"{source} is damaged: {error}; save the classifier again") from error
        found.training = training
        # The encoder of another classifier is loaded when a text must be encoded, and compared with the
        # fingerprint then.
        found.encoder_ = encoder
        if trained and encoder is None:
            found.encoder_ = load_encoder(str(source / _ENCODER), trainable=True)
        if found.encoder_ is not None:
            found._require_same_weights(found.encoder_)
        found._check_parameters()
        found._fitted = found.get_params(deep=False)
        found._set_ensemble(ensemble, mapped=True)
        return found

    def _description(self) -> dict[str, Any]:
        """What `save` writes as JSON, with the parameters of `fit`, whatever they were set to afterwards."""
        training, encoder = self._fitted["training"], self._fitted["encoder"]
        return {
            "format": _FORMAT,
            "class": type(self).__name__,
            "parameters": {key: v for key, v in self._fitted.items() if key not in _STORED_ELSEWHERE},
            "training": None if training is None else dataclasses.asdict(training),
            "history": None if self.history_ is None else dataclasses.asdict(self.history_),
            "classes": self.classes_.tolist(),
            "n_features_in": getattr(self, "n_features_in_", None),
            "encoder": encoder if isinstance(encoder, str) else encoder.name,
            "fingerprint": self.fingerprint_ if self.encoder_ is None else self.encoder_.fingerprint,
            "trained": self._has_trained_encoder(),
        }

    def _has_trained_encoder(self) -> bool:
        training = self._fitted["training"]
        return training is not None and training.method == "fine-tune"

    def _save_encoder(self, folder: Path) -> None:
        if not isinstance(self.encoder_, SentenceTransformerEncoder):
            raise DataError(
                f"the trained encoder {self.encoder_!r:.80} cannot be saved; expected a "
                "sentence-transformers model"
            )
        save_model(self.encoder_.model, folder)

    def _surprise(self) -> Surprise:
        """What similarities to labels are turned into."""
        raise NotImplementedError

    def _certainty(self, vectors: FloatArray) -> FloatArray:
        """(n, L) what thresholds are compared with."""
        raise NotImplementedError

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
        if self.training is not None and not isinstance(self.training, FewShotTraining):
            raise DataError(f"training must be a FewShotTraining or None, got {self.training!r:.80}")
        if not isinstance(self.encoder, str) and not callable(getattr(self.encoder, "encode", None)):
            raise DataError(f"encoder must be a model's name or an encoder, got {self.encoder!r:.60}")
        number = isinstance(self.threshold, int | float | np.number) and np.isfinite(self.threshold)
        if self.threshold is not None and not number:
            raise DataError(f"threshold must be a number or None, got {self.threshold!r}")
        if not self.exclusive and self.none_label is not None:
            raise DataError("none_label is for exclusive labels; others are simply all False")
        if not self.exclusive or self.none_label is not None:
            self._threshold()

    def _threshold(self) -> float:
        chosen = self.default_threshold if self.threshold is None else self.threshold
        if chosen is None:
            raise DataError("a cosine has no default threshold; give threshold=, or use SurpriseClassifier")
        return float(chosen)

    def _checked(self, X: Any, y: Any, labels: Labels | None) -> tuple[FloatArray, Any]:  # noqa: N803
        """Vectors and classes, refused as scikit-learn does it."""
        if y is None and labels is None:
            # scikit-learn's words, which its checks look for.
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None: "
                "give classes, or labels= to classify by what they are called"
            )
        if y is None or labels is not None or not self.exclusive or has_strings_and_numbers(y):
            return self._valid(X, reset=True), y
        vectors, classes = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(classes)
        return np.asarray(vectors), classes

    def _valid(self, X: Any, *, reset: bool) -> FloatArray:  # noqa: N803
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=reset))

    def _learn_classes(self, examples: Any, y: Any, labels: Labels | None) -> BoolArray | None:
        """Set the classes, and return which example belongs to which: (n, L)."""
        if y is None:
            if labels is None:
                raise DataError("neither y nor labels are given; give one of them, for the classes")
            if self.training is not None:
                raise DataError("training needs examples: give y, or training=None to classify by names")
            self.classes_ = labels.classes
            return None
        self.classes_ = classes_in(y, self.none_label) if labels is None else labels.classes
        members = members_of(y, self.classes_, self.none_label)
        if len(members) != len(examples):
            raise DataError(
                f"{len(examples)} texts or vectors, and {len(members)} y; expected as many of both"
            )
        return members

    def _find_label_vectors(
        self, vectors: FloatArray, members: BoolArray | None, labels: Labels | None
    ) -> Float32Array:
        if labels is not None:
            found = labels.vectors(self.template, lambda texts: self._encode(texts, "query"))
        else:
            found = centroids(vectors, np.asarray(members))
        if found.shape[1] != vectors.shape[1]:
            raise DataError(f"labels have dimension {found.shape[1]}, the vectors have {vectors.shape[1]}")
        return found

    def _fine_tune(
        self,
        texts: list[str] | None,
        members: BoolArray | None,
        labels: Labels | None,
        on_progress: Progress | None,
    ) -> None:
        if self.training is None or self.training.method != "fine-tune":
            return
        if texts is None or members is None:
            raise DataError("fine-tuning needs texts; for vectors give FewShotTraining(method='linear')")
        if labels is None:
            raise DataError("fine-tuning needs a text for every label; give labels={class: text}")
        described = labels.texts(self.template)
        if any(len(group) != 1 for group in described):
            raise DataError("fine-tuning needs one text for every label")
        self.encoder_, self.history_ = fine_tune(
            self._loaded(),
            texts,
            members,
            [text for (text,) in described],
            self.training,
            on_progress=on_progress,
        )

    def _fit_map(self, vectors: FloatArray, members: BoolArray | None, on_progress: Progress | None) -> None:
        if self.training is None or self.training.method != "linear" or members is None:
            return
        self.linear_map_, self.history_ = fit_linear_map(
            vectors, members, self.label_vectors_, self.training, on_progress=on_progress
        )
        self.label_vectors_ = self.linear_map_(self.label_vectors_)

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

    def _encode(self, texts: Sequence[str], kind: Kind, on_progress: Progress | None = None) -> Float32Array:
        return dense_vectors(self._loaded(), texts, kind, on_progress)

    def _encoded(self, given: Any, on_progress: Progress | None = None) -> FloatArray:
        """Vectors as the encoder makes them, or as they were given."""
        texts = texts_of(given)
        return np.asarray(given) if texts is None else self._encode(texts, "document", on_progress)

    def _vectors(self, X: Any) -> FloatArray:  # noqa: N803
        """Vectors as they are scored."""
        check_is_fitted(self, "label_vectors_")
        texts = texts_of(X)
        vectors = self._valid(X, reset=False) if texts is None else self._encode(texts, "document")
        return vectors if self.linear_map_ is None else self.linear_map_(vectors)

    def _set_ensemble(self, given: Any, on_progress: Progress | None = None, *, mapped: bool = False) -> None:
        """Compare with these from now on: texts, vectors, or an `Ensemble`, of mapped vectors or others."""
        if isinstance(given, Ensemble):
            if self.linear_map_ is not None and not mapped:
                raise DataError("an Ensemble cannot go through the linear map; give its texts or vectors")
            if given.similarity != "cosine" or given.dimension != self.label_vectors_.shape[1]:
                raise DataError(
                    f"the ensemble has similarity {given.similarity!r} and dimension {given.dimension}, "
                    f"expected 'cosine' and {self.label_vectors_.shape[1]}"
                )
            self.ensemble_ = given
        else:
            vectors = self._encoded(given, on_progress)
            if vectors.ndim != 2 or vectors.shape[1] != self.label_vectors_.shape[1]:
                shape = f"(n, {self.label_vectors_.shape[1]})"
                raise DataError(
                    f"the ensemble must be texts or vectors of shape {shape}, got {vectors.shape}"
                )
            scored = vectors if self.linear_map_ is None else self.linear_map_(vectors)
            self.ensemble_ = Ensemble.from_vectors(scored, similarity="cosine")
        self._rescore()

    def _require_untrained(self, ensemble: Any) -> None:
        """Refuse what was made before the encoder was trained."""
        fine_tuned = self.training is not None and self.training.method == "fine-tune"
        if fine_tuned and texts_of(ensemble) is None:
            raise DataError(
                "the ensemble must be texts where the encoder is trained: it changes their vectors"
            )

    def _forget_features(self) -> None:
        """Remove what scikit-learn stored of the vectors of an earlier fit, before a fit on texts."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)

    def _rescore(self) -> None:
        """Renew what depends on the labels' vectors and the ensemble."""
        self._scorer = AnchorScores(self.label_vectors_, self._surprise())


def _as_json(value: object) -> Any:
    """A number of numpy's as Python's, for what json cannot write.

    Raises:
        DataError: for anything else.
    """
    if isinstance(value, np.generic):
        return value.item()
    raise DataError(
        f"{value!r:.60} ({type(value).__name__}) cannot be saved; use strings or numbers for classes"
    )
