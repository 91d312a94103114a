"""The surprise score ('Taken by Surprise: Contrast effect for Similarity Scores', arXiv 2308.09765).

For a key k, an anchor q (the paper's query), an ensemble E and a similarity Psi:

    Sigma(k, q | E) = P(Psi(e, q) < Psi(k, q)), e drawn from E                              (1)
    Sigma ~ Phi((Psi(k, q) - mu_q) / sigma_q)                                                (2)
    Sigma_w = (1 - w) Psi_hat + w Sigma                                                      (4)
    w = tanh(|E| / N_cross), N_cross = 1000                                                  (5)

The normalisation belongs to q. To change a ranking of documents, the document is q and the question is k;
with the question as q the order stays and the score becomes comparable across questions.

Phi saturates at 1.0 beyond 8.3 sigma in float64, so scores are ordered by z or by log-survival, never by p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy import special

from surprise_rerank.arrays import Float64Array
from surprise_rerank.candidates import Moments
from surprise_rerank.ensemble import Ensemble
from surprise_rerank.errors import DataError

SurpriseModel: TypeAlias = Literal["gaussian", "percentile", "empirical"]
Weight: TypeAlias = float | Literal["crossover"]

CROSSOVER_SIZE = 1000
# Deviations below this share of the similarity's scale are rounding, not spread.
_NO_SPREAD = 1e-7


def probability_by_definition(similarity: float, ensemble_similarities: npt.ArrayLike) -> float:
    """Equation (1): the share of the ensemble's similarities strictly below this one; NaN for no ensemble."""
    others = [float(value) for value in np.asarray(ensemble_similarities, dtype=np.float64)]
    if not others:
        return float("nan")
    return sum(value < similarity for value in others) / len(others)


def empirical_probability(similarity: npt.ArrayLike, ensemble_similarities: npt.ArrayLike) -> Float64Array:
    """Equation (1) for many pairs at once, ties counted as not below.

    Args:
        similarity: (n,) similarities Psi(k_i, q_i).
        ensemble_similarities: (n, s) similarities Psi(e, q_i) of the ensemble to each pair's anchor.

    Returns:
        (n,) probabilities; NaN for an empty ensemble.
    """
    psi = np.asarray(similarity, dtype=np.float64)
    others = np.asarray(ensemble_similarities, dtype=np.float64)
    if not others.shape[1]:
        return np.full(psi.shape, np.nan)
    below: Float64Array = (others < psi[:, None]).mean(axis=1)
    return below


def z_scores(similarity: npt.ArrayLike, moments: Moments) -> Float64Array:
    """(n,) z = (Psi - mu_q) / sigma_q, the argument of Phi in (2); NaN where sigma_q is 0."""
    psi = np.asarray(similarity, dtype=np.float64)
    mean, deviation = np.broadcast_arrays(moments.mean, moments.deviation)
    spread = deviation > _NO_SPREAD * np.maximum(np.abs(mean), 1e-30)
    z: Float64Array = np.divide(psi - mean, deviation, out=np.full(psi.shape, np.nan), where=spread)
    return z


def probability(z: npt.ArrayLike) -> Float64Array:
    """Phi(z): the surprise as a probability. Report it; do not sort by it."""
    p: Float64Array = special.ndtr(np.asarray(z, dtype=np.float64))
    return p


def log_survival(z: npt.ArrayLike) -> Float64Array:
    """log(1 - Phi(z)), finite and strictly decreasing far into the tail, where 1 - p has long become 0.

    >>> float(log_survival(40.0).round(2))
    -804.61
    """
    tail: Float64Array = special.log_ndtr(-np.asarray(z, dtype=np.float64))
    return tail


def crossover_weight(count: int, crossover_size: float = CROSSOVER_SIZE) -> float:
    """Equation (5): how far an ensemble of this size is to be trusted, from 0 to 1."""
    return float(np.tanh(count / crossover_size))


def normalized_similarity(similarity: npt.ArrayLike, mean: npt.ArrayLike) -> Float64Array:
    """Psi_hat of (4) from the ensemble's mean: piecewise linear, 0 -> 0, mean -> 0.5, 1 -> 1.

    This splits at the mean, which needs no scan; its own mean is 0.5 where similarities are symmetric, and
    `normalized_similarity_exact` makes it 0.5 for any. Means outside (0, 1) are moved to the border,
    because a similarity that maps 0 to 0 and 1 to 1 has its mean between. Similarities below 0, of which
    (4) says nothing, stay as they are: on the first line, a mean near 0 would send them to minus infinity.
    """
    psi = np.asarray(similarity, dtype=np.float64)
    split = np.clip(np.asarray(mean, dtype=np.float64), 1e-6, 1 - 1e-6)
    lines = np.where(psi <= split, 0.5 * psi / split, 0.5 + 0.5 * (psi - split) / (1 - split))
    return np.where(psi < 0, psi, lines)


def normalized_similarity_exact(similarity: npt.ArrayLike, ensemble: npt.ArrayLike) -> Float64Array:
    """Psi_hat of (4) from the ensemble's similarities: two lines that meet at the median and have mean 0.5.

    Args:
        similarity: (n,) similarities to one anchor.
        ensemble: (s,) the ensemble's similarities to the same anchor, in [0, 1].

    Raises:
        DataError: if no such lines exist (an empty ensemble, or all of it at 0 or at 1).
    """
    psi, others = (np.asarray(a, dtype=np.float64) for a in (similarity, ensemble))
    if not len(others) or others.min() < 0 or others.max() > 1:
        raise DataError("Psi_hat needs a non-empty ensemble of similarities in [0, 1]")
    split = float(np.median(others))
    if not 0 < split < 1:
        raise DataError(f"Psi_hat is not defined: the ensemble's median similarity is {split}")
    # With height h at the split, the mean over the ensemble is h * left + (1 - h) * right.
    left = float((np.minimum(others, split) / split).mean())
    right = float((np.maximum(others - split, 0.0) / (1 - split)).mean())
    # Where both are 0.5 (half of the ensemble at 0, half at 1), every height gives the mean 0.5.
    height = (0.5 - right) / (left - right) if left > right else 0.5
    return np.where(psi <= split, height * psi / split, height + (1 - height) * (psi - split) / (1 - split))


@dataclass(frozen=True, slots=True, eq=False)
class SurpriseScores:
    """Surprise of n pairs.

    Attributes:
        score: (n,) what to sort by: z for weight 1, Sigma_w of (4) below that, the plain similarity where
            surprise is not defined.
        z: (n,) (Psi - mu_q) / sigma_q in the model's terms; NaN where not defined.
        probability: (n,) Sigma of (1) or (2); NaN where not defined.
        weight: w of (4).
        defined: (n,) whether the ensemble says anything about the pair.
    """

    score: Float64Array
    z: Float64Array
    probability: Float64Array
    weight: float
    defined: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Surprise:
    """The surprise score of a dot-product similarity against an ensemble.

    Attributes:
        ensemble: what the similarities are compared with.
        model: `gaussian` has exact moments; `percentile` puts p50 and p84.134 - p50 in their place;
            `empirical` is the definition (1). The last two use the ensemble's sample.
        weight: w of (4), or `crossover` for rule (5). At 1 the score is z.
    """

    ensemble: Ensemble
    model: SurpriseModel = "gaussian"
    weight: Weight = "crossover"

    def __post_init__(self) -> None:
        if self.model not in get_args(SurpriseModel):
            choices = ", ".join(get_args(SurpriseModel))
            raise DataError(f"surprise model {self.model!r} is not known; choose one of {choices}")
        fixed = isinstance(self.weight, int | float) and 0 <= self.weight <= 1
        if self.weight != "crossover" and not fixed:
            raise DataError(f"weight must be 'crossover' or a number from 0 to 1, got {self.weight!r}")

    def scores(self, similarity: npt.ArrayLike, anchors: npt.ArrayLike) -> SurpriseScores:
        """The surprise of similarities Psi(k_i, q_i); no score depends on the other pairs of the call.

        Args:
            similarity: (n,) dot products.
            anchors: (n, d) the q of each pair, or (1, d) for one q in all pairs.

        Raises:
            DataError: if shapes do not fit or values are not finite.
        """
        psi = np.asarray(similarity, dtype=np.float64)
        q = np.atleast_2d(np.asarray(anchors))
        if psi.ndim != 1 or len(q) not in (1, len(psi)):
            raise DataError(f"{psi.shape} similarities need as many anchors or one, got {q.shape}")
        if not np.isfinite(psi).all():
            raise DataError("similarities hold NaN or infinite values")
        moments = self.ensemble.percentiles(q) if self.model == "percentile" else self.ensemble.moments(q)
        members = self.ensemble.count if self.model == "gaussian" else len(self.ensemble.sample)
        z = z_scores(psi, moments) if members > 1 else np.full(len(psi), np.nan)
        sigma = probability(z)
        smooth = sigma
        if self.model == "empirical" and members > 1:
            others = np.broadcast_to(self.ensemble.similarities(q), (len(psi), len(self.ensemble.sample)))
            sigma = np.where(np.isnan(z), np.nan, empirical_probability(psi, others))
            # Most candidates of a pool lie above the whole sample. The one share that the sample leaves
            # open (n + 1 gaps for n members) goes to the Gaussian model, so that they stay in order.
            smooth = (sigma * others.shape[1] + smooth) / (others.shape[1] + 1)
        weight = crossover_weight(self.ensemble.count) if self.weight == "crossover" else float(self.weight)
        if weight < 1:
            score = (1 - weight) * normalized_similarity(psi, moments.mean) + weight * smooth
        else:
            score = smooth if self.model == "empirical" else z
        defined = ~np.isnan(z)
        return SurpriseScores(np.where(defined, score, psi), z, sigma, weight, defined)
