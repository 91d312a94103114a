"""What is classified: texts of a file, the names of their labels, and texts to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.classify.labels import Labels
from surprise_rerank.connectors.readers.source import OnError
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.text_vectors import dense_vectors
from surprise_rerank.eval.labelled.data import LabelledTexts, read_labelled
from surprise_rerank.eval.studies.classify.label_names import LabelNames, label_names, read_label_names


@dataclass(frozen=True)
class Task:
    """A classification.

    Attributes:
        texts: with their labels.
        names: class -> names, in the order of the classes' characters; two classes at least.
        other: texts to learn from, or to be tested on where `texts` are learnt from.
    """

    texts: LabelledTexts
    names: LabelNames
    other: LabelledTexts | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """The L classes that can be chosen."""
        return tuple(self.names)

    @cached_property
    def truth(self) -> IntArray:
        """(n,) places of the texts' classes."""
        return self._places(self.texts)

    @cached_property
    def other_truth(self) -> IntArray:
        """(m,) places of the other texts' classes; empty where there are none."""
        return self._places(self.other) if self.other is not None else np.zeros(0, np.int64)

    def _places(self, texts: LabelledTexts) -> IntArray:
        return np.searchsorted(np.array(self.classes), np.array(texts.labels)).astype(np.int64)

    def labels(self) -> Labels:
        """The classes with their names, as classifiers take them."""
        return Labels.of(self.names)

    def label_vectors(self, encoder: Encoder, template: str) -> dict[str, Float32Array]:
        """Class -> the (d,) unit vector of its names in the template.

        Raises:
            DataError: if two coincide, as for words that the model has no vector of.
        """
        found = self.labels().vectors(template, lambda texts: dense_vectors(encoder, texts, "query"))
        return dict(zip(self.classes, found, strict=True))

    def facts(self) -> dict[str, Any]:
        """What identifies the texts and the labels, as JSON values."""
        names = {name: list(names) for name, names in self.names.items()}
        return {"texts": len(self.texts), "digest": self.texts.digest, "names": names}

    def remarks(self) -> Iterator[str]:
        """Notes on the texts and the labels."""
        for texts in (self.texts, self.other):
            if texts is not None and texts.left_out:
                yield f"{texts.name}: {texts.left_out} malformed rows left out"
        seen = set(self.texts.labels)
        unseen = [name for name in self.classes if name not in seen]
        if unseen:
            more = ", ..." if len(unseen) > 5 else ""
            yield (
                f"{self.texts.name} has no text of {len(unseen)} of the {len(self.classes)} classes that can "
                f"be chosen: {', '.join(unseen[:5])}{more}"
            )
        if any(len(names) > 1 for names in self.names.values()):
            yield "a class of several names is compared by the mean of their vectors"


def read_task(
    file: Path,
    other: Path | None = None,
    *,
    names: Path | None = None,
    text: str | None = None,
    label: str = "label",
    limit: int | None = None,
    on_error: OnError = "raise",
) -> Task:
    """Read what is classified.

    Args:
        file: of labelled texts.
        other: a second one.
        names: a YAML file of the labels' names.
        text: the column of the texts.
        label: the column of the labels.
        limit: take this many of the first file's texts, at random; the classes are those of all.
        on_error: whether a malformed row is an error, or skipped and counted.

    Raises:
        DataError: if a file is malformed, or there are fewer than two classes.
        DatasetError: if there is no such file.
    """
    texts = read_labelled(file, text=text, label=label, on_error=on_error)
    others = None if other is None else read_labelled(other, text=text, label=label, on_error=on_error)
    classes = {*texts.labels, *(others.labels if others is not None else ())}
    return Task(
        texts.sample(limit), label_names(classes, None if names is None else read_label_names(names)), others
    )
