"""The downstream tasks of SentEval as EvalRank runs them: texts, or pairs of texts, and their classes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
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
_SST_FILES: dict[PartName, str] = {
    "train": "sentiment-train",
    "dev": "sentiment-dev",
    "test": "sentiment-test",
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

    @property
    def digest(self) -> str:
        """16 digits that differ where a text, a class or an order differs."""
        digest = hashlib.sha256(repr((self.name, self.classes)).encode())
        for name, part in self.parts.items():
            digest.update(repr((name, part.texts, part.others, part.labels.tolist())).encode())
        return digest.hexdigest()[:16]


def read_task(name: str, data: Path | None) -> DownstreamTask:
    """A task by its name.

    Args:
        name: one of `TASKS`.
        data: what `--data` names: the folder that holds `downstream` (and `sts`, for SICK-E), or the one that
            holds the tasks' folders.

    Raises:
        DatasetError: if there is no such task, or a file is missing or empty.
        DataError: if a line has another form, or a class that the task does not have; names file and line.
    """
    if name not in _READERS:
        raise DatasetError(f"there is no task {name!r}; choose from {', '.join(TASKS)}")
    return _READERS[name](data)


def _two_files(
    name: str, negative: str, positive: str, classes: tuple[str, str]
) -> Callable[..., DownstreamTask]:
    def read(data: Path | None) -> DownstreamTask:
        folder = data_folder(data, "downstream", name)
        items = [
            (line.text, "", label)
            for label, file in enumerate((negative, positive))
            for line in _lines(folder / file, "latin-1")
        ]
        return DownstreamTask(name, classes, {"all": _part(items)})

    return read


def _published_parts(
    name: str,
    folder: Sequence[str],
    files: dict[PartName, str],
    classes: tuple[str, ...],
    item: Callable[[Line], _Item],
    columns: Sequence[str] = (),
    encoding: str = "utf-8",
) -> _Reader:
    """A task whose parts are published as files of a folder."""

    def read(data: Path | None) -> DownstreamTask:
        there = _sick_folder(data) if name == "SICK-E" else data_folder(data, "downstream", *folder)
        parts = {k: _read(there / file, item, columns, encoding=encoding) for k, file in files.items()}
        return DownstreamTask(name, classes, parts)

    return read


def _sick_folder(data: Path | None) -> Path:
    """SICK is among the data of textual similarity, in the folder of `--data` or next to it."""
    try:
        return data_folder(data, "sts", "SICK")
    except DatasetError:
        beside = None if data is None else data.absolute().parent / "sts" / "SICK"
        if beside is None or not beside.is_dir():
            raise
        return beside


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


def _read(path: Path, item: Callable[[Line], _Item], columns: Sequence[str] = (), *, encoding: str) -> Part:
    """A file of an item a line, under a line of column names where there are some."""
    lines = _lines(path, encoding)
    if columns:
        first, *lines = lines
        if tuple(first.fields("\t", columns, more=True)[: len(columns)]) != tuple(columns):
            raise first.wrong(f"expected the columns {', '.join(columns)}: {first.text[:80]!r}")
        if not lines:
            raise DatasetError(f"{path} holds column names and nothing else, expected a line for each pair")
    return _part([item(line) for line in lines])


def _lines(path: Path, encoding: str) -> list[Line]:
    lines = list(read_lines(path, encoding))
    if not lines:
        raise DatasetError(f"{path} is empty, expected a line for each text")
    return lines


def _part(items: Iterable[_Item]) -> Part:
    texts, others, labels = zip(*items, strict=True)
    pairs = any(others)
    return Part(
        tuple(map(_spaced, texts)),
        tuple(map(_spaced, others)) if pairs else (),
        np.array(labels, dtype=np.int64),
    )


def _spaced(text: str) -> str:
    return " ".join(text.split()) or _NOTHING


_Reader: TypeAlias = Callable[[Path | None], DownstreamTask]
_READERS: dict[str, _Reader] = {
    "SCICITE": _published_parts(
        "SCICITE",
        ["SCICITE"],
        {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"},
        _SCICITE,
        _citation,
    ),
    "MR": _two_files("MR", "rt-polarity.neg", "rt-polarity.pos", ("negative", "positive")),
    "CR": _two_files("CR", "custrev.neg", "custrev.pos", ("negative", "positive")),
    "MPQA": _two_files("MPQA", "mpqa.neg", "mpqa.pos", ("negative", "positive")),
    "SUBJ": _two_files("SUBJ", "subj.subjective", "subj.objective", ("subjective", "objective")),
    "SST2": _published_parts("SST2", ["SST", "binary"], _SST_FILES, _SENTIMENT, _sentiment),
    "SST5": _published_parts("SST5", ["SST", "fine"], _SST_FILES, _FINE_SENTIMENT, _fine_sentiment),
    "TREC": _published_parts(
        "TREC",
        ["TREC"],
        {"train": "train_5500.label", "test": "TREC_10.label"},
        _TREC,
        _question,
        encoding="latin-1",
    ),
    "MRPC": _published_parts(
        "MRPC",
        ["MRPC"],
        {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        _PARAPHRASE,
        _paraphrase,
        _MRPC_COLUMNS,
    ),
    "SICK-E": _published_parts(
        "SICK-E",
        [],
        {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"},
        _ENTAILMENT,
        _entailment,
        _SICK_COLUMNS,
    ),
}
