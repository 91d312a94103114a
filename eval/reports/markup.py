"""Reports as Markdown, for other documents."""

from __future__ import annotations

import re

from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Report, Table

# An underscore inside a word, as in toy_emb.txt, begins nothing in Markdown.
_MARKDOWN = re.compile(r"[\\`*\[\]<>&|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# What begins a list or a rule where it begins a line.
_AT_START = re.compile(r"^(\d*)([-+.)])(?=[-\s]|$)")


def to_markdown(report: Report) -> str:
    """A report's tables and notes for GitHub, with numbers to the right and the best values bold."""
    lines = [f"# {_markdown(report.title)}", ""]
    lines += _items((report.verdict, *report.notes))
    for table in report.tables:
        best = table.best()
        rows = [
            # A number needs no escape, not even where it begins with a minus.
            [
                f"**{text}**" if (i, j) in best else text if table.is_numeric(j) else _markdown(text)
                for j, text in enumerate(row)
            ]
            for i, row in enumerate(table.shown())
        ]
        lines += [f"## {_markdown(table.title)}", ""]
        lines += [f"| {' | '.join(_markdown(column.name) for column in table.columns)} |"]
        lines += [f"| {' | '.join('---:' if right else '---' for right in _right(table))} |"]
        lines += [*(f"| {' | '.join(row)} |" for row in rows), ""]
        lines += _items((table.verdict, *table.notes))
    return "\n".join(lines).rstrip("\n") + "\n"


def _right(table: Table) -> list[bool]:
    return [table.is_numeric(j) for j in range(len(table.columns))]


def _items(notes: tuple[str, ...]) -> list[str]:
    lines = [f"- {_markdown(note)}" for note in notes if note]
    return [*lines, ""] if lines else []


def _markdown(text: str) -> str:
    """A text in one line, in which nothing is Markdown."""
    text = _MARKDOWN.sub(r"\\\g<0>", one_line(text))
    return _AT_START.sub(r"\1\\\2", text)
