"""What is classified, and by which systems: by the labels' vectors, from examples, and by SetFit."""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import yaml
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from surprise_rerank import border
from surprise_rerank.classify.classifier import ClassifierModel, SurpriseClassifier
from surprise_rerank.classify.labels import Labels
from surprise_rerank.core.arrays import BoolArray, Float32Array, IntArray
from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors
from surprise_rerank.encoders.base import Encoder, dense_vectors
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.labelled import (
    COSINE,
    SURPRISE,
    LabelledStudy,
    LabelledTexts,
    LabelledVectors,
    read_labelled,
)
from surprise_rerank.eval.studies.settings import ClassifySettings
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Weight

LOGISTIC = "logistic"
EXTRA = "setfit"
HALF_POOLED = "half-pooled"  # the default of the classifier
_MODELS: Mapping[str, ClassifierModel] = {**SURPRISE, HALF_POOLED: "half-pooled"}
ZERO_SHOT = (COSINE, *_MODELS)  # by the labels' names alone
_ITERATIONS = 2000  # of the regression: enough for unit vectors of a hundred classes
# Class -> its name, or several descriptions whose vectors' mean counts.
LabelNames: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Task:
    """Texts that are tested, names of two classes or more, in their order, and texts to learn from."""

    texts: LabelledTexts
    names: LabelNames
    train: LabelledTexts | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The L classes that can be chosen."""
        return tuple(self.names)

    @cached_property
    def truth(self) -> IntArray:
        """(n,) places of the texts' classes."""
        return self.places(self.texts)

    def places(self, texts: LabelledTexts) -> IntArray:
        """(n,) places of other texts' classes."""
        return np.searchsorted(np.array(self.classes), np.array(texts.labels)).astype(np.int64)

    def label_vectors(self, encoder: Encoder, template: str) -> dict[str, Float32Array]:
        """Class -> the (d,) unit vector of its names in the template."""
        labels = Labels.of(self.names)
        vectors = labels.vectors(template, lambda texts: dense_vectors(encoder, texts, "query"))
        return dict(zip(self.classes, vectors, strict=True))

    def remarks(self) -> Iterator[str]:
        """Notes on the texts and the labels."""
        for texts in filter(None, (self.texts, self.train)):
            yield from texts.remarks()
        unseen = sorted(set(self.classes).difference(self.texts.labels))
        if unseen:
            named = ", ".join(unseen[:5]) + ", ..." * (len(unseen) > 5)
            yield f"{self.texts.name} has no text of {len(unseen)} of {len(self.classes)} classes: {named}"


class ClassifyStudy(LabelledStudy[ClassifySettings, Task]):
    """What the studies of classification share: the task, the models, and the facts."""

    heading: ClassVar[str]

    def prepare(self) -> None:
        self._described: list[dict[str, str]] = []

    @property
    def title(self) -> str:
        return f"{self.heading}: {self.data.texts.name}"

    def read(self) -> Task:
        settings = self.settings
        columns = settings.columns()
        texts = read_labelled(settings.file, **columns)
        train = None if settings.train is None else read_labelled(settings.train, **columns)
        names = None if settings.names is None else read_label_names(settings.names)
        classes = {*texts.labels, *(train.labels if train is not None else ())}
        return Task(texts.sample(settings.limit), label_names(classes, names), train)

    def models(self) -> Iterator[LabelledVectors]:
        for model in super().models():
            self._described.append({"name": model.encoder.name, "fingerprint": model.encoder.fingerprint})
            yield model
        if not len(self.measurements):
            raise DataError(next(iter(self.remarks)))  # why the last model, and all before it, told nothing

    def labels_by_template(self, model: LabelledVectors) -> Iterator[tuple[str, dict[str, Float32Array]]]:
        """Each template once with its labels' vectors; those that do not tell labels apart are left out."""
        for template in dict.fromkeys(self.settings.templates):
            try:
                yield template, self.data.label_vectors(model.encoder, template)
            except DataError as error:
                self.leave_out(f"{model.name}, {template}: not measurable, as {error}")

    def facts(self) -> dict[str, Any]:
        return {
            "settings": {**self.settings.facts(), "names": dict(self.data.names)},
            "models": self._described,
            "texts": len(self.data.texts),
            "values": self.measurements.facts(),
        }


def label_names(classes: Iterable[str], described: LabelNames | None) -> LabelNames:
    """The names of classes, in the order of characters; a class's own has spaces for its underscores."""
    labels = sorted(set(classes))
    names = {name: (name.replace("_", " "),) for name in labels} if described is None else described
    missing = [name for name in labels if name not in names]
    if missing:
        raise DataError(
            f"the label names lack {', '.join(map(repr, missing[:5]))}, which texts are labelled with; "
            f"they have {', '.join(map(repr, list(names)[:10]))}"
        )
    border.some("classes", names, "give texts of two", 2)
    Labels.of(names)  # reports two classes of one name before anything is encoded
    return {name: names[name] for name in sorted(names)}


def read_label_names(path: Path) -> LabelNames:
    """Read a YAML mapping of classes to names, or to lists of names."""
    with disk_errors(str(path)):
        content = path.read_bytes()
    try:
        read = yaml.load(content, _UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from error
    names_by_class = {}
    mapping: dict[str, Any] = border.mapping(f"{path}, class -> names,", read)
    for name, value in mapping.items():
        names = border.texts(f"{path}, {name}", [value] if isinstance(value, str) else value, least=1)
        names_by_class[name] = tuple(border.text(f"{path}, {name}", text, blank=False) for text in names)
    return names_by_class


class _UniqueKeys(yaml.BaseLoader):
    """Nothing but texts, as a class may be called 1, or no; and no duplicate class."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node."""
        keys = [key.value for key, _ in node.value]
        if len(set(keys)) < len(keys):
            duplicate = next(key for key in keys if keys.count(key) > 1)
            raise yaml.YAMLError(f"duplicate key {duplicate!r}")
        return dict(super().construct_mapping(node, deep))


def by_labels(
    system: str,
    labels: Mapping[str, Float32Array],
    texts: Float32Array,
    ensemble: Ensemble,
    weight: Weight,
    crossover_size: float,
) -> tuple[IntArray, float | None]:
    """(n,) places of the classes that a system of `ZERO_SHOT` chooses, and the weight of surprise."""
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

    (Tunstall et al., arXiv 2209.11055.) The encoder stays as it is. Texts have no prompt, as SetFit uses
    none.
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
