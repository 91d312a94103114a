"""The tables of docs/results.md (`left-out`) and of thresholds.md (`verdicts`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.study.collection import Collection, read_collection
from benchmarks.study.heavy_tails import tails_table
from benchmarks.study.learned import learned_table
from benchmarks.study.left_out import (
    STEPS,
    Study,
    chosen_table,
    parts_table,
    pool_tables,
    quality_table,
)
from benchmarks.study.past_the_pool import past_table
from benchmarks.study.rankings import Phase, asked_by, read_rankings
from benchmarks.study.verdict_tables import PARTS, Place, verdict_tables
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.cli.options import present, quiet_option, report_option
from surprise_rerank.eval.reports.report import Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset

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
    "limit_small": "test",
}
LEFT_OUT = ("defaults", "past", "pools", "learned")
PHASES: tuple[Phase, ...] = ("own", "packaged")
MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")


_cache_option = click.option(
    "--cache", type=click.Path(path_type=Path), help="Where vectors and indexes are kept."
)


def _takes_collections(run: Callable[..., None]) -> Callable[..., None]:
    """The options that say which collections are measured, with which models."""
    folder = click.Path(path_type=Path)
    for option in (
        click.option(
            "--dataset", "names", multiple=True, type=click.Choice(list(SPLITS)), help="[default: all]"
        ),
        click.option(
            "--model", "models", multiple=True, help="As for rerank-eval; several times.  [default: three]"
        ),
        click.option("--data", type=folder, required=True, help="The folder with beir/."),
    ):
        run = option(run)
    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Where the defaults come from."""


@main.command()
@_takes_collections
@click.option("--questions", type=click.IntRange(2), default=400, show_default=True, help="Of each data set.")
@click.option("--part", "parts", multiple=True, type=click.Choice(LEFT_OUT), help="[default: all]")
@_cache_option
@report_option
@quiet_option
def left_out(
    data: Path,
    models: tuple[str, ...],
    names: tuple[str, ...],
    questions: int,
    parts: tuple[str, ...],
    cache: Path | None,
    reports: tuple[Path, ...],
    *,
    quiet: bool,
) -> None:
    """`auto` where it was not chosen.

    `defaults`: everything is fixed on all data sets but one, and measured on that one; then each part is
    taken away. `past`: candidates that neither list has. `pools`: of 50 and of 1,000. `learned`: weights that
    judged questions teach.
    """
    terminal = Terminal(quiet=quiet)
    try:
        collections = _collections(data, models, names, questions, cache, terminal)
        tables: list[Table] = []
        wanted = parts or LEFT_OUT
        if "defaults" in wanted:
            study = Study(collections)
            with terminal.bar("choosing", len(STEPS) * len(study.names), "steps") as advance:
                chosen = study.left_out(advance)
            tables += [quality_table(study, model, chosen) for model in study.models]
            tables += [parts_table(study), chosen_table(study, chosen)]
        tables += [past_table(collections)] if "past" in wanted else []
        tables += pool_tables(collections) if "pools" in wanted else []
        tables += [learned_table(collections)] if "learned" in wanted else []
        present(Report("Left-out collections", tuple(tables)), reports)
    except SurpriseRerankError as error:
        raise click.ClickException(str(error)) from error


def _collections(
    data: Path,
    models: tuple[str, ...],
    names: tuple[str, ...],
    questions: int,
    cache: Path | None,
    terminal: Terminal,
) -> dict[tuple[str, str], Collection]:
    found = {}
    for model in models or MODELS:
        encoder = load_encoder(model)
        for name in names or SPLITS:
            spec = _spec(data, name)
            found[name.removeprefix("beir/"), model] = read_collection(
                load_dataset(spec, SPLITS[name]),
                spec,
                encoder,
                cache=cache or cache_folder(),
                questions=questions,
                terminal=terminal,
            )
    return found


@main.command()
@_takes_collections
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="[default: all]")
@click.option(
    "--rankings",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Where rankings are kept; what it has is not asked again.",
)
@_cache_option
@report_option
@quiet_option
def verdicts(
    data: Path,
    models: tuple[str, ...],
    names: tuple[str, ...],
    parts: tuple[str, ...],
    folder: Path,
    cache: Path | None,
    reports: tuple[Path, ...],
    *,
    quiet: bool,
) -> None:
    """Whether thresholds keep their promise, and whether the chance of relevance knows weak answers."""
    terminal, kept = Terminal(quiet=quiet), cache or cache_folder()
    wanted = parts or PARTS
    names = names or tuple(name for name in SPLITS if name != "limit_small")  # 46 documents tell nothing
    if set(wanted) != {"pass-rates"} and len(names) == 1:
        raise click.ClickException(
            "the chance is fitted on all other collections; give two or more --dataset, or --part pass-rates"
        )
    try:
        places = []
        for model in models or MODELS:
            encoder = None
            for name in names:
                place = Place(name.removeprefix("beir/"), model, folder)
                places.append(place)
                for phase in PHASES:
                    if place.file(phase).is_file():
                        continue
                    encoder = encoder or load_encoder(model)
                    spec = _spec(data, name)
                    dataset = load_dataset(spec, SPLITS[name])
                    others = {_spec(data, own): split for own, split in SPLITS.items() if own != name}
                    read_rankings(
                        asked_by(phase, place.name, dataset, others),
                        dataset,
                        spec,
                        encoder,
                        cache=kept,
                        into=place.file(phase),
                        corpus=place.file("corpus"),
                        terminal=terminal,
                    )
        present(Report("Verdicts", tuple(verdict_tables(places, wanted, terminal))), reports)
    except SurpriseRerankError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.option("--repetitions", type=click.IntRange(1), default=10_000, show_default=True, help="Of each row.")
@report_option
def heavy_tails(repetitions: int, reports: tuple[Path, ...]) -> None:
    """How many new questions pass at 5 % where five scorers have heavy tails, simulated."""
    present(Report("Heavy tails", (tails_table(repetitions),)), reports)


def _spec(data: Path, name: str) -> str:
    """A data set as `--dataset` names it."""
    return str(data / "beir" / name) if (data / "beir" / name).is_dir() else name


if __name__ == "__main__":
    main()
