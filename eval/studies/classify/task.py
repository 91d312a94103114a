"""What is classified: texts, the names of their labels, texts to learn from; and what its studies share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import yaml

from surprise_rerank import border
from surprise_rerank.classify.labels import Labels
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.core.files import disk_errors
from surprise_rerank.encoders.base import Encoder, dense_vectors
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.labelled import (
    LabelledStudy,
    LabelledTexts,
    LabelledVectors,
    read_labelled,
)
from surprise_rerank.eval.studies.settings import ClassifySettings

# Class -> its name, or several descriptions whose vectors' mean counts.
LabelNames: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Task:
    """A classification.

    Attributes:
        texts: that are tested, with their labels.
        names: class -> names, in the order of the classes' characters; two classes at least.
        train: texts to learn from.
    """

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

    def labels_by_template(
        self, encoder: Encoder, templates: Iterable[str], leave_out: Callable[[str], None]
    ) -> Iterator[tuple[str, dict[str, Float32Array]]]:
        """Each template once with its `label_vectors`; those that do not tell the labels apart are told."""
        for template in dict.fromkeys(templates):
            try:
                yield template, self.label_vectors(encoder, template)
            except DataError as error:
                leave_out(f"{Path(encoder.name).name}, {template}: not measurable, as {error}")

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
        """Begin with no model."""
        self._described: list[dict[str, str]] = []

    @property
    def title(self) -> str:
        """What is studied, on which file."""
        return f"{self.heading}: {self.data.texts.name}"

    def read(self) -> Task:
        """The texts, and those to learn from; the classes are those of all of them."""
        settings = self.settings
        columns = settings.columns()
        texts = read_labelled(settings.file, **columns)
        train = None if settings.train is None else read_labelled(settings.train, **columns)
        names = None if settings.names is None else read_label_names(settings.names)
        classes = {*texts.labels, *(train.labels if train is not None else ())}
        return Task(texts.sample(settings.limit), label_names(classes, names), train)

    def models(self) -> Iterator[LabelledVectors]:
        """The models of the settings."""
        for model in super().models():
            self._described.append({"name": model.encoder.name, "fingerprint": model.encoder.fingerprint})
            yield model
        if not len(self.measurements):
            raise DataError(next(iter(self.remarks)))  # why the last model, and all before it, told nothing

    def facts(self) -> dict[str, Any]:
        """Settings, models, and every value."""
        return {
            "settings": {**self.settings.facts(), "names": dict(self.data.names)},
            "models": self._described,
            "texts": len(self.data.texts),
            "values": self.measurements.facts(),
        }


def label_names(classes: Iterable[str], described: LabelNames | None) -> LabelNames:
    """The names of classes, in the order of the classes' characters.

    By default a class's own, with spaces for its underscores. Classes of given names that no text is labelled
    with can be chosen all the same.
    """
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
