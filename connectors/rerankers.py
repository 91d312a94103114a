"""The package rerankers: our re-ranker where a `Reranker(...)` of theirs is expected."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.components import judged_metadata
from surprise_rerank.core.extras import pip_line
from surprise_rerank.errors import DataError, MissingExtraError
from surprise_rerank.text_reranker import RankedTexts, TextReranker

try:
    from rerankers.documents import Document
    from rerankers.models.ranker import BaseRanker
    from rerankers.results import RankedResults, Result
except ImportError as error:
    raise MissingExtraError(f"rerankers is not installed: run {pip_line('rerankers')}") from error

# What `rank` takes: one text or document, or several of one kind.
Documents: TypeAlias = str | Document | Sequence[str] | Sequence[Document]


class SurpriseRanker(BaseRanker):  # type: ignore[misc]  # rerankers has no types
    """Ranks as the models of rerankers do, and hands out their `RankedResults`.

    A result's score is the surprise where the re-ranker has a background of other questions, else the
    re-ranker's score; with a background `result.surprise` has it too, and `result.duplicates` are the ids of
    what was folded into it with `collapse=`. `RankedResults.verdict` says whether the question got an answer.
    Documents whose `doc_id` is a string that is stored are not encoded: their vectors are fetched. What comes
    back are copies.

    Args:
        reranker: of texts.

    Attributes:
        reranker: the same.
    """

    def __init__(self, reranker: TextReranker) -> None:
        self.reranker = reranker

    @classmethod
    def load(cls, **settings: Any) -> SurpriseRanker:
        """One made of names and numbers.

        Args:
            settings: of `attached.settings.PipelineSettings`: index, system, min_surprise, diversity, ...

        Raises:
            SurpriseRerankError: as `PipelineSettings.text_reranker`.
        """
        return cls(PipelineSettings.of(settings, cls.__name__).text_reranker())

    def rank(
        self,
        query: str,
        docs: Documents,
        doc_ids: Sequence[str | int] | None = None,
        metadata: Sequence[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """All documents in order, best first; those only that are surprising enough, if that is asked for.

        Args:
            query: the question.
            docs: n texts, or n documents of rerankers; one of them counts as a list of one.
            doc_ids: n ids, in place of the documents' own; their positions where there are none at all.
            metadata: n of them, in place of the documents' own.

        Raises:
            DataError: if ids or metadata are not as many as documents, or a document has no text.
        """
        documents = _documents(docs, doc_ids, metadata)
        return _results(query, documents, self.reranker.rank(query, _texts(documents), ids=_ids(documents)))

    async def rank_async(
        self,
        query: str,
        docs: Documents,
        doc_ids: Sequence[str | int] | None = None,
        metadata: Sequence[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """`rank` in another thread, while the event loop goes on.

        Args:
            query: the question.
            docs: as `rank`.
            doc_ids: as `rank`.
            metadata: as `rank`.

        Raises:
            DataError: as `rank`.
        """
        documents = _documents(docs, doc_ids, metadata)
        ranked = await self.reranker.arank(query, _texts(documents), ids=_ids(documents))
        return _results(query, documents, ranked)

    def score(self, query: str, doc: str) -> float:
        """The score that `rank` gives this text, however little surprising it is.

        Args:
            query: the question.
            doc: a text.

        Raises:
            DataError: if one of them is no string.
        """
        (line,) = replace(self.reranker, min_surprise=None).rank(query, [doc])
        return line.relevance


def _documents(
    docs: Documents, doc_ids: Sequence[str | int] | None, metadata: Sequence[dict[str, Any]] | None
) -> list[Document]:
    """Copies, as `rerankers.utils.prep_docs` makes them; which prints, and writes into what it is given."""
    given: Sequence[Any] = [docs] if isinstance(docs, str | Document) else list(docs)
    for name, values in (("doc_ids", doc_ids), ("metadata", metadata)):
        if values is not None and len(values) != len(given):
            raise DataError(f"{len(values)} {name} for {len(given)} documents; give one for each")
    own = [_copied(doc) for doc in given]
    for i, document in enumerate(own):
        if doc_ids is not None:
            document.doc_id = doc_ids[i]
        elif document.doc_id is None:
            document.doc_id = i
        if metadata is not None:
            document.metadata = dict(metadata[i])
    return own


def _copied(doc: str | Document) -> Document:
    if not isinstance(doc, Document):
        return Document(doc)
    own = copy.copy(doc)
    own.metadata = dict(doc.metadata)
    return own


def _texts(documents: Sequence[Document]) -> list[str]:
    return [document.text for document in documents]


def _ids(documents: Sequence[Document]) -> list[str | None]:
    # Whole numbers are rerankers' own: positions.
    return [document.doc_id if isinstance(document.doc_id, str) else None for document in documents]


def _results(query: str, documents: Sequence[Document], ranked: RankedTexts) -> RankedResults:
    results = []
    for rank, line in enumerate(ranked, start=1):
        document = documents[line.position]
        # `Result` shows metadata as attributes.
        duplicates = [documents[i].doc_id for i in line.folded]
        document.metadata = judged_metadata(document.metadata, line.surprise, duplicates, ranked.verdict)
        results.append(Result(document=document, score=line.relevance, rank=rank))
    shown = RankedResults(results=results, query=query, has_scores=True)
    shown.verdict = ranked.verdict  # beside what rerankers knows: no result could tell it where there is none
    return shown
