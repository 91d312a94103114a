"""Calling a command's `main` in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest


def exit_code(main: Callable[[], object], program: str, *arguments: str | Path) -> int:
    """What a program exits with, called by this name and with these arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [program, *map(str, arguments)])
        try:
            main()
        except SystemExit as leaving:
            return int(leaving.code or 0)
    return 0
