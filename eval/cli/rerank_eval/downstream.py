"""`rerank-eval downstream`: what a classifier makes of sentence vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.downstream.settings import DownstreamSettings

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval downstream --data benchmarks
  rerank-eval downstream --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval downstream --data benchmarks --model toy_emb.txt --tasks MR,CR --post-process
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


@study_command(
    "downstream",
    DownstreamSettings,
    epilog=_EPILOG,
    details="Show deviations and development accuracies, too.",
)
def command(settings: DownstreamSettings, terminal: Terminal) -> Report:
    """Accuracy of a classifier of sentence vectors: SentEval's downstream tasks.

    A logistic regression learns a task's classes from sentence vectors (of pairs, |u - v| and u * v); its
    regularisation is chosen without the test set, and it is stopped early, as the published figures were
    made. Every text is encoded once.
    """
    from surprise_rerank.eval.studies.downstream.evaluation import evaluate_downstream

    return evaluate_downstream(settings, terminal)
