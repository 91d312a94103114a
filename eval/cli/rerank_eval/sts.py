"""`rerank-eval sts`: similarities of sentences and people's judgements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.sts.settings import StsInputs, StsSettings

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval sts --data benchmarks
  rerank-eval sts --data benchmarks --model glove.840B.300d.txt --model all-MiniLM-L6-v2
  rerank-eval sts --data benchmarks --similarities all --report sts.html
  rerank-eval sts --data benchmarks --similarities cosine,wmd-raw --sets STS12,STS-B --details
  rerank-eval sts --data benchmarks --baseline max-jaccard-raw --resamples 1000
  rerank-eval sts --data benchmarks --similarities cosine --post-process

\b
In FOLDER, or in `sts` inside it:
  STS12 to STS16   STS.input.NAME.txt and STS.gs.NAME.txt, a pair and its judgement a line
  STSBenchmark     sts-train.csv, sts-dev.csv, sts-test.csv
  SICK             SICK_train.txt, SICK_trial.txt, SICK_test_annotated.txt
  STR              sem_text_rel_ranked.csv
"""


@study_command(
    "sts",
    StsSettings,
    StsInputs,
    epilog=_EPILOG,
    details="Show sub-tasks and every difference with its interval, too.",
)
def command(settings: StsSettings, inputs: StsInputs, terminal: Terminal) -> Report:
    """Compare similarities of sentences with people's judgements: STS12 to STS16, STS-B, SICK-R, STR.

    The table of years gives the mean Pearson correlation over each year's sub-tasks; differences to the
    baseline have bootstrap intervals, and a sub-task is won or lost where the interval excludes 0.
    Similarities that are fitted are fitted on the sentences of a data set, without their judgements.
    """
    from surprise_rerank.eval.studies.sentence_models import load_sentence_models
    from surprise_rerank.eval.studies.sts.data import check_names, read_data_sets
    from surprise_rerank.eval.studies.sts.evaluation import check_similarities, evaluate_sts

    check_similarities(settings)
    names = check_names(inputs.sets)
    data_sets = read_data_sets(inputs.data, names, other_parts=settings.post_process)
    return evaluate_sts(load_sentence_models(inputs.models), data_sets, settings, terminal)
