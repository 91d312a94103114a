"""What the commands of studies share: options of models, files and columns, and the end, a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.eval.cli.exits import when_interrupted
from surprise_rerank.eval.cli.options import present

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

KEPT = "Texts that were encoded stay so; run the same command again to go on."

data_option = click.option(
    "--data",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    envvar="SURPRISE_RERANK_DATA",
    help="The folder of the benchmarks' files: beir, evalrank, sts, downstream.  [$SURPRISE_RERANK_DATA]",
)
text_option = click.option(
    "--text-field", "text", metavar="NAME", help="Column of texts.  [default: text, content, body, ...]"
)
label_option = click.option(
    "--label-field", "label", metavar="NAME", default="label", show_default=True, help="Column of labels."
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="A quick look: N texts, a random sample that is always the same.",
)


def models_option(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option `--model`, several times."""
    return click.option(
        "--model",
        "models",
        metavar="NAME",
        multiple=True,
        default=(default,),
        show_default=True,
        help="A sentence-transformers model, glove-6b-50d, or a file of word vectors. Several times.",
    )


def run_study(
    study: Callable[[Terminal], Report],
    reports: tuple[Path, ...],
    *,
    as_json: bool,
    quiet: bool,
    interrupted: str = "",
    details: bool = False,
) -> None:
    """Run a study, with progress; show its report, and write it to files.

    Args:
        study: takes the terminal for progress. It imports what is heavy itself.
        reports: files.
        as_json: see `present`.
        quiet: no progress, no notes.
        interrupted: a sentence on what remains after an interruption.
        details: whether the tables of details are shown, too, which files and JSON have.
    """
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files

    check_files(reports)
    with when_interrupted(interrupted):
        report = study(Terminal(quiet=quiet))
    present(report, reports, details=details, as_json=as_json, quiet=quiet)
