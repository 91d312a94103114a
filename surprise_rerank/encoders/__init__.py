"""Texts to dense vectors and token vectors, and long documents to passages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.encoders.adapting import as_encoder as as_encoder
    from surprise_rerank.encoders.base import Encoded as Encoded
    from surprise_rerank.encoders.base import Encoder as Encoder
    from surprise_rerank.encoders.base import Kind as Kind
    from surprise_rerank.encoders.base import TokenEncoder as TokenEncoder
    from surprise_rerank.encoders.base import encode_queries as encode_queries
    from surprise_rerank.encoders.endpoint import OpenAIEncoder as OpenAIEncoder
    from surprise_rerank.encoders.function import FunctionEncoder as FunctionEncoder
    from surprise_rerank.encoders.loading import DEFAULT_MODEL as DEFAULT_MODEL
    from surprise_rerank.encoders.loading import load_encoder as load_encoder
    from surprise_rerank.encoders.multi_vector import MultiVectorEncoder as MultiVectorEncoder
    from surprise_rerank.encoders.paired import PairedEncoder as PairedEncoder
    from surprise_rerank.encoders.passages import Passages as Passages
    from surprise_rerank.encoders.static import StaticEncoder as StaticEncoder
    from surprise_rerank.encoders.transformer import (
        SentenceTransformerEncoder as SentenceTransformerEncoder,
    )
    from surprise_rerank.encoders.word_vectors import WordVectors as WordVectors
    from surprise_rerank.encoders.word_vectors import load_word_vectors as load_word_vectors

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "adapting": "as_encoder",
        "base": "Encoded Encoder Kind TokenEncoder encode_queries",
        "endpoint": "OpenAIEncoder",
        "function": "FunctionEncoder",
        "loading": "DEFAULT_MODEL load_encoder",
        "multi_vector": "MultiVectorEncoder",
        "paired": "PairedEncoder",
        "passages": "Passages",
        "static": "StaticEncoder",
        "transformer": "SentenceTransformerEncoder",
        "word_vectors": "WordVectors load_word_vectors",
    },
)
