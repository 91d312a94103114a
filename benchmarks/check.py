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
off or a command fails. Versions other than those of docs/figures/lock.txt are told first.
"""

from __future__ import annotations

import importlib.metadata
import math
import sys
import time
from pathlib import Path
from typing import Any

import click
import yaml

from surprise_rerank import DataError
from surprise_rerank.core._extras import is_installed
from surprise_rerank.eval.studies.papers import cell_of, tables_of

FILES = sorted((Path(__file__).parent / "expected").glob("*.yaml"))
LOCK = Path(__file__).parents[1] / "docs" / "figures" / "lock.txt"


def other_versions() -> list[str]:
    """Packages of the lock file that are installed in another version."""
    others = []
    for line in LOCK.read_text("utf-8").splitlines():
        name, _, version = line.partition("==")
        if version and is_installed_as(name) not in ("", version):
            others.append(f"{name} {is_installed_as(name)} for {version}")
    return others


def is_installed_as(name: str) -> str:
    """The version of a package; empty where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


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


def run(content: dict[str, Any], data: Path | None) -> tuple[list[str], int]:
    """What is wrong with the scores of a command, and how many were compared."""
    try:
        tables = tables_of(content["command"], data)
    except DataError as error:
        return [str(error)], 0
    wrong, count = [], 0
    for table, rows in content["tables"].items():
        for row, columns in rows.items():
            for column, expected in columns.items():
                wanted, tolerance = (
                    expected if isinstance(expected, list) else (expected, content["tolerance"])
                )
                cell = cell_of(tables, table, str(row), str(column))
                value = math.nan if cell is None else float(cell)
                count += 1
                # A sum of two decimals is off by some last digits.
                if not abs(value - wanted) <= tolerance * (1 + 1e-9):
                    wrong.append(f"{table}, {row}, {column}: {value:.4f}, expected {wanted} +- {tolerance}")
    return wrong, count


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.Choice([path.stem for path in FILES]))
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), envvar="SURPRISE_RERANK_DATA")
def main(names: tuple[str, ...], data: Path | None) -> None:
    """Run the commands behind tables of the documentation, and compare the results."""
    failed = False
    print("; ".join(other_versions()) or "the versions are those of the lock file")
    for path in FILES:
        content = yaml.safe_load(path.read_bytes())
        if names and path.stem not in names:
            continue
        about = f"{path.stem}: {content['about']}, {content['minutes']} minutes"
        print(f"{about}\n    {content['command']}", flush=True)
        if reason := lacks(content, data):
            print(f"    skipped: {reason}")
            continue
        start = time.perf_counter()
        wrong, count = run(content, data)
        failed |= bool(wrong)
        lines = [f"    {line}" for line in wrong] or [f"    {count} scores hold"]
        print("\n".join(lines) + f", {time.perf_counter() - start:.0f} s", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
