"""Tables of README and docs, once more: runs their commands, and compares the scores.

A file of `benchmarks/expected/` says which command makes a table, what it needs, and what must come out:

    about: what it is
    shown: docs/figures/evalrank-words.csv   # where a reader finds the figures; several with spaces between
    command: rerank-eval words --data {data} --model {data}/evalrank/toy_emb.txt
    minutes: 1                          # about, on two cores, with everything indexed
    needs: {data: [evalrank], datasets: [beir/scifact], modules: [pyserini], files: [examples/dog.py]}
    tolerance: 0.005
    tables:
      evalrank-words:
        toy_emb.txt / cosine: {MRR: 0.0318, Hits@1: [0.0118, 0.001]}     # with a tolerance of its own

    python benchmarks/check.py --data DATA [NAME]...

What needs data or packages that are not here is skipped, with the reason. The exit code is 1 if a score is
off or a command fails.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from surprise_rerank.core.extras import is_installed

FILES = sorted((Path(__file__).parent / "expected").glob("*.yaml"))
PROGRAMS = {"rerank-eval": ["-m", "surprise_rerank.eval.cli.rerank_eval.main"], "python": []}


@dataclass(frozen=True, slots=True)
class Cell:
    """A score that a command must give: of a table, a row's keys with ` / ` between, and a column."""

    table: str
    row: str
    column: str
    value: float
    tolerance: float


def cells(content: dict[str, Any]) -> Iterator[Cell]:
    """The scores of an expectation."""
    for table, rows in content["tables"].items():
        for row, columns in rows.items():
            for column, given in columns.items():
                value, tolerance = given if isinstance(given, list) else (given, content["tolerance"])
                yield Cell(table, str(row), str(column), value, tolerance)


def lacks(content: dict[str, Any], data: Path | None) -> str:
    """Why the command cannot run here; empty where it can."""
    from ir_datasets.util import home_path

    needs = content.get("needs", {})
    places = {name: Path(home_path(), name) for name in needs.get("datasets", ())}
    places |= {name: Path(name) for name in needs.get("files", ())}
    places |= {name: (data or Path("DATA")) / name for name in needs.get("data", ())}
    missing = [f"{name} is not at {place}" for name, place in places.items() if not place.exists()]
    missing += [f"{name} is not installed" for name in needs.get("modules", ()) if not is_installed(name)]
    return "; ".join(missing)


def found(tables: dict[str, list[dict[str, Any]]], cell: Cell) -> float:
    """The score that came out; NaN where there is none."""
    keys = cell.row.split(" / ")
    for row in tables.get(cell.table, ()):
        if [str(value) for value in row.values()][: len(keys)] == keys:
            value = row.get(cell.column)
            return math.nan if value is None else float(value)
    return math.nan


def run(content: dict[str, Any], data: Path | None) -> list[str]:
    """What is wrong with the scores of a command, which runs in a process of its own."""
    program, *arguments = (part.replace("{data}", str(data)) for part in shlex.split(content["command"]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        line = [sys.executable, *PROGRAMS[program], *arguments, "--report", str(file)]
        done = subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            return [f"exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()[-400:]}"]
        tables = json.loads(file.read_text(encoding="utf-8"))["tables"]
    # A sum of two decimals is off by some last digits.
    return [
        f"{cell.table}, {cell.row}, {cell.column}: {value:.4f}, expected {cell.value} +- {cell.tolerance}"
        for cell in cells(content)
        for value in (found(tables, cell),)
        if not abs(value - cell.value) <= cell.tolerance * (1 + 1e-9)
    ]


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.Choice([path.stem for path in FILES]))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), envvar="SURPRISE_RERANK_DATA")
def main(names: tuple[str, ...], data: Path | None) -> None:
    """Run the commands behind tables of the documentation, and compare the results."""
    failed = False
    for path in FILES:
        content = yaml.safe_load(path.read_bytes())
        if names and path.stem not in names:
            continue
        print(
            f"{path.stem}: {content['about']}, {content['minutes']} minutes\n    {content['command']}",
            flush=True,
        )
        if reason := lacks(content, data):
            print(f"    skipped: {reason}")
            continue
        start = time.perf_counter()
        wrong = run(content, data)
        failed |= bool(wrong)
        told = "".join(f"\n    {line}" for line in wrong) or f"    {len(list(cells(content)))} scores hold"
        print(f"{told.lstrip(chr(10))}, {time.perf_counter() - start:.0f} s", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
