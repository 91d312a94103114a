"""What an evaluation of retrieval leaves in `--run-dir`: run files, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from surprise_rerank.core.files import disk_errors
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.reports.writing import write_report
from surprise_rerank.eval.retrieval.evaluation import Evaluation, short_name
from surprise_rerank.eval.retrieval.trec import write_run


def make_folder(folder: Path) -> None:
    """A folder for `write_results`, which is there or can be made."""
    with disk_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)


def write_results(folder: Path, evaluations: Sequence[Evaluation], report: Report) -> None:
    """A TREC run file per system of ours, and `results.json` with every question's values.

    Run files of several data sets lie in a folder each, as `{dataset}` in the name of a run says it.
    """
    for evaluation in evaluations:
        place = folder if len(evaluations) == 1 else folder / short_name(evaluation.name)
        for result in evaluation.results:
            if result.is_run:
                continue  # it is somebody's file already
            write_run(place / f"{result.name}.trec", result.run, result.name)
    write_report(report, folder / "results.json")
