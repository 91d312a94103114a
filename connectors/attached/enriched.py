"""What `enrich` added to a foreign collection, or beside it, and how it is read.

In place, points get payload keys that begin with `surprise_`, and a named sparse vector of words. Beside it,
a collection `NAME.surprise` has two points for each point: one of the same id, with words and the hash of the
text, and one with token vectors, as a payload is read as a whole and theirs is large. Either way the
collection `NAME.surprise.files` has the record of what was added, so that everybody who attaches finds it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from qdrant_client import models

from surprise_rerank.connectors.attached.payloads import ADDED_KEYS, ADDED_WORDS, point_id
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.schema import Record, packed_bytes, to_terms
from surprise_rerank.connectors.qdrant.storage.files import CollectionFiles, Files
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.core.tokens import TokenBatch, TokenForm, pack_tokens, unpack_tokens
from surprise_rerank.core.tokens.form import INT8
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, encode_documents
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.similarities.kernels import in_form
from surprise_rerank.surprise.ensemble import Ensemble

RECORD = "enriched.json"
MOMENTS = "moments.npz"  # the ensemble that points carry moments of
WORD_STATISTICS = "words.npz"

TOKENS, MU, SIGMA, STATISTICS, HASH = KEYS = ADDED_KEYS
WORDS = ADDED_WORDS
SUFFIX = ".surprise"

_SCHEMA = 3  # of the record; no other one is read
_MENDED = "enrich the collection again, after remove_enrichment() (surprise-rerank enrich --remove)"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentRecord:
    """What was added.

    Attributes:
        in_place: to the collection's own points; else beside them.
        model: of the token vectors; empty without them.
        fingerprint: of its weights.
        token_dimension: of the token vectors.
        token_form: of them, as they are stored.
        words: settings of the sparse vectors; None without them.
        ensemble: identity of the ensemble whose moments points carry; empty without them.
        complete: whether a run came to its end; until then nobody reads what was added.
        schema: of the record.
    """

    in_place: bool
    model: str = ""
    fingerprint: str = ""
    token_dimension: int = 0
    token_form: TokenForm = INT8
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
            schema, words, form = values["schema"], values.pop("words"), values.pop("token_form", None)
            if schema == _SCHEMA:
                words = None if words is None else Bm25.from_json(words)
                return cls(**values, words=words, token_form=TokenForm.from_json(form))
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
        stored = f"{self.token_dimension} dimensions, {self.token_form}"
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
        """The form of its token vectors."""
        return INT8 if self.record is None else self.record.token_form

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

    def stored_tokens(self, points: Sequence[str], documents: Sequence[Document]) -> dict[int, bytes]:
        """Packed token vectors of points that have them.

        Args:
            points: n ids.
            documents: n, as they are now; tokens of an earlier text are left out.

        Returns:
            Place -> packed tokens, of the points whose tokens are up to date.

        Raises:
            DataError: if some are damaged; names the document.
        """
        assert self.record is not None
        own = {point: point if self.record.in_place else tokens_point(point) for point in points}
        found = self._read(tuple(dict.fromkeys((*own, *own.values()))), (TOKENS, HASH))
        tokens = {}
        for i, (point, document) in enumerate(zip(points, documents, strict=True)):
            if point not in found or own[point] not in found:
                continue
            packed = found[own[point]].payload.get(TOKENS)
            if packed is not None and found[point].payload.get(HASH) == document.content_hash:
                tokens[i] = packed_bytes(packed, f"of document {document.id!r}", _MENDED)
        return tokens

    def unpacked(self, packed: Sequence[bytes], documents: Sequence[Document]) -> TokenBatch:
        """Token vectors of packed ones.

        Raises:
            DataError: if some are damaged; names the document.
        """
        assert self.record is not None
        names = [f"of document {document.id!r}" for document in documents]
        return unpack_tokens(packed, self.record.token_dimension, names, _MENDED)

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

    def words_of(self, points: Sequence[str], documents: Sequence[Document] | None) -> tuple[TermBatch, int]:
        """The words of points; and how many of the documents, where given, have other texts now."""
        found = self._read(points, (HASH,), (WORDS,))
        own = [found.get(point, Record(point, {}, {})) for point in points]
        terms = to_terms(own, WORDS)
        if documents is None:
            return terms, 0
        pairs = zip(own, documents, strict=True)
        return terms, sum(record.payload.get(HASH) != document.content_hash for record, document in pairs)

    def _read(
        self, points: Sequence[str], fields: Sequence[str], vectors: Sequence[str] = ()
    ) -> dict[str, Record]:
        ids = [point_id(name) for name in points]
        return {record.id: record for record in self.points.retrieve(ids, fields, vectors)}


def tokens_point(point: str) -> str:
    """The id of the point beside the collection that has another point's token vectors."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{point} {TOKENS}"))


def moments_payload(mean: float, deviation: float, ensemble: str) -> dict[str, Any]:
    """A point's moments, for the formula query; as float32, which is what similarities are."""
    return {MU: float(np.float32(mean)), SIGMA: float(np.float32(deviation)), STATISTICS: ensemble}


def packed_tokens(encoder: Encoder, documents: Sequence[Document], form: TokenForm) -> list[bytes]:
    """Token vectors of documents as they are stored.

    Raises:
        DataError: if the encoder has no token vectors.
    """
    encoded = encode_documents(encoder, [document.content for document in documents])
    return pack_tokens(in_form(encoded.require_tokens(), form))
