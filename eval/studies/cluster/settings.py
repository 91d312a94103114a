"""Settings of clusterings; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surprise_rerank.core.settings import option, split_names
from surprise_rerank.eval.studies.settings import LabelledStudy


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings(LabelledStudy):
    """What is clustered, and how."""

    files: tuple[Path, ...] = option(metavar="FILE...", argument=True)
    clusters: int | None = option(
        None, help="How many clusters.  [default: as many as there are labels]", metavar="K", low=1
    )
    repeats: int = option(20, help="Beginnings of k-means.", low=1)
    assignments: tuple[str, ...] = option(
        ("cosine", "surprise", "surprise@0.75", "pooled", "percentile", "empirical"),
        help="What to compare, with commas between.",
        metavar="NAMES",
        parse=split_names,
    )
    limit: int | None = option(
        None, help="A quick look: N texts, a random sample that is always the same.", metavar="N", low=1
    )
