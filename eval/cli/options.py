"""Options that commands share, options made of settings classes, and the end of a command: its report."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import click

from surprise_rerank.core.settings import OptionInfo
from surprise_rerank.errors import SurpriseRerankError

if TYPE_CHECKING:
    from surprise_rerank.eval.reports.report import Report

Settings = TypeVar("Settings")
Function = TypeVar("Function", bound=Callable[..., Any])

report_option = click.option(
    "--report",
    "reports",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to a file, too: .html, a page with pictures that needs no other file; .json, .md "
    "or .tex. Its folder must be there. Several times.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document of everything that was measured."
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="The tables only, no progress.")


def options_of(*kinds: type) -> Callable[[Function], Function]:
    """A decorator that adds the options of settings classes to a command.

    Every field that `core.settings.option` made is one, with the field's default; in the order of the fields.
    A name that two classes share is one option.

    Args:
        kinds: dataclasses.
    """
    fields = {own.name: (kind, own) for kind in kinds for own in option_fields(kind)}

    def decorate(function: Function) -> Function:
        for kind, own in reversed(fields.values()):
            function = _parameter(own, get_type_hints(kind)[own.name])(function)
        return function

    return decorate


def takes(**kinds: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds the options of settings classes to a command, which gets an object of each.

    Args:
        kinds: parameter of the command -> its class, all of whose fields are options.
    """
    names = {own.name for kind in kinds.values() for own in option_fields(kind)}

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*arguments: Any, **values: Any) -> Any:
            settings: dict[str, Any] = {name: settings_from(kind, values) for name, kind in kinds.items()}
            others = {name: value for name, value in values.items() if name not in names}
            return function(*arguments, **settings, **others)

        return options_of(*kinds.values())(command)

    return decorate


def option_fields(kind: type) -> list[dataclasses.Field[Any]]:
    """The fields of a settings class that are options: its own, then those of its base classes."""
    depth = {
        name: level
        for level, base in reversed([*enumerate(kind.__mro__)])
        for name in inspect.get_annotations(base)
    }
    fields = [own for own in dataclasses.fields(kind) if "option" in own.metadata]
    return sorted(fields, key=lambda own: depth[own.name])


def settings_from(kind: type[Settings], values: Mapping[str, Any], **more: Any) -> Settings:
    """Settings of the values of a command's options.

    Args:
        kind: the settings class.
        values: name -> value, those of other classes among them.
        more: fields that are no options.
    """
    return kind(**{own.name: values[own.name] for own in option_fields(kind)}, **more)


def _parameter(own: dataclasses.Field[Any], hint: Any) -> Callable[[Function], Function]:
    """The decorator of click for one field."""
    info: OptionInfo = own.metadata["option"]
    required = own.default is dataclasses.MISSING
    kind, several = _kind(info, hint)
    if info.argument:
        count = -1 if several else 1
        return click.argument(own.name, metavar=info.metavar, nargs=count, required=required, type=kind)
    how: dict[str, Any] = {"help": info.help, "metavar": info.metavar, "envvar": info.envvar}
    if info.sets is not None and info.metavar is not None:
        how |= {"is_flag": False, "flag_value": info.sets, "default": own.default}
    elif bool in (hint, *get_args(hint)) or info.sets is not None:
        how = {"help": info.help, "default": own.default}
        how |= {"is_flag": True} if info.sets is None else {"flag_value": info.sets}
        how["show_default"] = info.show_default and "/" in info.flag
    else:
        how |= {"type": kind, "multiple": several or bool(info.joined), "show_default": info.show_default}
        how |= {"required": True} if required else {"default": _default(info, own.default)}
    if info.parse is not None:
        how["callback"] = _parsed(info.parse)
    if info.joined:
        how["callback"] = lambda _, __, given: info.joined.join(given) or None
    return click.option(*(info.flag.split() or [f"--{own.name.replace('_', '-')}"]), own.name, **how)


def _kind(info: OptionInfo, hint: Any) -> tuple[Any, bool]:
    """The type of an option's value, and whether the option may be given several times."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not types.NoneType)
    several = get_origin(hint) is tuple and info.parse is None
    if several:
        hint = get_args(hint)[0]
    if info.kind is not None:
        return info.kind, several
    if info.parse is not None:
        return str, False
    if info.choices or get_origin(hint) is Literal:
        return click.Choice(info.choices or get_args(hint)), several
    if hint is Path or info.path is not None:
        path: Any = click.Path(dir_okay=info.path != "file", file_okay=info.path != "folder", path_type=hint)
        return path, several
    if hint in (int, float) and (info.low is not None or info.high is not None):
        ranged = click.IntRange if hint is int else click.FloatRange
        return ranged(info.low, info.high, min_open=info.above), several  # type: ignore[arg-type]
    return hint, several


def _default(info: OptionInfo, default: Any) -> Any:
    if info.parse is None or default is None:
        return default
    return info.text or (",".join(map(str, default)) if isinstance(default, tuple) else str(default))


def _parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    def value_of(_: click.Context, __: click.Parameter, given: str | None) -> Any:
        try:
            return None if given is None else parse(given)
        except SurpriseRerankError:
            raise
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return value_of


def present(
    report: Report,
    files: tuple[Path, ...],
    *,
    details: bool = True,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Print a report's tables and notes, and write it to files.

    Args:
        report: to be shown.
        files: see `report_option`.
        details: whether to print the tables that are details, too.
        as_json: whether to print all of it as one line of JSON instead.
        quiet: whether the error stream gets no notes.

    Raises:
        SurpriseRerankError: if a file cannot be written, or its suffix is not known.
    """
    from surprise_rerank.eval.cli.output.console import Output
    from surprise_rerank.eval.reports.records import report_values
    from surprise_rerank.eval.reports.terminal import print_report
    from surprise_rerank.eval.reports.writing import write_report

    if as_json:
        Output(as_json=True).json(report_values(report))
    else:
        print_report(report, details=details, quiet=quiet)
    for file in files:
        write_report(report, file)
