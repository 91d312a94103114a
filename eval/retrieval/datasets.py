"""Retrieval data sets: documents, judged questions and judgements, loaded by name and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Query
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, DatasetError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.readers._beir import BeirFolder, jsonl_in
from surprise_rerank.connectors.readers._datasets import Source, open_source
from surprise_rerank.connectors.readers._opening import open_documents
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.eval.retrieval.settings import Judged

# In place of a split, where nothing is judged.
UNJUDGED = "unjudged"
# Where a folder has its documents as files of any kind, in place of corpus.jsonl.
FILES = "documents"
# Enough for a handful of weights, and for the questions that are held back to see whether they help.
MOST_QUESTIONS = 800


@dataclass(frozen=True, slots=True)
class RetrievalDataset:
    """A corpus and the judged questions of one split, all in the source's order.

    Attributes:
        qrels: question id -> document id, or `handbook.pdf#12`, -> relevance. Judged documents that the
            corpus lacks stay, so that recall is not flattered.
        missing_documents: how many judged documents, or pages, the corpus lacks.
        answers_itself: the questions whose text is most of the document of their id, which none is to find.
        missing_queries: how many judged questions were left out because they have no text.
    """

    name: str
    documents: tuple[Document, ...]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    split: str
    judged: Judged = "documents"
    missing_documents: int = field(init=False)
    answers_itself: frozenset[str] = field(init=False)
    missing_queries: int = 0

    def __post_init__(self) -> None:
        border.some(f"documents of {self.name!r}", self.documents, "give a corpus that has some")
        border.distinct(f"ids of documents of {self.name!r}", (document.id for document in self.documents))
        ids = {document.id for document in self.documents}
        border.some(
            f"questions of {self.name!r}, split {self.split!r}", self.queries, "give some, judged ones"
        )
        if self.queries.keys() != self.qrels.keys():
            odd = sorted(self.queries.keys() ^ self.qrels.keys())
            raise DataError(f"{self.name!r}: {len(odd)} questions lack a text or judgements: {odd[0]!r}, ...")
        missing = self.judged_documents - ids
        if self.judged == "pages":
            pages = {
                f"{document.id}#{place.page or place.slide}"  # a slide is a page, too
                for document in self.documents
                for _, place in document.places
            }
            missing = {name for gains in self.qrels.values() for name in gains} - pages
        object.__setattr__(self, "missing_documents", len(missing))
        # BEIR leaves out every document of the question's id, also where ids are running numbers of either.
        same_ids = [document for document in self.documents if document.id in self.queries]
        contents = {document.id: _plain(document.content) for document in same_ids}
        questions = {name: _plain(self.queries[name]) for name in contents}
        repeated = (
            name
            for name, text in contents.items()
            if questions[name] in text and 2 * len(questions[name]) >= len(text)
        )
        object.__setattr__(self, "answers_itself", frozenset(repeated))

    @property
    def judged_documents(self) -> set[str]:
        """The ids of the documents that are judged, or of whose pages or passages one is."""
        names = {name for gains in self.qrels.values() for name in gains}
        if self.judged == "documents":
            return names
        whole = next((name for name in sorted(names) if not name.rpartition("#")[2].isdecimal()), None)
        if whole is not None:
            raise DataError(
                f"{self.name!r}: the judgement of {whole!r} names none of its {self.judged}; write it as "
                f"handbook.pdf#12, or leave judged={self.judged} away"
            )
        return {name.rpartition("#")[0] for name in names}

    def limited(self, n: int) -> RetrievalDataset:
        """A copy with n questions, what is judged for them, and the first max(1000, 20 n) others."""
        queries = dict(list(self.queries.items())[: border.count("limit", n)])
        qrels = {name: self.qrels[name] for name in queries}
        judged = replace(self, queries=queries, qrels=qrels).judged_documents
        others = (document.id for document in self.documents if document.id not in judged)
        kept = judged.union(name for name, _ in zip(others, range(max(1000, 20 * n)), strict=False))
        return replace(
            self,
            # Another name, lest an index or a published figure of the whole be taken for it.
            name=f"{self.name}[:{n}]",
            documents=tuple(document for document in self.documents if document.id in kept),
            queries=queries,
            qrels=qrels,
        )


def load_dataset(spec: str, split: str | None = None, judged: Judged = "documents") -> RetrievalDataset:
    """Load a data set with its judgements.

    `spec` is `demo`, the path of a BEIR folder, whose corpus may be files of any kind in a folder
    `documents`, or an id of ir_datasets. The split is by default the one that the id names, else `test`.
    Where `judged` is `nothing`, all questions are taken.
    """
    source = open_source(spec, split)
    if judged == "nothing":
        queries = source.queries()
        nothing: dict[str, dict[str, int]] = {name: {} for name in queries}
        return RetrievalDataset(source.name, tuple(_documents(source)), queries, nothing, UNJUDGED)
    # The split first: it is soon read, and a wrong name should not cost a corpus.
    queries, qrels, missing = _judged(source)
    documents = tuple(_documents(source))
    dataset = RetrievalDataset(source.name, documents, queries, qrels, source.split, judged, missing)
    names = {name for gains in qrels.values() for name in gains}
    if dataset.missing_documents == len(names if judged == "pages" else dataset.judged_documents):
        raise DatasetError(
            f"{spec!r}: none of the {len(names)} judged {judged}, say {min(names)!r}, is in its corpus,"
            f" whose first is {documents[0].id!r}; the judgements belong to another corpus"
            + (", or are of pages or passages (judged=pages)" if judged == "documents" else "")
        )
    return dataset


def _documents(source: Source) -> Iterable[Document]:
    """The corpus: `corpus.jsonl`, or else the files in the folder `documents`, as an index reads them."""
    if isinstance(source, BeirFolder) and jsonl_in(source.path, "corpus") is None:
        files = source.path / FILES
        if files.is_dir():
            return open_documents(files)
    return source.documents()


def judged_questions(spec: str, split: str) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The judged questions of a split, id -> text, and their judgements, id -> document id -> relevance."""
    source = open_source(spec)
    queries, qrels, _ = _judged(source.at(split))
    return queries, qrels


@dataclass(frozen=True)
class TrainingQuestions:
    """Judged questions of another split than is tested, to fit weights on; read when first asked for."""

    dataset: str
    split: str
    tested: str
    encoder: Encoder
    terminal: Terminal

    @cached_property
    def judged(self) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
        """Question id -> text, and their judgements."""
        if self.split == self.tested:
            raise DatasetError(
                f"weights fitted on the split {self.split!r} cannot be evaluated on it; "
                "give another one with --split"
            )
        return judged_questions(self.dataset, self.split)

    def pools(
        self, retrieve: Callable[[Query], Candidates]
    ) -> Iterator[tuple[Query, Candidates, Mapping[str, float]]]:
        """Questions with their pools and gains."""
        texts, qrels = self.judged
        ids = list(texts)[:MOST_QUESTIONS]
        queries = encode_queries(self.encoder, [texts[name] for name in ids], ids)
        with self.terminal.bar(f"fitting on {self.split}", len(ids), "questions") as advance:
            for query in queries:
                gains = {name: float(grade) for name, grade in qrels[query.id].items()}
                pool = retrieve(query)
                # The question itself, as a document, is judged for none; a running number of both may be.
                yield query, pool if query.id in gains else pool.without(query.id), gains
                advance(1)


def _judged(source: Source) -> tuple[dict[str, str], dict[str, dict[str, int]], int]:
    """The questions with text and judgements, their judgements, and how many of the judged have no text."""
    qrels = source.qrels()
    queries = {name: text for name, text in source.queries().items() if name in qrels}
    if not queries:
        reason = f"none of the {len(qrels)}, such as {min(qrels)!r}, has a text" if qrels else "no judgements"
        raise DatasetError(f"{source.name!r} has no judged question in its split {source.split!r}: {reason}")
    return queries, {name: qrels[name] for name in queries}, len(qrels) - len(queries)


def _plain(text: str) -> str:
    return " ".join(text.split())
