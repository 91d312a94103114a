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
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, get_args

from qdrant_client import models

from surprise_rerank import border
from surprise_rerank.candidates import Candidates, Field
from surprise_rerank.connectors.progress import Terminal, total_of
from surprise_rerank.connectors.qdrant.engines.placement import Placement
from surprise_rerank.connectors.qdrant.languages import language_of
from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.qdrant.location import DEFAULT_RETRIES, MEMORY, Location, RetryPolicy
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest, StatisticsRecord
from surprise_rerank.connectors.qdrant.multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant.schema import (
    ALL,
    BM25,
    DENSE,
    ID,
    METADATA,
    PASSAGES,
    PointId,
)
from surprise_rerank.connectors.qdrant.search.index_pools import IndexPools, WithOtherTenants
from surprise_rerank.connectors.qdrant.search.layout import VectorLayout
from surprise_rerank.connectors.qdrant.search.searched import Words
from surprise_rerank.connectors.qdrant.search.status import CollectionStatus
from surprise_rerank.connectors.qdrant.storage import Storage
from surprise_rerank.connectors.qdrant.storage.opening import (
    check_new,
    location_of,
    new_version,
    open_storage,
)
from surprise_rerank.connectors.qdrant.writing import statistics
from surprise_rerank.connectors.qdrant.writing.indexing import Indexer, PointMaker, SyncReport
from surprise_rerank.connectors.qdrant.writing.inventory import no_documents, require_nothing_lost
from surprise_rerank.connectors.qdrant.writing.kept_terms import KeptTerms, PointWriter, changing_points
from surprise_rerank.connectors.qdrant.writing.statistics import Statistics
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.connectors.qdrant.writing.writer import delete_documents
from surprise_rerank.connectors.ranked import RankedCollection
from surprise_rerank.connectors.systems.backgrounds import kept_by_unit, look_after_backgrounds, measure_again
from surprise_rerank.core.process import NeverCopied, PerProcess
from surprise_rerank.core.terms import TermArray
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.adapting import as_encoder
from surprise_rerank.encoders.base import Encoded, Encoder
from surprise_rerank.encoders.paired import paired_encoder
from surprise_rerank.errors import DataError, IndexMismatchError, StoreError
from surprise_rerank.surprise.ensemble import Ensemble

if TYPE_CHECKING:  # which needs torch
    from surprise_rerank.rerank.surprise import SurpriseReranker

Index = TypeVar("Index", bound="DocumentIndex")
# The indexes that are alive in this process: a folder that one of them changes cannot be opened again.
_opened: weakref.WeakSet[DocumentIndex] = weakref.WeakSet()
P = ParamSpec("P")
T = TypeVar("T")

_LOOKED_UP = 1000  # documents in a request
_FEWEST = 32  # documents of a sample, where each has many passages


def _exclusive(change: Callable[Concatenate[Index, P], T]) -> Callable[Concatenate[Index, P], T]:
    """A method that changes an index: it waits for the index's other changes."""

    @functools.wraps(change)
    def changed(self: Index, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.changing.get(), self.storage.engine.changing():
            return change(self, *args, **kwargs)

    return changed


class DocumentIndex(NeverCopied, RankedCollection):
    """Documents with their dense vectors and token vectors, in one collection of Qdrant.

    Use `DocumentIndex.open`; the index is a context manager. `docs/indexing.md` has examples.

    Attributes:
        storage: the points, and the files beside them.
        is_closed: whether `close` was called.
    """

    id_key = ID
    metadata_key = METADATA
    storage: Storage

    def __init__(self, storage: Storage, encoder: Encoder | None) -> None:
        self._use(storage)
        self._encoder = encoder
        _opened.add(self)
        self._statistics: Statistics | None = None
        self._terms = KeptTerms(storage.engine, storage)
        self._density: float | None = None
        self.is_closed = False
        # One change at a time: a pass of statistics must not give a document the moments of its old text.
        self.changing = PerProcess(threading.RLock)

    def _use(self, storage: Storage) -> None:
        self.storage = self.files = storage
        self.engine, self.where = storage.engine.kind, storage.where
        self.model, self.fingerprint = storage.manifest.model, storage.manifest.fingerprint

    @classmethod
    def open(
        cls,
        location: Location | str | os.PathLike[str] | None,
        encoder: object | None,
        *,
        token_encoder: object | None = None,
        options: IndexOptions | None = None,
        collection: str = "documents",
        url: str | Sequence[str] | None = None,
        api_key: str | None = None,
        prefer_grpc: bool = False,
        grpc_port: int | None = None,
        timeout: float = 60.0,
        retries: RetryPolicy = DEFAULT_RETRIES,
        collection_settings: Mapping[str, Any] | None = None,
    ) -> Self:
        """Open an index, or make an empty one.

        The location is a folder, `:memory:`, a server's collection as http://localhost:6333/papers, or a
        `Location`, whose parts the arguments from collection to retries are. None as encoder opens an index
        that exists; a token_encoder gives the token vectors in place of an API's model. Options, and
        collection_settings for `QdrantClient.create_collection`, are of a new index; one that exists must
        have them.

        Raises:
            StoreError: if the folder or server cannot be used.
            IndexMismatchError: if the index was made by another model, or with other options or settings.
            DataError: if what is given makes no vectors, or no tokens where these are to be stored.
        """
        check_new(options, collection_settings)
        model = paired_encoder(encoder, token_encoder)
        expected = None if model is None else Manifest.of(model, options)
        parts = (api_key, prefer_grpc, grpc_port, timeout, retries)
        where = location_of(location, url, collection, *parts)
        return cls(open_storage(where, expected, options, collection_settings or {}), model)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.storage.location.folder == MEMORY:
            raise StoreError("an index in memory cannot be pickled; open it in a folder or on a server")
        return _opened_again, (type(self), self.storage.location, self._encoder)

    def close(self) -> None:
        """Write what is pending; close files and connections, and release locks."""
        self.is_closed = True
        self.storage.close()

    @property
    def language(self) -> str:
        """Of the documents' words."""
        return (self._words or Bm25()).language

    @property
    def ensemble_version(self) -> str:
        """What tells apart the ensembles that its documents carry moments of."""
        record = self.manifest.statistics
        return "" if record is None else record.version

    @property
    def manifest(self) -> Manifest:
        """How the index was made."""
        return self.storage.manifest

    @property
    def layout(self) -> VectorLayout:
        """The vectors, and how they are compared."""
        return VectorLayout.of(self.manifest)

    @property
    def default_system(self) -> str:
        """The best system that there is enough for: `auto` needs token vectors or words."""
        return "auto" if self.has_tokens or self.manifest.options.bm25 is not None else "cosine"

    def remedy(self, what: str) -> str:
        """What one can do where there are no `words` or no `token vectors`."""
        setting = "bm25" if what == "words" else "tokens"
        return f"make the index again with 'surprise-rerank index --rebuild --set {setting}=yes'"

    @property
    def encoder(self) -> Encoder:
        """The model of its vectors.

        Raises:
            StoreError: if the index was opened without one.
        """
        if self._encoder is None:
            model = f"load_encoder({self.manifest.model!r})"
            raise StoreError(f"{self.storage.where} was opened without an encoder; open it with {model}")
        return self._encoder

    def use_encoder(self, encoder: Encoder) -> None:
        """Encode questions by this model from now on; an IndexMismatchError if it is not the index's."""
        model = as_encoder(encoder)
        self.manifest.check(Manifest.of(model), self.where)
        self._encoder = model

    @property
    def pools(self) -> IndexPools:
        """Candidates from requests to the engine; what retrievers are made of."""
        if self._density is None:
            points = self.storage.engine.count() if self.manifest.options.passages else 0
            self._density = points / max(len(self), 1) if points else 1.0
        return IndexPools(self.storage, self._density)

    @property
    def words(self) -> Words | None:
        """BM25's sparse vectors; None where none are stored."""
        if self.manifest.options.bm25 is None:
            return None
        return Words(BM25, self._weighted, self._statistics_of)

    def __len__(self) -> int:
        return self.storage.engine.count(IndexPools(self.storage, 1.0).firsts())

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
            self.manifest.check_precision(self.encoder, self.storage.where)
        maker = PointMaker(self.manifest.options, self.encoder, self.statistics())
        bar = Terminal(quiet=not show_progress).bar("indexing", total_of(documents), "documents")
        with bar as work, self._changing_points() as points:
            indexer = Indexer(self.storage.engine, points, maker, work, self._settle_words, tenant, replace)
            with self.counting_changes(lambda: indexer.changed):
                report = indexer.run(documents, prune=prune, encoded=encoded)
        self._density = None
        if not background:
            return report
        begun = time.perf_counter()
        look_after_backgrounds(self, show_progress=show_progress)
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
        self._density, key, removed = None, self.manifest.options.key_field, 0
        records = IndexPools(self.storage, 1.0, tenant).first_points((key, PASSAGES), filter, ids)
        with self._changing_points() as points, self.counting_changes(lambda: removed):
            while part := list(islice(records, _LOOKED_UP)):
                self.storage.engine.claim()  # who may not write has changed nothing
                removed += len(part)
                delete_documents(points, [(r.payload[key], r.payload.get(PASSAGES, 1)) for r in part])
        return removed

    def ids(
        self,
        *,
        filter: models.Filter | None = None,  # noqa: A002 - as searches have it
        tenant: str | None = None,
    ) -> Iterator[str]:
        """Return the ids of all documents, or of those that a filter lets through, always in the same order.

        A DataError if the index has tenants and none is given; those of `ALL` tenants are TENANT/ID.
        """
        pools, fields = IndexPools(self.storage, 1.0, tenant), (ID, self.manifest.options.key_field)
        return chain.from_iterable(pools.names([r]).values() for r in pools.first_points(fields, filter))

    @_exclusive
    def purge(self) -> None:
        """Take texts that were deleted or replaced out of an index's files now, not when it is closed.

        A server does that by itself, later; see docs/indexing.md. All segments with such texts are rewritten.
        """
        self.storage.engine.purge()

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
        earlier = kept_by_unit(self) if background else []
        model = paired_encoder(self.encoder if encoder is None else encoder, token_encoder) or self.encoder
        chosen = options or self.manifest.options
        version = self.storage.successor(Manifest.of(model, chosen), collection_settings or {})
        try:
            successor = type(self)(version, model)
            same_model = model.fingerprint == self.manifest.fingerprint
            if same_model:
                statistics.carry_over(self.storage, version)
            tenant = chosen.tenant
            if tenant is not None and tenant == self.manifest.options.tenant:
                documents = WithOtherTenants(documents, self.storage)
            report = successor.sync(documents, prune=True, show_progress=show_progress, background=False)
            require_nothing_lost(self.storage, version, documents)
            kept = successor.statistics()
            if kept is not None:  # an interrupted call may have stored those of another ensemble
                statistics.refresh(version, kept, lambda count: None)
            version.promote()
        except BaseException:
            version.close()
            raise
        before = self.storage
        self._use(version)
        self._encoder, self._statistics, self._density = model, successor._statistics, None
        self._terms = successor._terms
        try:
            before.release()
        finally:
            version.drop_others()
        if not background:
            return report
        begun = time.perf_counter()
        measure_again(self, earlier, show_progress=show_progress)
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

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]]:
        """Reads documents by id; see `SearchedCollection.documents`."""
        return self.pools.documents

    def ensemble(self, sample_size: int = 4096) -> Ensemble:
        """The ensemble of all stored documents (of their passages, where they are split), in one pass."""
        batches = (self.layout.dense_of(page)[0] for page in self.storage.engine.scroll((), (DENSE,)))
        return Ensemble.from_batches(batches, sample_size=sample_size, model=self.manifest.model)

    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a sample of the documents, fewer where they have many passages; see `token_sample`."""
        records = self.storage.engine.smallest(border.count("size", size), (self.manifest.options.key_field,))
        return tuple(self.pools.names(records).values())

    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """A uniform sample with these fields; see `SearchedCollection.sample`."""
        border.choices("fields", fields, get_args(Field))
        most = max(_FEWEST, round(border.count("size", size) / self.pools.density))
        return self.fetch(self.sample_ids(size)[:most], fields, skip_missing=True)

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample: the smallest point ids, which are hashes."""
        engine, fields = self.storage.engine, (ID, self.manifest.options.key_field, *TOKEN_FIELDS)
        points = [record.id for record in engine.smallest(border.count("size", size), ())]
        names = self.pools.vectors_of(frozenset({"tokens"}))
        stored = {record.id: record for record in engine.retrieve(points, fields, names)}
        records = [stored[point] for point in points if point in stored]
        return tuple(map(self.pools.key, records)), self.layout.tokens_of(records)

    def surprise_reranker(self) -> SurpriseReranker:
        """What orders given documents by surprise, as their moments do, if they carry some."""
        return statistics.surprise_reranker(self.statistics(), self.ensemble)

    def there(self, pool: Candidates) -> tuple[Candidates, list[PointId]]:
        """The candidates and their points."""
        return pool, self.pools.points_of(pool)

    def term_statistics(self) -> TermStatistics:
        """Return what every term weighs over all documents, or passages; see `KeptTerms`.

        Raises:
            DataError: if the index stores no sparse vectors.
        """
        if self.manifest.options.bm25 is None:
            raise DataError("the index stores no sparse vectors; rebuild it with the setting bm25")
        return self._terms.statistics()

    def _statistics_of(self, terms: TermArray) -> TermStatistics:
        """What some terms weigh; no others are read."""
        return self._terms.statistics(terms)

    def _weighted(self, question: str) -> SparseVector:
        """A question's words with their weights."""
        words = (self._words or Bm25()).query(question)
        return self._statistics_of(words.indices).weighted(words) if len(words.indices) else words

    @property
    def _words(self) -> Bm25 | None:
        """The settings of words; another process may have found the language of an index that was empty."""
        return (self.manifest if self.manifest.language else self.storage.reload()).words

    def _settle_words(self, documents: Sequence[Document]) -> Bm25 | None:
        """The settings of words, whose language the first documents decide, where nobody named it."""
        words = self._words
        if self.manifest.language or not documents:
            return words
        language = language_of([document.content for document in documents])
        self.storage.save(dataclasses.replace(self.manifest, language=language))
        return self.manifest.words

    def _changing_points(self) -> AbstractContextManager[PointWriter]:
        kept = None if self.manifest.options.bm25 is None else self._terms
        return changing_points(self.storage.engine, kept)

    def statistics(self) -> Statistics | None:
        """The statistics that the documents carry; None where no ensemble was set."""
        record = self.manifest.statistics
        if record is None:
            return None
        if self._statistics is None or self._statistics.record != record:
            self._statistics = statistics.load(self.storage, record, self.manifest.model)
        return self._statistics

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
        statistics.require_same_space(ensemble, self.manifest, self.storage.where)
        documents = self.ensemble() if shrink_mean or shrink_deviation else None
        shrinks = {"shrink_mean": shrink_mean, "shrink_deviation": shrink_deviation}
        statistics.set_latest(self.storage, Statistics.of(ensemble, source, documents=documents, **shrinks))
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
        statistics.set_latest(self.storage, extended)
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
        total = statistics.documents_behind(self.storage, record)
        with Terminal(quiet=not show_progress).bar("statistics", total, "documents") as advance:
            changed = statistics.refresh(self.storage, latest, advance)
        self._statistics = latest
        return changed

    def _latest(self) -> tuple[Statistics, StatisticsRecord]:
        record = self.storage.reload().latest
        if record is None:
            raise IndexMismatchError(f"{self.storage.where} has no ensemble yet; set one with set_ensemble")
        return statistics.load(self.storage, record, self.manifest.model), record

    def status(self) -> CollectionStatus:
        """Report what the index holds, and how far its statistics are behind its ensemble."""
        latest = self.manifest.latest
        behind = 0 if latest is None else statistics.documents_behind(self.storage, latest)
        return self._status_of(self.storage.engine.count(), manifest=self.manifest, behind=behind)

    def placement(self) -> Placement | None:
        """How the points are spread over the nodes of a server; None where the index is on this machine."""
        return self.storage.engine.placement()


def _opened_again(kind: type[DocumentIndex], location: Location, encoder: Encoder | None) -> DocumentIndex:
    """The index that a pickle names: the one that this process has open, or else one that is opened."""
    for index in list(_opened):
        is_same = type(index) is kind and index.storage.location == location
        if is_same and not index.is_closed and (index._encoder is None) == (encoder is None):
            return index
    return kind.open(location, encoder)
