"""`rerank-eval sentences`: EvalRank of sentences."""

from __future__ import annotations

from pathlib import Path

import click

from surprise_rerank.core.settings import split_names
from surprise_rerank.eval.cli.options import (
    cache_option,
    data_option,
    models_option,
    present,
    quiet_option,
    report_option,
)

_EPILOG = """\b
Examples:
  rerank-eval sentences --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval sentences --data benchmarks --model all-MiniLM-L6-v2 --report sentences.html
  rerank-eval sentences --data benchmarks --measures cosine,csls,surprise-shrunk --post-process
  rerank-eval sentences --data benchmarks --measures cosine,dynamax-jaccard-raw
  rerank-eval sentences --data benchmarks --model toy_emb.txt --measures cosine --as-published

\b
Measures of sentence vectors:
  cosine, l2, csls, surprise, surprise-pure, surprise-mixed, surprise-pooled, surprise-pooled-mixed,
  surprise-shrunk: as those of `rerank-eval words`
Measures of token vectors, which take some minutes each; `-raw` behind a name keeps their lengths:
  dynamax, dynamax-jaccard, max-jaccard and the rest of `rerank-eval --list-systems`

\b
In FOLDER, or in `evalrank` inside it:
  sent_evalrank     pos_pair.txt, background_sent.txt
"""


@click.command("sentences", epilog=_EPILOG)
@data_option
@models_option
@click.option(
    "--measures",
    metavar="NAMES",
    default="cosine,l2,surprise",
    show_default=True,
    help="What sentences are ranked by, with commas between; they are listed below.",
)
@click.option(
    "--post-process",
    is_flag=True,
    help="Measure sentence vectors once more, without their first two principal components; `+pp` behind the "
    "model's name marks it.",
)
@click.option(
    "--as-published",
    is_flag=True,
    help="Let the last bits of cosine and l2 decide between equal similarities, as in the published figures.",
)
@cache_option
@report_option
@quiet_option
def command(
    *,
    data: Path | None,
    models: tuple[str, ...],
    measures: str,
    post_process: bool,
    as_published: bool,
    cache: Path | None,
    reports: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Tell whether a model ranks the similar sentence before 24,957 others (EvalRank).

    The rank of a pair is the number of sentences that are more similar to its first sentence than its second
    one is. MR is the mean rank, MRR the mean of 1 / rank, Hits@k the share of pairs of rank k or better.
    """
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.evalrank.data import read_sentence_ranking
    from surprise_rerank.eval.studies.evalrank.measures import check_measures
    from surprise_rerank.eval.studies.evalrank.sentences import evaluate_sentences, sentence_measures
    from surprise_rerank.eval.studies.sentence_models import load_sentence_models

    check_files(reports)
    names = split_names(measures)
    check_measures(names, sentence_measures())
    task = read_sentence_ranking(data)
    report = evaluate_sentences(
        load_sentence_models(models, cache),
        task,
        measures=names,
        post_process=post_process,
        as_published=as_published,
        terminal=Terminal(quiet=quiet),
    )
    present(report, reports)
