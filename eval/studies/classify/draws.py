"""Random draws of texts: the few examples, and the texts that are tested."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surprise_rerank.core.arrays import IntArray
from surprise_rerank.errors import DataError


def draw_examples(
    truth: IntArray, shots: int, classes: Sequence[str], rng: np.random.Generator, *, balanced: bool = True
) -> IntArray:
    """Rows of a few examples, in the order in which they were drawn.

    The draws of several numbers of shots are nested, where the generator is in the same state: the examples
    of a smaller number are among those of a larger one.

    Args:
        truth: (n,) places of the texts' classes.
        shots: k, at least 1.
        classes: the names of the L classes; those without any text are passed over.
        rng: the randomness.
        balanced: k of each class; otherwise k for each class on average, at least 1 of each.

    Raises:
        DataError: if there are not that many texts; names the class.
    """
    order = rng.permutation(len(truth))
    present = np.unique(truth)
    own = [order[truth[order] == place] for place in present]
    wanted = shots * len(present)
    if not balanced:
        if wanted > len(truth):
            raise DataError(
                f"{wanted} examples are asked for and there are {len(truth)} texts; give fewer shots"
            )
        first = np.array([rows[0] for rows in own], dtype=np.int64)
        others = order[~np.isin(order, first)]
        return np.concatenate([first, others])[:wanted]
    for place, rows in zip(present.tolist(), own, strict=True):
        if len(rows) < shots:
            raise DataError(
                f"the class {classes[place]!r} has {len(rows)} texts, {shots} examples are asked for; give "
                "fewer shots (few-shot can draw them --unbalanced)"
            )
    # One of each class after the other, so that the first examples are of all classes.
    return np.stack([rows[:shots] for rows in own], axis=1).ravel()


def draw_texts(rows: IntArray, size: int | None, rng: np.random.Generator) -> IntArray:
    """So many of the rows, or all of them where there are no more, ascending."""
    if size is None or size >= len(rows):
        return np.sort(rows)
    return np.sort(rng.permutation(rows)[:size])
