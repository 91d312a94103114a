"""The measures of vectors under which EvalRank is computed, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

from surprise_rerank.encoders.base import Progress
from surprise_rerank.errors import DataError, did_you_mean
from surprise_rerank.eval.studies.evalrank.dense import Cosine, Euclidean, PublishedCosine, PublishedEuclidean
from surprise_rerank.eval.studies.evalrank.normalized import Csls, SurpriseMeasure
from surprise_rerank.eval.studies.evalrank.ranks import Items, Measure
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel, Weight

DenseMeasure: TypeAlias = Literal[
    "cosine",
    "l2",
    "csls",
    "surprise",
    "surprise-crossover",
    "surprise-mixed",
    "surprise-pooled",
    "surprise-pooled-mixed",
    "surprise-shrunk",
]
DENSE_MEASURES: tuple[DenseMeasure, ...] = get_args(DenseMeasure)


class _Kind(NamedTuple):
    """A form of the surprise score: model, weight, and how far moments are moved to those of all items."""

    model: SurpriseModel
    weight: Weight
    shrink: float


# As the systems of these names in `rerank-eval`.
_SURPRISE: dict[str, _Kind] = {
    "surprise": _Kind("gaussian", 1.0, 0.0),
    "surprise-crossover": _Kind("gaussian", "crossover", 0.0),
    "surprise-mixed": _Kind("gaussian", 0.5, 0.0),
    "surprise-pooled": _Kind("pooled", 1.0, 0.0),
    "surprise-pooled-mixed": _Kind("pooled", 0.5, 0.0),
    "surprise-shrunk": _Kind("gaussian", 1.0, 0.5),
}


def check_measures(names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are not known.

    Raises:
        DataError: names the nearest, and all.
    """
    if not names:
        raise DataError(f"no measure was named; there are: {', '.join(known)}")
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise DataError(f"unknown measure {name!r}; {hint}there are: {', '.join(known)}")


def dense_measure(
    name: DenseMeasure, items: Items, on_progress: Progress | None = None, *, as_published: bool = False
) -> Measure:
    """A measure by name.

    Args:
        name: one of `DENSE_MEASURES`.
        items: that are ranked.
        on_progress: called with the number of items of every finished block; by `csls` alone, which compares
            all with all.
        as_published: let the last bits of `cosine` and `l2` decide, as in the published figures.
    """
    if name == "cosine":
        return PublishedCosine(items.unit) if as_published else Cosine(items.unit)
    if name == "l2":
        return PublishedEuclidean(items.plain) if as_published else Euclidean(items.plain)
    if name == "csls":
        return Csls.of(items, on_progress=on_progress)
    kind = _SURPRISE[name]
    ensemble = Ensemble.from_vectors(items.unit[items.background], sample_size=0)
    return SurpriseMeasure(
        items.unit,
        Surprise(ensemble, kind.model, kind.weight, shrink_mean=kind.shrink, shrink_deviation=kind.shrink),
    )
