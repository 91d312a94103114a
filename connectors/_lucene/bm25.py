"""BM25 as a retriever like any other: Pyserini's Lucene in this process, with no Java to install.

Pyserini's `LuceneIndexer` indexes. Anserini's bag-of-words query is asked directly, because Pyserini's
`LuceneSearcher` makes a Python object of each hit, rounds the scores, and imports torch and transformers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from surprise_rerank._candidates import Candidates, Query
from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.connectors._lucene.jvm import EXTRA, java, java_class
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core._files import disk_errors, staged_folder
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.moments import Moments

if TYPE_CHECKING:
    # BM25 needs no torch, which takes seconds to import.
    from surprise_rerank._candidates import Field

K1, B = 0.9, 0.4

_RECORD, _LUCENE = "bm25.json", "lucene"
_ADVICE = "check the permissions and the free space, or delete the folder to build the index again"
_BATCH = 1000
# What Java's String.trim removes: Anserini skips a document of which nothing else is left.
_BLANK = "".join(map(chr, range(33)))


class BM25Index:
    """A BM25 index in a folder, open for searching: a context manager, which `open_or_build` makes.

    A score is Lucene's BM25, summed over the query's words:
    ln(1 + (N - n + .5) / (n + .5)) * tf / (tf + k1 * (1 - b + b * length / mean length)) with k1 = .9 and
    b = .4, where n of the N documents hold the word; lengths of 40 words and more are rounded down to what
    fits one byte. Threads may share an index; their searches take turns.
    """

    def __init__(self, path: Path, documents: int) -> None:
        self.path = path
        self.documents = documents
        with self._reading():
            searcher_class = java_class("org.apache.lucene.search.IndexSearcher")
            # Lucene's limit of 1,024 words is for queries that people type; a document can be one, too.
            searcher_class.setMaxClauseCount(2**31 - 1)
            self._anserini: Any = java_class("io.anserini.search.SimpleSearcher")(str(path / _LUCENE))
            self._anserini.set_bm25(K1, B)
            self._searcher = searcher_class(self._anserini.reader)
            self._searcher.setSimilarity(self._anserini.get_similarity())
            by = java_class("org.apache.lucene.search.SortField")
            by_id = by("id", java_class("org.apache.lucene.search.SortField$Type").STRING_VAL)
            self._order = java_class("org.apache.lucene.search.Sort")(by.FIELD_SCORE, by_id)
            self._generator = java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()
            self._json = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
            size = int(self._anserini.reader.numDocs())
        if size != documents:  # Anserini only logs a document that it cannot write
            self.__exit__()
            raise StoreError(f"the BM25 index {path} holds {size} of {documents} documents: {_ADVICE}")

    @classmethod
    def open_or_build(
        cls,
        path: str | os.PathLike[str],
        documents: Iterable[Document],
        fingerprint: str,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> BM25Index:
        """Open the index if it has this fingerprint and is whole, or else build it.

        A build that fails or is interrupted leaves the folder as it was. A document is indexed as its
        `content` under its `id`, which no other one has; the fingerprint is any text that changes when the
        documents do. `on_progress` is called with the number of documents of every batch.
        """
        target = Path(path).resolve()
        with suppress(StoreError, OSError, ValueError, TypeError, KeyError):  # none, or a damaged one
            record = json.loads((target / _RECORD).read_text(encoding="utf-8"))
            if record["fingerprint"] == fingerprint:
                return cls(target, int(record["documents"]))
        what = f"the BM25 index {target}"
        with staged_folder(target, _RECORD, what) as folder:
            with java(f"cannot write {what}", _ADVICE):
                count = _write(folder / _LUCENE, documents, on_progress)
            with disk_errors(what):
                record = json.dumps({"documents": count, "fingerprint": fingerprint})
                (folder / _RECORD).write_text(f"{record}\n", encoding="utf-8")
            with cls(folder, count):
                pass  # it is whole
        return cls(target, count)

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """N ids and (n,) BM25 scores of the documents that share a word with the query.

        Best first; ties go by id, as in Anserini.
        """
        with self._reading():
            return self._top(self._words(query), depth)

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """(n,) the BM25 score of each of n documents of this index, the same as `search` gives, or 0."""
        names = [encodable(name) for name in ids]
        distinct = set(names)
        if not distinct:
            return np.zeros(0)
        with self._reading():
            terms, term = java_class("java.util.ArrayList")(), java_class("org.apache.lucene.util.BytesRef")
            for name in distinct:
                # As bytes, because a string takes four times as long to cross into Java.
                terms.add(term(name.encode()))
            among = java_class("org.apache.lucene.search.TermInSetQuery")("id", terms)
            occur = java_class("org.apache.lucene.search.BooleanClause$Occur")
            builder = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
            combined = builder.add(self._words(query), occur.SHOULD).add(among, occur.FILTER).build()
            ranked_ids, values = self._top(combined, len(distinct))
        if unknown := distinct.difference(ranked_ids):
            raise DataError(f"document {min(unknown)!r} is not in the BM25 index {self.path}")
        scores = dict(zip(ranked_ids, values, strict=True))
        return np.array([scores[name] for name in names])

    def moments(self, query: str) -> Moments:
        """Mean and population deviation of the query's BM25 scores over all documents: two scalars.

        A document that shares no word with the query counts with score 0.
        """
        with self._reading():
            top = self._searcher.search(self._words(query), max(1, self.documents))
            # One string for all hits: each call into Java costs as much as scoring many documents there.
            hits = json.loads(self._json.writeValueAsString(top))["scoreDocs"]
        # Through float32, which is what they are, so that they equal those of `search` in every bit.
        scores = np.array([hit["score"] for hit in hits], dtype=np.float32).astype(np.float64)
        share = 1 / max(self.documents, 1)
        mean = share * scores.sum()
        variance = share * ((scores - mean) ** 2).sum() + (1 - share * len(scores)) * mean**2
        return Moments(np.asarray(mean), np.asarray(np.sqrt(variance)), members=self.documents)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._reading():
            self._anserini.close()

    def _reading(self) -> AbstractContextManager[None]:
        return java(f"cannot read the BM25 index {self.path}", _ADVICE)

    def _words(self, text: str) -> Any:
        """Java's query for any of the text's words, with the whole collection's statistics."""
        return self._generator.buildQuery("contents", self._anserini.get_analyzer(), encodable(text))

    def _top(self, query: Any, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        # Java's integers have 32 bits, and Lucene refuses 0.
        limit = max(1, min(depth, self.documents))
        top = self._searcher.search(query, limit, self._order, True)
        hits = java_class("io.anserini.search.ScoredDocs").fromTopDocs(top, self._searcher)
        return tuple(hits.docids), np.array(hits.scores, dtype=np.float64)


def _write(folder: Path, documents: Iterable[Document], on_progress: Callable[[int], None] | None) -> int:
    """Index documents into Lucene's new folder, and return their number."""
    # Punctuation holds no words either, but Anserini does not skip it.
    contents = ((document.id, document.content) for document in documents)
    rows = ({"id": name, "contents": text if text.strip(_BLANK) else "."} for name, text in contents)
    indexer_class, count = import_extra("pyserini.index.lucene", EXTRA).LuceneIndexer, 0
    with closing(indexer_class(str(folder), threads=min(8, os.cpu_count() or 1))) as indexer:
        while batch := list(islice(rows, _BATCH)):
            indexer.add_batch_dict(batch)
            count += len(batch)
            if on_progress is not None:
                on_progress(len(batch))
    return count


class BM25Retriever:
    """The first retrieval stage by words instead of vectors.

    Args:
        index: the index that is searched.
        fetch: vectors, tokens and texts of the found documents, such as `DocumentIndex.fetch`.
    """

    def __init__(
        self, index: BM25Index, fetch: Callable[[Sequence[str], frozenset[Field]], Candidates]
    ) -> None:
        self._index, self._fetch = index, fetch

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The best documents for the query's text, at most `depth`, with their BM25 scores."""
        ids, scores = self._index.search(query.text, depth)
        pool = self._fetch(ids, fields) if fields else Candidates(ids=ids)
        # A store that splits documents returns a row for each passage.
        by_id = dict(zip(ids, scores, strict=True))
        scores = np.array([by_id[name] for name in pool.ids], np.float64)
        return replace(pool, scores={"bm25": scores})
