"""The command of a study: options of its settings, progress, and the report that it ends with."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli.exits import when_interrupted
from surprise_rerank.eval.cli.options import (
    json_option,
    options_of,
    present,
    quiet_option,
    report_option,
    settings_from,
)

if TYPE_CHECKING:
    from surprise_rerank.eval.reports.report import Report


def study_command(
    name: str, *kinds: type, epilog: str, details: str = "", interrupted: str = ""
) -> Callable[[Callable[..., Report]], click.Command]:
    """A decorator that makes a command of a study.

    The function takes an object of each settings class, and a terminal for progress. It returns the report,
    which the command shows and writes. Its docstring is the help text. It imports what is heavy itself,
    because `--help` and shell completion import its module.

    Args:
        name: of the command.
        kinds: settings classes, whose fields become options.
        epilog: examples, and what the help text explains beyond the options.
        details: help text of `--details`, for a report that has tables of details.
        interrupted: a sentence on what remains after an interruption.
    """

    def decorate(study: Callable[..., Report]) -> click.Command:
        def command(
            *,
            reports: tuple[Path, ...],
            as_json: bool,
            quiet: bool,
            details: bool = True,
            **values: Any,
        ) -> None:
            from surprise_rerank.connectors.progress import Terminal
            from surprise_rerank.eval.reports.writing import check_files

            check_files(reports)
            with when_interrupted(interrupted) if interrupted else contextlib.nullcontext():
                report = study(*(settings_from(kind, values) for kind in kinds), Terminal(quiet=quiet))
            present(report, reports, details=details, as_json=as_json, quiet=quiet)

        options = [options_of(*kinds), report_option, json_option]
        options += [click.option("--details", is_flag=True, help=details)] if details else []
        for option in reversed([*options, quiet_option]):
            command = option(command)
        return click.command(name, epilog=epilog, help=inspect.getdoc(study))(command)

    return decorate
