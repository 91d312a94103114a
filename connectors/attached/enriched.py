"""What `enrich` added beside a foreign collection, and how it is read.

A collection `NAME.surprise` has a point of the same id for each point, with the vectors of its tokens and
words. The collection `NAME.surprise.files` has the record of what was added, for everybody who attaches.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from qdrant_client import models

from surprise_rerank.candidates import Candidates
from surprise_rerank.connectors.qdrant.engines.client import ClientEngine
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.qdrant.multivectors import TOKEN_COUNT, TOKEN_FIELDS, stored_tokens
from surprise_rerank.connectors.qdrant.schema import HASH, PointId, Record, to_terms
from surprise_rerank.connectors.qdrant.search.inclusion import AskedInclusion
from surprise_rerank.connectors.qdrant.search.queries import by_id
from surprise_rerank.connectors.qdrant.storage.files import CollectionFiles, Files
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, IndexMismatchError

RECORD = "enriched.json"
WORD_STATISTICS = "words.npz"
# No names that a collection of somebody else has: a request goes to where its vector is.
WORDS, TOKENS = "surprise_words", "surprise_tokens"
SUFFIX = ".surprise"

_ABSENT = {"token_count": 0, "token_shape": ""}
_SCHEMA = 5  # of the record; no other one is read


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentRecord:
    """What was added.

    Attributes:
        model: of the token vectors; empty without them.
        fingerprint: of its weights.
        token_dimension: of the token vectors.
        words: settings of the sparse vectors; None without them.
        complete: whether a run came to its end; until then nobody reads what was added.
        schema: of the record.
    """

    model: str = ""
    fingerprint: str = ""
    token_dimension: int = 0
    words: Bm25 | None = None
    complete: bool = False
    schema: int = _SCHEMA

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, files: Files, where: str) -> EnrichmentRecord | None:
        """The record that is kept; None where nothing was added.

        Raises:
            DataError: if it is damaged, or of another version.
        """
        content = files.read_file(RECORD)
        if content is None:
            return None
        try:
            values: dict[str, Any] = json.loads(content)
            words = values.pop("words")
            if values["schema"] == _SCHEMA:
                return cls(**values, words=None if words is None else Bm25(**words))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{where}: the record of what was added is damaged; {_ANEW}") from error
        raise DataError(f"{where} was enriched by another version; {_ANEW}")

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for `status`."""
        parts = [
            *([f"tokens of {self.model}, {self.token_dimension} dimensions"] if self.model else []),
            *([f"words (BM25, {self.words.language})"] if self.words else []),
        ]
        state = "" if self.complete else "; not finished, and not read: enrich again"
        return [("enriched", f"{', '.join(parts)}{state}")]


_ANEW = "delete its collections whose names end in .surprise and .surprise.files, and enrich it again"


@dataclass(frozen=True, slots=True)
class Enriched:
    """Reads what was added.

    Attributes:
        points: the collection that has it.
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
    def words(self) -> Bm25 | None:
        """The settings of its sparse vectors; None without them."""
        return self.record.words if self.record is not None and self.record.complete else None

    def check(self, name: str, fingerprint: str, where: str) -> None:
        """Refuse a model that is not the one of the token vectors.

        Raises:
            IndexMismatchError: if it is another; names both.
        """
        own = self.record
        if own is not None and own.model and (name, fingerprint) != (own.model, own.fingerprint):
            raise IndexMismatchError(
                f"{where} was enriched with token vectors of {own.model!r} (weights {own.fingerprint}), the "
                f"question's would be of {name!r} ({fingerprint}); give that model as token_encoder=, or "
                "enrich again"
            )

    def inclusion(self, asked: AskedInclusion, wanted: models.Filter, limit: int) -> models.QueryRequest:
        """A request for inclusion of a question's tokens in points that a filter lets through."""
        return asked.among(wanted, limit, TOKENS, (TOKEN_COUNT, HASH))

    def included(
        self, pool: Candidates, points: Sequence[str], asked: AskedInclusion, found: Sequence[Record]
    ) -> Candidates:
        """Candidates, whose points these are, with what was found by `inclusion`."""
        notes = (*pool.notes, *behind(points, pool.documents, found))
        return replace(pool, inclusion=asked.inclusion(found, points), notes=tuple(dict.fromkeys(notes)))

    def request(self, points: Sequence[PointId], *, tokens: bool, words: bool) -> models.QueryRequest:
        """A request for what was added to points."""
        vectors = (*([TOKENS] if tokens else []), *([WORDS] if words else []))
        return by_id(points, (HASH, *(TOKEN_FIELDS if tokens else ())), vectors)

    def tokens_of(self, points: Sequence[str], found: Sequence[Record]) -> TokenBatch:
        """Token vectors of points, of what was found by `request`; none of those that have none.

        Raises:
            DataError: if some are damaged; names the point.
        """
        assert self.record is not None
        own = [record if TOKENS in record.vectors else None for record in _of_points(points, found)]
        return stored_tokens(
            [() if record is None else record.vectors[TOKENS] for record in own],
            [_ABSENT if record is None else record.payload for record in own],
            self.record.token_dimension,
            [f"of point {point}" for point in points],
        )

    def words_of(self, points: Sequence[str], found: Sequence[Record]) -> TermBatch:
        """The words of points, of what was found by `request`."""
        return to_terms(_of_points(points, found), WORDS)


def behind(
    points: Sequence[str], documents: Sequence[Document] | None, found: Sequence[Record]
) -> tuple[str, ...]:
    """The note on a ranking for which some points have nothing added, or of an earlier text."""
    hashes = {record.id: record.payload.get(HASH) for record in found}
    texts = documents or (None,) * len(points)
    old = sum(
        hashes.get(point) is None or (own is not None and hashes[point] != own.content_hash)
        for point, own in zip(points, texts, strict=True)
    )
    note = f"what was added for {old} of {len(points)} documents is missing or of an earlier text; run sync"
    return (note,) if old else ()


def _of_points(points: Sequence[str], found: Sequence[Record]) -> list[Record]:
    known = {record.id: record for record in found}
    return [known.get(point, Record(point, {}, {})) for point in points]
