"""Folders of fitted classifiers: JSON, plain arrays and a trained encoder; nothing is executed on reading.

classifier.json    class, parameters, classes, which encoder
labels.npz         (L, d) label vectors, and the linear map where one was trained
ensemble.npz       what `Ensemble.save` writes
encoder/           a fine-tuned model, as sentence-transformers saves it
"""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from surprise_rerank.encoders import Encoder, SentenceTransformerEncoder, load_encoder
from surprise_rerank.ensemble import Ensemble
from surprise_rerank.errors import DataError
from surprise_rerank.few_shot import FewShotTraining, TrainingHistory
from surprise_rerank.files import whole_folder
from surprise_rerank.finetune import save_model
from surprise_rerank.labels import class_array
from surprise_rerank.linear_map import LinearMap

if TYPE_CHECKING:
    from surprise_rerank.label_classifier import LabelClassifier

C = TypeVar("C", bound="LabelClassifier")

_FORMAT = 1
_DESCRIPTION, _ARRAYS, _ENSEMBLE, _ENCODER = "classifier.json", "labels.npz", "ensemble.npz", "encoder"
# Parameters that are kept otherwise, or not needed once the labels have vectors.
_LEFT_OUT = ("labels", "encoder", "training")


def save(classifier: LabelClassifier, folder: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to a new folder, whole or not at all.

    Raises:
        DataError: if the folder exists, or a class or parameter is nothing that JSON has.
    """
    target = Path(folder)
    if target.exists():
        raise DataError(f"{target} exists; name a new folder, or remove it first")
    description = json.dumps(_described(classifier), indent=1, default=_refuse)
    arrays: dict[str, Any] = {"label_vectors": classifier.label_vectors_}
    if classifier.linear_map_ is not None:
        arrays["linear_map"] = classifier.linear_map_.weights
    try:
        with whole_folder(target) as draft:
            (draft / _DESCRIPTION).write_text(description, encoding="utf-8")
            np.savez(draft / _ARRAYS, **arrays)
            classifier.ensemble_.save(draft / _ENSEMBLE)
            if _is_trained(classifier):
                save_model(_trained(classifier).model, draft / _ENCODER)
    except OSError as error:
        raise DataError(f"cannot write the classifier {target}: {error.strerror or error}") from error


def load(kind: type[C], folder: str | os.PathLike[str], encoder: Encoder | None) -> C:
    """Read what `save` wrote.

    Args:
        kind: the class that it must be.
        folder: that was written.
        encoder: in place of loading the one that it names.

    Raises:
        DataError: if the folder holds no such classifier, or is damaged.
        IndexMismatchError: if the encoder has other weights.
    """
    place = Path(folder)
    try:
        stored = json.loads((place / _DESCRIPTION).read_text(encoding="utf-8"))
        if stored["format"] != _FORMAT or stored["class"] != kind.__name__:
            raise DataError(
                f"{place} holds a {stored['class']} of format {stored['format']}, expected a {kind.__name__} "
                f"of format {_FORMAT}"
            )
        with np.load(place / _ARRAYS, allow_pickle=False) as arrays:
            vectors = np.asarray(arrays["label_vectors"], dtype=np.float32)
            weights = np.asarray(arrays["linear_map"]) if "linear_map" in arrays else None
        classifier = kind(
            encoder=encoder if encoder is not None else stored["encoder"], **stored["parameters"]
        )
        classifier.classes_ = class_array(stored["classes"])
        classifier.label_vectors_ = vectors
        classifier.linear_map_ = None if weights is None else LinearMap(weights)
        classifier.history_ = None if stored["history"] is None else _history(stored["history"])
        if stored["n_features_in"] is not None:
            classifier.n_features_in_ = int(stored["n_features_in"])
        if len(classifier.classes_) != len(vectors):
            raise DataError(f"{place} is damaged: {len(classifier.classes_)} classes, {len(vectors)} vectors")
        ensemble = Ensemble.load(place / _ENSEMBLE)
        training = None if stored["training"] is None else FewShotTraining(**stored["training"])
        trained = bool(stored["trained"])
        fingerprint = stored["fingerprint"]
    except FileNotFoundError as error:
        raise DataError(f"{place} holds no saved classifier: {error.filename} is missing") from None
    except (EOFError, OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{place} is damaged: {error}; save the classifier again") from error
    classifier.training = training
    if trained and encoder is None:
        classifier.encoder_ = load_encoder(str(place / _ENCODER))
    else:
        # A name is loaded when a text must be encoded, and compared with the fingerprint then.
        classifier.encoder_ = encoder
    classifier.restore(ensemble, fingerprint)
    return classifier


def _described(classifier: LabelClassifier) -> dict[str, Any]:
    parameters = classifier.fitted_parameters()
    training, encoder = parameters["training"], classifier.encoder_
    name = parameters["encoder"] if isinstance(parameters["encoder"], str) else parameters["encoder"].name
    return {
        "format": _FORMAT,
        "class": type(classifier).__name__,
        "parameters": {key: value for key, value in parameters.items() if key not in _LEFT_OUT},
        "training": None if training is None else dataclasses.asdict(training),
        "history": None if classifier.history_ is None else dataclasses.asdict(classifier.history_),
        "classes": classifier.classes_.tolist(),
        "n_features_in": getattr(classifier, "n_features_in_", None),
        "encoder": name,
        "fingerprint": classifier.fingerprint_ if encoder is None else encoder.fingerprint,
        "trained": _is_trained(classifier),
    }


def _history(stored: dict[str, Any]) -> TrainingHistory:
    return TrainingHistory(**{**stored, "losses": tuple(stored["losses"])})


def _is_trained(classifier: LabelClassifier) -> bool:
    training = classifier.fitted_parameters()["training"]
    return training is not None and training.method == "fine-tune"


def _trained(classifier: LabelClassifier) -> SentenceTransformerEncoder:
    encoder = classifier.encoder_
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise DataError(
            f"the trained encoder {encoder!r:.80} cannot be saved; expected a sentence-transformers model"
        )
    return encoder


def _refuse(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise DataError(
        f"{value!r:.60} ({type(value).__name__}) cannot be saved; use strings or numbers for classes"
    )
