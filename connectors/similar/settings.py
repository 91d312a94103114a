"""What a similarity job computes."""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.neighbours import MOST_PAIRS, check_wanted

Similarity: TypeAlias = Literal["cosine", "dynamax", "both"]
Mode: TypeAlias = Literal["exact", "index"]

# The form of token vectors that are encoded for a job: compared in a tenth of the time of all tokens, and
# nearly as similar (docs/similar.md).
USUAL = TokenForm("int8", 3.5)
# What the vectors of a corpus are made by: the corpus has digits of its own.
_OF_VECTORS = frozenset({"pooling"})
# Rows of a part of the result: what is lost by a kill, and what a worker does at a time. A row of cosines
# costs a small share of what a row of DynaMax does.
_PART_ROWS: dict[Similarity, int] = {"cosine": 4096, "dynamax": 128, "both": 512}


@dataclass(frozen=True, slots=True)
class SimilaritySettings:
    """What is computed of every document; where and by how many workers does not matter to the result.

    Attributes:
        k: how many neighbours of each; all that are above the threshold where None.
        above: the smallest surprise z of a pair.
        similarity: what surprise is over: `cosine`, `dynamax` (fuzzy Jaccard of the token vectors), or
            `both`: candidates by the surprise of the cosine, scored again by that of DynaMax.
        pool: for `both`, how many candidates are scored again.
        mode: `exact` compares with every document; `index` searches augmented vectors in Qdrant.
        ef: for `index`, how many nodes of the graph a search keeps at hand: more find more, in more time.
        ensemble_sample: for DynaMax, how many documents stand for the ensemble.
        pooling: for DynaMax, tokens that are merged into one vector, on average; 1 merges none. As they are
            stored already, or 3.5, where None.
    """

    k: int | None = 10
    above: float | None = None
    similarity: Similarity = "cosine"
    pool: int = 100
    mode: Mode = "exact"
    ef: int = 128
    ensemble_sample: int = 256
    pooling: float | None = None

    def __post_init__(self) -> None:
        self._plain()
        check_wanted(self.k, self.above)
        for name, choices in (("similarity", get_args(Similarity)), ("mode", get_args(Mode))):
            if getattr(self, name) not in choices:
                raise DataError(f"{name} {getattr(self, name)!r} is not known; choose {' or '.join(choices)}")
        least_pool = (self.k or 1) if self.similarity == "both" else 1
        for name, least in (("pool", least_pool), ("ef", 1), ("ensemble_sample", 2)):
            if getattr(self, name) < least:
                raise DataError(f"{name} must be at least {least}, got {getattr(self, name)}")
        _ = self.token_form  # refuses one that is none
        if self.token_form is not None and not self.needs_tokens:
            raise DataError("pooling is for similarity 'dynamax' or 'both'")
        if self.similarity == "dynamax" and self.mode == "index":
            raise DataError("an index finds by cosine; choose similarity 'both', or mode 'exact'")

        if self.k is not None and self.k * self.part_rows > MOST_PAIRS:
            raise DataError(f"k must be at most {MOST_PAIRS // self.part_rows:,}, got {self.k:,}")

    def _plain(self) -> None:
        """Python's own numbers, whatever was given: equal settings have equal digits."""
        for name in ("k", "pool", "ef", "ensemble_sample"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _whole(name, value))
        if self.above is not None:
            object.__setattr__(self, "above", float(self.above))

    @property
    def needs_tokens(self) -> bool:
        """Whether token vectors are compared."""
        return self.similarity != "cosine"

    @property
    def token_form(self) -> TokenForm | None:
        """The form of token vectors that is asked for; None for any."""
        return None if self.pooling is None else TokenForm(USUAL.storage, self.pooling)

    @property
    def part_rows(self) -> int:
        """How many documents a part of the result is about."""
        return _PART_ROWS[self.similarity]

    @property
    def digest(self) -> str:
        """Digits that differ where the result of the same vectors does."""
        values = {name: value for name, value in asdict(self).items() if name not in _OF_VECTORS}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise DataError(f"{name} must be a whole number, got {value!r}") from error
