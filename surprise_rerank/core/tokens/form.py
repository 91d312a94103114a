"""The form in which token vectors are kept: how many of them, and in which numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from surprise_rerank.core.tokens.batch import STORAGES, Storage, TokenBatch
from surprise_rerank.core.tokens.pooling import pooled_tokens
from surprise_rerank.errors import DataError

POOLING = 3.5  # see docs/tokens.md


@dataclass(frozen=True, slots=True)
class TokenForm:
    """How a text's token vectors are kept.

    Attributes:
        storage: of a vector: `float32` or `int8`.
        pooling: tokens that are merged into one vector, on average; 1 keeps all.
        least: vectors that a text keeps, where it has as many tokens. Short texts are merged less: they have
            little to save, and little that is said twice.

    Raises:
        DataError: if the storage is not known, or a number is less than 1.
    """

    storage: Storage = "float32"
    pooling: float = POOLING
    least: int = 64

    def __post_init__(self) -> None:
        if self.storage not in STORAGES:
            raise DataError(
                f"token storage {self.storage!r} is not known; choose one of {', '.join(STORAGES)}"
            )
        if not 1 <= self.pooling < float("inf") or self.least < 1:
            raise DataError(
                f"tokens are merged by a factor of at least 1 into at least 1 vector, got {self.pooling} and "
                f"{self.least}"
            )

    def of(self, tokens: TokenBatch) -> TokenBatch:
        """Token vectors in this form; what is merged already is not merged again."""
        return pooled_tokens(tokens, self.pooling, self.least).stored(self.storage)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TokenForm:
        """What `to_json` gave."""
        return cls(**values)

    def __str__(self) -> str:
        merged = "" if self.pooling == 1 else f", {self.pooling:g} tokens merged into a vector"
        return f"{self.storage}{merged}"
