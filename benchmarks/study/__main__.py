"""`python -m benchmarks.study SUBJECT...`: a table for each subject."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.study.collection import Collection
from benchmarks.study.ensembles import ensemble_rows
from benchmarks.study.feedback import feedback_rows, neighbour_rows
from benchmarks.study.fusion import fusion_rows
from benchmarks.study.length import length_rows
from benchmarks.study.parts import depth_rows, part_rows
from benchmarks.study.reading import read_collection
from benchmarks.study.table import Evaluator, Row
from benchmarks.study.tokens import token_rows
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.cli.options import options_of, present, quiet_option, report_option
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.eval.studies.settings import CacheFolder

SUBJECTS: dict[str, Callable[[Collection], list[Row]]] = {
    "parts": part_rows,
    "ensembles": ensemble_rows,
    "tokens": token_rows,
    "length": length_rows,
    "fusion": fusion_rows,
    "feedback": feedback_rows,
    "neighbours": neighbour_rows,
    "depth": depth_rows,
}
# Subjects that ask for more than the index tells: other texts to encode, tokens in other forms.
DEEP = frozenset({"ensembles", "tokens"})


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("subjects", nargs=-1, required=True, type=click.Choice(list(SUBJECTS)))
@click.option("--dataset", required=True, metavar="NAME", help="As for rerank-eval.")
@click.option("--split", required=True, metavar="NAME", help="Training or development questions.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True, metavar="NAME", help="As for rerank-eval.")
@click.option("--questions", type=click.IntRange(2), metavar="N", help="The first N only.  [default: all]")
@options_of(CacheFolder)
@report_option
@quiet_option
def main(
    subjects: tuple[str, ...],
    dataset: str,
    split: str,
    model: str,
    questions: int | None,
    cache: Path | None,
    reports: tuple[Path, ...],
    *,
    quiet: bool,
) -> None:
    """What helps: variants of each subject beside the default."""
    terminal = Terminal(quiet=quiet)
    try:
        loaded = load_dataset(dataset, split)
        collection = read_collection(
            loaded,
            dataset,
            load_encoder(model, cache=cache or cache_folder()),
            cache=cache or cache_folder(),
            questions=questions,
            deep=not DEEP.isdisjoint(subjects),
            terminal=terminal,
        )
        evaluator = Evaluator(collection)
        tables = []
        for subject in subjects:
            rows = SUBJECTS[subject](collection)
            with terminal.bar(subject, len(rows), "variants") as advance:
                tables.append(evaluator.table(subject, rows, advance))
        present(Report("What helps", tuple(tables)), reports)
    except SurpriseRerankError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
