"""Options that are made of the fields of settings classes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner

from surprise_rerank.core.settings import option, some_names, split_names
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.options import option_fields, options_of, settings_from


def refused(text: str) -> str:
    raise DataError(f"--refused {text}: complete in itself")


@dataclass(frozen=True, kw_only=True)
class Shared:
    folder: Path | None = option(None, help="A folder.", path="folder")


@dataclass(frozen=True, kw_only=True)
class Example(Shared):
    file: Path = option(metavar="FILE", argument=True)
    depth: int = option(10, help="How deep.", low=1, high=100)
    share: float = option(0.5, help="A share.", low=0, above=True)
    models: tuple[str, ...] = option(("small",), help="Several times.", flag="--model")
    names: tuple[str, ...] | None = option(None, help="Names.", parse=split_names)
    some: tuple[str, ...] = option(("a", "b"), help="Names.", parse=some_names)
    way: Literal["near", "far"] = option("near", help="A way.")
    quick: bool = option(False, help="Hurry.")
    whole: bool = option(True, help="All of it.", flag="--whole/--part")
    on_error: str = option("raise", help="Go on.", flag="--skip", sets="skip")
    other: str | None = option(None, help="Never right.", parse=refused)
    hidden: int = 3


def run(*arguments: str, **environment: str) -> tuple[Any, str]:
    found: list[Example] = []

    @click.command()
    @options_of(Shared, Example)
    def command(**values: Any) -> None:
        found.append(settings_from(Example, values))

    result = CliRunner().invoke(command, arguments, env=environment)
    return (found[0] if found else result.exception), result.output


def test_defaults_are_those_of_the_settings() -> None:
    assert run("x.txt")[0] == Example(file=Path("x.txt"))


def test_every_kind_of_field_is_read() -> None:
    given = "--depth 3 --share .25 --model a --model b --names a,b,a --some c --way far --quick --part --skip"
    expected = Example(
        folder=Path("here"),
        file=Path("x"),
        depth=3,
        share=0.25,
        models=("a", "b"),
        names=("a", "b"),
        some=("c",),
        way="far",
        quick=True,
        whole=False,
        on_error="skip",
    )
    assert run("x", "--folder", "here", *given.split())[0] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'FILE'"),
        (["x", "--depth", "0"], "0 is not in the range 1<=x<=100"),
        (["x", "--share", "0"], "0.0 is not in the range x>0"),
        (["x", "--way", "there"], "is not one of 'near', 'far'"),
        (["x", "--some", ","], "Invalid value for '--some': give at least one name"),
    ],
)
def test_what_is_wrong_is_said_with_the_option(arguments: list[str], message: str) -> None:
    assert message in run(*arguments)[1]


def test_an_error_that_is_complete_is_passed_on() -> None:
    error, _ = run("x", "--other", "y")
    assert isinstance(error, DataError)


def test_the_help_text_shows_spellings_and_defaults() -> None:
    output = run("--help")[1]
    assert output.count("--folder") == 1  # two classes share it
    assert "[default: a,b]" in output
    assert "[default: 10; 1<=x<=100]" in output
    assert "hidden" not in output
    assert "hidden" not in [own.name for own in option_fields(Example)]


def test_the_settings_of_the_commands_load_nothing_heavy() -> None:
    source = (
        "import sys; import surprise_rerank.eval.cli.rerank_eval.main\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'sklearn'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
