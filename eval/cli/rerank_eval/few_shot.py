"""`rerank-eval few-shot`: learning from a few labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.core.settings import split_names
from surprise_rerank.eval.cli.exits import telling
from surprise_rerank.eval.cli.options import cache_option, present, quiet_option, report_option
from surprise_rerank.eval.cli.rerank_eval.classification_options import (
    file_argument,
    names_option,
    template_option,
    to_numbers,
    weight_option,
)
from surprise_rerank.eval.cli.rerank_eval.labelled_options import (
    label_option,
    models_option,
    skip_option,
    text_option,
)

if TYPE_CHECKING:
    from surprise_rerank.classify.classifiers import ClassifierWeight
    from surprise_rerank.connectors.readers.source import OnError

_RESUMED = "What was measured stays; run the same command again to go on."

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


@click.command("few-shot", epilog=_EPILOG)
@file_argument
@click.option(
    "--test",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Labelled texts that are tested.  [default: those of FILE that are no examples]",
)
@click.option(
    "--test-size",
    metavar="N",
    type=click.IntRange(min=1),
    help="Test N of the texts, drawn at random with each seed.  [default: all]",
)
@click.option(
    "--shots",
    metavar="K,K,...",
    callback=to_numbers,
    default="3,9,21",
    show_default=True,
    help="Examples of each class.",
)
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Draws of examples.",
)
@click.option(
    "--balanced/--unbalanced",
    default=True,
    show_default=True,
    help="K examples of each class; or K for each class on average, drawn at random, at least 1 of each.",
)
@click.option(
    "--systems",
    metavar="NAMES",
    help="With commas between.  [default: all that the model can be trained for]",
)
@click.option(
    "--setfit-steps",
    metavar="N",
    type=click.IntRange(min=1),
    help="End SetFit's training after N steps.  [default: one epoch of all pairs, whose number grows with K "
    "squared]",
)
@models_option
@template_option
@names_option
@weight_option
@text_option
@label_option
@skip_option
@cache_option
@report_option
@click.option("--details", is_flag=True, help="Show every draw, too.")
@quiet_option
def command(
    *,
    file: Path,
    test: Path | None,
    test_size: int | None,
    shots: tuple[int, ...],
    seeds: int,
    balanced: bool,
    systems: str | None,
    setfit_steps: int | None,
    models: tuple[str, ...],
    template: str,
    names: Path | None,
    weight: ClassifierWeight,
    text: str | None,
    label: str,
    on_error: OnError,
    cache: Path | None,
    reports: tuple[Path, ...],
    details: bool,
    quiet: bool,
) -> None:
    """Learn from a few labelled texts of FILE and classify others: the paper's study.

    Results are kept in the cache, by everything that they depend on, and an interrupted study goes on where
    it was.
    """
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.classify.few_shot import Settings, evaluate_few_shot
    from surprise_rerank.eval.studies.classify.task import read_task

    check_files(reports)
    chosen = None if systems is None else split_names(systems)
    if chosen == ():
        raise click.BadParameter("give at least one system", param_hint="--systems")
    if setfit_steps is not None and chosen is not None and "setfit" not in chosen:
        raise click.UsageError("--setfit-steps is for setfit, which is not among --systems")
    settings = Settings(
        models=models,
        template=template,
        systems=chosen,
        shots=shots,
        seeds=seeds,
        balanced=balanced,
        test_size=test_size,
        weight=weight,
        setfit_steps=setfit_steps,
        cache=cache,
    )
    with telling(_RESUMED):
        task = read_task(file, test, names=names, text=text, label=label, on_error=on_error)
        report = evaluate_few_shot(task, settings, Terminal(quiet=quiet))
    present(report, reports, details=details)
