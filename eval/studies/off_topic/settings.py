"""Settings of the study of off-topic questions. Imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class OffTopicSettings:
    """What is measured.

    Attributes:
        datasets: corpora with judged questions; each one's questions are off-topic for the others.
        files: more off-topic questions.
        models: of the vectors.
        split: which judged questions; test by default.
        alphas: shares of off-topic questions that thresholds should let through.
        limit: the most off-topic questions of a source, drawn at random.
        depth: size of the pools.
        cache: folder of indexes; $SURPRISE_RERANK_CACHE or the user's cache folder by default.
    """

    datasets: tuple[str, ...]
    files: tuple[Path, ...] = ()
    models: tuple[str, ...] = (MODEL,)
    split: str | None = None
    alphas: tuple[float, ...] = (0.05, 0.2)
    limit: int = 1000
    depth: int = 100
    cache: Path | None = None

    def __post_init__(self) -> None:
        if not self.alphas or not all(0 < own < 1 for own in self.alphas):
            given = ",".join(map(str, self.alphas))
            raise DataError(f"alphas={given}: give shares between 0 and 1 with commas between, as .05,.2")
        if self.limit < 20 or self.depth < 1:
            raise DataError(f"limit={self.limit} and depth={self.depth}: give 20 or more, and 1 or more")
