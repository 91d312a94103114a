"""Document similarity in batches: every document's most surprising neighbours, from a laptop to a cluster."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar.index.place import IndexPlace
    from surprise_rerank.connectors.similar.job import SimilarityJob
    from surprise_rerank.connectors.similar.neighbour_batches import neighbours
    from surprise_rerank.connectors.similar.recall import sample_check
    from surprise_rerank.connectors.similar.settings import Settings
    from surprise_rerank.connectors.similar.threads import Threads

# Name -> module. Loaded when first asked for, as the modules of this package import each other.
_EXPORTS = {
    "IndexPlace": "index.place",
    "Settings": "settings",
    "SimilarityJob": "job",
    "Threads": "threads",
    "neighbours": "neighbour_batches",
    "sample_check": "recall",
}

__all__ = ["IndexPlace", "Settings", "SimilarityJob", "Threads", "neighbours", "sample_check"]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
