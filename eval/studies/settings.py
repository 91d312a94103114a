"""Settings of the studies, as options and `--set` have them. Imports nothing heavy: `--help` reads this.

What has an option is described there; the other attributes are keys of `--set`, whose help is their text.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError

# As `encoders.loading.DEFAULT_MODEL`, which `--help` cannot wait for.
MODEL = "all-MiniLM-L6-v2"
WORD_VECTORS = "glove-6b-50d"
# As `classify.labels.DEFAULT_TEMPLATE`.
TEMPLATE = "this matter is {}"
TASKS = ("SCICITE", "MR", "CR", "MPQA", "SUBJ", "SST2", "SST5", "TREC", "MRPC", "SICK-E")
# Judged pairs of sentences, which downstream tasks are on request.
RELATEDNESS = ("STS-B", "SICK-R")
# What learns from few examples.
FEW_SHOT_SYSTEMS = ("cosine", "surprise", "cosine-linear", "surprise-linear", "logistic", "setfit")

Pooling: TypeAlias = Literal["own", "cls", "first-last"]
Weight: TypeAlias = float | Literal["crossover"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSettings:
    """What benchmarks of words and sentences share.

    Attributes:
        pooling: of a transformer's tokens: as the model is configured, the first token's vector (cls), or the
            mean of the first and the last layer; its name is behind the model's.
        post_process: measure once more, without the first two principal components of the vocabulary or of
            the sentence vectors; `+pp` after the model's name marks it.
    """

    models: tuple[str, ...] = (WORD_VECTORS,)
    data: Path | None = None
    pooling: Pooling = "own"
    post_process: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings(BenchmarkSettings):
    """How items are ranked.

    Attributes:
        whiten: measure once more, with whitened vectors (Su et al., 2021): centred, without correlations, all
            of variance 1; `+white` after the model's name marks it.
        as_published: let the last bits of cosine and l2 decide between equal similarities, and count no word
            without a vector against another, as in the published figures.
    """

    similarities: tuple[str, ...] = ("cosine", "l2", "surprise-crossover")
    whiten: bool = False
    as_published: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StsSettings(BenchmarkSettings):
    """How similarities are compared.

    Attributes:
        sets: data sets; also STS-B-dev, STS-B-train, SICK-R-trial, SICK-R-train, STR-characters.
        resamples: bootstrap resamples for the intervals of differences; 0 for no intervals.
        word_counts: a file with a word and its count in each line, for SIF; by default the words of each data
            set's own sentences are counted.
    """

    similarities: tuple[str, ...] | None = None
    baseline: str = "cosine"
    sets: tuple[str, ...] = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "STR")
    resamples: int = 10_000
    word_counts: Path | None = None

    def __post_init__(self) -> None:
        border.count("resamples", self.resamples, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PapersSettings:
    """Which published figures are measured again."""

    data: Path | None = None
    only: tuple[str, ...] | None = None
    list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings(BenchmarkSettings):
    """What is learnt: tasks of SentEval."""

    tasks: tuple[str, ...] = TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSettings:
    """The models of a study of labelled texts, where their vectors are, and how files are read.

    Attributes:
        on_error: what becomes of malformed rows; those that are skipped are counted.
        answers: show the label (by names=) or the cluster (of clusters=) of each text, which needs none.
        cache: folder of vectors; $SURPRISE_RERANK_CACHE or the user's cache folder by default.
    """

    models: tuple[str, ...] = (MODEL,)
    text: str | None = None
    label: str = "label"
    on_error: Literal["raise", "skip"] = "raise"
    answers: bool = False
    cache: Path | None = None
    limit: int | None = None

    def columns(self) -> dict[str, Any]:
        """The arguments of `read_labelled`."""
        return {"text": self.text, "label": self.label, "on_error": self.on_error}

    def facts(self) -> dict[str, Any]:
        """The settings for a report, without places."""
        places = ("cache", "file", "files", "train")
        return {name: value for name, value in asdict(self).items() if name not in places}


def _is_weight(value: Weight) -> bool:
    return value == "crossover" or 0 <= value <= 1


def to_weight(text: str) -> Weight:
    """A weight of surprise: `crossover`, or a number from 0 to 1; a DataError else."""
    with contextlib.suppress(ValueError):
        weight: Weight = "crossover" if text == "crossover" else float(text)
        if _is_weight(weight):
            return weight
    return border.refuse("weight", text, "crossover, or a number from 0 to 1", "write it as surprise@0.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifySettings(LabelledSettings):
    """What is classified, and what is measured.

    Attributes:
        names: YAML of `class: name` or `class: [name, another]`; the class by default, with spaces for _.
        templates: what a label's name is put into, at {}; each is measured.
        weight: how much surprise counts against the cosine, from 0 to 1; crossover: tanh(size of the ensemble
            / crossover_size), as published.
        crossover_size: N_cross of the weight crossover.
        inductive: compare with the texts of train, not with the tested ones (without their labels).
        ensemble_size: measure surprise with random ensembles of N texts, such as 3,9,27,81,243,729,2187; the
            others are tested.
        few_shot: learn from K examples of each class, of train or of the file, whose others are tested; from
            0 by the labels' names, which SetFit is trained on.
        balanced: whether few_shot draws K of each class, or as many in all without a look at the classes.
        draws: ensembles or examples that are drawn of each size; 10 by default, of examples 3.
        test_size: with few_shot, test N texts, drawn at random; all by default.
        systems: with few_shot, the systems that learn; all by default that the model can be trained for.
        soft_negative, gamma, weight_decay, target_f1: with few_shot, parameters of the training, as published
            but for target_f1 (published .9).
    """

    file: Path
    train: Path | None = None
    names: Path | None = None
    templates: tuple[str, ...] = (TEMPLATE,)
    weight: Weight = "crossover"
    crossover_size: float = 1000.0
    inductive: bool = False
    ensemble_size: tuple[int, ...] | None = None
    few_shot: tuple[int, ...] | None = None
    balanced: bool = True
    draws: int | None = None
    test_size: int | None = None
    systems: tuple[str, ...] | None = None
    soft_negative: float = 0.05
    gamma: float = 1.0
    weight_decay: float = 0.01
    target_f1: float = 0.0

    def __post_init__(self) -> None:
        from surprise_rerank.classify._labels import check_template

        for template in self.templates:
            check_template(template)
        for name in ("limit", "draws", "test_size"):
            border.optional(border.count, name, getattr(self, name))
        for number in self.ensemble_size or ():
            border.count("ensemble_size", number)
        for number in self.few_shot or ():
            border.count("few_shot", number, 0)
        border.choices("systems", self.systems or (), FEW_SHOT_SYSTEMS)
        few, sizes = self.few_shot, self.ensemble_size
        for message, is_wrong in (
            ("weight: give crossover, or a number from 0 to 1", not _is_weight(self.weight)),
            ("few_shot and ensemble_size are two studies; give one of them", few and sizes),
            ("few_shot takes one of templates", few and len(self.templates) > 1),
            ("test_size is for few_shot, which is not given", self.test_size and not few),
            ("systems is for few_shot, which is not given", self.systems and not few),
            ("balanced is for few_shot, which is not given", not self.balanced and not few),
            ("draws is for few_shot and ensemble_size; give one of them", self.draws and not (few or sizes)),
            (
                "inductive compares with the texts of train, without another study; give it",
                self.inductive and (self.train is None or few or sizes),
            ),
        ):
            if is_wrong:
                raise DataError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(LabelledSettings):
    """What is clustered, and how.

    Attributes:
        clusters: how many clusters; as many as there are labels by default.
        repeats: beginnings of k-means.
        assignments: what to compare.
    """

    files: tuple[Path, ...]
    clusters: int | None = None
    repeats: int = 20
    assignments: tuple[str, ...] = (
        *("cosine", "surprise", "surprise@0.75"),
        *("pooled", "percentile", "empirical"),
    )

    def __post_init__(self) -> None:
        for name in ("clusters", "repeats", "limit"):
            border.optional(border.count, name, getattr(self, name))
