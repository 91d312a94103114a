"""Downstream tasks as SentEval measures them: what a classifier makes of sentence vectors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import Float32Array, IntArray
from surprise_rerank.eval.line_files import data_folder, place, read_lines, read_rows
from surprise_rerank.eval.reports.report import Plot, Table
from surprise_rerank.eval.stats import correlations
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    SentenceBenchmark,
    SentenceModel,
    post_processed,
)
from surprise_rerank.eval.studies.senteval import (
    GRID,
    Examples,
    Vectors,
    accuracy,
    fit_each,
    learn_relatedness,
    pair_features,
    predict,
)
from surprise_rerank.eval.studies.settings import RELATEDNESS, TASKS, DownstreamSettings
from surprise_rerank.eval.studies.sts import SICK_HEADER, SubTask, read_data_sets
from surprise_rerank.eval.studies.study import Shown

PartName: TypeAlias = Literal["all", "train", "dev", "test"]
T = TypeVar("T")
# A text, the other one of a pair or nothing, and the place of its class.
_Item: TypeAlias = tuple[str, str, int]

_NOTHING = "."  # SentEval's for a text without any word; CR and MPQA have a few
_MRPC_COLUMNS = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
# Judged pairs -> the data sets of their parts.
_JUDGED = {
    "STS-B": ("STS-B-train", "STS-B-dev", "STS-B"),
    "SICK-R": ("SICK-R-train", "SICK-R-trial", "SICK-R"),
}
SEED = 1111  # SentEval's
FOLDS = 5
_LEAST = 2 * FOLDS  # enough for a class to be in every fold of every fold
_SEEDS = 5  # that an accuracy is the mean of, where there is a test set
_TEXTS_AT_ONCE = 4096  # token vectors, which an encoder also makes, are in memory together


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """n texts, the others of pairs if the task has these, and (n,) places of their classes."""

    texts: tuple[str, ...]
    others: tuple[str, ...]
    labels: IntArray

    @classmethod
    def of(cls, items: Sequence[_Item]) -> Part:
        """Examples of a file's items."""
        texts, others, labels = zip(*items, strict=True)
        spaced = [tuple(" ".join(text.split()) or _NOTHING for text in column) for column in (texts, others)]
        return cls(spaced[0], spaced[1] if any(others) else (), np.array(labels, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class DownstreamTask:
    """A classification, whose parts are `all`, or `train` and `test`, or `train`, `dev` and `test`."""

    name: str
    classes: tuple[str, ...]
    parts: dict[PartName, Part]

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text once, in the order of their first place."""
        return tuple(dict.fromkeys(t for part in self.parts.values() for t in (*part.texts, *part.others)))


@dataclass(frozen=True, slots=True, eq=False)
class RelatednessTask:
    """Judged pairs of sentences, to learn from, to stop by and to test."""

    name: str
    parts: tuple[SubTask, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Every sentence once."""
        return tuple(dict.fromkeys(text for part in self.parts for text in (*part.first, *part.second)))


def read_task(name: str, data: Path | None) -> DownstreamTask:
    """A task of `TASKS`, of the folder that `--data` names."""
    if name in _OF_TWO_FILES:
        folder = data_folder(data, "downstream", name)
        negative, positive, classes = _OF_TWO_FILES[name]
        items = [
            (line, "", label)
            for label, file in enumerate((negative, positive))
            for line in _filled(folder / file, read_lines(folder / file, "latin-1"))
        ]
        return DownstreamTask(name, classes, {"all": Part.of(items)})
    published = _OF_PARTS[border.choice("task", name, (*TASKS, *RELATEDNESS))]
    folder = data_folder(data, *published.folder)
    parts: dict[PartName, Part] = {}
    for part, file in published.files.items():
        rows = read_rows(folder / file, published.item, published.expected, published.encoding)
        parts[part] = Part.of(_filled(folder / file, (row for row in rows if row is not None)))
    return DownstreamTask(name, published.classes, parts)


def _filled(path: Path, rows: Iterable[T]) -> list[T]:
    filled = list(rows)
    border.some(f"texts of {path}", filled, "write a line for each")
    return filled


def _citation(line: str) -> tuple[str, str]:
    citation = json.loads(line)
    # What is not a letter is dropped, line ends inside a text too, as in the published evaluation.
    return citation["label"], re.sub("[^a-z ]", "", str(citation["text"]).lower())


def _before_space(line: str) -> tuple[str, str]:
    label, text = line.strip().split(" ", 1)
    return label.partition(":")[0], text


def _tabbed(label: int, *texts: int) -> Callable[[str], tuple[str, ...]]:
    """A reader of lines with tabs, by the columns of the label and of one or two texts."""

    def read(line: str) -> tuple[str, ...]:
        cells = line.split("\t")
        return cells[label].strip(), *(cells[text] for text in texts)

    return read


@dataclass(frozen=True, slots=True)
class _Parts:
    """A task whose parts are published as files of a folder: a label and one or two texts a line."""

    folder: tuple[str, ...]
    files: Mapping[PartName, str]
    classes: tuple[str, ...]
    read: Callable[[str], tuple[str, ...]]
    expected: str
    heading: str = ""
    encoding: str = "utf-8"

    def item(self, line: str) -> _Item | None:
        """What a line says; None for the heading."""
        label, first, *second = self.read(line)
        if self.heading and line.startswith(self.heading):
            return None
        return first, "".join(second), place(label, self.classes)


# Task -> the files of the two classes, and what these are called.
_OF_TWO_FILES = {
    "MR": ("rt-polarity.neg", "rt-polarity.pos", ("negative", "positive")),
    "CR": ("custrev.neg", "custrev.pos", ("negative", "positive")),
    "MPQA": ("mpqa.neg", "mpqa.pos", ("negative", "positive")),
    "SUBJ": ("subj.subjective", "subj.objective", ("subjective", "objective")),
}
_SST: Mapping[PartName, str] = {"train": "sentiment-train", "dev": "sentiment-dev", "test": "sentiment-test"}
_OF_PARTS = {
    "SCICITE": _Parts(
        ("downstream", "SCICITE"),
        {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"},
        ("background", "method", "result"),
        _citation,
        "JSON with text and label",
    ),
    "SST2": _Parts(("downstream", "SST", "binary"), _SST, ("0", "1"), _tabbed(1, 0), "text, tab, label"),
    "SST5": _Parts(
        ("downstream", "SST", "fine"), _SST, tuple("01234"), _before_space, "a label, a space, a text"
    ),
    "TREC": _Parts(
        ("downstream", "TREC"),
        {"train": "train_5500.label", "test": "TREC_10.label"},
        ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
        _before_space,
        "COARSE:fine, a space, a question",
        encoding="latin-1",
    ),
    "MRPC": _Parts(
        ("downstream", "MRPC"),
        {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        ("0", "1"),
        _tabbed(0, 3, 4),
        repr(_MRPC_COLUMNS),
        _MRPC_COLUMNS,
    ),
    "SICK-E": _Parts(
        ("sts", "SICK"),
        {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"},
        ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
        _tabbed(4, 1, 2),
        repr(SICK_HEADER),
        SICK_HEADER,
    ),
}


# Weights, their accuracy on what l2 was chosen by, and what they are tested on.
_Run: TypeAlias = tuple[Float32Array, float, Examples]
Task: TypeAlias = DownstreamTask | RelatednessTask


class DownstreamStudy(SentenceBenchmark[DownstreamSettings, list[Task]]):
    """Accuracy of a classifier of sentence vectors, and how well a regression of them agrees with people."""

    keys = ("model", "task")

    @property
    def title(self) -> str:
        return f"Downstream tasks: {', '.join(dict.fromkeys(self.settings.tasks))}"

    def read(self) -> list[Task]:
        names, data = dict.fromkeys(self.settings.tasks), self.settings.data
        tasks: list[Task] = [read_task(name, data) for name in names if name not in RELATEDNESS]
        for name in (name for name in names if name in RELATEDNESS):
            data_sets = read_data_sets(data, _JUDGED[name])
            tasks.append(RelatednessTask(name, tuple(data_set.subtasks[0] for data_set in data_sets)))
        return tasks

    def measure(self, model: SentenceModel) -> None:
        texts = tuple(dict.fromkeys(text for task in self.data for text in task.texts))
        with self.terminal.bar(f"{model.name}: encoding", len(texts), "texts") as advance:
            starts = range(0, len(texts), _TEXTS_AT_ONCE)
            blocks = [model.vectors(texts[start : start + _TEXTS_AT_ONCE], advance) for start in starts]
        plain = _looked_up(texts, np.concatenate(blocks))
        with self.terminal.bar(f"{model.name}: learning", len(self.data), "tasks") as advance:
            for task in self.data:
                by_name = {model.name: plain}
                if self.settings.post_process:
                    processed = _looked_up(task.texts, post_processed(plain(task.texts)))
                    by_name[model.name + POST_PROCESSED] = processed
                for name, vectors in by_name.items():
                    if isinstance(task, DownstreamTask):
                        runs = classify(task, vectors)
                    else:
                        runs = relatedness(task, vectors)
                    for values in runs:
                        self.measurements.add((name, task.name), values)
                advance(1)

    def tables(self) -> Iterator[Table]:
        columns = [Shown("accuracy", 2, spread=True), Shown("dev accuracy", 2), Shown("F1", 2)]
        accuracies = self.measurements.crossed("downstream", "Accuracy in %", "accuracy", 1)
        coefficients = self.measurements.crossed("relatedness", "Pearson's r x 100", "Pearson", 1)
        if coefficients is not None:
            columns += [Shown("Pearson", 2, spread=True), Shown("dev Pearson", 2), Shown("Spearman", 2)]
        yield from filter(None, (accuracies, coefficients))
        note = "dev.: of the single runs; dev accuracy: by which l2 was chosen in each run"
        yield self.measurements.table(
            "downstream-details", "Single tasks, in %", columns, (note,), detail=True
        )

    def plots(self) -> Iterator[Plot]:
        if any(isinstance(task, DownstreamTask) for task in self.data):
            yield self.measurements.plot("bars", "Downstream tasks", "accuracy")

    def notes(self) -> Iterator[str]:
        crossed = [
            task.name for task in self.data if isinstance(task, DownstreamTask) and "all" in task.parts
        ]
        tested = [task.name for task in self.data if task.name not in crossed]
        if crossed:
            yield f"{', '.join(crossed)}: nested 5-fold cross-validation, the mean over 5 test folds"
        if tested:
            yield f"{', '.join(tested)}: the test set, the mean over {_SEEDS} seeds"
        yield "training is stopped early, as the published figures were made (those are of one seed)"
        if self.settings.post_process:
            components = "the first two principal components of each task's texts, uncentred"
            yield f"{POST_PROCESSED}: without {components}"

    def facts(self) -> dict[str, Any]:
        values, models = self.measurements.facts(), self.settings.models
        return {"classifier": "senteval", "models": models, "seed": SEED, "values": values}


def classify(task: DownstreamTask, vectors: Vectors) -> Iterator[dict[str, float | None]]:
    """The measures in % of each run: of one part, every fold is tested once.

    l2 is chosen on `dev`, or without one by cross-validation on what is learnt from.
    """
    parts = {}
    for name, part in task.parts.items():
        first = vectors(part.texts)
        features = pair_features(first, vectors(part.others)) if part.others else first
        parts[name] = Examples(features, part.labels)
    learned = parts["all" if "all" in parts else "train"]
    for number, label in enumerate(task.classes):
        examples = np.flatnonzero(learned.labels == number)
        border.some(f"examples of {task.name}'s class {label!r}", examples, "are its files whole?", _LEAST)
    # MRPC is published with F1, too.
    has_f1 = len(task.classes) == 2 and any(part.others for part in task.parts.values())
    # Steps are short: where other programs run, two threads wait for each other ten times as long.
    with threadpool_limits(1):
        for weights, dev_accuracy, test in _runs(parts, len(task.classes)):
            f1 = 100 * f1_score(test.labels, predict(weights, test.features)) if has_f1 else None
            yield {"accuracy": 100 * accuracy(weights, test), "dev accuracy": 100 * dev_accuracy, "F1": f1}


def relatedness(task: RelatednessTask, vectors: Vectors) -> Iterator[dict[str, float | None]]:
    """Pearson's and Spearman's coefficients x 100 with the judgements of the test, for each seed."""
    train, dev, test = (
        (pair_features(vectors(part.first), vectors(part.second)), part.judgements) for part in task.parts
    )
    for seed in range(SEED, SEED + _SEEDS):
        predicted, best = learn_relatedness(train, dev, test[0], seed)
        of = correlations(predicted, test[1])
        yield {"Pearson": 100 * of.pearson, "Spearman": 100 * of.spearman, "dev Pearson": 100 * best}


def _runs(parts: dict[PartName, Examples], classes: int) -> Iterator[_Run]:
    if "all" in parts:
        for rows, tested in _folds(parts["all"], SEED):
            train, test = parts["all"][rows], parts["all"][tested]
            yield *_cross_validated(train, classes, SEED), test
        return
    for seed in range(SEED, SEED + _SEEDS):
        if "dev" in parts:
            candidates = fit_each(parts["train"], parts["dev"], GRID, classes, seed)
            best = max(candidates, key=lambda weights: accuracy(weights, parts["dev"]))
            yield best, accuracy(best, parts["dev"]), parts["test"]
        else:
            yield *_cross_validated(parts["train"], classes, seed), parts["test"]


def _cross_validated(train: Examples, classes: int, seed: int) -> tuple[Float32Array, float]:
    """Weights for the l2 that cross-validation chose, and its accuracy there."""
    accuracies = np.zeros(len(GRID))
    for rows, held_out in _folds(train, seed):
        dev = train[held_out]
        candidates = fit_each(train[rows], dev, GRID, classes, seed)
        accuracies += np.array([accuracy(weights, dev) for weights in candidates]) / FOLDS
    best = int(accuracies.argmax())
    # A twentieth of the examples is held out, to stop by.
    order, size = np.random.default_rng(seed).permutation(len(train)), max(1, int(0.05 * len(train)))
    stop, learn = train[order[:size]], train[order[size:]]
    return fit_each(learn, stop, (GRID[best],), classes, seed)[0], float(accuracies[best])


def _folds(examples: Examples, seed: int) -> list[tuple[IntArray, IntArray]]:
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    return list(folds.split(np.zeros(len(examples)), examples.labels))


def _looked_up(texts: tuple[str, ...], vectors: Float32Array) -> Vectors:
    rows = {text: i for i, text in enumerate(texts)}
    return lambda wanted: vectors[[rows[text] for text in wanted]]
