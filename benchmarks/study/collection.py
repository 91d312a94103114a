"""What all variants share: a corpus, its judged questions with their pools, and how they are kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.systems.built import AUTO_SAMPLE_SIZE
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.files import whole_file
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermBatch, TermSpace
from surprise_rerank.errors import DataError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.rerank.fusion import surprise_normalized
from surprise_rerank.rerank.token_weights import token_weights
from surprise_rerank.surprise.ensemble import Ensemble

Lexical: TypeAlias = Literal["bm25", "lucene"]
Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

# The pool of `rerank-eval` and of a search.
DEPTH = 100
# As deep as pools are kept.
DEEPEST = 200
# Stands for the place of a document that a retriever did not find.
NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as arrays, all aligned with `ids`.

    Attributes:
        ids: n document ids.
        dense: (n, d) dense vectors.
        lengths: (n,) numbers of tokens.
        terms: n sparse vectors of words.
        sample: (s,) positions of the documents that stand for the corpus; the first ones are a sample, too.
        extras: whatever else a subject asks for, by name.
    """

    ids: tuple[str, ...]
    dense: Float32Array
    lengths: IntArray
    terms: TermBatch
    sample: IntArray
    extras: Arrays = field(default_factory=dict)

    @cached_property
    def ensemble(self) -> Ensemble:
        """The sample's dense vectors, which `auto` measures cosines against."""
        return Ensemble.from_vectors(self.dense[self.sample], sample_size=0)

    @cached_property
    def documents(self) -> Ensemble:
        """All documents' dense vectors."""
        return Ensemble.from_vectors(self.dense)

    @cached_property
    def words(self) -> TermSpace:
        """The space that words are compared in."""
        return TermSpace(self.terms.take(self.sample))

    def extra(self, name: str) -> npt.NDArray[Any]:
        """An array by name.

        Raises:
            DataError: if it was not computed.
        """
        if name not in self.extras:
            raise DataError(
                f"the study has no {name!r} here; delete its .npz files and run the subject again"
            )
        return self.extras[name]


@dataclass(frozen=True, eq=False)
class Case:
    """A question with its pool, sorted by document id, and what is known of every candidate.

    Attributes:
        number: which of the study's questions.
        query: encoded.
        rows: (n,) positions of the candidates in the corpus.
        places: retriever (cosine, bm25, lucene) -> (n,) its rank of each candidate, or `NOWHERE`.
        scores: bm25 and lucene -> (n,) BM25's scores.
        usual_scores: the same of the sample: (s,).
        maxima: form of the documents' tokens -> (n, m) each candidate's largest cosine with each token of
            the question; the form "" is all tokens.
        usual: the same of the sample: (s, m).
        covered: (n,) sums over a candidate's tokens of their largest cosine with the question's.
        usual_covered: the same of the sample: (s,).
        weights: name -> (m,) other weights of the question's tokens.
        corpus: where the candidates stand.
    """

    number: int
    query: Query
    rows: IntArray
    places: Mapping[str, IntArray]
    scores: Mapping[str, Float64Array]
    usual_scores: Mapping[str, Float64Array]
    maxima: Mapping[str, Float32Array]
    usual: Mapping[str, Float32Array]
    covered: Float64Array
    usual_covered: Float64Array
    weights: Mapping[str, Float64Array]
    corpus: Corpus

    def cut(self, depth: int, lexical: Lexical, corpus: Corpus) -> Case:
        """The case as two retrievers of this depth make it.

        Args:
            depth: of each retriever.
            lexical: which one is the second.
            corpus: the same documents; its sample is this one's, or the first of it.

        Raises:
            DataError: if pools were not kept so deep, or without that retriever.
        """
        if depth > DEEPEST or lexical not in self.places:
            raise DataError(
                f"there is no pool of {lexical} to depth {depth}; give bm25 and at most {DEEPEST}"
            )
        kept = np.flatnonzero((self.places["cosine"] < depth) | (self.places[lexical] < depth))
        size = len(corpus.sample)
        return Case(
            number=self.number,
            query=self.query,
            rows=self.rows[kept],
            places={name: own[kept] for name, own in self.places.items()},
            scores={name: own[kept] for name, own in self.scores.items()},
            usual_scores={name: own[:size] for name, own in self.usual_scores.items()},
            maxima={name: own[kept] for name, own in self.maxima.items()},
            usual={name: own[:size] for name, own in self.usual.items()},
            covered=self.covered[kept],
            usual_covered=self.usual_covered[:size],
            weights=self.weights,
            corpus=corpus,
        )

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def candidates(self) -> Candidates:
        """The pool as re-rankers take it, without tokens."""
        return Candidates(
            ids=tuple(self.corpus.ids[row] for row in self.rows),
            scores={"bm25": self.scores["bm25"]},
            dense=self.corpus.dense[self.rows],
            terms=self.terms,
            corpus_moments={"bm25": Moments.of(self.usual_scores["bm25"])},
        )

    @cached_property
    def terms(self) -> TermBatch:
        """The candidates' words."""
        return self.corpus.terms.take(self.rows)

    @cached_property
    def cosines(self) -> Float64Array:
        """(n,) cosines of the candidates."""
        return np.asarray(self.candidates.require_dense(), np.float64) @ self.query.require_dense()

    @cached_property
    def usual_cosines(self) -> Float64Array:
        """(s,) cosines of the sample."""
        vectors = self.corpus.dense[self.corpus.sample]
        return np.asarray(vectors, np.float64) @ self.query.require_dense()

    @cached_property
    def z(self) -> dict[str, Float64Array]:
        """Scorer -> (n,) deviations above the corpus: what `auto` adds up."""
        cosine = self.corpus.ensemble.moments(self.query.require_dense())
        return {
            "bm25": self.lexical("bm25"),
            "cosine": surprise_normalized(self.cosines, cosine),
            "dynamax": self.inclusion(token_weights(self.query.require_tokens(), self.usual[""])),
        }

    def lexical(self, name: Lexical) -> Float64Array:
        """(n,) z of BM25."""
        return z_over(self.scores[name], self.usual_scores[name])

    def inclusion(self, weights: Float64Array, form: str = "") -> Float64Array:
        """(n,) z of the inclusion of weighted tokens."""
        return z_over(self.maxima[form] @ weights, self.usual[form] @ weights)

    @cached_property
    def word_similarities(self) -> tuple[Float64Array, Float64Array]:
        """(n, n) of the candidates by words, and (s, n) of the sample with them."""
        space = self.corpus.words
        own, others = space.unit(self.terms), space.unit(space.sample)
        vocabulary, places = np.unique(np.concatenate([own.terms, others.terms]), return_inverse=True)
        width = max(len(vocabulary), 1)
        pool = sparse.csr_array((own.values, places[: len(own.terms)], own.offsets), (len(own), width))
        sample = sparse.csr_array(
            (others.values, places[len(own.terms) :], others.offsets), (len(others), width)
        )
        return (pool @ pool.T).toarray(), (sample @ pool.T).toarray()


@dataclass(frozen=True, eq=False)
class Collection:
    """A data set that is ready for every subject.

    Attributes:
        title: data set, split, numbers and model, in a line.
        corpus: its documents.
        cases: its questions, with pools as deep as they are kept.
        dataset: with the judgements of these questions.
    """

    title: str
    corpus: Corpus
    cases: tuple[Case, ...]
    dataset: RetrievalDataset
    _pools: dict[tuple[int, Lexical, int], list[Case]] = field(default_factory=dict, init=False, repr=False)

    def pools(
        self, depth: int = DEPTH, lexical: Lexical = "bm25", sample: int = AUTO_SAMPLE_SIZE
    ) -> list[Case]:
        """The cases as retrievers of this depth make them; the same objects for everyone who asks.

        Args:
            depth: of each retriever.
            lexical: which one is the second.
            sample: how many documents stand for the corpus.
        """
        key = (depth, lexical, sample)
        if key not in self._pools:
            corpus = replace(self.corpus, sample=self.corpus.sample[:sample])
            self._pools[key] = [case.cut(depth, lexical, corpus) for case in self.cases]
        return self._pools[key]


def z_over(scores: Float64Array, usual: Float64Array) -> Float64Array:
    """(n,) deviations of scores from the mean of the sample's."""
    return surprise_normalized(scores, Moments.of(usual))


def save(path: Path, corpus: Corpus, cases: tuple[Case, ...]) -> None:
    """Write what was read to a .npz file, whole or not at all."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "corpus ids": np.array(corpus.ids),
        "corpus dense": corpus.dense,
        "corpus lengths": corpus.lengths,
        "corpus sample": corpus.sample,
        "corpus term offsets": corpus.terms.offsets,
        "corpus terms": corpus.terms.terms,
        "corpus values": corpus.terms.values,
        "texts": np.array([case.query.text for case in cases]),
        "ids": np.array([case.query.id for case in cases]),
        "dense": np.stack([case.query.require_dense() for case in cases]),
        **{f"extra {name}": own for name, own in corpus.extras.items()},
    }
    for i, case in enumerate(cases):
        arrays |= {f"{i} {name}": own for name, own in _of_case(case).items()}
    with whole_file(path) as file:
        np.savez(file, **arrays)


def load(path: Path) -> tuple[Corpus, tuple[Case, ...]]:
    """Read what `save` wrote; nothing in the file is executed."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    terms = TermBatch(arrays["corpus term offsets"], arrays["corpus terms"], arrays["corpus values"])
    corpus = Corpus(
        ids=tuple(arrays["corpus ids"].tolist()),
        dense=arrays["corpus dense"],
        lengths=arrays["corpus lengths"],
        terms=terms,
        sample=arrays["corpus sample"],
        extras={
            name.removeprefix("extra "): own for name, own in arrays.items() if name.startswith("extra ")
        },
    )
    parts: list[dict[str, npt.NDArray[Any]]] = [{} for _ in arrays["ids"]]
    for name, own in arrays.items():
        number, _, what = name.partition(" ")
        if number.isdigit():
            parts[int(number)][what] = own
    texts, names = arrays["texts"].tolist(), arrays["ids"].tolist()
    queries = [
        Query(text, arrays["dense"][i], np.asarray(parts[i]["tokens"], np.float32), name)
        for i, (text, name) in enumerate(zip(texts, names, strict=True))
    ]
    return corpus, tuple(_case(i, query, parts[i], corpus) for i, query in enumerate(queries))


def _of_case(case: Case) -> dict[str, npt.NDArray[Any]]:
    return {
        "tokens": case.query.require_tokens(),
        "rows": case.rows,
        "covered": case.covered,
        "usual_covered": case.usual_covered,
        **{f"places {name}": own for name, own in case.places.items()},
        **{f"scores {name}": own for name, own in case.scores.items()},
        **{f"usual_scores {name}": own for name, own in case.usual_scores.items()},
        **{f"maxima {name}": own for name, own in case.maxima.items()},
        **{f"usual {name}": own for name, own in case.usual.items()},
        **{f"weights {name}": own for name, own in case.weights.items()},
    }


def _case(number: int, query: Query, arrays: Arrays, corpus: Corpus) -> Case:
    def of(kind: str) -> dict[str, npt.NDArray[Any]]:
        start = f"{kind} "
        return {name.removeprefix(start): own for name, own in arrays.items() if name.startswith(start)}

    return Case(
        number=number,
        query=query,
        rows=arrays["rows"],
        places=of("places"),
        scores=of("scores"),
        usual_scores=of("usual_scores"),
        maxima=of("maxima"),
        usual=of("usual"),
        covered=arrays["covered"],
        usual_covered=arrays["usual_covered"],
        weights=of("weights"),
        corpus=corpus,
    )
