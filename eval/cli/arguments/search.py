"""The options of a search: the questions, the system, and which documents are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from surprise_rerank.connectors.systems.register import SYSTEMS, find_system
from surprise_rerank.core.settings import option
from surprise_rerank.documents import stripped_question
from surprise_rerank.errors import DataError, near_or_all
from surprise_rerank.eval.cli.arguments.location import model_field
from surprise_rerank.eval.cli.arguments.questions import STANDARD_INPUT, read_questions
from surprise_rerank.eval.cli.options import options_of

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import SearchOptions
    from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
    from surprise_rerank.rerank.diversity import DiversityOptions
else:
    SurpriseMode = str


class _Scored(Protocol):
    @property
    def score(self) -> float: ...
    @property
    def surprise(self) -> float | None: ...


H = TypeVar("H", bound=_Scored)


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
            self.fail(f"unknown system {value!r}; {near_or_all(value, self.choices)}", param, ctx)
        return value if system.fits or not self._fits else super().convert(value, param, ctx)


# All that a system of this package has.
MODES = tuple(dict.fromkeys(mode for system in SYSTEMS.values() for mode in sorted(system.modes)))


def pool_field() -> Any:
    """The field `pool` of arguments: how many candidates a system ranks."""
    return option(100, low=1, help="How many candidates are retrieved and re-ranked.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolArguments:
    """The arguments of commands that measure what a search would re-rank."""

    pool: int = pool_field()


pool_option = options_of(PoolArguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityArguments:
    """How different the documents that are shown should be."""

    diversity: float | None = option(
        None,
        low=0,
        high=1,
        help="Different documents first: 0 orders by relevance alone, 1 by difference alone.",
    )
    mmr: float | None = option(None, low=0, high=1, help="The same as 1 - diversity.")
    collapse: float | None = option(
        None, low=0, high=1, help="Fold documents with this cosine to a better one into it, such as .95."
    )

    @property
    def variety(self) -> DiversityOptions:
        """As keywords."""
        return {"diversity": self.diversity, "mmr": self.mmr, "collapse": self.collapse}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchArguments(DiversityArguments):
    """Questions, and how they are searched for."""

    question: str | None = option(None, argument=True)
    file: str | None = option(
        None,
        flag="--questions",
        metavar="FILE",
        help="Answer the questions of a file, one a line; `-` reads them from the standard input.",
    )
    system: str | None = option(
        None,
        kind=SystemChoice(),
        help="What ranks.  [default: the best that the index stores enough for]",
    )
    mode: SurpriseMode | None = option(
        None,
        choices=MODES,
        help="Where surprise is computed: here, by Qdrant's formula (its default), or by augmented vectors.",
    )
    top: int = option(10, low=1, help="How many are shown.")
    pool: int = pool_field()
    condition: str | None = option(
        None,
        flag="--filter",
        metavar="JSON",
        help="Only documents that Qdrant's filter lets through; their metadata is at metadata.KEY.",
    )
    tenant: str | None = option(
        None, metavar="NAME", help="Only this tenant's documents, of an index with --tenant."
    )
    offset: int = option(0, low=0, show_default=False, help="Pass over the first so many.")
    threshold: float | None = option(None, help="Only documents that score at least this.")
    min_surprise: float | None = option(
        None,
        low=0,
        high=1,
        help="Only documents that surprise more than this share of the questions of 'background set': .95 "
        "lets through one in twenty that have nothing to do with the documents.",
    )
    exact: bool = option(False, help="Search without the approximate index.")
    model: str | None = model_field()

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
            return list(read_questions(self.file))  # errors come before a model is loaded
        if self.question in (None, STANDARD_INPUT):
            return read_questions(STANDARD_INPUT)
        return [stripped_question(self.question)]

    def search_options(self) -> SearchOptions:
        """Filter and parameters for Qdrant; offset and threshold are about what the re-ranker makes of it.

        Raises:
            DataError: if the filter is none.
        """
        from surprise_rerank.connectors.qdrant import SearchOptions
        from surprise_rerank.eval.cli.arguments.filters import parse_filter

        condition = None if self.condition is None else parse_filter(self.condition)
        options = SearchOptions(filter=condition, tenant=self.tenant)
        return options.exactly() if self.exact else options

    def hits(self, ranking: Iterable[H]) -> list[H]:
        """All hits of a ranking that score enough, behind the offset."""
        least = self.threshold
        hits = [hit for hit in ranking if least is None or hit.score >= least]
        if self.min_surprise is not None:
            hits = [hit for hit in hits if (hit.surprise or 0.0) >= self.min_surprise]
        return hits[self.offset :]
