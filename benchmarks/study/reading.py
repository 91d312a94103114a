"""A collection for the study, read once from the index that `rerank-eval` keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.study.collection import DEEPEST, NOWHERE, Case, Collection, Corpus, Lexical, load, save
from benchmarks.study.document_tokens import FORMS, reduced
from benchmarks.study.pseudo_questions import OTHERS, other_questions, pseudo_questions
from surprise_rerank.candidates import Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever, LexicalIndex
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.index_systems import build_system
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, unit_rows
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.eval.retrieval.fitting import Lessons
from surprise_rerank.eval.retrieval.workspace import Workspace, has_lucene, index_key
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.similarities.kernels import pool_maxima
from surprise_rerank.similarities.word_weights import (
    InverseDocumentFrequency,
    InverseFrequency,
    WordStatistics,
)
from surprise_rerank.surprise.sampled import of_questions

# Other questions whose usual inclusion in a document is measured.
_INCLUDED = 48


def read_collection(
    dataset: RetrievalDataset,
    spec: str,
    encoder: Encoder,
    *,
    cache: Path,
    questions: int | None = None,
    deep: bool = False,
    terminal: Terminal | None = None,
) -> Collection:
    """What all variants share, from the cache folder or from the index.

    Args:
        dataset: with the judged questions.
        spec: as `--dataset` names it.
        encoder: of the index.
        cache: where indexes are kept, and what is read of this one.
        questions: how many, from the first on; all by default.
        deep: with what the subjects `ensembles` and `tokens` ask for besides; takes longer.
        terminal: for progress.

    Raises:
        SurpriseRerankError: if documents are split, or the index stores no words.
    """
    terminal = terminal or Terminal(quiet=True)
    chosen = dict(list(dataset.queries.items())[:questions])
    workspace = Workspace(cache, index_key(spec, dataset), encoder, None, terminal)
    folder, digest = cache / workspace.name / "study", _digest(dataset, chosen)
    plain, path = folder / f"{digest}-plain.npz", folder / f"{digest}-deep.npz"
    if not deep and not path.is_file():
        path = plain
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        corpus, cases = _read(dataset, spec, encoder, workspace, chosen, deep, terminal)
        save(path, corpus, cases)
    corpus, cases = load(path)
    asked = replace(dataset, queries=chosen, qrels={name: dataset.qrels[name] for name in chosen})
    sizes = f"{len(corpus.ids)} documents, {len(cases)} questions"
    title = f"{dataset.name} ({dataset.split}), {sizes}, {encoder.name}"
    return Collection(title, corpus, cases, asked)


def _digest(dataset: RetrievalDataset, questions: Mapping[str, str]) -> str:
    parts = [f"{document.id}\0{document.content_hash}" for document in dataset.documents]
    parts += [f"{name}\0{text}" for name, text in questions.items()]
    return hashlib.sha256("\0".join([dataset.split, *parts]).encode(errors="surrogatepass")).hexdigest()[:16]


def _read(
    dataset: RetrievalDataset,
    spec: str,
    encoder: Encoder,
    workspace: Workspace,
    chosen: Mapping[str, str],
    deep: bool,
    terminal: Terminal,
) -> tuple[Corpus, tuple[Case, ...]]:
    lessons = Lessons(spec, "train", dataset.split, encoder, terminal)
    with workspace.resources(dataset, None, lessons, lucene=has_lucene()) as resources:
        retriever = build_system("auto", resources.index, NO_OPTIONS.exactly(), fitted=False).retriever
        if not isinstance(retriever, HybridRetriever):
            raise DataError("the index stores no words, which the study needs; install the extra 'edge'")
        # The largest sample that any system takes; the first of it are the others'.
        sample = tuple(resources.sample_ids)
        corpus, tokens = _corpus(resources.index, sample)
        lexical: dict[Lexical, LexicalIndex] = {"bm25": retriever.lexical}
        if resources.lucene is not None:
            lexical["lucene"] = resources.lucene
        queries = encode_queries(encoder, list(chosen.values()), list(chosen))
        reader = _Reader(corpus, tokens, resources.index, lexical, sample)
        if deep:
            reader.prepare(dataset, encoder, list(chosen.values()), terminal)
        with terminal.bar("reading", len(queries), "questions") as advance:
            cases = tuple(reader.case(i, query, advance) for i, query in enumerate(queries))
    if not deep:
        return corpus, cases
    return _with_ensembles(corpus, tokens, dataset, spec, encoder, chosen, terminal), cases


def _corpus(index: DocumentIndex, sample: Sequence[str]) -> tuple[Corpus, TokenBatch]:
    """All documents in the order of their point ids, and their tokens."""
    names, tokens = index.token_sample(len(index))
    if len(set(names)) < len(names):
        raise DataError("the study compares whole documents; index them without passages")
    found = index.fetch(names, frozenset({"dense", "terms"}))
    if found.terms is None:
        raise DataError("the index stores no words, which the study needs; index the documents again")
    places = {name: i for i, name in enumerate(names)}
    rows = np.array([places[name] for name in sample], np.int64)
    return Corpus(tuple(names), found.require_dense(), tokens.lengths, found.terms, rows), tokens


class _Reader:
    """Makes cases of questions."""

    def __init__(
        self,
        corpus: Corpus,
        tokens: TokenBatch,
        index: DocumentIndex,
        lexical: Mapping[Lexical, LexicalIndex],
        sample: tuple[str, ...],
    ) -> None:
        self.corpus, self.index, self.lexical, self.sample = corpus, index, lexical, sample
        self.forms = {"": tokens}
        self.rows = {name: i for i, name in enumerate(corpus.ids)}
        self.weights: dict[str, Callable[[int], Float64Array]] = {}

    def prepare(
        self, dataset: RetrievalDataset, encoder: Encoder, questions: Sequence[str], terminal: Terminal
    ) -> None:
        """Make the documents' tokens in fewer forms, and count words."""
        tokens = self.forms[""]
        for form in FORMS:
            with terminal.bar(form, len(tokens), "docs") as advance:
                self.forms[form] = reduced(tokens, form, advance)
        statistics = WordStatistics.of(encoder.words([document.content for document in dataset.documents]))
        words = encoder.words(list(questions), "query")
        for name, weigh in (
            ("idf", InverseDocumentFrequency(statistics)),
            ("sif", InverseFrequency(statistics)),
        ):
            self.weights[name] = lambda i, weigh=weigh: weigh(words[i])

    def case(self, number: int, query: Query, advance: Callable[[int], None]) -> Case:
        """The case of a question, its pool as deep as it is kept."""
        found: dict[str, tuple[str, ...]] = {}
        depth = min(DEEPEST + 1, len(self.corpus.ids))
        found["cosine"] = self.index.search(query, depth, exact=True).ids
        for name, words in self.lexical.items():
            found[name] = words.search(query.text, depth)[0]
        # BEIR's rule: a question that is itself a document must not find itself.
        found = {name: tuple(one for one in ids if one != query.id)[:DEEPEST] for name, ids in found.items()}
        ids = sorted({one for own in found.values() for one in own})
        rows = np.array([self.rows[one] for one in ids], np.int64)
        x = unit_rows(query.require_tokens())
        maxima, usual = {}, {}
        for form, tokens in self.forms.items():
            maxima[form] = _maxima(x, tokens.take(rows))
            usual[form] = _maxima(x, tokens.take(self.corpus.sample))
        advance(1)
        return Case(
            number=number,
            query=query,
            rows=rows,
            places={name: _places(own, ids) for name, own in found.items()},
            scores={name: words.score(query.text, ids) for name, words in self.lexical.items()},
            usual_scores={name: words.score(query.text, self.sample) for name, words in self.lexical.items()},
            maxima=maxima,
            usual=usual,
            covered=_covered(x, self.forms[""].take(rows)),
            usual_covered=_covered(x, self.forms[""].take(self.corpus.sample)),
            weights={name: weigh(number) for name, weigh in self.weights.items()},
            corpus=self.corpus,
        )


def _places(found: Sequence[str], ids: Sequence[str]) -> IntArray:
    places = {name: i for i, name in enumerate(found)}
    return np.array([places.get(name, NOWHERE) for name in ids], np.int64)


def _maxima(x: Float32Array, tokens: TokenBatch) -> Float32Array:
    return pool_maxima(x, tokens, unit_tokens=True, of_documents=False).of_query


def _covered(x: Float32Array, tokens: TokenBatch) -> Float64Array:
    """(n,) sums over each document's tokens of their largest cosine with the question's."""
    found = pool_maxima(x, tokens, unit_tokens=True, of_documents=True).of_documents
    if found is None:
        return np.zeros(len(tokens))
    owners = np.repeat(np.arange(len(tokens)), tokens.lengths)
    return np.bincount(owners, found.astype(np.float64), minlength=len(tokens))


def _with_ensembles(
    corpus: Corpus,
    tokens: TokenBatch,
    dataset: RetrievalDataset,
    spec: str,
    encoder: Encoder,
    chosen: Mapping[str, str],
    terminal: Terminal,
) -> Corpus:
    """The corpus with vectors of other questions and of pseudo-questions, and usual inclusions."""
    extras: dict[str, Float32Array | Float64Array] = {}
    documents = {document.id: document for document in dataset.documents}
    for kind, texts in pseudo_questions([documents[name] for name in corpus.ids]).items():
        with terminal.bar(kind, len(texts), "texts") as advance:
            extras[kind] = encoder.encode(texts, "query", on_progress=advance).dense
    halves = other_questions(dataset, spec, chosen)
    inclusions = {}
    for name, others in zip(OTHERS, halves, strict=True):
        encoded = encoder.encode(others, "query")
        extras[name] = encoded.dense
        if others == halves[0] and inclusions:
            usual = inclusions[OTHERS[0]]
        else:
            asked = [encoded.tokens[i] for i in range(min(_INCLUDED, len(others)))]
            usual = of_questions(DynaMax().pool, asked).moments(tokens)
        inclusions[name] = usual
        extras[f"inclusion of {name}"] = _stacked(usual)
    return Corpus(corpus.ids, corpus.dense, corpus.lengths, corpus.terms, corpus.sample, extras)


def _stacked(moments: Moments) -> Float64Array:
    return np.stack([moments.mean, moments.deviation])
