"""What is kept of a foreign collection: bound to the vectors that it was made of, and not to names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from urllib.parse import quote

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._errors import IndexMismatchError
from surprise_rerank.connectors.attached._enrichment import SUFFIX
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._schema import Record
from surprise_rerank.connectors.qdrant._search.layout import VectorLayout
from surprise_rerank.connectors.qdrant._storage.files import CollectionFiles, Files, FolderFiles, MemoryFiles

_PROBES = "probes.json"
_DECIMALS = 3  # that a store's rounding leaves


class KeptFiles(Files):
    """Files of one of a collection's vectors.

    A few of its vectors are its probes, of which some must be there again. Others' files have another prefix.

    Raises:
        IndexMismatchError: if vectors of this name are kept, and none of their probes is there any more.
    """

    def __init__(
        self, files: Files, records: Sequence[Record], layout: VectorLayout, where: str, place: str
    ) -> None:
        self._files, self._probes = files, _marks(records, layout)
        kept = json.loads(files.read_file(_PROBES) or b"{}")
        same = [prefix for prefix, entry in kept.items() if set(entry["probes"]) & set(self._probes)]
        if not same and any(entry["vector"] == layout.dense for entry in kept.values()):
            raise IndexMismatchError(
                f"{where} was filled anew: none of the vectors {layout.dense!r} looked at is one of those "
                f"that the statistics and backgrounds in {place} were made of; delete that, or give another "
                "keep="
            )
        self._prefix = same[0] if same else hashlib.sha256("".join(self._probes).encode()).hexdigest()[:8]
        self._all = {**kept, self._prefix: {"vector": layout.dense, "probes": self._probes}}
        self._is_known = self._all == kept

    def read_file(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""
        return self._files.read_file(f"{self._prefix}-{name}")

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, in place of the one of this name; with the probes of now."""
        self._files.write_file(f"{self._prefix}-{name}", content)
        if not self._is_known:
            self._files.write_file(_PROBES, json.dumps(self._all).encode())
            self._is_known = True

    def delete_file(self, name: str) -> None:
        """Delete a file; nothing happens if there is none."""
        self._files.delete_file(f"{self._prefix}-{name}")


def files_of(
    keep: str | os.PathLike[str] | None, engine: ClientEngine, beside: ClientEngine, server: str
) -> tuple[Files, str]:
    """Where files are kept, and that place in words; see `Collection.attach` for keep."""
    if keep is not None and not (isinstance(keep, str) and keep == "qdrant"):
        folder = border.path("keep", keep) / quote(f"{server} {engine.collection}", safe=" ")
        return FolderFiles(folder), str(folder)
    files, place = CollectionFiles(beside, engine.spread), f"the collection {beside.collection!r}"
    return (files if keep == "qdrant" else MemoryFiles(files)), place


def files_name(collection: str) -> str:
    """The collection beside for files."""
    return f"{collection}{SUFFIX}.files"


def _marks(records: Sequence[Record], layout: VectorLayout) -> list[str]:
    vectors = (record.vectors.get(layout.dense) for record in records)
    arrays = (
        np.round(np.asarray(vector, np.float32), _DECIMALS) + 0.0 for vector in vectors if vector is not None
    )
    return sorted({hashlib.sha256(array.tobytes()).hexdigest()[:16] for array in arrays})
