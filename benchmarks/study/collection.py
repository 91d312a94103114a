"""What all variants share: a corpus, its judged questions with their pools, and how they are kept on disk."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.files import whole_file
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermBatch, TermSpace
from surprise_rerank.surprise.ensemble import Ensemble

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

# Each retriever's part of a pool, as in `rerank-eval` and in a search.
DEPTH = 100
_SHOWN = 10
# Neighbours that the first round of `auto` looked at.
_NEAREST = 5


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as arrays, all aligned with `ids`.

    Attributes:
        ids: n document ids.
        dense: (n, d) dense vectors.
        lengths: (n,) numbers of tokens.
        terms: n sparse vectors of words.
        sample: (s,) positions of the documents that stand for the corpus.
    """

    ids: tuple[str, ...]
    dense: Float32Array
    lengths: IntArray
    terms: TermBatch
    sample: IntArray

    @cached_property
    def ensemble(self) -> Ensemble:
        """The sample's dense vectors, which cosines are measured against."""
        return Ensemble.from_vectors(self.dense[self.sample], sample_size=0)

    @cached_property
    def words(self) -> TermSpace:
        """The space that words are compared in."""
        return TermSpace(self.terms.take(self.sample))

    @cached_property
    def unit_words(self) -> TermBatch:
        """The sample's words in it."""
        return self.words.unit(self.words.sample)


@dataclass(frozen=True, eq=False)
class Case:
    """A question with its pool, sorted by document id, and what is known of every candidate.

    Attributes:
        name: the question's id.
        dense: (d,) its dense vector.
        tokens: m, how many it has.
        rows: (n,) positions of the candidates in the corpus.
        bm25: (n,) BM25's scores.
        bm25_moments: mean and deviation of BM25's scores over the whole corpus, and the number of documents.
        usual_bm25: (s,) BM25's scores of the sample.
        inclusion: (n,) inclusion of weighted tokens, and (s,) of the sample: `auto`'s.
        usual_inclusion: of the sample.
        plain: (n,) inclusion, all tokens alike.
        usual_plain: of the sample.
        gains: (n,) what each candidate adds to the DCG at the first place, over the ideal DCG@10.
        corpus: where the candidates stand.
    """

    name: str
    dense: Float32Array
    tokens: int
    rows: IntArray
    bm25: Float64Array
    bm25_moments: Float64Array
    usual_bm25: Float64Array
    inclusion: Float64Array
    usual_inclusion: Float64Array
    plain: Float64Array
    usual_plain: Float64Array
    gains: Float64Array
    corpus: Corpus

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def ids(self) -> list[str]:
        """N document ids, ascending."""
        return [self.corpus.ids[row] for row in self.rows]

    @cached_property
    def vectors(self) -> Float64Array:
        """(n, d) the candidates' dense vectors."""
        return np.asarray(self.corpus.dense[self.rows], np.float64)

    @cached_property
    def terms(self) -> TermBatch:
        """The candidates' words."""
        return self.corpus.terms.take(self.rows)

    @cached_property
    def cosines(self) -> Float64Array:
        """(n,) cosines of the candidates."""
        return self.vectors @ self.dense

    @cached_property
    def word_similarities(self) -> tuple[Float64Array, Float64Array]:
        """(n, n) of the candidates by words, and (s, n) of the sample with them."""
        space = self.corpus.words
        own, others = space.unit(self.terms), self.corpus.unit_words
        vocabulary, place = np.unique(own.terms, return_inverse=True)
        shape = (len(own), len(vocabulary))
        pool = sparse.csr_array((own.values, place, own.offsets), shape)
        known = np.isin(others.terms, vocabulary)
        entries = (others.owners[known], np.searchsorted(vocabulary, others.terms[known]))
        sample = sparse.csr_array((others.values[known], entries), (len(others), len(vocabulary)))
        return (pool @ pool.T).toarray(), (sample @ pool.T).toarray()

    @cached_property
    def nearest(self) -> tuple[IntArray, Float64Array]:
        """(n, k) each candidate's nearest others by cosine, and how near, or 0 where that is negative."""
        near = self.vectors @ self.vectors.T
        np.fill_diagonal(near, -np.inf)
        k = min(_NEAREST, len(near) - 1)
        rows = np.argsort(-near, axis=1, kind="stable")[:, :k]
        return rows, np.take_along_axis(near, rows, axis=1).clip(0.0)

    @cached_property
    def known(self) -> dict[Hashable, Float64Array]:
        """What was computed of this case before."""
        return {}

    @property
    def whole_moments(self) -> Moments:
        """Of BM25's scores, over the whole corpus."""
        mean, deviation, members = self.bm25_moments
        return Moments(np.asarray(mean), np.asarray(deviation), members=int(members))

    def ndcg(self, scores: Float64Array) -> float:
        """nDCG@10 of the pool in the order of these scores; of equal ones the lower id comes first."""
        best = np.argsort(-scores, kind="stable")[:_SHOWN]
        return float((self.gains[best] / np.log2(2 + np.arange(len(best)))).sum())


_FIELDS = (
    *("rows", "bm25", "bm25_moments", "usual_bm25", "inclusion", "usual_inclusion"),
    *("plain", "usual_plain", "gains"),
)


@dataclass(frozen=True, eq=False)
class Collection:
    """A data set that is ready for every variant.

    Attributes:
        name: of the data set.
        model: of the encoder.
        corpus: its documents.
        cases: its questions that have a relevant document.
    """

    name: str
    model: str
    corpus: Corpus
    cases: tuple[Case, ...]

    def save(self, path: Path) -> None:
        """Write what was read to a .npz file, whole or not at all."""
        corpus, cases = self.corpus, self.cases
        arrays: dict[str, npt.NDArray[Any]] = {
            "ids": np.array(corpus.ids),
            "dense": corpus.dense,
            "lengths": corpus.lengths,
            "sample": corpus.sample,
            "term offsets": corpus.terms.offsets,
            "terms": corpus.terms.terms,
            "values": corpus.terms.values,
            "names": np.array([case.name for case in cases]),
            "questions": np.stack([case.dense for case in cases]),
            "tokens": np.array([case.tokens for case in cases]),
        }
        for i, case in enumerate(cases):
            arrays |= {f"{i} {field}": getattr(case, field) for field in _FIELDS}
        with whole_file(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path, name: str, model: str) -> Collection:
        """Read what `save` wrote; nothing in the file is executed."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        terms = TermBatch(arrays["term offsets"], arrays["terms"], arrays["values"])
        ids = tuple(arrays["ids"].tolist())
        corpus = Corpus(ids, arrays["dense"], arrays["lengths"], terms, arrays["sample"])
        cases = tuple(
            Case(
                question,
                arrays["questions"][i],
                int(arrays["tokens"][i]),
                **{field: arrays[f"{i} {field}"] for field in _FIELDS},
                corpus=corpus,
            )
            for i, question in enumerate(arrays["names"].tolist())
        )
        return cls(name, model, corpus, cases)
