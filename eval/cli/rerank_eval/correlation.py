"""`rerank-eval correlation`: do intrinsic scores predict downstream accuracy."""

from __future__ import annotations

from pathlib import Path

import click

from surprise_rerank.eval.cli.options import json_option, present, report_option

_EPILOG = """\b
Examples:
  rerank-eval words --data benchmarks --model toy_emb.txt --report runs/words.json
  rerank-eval downstream --data benchmarks --model toy_emb.txt --report runs/downstream.json
  rerank-eval correlation runs
  rerank-eval correlation runs/*.json --report correlation.html
"""


@click.command("correlation", epilog=_EPILOG)
@click.argument("places", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@report_option
@json_option
def command(*, places: tuple[Path, ...], reports: tuple[Path, ...], as_json: bool) -> None:
    """Correlation of intrinsic scores with downstream accuracy, over models.

    Of reports that `--report FILE.json` wrote: of `words`, `sentences`, `sts` and `downstream`, for three
    models or more; of a folder all of them, by name. Of duplicate scores of a model, the last one
    counts.
    """
    # Imported here, because `--help` and shell completion should not wait for scipy.
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.correlation import correlate, read_reports

    check_files(reports)
    present(correlate(read_reports(places)), reports, details=False, as_json=as_json)
