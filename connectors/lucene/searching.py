"""The calls into Java that BM25 needs, by the classes of Pyserini, Anserini and Lucene.

Documents are indexed by Pyserini's `LuceneIndexer` (Porter stems, Lucene's English stop words). Searching
asks Anserini's bag-of-words query of the index and breaks ties by document id, as Pyserini's `LuceneSearcher`
does, but fetches all hits in two arrays: `LuceneSearcher` makes a Python object of each, rounds the scores,
and takes seconds to import, because torch and transformers come with searchers that are not used here.

Java's exceptions pass through: the caller has to turn them into errors for users by `jvm.java_errors`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.connectors.lucene.jvm import EXTRA, exclusive, java_class
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.extras import import_extra
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, StoreError

_BATCH = 1000
# Lucene refuses longer terms, and the id is one.
_LONGEST_ID = 32_766
# What Java's String.trim removes: Anserini skips a document of which nothing else is left.
_BLANK = "".join(map(chr, range(33)))


def write_index(
    folder: Path, documents: Iterable[Document], on_progress: Callable[[int], None] | None = None
) -> int:
    """Index documents into a new folder.

    Args:
        folder: Lucene's folder; nothing may be in it.
        documents: each is indexed as its `content` under its `id`; they are read once.
        on_progress: called with the number of documents so far, every thousand and at the end.

    Returns:
        The number of documents.

    Raises:
        DataError: if an id comes twice or is longer than 32,766 bytes.
        MissingExtraError: if the extra "pyserini" is not installed.
        StoreError: if Java cannot be started, or not all documents could be written.
    """
    seen: set[str] = set()
    rows = _rows(documents, seen)
    # Pyserini must not be imported before Java runs. Other threads may use Java while documents are read.
    with exclusive():
        indexer_class = import_extra("pyserini.index.lucene", EXTRA).LuceneIndexer
        indexer = indexer_class(str(folder), threads=min(8, os.cpu_count() or 1))
    try:
        while batch := list(islice(rows, _BATCH)):
            with exclusive():
                indexer.add_batch_dict(batch)
            if on_progress is not None:
                on_progress(len(seen))
    finally:
        with exclusive():
            indexer.close()
    # Anserini only logs a document that it cannot write.
    with exclusive(), closing(LuceneIndex(folder, k1=0.9, b=0.4)) as written:
        if written.size < len(seen):
            raise StoreError(f"Lucene wrote {written.size} of {len(seen)} documents: check the free space")
    return len(seen)


def _rows(documents: Iterable[Document], seen: set[str]) -> Iterator[dict[str, str]]:
    for document in documents:
        if document.id in seen:
            raise DataError(f"document id {document.id!r} comes twice; ids must be unique")
        if len(document.id.encode()) > _LONGEST_ID:
            raise DataError(f"document id {document.id[:40]!r}... is longer than {_LONGEST_ID} bytes")
        seen.add(document.id)
        content = document.content
        # Punctuation holds no words either, but Anserini does not skip it.
        yield {"id": document.id, "contents": content if content.strip(_BLANK) else "."}


class LuceneIndex:
    """A folder that `write_index` has filled, open for BM25.

    It is to be made and used in `jvm.exclusive` blocks. Queries are opaque Java objects, made by
    `words`, `any_of` and `within`.

    Attributes:
        size: how many documents it holds.
    """

    def __init__(self, folder: Path, k1: float, b: float) -> None:
        searcher_class = java_class("org.apache.lucene.search.IndexSearcher")
        # Lucene's limit of 1,024 words is for queries that people type; a document can be one, too.
        searcher_class.setMaxClauseCount(2**31 - 1)
        self._anserini = java_class("io.anserini.search.SimpleSearcher")(str(folder))
        self._anserini.set_bm25(k1, b)
        self._analyzer = self._anserini.get_analyzer()
        self._searcher = searcher_class(self._anserini.reader)
        self._searcher.setSimilarity(self._anserini.get_similarity())
        self.size = int(self._anserini.reader.numDocs())
        by = java_class("org.apache.lucene.search.SortField")
        by_id = by("id", java_class("org.apache.lucene.search.SortField$Type").STRING_VAL)
        self._order = java_class("org.apache.lucene.search.Sort")(by.FIELD_SCORE, by_id)
        self._occur = java_class("org.apache.lucene.search.BooleanClause$Occur")
        self._generator = java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self._scored_docs = java_class("io.anserini.search.ScoredDocs")
        self._json = java_class("com.fasterxml.jackson.databind.ObjectMapper")()

    def words(self, text: str) -> Any:
        """The query for any of the text's words; it scores by BM25 with the whole collection's statistics."""
        return self._generator.buildQuery("contents", self._analyzer, encodable(text))

    def any_of(self, ids: Iterable[str]) -> Any:
        """The query for the documents with these ids; it does not score."""
        terms, term = java_class("java.util.ArrayList")(), java_class("org.apache.lucene.util.BytesRef")
        for name in ids:
            # As bytes, because a string takes four times as long to cross into Java.
            terms.add(term(name.encode()))
        return java_class("org.apache.lucene.search.TermInSetQuery")("id", terms)

    def within(self, words: Any, among: Any, *, matching: bool) -> Any:
        """The query `words` asked of the documents `among` only.

        Args:
            words: from `words`.
            among: from `any_of`.
            matching: whether a document without any of the words is left out, or found with score 0.
        """
        occur = self._occur.MUST if matching else self._occur.SHOULD
        builder = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
        return builder.add(words, occur).add(among, self._occur.FILTER).build()

    def random_ids(self, count: int) -> tuple[str, ...]:
        """Ids of a uniform sample of the documents, always the same; of all, where there are not so many."""
        numbers = np.random.default_rng(0).permutation(self.size)[:count].tolist()
        place, hits = (java_class(f"org.apache.lucene.search.{name}") for name in ("ScoreDoc", "TopDocs"))
        anything = self._searcher.search(java_class("org.apache.lucene.search.MatchAllDocsQuery")(), 1)
        # Ids are read for all hits at once, so that these numbers are passed off as hits.
        chosen = hits(anything.totalHits, [place(number, 0.0) for number in numbers])
        return tuple(self._scored_docs.fromTopDocs(chosen, self._searcher).docids)

    def top(self, query: Any, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """The ids and scores of the best documents, at most `depth`, ties by id."""
        top = self._searcher.search(query, self._limit(depth), self._order, True)
        hits = self._scored_docs.fromTopDocs(top, self._searcher)
        return tuple(hits.docids), np.array(hits.scores, dtype=np.float64)

    def top_scores(self, query: Any, depth: int) -> Float64Array:
        """The scores of the best documents, at most `depth`: a third of the time of `top`."""
        top = self._searcher.search(query, self._limit(depth))
        # One string for all hits: each call into Java costs as much as scoring many documents there.
        hits = json.loads(self._json.writeValueAsString(top))["scoreDocs"]
        # Through float32, which is what they are, so that they equal those of `top` in every bit.
        return np.array([hit["score"] for hit in hits], dtype=np.float32).astype(np.float64)

    def close(self) -> None:
        """Close the files."""
        self._anserini.close()

    def _limit(self, depth: int) -> int:
        # Java's integers have 32 bits, and Lucene refuses 0.
        return max(1, min(depth, self.size))
