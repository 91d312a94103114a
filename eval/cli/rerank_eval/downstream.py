"""`rerank-eval downstream`: what a classifier makes of sentence vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.options import reports
from surprise_rerank.eval.cli.rerank_eval.study import data_option, models_option, run_study
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.studies.downstream.settings import TASKS, DownstreamSettings

if TYPE_CHECKING:
    from pathlib import Path

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval downstream --data benchmarks
  rerank-eval downstream --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval downstream --data benchmarks --model toy_emb.txt --tasks MR,CR --set post_process=yes
  rerank-eval downstream --data benchmarks --model all-MiniLM-L6-v2 --report downstream.json

\b
In FOLDER, or in `downstream` inside it:
  SCICITE           train.txt, dev.txt, test.txt
  MR, CR            rt-polarity.pos, rt-polarity.neg; custrev.pos, custrev.neg
  MPQA, SUBJ        mpqa.pos, mpqa.neg; subj.objective, subj.subjective
  SST               binary and fine, each with sentiment-train, sentiment-dev, sentiment-test
  TREC              train_5500.label, TREC_10.label
  MRPC              msr_paraphrase_train.txt, msr_paraphrase_test.txt
SICK-E is in FOLDER/sts/SICK.
"""


@click.command("downstream", epilog=_EPILOG)
@data_option
@models_option("glove-6b-50d")
@click.option(
    "--tasks",
    metavar="NAMES",
    type=completion.Names(lambda _: TASKS),
    default=TASKS,
    show_default=True,
    help="What to classify, with commas between.",
)
@set_option(lambda: (DownstreamSettings,), but=("models", "data", "tasks"))
@reports
def command(
    *, data: Path | None, models: tuple[str, ...], tasks: tuple[str, ...], settings: Given, **ending: Any
) -> None:
    """Accuracy of a classifier of sentence vectors: SentEval's downstream tasks.

    A logistic regression learns a task's classes from sentence vectors (of pairs, |u - v| and u * v); its
    regularisation is chosen without the test set, and it is stopped early, as the published figures were
    made. Every text is encoded once.
    """

    def study(terminal: Terminal) -> Report:
        from surprise_rerank.eval.studies.downstream.evaluation import evaluate_downstream

        own = settings.of(DownstreamSettings, models=models, data=data, tasks=tasks)
        return evaluate_downstream(own, terminal)

    run_study(study, **ending)
