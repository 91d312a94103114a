"""`surprise-rerank diagnose`: whether surprise may rank better here, without labelled data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import (
    config_option,
    model_of,
    model_option,
    open_any,
    takes_index,
)
from surprise_rerank.eval.cli.arguments.questions import STANDARD_INPUT, read_questions
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.connectors.qdrant.search.searched import Searched
    from surprise_rerank.diagnosis.diagnosis import Diagnosis, Occurrences
    from surprise_rerank.surprise.ensemble import Ensemble

_BATCH = 1024  # questions whose token vectors are in memory together

_EXAMPLES = """\b
Examples:
  surprise-rerank diagnose --questions logged.txt --index my-index
  surprise-rerank diagnose --index my-index
  surprise-rerank diagnose --questions logged.txt --index my-index --json
"""

_HOW = (
    "to measure: rerank-eval --systems cosine,surprise-mixed; to use: SurpriseReranker(ensemble, weight=.5)"
)


@click.command(epilog=_EXAMPLES)
@click.option(
    "--questions",
    metavar="FILE",
    help="Questions that users ask, without answers, one a line; `-` for the standard input.  "
    "[default: titles of the index's own documents, or their first sentences]",
)
@click.option(
    "--sample",
    type=click.IntRange(min=2),
    default=1000,
    show_default=True,
    help="How many documents' titles are used in place of questions, where there is no file.",
)
@model_option
@config_option
@takes_index
def diagnose(
    *,
    location: Location,
    out: Output,
    questions: str | None,
    sample: int,
    model: str | None,
    config: str | None,
) -> None:
    """Estimate whether surprise may rank better than the cosine here.

    How narrow the model's cone is, how much documents' means and deviations over the questions differ, and
    how skewed the counts of the nearest documents are; from that, which ranking to begin with. Nothing
    is changed. Labelled questions show more: see `rerank-eval`.
    """
    given = None if questions is None else list(read_questions(questions))

    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.diagnosis.diagnosis import MOST_COUNTED
    from surprise_rerank.diagnosis.diagnosis import diagnose as diagnosis_of

    with open_any(location, model, config) as index:
        if not len(index):
            raise DataError(f"{index.where} holds no documents yet; index some first")
        texts = _titles(index, sample) if given is None else given
        ensemble = _encoded(index, texts, model, out)
        own = index.own_ensemble() if isinstance(index, Collection) else index.ensemble(MOST_COUNTED)
        found = diagnosis_of(own, ensemble, asked=given is not None)
        documents = len(index)
    source = _source(questions)
    if out.as_json:
        advised = {"advice": found.advice, "reason": found.reason}
        counts = {"documents": documents, "passages": found.documents}
        out.json({"index": str(location), "source": source, **asdict(found), **counts, **advised})
        return
    out.facts(str(location), _facts(found, documents, source))
    if found.advice == "measure":
        out.note(_HOW)


def _titles(index: Searched, count: int) -> list[str]:
    """Titles of an index's own documents, or the first sentences of those without one."""
    from surprise_rerank.connectors.systems.backgrounds import title_questions

    titles = title_questions(index.sample_documents(count), count)
    if not titles:
        raise DataError(f"{index.where}: no document has a title or a text to take for a question; give some")
    return titles


def _encoded(index: DocumentIndex | Collection, texts: list[str], model: str | None, out: Output) -> Ensemble:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.surprise.ensemble import Ensemble

    encoder = model_of(index, model)
    with Terminal(quiet=not out.shows_progress).bar("encoding", len(texts), "questions") as advance:
        parts = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
        vectors = (encoder.encode(part, kind="query", on_progress=advance).dense for part in parts)
        return Ensemble.from_batches(vectors, model=index.model)


def _source(questions: str | None) -> str:
    if questions is None:
        return "titles of its own documents"
    return "questions" if questions == STANDARD_INPUT else f"questions of {Path(questions).name}"


def _facts(found: Diagnosis, documents: int, source: str) -> list[tuple[str, str]]:
    """What was found, in words, and the advice below it."""
    passages = "" if documents == found.documents else f" in {found.documents} passages"
    return [
        ("documents", f"{documents}{passages}"),
        ("questions", f"{found.questions}, {source}"),
        ("cone", _cone(found)),
        ("mean share", f"{found.mean_share:.1%} of what cosines vary by is the same for all questions"),
        ("deviations", f"differ by {found.deviation_spread:.1%} from document to document"),
        ("near documents", _shown(found.among_documents)),
        ("near questions", _shown(found.among_questions)),
        ("advice", f"{found.advice}: {found.reason}"),
    ]


def _cone(found: Diagnosis) -> str:
    return (
        f"mean cosine {found.document_cone:.2f} of two documents, {found.question_cone:.2f} of two "
        f"questions, {found.pair_cone:.2f} of a question and a document"
    )


def _shown(counts: Occurrences) -> str:
    return (
        f"skewness {counts.skewness:.2f} (by chance {counts.chance_skewness:.2f}), {counts.unfound:.0%} are "
        f"never among the 10 nearest (by chance {counts.chance_unfound:.0%})"
    )
