"""A collection for the study, read once from the index that `rerank-eval` keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.study.collection import DEPTH, Case, Collection, Corpus
from surprise_rerank.candidates import Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.systems.built import SAMPLE_SIZE
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.rerank.token_weights import weighted_inclusion
from surprise_rerank.similarities.dynamax import DynaMax


def read_collection(
    dataset: RetrievalDataset,
    spec: str,
    encoder: Encoder,
    *,
    cache: Path,
    questions: int | None = None,
    terminal: Terminal | None = None,
) -> Collection:
    """What all variants share, from the cache folder or from the index.

    Args:
        dataset: with the judged questions.
        spec: as `--dataset` names it.
        encoder: of the index.
        cache: where indexes are kept, and what is read of this one.
        questions: how many, from the first on; all by default.
        terminal: for progress.

    Raises:
        SurpriseRerankError: if documents are split, or the index stores no words.
    """
    terminal = terminal or Terminal(quiet=True)
    chosen = dict(list(dataset.queries.items())[:questions])
    workspace = Workspace(cache, index_key(spec, dataset), encoder, None, terminal)
    path = cache / workspace.name / "study" / f"{_digest(dataset, chosen)}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        lessons = Lessons(spec, "train", dataset.split, encoder, terminal)
        with workspace.resources(dataset, None, lessons, lucene=False) as resources:
            reader = _Reader(resources.index, tuple(resources.sample_ids[:SAMPLE_SIZE]))
            queries = encode_queries(encoder, list(chosen.values()), list(chosen))
            cases = []
            with terminal.bar("reading", len(queries), "questions") as advance:
                for query in queries:
                    case = reader.case(query, dataset.qrels[query.id])
                    cases += [case] if case.gains.size else []
                    advance(1)
        Collection(dataset.name, encoder.name, reader.corpus, tuple(cases)).save(path)
    return Collection.load(path, dataset.name, encoder.name)


def _digest(dataset: RetrievalDataset, questions: Mapping[str, str]) -> str:
    parts = [f"{document.id}\0{document.content_hash}" for document in dataset.documents]
    parts += [f"{name}\0{text}" for name, text in questions.items()]
    return hashlib.sha256("\0".join([dataset.split, *parts]).encode(errors="surrogatepass")).hexdigest()[:16]


class _Reader:
    """Makes cases of questions, with every document's exact scores."""

    def __init__(self, index: DocumentIndex, sample: tuple[str, ...]) -> None:
        names, self.tokens = index.token_sample(len(index))
        if len(set(names)) < len(names):
            raise DataError("the study compares whole documents; index them without passages")
        found = index.fetch(names, frozenset({"dense", "terms"}))
        if found.terms is None or index.manifest.options.bm25 is None:
            raise DataError("the index stores no words, which the study needs; index the documents again")
        self.settings: Bm25 = index.manifest.options.bm25
        self.places = {name: i for i, name in enumerate(names)}
        rows = np.array([self.places[name] for name in sample], np.int64)
        self.corpus = Corpus(tuple(names), found.require_dense(), self.tokens.token_counts, found.terms, rows)
        self.usual: TokenBatch = self.tokens.take(rows)
        terms = found.terms
        self.vocabulary, place = np.unique(terms.terms, return_inverse=True)
        shape = (len(terms), len(self.vocabulary))
        self.values = sparse.csc_array(sparse.csr_array((terms.values, place, terms.offsets), shape))
        counts, filled = np.diff(self.values.indptr), int(np.count_nonzero(terms.lengths))
        self.idf = np.log1p((filled - counts + 0.5) / (counts + 0.5))
        self.order = np.array(names)

    def case(self, query: Query, judged: Mapping[str, int]) -> Case:
        """The case of a question."""
        bm25, tokens = self._bm25(query.text), query.require_tokens()
        moments = np.array([bm25.mean(), bm25.std(), len(bm25)])
        corpus = self.corpus
        usual = bm25[corpus.sample]
        rows = self._pool(query, bm25)
        documents = self.tokens.take(rows)
        inclusion, usual_inclusion = weighted_inclusion(tokens, documents, self.usual)
        ideal = np.sort([max(gain, 0) for gain in judged.values()])[::-1][:10]
        best = float((ideal / np.log2(2 + np.arange(len(ideal)))).sum())
        gains = np.array([max(judged.get(corpus.ids[row], 0), 0) for row in rows], np.float64)
        return Case(
            name=query.id,
            dense=query.require_dense(),
            tokens=len(tokens),
            rows=rows,
            bm25=bm25[rows],
            bm25_moments=moments,
            usual_bm25=usual,
            inclusion=inclusion,
            usual_inclusion=usual_inclusion,
            plain=DynaMax().pool(tokens, documents),
            usual_plain=DynaMax().pool(tokens, self.usual),
            gains=gains / best if best > 0 else gains,
            corpus=corpus,
        )

    def _bm25(self, text: str) -> Float64Array:
        """(n,) BM25 scores of all documents, as Qdrant has them."""
        asked = self.settings.query(text).indices
        known = np.isin(asked, self.vocabulary)
        places = np.searchsorted(self.vocabulary, asked[known])
        scores: Float64Array = np.asarray(self.values[:, places] @ self.idf[places], np.float64).reshape(-1)
        return scores

    def _pool(self, query: Query, bm25: Float64Array) -> IntArray:
        """Rows of the candidates, by id. BEIR's rule: a question that is a document does not find itself."""
        cosines = self.corpus.dense @ query.require_dense()
        open_rows = np.arange(len(bm25)) != self.places.get(query.id, -1)
        found = set[int]()
        for scores, worth in ((bm25, bm25 > 0), (cosines, np.ones(len(cosines), bool))):
            best = np.lexsort((self.order, -scores))
            found |= set(best[(open_rows & worth)[best]][:DEPTH].tolist())
        return np.array(sorted(found, key=lambda row: self.corpus.ids[row]), np.int64)
