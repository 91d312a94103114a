"""Weights that were fitted on judged questions, kept beside an index's points: some for each system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from surprise_rerank._errors import DataError, IndexMismatchError
from surprise_rerank.connectors.qdrant._search.corpus import Corpus
from surprise_rerank.core._json_values import sealed, unsealed

if TYPE_CHECKING:  # `status` shows weights, and does without torch
    from surprise_rerank.rerank._weight_fitting import WeightFit

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FittedWeights:
    """Weights of a system by part, those that it starts with, and what they are worth.

    `before` and `after` are mean nDCG@10 of questions that the weights have not seen, `error` the standard
    error of the difference.
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


def load_weights(corpus: Corpus, system: str) -> Mapping[str, float] | None:
    """The fitted weights of a system; None without, an IndexMismatchError if they are of another model."""
    fitted = fitted_weights(corpus, system)
    if fitted is None:
        return None
    if fitted.fingerprint != corpus.fingerprint:
        raise IndexMismatchError(
            f"{corpus.where}: the weights of {system!r} were fitted with the model {fitted.model!r} "
            f"({fitted.fingerprint}), the index is of {corpus.model!r} "
            f"({corpus.fingerprint}); fit them again, or forget them with 'surprise-rerank tune weights "
            f"--reset --system {system}'"
        )
    return fitted.weights


def fitted_weights(corpus: Corpus, system: str) -> FittedWeights | None:
    """Return the weights of a system, of whatever model; None without, a DataError if damaged."""
    content = corpus.files.read_file(_file_name(system))
    if content is None:
        return None
    name = f"{corpus.where}: {_file_name(system)}"
    return FittedWeights(**unsealed(content, _FORMAT, name, "fit the weights again"))


def store_weights(corpus: Corpus, system: str, fit: WeightFit) -> FittedWeights:
    """Keep the weights of a system, in place of those that there are; a DataError if not accepted."""
    if not fit.accepted or fit.after is None or fit.error is None:
        raise DataError(f"{fit}; only weights that rank held-back questions better are stored")
    made_by = (system, dict(fit.weights), dict(fit.start), corpus.model, corpus.fingerprint)
    kept = FittedWeights(*made_by, fit.questions, fit.before, fit.after, fit.error)
    corpus.files.write_file(_file_name(system), sealed(asdict(kept), _FORMAT))
    return kept


def delete_weights(corpus: Corpus, system: str) -> None:
    """Forget the weights of a system; nothing happens where there are none."""
    corpus.files.delete_file(_file_name(system))


def has_weights(corpus: Corpus, system: str) -> bool:
    """Whether there are some for the system, readable or not."""
    return corpus.files.read_file(_file_name(system)) is not None


def _file_name(system: str) -> str:
    return f"weights-{system}.json"
