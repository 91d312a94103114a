"""`rerank-eval ensemble-size`: surprise with small and large ensembles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.eval.cli.exits import telling
from surprise_rerank.eval.cli.options import cache_option, present, quiet_option, report_option
from surprise_rerank.eval.cli.rerank_eval.classification_options import (
    file_argument,
    names_option,
    seed_option,
    templates_option,
    to_numbers,
)
from surprise_rerank.eval.cli.rerank_eval.labelled_options import (
    label_option,
    limit_option,
    models_option,
    skip_option,
    text_option,
)

if TYPE_CHECKING:
    from surprise_rerank.connectors.readers.source import OnError

_RESUMED = "Texts that were encoded stay so; run the same command again to go on."

_EPILOG = """\b
Examples:
  rerank-eval ensemble-size ag_news.test.jsonl
  rerank-eval ensemble-size ag_news.test.jsonl --model multilingual-e5-small --template '{}'
  rerank-eval ensemble-size test.csv --text question --label intent --sizes 10,100,1000
  rerank-eval ensemble-size ag_news.test.jsonl --report sizes.html

\b
Columns: weight, that surprise was mixed with the cosine by; weighted F1 of the texts outside of the
ensemble; the ratio to cosine's with the same texts; dev., standard deviations over the draws.
"""


@click.command("ensemble-size", epilog=_EPILOG)
@file_argument
@models_option
@templates_option
@names_option
@click.option(
    "--sizes",
    metavar="N,N,...",
    callback=to_numbers,
    default="3,9,27,81,243,729,2187",
    show_default=True,
    help="Texts in the ensemble.",
)
@click.option(
    "--draws",
    metavar="N",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Random ensembles of each size.",
)
@seed_option
@text_option
@label_option
@limit_option
@skip_option
@cache_option
@report_option
@quiet_option
def command(
    *,
    file: Path,
    models: tuple[str, ...],
    templates: tuple[str, ...],
    names: Path | None,
    sizes: tuple[int, ...],
    draws: int,
    seed: int,
    text: str | None,
    label: str,
    limit: int | None,
    on_error: OnError,
    cache: Path | None,
    reports: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Measure surprise with random ensembles of growing size, beside cosine: the paper's study.

    Texts are classified by the names of their labels. The ensemble are a few of the unlabelled texts; the
    others are tested. --report FILE.html draws the ratio of surprise to cosine over the size.
    """
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.classify.ensemble_size import Settings, evaluate_ensemble_size
    from surprise_rerank.eval.studies.classify.task import read_task

    check_files(reports)
    settings = Settings(models, templates, sizes, draws, seed, cache)
    with telling(_RESUMED):
        task = read_task(file, names=names, text=text, label=label, limit=limit, on_error=on_error)
        report = evaluate_ensemble_size(task, settings, Terminal(quiet=quiet))
    present(report, reports)
