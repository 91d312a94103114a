"""Pairs of sentences with people's judgements: STS 2012 to 2016, STS-B, SICK-R and STR."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.errors import DataError
from surprise_rerank.eval.line_files import Line, data_folder, read_lines, same_length

# STS13's SMT is not published with its sentences; the files ALL repeat the others.
YEARS: dict[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
_STS_B = {"STS-B": "sts-test.csv", "STS-B-dev": "sts-dev.csv", "STS-B-train": "sts-train.csv"}
_SICK = {
    "SICK-R": "SICK_test_annotated.txt",
    "SICK-R-trial": "SICK_trial.txt",
    "SICK-R-train": "SICK_train.txt",
}
# The second has each character for a word, which is what the published code of EvalRank measures as STR.
_STR = ("STR", "STR-characters")
# The data sets whose published figures others are compared with.
PUBLISHED = (*YEARS, "STS-B", "SICK-R", "STR")
NAMES = (*PUBLISHED, *[n for n in (*_STS_B, *_SICK, *_STR) if n not in PUBLISHED])

# As many rows of STR's file are pairs.
_STR_PAIRS = 5500
# A correlation of fewer has no meaning, and the bootstrap needs them.
_FEWEST = 3


@dataclass(frozen=True, slots=True, eq=False)
class SubTask:
    """n pairs of sentences from one source.

    Attributes:
        name: unique among all data sets.
        first: n sentences.
        second: the n sentences that they are compared with.
        judgements: (n,) how similar people find each pair.
    """

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    judgements: Float64Array

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class DataSet:
    """A year's sub-tasks, or a data set of one.

    Attributes:
        name: one of `NAMES`.
        subtasks: in the order of the publication.
        other_sentences: those of the other parts of the data set; only EvalRank's post-processing reads them.
    """

    name: str
    subtasks: tuple[SubTask, ...]
    other_sentences: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Every sentence of every pair, as often as it occurs."""
        return tuple(text for task in self.subtasks for text in (*task.first, *task.second))

    def __len__(self) -> int:
        """The number of pairs."""
        return sum(len(task) for task in self.subtasks)


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of data sets, once each."""
    unknown = next((name for name in names if name not in NAMES), None)
    if unknown is not None or not names:
        given = "no data set" if unknown is None else f"unknown data set {unknown!r}"
        raise DataError(f"{given}; choose of {', '.join(NAMES)}")
    return tuple(dict.fromkeys(names))


def read_data_sets(
    data: Path | None, names: Sequence[str] = PUBLISHED, *, other_parts: bool = False
) -> list[DataSet]:
    """Read data sets.

    Args:
        data: the folder that `--data` names; `sts` is looked for in it.
        names: some of `NAMES`.
        other_parts: whether the sentences of a data set's other parts are wanted.
    """
    return [_read(data, name, other_parts) for name in check_names(names)]


def _read(data: Path | None, name: str, other_parts: bool) -> DataSet:
    if name in YEARS:
        folder = data_folder(data, "sts", name)
        return DataSet(name, tuple(_read_subtask(folder, name, task) for task in YEARS[name]))
    if name in _STR:
        return DataSet(name, (_read_str(data_folder(data, "sts", "STR"), name),))
    parts, folder_name, read = (
        (_STS_B, "STSBenchmark", _read_sts_b) if name in _STS_B else (_SICK, "SICK", _read_sick)
    )
    folder = data_folder(data, "sts", folder_name)
    others = [read(folder / parts[part], part) for part in parts if other_parts and part != name]
    sentences = tuple(text for task in others for text in (*task.first, *task.second))
    return DataSet(name, (read(folder / parts[name], name),), sentences)


def _read_subtask(folder: Path, year: str, name: str) -> SubTask:
    """A sub-task of a year; pairs whose line in the file of judgements is empty have none, and stay out."""
    pairs = list(read_lines(folder / f"STS.input.{name}.txt"))
    gold = list(read_lines(folder / f"STS.gs.{name}.txt"))
    same_length(pairs, gold)
    judged = [(pair, line) for pair, line in zip(pairs, gold, strict=True) if line.text.strip()]
    texts = [pair.fields("\t", ("first sentence", "second sentence")) for pair, _ in judged]
    scores = [line.number_in(line.text.strip(), "judgement", 0, 5) for _, line in judged]
    rows = [(first, second, score) for (first, second), score in zip(texts, scores, strict=True)]
    return _subtask(f"{year} {name}", rows, folder / f"STS.gs.{name}.txt")


def _read_sts_b(path: Path, name: str) -> SubTask:
    # Fields about licences may follow.
    columns = ("genre", "file", "year", "pair", "score", "first sentence", "second sentence")
    rows = []
    for line in read_lines(path):
        fields = line.fields("\t", columns, more=True)
        rows.append((fields[5], fields[6], line.number_in(fields[4], "score", 0, 5)))
    return _subtask(name, rows, path)


def _read_sick(path: Path, name: str) -> SubTask:
    columns = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
    lines = read_lines(path)
    _require_columns(next(lines, Line(path, 1, "")), "\t", columns)
    rows = []
    for line in lines:
        _, first, second, score, _ = line.fields("\t", columns)
        rows.append((first, second, line.number_in(score, "relatedness score", 1, 5)))
    return _subtask(name, rows, path)


def _read_str(folder: Path, name: str) -> SubTask:
    """STR, whose file quotes the two sentences of a pair as two lines of one column."""
    path = folder / "sem_text_rel_ranked.csv"
    records = _records(path)
    header = next(records, (Line(path, 1, ""), []))
    places = [_place(header, column) for column in ("Text", "Score")]
    rows = []
    for line, fields in islice(records, _STR_PAIRS):
        if len(fields) != len(header[1]):
            raise line.wrong(f"{len(fields)} columns, expected {len(header[1])} as in line 1")
        text, score = (fields[place] for place in places)
        sentences = text.split("\n")
        if len(sentences) != 2:
            raise line.wrong(f"the column Text has {len(sentences)} lines, expected 2: {text[:80]!r}")
        first, second = sentences if name == "STR" else map(" ".join, sentences)
        rows.append((first, second, line.number_in(score, "score", 0, 1)))
    return _subtask(name, rows, path)


def _records(path: Path) -> Iterator[tuple[Line, list[str]]]:
    """The records of a CSV file, each with its first line."""
    lines = list(read_lines(path))
    reader = csv.reader((line.text + "\n" for line in lines), strict=True)
    while True:
        start = min(reader.line_num, len(lines) - 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise lines[start].wrong(f"not CSV with commas and double quotes: {error}") from error
        if fields is None:
            return
        if fields:  # an empty line is no record
            yield lines[start], fields


def _place(header: tuple[Line, list[str]], column: str) -> int:
    line, columns = header
    if column not in columns:
        raise line.wrong(f"no column {column!r}; the file has {', '.join(columns) or 'no header'}")
    return columns.index(column)


def _require_columns(header: Line, separator: str, columns: Sequence[str]) -> None:
    found = header.text.split(separator)
    missing = [column for column in columns if column not in found]
    if missing:
        raise header.wrong(f"no column {missing[0]!r}, expected the header {separator.join(columns)!r}")
    if found != list(columns):
        raise header.wrong(f"the header {header.text[:120]!r}, expected {separator.join(columns)!r}")


def _subtask(name: str, rows: Sequence[tuple[str, str, float]], path: Path) -> SubTask:
    if len(rows) < _FEWEST:
        raise DataError(f"{path} has {len(rows)} judged pairs, expected at least {_FEWEST}")
    first, second, scores = zip(*rows, strict=True)
    return SubTask(name, first, second, np.array(scores, dtype=np.float64))
