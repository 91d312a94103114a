"""`rerank-eval sts`: similarities of sentences and people's judgements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.options import reports
from surprise_rerank.eval.cli.rerank_eval.study import data_option, models_option, run_study
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.studies.sts.settings import DataSets, StsSettings

if TYPE_CHECKING:
    from pathlib import Path

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval sts --data benchmarks
  rerank-eval sts --data benchmarks --model glove.840B.300d.txt --model all-MiniLM-L6-v2
  rerank-eval sts --data benchmarks --similarities all --report sts.html
  rerank-eval sts --data benchmarks --similarities cosine,wmd-raw --set sets=STS12,STS-B
  rerank-eval sts --data benchmarks --baseline max-jaccard-raw --set resamples=1000
  rerank-eval sts --data benchmarks --similarities cosine --set post_process=yes

\b
In FOLDER, or in `sts` inside it:
  STS12 to STS16   STS.input.NAME.txt and STS.gs.NAME.txt, a pair and its judgement a line
  STSBenchmark     sts-train.csv, sts-dev.csv, sts-test.csv
  SICK             SICK_train.txt, SICK_trial.txt, SICK_test_annotated.txt
  STR              sem_text_rel_ranked.csv
"""


@click.command("sts", epilog=_EPILOG)
@data_option
@models_option("glove-6b-50d")
@click.option(
    "--similarities",
    metavar="NAMES",
    type=completion.similarities,
    help="With commas between: names of the register, `cosine` for that of the model's own sentence vectors, "
    "or `all`.  [default: the paper's, over raw word vectors, or over unit token vectors of an encoder]",
)
@click.option(
    "--baseline",
    metavar="NAME",
    default=StsSettings().baseline,
    show_default=True,
    help="The similarity that the others are compared with.",
)
@set_option(lambda: (StsSettings, DataSets), but=("similarities", "baseline"))
@reports
def command(
    *,
    data: Path | None,
    models: tuple[str, ...],
    similarities: tuple[str, ...] | None,
    baseline: str,
    settings: Given,
    **ending: Any,
) -> None:
    """Compare similarities of sentences with people's judgements: STS12 to STS16, STS-B, SICK-R, STR.

    The table of years gives the mean Pearson correlation over each year's sub-tasks; differences to the
    baseline have bootstrap intervals, and a sub-task is won or lost where the interval excludes 0.
    Similarities that are fitted are fitted on the sentences of a data set, without their judgements.
    """

    def study(terminal: Terminal) -> Report:
        from surprise_rerank.eval.studies.sentence_models import load_sentence_models
        from surprise_rerank.eval.studies.sts.data import check_names, read_data_sets
        from surprise_rerank.eval.studies.sts.evaluation import check_similarities, evaluate_sts

        own = settings.of(StsSettings, similarities=similarities, baseline=baseline)
        check_similarities(own)
        names = check_names(settings.of(DataSets).sets)
        data_sets = read_data_sets(data, names, other_parts=own.post_process)
        return evaluate_sts(load_sentence_models(models), data_sets, own, terminal)

    run_study(study, **ending)
