"""How points come to their clusters, by name: `cosine`, a model of surprise, and its weight after an `@`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from surprise_rerank.errors import DataError, did_you_mean
from surprise_rerank.eval.studies.labelled_models import COSINE, SURPRISE
from surprise_rerank.surprise.score import SurpriseModel, Weight


@dataclass(frozen=True, slots=True)
class Assignment:
    """A way of assigning points to centres.

    Attributes:
        name: as it is shown.
        model: of the surprise score.
        weight: w of the score; 0 is the nearest centre by the cosine.
    """

    name: str
    model: SurpriseModel
    weight: Weight


def find_assignments(names: Iterable[str]) -> tuple[Assignment, ...]:
    """Assignments by their names, once each, the cosine first: the others are compared with it.

    Args:
        names: `cosine`, `surprise` (the Gaussian model), `pooled`, `percentile`, `empirical`; an `@`
            and a weight from 0 to 1, or `crossover`, may follow. Without it the weight is 1.

    Raises:
        DataError: if a name or a weight is not known.
    """
    return tuple(_find(name) for name in dict.fromkeys([COSINE, *names]))


def _find(name: str) -> Assignment:
    if name == COSINE:
        return Assignment(name, "gaussian", 0.0)
    model, _, weight = name.partition("@")
    if model not in SURPRISE:
        known = (COSINE, *SURPRISE)
        raise DataError(
            f"there is no assignment {name!r}; {did_you_mean(model, known)}choose from {', '.join(known)}; "
            "a weight may follow, as in surprise@0.5"
        )
    return Assignment(name, SURPRISE[model], _weight(name, weight) if "@" in name else 1.0)


def _weight(name: str, given: str) -> Weight:
    if given == "crossover":
        return "crossover"
    try:
        weight = float(given)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= 1:
        raise DataError(
            f"assignment {name!r} has the weight {given!r}, expected a number from 0 to 1, or crossover"
        )
    return weight
