"""`surprise-rerank tune`: the ensemble, the background questions and the weights of an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.exits import when_interrupted
from surprise_rerank.eval.cli.opening import model_of, open_index, open_kept, open_with_model
from surprise_rerank.eval.cli.options import FILE, SystemChoice, config_option, model_option, takes_index
from surprise_rerank.eval.cli.output.console import Output
from surprise_rerank.eval.cli.settings import Given, set_option
from surprise_rerank.eval.cli.surprise_rerank.status import DOCUMENTS, LEVELS, background_facts, members
from surprise_rerank.eval.questions import (
    STANDARD_INPUT,
    read_judged_questions,
    read_judgements,
    read_questions,
)

if TYPE_CHECKING:
    import numpy as np

    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.surprise.ensemble import Ensemble

_BATCH = 1024  # questions whose token vectors are in memory together
_EXAMPLES = """\b
Examples:
  surprise-rerank tune ensemble --index my-index
  surprise-rerank tune background --questions others.txt --index my-index
  surprise-rerank tune weights --questions queries.jsonl --qrels qrels/train.tsv --index my-index
  surprise-rerank status --index my-index
"""
_ENSEMBLE = """\b
Examples:
  surprise-rerank tune ensemble --index my-index
  surprise-rerank tune ensemble --questions questions.txt --index my-index
  surprise-rerank tune ensemble --index my-index --set shrink_deviation=1
"""
_BACKGROUND = """\b
Examples:
  surprise-rerank tune background --index my-index
  surprise-rerank tune background --questions others.txt --index my-index
  surprise-rerank tune background --questions asked.tsv --qrels judged.tsv --index my-index
  surprise-rerank tune background --reset --system cosine --index my-index
  surprise-rerank search "how do I return a parcel?" --min-surprise .95 --index my-index
"""
_WEIGHTS = """\b
Examples:
  surprise-rerank tune weights --questions queries.jsonl --qrels qrels/train.tsv --index my-index
  surprise-rerank tune weights --questions asked.tsv --qrels clicked.qrels --system fusion --index my-index
  surprise-rerank tune weights --reset --index my-index
"""

_questions_option = click.option(
    "--questions", metavar="FILE", help="Questions, one a line; `-` for the standard input."
)
_judged_option = click.option(
    "--questions",
    metavar="FILE",
    type=FILE,
    help="Questions as JSON lines with _id and text (BEIR), or as id and text with a tab between (.tsv).",
)
_qrels_option = click.option(
    "--qrels",
    metavar="FILE",
    type=FILE,
    help="Which documents answer them: question, document and relevance with tabs between (BEIR), or TREC's "
    "four columns.",
)


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """What `tune ensemble --set` has.

    Attributes:
        shrink_mean: how far documents' means are moved to the one that all share, from 0 to 1.
        shrink_deviation: the same for deviations, 1 being the pooled model.
    """

    shrink_mean: float = 0.0
    shrink_deviation: float = 0.0


@click.group(epilog=_EXAMPLES, invoke_without_command=True)
@click.pass_context
def tune(context: click.Context) -> None:
    """Fit an index to its users' questions: what surprise is measured against, thresholds, weights."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@tune.command(epilog=_ENSEMBLE)
@_questions_option
@set_option(lambda: (EnsembleSettings,))
@model_option
@takes_index
def ensemble(
    *, location: Location, out: Output, questions: str | None, settings: Given, model: str | None
) -> None:
    """Choose what surprise is measured against: the documents of the index, or questions.

    Every document gets its mean and deviation over it in one pass; documents that are indexed later get
    theirs then. An interrupted pass goes on with the same command.
    """
    chosen = settings.of(EnsembleSettings)
    resumed = "What was changed stays; run the same command again to go on."
    with when_interrupted(resumed), open_index(location) as index:
        if questions is not None:
            name = "questions" if questions == STANDARD_INPUT else f"questions of {Path(questions).name}"
            found, source = _of_questions(index, questions, model), name
        elif len(index):
            found, source = index.ensemble(), DOCUMENTS
        else:
            raise DataError(f"{index.where} holds no documents yet; index some first")
        changed = index.set_ensemble(found, source=source, show_progress=out.shows_progress, **asdict(chosen))
        record = index.manifest.statistics
        assert record is not None
        of = members(index.status(), record.count, record.source)
    values = {"index": str(location), "ensemble": record.ensemble, "members": record.count}
    values |= {"source": record.source, "changed": changed}
    out.result(values, [f"{location}: ensemble {record.ensemble} of {of}; {changed} documents changed"])


def _of_questions(index: Any, questions: str, model: str | None) -> Ensemble:
    from surprise_rerank.surprise.ensemble import Ensemble

    texts = read_questions(questions)
    first = list(islice(texts, _BATCH))  # errors of the file come before the model is loaded
    encoder = model_of(index, model)

    def vectors() -> Iterator[np.ndarray]:
        batch = first
        while batch:
            yield encoder.encode(batch, kind="query").dense
            batch = list(islice(texts, _BATCH))

    return Ensemble.from_batches(vectors(), model=index.manifest.model)


@tune.command(epilog=_BACKGROUND)
@_questions_option
@_qrels_option
@click.option(
    "--system",
    type=SystemChoice(),
    help="Whose candidates are measured.  [default: the best that the index stores enough for]",
)
@click.option("--reset", is_flag=True, help="Forget what was measured; of --system, or of all systems.")
@model_option
@config_option
@takes_index
def background(
    *,
    location: Location,
    out: Output,
    questions: str | None,
    qrels: Path | None,
    system: str | None,
    reset: bool,
    model: str | None,
    config: str | None,
) -> None:
    """Measure what questions find that have nothing to do with the documents.

    The share of them whose best document scores less than a document is its surprise: with `search
    --min-surprise .95`, one in twenty such questions gets an answer, whatever the model and the system.
    Without --questions they are 300 that come with the package. Some hundred are enough for .95, which needs
    19 at the least; near-duplicates count as one. `index` asks them again when there are twice as many
    documents.

    With --qrels the --questions are judged ones, as of `tune weights`, and what is learned is how often the
    first ten documents contain an answer. Fifty are a good number.
    """
    _check(reset, questions, qrels)
    if reset:
        from surprise_rerank.connectors.systems.backgrounds import delete_background, has_background
        from surprise_rerank.connectors.systems.register import all_systems

        with open_kept(location, config) as index:
            systems = [system] if system else all_systems()
            names = [name for name in systems if has_background(index, name)]
            if not names:
                whose = f" for the system {system!r}" if system else ""
                raise DataError(f"{index.where} has no background{whose}; see 'status'")
            for name in names:
                delete_background(index, name)
        told = f"{location}: background of {', '.join(names)} forgotten"
        out.result({"index": str(location), "forgotten": names}, [told])
        return
    if qrels is not None and questions is None:
        raise click.UsageError("--qrels judges --questions FILE; give both")

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.thresholds.promises import promise
    from surprise_rerank.thresholds.varied_questions import USUAL

    values: dict[str, Any] = {"index": str(location)}
    if qrels is not None:
        judged, judgements = read_judged_questions(Path(str(questions))), read_judgements(qrels)
        with open_with_model(location, model, config) as index:
            name = system or index.default_system
            chance = index.calibrate_chance(judged, judgements, name)
        told = f"{location}: {name}: the chance of an answer, from {chance.judged} judged questions"
        out.result({**values, "system": name, **asdict(chance)}, [told])
        return
    texts = None if questions is None else list(read_questions(questions))
    with open_with_model(location, model, config) as index:
        name = system or index.default_system
        count = USUAL if texts is None else len(texts)
        with Terminal(quiet=not out.shows_progress).bar("background", count, "questions") as advance:
            measured = index.store_background(texts, name, origin=questions or "", on_progress=advance)
    lines = [f"{location}: {name}: {measured.size} can measure a surprise of at most {measured.highest:.4f}"]
    for level in (level for level in LEVELS if 1 - level <= measured.highest):
        low, high = promise(measured, level)
        lines.append(
            f"  --min-surprise {1 - level:g} lets {100 * level:.3g} % through, 95 % interval "
            f"{100 * low:.2g} to {100 * high:.2g}"
        )
    out.result({**values, **background_facts(name, measured)}, lines)


def _check(reset: bool, questions: object, qrels: Path | None) -> None:
    if reset and (questions or qrels):
        raise click.UsageError("--reset goes without --questions and --qrels")


@tune.command(epilog=_WEIGHTS)
@_judged_option
@_qrels_option
@click.option(
    "--system", type=SystemChoice(fits=True), default="auto", show_default=True, help="Whose weights."
)
@click.option("--reset", is_flag=True, help="Go back to the usual weights of the system.")
@model_option
@config_option
@takes_index
def weights(
    *,
    location: Location,
    out: Output,
    questions: Path | None,
    qrels: Path | None,
    system: str,
    reset: bool,
    model: str | None,
    config: str | None,
) -> None:
    """Learn the weights of a system from judged questions.

    The weights are stored with the index, and searches use them, only if they rank held-back questions better
    than the usual ones by more than chance allows. A hundred questions are a beginning.
    """
    from surprise_rerank.connectors.systems.fitted_weights import delete_weights, has_weights, store_weights

    _check(reset, questions, qrels)
    if reset:
        with open_kept(location, config) as index:
            if not has_weights(index, system):
                raise DataError(f"{index.where} has no fitted weights of the system {system!r}; see 'status'")
            delete_weights(index, system)
        told = f"{location}: weights of {system} forgotten"
        out.result({"index": str(location), "forgotten": system}, [told])
        return
    if questions is None or qrels is None:
        raise click.UsageError("give both --questions FILE and --qrels FILE, or --reset")

    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.connectors.systems.building import build_system
    from surprise_rerank.pipeline import Pipeline

    texts, judgements = read_judged_questions(questions), read_judgements(qrels)
    with open_with_model(location, model, config) as index:
        count = sum(any(grade > 0 for grade in own.values()) for own in judgements.values())
        # With the usual weights, whatever was fitted before: fits do not build on each other.
        built = build_system(system, index, fitted=False)
        pipeline = Pipeline(index.encoder, built.retriever, built.reranker)
        with Terminal(quiet=not out.shows_progress).bar("fitting", count, "questions") as advance:
            found = pipeline.fit(texts, judgements, on_progress=advance)
        if found.accepted:
            store_weights(index, system, found)
        earlier = not found.accepted and has_weights(index, system)
    values = {
        "index": str(location),
        "system": system,
        "stored": found.accepted,
        "earlier_in_use": earlier,
        "accepted": found.accepted,
        "weights": dict(found.weights),
        "start": dict(found.start),
        "questions": found.questions,
        "in_pool": found.taught,
        "before": found.before,
        "after": found.after,
        "error": found.error,
    }
    out.result(values, [f"{location}: {system}: {found}"])
    if not found.taught:
        out.note("no relevant document was found at all: are the ids of --qrels those of the index?")
    elif found.accepted:
        out.note("stored with the index: searches use them from now on; --reset goes back")
    if earlier:
        out.note("the weights of an earlier fit are still in use; --reset goes back to the usual ones")
