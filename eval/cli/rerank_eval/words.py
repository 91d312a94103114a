"""`rerank-eval words`: EvalRank of words, and the word-similarity sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.options import reports
from surprise_rerank.eval.cli.rerank_eval.study import data_option, models_option, run_study
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.studies.evalrank.settings import RankSettings, Vocabulary

if TYPE_CHECKING:
    from pathlib import Path

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval words --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval words --data benchmarks --measures cosine,l2,csls,surprise-shrunk
  rerank-eval words --data benchmarks --set post_process=yes --set vocabulary=basic --report words.html
  rerank-eval words --data benchmarks --model toy_emb.txt --set as_published=yes
  rerank-eval words --data benchmarks --model all-MiniLM-L6-v2

\b
Measures:
  cosine                 of centred vectors
  l2                     1 / (1 + distance) of centred vectors
  csls                   2 cos - r(a) - r(b), r: mean cosine to the 10 nearest neighbours
  surprise               z of the cosine, the second word being the anchor
  surprise-crossover     the same mixed with the cosine by the crossover weight
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
@models_option("glove-6b-50d")
@click.option(
    "--measures",
    metavar="NAMES",
    type=completion.Names(),
    default=RankSettings().measures,
    show_default=True,
    help="What is ranked by, with commas between; the measures are listed below.",
)
@set_option(lambda: (RankSettings, Vocabulary), but=("measures",))
@reports
def command(
    *, data: Path | None, models: tuple[str, ...], measures: tuple[str, ...], settings: Given, **ending: Any
) -> None:
    """Show whether a model ranks the similar word before 22,207 others (EvalRank), and agrees with people.

    The rank of a pair is the number of words that are more similar to its first word than its second one is.
    MR is the mean rank, MRR the mean of 1 / rank, Hits@k the share of pairs of rank k or better. The report
    also has the correlations with people's judgements on 13 word-similarity sets.
    """

    def study(terminal: Terminal) -> Report:
        from surprise_rerank.eval.studies.evalrank.data import read_word_ranking, read_word_similarity
        from surprise_rerank.eval.studies.evalrank.measures import DENSE_MEASURES, check_measures
        from surprise_rerank.eval.studies.evalrank.words import evaluate_words
        from surprise_rerank.eval.studies.sentence_models import load_sentence_models

        check_measures(measures, DENSE_MEASURES)
        task = read_word_ranking(data, settings.of(Vocabulary).vocabulary)
        sets = read_word_similarity(data)
        own = settings.of(RankSettings, measures=measures)
        return evaluate_words(load_sentence_models(models), task, sets, own, terminal)

    run_study(study, details=True, **ending)
