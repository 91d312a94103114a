"""Handlers of faults that one library needs and another one replaces."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_FAULTS = tuple(
    getattr(signal, name) for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)
)

_ROOM = 512  # bytes; a struct sigaction has 152 on Linux, fewer elsewhere


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Put back the handlers of faults that the block replaces.

    A Java virtual machine, such as Pyserini's, uses faults for null pointers and to pause threads. Without
    its handlers the next fault ends the process. Ray installs handlers of
    its own when it starts, and the system's when it is shut down. Python cannot read handlers that it has not
    set, but C can. Nothing is put back where there was no handler, or on Windows.
    """
    if os.name != "posix":
        yield
        return
    sigaction = ctypes.CDLL(None).sigaction
    before = {}
    for number in _FAULTS:
        action = ctypes.create_string_buffer(_ROOM)
        # The handler is the first field; 0 is the system's.
        if sigaction(number, None, action) == 0 and any(action.raw[: ctypes.sizeof(ctypes.c_void_p)]):
            before[number] = action
    try:
        yield
    finally:
        for number, action in before.items():
            sigaction(number, action, None)
