"""`rerank-eval classify`: texts by the names of their labels, with ensembles of many sizes, by examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.options import NEW_FILE, reports
from surprise_rerank.eval.cli.rerank_eval.study import (
    KEPT,
    label_option,
    limit_option,
    models_option,
    run_study,
    text_option,
)
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.studies.classify.settings import ClassifySettings
from surprise_rerank.eval.studies.settings import MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval classify ag_news.test.jsonl --set 'templates=this matter is {},{}'
  rerank-eval classify test.csv --text-field question --label-field intent --set names=names.yaml
  rerank-eval classify test.jsonl --train train.jsonl --set inductive=yes --report classify.html
  rerank-eval classify test.jsonl --model all-MiniLM-L6-v2 --set ensemble_size=10,100,1000
  rerank-eval classify test.jsonl --train train.jsonl --few-shot 3,9,21
  rerank-eval classify all.jsonl --few-shot 8 --set test_size=1000 --set systems=surprise-linear,logistic

\b
FILE is JSONL, CSV, TSV (.gz, too) or Parquet, with a column of texts and one of labels.

\b
Systems:
  cosine       the label whose vector is the nearest
  surprise     the label that the text is more similar to than other texts are: Gaussian
  pooled       one deviation for all labels
  half-pooled  each label's variance half of the way to the pooled one: the classifier's default
  percentile   median and 84th percentile for mean and deviation
  empirical    the share of the ensemble that is less similar
  logistic     logistic regression on labelled vectors (with --train)

\b
Systems of --few-shot:
  cosine, surprise                 the encoder fine-tuned by the paper's routine, once for both
  cosine-linear, surprise-linear   a linear map of the vectors, trained likewise, in seconds
  logistic                         logistic regression on the vectors
  setfit                           SetFit with its defaults (pip install 'surprise-rerank[setfit]')

\b
Columns: weight, that surprise was mixed with the cosine by (0 is cosine); accuracy; macro F1;
weighted F1; p, of the difference of the accuracy to cosine's, as it is and with Holm's correction;
k, examples of each class; dev., standard deviations over the draws.
"""


@click.command("classify", epilog=_EPILOG)
@click.argument("file", metavar="FILE", type=NEW_FILE)
@models_option(MODEL)
@click.option(
    "--train",
    metavar="FILE",
    type=NEW_FILE,
    help="Labelled texts to learn from: for the logistic regression, or for --few-shot.",
)
@click.option(
    "--few-shot",
    metavar="K,K,...",
    type=completion.Names(),
    help="Learn from K examples of each class, of --train or of FILE, whose others are tested.",
)
@text_option
@label_option
@limit_option
@set_option(
    lambda: (ClassifySettings,),
    but=("file", "models", "train", "few_shot", "text", "label", "limit"),
)
@reports
def command(
    *,
    file: Path,
    models: tuple[str, ...],
    train: Path | None,
    few_shot: tuple[str, ...] | None,
    text: str | None,
    label: str,
    limit: int | None,
    settings: Given,
    **ending: Any,
) -> None:
    """Classify labelled texts by the names of their labels: cosine and surprise side by side.

    A text's vector is compared with those of the labels' names in a template. Surprise compares each
    similarity with those of an ensemble of texts, by default the tested ones without their labels. Vectors
    are kept in the cache. --set ensemble_size=N,N,... and --few-shot are the paper's other two studies.
    """
    if few_shot is not None and not all(own.isdecimal() for own in few_shot):
        raise click.UsageError(f"--few-shot {','.join(few_shot)}: give whole numbers, as 3,9,21")
    shots = None if few_shot is None else tuple(map(int, few_shot))

    def study(terminal: Terminal) -> Report:
        from surprise_rerank.eval.studies.classify.evaluation import evaluate_classification

        own = settings.of(
            ClassifySettings,
            file=file,
            models=models,
            train=train,
            few_shot=shots,
            text=text,
            label=label,
            limit=limit,
        )
        return evaluate_classification(own, terminal)

    run_study(study, interrupted=KEPT, details=True, **ending)
