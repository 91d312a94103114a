"""The classifier's default, chosen on some data sets and measured on another one.

Texts are classified by the names of their labels, by the cosine and by many forms of the surprise score. Of
each data set in turn everything is fixed on the others: the form that has the highest mean there, over three
models and two templates, is measured on the one that was left out. Where a data set has training texts, these
stand for it when a form is chosen, and the test texts when it is measured. No form sees a label.

A rule may take the cosine where the offset share (below) is small. It is judged by the same means: `ruled` is
the best form on the other data sets where such rules may be chosen, `new` the best one without.

`old` is what `SurpriseClassifier` did before: pooled surprise where the offset share of the labels was above
.12, else the cosine. With d_l = q_l - q_mean of the labels, and m and C the mean and covariance of the texts,

    R = sum_l (d_l . m)^2 / sum_l ((d_l . m)^2 + d_l' C d_l)

is the part of the labels' differences that is the same for all texts, and that surprise takes away.

    python benchmarks/classifier_default.py --data benchmarks-data --report page.html
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click
import numpy as np
from scipy import stats

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.files import cache_folder
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.options import present, quiet_option, report_option
from surprise_rerank.eval.line_files import data_folder
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.stats.significance import holm, paired_randomization
from surprise_rerank.eval.studies.classify.systems import qualities
from surprise_rerank.eval.studies.classify.task import Task, label_names
from surprise_rerank.eval.studies.downstream.tasks import read_task as read_downstream
from surprise_rerank.eval.studies.labelled import LabelledTexts, LabelledVectors, load_models, read_labelled
from surprise_rerank.surprise.anchor_scores import AnchorScores
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight

MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")
TEMPLATES = ("{}", "this matter is {}")
# Name -> the files that a form is chosen and measured on.
FILES = {
    "AG News": ("ag_news.test.jsonl", "ag_news.test.jsonl"),
    "TREC-6": ("trec6.train.jsonl", "trec6.test.jsonl"),
    "banking77": ("banking77.train.jsonl", "banking77.test.jsonl"),
    "clinc150": ("clinc150.train.jsonl.gz", "clinc150.test.jsonl.gz"),
    "hwu64": ("hwu64.train.jsonl.gz", "hwu64.test.jsonl.gz"),
}
# Of SentEval and the like; a class is called as here, or by its own name.
DOWNSTREAM: dict[str, dict[str, str]] = {
    "MR": {},
    "CR": {},
    "MPQA": {},
    "SUBJ": {},
    "SST5": {"0": "terrible", "1": "bad", "2": "okay", "3": "good", "4": "great"},
    "SCICITE": {},
}
# Sentences of one are sentences of the other, so that both are left out together.
TOGETHER = frozenset({"MR", "SST5"})
# Texts of a training file, and of a data set that has one part only.
TRAIN_SAMPLE, SAMPLE = 2000, 3000
# p is known to .0005 then.
_RESAMPLES = 1999


@dataclass(frozen=True)
class DataSet:
    """A data set.

    Attributes:
        name: as published.
        chosen: what forms are chosen on.
        measured: what they are measured on; the same task where there is one part only.
    """

    name: str
    chosen: Task
    measured: Task


@dataclass(frozen=True, slots=True)
class Form:
    """A way to classify by the names of the labels.

    Attributes:
        model: of surprise.
        weight: w; 0 is the cosine.
        shrink_mean: how far a label's mean is moved to the mean of all.
        shrink_deviation: the same for its variance.
        border: an offset share up to which the cosine is taken instead; -1: never.
    """

    model: SurpriseModel = "gaussian"
    weight: Weight = "crossover"
    shrink_mean: float = 0.0
    shrink_deviation: float = 0.0
    border: float = -1.0

    def __str__(self) -> str:
        if self.weight == 0:
            return "cosine"
        parts = [self.model, f"w {self.weight}"]
        parts += [f"mean {self.shrink_mean:g}"] if self.shrink_mean else []
        parts += [f"variance {self.shrink_deviation:g}"] if self.shrink_deviation else []
        return ", ".join([*parts, f"R > {self.border:g}"] if self.border >= 0 else parts)

    def places(self, labels: Float32Array, texts: Float32Array) -> IntArray:
        """(n,) places of the labels that are chosen for n texts, which are the ensemble, too."""
        ensemble, anchors = (Ensemble.from_vectors(v, similarity="cosine") for v in (texts, labels))
        surprise = Surprise(
            ensemble, self.model, self.weight, self.shrink_mean, self.shrink_deviation, anchors
        )
        return AnchorScores(labels, surprise).nearest(texts)


COSINE = Form(weight=0.0)
SYSTEMS = {
    "cosine": COSINE,
    "surprise": Form(),
    "pooled": Form(shrink_deviation=1.0),
    "half-pooled": Form(shrink_deviation=0.5),
    "old": Form(shrink_deviation=1.0, border=0.12),
}
# Chosen on the other data sets, with a rule about the cosine and without.
RULED, NEW = "ruled", "new"
# What the default is chosen from: simpler ones first, which stay where another is no better.
_WAYS = (
    COSINE,
    *(
        Form(weight=weight, shrink_mean=mean, shrink_deviation=deviation)
        for weight, mean, deviation in itertools.product(
            ("crossover", 0.75, 0.5), (0.0, 0.25, 0.5), (0.0, 0.5, 1.0)
        )
    ),
    Form("percentile"),
    Form("empirical"),
)
_BORDERS = (0.03, 0.06, 0.12, 0.24)
_DEFAULT = SYSTEMS["half-pooled"]


def data_sets(data: Path) -> Iterator[DataSet]:
    """The data sets, one after the other."""
    for name, files in FILES.items():
        chosen, measured = (read_labelled(data_folder(data, "classification") / file) for file in files)
        names = label_names({*chosen.labels, *measured.labels}, None)
        if files[0] == files[1]:
            # Its texts are in no order.
            first = LabelledTexts(name, chosen.texts[:SAMPLE], chosen.labels[:SAMPLE])
            yield DataSet(name, Task(first, names), Task(first, names))
        else:
            yield DataSet(name, Task(chosen.sample(TRAIN_SAMPLE), names), Task(measured, names))
    for name, called in DOWNSTREAM.items():
        task = read_downstream(name, data)
        names = label_names(task.classes, {label: (text,) for label, text in called.items()} or None)
        split = {"train": TRAIN_SAMPLE, "test": None} if "test" in task.parts else {"all": SAMPLE}
        tasks = []
        for part, limit in split.items():
            found = task.parts[part]
            labels = tuple(task.classes[place] for place in found.labels)
            tasks.append(Task(LabelledTexts(name, found.texts, labels).sample(limit), names))
        yield DataSet(name, tasks[0], tasks[-1])


class Trial:
    """One task under one model and template, and what every form makes of it.

    Args:
        task: texts and labels.
        labels: (L, d) vectors of the labels.
        texts: (n, d) vectors of the texts.
    """

    def __init__(self, task: Task, labels: Float32Array, texts: Float32Array) -> None:
        self._truth, self._labels, self._texts = task.truth, labels, texts
        self._found: dict[Form, tuple[dict[str, float], Float64Array]] = {}

    @cached_property
    def offset_share(self) -> float:
        """R of the module."""
        ensemble = Ensemble.from_vectors(self._texts, similarity="cosine")
        q = self._labels.astype(np.float64)
        d = q - q.mean(axis=0)
        varied = np.einsum("ld,ld->", d @ ensemble.scatter, d) / (ensemble.count - 1)
        # The squared mean of n members is too large by an n-th of their variance.
        same = max(((d @ ensemble.mean) ** 2).sum() - varied / ensemble.count, 0.0)
        return float(same / (same + varied))

    def quality(self, form: Form) -> dict[str, float]:
        """How well a form does."""
        return self._result(form)[0]

    def right(self, form: Form) -> Float64Array:
        """(n,) 1 for the texts that a form has right."""
        return self._result(form)[1]

    def _result(self, form: Form) -> tuple[dict[str, float], Float64Array]:
        taken = COSINE if self.offset_share <= form.border else _without_border(form)
        if taken not in self._found:
            places = taken.places(self._labels, self._texts)
            right = (places == self._truth).astype(np.float64)
            self._found[taken] = (qualities(self._truth, places), right)
        return self._found[taken]


def _without_border(form: Form) -> Form:
    return Form(form.model, form.weight, form.shrink_mean, form.shrink_deviation)


# Data set -> model -> its trials, one for each template, on what is chosen on, and on what is measured.
Trials = dict[str, dict[str, tuple[list[Trial], list[Trial]]]]


def read_trials(sets: Sequence[DataSet], models: Iterator[LabelledVectors], terminal: Terminal) -> Trials:
    """All trials; a model that does not tell a data set's labels apart has none there."""
    trials: Trials = {own.name: {} for own in sets}
    for vectors in models:
        for own in sets:
            found: tuple[list[Trial], list[Trial]] = ([], [])
            for template in TEMPLATES:
                try:
                    labels = np.stack([*own.measured.label_vectors(vectors.encoder, template).values()])
                except DataError as error:
                    terminal.say(f"{own.name}, {vectors.name}: left out, as {error}")
                    break
                for kept, task in zip(found, (own.chosen, own.measured), strict=True):
                    kept.append(Trial(task, labels, vectors.of(task.texts)))
            else:
                trials[own.name][vectors.name] = found
    return trials


def value(trials: Trials, names: Sequence[str], form: Form) -> float:
    """What forms are chosen by: accuracy and macro F1, halved; the mean over data sets of means over rows."""
    means = []
    for name in names:
        own = [trial.quality(form) for chosen, _ in trials[name].values() for trial in chosen]
        means.append(np.mean([(quality["accuracy"] + quality["macro F1"]) / 2 for quality in own]))
    return float(np.mean(means))


def best_form(trials: Trials, names: Sequence[str], forms: Sequence[Form]) -> Form:
    """The form of the highest value on these data sets; the first of equals."""
    return max(forms, key=lambda form: value(trials, names, form))


def with_rules() -> list[Form]:
    """What is chosen from where a rule may be; it does not change the cosine."""
    ruled = (
        Form(way.model, way.weight, way.shrink_mean, way.shrink_deviation, border)
        for border in _BORDERS
        for way in _WAYS
        if way != COSINE
    )
    return [*_WAYS, *ruled]


def left_out_forms(trials: Trials) -> dict[str, dict[str, Form]]:
    """Data set -> `ruled` and `new`: the forms that are best on the others."""
    forms = {}
    for name in trials:
        own = TOGETHER if name in TOGETHER else {name}
        others = [other for other in trials if other not in own]
        forms[name] = {
            RULED: best_form(trials, others, with_rules()),
            NEW: best_form(trials, others, _WAYS),
        }
    return forms


def left_out_table(trials: Trials, forms: dict[str, dict[str, Form]]) -> Table:
    """A row for each data set and model: means over the templates of what was not chosen on it."""
    rows: list[tuple[Cell, ...]] = []
    p = []
    for name, model, systems, measured in _measured(trials, forms):
        quality = {key: [t.quality(form) for t in measured] for key, form in systems.items()}
        cells: list[Cell] = [name, model, float(np.mean([t.offset_share for t in measured]))]
        for measure in ("accuracy", "macro F1"):
            cells += [float(np.mean([q[measure] for q in own])) for own in quality.values()]
        right = [np.mean([t.right(systems[key]) for t in measured], axis=0) for key in ("cosine", NEW)]
        p.append(paired_randomization(right[0], right[1], resamples=_RESAMPLES))
        rows.append(tuple(cells))
    names = (*SYSTEMS, RULED, NEW)
    columns = (
        Column("data"),
        Column("model"),
        Column("offset share", 3),
        *(Column(name, best="") for name in names),
        *(Column(f"macro F1 {name}") for name in names),
        Column("p (accuracy, new vs cosine)"),
        Column("p (Holm)"),
    )
    notes = (
        "new: the form that was best on all other data sets, ruled: with a rule, see `chosen`",
        "old: pooled above an offset share of .12, a border fixed on AG News, TREC-6 and banking77",
        "means over the templates " + " and ".join(repr(template) for template in TEMPLATES),
        "p: paired randomisation test over the texts, each with the mean over the templates",
    )
    full = tuple((*row, *pair) for row, pair in zip(rows, zip(p, holm(p), strict=True), strict=True))
    return Table("left-out", "Forms that were chosen on other data sets", columns, full, keys=2, notes=notes)


def _measured(
    trials: Trials, forms: dict[str, dict[str, Form]]
) -> Iterator[tuple[str, str, dict[str, Form], list[Trial]]]:
    for name, models in trials.items():
        for model, (_, measured) in models.items():
            yield name, model, {**SYSTEMS, **forms[name]}, measured


def gains_table(left_out: Table) -> Table:
    """The left-out form against every other system: means over data sets with their 95 % t intervals."""
    of = {column.name: place for place, column in enumerate(left_out.columns)}
    rows: list[tuple[Cell, ...]] = []
    for model in ("all", *MODELS):
        for system in (*SYSTEMS, RULED):
            cells: list[Cell] = [model, system]
            for prefix in ("", "macro F1 "):
                gains: dict[str, list[float]] = {}
                for row in left_out.rows:
                    if model in ("all", row[1]):
                        gain = float(row[of[prefix + NEW]] or 0) - float(row[of[prefix + system]] or 0)
                        gains.setdefault(str(row[0]), []).append(gain)
                means = np.array([np.mean(values) for values in gains.values()])
                low, high = stats.t.interval(0.95, len(means) - 1, means.mean(), stats.sem(means))
                cells += [float(means.mean()), float(low), float(high), float(means.min())]
                cells += [f"{int((means > 0).sum())} of {len(means)}"]
            rows.append(tuple(cells))
    columns = [Column("model"), Column("new minus")]
    for measure in ("accuracy", "macro F1"):
        columns += [Column(measure), Column(f"{measure} low"), Column(f"{measure} high")]
        columns += [Column(f"{measure} worst"), Column(f"{measure} above 0")]
    notes = (
        "means over data sets, each the mean over its models and templates; low, high: 95 % t intervals",
    )
    return Table("gains", "What the left-out form gains", tuple(columns), tuple(rows), keys=2, notes=notes)


def chosen_table(trials: Trials, forms: dict[str, dict[str, Form]]) -> Table:
    """The forms that each left-out data set was measured with, and those of all together."""
    rows = [(name, str(own[NEW]), str(own[RULED])) for name, own in forms.items()]
    everything = [best_form(trials, list(trials), among) for among in (_WAYS, with_rules())]
    rows.append(("none", *map(str, everything)))
    columns = (Column("left out"), Column(NEW), Column(RULED))
    return Table("chosen", "What was best on the others", columns, tuple(rows))


def rule_table(trials: Trials) -> Table:
    """What a rule saves and gives up that takes the cosine where the offset share is small."""
    rows: list[tuple[Cell, ...]] = []
    measured = [t for models in trials.values() for _, own in models.values() for t in own]
    for border in _BORDERS:
        below = [t for t in measured if t.offset_share <= border]
        gains = [t.quality(_DEFAULT)["accuracy"] - t.quality(COSINE)["accuracy"] for t in below]
        f1 = [t.quality(_DEFAULT)["macro F1"] - t.quality(COSINE)["macro F1"] for t in below]
        saved, lost = sum(-g for g in gains if g < 0), sum(g for g in gains if g > 0)
        rows.append(
            (f"{border:g}", len(measured), len(below), saved, lost, float(np.mean(gains)), float(np.mean(f1)))
        )
    columns = (
        Column("border"),
        Column("rows"),
        Column("rows below"),
        Column("accuracy saved"),
        Column("accuracy given up"),
        Column("mean accuracy given up"),
        Column("mean macro F1 given up"),
    )
    notes = (
        "sums and means over the rows below the border (data set, model, template), by " + str(_DEFAULT),
    )
    return Table("rule", "The cosine below a border of the offset share", columns, tuple(rows), notes=notes)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), envvar="SURPRISE_RERANK_DATA")
@click.option("--cache", type=click.Path(path_type=Path), help="Where vectors and indexes are kept.")
@report_option
@quiet_option
def main(data: Path | None, cache: Path | None, reports: tuple[Path, ...], *, quiet: bool) -> None:
    """Print the left-out table, what the new default gains, and what was chosen."""
    if data is None:
        raise click.UsageError("give --data FOLDER, with classification/ and downstream/")
    terminal = Terminal(quiet=quiet)
    trials = read_trials([*data_sets(data)], load_models(MODELS, cache or cache_folder(), terminal), terminal)
    forms = left_out_forms(trials)
    left_out = left_out_table(trials, forms)
    tables = (left_out, gains_table(left_out), chosen_table(trials, forms), rule_table(trials))
    present(Report("The classifier's default", tables), reports)


if __name__ == "__main__":
    main()
