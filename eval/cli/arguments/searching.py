"""The options of a search, and the answers that they ask for."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.connectors.systems.register import SYSTEMS, find_system
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import Command, Place, model_of, model_option
from surprise_rerank.eval.cli.arguments.questions import STANDARD_INPUT, one_question, read_questions
from surprise_rerank.eval.cli.output.streams import Output

if TYPE_CHECKING:
    from surprise_rerank.candidates import Hit
    from surprise_rerank.connectors.qdrant import SearchOptions
    from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
    from surprise_rerank.connectors.systems.built import BuiltSystem
    from surprise_rerank.eval.cli.output.answers import Answer


class SystemChoice(click.Choice[str]):
    """A system of the register; those of other packages are found, too.

    Args:
        fits: only systems whose weights can be fitted.
    """

    def __init__(self, *, fits: bool = False) -> None:
        super().__init__([name for name, system in SYSTEMS.items() if system.fits or not fits])
        self._fits = fits

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, where a system of that name is registered; a usage error else."""
        try:
            system = find_system(value)
        except DataError:
            return super().convert(value, param, ctx)
        return value if system.fits or not self._fits else super().convert(value, param, ctx)


# Of commands that learn something from what a search would re-rank.
pool_option = click.option(
    "--pool",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many candidates are retrieved; as for `search`.",
)
# As `SurpriseMode`, which `--help` cannot wait for.
MODES = ("client", "formula", "vector")

_OPTIONS = (
    click.argument("question", required=False),
    click.option(
        "--questions",
        "file",
        metavar="FILE",
        help="Answer the questions of a file, one a line; `-` reads them from the standard input.",
    ),
    click.option(
        "--system",
        type=SystemChoice(),
        help="What ranks.  [default: the best that the index stores enough for]",
    ),
    click.option(
        "--mode",
        type=click.Choice(MODES),
        help="Where surprise is computed: here, by Qdrant's formula, or by augmented vectors.  "
        "[default: formula]",
    ),
    click.option(
        "--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many are shown."
    ),
    click.option(
        "--pool",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="How many candidates are retrieved and re-ranked.",
    ),
    click.option(
        "--filter",
        "condition",
        metavar="JSON",
        help="Only documents that Qdrant's filter lets through; their metadata is at metadata.KEY.",
    ),
    click.option("--offset", type=click.IntRange(min=0), default=0, help="Pass over the first so many."),
    click.option("--threshold", type=float, help="Only documents that score at least this."),
    click.option(
        "--min-surprise",
        type=click.FloatRange(0, 1),
        help="Only documents that surprise more than this share of the questions of 'background set': .95 "
        "lets through one in twenty that have nothing to do with the documents.",
    ),
    click.option("--exact", is_flag=True, help="Search without the approximate index."),
    model_option,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked, and how it is to be answered.

    Attributes:
        question: one; `-` for those of the standard input.
        file: of questions, in place of one.
        system: its name; None for the index's best.
        mode: where surprise is computed.
        top: how many hits are shown.
        pool: size of the candidate pool.
        condition: a filter as JSON.
        offset: how many hits are passed over.
        threshold: the least score.
        min_surprise: the least surprise; the index needs a background.
        exact: without the approximate index.
        model: where the index's model is.
    """

    question: str | None
    file: str | None
    system: str | None
    mode: SurpriseMode | None
    top: int
    pool: int
    condition: str | None
    offset: int
    threshold: float | None
    min_surprise: float | None
    exact: bool
    model: str | None

    @property
    def is_single(self) -> bool:
        """Whether there is one question."""
        return self.file is None and self.question != STANDARD_INPUT

    def questions(self) -> Iterable[str]:
        """The questions; those of the standard input while they come.

        Raises:
            DataError: if there is none, or they cannot be read.
        """
        if (self.question is None) == (self.file is None):
            raise DataError("give a question in quotes, or --questions FILE (not both)")
        if self.file not in (None, STANDARD_INPUT):
            return list(read_questions(self.file))  # what is wrong with it is told before a model is loaded
        if self.question in (None, STANDARD_INPUT):
            return read_questions(STANDARD_INPUT)
        return [one_question(self.question)]

    def search_options(self) -> SearchOptions:
        """Filter and parameters for Qdrant; offset and threshold are about what the re-ranker makes of it.

        Raises:
            DataError: if the filter is none.
        """
        from surprise_rerank.connectors.qdrant import SearchOptions
        from surprise_rerank.eval.cli.arguments.filters import parse_filter

        options = SearchOptions(filter=None if self.condition is None else parse_filter(self.condition))
        return options.exactly() if self.exact else options

    def hits(self, answer: Answer) -> list[Hit]:
        """All hits of an answer that score enough, behind the offset."""
        least = self.threshold
        hits = [hit for hit in answer.ranking if least is None or hit.score >= least]
        if self.min_surprise is not None:
            hits = [hit for hit in hits if (hit.surprise or 0.0) >= self.min_surprise]
        return hits[self.offset :]


def takes_questions(function: Command) -> Command:
    """Give a command the options of a search; it gets an `Asked`."""
    names = Asked.__dataclass_fields__

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        asked = Asked(**{name: values.pop(name) for name in names})
        return function(asked=asked, **values)

    return functools.reduce(lambda inner, option: option(inner), reversed(_OPTIONS), command)


def answers(place: Place, asked: Asked, out: Output) -> Iterator[tuple[BuiltSystem, Answer]]:
    """The answers, in the order of the questions.

    Raises:
        SurpriseRerankError: if an option is wrong, the index cannot be opened, or lacks what is needed.
    """
    questions, options = asked.questions(), asked.search_options()

    from surprise_rerank.connectors.systems.backgrounds import load_background
    from surprise_rerank.connectors.systems.index_systems import build_system, default_system
    from surprise_rerank.eval.cli.output.answers import answer

    with place.open() as index:
        name = asked.system or default_system(index)
        if asked.mode is not None and name != "surprise":
            raise DataError(
                f"--mode tells where surprise is computed; it goes with --system surprise, not {name}"
            )
        system = build_system(name, index, options, asked.mode)
        if asked.system is None:
            out.note(f"ranked by {system.summary} (--system chooses another)")
        background = load_background(index, system.name, asked.min_surprise, system.scorers)
        encoder = model_of(index, asked.model)
        depth = max(asked.pool, asked.top + asked.offset)
        for question in questions:
            found = answer(system, encoder, question, depth, background)
            for note in found.ranking.notes:
                out.note(note)
            if asked.condition is not None and not len(found.ranking):
                out.note("the filter lets no document through (metadata is at metadata.KEY)")
            if asked.min_surprise is not None and len(found.ranking) and not asked.hits(found):
                out.note(f"no document is that surprising; the best one's surprise is {_best(found):.3f}")
            yield system, found


def _best(answer: Answer) -> float:
    """The question's surprise: that of its first document."""
    return float(answer.ranking.surprise[0]) if answer.ranking.surprise is not None else 0.0
