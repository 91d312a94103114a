"""Tables as Markdown and as LaTeX, for other documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Report, Table

# An underscore inside a word, as in toy_emb.txt, begins nothing in Markdown.
_MARKDOWN = re.compile(r"[\\`*\[\]<>&|~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# What begins a list or a rule where it begins a line.
_AT_START = re.compile(r"^(\d*)([-+.)])(?=[-\s]|$)")
_LATEX = {
    **{sign: f"\\{sign}" for sign in "{}&%$#_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # At the beginning of a row it would be the option of the line break before it.
    "[": "{[}",
}


def to_markdown(report: Report) -> str:
    """A report's tables and notes for GitHub, with numbers to the right and the best values bold."""
    lines = [f"# {_markdown(report.title)}", ""]
    lines += _items((report.verdict, *report.notes))
    for table in report.tables:
        rows = _cells(table, _markdown, "**{}**")
        lines += [f"## {_markdown(table.title)}", ""]
        lines += [f"| {' | '.join(_markdown(column.name) for column in table.columns)} |"]
        lines += [f"| {' | '.join('---:' if right else '---' for right in _right(table))} |"]
        lines += [*(f"| {' | '.join(row)} |" for row in rows), ""]
        lines += _items((table.verdict, *table.notes))
    return "\n".join(lines).rstrip("\n") + "\n"


def to_latex(report: Report) -> str:
    """A report's tables, to be read into a paper that uses booktabs, with the best values bold."""
    lines = [r"% \usepackage{booktabs}"]
    for table in report.tables:
        lines += ["", r"\begin{table}", r"\centering", rf"\caption{{{_latex(table.title)}}}"]
        lines += [rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in _right(table))}}}"]
        lines += [r"\toprule", rf"{' & '.join(_latex(column.name) for column in table.columns)} \\"]
        lines += [r"\midrule", *(rf"{' & '.join(row)} \\" for row in _cells(table, _latex, r"\textbf{{{}}}"))]
        lines += [r"\bottomrule", r"\end{tabular}"]
        said = (table.verdict, *table.notes)
        lines += [rf"\par\noindent{{\footnotesize {_latex(text)}\par}}" for text in said if text]
        lines += [r"\end{table}"]
    return "\n".join(lines) + "\n"


def _cells(table: Table, escaped: Callable[[str], str], bold: str) -> Iterator[list[str]]:
    best = table.best()
    for i, row in enumerate(table.shown()):
        # A number needs no escape, not even where it begins with a minus.
        texts = [text if table.is_numeric(j) else escaped(text) for j, text in enumerate(row)]
        yield [bold.format(text) if (i, j) in best else text for j, text in enumerate(texts)]


def _right(table: Table) -> list[bool]:
    return [table.is_numeric(j) for j in range(len(table.columns))]


def _items(notes: tuple[str, ...]) -> list[str]:
    lines = [f"- {_markdown(note)}" for note in notes if note]
    return [*lines, ""] if lines else []


def _markdown(text: str) -> str:
    """A text in one line, in which nothing is Markdown."""
    text = _MARKDOWN.sub(r"\\\g<0>", one_line(text))
    return _AT_START.sub(r"\1\\\2", text)


def _latex(text: str) -> str:
    """A text in one line, in which nothing is LaTeX."""
    return "".join(_LATEX.get(sign, sign) for sign in one_line(text))
