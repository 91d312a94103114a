"""`surprise-rerank background`: other questions, which a question's best document is measured against."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import (
    config_option,
    model_option,
    open_kept,
    open_with_model,
    takes_index,
)
from surprise_rerank.eval.cli.arguments.questions import read_questions
from surprise_rerank.eval.cli.arguments.search import SystemChoice, pool_option
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.thresholds.background import QuestionBackground

# Levels whose thresholds `show` prints.
_LEVELS = (0.2, 0.1, 0.05, 0.01)

_EXAMPLES = """\b
Examples:
  surprise-rerank background show --index my-index
  surprise-rerank background set --questions other-questions.txt --index my-index
  surprise-rerank background set --titles beir/nfcorpus --index my-index
  surprise-rerank background calibrate --questions asked.tsv --qrels judged.tsv --index my-index
  surprise-rerank search "how do I return a parcel?" --min-surprise .95 --index my-index
"""

_SET_EXAMPLES = """\b
Examples:
  surprise-rerank background set --index my-index
  surprise-rerank background set --questions other-questions.txt --index my-index
  surprise-rerank background set --titles demo --titles ./novels --index my-index
  surprise-rerank background set --questions logged.txt --system cosine --index my-index
"""

_SHOW_EXAMPLES = """\b
Examples:
  surprise-rerank background show --index my-index
  surprise-rerank background show --index my-index --json
"""

_CALIBRATE_EXAMPLES = """\b
Examples:
  surprise-rerank background calibrate --questions asked.tsv --qrels judged.tsv --index my-index
"""

_DELETE_EXAMPLES = """\b
Examples:
  surprise-rerank background delete --system cosine --index my-index
"""

_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_system_option = click.option(
    "--system",
    type=SystemChoice(),
    help="Whose candidates they are measured by.  [default: the best that the index stores enough for]",
)


@click.group(epilog=_EXAMPLES, invoke_without_command=True)
@click.pass_context
def background(context: click.Context) -> None:
    """Set and show what a question's best document is measured against.

    Background questions have nothing to do with the documents. The share of them whose best document scores
    less than a document is its surprise: with `search --min-surprise .95`, one in twenty such questions gets
    an answer, whatever the model and the system. `index` makes a background of 300 questions that come with
    the package, and measures it again when there are twice as many documents.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@background.command("set", epilog=_SET_EXAMPLES)
@click.option(
    "--questions", metavar="FILE", help="The questions of a file, one a line; `-` for the standard input."
)
@click.option(
    "--titles",
    metavar="SOURCE",
    multiple=True,
    help="Titles of other documents in place of questions: a file, folder or data set, as for `index`. "
    "Several times.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How many titles of each source are drawn.",
)
@pool_option
@_system_option
@model_option
@config_option
@takes_index
def set_background(
    *,
    location: Location,
    out: Output,
    questions: str | None,
    titles: tuple[str, ...],
    sample: int,
    pool: int,
    system: str | None,
    model: str | None,
    config: str | None,
) -> None:
    """Measure what background questions find at best.

    Without --questions and --titles they are 300 that come with the package. Some hundred are enough for .95,
    which needs 19 at the least; near-duplicates count as one. The index keeps the questions, and asks them
    again when there are twice as many documents.
    """
    if questions is not None and titles:
        raise click.UsageError("give --questions FILE or --titles SOURCE (not both)")
    texts = origin = None
    if questions is not None:
        texts, origin = list(read_questions(questions)), questions
    elif titles:
        texts, origin = _titles(titles, sample), f"titles of {', '.join(titles)}"

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.connectors.systems.inputs import inputs_of
    from surprise_rerank.thresholds.varied_questions import USUAL

    with open_with_model(location, model, config) as index:
        name = system or inputs_of(index).default
        count = USUAL if texts is None else len(texts)
        with Terminal(quiet=not out.shows_progress).bar("background", count, "questions") as advance:
            measured = index.store_background(
                texts, name, depth=pool, origin=origin or "", on_progress=advance
            )
    line = f"{location}: {name}: {measured.size} can measure a surprise of at most {measured.highest:.4f}"
    out.result({"index": str(location), **background_facts(name, measured)}, [line])


@background.command(epilog=_SHOW_EXAMPLES)
@config_option
@takes_index
def show(*, location: Location, out: Output, config: str | None) -> None:
    """Show which backgrounds there are.

    For each system: how many questions, from where and when, over how many documents, and whether it is
    stale; and what a threshold lets through with its 95 % interval.
    """
    from surprise_rerank.connectors.systems.backgrounds import staleness

    with open_kept(location, config) as index:
        known, documents = index.backgrounds(), len(index)
    if out.as_json:
        facts = [
            {**background_facts(name, own), "stale": staleness(own, documents)} for name, own in known.items()
        ]
        out.json({"index": str(location), "documents": documents, "backgrounds": facts})
        return
    if not known:
        out.line(f"{location}: no background; make one with 'surprise-rerank background set'")
    for name, own in known.items():
        stale = staleness(own, documents)
        values = [
            ("scores", ", ".join(own.names)),
            ("questions", "; ".join(part for part in (own.size, own.alike) if part)),
            *([("from", own.origin)] if own.origin else []),
            ("made by", " on ".join(part for part in (own.scorer, own.made) if part)),
            ("documents", f"{own.documents} (now {documents})"),
            *([("stale", f"{stale}; run index or background set")] if stale else []),
            ("chance", _chance(own)),
        ]
        values += [(f"at {1 - level:g}", f"passes {_promised(own, level)}") for level in _levels(own)]
        out.facts(f"{location}: {name}", values)


@background.command(epilog=_CALIBRATE_EXAMPLES)
@click.option("--questions", metavar="FILE", type=_file, required=True, help="As for `fit`.")
@click.option("--qrels", metavar="FILE", type=_file, required=True, help="As for `fit`.")
@_system_option
@model_option
@config_option
@takes_index
def calibrate(
    *,
    location: Location,
    out: Output,
    questions: Path,
    qrels: Path,
    system: str | None,
    model: str | None,
    config: str | None,
) -> None:
    """Learn from judged questions how often the first ten documents contain an answer.

    The chance of an answer is that of other collections until then. Ten questions are the least, fifty are
    better. Longer questions than twice the longest of them have no chance afterwards.
    """
    from surprise_rerank.connectors.systems.inputs import inputs_of
    from surprise_rerank.eval.cli.arguments.questions import read_judged_questions, read_judgements

    texts, judgements = read_judged_questions(questions), read_judgements(qrels)
    with open_with_model(location, model, config) as index:
        name = system or inputs_of(index).default
        chance = index.calibrate_chance(texts, judgements, name)
    values = {"index": str(location), "system": name, **asdict(chance)}
    out.result(
        values, [f"{location}: {name}: the chance of an answer, from {chance.judged} judged questions"]
    )


@background.command(epilog=_DELETE_EXAMPLES)
@click.option("--system", type=SystemChoice(), required=True, help="Whose background goes.")
@config_option
@takes_index
def delete(*, location: Location, out: Output, system: str, config: str | None) -> None:
    """Forget the background of a system."""
    from surprise_rerank.connectors.systems.backgrounds import delete_background, has_background

    with open_kept(location, config) as index:
        if not has_background(index, system):
            raise DataError(
                f"{index.where} has no background for the system {system!r}; see 'background show'"
            )
        delete_background(index, system)
    out.result({"index": str(location), "deleted": system}, [f"{location}: background of {system} deleted"])


def _titles(sources: tuple[str, ...], sample: int) -> list[str]:
    from surprise_rerank.connectors.readers import open_documents
    from surprise_rerank.connectors.systems.backgrounds import title_questions

    found = [question for name in sources for question in title_questions(open_documents(name), sample)]
    if not found:
        raise DataError(f"{', '.join(sources)}: no document has a title or a text to take for a question")
    return found


def background_facts(name: str, own: QuestionBackground) -> dict[str, object]:
    """What JSON says of a system's background, here and in `status`."""
    return {
        "system": name,
        "scorers": list(own.names),
        "questions": own.count,
        "effective": own.effective,
        "origin": own.origin,
        "made": own.made,
        "calibrated_on": 0 if own.chance is None else own.chance.judged,
        "documents": own.documents,
        "made_by": own.scorer,
        "highest": own.highest,
        "promises": {f"{1 - level:g}": own.promise(level) for level in _levels(own)},
    }


def _promised(own: QuestionBackground, level: float) -> str:
    low, high = own.promise(level)
    share, known = f"{100 * level:.3g} %", f"95 % interval {100 * low:.2g} to {100 * high:.2g}"
    return f"{share}, {known}, from {own.effective:.0f} questions"


def _chance(own: QuestionBackground) -> str:
    if own.chance is None:
        return "that of other collections"
    return f"calibrated on {own.chance.judged} judged questions of up to {own.chance.longest} words"


def _levels(own: QuestionBackground) -> list[float]:
    """The levels that the questions suffice for."""
    return [level for level in _LEVELS if 1 - level <= own.highest]
