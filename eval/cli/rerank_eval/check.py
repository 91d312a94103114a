"""`rerank-eval check`: the tables of the documentation, once more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.errors import near_or_all
from surprise_rerank.eval.cli.options import json_option, options_of, present, quiet_option, report_option
from surprise_rerank.eval.studies.settings import BenchmarkFiles

if TYPE_CHECKING:
    from surprise_rerank.eval.check import Expectation, Outcome
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval check --list
  rerank-eval check --data benchmarks --max-minutes 2
  rerank-eval check results-systems-scifact --report check.md
"""


@click.command("check", epilog=_EPILOG)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@options_of(BenchmarkFiles)
@click.option("--max-minutes", type=click.FloatRange(min=0), help="Omit what takes longer, about.")
@click.option(
    "--expected",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of YAML files in place of the package's own.",
)
@click.option(
    "--list", "only_list", is_flag=True, help="List the tables and the commands behind them, and exit."
)
@report_option
@json_option
@quiet_option
def command(
    *,
    names: tuple[str, ...],
    data: Path | None,
    cache: Path | None,
    max_minutes: float | None,
    folder: Path | None,
    only_list: bool,
    reports: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the commands behind the tables of the documentation, and compare the results.

    What needs data or packages that are not here is skipped, with the reason. The exit code is 1 if a score
    differs by more than its tolerance or a command fails, else 0.
    """
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.check import expectations, run
    from surprise_rerank.eval.reports.writing import check_files

    check_files(reports)
    chosen = _chosen(expectations(folder), names, max_minutes)
    if only_list:
        for expectation in chosen:
            click.echo(f"{expectation.name}: {expectation.about}")
            click.echo(f"    {expectation.command}")
        return
    terminal = Terminal(quiet=quiet)
    outcomes = []
    with terminal.bar("checking", len(chosen), "tables") as advance:
        for expectation in chosen:
            terminal.say(f"{expectation.name}: {expectation.command}")
            outcomes.append(run(expectation, data, cache))
            advance(1)
    present(_report(outcomes), reports, as_json=as_json, quiet=quiet)
    if not all(outcome.holds or outcome.skipped for outcome in outcomes):
        raise click.exceptions.Exit(1)


def _chosen(
    known: tuple[Expectation, ...], names: tuple[str, ...], max_minutes: float | None
) -> tuple[Expectation, ...]:
    by_name = {expectation.name: expectation for expectation in known}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise click.UsageError(f"there is no table {unknown[0]!r}; {near_or_all(unknown[0], by_name)}")
    chosen = [by_name[name] for name in names] if names else list(known)
    if not known:
        raise click.UsageError("there is no .yaml in the folder of --expected")
    soon = tuple(e for e in chosen if max_minutes is None or e.minutes <= max_minutes)
    if not soon:
        raise click.UsageError(
            f"none of {len(chosen)} tables takes at most {max_minutes} minutes; raise the limit"
        )
    return soon


def _report(outcomes: list[Outcome]) -> Report:
    from surprise_rerank.eval.reports.report import Column, Report, Table

    columns = (
        Column("table"),
        Column("verdict"),
        Column("scores"),
        Column("off"),
        Column("seconds", digits=1),
        Column("reason"),
    )
    rows = tuple(
        (o.expectation.name, _verdict(o), len(o.expectation.cells), len(o.off), o.seconds, o.reason)
        for o in outcomes
    )
    tables = [Table("check", "Tables of the documentation", columns, rows)]
    off = tuple(
        (o.expectation.name, cell.table, cell.row, cell.column, cell.value, cell.tolerance, value)
        for o in outcomes
        for cell, value in o.off
    )
    if off:
        heads = ("file", "table", "row", "column", "expected", "tolerance", "found")
        tables.append(Table("off", "Scores that are off", tuple(map(Column, heads)), off, keys=4))
    return Report("Tables of the documentation", tuple(tables))


def _verdict(outcome: Outcome) -> str:
    if outcome.skipped:
        return "skipped"
    if outcome.reason:
        return "failed"
    return "off" if outcome.off else "holds"
