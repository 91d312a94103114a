"""The tables of docs/results.md (`left-out`) and of thresholds.md (`verdicts`, `heavy-tails`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.study.collection import read_collection
from benchmarks.study.heavy_tails import tails_table
from benchmarks.study.learned import learned_table
from benchmarks.study.left_out import STEPS, Study, chosen_table, parts_table, quality_table
from benchmarks.study.rankings import Phase, asked_by, read_rankings
from benchmarks.study.verdicts import PARTS, Place, verdict_tables
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
# Verdicts are not measured with these: 46 documents tell nothing, and the other ones came later.
UNJUDGED = ("limit_small", "birco_relic", "birco_arguana", "birco_wtb", "filings", *LANGUAGES)
LEFT_OUT = ("rows", "defaults", "learned")
PHASES: tuple[Phase, ...] = ("own", "packaged")
MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _options(parts: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of a study of some collections, with some models, in some parts."""
    known = [
        click.option("--data", type=_FOLDER, required=True, help="The folder with beir/."),
        click.option("--model", "models", multiple=True, default=MODELS, help="[default: three]"),
        click.option(
            "--dataset", "names", multiple=True, type=click.Choice(list(SPLITS)), help="[default: all]"
        ),
        click.option("--part", "parts", multiple=True, type=click.Choice(parts), default=parts),
        click.option("--cache", type=_FOLDER, default=cache_folder, help="Of vectors and indexes."),
        report_option,
        quiet_option,
    ]

    def decorated(run: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(known):
            run = option(run)
        return run

    return decorated


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Where the defaults come from."""


@main.command()
@_options(LEFT_OUT)
@click.option("--questions", type=click.IntRange(2), default=400, show_default=True, help="Of each data set.")
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
    everything is fixed on all kinds of data sets but one, and measured on that one. `learned`: weights
    that judged questions teach.
    """
    terminal, collections = Terminal(quiet=quiet), {}
    try:
        for model in models:
            encoder = load_encoder(model)
            for name in names or SPLITS:
                spec = _spec(data, name)
                dataset = load_dataset(spec, SPLITS[name])
                found = read_collection(
                    dataset, spec, encoder, cache=cache, questions=questions, terminal=terminal
                )
                collections[name.removeprefix("beir/"), model] = found
        tables: list[Table] = []
        study = Study(collections)
        if "rows" in parts:
            tables += [*(quality_table(study, model) for model in study.models), parts_table(study)]
        if "defaults" in parts:
            with terminal.bar("choosing", len(STEPS) * len({*study.kinds.values()}), "steps") as advance:
                chosen = study.left_out(advance)
            tables += [quality_table(study, model, chosen) for model in study.models]
            tables.append(chosen_table(study, chosen))
        tables += [learned_table(collections)] if "learned" in parts else []
    except SurpriseRerankError as error:
        raise click.ClickException(str(error)) from error
    present(Report("Left-out collections", tuple(tables)), reports)


@main.command()
@_options(PARTS)
@click.option(
    "--rankings",
    "folder",
    type=_FOLDER,
    required=True,
    help="Where rankings are kept; what it has is not asked again.",
)
def verdicts(
    data: Path,
    models: tuple[str, ...],
    names: tuple[str, ...],
    parts: tuple[str, ...],
    cache: Path,
    reports: tuple[Path, ...],
    *,
    quiet: bool,
    folder: Path,
) -> None:
    """Whether thresholds keep their promise, and whether the chance of relevance knows weak answers."""
    terminal = Terminal(quiet=quiet)
    names = names or tuple(name for name in SPLITS if name not in UNJUDGED)
    if {*parts} != {"pass-rates"} and len(names) == 1:
        raise click.ClickException(
            "the chance is fitted on all other collections; give two or more --dataset, or --part pass-rates"
        )
    places = [Place(name.removeprefix("beir/"), model, folder) for model in models for name in names]
    try:
        for place, name in zip(places, names * len(models), strict=True):
            for phase in PHASES:
                if place.file(phase).is_file():
                    continue
                spec = _spec(data, name)
                dataset = load_dataset(spec, SPLITS[name])
                unasked = (name, *UNJUDGED[1:])
                others = {_spec(data, own): split for own, split in SPLITS.items() if own not in unasked}
                read_rankings(
                    asked_by(phase, place.name, dataset, others),
                    dataset,
                    spec,
                    load_encoder(place.model),
                    cache=cache,
                    into=place.file(phase),
                    corpus=place.file("corpus"),
                    terminal=terminal,
                )
        tables = verdict_tables(places, parts, terminal)
    except SurpriseRerankError as error:
        raise click.ClickException(str(error)) from error
    present(Report("Verdicts", tuple(tables)), reports)


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
