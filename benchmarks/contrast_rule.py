"""Whether unlabelled texts predict that surprise will choose better than the cosine.

Classifies the texts of many tasks by the names of their labels, with several models and templates, by the
cosine and by pooled surprise at weight 1, and compares the gain with the offset share (`offset_share`).
The border was fixed with AG News, TREC-6 and banking77 under MiniLM and GloVe, and AG News under
multilingual-e5-small; all other rows were looked at afterwards.

    python benchmarks/contrast_rule.py --data benchmarks-data
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from surprise_rerank.classify.offset_share import PROMISING_OFFSET_SHARE
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.eval.cli.options import options_of, present, quiet_option, report_option
from surprise_rerank.eval.labelled.data import LabelledTexts
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.studies.classify.label_names import label_names
from surprise_rerank.eval.studies.classify.settings import ZeroShotSettings
from surprise_rerank.eval.studies.classify.task import Task, read_task
from surprise_rerank.eval.studies.classify.zero_shot import evaluate_zero_shot
from surprise_rerank.eval.studies.downstream.tasks import read_task as read_downstream
from surprise_rerank.eval.studies.settings import BenchmarkFiles

MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")
TEMPLATES = ("{}", "this matter is {}", "this text is about {}", "it is {}")
FILES = ("ag_news.test", "trec6.test", "trec6.train", "banking77.test")
# Of each task a sample; a class is called as below, or by its own name.
DOWNSTREAM: dict[str, dict[str, str]] = {
    "MR": {},
    "CR": {},
    "MPQA": {},
    "SUBJ": {},
    "SST5": {"0": "terrible", "1": "bad", "2": "okay", "3": "good", "4": "great"},
    "SCICITE": {},
}
SAMPLE = 3000
_SEEN_FILES = frozenset(f"{name}.jsonl" for name in FILES)


def tasks(data: Path) -> Iterator[Task]:
    """The tasks, one after the other."""
    for name in FILES:
        yield read_task(data / "classification" / f"{name}.jsonl", limit=SAMPLE if "train" in name else None)
    for name, called in DOWNSTREAM.items():
        task = read_downstream(name, data)
        texts = [text for part in task.parts.values() for text in part.texts]
        labels = np.concatenate([part.labels for part in task.parts.values()])
        rows = np.random.default_rng(0).permutation(len(texts))[:SAMPLE]
        classes = [task.classes[place] for place in labels[rows]]
        names = label_names(set(task.classes), {label: (text,) for label, text in called.items()} or None)
        yield Task(LabelledTexts.of(name, [texts[i] for i in rows], classes), names)


def is_seen(name: str, model: Cell) -> bool:
    """Whether a row was looked at before the border was fixed."""
    if model == "multilingual-e5-small":
        return name == "ag_news.test.jsonl"
    return name in _SEEN_FILES


def summary(rows: list[tuple[Cell, ...]]) -> Table:
    """Mean gains above and below the border, of rows that were seen and of those that were not."""
    cells: list[tuple[Cell, ...]] = []
    for seen in (True, False):
        for above in (True, False):
            own = [r for r in rows if is_seen(str(r[0]), r[1]) == seen and (r[5] == "gain") == above]
            if not own:
                continue
            accuracy, macro = (np.array([float(r[i] or 0) for r in own]) for i in (6, 7))
            cells.append(
                (
                    "seen" if seen else "unseen",
                    f"above {PROMISING_OFFSET_SHARE:g}" if above else "below",
                    len(own),
                    float(accuracy.mean()),
                    int((accuracy > 0).sum()),
                    float(macro.mean()),
                    int((macro > 0).sum()),
                    float(accuracy.min()),
                    float(accuracy.max()),
                )
            )
    columns = (
        Column("rows"),
        Column("offset share"),
        Column("number"),
        Column("accuracy gained"),
        Column("better"),
        Column("macro F1 gained"),
        Column("better F1"),
        Column("worst"),
        Column("best"),
    )
    notes = (
        "a row is a task, a model and a template; seen: before the border was fixed",
        "gained: mean over rows, by pooled surprise at weight 1; better: in how many rows",
        "worst, best: gains of accuracy",
    )
    return Table("summary", "Gains above and below the border", columns, tuple(cells), keys=2, notes=notes)


@click.command()
@options_of(BenchmarkFiles)
@report_option
@quiet_option
def main(data: Path | None, cache: Path | None, reports: tuple[Path, ...], *, quiet: bool) -> None:
    """Print mean gains above and below the border, and every row with --report."""
    if data is None:
        raise click.UsageError("give --data FOLDER, with classification/ and downstream/")
    terminal = Terminal(quiet=quiet)
    rows: list[tuple[Cell, ...]] = []
    columns: tuple[Column, ...] = ()
    for task in tasks(data):
        terminal.say(task.texts.name)
        settings = ZeroShotSettings(models=MODELS, templates=TEMPLATES, weight=1.0, cache=cache)
        table = evaluate_zero_shot(task, settings, terminal).table("contrast")
        columns = table.columns
        rows += [(task.texts.name, *row) for row in table.rows]
    every = Table("rows", "Every row", (Column("task"), *columns), tuple(rows), keys=3, detail=True)
    present(Report("Does the offset share predict a gain?", (summary(rows), every)), reports, details=False)


if __name__ == "__main__":
    main()
