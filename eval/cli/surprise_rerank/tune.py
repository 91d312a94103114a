"""`surprise-rerank tune`: the ensemble, the background questions and the weights of an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from surprise_rerank._errors import DataError
from surprise_rerank.connectors.systems._register import all_systems, find_system
from surprise_rerank.eval.cli.console import Output, counted
from surprise_rerank.eval.cli.exits import when_interrupted
from surprise_rerank.eval.cli.options import SystemChoice, config_option, model_option, takes_index
from surprise_rerank.eval.cli.settings import SetValues, set_option
from surprise_rerank.eval.cli.surprise_rerank.status import background_facts, promised_levels
from surprise_rerank.eval.line_files import (
    STANDARD_INPUT,
    read_judged_questions,
    read_judgements,
    read_questions,
)

if TYPE_CHECKING:
    from surprise_rerank._candidates import Unit
    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.qdrant._location import Location

_BATCH = 1024  # questions whose token vectors are in memory together
_EXAMPLES = """\b
Examples:
  surprise-rerank tune ensemble --questions questions.txt --index my-index --set shrink_deviation=1
  surprise-rerank tune background --questions others.txt --index my-index
  surprise-rerank tune background --questions asked.tsv --qrels judged.tsv --index my-index
  surprise-rerank tune weights --questions queries.jsonl --qrels qrels/train.tsv --index my-index
  surprise-rerank tune weights --reset --index my-index
"""


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """What `tune ensemble --set` has.

    Attributes:
        shrink_mean: how far documents' means are moved to the one that all share, from 0 to 1.
        shrink_deviation: the same for deviations, 1 being the pooled model.
    """

    shrink_mean: float = 0.0
    shrink_deviation: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tuning:
    """The options."""

    location: Location
    out: Output
    questions: str | None
    qrels: Path | None
    system: str | None
    reset: bool
    passages: bool
    settings: SetValues
    model: str | None
    config: str | None

    def opened(self, *, encodes: bool = True) -> DocumentIndex | Collection:
        """The index, or a collection that somebody else made."""
        from surprise_rerank.connectors.attached._opening import open_collection

        return open_collection(self.location, model=self.model, config=self.config, encodes=encodes)

    def judged(self) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
        """The judged questions."""
        if self.questions in (None, STANDARD_INPUT) or self.qrels is None:
            raise click.UsageError("give both --questions FILE and --qrels FILE")
        return read_judged_questions(Path(str(self.questions))), read_judgements(self.qrels)


@click.command(epilog=_EXAMPLES)
@click.argument("what", type=click.Choice(["ensemble", "background", "weights"]))
@click.option(
    "--questions",
    metavar="FILE",
    help="Questions, one a line, or `-` for the standard input; judged ones as JSON lines with _id and text "
    "(BEIR), or as id and text with a tab between (.tsv).",
)
@click.option(
    "--qrels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Which documents answer them: question, document and relevance with tabs between (BEIR), or TREC's "
    "four columns.",
)
@click.option(
    "--system",
    type=SystemChoice(),
    help="Whose background, by default that of searches; or whose weights, by default those of auto.",
)
@click.option("--reset", is_flag=True, help="Forget the background, of --system or of all; or the weights.")
@click.option(
    "--passages", is_flag=True, help="The background of searches for passages (`search --passages`)."
)
@set_option(lambda: (EnsembleSettings,))
@model_option
@config_option
@takes_index
def tune(*, what: Literal["ensemble", "background", "weights"], **options: Any) -> None:
    """Fit an index to its users' questions.

    `ensemble` chooses what surprise is measured against: the documents of the index, or --questions. Every
    document gets its mean and deviation over it in one pass, those that are indexed later get theirs then. An
    interrupted pass goes on with the same command.

    `background` measures what --questions find that have nothing to do with the documents; by default 300
    that come with the package. The share of them whose best document scores less than a document is its
    percentile: with `search --min-percentile .95`, one in twenty such questions gets an answer. Some hundred
    are enough for .95. With --qrels the --questions are judged ones, fifty or so, and what is learned is how
    often the first ten documents contain an answer.

    `weights` learns those of a system from judged questions. They are stored with the index, and searches
    use them, only if they rank held-back questions better than the usual ones by more than chance allows. A
    hundred questions are a beginning.
    """
    tuning = _Tuning(**options)
    if tuning.settings and what != "ensemble":
        raise click.UsageError(f"--set {next(iter(tuning.settings.values))} is for tune ensemble")
    if tuning.passages and what != "background":
        raise click.UsageError("--passages is for tune background")
    if tuning.reset and (tuning.questions or tuning.qrels):
        raise click.UsageError("--reset goes without --questions and --qrels")
    if what == "ensemble":
        for name in ("qrels", "system", "reset"):
            if getattr(tuning, name):
                raise click.UsageError(f"--{name} is for tune background and tune weights")
        _tune_ensemble(tuning)
    elif what == "background":
        _tune_background(tuning)
    else:
        _tune_weights(tuning, tuning.system or "auto")


def _tune_ensemble(tuning: _Tuning) -> None:
    from surprise_rerank.connectors._document_index import DocumentIndex
    from surprise_rerank.surprise._ensemble import Ensemble

    chosen, questions = tuning.settings.of(EnsembleSettings), tuning.questions
    resumed = "What was changed stays; run the same command again to go on."
    texts = None if questions is None else read_questions(questions)
    first = list(islice(texts or (), _BATCH))  # errors of the file come before the model is loaded
    encodes, every = texts is not None, chain(first, texts or ())
    with when_interrupted(resumed), tuning.opened(encodes=encodes) as index:
        if not isinstance(index, DocumentIndex):
            raise DataError(
                f"{index.where} was made by somebody else, and its documents stay as they are; give it "
                "questions in Python, with set_questions"
            )
        if texts is not None and questions is not None:
            source = "questions" if questions == STANDARD_INPUT else f"questions of {Path(questions).name}"
            batches = iter(lambda: list(islice(every, _BATCH)), [])
            vectors = (index.encoder.encode(batch, kind="query").dense for batch in batches)
            ensemble = Ensemble.from_batches(vectors, model=index.manifest.model)
        elif len(index):
            ensemble, source = index.ensemble(), "documents"
        else:
            raise DataError(f"{index.where} holds no documents yet; index some first")
        progress = not tuning.out.quiet
        changed = index.set_ensemble(ensemble, source=source, show_progress=progress, **asdict(chosen))
        record = index.manifest.statistics
        assert record is not None
        of = index.status().ensemble_members(record.count, record.source)
    values = {"ensemble": record.ensemble, "members": record.count, "source": record.source}
    _show(
        tuning,
        {**values, "changed": changed},
        f"ensemble {record.ensemble} of {of}; {counted(changed, 'document')} changed",
    )


def _show(tuning: _Tuning, values: Mapping[str, Any], first: str, *more: str) -> None:
    tuning.out.result({"index": str(tuning.location), **values}, [f"{tuning.location}: {first}", *more])


def _tune_background(tuning: _Tuning) -> None:
    from surprise_rerank.connectors._progress import Terminal
    from surprise_rerank.connectors.systems._backgrounds import (
        delete_background,
        has_background,
        package_questions,
    )
    from surprise_rerank.thresholds._promises import promise
    from surprise_rerank.thresholds.varied_questions import ORIGIN

    unit: Unit = "passage" if tuning.passages else "document"
    if tuning.reset:
        with tuning.opened(encodes=False) as whole:
            corpus = whole.corpus.by_unit(unit)
            systems = [tuning.system] if tuning.system else all_systems()
            names = [name for name in systems if has_background(corpus, name)]
            if not names:
                whose = f" for the system {tuning.system!r}" if tuning.system else ""
                raise DataError(f"{corpus.where} has no background{whose}; see 'status'")
            for name in names:
                delete_background(corpus, name)
        _show(tuning, {"forgotten": names}, f"background of {', '.join(names)} forgotten")
        return
    if tuning.qrels is not None:
        judged, judgements = tuning.judged()
        with tuning.opened() as index:
            name = tuning.system or index.corpus.default_system
            chance = index.by_unit(unit).calibrate_chance(judged, judgements, name)
        sentence = f"{name}: the chance of an answer, from {chance.judged} judged questions"
        _show(tuning, {"system": name, **asdict(chance)}, sentence)
        return
    questions = None if tuning.questions is None else list(read_questions(tuning.questions))
    with tuning.opened() as index:
        name = tuning.system or index.corpus.default_system
        texts, origin = questions or package_questions(index.corpus), tuning.questions or ORIGIN
        bar = Terminal(quiet=tuning.out.quiet).bar("background", len(texts), "questions")
        with bar as advance:
            measured = index.by_unit(unit).measure_background(name, texts, origin=origin, on_progress=advance)
    lines = []
    if measured.doubt:
        tuning.out.note(measured.doubt)
    for level in promised_levels(measured):
        low, high = promise(measured, level)
        lines.append(
            f"  --min-percentile {1 - level:g} lets {100 * level:.3g} % through, 95 % interval "
            f"{100 * low:.2g} to {100 * high:.2g}"
        )
    first = f"{name}: {measured.size} can measure a percentile of at most {measured.highest:.4f}"
    _show(tuning, background_facts(name, measured), first, *lines)


def _tune_weights(tuning: _Tuning, system: str) -> None:
    from surprise_rerank._answers import SearchOptions
    from surprise_rerank._pipeline import Pipeline
    from surprise_rerank.connectors._progress import Terminal
    from surprise_rerank.connectors.systems._building import build_system
    from surprise_rerank.connectors.systems._fitted_weights import delete_weights, has_weights, store_weights

    if not find_system(system).fits:
        fitted = ", ".join(name for name, known_system in all_systems().items() if known_system.fits)
        raise click.UsageError(f"--system {system} has no weights to learn; choose from {fitted}")
    if tuning.reset:
        with tuning.opened(encodes=False) as index:
            if not has_weights(index.corpus, system):
                raise DataError(f"{index.where} has no fitted weights of the system {system!r}; see 'status'")
            delete_weights(index.corpus, system)
        _show(tuning, {"forgotten": system}, f"weights of {system} forgotten")
        return
    texts, judgements = tuning.judged()
    with tuning.opened() as index:
        count = sum(any(grade > 0 for grade in grades.values()) for grades in judgements.values())
        # With the usual weights, whatever was fitted before: fits do not build on each other.
        built = build_system(system, index.corpus, fitted=False)
        options = SearchOptions(tenant=index.corpus.every_tenant)
        pipeline = Pipeline(index.encoder, built.retriever, built.reranker, options)
        with Terminal(quiet=tuning.out.quiet).bar("fitting", count, "questions") as advance:
            fit = pipeline.fit(texts, judgements, on_progress=advance)
        if fit.accepted:
            store_weights(index.corpus, system, fit)
        earlier = not fit.accepted and has_weights(index.corpus, system)
    values = {
        "system": system,
        "accepted": fit.accepted,
        "earlier_in_use": earlier,
        "weights": dict(fit.weights),
        "start": dict(fit.start),
        "questions": fit.questions,
        "in_pool": fit.taught,
        "before": fit.before,
        "after": fit.after,
        "error": fit.error,
    }
    _show(tuning, values, f"{system}: {fit}")
    if not fit.taught:
        tuning.out.note("no relevant document was found at all: are the ids of --qrels those of the index?")
    elif fit.accepted:
        tuning.out.note("stored with the index: searches use them from now on; --reset goes back")
    if earlier:
        tuning.out.note("the weights of an earlier fit are still in use; --reset goes back to the usual ones")
