"""Reports as LaTeX tables, to be read into a paper."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.report import Report, Table

# A floating table of more rows than that runs out of its page.
_PAGE = 40

_HEAD = r"""% \usepackage{booktabs}, and \usepackage{longtable} for tables of several pages
"""

_COMMANDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedblright{}",
    # A row that begins with one of these would be read as the option of the line break before it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
# Two of these would make another sign.
_PAIRS = re.compile(r"([-,'])(?=\1)")
# Those that do not look like Latin ones.
_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
    *("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega"),
)
_MATHS = {
    **dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", _GREEK, strict=True)),
    "\N{MINUS SIGN}": "-",
    "≤": "le",
    "≥": "ge",
    "≠": "ne",
    "≈": "approx",
    "∞": "infty",
    "√": "surd",
    "∈": "in",
}
# Signs beyond ASCII that LaTeX itself knows in its oldest encoding of fonts.
_KNOWN = frozenset("ßæœøłıÆŒØŁ§©®°±·×÷–—‘’“”…€™¡¿†•¬¹²³µ£←→")  # noqa: RUF001
_OGONEK = "\u0328"


def to_latex(report: Report) -> str:
    r"""A report's tables, to be read into a document with `\input`.

    They need booktabs, are called `tab:NAME`, have the title as caption and the best values bold. Characters
    that LaTeX has no sign for are given by their number, as [U+4E2D].

    Args:
        report: what to write; its plots, passages and facts are left out.
    """
    parts = [_HEAD]
    for table, anchor in zip(report.tables, report.anchors(), strict=True):
        lines = _long(table, anchor) if len(table.rows) > _PAGE else _floating(table, anchor)
        parts.append("\n".join(lines) + "\n")
    if report.notes:
        parts.append("\n".join(_notes(report.notes)) + "\n")
    return "\n".join(parts)


def escaped(text: str) -> str:
    r"""A text in one line, in which nothing is LaTeX.

    >>> escaped("50 % of toy_emb")
    '50 \\% of toy\\_emb'
    """
    signs = "".join(map(_sign, unicodedata.normalize("NFC", one_line(text))))
    return _PAIRS.sub(r"\1{}", signs)


def _sign(character: str) -> str:
    if character in _COMMANDS:
        return _COMMANDS[character]
    if character in _MATHS:
        name = _MATHS[character]
        return f"$\\{name}$" if name.isalpha() else f"${name}$"
    if character.isascii() or character in _KNOWN or _is_accented(character):
        return character
    return f"{{[}}U+{ord(character):04X}{{]}}"


def _is_accented(character: str) -> bool:
    """Whether it is a letter with an accent that is set from the two."""
    parts = unicodedata.normalize("NFD", character)
    return character < "\u0180" and len(parts) == 2 and parts[0].isascii() and parts[1] != _OGONEK


def _floating(table: Table, anchor: str) -> Iterator[str]:
    yield r"\begin{table}"
    yield r"\centering"
    yield rf"\caption{{{escaped(table.title)}}}"
    yield rf"\label{{tab:{anchor}}}"
    yield rf"\begin{{tabular}}{{{_alignment(table)}}}"
    yield r"\toprule"
    yield _header(table)
    yield r"\midrule"
    yield from _rows(table)
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield from _said(table)
    yield r"\end{table}"


def _long(table: Table, anchor: str) -> Iterator[str]:
    yield rf"\begin{{longtable}}{{{_alignment(table)}}}"
    yield rf"\caption{{{escaped(table.title)}}}\label{{tab:{anchor}}}\\"
    yield from (r"\toprule", _header(table), r"\midrule", r"\endfirsthead")
    yield from (r"\toprule", _header(table), r"\midrule", r"\endhead")
    yield from (r"\bottomrule", r"\endfoot")
    yield from _rows(table)
    yield r"\end{longtable}"
    yield from _said(table)


def _alignment(table: Table) -> str:
    return "".join("r" if table.is_numeric(j) else "l" for j in range(len(table.columns)))


def _header(table: Table) -> str:
    return _row(escaped(column.name) for column in table.columns)


def _rows(table: Table) -> Iterator[str]:
    best = table.best()
    for i, row in enumerate(table.shown()):
        yield _row(_cell(cell, (i, j) in best, table.is_numeric(j)) for j, cell in enumerate(row))


def _row(cells: Iterator[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _cell(text: str, best: bool, numeric: bool) -> str:
    cell = re.sub("^-", "$-$", text) if numeric else escaped(text)
    return rf"\textbf{{{cell}}}" if best else cell


def _said(table: Table) -> Iterator[str]:
    """What is below a table: its verdict and its notes."""
    return _notes((*([table.verdict] if table.verdict else ()), *table.notes))


def _notes(notes: tuple[str, ...]) -> Iterator[str]:
    for note in notes:
        yield rf"\par\noindent{{\footnotesize {escaped(note)}\par}}"
