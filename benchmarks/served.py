"""What benchmarks of a server share: documents encoded once, and a server at rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from qdrant_client import QdrantClient, models

from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoded, Kind, TokenEncoder, precision_of, token_dimension


class EncodedOnce:
    """An encoder that keeps the vectors of documents: several indexes of the same ones encode them once."""

    def __init__(self, encoder: TokenEncoder) -> None:
        self._encoder = encoder
        self._kept: dict[str, Encoded] = {}
        self.name, self.fingerprint, self.window = encoder.name, encoder.fingerprint, encoder.window
        self.dimension, self.token_dimension = encoder.dimension, token_dimension(encoder)
        self.precision = precision_of(encoder)
        self.words, self.token_spans = encoder.words, encoder.token_spans

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        """As the encoder does."""
        if kind != "document":
            return self._encoder.encode(texts, kind, on_progress)
        new = list(dict.fromkeys(text for text in texts if text not in self._kept))
        if new:
            made = self._encoder.encode(new, kind, on_progress)
            tokens = made.require_tokens()
            for i, text in enumerate(new):
                self._kept[text] = Encoded(made.dense[i : i + 1], tokens.take([i]))
        own = [self._kept[text] for text in texts]
        joined = TokenBatch.concatenate([one.require_tokens() for one in own])
        return Encoded(np.concatenate([one.dense for one in own]), joined)


def settle(client: QdrantClient, collection: str) -> None:
    """Wait until the server's optimizers rest."""
    quiet = 0
    while quiet < 3:
        time.sleep(1)
        status = client.get_collection(collection).status
        quiet = quiet + 1 if status == models.CollectionStatus.GREEN else 0


def drop(client: QdrantClient, collection: str) -> None:
    """Delete all versions of an index."""
    for found in client.get_collections().collections:
        if found.name.startswith(f"{collection}@"):
            client.delete_collection(found.name)
