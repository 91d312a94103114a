"""Dense vectors of many texts, without holding their token vectors, and the check of what texts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import Encoder, Kind, Progress
from surprise_rerank.errors import DataError

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
        raise DataError(
            f"expected a list of texts, got one {type(X).__name__}: {X[:40]!r}; put it into a list"
        )
    if getattr(X, "ndim", 1) != 1 or (isinstance(X, np.ndarray) and X.dtype.kind not in "UOT"):
        return None
    rows = X.tolist() if hasattr(X, "tolist") else X
    if not isinstance(rows, list | tuple):
        return None
    if not rows:
        raise DataError("there are no texts or vectors; give at least one")
    if not any(isinstance(row, str) for row in rows):
        return None
    wrong = next((i for i, row in enumerate(rows) if not isinstance(row, str)), None)
    if wrong is not None:
        raise DataError(
            f"text {wrong} is {rows[wrong]!r:.40} ({type(rows[wrong]).__name__}), expected a string"
        )
    return list(map(str, rows))
