"""The index that users open: documents in Qdrant, kept up to date, with what ranks them."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, IndexMismatchError, StoreError
from surprise_rerank.connectors._progress import Terminal, total_of
from surprise_rerank.connectors._searchable import SearchableCollection, status_of
from surprise_rerank.connectors.qdrant._languages import language_of
from surprise_rerank.connectors.qdrant._lexical import Bm25
from surprise_rerank.connectors.qdrant._location import MEMORY, Location
from surprise_rerank.connectors.qdrant._manifest import IndexOptions, Manifest, StatisticsRecord
from surprise_rerank.connectors.qdrant._schema import ALL, ID, PASSAGES
from surprise_rerank.connectors.qdrant._search.index_corpus import IndexCorpus
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.connectors.qdrant._search.status import CollectionStatus
from surprise_rerank.connectors.qdrant._storage import Storage
from surprise_rerank.connectors.qdrant._storage.opening import (
    check_new,
    new_version,
    open_storage,
)
from surprise_rerank.connectors.qdrant._writing import statistics
from surprise_rerank.connectors.qdrant._writing.indexing import Indexer, PointMaker, SyncReport
from surprise_rerank.connectors.qdrant._writing.inventory import (
    WithOtherTenants,
    no_documents,
    require_nothing_lost,
)
from surprise_rerank.connectors.qdrant._writing.kept_terms import PointWriter, changing_points
from surprise_rerank.connectors.qdrant._writing.statistics import Statistics
from surprise_rerank.connectors.qdrant._writing.writer import delete_documents
from surprise_rerank.connectors.systems._backgrounds import (
    kept_by_unit,
    look_after_backgrounds,
    measure_again,
)
from surprise_rerank.core._process import NeverCopied, PerProcess
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._paired import paired_encoder
from surprise_rerank.encoders.base import Encoded, Encoder
from surprise_rerank.surprise._ensemble import Ensemble

Index = TypeVar("Index", bound="DocumentIndex")
# The indexes that are alive in this process: a folder that one of them changes cannot be opened again.
_opened: weakref.WeakSet[DocumentIndex] = weakref.WeakSet()
P = ParamSpec("P")
T = TypeVar("T")

_LOOKED_UP = 1000  # documents in a request


def _exclusive(change: Callable[Concatenate[Index, P], T]) -> Callable[Concatenate[Index, P], T]:
    """A method that changes an index: it waits for the index's other changes."""

    @functools.wraps(change)
    def changed(self: Index, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.changing.get(), self.corpus.points.changing():
            return change(self, *args, **kwargs)

    return changed


class DocumentIndex(NeverCopied, SearchableCollection):
    """Documents with their dense vectors and token vectors, in one collection of Qdrant.

    Use `DocumentIndex.open`; the index is a context manager. `docs/indexing.md` has examples.

    Attributes:
        corpus: the documents as retrievers read them.
        is_closed: whether `close` was called.
    """

    corpus: IndexCorpus

    def __init__(self, storage: Storage, encoder: Encoder | None) -> None:
        super().__init__(IndexCorpus(storage, encoder))
        self.corpus.owner, self.is_closed = self, False
        _opened.add(self)
        # One change at a time: a pass of statistics must not give a document the moments of its old text.
        self.changing = PerProcess(threading.RLock)

    @classmethod
    def open(
        cls,
        location: Location | str | os.PathLike[str],
        encoder: object | None,
        *,
        token_encoder: object | None = None,
        options: IndexOptions | None = None,
        collection_settings: Mapping[str, Any] | None = None,
    ) -> Self:
        """Open an index, or make an empty one.

        The location is a folder, `:memory:`, a server's collection as http://localhost:6333/papers, or a
        `Location`, which has more to say of a server. None as encoder opens an index that exists; a
        token_encoder gives the token vectors in place of an API's model. Options, and collection_settings
        for `QdrantClient.create_collection`, are of a new index; one that exists must have them.

        Raises:
            StoreError: if the folder or server cannot be used.
            IndexMismatchError: if the index was made by another model, or with other options or settings.
            DataError: if what is given makes no vectors, or no tokens where these are to be stored.
        """
        check_new(options, collection_settings)
        model = paired_encoder(encoder, token_encoder)
        expected = None if model is None else Manifest.of(model, options)
        return cls(open_storage(Location.of(location), expected, options, collection_settings or {}), model)

    def __reduce__(self) -> tuple[Any, ...]:
        location = self.corpus.storage.location
        if location.folder == MEMORY:
            raise StoreError("an index in memory cannot be pickled; open it in a folder or on a server")
        return _opened_again, (type(self), location, self.corpus.given_encoder)

    @property
    def manifest(self) -> Manifest:
        """The model and the options that the index was made with."""
        return self.corpus.manifest

    def ids(
        self,
        *,
        filter: models.Filter | None = None,  # noqa: A002 - as searches have it
        tenant: str | None = None,
    ) -> Iterator[str]:
        """Return the ids of all documents, or of those that a filter lets through, always in the same order.

        A DataError if the index has tenants and none is given; those of `ALL` tenants are TENANT/ID.
        """
        pools = Pools.of_index(self.corpus.storage, tenant=tenant)
        records = pools.first_points((ID, self.manifest.options.key_field), filter)
        return chain.from_iterable(pools.names([record]).values() for record in records)

    def ensemble(self, sample_size: int = 4096) -> Ensemble:
        """The ensemble of all stored documents (of their passages, where they are split), in one pass."""
        return self.corpus.ensemble(sample_size)

    def status(self) -> CollectionStatus:
        """Report what the index holds, and how far its statistics are behind its ensemble."""
        latest = self.manifest.latest
        behind = 0 if latest is None else statistics.documents_behind(self.corpus.storage, latest)
        return status_of(self.corpus, manifest=self.manifest, behind=behind)

    def close(self) -> None:
        """Write what is pending; close files and connections, and release locks."""
        self.is_closed = True
        self.corpus.storage.close()

    def use_encoder(self, encoder: Encoder) -> None:
        """Encode questions by this model from now on; an IndexMismatchError if it is not the index's."""
        model = as_encoder(encoder)
        self.manifest.check(Manifest.of(model), self.where)
        self.corpus.given_encoder = model

    @_exclusive
    def sync(
        self,
        documents: Iterable[Document],
        *,
        prune: bool = False,
        encoded: Encoded | None = None,
        show_progress: bool = False,
        background: bool = True,
        tenant: str | None = None,
        replace: bool = False,
    ) -> SyncReport:
        """Bring the index up to date: only new and changed documents are encoded and stored.

        After an interruption the next call continues. `prune` removes stored documents that are not among
        these, of the sources and of the tenants that these name, or of the `tenant`. `encoded` are vectors
        that exist already; no document is split then. `replace` lets a document take the place of one of its
        id that was read from another source. Then backgrounds are measured that are missing or stale.

        Raises:
            DataError: if an id occurs twice, or is another source's; what was stored before stays.
            EmptySourceError: if there is no document, and `prune` would remove all that are stored.
            IndexMismatchError: if the encoder computes in another precision than the index holds.
            IndexingError: if documents cannot be stored; names those that are not, the others are.
        """
        border.flags(prune=prune, replace=replace, show_progress=show_progress, background=background)
        border.optional(border.instance, "encoded", encoded, Encoded)
        tenant = None if border.optional(border.text, "tenant", tenant) == ALL else tenant
        if encoded is None:
            self.manifest.check_precision(self.encoder, self.corpus.storage.where)
        maker = PointMaker(self.manifest.options, self.encoder, self.corpus.statistics())
        bar = Terminal(quiet=not show_progress).bar("indexing", total_of(documents), "documents")
        with bar as work, self._changing_points() as points:
            indexer = Indexer(self.corpus.points, points, maker, work, self._settle_words, tenant, replace)
            with self.corpus.counting_changes(lambda: indexer.changed):
                report = indexer.run(documents, prune=prune, encoded=encoded)
        self.corpus.forget_density()
        if not background:
            return report
        begun = time.perf_counter()
        look_after_backgrounds(self.corpus, show_progress=show_progress)
        return dataclasses.replace(report, background_seconds=time.perf_counter() - begun)

    @_exclusive
    def delete(
        self,
        ids: Iterable[str] | None = None,
        *,
        filter: models.Filter | None = None,  # noqa: A002 - as searches have it
        tenant: str | None = None,
    ) -> int:
        """Remove documents: of these ids, of those that a filter lets through, or all of a tenant.

        Unknown ids are ignored; returns how many documents there were. In a folder their texts are gone from
        all files when the index is closed, or after `purge`. A DataError if nothing says which.
        """
        if ids is None and filter is None and border.optional(border.text, "tenant", tenant) in (None, ALL):
            raise DataError("say what is to be deleted: give ids=, filter=, or the name of a tenant=")
        key, removed = self.manifest.options.key_field, 0
        self.corpus.forget_density()
        pools = Pools.of_index(self.corpus.storage, tenant=tenant)
        records = pools.first_points((key, PASSAGES), filter, ids)
        with self._changing_points() as points, self.corpus.counting_changes(lambda: removed):
            while part := list(islice(records, _LOOKED_UP)):
                self.corpus.points.claim()  # who may not write has changed nothing
                removed += len(part)
                delete_documents(points, [(r.payload[key], r.payload.get(PASSAGES, 1)) for r in part])
        return removed

    @_exclusive
    def purge(self) -> None:
        """Take texts that were deleted or replaced out of an index's files now, not when it is closed.

        A server does that by itself, later; see docs/indexing.md. All segments with such texts are rewritten.
        """
        self.corpus.points.purge()

    @_exclusive
    def rebuild(
        self,
        documents: Iterable[Document],
        *,
        encoder: object | None = None,
        token_encoder: object | None = None,
        options: IndexOptions | None = None,
        collection_settings: Mapping[str, Any] | None = None,
        show_progress: bool = False,
        background: bool = True,
    ) -> SyncReport:
        """Index all documents again into a new version, and replace this one by it in one step.

        Until then this version answers. After an error it stays in use, and another call continues. Models
        and options are as for `open`, or those of now. The ensemble stays if the model does; the questions
        of backgrounds are asked again. Documents of tenants that these do not name are taken from this
        version, and stay.

        Raises:
            IndexingError: if documents cannot be stored.
            EmptySourceError: if there is no document, and some are stored.
            DataError: if a stored document's file or row is there and cannot be read now.
        """
        check_new(options, collection_settings, show_progress=show_progress, background=background)
        earlier = kept_by_unit(self.corpus) if background else []
        model = paired_encoder(self.encoder if encoder is None else encoder, token_encoder) or self.encoder
        chosen = options or self.manifest.options
        version = self.corpus.storage.successor(Manifest.of(model, chosen), collection_settings or {})
        try:
            successor = type(self)(version, model)
            same_model = model.fingerprint == self.manifest.fingerprint
            if same_model:
                statistics.carry_over(self.corpus.storage, version)
            tenant = chosen.tenant
            if tenant is not None and tenant == self.manifest.options.tenant:
                documents = WithOtherTenants(documents, self.corpus.storage)
            report = successor.sync(documents, prune=True, show_progress=show_progress, background=False)
            require_nothing_lost(self.corpus.storage, version, documents)
            kept = successor.corpus.statistics()
            if kept is not None:  # an interrupted call may have stored those of another ensemble
                statistics.refresh(version, kept, lambda count: None)
            version.promote()
        except BaseException:
            version.close()
            raise
        before = self.corpus.storage
        self.corpus.given_encoder = model
        self.corpus.use(version, successor.corpus.terms)
        try:
            before.release()
        finally:
            version.drop_others()
        if not background:
            return report
        begun = time.perf_counter()
        measure_again(self.corpus, earlier, show_progress=show_progress)
        return dataclasses.replace(report, background_seconds=time.perf_counter() - begun)

    @classmethod
    def renew(
        cls,
        location: Location | str | os.PathLike[str],
        documents: Iterable[Document],
        encoder: object,
        *,
        token_encoder: object | None = None,
        options: IndexOptions | None = None,
        collection_settings: Mapping[str, Any] | None = None,
        show_progress: bool = False,
        background: bool = True,
    ) -> SyncReport:
        """Put a new index into the place of one that cannot be opened: it is of another schema, or damaged.

        The arguments are those of `open` and `sync`. The old one stays until the new one is complete.

        Raises:
            NoIndexError: if there is none.
            EmptySourceError: if there is no document.
            IndexingError: if documents cannot be stored; another call continues.
        """
        check_new(options, collection_settings, show_progress=show_progress, background=background)
        model = paired_encoder(as_encoder(encoder), token_encoder) or as_encoder(encoder)
        version = new_version(location, Manifest.of(model, options), collection_settings or {})
        with cls(version, model) as index:
            report = index.sync(documents, prune=True, show_progress=show_progress, background=background)
            if not len(index):
                raise no_documents("those", str(location))
            version.promote()
            version.drop_others()
        return report

    def _settle_words(self, documents: Sequence[Document]) -> Bm25 | None:
        """The settings of words, whose language the first documents decide, where nobody named it."""
        words = self.corpus.bm25
        if self.manifest.language or not documents:
            return words
        language = language_of([document.content for document in documents])
        self.corpus.storage.save(dataclasses.replace(self.manifest, language=language))
        return self.manifest.words

    def _changing_points(self) -> AbstractContextManager[PointWriter]:
        kept = None if self.manifest.options.bm25 is None else self.corpus.terms
        return changing_points(self.corpus.points, kept)

    @_exclusive
    def set_ensemble(
        self,
        ensemble: Ensemble,
        *,
        source: str = "",
        shrink_mean: float = 0.0,
        shrink_deviation: float = 0.0,
        show_progress: bool = False,
    ) -> int:
        """Give every document its moments over an ensemble, in one pass; new ones get theirs in `sync`.

        Means and deviations are moved to those that all documents share, by shares from 0 to 1; a deviation's
        1 is the pooled model. The source is for `status`. Returns how many documents were changed.

        Raises:
            DataError: if the ensemble has fewer than two members, or is of another dimension.
            IndexMismatchError: if it is of another model.
        """
        border.instance("ensemble", ensemble, Ensemble)
        border.text("source", source)
        border.share("shrink_mean", shrink_mean)
        border.share("shrink_deviation", shrink_deviation)
        border.flags(show_progress=show_progress)
        statistics.require_model(ensemble, self.manifest.model, self.where)
        advice = "encode both with one model"
        border.equal("the ensemble's dimension", ensemble.dimension, self.manifest.dimension, advice)
        documents = self.ensemble() if shrink_mean or shrink_deviation else None
        shrinks = {"shrink_mean": shrink_mean, "shrink_deviation": shrink_deviation}
        statistics.set_latest(
            self.corpus.storage, Statistics.of(ensemble, source, documents=documents, **shrinks)
        )
        return self.refresh_statistics(show_progress=show_progress)

    @_exclusive
    def add_questions(self, questions: Sequence[str]) -> int:
        """Add questions to the ensemble; documents keep their moments until `refresh_statistics`.

        Returns:
            How many members it has now.

        Raises:
            IndexMismatchError: if no ensemble was set.
        """
        texts = border.texts("questions", questions, least=1)
        now, _ = self._latest()
        extended = now.extended(self.encoder.encode(texts, kind="query").dense)
        statistics.set_latest(self.corpus.storage, extended)
        return extended.record.count

    @_exclusive
    def refresh_statistics(self, *, show_progress: bool = False) -> int:
        """Bring every document's moments up to date with the ensemble; a call continues an interrupted pass.

        Returns:
            How many documents were changed.

        Raises:
            IndexMismatchError: if no ensemble was set.
        """
        border.flags(show_progress=show_progress)
        latest, record = self._latest()
        total = statistics.documents_behind(self.corpus.storage, record)
        with Terminal(quiet=not show_progress).bar("statistics", total, "documents") as advance:
            return statistics.refresh(self.corpus.storage, latest, advance)

    def _latest(self) -> tuple[Statistics, StatisticsRecord]:
        record = self.corpus.storage.reload().latest
        if record is None:
            raise IndexMismatchError(
                f"{self.corpus.storage.where} has no ensemble yet; set one with set_ensemble"
            )
        return statistics.load(self.corpus.storage, record, self.manifest.model), record


def _opened_again(kind: type[DocumentIndex], location: Location, encoder: Encoder | None) -> DocumentIndex:
    """The index that a pickle names: the one that this process has open, or else one that is opened."""
    for index in list(_opened):
        is_same = type(index) is kind and index.corpus.storage.location == location
        if is_same and not index.is_closed and (index.corpus.given_encoder is None) == (encoder is None):
            return index
    return kind.open(location, encoder)
