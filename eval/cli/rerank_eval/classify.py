"""`rerank-eval classify`: texts by the names of their labels, with ensembles of many sizes, by examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.classify.settings import ClassifySettings

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval classify ag_news.test.jsonl --template 'this matter is {}' --template '{}'
  rerank-eval classify test.csv --text question --label intent --label-names names.yaml
  rerank-eval classify test.jsonl --train train.jsonl --inductive --report classify.html
  rerank-eval classify test.jsonl --model all-MiniLM-L6-v2 --ensemble-size 10,100,1000
  rerank-eval classify test.jsonl --train train.jsonl --few-shot 3,9,21
  rerank-eval classify all.jsonl --few-shot 8 --test-size 1000 --systems surprise-linear,logistic

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


@study_command(
    "classify",
    ClassifySettings,
    epilog=_EPILOG,
    interrupted="Texts that were encoded stay so; run the same command again to go on.",
)
def command(settings: ClassifySettings, terminal: Terminal) -> Report:
    """Classify labelled texts by the names of their labels: cosine and surprise side by side.

    A text's vector is compared with those of the labels' names in a template. Surprise compares each
    similarity with those of an ensemble of texts, by default the tested ones without their labels. Vectors
    are kept in the cache. --ensemble-size and --few-shot are the paper's other two studies.
    """
    from surprise_rerank.eval.studies.classify.evaluation import evaluate_classification

    return evaluate_classification(settings, terminal)
