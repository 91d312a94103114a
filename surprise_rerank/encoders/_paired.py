"""Dense vectors of one model, and tokens of another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import get_args

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders.base import (
    Encoded,
    Encoder,
    Kind,
    Progress,
    precision_of,
    require_token_encoder,
    token_dimension,
)


class PairedEncoder:
    """An encoder of two: dense vectors of one, to find, token vectors of the other, to compare.

    An API's model has no token vectors, and a ColBERT model no dense ones: together they have both. Passages
    are cut for the smaller window, by the tokens of the token encoder. A DataError if that has none, or one
    of the two is a pair itself.
    """

    def __init__(self, dense: Encoder, tokens: Encoder) -> None:
        dense, tokens = as_encoder(dense), as_encoder(tokens)
        for encoder in (dense, tokens):
            if isinstance(encoder, PairedEncoder):
                border.refuse(
                    "an encoder", encoder, "one that is no pair already", "give the two that are wanted"
                )
        self.dense_encoder = dense
        self.token_encoder = require_token_encoder(tokens)
        self.name: str = f"{dense.name} + tokens of {tokens.name}"
        self.precision = " + ".join(dict.fromkeys(map(precision_of, (dense, tokens))))
        self.words = self.token_encoder.words

    @property
    def dimension(self) -> int:
        """Dimension of the dense vectors; an API's is not known before it is asked."""
        return self.dense_encoder.dimension

    @property
    def token_dimension(self) -> int:
        """Dimension of the token vectors."""
        return token_dimension(self.token_encoder) or 0

    @property
    def fingerprint(self) -> str:
        """16 digits of both fingerprints."""
        parts = f"{self.dense_encoder.fingerprint}\0{self.token_encoder.fingerprint}"
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    @property
    def window(self) -> int | None:
        """The smaller of the two, in tokens of the token encoder; None where both read all of a text."""
        windows = (self.dense_encoder.window, self.token_encoder.window)
        return min((window for window in windows if window is not None), default=None)

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense vectors of one encoder and tokens of the other, one after the other."""
        texts = border.texts("texts", texts)
        border.optional(border.function, "on_progress", on_progress)
        dense = self.dense_encoder.encode(texts, kind).dense
        return Encoded(dense, self.token_encoder.encode(texts, kind, on_progress).require_tokens())

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Return where the token encoder's tokens lie in each text."""
        border.choice("kind", kind, get_args(Kind))
        return self.token_encoder.token_spans(border.texts("texts", texts), kind)


def paired_encoder(encoder: object | None, token_encoder: object | None) -> Encoder | None:
    """The encoder that a caller gives, with the token vectors of another one where that is given."""
    if token_encoder is not None:
        border.present("encoder", encoder, "token_encoder= goes with the encoder of the dense vectors")
    model = None if encoder is None else as_encoder(encoder)
    if model is None or token_encoder is None:
        return model
    return PairedEncoder(model, as_encoder(token_encoder))
