"""Dense vectors of many texts, without holding their token vectors, and the check of what texts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surprise_rerank import border
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import Encoder, Kind, Progress

# Texts whose token vectors are in memory at a time.
_TEXTS_AT_ONCE = 2048


def dense_vectors(
    encoder: Encoder, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
) -> Float32Array:
    """(n, d) unit vectors of n texts, in their order; the arguments are those of `Encoder.encode`."""
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        rows = slice(start, start + _TEXTS_AT_ONCE)
        vectors[rows] = encoder.encode(texts[rows], kind, on_progress).dense
    return vectors


def texts_of(X: Any) -> list[str] | None:  # noqa: N803
    """Texts as a list; None for what is not texts; a DataError for one string, a mixture, or none."""
    if isinstance(X, str | bytes):
        border.refuse("X", X, "a list of texts", "put it into a list")
    if getattr(X, "ndim", 1) != 1 or (isinstance(X, np.ndarray) and X.dtype.kind not in "UOT"):
        return None
    rows = X.tolist() if hasattr(X, "tolist") else X
    if not isinstance(rows, list | tuple):
        return None
    border.some("X", rows, "give texts or vectors")
    if not any(isinstance(row, str) for row in rows):
        return None
    return border.texts("X", list(rows))
