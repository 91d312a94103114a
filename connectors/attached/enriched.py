"""What `enrich` added to a foreign collection, or beside it, and how it is read.

In place, points get payload keys, a multivector and a sparse vector whose names begin with `surprise_`.
Beside it, a collection `NAME.surprise` has a point of the same id for each point, with the same. Either
way the collection `NAME.surprise.files` has the record of what was added, for everybody who attaches.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from qdrant_client import models

from surprise_rerank.candidates import Candidates
from surprise_rerank.connectors.attached.payloads import (
    ADDED_KEYS,
    ADDED_TOKENS,
    ADDED_WORDS,
    point_id,
)
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.multivectors import (
    TOKEN_FIELDS,
    document_vectors,
    stored_tokens,
    token_payload,
)
from surprise_rerank.connectors.qdrant.schema import Payload, Record, to_terms
from surprise_rerank.connectors.qdrant.search.inclusion import AskedInclusion
from surprise_rerank.connectors.qdrant.storage.files import CollectionFiles, Files
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.core.tokens import TokenBatch, TokenForm
from surprise_rerank.core.tokens.form import POOLING
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, encode_documents
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.surprise.ensemble import Ensemble

RECORD = "enriched.json"
MOMENTS = "moments.npz"  # the ensemble that points carry moments of
WORD_STATISTICS = "words.npz"

TOKEN_COUNT, TOKEN_SHAPE, MU, SIGMA, STATISTICS, HASH = KEYS = ADDED_KEYS
WORDS, TOKENS = ADDED_WORDS, ADDED_TOKENS
SUFFIX = ".surprise"

_OLD_TOKENS = "token vectors of {} of {} documents are not stored, or of an earlier text{} run sync"
_SCHEMA = 4  # of the record; no other one is read


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentRecord:
    """What was added.

    Attributes:
        in_place: to the collection's own points; else beside them.
        model: of the token vectors; empty without them.
        fingerprint: of its weights.
        token_dimension: of the token vectors.
        pooling: tokens that were merged into one of them, on average.
        words: settings of the sparse vectors; None without them.
        ensemble: identity of the ensemble whose moments points carry; empty without them.
        complete: whether a run came to its end; until then nobody reads what was added.
        schema: of the record.
    """

    in_place: bool
    model: str = ""
    fingerprint: str = ""
    token_dimension: int = 0
    pooling: float = POOLING
    words: Bm25 | None = None
    ensemble: str = ""
    complete: bool = False
    schema: int = _SCHEMA

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> EnrichmentRecord:
        """What `to_bytes` gave.

        Raises:
            DataError: if it is damaged, or of another version.
        """
        try:
            values: dict[str, Any] = json.loads(content)
            schema, words = values["schema"], values.pop("words")
            if schema == _SCHEMA:
                words = None if words is None else Bm25(**words)
                return cls(**values, words=words)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{where}: the record of what was added is damaged; take it away with 'surprise-rerank "
                "enrich --remove', and add it again"
            ) from error
        raise DataError(
            f"{where} was enriched by another version (its record has the form {schema}, this one reads "
            f"{_SCHEMA}); take it away with that one ('surprise-rerank enrich --remove'), and add it again"
        )

    @classmethod
    def read(cls, files: Files, where: str) -> EnrichmentRecord | None:
        """The record that is kept; None where nothing was added.

        Raises:
            DataError: as `from_bytes`.
        """
        content = files.read_file(RECORD)
        return None if content is None else cls.from_bytes(content, where)

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for `status`."""
        stored = f"{self.token_dimension} dimensions, {self.pooling:g} tokens merged into a vector"
        parts = [
            *([f"tokens of {self.model} ({stored})"] if self.model else []),
            *([f"words (BM25, {self.words.language})"] if self.words else []),
            *([f"moments over the ensemble {self.ensemble}"] if self.ensemble else []),
        ]
        place = "in place" if self.in_place else "beside it"
        state = "" if self.complete else "; not finished, and not read: enrich again"
        return [("enriched", f"{place}: {', '.join(parts)}{state}")]


@dataclass(frozen=True, slots=True)
class Enriched:
    """Reads what was added.

    Attributes:
        points: the collection that has it: the attached one, or the one beside it.
        files: of the collection beside.
        record: what was added; None for nothing.
    """

    points: ClientEngine
    files: CollectionFiles
    record: EnrichmentRecord | None = None

    @property
    def has_tokens(self) -> bool:
        """Whether it has token vectors."""
        return self.record is not None and self.record.complete and bool(self.record.model)

    @property
    def token_form(self) -> TokenForm:
        """How its token vectors are merged."""
        return TokenForm() if self.record is None else TokenForm(pooling=self.record.pooling)

    @property
    def words(self) -> Bm25 | None:
        """The settings of its sparse vectors; None without them."""
        return self.record.words if self.record is not None and self.record.complete else None

    @property
    def has_moments(self) -> bool:
        """Whether points carry moments, of an ensemble that is kept."""
        return self.record is not None and self.record.complete and bool(self.record.ensemble)

    def check(self, name: str, fingerprint: str, where: str) -> None:
        """Refuse a model that is not the one of the token vectors.

        Raises:
            IndexMismatchError: if it is another; names both.
        """
        if self.record is None or not self.record.model:
            return
        if (name, fingerprint) != (self.record.model, self.record.fingerprint):
            raise IndexMismatchError(
                f"{where} was enriched with token vectors of {self.record.model!r} (weights "
                f"{self.record.fingerprint}), the question's would be of {name!r} ({fingerprint}); give that "
                "model as token_encoder=, or enrich again"
            )

    def tokens_of(
        self, points: Sequence[str], documents: Sequence[Document], encoder: Encoder
    ) -> tuple[TokenBatch, tuple[str, ...]]:
        """Token vectors of points, and notes for who reads a ranking by them.

        Args:
            points: n ids.
            documents: n, as they are now; tokens that are missing, or of an earlier text, are computed.
            encoder: makes those.

        Raises:
            DataError: if some are damaged; names the document.
        """
        stored = self._stored_tokens(points, documents)
        missing = [i for i in range(len(points)) if i not in stored]
        if not missing:
            return TokenBatch.concatenate([stored[i] for i in range(len(points))]), ()
        texts = [documents[i].content for i in missing]
        fresh = self.token_form.of(encode_documents(encoder, texts).require_tokens())
        stored |= {i: fresh.between(row, row + 1) for row, i in enumerate(missing)}
        note = _OLD_TOKENS.format(len(missing), len(points), ", and were computed now;")
        return TokenBatch.concatenate([stored[i] for i in range(len(points))]), (note,)

    def inclusion(self, asked: AskedInclusion, wanted: models.Filter, limit: int) -> models.QueryRequest:
        """A request for inclusion of a question's tokens in points that a filter lets through."""
        return asked.among(wanted, limit, TOKENS, (TOKEN_COUNT, HASH))

    def included(
        self, pool: Candidates, points: Sequence[str], asked: AskedInclusion, found: Sequence[Record]
    ) -> Candidates:
        """Candidates, whose points these are, with what was found by `inclusion`."""
        hashes = {record.id: record.payload[HASH] for record in found}
        documents = pool.documents or (None,) * len(pool)
        old = sum(
            point not in hashes or (own is not None and hashes[point] != own.content_hash)
            for point, own in zip(points, documents, strict=True)
        )
        notes = (*pool.notes, _OLD_TOKENS.format(old, len(pool), ";")) if old else pool.notes
        return replace(pool, inclusion=asked.inclusion(found, points, TOKEN_COUNT), notes=notes)

    def ensemble(self) -> Ensemble:
        """The ensemble that points carry moments of.

        Raises:
            DataError: if it is gone.
        """
        content = self.files.read_file(MOMENTS)
        if content is None:
            raise DataError(f"{self.points.where}: the ensemble of its moments is gone; enrich it again")
        return Ensemble.from_bytes(content, f"{self.points.where}: {MOMENTS}")

    def behind(self, points: Sequence[str]) -> int:
        """How many of these points carry no moments of the record's ensemble."""
        assert self.record is not None
        match = models.FieldCondition(key=STATISTICS, match=models.MatchValue(value=self.record.ensemble))
        among = models.HasIdCondition(has_id=[point_id(own) for own in points])
        return self.points.count(models.Filter(must=[among], must_not=[match]))

    def words_of(
        self, points: Sequence[str], documents: Sequence[Document] | None, records: Sequence[Record]
    ) -> tuple[TermBatch, int]:
        """The words of points, of records with them; and how many of the documents have other texts now."""
        found = {record.id: record for record in records}
        own = [found.get(point, Record(point, {}, {})) for point in points]
        terms = to_terms(own, WORDS)
        if documents is None:
            return terms, 0
        pairs = zip(own, documents, strict=True)
        return terms, sum(not _is_current(record, document) for record, document in pairs)

    def _stored_tokens(self, points: Sequence[str], documents: Sequence[Document]) -> dict[int, TokenBatch]:
        """Place -> token vectors, of the points whose tokens are up to date."""
        assert self.record is not None
        found = self._read(points, (TOKEN_COUNT, TOKEN_SHAPE, HASH), (TOKENS,))
        tokens = {}
        for i, (point, document) in enumerate(zip(points, documents, strict=True)):
            record = found.get(point)
            if record is None or TOKENS not in record.vectors or not _is_current(record, document):
                continue
            payload = {name: record.payload[f"surprise_{name}"] for name in TOKEN_FIELDS}
            names = [f"of document {document.id!r}"]
            tokens[i] = stored_tokens([record.vectors[TOKENS]], [payload], self.record.token_dimension, names)
        return tokens

    def _read(
        self, points: Sequence[str], fields: Sequence[str], vectors: Sequence[str] = ()
    ) -> dict[str, Record]:
        ids = [point_id(name) for name in points]
        return {record.id: record for record in self.points.retrieve(ids, fields, vectors)}


def moments_payload(mean: float, deviation: float, ensemble: str) -> dict[str, Any]:
    """A point's moments, for the formula query; as float32, which is what similarities are."""
    return {MU: float(np.float32(mean)), SIGMA: float(np.float32(deviation)), STATISTICS: ensemble}


def token_parts(tokens: TokenBatch, i: int) -> tuple[Payload, Float32Array]:
    """What a point gets of text i: payload keys, and the multivector."""
    payload = {f"surprise_{name}": value for name, value in token_payload(tokens, i).items()}
    return payload, document_vectors(tokens, i)


def _is_current(record: Record, document: Document) -> bool:
    return bool(record.payload.get(HASH) == document.content_hash)
