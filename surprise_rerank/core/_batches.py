"""Items in a row, in parts that are bounded by count and by size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], max_size: int, max_items: float = math.inf
) -> Iterator[list[T]]:
    """Yield lists of at most `max_items` items, of at most `max_size` together; a larger item is alone.

    >>> list(in_batches(["a", "bb", "c", "ddddd"], len, max_size=3, max_items=2))
    [['a', 'bb'], ['c'], ['ddddd']]
    """
    batch: list[T] = []
    size = 0
    for item in items:
        item_size = size_of(item)
        if batch and (len(batch) == max_items or size + item_size > max_size):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    if batch:
        yield batch
