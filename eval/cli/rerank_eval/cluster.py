"""`rerank-eval cluster`: clusters of texts by cosine and by surprise, beside labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.core.settings import split_names
from surprise_rerank.eval.cli.exits import telling
from surprise_rerank.eval.cli.options import cache_option, present, quiet_option, report_option
from surprise_rerank.eval.cli.rerank_eval.labelled_options import (
    label_option,
    limit_option,
    models_option,
    skip_option,
    text_option,
)

if TYPE_CHECKING:
    from surprise_rerank.connectors.readers.source import OnError

_RESUMED = "Repeats that were measured stay; run the same command again to go on."

_EPILOG = """\b
Examples:
  rerank-eval cluster tweet.jsonl
  rerank-eval cluster tweet.jsonl searchsnippets.jsonl --model all-MiniLM-L6-v2 --model glove-6b-50d
  rerank-eval cluster reddit.csv --text title --label subreddit --repeats 40 --report reddit.html
  rerank-eval cluster news.parquet --clusters 50 --assignments surprise,surprise@0.5,pooled@crossover
  rerank-eval cluster large.jsonl.gz --mini-batch 4096 --repeats 5
  rerank-eval cluster large.jsonl.gz --limit 3000 --details

\b
FILE is JSONL, CSV, TSV (each may end in .gz) or Parquet, with a text and a label in each row.
Assignments of the points to the centres of k-means, all beside the cosine:
  cosine      the nearest centre
  surprise    the most surprising one: z of the cosine over all points, by each centre's mean and deviation
  pooled      the same with one deviation for all centres
  percentile  the same with median and 84.134th percentile
  empirical   the share of the points that are less near
  NAME@W      with the weight W from 0 (the cosine) to 1, or crossover: tanh(points / 1000)
"""


@click.command("cluster", epilog=_EPILOG)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@models_option
@click.option(
    "--clusters",
    metavar="K",
    type=click.IntRange(min=1),
    help="How many clusters.  [default: as many as there are labels]",
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=20, show_default=True, help="Beginnings of k-means."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**31),
    default=0,
    show_default=True,
    help="Of the first repeat; each one has the next.",
)
@text_option
@label_option
@limit_option
@click.option(
    "--mini-batch",
    metavar="N",
    type=click.IntRange(min=1),
    help="Find centres by mini-batches of N texts, for large files.  [default: by all texts]",
)
@click.option(
    "--assignments",
    metavar="NAMES",
    default="cosine,surprise,surprise@0.75,pooled,percentile,empirical",
    show_default=True,
    help="What to compare, with commas between.",
)
@skip_option
@cache_option
@report_option
@click.option("--details", is_flag=True, help="Show homogeneity, completeness, sizes and times, too.")
@quiet_option
def command(
    *,
    files: tuple[Path, ...],
    models: tuple[str, ...],
    clusters: int | None,
    repeats: int,
    seed: int,
    text: str | None,
    label: str,
    limit: int | None,
    mini_batch: int | None,
    assignments: str,
    on_error: OnError,
    cache: Path | None,
    reports: tuple[Path, ...],
    details: bool,
    quiet: bool,
) -> None:
    """Clusters of texts beside their labels: V-measure, ARI, NMI.

    Each repeat finds centres by k-means; every assignment takes the same ones, and is compared with the
    cosine over the repeats. Labels are used for nothing else than the comparison and the number of clusters.
    Texts are encoded once; vectors and finished repeats are kept in the cache.
    """
    # Imported here, because `--help` and shell completion should not wait for torch.
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.labelled.data import read_labelled
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.cluster.evaluation import Settings, evaluate_clustering

    check_files(reports)
    settings = Settings(split_names(assignments), clusters, repeats, seed, mini_batch, limit)
    with telling(_RESUMED):
        report = evaluate_clustering(
            models,
            [read_labelled(file, text=text, label=label, on_error=on_error) for file in dict.fromkeys(files)],
            settings,
            cache=cache,
            terminal=Terminal(quiet=quiet),
        )
    present(report, reports, details=details)
