"""`rerank-eval off-topic`: whether thresholds hold, and what tells off-topic questions."""

from __future__ import annotations

from pathlib import Path

import click

from surprise_rerank.core.settings import split_names
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.exits import telling
from surprise_rerank.eval.cli.options import cache_option, present, quiet_option, report_option

_RESUMED = "Indexes that were made stay; run the same command again."

_EPILOG = """\b
Examples:
  rerank-eval off-topic --dataset beir/scifact,beir/nfcorpus
  rerank-eval off-topic --dataset demo --questions other-questions.txt
  rerank-eval off-topic --dataset demo,./my-beir-folder --questions banking77.jsonl --report off-topic.html
  rerank-eval off-topic --dataset demo,beir/scifact --model glove-6b-50d --alpha .01,.1 --details
"""


@click.command("off-topic", epilog=_EPILOG)
@click.option(
    "--dataset",
    required=True,
    help="Corpora with judged questions, with commas between: as for `rerank-eval`. Each one's questions are "
    "off-topic for the others.",
)
@click.option(
    "--questions",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="More off-topic questions: a text with one a line, or a table with a column `text`. Several times.",
)
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    default=("all-MiniLM-L6-v2",),
    show_default=True,
    help="Of the vectors. Several times.",
)
@click.option("--split", metavar="NAME", help="Of the judged questions.  [default: test]")
@click.option(
    "--alpha",
    default=".05,.2",
    show_default=True,
    help="Shares of off-topic questions that thresholds are to let through.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=20),
    default=1000,
    show_default=True,
    help="The most off-topic questions of a source, drawn at random.",
)
@click.option(
    "--depth", type=click.IntRange(min=1), default=100, show_default=True, help="Size of the pools."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the division into halves."
)
@cache_option
@report_option
@click.option("--details", is_flag=True, help="Show what happens with backgrounds from elsewhere, too.")
@quiet_option
def command(
    *,
    dataset: str,
    files: tuple[Path, ...],
    models: tuple[str, ...],
    split: str | None,
    alpha: str,
    limit: int,
    depth: int,
    seed: int,
    cache: Path | None,
    reports: tuple[Path, ...],
    details: bool,
    quiet: bool,
) -> None:
    """Off-topic questions: what tells them, and what thresholds let through.

    Half of the off-topic questions are the background that thresholds are set on, the other half is put to
    the test. Beside it stand the AUROC of every statistic of the best candidate, answered questions against
    precision, and the calibration of probabilities that are fitted on judged questions.
    """
    # Imported here, because `--help` and shell completion should not wait for torch.
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.off_topic.evaluation import Settings, evaluate_off_topic

    check_files(reports)
    settings = Settings(
        datasets=split_names(dataset),
        files=tuple(dict.fromkeys(files)),
        models=tuple(dict.fromkeys(models)),
        split=split,
        alphas=_alphas(alpha),
        limit=limit,
        depth=depth,
        seed=seed,
    )
    with telling(_RESUMED):
        report = evaluate_off_topic(settings, cache=cache, terminal=Terminal(quiet=quiet))
    present(report, reports, details=details)


def _alphas(given: str) -> tuple[float, ...]:
    names = split_names(given)
    try:
        values = tuple(float(name) for name in names)
    except ValueError:
        values = ()
    if not values or not all(0 < value < 1 for value in values):
        raise DataError(f"--alpha {given!r}: give shares between 0 and 1 with commas between, such as .05,.2")
    return values
