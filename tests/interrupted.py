"""A command that gets Ctrl-C while it encodes."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import os, signal, sys
from surprise_rerank.eval.cli.surprise_rerank.main import main
from surprise_rerank.encoders.static import StaticEncoder
signal.signal(signal.SIGINT, signal.default_int_handler)
encode, calls = StaticEncoder.encode, []
def interrupted(*arguments, **options):
    calls.append(1)
    if len(calls) == int(os.environ["INTERRUPTED_AFTER"]): os.kill(os.getpid(), signal.SIGINT)
    return encode(*arguments, **options)
StaticEncoder.encode = interrupted
main()
"""


def interrupted(after: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `surprise-rerank`, and interrupt it before so many batches are encoded.

    Args:
        after: the batch, from 1.
        arguments: of the command; its model has word vectors.
    """
    return subprocess.run(
        [sys.executable, "-P", "-c", CODE, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "INTERRUPTED_AFTER": str(after)},
    )
