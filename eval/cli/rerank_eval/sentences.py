"""`rerank-eval sentences`: EvalRank of sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.eval.cli.rerank_eval.study_command import study_command
from surprise_rerank.eval.studies.evalrank.settings import RankSettings
from surprise_rerank.eval.studies.settings import SentenceInputs

if TYPE_CHECKING:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.report import Report

_EPILOG = """\b
Examples:
  rerank-eval sentences --data benchmarks --model toy_emb.txt --model glove-6b-50d
  rerank-eval sentences --data benchmarks --model all-MiniLM-L6-v2 --report sentences.html
  rerank-eval sentences --data benchmarks --measures cosine,csls,surprise-shrunk --post-process
  rerank-eval sentences --data benchmarks --measures cosine,dynamax-jaccard-raw
  rerank-eval sentences --data benchmarks --model toy_emb.txt --measures cosine --as-published

\b
Measures of sentence vectors:
  cosine, l2, csls, surprise, surprise-crossover, surprise-mixed, surprise-pooled,
  surprise-pooled-mixed, surprise-shrunk: as those of `rerank-eval words`
Measures of token vectors; `-raw` after a name keeps their lengths. Those of DynaMax take some
minutes each; the others have no fast form and take hours:
  dynamax, dynamax-jaccard, max-jaccard and the rest of `rerank-eval --list-systems`

\b
In FOLDER, or in `evalrank` inside it:
  sent_evalrank     pos_pair.txt, background_sent.txt
"""


@study_command(
    "sentences",
    RankSettings,
    SentenceInputs,
    epilog=_EPILOG,
)
def command(settings: RankSettings, inputs: SentenceInputs, terminal: Terminal) -> Report:
    """Show whether a model ranks the similar sentence before 24,957 others (EvalRank).

    The rank of a pair is the number of sentences that are more similar to its first sentence than its second
    one is. MR is the mean rank, MRR the mean of 1 / rank, Hits@k the share of pairs of rank k or better.
    """
    from surprise_rerank.eval.studies.evalrank.data import read_sentence_ranking
    from surprise_rerank.eval.studies.evalrank.measures import check_measures
    from surprise_rerank.eval.studies.evalrank.sentences import evaluate_sentences, sentence_measures
    from surprise_rerank.eval.studies.sentence_models import load_sentence_models

    check_measures(settings.measures, sentence_measures())
    task = read_sentence_ranking(inputs.data)
    return evaluate_sentences(load_sentence_models(inputs.models), task, settings, terminal)
