"""Why documents have their ranks: each scorer's scores, compared with its scores of other documents.

A similarity alone has no meaning. An explanation compares it with the same question's similarities to a
sample of the corpus: their histogram, the Gaussian of equation (2) of `surprise/score.py`, and the
candidates' positions on both. For surprise itself the anchor is a document: the sample is its similarities to
the ensemble.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from surprise_rerank._candidates import Ranking
from surprise_rerank.core._json_values import finite
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank._fusion import surprise_normalized
from surprise_rerank.similarities._token_matches import TokenMatch
from surprise_rerank.surprise.score import has_spread, probability, z_scores
from surprise_rerank.thresholds._background import QuestionBackground

_FEWEST_BINS, _MOST_BINS = 8, 40
_POINTS = 121  # of a curve


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """(b + 1,) edges, ascending, and (b,) numbers of values between; the last bin contains its right edge."""

    borders: Float64Array
    counts: IntArray

    def to_json(self) -> dict[str, Any]:
        """Borders and counts as lists, for JSON."""
        return {"borders": self.borders.tolist(), "counts": self.counts.tolist()}


@dataclass(frozen=True, slots=True, eq=False)
class ScoreDistribution:
    """Similarities to one anchor, a question or a document, with the model's curve."""

    scorer: str  # whose similarities they are, such as `cosine`
    of: str  # what they are of, for readers: "256 sampled documents"
    sample: Float64Array  # (s,) similarities; the histogram omits those that are not finite
    moments: Moments | None = None  # scalars, mu and sigma of the Gaussian; None where there is no model
    anchor: str | None = None  # the id of the document that is the anchor; None where the question is

    @property
    def values(self) -> Float64Array:
        """The finite similarities of the sample."""
        return self.sample[np.isfinite(self.sample)]

    @property
    def has_curve(self) -> bool:
        """Whether there is a Gaussian, and not all of the sample in one place."""
        return self.moments is not None and bool(has_spread(self.moments))

    def histogram(self) -> Histogram:
        """The sample's histogram, of 8 to 40 equal bins."""
        values = self.values
        bins = min(max(round(math.sqrt(len(values))), _FEWEST_BINS), _MOST_BINS)
        low, high = _apart(float(values.min(initial=np.inf)), float(values.max(initial=-np.inf)))
        counts, borders = np.histogram(values, np.linspace(low, high, bins + 1))
        return Histogram(borders, counts.astype(np.int64))

    def curve(self, low: float, high: float, width: float) -> tuple[Float64Array, Float64Array]:
        """The Gaussian in the histogram's units: places from low to high, and counts for bins of a width."""
        places = np.linspace(low, high, _POINTS)
        if self.moments is None or not self.has_curve:
            return places, np.zeros(_POINTS)
        z = z_scores(places, self.moments)
        scale = len(self.values) * width / math.sqrt(2 * math.pi)
        return places, np.asarray(scale * np.exp(-(z**2) / 2) / self.moments.deviation, np.float64)

    def to_json(self) -> dict[str, Any]:
        """Return the scorer, the anchor, mean and deviation (None without a model) and the histogram."""
        return {
            "scorer": self.scorer,
            "anchor": self.anchor,
            "of": self.of,
            "count": len(self.sample),
            "mean": None if self.moments is None else float(self.moments.mean),
            "deviation": None if self.moments is None else float(self.moments.deviation),
            "histogram": self.histogram().to_json(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class ScorerShare:
    """One scorer's (n,) similarities of candidates, NaN where it has none, and what it adds to their scores.

    The moments are of its scores over the sample: scalars where the question is the anchor, (n,) where each
    document is its own. The weight is 0 for one that only retrieves.
    """

    name: str
    raw: Float64Array
    moments: Moments
    weight: float
    contribution: Float64Array
    added: Float64Array | None = None  # (n,) what a sum multiplies with the weight, where it is one

    @property
    def z(self) -> Float64Array:
        """(n,) deviations above the mean, as a fusion adds them; NaN without spread or similarity."""
        if self.added is not None:
            return self.added
        z = z_scores(self.raw, self.moments)
        if self.moments.members is None:
            return z
        return np.where(np.isnan(z), np.nan, surprise_normalized(self.raw, self.moments))

    def to_json(self, row: int) -> dict[str, Any]:
        """The numbers of one candidate as JSON values; None where one is not defined."""
        size = len(self.raw)
        z = float(self.z[row])
        return {
            "raw": finite(float(self.raw[row])),
            "mean": finite(float(np.broadcast_to(self.moments.mean, size)[row])),
            "deviation": finite(float(np.broadcast_to(self.moments.deviation, size)[row])),
            "z": finite(z),
            "probability": finite(float(probability(z))),
            "weight": self.weight,
            "contribution": finite(float(self.contribution[row])),
        }


@dataclass(frozen=True, slots=True, eq=False)
class RankingExplanation:
    """How the ranking of a question was computed.

    The contributions of all shares sum to the score; where a document's score is a mean over several
    passages, to that of its best one.
    """

    question: str
    ranking: Ranking  # all n candidates
    shown: Sequence[int]  # which of them are explained one by one, as positions in the ranking
    shares: tuple[ScorerShare, ...]
    first_stage: tuple[str, ...] = ()  # the scorers that made the pool, where something else ordered it then
    # Scorers' scores of other documents, or documents' of other questions.
    distributions: tuple[ScoreDistribution, ...] = ()
    # Position in the ranking -> which of its tokens matched; empty for scorers that read none.
    matches: Mapping[int, Sequence[TokenMatch]] = field(default_factory=dict)
    background: QuestionBackground | None = None

    def share(self, name: str) -> ScorerShare:
        """The share of a scorer, which there is."""
        return next(share for share in self.shares if share.name == name)

    def before(self, name: str) -> list[int | None]:
        """Each candidate's rank by one scorer alone, from 1, the better of equals; None without a score."""
        raw = self.share(name).raw
        ranks = stats.rankdata(-raw, method="min", nan_policy="omit")
        return [None if math.isnan(rank) else int(rank) for rank in ranks.tolist()]

    def places(self, distribution: ScoreDistribution) -> list[tuple[int, float]]:
        """Ranks (from 1) and similarities of what is shown on a distribution; on a document's its own."""
        raw = self.share(distribution.scorer).raw
        rows = [row for row in self.shown if distribution.anchor in (None, self.ranking.ids[row])]
        return [(row + 1, float(raw[row])) for row in rows if math.isfinite(raw[row])]

    @property
    def totals(self) -> ScoreDistribution | None:
        """The best totals T of background questions (equation (2) of `background.py`); None without any."""
        if self.background is None:
            return None
        return ScoreDistribution(
            "total", f"{self.background.count} background questions' best", self.background.totals
        )

    def total_places(self) -> list[tuple[int, float]]:
        """Ranks and totals T of the shown candidates; none without a background."""
        totals = self._totals()
        return [(row + 1, totals[row]) for row in self.shown if row in totals and math.isfinite(totals[row])]

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values; `docs/commands.md` documents the keys."""
        totals = self._totals()
        before = {name: self.before(name) for name in self.first_stage}
        return {
            "scorers": [{"name": share.name, "weight": share.weight} for share in self.shares],
            "distributions": [distribution.to_json() for distribution in self.distributions],
            "background": None if self.background is None else self._background(self.background),
            "candidates": [self._candidate(row, before, totals) for row in self.shown],
        }

    def _background(self, background: QuestionBackground) -> dict[str, Any]:
        """The background questions' totals, and what totals are made of."""
        means = background.means_for(self.question)
        moments = zip(background.names, means, background.scales.deviations, strict=True)
        weights = dict(zip(background.names, background.weights.tolist(), strict=True))
        finite = background.totals[np.isfinite(background.totals)]
        return {
            "count": background.count,
            "scorer": background.scorer,
            "scorers": [
                {"name": name, "mean": float(mean), "deviation": float(deviation), "weight": weights[name]}
                for name, mean, deviation in moments
            ],
            "found_nothing": background.count - len(finite),
            "histogram": ScoreDistribution("total", "", finite).histogram().to_json(),
        }

    def _candidate(
        self, row: int, before: Mapping[str, Sequence[int | None]], totals: Mapping[int, float]
    ) -> dict[str, Any]:
        percentiles = self.ranking.percentile
        matches = self.matches.get(row)
        return {
            "rank": row + 1,
            "id": self.ranking.ids[row],
            "before": {name: ranks[row] for name, ranks in before.items()},
            "scorers": {share.name: share.to_json(row) for share in self.shares},
            "raw": {
                name: finite(float(scores[row])) for name, scores in self.ranking.scores_by_scorer.items()
            },
            "total": finite(totals[row]) if row in totals else None,
            "percentile": None if percentiles is None else float(percentiles[row]),
            "tokens": None if matches is None else [asdict(match) for match in matches],
        }

    def _totals(self) -> dict[int, float]:
        if self.background is None:
            return {}
        return dict(enumerate(self.background.totals_of(self.ranking, self.question).tolist()))


def span(distribution: ScoreDistribution) -> tuple[float, float]:
    """The range of a plot, of some width: the sample and the curve (3 deviations)."""
    ends = distribution.values.tolist()
    if distribution.moments is not None and distribution.has_curve:
        mean, deviation = float(distribution.moments.mean), float(distribution.moments.deviation)
        ends += [mean - 3 * deviation, mean + 3 * deviation]
    return _apart(min(ends, default=math.inf), max(ends, default=-math.inf))


def _apart(low: float, high: float) -> tuple[float, float]:
    """Two ends with a distance between them; 0 and 1 where there are no values."""
    if low > high:
        return 0.0, 1.0
    if high - low > 1e-12 * max(abs(low), abs(high)):
        return low, high
    margin = abs(low) / 2 or 0.5
    return low - margin, high + margin
