"""The classifier's default, chosen on some data sets and measured on another one.

    python benchmarks/classifier_default.py --data DATA

Texts are classified by the names of their labels, by the cosine and by many forms of the surprise score. Of
each data set in turn the form is measured that is best on the others (`new`), by the mean of accuracy and
macro F1 over the models and two templates. Where there are training texts, these stand for a data set when a
form is chosen. No form sees a label. A rule may take the cosine where the offset share is small; `ruled` is
the best form where such rules may be chosen. With d_l = q_l - q_mean of the labels, and m and C the mean and
covariance of the texts, the offset share

    R = sum_l (d_l . m)^2 / sum_l ((d_l . m)^2 + d_l' C d_l)

is the part of the labels' differences that is the same for all texts, and that surprise takes away.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import click
import numpy as np
from scipy import stats

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float32Array, Float64Array
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
MEASURES = ("accuracy", "macro F1")
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
    **{name: {} for name in ("MR", "CR", "MPQA", "SUBJ")},
    "SST5": {"0": "terrible", "1": "bad", "2": "okay", "3": "good", "4": "great"},
    "SCICITE": {},
}
# Sentences of one are sentences of the other, so that both are left out together.
TOGETHER = frozenset({"MR", "SST5"})
# Texts of a training file, and of a data set that has one part only.
TRAIN_SAMPLE, SAMPLE = 2000, 3000
# p is known to .0005 then.
_RESAMPLES = 1999


@dataclass(frozen=True, slots=True)
class Form:
    """A way to classify by the names of the labels, with parameters of `Surprise`; at weight 0 the cosine.

    Up to an offset share of `border` the cosine is taken instead.
    """

    weight: Weight = "crossover"
    shrink_mean: float = 0.0
    shrink_deviation: float = 0.0
    model: SurpriseModel = "gaussian"
    border: float = -1.0


COSINE, DEFAULT = Form(0.0), Form(shrink_deviation=0.5)
SYSTEMS = {
    "cosine": COSINE,
    "surprise": Form(),
    "pooled": Form(shrink_deviation=1.0),
    "half-pooled": DEFAULT,
}
# What the default is chosen from: simpler ones first, which stay where another is no better.
_SHRUNK = itertools.product(("crossover", 0.75, 0.5), (0.0, 0.25, 0.5), (0.0, 0.5, 1.0))
FORMS = (COSINE, *itertools.starmap(Form, _SHRUNK), Form(model="percentile"), Form(model="empirical"))
BORDERS = (0.03, 0.06, 0.12, 0.24)
RULES = (*FORMS, *(replace(form, border=border) for border in BORDERS for form in FORMS[1:]))


def data_sets(data: Path) -> Iterator[tuple[str, Task, Task]]:
    """Name, what forms are chosen on, and what they are measured on."""
    for name, files in FILES.items():
        chosen, measured = (read_labelled(data_folder(data, "classification") / file) for file in files)
        names = label_names({*chosen.labels, *measured.labels}, None)
        if files[0] == files[1]:
            # Its texts are in no order.
            first = Task(LabelledTexts(name, chosen.texts[:SAMPLE], chosen.labels[:SAMPLE]), names)
            yield name, first, first
        else:
            yield name, Task(chosen.sample(TRAIN_SAMPLE), names), Task(measured, names)
    for name, called in DOWNSTREAM.items():
        task = read_downstream(name, data)
        names = label_names(task.classes, {label: (text,) for label, text in called.items()} or None)
        split = {"train": TRAIN_SAMPLE, "test": None} if "test" in task.parts else {"all": SAMPLE}
        tasks = []
        for part, limit in split.items():
            found = task.parts[part]
            labels = tuple(task.classes[place] for place in found.labels)
            tasks.append(Task(LabelledTexts(name, found.texts, labels).sample(limit), names))
        yield name, tasks[0], tasks[-1]


class Trial:
    """One task under one model and template: (L, d) vectors of labels, (n, d) vectors of texts."""

    def __init__(self, task: Task, labels: Float32Array, texts: Float32Array) -> None:
        self._truth, self._labels, self._texts = task.truth, labels, texts
        self._found: dict[Form, tuple[dict[str, float], Float64Array]] = {}

    @cached_property
    def _ensemble(self) -> Ensemble:
        return Ensemble.from_vectors(self._texts, similarity="cosine")

    @cached_property
    def offset_share(self) -> float:
        """R of the module."""
        q = self._labels.astype(np.float64)
        d = q - q.mean(axis=0)
        varied = np.einsum("ld,ld->", d @ self._ensemble.scatter, d) / (self._ensemble.count - 1)
        # The squared mean of n members is too large by an n-th of their variance.
        same = max(((d @ self._ensemble.mean) ** 2).sum() - varied / self._ensemble.count, 0.0)
        return float(same / (same + varied))

    def result(self, form: Form) -> tuple[dict[str, float], Float64Array]:
        """How well a form does, and (n,) 1 for the texts that it has right."""
        taken = COSINE if self.offset_share <= form.border else replace(form, border=-1.0)
        if taken not in self._found:
            anchors = Ensemble.from_vectors(self._labels, similarity="cosine")
            shrunk = (taken.shrink_mean, taken.shrink_deviation)
            surprise = Surprise(self._ensemble, taken.model, taken.weight, *shrunk, anchors)
            places = AnchorScores(self._labels, surprise).nearest(self._texts)
            self._found[taken] = qualities(self._truth, places), (places == self._truth).astype(np.float64)
        return self._found[taken]


# Data set -> model -> its trials, one for each template, on what is chosen on, and on what is measured.
Trials: TypeAlias = dict[str, dict[str, tuple[list[Trial], list[Trial]]]]


def read_trials(data: Path, models: Iterator[LabelledVectors], terminal: Terminal) -> Trials:
    """All trials; a model that does not tell a data set's labels apart has none there."""
    sets = [*data_sets(data)]
    trials: Trials = {name: {} for name, _, _ in sets}
    for vectors in models:
        for name, chosen, measured in sets:
            found: tuple[list[Trial], list[Trial]] = ([], [])
            try:
                for template in TEMPLATES:
                    labels = np.stack([*measured.label_vectors(vectors.encoder, template).values()])
                    for kept, task in zip(found, (chosen, measured), strict=True):
                        kept.append(Trial(task, labels, vectors.of(task.texts)))
            except DataError as error:
                terminal.say(f"{name}, {vectors.name}: left out, as {error}")
            else:
                trials[name][vectors.name] = found
    return {name: own for name, own in trials.items() if own}


def best_form(trials: Trials, names: Sequence[str], forms: Sequence[Form]) -> Form:
    """The form of the highest mean over these data sets of means over rows; the first of equals."""

    def value(form: Form) -> float:
        means = []
        for name in names:
            own = [trial.result(form)[0] for chosen, _ in trials[name].values() for trial in chosen]
            means.append(np.mean([[quality[measure] for measure in MEASURES] for quality in own]))
        return float(np.mean(means))

    return max(forms, key=value)


def left_out_forms(trials: Trials) -> dict[str, dict[str, Form]]:
    """Data set -> what is measured on it: the systems, and `ruled` and `new`, the best on the others."""
    forms = {}
    for name in trials:
        others = [other for other in trials if other not in (TOGETHER if name in TOGETHER else {name})]
        best = {"ruled": best_form(trials, others, RULES), "new": best_form(trials, others, FORMS)}
        forms[name] = {**SYSTEMS, **best}
    return forms


def left_out_table(trials: Trials, forms: dict[str, dict[str, Form]]) -> Table:
    """A row for each measure, data set and model: means over the templates of what was not chosen on it."""
    rows: dict[str, list[tuple[Cell, ...]]] = {measure: [] for measure in MEASURES}
    p = []
    for name, models in trials.items():
        for model, (_, measured) in models.items():
            found = {key: [t.result(form) for t in measured] for key, form in forms[name].items()}
            right = [np.mean([own for _, own in found[key]], axis=0) for key in ("cosine", "new")]
            p.append(paired_randomization(right[0], right[1], resamples=_RESAMPLES))
            for measure in MEASURES:
                means = [float(np.mean([quality[measure] for quality, _ in own])) for own in found.values()]
                rows[measure].append((measure, name, model, *means))
    pairs = [*zip(p, holm(p), strict=True), *([(None, None)] * len(p))]
    full = [(*row, *pair) for row, pair in zip(itertools.chain(*rows.values()), pairs, strict=True)]
    heads = ("measure", "data", "model", *next(iter(forms.values())), "p", "p (Holm)")
    notes = (
        "new: the form that was best on all other data sets, ruled: with a rule about the cosine",
        "means over the templates " + " and ".join(map(repr, TEMPLATES)),
        "p: of accuracy, new and cosine; paired randomisation over texts, each the mean over the templates",
    )
    title = "Forms that were chosen on other data sets"
    return Table("left-out", title, tuple(map(Column, heads)), tuple(full), keys=3, notes=notes)


def gains_table(left_out: Table) -> Table:
    """The left-out form against every other system: means over data sets with their 95 % t intervals."""
    names = [column.name for column in left_out.columns]
    new, rows = names.index("new"), []
    models = dict.fromkeys(str(row[2]) for row in left_out.rows)
    for model, system in itertools.product(("all", *models), (*SYSTEMS, "ruled")):
        cells: list[Cell] = [model, system]
        for measure in MEASURES:
            gains: dict[Cell, list[float]] = {}
            for row in left_out.rows:
                if row[0] == measure and model in ("all", row[2]):
                    gains.setdefault(row[1], []).append(float(row[new]) - float(row[names.index(system)]))  # type: ignore[arg-type]
            means = np.array([np.mean(values) for values in gains.values()])
            low, high = stats.t.interval(0.95, len(means) - 1, means.mean(), stats.sem(means))
            above = f"{int((means > 0).sum())} of {len(means)}"
            cells += [float(means.mean()), f"{low:+.3f} to {high:+.3f}", float(means.min()), above]
        rows.append(tuple(cells))
    heads = [f"{measure}{of}" for measure in MEASURES for of in ("", " 95 %", " worst", " above 0")]
    notes = ("means over data sets, each the mean over its models and templates; 95 % t intervals",)
    columns = tuple(map(Column, ("model", "new minus", *heads)))
    return Table("gains", "What the left-out form gains", columns, tuple(rows), keys=2, notes=notes)


def rule_table(trials: Trials) -> Table:
    """What a rule saves and gives up that takes the cosine where the offset share is small."""
    rows: list[tuple[Cell, ...]] = []
    measured = [t for models in trials.values() for _, own in models.values() for t in own]
    for border in BORDERS:
        below = [t for t in measured if t.offset_share <= border]
        each = [[t.result(form)[0] for form in (DEFAULT, COSINE)] for t in below]
        gains, f1 = (np.array([own[m] - other[m] for own, other in each]) for m in MEASURES)
        sums = float((-gains).clip(min=0).sum()), float(gains.clip(min=0).sum())
        rows.append((f"{border:g}", len(measured), len(below), *sums, float(gains.mean()), float(f1.mean())))
    heads = ("accuracy saved", "accuracy given up", "mean accuracy given up", "mean macro F1 given up")
    columns = tuple(map(Column, ("border", "rows", "below it", *heads)))
    notes = ("sums and means over the rows below the border (data set, model, template), by half-pooled",)
    return Table("rule", "The cosine below a border of the offset share", columns, tuple(rows), notes=notes)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, envvar="SURPRISE_RERANK_DATA")
@click.option("--cache", type=click.Path(path_type=Path), default=cache_folder, help="Of vectors.")
@click.option("--model", "models", multiple=True, default=MODELS, help="[default: three]")
@report_option
@quiet_option
def main(data: Path, cache: Path, models: tuple[str, ...], reports: tuple[Path, ...], *, quiet: bool) -> None:
    """Print the left-out table, what the new default gains and what a rule would."""
    terminal = Terminal(quiet=quiet)
    trials = read_trials(data, load_models(models, cache, terminal), terminal)
    forms = left_out_forms(trials)
    left_out = left_out_table(trials, forms)
    tables = (left_out, gains_table(left_out), rule_table(trials))
    present(Report("The classifier's default", tables), reports)


if __name__ == "__main__":
    main()
