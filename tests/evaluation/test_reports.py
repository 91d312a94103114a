"""Reports: what is shown in every format, hostile texts, the JSON that is read again, and files."""

import json
import math
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from surprise_rerank import DataError, StoreError
from surprise_rerank.core import _extras as extras
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.eval.reports.pictures import to_svg
from surprise_rerank.eval.reports.report import Column, Mark, Plot, Report, Series, Table
from surprise_rerank.eval.reports.terminal import print_report
from surprise_rerank.eval.reports.writing import (
    check_files,
    read_values,
    to_html,
    to_json,
    to_latex,
    write_report,
)

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
    log_x=True,
)
BARS = Plot(
    "bars",
    "Gains",
    "task",
    "gain",
    (Series("gain", ("MR", "CR", "none"), (-1.0, 2.0, math.nan), (-2.0, 1.0, 0.0), (0.0, 3.0, 0.0)),),
    "CR gains.",
    finding="One of three gains.",
)
HISTOGRAM = Plot(
    "histogram",
    "Scores",
    "score",
    "pairs",
    (Series("all", (0.0, 0.5, 1.0), (3, 4)),),
    curves=(Series("Gaussian", (-0.5, 0.5, 1.5), (0.1, 3.5, 0.1)),),
    marks=(Mark("1", 0.7), Mark("far away", 2.0)),
)
PLOTS = (LINE, SCATTER, BARS, HISTOGRAM)
REPORT = Report("Everything", (SCORES, HOSTILE), PLOTS, ("Seed 0.", EVIL), {"seed": 0, EVIL: [EVIL]})


def hostile_plot(plot: Plot) -> Plot:
    series = tuple(replace(s, name=f"{EVIL} {i}" * 9) for i, s in enumerate(plot.series))
    marks = tuple(replace(mark, name=EVIL) for mark in plot.marks)
    return replace(
        plot, title=EVIL, x_label=EVIL * 9, y_label=EVIL * 9, note=EVIL, series=series, marks=marks
    )


def printed(report: Report, width: int = 120) -> str:
    console = Console(file=StringIO(), width=width)
    print_report(report, console)
    return console.file.getvalue()


def test_no_text_steers_the_terminal_or_is_read_as_markup():
    table = replace(HOSTILE, rows=(("[bold]x[/bold] :smile: \x1b[31m\u202e", 0.5), ("b", 0.25)))
    text = printed(Report(EVIL, (table,)))
    assert "[bold]x[/bold] :smile: \\x1b[31m\\u202e" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_a_pipe_gets_rows_for_other_programs_and_readers_the_rest(capsys):
    print_report(Report("Everything", (SCORES, HOSTILE), notes=("Seed 0." * 99,)))
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
    for said in ("Everything", SCORES.verdict, "MR is the mean rank.", "Seed 0." * 99):
        assert said in err.splitlines()
    print_report(Report("Everything", (SCORES,)), quiet=True)
    assert capsys.readouterr() == (first.partition("\n")[2] + "\n", "")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_keeps_to_the_width_and_loses_no_number(width):
    names = ("system", "nDCG@10", "R@100", "RR", "p (nDCG@10 vs cosine)", "p (Holm)", "ms/question")
    rows = (("surprise-crossover", 0.5791, 0.91, 0.55, 0.0002, 0.0004, 12.5), ("狗" * 30, *[0.25] * 6))
    table = Table("systems", "a title " * 40, tuple(map(Column, names)), rows, verdict="a verdict " * 40)
    lines = printed(Report("Everything", (table,)), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    words = [word for line in lines for word in line.split()]
    for number in ("0.5791", "0.9100", "0.5500", "0.0002", "0.0004", "12.5000"):
        assert number in words
    assert "".join(lines).count("狗") % 30 == 0


TEXTS = st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
CELLS = TEXTS | st.integers(-(10**12), 10**12) | NUMBERS | st.none()


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.lists(st.builds(Column, TEXTS, st.integers(0, 9)), min_size=1, max_size=4))
    rows = st.lists(st.tuples(*(CELLS for _ in columns)), max_size=4)
    keys = draw(st.integers(1, len(columns)))
    parts = (tuple(columns), tuple(draw(rows)), keys, (draw(TEXTS),), draw(st.booleans()), draw(TEXTS))
    return Table(draw(TEXTS), draw(TEXTS), *parts)


@given(
    st.builds(
        Report,
        title=TEXTS,
        tables=st.lists(tables(), max_size=2).map(tuple),
        notes=st.lists(TEXTS, max_size=2).map(tuple),
        facts=st.dictionaries(TEXTS.filter(lambda name: name != "tables"), CELLS, max_size=3),
    )
)
def test_any_report_can_be_shown_in_any_format(report):
    for width in (20, 120):
        printed(report, width)
    assert to_html(report)
    assert to_latex(report).count("\\begin{table}") == sum(not table.detail for table in report.tables)
    assert json.loads(to_json(report))["tables"].keys() == {table.name for table in report.tables}


def test_json_is_data_with_machine_and_versions_and_null_for_what_is_not_finite(tmp_path):
    facts = {"inf": math.inf, "numpy": np.float32(0.5), "array": np.arange(2), "half": "\ud800"}
    write_report(replace(REPORT, facts=facts), tmp_path / "report.json")
    content = read_values(tmp_path / "report.json")
    assert content["machine"]["cpus"] >= 1
    assert {"numpy", "scipy", "qdrant-client", "torch"} <= set(content["versions"])
    assert {name: content[name] for name in facts} == {**facts, "inf": None, "numpy": 0.5, "array": [0, 1]}
    assert content["tables"]["scores"][1:] == [
        {"model": "toy_emb.txt", "MRR": -0.25, "MR": 7.5, "pairs": 5514},
        {"model": "none", "MRR": None, "MR": None, "pairs": 0},
    ]
    assert "MR is the mean rank." in content["notes"]
    assert "plots" not in content


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"1", b'{"tables": {"a": 1}}']
)
def test_what_is_no_report_is_told(tmp_path, content):
    file = tmp_path / "other.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"other\.json: no (JSON|report)"):
        read_values(file)
    with pytest.raises(StoreError, match=r"none\.json"):
        read_values(tmp_path / "none.json")


@pytest.mark.parametrize("plot", [*PLOTS, *map(hostile_plot, PLOTS)], ids=lambda plot: plot.kind)
def test_a_plot_is_well_formed_says_what_it_is_and_is_always_the_same(plot):
    svg = to_svg(plot)
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == one_line(plot.title)
    names = {element.tag.partition("}")[2] for element in root.iter()}
    assert not {"script", "style", "metadata", "image"} & names
    assert to_svg(plot) == svg


@pytest.mark.parametrize(
    "plot",
    [
        replace(LINE, series=()),
        replace(LINE, series=(Series("empty", (), ()), Series("not", (1, 2), (math.nan, math.inf)))),
        replace(LINE, series=(Series("years", ("STS12", "STS13"), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5)),)),
        replace(SCATTER, series=(Series("left", (-1.0,), (1.0,)), Series("in", (1.0,), (math.nan,)))),
        replace(BARS, series=()),
        replace(BARS, series=(BARS.series[0], Series("other", ("CR", "SUBJ"), (1.0, 2.0)))),
        replace(HISTOGRAM, title="\ufffe\ud800", series=()),
    ],
)
def test_plots_of_little_or_odd_data_are_drawn(plot):
    ElementTree.fromstring(to_svg(plot))


def page_of(report: Report) -> BeautifulSoup:
    return BeautifulSoup(to_html(report), "html.parser")


def test_a_page_shows_plots_tables_details_and_facts():
    detail = replace(SCORES, name="detail", title="Every pair", detail=True)
    page = page_of(replace(REPORT, tables=(detail, SCORES)))
    first = page.table
    assert [head.text for head in first.thead.find_all("th")] == ["model", "MRR", "MR", "pairs"]
    assert [cell.text for cell in first.find_all(class_="best")] == ["0.5100", "7.5"]
    sorted_by = [cell.get("data-value") for cell in first.tbody.tr.find_all("td")]
    assert sorted_by == [None, "0.51", "20.04", "5514"]
    assert len(page.find_all("svg")) == len(PLOTS)
    for text in ("MR is the mean rank.", "CR gains.", "One of three gains.", "Every pair", '"seed": 0'):
        assert text in page.text


def test_a_page_without_matplotlib_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(
        "surprise_rerank.eval.reports.writing.is_installed",
        lambda module: module != "matplotlib" and extras.is_installed(module),
    )
    page = page_of(REPORT)
    assert not page.find_all("svg")
    assert "Pictures need matplotlib: pip install 'surprise-rerank[report]'" in page.text


def test_a_page_runs_and_fetches_nothing_of_the_data():
    text = to_html(replace(REPORT, title=EVIL, plots=tuple(map(hostile_plot, PLOTS))))
    page = BeautifulSoup(text, "html.parser")
    assert len(page.find_all("script")) == 1
    assert not page.find_all(["img", "link", "iframe", "object", "embed", "form", "base"])
    for tag in page.find_all():
        for name, value in tag.attrs.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href", "srcset", "action"):
                assert value.startswith("#")
    assert not re.search(r"@import|url\((?!#)", text)
    assert not {"\x1b", "\u202e"} & set(text)
    assert page.title.text == page.h1.text == one_line(EVIL)


def test_a_paper_gets_tables_with_the_best_in_bold_and_no_text_that_is_a_command():
    text = to_latex(replace(REPORT, tables=(SCORES, replace(SCORES, detail=True))))
    assert text.splitlines()[1:7] == [
        r"\caption{Scores of models}",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"model & MRR & MR & pairs \\",
        r"\midrule",
        r"glove & \textbf{0.5100} & 20.0 & 5514 \\",
    ]
    assert r"toy\_emb.txt & -0.2500 & \textbf{7.5} & 5514 \\" in text
    for line in to_latex(Report("", (HOSTILE,))).splitlines():
        plain = re.sub(r"\\(text\w+|[&%$#_{}\\]|caption|begin|end|\w+rule)", "", line)
        assert not set("%$#_\\") & set(plain)
        assert plain.count("&") in (0, 1)


@pytest.mark.parametrize("suffix", [".json", ".html", ".HTML", ".tex"])
def test_the_suffix_tells_the_format(tmp_path, suffix):
    file = tmp_path / f"report{suffix}"
    check_files([file])
    write_report(REPORT, file)
    assert "Scores of models" in file.read_text("utf-8") or suffix == ".json"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("name", ["report.pdf", "report", ".json"])
def test_another_suffix_is_told_with_those_that_there_are(tmp_path, name):
    for act in (lambda file: write_report(REPORT, file), lambda file: check_files([file])):
        with pytest.raises(DataError, match=r"\.html, \.json, \.tex"):
            act(tmp_path / name)


def test_a_place_that_cannot_be_written_is_told_before_and_after(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.json").mkdir()
    places = (Path("file", "report.json"), Path("folder.json"), Path("none", "report.json"))
    for file in (tmp_path / place for place in places):
        with pytest.raises(StoreError, match=re.escape(str(file.parent))):
            check_files([file])
        with pytest.raises(StoreError, match=re.escape(str(file.parent))):
            write_report(REPORT, file)
