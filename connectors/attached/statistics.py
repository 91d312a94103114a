"""Statistics of a foreign collection, counted by scrolling once, and brought up to date by what has changed.

Nothing in Qdrant tells what has changed. So every point has a mark here: 64 bits of its id, and 64 bits of
what is watched of it: its text, one key of its payload such as `updated_at`, or nothing. A refresh reads what
is watched, and the vectors of those points only whose marks are new or others.

What a deleted point had added cannot be taken off, as its vector is gone. The old vectors of deleted and
changed points are counted as stale, and everything is counted again once they are a twentieth.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from qdrant_client import models

from surprise_rerank.connectors.attached.payloads import (
    ADDED_KEYS,
    Payload,
    PayloadLayout,
    paths,
    point_id,
    selectors,
)
from surprise_rerank.connectors.attached.vectors import VectorLayout
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.schema import Record, to_terms
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.connectors.readers.fields import shown
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.files import UNREADABLE_ARCHIVE
from surprise_rerank.core.json_values import at
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError, did_you_mean
from surprise_rerank.surprise.ensemble import Ensemble

Marks = npt.NDArray[np.uint64]

# A mean or deviation of which a twentieth is of other vectors changes by less than its own error of a sample.
_STALE = 0.05
_SAMPLE = 4096  # vectors that are kept, for similarities without exact moments
_BYTES = 8 * 2**20  # of a page of vectors, as JSON
_NUMBER = 12  # bytes of a number in it
_LOOKED_UP = 500  # points in a request
_SHOWN = 64  # points whose keys a message lists
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Changes:
    """What a refresh found.

    Attributes:
        added: points that were new.
        changed: points whose mark was another one.
        deleted: points that are gone.
        read: points whose vectors were read.
        counted_again: whether everything was counted again.
    """

    added: int = 0
    changed: int = 0
    deleted: int = 0
    read: int = 0
    counted_again: bool = False

    def __str__(self) -> str:
        again = ", all counted again" if self.counted_again else ""
        return f"{self.added} added, {self.changed} changed, {self.deleted} deleted{again}"


@dataclass(frozen=True, slots=True, eq=False)
class CollectionStatistics:
    """What is known of all points of a collection.

    Attributes:
        ensemble: of their dense vectors.
        terms: of their sparse vectors; None where there are none.
        points: (n,) marks of their ids, ascending.
        watched: (n,) marks of what is watched of them.
        stale: old vectors that still count.
        watch: what is watched: `text`, `ids` for nothing, or a key of the payload.
    """

    ensemble: Ensemble
    terms: TermStatistics | None
    points: Marks
    watched: Marks
    stale: int = 0
    watch: str = "text"

    @classmethod
    def counted(
        cls, scan: CollectionScan, watch: str = "text", advance: Callable[[int], None] = lambda n: None
    ) -> CollectionStatistics:
        """Of all points, in one scroll.

        Args:
            scan: reads the collection.
            watch: what later refreshes watch.
            advance: called with the number of points of every page.

        Raises:
            DataError: if a key is watched that no point has.
        """
        scan.check(watch)
        ensemble, terms = scan.nothing()
        points: list[int] = []
        watched: list[int] = []
        pending: list[TermStatistics] = []
        for page in scan.pages(watch):
            ensemble = ensemble.update(scan.dense(page))
            if terms is not None:
                pending.append(TermStatistics.of(scan.terms(page)))
                if len(pending) == _PENDING:
                    terms, pending = TermStatistics.total([terms, *pending]), []
            points += [_mark(record.id) for record in page]
            watched += [scan.watched(record.payload, watch) for record in page]
            advance(len(page))
        if terms is not None:
            terms = TermStatistics.total([terms, *pending])
        return cls(ensemble, terms, *_sorted(points, watched), 0, watch)

    def refreshed(
        self, scan: CollectionScan, advance: Callable[[int], None] = lambda n: None
    ) -> tuple[CollectionStatistics, Changes]:
        """With what has changed since.

        Args:
            scan: reads the collection.
            advance: called with the number of points of every page.
        """
        points: list[int] = []
        watched: list[int] = []
        fresh: list[str] = []
        changed = 0
        for page in scan.pages(self.watch, vectors=False):
            own = np.array([_mark(record.id) for record in page], np.uint64)
            marks = np.array([scan.watched(record.payload, self.watch) for record in page], np.uint64)
            place = np.searchsorted(self.points, own).clip(0, max(len(self.points) - 1, 0))
            known = self.points[place] == own if len(self.points) else np.zeros(len(own), bool)
            other = known & (self.watched[place] != marks) if len(self.points) else known
            changed += int(other.sum())
            fresh += [page[i].id for i in np.flatnonzero(~known | other)]
            points += own.tolist()
            watched += marks.tolist()
            advance(len(page))
        added = len(fresh) - changed
        deleted = len(self.points) + added - len(points)
        stale = self.stale + changed + deleted
        if stale > _STALE * max(len(points), 1):
            again = CollectionStatistics.counted(scan, self.watch)
            return again, Changes(added, changed, deleted, len(points), counted_again=True)
        ensemble, terms = self.ensemble, self.terms
        for page in scan.named(fresh):
            ensemble = ensemble.update(scan.dense(page))
            if terms is not None:
                terms = TermStatistics.total([terms, TermStatistics.of(scan.terms(page))])
        found = CollectionStatistics(ensemble, terms, *_sorted(points, watched), stale, self.watch)
        return found, Changes(added, changed, deleted, len(fresh))

    def is_far_from(self, scan: CollectionScan, count: int) -> bool:
        """Whether a collection of so many points is another one, or has changed much.

        Its number of points is compared, and whether the first ones are known.
        """
        if abs(count - len(self.points)) > _STALE * max(count, 1):
            return True
        first = next(iter(scan.engine.scroll((), batch=64)), [])
        own = np.array([_mark(record.id) for record in first], np.uint64)
        return bool(len(own)) and float(np.isin(own, self.points).mean()) < 1 - _STALE

    def to_bytes(self) -> bytes:
        """The content of a file: plain arrays."""
        file = io.BytesIO()
        terms = b"" if self.terms is None else self.terms.to_bytes()
        np.savez(
            file,
            numbers=np.array([_FORMAT, self.stale], np.int64),
            watch=np.array(self.watch),
            points=self.points,
            watched=self.watched,
            ensemble=np.frombuffer(self.ensemble.to_bytes(), np.uint8),
            terms=np.frombuffer(terms, np.uint8),
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> CollectionStatistics:
        """Read what `to_bytes` gave; nothing in it is executed.

        Raises:
            DataError: if it is something else, is damaged, or is of another format.
        """
        advice = f"{where}: the statistics are damaged, or of another version; count them again"
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                form, stale = stored["numbers"].tolist()
                arrays = {name: stored[name] for name in ("points", "watched", "ensemble", "terms")}
                watch = str(stored["watch"])
        except UNREADABLE_ARCHIVE as error:
            raise DataError(advice) from error
        if form != _FORMAT or len(arrays["points"]) != len(arrays["watched"]):
            raise DataError(advice)
        terms = arrays["terms"].tobytes()
        return cls(
            Ensemble.from_bytes(arrays["ensemble"].tobytes(), where),
            TermStatistics.from_bytes(terms) if terms else None,
            arrays["points"].astype(np.uint64),
            arrays["watched"].astype(np.uint64),
            stale,
            watch,
        )


_PENDING = 32  # pages of terms that are added up together


@dataclass(frozen=True, slots=True)
class CollectionScan:
    """Reads all points of a collection.

    Attributes:
        engine: of the collection.
        vectors: which are compared.
        payloads: how points become documents.
        model: of the vectors.
    """

    engine: ClientEngine
    vectors: VectorLayout
    payloads: PayloadLayout
    model: str

    def nothing(self) -> tuple[Ensemble, TermStatistics | None]:
        """The statistics of no point."""
        kind = self.vectors.similarity
        ensemble = Ensemble.empty(self.vectors.size, sample_size=_SAMPLE, model=self.model, similarity=kind)
        none = None if self.vectors.sparse is None else TermStatistics.of(TermBatch.empty(0))
        return ensemble, none

    def check(self, watch: str) -> None:
        """Refuse to watch a key that no point has.

        Raises:
            DataError: if there is none; lists the keys of some points.
        """
        if watch in ("text", "ids"):
            return
        empty: list[models.Condition] = [
            models.IsEmptyCondition(is_empty=models.PayloadField(key=path)) for path in paths(watch)
        ]
        having = models.Filter(must_not=[models.Filter(must=empty)])
        if any(self.engine.scroll((), batch=1, condition=having)):
            return
        some = next(iter(self.engine.scroll(None, batch=_SHOWN)), [])
        names = {own: None for record in some for own in record.payload if own not in ADDED_KEYS}
        if some:
            raise DataError(
                f"{self.engine.where}: no point has the key {watch!r} to watch; "
                f"{did_you_mean(watch, names)}there are {shown(names)}; or watch text, or ids"
            )

    def pages(self, watch: str, *, vectors: bool = True) -> Iterator[list[Record]]:
        """All points, with what is watched of them."""
        fields: tuple[str, ...] = ()
        if watch == "text":
            fields = self.payloads.text_fields()
        elif watch != "ids":
            fields = selectors(watch)
        names = self._names if vectors else ()
        size = max(1, min(10_000, _BYTES // (_NUMBER * self.vectors.size))) if vectors else 2000
        batch = size if fields or vectors else 10_000
        return self.engine.scroll(fields, names, batch=batch)

    def named(self, points: Sequence[str]) -> Iterator[list[Record]]:
        """Points by id, with their vectors."""
        for start in range(0, len(points), _LOOKED_UP):
            part = [point_id(name) for name in points[start : start + _LOOKED_UP]]
            yield self.engine.retrieve(part, (), self._names)

    def watched(self, payload: Payload, watch: str) -> int:
        """The mark of what is watched."""
        if watch == "ids":
            return 0
        if watch == "text":
            document = self.payloads.document("-", payload)
            return _mark(document.content_hash)
        return _mark(json.dumps(at(payload, watch), sort_keys=True, default=str))

    def dense(self, page: Sequence[Record]) -> Float32Array:
        """(n, d) dense vectors of those points that have one, as they are compared.

        Raises:
            DataError: if one has another dimension.
        """
        return dense_of(page, self.vectors)[0]

    def terms(self, page: Sequence[Record]) -> TermBatch:
        """The words of points; a point without a sparse vector has none."""
        return terms_of(page, self.vectors)

    @property
    def _names(self) -> tuple[str, ...]:
        own = self.vectors
        return (*([own.dense] if own.has_dense else []), *([own.sparse] if own.sparse is not None else []))


def dense_of(page: Sequence[Record], layout: VectorLayout) -> tuple[Float32Array, list[int]]:
    """Dense vectors of points, as they are compared, and the rows of the points that have one."""
    rows = [i for i, record in enumerate(page) if record.vectors.get(layout.dense) is not None]
    vectors = np.array([page[i].vectors[layout.dense] for i in rows], np.float32)
    return layout.prepared(vectors.reshape(len(rows), layout.size)), rows


def terms_of(page: Sequence[Record], layout: VectorLayout) -> TermBatch:
    """The sparse vectors of points; a point without one has no terms."""
    return to_terms(page, layout.sparse or "")


def tokens_of(page: Sequence[Record], layout: VectorLayout, where: str) -> TokenBatch:
    """The multivectors of points, which are a text's token vectors.

    Raises:
        DataError: if the collection has none.
    """
    if layout.tokens is None:
        raise DataError(
            f"{where} stores no token vectors; add them with enrich(tokens=True), or choose a system that "
            "needs none"
        )
    found = (record.vectors.get(layout.tokens) for record in page)
    size = layout.token_size
    rows = [np.array([] if own is None else own, np.float32).reshape(-1, size) for own in found]
    return TokenBatch.from_arrays(rows, size)


def _mark(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _sorted(points: list[int], watched: list[int]) -> tuple[Marks, Marks]:
    own, marks = np.array(points, np.uint64), np.array(watched, np.uint64)
    order = np.argsort(own, kind="stable")
    return own[order], marks[order]
