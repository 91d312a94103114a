"""The tables of the documentation show what `benchmarks/expected/` says, and the script tells what is off."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "docs"))
check = pytest.importorskip("check")
tables = pytest.importorskip("tables")

SCRIPT = """
import json, sys
rows = [{"system": "cosine", "RR": 0.5}, {"system": "lost", "RR": None}]
open(sys.argv[sys.argv.index("--report") + 1], "w").write(json.dumps({"tables": {"t": rows}}))
"""


@pytest.mark.parametrize(
    ("row", "wanted", "messages"),
    [
        ("cosine", 0.502, []),
        ("cosine", [0.9, 0.5], []),
        ("cosine", 0.6, ["t, cosine, RR: 0.5000, expected 0.6 +- 0.002"]),
        ("lost", 0.5, ["t, lost, RR: nan, expected 0.5 +- 0.002"]),
        ("nobody", 0.5, ["t, nobody, RR: nan, expected 0.5 +- 0.002"]),
    ],
)
def test_a_score_holds_within_its_tolerance_and_is_told_otherwise(tmp_path, row, wanted, messages):
    (tmp_path / "own.py").write_text(SCRIPT)
    content = {"command": f"python {tmp_path / 'own.py'}", "tolerance": 0.002}
    assert check.run({**content, "tables": {"t": {row: {"RR": wanted}}}}, None) == (messages, 1)
    (tmp_path / "own.py").write_text("1 / 0")
    assert "ZeroDivisionError" in check.run({**content, "tables": {}}, None)[0][0]
    assert "no_such is not installed" in check.lacks({"needs": {"modules": ["no_such"]}}, None)


def test_the_lock_file_has_versions_that_the_project_allows():
    locked = dict(line.split("==") for line in check.LOCK.read_text("utf-8").splitlines()[1:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for line in project["dependencies"]:
        needed = Requirement(line)
        name = re.sub(r"[-_.]+", "-", needed.name).lower()
        assert locked[name] in needed.specifier, line


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def test_links_to_headings_lead_to_one_on_github():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    anchors = {
        page.name: {
            anchor(heading)
            for heading in re.findall(
                r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL), re.MULTILINE
            )
        }
        for page in pages
    }
    broken = [
        (page.name, link)
        for page in pages
        for link in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", page.read_text("utf-8"))
        for file, heading in [link.split("#")]
        if not link.startswith("http") and heading not in anchors[Path(file).name or page.name]
    ]
    assert not broken


def test_every_file_of_figures_is_linked_from_a_page_and_tables_are_those_of_the_files():
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    for file in (ROOT / "docs" / "figures").iterdir():
        assert any(f"(figures/{file.name})" in text for text in pages.values()), file.name
    for path, text in pages.items():
        assert tables.filled(text) == text, f"{path.name}: run `python docs/tables.py`"
