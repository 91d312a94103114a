"""Settings of the downstream tasks; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from surprise_rerank.core.settings import option, some_names
from surprise_rerank.errors import DataError
from surprise_rerank.eval.studies.settings import CACHE, SentenceInputs

ClassifierName: TypeAlias = Literal["senteval", "logistic"]
TASKS = ("SCICITE", "MR", "CR", "MPQA", "SUBJ", "SST2", "SST5", "TREC", "MRPC", "SICK-E")


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings(SentenceInputs):
    """What is measured, besides the models."""

    cache: Path | None = option(None, **CACHE)
    tasks: tuple[str, ...] = option(
        TASKS, help="What to classify, with commas between.", metavar="NAMES", parse=some_names
    )
    classifier: ClassifierName = option(
        "senteval",
        help="A logistic regression: stopped early, as the published figures were made, or converged.",
    )
    post_process: bool = option(
        False,
        help="Measure once more, without the first two principal components of each task's texts; `+pp` "
        "after the model's name marks it.",
    )

    def __post_init__(self) -> None:
        if not self.tasks:
            raise DataError("no task to measure; give at least one")
