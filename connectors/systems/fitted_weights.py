"""Weights that were fitted on judged questions, kept beside an index's points: some for each system."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.errors import DataError, IndexMismatchError

if TYPE_CHECKING:  # `status` shows weights, and does without torch
    from surprise_rerank.rerank.weight_fitting import WeightFit

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FittedWeights:
    """Weights of a system, and how they were found.

    Attributes:
        system: whose.
        weights: part's name -> factor.
        start: the weights of the system without them.
        model: that the documents were encoded with.
        fingerprint: of its weights.
        questions: how many they were fitted on.
        before: mean nDCG@10 of held-back questions by `start`.
        after: the same by fitted weights that have not seen the question.
        error: standard error of the difference.
    """

    system: str
    weights: Mapping[str, float]
    start: Mapping[str, float]
    model: str
    fingerprint: str
    questions: int
    before: float
    after: float
    error: float

    def __str__(self) -> str:
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in self.weights.items())
        return (
            f"{weights}; fitted on {self.questions} questions, nDCG@10 {self.before:.4f} -> "
            f"{self.after:.4f} on held-back ones"
        )


def load_weights(index: Searched, system: str) -> Mapping[str, float] | None:
    """The fitted weights of a system; None where the index has none.

    Raises:
        DataError: if the file is damaged.
        IndexMismatchError: if they were fitted with another model.
    """
    found = fitted_weights(index, system)
    if found is None:
        return None
    if found.fingerprint != index.fingerprint:
        raise IndexMismatchError(
            f"{index.where}: the weights of {system!r} were fitted with the model {found.model!r} "
            f"({found.fingerprint}), the index is of {index.model!r} "
            f"({index.fingerprint}); fit them again, or forget them with 'surprise-rerank fit "
            f"--forget --system {system}'"
        )
    return found.weights


def fitted_weights(index: Searched, system: str) -> FittedWeights | None:
    """What is kept for a system, of whatever model; None where there is nothing.

    Raises:
        DataError: if the file is damaged.
    """
    name = _file_name(system)
    content = index.files.read_file(name)
    if content is None:
        return None
    try:
        values = json.loads(content)
        if values.pop("format") != _FORMAT:
            raise DataError(f"{index.where}: {name} has weights of another format; fit them again")
        return _checked(values)
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{index.where}: {name} is damaged; fit the weights again") from error


def store_weights(index: Searched, system: str, fit: WeightFit) -> FittedWeights:
    """Keep the weights of a system, in place of those that there are.

    Raises:
        DataError: if the fit was not accepted.
    """
    if not fit.accepted or fit.after is None or fit.error is None:
        raise DataError(f"{fit}; only weights that rank held-back questions better are stored")
    kept = FittedWeights(
        system,
        dict(fit.weights),
        dict(fit.start),
        index.model,
        index.fingerprint,
        fit.questions,
        fit.before,
        fit.after,
        fit.error,
    )
    content = json.dumps({"format": _FORMAT, **asdict(kept)}, indent=1, allow_nan=False)
    index.files.write_file(_file_name(system), content.encode())
    return kept


def delete_weights(index: Searched, system: str) -> None:
    """Forget the weights of a system; nothing happens where there are none."""
    index.files.delete_file(_file_name(system))


def has_weights(index: Searched, system: str) -> bool:
    """Whether there are some for the system, readable or not."""
    return index.files.read_file(_file_name(system)) is not None


def _checked(values: dict[str, Any]) -> FittedWeights:
    """What `store_weights` wrote.

    Raises:
        ValueError: if a number is none, or not finite.
        KeyError: if something is missing.
        TypeError: if something is of another kind.
    """
    for name in ("weights", "start"):
        values[name] = {str(part): _finite(weight) for part, weight in values[name].items()}
    for name in ("before", "after", "error"):
        values[name] = _finite(values[name])
    for name in ("system", "model", "fingerprint"):
        values[name] = str(values[name])
    return FittedWeights(**{**values, "questions": int(values["questions"])})


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no weight")
    return number


def _file_name(system: str) -> str:
    return f"weights-{system}.json"
