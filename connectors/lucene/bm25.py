"""BM25 as a retriever like any other: Pyserini's Lucene in this process, with no Java to install."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.lucene.jvm import exclusive, java_errors, start
from surprise_rerank.connectors.lucene.searching import LuceneIndex, write_index
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.files import disk_errors, staged_folder
from surprise_rerank.core.moments import Moments
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, IndexMismatchError, StoreError

if TYPE_CHECKING:
    # BM25 needs no torch, which takes seconds to import.
    from surprise_rerank.candidates import Field

SCHEMA = 1
K1 = 0.9
B = 0.4

_MANIFEST = "bm25.json"
_LUCENE = "lucene"
_EXACT = 20_000  # best scores that moments are made of: some 40 ms where so many documents match
_SAMPLED = 2048  # documents that stand for the others; their mean is known to some percent
_REBUILD = "delete the folder and build the index again"


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What an index folder stores about itself."""

    documents: int
    fingerprint: str
    k1: float
    b: float
    schema: int = SCHEMA

    def write(self, folder: Path) -> None:
        (folder / _MANIFEST).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> _Manifest:
        file = folder / _MANIFEST
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
            schema = values["schema"]
            if schema == SCHEMA:
                return cls(**values)
        except FileNotFoundError as error:
            raise StoreError(f"no BM25 index at {folder}: make one with BM25Index.build") from error
        except OSError as error:
            raise StoreError(f"cannot read {file}: {error}; check the path and its permissions") from error
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"{file} is damaged ({error!r}): {_REBUILD}") from error
        raise IndexMismatchError(f"the BM25 index {folder} has schema {schema}, not {SCHEMA}: {_REBUILD}")


class BM25Index:
    """A BM25 index in a folder, open for searching; `with` closes it.

    Threads may share it; their searches take turns, because pyjnius does not support several at once.
    `build`, `open` and `open_or_build` make one. A score is Lucene's BM25, summed over the query's words:
    ln(1 + (N - n + .5) / (n + .5)) * tf / (tf + k1 * (1 - b + b * length / mean length)), where n of the N
    documents hold the word; lengths of 40 words and more are rounded down to what fits one byte.

    Attributes:
        path: the folder.
        documents: how many documents it holds.
        fingerprint: what the caller said the documents are, when it was built.
        k1: how fast repetitions of a word saturate.
        b: how much long documents pay for their length.
    """

    def __init__(self, path: Path, manifest: _Manifest) -> None:
        self.path = path
        self.documents = manifest.documents
        self.fingerprint = manifest.fingerprint
        self.k1 = manifest.k1
        self.b = manifest.b
        self._sampled: Any = None  # Lucene's query for random documents, once it was needed
        with exclusive(), java_errors(f"cannot read the BM25 index {path}", _REBUILD):
            self._lucene: LuceneIndex | None = LuceneIndex(path / _LUCENE, self.k1, self.b)
        if self._lucene.size != self.documents:
            size = self._lucene.size
            self.close()
            raise StoreError(f"the BM25 index {path} holds {size} of {self.documents} documents: {_REBUILD}")

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        documents: Iterable[Document],
        *,
        fingerprint: str = "",
        k1: float = K1,
        b: float = B,
        on_progress: Callable[[int], None] | None = None,
    ) -> BM25Index:
        """Index documents and open the index; one that is there already is replaced at the very end.

        A build that fails or is interrupted leaves the folder as it was.

        Args:
            path: the index's folder.
            documents: each is indexed as its `content` under its `id`; they are read once.
            fingerprint: any text that changes when the documents do, for `open_or_build`.
            k1: how fast repetitions of a word saturate; at least 0.
            b: how much long documents pay for their length; 0 to 1.
            on_progress: called with the number of documents so far, every thousand and at the end.

        Raises:
            DataError: if an id comes twice or is longer than 32,766 bytes, or k1 or b is out of range.
            StoreError: if the folder is something else than an index, or cannot be written.
            MissingExtraError: if the extra "pyserini" is not installed.
        """
        _check_parameters(k1, b)
        start()
        target = Path(path).resolve()
        what = f"the BM25 index {target}"
        with staged_folder(target, _MANIFEST, what) as folder:
            with java_errors(f"cannot write {what}", "check its permissions and the free space"):
                count = write_index(folder / _LUCENE, documents, on_progress)
            with disk_errors(what):
                _Manifest(count, fingerprint, k1, b).write(folder)
        return cls.open(target)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, k1: float | None = None, b: float | None = None
    ) -> BM25Index:
        """Open an index that `build` made.

        Args:
            path: the index's folder.
            k1: in place of the one it was built with; Lucene needs it for searching only.
            b: in place of the one it was built with.

        Raises:
            StoreError: if there is no index, or it cannot be read or is damaged.
            IndexMismatchError: if another version of this package made it.
            DataError: if k1 or b is out of range.
            MissingExtraError: if the extra "pyserini" is not installed.
        """
        target = Path(path).resolve()
        manifest = _Manifest.read(target)
        manifest = replace(manifest, k1=manifest.k1 if k1 is None else k1, b=manifest.b if b is None else b)
        _check_parameters(manifest.k1, manifest.b)
        return cls(target, manifest)

    @classmethod
    def open_or_build(
        cls,
        path: str | os.PathLike[str],
        documents: Iterable[Document],
        fingerprint: str,
        *,
        k1: float = K1,
        b: float = B,
        on_progress: Callable[[int], None] | None = None,
    ) -> BM25Index:
        """Open the index if it has this fingerprint and is whole, or build it.

        Args:
            path: the index's folder.
            documents: read only if the index has to be built.
            fingerprint: what the documents are; an empty one equals none, so that the index is built.
            k1: as in `build`; another value alone needs no new index.
            b: as in `build`; another value alone needs no new index.
            on_progress: as in `build`.

        Raises:
            DataError: as `build` does.
            StoreError: as `build` does.
            MissingExtraError: if the extra "pyserini" is not installed.
        """
        _check_parameters(k1, b)
        # No index, a damaged one or one of another version: building replaces it, or reports why it cannot.
        with suppress(StoreError):
            if fingerprint and _Manifest.read(Path(path).resolve()).fingerprint == fingerprint:
                return cls.open(path, k1=k1, b=b)
        return cls.build(path, documents, fingerprint=fingerprint, k1=k1, b=b, on_progress=on_progress)

    def search(self, query: str, depth: int) -> tuple[tuple[str, ...], Float64Array]:
        """The documents that share a word with the query, best first; ties go by id, as in Anserini.

        Args:
            query: the question; one that is empty or holds stop words alone finds nothing.
            depth: the most documents to return.

        Returns:
            n ids, and (n,) BM25 scores, descending.

        Raises:
            DataError: if depth is less than 1.
            StoreError: if the index is closed or cannot be read.
        """
        if depth < 1:
            raise DataError(f"depth must be at least 1, got {depth}")
        with self._reading() as lucene:
            return lucene.top(lucene.words(query), depth)

    def score(self, query: str, ids: Sequence[str]) -> Float64Array:
        """The BM25 score of each of these documents, the same as `search` gives.

        Args:
            query: the question.
            ids: n documents of this index, in any order.

        Returns:
            (n,) scores, 0 for a document that shares no word with the query.

        Raises:
            DataError: if an id is not in the index; names it.
            StoreError: if the index is closed or cannot be read.
        """
        names = [encodable(name) for name in ids]
        distinct = set(names)
        if not distinct:
            return np.zeros(0)
        with self._reading() as lucene:
            among = lucene.any_of(distinct)
            found, values = lucene.top(
                lucene.within(lucene.words(query), among, matching=False), len(distinct)
            )
        self._check_known(distinct, found)
        scores = dict(zip(found, values, strict=True))
        return np.array([scores[name] for name in names])

    def moments(self, query: str) -> Moments:
        """Mean and population deviation of the query's BM25 scores over all documents.

        A document that shares no word with the query counts with score 0. The 20,000 best scores are taken
        as they are. Where more documents match, which takes a large collection and frequent words, the
        others' mean and mean square are those of the documents that match no better among 2,048 random ones.

        Args:
            query: the question.

        Returns:
            Two scalars; 0 and 0 where no document matches.

        Raises:
            StoreError: if the index is closed or cannot be read.
        """
        with self._reading() as lucene:
            words = lucene.words(query)
            best = lucene.top_scores(words, _EXACT)
            others = np.zeros(1)
            if len(best) == _EXACT and self.documents > _EXACT:
                scores = np.zeros(_SAMPLED)
                sampled = lucene.within(words, self._sample_of(lucene), matching=True)
                matching = lucene.top_scores(sampled, _SAMPLED)
                scores[: len(matching)] = matching
                others = scores[scores <= best[-1]] if scores.min() <= best[-1] else best[-1:]
                best = best[best > best[-1]]  # of equal ones some are left: the sample has them all
        share = 1 / max(self.documents, 1)
        left = 1 - share * len(best)
        mean = share * best.sum() + left * others.mean()
        variance = share * ((best - mean) ** 2).sum() + left * ((others - mean) ** 2).mean()
        return Moments(np.asarray(mean), np.asarray(np.sqrt(variance)), members=self.documents)

    def close(self) -> None:
        """Close the index's files; searching it afterwards is a StoreError, closing it again is nothing."""
        with exclusive(), java_errors(f"cannot close the BM25 index {self.path}", "nothing is lost"):
            lucene, self._lucene = self._lucene, None
            if lucene is not None:
                lucene.close()

    def __len__(self) -> int:
        return self.documents

    def __enter__(self) -> BM25Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[LuceneIndex]:
        with exclusive(), java_errors(f"cannot read the BM25 index {self.path}", _REBUILD):
            if self._lucene is None:
                raise StoreError(f"the BM25 index {self.path} is closed: open it again")
            yield self._lucene

    def _sample_of(self, lucene: LuceneIndex) -> Any:
        """The query for random documents, the same ones for every question."""
        if self._sampled is None:
            self._sampled = lucene.any_of(lucene.random_ids(_SAMPLED))
        return self._sampled

    def _check_known(self, ids: set[str], known: Iterable[str]) -> None:
        unknown = ids.difference(known)
        if unknown:
            raise DataError(f"document {min(unknown)!r} is not in the BM25 index {self.path}")


class DocumentStore(Protocol):
    """What returns documents by id, such as `DocumentIndex`."""

    def fetch(self, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
        """These documents, in this order, with these fields filled."""
        ...


class BM25Retriever:
    """The first retrieval stage by words instead of vectors.

    Attributes:
        name: what its scores are called in `Candidates.scores`.
        index: the index that is searched.
        store: where vectors, tokens and texts of the found documents come from, if a re-ranker needs them.
    """

    name = "bm25"

    def __init__(self, index: BM25Index, store: DocumentStore | None = None) -> None:
        self.index = index
        self.store = store

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """The best documents for the query's text, at most `depth`, with their BM25 scores.

        Raises:
            DataError: if depth is less than 1, fields are asked for without a store, or the store lacks a
                document.
            StoreError: if the index is closed or cannot be read.
        """
        ids, scores = self.index.search(query.text, depth)
        pool = Candidates(ids=ids)
        if fields:
            if self.store is None:
                wanted = ", ".join(sorted(fields))
                raise DataError(f"BM25 has no {wanted}: give BM25Retriever a store, such as a DocumentIndex")
            pool = self.store.fetch(ids, fields)
        # A store that splits documents returns a row for each passage.
        by_id = dict(zip(ids, scores, strict=True))
        own = np.array([by_id[name] for name in pool.ids], np.float64)
        return replace(pool, scores={self.name: own})


def _check_parameters(k1: float, b: float) -> None:
    if not (math.isfinite(k1) and k1 >= 0):
        raise DataError(f"BM25's k1 must be a number of at least 0, got {k1}")
    if not 0 <= b <= 1:
        raise DataError(f"BM25's b must be between 0 and 1, got {b}")
