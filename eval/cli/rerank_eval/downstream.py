"""`rerank-eval downstream`: what a classifier makes of sentence vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.core.settings import split_names
from surprise_rerank.eval.cli.exits import telling
from surprise_rerank.eval.cli.options import (
    cache_option,
    data_option,
    models_option,
    present,
    quiet_option,
    report_option,
)

if TYPE_CHECKING:
    from surprise_rerank.eval.studies.downstream.classifiers import ClassifierName

# As `tasks.TASKS` and `classifiers.CLASSIFIERS`, which `--help` cannot wait for.
TASK_NAMES = ("SCICITE", "MR", "CR", "MPQA", "SUBJ", "SST2", "SST5", "TREC", "MRPC", "SICK-E")
CLASSIFIER_NAMES = ("senteval", "logistic")

_RESUMED = "Tasks that were measured stay; run the same command again to go on."

_EPILOG = """\b
Examples:
  rerank-eval downstream --data benchmarks
  rerank-eval downstream --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval downstream --data benchmarks --model toy_emb.txt --tasks MR,CR --post-process
  rerank-eval downstream --data benchmarks --model all-MiniLM-L6-v2 --report downstream.json
  rerank-eval downstream --data benchmarks --classifier logistic --report downstream.html

\b
In FOLDER, or in `downstream` inside it:
  SCICITE           train.txt, dev.txt, test.txt
  MR, CR            rt-polarity.pos, rt-polarity.neg; custrev.pos, custrev.neg
  MPQA, SUBJ        mpqa.pos, mpqa.neg; subj.objective, subj.subjective
  SST               binary and fine, each with sentiment-train, sentiment-dev, sentiment-test
  TREC              train_5500.label, TREC_10.label
  MRPC              msr_paraphrase_train.txt, msr_paraphrase_test.txt
SICK-E is in FOLDER/sts/SICK, or in `sts/SICK` beside FOLDER.
"""


@click.command("downstream", epilog=_EPILOG)
@data_option
@models_option
@click.option(
    "--tasks",
    metavar="NAMES",
    default=",".join(TASK_NAMES),
    show_default=True,
    help="What to classify, with commas between.",
)
@click.option(
    "--classifier",
    type=click.Choice(CLASSIFIER_NAMES),
    default="senteval",
    show_default=True,
    help="A logistic regression: stopped early, as the published figures were made, or converged.",
)
@click.option(
    "--post-process",
    is_flag=True,
    help="Measure once more, without the first two principal components of each task's texts; `+pp` behind "
    "the model's name marks it.",
)
@cache_option
@report_option
@click.option("--details", is_flag=True, help="Show deviations, development accuracies and times, too.")
@quiet_option
def command(
    *,
    data: Path | None,
    models: tuple[str, ...],
    tasks: str,
    classifier: ClassifierName,
    post_process: bool,
    cache: Path | None,
    reports: tuple[Path, ...],
    details: bool,
    quiet: bool,
) -> None:
    """Accuracy of classifiers of sentence vectors: SentEval's downstream tasks.

    A logistic regression learns a task's classes from sentence vectors (of pairs, |u - v| and u * v); its
    regularisation is chosen without the test set. Every text is encoded once. What was measured is kept in
    the cache, and an interrupted evaluation goes on where it was.
    """
    # Imported here, because `--help` and shell completion should not wait for torch.
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.downstream.evaluation import evaluate_downstream

    check_files(reports)
    names = split_names(tasks)
    if not names:
        raise click.BadParameter("give at least one task", param_hint="--tasks")
    with telling(_RESUMED):
        report = evaluate_downstream(
            models,
            data,
            tasks=names,
            classifier=classifier,
            post_process=post_process,
            cache=cache,
            terminal=Terminal(quiet=quiet),
        )
    present(report, reports, details=details)
