"""`Collection.attach`: a Qdrant collection that somebody else made, searched and re-ranked as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias, get_args

from qdrant_client import AsyncQdrantClient, QdrantClient

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, IndexingError, StoreError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors._ranked import RankedCollection
from surprise_rerank.connectors.attached._enrichment import (
    SUFFIX,
    TRIED,
    EnrichCost,
    Enricher,
    Enrichment,
    behind,
)
from surprise_rerank.connectors.attached._finding import (
    SparseEmbed,
    dense_model,
    look,
    models_of,
    raw,
    require_same_model,
    sparse_of,
    with_tokens,
)
from surprise_rerank.connectors.attached._kept import KeptFiles, files_name, files_of
from surprise_rerank.connectors.attached._layouts import find_layout
from surprise_rerank.connectors.attached._neighbours import texts_around
from surprise_rerank.connectors.attached._pools import ForeignPools
from surprise_rerank.connectors.attached._statistics import CountedStatistics
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._engines.connections import (
    Connection,
    Reached,
    connect,
    existing,
    place_of,
)
from surprise_rerank.connectors.qdrant._engines.nodes import is_remote
from surprise_rerank.connectors.qdrant._engines.placement import Placement
from surprise_rerank.connectors.qdrant._languages import SAMPLED, language_of, stems_of
from surprise_rerank.connectors.qdrant._lexical import AUTO, Bm25, SparseVector
from surprise_rerank.connectors.qdrant._location import Location
from surprise_rerank.connectors.qdrant._multivectors import TOKEN_FIELDS
from surprise_rerank.connectors.qdrant._payloads import PayloadLayout
from surprise_rerank.connectors.qdrant._schema import BESIDE
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._search.searched import Words
from surprise_rerank.connectors.qdrant._search.status import CollectionStatus
from surprise_rerank.connectors.qdrant._storage.files import CollectionFiles, Files
from surprise_rerank.connectors.qdrant._writing.indexing import SyncReport
from surprise_rerank.connectors.systems._backgrounds import look_after_backgrounds
from surprise_rerank.core._process import NeverCopied, require_no_secret
from surprise_rerank.core.arrays import is_linear
from surprise_rerank.core.tokens import POOLING, TokenBatch
from surprise_rerank.encoders._paired import PairedEncoder
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.rerank._grouping import TextsAround
from surprise_rerank.rerank._surprise import SurpriseReranker
from surprise_rerank.surprise._ensemble import Ensemble

Keep: TypeAlias = str | os.PathLike[str] | Literal["qdrant"] | None

_QUESTIONS = "ensemble.npz"  # that were set


class Collection(NeverCopied, RankedCollection):
    """A Qdrant collection that LangChain, LlamaIndex, Haystack, Mem0 or somebody's own code made.

    Use `Collection.attach`. Nothing is written into the collection. Threads may share it. A pickle has what
    `attach` was called with.
    """

    _attached: tuple[Reached, str, dict[str, Any]]

    def __init__(
        self,
        connection: Connection,
        points: ClientEngine,
        vectors: VectorLayout,
        payloads: PayloadLayout,
        models: tuple[Encoder | None, Encoder | None],
        sparse: SparseEmbed | None,
        files: Files,
    ) -> None:
        self._connection, self.points, self.vectors, self.payloads = connection, points, vectors, payloads
        self._encoder, self.token_encoder = models
        encoder = self._encoder
        self.model, self.fingerprint = (
            ("", "") if encoder is None else (dense_model(encoder).name, encoder.fingerprint)
        )
        self._sparse, self.files = sparse, files
        self.engine, self.where = points.kind, points.where
        self.id_key, self.metadata_key = payloads.id_path, payloads.metadata
        self._notes: tuple[str, ...] = ()
        self.enriched = self._found_enriched()
        self._counted = CountedStatistics(points, vectors, files, self.model)

    @classmethod
    def attach(
        cls,
        where: Reached,
        collection: str,
        *,
        embed: Any = None,
        token_encoder: Any = None,
        sparse: Any = None,
        text: str | None = None,
        title: str | None = None,
        id: str | None = None,  # noqa: A002 - the option's name
        metadata: str | None = None,
        vector: str | None = None,
        multivector: str | None = None,
        sparse_vector: str | None = None,
        keep: Keep = None,
        api_key: str | None = None,
    ) -> Self:
        """Open a collection, by its url or a client, as it is; docs/existing-collection.md has all options.

        Keys of the payload and names of vectors are found where only one fits.

        Raises:
            StoreError: if the server cannot be reached, or has no such collection.
            DataError: if a key or a vector must be named; if the vectors are of another model.
            IndexMismatchError: if it is an index of ours, or was filled or enriched otherwise meanwhile.
        """
        keys = {"text": text, "title": title, "id": id, "metadata": metadata, "api_key": api_key}
        names = {"vector": vector, "multivector": multivector, "sparse_vector": sparse_vector}
        for name, value in (keys | names).items():
            border.optional(border.text, name, value)
        collection = border.text("collection", collection, blank=False)
        models = {"embed": embed, "token_encoder": token_encoder, "sparse": sparse, "keep": keep}
        arguments = {**models, **names, **keys}
        connection = connect(where, api_key)
        try:
            points = existing(connection, collection)
            dense, tokens = models_of(embed, token_encoder, collection)
            vectors, records = look(points, names, None if dense is None else dense.dimension)
            payloads = find_layout(
                [(record.id, record.payload) for record in records],
                points.where,
                text=text,
                title=title,
                id=id,
                metadata=metadata,
            )
            vectors, notes = with_tokens(tokens, vectors, dense is not None, multivector, points.where)
            if not vectors.has_dense:
                dense = encoder = tokens
            elif dense is not None:
                dense = raw(dense, vectors, points.where)
                encoder = dense if tokens is None or dense is tokens else PairedEncoder(dense, tokens)
            else:
                encoder = None
            beside = connection.engine(files_name(points.collection))
            stored, place = files_of(keep, points, beside, connection.place)
            files = KeptFiles(stored, records, vectors, points.where, place)
            if dense is not None:
                notes += require_same_model(records, vectors, payloads, dense, points.where)
            embed_words, notes_of_words = sparse_of(sparse, vectors, payloads, records)
            attached = cls(connection, points, vectors, payloads, (encoder, tokens), embed_words, files)
        except BaseException:
            connection.close()
            raise
        attached._attached, attached._notes = (where, collection, arguments), (*notes, *notes_of_words)
        return attached

    def __reduce__(self) -> tuple[Any, ...]:
        where, collection, arguments = self._attached
        key = arguments["api_key"]
        if isinstance(where, QdrantClient | AsyncQdrantClient):
            if not is_remote(where):
                raise StoreError(
                    f"{self.where} is in this process alone, so it cannot be pickled; use a server"
                )
            options = where.init_options
            key = options.get("api_key")
            by_grpc, port = bool(options.get("prefer_grpc")), options.get("grpc_port")
            where = Location(url=place_of(options), prefer_grpc=by_grpc, grpc_port=port)
        require_no_secret(key, "QDRANT_API_KEY", self.where)
        return _attached_again, (type(self), where, collection, arguments | {"api_key": None})

    def __len__(self) -> int:
        return self.points.count()

    def close(self) -> None:
        """Close the connection, if it was opened here."""
        self._connection.close()

    def enrich(
        self,
        *,
        tokens: bool = True,
        words: bool | Bm25 = True,
        dry_run: bool = False,
        show_progress: bool = False,
    ) -> SyncReport | EnrichCost:
        """Add what rankings are better with, in a collection `NAME.surprise` beside it, or update it.

        That is token vectors of the documents, and sparse vectors of their words by Qdrant's BM25. A dry run
        reports what it would cost, and writes nothing.

        Raises:
            DataError: if it makes no sense, or it was enriched otherwise before.
            IndexingError: if single documents are too large to store; all others are enriched.
            StoreError: if it cannot be written; what was written before stays, and a call goes on there.
        """
        border.flags(tokens=tokens, dry_run=dry_run, show_progress=show_progress)
        if not isinstance(words, Bm25):
            border.flags(words=words)
        settings = words if isinstance(words, Bm25) else Bm25() if words else None
        enricher = self._enricher(tokens, settings and self._in_language(settings))
        if dry_run:
            return enricher.cost(self.sample_documents(TRIED))
        report = self._run(enricher, show_progress, lambda changed: nullcontext())
        if self._encoder is not None:  # a background's questions are encoded
            look_after_backgrounds(self, show_progress=show_progress)
        return report

    def sync(self, *, show_progress: bool = False) -> SyncReport:
        """Bring the statistics and what `enrich` added up to date with the collection."""
        border.flags(show_progress=show_progress)
        self.refresh()
        record, report = self.enriched.record, SyncReport()
        if record is not None:
            enricher = self._enricher(bool(record.model), record.words)
            report = self._run(enricher, show_progress, self.counting_changes)
        if self._encoder is not None:  # a background's questions are encoded
            look_after_backgrounds(self, show_progress=show_progress)
        return report

    def remove_enrichment(self) -> bool:
        """Take away everything that `enrich` added; returns whether there was anything."""
        removed = self.enriched.remove()
        self.reload()
        return removed

    def status(self) -> CollectionStatus:
        """Report what the collection holds, where that was found, and what was added."""
        record = self.enriched.record
        layout = (
            *self.vectors.facts(),
            *self.payloads.facts(),
            ("model", self.model or "none given"),
            ("enriched", "no" if record is None else str(record)),
        )
        return self._status_of(len(self), layout=layout, notes=self._notes)

    def placement(self) -> Placement | None:
        """How the points are spread over the nodes of a server; None in local mode."""
        return self.points.placement()

    def set_questions(self, questions: Sequence[str]) -> Ensemble:
        """Measure surprise against logged questions, in place of the collection's own vectors.

        Args:
            questions: that were asked; some hundred. None goes back to the collection's own vectors.

        Raises:
            DataError: if there is one question only.
        """
        texts = border.texts("questions", questions)
        if not texts:
            self.files.delete_file(_QUESTIONS)
            return self.ensemble()
        border.texts("questions", texts, least=2)  # one has no spread
        vectors = self.encoder.encode(texts, kind="query").dense
        ensemble = Ensemble.from_vectors(vectors, model=self.model, similarity=self.vectors.similarity)
        self.files.write_file(_QUESTIONS, ensemble.to_bytes())
        return ensemble

    def ensemble(self) -> Ensemble:
        """What surprise is measured against: questions that were set, or the collection's own vectors."""
        content = self.files.read_file(_QUESTIONS)
        if content is None:
            return self._counted.ensemble()
        ensemble = Ensemble.from_bytes(content, f"{self.where}: {_QUESTIONS}")
        if ensemble.dimension != self.vectors.size or self.model not in ("", ensemble.model):
            raise DataError(
                f"{self.where}: the logged questions that are kept were encoded by {ensemble.model!r} "
                f"({ensemble.dimension} dimensions), the model is {self.model!r} ({self.vectors.size}); give "
                "them again with set_questions, or none with set_questions([])"
            )
        return ensemble

    def refresh(self) -> None:
        """Count the statistics that are kept again; others are counted when they are first needed."""
        self._counted.refresh()

    def reload(self) -> None:
        """Find what was added, or taken away, meanwhile."""
        self.enriched = self._found_enriched()

    # What `SearchedCollection` asks for

    @property
    def layout(self) -> VectorLayout:
        """The vectors that are compared: token vectors that were added come before the collection's."""
        record = self.enriched.record
        if record is None or not self.enriched.has_tokens or self.token_encoder is None:
            return self.vectors
        return replace(
            self.vectors,
            tokens=BESIDE.tokens,
            token_size=record.token_dimension,
            token_cosines=True,
            token_fields=TOKEN_FIELDS,
            pooling=POOLING,
        )

    @property
    def pools(self) -> ForeignPools:
        """Candidates from requests to the engine; what retrievers are made of."""
        return ForeignPools(self.points, self.layout, self.payloads, self.enriched)

    def texts_around(self, documents: Mapping[str, Document], count: int) -> dict[str, TextsAround]:
        """The texts of so many chunks before and after each document, where payloads tell which these are."""
        return texts_around(self.pools, documents, count)

    @property
    def words(self) -> Words | None:
        """The words of documents: those that were added, or the collection's own sparse vectors."""
        vectors = self.vectors
        if self.enriched.words is not None:
            return Words(BESIDE.words, self._weighted, self.enriched.terms.statistics, kind="words")
        if self._sparse is None or vectors.sparse is None:
            return None
        return Words(
            vectors.sparse,
            self._sparse,
            lambda terms: self._counted.terms(),
            vectors.idf,
            kind="words",
            counts=vectors.idf,
        )

    @property
    def encoder(self) -> Encoder:
        """The model of questions; a DataError if the collection was attached without one."""
        return border.present(f"the model of {self.where}", self._encoder, "attach it with embed=")

    @property
    def language(self) -> str:
        """The language of the documents' words."""
        return (self.enriched.words or Bm25()).language

    @property
    def ensemble_version(self) -> str:
        """What tells apart the ensembles that surprise is measured against."""
        return self.ensemble().identity

    @property
    def default_system(self) -> str:
        """The best system that the collection has enough for."""
        if not self.vectors.has_dense:
            return "dynamax" if self.words is None else "fusion"
        return "auto" if is_linear(self.vectors.similarity) else "fusion"

    def remedy(self, what: str) -> str:
        """Return what a user can do where there are no `words` or no `token vectors`."""
        record = self.enriched.record
        if record is not None and not record.complete:
            return "enrich it again, which was not finished"
        if what == "words":
            return "enrich(words=True), or sparse= for the question's"
        if record is not None and record.model and not self.has_tokens:
            return f"its token vectors are of {record.model!r}; attach it with that model as token_encoder="
        return "enrich(tokens=True)"

    def surprise_reranker(self) -> SurpriseReranker:
        """Return the re-ranker of given documents by surprise."""
        return SurpriseReranker(self.ensemble(), weight=1.0)

    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a uniform sample of so many documents, the same for the same points."""
        return self.sample(size, frozenset()).ids

    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample of documents; see `SearchedCollection.token_sample`."""
        sampled = self.sample(size, frozenset({"tokens"}))
        return sampled.ids, sampled.require_tokens()

    def sample(self, size: int, fields: frozenset[Field]) -> Candidates:
        """A sample of so many documents, the same for the same points; see `SearchedCollection.sample`."""
        border.count("size", size)
        border.choices("fields", fields, get_args(Field))
        return self.pools.of_points(self._counted.sample(size), fields)

    def notes_of_words(self, pool: Candidates) -> tuple[str, ...]:
        """What a reader of a ranking by added words must know: of how many documents they are out of date."""
        pool, points = self.pools.still_stored(pool)
        if pool.documents is None or not points or self.enriched.words is None:
            return ()
        request = self.enriched.request(points, tokens=False)
        records = self.pools.answered({"added": request})["added"]
        return behind([str(point) for point in points], pool.documents, records)

    def _weighted(self, text: str) -> SparseVector:
        """A question's words with their weights over those that were added."""
        assert self.enriched.words is not None
        words = self.enriched.words.query(text)
        return self.enriched.terms.statistics(words.indices).weighted(words) if len(words.indices) else words

    # What was added

    def _found_enriched(self) -> Enrichment:
        name, open_engine = self.points.collection, self._connection.engine
        files = CollectionFiles(open_engine(files_name(name)), self.points.spread)
        enriched = Enrichment.of(open_engine(name + SUFFIX), files, self.where)
        if enriched.has_tokens and self.token_encoder is not None:
            enriched.check(self.token_encoder, self.where)
        return enriched

    def _enricher(self, tokens: bool, words: Bm25 | None) -> Enricher:
        encoder = self.token_encoder
        if tokens and (encoder is None or token_dimension(encoder) is None):
            raise DataError(
                f"the model {self.model!r} has no token vectors; give "
                "token_encoder=load_encoder() (--token-model) when it is attached, or tokens=False"
            )
        return Enricher.planned(self.points, self.payloads, self.enriched, encoder if tokens else None, words)

    def _in_language(self, words: Bm25) -> Bm25:
        """The settings of words, in the documents' language where nobody named one; it stays as found."""
        if words.language != AUTO:
            return words
        before = self.enriched.record
        if before is not None and before.words is not None:
            return replace(words, language=before.words.language)
        sample = self.sample_documents(SAMPLED)
        return replace(words, language=stems_of(language_of([document.content for document in sample])))

    def _run(
        self,
        enricher: Enricher,
        show_progress: bool,
        counting: Callable[[Callable[[], int]], AbstractContextManager[None]],
    ) -> SyncReport:
        try:
            with Terminal(quiet=not show_progress).bar("enriching", len(self), "documents") as work:
                report = enricher.run(work, counting)
        except IndexingError:  # of single documents: all others can be read now
            self.reload()
            raise
        self.reload()
        return report


def _attached_again(
    kind: type[Collection], where: Reached, collection: str, arguments: Mapping[str, Any]
) -> Collection:
    """Attach the collection that a pickle names."""
    return kind.attach(where, collection, **arguments)
