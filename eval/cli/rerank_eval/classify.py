"""`rerank-eval classify`: texts by the names of their labels, without examples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from surprise_rerank.eval.cli.exits import telling
from surprise_rerank.eval.cli.options import cache_option, present, quiet_option, report_option
from surprise_rerank.eval.cli.rerank_eval.classification_options import (
    file_argument,
    names_option,
    seed_option,
    templates_option,
    weight_option,
)
from surprise_rerank.eval.cli.rerank_eval.labelled_options import (
    label_option,
    limit_option,
    models_option,
    skip_option,
    text_option,
)

if TYPE_CHECKING:
    from surprise_rerank.classify.classifiers import ClassifierWeight
    from surprise_rerank.connectors.readers.source import OnError

_RESUMED = "Texts that were encoded stay so; run the same command again to go on."

_EPILOG = """\b
Examples:
  rerank-eval classify ag_news.test.jsonl
  rerank-eval classify ag_news.test.jsonl --template 'this matter is {}' --template '{}'
  rerank-eval classify test.csv --text question --label intent --label-names names.yaml --details
  rerank-eval classify test.jsonl --train train.jsonl --ensemble train
  rerank-eval classify test.jsonl --train train.jsonl --shots 9 --repeats 10
  rerank-eval classify test.jsonl --sample 500 --repeats 20 --report classify.html
  rerank-eval classify test.jsonl --model all-MiniLM-L6-v2 --model multilingual-e5-small

\b
FILE is JSONL, CSV, TSV (.gz, too) or Parquet, with a column of texts and one of labels.

\b
Systems:
  cosine       the label whose vector is the nearest
  surprise     the label that the text is more similar to than other texts are: Gaussian
  pooled       one deviation for all labels
  percentile   median and 84th percentile for mean and deviation
  empirical    the share of the ensemble that is less similar
  auto         surprise where the unlabelled texts promise a gain, else cosine
  logistic     logistic regression on labelled vectors (with --train or --shots)

\b
Columns: weight, that surprise was mixed with the cosine by (0 is cosine); accuracy; macro F1;
weighted F1; dev., standard deviations over the repeats; p, of the difference of the accuracy to
cosine's, as it is and with Holm's correction. --details: precision, recall and F1 of each class,
its share of the texts, and of the answers.
"""


@click.command("classify", epilog=_EPILOG)
@file_argument
@models_option
@templates_option
@names_option
@weight_option
@click.option(
    "--ensemble",
    metavar="FILE",
    help="Texts that similarities are compared with: a table, a .txt of one a line, or `train`.  "
    "[default: the tested texts, unlabelled]",
)
@click.option(
    "--train",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Labelled texts for the logistic regression.",
)
@click.option(
    "--shots",
    metavar="K",
    type=click.IntRange(min=1),
    help="The logistic regression learns from K texts of each class; without --train they are drawn from "
    "FILE, and the others are tested.",
)
@click.option(
    "--regularisation",
    metavar="C",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="C of the logistic regression.",
)
@click.option("--sample", metavar="N", type=click.IntRange(min=1), help="Test N texts, drawn at random.")
@click.option(
    "--repeats",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Draw --sample or --shots so often.",
)
@seed_option
@text_option
@label_option
@limit_option
@skip_option
@cache_option
@report_option
@click.option("--details", is_flag=True, help="Show the single classes, too.")
@quiet_option
def command(
    *,
    file: Path,
    models: tuple[str, ...],
    templates: tuple[str, ...],
    names: Path | None,
    weight: ClassifierWeight,
    ensemble: str | None,
    train: Path | None,
    shots: int | None,
    regularisation: float,
    sample: int | None,
    repeats: int,
    seed: int,
    text: str | None,
    label: str,
    limit: int | None,
    on_error: OnError,
    cache: Path | None,
    reports: tuple[Path, ...],
    details: bool,
    quiet: bool,
) -> None:
    """Classify labelled texts by the names of their labels: cosine and surprise side by side.

    A text's vector is compared with those of the labels' names in a template. Surprise compares each
    similarity with those of an ensemble of texts, by default the tested ones without their labels. Vectors
    are kept in the cache.
    """
    # Imported here, because `--help` and shell completion should not wait for torch.
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.classify.task import read_task
    from surprise_rerank.eval.studies.classify.zero_shot import TRAIN, Settings, evaluate_zero_shot

    if regularisation != 1.0 and train is None and shots is None:
        raise click.UsageError("--regularisation is for the logistic regression; give --train or --shots")
    check_files(reports)
    compared: Path | Literal["train"] | None = None
    if ensemble is not None:
        compared = TRAIN if ensemble == TRAIN else Path(ensemble)
    settings = Settings(
        models=models,
        templates=templates,
        weight=weight,
        ensemble=compared,
        shots=shots,
        regularisation=regularisation,
        repeats=repeats,
        sample=sample,
        seed=seed,
        cache=cache,
        text=text,
    )
    with telling(_RESUMED):
        task = read_task(file, train, names=names, text=text, label=label, limit=limit, on_error=on_error)
        report = evaluate_zero_shot(task, settings, Terminal(quiet=quiet))
    present(report, reports, details=details)
