"""The downstream tasks of SentEval as EvalRank runs them: texts, or pairs of texts, and their classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from surprise_rerank.core.arrays import IntArray
from surprise_rerank.errors import DatasetError
from surprise_rerank.eval.line_files import Line, data_folder, read_lines
from surprise_rerank.eval.studies.downstream.settings import TASKS

PartName: TypeAlias = Literal["all", "train", "dev", "test"]
# A text, the other one of a pair or nothing, and the place of its class.
_Item: TypeAlias = tuple[str, str, int]

# What SentEval gives an encoder for a text without any word; CR and MPQA have a few.
_NOTHING = "."
_SCICITE = ("background", "method", "result")
_SENTIMENT = ("0", "1")
_FINE_SENTIMENT = ("0", "1", "2", "3", "4")
_TREC = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_PARAPHRASE = ("0", "1")
_ENTAILMENT = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
_MRPC_COLUMNS = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
_SICK_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
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
        spaced = [tuple(" ".join(text.split()) or _NOTHING for text in own) for own in (texts, others)]
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
            (line.text, "", label)
            for label, file in enumerate((negative, positive))
            for line in _lines(folder / file, "latin-1")
        ]
        return DownstreamTask(name, classes, {"all": Part.of(items)})
    if name not in _OF_PARTS:
        raise DatasetError(f"there is no task {name!r}; choose from {', '.join(TASKS)}")
    own = _OF_PARTS[name]
    folder = data_folder(data, *own.folder)
    parts: dict[PartName, Part] = {}
    for part, file in own.files.items():
        lines = _lines(folder / file, own.encoding)
        if own.columns:
            first, *lines = lines
            if tuple(first.fields("\t", own.columns, more=True)[: len(own.columns)]) != own.columns:
                raise first.wrong(f"expected the columns {', '.join(own.columns)}: {first.text[:80]!r}")
            if not lines:
                raise DatasetError(
                    f"{folder / file} holds column names and nothing else, expected a line for each pair"
                )
        parts[part] = Part.of([own.item(line) for line in lines])
    return DownstreamTask(name, own.classes, parts)


def _lines(path: Path, encoding: str) -> list[Line]:
    lines = list(read_lines(path, encoding))
    if not lines:
        raise DatasetError(f"{path} is empty, expected a line for each text")
    return lines


def _citation(line: Line) -> _Item:
    try:
        citation = json.loads(line.text)
    except ValueError as error:
        raise line.wrong(f"no JSON ({error}): {line.text[:80]!r}") from None
    if not isinstance(citation, dict) or not all(isinstance(citation.get(k), str) for k in ("text", "label")):
        raise line.wrong(f"expected an object with the strings 'text' and 'label': {line.text[:80]!r}")
    # What is not a letter is dropped, line ends inside a text too, as in the published evaluation.
    text = _NOT_SCICITE.sub("", citation["text"].lower())
    return text, "", line.label(citation["label"], _SCICITE)


def _sentiment(line: Line) -> _Item:
    text, label = line.fields("\t", ("text", "label"))
    return text, "", line.label(label.strip(), _SENTIMENT)


def _fine_sentiment(line: Line) -> _Item:
    label, text = _in_two(line, "the label, a space and the text")
    return text, "", line.label(label, _FINE_SENTIMENT)


def _question(line: Line) -> _Item:
    label, text = _in_two(line, "COARSE:fine, a space and the question")
    return text, "", line.label(label.partition(":")[0], _TREC)


def _paraphrase(line: Line) -> _Item:
    label, _, _, first, second = line.fields("\t", _MRPC_COLUMNS)
    return first, second, line.label(label, _PARAPHRASE)


def _entailment(line: Line) -> _Item:
    _, first, second, score, label = line.fields("\t", _SICK_COLUMNS, more=True)[: len(_SICK_COLUMNS)]
    line.number_in(score, "relatedness score", 1, 5)
    return first, second, line.label(label.strip(), _ENTAILMENT)


def _in_two(line: Line, expected: str) -> tuple[str, str]:
    first, _, rest = line.text.strip().partition(" ")
    if not rest:
        raise line.wrong(f"expected {expected}: {line.text[:80]!r}")
    return first, rest


@dataclass(frozen=True, slots=True)
class _Parts:
    """A task whose parts are published as files of a folder."""

    folder: tuple[str, ...]
    files: Mapping[PartName, str]
    classes: tuple[str, ...]
    item: Callable[[Line], _Item]
    columns: tuple[str, ...] = ()
    encoding: str = "utf-8"


# Task -> the files of the two classes, and what these are called.
_OF_TWO_FILES = {
    "MR": ("rt-polarity.neg", "rt-polarity.pos", ("negative", "positive")),
    "CR": ("custrev.neg", "custrev.pos", ("negative", "positive")),
    "MPQA": ("mpqa.neg", "mpqa.pos", ("negative", "positive")),
    "SUBJ": ("subj.subjective", "subj.objective", ("subjective", "objective")),
}
_SST: Mapping[PartName, str] = {"train": "sentiment-train", "dev": "sentiment-dev", "test": "sentiment-test"}
_SICK: Mapping[PartName, str] = {
    "train": "SICK_train.txt",
    "dev": "SICK_trial.txt",
    "test": "SICK_test_annotated.txt",
}
_OF_PARTS = {
    "SCICITE": _Parts(
        ("downstream", "SCICITE"),
        {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"},
        _SCICITE,
        _citation,
    ),
    "SST2": _Parts(("downstream", "SST", "binary"), _SST, _SENTIMENT, _sentiment),
    "SST5": _Parts(("downstream", "SST", "fine"), _SST, _FINE_SENTIMENT, _fine_sentiment),
    "TREC": _Parts(
        ("downstream", "TREC"),
        {"train": "train_5500.label", "test": "TREC_10.label"},
        _TREC,
        _question,
        encoding="latin-1",
    ),
    "MRPC": _Parts(
        ("downstream", "MRPC"),
        {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        _PARAPHRASE,
        _paraphrase,
        _MRPC_COLUMNS,
    ),
    "SICK-E": _Parts(("sts", "SICK"), _SICK, _ENTAILMENT, _entailment, _SICK_COLUMNS),
}
