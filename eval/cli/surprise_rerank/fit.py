"""`surprise-rerank fit`: weights of a system's parts, learned from judged questions of an index's users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import (
    config_option,
    model_option,
    open_kept,
    open_with_model,
    takes_index,
)
from surprise_rerank.eval.cli.arguments.search import SystemChoice, pool_option
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.connectors.qdrant.search.searched import Searched
    from surprise_rerank.pipeline import FittedPipeline, Pipeline
    from surprise_rerank.rerank.weight_fitting import WeightFit

_EXAMPLES = """\b
Examples:
  surprise-rerank fit --questions queries.jsonl --qrels qrels/train.tsv --index my-index
  surprise-rerank fit --questions asked.tsv --qrels clicked.qrels --dry-run --index my-index
  surprise-rerank status --index my-index
  surprise-rerank fit --forget --index my-index
"""

_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=_EXAMPLES)
@click.option(
    "--questions",
    metavar="FILE",
    type=_file,
    help="Questions as JSON lines with _id and text (BEIR), or as id and text with a tab between (.tsv).",
)
@click.option(
    "--qrels",
    metavar="FILE",
    type=_file,
    help="Which documents answer them: question, document and relevance with tabs between (BEIR), or TREC's "
    "four columns.",
)
@click.option(
    "--system",
    type=SystemChoice(fits=True),
    default="auto",
    show_default=True,
    help="Whose weights.",
)
@pool_option
@click.option("--dry-run", is_flag=True, help="Print what would be found, and store nothing.")
@click.option("--forget", is_flag=True, help="Forget the weights of the system.")
@model_option
@config_option
@takes_index
def fit(
    *,
    location: Location,
    out: Output,
    questions: Path | None,
    qrels: Path | None,
    system: str,
    pool: int,
    dry_run: bool,
    forget: bool,
    model: str | None,
    config: str | None,
) -> None:
    """Learn the weights of a system from judged questions.

    The weights are stored with the index, and searches use them, only if they rank held-back questions better
    than the usual ones by more than chance allows. A hundred questions are a beginning.
    """
    if forget:
        if questions or qrels or dry_run:
            raise click.UsageError("--forget goes without --questions, --qrels and --dry-run")
        _forget(location, out, system, config)
        return
    if questions is None or qrels is None:
        raise click.UsageError("give both --questions FILE and --qrels FILE, or --forget")

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.connectors.systems.fitted_weights import has_weights, store_weights
    from surprise_rerank.eval.cli.arguments.questions import read_judged_questions, read_judgements

    texts, judgements = read_judged_questions(questions), read_judgements(qrels)
    with open_with_model(location, model, config) as index:
        pipeline = _unfitted(index, system, pool)
        count = sum(any(grade > 0 for grade in own.values()) for own in judgements.values())
        with Terminal(quiet=not out.shows_progress).bar("fitting", count, "questions") as advance:
            found = pipeline.fit(texts, judgements, on_progress=advance)
        stored = found.accepted and not dry_run
        if stored:
            store_weights(index, system, found)
        earlier = not stored and has_weights(index, system)
    out.result(
        {
            "index": str(location),
            "system": system,
            "stored": stored,
            "earlier_in_use": earlier,
            **_facts(found),
        },
        [f"{location}: {system}: {found}"],
    )
    _add_notes(out, found, stored=stored, earlier=earlier)


def _unfitted(index: Searched, system: str, pool: int) -> Pipeline:
    """The system with its usual weights, whatever was fitted before: fits do not build on each other."""
    from surprise_rerank.connectors.systems.building import build_system
    from surprise_rerank.pipeline import Pipeline

    built = build_system(system, index, fitted=False)
    return Pipeline(index.encoder, built.retriever, built.reranker, pool)


def _forget(location: Location, out: Output, system: str, config: str | None) -> None:
    from surprise_rerank.connectors.systems.fitted_weights import delete_weights, has_weights

    with open_kept(location, config) as index:
        if not has_weights(index, system):
            raise DataError(f"{index.where} has no fitted weights of the system {system!r}; see 'status'")
        delete_weights(index, system)
    out.result({"index": str(location), "forgotten": system}, [f"{location}: weights of {system} forgotten"])


def _facts(found: WeightFit) -> dict[str, Any]:
    return {
        "accepted": found.accepted,
        "weights": dict(found.weights),
        "start": dict(found.start),
        "questions": found.questions,
        "in_pool": found.taught,
        "before": found.before,
        "after": found.after,
        "error": found.error,
    }


def _add_notes(out: Output, found: FittedPipeline, *, stored: bool, earlier: bool) -> None:
    if out.as_json:
        return
    if not found.taught:
        out.note("no relevant document was found at all: are the ids of --qrels those of the index?")
    elif stored:
        out.note("stored with the index: searches use them from now on; --forget goes back")
    elif found.accepted:
        out.note("not stored, as --dry-run asks")
    if earlier:
        out.note("the weights of an earlier fit are still in use; --forget goes back to the usual ones")
