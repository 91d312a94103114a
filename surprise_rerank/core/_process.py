"""What belongs to one process: connections, compiled models, locks. No fork and no pickle carries it."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, Protocol, Self, TypeVar

from surprise_rerank._errors import DataError

T = TypeVar("T")
_OF_IMPORT = os.getpid()
_torch = threading.local()  # `limited_in`: the process in which this thread of torch was limited


class ForkedResource(Protocol):
    """A resource that a forked process must replace before it can use it, such as a lock."""

    def leave_behind(self) -> None:
        """Begin anew; called in the forked process before anything else, in its only thread."""


_inherited: weakref.WeakSet[ForkedResource] = weakref.WeakSet()


def at_fork(resource: ForkedResource) -> None:
    """Call the resource's `leave_behind` in every process that is forked while the resource exists."""
    _watch()
    _inherited.add(resource)


@cache
def _watch() -> None:
    """Look out for forks, from the first resource on."""

    def leave_behind() -> None:
        for resource in list(_inherited):
            resource.leave_behind()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=leave_behind)


def never_freed(value: object) -> None:
    """Keep an object until the process ends without its destructor, which waits for threads of the parent."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


class NeverCopied:
    """A mixin: a copy, deep or not, is the object itself, as of something that is open once."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class _ProcessValue(Generic[T]):
    """The value of one process, once it is there."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.values: list[T] = []


class PerProcess(NeverCopied, Generic[T]):
    """A value that every process opens for itself when it first asks. Threads and copies share it.

    What a forked process inherits is kept, but neither used nor closed: its threads are not there, its
    connections are the parent's, and its lock may be held by a thread that is not there. A pickle carries
    only the function that opens it.
    """

    def __init__(self, opens: Callable[[], T]) -> None:
        self._opens = opens
        self._of_process: dict[int, _ProcessValue[T]] = {}

    def get(self) -> T:
        """Return this process' value."""
        process = os.getpid()
        opened = self._of_process.get(process) or self._of_process.setdefault(process, _ProcessValue())
        if not opened.values:
            with opened.lock:
                if not opened.values:
                    opened.values.append(self._opens())
                    at_fork(self)
        return opened.values[0]

    @property
    def is_open(self) -> bool:
        """Whether this process has opened it."""
        opened = self._of_process.get(os.getpid())
        return opened is not None and bool(opened.values)

    def leave_behind(self) -> None:
        """Never free what the parent has opened."""
        for opened in self._of_process.values():
            never_freed(opened)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._opens,)


class SharedByCopies:
    """A mixin: a copy, deep or not, is an object of its own that shares everything that this one holds."""

    def __copy__(self) -> Self:
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()


def limit_torch() -> None:
    """In a forked process: let torch multiply with one thread, for this thread of Python.

    The threads of OpenMP that the parent's operations began are not in the child, which would wait for them
    for ever. In other processes nothing changes.
    """
    process = os.getpid()
    if process == _OF_IMPORT or "torch" not in sys.modules or getattr(_torch, "limited_in", 0) == process:
        return
    sys.modules["torch"].set_num_threads(1)
    _torch.limited_in = process


def require_no_secret(secret: str | None, variable: str, of: str) -> None:
    """Refuse, by a DataError, to pickle a key that is not the environment's, where it is looked for again."""
    if secret and secret != os.environ.get(variable):
        raise DataError(
            f"{of} was given a key, which is not written into a pickle; set the environment variable "
            f"{variable} in both processes instead"
        )
