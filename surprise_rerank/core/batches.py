"""Items in a row, in parts that are bounded by count and by size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], largest: int, most: float = math.inf
) -> Iterator[list[T]]:
    """Batches of at most so many items, and of at most this size together; a larger item is alone.

    >>> list(in_batches(["a", "bb", "c", "ddddd"], len, largest=3, most=2))
    [['a', 'bb'], ['c'], ['ddddd']]
    """
    batch: list[T] = []
    size = 0
    for item in items:
        item_size = size_of(item)
        if batch and (len(batch) == most or size + item_size > largest):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    if batch:
        yield batch
