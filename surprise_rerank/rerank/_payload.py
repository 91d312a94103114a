"""Numbers and dates of a document's metadata as one more scorer: popularity, price, recency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeGuard

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query
from surprise_rerank.core._json_values import at
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank._scorers import Scorer

_DAY = 86_400.0


@dataclass(frozen=True)
class PayloadScorer(Scorer):
    """What a key of the metadata says, in deviations above its mean over the pool.

    Attributes:
        key: such as `date` or `metadata.date`; a dot leads into an object. Numbers count as they are, dates
            (ISO 8601) in days. A document without one counts as average.
        decay: at this distance from `origin` the score has halved: 2^(-|x - origin| / decay), in days for
            dates. None takes the number itself, larger for better.
        origin: the best date or number; now where None.
        name: what its part is called in a ranking; the key by default.
    """

    key: str
    decay: float | timedelta | None = None
    origin: float | date | None = None
    name: str = ""

    @property
    def needs(self) -> frozenset[Field]:
        """The documents, for their metadata."""
        return frozenset({"documents"})

    def __post_init__(self) -> None:
        border.key("key", self.key, "date")
        if self.decay is not None and not self._halving > 0:
            border.refuse("decay", self.decay, "above 0", "give days, or a timedelta")
        object.__setattr__(self, "name", self.name or self.key.removeprefix("metadata."))

    def scores(self, query: Query, candidates: Candidates) -> Float64Array:
        """(n,) the values, or how near they are; NaN where a document has none.

        Raises:
            DataError: if the candidates have no documents, or a decay of numbers has no origin.
        """
        stored = [_value(document.metadata, self.key) for document in candidates.require_documents()]
        values = np.array([_number(value) for value in stored])
        if self.decay is None:
            return values
        if any(_is_number(value) for value in stored):  # of which none is now
            border.present(f"origin of the numbers in {self.key!r}", self.origin, "give the best number")
        best = _number(datetime.now(UTC) if self.origin is None else self.origin)
        return np.asarray(np.exp2(-np.abs(values - best) / self._halving))

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Mean and deviation of the pool's values."""
        scores = self.scores(query, candidates)
        return Moments.of(scores[np.isfinite(scores)])

    @property
    def _halving(self) -> float:
        days = self.decay
        return days.total_seconds() / _DAY if isinstance(days, timedelta) else float(days or 0)


def _value(metadata: Mapping[str, Any], key: str) -> Any:
    """The value of a key; filters begin it with `metadata.`."""
    value = at(metadata, key)
    return at(metadata, key.removeprefix("metadata.")) if value is None else value


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float:
    """A number, or the days of a date; NaN of anything else."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return math.nan
    if isinstance(value, date):
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        moment: datetime = value if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.timestamp() / _DAY
    return value + 0.0 if _is_number(value) else math.nan
