"""Changes to an index, one at a time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from surprise_rerank.connectors.qdrant.storage.base import Storage


class Changing(Protocol):
    """An object that several threads change.

    Attributes:
        changing: the lock that a change holds.
    """

    changing: threading.RLock

    @property
    def storage(self) -> Storage:
        """What is changed."""
        ...


C = TypeVar("C", bound=Changing)
P = ParamSpec("P")
T = TypeVar("T")


def exclusive(change: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], T]:
    """A method that waits for the other changes of its object."""

    @functools.wraps(change)
    def changed(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.changing, self.storage.engine.changing():
            return change(self, *args, **kwargs)

    return changed
