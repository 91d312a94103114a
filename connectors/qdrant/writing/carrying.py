"""Vectors of the version before: a rebuilt index need not encode documents that have not changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surprise_rerank.connectors.qdrant.manifest import Manifest
from surprise_rerank.connectors.qdrant.schema import (
    DENSE,
    HASH,
    ID,
    PASSAGE_FIELDS,
    PASSAGES,
    Record,
    point_id,
    stored_hash,
    to_passage,
)
from surprise_rerank.connectors.qdrant.storage.base import Storage, differs
from surprise_rerank.connectors.qdrant.storage.tokens import stored_tokens
from surprise_rerank.connectors.qdrant.writing.points import Piece
from surprise_rerank.core.tokens.batch import BITS, TokenBatch
from surprise_rerank.core.tokens.form import TokenForm
from surprise_rerank.encoders.base import Encoded, Encoder, encode_documents
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True)
class CarriedVectors:
    """Encodes what has changed, and takes the rest from the version before.

    Attributes:
        before: that version.
        after: how the new one is made.
        encoder: of the new one.
    """

    before: Storage
    after: Manifest
    encoder: Encoder

    @property
    def is_possible(self) -> bool:
        """Whether the new version's vectors are the old ones, or can be made of them without a loss."""
        old, new = self.before.manifest, self.after
        if differs(replace(old, options=new.options), new):
            return False
        if old.options.passages != new.options.passages:
            return False
        made = new.options.token_form.is_made_of(old.options.token_form)
        if new.options.token_vectors is not None:
            made = made and old.options.token_form.storage not in BITS
        return not new.options.stores_tokens or (old.options.packed_tokens and made)

    @property
    def _form(self) -> TokenForm:
        """Of what `encoded` gives: that of the new version, but of what multivectors are made of, too."""
        own = self.after.options
        return own.token_form if own.token_vectors is None else replace(own.token_form, storage="float32")

    def encoded(self, pieces: Sequence[Piece]) -> Encoded:
        """Vectors of pieces; token vectors are as they were stored, or in the form of the new version."""
        known = self._known(pieces) if self.is_possible else {}
        rows = [i for i in range(len(pieces)) if i not in known]
        fresh = encode_documents(self.encoder, [pieces[i].text for i in rows]) if rows else None
        if fresh is not None and not known:
            return fresh
        dense = np.empty((len(pieces), self.after.dimension), np.float32)
        if fresh is not None:
            dense[rows] = fresh.dense
        dense[list(known)] = np.array([record.vectors[DENSE] for record, _ in known.values()], np.float32)
        if not self.after.options.stores_tokens:
            return Encoded(dense)
        parts = [tokens for _, tokens in known.values() if tokens is not None]
        if fresh is not None:
            parts.append(fresh.require_tokens())
        joined = TokenBatch.concatenate([self._form.of(part) for part in parts])
        return Encoded(dense, joined.take(np.argsort([*known, *rows])))

    def _known(self, pieces: Sequence[Piece]) -> dict[int, tuple[Record, TokenBatch | None]]:
        """Place -> what is stored of each piece whose document is stored as it is now, and split alike."""
        own = [point_id(p.document.id, p.passage.number if p.passage else 0) for p in pieces]
        firsts = [point_id(p.document.id) for p in pieces]
        points = tuple(dict.fromkeys((*own, *firsts)))
        fields = (ID, HASH, PASSAGES, *PASSAGE_FIELDS)
        found = {r.id: r for r in self.before.engine.retrieve(points, fields, (DENSE,))}
        records = {
            i: found[point]
            for i, (piece, point, first) in enumerate(zip(pieces, own, firsts, strict=True))
            if {point, first} <= found.keys()
            and found[first].payload[HASH] == stored_hash(piece.document)
            and _is_split_alike(piece, found[point].payload, found[first].payload)
        }
        if not self.after.options.stores_tokens:
            return {i: (record, None) for i, record in records.items()}
        return {i: (records[i], tokens) for i, tokens in self._tokens(records).items()}

    def _tokens(self, records: Mapping[int, Record]) -> dict[int, TokenBatch]:
        try:
            stored = stored_tokens(self.before, list(records.values()))
        except DataError:
            if len(records) > 1:
                parts = [self._tokens({i: record}) for i, record in records.items()]
                return {i: tokens for part in parts for i, tokens in part.items()}
            return {}
        return {i: stored.between(row, row + 1) for row, i in enumerate(records)}


def _is_split_alike(piece: Piece, own: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
    """Whether a stored passage is this piece: a model's window can differ where its name does not."""
    if piece.passage is None:
        return True
    return piece.count == first.get(PASSAGES) and piece.passage == to_passage(own)
