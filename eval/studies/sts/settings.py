"""Settings of semantic textual similarity; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.core.settings import option, split_names
from surprise_rerank.eval.studies.settings import SentenceInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class StsInputs(SentenceInputs):
    """What is read for a comparison."""

    sets: tuple[str, ...] = option(
        ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "STR"),
        help="Data sets, with commas between; also STS-B-dev, STS-B-train, SICK-R-trial, SICK-R-train, "
        "STR-characters.",
        metavar="NAMES",
        parse=split_names,
    )


@dataclass(frozen=True, slots=True)
class StsSettings:
    """How similarities are compared."""

    similarities: tuple[str, ...] | None = option(
        None,
        help="With commas between: names of the registry, `cosine` for that of the model's own sentence "
        "vectors, or `all`.  [default: the paper's, over raw word vectors, or over unit token vectors of an "
        "encoder]",
        metavar="NAMES",
        parse=split_names,
    )
    baseline: str = option("cosine", help="The similarity that the others are compared with.", metavar="NAME")
    resamples: int = option(
        10_000, help="Bootstrap resamples for the intervals of differences; 0 for no intervals.", low=0
    )
    post_process: bool = option(
        False,
        help="Measure `cosine` once more, without the first two principal components of a data set's "
        "sentence vectors; `+pp` after the model's name marks it.",
    )
