"""The package rerankers: our re-ranker where a `Reranker(...)` of theirs is expected."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from surprise_rerank import _border as border
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors._components import LoadedAdapter, ranked_metadata
from surprise_rerank.core._extras import importing

with importing("rerankers"):
    from rerankers.documents import Document
    from rerankers.models.ranker import BaseRanker
    from rerankers.results import RankedResults, Result

# What `rank` takes: one text or document, or several of one kind.
Documents: TypeAlias = str | Document | Sequence[str] | Sequence[Document]


class SurpriseRanker(LoadedAdapter, BaseRanker):  # type: ignore[misc]  # rerankers has no types
    """Ranks as the models of rerankers do, and hands out their `RankedResults`.

    `RankedResults.verdict` says whether the question got an answer; `result.duplicates` are the ids of what
    was folded into it with `collapse=`. What comes back are copies. `load(index=..., system=...)` makes one
    of names.
    """

    _argument: ClassVar = "reranker"

    def __init__(self, reranker: TextReranker) -> None:
        self.reranker = reranker

    def rank(
        self,
        query: str,
        docs: Documents,
        doc_ids: Sequence[str | int] | None = None,
        metadata: Sequence[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """All documents in order, best first; those only that reach `min_percentile`, if it is set.

        Ids and metadata stand in place of the documents' own; without any ids these are their positions.
        """
        documents = _copies(docs, doc_ids, metadata)
        texts = [document.text for document in documents]
        # Whole numbers are rerankers' own: positions.
        ids = [document.doc_id if isinstance(document.doc_id, str) else None for document in documents]
        ranked = self.reranker.rank(query, texts, ids=ids)
        results = []
        for rank, line in enumerate(ranked, start=1):
            document, duplicates = documents[line.position], [documents[i].doc_id for i in line.folded]
            # `Result` shows metadata as attributes.
            document.metadata = ranked_metadata(document.metadata, line, ranked.verdict, duplicates)
            results.append(Result(document=document, score=line.relevance, rank=rank))
        shown = RankedResults(results=results, query=query, has_scores=True)
        shown.verdict = ranked.verdict  # beside what rerankers knows: there may be no result to tell it
        return shown

    async def rank_async(self, *args: Any, **kwargs: Any) -> RankedResults:
        """`rank` in another thread, while the event loop goes on."""
        return await asyncio.to_thread(self.rank, *args, **kwargs)

    def score(self, query: str, doc: str) -> float:
        """The score that `rank` gives this text, whatever its percentile."""
        (line,) = self.reranker.with_options(min_percentile=0).rank(query, [doc])
        return line.relevance


def _copies(
    docs: Documents, doc_ids: Sequence[str | int] | None, metadata: Sequence[dict[str, Any]] | None
) -> list[Document]:
    """As `rerankers.utils.prep_docs` makes documents; which prints, and writes into what it is given."""
    listed: Sequence[Any] = [docs] if isinstance(docs, str | Document) else list(docs)
    for name, values in (("doc_ids", doc_ids), ("metadata", metadata)):
        if values is not None:
            border.equal(f"the length of {name}", len(values), len(listed), "give one for each document")
    copies = []
    for i, doc in enumerate(listed):
        copied = copy.copy(doc) if isinstance(doc, Document) else Document(doc)
        copied.metadata = dict(copied.metadata if metadata is None else metadata[i])
        if doc_ids is not None:
            copied.doc_id = doc_ids[i]
        elif copied.doc_id is None:
            copied.doc_id = i
        copies.append(copied)
    return copies
