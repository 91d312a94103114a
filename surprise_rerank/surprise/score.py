"""The surprise score ('Taken by Surprise: Contrast effect for Similarity Scores', arXiv 2308.09765).

For a key k, an anchor q (the paper's query), an ensemble E and a similarity Psi:

    Sigma(k, q | E) = P(Psi(e, q) < Psi(k, q)), e drawn from E                              (1)
    Sigma ~ Phi((Psi(k, q) - mu_q) / sigma_q)                                                (2)
    Sigma_w = (1 - w) Psi_hat + w Sigma                                                      (4)
    w = tanh(|E| / N_cross), N_cross = 1000                                                  (5)

Psi_hat is one function for all anchors, so that at w = 0 the order is the similarity's.

The normalisation depends on q. To change a ranking of documents, the document is q and the question is k.
With the question as q the order stays, and the score becomes comparable across questions.

Phi saturates at 1.0 beyond 8.3 sigma in float64, so scores are ordered by z or by log-survival, never by p.
(2) is for normal similarities, and they are not: the order holds, with sentence models the bulk, too, the
tail of Phi does not. (1) over the ensemble's sample, the empirical model, does.

Psi can be any similarity: `Ensemble` has exact moments for dot products and cosines, `SampledEnsemble`
estimates them for any function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.surprise.sampled import SampledEnsemble

SurpriseModel: TypeAlias = Literal["gaussian", "pooled", "percentile", "empirical"]
Weight: TypeAlias = float | Literal["crossover"]

_ONE_OR_ALL = "give one for each similarity, or one for all"
CROSSOVER_SIZE = 1000
# Rule (5) stays a little below 1: Sigma saturates in the tail, where Psi_hat then keeps the order.
_LARGEST_CROSSOVER = 1 - 1e-6
# Deviations below this share of the similarity's scale are rounding, not spread.
_NO_SPREAD = 1e-7
# Similarities of float32 vectors closer than this share of their size are equal.
ROUNDING = 1e-6


def probability_by_definition(similarity: float, ensemble_similarities: npt.ArrayLike) -> float:
    """Equation (1): the share of the ensemble's similarities strictly below this one; NaN for no ensemble."""
    others = [float(value) for value in np.asarray(ensemble_similarities, dtype=np.float64)]
    if not others:
        return float("nan")
    return sum(value < similarity for value in others) / len(others)


def empirical_probability(
    similarity: npt.ArrayLike, ensemble_similarities: npt.ArrayLike, *, tolerance: npt.ArrayLike = 0.0
) -> Float64Array:
    """Equation (1) for many pairs at once: (n,) shares, NaN for an empty ensemble.

    Args:
        similarity: (n,) similarities Psi(k_i, q_i).
        ensemble_similarities: (n, s) similarities Psi(e, q_i) of the ensemble to each pair's anchor.
        tolerance: members within this distance are tied, and not below; (n,) or a scalar. Similarities in
            float32, or of batches of another size, differ in their last bits.
    """
    psi = np.asarray(similarity, dtype=np.float64)
    others = np.asarray(ensemble_similarities, dtype=np.float64)
    if not others.shape[1]:
        return np.full(len(psi), np.nan)
    below: Float64Array = (others < (psi - np.asarray(tolerance))[:, None]).mean(axis=1)
    return below


def ordered_share(share: Float64Array, z: Float64Array, members: int) -> Float64Array:
    """Shares (1) of an ensemble's sample, in an order above all of its members, too.

    Most candidates of a pool are above the whole sample. n members leave n + 1 gaps, and z orders the shares
    within one gap, in a form that never reaches 1.
    """
    ordered: Float64Array = (share * members + 0.5 + 0.5 * z / (1 + np.abs(z))) / (members + 1)
    return ordered


def share_below(similarity: Float64Array, ascending: Float64Array) -> Float64Array:
    """Equation (1) for one anchor: (n,) shares of (s,) members in order that lie below, ties being equal.

    Members that are equal but for float32's rounding are ties.
    """
    tolerance = ROUNDING * np.maximum(np.abs(similarity), np.abs(ascending).max(initial=0.0))
    below: Float64Array = np.searchsorted(ascending, similarity - tolerance) / len(ascending)
    return below


def has_spread(moments: Moments) -> npt.NDArray[np.bool_]:
    """Whether a deviation is more than the rounding of its mean, so that z is defined: (n,) or a scalar."""
    mean, deviation = np.broadcast_arrays(moments.mean, moments.deviation)
    spread: npt.NDArray[np.bool_] = deviation > _NO_SPREAD * np.maximum(np.abs(mean), 1e-30)
    return spread


def z_scores(similarity: npt.ArrayLike, moments: Moments) -> Float64Array:
    """(n,) z = (Psi - mu_q) / sigma_q, the argument of Phi in (2); NaN where sigma_q is 0."""
    psi = np.asarray(similarity, dtype=np.float64)
    defined = np.broadcast_to(has_spread(moments), psi.shape)
    z: Float64Array = np.divide(
        psi - moments.mean, moments.deviation, out=np.full(psi.shape, np.nan), where=defined
    )
    return z


def probability(z: npt.ArrayLike) -> Float64Array:
    """Phi(z): the share of the ensemble that is less similar, if similarities are normal, which they are not.

    The order and, with sentence models, the bulk hold. Beyond .99 it is a name for z: with sentence models
    .999 comes 3 to 6 times too often, with GloVe nearly never (docs/results.md). Where the tail counts, take
    the `empirical` model, or a threshold that is measured (`thresholds.background`). Do not sort by it.
    """
    from scipy import special

    p: Float64Array = special.ndtr(np.asarray(z, dtype=np.float64))
    return p


def log_survival(z: npt.ArrayLike) -> Float64Array:
    """log(1 - Phi(z)), finite and strictly decreasing far into the tail, where 1 - p has long become 0.

    >>> float(log_survival(40.0).round(2))
    -804.61
    """
    from scipy import special

    tail: Float64Array = special.log_ndtr(-np.asarray(z, dtype=np.float64))
    return tail


def crossover_weight(count: int, crossover_size: float = CROSSOVER_SIZE) -> float:
    """Equation (5): how far an ensemble of this size is to be trusted, from 0 to 1."""
    return float(np.tanh(count / crossover_size))


def normalized_similarity(similarity: npt.ArrayLike, mean: float) -> Float64Array:
    """Psi_hat of (4) from the mean similarity: piecewise linear, 0 -> 0, mean -> 0.5, 1 -> 1.

    The published program has this form over more than a million similarities: it needs their mean alone, and
    its own mean is about .5, not exactly. `normalized_similarity_exact` is its form over fewer. Means outside
    (0, 1) are moved to the border. Similarities below 0, which (4) does not define, stay as they are: a mean
    near 0 would move them to minus infinity.
    """
    psi = np.asarray(similarity, dtype=np.float64)
    split = min(max(mean, 1e-6), 1 - 1e-6)
    lines = np.where(psi <= split, 0.5 * psi / split, 0.5 + 0.5 * (psi - split) / (1 - split))
    return np.where(psi < 0, psi, lines)


def normalized_similarity_exact(similarity: npt.ArrayLike, ensemble: npt.ArrayLike) -> Float64Array:
    """Psi_hat of (4) from (s,) similarities of the ensemble: two lines that meet at the median, of mean 0.5.

    The ensemble's and the (n,) similarities are to one anchor, the former in [0, 1].
    """
    psi, others = (np.asarray(a, dtype=np.float64) for a in (similarity, ensemble))
    border.some("the ensemble", others, "give similarities from 0 to 1")
    border.share("the smallest similarity of the ensemble", float(others.min()))
    border.share("the largest similarity of the ensemble", float(others.max()))
    split = float(np.median(others))
    if not 0 < split < 1:
        border.refuse("the ensemble's median similarity", split, "between 0 and 1", "Psi_hat is not defined")
    # With height h at the split, the mean over the ensemble is h * left + (1 - h) * right.
    left = float((np.minimum(others, split) / split).mean())
    right = float((np.maximum(others - split, 0.0) / (1 - split)).mean())
    # Where both are 0.5 (half of the ensemble at 0, half at 1), every height gives the mean 0.5.
    height = (0.5 - right) / (left - right) if left > right else 0.5
    return np.where(psi <= split, height * psi / split, height + (1 - height) * (psi - split) / (1 - split))


def mixture(similarity: npt.ArrayLike, sigma: npt.ArrayLike, weight: float, split: float) -> Float64Array:
    """Equation (4), in any shape: (1 - w) Psi_hat + w Sigma; Psi_hat is 0.5 at `split`, the mean."""
    mixed: Float64Array = (1 - weight) * normalized_similarity(similarity, split) + weight * np.asarray(sigma)
    return mixed


@dataclass(frozen=True, slots=True, eq=False)
class SurpriseScores:
    """Surprise of n pairs.

    Attributes:
        score: (n,) what to sort by: z for weight 1 (the empirical model: see `Surprise.weight`), Sigma_w of
            (4) below that. Where surprise is not defined, it is the plain similarity for weight 1 or an
            ensemble of less than two members, and else Psi_hat, which is on the scale of Sigma_w.
        z: (n,) (Psi - mu_q) / sigma_q in the model's terms; NaN where not defined.
        probability: (n,) Sigma: in the empirical model the share (1), else Phi of z as in (2), whose tail
            does not hold (see `probability`); of keys that are drawn as the ensemble was. NaN where not
            defined.
        weight: w of (4).
        defined: (n,) whether the surprise of the pair is defined.
    """

    score: Float64Array
    z: Float64Array
    probability: Float64Array
    weight: float
    defined: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Surprise:
    """The surprise score of a similarity against an ensemble.

    Attributes:
        ensemble: what the similarities are compared with: an `Ensemble` of vectors, whose anchors are (n, d)
            vectors, or a `SampledEnsemble` under any similarity.
        model: `gaussian` is (2); `pooled` is (2) with one sigma for all anchors; `percentile` puts p50 and
            p84.134 - p50 in place of mean and deviation; `empirical` is the definition (1). The last two
            use the ensemble's sample.
        weight: w of (4), or `crossover` for rule (5). At 1 the score is z; in the empirical model it is the
            share (1), ordered within one member's share by z, which keeps the order above all members.
        shrink_mean: how far each anchor's mean is moved to the one that all share, from 0 to 1.
        shrink_deviation: the same for deviations; the pooled model is 1.
        anchors: the population of anchors that share the pooled moments, for `pooled` and for shrinking, and
            Psi_hat, for weights below 1: an `Ensemble`, or a sample of anchors. Where none is given, an
            `Ensemble` takes its own members.
        crossover_size: N_cross of (5).
    """

    ensemble: Ensemble | SampledEnsemble[Any]
    model: SurpriseModel = "gaussian"
    weight: Weight = "crossover"
    shrink_mean: float = 0.0
    shrink_deviation: float = 0.0
    anchors: Any = None
    crossover_size: float = CROSSOVER_SIZE

    def __post_init__(self) -> None:
        border.choice("model", self.model, get_args(SurpriseModel))
        if not isinstance(self.weight, str):
            border.share("weight", self.weight)
        elif self.weight != "crossover":
            border.refuse("weight", self.weight, "'crossover' or a number from 0 to 1")
        border.positive("crossover_size", self.crossover_size)
        for name in ("shrink_mean", "shrink_deviation"):
            share = border.share(name, getattr(self, name))
            if share and self.model == "empirical":
                border.refuse(name, share, "0", "the empirical model has no moments to move")
        if isinstance(self.ensemble, Ensemble) and isinstance(self.anchors, Ensemble):
            self.ensemble.require_same_kind(self.anchors)

    @cached_property
    def pooled(self) -> Moments:
        """Scalar moments that all anchors share."""
        return self._over_anchors(percentiles=self.model == "percentile")

    @cached_property
    def split(self) -> float:
        """The mean similarity of members and anchors, where Psi_hat is 0.5 for all anchors."""
        return float(self._over_anchors(percentiles=False).mean)

    @property
    def mixing_weight(self) -> float:
        """The w of (4), by rule (5) where it is `crossover`."""
        if self.weight == "crossover":
            return crossover_weight(self.ensemble.count, self.crossover_size)
        return float(self.weight)

    def moments(self, anchors: Any) -> Moments:
        """(n,) means and deviations that the model compares with, moved towards the pooled ones as asked.

        They can be stored beside each document and given to `scores_from` later.
        """
        statistics = self.ensemble.percentiles if self.model == "percentile" else self.ensemble.moments
        moments = statistics(anchors)
        share = 1.0 if self.model == "pooled" else self.shrink_deviation
        if share or self.shrink_mean:
            return moments.shrunk(self.pooled, mean=self.shrink_mean, deviation=share)
        return moments

    def scores(self, similarity: npt.ArrayLike, anchors: Any) -> SurpriseScores:
        """The surprise of similarities Psi(k_i, q_i); no score depends on the other pairs of the call.

        Args:
            similarity: (n,) similarities.
            anchors: the q of each pair, or one q for all pairs; (n, d) vectors for an `Ensemble`.
        """
        q = np.atleast_2d(np.asarray(anchors)) if isinstance(self.ensemble, Ensemble) else anchors
        psi = _finite(similarity)
        if len(q) != 1:
            border.equal("the number of anchors", len(q), len(psi), _ONE_OR_ALL)
        others = self.ensemble.similarities(q) if self.model == "empirical" else None
        return self._scores(psi, self.moments(q), others)

    def scores_from(self, similarity: npt.ArrayLike, moments: Moments) -> SurpriseScores:
        """Return `scores` from moments that `moments` of this object has computed before."""
        psi = _finite(similarity)
        if self.model == "empirical":
            raise DataError("the empirical model needs the ensemble's sample, not its moments; call scores()")
        if np.size(moments.mean) != 1:
            border.equal("the number of moments", np.size(moments.mean), len(psi), _ONE_OR_ALL)
        return self._scores(psi, moments, None)

    def _over_anchors(self, *, percentiles: bool) -> Moments:
        """Scalar moments over the population of anchors."""
        statistics = self.ensemble.percentiles if percentiles else self.ensemble.moments
        population = self.ensemble if self.anchors is None else self.anchors
        if isinstance(population, Ensemble):
            if isinstance(self.ensemble, Ensemble) and not percentiles:
                return self.ensemble.pooled(population)
            return population.pooled_over_sample(statistics)
        advice = "pooled moments and weights below 1 need a population of them"
        return statistics(border.present("anchors", self.anchors, advice)).pooled()

    def _scores(self, psi: Float64Array, moments: Moments, others: Float64Array | None) -> SurpriseScores:
        """Equations (2), (4) and (5); (1) where the ensemble's similarities are given."""
        exact = self.model in ("gaussian", "pooled")
        members = self.ensemble.count if exact else self.ensemble.sampled
        z = z_scores(psi, moments) if members > 1 else np.full(len(psi), np.nan)
        sigma = probability(z)
        smooth = sigma
        if others is not None and members > 1:
            sigma = _shares(psi, others, ~np.isnan(z))
            smooth = ordered_share(sigma, z, members)
        weight = self.mixing_weight
        if self.weight == "crossover":
            weight = min(weight, _LARGEST_CROSSOVER)
        score, instead, defined = smooth if self.model == "empirical" else z, psi, ~np.isnan(z)
        if weight < 1 and members > 1:
            # Where surprise is not defined, all of the weight is Psi_hat's.
            score = mixture(psi, smooth, weight, self.split)
            instead = normalized_similarity(psi, self.split)
        return SurpriseScores(np.where(defined, score, instead), z, sigma, weight, defined)


def _shares(psi: Float64Array, others: Float64Array, defined: npt.NDArray[np.bool_]) -> Float64Array:
    """(n,) equation (1), one anchor or many; members that are equal but for float32's rounding are ties."""
    if len(others) == 1:
        return np.where(defined, share_below(psi, np.sort(others[0])), np.nan)
    tolerance = ROUNDING * np.maximum(np.abs(psi), np.abs(others).max(axis=1, initial=0.0))
    return np.where(defined, empirical_probability(psi, others, tolerance=tolerance), np.nan)


def _finite(similarity: npt.ArrayLike) -> Float64Array:
    psi = np.asarray(similarity, dtype=np.float64)
    if psi.ndim != 1 or not np.isfinite(psi).all():
        border.refuse("similarity", psi.tolist(), "finite numbers of shape (n,)", "leave others out")
    return psi
