"""Commands whose tables are published: run, read and shown beside what is published."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core._extras import is_installed
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.eval.studies.settings import PapersSettings
from surprise_rerank.eval.studies.study import Study

# Table -> its rows, each from column to cell.
Tables: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]

_PROGRAMS = {"rerank-eval": ["-m", "surprise_rerank.eval.cli.rerank_eval.main"], "python": []}


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of a paper that one command gives; `published.yaml` says what the fields are."""

    name: str
    paper: str
    command: str
    needs: tuple[str, ...]
    table: str
    figures: Mapping[str, Mapping[str, float]]
    modules: tuple[str, ...] = ()
    why: str = ""


class Papers(Study[PapersSettings, list[Published], Published]):
    """What can be run of the published figures, and both side by side."""

    title = "The three papers"
    keys = ("name", "paper", "row", "figure")

    def prepare(self) -> None:
        self._reports: dict[str, Tables] = {}
        self._rows: list[tuple[Cell, ...]] = []

    def read(self) -> list[Published]:
        entries = yaml.safe_load(Path(__file__).with_name("published.yaml").read_bytes())
        every, only = [Published(**entry) for entry in entries], self.settings.only
        border.choices("only", only or (), [published.name for published in every])
        return [published for published in every if only is None or published.name in only]

    def models(self) -> Iterator[Published]:
        return iter(self.data)

    def measure(self, published: Published) -> None:
        command, missing = published.command, _missing(published, self.settings.data)
        if missing:
            self.remarks[f"{published.name}: not run, {missing}"] = None
        elif command not in self._reports and not self.settings.list:
            with self.terminal.bar(published.paper, None, "commands"):
                self._reports[command] = tables_of(command, self.settings.data)
        if published.why:
            self.remarks[published.why] = None
        tables, shown = self._reports.get(command, {}), command.replace("{data}", "DATA")
        for key, figures in published.figures.items():
            for figure, value in figures.items():
                here = cell_of(tables, published.table, key, figure)
                self._rows.append((published.name, published.paper, key, figure, value, here, shown))

    def tables(self) -> Iterator[Table]:
        title = "Published figures, and what comes out here"
        columns = (*map(Column, (*self.keys, "published", "here", "command")),)
        yield Table("papers", title, columns, tuple(self._rows), 4)


def _missing(published: Published, data: Path | None) -> str:
    """Why a command cannot be run here; empty where it can."""
    if data is None:
        return "give --data FOLDER, or set SURPRISE_RERANK_DATA"
    parts = [f"{data / name} is not there" for name in published.needs if not (data / name).exists()]
    parts += [f"{name} is not installed" for name in published.modules if not is_installed(name)]
    return "; ".join(parts)


def tables_of(command: str, data: Path | None) -> Tables:
    """Return the tables of a command's report, which runs in a process of its own; {data} is the folder."""
    program, *arguments = (part.replace("{data}", str(data)) for part in shlex.split(command))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        line = [sys.executable, *_PROGRAMS[program], *arguments, "--report", str(file)]
        ended = subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if ended.returncode:
            last = ended.stderr.decode(errors="replace").strip()[-400:]
            raise DataError(f"{command} ended with exit code {ended.returncode}: {last}")
        return dict(json.loads(file.read_text("utf-8"))["tables"])


def cell_of(tables: Tables, table: str, key: str, column: str) -> Any:
    """A cell, by its row's key cells with ` / ` between them; None where there is none."""
    keys = key.split(" / ")
    rows = (row for row in tables.get(table, ()) if [str(cell) for cell in row.values()][: len(keys)] == keys)
    return next((row.get(column) for row in rows), None)
