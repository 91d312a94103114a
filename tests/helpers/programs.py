"""Programs: a command that is called in this process, and others that use an index.

The others are forked from one that has imported what they need.

Arrow is imported after a fork, if at all: its allocator has a thread, and a child can hang for ever.
"""

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Self

import pytest

from surprise_rerank import StoreError

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["pytest", "surprise_rerank.connectors._document_index"])


class Program:
    """Work in a process of its own, which says things; at the end it is told to end."""

    def __init__(self, work: Callable[Concatenate[Connection, ...], None], *arguments: Any) -> None:
        self._said, theirs = _FORKS.Pipe()
        self._process = _FORKS.Process(target=_run, args=(theirs, work, *arguments), daemon=True)
        self._process.start()
        theirs.close()
        assert self.said() == "begun"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.end()
        self._process.join(60)

    def said(self) -> str:
        """What it says next; nothing where it has ended."""
        assert self._said.poll(60), "it is silent"
        try:
            return str(self._said.recv())
        except EOFError:
            return ""

    def end(self) -> None:
        """Tell it to end, which takes a moment."""
        if self._process.is_alive():
            self._said.send("end")

    def kill(self) -> list[str]:
        """Kill it; what it has said by then."""
        self._process.kill()
        self._process.join()
        return list(iter(self.said, ""))


def _run(parent: Connection, work: Callable[..., None], *arguments: Any) -> None:
    parent.send("begun")
    try:
        work(parent, *arguments)
    except StoreError as error:
        parent.send(f"refused: {error}")


def exit_code(main: Callable[[], object], program: str, *arguments: str | Path) -> int:
    """What a program exits with, called by this name and with these arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [program, *map(str, arguments)])
        try:
            main()
        except SystemExit as leaving:
            return int(leaving.code or 0)
    return 0
