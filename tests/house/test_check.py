"""The tables of the documentation show what `benchmarks/expected/` says, and the script tells what is off."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
check = pytest.importorskip("check")
OWN = check.FILES

SCRIPT = """
import json, sys
rows = [{"system": "cosine", "RR": 0.5}, {"system": "lost", "RR": None}]
open(sys.argv[sys.argv.index("--report") + 1], "w").write(json.dumps({"tables": {"t": rows}}))
"""


@pytest.mark.parametrize(
    ("row", "wanted", "told"),
    [
        ("cosine", 0.502, []),
        ("cosine", [0.9, 0.5], []),
        ("cosine", 0.6, ["t, cosine, RR: 0.5000, expected 0.6 +- 0.002"]),
        ("lost", 0.5, ["t, lost, RR: nan, expected 0.5 +- 0.002"]),
        ("nobody", 0.5, ["t, nobody, RR: nan, expected 0.5 +- 0.002"]),
    ],
)
def test_a_score_holds_within_its_tolerance_and_is_told_otherwise(
    tmp_path: Path, row: str, wanted: object, told: list[str]
) -> None:
    (tmp_path / "own.py").write_text(SCRIPT)
    content = {"command": f"python {tmp_path / 'own.py'}", "tolerance": 0.002}
    assert check.run({**content, "tables": {"t": {row: {"RR": wanted}}}}, None) == told


def test_a_command_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("1 / 0")
    content = {"command": f"python {tmp_path / 'own.py'}", "tolerance": 0, "tables": {}}
    (told,) = check.run(content, None)
    assert "ZeroDivisionError" in told


def test_what_needs_something_that_is_not_here_is_skipped() -> None:
    needs = {"modules": ["no_such_module"], "data": ["evalrank"], "files": ["nothing.py"]}
    reason = check.lacks({"needs": needs}, None)
    for part in (
        "no_such_module is not installed",
        "evalrank is not at DATA/evalrank",
        "nothing.py is not at",
    ):
        assert part in reason


def test_the_list_names_every_command() -> None:
    line = [sys.executable, str(ROOT / "benchmarks" / "check.py"), "--list"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.count("\n    ") == len(OWN)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_the_document_shows_what_is_expected(path: Path) -> None:
    content = yaml.safe_load(path.read_bytes())
    text = (ROOT / content["shown"]).read_text(encoding="utf-8")
    numbers = set(re.findall(r"-?\d*\.?\d+", text.replace(",", "")))
    numbers |= {number.replace("-.", "-0.") for number in numbers}
    shown = {float(number) for number in numbers}
    missing = [cell for cell in check.cells(content) if cell.value not in shown]
    assert not missing, f"{content['shown']} does not show {missing[:3]}"


def test_the_readmes_table_is_a_part_of_the_checked_ones() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \|$", text, flags=re.MULTILINE)
    assert len(rows) > 3
    content = yaml.safe_load((ROOT / "benchmarks" / "expected" / "readme-systems.yaml").read_bytes())
    for system, row in rows:
        shown = [float(cell.strip("* ")) for cell in row.split("|")[::2]]
        assert shown == [cell.value for cell in check.cells(content) if cell.row == system], system
