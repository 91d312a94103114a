"""Reports as Markdown, as GitHub reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Passage, Report, Table

# An underscore inside a word, as in toy_emb.txt, begins nothing.
_SPECIAL = re.compile(r"[\\`*\[\]<>&|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# What begins a list or a rule where it begins a line.
_AT_START = re.compile(r"(\d*)([-+.)])(?=[-\s]|$)")


def to_markdown(report: Report) -> str:
    """A report's tables, passages and notes, with numbers to the right and the best values bold.

    Args:
        report: what to write; its plots and facts are left out.
    """
    lines = [f"# {escaped(report.title)}", ""]
    lines += [escaped(report.verdict), ""] if report.verdict else []
    lines += _notes(report.notes)
    for table in report.tables:
        lines += [f"## {escaped(table.title)}", ""]
        lines += [escaped(table.verdict), ""] if table.verdict else []
        lines += [*_rows(table), "", *_notes(table.notes)]
    for listing in report.listings:
        lines += [f"## {escaped(listing.title)}", "", *_notes((listing.finding,) if listing.finding else ())]
        lines += [*map(_passage, listing.passages), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    r"""A text in one line, in which nothing is Markdown.

    >>> escaped("a|b *c* toy_emb.txt <i>")
    'a\\|b \\*c\\* toy_emb.txt \\<i\\>'
    """
    text = _SPECIAL.sub(r"\\\g<0>", one_line(text))
    start = _AT_START.match(text)
    return f"{start[1]}\\{text[start.start(2) :]}" if start else text


def _rows(table: Table) -> Iterator[str]:
    yield _row(escaped(column.name) for column in table.columns)
    yield _row("---:" if table.is_numeric(j) else "---" for j in range(len(table.columns)))
    best = table.best()
    for i, row in enumerate(table.shown()):
        yield _row(_cell(cell, (i, j) in best, table.is_numeric(j)) for j, cell in enumerate(row))


def _passage(passage: Passage) -> str:
    """An item of a list, with its marks bold."""
    parts = [f"**{escaped(passage.heading)}**", escaped(passage.about)]
    text = "".join(f" **{escaped(part)}** " if marked else escaped(part) for part, marked in passage.parts())
    return f"{'  ' * passage.below}- {': '.join(filter(None, parts))}  {' '.join(text.split())}".rstrip()


def _row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str, best: bool, numeric: bool) -> str:
    # A number needs no escape, not even where it begins with a minus.
    cell = text if numeric else escaped(text)
    return f"**{cell}**" if best else cell


def _notes(notes: tuple[str, ...]) -> list[str]:
    return [*(f"- {escaped(note)}" for note in notes), ""] if notes else []
