"""Ways to classify: by the labels' vectors, plain and by surprise, from examples, and by SetFit."""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from surprise_rerank import border
from surprise_rerank.classify.classifier import ClassifierModel, SurpriseClassifier
from surprise_rerank.core.arrays import BoolArray, Float32Array, IntArray
from surprise_rerank.core.extras import import_extra
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.eval.studies.labelled import COSINE, SURPRISE
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Weight

LOGISTIC = "logistic"
EXTRA = "setfit"
# The default of the classifier.
HALF_POOLED = "half-pooled"
_MODELS: Mapping[str, ClassifierModel] = {**SURPRISE, HALF_POOLED: "half-pooled"}
# By the labels' names alone.
ZERO_SHOT = (COSINE, *_MODELS)
# Converges on unit vectors of a hundred classes.
_ITERATIONS = 2000


def by_labels(
    system: str,
    labels: Mapping[str, Float32Array],
    texts: Float32Array,
    ensemble: Ensemble,
    weight: Weight,
    crossover_size: float,
) -> tuple[IntArray, float | None]:
    """(n,) places of the chosen classes by the similarity to the labels, and the weight of surprise.

    `system` is of `ZERO_SHOT`; `labels` have vectors in the order of the classes' characters.
    """
    plain = system == COSINE
    how = {"weight": 0.0} if plain else {"model": _MODELS[system], "weight": weight}
    classifier = SurpriseClassifier(labels, **how, crossover_size=crossover_size)
    classifier.fit(texts, ensemble=ensemble)
    places = np.searchsorted(np.array(list(labels)), classifier.predict(texts)).astype(np.int64)
    return places, None if plain else float(classifier.weight_)


def logistic_regression(examples: Float32Array, truth: IntArray, texts: Float32Array) -> IntArray:
    """(n,) places of the chosen classes of a logistic regression on unit vectors, to convergence."""
    border.some("classes of the examples", np.unique(truth), "give some of two", 2)
    model = LogisticRegression(max_iter=_ITERATIONS).fit(examples.astype(np.float64), truth)
    return np.asarray(model.predict(texts.astype(np.float64)), dtype=np.int64)


def qualities(truth: IntArray, chosen: IntArray) -> dict[str, float]:
    """Accuracy, macro F1 (of the classes that have texts) and weighted F1 of n answers, from 0 to 1."""
    # A class that is chosen and has no text lowers the others' precision; its own F1 is not defined.
    present = np.unique(truth)
    macro, weighted = (
        float(f1_score(truth, chosen, labels=present, average=average, zero_division=0.0))
        for average in ("macro", "weighted")
    )
    return {"accuracy": float((truth == chosen).mean()), "macro F1": macro, "weighted F1": weighted}


def mcnemar(first: BoolArray, second: BoolArray) -> float:
    """Two-sided p-value of McNemar's exact test: whether two classifiers are right equally often.

    Of the texts that one of them has right and the other one wrong, either should have half (McNemar, 1947).

    >>> mcnemar(np.array([True] * 9 + [False]), np.array([False] * 9 + [True]))
    0.021484375
    """
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if not only_first + only_second:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def setfit_answers(
    encoder: Encoder, examples: Sequence[str], truth: IntArray, texts: Sequence[str], seed: int
) -> tuple[IntArray, float]:
    """(n,) places of the classes that SetFit with its defaults chooses, and the seconds of training.

    (Tunstall et al., arXiv 2209.11055.) The encoder, a sentence-transformers model, stays as it is. Texts
    have no prompt, as SetFit uses none. The seed is that of every generator that there is.
    """
    setfit = import_extra("setfit", EXTRA)
    datasets = import_extra("datasets", EXTRA)
    from transformers import PrinterCallback, ProgressCallback

    setfit.logging.set_verbosity_error()  # its import turns its log on
    datasets.disable_progress_bars()
    body = copy.deepcopy(encoder.model)  # type: ignore[attr-defined]
    model = setfit.SetFitModel(model_body=body, model_head=LogisticRegression())
    data = datasets.Dataset.from_dict({"text": list(examples), "label": truth.tolist()})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.filterwarnings("ignore", message=".*pin_memory.*")  # for a GPU where there is none
        arguments = setfit.TrainingArguments(
            output_dir=folder, seed=seed, save_strategy="no", report_to="none", show_progress_bar=False
        )
        trainer = setfit.Trainer(model=model, args=arguments, train_dataset=data)
        for usual in (ProgressCallback, PrinterCallback):
            trainer.remove_callback(usual)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        places = model.predict(list(texts), as_numpy=True, show_progress_bar=False)
    return np.asarray(places, dtype=np.int64), seconds
