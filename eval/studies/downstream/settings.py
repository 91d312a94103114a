"""Settings of the downstream tasks. Imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TASKS = ("SCICITE", "MR", "CR", "MPQA", "SUBJ", "SST2", "SST5", "TREC", "MRPC", "SICK-E")


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamSettings:
    """What is measured.

    Attributes:
        models: as for `load_sentence_models`.
        data: the folder of the benchmarks' files.
        tasks: what to classify.
        post_process: measure once more, without the first two principal components of each task's texts;
            `+pp` after the model's name marks it.
    """

    models: tuple[str, ...]
    data: Path | None
    tasks: tuple[str, ...] = TASKS
    post_process: bool = False
