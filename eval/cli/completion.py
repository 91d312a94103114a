"""What a shell completes: systems, similarities, measures and data sets, without importing what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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


class Names(click.ParamType[str]):
    """A text of names, with something between them where several are taken, which a shell completes.

    Args:
        known: gives the names.
        between: what separates them; empty where one is taken.
        files: whether a file or folder can stand in place of a name.
    """

    name = "text"

    def __init__(
        self, known: Callable[[str], Sequence[str]], between: str = "", *, files: bool = False
    ) -> None:
        self._known = known
        self._between = between
        self._files = files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin as the last one of those that are written."""
        end = max((incomplete.rfind(own) + 1 for own in self._between), default=0)
        written, last = incomplete[:end], incomplete[end:]
        found = [CompletionItem(f"{written}{name}") for name in self._known(last) if name.startswith(last)]
        return [*found, CompletionItem(incomplete, type="file")] if self._files else found


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


def systems(*, several: bool = False) -> Any:
    """The type of an option that takes systems of an evaluation."""
    return Names(_systems, "," if several else "")


measures = Names(lambda _: MEASURES, ", ")
similarities = Names(lambda _: [*SIMILARITIES, *RAW], ",")
datasets = Names(_datasets, ",", files=True)
source = Names(_datasets, files=True)
