"""`rerank-eval few-shot`: learning from a few labelled texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.classify.settings import FewShotFiles, FewShotSettings

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval few-shot ag_news.test.jsonl --test-size 1000
  rerank-eval few-shot trec6.train.jsonl --test trec6.test.jsonl
  rerank-eval few-shot trec6.train.jsonl --test trec6.test.jsonl --unbalanced --shots 3,5,7,9,11
  rerank-eval few-shot train.csv --text question --label intent --systems surprise-linear,logistic
  rerank-eval few-shot trec6.train.jsonl --test trec6.test.jsonl --report few-shot.html

\b
Systems:
  cosine, surprise                 the encoder fine-tuned by the paper's routine, once for both
  cosine-linear, surprise-linear   a linear map of the vectors, trained likewise, in seconds
  logistic                         logistic regression on the vectors
  setfit                           SetFit with its defaults (pip install 'surprise-rerank[setfit]')

\b
Columns: k, examples of each class; weighted F1, macro F1, accuracy of the tested texts; dev.,
standard deviations over the draws; seconds of training. --details: every draw, its epochs, and
whether its training's loss became low enough.
"""


@study_command(
    "few-shot",
    FewShotSettings,
    FewShotFiles,
    epilog=_EPILOG,
    details="Show every draw, too.",
    interrupted="What was measured stays; run the same command again to go on.",
)
def command(settings: FewShotSettings, files: FewShotFiles, terminal: Terminal) -> Report:
    """Learn from a few labelled texts of FILE and classify others: the paper's study.

    Results are kept in the cache, by everything that they depend on, and an interrupted study goes on where
    it was.
    """
    from surprise_rerank.eval.studies.classify.few_shot import evaluate_few_shot
    from surprise_rerank.eval.studies.classify.task import read_task

    if (
        settings.setfit_steps is not None
        and settings.systems is not None
        and "setfit" not in settings.systems
    ):
        raise click.UsageError("--setfit-steps is for setfit, which is not among --systems")
    task = read_task(files.file, files.test, names=files.names, **files.columns())
    return evaluate_few_shot(task, settings, terminal)
