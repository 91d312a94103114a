"""What is compared on STS: similarities by name, and their scores for one model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.errors import DataError
from surprise_rerank.eval.stats.correlations import Correlations, correlations, mean_correlations
from surprise_rerank.eval.studies.sentence_models import SentenceModel
from surprise_rerank.eval.studies.sts.data import DataSet, SubTask
from surprise_rerank.eval.studies.sts.scoring import COSINE
from surprise_rerank.similarities.table import RAW, find_similarity, with_raw

ALL = "all"
# The paper's, over raw word vectors. Token vectors of a sentence encoder are compared at length 1.
_WORDS = (
    "max-jaccard-raw",
    "dynamax-jaccard-raw",
    "dynamax-otsuka-raw",
    "dynamax-dice-raw",
    "sif-pc-cosine-raw",
)


@dataclass(frozen=True, slots=True, eq=False)
class StsSystem:
    """A model and a similarity, measured.

    Attributes:
        model: its name.
        similarity: its name.
        scores: sub-task -> (n,) similarities of its pairs.
        correlations: sub-task -> their correlations with the judgements.
        seconds: that fitting and comparing took, encoding aside.
    """

    model: str
    similarity: str
    scores: dict[str, Float64Array] = field(default_factory=dict)
    correlations: dict[str, Correlations] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.model} {self.similarity}"

    def extended(self, data_set: DataSet, values: Float64Array, seconds: float) -> StsSystem:
        """The system with the similarities of a data set's pairs, sub-task after sub-task."""
        ends = np.cumsum([len(task) for task in data_set.subtasks])
        parts = dict(zip((t.name for t in data_set.subtasks), np.split(values, ends[:-1]), strict=True))
        found = {t.name: correlations(parts[t.name], t.judgements) for t in data_set.subtasks}
        return StsSystem(
            self.model,
            self.similarity,
            self.scores | parts,
            self.correlations | found,
            self.seconds + seconds,
        )

    def mean(self, data_set: DataSet, *, by_size: bool = False) -> Correlations:
        """The mean over a data set's sub-tasks.

        Args:
            data_set: one that was measured.
            by_size: whether a sub-task weighs as much as it has pairs (EvalRank's way), or all weigh the same
                (fuzzymax's).
        """
        sizes = [len(task) for task in data_set.subtasks]
        return mean_correlations(
            [self.correlations[task.name] for task in data_set.subtasks], sizes if by_size else None
        )

    def undefined(self, tasks: Sequence[SubTask]) -> Iterator[str]:
        """What has no correlation, for readers."""
        for task in tasks:
            if not self.correlations[task.name].defined:
                yield f"{self.name}: no correlation on {task.name}, where it is the same for every pair"


def check_similarities(names: Sequence[str]) -> None:
    """Refuse names that are no similarities.

    Raises:
        DataError: if one is not known; names the nearest.
    """
    if not names:
        raise DataError(f"no similarity; give some, {COSINE!r} or {ALL!r}")
    for name in names:
        if name not in (COSINE, ALL):
            find_similarity(name)


def similarities_for(model: SentenceModel, names: Sequence[str] | None, baseline: str) -> tuple[str, ...]:
    """The names of similarities for a model: the baseline first, once each.

    Args:
        model: decides on the default: the paper's similarities, over raw vectors for word vectors, over unit
            vectors for other encoders.
        names: as given; `all` means the whole registry; None for the default.
        baseline: is always among them.
    """
    if names is None:
        raw = model.word_vectors is not None
        names = (COSINE, *(name if raw else name.removesuffix(RAW) for name in _WORDS))
    wanted = [n for name in names for n in ((COSINE, *with_raw()) if name == ALL else (name,))]
    return tuple(dict.fromkeys((baseline, *wanted)))


def missing_modules(names: Sequence[str]) -> Mapping[str, str]:
    """Similarities that cannot be computed, and a note on each."""
    missing = {}
    for name in names:
        named = None if name == COSINE else find_similarity(name)
        if named is not None and named.module and not is_installed(named.module):
            missing[name] = (
                f"{name}: not measured, {named.module} is not installed: run {pip_line(named.extra)}"
            )
    return missing
