"""What an evaluation leaves behind: a table, TREC run files, and a JSON of everything that was measured."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from surprise_rerank.candidates import Ranking
from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.eval.retrieval.evaluation import Evaluation
from surprise_rerank.eval.retrieval.results import BASELINE, SystemResult

_LIBRARIES = (
    "surprise-rerank",
    "torch",
    "sentence-transformers",
    "qdrant-client",
    "qdrant-edge-py",
    "pyserini",
    "ir-measures",
)


def table(evaluation: Evaluation) -> Table:
    """Systems by measures, with the p-value against cosine and the time that each took."""
    measures, results = evaluation.measures, evaluation.results
    grid = Table(title=escape(evaluation.title), title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("system")
    for name in (*measures, f"p ({measures[0]} vs {BASELINE})", "ms/question", "seconds"):
        grid.add_column(name, justify="right")
    best = {m: max((round(r.values[m], 4) for r in results), default=math.nan) for m in measures}
    for result in results:
        cells = [_cell(result.values[m], best[m]) for m in measures]
        p_value = "" if result.p_value is None else f"{result.p_value:.4f}"
        milliseconds = f"{1000 * float(np.median(result.latencies)):.1f}"
        grid.add_row(escape(result.name), *cells, p_value, milliseconds, f"{result.latencies.sum():.1f}")
    return grid


def _cell(value: float, best: float) -> str:
    return f"[bold]{value:.4f}[/bold]" if round(value, 4) == best else f"{value:.4f}"


def make_folder(folder: Path) -> None:
    """A folder for `write_results`, which is there or can be made.

    Raises:
        StoreError: if it cannot be made.
    """
    with disk_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)


def write_results(folder: Path, evaluation: Evaluation) -> None:
    """One TREC run file per system, and `results.json`.

    Raises:
        StoreError: if the folder cannot be written.
    """
    for result in evaluation.results:
        write_run(folder / f"{result.name}.trec", result.run, result.name)
    write_json(folder / "results.json", evaluation)


def write_run(path: Path, run: Mapping[str, Ranking], tag: str) -> None:
    """A TREC run file: question, Q0, document, rank, score, tag.

    Scores that are equal in float32 are set apart by its smallest step: trec_eval reads float32, sorts by
    score, and would put ties into another order than the rank. White space in ids is percent-encoded.

    Raises:
        StoreError: if the file cannot be written.
    """
    lines = []
    for query_id, ranking in run.items():
        last = np.float32(np.inf)
        for rank, (document_id, score) in enumerate(zip(ranking.ids, ranking.scores, strict=True), start=1):
            last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
            lines.append(f"{_token(query_id)} Q0 {_token(document_id)} {rank} {last} {tag}\n")
    _write(path, "".join(lines))


def _token(name: str) -> str:
    return "".join(quote(c) if c.isspace() else c for c in name)


def write_json(path: Path, evaluation: Evaluation) -> None:
    """Settings, versions, and every value of every question.

    Raises:
        StoreError: if the file cannot be written.
    """
    content = {
        **evaluation.facts,
        "notes": list(evaluation.notes),
        "machine": {
            "cpus": os.cpu_count(),
            "processor": platform.machine(),
            "python": platform.python_version(),
        },
        "versions": {name: _version(name) for name in _LIBRARIES},
        "systems": {r.name: _system(r) for r in evaluation.results},
    }
    _write(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


def _system(result: SystemResult) -> dict[str, Any]:
    return {
        "values": dict(result.values),
        f"p_vs_{BASELINE}": result.p_value,
        "note": result.note,
        "seconds": float(result.latencies.sum()),
        "milliseconds_median": 1000 * float(np.median(result.latencies)),
        "milliseconds_p95": 1000 * float(np.percentile(result.latencies, 95)),
        "per_question": {name: dict(values) for name, values in result.per_query.items()},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    with disk_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
