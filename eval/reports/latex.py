"""A report's tables for a paper, as LaTeX with the package booktabs; the best values are bold."""

from __future__ import annotations

from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Report, Table

_ESCAPED = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def to_latex(report: Report) -> str:
    """The tables that a terminal shows, with their titles as captions; plots and notes are left out."""
    return "\n".join(_table(table) for table in report.tables if not table.detail)


def _table(table: Table) -> str:
    best = table.best()
    sides = "".join("r" if table.is_numeric(j) else "l" for j in range(len(table.columns)))
    rows = [
        [rf"\textbf{{{_escaped(cell)}}}" if (i, j) in best else _escaped(cell) for j, cell in enumerate(row)]
        for i, row in enumerate(table.shown())
    ]
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escaped(table.title)}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        _row([_escaped(column.name) for column in table.columns]),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _row(cells: list[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _escaped(text: str) -> str:
    return one_line(text).translate(_ESCAPED)
