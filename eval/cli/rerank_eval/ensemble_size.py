"""`rerank-eval ensemble-size`: surprise with small and large ensembles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.classify.settings import EnsembleSizeSettings, SampledFiles

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

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


@study_command(
    "ensemble-size",
    EnsembleSizeSettings,
    SampledFiles,
    epilog=_EPILOG,
    interrupted="Texts that were encoded stay so; run the same command again to go on.",
)
def command(settings: EnsembleSizeSettings, files: SampledFiles, terminal: Terminal) -> Report:
    """Measure surprise with random ensembles of growing size, and cosine: the paper's study.

    Texts are classified by the names of their labels. The ensemble are a few of the unlabelled texts; the
    others are tested. --report FILE.html draws the ratio of surprise to cosine over the size.
    """
    from surprise_rerank.eval.studies.classify.ensemble_size import evaluate_ensemble_size
    from surprise_rerank.eval.studies.classify.task import read_task

    task = read_task(files.file, names=files.names, limit=files.limit, **files.columns())
    return evaluate_ensemble_size(task, settings, terminal)
