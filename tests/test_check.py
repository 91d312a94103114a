"""The tables of the documentation: their files, and what `rerank-eval check` makes of them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from surprise_rerank.errors import DataError
from surprise_rerank.eval.check import Cell, Expectation, expectations, run
from surprise_rerank.eval.cli.rerank_eval.main import main

ROOT = Path(__file__).resolve().parents[1]
OWN = expectations()

# A program that writes the report that `rerank-eval` would.
SCRIPT = """
import sys
from pathlib import Path
from surprise_rerank.eval.reports.report import Column, Report, Table
from surprise_rerank.eval.reports.writing import write_report
table = Table("t", "t", (Column("system"), Column("RR")), (("cosine", {value}), ("lost", None)))
write_report(Report("t", (table,)), Path(sys.argv[sys.argv.index("--report") + 1]))
"""


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a file of expectations and the program that it names, and goes into their folder."""

    def write(value: str = "0.5", *, needs: str = "{}", row: str = "cosine", wanted: str = "0.502") -> Path:
        (tmp_path / "own.py").write_text(SCRIPT.format(value=value))
        folder = tmp_path / "expected"
        folder.mkdir(exist_ok=True)
        (folder / "own.yaml").write_text(
            f"about: a table\ncommand: python own.py\nneeds: {needs}\ntolerance: 0.002\n"
            f"tables: {{t: {{{row}: {{RR: {wanted}}}}}}}\n"
        )
        monkeypatch.chdir(tmp_path)
        return folder

    return write


def test_a_score_within_its_tolerance_holds(expected: Callable[..., Path]) -> None:
    (expectation,) = expectations(expected())
    assert expectation.cells == (Cell("t", "cosine", "RR", 0.502, 0.002),)
    outcome = run(expectation, None)
    assert outcome.holds, outcome
    assert outcome.found == (0.5,)


def test_a_score_that_is_off_is_told(expected: Callable[..., Path]) -> None:
    (expectation,) = expectations(expected("0.4"))
    outcome = run(expectation, None)
    assert not outcome.holds
    assert outcome.off == ((expectation.cells[0], 0.4),)


def test_a_score_can_have_a_tolerance_of_its_own(expected: Callable[..., Path]) -> None:
    (expectation,) = expectations(expected("0.4", wanted="[0.502, 0.2]"))
    assert run(expectation, None).holds


def test_a_score_that_is_missing_is_off(expected: Callable[..., Path]) -> None:
    (expectation,) = expectations(expected(row="lost"))
    assert len(run(expectation, None).off) == 1


def test_a_row_that_is_missing_is_a_failure(expected: Callable[..., Path]) -> None:
    (expectation,) = expectations(expected(row="nobody"))
    outcome = run(expectation, None)
    assert not outcome.holds
    assert "no row 'nobody'; it has cosine, lost" in outcome.reason


def test_a_command_that_fails_is_a_failure_with_its_last_words(expected: Callable[..., Path]) -> None:
    (expectation,) = expectations(expected("1 / 0"))
    outcome = run(expectation, None)
    assert not outcome.skipped
    assert "ZeroDivisionError" in outcome.reason


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ("{modules: [no_such_module]}", "no_such_module is not installed"),
        ("{data: [evalrank]}", "no data folder: give --data FOLDER"),
        ("{datasets: [beir/no-such-data-set]}", "beir/no-such-data-set is not here"),
        ("{files: [nothing.py]}", "nothing.py is not in this folder"),
    ],
)
def test_what_needs_something_that_is_not_here_is_skipped(
    expected: Callable[..., Path], needs: str, reason: str
) -> None:
    (expectation,) = expectations(expected(needs=needs))
    outcome = run(expectation, None)
    assert outcome.skipped
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "expected keys and values, got list"),
        ("about: x\ncommand: python x", "no tables; expected about"),
        ("about: x\ncommand: python x\ntables: {}\nother: 1", "unknown keys .'other'."),
        ("about: x\ncommand: rm x\ntables: {}", "begins with 'rm', expected rerank-eval or python"),
        ("about: x\ncommand: python x\ntables: {t: 1}", "t is '1', expected keys and values"),
        ("about: x\ncommand: python x\ntables: {t: {r: {c: x}}}", "t, r, c is 'x', expected a number"),
        (
            "about: x\ncommand: python x\ntables: {t: {r: {c: [1]}}}",
            "expected a score, or .score, tolerance.",
        ),
        ("about: x\ncommand: python x\nneeds: {gpu: 1}\ntables: {t: {}}", "needs is .* expected lists under"),
        ("about: [", "is not YAML"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(DataError, match=said) as told:
        expectations(tmp_path)
    assert "bad.yaml" in str(told.value)


def checked(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["rerank-eval", "check", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def test_the_command_tells_holds_from_off_and_failed(
    expected: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = tmp_path / "check.json"
    assert checked(monkeypatch, "--expected", expected(), "--report", report, "-q") == 0
    (table,) = json.loads(report.read_text())["tables"]
    assert table["rows"][0][:4] == ["own", "holds", 1, 0]
    assert checked(monkeypatch, "--expected", expected("0.4"), "-q") == 1
    assert "\nown\tt\tcosine\tRR\t0.5020\t0.0020\t0.4000\n" in capsys.readouterr().out
    assert checked(monkeypatch, "--expected", expected(needs="{data: [x]}"), "-q") == 0
    assert "no data folder" in capsys.readouterr().out


def test_the_list_names_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(monkeypatch, "--list") == 0
    said = capsys.readouterr().out
    assert all(expectation.name in said and expectation.command in said for expectation in OWN)
    assert checked(monkeypatch, "nonsense") == 2
    assert "there is no table 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("expectation", OWN, ids=lambda expectation: expectation.name)
def test_the_document_shows_what_is_expected(expectation: Expectation) -> None:
    text = (ROOT / expectation.shown).read_text(encoding="utf-8")
    numbers = set(re.findall(r"-?\d*\.?\d+", text.replace(",", "")))
    numbers |= {number.replace("-.", "-0.") for number in numbers}
    numbers |= {f"0{number}" for number in numbers if number.startswith(".")}
    shown = {float(number) for number in numbers}
    missing = [cell for cell in expectation.cells if cell.value not in shown]
    assert not missing, f"{expectation.shown} does not show {missing[:3]}"


def test_the_readmes_table_is_a_part_of_the_checked_ones() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", text, flags=re.MULTILINE)
    assert len(rows) > 3
    (checked,) = [expectation for expectation in OWN if expectation.name == "readme-systems"]
    for system, cells in rows:
        shown = [float(cell.strip("* ")) for cell in cells.split("|")[::2]]
        expected = [cell.value for cell in checked.cells if cell.row == system]
        assert shown == expected, system
