"""Settings of the downstream tasks; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.core.settings import option, some_names
from surprise_rerank.eval.studies.settings import SentenceInputs

TASKS = ("SCICITE", "MR", "CR", "MPQA", "SUBJ", "SST2", "SST5", "TREC", "MRPC", "SICK-E")


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings(SentenceInputs):
    """What is measured, besides the models."""

    tasks: tuple[str, ...] = option(
        TASKS, help="What to classify, with commas between.", metavar="NAMES", parse=some_names
    )
    post_process: bool = option(
        False,
        help="Measure once more, without the first two principal components of each task's texts; `+pp` "
        "after the model's name marks it.",
    )
