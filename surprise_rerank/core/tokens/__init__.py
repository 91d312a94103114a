"""Token vectors of many texts: as they are, and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.core.tokens.batch import TokenBatch as TokenBatch
    from surprise_rerank.core.tokens.form import TokenForm as TokenForm
    from surprise_rerank.core.tokens.pooling import pooled_tokens as pooled_tokens

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "batch": "TokenBatch",
        "form": "TokenForm",
        "pooling": "pooled_tokens",
    },
)
