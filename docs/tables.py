"""Fills the tables of the pages that nobody writes by hand: `python docs/tables.py`.

Each stands between two comments. Of `<!-- options surprise-rerank index -->` it has a command's options, of
`<!-- figures systems.csv system=auto|cosine system,scifact -->` rows and columns of a file in figures/,
of `<!-- public face -->` and `<!-- public modules -->` the names of docs/public.py.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import click
from public import face_rows, module_rows

from surprise_rerank.eval.cli.rerank_eval.main import command as rerank_eval
from surprise_rerank.eval.cli.surprise_rerank.main import command as surprise_rerank

DOCS = Path(__file__).parent
COMMANDS: dict[str, click.Group] = {"surprise-rerank": surprise_rerank, "rerank-eval": rerank_eval}
# Options of nearly every command, which a page describes once.
COMMON = {"--index", "--json", "--quiet", "--set", "--config", "--help", "--version"}
PAGES = [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"]
MARKED = re.compile(r"(<!-- (options|figures|public) (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def found(names: str) -> click.Command:
    """A command by its words."""
    program, *below = names.split()
    command: click.Command = COMMANDS[program]
    for name in below:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


def table(rows: list[list[str]]) -> str:
    """A table of Markdown, the first row its head."""
    lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], ""])


def options(names: str) -> str:
    """The options of a command, and what `--help` says of them."""
    command = found(names)
    context = click.Context(command, info_name=names)
    rows = [["option", ""]]
    for own in command.get_params(context):
        if isinstance(own, click.Option) and not COMMON & set(own.opts):
            record = own.get_help_record(context)
            assert record is not None
            name, text = (part.replace("|", ", ") for part in record)
            rows.append([f"`{name}`", " ".join(text.split())])
    return table(rows)


def figures(given: str) -> str:
    """Rows of a file whose columns have one of the values, and of these some columns; `_` is any space."""
    file, *parts = given.split(" ")
    with (DOCS / "figures" / file).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    shown = list(rows[0])
    for part in parts:
        column, equals, values = part.partition("=")
        if equals:
            rows = [row for row in rows if row[column].replace(" ", "_") in values.split("|")]
        else:
            shown = [name for name in shown if name.replace(" ", "_") in column.split(",")]
    return table([shown, *([row[name] for name in shown] for row in rows)])


def public(part: str) -> str:
    """The names of `surprise_rerank` itself (`face`), or those of its `modules`."""
    return table(face_rows() if part == "face" else module_rows())


def filled(page: str) -> str:
    """A page with its tables as they are now."""
    make = {"options": options, "figures": figures, "public": public}
    return MARKED.sub(lambda part: f"{part[1]}\n{make[part[2]](part[3])}\n{part[4]}", page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text("utf-8")), "utf-8")
