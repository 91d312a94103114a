"""The downstream tasks of SentEval as EvalRank runs them: texts, or pairs of texts, and their classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from surprise_rerank import border
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.eval.line_files import data_folder, place, read_lines, read_rows
from surprise_rerank.eval.studies.settings import RELATEDNESS, TASKS
from surprise_rerank.eval.studies.sts.data import SubTask, read_data_sets

PartName: TypeAlias = Literal["all", "train", "dev", "test"]
T = TypeVar("T")
# A text, the other one of a pair or nothing, and the place of its class.
_Item: TypeAlias = tuple[str, str, int]

# What SentEval gives an encoder for a text without any word; CR and MPQA have a few.
_NOTHING = "."
_MRPC_COLUMNS = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
_SICK_COLUMNS = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
# Judged pairs -> the data sets of their parts.
_JUDGED = {
    "STS-B": ("STS-B-train", "STS-B-dev", "STS-B"),
    "SICK-R": ("SICK-R-train", "SICK-R-trial", "SICK-R"),
}
_NOT_SCICITE = re.compile("[^a-z ]")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """n examples.

    Attributes:
        texts: n texts, their words parted by single spaces.
        others: n texts that they are compared with; empty where the task is about single texts.
        labels: (n,) places of their classes in the task's list.
    """

    texts: tuple[str, ...]
    others: tuple[str, ...]
    labels: IntArray

    @classmethod
    def of(cls, items: Sequence[_Item]) -> Part:
        """Examples of a file's items."""
        texts, others, labels = zip(*items, strict=True)
        spaced = [tuple(" ".join(text.split()) or _NOTHING for text in column) for column in (texts, others)]
        return cls(spaced[0], spaced[1] if any(others) else (), np.array(labels, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True, eq=False)
class DownstreamTask:
    """A classification task.

    Attributes:
        name: as published.
        classes: names of the classes.
        parts: `all`, to be parted by cross-validation; or `train` and `test`; or `train`, `dev` and `test`.
    """

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
    train: SubTask
    dev: SubTask
    test: SubTask

    @property
    def texts(self) -> tuple[str, ...]:
        """Every sentence once."""
        parts = (self.train, self.dev, self.test)
        return tuple(dict.fromkeys(text for part in parts for text in (*part.first, *part.second)))


def read_relatedness(name: str, data: Path | None) -> RelatednessTask:
    """A task of `settings.RELATEDNESS`, of the folder that `--data` names."""
    return RelatednessTask(name, *(part.subtasks[0] for part in read_data_sets(data, _JUDGED[name])))


def read_task(name: str, data: Path | None) -> DownstreamTask:
    """A task by its name.

    Args:
        name: one of `TASKS`.
        data: what `--data` names: the folder that holds `downstream` and, for SICK-E, `sts`; or the one that
            holds the tasks' folders.
    """
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
    return citation["label"], _NOT_SCICITE.sub("", str(citation["text"]).lower())


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
        repr(_SICK_COLUMNS),
        _SICK_COLUMNS,
    ),
}
