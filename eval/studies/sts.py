"""Every similarity by every model on semantic textual similarity: STS 2012 to 2016, STS-B, SICK-R and STR."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.core.arrays import Float32Array, Float64Array, unit_rows
from surprise_rerank.encoders.base import Progress
from surprise_rerank.eval.line_files import data_folder, number, read_lines, read_rows
from surprise_rerank.eval.reports.report import Column, Plot, Series, Table
from surprise_rerank.eval.stats import Verdict, correlations, difference_intervals
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    SentenceBenchmark,
    SentenceModel,
    post_processed,
)
from surprise_rerank.eval.studies.settings import StsSettings
from surprise_rerank.eval.studies.study import Measurements, Shown
from surprise_rerank.similarities._bags import Texts, word_lists
from surprise_rerank.similarities.definitions import WordStatistics
from surprise_rerank.similarities.table import (
    RAW,
    CorpusStatistics,
    embedding_words,
    find_similarity,
    with_raw,
)

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

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
# Two sentences, and their judgement.
_Row: TypeAlias = tuple[str, str, float]
_STR_PAIRS = 5500  # rows of STR's file that are pairs
_FEWEST = 3  # pairs: a correlation of fewer has no meaning, and the bootstrap needs them
ALL, COSINE = "all", "cosine"
# The paper's, over raw word vectors. Token vectors of a sentence encoder are compared at length 1.
_WORDS = (
    *("max-jaccard-raw", "dynamax-jaccard-raw", "dynamax-otsuka-raw"),
    *("dynamax-dice-raw", "sif-pc-cosine-raw"),
)
_COEFFICIENTS = ("Pearson", "Spearman", "Kendall")
_FEW = 10  # systems that a terminal has room for under every data set
_VERDICTS: dict[Verdict, str] = {"win": "wins", "loss": "losses", "tie": "ties"}
_PAPER = (
    "Published for DynaMax-Jaccard beside average-cosine, over three sets of word vectors (GloVe, fastText, "
    "word2vec) and 24 sub-tasks: 77.8 % wins, 1.4 % losses, 20.8 % ties (Zhelezniak et al., ICLR 2019)."
)


@dataclass(frozen=True, slots=True, eq=False)
class SubTask:
    """n pairs of sentences from one source, and (n,) how similar people find each; names are unique."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    judgements: Float64Array

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class DataSet:
    """A year's sub-tasks, or a data set of one; and sentences of its other parts, for post-processing."""

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
    """Read data sets of `NAMES` from what `--data` names; with the sentences of their other parts, too."""
    border.some("sets", names, f"name some of {', '.join(NAMES)}")
    border.choices("sets", list(names), NAMES)
    return [_read(data, name, other_parts) for name in dict.fromkeys(names)]


def _read(data: Path | None, name: str, other_parts: bool) -> DataSet:
    if name in YEARS:
        folder = data_folder(data, "sts", name)
        return DataSet(name, tuple(_read_subtask(folder, name, task) for task in YEARS[name]))
    if name in _STR:
        return DataSet(name, (_read_str(data_folder(data, "sts", "STR"), name),))
    parts, folder_name = (_STS_B, "STSBenchmark") if name in _STS_B else (_SICK, "SICK")
    folder = data_folder(data, "sts", folder_name)
    others = [_read_part(folder / parts[part], part) for part in parts if other_parts and part != name]
    sentences = tuple(text for task in others for text in (*task.first, *task.second))
    return DataSet(name, (_read_part(folder / parts[name], name),), sentences)


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


def _read_part(path: Path, name: str) -> SubTask:
    """A part of STS-B, or of SICK, whose file has a header."""

    def sts_b(line: str) -> _Row | None:
        _, _, _, _, score, first, second, *_ = line.split("\t")  # fields about licences may follow
        return first, second, number(score, 0, 5)

    def sick(line: str) -> _Row | None:
        _, first, second, score, _ = line.split("\t")
        return None if line == SICK_HEADER else (first, second, number(score, 1, 5))

    row, expected = sick, f"{SICK_HEADER!r}, the score from 1 to 5"
    if name in _STS_B:
        row, expected = sts_b, "genre, file, year, pair, score from 0 to 5, two sentences, with tabs between"
    rows = list(read_rows(path, row, expected))
    if name in _SICK and rows[:1] != [None]:
        raise DataError(f"{path}: the first line must be the header {SICK_HEADER!r}")
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


class Compared(NamedTuple):
    """A system beside its baseline on a sub-task, in Pearson's r x 100, with a 95 % interval."""

    model: str
    similarity: str
    task: str
    difference: float
    low: float
    high: float
    verdict: Verdict | None


def similarities_for(model: SentenceModel, names: Sequence[str] | None, baseline: str) -> tuple[str, ...]:
    """Names of similarities for a model, the baseline first; `all` of the register but `fbow-words`."""
    if names is None:
        raw = model.word_vectors is not None
        names = (COSINE, *(name if raw else name.removesuffix(RAW) for name in _WORDS))
    every = (COSINE, *(name for name in with_raw() if "embedding" not in find_similarity(name).fitted_on))
    wanted = [n for name in names for n in (every if name == ALL else (name,))]
    return tuple(dict.fromkeys((baseline, *wanted)))


class StsStudy(SentenceBenchmark[StsSettings, list[DataSet]]):
    """How well similarities of sentences agree with people."""

    title = "Semantic textual similarity"
    keys = ("model", "similarity", "sub-task")

    def prepare(self) -> None:
        names, baseline = self.settings.similarities, self.settings.baseline
        if names is not None:
            border.some("similarities", names, f"give some, {COSINE!r} or {ALL!r}")
        for name in {*(names or ()), baseline} - {COSINE, ALL}:
            find_similarity(name)
        if note := "it is one similarity, not 'all'" if baseline == ALL else _missing(baseline):
            raise DataError(f"the baseline cannot be measured: {note}")
        self._unknown: dict[str, dict[str, int]] = {}
        self._compared: list[Compared] = []

    def read(self) -> list[DataSet]:
        return read_data_sets(self.settings.data, self.settings.sets, other_parts=self.settings.post_process)

    def measure(self, model: SentenceModel) -> None:
        settings, bar = self.settings, self.terminal.bar
        names = similarities_for(model, settings.similarities, settings.baseline)
        self.remarks |= dict.fromkeys(filter(None, map(_missing, names)))
        names = tuple(name for name in names if not _missing(name))
        counts = None if settings.word_counts is None else read_word_counts(settings.word_counts)
        unknown = self._unknown[model.name] = dict[str, int]()
        scores: dict[tuple[str, str], dict[str, Float64Array]] = {(model.name, name): {} for name in names}
        for data_set in self.data:
            with bar(f"{model.name}: encoding {data_set.name}", None, "sentences") as advance:
                pairs = EncodedPairs(model, data_set, counts, settings.post_process, advance)
            unknown[data_set.name] = pairs.unknown
            with bar(f"{model.name}: {data_set.name}", len(names), "similarities") as advance:
                for name in names:
                    scores[model.name, name] |= data_set.split(pairs.similarities(name))
                    advance(1)
            if settings.post_process:
                processed = scores.setdefault((model.name + POST_PROCESSED, COSINE), {})
                processed |= data_set.split(pairs.cosines(pairs.processed))
        self._correlate(scores)
        if settings.resamples:
            self._compare(scores)
        if sum(unknown.values()):
            self.remarks[
                f"{model.name}: no known word in {sum(unknown.values())} of the sentences. Their vector for "
                f"{COSINE} is the same for all, as in EvalRank; under the other similarities they are "
                "similar to nothing (0), as in fuzzymax."
            ] = None

    def _correlate(self, scores: Mapping[tuple[str, str], Mapping[str, Float64Array]]) -> None:
        for (model, name), by_task in scores.items():
            for task in (task for data_set in self.data for task in data_set.subtasks):
                coefficients = correlations(by_task[task.name], task.judgements)
                values = {**coefficients.by_name(), "pairs": len(task)}
                self.measurements.add((model, name, task.name), values)
                if not coefficients.defined:
                    note = f"no correlation on {task.name}, where it is the same for every pair"
                    self.remarks[f"{model} {name}: {note}"] = None

    def _compare(self, scores: Mapping[tuple[str, str], Mapping[str, Float64Array]]) -> None:
        """Every other system beside the baseline, the first one, on every sub-task."""
        baseline, *others = scores
        tasks = [task for data_set in self.data for task in data_set.subtasks]
        rows: list[Compared] = []
        with self.terminal.bar(f"{baseline[0]}: intervals", len(tasks), "sub-tasks") as advance:
            for task in tasks:
                differences = difference_intervals(
                    task.judgements,
                    np.array([scores[system][task.name] for system in others]).reshape(-1, len(task)),
                    scores[baseline][task.name],
                    resamples=self.settings.resamples,
                )
                for i, system in enumerate(others):
                    ends = (differences.values[i], differences.low[i], differences.high[i])
                    value, low, high = (100 * float(end) for end in ends)
                    rows.append(Compared(*system, task.name, value, low, high, differences.verdict(i)))
                advance(1)
        self._compared += sorted(rows, key=lambda row: others.index(row[:2]))

    def tables(self) -> Iterator[Table]:
        systems = list(dict.fromkeys(key[:2] for key in self.measurements))
        of_years, by_size = Measurements(*self.keys[:2], "year"), Measurements(*self.keys[:2], "data set")
        of_tasks = Measurements(*self.keys)
        for data_set in self.data:
            sizes = [len(task) for task in data_set.subtasks]
            for system in systems:
                keys = [(*system, task.name) for task in data_set.subtasks]
                values = {c: [self.measurements.mean(k, c) for k in keys] for c in _COEFFICIENTS}
                weighted = {c: float(np.average(v, weights=sizes)) for c, v in values.items()}  # type: ignore[arg-type]
                by_size.add((*system, data_set.name), weighted)
                if data_set.name in YEARS:
                    mean = {"Pearson": 100 * float(np.mean(values["Pearson"]))}  # type: ignore[arg-type]
                    of_years.add((*system, data_set.name), mean)
            for task in data_set.subtasks:
                for key in ((*system, task.name) for system in systems):
                    of_tasks.add(key, {c: self.measurements.mean(key, c) for c in (*_COEFFICIENTS, "pairs")})
        title = "Pearson correlation x 100, mean over a year's sub-tasks"
        years = of_years.crossed("sts", title, "Pearson", 2, ("The last column is the mean of the years.",))
        if years is not None:
            yield years
            if self._compared:
                yield self._wins()
        title = "Correlations by data set, mean over sub-tasks weighted by their size"
        # None is marked as the best: a table has rows of several data sets.
        shown = [Shown(name) for name in _COEFFICIENTS]
        yield by_size.table("sts-weighted", title, shown, detail=len(systems) > _FEW)
        if self._compared:
            yield self._differences()
        shown.append(Shown("pairs", 0))
        yield of_tasks.table("sts-subtasks", "Correlations by sub-task", shown, detail=True)

    def _differences(self) -> Table:
        ends = (Column("difference", 2), Column("low", 2), Column("high", 2), Column("verdict"))
        return Table(
            "sts-differences",
            f"Difference of Pearson correlations to {self.settings.baseline} x 100, with BCa 95 % intervals",
            (*map(Column, self.keys), *ends),
            tuple(self._compared),
            keys=3,
            notes=(
                "A win or a loss has an interval that excludes 0. Without a verdict: a similarity that is "
                "the same for every pair of a resample.",
            ),
            detail=True,
        )

    def _wins(self) -> Table:
        counts: dict[tuple[str, str], Counter[Verdict | None]] = {}
        for row in self._compared:
            if row.task.split()[0] in YEARS:
                counts.setdefault((row.model, row.similarity), Counter())[row.verdict] += 1
        measurements = Measurements(*self.keys[:2])
        for key, verdicts in counts.items():
            numbers = {names: verdicts[verdict] for verdict, names in _VERDICTS.items()}
            total = sum(numbers.values())
            shares = {f"{name} %": 100 * n / total for name, n in numbers.items()} if total else {}
            measurements.add(key, {**numbers, **shares})
        note = "Won or lost: the BCa 95 % interval of the difference of Pearson correlations excludes 0."
        shown = [Shown(f"{name}{part}", d) for part, d in (("", 0), (" %", 1)) for name in _VERDICTS.values()]
        title = f"Sub-tasks of the years that are won and lost against {self.settings.baseline}"
        return measurements.table("sts-wins", title, shown, (note, _PAPER))

    def plots(self) -> Iterator[Plot]:
        baseline, differences = self.settings.baseline, Measurements(*self.keys[:2])
        for row in [row for row in self._compared if row.task.split()[0] in YEARS] or self._compared:
            if not math.isnan(row.difference):
                differences.add(row[:2], {"difference": row.difference})
        for model in dict.fromkeys(key[0] for key in differences):
            means = {
                str(k[1]): differences.mean(k, "difference") or 0.0 for k in differences if k[0] == model
            }
            names = sorted(means, key=lambda name: -means[name])
            yield Plot(
                "bars",
                f"Similarities beside {baseline}, {model}",
                "similarity",
                "mean difference in Pearson correlation x 100",
                (Series("difference", tuple(names), tuple(means[name] for name in names)),),
                finding=f"{sum(value > 0 for value in means.values())} of {len(means)} are above {baseline}.",
            )

    def facts(self) -> dict[str, Any]:
        return {
            "baseline": self.settings.baseline,
            "resamples": self.settings.resamples,
            "pairs": {data_set.name: len(data_set) for data_set in self.data},
            "sentences_without_known_words": self._unknown,
        }


def _missing(name: str) -> str:
    """Why a similarity cannot be measured, as it needs a module that is not installed; empty where it can."""
    named = None if name in (COSINE, ALL) else find_similarity(name)
    if named is None or not named.module or is_installed(named.module):
        return ""
    return f"{name}: not measured, {named.module} is not installed: run {pip_line(named.extra)}"


def read_word_counts(path: Path) -> Mapping[str, float]:
    """Word -> its count, of a file with a word and a count in each line; the counts of equal words add up."""

    def row(line: str) -> tuple[str, float]:
        word, count = line.split()
        return word.lower(), number(count, 0)

    counts: dict[str, float] = {}
    for word, count in read_rows(path, row, "a word and its count", blank=False):
        counts[word] = counts.get(word, 0.0) + count
    return counts


class EncodedPairs:
    """A data set's sentences, each encoded once.

    SIF's weights come from `word_counts`, by default from the data set's own sentences. `processed` vectors
    lack the first two principal components of all sentences of the data set, other parts included.
    """

    def __init__(
        self,
        model: SentenceModel,
        data_set: DataSet,
        word_counts: Mapping[str, float] | None = None,
        post_process: bool = False,
        on_progress: Progress | None = None,
    ) -> None:
        self._encoder, self._word_counts = model.encoder, word_counts
        sentences = list(dict.fromkeys(data_set.sentences))
        row = {text: i for i, text in enumerate(sentences)}
        self._occurrences = np.array([row[text] for text in data_set.sentences])
        self._first = np.array([row[text] for task in data_set.subtasks for text in task.first])
        self._second = np.array([row[text] for task in data_set.subtasks for text in task.second])
        encoded = model.encoder.encode(sentences, on_progress=on_progress)
        self._texts = Texts(encoded.require_tokens(), word_lists(model.encoder, sentences))
        self._bags = [self._texts[i] for i in range(len(self._texts))]
        # Word vectors are looked up again for their mean, which takes no time; other models are asked once.
        self._dense = encoded.dense if model.word_vectors is None else model.vectors(sentences)
        self.processed = self._dense
        if post_process:
            others = [text for text in dict.fromkeys(data_set.other_sentences) if text not in row]
            more = model.vectors(others, on_progress=on_progress) if others else self._dense[:0]
            self.processed = post_processed(np.concatenate([self._dense, more]))[: len(sentences)]

    @property
    def unknown(self) -> int:
        """How many sentences have no known word."""
        return sum(not bag.vectors.any() for bag in self._bags)

    @cached_property
    def _statistics(self) -> WordStatistics:
        """Of the words of the data set's sentences, as often as they are in pairs."""
        of_sentences = WordStatistics.of(self._texts.names[i] for i in self._occurrences)
        if self._word_counts is None:
            return of_sentences
        return WordStatistics(self._word_counts, of_sentences.document_frequencies, of_sentences.documents)

    def similarities(self, name: str) -> Float64Array:
        """(n,) similarities of the pairs of all sub-tasks, one after the other, by the reference form.

        What is fitted is fitted on the data set's sentences, as often as they are in pairs. `cosine` is that
        of the model's own sentence vectors. Of distances it is minus the distance, as r is of the values.
        """
        if name == COSINE:
            return self.cosines(self._dense)
        named = find_similarity(name)
        sample = Texts()
        if "texts" in named.fitted_on:
            words = tuple(self._texts.names[i] for i in self._occurrences)
            sample = Texts(self._texts.batch.take(self._occurrences), words)
        # Products of sentences are small: with a second thread, numpy takes up to ten times as long for them.
        with threadpool_limits(limits=1, user_api="blas"):
            embedding = embedding_words(self._encoder) if "embedding" in named.fitted_on else None
            similarity = named.build(
                CorpusStatistics(self._texts.batch.dimension, sample, self._statistics, embedding)
            )
            pairs = zip(self._first.tolist(), self._second.tolist(), strict=True)
            values = [similarity.pair(self._bags[a], self._bags[b]) for a, b in pairs]
        return named.linear(np.array(values, np.float64))

    def cosines(self, vectors: Float32Array) -> Float64Array:
        """(n,) cosines of the pairs, of vectors of the sentences."""
        unit = unit_rows(vectors).astype(np.float64)
        return np.asarray((unit[self._first] * unit[self._second]).sum(axis=1))
