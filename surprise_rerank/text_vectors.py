"""Dense vectors of many texts, their token vectors thrown away as they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surprise_rerank.arrays import Float32Array
from surprise_rerank.encoders import Encoder, Kind, Progress

# Texts whose token vectors are in memory at a time.
_TEXTS_AT_ONCE = 2048


def dense_vectors(
    encoder: Encoder, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
) -> Float32Array:
    """(n, d) unit vectors of n texts, in their order.

    Args:
        encoder: of the model.
        texts: any strings.
        kind: picks the model's prompt, where it has one.
        on_progress: called with the number of texts of every finished batch.
    """
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        rows = slice(start, start + _TEXTS_AT_ONCE)
        vectors[rows] = encoder.encode(texts[rows], kind, on_progress).dense
    return vectors
