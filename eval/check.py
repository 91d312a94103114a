"""The tables of the documentation, once more: commands and the scores that they must give.

A file of `eval/expected/` says which command makes a table, what it needs, and what must come out:

    about: what it is
    shown: docs/results.md               # where a reader finds the figures
    command: rerank-eval words --data {data} --model {data}/evalrank/toy_emb.txt
    minutes: 1                          # about, on two cores, with everything indexed
    needs: {data: [evalrank], datasets: [beir/scifact], modules: [pyserini], files: [examples/dog.py]}
    tolerance: 0.005
    tables:
      evalrank-words:
        toy_emb.txt / cosine: {MRR: 0.0318, Hits@1: [0.0118, 0.001]}     # with a tolerance of its own
"""

from __future__ import annotations

import importlib.resources
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError, SurpriseRerankError
from surprise_rerank.eval.reports.records import read_values

_KEYS = {"about", "shown", "command", "minutes", "needs", "tolerance", "tables"}
_NEEDS = {"data", "datasets", "modules", "files"}
# What a command may begin with, and what that runs here.
_PROGRAMS = {"rerank-eval": ["-m", "surprise_rerank.eval.cli.rerank_eval.main"], "python": []}
# A child that was killed, or could not be started, says nothing itself.
_LAST_LINES = 400


@dataclass(frozen=True, slots=True)
class Cell:
    """A score that a command must give.

    Attributes:
        table: name of the table.
        row: its key cells, with ` / ` between.
        column: its heading.
        value: the score.
        tolerance: how far it may be off.
    """

    table: str
    row: str
    column: str
    value: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Expectation:
    """A command and the scores that it must give.

    Attributes:
        name: of the file, without its suffix.
        about: a line for readers.
        shown: the document that shows the figures.
        command: as a user types it; `{data}` stands for the data folder. It is run with `--report FILE`.
        minutes: how long it takes, about.
        data: folders that must be in the data folder.
        datasets: ids of ir_datasets that must be on this machine already.
        modules: optional modules that must be installed.
        files: of a checkout that must be in the working directory.
        cells: the scores.
    """

    name: str
    about: str
    shown: str
    command: str
    minutes: float
    data: tuple[str, ...]
    datasets: tuple[str, ...]
    modules: tuple[str, ...]
    files: tuple[str, ...]
    cells: tuple[Cell, ...]

    def lacks(self, data: Path | None) -> str:
        """Why the command cannot run here; empty where it can.

        Args:
            data: the data folder.
        """
        missing = [name for name in self.modules if not is_installed(name)]
        if missing:
            return f"{', '.join(missing)} is not installed"
        absent = [name for name in self.files if not Path(name).is_file()]
        if absent:
            return f"{absent[0]} is not in this folder: run it in a checkout"
        if self.data and data is None:
            return "no data folder: give --data FOLDER"
        for name in self.data:
            if data is not None and not (data / name).exists():
                return f"{name} is not in {data}"
        for name in self.datasets:
            if not _is_here(name):
                return f"{name} is not here: rerank-eval --dataset {name} downloads it"
        return ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an expectation.

    Attributes:
        expectation: what was to come out.
        found: score by score, what came out; NaN where nothing did.
        reason: why it was skipped or failed; empty otherwise.
        skipped: whether it was not run.
        seconds: that the command took.
    """

    expectation: Expectation
    found: tuple[float, ...] = ()
    reason: str = ""
    skipped: bool = False
    seconds: float = 0.0

    @property
    def off(self) -> tuple[tuple[Cell, float], ...]:
        """The scores that are further off than they may be, with what came out."""
        pairs = zip(self.expectation.cells, self.found, strict=False)
        # A sum of two decimals is off by some last digits.
        return tuple((c, value) for c, value in pairs if not abs(value - c.value) <= c.tolerance * (1 + 1e-9))

    @property
    def holds(self) -> bool:
        """Whether everything came out as expected."""
        return not (self.reason or self.off)


def expectations(folder: Path | None = None) -> tuple[Expectation, ...]:
    """All expectations of a folder, by name.

    Args:
        folder: of YAML files; the package's own by default.

    Raises:
        DataError: if a file is malformed; names file and key.
        StoreError: if one cannot be read.
    """
    if folder is not None:
        return tuple(_read(path) for path in sorted(folder.glob("*.yaml")))
    package = importlib.resources.files("surprise_rerank.eval") / "expected"
    with importlib.resources.as_file(package) as own:
        return tuple(_read(path) for path in sorted(own.glob("*.yaml")))


def run(expectation: Expectation, data: Path | None, cache: Path | None = None) -> Outcome:
    """Run an expectation's command in a process of its own, and compare.

    Args:
        expectation: what to run.
        data: the data folder.
        cache: of indexes and converted vectors; the user's by default.
    """
    reason = expectation.lacks(data)
    if reason:
        return Outcome(expectation, reason=reason, skipped=True)
    program, *arguments = (part.replace("{data}", str(data)) for part in shlex.split(expectation.command))
    environment = dict(os.environ) if cache is None else {**os.environ, "SURPRISE_RERANK_CACHE": str(cache)}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        line = [sys.executable, *_PROGRAMS[program], *arguments, "--report", str(file)]
        done = subprocess.run(
            line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-_LAST_LINES:] or "it said nothing"
            return Outcome(expectation, reason=f"exit code {done.returncode}: {said}", seconds=seconds)
        try:
            tables = read_values(file)["tables"]
            found = tuple(_value(tables, cell) for cell in expectation.cells)
        except SurpriseRerankError as error:
            return Outcome(expectation, reason=str(error), seconds=seconds)
    return Outcome(expectation, found, seconds=seconds)


def _value(tables: Mapping[str, list[dict[str, Any]]], cell: Cell) -> float:
    """A score of a row whose first cells are its keys, with ` / ` between."""
    keys = cell.row.split(" / ")
    for row in tables.get(cell.table, ()):
        if [str(value) for value in row.values()][: len(keys)] == keys and cell.column in row:
            value = row[cell.column]
            return math.nan if value is None else float(value)
    raise DataError(f"no score {cell.column!r} of {cell.row!r} in the table {cell.table!r}")


def _is_here(dataset: str) -> bool:
    """Whether a data set of ir_datasets was downloaded to this machine already."""
    from ir_datasets.util import home_path

    first, _, rest = dataset.partition("/")
    folder = Path(home_path()) / first
    return any(folder.glob(f"{rest.split('/')[0]}*")) if rest else folder.is_dir()


def _read(path: Path) -> Expectation:
    with disk_errors(str(path)):
        try:
            content = yaml.safe_load(path.read_bytes())
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected keys and values, got {type(content).__name__}")
    unknown, missing = content.keys() - _KEYS, {"about", "command", "tables"} - content.keys()
    if unknown or missing:
        what = f"unknown keys {sorted(map(str, unknown))}" if unknown else f"no {', '.join(sorted(missing))}"
        raise DataError(f"{path}: {what}; expected {', '.join(sorted(_KEYS))}")
    program = str(content["command"]).partition(" ")[0]
    if program not in _PROGRAMS:
        raise DataError(f"{path}: the command begins with {program!r}, expected {' or '.join(_PROGRAMS)}")
    needs = content.get("needs", {})
    if not isinstance(needs, dict) or needs.keys() - _NEEDS:
        raise DataError(f"{path}: needs is {needs!r}, expected lists under {', '.join(sorted(_NEEDS))}")
    return Expectation(
        name=path.stem,
        about=str(content["about"]),
        shown=str(content.get("shown", "")),
        command=str(content["command"]),
        minutes=_number(path, "minutes", content.get("minutes", 1)),
        data=_names(path, needs, "data"),
        datasets=_names(path, needs, "datasets"),
        modules=_names(path, needs, "modules"),
        files=_names(path, needs, "files"),
        cells=tuple(_cells(path, content["tables"], content.get("tolerance", 0.0))),
    )


def _names(path: Path, needs: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = needs.get(key, [])
    if not isinstance(names, list):
        raise DataError(f"{path}: needs.{key} is {names!r}, expected a list")
    return tuple(map(str, names))


def _cells(path: Path, tables: Any, tolerance: Any) -> Iterator[Cell]:
    usual = _number(path, "tolerance", tolerance)
    for table, rows in _mapping(path, "tables", tables):
        for row, columns in _mapping(path, table, rows):
            for column, given in _mapping(path, f"{table}, {row}", columns):
                place = f"{table}, {row}, {column}"
                pair = given if isinstance(given, list) else [given, usual]
                if len(pair) != 2:
                    raise DataError(f"{path}: {place} is {given!r}, expected a score, or [score, tolerance]")
                yield Cell(table, row, column, _number(path, place, pair[0]), _number(path, place, pair[1]))


def _mapping(path: Path, place: str, values: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(values, dict) or not values:
        raise DataError(f"{path}: {place} is {str(values)[:60]!r}, expected keys and values")
    return ((str(key), value) for key, value in values.items())


def _number(path: Path, place: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{path}: {place} is {value!r}, expected a number")
    return float(value)
