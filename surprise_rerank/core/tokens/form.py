"""The form in which token vectors are stored: how many of them, and how many bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from surprise_rerank.core.tokens.batch import BITS, STORAGES, Storage, TokenBatch
from surprise_rerank.core.tokens.pooling import pooled_tokens
from surprise_rerank.errors import DataError

# With fewer components a bit of each loses too much: inclusion of GloVe's tokens (50) lost .015 nDCG@10.
_FOR_1_BIT, _FOR_2_BITS = 256, 128


@dataclass(frozen=True, slots=True)
class TokenForm:
    """How a text's token vectors are stored.

    Attributes:
        storage: of a vector: `1bit`, `2bit` or `4bit` codes, `int8`, or a float type.
        pooling: tokens that are merged into one vector, on average; 1 keeps all.
        least: vectors that a text keeps, where it has as many tokens. Short texts are merged less: they have
            little to save, and little that is said twice.

    Raises:
        DataError: if the storage is not known, or a number is less than 1.
    """

    storage: Storage = "1bit"
    pooling: float = 3.5
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

    @classmethod
    def usual(cls, dimension: int) -> TokenForm:
        """What new indexes store: fewer components get more bits, as the error of a code grows."""
        return cls("1bit" if dimension >= _FOR_1_BIT else "2bit" if dimension >= _FOR_2_BITS else "4bit")

    @classmethod
    def chosen(cls, storage: Storage | None, pooling: float | None, dimension: int = 0) -> TokenForm:
        """What is asked for, and what is usual where nothing is: tokens are merged where they become codes.

        Args:
            storage: the usual one of the dimension where None.
            pooling: tokens that are merged into one vector; 1 keeps all.
            dimension: of the token vectors.

        Raises:
            DataError: if there is no such form.
        """
        storage = storage or cls.usual(dimension).storage
        merged = cls().pooling if storage in BITS else 1
        return cls(storage, merged if pooling is None else pooling)

    def of(self, tokens: TokenBatch) -> TokenBatch:
        """Token vectors in this form; what is merged already is not merged again."""
        return self.merged(tokens).stored(self.storage)

    def merged(self, tokens: TokenBatch) -> TokenBatch:
        """Token vectors merged as in this form, and stored as they are or in float32."""
        return pooled_tokens(tokens, self.pooling, self.least)

    def is_made_of(self, other: TokenForm) -> bool:
        """Whether vectors in another form give this one as the model's own vectors do.

        Those of a code do not: their errors would be coded once more, and the products no longer be unbiased.
        """
        smaller = STORAGES.index(other.storage) <= STORAGES.index(self.storage)
        return self == other or (smaller and other.storage not in BITS and other.pooling in (1, self.pooling))

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


# What indexes stored before there were codes, and what nothing is lost with.
INT8 = TokenForm("int8", 1)
