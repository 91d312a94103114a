"""Token vectors of many texts: as they are, merged, in codes of some bits, and in bytes for storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.core.tokens.batch import TokenBatch as TokenBatch
    from surprise_rerank.core.tokens.form import TokenForm as TokenForm
    from surprise_rerank.core.tokens.packing import pack_tokens as pack_tokens
    from surprise_rerank.core.tokens.packing import unpack_tokens as unpack_tokens
    from surprise_rerank.core.tokens.pooling import pooled_tokens as pooled_tokens

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "batch": "TokenBatch",
        "form": "TokenForm",
        "packing": "pack_tokens unpack_tokens",
        "pooling": "pooled_tokens",
    },
)
