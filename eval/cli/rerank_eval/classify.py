"""`rerank-eval classify`: texts by the names of their labels, without examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.classify.settings import ZeroShotFiles, ZeroShotSettings

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

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
  half-pooled  each label's variance half of the way to the pooled one: the classifier's default
  percentile   median and 84th percentile for mean and deviation
  empirical    the share of the ensemble that is less similar
  logistic     logistic regression on labelled vectors (with --train or --shots)

\b
Columns: weight, that surprise was mixed with the cosine by (0 is cosine); accuracy; macro F1;
weighted F1; dev., standard deviations over the repeats; p, of the difference of the accuracy to
cosine's, as it is and with Holm's correction. --details: precision, recall and F1 of each class,
its share of the texts, and of the answers.
"""


@study_command(
    "classify",
    ZeroShotSettings,
    ZeroShotFiles,
    epilog=_EPILOG,
    details="Show the single classes, too.",
    interrupted="Texts that were encoded stay so; run the same command again to go on.",
)
def command(settings: ZeroShotSettings, files: ZeroShotFiles, terminal: Terminal) -> Report:
    """Classify labelled texts by the names of their labels: cosine and surprise side by side.

    A text's vector is compared with those of the labels' names in a template. Surprise compares each
    similarity with those of an ensemble of texts, by default the tested ones without their labels. Vectors
    are kept in the cache.
    """
    from surprise_rerank.eval.studies.classify.task import read_task
    from surprise_rerank.eval.studies.classify.zero_shot import evaluate_zero_shot

    if settings.regularisation != 1.0 and files.train is None and settings.shots is None:
        raise click.UsageError("--regularisation is for the logistic regression; give --train or --shots")
    task = read_task(files.file, files.train, names=files.names, limit=files.limit, **files.columns())
    return evaluate_zero_shot(task, settings, terminal)
