"""Fills the tables of the pages that nobody writes by hand: `python docs/tables.py`.

Each stands between two comments. Of `<!-- figures systems.csv system=auto|cosine system,scifact -->` it has
rows and columns of a file in figures/, of `<!-- public face -->` and `<!-- public modules -->` the names of
docs/public.py.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))  # the names of this checkout, not of what is installed

from public import face_rows, module_rows  # noqa: E402

PAGES = [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"]
MARKED = re.compile(r"(<!-- (figures|public) (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(rows: list[list[str]]) -> str:
    """A table of Markdown, the first row its head."""
    lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], ""])


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
    make = {"figures": figures, "public": public}
    return MARKED.sub(lambda part: f"{part[1]}\n{make[part[2]](part[3])}\n{part[4]}", page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text("utf-8")), "utf-8")
