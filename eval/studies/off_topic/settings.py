"""Settings of the study of off-topic questions; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surprise_rerank.core.settings import option, split_names
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import MODEL, CacheFolder


def to_shares(text: str) -> tuple[float, ...]:
    """Shares between 0 and 1, with commas between."""
    try:
        values = tuple(float(name) for name in split_names(text))
    except ValueError:
        values = ()
    if not values or not all(0 < value < 1 for value in values):
        raise DataError(f"--alpha {text!r}: give shares between 0 and 1 with commas between, such as .05,.2")
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class OffTopicSettings(CacheFolder):
    """What is measured."""

    datasets: tuple[str, ...] = option(
        help="Corpora with judged questions, with commas between: as for `rerank-eval`. Each one's questions "
        "are off-topic for the others.",
        flag="--dataset",
        parse=split_names,
    )
    files: tuple[Path, ...] = option(
        (),
        help="More off-topic questions: a text with one a line, or a table with a column `text`. Several "
        "times.",
        flag="--questions",
        metavar="FILE",
    )
    models: tuple[str, ...] = option(
        (MODEL,), help="Of the vectors. Several times.", flag="--model", metavar="NAME"
    )
    split: str | None = option(None, help="Of the judged questions.  [default: test]", metavar="NAME")
    alphas: tuple[float, ...] = option(
        (0.05, 0.2),
        help="Shares of off-topic questions that thresholds should let through.",
        flag="--alpha",
        parse=to_shares,
        text=".05,.2",
    )
    limit: int = option(1000, help="The most off-topic questions of a source, drawn at random.", low=20)
    depth: int = option(100, help="Size of the pools.", low=1)
