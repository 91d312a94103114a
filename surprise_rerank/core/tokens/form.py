"""The form in which token vectors are kept: how many of them."""

from __future__ import annotations

from dataclasses import dataclass

from surprise_rerank.core.tokens.batch import TokenBatch
from surprise_rerank.core.tokens.pooling import pooled_tokens
from surprise_rerank.errors import DataError

POOLING = 3.5  # see docs/tokens.md


@dataclass(frozen=True, slots=True)
class TokenForm:
    """How a text's token vectors are kept.

    Attributes:
        pooling: tokens that are merged into one vector, on average; 1 keeps all.
        least: vectors that a text keeps, where it has as many tokens. Short texts are merged less: they have
            little to save, and little that is said twice.

    Raises:
        DataError: if a number is less than 1.
    """

    pooling: float = POOLING
    least: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.pooling < float("inf") or self.least < 1:
            raise DataError(
                f"tokens are merged by a factor of at least 1 into at least 1 vector, got {self.pooling} and "
                f"{self.least}"
            )

    def of(self, tokens: TokenBatch) -> TokenBatch:
        """Token vectors in this form; what is merged already is not merged again."""
        return pooled_tokens(tokens, self.pooling, self.least)
