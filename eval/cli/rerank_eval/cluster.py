"""`rerank-eval cluster`: clusters of texts by cosine and by surprise, compared with labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli.options import reports
from surprise_rerank.eval.cli.rerank_eval.study import (
    KEPT,
    label_option,
    limit_option,
    models_option,
    run_study,
    text_option,
)
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.studies.cluster.settings import ClusterSettings
from surprise_rerank.eval.studies.settings import MODEL

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval cluster tweet.jsonl
  rerank-eval cluster tweet.jsonl searchsnippets.jsonl --model all-MiniLM-L6-v2 --model glove-6b-50d
  rerank-eval cluster reddit.csv --text-field title --label-field subreddit --set repeats=40
  rerank-eval cluster news.parquet --set clusters=50 --set assignments=surprise,surprise@0.5
  rerank-eval cluster large.jsonl.gz --limit 3000

\b
FILE is JSONL, CSV, TSV (each may end in .gz) or Parquet, with a text and a label in each row.
Assignments of the points to the centres of k-means, all compared with the cosine:
  cosine      the nearest centre
  surprise    the most surprising one: z of the cosine over all points, by each centre's mean and deviation
  pooled      the same with one deviation for all centres
  percentile  the same with median and 84.134th percentile
  empirical   the share of the points that are less near
  NAME@W      with the weight W from 0 (the cosine) to 1, or crossover: tanh(points / 1000)
"""


@click.command("cluster", epilog=_EPILOG)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@models_option(MODEL)
@text_option
@label_option
@limit_option
@set_option(lambda: (ClusterSettings,), but=("files", "models", "text", "label", "limit"))
@reports
def command(
    *,
    files: tuple[Path, ...],
    models: tuple[str, ...],
    text: str | None,
    label: str,
    limit: int | None,
    settings: Given,
    **ending: Any,
) -> None:
    """Compare clusters of texts with their labels: V-measure and ARI.

    Each repeat finds centres by k-means; every assignment takes the same ones, and is compared with the
    cosine over the repeats. Labels are used for nothing else than the comparison and the number of clusters.
    Texts are encoded once; vectors are kept in the cache.
    """

    def study(terminal: Terminal) -> Report:
        from surprise_rerank.eval.studies.cluster.evaluation import evaluate_clustering

        own = settings.of(ClusterSettings, files=files, models=models, text=text, label=label, limit=limit)
        return evaluate_clustering(own, terminal)

    run_study(study, interrupted=KEPT, **ending)
