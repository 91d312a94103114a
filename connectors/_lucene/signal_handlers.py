"""Handlers of faults that one library needs and another one replaces."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ROOM = 512  # bytes; a struct sigaction has 152 on Linux, fewer elsewhere


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Put back the handlers of faults that the block replaces, where there were some.

    A Java virtual machine uses faults for null pointers and to pause threads; without its handlers the next
    one ends the process. Ray installs its own when it starts, and the system's when it is shut down. Python
    cannot read handlers that it has not set, but C can.
    """
    before = {}
    if os.name == "posix":
        sigaction = ctypes.CDLL(None).sigaction
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
            action = ctypes.create_string_buffer(_ROOM)
            # The handler is the first field; 0 is the system's.
            if sigaction(number, None, action) == 0 and any(action.raw[: ctypes.sizeof(ctypes.c_void_p)]):
                before[number] = action
    try:
        yield
    finally:
        for number, action in before.items():
            sigaction(number, action, None)
