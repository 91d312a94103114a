"""`rerank-eval sentences`: EvalRank of sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.options import reports
from surprise_rerank.eval.cli.rerank_eval.study import data_option, models_option, run_study
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.studies.evalrank.settings import RankSettings

if TYPE_CHECKING:
    from pathlib import Path

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval sentences --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval sentences --data benchmarks --model all-MiniLM-L6-v2 --report sentences.html
  rerank-eval sentences --data benchmarks --measures cosine,csls,surprise-shrunk --set post_process=yes
  rerank-eval sentences --data benchmarks --measures cosine,dynamax-jaccard-raw
  rerank-eval sentences --data benchmarks --model toy_emb.txt --measures cosine --set as_published=yes

\b
Measures of sentence vectors:
  cosine, l2, csls, surprise, surprise-crossover, surprise-mixed, surprise-pooled,
  surprise-pooled-mixed, surprise-shrunk: as those of `rerank-eval words`
Measures of token vectors; `-raw` after a name keeps their lengths. Those of DynaMax take some
minutes each; the others have no fast form and take hours:
  dynamax, dynamax-jaccard, max-jaccard and the rest of `rerank-eval --systems help`

\b
In FOLDER, or in `evalrank` inside it:
  sent_evalrank     pos_pair.txt, background_sent.txt
"""


@click.command("sentences", epilog=_EPILOG)
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
@set_option(lambda: (RankSettings,), but=("measures",))
@reports
def command(
    *, data: Path | None, models: tuple[str, ...], measures: tuple[str, ...], settings: Given, **ending: Any
) -> None:
    """Show whether a model ranks the similar sentence before 24,957 others (EvalRank).

    The rank of a pair is the number of sentences that are more similar to its first sentence than its second
    one is. MR is the mean rank, MRR the mean of 1 / rank, Hits@k the share of pairs of rank k or better.
    """

    def study(terminal: Terminal) -> Report:
        from surprise_rerank.eval.studies.evalrank.data import read_sentence_ranking
        from surprise_rerank.eval.studies.evalrank.measures import check_measures
        from surprise_rerank.eval.studies.evalrank.sentences import evaluate_sentences, sentence_measures
        from surprise_rerank.eval.studies.sentence_models import load_sentence_models

        check_measures(measures, sentence_measures())
        task = read_sentence_ranking(data)
        own = settings.of(RankSettings, measures=measures)
        return evaluate_sentences(load_sentence_models(models), task, own, terminal)

    run_study(study, details=True, **ending)
