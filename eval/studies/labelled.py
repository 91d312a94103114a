"""Texts with a label each, from files and data sets; their vectors by a model; and what is classified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import yaml

from surprise_rerank import _border as border
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, DatasetError
from surprise_rerank.classify._labels import Labels
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.readers import Fields, open_documents
from surprise_rerank.connectors.readers._fields import TEXT_NAMES, TITLE_NAMES
from surprise_rerank.connectors.readers._source import OnError
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core._files import cache_folder, disk_errors, whole_file
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.encoders._loading import load_encoder
from surprise_rerank.encoders.base import Encoder, Kind, dense_vectors
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.eval.studies.settings import ClassifySettings, LabelledSettings
from surprise_rerank.eval.studies.study import Study
from surprise_rerank.surprise.score import SurpriseModel

COSINE = "cosine"
# What the studies call the models of the surprise score.
SURPRISE: Mapping[str, SurpriseModel] = {
    "surprise": "gaussian",
    "pooled": "pooled",
    "percentile": "percentile",
    "empirical": "empirical",
}
# Class -> its name, or several descriptions whose vectors' mean counts.
LabelNames: TypeAlias = Mapping[str, tuple[str, ...]]
_HUB = "hf:"
_UNLABELLED = "name the one that has (--label-field), or give --set answers=yes, which needs none"


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTexts:
    """n texts, which may be empty, with a label each; how many malformed rows were left out."""

    name: str
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels that occur, once each, in the order of their characters."""
        return tuple(sorted(set(self.labels)))

    def remarks(self) -> Iterator[str]:
        """A note on malformed rows, if there were some."""
        if self.left_out:
            yield f"{self.name}: {self.left_out} malformed rows left out"

    def sample(self, limit: int | None) -> LabelledTexts:
        """So many at random, always the same, or all of them: files are often sorted by label."""
        if limit is None or limit >= len(self):
            return self
        rows = np.sort(np.random.default_rng(0).permutation(len(self))[:limit])
        texts, labels = (tuple(column[i] for i in rows) for column in (self.texts, self.labels))
        return LabelledTexts(self.name, texts, labels, self.left_out)


def read_labelled(
    path: Path, *, text: str | None = None, label: str = "label", on_error: OnError = "raise"
) -> LabelledTexts:
    """Read labelled texts of JSONL, CSV, TSV or Parquet by the name's ending, or of the hub (hf:NAME:SPLIT).

    The column of texts is found by its usual names; labels are strings, whole numbers, or true and false.
    """
    border.distinct("columns of text and label", [str(text), label], "name two")
    if str(path).startswith(_HUB):
        return _of_hub(str(path), text, label)
    # Ids are not looked at; a hash needs no column for them.
    source = open_documents(path, fields=Fields(id="content", text=text, metadata=[label]), on_error=on_error)
    rows: list[tuple[str, str]] = []
    missing = 0
    for number, document in enumerate(_with_column(source, label), start=1):
        label_of_row = _label(document, label)
        if label_of_row is not None:
            rows.append((document.text, label_of_row))
        elif on_error == "skip":
            missing += 1
        else:
            raise DataError(
                f"{path}, row {number}: no label in the column {label!r} (--label-field), expected a word or "
                f"a whole number; the text is {document.text[:40]!r}"
            )
    border.some(f"labels of {path} in the column {label!r}", rows, _UNLABELLED)
    texts, labels = zip(*rows, strict=True)
    return LabelledTexts(source.name, texts, labels, source.skipped.total + missing)


def _of_hub(name: str, text: str | None, label: str) -> LabelledTexts:
    """Labelled texts of a data set on the Hugging Face hub, or in a folder of its form."""
    datasets = import_extra("datasets", "setfit")
    place, _, split = name.removeprefix(_HUB).partition(":")
    try:
        rows = datasets.load_dataset(place, split=split or "test")
    except Exception as error:  # the library's errors share no base class
        reason = " ".join(str(error).split())[:200]
        raise DatasetError(f"{name}: {reason}; give hf:NAME:SPLIT, or a file") from error
    column = text or next((heading for heading in TEXT_NAMES if heading in rows.column_names), "text")
    for heading in (column, label):
        border.choice(f"a column of {name}", heading, rows.column_names)
    names = getattr(rows.features[label], "names", None)
    labels = [str(value if names is None else names[value]) for value in rows[label]]
    return LabelledTexts(place.rpartition("/")[2], tuple(map(str, rows[column])), tuple(labels))


def _with_column(source: Iterable[Document], label: str) -> Iterator[Document]:
    """The rows; a file that lacks the column is told what to do without one."""
    try:
        yield from source
    except DataError as error:
        if f"column {label!r}" not in str(error):
            raise
        raise DataError(f"{error}: {_UNLABELLED}") from error


def _label(document: Document, column: str) -> str | None:
    value = document.metadata.get(column)
    if value is None and column.strip().lower() in TITLE_NAMES:
        value = document.title  # what readers take a column of this name for
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # what a table of numbers makes of whole ones where some rows have none
    if isinstance(value, bool):
        return str(value).lower()
    return (str(value).strip() or None) if isinstance(value, str | int) else None


class LabelledVectors:
    """The vectors of a model: read from the cache, or made and kept, so that no text is encoded twice."""

    def __init__(self, encoder: Encoder, cache: Path, terminal: Terminal) -> None:
        self.encoder = encoder
        self.name = Path(encoder.name).name
        self._folder = cache / "labelled"
        self._terminal = terminal

    def of(self, texts: LabelledTexts, kind: Kind = "document") -> Float32Array:
        """(n, d) unit vectors of n texts."""
        # The fingerprint is that of the weights; a model's name identifies its prompts.
        parts = [self.encoder.name, self.encoder.fingerprint, kind, texts.texts]
        path = self._folder / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}.npy"
        try:
            vectors: Float32Array = np.load(path, allow_pickle=False)
            if vectors.shape == (len(texts), self.encoder.dimension) and vectors.dtype == np.float32:
                return vectors
        except (OSError, ValueError, EOFError):
            pass  # there is none, or it is damaged: it is made again
        with self._terminal.bar(f"{self.name}: encoding {texts.name}", len(texts), "texts") as advance:
            vectors = dense_vectors(self.encoder, texts.texts, kind, advance)
        with disk_errors(f"the vectors {path}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as file:
                np.save(file, vectors, allow_pickle=False)
        return vectors


Settings = TypeVar("Settings", bound=LabelledSettings)
Data = TypeVar("Data")


class LabelledStudy(Study[Settings, Data, LabelledVectors]):
    """A study of labelled texts."""

    trainable = False  # whether the models are to be trained

    def load(self, name: str) -> LabelledVectors:
        encoder = load_encoder(name, trainable=self.trainable)
        return LabelledVectors(encoder, self.settings.cache or cache_folder(), self.terminal)


class Answers(LabelledStudy[LabelledSettings, list[LabelledTexts]]):
    """What every text of files without labels gets by a model: a label or a cluster, as `answer` says."""

    def __init__(
        self,
        settings: LabelledSettings,
        terminal: Terminal,
        files: Sequence[Path],
        answer: str,
        answers_of: Callable[[LabelledVectors, LabelledTexts], Iterable[str | int]],
    ) -> None:
        self._files, self._answer, self._answers_of = files, answer, answers_of
        self._rows: list[tuple[Cell, ...]] = []
        super().__init__(settings, terminal)

    @property
    def title(self) -> str:
        return f"Texts of {', '.join(texts.name for texts in self.data)}"

    def read(self) -> list[LabelledTexts]:
        fields, on_error, data = Fields(id="content", text=self.settings.text), self.settings.on_error, []
        for file in self._files:
            source = open_documents(file, fields=fields, on_error=on_error)
            texts = tuple(document.text for document in source)
            border.some(f"texts of {file}", texts, "give a file with some")
            labelled = LabelledTexts(source.name, texts, ("?",) * len(texts), source.skipped.total)
            data.append(labelled.sample(self.settings.limit))
        return data

    def measure(self, model: LabelledVectors) -> None:
        for texts in self.data:
            answers = self._answers_of(model, texts)
            self._rows += [(model.name, *row) for row in zip(texts.texts, answers, strict=True)]

    def tables(self) -> Iterator[Table]:
        columns = (Column("model"), Column("text"), Column(self._answer))
        yield Table("answers", f"The {self._answer} of each text", columns, tuple(self._rows))


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
