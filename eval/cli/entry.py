"""The two commands as they are installed: Ctrl-C is one line, from the first import to the last thread."""

import io
import os
import signal
import sys
from types import FrameType

# gRPC writes lines of its own about handshakes, before ours.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# Nothing heavy before this: an interruption of an import that has no handler is a stack trace.


def surprise_rerank() -> None:
    """Run `surprise-rerank`."""
    _run("surprise_rerank")


def rerank_eval() -> None:
    """Run `rerank-eval`."""
    _run("rerank_eval")


def _run(name: str) -> None:
    _open_streams()
    # Who started this may have switched interruptions off, as `nohup` and shells do for what runs behind.
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _leave)
    from importlib import import_module

    main = import_module(f"surprise_rerank.eval.cli.{name}.main").main
    interrupt = import_module("surprise_rerank.eval.cli.exits").interrupt
    try:
        if is_ours:
            signal.signal(signal.SIGINT, interrupt)
        main()
    except KeyboardInterrupt:
        _leave(signal.SIGINT, None)
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, _leave)


def _open_streams() -> None:
    """Make what a shell closed (`>&-`) a place where nothing comes from or goes to; write what is no letter.

    A file of an index would get the number of the stream that is closed, and what is printed. An encoding
    that has no letter for a text is no reason to stop in the middle of the results.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the process lives
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave at once: nothing is held that an end would have to put right."""
    os.write(2, b"\nInterrupted.\n" if os.isatty(2) else b"Interrupted.\n")
    os._exit(130)
