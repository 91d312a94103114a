"""Reports: what is shown in every format, hostile texts, the JSON that is read again, and files."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from surprise_rerank.core import extras
from surprise_rerank.errors import DataError, MissingExtraError, StoreError
from surprise_rerank.eval.reports import latex, markdown
from surprise_rerank.eval.reports.html import to_html
from surprise_rerank.eval.reports.latex import to_latex
from surprise_rerank.eval.reports.markdown import to_markdown
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.plots import to_svg
from surprise_rerank.eval.reports.plots.style import STYLE
from surprise_rerank.eval.reports.plots.svg import figure_of
from surprise_rerank.eval.reports.records import read_report, to_json
from surprise_rerank.eval.reports.report import (
    Column,
    Listing,
    Mark,
    Passage,
    Plot,
    Report,
    Series,
    Table,
)
from surprise_rerank.eval.reports.terminal import print_report, rich_table
from surprise_rerank.eval.reports.writing import check_files, write_report

pytest.importorskip("jinja2", reason="the extra 'report' is not installed")
pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")

SCORES = Table(
    "scores",
    "Scores of models",
    (Column("model"), Column("MRR", best="max"), Column("MR", 1, "min"), Column("pairs")),
    (("glove", 0.51, 20.04, 5514), ("toy_emb.txt", -0.25, 7.5, 5514), ("none", math.nan, None, 0)),
    notes=("MR is the mean rank.",),
    verdict="glove +.760 MRR over toy_emb.txt",
)
EVIL = "<script>alert('x')</script>\x1b[31m\u202e |_*`\"$&%#~^{}\\[<img src=//example.com/x>\ud800"
HOSTILE = Table(
    EVIL, EVIL, (Column(EVIL), Column("v", best="max")), ((EVIL, 0.5), ("b", 0.25)), 1, (EVIL,), False, EVIL
)
LINE = Plot("line", "Hits", "k", "Hits@k", (Series("a", (1, 2), (0.1, 0.2)), Series("b", (1, 2), (0.3, 0.1))))
SCATTER = Plot(
    "scatter",
    "Models",
    "MRR",
    "accuracy",
    tuple(Series(f"model {i}", (0.5 + i / 1000,), (70 + i / 100,)) for i in range(8)),
)
GAINS = Series("gain", ("MR", "CR", "none"), (-1.0, 2.0, math.nan))
BARS = Plot("bars", "Gains", "task", "gain", (GAINS,), "CR gains.")
HISTOGRAM = Plot("histogram", "Scores", "score", "pairs", (Series("all", (0.0, 0.5, 1.0), (3, 4)),))
MARKED = replace(
    HISTOGRAM,
    curves=(Series("Gaussian", (-0.5, 0.5, 1.5), (0.1, 3.5, 0.1)),),
    marks=tuple(Mark(f"{i}", 0.5 + i / 40) for i in range(1, 31)),
)
FOREST = Plot(
    "forest",
    "Quality",
    "system",
    "difference to cosine in nDCG@10",
    (
        Series(
            "difference",
            ("bm25", "fusion", "surprise"),
            (0.03, 0.09, -0.07),
            (-0.01, 0.06, -0.1),
            (0.07, 0.12, -0.04),
            (".678 (+.033)", ".736 (+.091)", ".573 (-.072)"),
        ),
    ),
    marks=(Mark("cosine .645", 0.0),),
)
CHANGED = tuple([0.9 - i / 40 for i in range(30)] + [0.0] * 12 + [-i / 50 for i in range(1, 20)])
QUESTION_GAINS = Plot(
    "gains",
    "Gains and losses",
    "questions",
    "difference",
    (Series("fusion", tuple(f"why do dogs bark at the moon, {i}?" for i in range(61)), CHANGED),),
)
RANKS = Plot(
    "ranks",
    "Before and after",
    "by cosine",
    "by fusion",
    tuple(
        Series(f"Document {i}", ("before", "after"), (before, i))
        for i, before in enumerate((3, 1, 57, math.nan), start=1)
    ),
)
PLOTS = (LINE, SCATTER, BARS, HISTOGRAM, MARKED, FOREST, QUESTION_GAINS, RANKS)
REPORT = Report("Everything", (SCORES, HOSTILE), PLOTS, ("Seed 0.", EVIL), {"seed": 0, EVIL: [EVIL]})


def hostile_plot(plot: Plot) -> Plot:
    series = tuple(replace(s, name=f"{EVIL} {i}") for i, s in enumerate(plot.series))
    curves = tuple(replace(s, name=f"{EVIL} {i}") for i, s in enumerate(plot.curves))
    marks = tuple(replace(mark, name=EVIL) for mark in plot.marks)
    return replace(
        plot, title=EVIL, x_label=EVIL, y_label=EVIL, note=EVIL, series=series, curves=curves, marks=marks
    )


# The terminal


def printed(report: Report, width: int = 120) -> str:
    console = Console(file=StringIO(), width=width)
    print_report(report, console)
    return console.file.getvalue()


def test_the_terminal_shows_titles_tables_and_notes():
    text = printed(Report("Everything", (SCORES,), notes=("Seed 0.",)))
    for part in (
        "Everything",
        "Scores of models",
        "model",
        "0.5100",
        "-0.2500",
        "20.0",
        "MR is",
        "Seed 0.",
        SCORES.verdict,
    ):
        assert part in text


def test_a_title_that_the_only_table_has_too_is_said_once():
    assert printed(Report(SCORES.title, (SCORES,))).count(SCORES.title) == 1


def test_details_are_left_out_when_they_are_not_asked_for():
    report = Report("Everything", (SCORES, replace(SCORES, title="Every pair", detail=True)))
    console = Console(file=StringIO(), width=120)
    print_report(report, console, details=False)
    assert "Every pair" not in console.file.getvalue()
    assert "Every pair" in printed(report)


def test_numbers_stand_right_and_the_best_are_bold():
    grid = rich_table(SCORES)
    assert [column.justify for column in grid.columns] == ["left", "right", "right", "right"]
    cells = [[(cell.plain, cell.style) for cell in column.cells] for column in grid.columns[:3]]
    assert cells[1] == [("0.5100", "bold"), ("-0.2500", ""), ("", "")]
    assert cells[2] == [("20.0", ""), ("7.5", "bold"), ("", "")]


def test_no_text_steers_the_terminal_or_is_read_as_markup():
    table = replace(HOSTILE, rows=(("[bold]x[/bold] :smile: \x1b[31m\u202e", 0.5), ("b", 0.25)))
    text = printed(Report(EVIL, (table,)))
    assert "[bold]x[/bold] :smile: \\x1b[31m\\u202e" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_pipe_folds_nothing(capsys: pytest.CaptureFixture[str]):
    names = tuple(Column(f"a rather long heading {i}") for i in range(20))
    wide = Table("wide", "w" * 300, names, (tuple(f"some words {i}" for i in range(20)),))
    print_report(Report("wide", (wide,), notes=("n" * 300,)))
    out, err = capsys.readouterr()
    assert [line.count("\t") for line in out.splitlines()] == [19, 19]
    assert err.splitlines() == ["wide", "w" * 300, "n" * 300]


def test_a_pipe_gets_rows_for_other_programs(capsys: pytest.CaptureFixture[str]):
    print_report(Report("Everything", (SCORES, HOSTILE), notes=("Seed 0.",)))
    out, err = capsys.readouterr()
    first, second = out.split("\n\n")
    assert first.splitlines() == [
        "# Scores of models",
        "model\tMRR\tMR\tpairs",
        "glove\t0.5100\t20.0\t5514",
        "toy_emb.txt\t-0.2500\t7.5\t5514",
        "none\t\t\t0",
    ]
    assert [line.split("\t")[1:] for line in second.splitlines()] == [[], ["v"], ["0.5000"], ["0.2500"]]
    assert not set(out + err) & {"\x1b", "\u202e"}
    for said in ("Everything", SCORES.verdict, "MR is the mean rank.", "Seed 0."):
        assert said in err.splitlines()
    print_report(Report("Everything", (SCORES,)), quiet=True)
    out, err = capsys.readouterr()
    assert out == first.partition("\n")[2] + "\n"
    assert err == ""


WIDTHS = (60, 80, 120, 200)
SYSTEMS = Table(
    "systems",
    "Systems",
    (
        Column("system"),
        Column("nDCG@10", best="max"),
        Column("R@100", best="max", leaves=4),
        Column("RR", best="max", leaves=3),
        Column("p (nDCG@10 vs cosine)", leaves=2),
        Column("p (Holm)", leaves=6),
        Column("ms/question", 1, leaves=5),
        Column("seconds", 1, leaves=1),
    ),
    (
        ("cosine", 0.6451, 0.925, 0.6, None, None, 10.25, 3071.5),
        ("surprise-crossover", 0.5791, 0.91, 0.55, 0.0002, 0.0004, 12.5, 4000.5),
        ("auto", 0.7427, 0.95, 0.7, 0.0002, 0.0004, 33.125, 9937.5),
    ),
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "table", [SYSTEMS, SCORES, HOSTILE, replace(SYSTEMS, title="a title " * 40, verdict="a verdict " * 40)]
)
def test_a_table_keeps_to_the_width_and_splits_no_number(table: Table, width: int):
    lines = printed(Report("Everything", (table,), notes=("a note " * 40,)), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    shown = {cell for row in table.shown() for cell in row if re.fullmatch(r"-?\d+\.\d+", cell)}
    assert shown & words
    numbers = {word for word in words if re.fullmatch(r"-?[\d.]+", word)}
    assert numbers <= {cell for row in table.shown() for cell in row} | {"300"}


def test_columns_leave_in_their_order_and_are_named():
    wide, narrow = printed(Report("t", (SYSTEMS,)), 120), printed(Report("t", (SYSTEMS,)), 60)
    assert "no room" not in wide
    assert "9937.5" in wide
    (said,) = re.findall(r"no room for: (.*?) \(--report", " ".join(narrow.split()))
    assert said == "seconds, p (nDCG@10 vs cosine), RR"
    header = next(line for line in narrow.splitlines() if "system" in line)
    assert header.split() == ["system", "nDCG@10", "R@100", "p", "(Holm)", "ms/question"]


def test_a_table_without_room_is_turned():
    keys = tuple(replace(column, leaves=0) for column in SYSTEMS.columns)
    text = printed(Report("t", (replace(SYSTEMS, columns=keys),)), 50)
    assert "no room" not in text
    lines = [line.rstrip() for line in text.splitlines()]
    blocks = [i for i, line in enumerate(lines) if line.startswith("system ")]
    assert [lines[i].split()[1:] for i in blocks] == [["cosine", "surprise-crossover"], ["auto"]]
    below = lines[blocks[1] + 2 :][:7]
    assert [line.split()[-1] for line in below] == [
        *("0.7427", "0.9500", "0.7000", "0.0002", "0.0004", "33.1", "9937.5")
    ]


def test_the_best_row_is_bold():
    assert SYSTEMS.best_row() == 2
    assert [row.style for row in rich_table(SYSTEMS).rows] == [None, None, "bold"]
    more = replace(SYSTEMS, rows=(*SYSTEMS.rows, ("other", 0.7, 0.96, 0.8, None, None, 1.0, 1.0)))
    assert more.best_row() == 2
    assert replace(more, decides="RR").best_row() == 3
    tied = replace(SYSTEMS, rows=(*SYSTEMS.rows, SYSTEMS.rows[2]))
    assert tied.best_row() is None
    assert replace(SYSTEMS, rows=SYSTEMS.rows[:1]).best_row() is None


def test_wide_characters_take_the_room_that_they_have():
    row = ("狗" * 30, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
    lines = printed(Report("t", (replace(SYSTEMS, rows=(row,)),)), 60).splitlines()
    assert max(map(cell_len, lines)) <= 60
    assert "".join(lines).count("狗") == 30


def test_a_narrow_terminal_loses_no_digit():
    table = Table("t", "t", (Column("name"), Column("v", 8)), (("a-name-that-is-long" * 3, 0.12345678),))
    text = re.sub(r"\s", "", printed(Report("t", (table,)), width=30))
    assert "…" not in text
    assert re.sub("[^0-9]", "", text) == "012345678"


def drawn(plot: Plot, width: int = 120, encoding: str = "utf-8") -> list[str]:
    console = Console(file=TextIOWrapper(BytesIO(), encoding), width=width)
    print_report(Report("Everything", (), (LINE, plot)), console, plots=True)
    console.file.flush()
    return console.file.buffer.getvalue().decode(encoding).splitlines()


def normal_histogram(values: list[float], places: list[float]) -> Plot:
    counts, borders = np.histogram(values, 20)
    x = np.linspace(min(values) - 1, max(values) + 1, 50)
    curve = Series("Gaussian", tuple(x.tolist()), tuple((len(values) * np.exp(-(x**2))).tolist()))
    marks = tuple(Mark(str(rank), place) for rank, place in enumerate(places, start=1))
    sample = Series("sample", tuple(borders.tolist()), tuple(counts.tolist()))
    return Plot(
        "histogram", "Scores", "score", "how many", (sample,), "A note.", curves=(curve,), marks=marks
    )


def test_a_histogram_is_drawn_with_its_curve_its_marks_and_the_scale() -> None:
    values = np.random.default_rng(0).normal(0.3, 0.1, 256).tolist()
    marks = tuple(Mark(str(rank), x) for rank, x in ((1, 1.2), (2, 0.65), (10, 0.66), (11, 0.1)))
    title, *lines = drawn(replace(normal_histogram(values, []), marks=marks))[2:]
    assert title == "Scores"
    assert [line[66:].strip() for line in lines] == ["sample", "Gaussian", "", "", "", ""]
    assert "█" in lines[0] + lines[1]
    assert lines[2].split() == ["11", "2", "1"]
    assert lines[3].split() == ["10"]
    assert lines[4].split() == [f"{min(values) - 1:.4g}", f"{max(values) + 1:.4g}"]
    assert lines[5] == "A note."


@settings(deadline=None)
@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=50),
    st.lists(st.floats(-100, 100), max_size=30),
    st.integers(48, 90),
)
def test_a_histogram_keeps_its_width(values: list[float], places: list[float], width: int) -> None:
    for line in drawn(normal_histogram(values, places), width)[2:]:
        assert len(line) <= width


def test_every_value_of_a_histogram_is_seen() -> None:
    sample = Series("", (0.0, 1e-6, 1.0, 2.0), (1, 0, 1000))
    (line,) = [line for line in drawn(replace(HISTOGRAM, series=(sample,))) if "█" in line]
    assert re.fullmatch(r"▁ +█+", line.rstrip())


def test_a_console_without_blocks_gets_plain_characters() -> None:
    lines = drawn(MARKED, encoding="ascii")
    assert all(line.isascii() for line in lines)
    assert any("@" in line for line in lines)


def test_plots_are_drawn_only_when_they_are_asked_for() -> None:
    assert "Scores" not in printed(Report("Everything", (), (HISTOGRAM,)))


# Markdown


def read_markdown(text: str) -> BeautifulSoup:
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return BeautifulSoup(reader.render(text), "html.parser")


def test_markdown_has_tables_with_numbers_right_and_the_best_bold():
    text = to_markdown(Report("Everything", (SCORES,), notes=("Seed 0.",)))
    assert "| model | MRR | MR | pairs |\n| --- | ---: | ---: | ---: |\n" in text
    assert "| glove | **0.5100** | 20.0 | 5514 |" in text
    assert "| toy_emb.txt | -0.2500 | **7.5** | 5514 |" in text
    assert "- MR is the mean rank." in text
    assert "\n\nglove +.760 MRR over toy_emb.txt\n\n" in text
    assert "- Seed 0." in text


@given(st.text(max_size=30) | st.text("\\`*_[]<>&|~$#-+.1) ab", max_size=12))
def test_markdown_reads_as_the_text_that_was_given(text: str):
    page = read_markdown(f"- {markdown.escaped(text)}\n\n| {markdown.escaped(text)} | b |\n| --- | --- |\n")
    assert page.li.text.strip() == page.th.text == one_line(text)


def test_markdown_of_hostile_texts_has_no_tag_of_theirs():
    page = read_markdown(to_markdown(REPORT))
    assert {tag.name for tag in page.find_all()} <= set(
        "h1 h2 p ul li table thead tbody tr th td strong".split()  # noqa: SIM905
    )
    assert page.find_all("table")[1].tbody.td.text == one_line(EVIL)


# LaTeX


def test_latex_has_a_caption_a_label_and_the_best_bold():
    text = to_latex(Report("Everything", (SCORES,), notes=("50 % & more",)))
    for part in (
        r"\caption{Scores of models}",
        r"\label{tab:scores}",
        r"\begin{tabular}{lrrr}",
        r"glove & \textbf{0.5100} & 20.0 & 5514 \\",
        r"toy\_emb.txt & $-$0.2500 & \textbf{7.5} & 5514 \\",
        r"50 \% \& more",
        r"glove +.760 MRR over toy\_emb.txt\par",
    ):
        assert part in text


def test_latex_breaks_long_tables_over_pages():
    table = replace(SCORES, rows=tuple((f"m{i}", i / 100, float(i), i) for i in range(60)))
    text = to_latex(Report("Everything", (table,)))
    assert r"\begin{longtable}{lrrr}" in text
    assert r"\begin{table}" not in text
    assert text.count(r"\label") == 1


@given(st.text(max_size=30) | st.text("\\`*_[]<>&|~$#%^{}\"'-,", max_size=12))
def test_latex_has_no_sign_left_that_means_something(text: str):
    escaped = latex.escaped(text)
    ours = r"\\text[a-z]+\{\}|\\[&%$#_{}]|\{[\[\]*]\}|\$(\\[A-Za-z]+|-)\$|\{\}"
    assert not set(re.sub(ours, "", escaped)) & set('\\{}$&#^_~%<>|"[]*`')
    assert not re.search("--|''|,,", escaped)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Σ ≥ 3", r"$\Sigma$ $\ge$ 3"),
        ("Zürich § 3", "Zürich § 3"),
        ("Zu\u0308rich", "Zürich"),
        ("中", "{[}U+4E2D{]}"),
        ("a--b", "a-{}-b"),
    ],
)
def test_latex_of_signs_beyond_ascii(text: str, expected: str):
    assert latex.escaped(text) == expected


# JSON

TEXTS = st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
CELLS = TEXTS | st.integers(-(10**12), 10**12) | NUMBERS | st.none()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(st.builds(Column, TEXTS, st.integers(0, 9)), min_size=1, max_size=4))
    rows = st.lists(st.tuples(*(CELLS for _ in columns)), max_size=4)
    keys = draw(st.integers(1, len(columns)))
    notes, detail = (draw(TEXTS),), draw(st.booleans())
    own = (tuple(columns), tuple(draw(rows)), keys, notes, detail, draw(TEXTS), draw(TEXTS))
    return Table(draw(TEXTS), draw(TEXTS), *own)


@st.composite
def plots(draw: st.DrawFn) -> Plot:
    kind = draw(st.sampled_from(("line", "scatter", "bars", "histogram")))
    many = draw(st.lists(st.lists(NUMBERS, max_size=4), max_size=3))
    series = []
    for y in many:
        x = [str(i) if kind == "bars" else float(i) for i in range(len(y) + (kind == "histogram"))]
        series.append(Series(draw(TEXTS), tuple(x), tuple(y)))
    labels = (draw(TEXTS), draw(TEXTS), draw(TEXTS))
    plot = Plot(kind, *labels, tuple(series), draw(TEXTS), draw(st.booleans()))
    if kind != "histogram":
        return plot
    curves = tuple(Series(draw(TEXTS), (0.0, 1.0), (y, y)) for y in draw(st.lists(NUMBERS, max_size=2)))
    return replace(
        plot, curves=curves, marks=tuple(draw(st.lists(st.builds(Mark, TEXTS, NUMBERS), max_size=3)))
    )


REPORTS = st.builds(
    Report,
    title=TEXTS,
    tables=st.lists(tables(), max_size=2).map(tuple),
    plots=st.lists(plots(), max_size=2).map(tuple),
    notes=st.lists(TEXTS, max_size=2).map(tuple),
    facts=st.dictionaries(TEXTS, VALUES, max_size=3),
)


@settings(deadline=None)
@given(REPORTS)
def test_a_report_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, report: Report):
    file = tmp_path_factory.mktemp("reports") / "report.json"
    write_report(report, file)
    assert read_report(file) == report


def test_json_tells_machine_and_versions_and_has_null_for_what_is_not_finite():
    facts = {"inf": math.inf, "numpy": np.float32(0.5), "array": np.arange(2), "half": "\ud800"}
    content = json.loads(to_json(replace(REPORT, facts=facts)))
    assert content["machine"]["cpus"] >= 1
    assert {"numpy", "scipy", "scikit-learn", "qdrant-client", "torch"} <= set(content["versions"])
    assert content["facts"] == {"inf": None, "numpy": 0.5, "array": [0, 1], "half": "\ud800"}
    assert content["tables"][0]["rows"][2] == ["none", None, None, 0]
    assert content["plots"][2]["series"][0]["y"] == [-1.0, 2.0, None]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.pop("title"), "no 'title'"),
        (lambda c: c.pop("facts"), "no 'facts'"),
        (lambda c: c.update(tables={}), "no list 'tables'"),
        (lambda c: c["tables"][1].pop("rows"), "tables 2: no list 'rows'"),
        (lambda c: c["tables"][0]["rows"][1].pop(), "tables 1: table 'scores': 3 cells for 4 columns"),
        (lambda c: c["tables"][0].update(keys=True), "tables 1: 'keys' is not a whole number"),
        (lambda c: c["tables"][0].update(rows=[[[]]]), "tables 1: rows 1: a row is no list"),
        (lambda c: c["tables"][0]["columns"][1].update(best="most"), "columns 2: 'best' is 'most'"),
        (lambda c: c["tables"][0]["columns"][1].update(digits=-1), "columns 2: 'digits' is -1"),
        (lambda c: c["plots"][0].update(kind="pie"), "plots 1: 'kind' is 'pie'"),
        (lambda c: c["plots"][0]["series"][1].update(y=["x"]), "series 2: y 1: not a number"),
        (lambda c: c["plots"][3]["series"][0].update(x=[1]), "plots 4: plot 'Scores'"),
        (lambda c: c["plots"][4]["marks"][0].pop("x"), "plots 5: marks 1: no 'x'"),
        (lambda c: c["plots"][4]["curves"][0].update(x=[1]), "plots 5: plot 'Scores', series 'Gaussian'"),
        (lambda c: c.update(notes=[1]), "notes 1: not a text"),
    ],
)
def test_what_a_file_lacks_is_named_with_the_file(tmp_path: Path, change, told: str):
    content = json.loads(to_json(REPORT))
    change(content)
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=re.escape(told)) as caught:
        read_report(file)
    assert str(caught.value).startswith(f"{file}: no report: ")
    assert "--report FILE.json" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"1", b'"title"'])
def test_what_is_no_report_is_told(tmp_path: Path, content: bytes):
    file = tmp_path / "other.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"other\.json: no (JSON|report)"):
        read_report(file)


def test_a_file_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(StoreError, match=r"none\.json"):
        read_report(tmp_path / "none.json")


# Plots


@pytest.mark.parametrize("plot", [*PLOTS, *map(hostile_plot, PLOTS)], ids=lambda plot: plot.kind)
def test_a_plot_is_well_formed_says_what_it_is_and_is_always_the_same(plot: Plot):
    svg = to_svg(plot)
    root = ElementTree.fromstring(svg)
    names = [element.tag.partition("}")[2] for element in root.iter()]
    assert root.get("role") == "img"
    assert root.get("aria-label") == one_line(plot.title)
    assert root.findtext("{http://www.w3.org/2000/svg}title") == one_line(plot.title)
    assert (root.findtext("{http://www.w3.org/2000/svg}desc") or "") == one_line(plot.note)
    assert not {"script", "style", "metadata", "image"} & set(names)
    assert to_svg(plot) == svg


def texts_of(plot: Plot) -> list[str]:
    root = ElementTree.fromstring(to_svg(plot))
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_points_and_bars_have_their_names_and_lines_a_legend():
    assert {f"model {i}" for i in range(8)} <= set(texts_of(SCATTER))
    names = [text for text in texts_of(BARS) if text in GAINS.x]
    assert names == ["CR", "MR", "none"]
    assert {"a", "b", "k", "Hits@k"} <= set(texts_of(LINE))


def test_a_forest_plot_is_sorted_and_has_the_baseline_as_a_line():
    texts = texts_of(FOREST)
    names = [text for text in texts if text in ("bm25", "fusion", "surprise")]
    assert names == ["fusion", "bm25", "surprise"]
    assert {"cosine .645", *FOREST.series[0].beside} <= set(texts)
    svg = to_svg(FOREST)
    assert svg.count("#0072b2") >= 2, "fusion is certainly above"
    assert svg.count("#d55e00") >= 2, "surprise is certainly below"
    assert svg.count("#666666") >= 2, "bm25 is neither"


def test_ties_are_one_row_and_the_largest_gains_and_losses_have_their_words():
    texts = " ".join(texts_of(QUESTION_GAINS))
    assert "12 questions unchanged" in texts
    assert "22 more gain" in texts
    assert "11 more lose" in texts
    named = {int(n) for n in re.findall(r"moon, (\d+)\?", texts)}
    assert named == {*range(8), *range(53, 61)}
    few = replace(QUESTION_GAINS, series=(Series("a", ("p q", "r s", "t"), (0.5, -0.25, 0.0)),))
    assert {"p q", "r s", "1 question unchanged", "+0.50", "-0.25"} <= set(texts_of(few))


def test_ranks_tell_places_before_and_after_and_what_was_not_found():
    texts = texts_of(RANKS)
    assert {"3", "57", "not found", "Document 4", "by cosine", "by fusion"} <= set(texts)


WORDS = "Does über-long naming of systems and questions 中文字符在这里 🙂 ever end, or does it go on"
LONG_NAMES = tuple(
    (WORDS * 3, "x" * 400, "WWWW" * 40, "中文" * 60, EVIL, "ok")[i % 6] + f" {i}" for i in range(80)
)


def enlarged(plot: Plot, count: int) -> Plot:
    """The same plot with so many series, or bars, of long names."""
    names = LONG_NAMES[:count]
    long = {"x_label": WORDS * 2, "y_label": WORDS * 2, "title": WORDS * 4}
    if plot.kind in ("forest", "gains") or (plot.kind == "bars" and len(plot.series) == 1):
        values = tuple(math.sin(i) * (i % 5 > 0) for i in range(count))
        own = replace(plot.series[0], x=names, y=values, low=(), high=(), beside=())
        if plot.kind == "forest":
            own = replace(
                own, low=tuple(v - 1 for v in values), high=tuple(v + 1 for v in values), beside=names
            )
        marks = tuple(replace(mark, name=WORDS * 2) for mark in plot.marks)
        return replace(plot, series=(own,), marks=marks, **long)
    series = tuple(
        replace(
            plot.series[i % len(plot.series)],
            name=name,
            # Points of systems lie together; some at the same place.
            y=tuple(
                y + (i if plot.kind == "ranks" else (i % 7) / 50) for y in plot.series[i % len(plot.series)].y
            ),
        )
        for i, name in enumerate(names)
    )
    marks = tuple(replace(mark, name=name) for mark, name in zip(plot.marks, names, strict=False))
    return replace(plot, series=series, marks=marks, **long)


def boxes_of(plot: Plot) -> tuple[Any, list[tuple[str, Any]]]:
    """The box of the whole figure; every text that is seen, with its own."""
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    # Where ticks are depends on the style, also of figures that are made.
    with style.context(["default", STYLE]):
        figure = figure_of(plot)
        renderer = FigureCanvasAgg(figure).get_renderer()
        hidden = set()
        for axes in figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                    hidden.add(tick.label2)
                    if not (low <= tick.get_loc() <= high and axes.axison):
                        hidden.add(tick.label1)
        seen = (
            t for t in figure.findobj(Text) if t not in hidden and t.get_visible() and t.get_text().strip()
        )
        return figure.bbox, [(text.get_text(), text.get_window_extent(renderer)) for text in seen]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("count", [1, 6, 25, 80])
@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.kind)
def test_no_text_of_a_plot_is_clipped_or_covers_another_one(plot: Plot, count: int):
    whole, boxes = boxes_of(enlarged(plot, count))
    assert len(boxes) > 2
    for text, box in boxes:
        assert whole.x0 <= box.x0, text
        assert box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0, text
        assert box.y1 <= whole.y1, text
    for i, (text, box) in enumerate(boxes):
        for other_text, other in boxes[:i]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            down = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert across < 2 or down < 2, (text, other_text)


@pytest.mark.parametrize("x", [(20.0, 23.0), (4.0, 45.0), (1.0, 300.0), (1.0, 1e6)])
def test_a_logarithmic_scale_has_numbers_however_short_it_is(x: tuple[float, float]):
    plot = replace(SCATTER, log_x=True, series=(Series("a", x[:1], (-1.0,)), Series("b", x[1:], (-2.0,))))
    numbers = [text for text in texts_of(plot) if re.fullmatch(r"[\d.e+]+", text)]
    assert 2 < len(numbers) < 10


def test_names_that_matplotlib_would_hide_or_typeset_are_shown():
    plot = replace(LINE, series=(replace(LINE.series[0], name="_x $y$"), LINE.series[1]))
    assert [text for text in texts_of(plot) if "_x $y$" in text]


def test_marks_have_their_names_where_there_is_room_and_the_first_go_first():
    close = replace(MARKED, marks=tuple(Mark(f"mark {i}", 0.5 + i / 900) for i in range(30)))
    names = [text for text in texts_of(close) if text.startswith("mark")]
    assert names == [f"mark {i}" for i in range(4)]
    assert to_svg(close).count("#d55e00") == 30
    assert "Gaussian" in texts_of(MARKED)


def test_marks_far_from_the_histogram_are_in_the_picture():
    far = replace(HISTOGRAM, marks=(Mark("far", 5.0), Mark("lost", math.nan)))
    assert "far" in texts_of(far)
    assert "lost" not in texts_of(far)
    assert {"0", "5"} <= {text.replace("\u2212", "-") for text in texts_of(far)}


def test_bars_too_many_to_be_named_are_sorted_steps():
    many = Series("gain", tuple(f"question {i}" for i in range(500)), tuple(math.sin(i) for i in range(500)))
    svg = to_svg(replace(BARS, series=(many,)))
    assert "question 7" not in svg
    assert len(svg) < 100_000
    assert "#0072b2" in svg
    assert "#d55e00" in svg


@pytest.mark.parametrize(
    "plot",
    [
        replace(LINE, series=()),
        replace(LINE, series=(Series("empty", (), ()),)),
        replace(LINE, series=(Series("one", (3,), (1.0,)), Series("not", (1, 2), (math.nan, math.inf)))),
        replace(LINE, series=(Series("years", ("STS12", "STS13"), (1.0, 2.0)),)),
        replace(LINE, log_x=True, series=(Series("wide", (0, 10, 1000), (1.0, 2.0, 3.0)),)),
        replace(SCATTER, log_x=True, series=(Series("left", (-1.0,), (1.0,)), Series("in", (1.0,), (1.0,)))),
        replace(
            SCATTER, series=(Series("cloud", (1.0, 2.0), (1.0, 2.0)), Series("lost", (math.nan,), (1.0,)))
        ),
        replace(BARS, series=()),
        replace(BARS, series=(Series("none", (), ()),)),
        replace(BARS, series=(GAINS, Series("other", ("CR", "SUBJ"), (1.0, 2.0)))),
        replace(HISTOGRAM, series=(HISTOGRAM.series[0], Series("none", (0.0,), ()))),
        replace(HISTOGRAM, title="\ufffe\ud800", series=()),
    ],
)
def test_plots_of_little_or_odd_data_are_drawn(plot: Plot):
    ElementTree.fromstring(to_svg(plot))


def test_a_plot_leaves_matplotlib_as_it_was():
    import matplotlib

    before = dict(matplotlib.rcParams)
    to_svg(LINE)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("kind", "x"), [("line", (1, 2, 3)), ("histogram", (1, 2)), ("scatter", ("a", "b")), ("bars", ("a",))]
)
def test_series_that_do_not_fit_their_plot_are_refused(kind: str, x: tuple):
    with pytest.raises(DataError, match="series 'a'"):
        Plot(kind, "p", "x", "y", (Series("a", x, (1.0, 2.0)),))


def test_curves_and_marks_elsewhere_than_on_a_histogram_are_refused():
    for more in ({"marks": MARKED.marks}, {"curves": MARKED.curves}):
        with pytest.raises(DataError, match="need a histogram, not 'line'"):
            replace(LINE, **more)


# Pages


def page_of(report: Report) -> BeautifulSoup:
    return BeautifulSoup(to_html(report), "html.parser")


def test_a_page_shows_tables_plots_notes_and_facts():
    page = page_of(REPORT)
    first = page.table
    assert [head.text for head in first.thead.find_all("th")] == ["model", "MRR", "MR", "pairs"]
    assert [cell.text for cell in first.find_all(class_="best")] == ["0.5100", "7.5"]
    assert [cell["data-value"] for cell in first.tbody.tr.find_all("td")] == ["0.51", "20.04", "5514"]
    assert [row.th["scope"] for row in first.tbody.find_all("tr")] == ["row"] * 3
    assert len(page.find_all("svg")) == len(PLOTS)
    assert '"seed": 0' in page.main.details.pre.text
    assert "MR is the mean rank." in page.text
    assert "CR gains." in page.text
    anchors = [link["href"] for link in page.nav.find_all("a")]
    assert anchors[: len(PLOTS) + 1] == [*(f"#plot-{i}" for i in range(1, len(PLOTS) + 1)), "#scores"]


def test_plots_come_first_and_what_is_detail_last():
    detail = replace(SCORES, name="detail", title="Every pair", detail=True)
    listing = Listing("Texts", (Passage("a", "b"),))
    plots = (LINE, replace(BARS, detail=True), SCATTER)
    page = page_of(Report("Everything", (detail, SCORES), plots, listings=(listing,)))
    headings = [heading.text for heading in page.main.find_all("h2")]
    assert headings == ["Hits", "Models", "Texts", "Scores of models", "Gains", "Every pair"]
    assert [link.text for link in page.nav.find_all("a")] == headings


def test_verdicts_stand_at_the_top_and_findings_above_their_plots():
    table = replace(SCORES, verdict="glove is best")
    page = page_of(Report("Everything", (table,), (replace(BARS, finding="CR gains 2."),)))
    assert [p.text for p in page.header.find_all(class_="verdict")] == ["glove is best"]
    assert page.figure.find(class_="finding").text == "CR gains 2."
    assert page.figure.find("desc").text == "CR gains 2. CR gains."
    two = page_of(Report("Everything", (table, replace(table, name="b", title="Others", verdict="none"))))
    assert [p.text for p in two.header.find_all(class_="verdict")] == [
        "Scores of models glove is best",
        "Others none",
    ]
    whole = page_of(Report("Everything", (table,), verdict="All is well."))
    assert [p.text for p in whole.header.find_all(class_="verdict")] == ["All is well."]


def test_passages_have_their_marked_words_and_are_text():
    text = f"first line\n why dogs {EVIL}"
    start = text.index("dogs")
    passage = Passage(EVIL, text, ((start, start + 4),), EVIL)
    page = page_of(Report("Texts", (), listings=(Listing(EVIL, (passage,), EVIL),)))
    assert [mark.text for mark in page.find_all("mark")] == ["dogs"]
    assert page.find(class_="text").text == f"first line\n why dogs {one_line(EVIL)}"
    assert page.find(class_="heading").text == page.find(class_="about").text == one_line(EVIL)
    assert len(page.find_all("script")) == 1


@pytest.mark.parametrize("marks", [((3, 2),), ((0, 9),), ((2, 4), (3, 5)), ((-1, 2),)])
def test_marks_outside_of_their_text_or_over_each_other_are_refused(marks: tuple):
    with pytest.raises(DataError, match="marks"):
        Passage("a", "eight ch", marks)


def test_a_page_of_one_table_has_no_contents():
    assert page_of(Report("One", (SCORES,))).nav is None


def test_every_link_leads_to_a_place_of_the_page():
    doubled = replace(REPORT, tables=(SCORES, replace(SCORES, name="scores!"), replace(SCORES, name="§")))
    page = page_of(doubled)
    ids = [tag["id"] for tag in page.find_all(id=True) if not tag.find_parent("svg")]
    assert len(ids) == len(set(ids))
    assert {link["href"][1:] for link in page.find_all("a")} <= set(ids)


def test_a_page_runs_and_fetches_nothing_of_the_data():
    hostile = replace(REPORT, title=EVIL, plots=tuple(map(hostile_plot, PLOTS)))
    text = to_html(hostile)
    page = BeautifulSoup(text, "html.parser")
    assert len(page.find_all("script")) == 1
    assert not page.find_all(["img", "link", "iframe", "object", "embed", "form", "base"])
    for tag in page.find_all():
        for name, value in tag.attrs.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href", "srcset", "action"):
                assert value.startswith("#")
    assert not re.search(r"@import|url\((?!#)", text)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert page.title.text == page.h1.text == one_line(EVIL)


def test_the_policy_allows_the_one_script_by_its_hash():
    import base64
    import hashlib

    page = page_of(REPORT)
    policy = page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    digest = base64.b64encode(hashlib.sha256(page.script.string.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in policy


@settings(deadline=None, max_examples=30)
@given(REPORTS)
def test_any_report_can_be_shown_in_any_format(report: Report):
    report = replace(report, plots=())
    printed(report)
    for text in (to_markdown(report), to_latex(report), to_html(report)):
        text.encode()


# Files


@pytest.mark.parametrize("suffix", [".md", ".tex", ".json", ".html", ".HTML"])
def test_the_suffix_tells_the_format(tmp_path: Path, suffix: str):
    file = tmp_path / f"report{suffix}"
    check_files([file])
    write_report(REPORT, file)
    assert "Scores of models" in file.read_text("utf-8")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_folder_that_is_not_there_is_refused_before_the_run_and_not_made(tmp_path: Path):
    file = tmp_path / "none" / "report.md"
    with pytest.raises(StoreError, match=rf"no folder {re.escape(str(file.parent))}; make it, or choose"):
        check_files([file])
    with pytest.raises(StoreError, match="none"):
        write_report(REPORT, file)
    assert list(tmp_path.iterdir()) == []


def test_an_svg_file_has_the_first_plot_of_points_or_else_the_first(tmp_path: Path):
    file = tmp_path / "models.svg"
    check_files([file])
    write_report(REPORT, file)
    root = ElementTree.parse(file).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label") == SCATTER.title
    texts = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {series.name for series in SCATTER.series} <= texts
    write_report(replace(REPORT, plots=(BARS, LINE)), file)
    assert ElementTree.parse(file).getroot().get("aria-label") == BARS.title


def test_a_report_without_plots_has_no_svg_file(tmp_path: Path):
    with pytest.raises(DataError, match=r"'Everything' has no plot, expected one"):
        write_report(replace(REPORT, plots=()), tmp_path / "report.svg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["report.pdf", "report", ".json"])
def test_another_suffix_is_told_with_those_that_there_are(tmp_path: Path, name: str):
    for act in (lambda file: write_report(REPORT, file), lambda file: check_files([file])):
        with pytest.raises(DataError, match=r"\.md, \.tex, \.json, \.html, \.svg"):
            act(tmp_path / name)


def test_a_place_that_cannot_be_written_is_told_before_and_after(tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.md").mkdir()
    for file in (tmp_path / "file" / "report.md", tmp_path / "folder.md"):
        with pytest.raises(StoreError, match=re.escape(str(file))):
            check_files([file])
        with pytest.raises(StoreError, match=re.escape(str(file))):
            write_report(REPORT, file)


def test_a_report_that_cannot_be_made_leaves_the_old_file(tmp_path: Path):
    file = tmp_path / "report.json"
    file.write_text("old")
    with pytest.raises(TypeError):
        write_report(replace(REPORT, facts={"what": object()}), file)
    assert file.read_text() == "old"


def test_a_missing_extra_is_told_before_the_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "matplotlib")
    check_files([tmp_path / "report.md", tmp_path / "report.json", tmp_path / "report.tex"])
    with pytest.raises(MissingExtraError, match=r"surprise-rerank\[report\]"):
        check_files([tmp_path / "report.html"])
    with pytest.raises(MissingExtraError, match=r"surprise-rerank\[report\]"):
        check_files([tmp_path / "report.svg"])
