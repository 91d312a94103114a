"""Settings of semantic textual similarity. Imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True)
class StsSettings:
    """How similarities are compared.

    Attributes:
        similarities: names of the register, `cosine` for that of the model's own sentence vectors, or `all`;
            by default the paper's, over raw word vectors, or over unit token vectors of an encoder.
        baseline: the similarity that the others are compared with.
        resamples: bootstrap resamples for the intervals of differences; 0 for no intervals.
        post_process: measure `cosine` once more, without the first two principal components of a data set's
            sentence vectors; `+pp` after the model's name marks it.
    """

    similarities: tuple[str, ...] | None = None
    baseline: str = "cosine"
    resamples: int = 10_000
    post_process: bool = False

    def __post_init__(self) -> None:
        if self.resamples < 0:
            raise DataError(f"resamples={self.resamples}: give 0 or more")


@dataclass(frozen=True, slots=True)
class DataSets:
    """What is compared.

    Attributes:
        sets: data sets; also STS-B-dev, STS-B-train, SICK-R-trial, SICK-R-train, STR-characters.
    """

    sets: tuple[str, ...] = (
        *("STS12", "STS13", "STS14", "STS15", "STS16"),
        *("STS-B", "SICK-R", "STR"),
    )
