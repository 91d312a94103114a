"""The tables of docs/results.md on collections that `auto` was not chosen on."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.study.collection import read_collection
from benchmarks.study.left_out import STEPS, Study, chosen_table, parts_table, quality_table
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.cli.options import present, quiet_option, report_option
from surprise_rerank.eval.reports.report import Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset

LANGUAGES = tuple(f"xquad_{language}" for language in ("en", "de", "es", "zh", "ar", "ru"))
# Data set -> its questions that are not for tests; the old collections have no splits.
SPLITS = {
    "beir/scifact": "train",
    "beir/nfcorpus": "dev",
    **dict.fromkeys(("cranfield", "cacm", "cisi", "lisa", "npl"), "test"),
    "demo": "train",
    "limit_small": "test",
    **dict.fromkeys(("birco_relic", "birco_arguana", "birco_wtb", "filings"), "test"),
    **dict.fromkeys(LANGUAGES, "test"),
}
PARTS = ("rows", "defaults")
MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Where the defaults come from."""


@main.command()
@click.option("--data", type=_FOLDER, required=True, help="The folder with beir/.")
@click.option("--model", "models", multiple=True, default=MODELS, help="[default: three]")
@click.option("--dataset", "names", multiple=True, type=click.Choice(list(SPLITS)), help="[default: all]")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS)
@click.option("--cache", type=_FOLDER, default=cache_folder, help="Of vectors and indexes.")
@click.option("--questions", type=click.IntRange(2), default=400, show_default=True, help="Of each data set.")
@report_option
@quiet_option
def left_out(
    data: Path,
    models: tuple[str, ...],
    names: tuple[str, ...],
    parts: tuple[str, ...],
    cache: Path,
    reports: tuple[Path, ...],
    *,
    quiet: bool,
    questions: int,
) -> None:
    """`auto` where it was not chosen.

    `rows`: every system and its peers on every data set, and `auto` without each of its parts. `defaults`:
    everything is fixed on all kinds of data sets but one, and measured on that one.
    """
    terminal, collections = Terminal(quiet=quiet), {}
    try:
        for model in models:
            encoder = load_encoder(model)
            for name in names or SPLITS:
                folder = data / "beir" / name
                spec = str(folder) if folder.is_dir() else name
                collections[name.removeprefix("beir/"), model] = read_collection(
                    load_dataset(spec, SPLITS[name]),
                    spec,
                    encoder,
                    cache=cache,
                    questions=questions,
                    terminal=terminal,
                )
        tables: list[Table] = []
        study = Study(collections)
        if "rows" in parts:
            tables += [*(quality_table(study, model) for model in study.models), parts_table(study)]
        if "defaults" in parts:
            with terminal.bar("choosing", len(STEPS) * len({*study.kinds.values()}), "steps") as advance:
                chosen = study.left_out(advance)
            tables += [quality_table(study, model, chosen) for model in study.models]
            tables.append(chosen_table(study, chosen))
    except SurpriseRerankError as error:
        raise click.ClickException(str(error)) from error
    present(Report("Left-out collections", tuple(tables)), reports)


if __name__ == "__main__":
    main()
