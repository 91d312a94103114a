"""Waiting for a server that builds its graphs."""

from __future__ import annotations

import time
from collections.abc import Callable

from qdrant_client import models

from surprise_rerank.errors import StoreError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two looks at a collection that is indexed


def wait_until_indexed(
    look: Callable[[], models.CollectionInfo],
    resume: Callable[[], object],
    where: str,
    advance: Callable[[int], None],
    *,
    patience: float,
    pause: float = _FIRST_PAUSE,
) -> None:
    """Wait until a server has built its graphs.

    Args:
        look: at the collection.
        resume: makes the server continue, where it waits for a request to.
        where: the place, for messages.
        advance: called with the number of vectors that were indexed since the last call.
        patience: seconds without a change until this gives up.
        pause: seconds between the first two looks.

    Raises:
        StoreError: if the server cannot build them, or nothing changes for so long.
    """
    indexed, changed, was_green = 0, time.monotonic(), False
    while True:
        info = look()
        now = info.indexed_vectors_count or 0
        if now > indexed:
            advance(now - indexed)
            indexed, changed = now, time.monotonic()
        match info.status:
            case models.CollectionStatus.RED:
                raise StoreError(
                    f"{where}: the server cannot index it: {_reason(info)}; see the server's log"
                )
            case models.CollectionStatus.GREY:
                resume()
        # A server notices what it has to index a moment after it was written.
        is_green = info.status == models.CollectionStatus.GREEN
        if is_green and was_green:
            return
        was_green = is_green
        if time.monotonic() - changed > patience:
            raise StoreError(
                f"{where}: no more than {indexed:,} of {info.points_count or 0:,} vectors are indexed, and "
                f"none was added for {patience:.0f} s; see the server's log, then run again: it goes on"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _reason(info: models.CollectionInfo) -> str:
    status = info.optimizer_status
    error = status.error if isinstance(status, models.OptimizersStatusOneOf1) else "it gives no reason"
    return " ".join(error.split())[:200]
