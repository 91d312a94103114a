"""Settings of EvalRank; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from surprise_rerank.core.settings import option, split_names
from surprise_rerank.eval.studies.settings import SentenceInputs

Background: TypeAlias = Literal["pairs", "basic", "wiki"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordInputs(SentenceInputs):
    """What is read for EvalRank of words."""

    background: Background = option(
        "wiki",
        help="Among which words: those of the pairs; with the basic vocabulary; with that of Wikipedia, too.",
    )


@dataclass(frozen=True, slots=True)
class RankSettings:
    """How items are ranked."""

    measures: tuple[str, ...] = option(
        ("cosine", "l2", "surprise-crossover"),
        help="What is ranked by, with commas between; the measures are listed below.",
        metavar="NAMES",
        parse=split_names,
    )
    as_published: bool = option(
        False,
        help="Let the last bits of cosine and l2 decide between equal similarities, as in the published "
        "figures.",
    )
    post_process: bool = option(
        False,
        help="Measure once more, without the first two principal components of the vocabulary or of the "
        "sentence vectors; `+pp` after the model's name marks it.",
    )
