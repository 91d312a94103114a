"""Settings of EvalRank. Imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Background: TypeAlias = Literal["pairs", "basic", "wiki"]


@dataclass(frozen=True, slots=True)
class RankSettings:
    """How items are ranked.

    Attributes:
        measures: what is ranked by.
        as_published: let the last bits of cosine and l2 decide between equal similarities, as in the
            published figures.
        post_process: measure once more, without the first two principal components of the vocabulary or of
            the sentence vectors; `+pp` after the model's name marks it.
    """

    measures: tuple[str, ...] = ("cosine", "l2", "surprise-crossover")
    as_published: bool = False
    post_process: bool = False


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Among which words one is ranked.

    Attributes:
        vocabulary: the words of the pairs; with the basic ones; with those of Wikipedia, too.
    """

    vocabulary: Background = "wiki"
