"""A cross-encoder as one more scorer: a model that reads question and text together.

Its scores have a unit of their own, which differs between models. On the surprise scale, in deviations above
this question's mean over a sample of the corpus, they can be added to other scores. The sample is scored once
for a question, which costs as much as that many candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query
from surprise_rerank._errors import DataError
from surprise_rerank.core._process import SharedByCopies, limit_torch
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments
from surprise_rerank.rerank._scorers import Scorer

# (question, n texts) -> n scores, higher for more relevant.
PairScores: TypeAlias = Callable[[str, Sequence[str]], npt.ArrayLike]

# Pools whose scores are kept, for their moments: more than threads usually ask at once.
_POOLS = 16
_MODEL = "give a model with one label, one number for each text"
# Questions whose moments over the sample are kept.
_QUESTIONS = 1000


@dataclass(frozen=True, eq=False)
class CrossEncoderScorer(SharedByCopies, Scorer):
    """The scores of a cross-encoder, with their mean and deviation over a sample of texts.

    Attributes:
        model: a sentence-transformers `CrossEncoder`, or any object with `predict(pairs)`; a ranker of the
            package rerankers, or any object with its `rank(query, docs, doc_ids)`; or a function (question,
            texts) -> scores. Where scores saturate, as a sigmoid's do near 0 and 1, give one of logits.
        sample: texts of the corpus; 64 of them give the deviation to 9 %. Without any, the texts of the pool
            are the sample, so that nothing more is scored.
        name: what its part is called in a ranking.
    """

    model: object
    sample: Sequence[str] = ()
    name: str = "cross-encoder"
    _score: PairScores = field(init=False, repr=False)
    # By question, and by question and texts.
    _usual: Callable[[str], Moments] = field(init=False, repr=False)
    _pool: Callable[[str, tuple[str, ...]], Float64Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        border.fields(self, sample=border.texts)
        object.__setattr__(self, "_score", _pair_scores(self.model))
        sample = tuple(self.sample)
        usual = lru_cache(_QUESTIONS)(lambda question: Moments.of(self._scored(question, sample)))
        object.__setattr__(self, "_usual", usual)
        object.__setattr__(self, "_pool", lru_cache(_POOLS)(self._scored))

    @property
    def is_of_pool(self) -> bool:
        """Whether there is no sample."""
        return not self.sample

    @property
    def needs(self) -> frozenset[Field]:
        """The documents, for their texts."""
        return frozenset({"documents"})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self.sample, self.name)  # what is kept is made anew

    def scores(self, query: Query, candidates: Candidates) -> Float64Array:
        """(n,) the model's scores, of passages where the candidates are passages.

        Raises:
            DataError: if the candidates have no documents, or the model gives other than one finite score for
                each text.
        """
        texts = tuple(document.content for document in candidates.require_documents())
        if candidates.passages is not None:
            passages = zip(texts, candidates.passages, strict=True)
            texts = tuple(text[passage.start : passage.end] for text, passage in passages)
        return self._pool(query.text, texts)

    def moments(self, query: Query, candidates: Candidates) -> Moments:
        """Moments over the sample, or over the pool where there is none; a DataError as of `scores`."""
        return self._usual(query.text) if self.sample else Moments.of(self.scores(query, candidates))

    def _scored(self, question: str, texts: tuple[str, ...]) -> Float64Array:
        if not texts:
            return np.zeros(0)
        limit_torch()  # which the model may call
        returned = self._score(question, list(texts))
        try:
            scores = np.asarray(returned, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"scores of {self.name!r} must be numbers: {error}; {_MODEL}") from error
        shape = f"the shape of the scores of {self.name!r}"
        border.equal(shape, scores.shape, (len(texts),), _MODEL)
        for i in np.flatnonzero(~np.isfinite(scores)).tolist():
            border.number(f"the score of {self.name!r} for text {i}", float(scores[i]))
        return scores


def _pair_scores(model: Any) -> PairScores:
    """A model's scores as a function of question and texts."""
    is_class = isinstance(model, type)
    if callable(predict := getattr(model, "predict", None)) and not is_class:
        return lambda question, texts: predict([(question, text) for text in texts])
    if callable(rank := getattr(model, "rank", None)) and not is_class:

        def scores_of_ranker(question: str, texts: Sequence[str]) -> list[Any]:
            results = rank(question, list(texts), doc_ids=list(range(len(texts)))).results
            return [result.score for result in sorted(results, key=lambda result: int(result.doc_id))]

        return scores_of_ranker
    if is_class or not callable(model):
        kinds = "a CrossEncoder or another object with predict(pairs), a ranker of rerankers, or a function"
        border.refuse("model", model, kinds, "a function takes a question and texts, and returns scores")
    scores: PairScores = model
    return scores
