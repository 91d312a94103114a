"""`python -m benchmarks.study left-out --data DATA`: the tables of docs/defaults.md."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.study.left_out import STEPS, Study, chosen_table, parts_table, quality_table
from benchmarks.study.reading import read_collection
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.cli.options import options_of, present, quiet_option, report_option
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.eval.studies.settings import CacheFolder

# Data set -> its questions that are not for tests; the old collections have no splits.
SPLITS = {
    "beir/scifact": "train",
    "beir/nfcorpus": "dev",
    "cranfield": "test",
    "cacm": "test",
    "cisi": "test",
    "lisa": "test",
    "npl": "test",
    "demo": "train",
}
MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Where the defaults come from."""


@main.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The folder with beir/.")
@click.option("--model", "models", multiple=True, help="As for rerank-eval; several times.  [default: three]")
@click.option("--dataset", "names", multiple=True, type=click.Choice(list(SPLITS)), help="[default: all]")
@click.option("--questions", type=click.IntRange(2), default=400, show_default=True, help="Of each data set.")
@options_of(CacheFolder)
@report_option
@quiet_option
def left_out(
    data: Path,
    models: tuple[str, ...],
    names: tuple[str, ...],
    questions: int,
    cache: Path | None,
    reports: tuple[Path, ...],
    *,
    quiet: bool,
) -> None:
    """Fix everything on all data sets but one, and measure on that one; then each part taken away."""
    terminal, folder = Terminal(quiet=quiet), cache or cache_folder()
    try:
        collections = {}
        for model in models or MODELS:
            encoder = load_encoder(model, cache=folder)
            for name in names or SPLITS:
                spec = str(data / "beir" / name) if (data / "beir" / name).is_dir() else name
                dataset = load_dataset(spec, SPLITS[name])
                collections[name.removeprefix("beir/"), model] = read_collection(
                    dataset, spec, encoder, cache=folder, questions=questions, terminal=terminal
                )
        study = Study(collections)
        with terminal.bar("choosing", len(STEPS) * len(study.names), "steps") as advance:
            chosen = study.left_out(advance)
        tables = [quality_table(study, model, chosen) for model in study.models]
        present(
            Report("Left-out collections", (*tables, parts_table(study), chosen_table(study, chosen))),
            reports,
        )
    except SurpriseRerankError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
