"""`rerank-eval sts`: similarities of sentences beside people's judgements."""

from __future__ import annotations

from pathlib import Path

import click

from surprise_rerank.eval.cli.options import (
    cache_option,
    data_option,
    models_option,
    present,
    quiet_option,
    report_option,
    split_names,
)

_EPILOG = """\b
Examples:
  rerank-eval sts --data benchmarks
  rerank-eval sts --data benchmarks --model glove.840B.300d.txt --model all-MiniLM-L6-v2
  rerank-eval sts --data benchmarks --similarities all --report sts.html
  rerank-eval sts --data benchmarks --similarities cosine,wmd-raw --sets STS12,STS-B --details
  rerank-eval sts --data benchmarks --baseline max-jaccard-raw --resamples 1000
  rerank-eval sts --data benchmarks --similarities cosine --post-process
  rerank-eval sts --data benchmarks --similarities sif-pc-cosine-raw --word-counts counts.txt

\b
In FOLDER, or in `sts` inside it:
  STS12 to STS16   STS.input.NAME.txt and STS.gs.NAME.txt, a pair and its judgement a line
  STSBenchmark     sts-train.csv, sts-dev.csv, sts-test.csv
  SICK             SICK_train.txt, SICK_trial.txt, SICK_test_annotated.txt
  STR              sem_text_rel_ranked.csv
"""


@click.command("sts", epilog=_EPILOG)
@data_option
@models_option
@click.option(
    "--similarities",
    metavar="NAMES",
    help="With commas between: names of the registry, `cosine` for that of the model's own sentence vectors, "
    "or `all`.  [default: the paper's, over raw word vectors, or over unit token vectors of an encoder]",
)
@click.option(
    "--baseline",
    metavar="NAME",
    default="cosine",
    show_default=True,
    help="The similarity that the others are compared with.",
)
@click.option(
    "--sets",
    metavar="NAMES",
    default="STS12,STS13,STS14,STS15,STS16,STS-B,SICK-R,STR",
    show_default=True,
    help="Data sets, with commas between; also STS-B-dev, STS-B-train, SICK-R-trial, SICK-R-train, "
    "STR-characters.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    help="Bootstrap resamples for the intervals of differences; 0 for no intervals.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the resamples.")
@click.option(
    "--post-process",
    is_flag=True,
    help="Measure `cosine` once more, without the first two principal components of a data set's sentence "
    "vectors; `+pp` behind the model's name marks it.",
)
@click.option(
    "--word-counts",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="How often words are used, a word and its count a line, for SIF.  [default: in the sentences]",
)
@click.option("--details", is_flag=True, help="Show sub-tasks and every difference with its interval, too.")
@cache_option
@report_option
@quiet_option
def command(
    *,
    data: Path | None,
    models: tuple[str, ...],
    similarities: str | None,
    baseline: str,
    sets: str,
    resamples: int,
    seed: int,
    post_process: bool,
    word_counts: Path | None,
    details: bool,
    cache: Path | None,
    reports: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Compare similarities of sentences with people's judgements: STS12 to STS16, STS-B, SICK-R, STR.

    The table of years gives the mean Pearson correlation over each year's sub-tasks; differences to the
    baseline have bootstrap intervals, and a sub-task is won or lost where the interval excludes 0.
    Similarities that are fitted are fitted on the sentences of a data set, without their judgements.
    """
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.sentence_models import load_sentence_models
    from surprise_rerank.eval.studies.sts.data import check_names, read_data_sets
    from surprise_rerank.eval.studies.sts.evaluation import Settings, evaluate_sts
    from surprise_rerank.eval.studies.sts.word_counts import read_word_counts

    check_files(reports)
    names = check_names(split_names(sets))
    settings = Settings(
        None if similarities is None else split_names(similarities),
        baseline,
        resamples,
        seed,
        post_process,
        None if word_counts is None else read_word_counts(word_counts),
    )
    terminal = Terminal(quiet=quiet)
    data_sets = read_data_sets(data, names, beside=post_process)
    loaded = load_sentence_models(models, cache)
    present(evaluate_sts(loaded, data_sets, settings, terminal), reports, details=details)
