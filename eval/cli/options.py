"""Options that the commands of `rerank-eval` share, and the end of each: the report, shown and written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from surprise_rerank.eval.reports.report import Report

data_option = click.option(
    "--data",
    metavar="FOLDER",
    envvar="SURPRISE_RERANK_DATA",
    type=click.Path(path_type=Path),
    help="The folder of the benchmarks' files: beir, evalrank, sts, downstream.  [$SURPRISE_RERANK_DATA]",
)
models_option = click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    default=("glove-6b-50d",),
    show_default=True,
    help="glove-6b-50d, a file of word vectors, or a sentence-transformers model. Several times.",
)
cache_option = click.option(
    "--cache",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where converted vectors and finished tasks are kept.  "
    "[default: $SURPRISE_RERANK_CACHE or the user's cache folder]",
)
report_option = click.option(
    "--report",
    "reports",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the tables to a file, too: .md, .tex, .json or .html (with plots). Several times.",
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="The tables only, no progress.")


def split_names(given: str) -> tuple[str, ...]:
    """Names with commas between, once each."""
    return tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))


def present(report: Report, files: tuple[Path, ...], *, details: bool = True) -> None:
    """Print a report's tables and notes, and write it to files.

    Args:
        report: to be shown.
        files: see `report_option`.
        details: whether to print the tables that are details, too.

    Raises:
        SurpriseRerankError: if a file cannot be written, or its suffix is not known.
    """
    from surprise_rerank.eval.reports.terminal import print_report
    from surprise_rerank.eval.reports.writing import write_report

    print_report(report, details=details)
    for file in files:
        write_report(report, file)
