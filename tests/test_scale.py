"""The cost model of docs/scale.md: its tables follow from its constants and formulas."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
TEXT = PAGE.read_text(encoding="utf-8")
LETTERS = {"d": 384.0, "k": 10.0, "v": 70.0, "pool": 100.0, "sample": 256.0, "w": 1.0}
FUNCTIONS = {"min": min, "max": max}
_UNITS = ((365.25 * 86400, "years"), (86400, "days"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES = ((1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def rows_of(heading: str, number: int = 0) -> list[list[str]]:
    """The cells of a table in a section, without its head."""
    section = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    body = next(part for part in section if part.startswith(heading + "\n"))
    tables = re.findall(r"(?:^\|.*\n)+", body, flags=re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in tables[number].splitlines()[2:]]


def constants() -> dict[str, float]:
    return {row[0].strip("`"): float(row[1]) for row in rows_of("Constants")}


def formulas() -> dict[str, str]:
    rows = rows_of("Formulas", 0) + rows_of("Formulas", 1)
    return {row[0]: row[1].strip("`") for row in rows}


def value(stage: str, n: float, **letters: float) -> float:
    names = {**LETTERS, **constants(), **letters, "n": float(n)}
    return float(eval(formulas()[stage], {"__builtins__": {}, **FUNCTIONS}, names))


def shown(amount: float, units: tuple[tuple[float, str], ...]) -> str:
    """Two digits and a unit: `1.1 h`, `59 s`, `1,300 years`, `0.14 s`."""
    size, unit = next(((size, unit) for size, unit in units if amount >= size), units[-1])
    number = amount / size
    digits = 1 if 0.95 <= number < 9.95 else 0
    return f"{float(f'{number:.2g}'):,.{digits}f} {unit}" if number >= 0.95 else f"{number:.2g} {unit}"


def cell(stage: str, n: float, **letters: float) -> str:
    units = _SIZES if stage.startswith(("disk", "network")) else _UNITS
    return shown(value(stage, n, **letters), units)


@pytest.mark.parametrize(("table", "machines"), [(0, 1.0), (1, 100.0)])
def test_the_tables_follow_from_the_formulas(table: int, machines: float):
    found = rows_of("Applied", table)
    expected = [[row[0], *(cell(row[0], n, w=machines) for n in (1e5, 1e7, 1e9))] for row in found]
    assert found == expected


def test_the_runs_are_compared_with_the_formulas():
    for run, _, shown_there in rows_of("Checked"):
        computed = shown_there.removesuffix(" (circular)")
        stage, size = run.split(", ")
        n = float(eval(size.replace("^", "**"), {"__builtins__": {}}))
        stages = ["index: fill", "index: search"] if stage == "index" else [stage]
        assert computed == shown(sum(value(part, n) for part in stages), _UNITS), run


def test_exact_and_index_meet_where_the_page_says():
    values = constants()

    def meeting(product: float) -> str:
        n = (values["fill"] + values["query"]) * product / (2 * LETTERS["d"] * values["overhead"])
        return f"{float(f'{n:.2g}'):,.0f}"

    assert f"{meeting(values['product'])} documents on this machine" in TEXT
    assert f"it is {meeting(10e12)}." in TEXT


def test_a_gpu_takes_the_time_that_the_page_says():
    assert f"it is {cell('exact', 1e7, product=10e12)} of a GPU" in TEXT


def test_the_run_of_a_million_is_compared_with_the_formulas():
    text, n = " ".join(TEXT.split()), 1e6
    made, searched = value("store, ensemble", n) + value("index: fill", n), value("index: search", n)
    assert f"the formulas say {shown(made, ((1, 's'),))} and {shown(searched, ((1, 's'),))}:" in text
    assert f"{1376 / made:.1f} and {801 / searched:.1f} times as much" in text
    assert f"(by the formula {value('exact', n) * 1000 / n:.1f} s)" in text
    assert f"than the {cell('disk: index', n)} of the formula" in text


def test_machines_have_something_to_do_while_there_are_parts():
    pytest.importorskip("torch")
    from surprise_rerank.connectors.similar import corpus, dynamax, encoding
    from surprise_rerank.connectors.similar.settings import SimilaritySettings

    part = {name: SimilaritySettings(similarity=name).part_rows for name in ("cosine", "dynamax", "both")}
    busy = {
        "read and encode": encoding.CHUNK,
        "store, ensemble": corpus.ENSEMBLE_ROWS,
        "exact": 2 * part["cosine"],
        "index: search": 2 * part["cosine"],
        "network: exact": 2 * part["cosine"],
        "DynaMax: moments": 2 * dynamax.MOMENT_ROWS,
        "DynaMax: all pairs": 2 * part["dynamax"],
        "DynaMax: candidates": 2 * part["both"],
    }
    assert busy == {
        stage: int(found.group(1))
        for stage, expression in formulas().items()
        if (found := re.search(r"min\(w, n / (\d+)\)", expression))
    }


def test_every_name_of_a_formula_is_explained():
    letters = set(re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE))
    assert set(LETTERS) | set(constants()) | {"n"} == letters
    for expression in formulas().values():
        assert set(re.findall(r"[a-z]\w*", expression)) <= letters | set(FUNCTIONS)
