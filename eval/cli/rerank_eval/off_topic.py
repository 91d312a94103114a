"""`rerank-eval off-topic`: whether thresholds hold, and which statistic finds off-topic questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.off_topic.settings import OffTopicSettings

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval off-topic --dataset beir/scifact,beir/nfcorpus
  rerank-eval off-topic --dataset demo --questions other-questions.txt
  rerank-eval off-topic --dataset demo,./my-beir-folder --questions banking77.jsonl --report off-topic.html
  rerank-eval off-topic --dataset demo,beir/scifact --model glove-6b-50d --alpha .01,.1 --details
"""


@study_command(
    "off-topic",
    OffTopicSettings,
    epilog=_EPILOG,
    details="Show what happens with backgrounds from elsewhere, too.",
    interrupted="Indexes that were made stay; run the same command again.",
)
def command(settings: OffTopicSettings, terminal: Terminal) -> Report:
    """Off-topic questions: which statistic finds them, and how many pass a threshold.

    Half of the off-topic questions are the background that thresholds are set on, the other half is put to
    the test. The report also has the AUROC of every statistic of the best candidate, answered questions
    against precision, and the calibration of probabilities that are fitted on judged questions.
    """
    from surprise_rerank.eval.studies.off_topic.evaluation import evaluate_off_topic

    return evaluate_off_topic(settings, terminal)
