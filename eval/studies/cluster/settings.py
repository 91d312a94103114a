"""Settings of clusterings; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surprise_rerank.core.settings import option, split_names
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import LabelledColumns, LabelledStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFiles(LabelledColumns):
    """Files of labelled texts.

    Attributes:
        files: JSONL, CSV, TSV or Parquet.
    """

    files: tuple[Path, ...] = option(metavar="FILE...", argument=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(LabelledStudy):
    """How texts are clustered."""

    clusters: int | None = option(
        None, help="How many clusters.  [default: as many as there are labels]", metavar="K", low=1
    )
    repeats: int = option(20, help="Beginnings of k-means.", low=1)
    seed: int = option(0, help="Of the first repeat; each one has the next.", low=0, high=2**31)
    assignments: tuple[str, ...] = option(
        ("cosine", "surprise", "surprise@0.75", "pooled", "percentile", "empirical"),
        help="What to compare, with commas between.",
        metavar="NAMES",
        parse=split_names,
    )
    limit: int | None = option(
        None, help="A quick look: N texts, a random sample that is always the same.", metavar="N", low=1
    )

    def __post_init__(self) -> None:
        from surprise_rerank.eval.studies.cluster.assignments import find_assignments

        find_assignments(self.assignments)
        for name in ("clusters", "repeats", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"{name} must be a whole number from 1 on, got {value!r}")
