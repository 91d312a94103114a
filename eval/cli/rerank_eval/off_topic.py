"""`rerank-eval off-topic`: whether thresholds hold, and which statistic finds off-topic questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.options import NEW_FILE, reports
from surprise_rerank.eval.cli.rerank_eval.study import models_option, run_study
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.studies.off_topic.settings import OffTopicSettings
from surprise_rerank.eval.studies.settings import MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval off-topic --dataset beir/scifact,beir/nfcorpus
  rerank-eval off-topic --dataset demo --questions other-questions.txt
  rerank-eval off-topic --dataset demo,./my-beir-folder --questions banking77.jsonl --report off-topic.html
  rerank-eval off-topic --dataset demo,beir/scifact --model glove-6b-50d --set alphas=.01,.1
"""


@click.command("off-topic", epilog=_EPILOG)
@click.option(
    "--dataset",
    "datasets",
    type=completion.datasets,
    required=True,
    help="Corpora with judged questions, with commas between: as for `rerank-eval`. Each one's questions are "
    "off-topic for the others.",
)
@click.option(
    "--questions",
    "files",
    metavar="FILE",
    multiple=True,
    type=NEW_FILE,
    help="More off-topic questions: a text with one a line, or a table with a column `text`. Several times.",
)
@models_option(MODEL)
@click.option(
    "--limit",
    type=click.IntRange(20),
    default=1000,
    show_default=True,
    help="The most off-topic questions of a source, drawn at random.",
)
@set_option(lambda: (OffTopicSettings,), but=("datasets", "files", "models", "limit"))
@reports
def command(
    *,
    datasets: tuple[str, ...],
    files: tuple[Path, ...],
    models: tuple[str, ...],
    limit: int,
    settings: Given,
    **ending: Any,
) -> None:
    """Off-topic questions: which statistic finds them, and how many pass a threshold.

    Half of the off-topic questions are the background that thresholds are set on, the other half is put to
    the test. The report also has the AUROC of every statistic of the best candidate, answered questions
    against precision, and the calibration of probabilities that are fitted on judged questions.
    """

    def study(terminal: Terminal) -> Report:
        from surprise_rerank.eval.studies.off_topic.evaluation import evaluate_off_topic

        own = settings.of(OffTopicSettings, datasets=datasets, files=files, models=models, limit=limit)
        return evaluate_off_topic(own, terminal)

    run_study(study, interrupted="Indexes that were made stay; run the same command again.", **ending)
