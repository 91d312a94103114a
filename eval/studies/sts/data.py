"""Pairs of sentences with people's judgements: STS 2012 to 2016, STS-B, SICK-R and STR."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from surprise_rerank import border
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.errors import DataError
from surprise_rerank.eval.line_files import data_folder, number, read_lines, read_rows

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

_SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
# Two sentences, and their judgement.
_Row: TypeAlias = tuple[str, str, float]
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

    def split(self, values: Float64Array) -> dict[str, Float64Array]:
        """Sub-task -> its pairs' values, of (n,) values of all pairs."""
        ends = np.cumsum([len(task) for task in self.subtasks])[:-1]
        return {task.name: part for task, part in zip(self.subtasks, np.split(values, ends), strict=True)}

    def __len__(self) -> int:
        """The number of pairs."""
        return sum(len(task) for task in self.subtasks)


def read_data_sets(
    data: Path | None, names: Sequence[str] = PUBLISHED, *, other_parts: bool = False
) -> list[DataSet]:
    """Read data sets.

    Args:
        data: the folder that `--data` names; `sts` is looked for in it.
        names: some of `NAMES`.
        other_parts: whether the sentences of a data set's other parts are wanted.
    """
    border.some("sets", names, f"name some of {', '.join(NAMES)}")
    border.choices("sets", list(names), NAMES)
    return [_read(data, name, other_parts) for name in dict.fromkeys(names)]


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
    gold = folder / f"STS.gs.{name}.txt"

    def pair(line: str) -> tuple[str, str]:
        first, second = line.split("\t")
        return first, second

    pairs = list(read_rows(folder / f"STS.input.{name}.txt", pair, "two sentences with a tab between"))

    def judgement(line: str) -> float | None:
        return number(line.strip(), 0, 5) if line.strip() else None

    scores = list(read_rows(gold, judgement, "a judgement from 0 to 5, or nothing"))
    border.equal(f"the number of lines of {gold}", len(scores), len(pairs), "give one for each pair")
    rows = [(*pair, score) for pair, score in zip(pairs, scores, strict=True) if score is not None]
    return _subtask(f"{year} {name}", rows, gold)


def _read_sts_b(path: Path, name: str) -> SubTask:
    def row(line: str) -> _Row:
        # Fields about licences may follow.
        _, _, _, _, score, first, second, *_ = line.split("\t")
        return first, second, number(score, 0, 5)

    expected = "genre, file, year, pair, score from 0 to 5, two sentences, with tabs between"
    return _subtask(name, list(read_rows(path, row, expected)), path)


def _read_sick(path: Path, name: str) -> SubTask:
    def row(line: str) -> _Row | None:
        _, first, second, score, _ = line.split("\t")
        return None if line == _SICK_HEADER else (first, second, number(score, 1, 5))

    rows = list(read_rows(path, row, f"{_SICK_HEADER!r}, the score from 1 to 5"))
    if rows[:1] != [None]:
        raise DataError(f"{path}: the first line must be the header {_SICK_HEADER!r}")
    return _subtask(name, [judged for judged in rows if judged is not None], path)


def _read_str(folder: Path, name: str) -> SubTask:
    """STR, whose file quotes the two sentences of a pair as two lines of one column."""
    path = folder / "sem_text_rel_ranked.csv"
    reader = csv.DictReader((f"{line}\n" for line in read_lines(path)), strict=True)
    rows: list[_Row] = []
    try:
        for record in islice(reader, _STR_PAIRS):
            sentences: Iterable[str] = record["Text"].split("\n")
            first, second = sentences if name == "STR" else map(" ".join, sentences)
            rows.append((first, second, number(record["Score"], 0, 1)))
    except (ValueError, LookupError, AttributeError, TypeError, csv.Error) as error:
        raise DataError(
            f"{path}, before line {reader.line_num + 1}: {error}, expected the columns Text (two sentences, "
            "a line each) and Score (from 0 to 1)"
        ) from error
    return _subtask(name, rows, path)


def _subtask(name: str, rows: Sequence[_Row], path: Path) -> SubTask:
    border.some(f"judged pairs of {path}", rows, "a correlation needs them", _FEWEST)
    first, second, scores = zip(*rows, strict=True)
    return SubTask(name, first, second, np.array(scores, dtype=np.float64))
