"""Handlers of faults outlive a block that replaces them."""

import os
import subprocess
import sys

import pytest

# In a process of its own: pytest's has handlers already.
CODE = """
import ctypes, faulthandler, signal
from surprise_rerank.connectors._lucene.signal_handlers import kept_handlers

def handler():
    action = ctypes.create_string_buffer(512)
    ctypes.CDLL(None).sigaction(signal.SIGSEGV, None, action)
    return action.raw[: ctypes.sizeof(ctypes.c_void_p)]

nobodys = handler()
with kept_handlers():
    faulthandler.enable()
assert handler() != nobodys, "a new handler stays where there was none"
mine = handler()
for raised in (False, True):
    try:
        with kept_handlers():
            ctypes.CDLL(None).sigaction(signal.SIGSEGV, ctypes.create_string_buffer(512), None)
            assert handler() == nobodys
            if raised:
                raise ValueError
    except ValueError:
        pass
    assert handler() == mine
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such handlers")
def test_a_handler_that_the_block_replaces_is_put_back():
    done = subprocess.run([sys.executable, "-P", "-c", CODE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
