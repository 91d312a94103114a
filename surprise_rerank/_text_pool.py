"""A candidate pool of given texts: vectors that are stored, that came with a text, or that are computed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query
from surprise_rerank._documents import Document, Passage, encodable
from surprise_rerank.core._tracing import span
from surprise_rerank.core.arrays import Float32Array, matrix, unit_rows
from surprise_rerank.core.tokens import pooled_tokens
from surprise_rerank.encoders._paired import PairedEncoder
from surprise_rerank.encoders._passages import Passages, passage_texts
from surprise_rerank.encoders.base import Encoder, encode_documents, token_dimension

# What a text may be stored under: an id, several of which the first that is stored counts, or None.
Ids: TypeAlias = Sequence[str | Sequence[str] | None]
# A dense vector for each text, None for a text that has none.
Vectors: TypeAlias = Sequence[npt.ArrayLike | None]

OUTSIDE = "some of the texts are not in the index that the background is of"

_logger = logging.getLogger("surprise_rerank")

# A vector of the encoder's own model has a larger cosine with what the encoder gives for the text, also where
# metadata were embedded with it. Vectors of two models have cosines around 0.
_SAME_MODEL = 0.5
# Ids that are shown at level debug.
_SHOWN = 3
_NONE = "give one for each, None where there is none"


class StoredDocuments(Protocol):
    """What has vectors of documents by id, such as `connectors._searchable.StoredCandidates`."""

    @property
    def pooling(self) -> float:
        """Tokens that are merged into one vector; those of other texts are, too, so that scores compare."""

    def candidates(self, query: Query, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
        """Those of these documents that are stored, in this order, with these fields and all scores."""


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """n texts with what came with them: the ids each may be stored under, best first, and vectors by row."""

    texts: Sequence[str]
    ids: Sequence[tuple[str, ...]]
    vectors: Mapping[int, Float32Array]
    has_ids: bool = True

    @classmethod
    def checked(
        cls, texts: Iterable[str], ids: Ids | None = None, vectors: Vectors | None = None
    ) -> TextBatch:
        """Texts with what came with them, once it is clear that it fits together."""
        listed = border.texts("texts", texts)
        names: list[tuple[str, ...]] = []
        for position, name_or_names in enumerate(_one_for_each("ids", ids, len(listed))):
            if name_or_names is None or isinstance(name_or_names, str):
                names.append(() if name_or_names is None else (encodable(name_or_names),))
            else:
                names.append(tuple(map(encodable, border.texts(f"ids[{position}]", name_or_names))))
        rows = _one_for_each("vectors", vectors, len(listed))
        return cls(listed, names, _checked_vectors(rows), ids is not None)

    @property
    def positions(self) -> list[str]:
        """Their places, written so that they sort as numbers do."""
        width = len(str(len(self.texts)))
        return [f"{i:0{width}d}" for i in range(len(self.texts))]


class _Part(NamedTuple):
    """What one row of a pool is made of: a text, or a passage of one."""

    row: int
    text: str
    passage: Passage


@dataclass(frozen=True, slots=True, eq=False)
class TextPools:
    """Makes candidate pools of given texts; see `TextReranker`, whose attributes these are."""

    encoder: Encoder
    stored: StoredDocuments | None = None
    passages: Passages | None = None
    # What was said once, and what was found out of given vectors. Threads that write it write the same.
    facts: dict[str, bool] = field(default_factory=dict)

    def pool(self, query: Query, batch: TextBatch, needs: frozenset[Field]) -> tuple[Candidates, int]:
        """The candidates of these texts, by position, with these fields; and how many are not stored."""
        positions, rows, notes = batch.positions, list(range(len(batch.texts))), []
        stored = None
        if self.stored is not None:
            wanted_ids = list(dict.fromkeys(name for ids in batch.ids for name in ids))
            with span(
                "RETRIEVER", "surprise_rerank.fetch", {"surprise_rerank.asked": len(wanted_ids)}
            ) as counts:
                fetched = self.stored.candidates(query, wanted_ids, needs)
                counts["surprise_rerank.documents"] = len(set(fetched.ids))
            stored = _at_positions(fetched, positions, batch.ids)
            stored_positions = frozenset(stored.ids)
            rows = [row for row in rows if positions[row] not in stored_positions]
            notes.append(self._note_on_stored(batch, wanted_ids, len(stored_positions)))
        if stored is not None and not rows:
            return replace(stored, notes=(*notes, *stored.notes)), 0
        vectors, about = self._usable_vectors(batch, rows) if "dense" in needs else ({}, "")
        notes += [about] if about else []
        tokens_read = "tokens" in needs and token_dimension(self.encoder) is not None
        # A given vector is of a whole text, which is split for its tokens only.
        encoded = rows if tokens_read else [row for row in rows if row not in vectors]
        split = self._split(batch.texts, encoded if tokens_read or "dense" in needs else ())
        parts = [
            part
            for row in rows
            for part in split.get(row, [_Part(row, batch.texts[row], Passage(0, 0, len(batch.texts[row])))])
        ]
        whole = {row: vector for row, vector in vectors.items() if row not in split}
        fresh = self._fresh(batch, parts, whole, needs, tokens_read)
        if split and self.passages is not None:
            fresh = replace(fresh, passages=tuple(part.passage for part in parts), best=self.passages.best)
        if self.stored is not None and fresh.tokens is not None:
            fresh = replace(fresh, tokens=pooled_tokens(fresh.tokens, self.stored.pooling))
        pool = fresh if stored is None else _joined(stored, fresh, batch.texts)
        return replace(pool, notes=(*notes, *pool.notes)), len(rows)

    def _fresh(
        self,
        batch: TextBatch,
        parts: Sequence[_Part],
        vectors: Mapping[int, Float32Array],
        needs: frozenset[Field],
        tokens_read: bool,
    ) -> Candidates:
        """The candidates of parts of texts, of which these rows have a dense vector."""
        texts = [part.text for part in parts]
        lacking = [i for i, part in enumerate(parts) if "dense" in needs and part.row not in vectors]
        if tokens_read and (not isinstance(self.encoder, PairedEncoder) or len(lacking) == len(parts)):
            # One pass gives both.
            encoded = encode_documents(self.encoder, texts)
            tokens, dense = encoded.tokens, encoded.dense
        else:
            tokens = encode_documents(_one_side(self.encoder, "token"), texts).tokens if tokens_read else None
            dense = np.zeros((len(parts), self.encoder.dimension if "dense" in needs else 0), np.float32)
            if lacking:
                encoder = _one_side(self.encoder, "dense")
                dense[lacking] = encode_documents(encoder, [texts[i] for i in lacking]).dense
        if vectors:
            dense = np.array(
                [vectors.get(part.row, vector) for part, vector in zip(parts, dense, strict=True)]
            )
        positions = batch.positions
        ids = tuple(positions[part.row] for part in parts)
        documents = tuple(
            Document(name, batch.texts[part.row]) for name, part in zip(ids, parts, strict=True)
        )
        return Candidates(
            ids=ids,
            dense=dense if "dense" in needs else None,
            tokens=tokens,
            # What words are is the index's to say, so nothing is known of those of other texts.
            documents=documents if "documents" in needs else None,
        )

    def _split(self, texts: Sequence[str], rows: Sequence[int]) -> dict[int, list[_Part]]:
        """Row -> its passages, of those of these texts that are longer than the encoder reads."""
        if self.passages is None:
            return {}
        limit = self.encoder.window if self.passages.tokens is None else self.passages.tokens
        if limit is None:
            return {}
        # No token is shorter than a byte, so most texts need no tokenizer to be known as short.
        long = [row for row in rows if len(texts[row].encode("utf-8", "replace")) > limit]
        # A model that reads very little has no room for the usual overlap.
        passages = replace(self.passages, overlap=min(self.passages.overlap, limit // 4))
        documents = [Document(str(row), texts[row]) for row in long]
        parts_by_row = {}
        for row, document, pieces in zip(
            long, documents, passages.split(documents, self.encoder), strict=True
        ):
            if len(pieces) > 1:
                encoded = passage_texts(document, pieces, titled=False)
                parts_by_row[row] = [
                    _Part(row, text, place) for text, place in zip(encoded, pieces, strict=True)
                ]
        return parts_by_row

    def _usable_vectors(self, batch: TextBatch, rows: Sequence[int]) -> tuple[dict[int, Float32Array], str]:
        """Row -> its given vector as the encoder would scale it, where they are of its model; and a note."""
        vectors = {row: batch.vectors[row] for row in rows if row in batch.vectors}
        if not vectors:
            return {}, ""
        first = next((row for row in vectors if batch.texts[row].strip()), min(vectors))
        dimension, expected = len(vectors[first]), self.encoder.dimension
        if dimension != expected:
            why = f"have dimension {dimension}, those of {self.encoder.name!r} {expected}"
            return {}, f"the vectors that came with {len(vectors)} texts {why}, so they were not used"
        fact = f"vectors are of {self.encoder.name}"
        if fact not in self.facts:
            encoded = encode_documents(_one_side(self.encoder, "dense"), [batch.texts[first]]).dense[0]
            cosine = float(unit_rows(encoded[None])[0] @ unit_rows(vectors[first][None])[0])
            self.facts[fact] = cosine > _SAME_MODEL
            if not self.facts[fact]:
                _logger.warning(
                    "the vectors that come with texts are not of the encoder %r (a cosine of %.2f for the "
                    "same text), so texts are encoded again",
                    self.encoder.name,
                    cosine,
                )
        if not self.facts[fact]:
            note = f"the vectors that came with {len(vectors)} texts are of another model and were not used"
            return {}, note
        if getattr(_one_side(self.encoder, "dense"), "unit", True):
            vectors = {row: unit_rows(vector[None])[0] for row, vector in vectors.items()}
        _logger.debug("vectors of %d of %d texts were given", len(vectors), len(batch.texts))
        return vectors, f"vectors of {len(vectors)} of {len(batch.texts)} texts were given"

    def _note_on_stored(self, batch: TextBatch, wanted_ids: Sequence[str], stored: int) -> str:
        """A note on how many texts are stored; a warning, too, the first time that none is."""
        count = len(batch.texts)
        _logger.debug("stored %d of %d", stored, count)
        if count and not stored and batch.has_ids and "none is stored" not in self.facts:
            self.facts["none is stored"] = True
            # What is asked is nobody's business at this level: a server writes it into its log.
            why = (
                "the index has none of their ids (see level debug)" if wanted_ids else "none came with an id"
            )
            _logger.warning("none of %d texts is stored, so all are encoded: %s", count, why)
            _logger.debug("the ids that were looked for: %s", wanted_ids[:_SHOWN])
        others = f"; {count - stored} were encoded" if stored < count else ""
        return f"stored {stored} of {count}{others}"


@dataclass(frozen=True, slots=True, eq=False)
class TextRetriever:
    """The retriever that holds given texts: its pool is all of them, whatever the question.

    Where `judges_stored_alone`, the background is of an index, and says nothing of a list of which a text is
    not stored there.
    """

    pools: TextPools
    batch: TextBatch
    judges_stored_alone: bool = False

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """A candidate for every text, or for every passage of one; ids are positions."""
        if not self.batch.texts:
            return Candidates(())
        pool, elsewhere = self.pools.pool(query, self.batch, fields)
        return replace(pool, outside=OUTSIDE) if self.judges_stored_alone and elsewhere else pool


def _one_for_each(name: str, values: Ids | Vectors | None, count: int) -> list[Any]:
    """What came with each text; None for all of them where nothing came."""
    if values is None:
        return [None] * count
    is_list = isinstance(values, Iterable) and getattr(values, "ndim", 1) != 0
    if not is_list or isinstance(values, str | bytes | Mapping):
        border.refuse(name, values, "a list with one for each text", _NONE)
    rows = list(values)
    border.equal(f"the length of {name}", len(rows), count, _NONE)
    return rows


def _checked_vectors(vectors: Vectors) -> dict[int, Float32Array]:
    """Row -> its vector, of those that there are, finite and of one dimension."""
    rows = [row for row, vector in enumerate(vectors) if vector is not None]
    matrices = {row: matrix(cast(npt.ArrayLike, vectors[row]), f"vectors[{row}]") for row in rows}
    for row, vector in matrices.items():
        if np.ndim(cast(npt.ArrayLike, vectors[row])) != 1 or not vector.size:
            border.refuse(f"vectors[{row}]", vector.shape, "of shape (dimension,)", _NONE)
        advice = "give those of one model, and None for the other texts"
        border.equal(f"the dimension of vectors[{row}]", vector.size, matrices[rows[0]].size, advice)
    return {row: vector[0] for row, vector in matrices.items()}


def _joined(stored: Candidates, fresh: Candidates, texts: Sequence[str]) -> Candidates:
    """Both pools in a row; in passages where one of them is, and by the stored ones' rule."""
    if stored.passages is None and fresh.passages is None:
        return stored.join(fresh)
    best = fresh.best if stored.passages is None else stored.best
    return _in_passages(stored, texts, best).join(_in_passages(fresh, texts, best))


def _in_passages(pool: Candidates, texts: Sequence[str], best: int) -> Candidates:
    """The pool with a passage for every candidate: the whole text where there is none."""
    whole = tuple(Passage(0, 0, len(texts[int(name)])) for name in pool.ids)
    return replace(pool, passages=whole if pool.passages is None else pool.passages, best=best)


def _one_side(encoder: Encoder, side: Literal["dense", "token"]) -> Encoder:
    """The encoder of these vectors, where a pair of two has both."""
    if not isinstance(encoder, PairedEncoder):
        return encoder
    return encoder.dense_encoder if side == "dense" else encoder.token_encoder


def _at_positions(
    stored: Candidates, positions: Sequence[str], names: Sequence[tuple[str, ...]]
) -> Candidates:
    """Stored documents under the positions that they were given at; a duplicate has a row for each."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(stored.ids):
        rows.setdefault(name, []).append(row)
    pairs = [
        (position, row)
        for position, ids in zip(positions, names, strict=True)
        for row in next((rows[name] for name in ids if name in rows), ())
    ]
    picked = stored.take([row for _, row in pairs])
    return replace(picked, ids=tuple(position for position, _ in pairs))
