"""What an index would take with another number of documents: computed from a sample of its points.

The page docs/size.md has the formula, and what was measured beside it.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from surprise_rerank import _border as border
from surprise_rerank.connectors.qdrant._multivectors import CODED_FROM
from surprise_rerank.connectors.qdrant._schema import BM25, STORED_FIELDS, TOKEN_VECTORS

if TYPE_CHECKING:
    from surprise_rerank.connectors._document_index import DocumentIndex

_SAMPLE = 256  # points that are looked at
_GRAPH = 150  # bytes of a point: 32 neighbours of 4 bytes, and higher levels
_ID = 60  # bytes of a point
_TERM = 8  # bytes of a term in a sparse vector, and again in the inverted index
_FOLDER = 500_000  # points, to which a folder is measured and computed; its memory is the searching process's
_SHARD = 20_000_000  # points of a shard
_QUANTIZED_FROM = 1_000_000  # points, from which int8 and disks save more than they cost
_STORED = {"edge": 1400, "server": 1000}  # points a second that one process stores, without the model


@dataclass(frozen=True, slots=True)
class Plan:
    """An index of so many documents.

    Attributes:
        documents, points: how many; points are passages where documents are split.
        disk: bytes of the points; Qdrant needs as many again while it rewrites segments.
        memory: bytes that Qdrant must hold to be fast; the files are read through the rest.
        memory_int8: the same with `quantization=int8` and `on_disk=yes`.
        hours: to store them by one process, without the time that the model takes.
        where: what it should run on.
        settings: what to switch on.
    """

    documents: int
    points: int
    disk: int
    memory: int
    memory_int8: int
    hours: float
    where: str
    settings: tuple[str, ...]

    def facts(self) -> list[tuple[str, str]]:
        """Return names and values for people."""
        return [
            ("planned", f"{self.documents} documents, {self.points} points"),
            ("runs on", self.where),
            ("disk", f"{_shown(self.disk)}, and as much again while segments are rewritten"),
            ("memory of Qdrant", f"{_shown(self.memory)}; {_shown(self.memory_int8)} with int8 and on_disk"),
            ("memory of a client", "the model and 0.2 GB, whatever the number"),
            ("to store", f"{self.hours:.1f} hours by one process, and what the model takes"),
            ("switch on", ", ".join(self.settings) or "nothing"),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def plan(index: DocumentIndex, documents: int) -> Plan:
    """Return what an index takes with so many documents like those of a sample of its own.

    A DataError if it has none.
    """
    border.count("the planned number of documents", documents)
    engine, manifest, options = index.corpus.points, index.manifest, index.manifest.options
    stored = border.count("the number of documents in the index", len(index))
    points = math.ceil(documents * engine.count() / stored)
    payloads = engine.smallest(_SAMPLE, STORED_FIELDS)
    names = [name for name, has in ((TOKEN_VECTORS, options.tokens), (BM25, options.bm25)) if has]
    sampled = engine.retrieve([record.id for record in payloads], (), names)
    payload = _mean([len(json.dumps(dict(record.payload))) for record in payloads])
    terms = _mean([len(r.vectors[BM25].indices) if BM25 in r.vectors else 0 for r in sampled])
    vectors = _mean([len(record.vectors.get(TOKEN_VECTORS, ())) for record in sampled])
    d, token_bytes = manifest.dimension, 0.5 if manifest.token_dimension >= CODED_FROM else 2.0
    augmented = 4 * (d + 1) + _GRAPH if options.surprise_vector else 0
    disk = 4 * d + _GRAPH + augmented + vectors * manifest.token_dimension * token_bytes
    disk += 2 * _TERM * terms + payload + _ID
    held = _GRAPH + _ID + _TERM * terms
    is_large = points >= _QUANTIZED_FROM
    settings = ["--set quantization=int8", "--set on_disk=yes"] if is_large else []
    where = "a folder of this machine, or a server"
    if points > _FOLDER:
        shards = math.ceil(points / _SHARD)
        where = "a server of one node" if shards == 1 else f"a cluster of {shards} nodes or more"
        settings += [f"--set shards={shards}"] * (shards > 1) + ["--set replicas=2"] * is_large
    return Plan(
        documents,
        points,
        round(points * disk),
        round(points * (held + 4 * d + augmented)),
        round(points * (held + d)),
        points / _STORED["edge" if points <= _FOLDER else "server"] / 3600,
        where,
        tuple(settings),
    )


def _mean(values: list[int]) -> float:
    return sum(values) / max(len(values), 1)


def _shown(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
