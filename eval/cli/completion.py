"""What a shell completes: systems, similarities, measures and data sets, without importing what they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import click
from click.shell_completion import CompletionItem

# As `similarities.table.SIMILARITIES`, which imports NumPy; without the option `-raw`.
SIMILARITIES = (  # noqa: SIM905 (a list would be thirty lines)
    "dynamax dynamax-idf dynamax-sif dynamax-inclusion dynamax-tversky dynamax-jaccard dynamax-otsuka "
    "dynamax-dice dynamax-cosine dynamax-jaccard-set dynamax-jaccard-sif max-jaccard max-cosine min-jaccard "
    "avg-jaccard sum-jaccard fbow-axes fbow-kmeans fbow-random fbow-vocabulary wmd avg-cosine avg-cosine-set "
    "idf-cosine sif-cosine sif-pc-cosine abtt-cosine set-jaccard bag-jaccard soft-jaccard soft-jaccard-set"
).split()
_OF_WORDS = ("set-jaccard", "bag-jaccard", "soft-jaccard", "soft-jaccard-set")
RAW = [f"{name}-raw" for name in SIMILARITIES if name not in _OF_WORDS]
# As `eval.retrieval.systems.EVALUATED`.
EVALUATED = [
    *("bm25-lucene", "surprise-crossover", "surprise-mixed", "surprise-pooled", "surprise-pooled-mixed"),
    *("surprise-shrunk", "surprise-percentile", "surprise-empirical"),
    *SIMILARITIES[1:],
    *RAW,
    *("auto-fitted", "fusion-lucene", "fusion-lucene-equal", "fusion-lucene-fitted"),
    *("fusion-lucene-zscore", "fusion-lucene-rrf", "fusion-lucene-minmax"),
]
MEASURES = (
    *("nDCG@10", "nDCG@5", "nDCG@100", "R@100", "R@10", "R@1000", "RR", "RR@10", "AP", "AP@100"),
    *("P@1", "P@5", "P@10", "Success@1", "Success@5"),
)


class Name(click.ParamType[str]):
    """A name, which a shell completes.

    Args:
        known: gives the names.
        files: whether a file or folder can stand in place of a name.
    """

    name = "text"

    def __init__(self, known: Callable[[str], Sequence[str]], *, files: bool = False) -> None:
        self._known = known
        self._files = files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin as what is written."""
        found = [CompletionItem(name) for name in self._known(incomplete) if name.startswith(incomplete)]
        return [*found, CompletionItem(incomplete, type="file")] if self._files else found


class Names(click.ParamType[tuple[str, ...]]):
    """Names with commas between, or white space, once each; a shell completes the last one.

    Args:
        known: gives the names.
        files: whether a file or folder can stand in place of a name; then white space belongs to it.
    """

    name = "names"

    def __init__(self, known: Callable[[str], Sequence[str]] = lambda _: (), *, files: bool = False) -> None:
        self._one = Name(known, files=files)
        self._between = "," if files else ", "
        # Not inside the parentheses of a measure's parameters: RBP(p=0.8, rel=1).
        self._separator = re.compile(rf"[{self._between}]+(?![^()]*\))")

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names; a usage error if there is none."""
        if isinstance(value, tuple):
            return value
        names = tuple(
            dict.fromkeys(own.strip() for own in self._separator.split(value) if own and own.strip())
        )
        if not names:
            self.fail("give at least one name", param, ctx)
        return names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin as the last one of those that are written."""
        end = max(incomplete.rfind(own) + 1 for own in self._between)
        written, last = incomplete[:end], incomplete[end:]
        found = self._one.shell_complete(ctx, param, last)
        return [CompletionItem(f"{written}{own.value}", type=own.type) for own in found]


def _datasets(begun: str) -> Sequence[str]:
    """`demo`, and the ids of ir_datasets that hold documents of their own, once a part of one is written."""
    from surprise_rerank.connectors.readers.demo import DEMO

    if not begun or DEMO.startswith(begun):
        return [DEMO]
    from ir_datasets import registry

    return [name for name in registry if name.startswith(begun)]


def _systems(_: str) -> Sequence[str]:
    from surprise_rerank.connectors.systems.register import SYSTEMS

    return [*SYSTEMS, *EVALUATED]


baseline = Name(_systems)
source = Name(_datasets, files=True)
systems = Names(_systems)
measures = Names(lambda _: MEASURES)
similarities = Names(lambda _: ["cosine", "all", *SIMILARITIES, *RAW])
datasets = Names(_datasets, files=True)
