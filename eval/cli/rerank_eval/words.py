"""`rerank-eval words`: EvalRank of words, and the word-similarity sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

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

if TYPE_CHECKING:
    from surprise_rerank.eval.studies.evalrank.data import Background

_EPILOG = """\b
Examples:
  rerank-eval words --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval words --data benchmarks --measures cosine,l2,csls,surprise-shrunk
  rerank-eval words --data benchmarks --post-process --background basic --report words.html
  rerank-eval words --data benchmarks --model toy_emb.txt --as-published
  rerank-eval words --data benchmarks --model all-MiniLM-L6-v2

\b
Measures:
  cosine                 of centred vectors
  l2                     1 / (1 + distance) of centred vectors
  csls                   2 cos - r(a) - r(b), r: mean cosine to the 10 nearest neighbours
  surprise               of the cosine, the second word being the anchor; crossover weight
  surprise-pure          the same without the crossover: z alone
  surprise-mixed         the same with w = .5
  surprise-pooled        z with one deviation for all words (-mixed: with w = .5)
  surprise-shrunk        z with means and variances moved half way to those of all words

\b
In FOLDER, or in `evalrank` inside it:
  word_evalrank     pos_pair_5514.txt, basic_vocab.txt, wiki_vocab.txt
  word_similarity   EN-WS-353-ALL.txt and twelve more
"""


@click.command("words", epilog=_EPILOG)
@data_option
@models_option
@click.option(
    "--measures",
    metavar="NAMES",
    default="cosine,l2,surprise",
    show_default=True,
    help="What words are ranked by, with commas between; they are listed below.",
)
@click.option(
    "--background",
    type=click.Choice(["pairs", "basic", "wiki"]),
    default="wiki",
    show_default=True,
    help="Among which words: those of the pairs; with the basic vocabulary; with that of Wikipedia, too.",
)
@click.option(
    "--post-process",
    is_flag=True,
    help="Measure once more, without the first two principal components of the vocabulary; `+pp` behind the "
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
    background: str,
    post_process: bool,
    as_published: bool,
    cache: Path | None,
    reports: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Tell whether a model ranks the similar word before 22,207 others (EvalRank), and agrees with people.

    The rank of a pair is the number of words that are more similar to its first word than its second one is.
    MR is the mean rank, MRR the mean of 1 / rank, Hits@k the share of pairs of rank k or better. Beside it,
    the correlations with people's judgements on 13 word-similarity sets.
    """
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.evalrank.data import read_word_ranking, read_word_similarity
    from surprise_rerank.eval.studies.evalrank.measures import (
        DENSE_MEASURES,
        DenseMeasure,
        check_measures,
    )
    from surprise_rerank.eval.studies.evalrank.words import evaluate_words
    from surprise_rerank.eval.studies.sentence_models import load_sentence_models

    check_files(reports)
    names = split_names(measures)
    check_measures(names, DENSE_MEASURES)
    task = read_word_ranking(data, cast("Background", background))
    sets = read_word_similarity(data)
    report = evaluate_words(
        load_sentence_models(models, cache),
        task,
        sets,
        measures=cast("tuple[DenseMeasure, ...]", names),
        post_process=post_process,
        as_published=as_published,
        terminal=Terminal(quiet=quiet),
    )
    present(report, reports)
