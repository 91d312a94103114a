"""`Collection.attach`: a Qdrant collection that somebody else made, searched and re-ranked as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias

from qdrant_client import AsyncQdrantClient, QdrantClient

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError, IndexingError, StoreError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors._searchable import SearchableCollection, status_of
from surprise_rerank.connectors.attached._corpus import AttachedCorpus
from surprise_rerank.connectors.attached._enrichment import (
    TRIED,
    EnrichCost,
    Enricher,
)
from surprise_rerank.connectors.attached._finding import (
    look,
    models_of,
    raw,
    require_same_model,
    sparse_of,
    with_tokens,
)
from surprise_rerank.connectors.attached._kept import KeptFiles, files_name, files_of
from surprise_rerank.connectors.attached._layouts import find_layout
from surprise_rerank.connectors.qdrant._engines.connections import (
    Connection,
    Reached,
    connect,
    existing,
    place_of,
)
from surprise_rerank.connectors.qdrant._engines.nodes import is_remote
from surprise_rerank.connectors.qdrant._languages import SAMPLED, language_of, stems_of
from surprise_rerank.connectors.qdrant._lexical import AUTO, Bm25
from surprise_rerank.connectors.qdrant._location import Location
from surprise_rerank.connectors.qdrant._search.status import CollectionStatus
from surprise_rerank.connectors.qdrant._writing.indexing import SyncReport
from surprise_rerank.connectors.systems._backgrounds import look_after_backgrounds
from surprise_rerank.core._process import NeverCopied, require_no_secret
from surprise_rerank.encoders._paired import PairedEncoder
from surprise_rerank.encoders.base import token_dimension
from surprise_rerank.surprise._ensemble import Ensemble

Keep: TypeAlias = str | os.PathLike[str] | Literal["qdrant"] | None


class Collection(NeverCopied, SearchableCollection):
    """A Qdrant collection that LangChain, LlamaIndex, Haystack, Mem0 or somebody's own code made.

    Use `Collection.attach`. Nothing is written into the collection. Threads may share it. A pickle has what
    `attach` was called with.
    """

    corpus: AttachedCorpus

    def __init__(
        self,
        corpus: AttachedCorpus,
        connection: Connection,
        attached: tuple[Reached, str, dict[str, Any]],
        notes: tuple[str, ...],
    ) -> None:
        super().__init__(corpus)
        corpus.owner = self
        self._connection, self._attached, self._notes = connection, attached, notes

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
            corpus = AttachedCorpus(
                connection, points, vectors, payloads, (encoder, tokens), embed_words, files
            )
        except BaseException:
            connection.close()
            raise
        return cls(corpus, connection, (where, collection, arguments), (*notes, *notes_of_words))

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
            return enricher.cost(self.corpus.sample_documents(TRIED))
        report = self._run(enricher, show_progress, lambda changed: nullcontext())
        if self.corpus.given_encoder is not None:  # a background's questions are encoded
            look_after_backgrounds(self.corpus, show_progress=show_progress)
        return report

    def sync(self, *, show_progress: bool = False) -> SyncReport:
        """Bring the statistics and what `enrich` added up to date with the collection."""
        border.flags(show_progress=show_progress)
        self.corpus.refresh()
        record, report = self.corpus.enriched.record, SyncReport()
        if record is not None:
            enricher = self._enricher(bool(record.model), record.words)
            report = self._run(enricher, show_progress, self.corpus.counting_changes)
        if self.corpus.given_encoder is not None:  # a background's questions are encoded
            look_after_backgrounds(self.corpus, show_progress=show_progress)
        return report

    def remove_enrichment(self) -> bool:
        """Take away everything that `enrich` added; returns whether there was anything."""
        removed = self.corpus.enriched.remove()
        self.corpus.reload()
        return removed

    def status(self) -> CollectionStatus:
        """Report what the collection holds, where that was found, and what was added."""
        corpus, record = self.corpus, self.corpus.enriched.record
        layout = (
            *corpus.vectors.facts(),
            *corpus.payloads.facts(),
            ("model", corpus.model or "none given"),
            ("enriched", "no" if record is None else str(record)),
        )
        return status_of(corpus, layout=layout, notes=self._notes)

    def set_questions(self, questions: Sequence[str]) -> Ensemble:
        """Measure surprise against logged questions, in place of the collection's own vectors.

        Args:
            questions: that were asked; some hundred. None goes back to the collection's own vectors.

        Raises:
            DataError: if there is one question only.
        """
        texts, corpus = border.texts("questions", questions), self.corpus
        if not texts:
            corpus.set_questions(None)
            return corpus.ensemble()
        border.texts("questions", texts, least=2)  # one has no spread
        vectors = corpus.encoder.encode(texts, kind="query").dense
        ensemble = Ensemble.from_vectors(vectors, model=corpus.model, similarity=corpus.vectors.similarity)
        corpus.set_questions(ensemble)
        return ensemble

    def ensemble(self) -> Ensemble:
        """What surprise is measured against: questions that were set, or the collection's own vectors."""
        return self.corpus.ensemble()

    def _enricher(self, tokens: bool, words: Bm25 | None) -> Enricher:
        corpus, encoder = self.corpus, self.corpus.token_encoder
        if tokens and (encoder is None or token_dimension(encoder) is None):
            raise DataError(
                f"the model {corpus.model!r} has no token vectors; give "
                "token_encoder=load_encoder() (--token-model) when it is attached, or tokens=False"
            )
        read = encoder if tokens else None
        return Enricher.planned(corpus.points, corpus.payloads, corpus.enriched, read, words)

    def _in_language(self, words: Bm25) -> Bm25:
        """The settings of words, in the documents' language where nobody named one; it stays as found."""
        if words.language != AUTO:
            return words
        before = self.corpus.enriched.record
        if before is not None and before.words is not None:
            return replace(words, language=before.words.language)
        sample = self.corpus.sample_documents(SAMPLED)
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
            self.corpus.reload()
            raise
        self.corpus.reload()
        return report


def _attached_again(
    kind: type[Collection], where: Reached, collection: str, arguments: Mapping[str, Any]
) -> Collection:
    """Attach the collection that a pickle names."""
    return kind.attach(where, collection, **arguments)
