"""`Collection.attach`: a Qdrant collection that somebody else made, searched and re-ranked as it is."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from surprise_rerank.connectors.attached.collection import AttachedCollection, SparseEmbed
from surprise_rerank.connectors.attached.enriching import (
    EnrichCost,
    Enricher,
    EnrichReport,
    remove_enrichment,
)
from surprise_rerank.connectors.attached.kept import KeptFiles, files_name, files_of
from surprise_rerank.connectors.attached.payloads import PayloadKeys, PayloadLayout, find_layout
from surprise_rerank.connectors.attached.probing import require_same_model
from surprise_rerank.connectors.attached.statistics import dense_of
from surprise_rerank.connectors.attached.systems import AttachedInputs
from surprise_rerank.connectors.attached.vectors import VectorLayout, are_unit, find_vectors
from surprise_rerank.connectors.attached.words import is_bm25, sparse_embed
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.engines.connections import Connection, Reached, connect, existing
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.manifest import is_index
from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
from surprise_rerank.connectors.qdrant.schema import Record, to_terms
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.ranked import Ranked
from surprise_rerank.connectors.systems.backgrounds import is_automatic, look_after_backgrounds
from surprise_rerank.connectors.systems.inputs import inputs_of
from surprise_rerank.encoders.adapting import as_encoder
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.encoders.function import FunctionEncoder
from surprise_rerank.encoders.paired import PairedEncoder
from surprise_rerank.errors import DataError, IndexMismatchError

Keep: TypeAlias = str | os.PathLike[str] | Literal["qdrant"] | None

_LOOKED_AT = 64  # points that the layout is found from


class Collection(AttachedCollection, Ranked):
    """A Qdrant collection that LangChain, LlamaIndex, Haystack, Mem0 or somebody's own code made.

    Use `Collection.attach`. Nothing is written into the collection. Threads may share it.
    """

    _connection: Connection
    _notes: tuple[str, ...]
    _measures: bool

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
        background: bool = True,
        api_key: str | None = None,
    ) -> Self:
        """Open a collection as it is.

        Args:
            where: the url of a server, or those of a cluster's nodes; or a `QdrantClient` or
                `AsyncQdrantClient`, which stays open.
            collection: its name, or an alias.
            embed: the model of its dense vectors: what `as_encoder` takes, such as a function from texts to
                vectors, an embedding object of a framework, or a model's name. None for what asks no
                questions, such as `enrich`.
            token_encoder: a model of token vectors, for the collection's multivectors or for `enrich`, where
                `embed` has none. A collection that has multivectors only needs no other.
            sparse: a question's sparse vector, for the collection's own: what `sparse_embed` takes. Qdrant's
                BM25 in English is recognised.
            text: key of the payload with the text; found by its name where None. A dot leads into an object.
            title: key of the title.
            id: key of the document's id; the point's id is it where None, but for Haystack's.
            metadata: key of the metadata; all other keys where there is none.
            vector: name of the dense vector, where there are several.
            multivector: name of the multivector of tokens, where there are several.
            sparse_vector: name of the sparse vector, where there are several.
            keep: where statistics, questions and backgrounds are kept: a folder, in which every collection
                has one of its own, or `qdrant` for a collection
                `NAME.surprise.files` beside it. Where None they are read from there, and what is new is gone
                when the process ends.
            background: measure one when the first pipeline of a system is made, so that rankings have
                a surprise: 300 questions are embedded and searched for. False makes none.
            api_key: for a url; the environment variable QDRANT_API_KEY by default.

        Raises:
            StoreError: if the server cannot be reached, or has no such collection.
            DataError: if the text's key, or one of several vectors, must be named; if the vectors are of
                another model.
            IndexMismatchError: if the collection is an index of surprise-rerank, was enriched with another
                model of tokens, or was filled anew after something was kept.
        """
        keys = PayloadKeys(text=text, title=title, id=id, metadata=metadata)
        names = {"vector": vector, "multivector": multivector, "sparse_vector": sparse_vector}
        connection = connect(where, api_key)
        try:
            engine = existing(connection, collection)
            model = None if embed is None else as_encoder(embed, name=_anonymous(embed, collection))
            layout, payloads, records = _look(engine, keys, names, model)
            if model is not None:
                model = _raw(model, layout, engine.where)
            own_tokens = None if token_encoder is None else as_encoder(token_encoder)
            encoder, tokens_of = _both(model, own_tokens)
            notes: tuple[str, ...] = ()
            if layout.has_dense or encoder is not None or tokens_of is not None:
                layout, notes = _with_tokens(tokens_of, layout, multivector, engine.where)
            if not layout.has_dense:
                encoder = model = tokens_of
            beside = connection.engine(files_name(engine.collection))
            stored, place = files_of(keep, engine, beside, connection.place)
            files = KeptFiles(stored, records, layout, engine.where, place)
            name, differs = "", tuple[str, ...]()
            if model is not None:
                own = _dense_model(model)
                name = own.name
                differs = require_same_model(records, layout, payloads, own, engine.where)
            embed_sparse, more = _sparse_of(sparse, layout, payloads, records)
            made = cls(
                engine, layout, payloads, encoder, name, files, connection.engine, tokens_of, embed_sparse
            )
        except BaseException:
            connection.close()
            raise
        made._connection = connection
        made._notes = (*notes, *more, *differs)
        made._measures = background and is_automatic()
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if it was opened here."""
        self._connection.close()

    @property
    def measures_first(self) -> bool:
        """Whether the first pipeline measures a background, where there is none."""
        return self._measures

    def enrich(
        self,
        *,
        tokens: bool = True,
        words: bool | Bm25 = True,
        dry_run: bool = False,
        show_progress: bool = False,
    ) -> EnrichReport | EnrichCost:
        """Add what rankings are better with, in a collection `NAME.surprise` beside it, or update it.

        A call continues an interrupted one.

        Args:
            tokens: token vectors of the documents' texts.
            words: sparse vectors of their words, by Qdrant's BM25.
            dry_run: report what it would cost, and write nothing.
            show_progress: a bar on the error stream.

        Raises:
            DataError: if it makes no sense, or it was enriched otherwise before.
            StoreError: if it cannot be written; what was written before stays.
        """
        settings = words if isinstance(words, Bm25) else (Bm25() if words else None)
        enricher = Enricher.planned(self, tokens=tokens, words=settings)
        return enricher.cost() if dry_run else self._run(enricher, show_progress)

    def sync(self, *, show_progress: bool = False) -> EnrichReport:
        """Bring the statistics and what `enrich` added up to date with the collection.

        Raises:
            StoreError: if it cannot be written.
        """
        self.refresh()
        record, report = self.enriched.record, EnrichReport()
        if record is not None:
            enricher = Enricher.planned(self, tokens=bool(record.model), words=record.words)
            report = self._run(enricher, show_progress)
        look_after_backgrounds(self, report.enriched + report.removed, show_progress=show_progress)
        return report

    def remove_enrichment(self) -> bool:
        """Take away everything that `enrich` added; returns whether there was anything."""
        removed = remove_enrichment(self)
        self.reload()
        return removed

    def facts(self) -> list[tuple[str, str]]:
        """What was found, as names and values."""
        inputs = inputs_of(self)
        record = self.enriched.record
        lacks = inputs.lacks
        return [
            ("points", str(len(self))),
            ("engine", self.engine),
            *self.vectors.facts(),
            *self.payloads.facts(),
            ("model", self.model or "none given"),
            *([("enriched", "no")] if record is None else record.facts()),
            ("ranks by", inputs.default + (f" ({lacks})" if lacks else "")),
            *(("note", note) for note in self._notes),
        ]

    def _run(self, enricher: Enricher, show_progress: bool) -> EnrichReport:
        with Terminal(quiet=not show_progress).bar("enriching", len(self), "documents") as advance:
            report = enricher.run(advance)
        self.reload()
        return report


@inputs_of.register
def _(
    index: AttachedCollection, options: SearchOptions = NO_OPTIONS, mode: SurpriseMode | None = None
) -> AttachedInputs:
    return AttachedInputs(index=index, options=options, mode=mode)


def _anonymous(embed: Any, collection: str) -> str | None:
    """A name for a function that has none; others have their own."""
    return f"embedding of {collection}" if getattr(embed, "__name__", "") == "<lambda>" else None


def _look(
    engine: ClientEngine, keys: PayloadKeys, names: dict[str, str | None], model: Encoder | None
) -> tuple[VectorLayout, PayloadLayout, list[Record]]:
    """The vectors and payloads of a collection, from its parameters and some points."""
    info = engine.info()
    metadata = info.config.metadata or {}
    if is_index(metadata):
        raise IndexMismatchError(
            f"{engine.where} is an index of surprise-rerank; open it with DocumentIndex.open"
        )
    size = None if model is None else model.dimension
    layout = find_vectors(info.config.params, engine.where, **names, size=size)
    wanted = (layout.dense, *((layout.sparse,) if layout.sparse else ()))
    most = _LOOKED_AT if layout.has_dense else _LOOKED_AT // 4  # multivectors are large
    records = next(iter(engine.scroll(None, wanted, batch=most)), [])
    if not records:
        raise DataError(f"{engine.where} is empty; add documents first")
    if not layout.has_dense:
        return layout, find_layout([(r.id, r.payload) for r in records], keys, engine.where), records
    vectors, rows = dense_of(records, layout)
    if not rows:
        raise DataError(
            f"{engine.where}: none of {len(records)} points looked at has the vector {layout.dense!r}; name "
            "another with vector="
        )
    payloads = find_layout([(record.id, record.payload) for record in records], keys, engine.where)
    return replace(layout, unit=are_unit(vectors)), payloads, records


def _raw(model: Encoder, layout: VectorLayout, where: str) -> Encoder:
    """The model with vectors of the length that the collection compares."""
    if layout.unit:
        return model
    if isinstance(model, PairedEncoder):
        return PairedEncoder(_raw(model.dense_encoder, layout, where), model.token_encoder)
    if isinstance(model, FunctionEncoder):
        raw = copy.copy(model)
        raw.unit = False
        return raw
    warnings.warn(
        f"{where} compares vectors that are not of length 1 by {layout.distance.value}, but "
        f"{model.name!r} gives questions of length 1; give a FunctionEncoder(..., unit=False) for its own",
        stacklevel=3,
    )
    return model


def _both(model: Encoder | None, tokens: Encoder | None) -> tuple[Encoder | None, Encoder | None]:
    """The model of questions, and the one of token vectors; None where there is none."""
    if tokens is not None:
        return (None if model is None else PairedEncoder(model, tokens)), tokens
    if isinstance(model, PairedEncoder):
        return model, model.token_encoder
    return model, model if model is not None and token_dimension(model) is not None else None


def _dense_model(model: Encoder) -> Encoder:
    return model.dense_encoder if isinstance(model, PairedEncoder) else model


def _with_tokens(
    source: Encoder | None, layout: VectorLayout, named: str | None, where: str
) -> tuple[VectorLayout, tuple[str, ...]]:
    """The layout without multivectors that are of another model than the one of token vectors."""
    size = None if source is None else token_dimension(source)
    if layout.tokens is None or size == layout.token_size:
        return layout, ()
    what = f"{size} dimensions" if size else "no token vectors"
    problem = f"the multivector {layout.tokens!r} has {layout.token_size} dimensions, the model has {what}"
    if named is not None or not layout.has_dense:
        raise DataError(
            f"{where}: {problem}; give the model that it was made with as token_encoder=, or name another "
            "with multivector="
        )
    return replace(layout, tokens=None, token_size=0), (f"{problem}: it is not read",)


def _sparse_of(
    given: Any, layout: VectorLayout, payloads: PayloadLayout, records: Sequence[Record]
) -> tuple[SparseEmbed | None, tuple[str, ...]]:
    """How a question becomes a sparse vector, if that is known; and what to say of it."""
    if given is not None:
        if layout.sparse is None:
            raise DataError("sparse= is given, but the collection has no sparse vector; leave it out")
        return sparse_embed(given), ()
    if layout.sparse is None:
        return None, ()
    texts = [payloads.document(record.id, record.payload).text for record in records]
    if layout.idf and is_bm25(texts, to_terms(records, layout.sparse), Bm25()):
        return Bm25().query, ("the sparse vector is Qdrant's BM25 in English",)
    return None, (
        f"the sparse vector {layout.sparse!r} is not read: it is not known what made it; give sparse=",
    )
