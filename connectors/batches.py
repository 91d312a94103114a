"""Arrow record batches on their way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class CountedBatches:
    """Batches, and how many rows have passed.

    Attributes:
        rows: so far.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch
