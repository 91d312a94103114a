"""`rerank-eval cluster`: clusters of texts by cosine and by surprise, compared with labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.cluster.settings import ClusterSettings

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval cluster tweet.jsonl
  rerank-eval cluster tweet.jsonl searchsnippets.jsonl --model all-MiniLM-L6-v2 --model glove-6b-50d
  rerank-eval cluster reddit.csv --text title --label subreddit --repeats 40 --report reddit.html
  rerank-eval cluster news.parquet --clusters 50 --assignments surprise,surprise@0.5,pooled@crossover
  rerank-eval cluster large.jsonl.gz --limit 3000 --details

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


@study_command(
    "cluster",
    ClusterSettings,
    epilog=_EPILOG,
    details="Show homogeneity, completeness, sizes and times, too.",
    interrupted="Texts that were encoded stay so; run the same command again to go on.",
)
def command(settings: ClusterSettings, terminal: Terminal) -> Report:
    """Compare clusters of texts with their labels: V-measure and ARI.

    Each repeat finds centres by k-means; every assignment takes the same ones, and is compared with the
    cosine over the repeats. Labels are used for nothing else than the comparison and the number of clusters.
    Texts are encoded once; vectors are kept in the cache.
    """
    from surprise_rerank.eval.studies.cluster.evaluation import evaluate_clustering

    return evaluate_clustering(settings, terminal)
