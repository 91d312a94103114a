"""Settings of clusterings. Imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import LabelledStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(LabelledStudy):
    """What is clustered, and how.

    Attributes:
        files: labelled texts.
        clusters: how many clusters; as many as there are labels by default.
        repeats: beginnings of k-means.
        assignments: what to compare.
        limit: a quick look: N texts, a random sample that is always the same.
    """

    files: tuple[Path, ...]
    clusters: int | None = None
    repeats: int = 20
    assignments: tuple[str, ...] = (
        *("cosine", "surprise", "surprise@0.75"),
        *("pooled", "percentile", "empirical"),
    )
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("clusters", "repeats", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"{name}={value}: give a number from 1")
