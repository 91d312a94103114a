"""`surprise-rerank ensemble`: what surprise is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.eval.cli.arguments.location import (
    model_of,
    model_option,
    open_index,
    takes_index,
    with_model,
)
from surprise_rerank.eval.cli.arguments.questions import STANDARD_INPUT, read_questions
from surprise_rerank.eval.cli.exits import when_interrupted
from surprise_rerank.eval.cli.output.console import Output
from surprise_rerank.eval.cli.surprise_rerank.status import DOCUMENTS, ensemble_facts, members

if TYPE_CHECKING:
    import numpy as np

    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.surprise.ensemble import Ensemble

_BATCH = 1024  # questions whose token vectors are in memory together
_RESUMED = "What was changed stays; 'surprise-rerank ensemble refresh' goes on."

_EXAMPLES = """\b
Examples:
  surprise-rerank ensemble set --documents --index my-index
  surprise-rerank ensemble set --questions questions.txt --index my-index
  surprise-rerank ensemble add --questions more.txt --index my-index
  surprise-rerank ensemble refresh --index my-index
  surprise-rerank ensemble save ensemble.npz --index my-index
  surprise-rerank ensemble show --index my-index --json
"""

_SET_EXAMPLES = """\b
Examples:
  surprise-rerank ensemble set --documents --index my-index
  surprise-rerank ensemble set --questions questions.txt --index my-index
  surprise-rerank ensemble set --npz ensemble.npz --shrink-deviation 1 --index my-index
"""

_ADD_EXAMPLES = """\b
Examples:
  surprise-rerank ensemble add --questions more.txt --index my-index
  cat today.log | surprise-rerank ensemble add --questions - --index my-index
"""

_REFRESH_EXAMPLES = """\b
Examples:
  surprise-rerank ensemble refresh --index my-index
"""

_SAVE_EXAMPLES = """\b
Examples:
  surprise-rerank ensemble save ensemble.npz --index my-index
  surprise-rerank ensemble save ensemble.npz --questions questions.txt --index my-index
"""

_SHOW_EXAMPLES = """\b
Examples:
  surprise-rerank ensemble show --index my-index
"""

_documents_option = click.option("--documents", is_flag=True, help="All documents of the index.")
_questions_option = click.option(
    "--questions", metavar="FILE", help="The questions of a file, one a line; `-` for the standard input."
)
_share = click.FloatRange(0, 1)


@click.group(epilog=_EXAMPLES, invoke_without_command=True)
@click.pass_context
def ensemble(context: click.Context) -> None:
    """Set and show what surprise is measured against."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@ensemble.command("set", epilog=_SET_EXAMPLES)
@_documents_option
@_questions_option
@click.option("--npz", metavar="FILE", help="What `ensemble save` or `Ensemble.save` wrote.")
@click.option(
    "--shrink-mean", type=_share, default=0.0, help="How far means are moved to the one that all share."
)
@click.option(
    "--shrink-deviation", type=_share, default=0.0, help="The same for deviations; 1 is the pooled model."
)
@model_option
@takes_index
def set_ensemble(
    *,
    location: Location,
    out: Output,
    documents: bool,
    questions: str | None,
    npz: str | None,
    shrink_mean: float,
    shrink_deviation: float,
    model: str | None,
) -> None:
    """Choose what surprise is measured against.

    Documents, questions or a saved ensemble. Every document gets its mean and deviation over it in one pass;
    documents that are indexed later get theirs then.
    """
    if [documents, questions is not None, npz is not None].count(True) != 1:
        raise click.UsageError("give one of --documents, --questions FILE and --npz FILE")
    with when_interrupted(_RESUMED), open_index(location) as index:
        if npz is not None:
            chosen, source = _loaded(npz), Path(npz).name
        else:
            chosen, source = _members(index, questions, model)
        changed = index.set_ensemble(
            chosen,
            source=source,
            shrink_mean=shrink_mean,
            shrink_deviation=shrink_deviation,
            show_progress=out.shows_progress,
        )
        _report_change(out, location, index, changed)


@ensemble.command(epilog=_ADD_EXAMPLES)
@click.option(
    "--questions",
    metavar="FILE",
    required=True,
    help="The questions of a file, one a line; `-` for the standard input.",
)
@model_option
@takes_index
def add(*, location: Location, out: Output, questions: str, model: str | None) -> None:
    """Add questions to the ensemble.

    Documents keep their statistics until `surprise-rerank ensemble refresh`, and searches use those.
    """
    texts = list(read_questions(questions))
    with with_model(open_index(location), location, model) as index:
        if index.manifest.latest is None:
            raise IndexMismatchError(f"{index.where} has no ensemble yet; set one with 'ensemble set'")
        count = index.add_questions(texts)
        behind = index.status().behind
        values = {"index": str(location), "added": len(texts), "members": count, "behind": behind}
        line = f"{location}: {len(texts)} questions added, {count} members; {behind} documents are behind"
        out.result(values, [line])
        out.note("'surprise-rerank ensemble refresh' brings them up to date")


@ensemble.command(epilog=_REFRESH_EXAMPLES)
@takes_index
def refresh(*, location: Location, out: Output) -> None:
    """Bring the statistics up to date.

    Every document gets its mean and deviation over the ensemble as it is now; an interrupted pass goes on.
    """
    with when_interrupted(_RESUMED), open_index(location) as index:
        if index.manifest.latest is None:
            raise IndexMismatchError(f"{index.where} has no ensemble yet; set one with 'ensemble set'")
        _report_change(out, location, index, index.refresh_statistics(show_progress=out.shows_progress))


@ensemble.command(epilog=_SAVE_EXAMPLES)
@click.argument("file", type=click.Path(dir_okay=False))
@_documents_option
@_questions_option
@model_option
@takes_index
def save(
    *, location: Location, out: Output, file: str, documents: bool, questions: str | None, model: str | None
) -> None:
    """Write an ensemble to FILE (.npz).

    The index's own, or one of its documents or of questions, which changes nothing in the index.
    """
    if documents and questions is not None:
        raise click.UsageError("give --documents or --questions FILE, or neither for the index's ensemble")
    if not file.endswith(".npz"):
        raise DataError(f"{file}: give a name that ends in .npz, by which ensembles are known")
    if not Path(file).absolute().parent.is_dir():
        raise DataError(f"{file}: there is no folder {Path(file).parent}; make it, or choose another place")
    with open_index(location) as index:
        if documents or questions is not None:
            found, source = _members(index, questions, model)
        else:
            found, source = _in_use(index, out)
        found.save(file)
        shown = members(index.status(), found.count, source)
    values = {"file": file, "ensemble": found.identity, "members": found.count, "source": source}
    out.result(values, [f"{file}: {found.identity}, {shown}"])


@ensemble.command(epilog=_SHOW_EXAMPLES)
@takes_index
def show(*, location: Location, out: Output) -> None:
    """Show what the ensemble is.

    Where it comes from, how many members it has, and how many points carry statistics of another one.
    """
    with open_index(location) as index:
        state = index.status()
    if out.as_json:
        values = state.manifest.to_json()
        out.json(
            {
                "index": str(location),
                **{n: values[n] for n in ("statistics", "latest")},
                "behind": state.behind,
            }
        )
    else:
        out.facts(str(location), ensemble_facts(state))


def _report_change(out: Output, location: Location, index: DocumentIndex, changed: int) -> None:
    record = index.manifest.statistics
    assert record is not None
    values = {
        "index": str(location),
        "ensemble": record.ensemble,
        "members": record.count,
        "source": record.source,
        "changed": changed,
    }
    of = members(index.status(), record.count, record.source)
    out.result(values, [f"{location}: ensemble {record.ensemble} of {of}; {changed} documents changed"])


def _loaded(file: str) -> Ensemble:
    from surprise_rerank.surprise.ensemble import Ensemble

    return Ensemble.load(file)


def _members(index: DocumentIndex, questions: str | None, model: str | None) -> tuple[Ensemble, str]:
    """An ensemble of questions, or of the documents, and its source in words."""
    if questions is None:
        if not len(index):
            raise DataError(f"{index.where} holds no documents yet; index some first")
        return index.ensemble(), DOCUMENTS
    from surprise_rerank.surprise.ensemble import Ensemble

    source = "questions" if questions == STANDARD_INPUT else f"questions of {Path(questions).name}"
    vectors = _question_vectors(index, questions, model)
    return Ensemble.from_batches(vectors, model=index.manifest.model), source


def _question_vectors(index: DocumentIndex, questions: str, model: str | None) -> Iterator[np.ndarray]:
    """(n, d) vectors of questions, some at a time."""
    texts = read_questions(questions)
    batch = list(islice(texts, _BATCH))  # errors of the file come before the model is loaded
    encoder = model_of(index, model)
    while batch:
        yield encoder.encode(batch, kind="query").dense
        batch = list(islice(texts, _BATCH))


def _in_use(index: DocumentIndex, out: Output) -> tuple[Ensemble, str]:
    manifest, found = index.manifest, index.statistics()
    if found is None:
        todo = (
            "set one with 'ensemble set'" if manifest.latest is None else "finish it with 'ensemble refresh'"
        )
        raise IndexMismatchError(f"{index.where} has no ensemble in use; {todo}")
    if manifest.latest != manifest.statistics:
        out.note("what was added since the last 'ensemble refresh' is not in it")
    return found.ensemble, found.record.source
