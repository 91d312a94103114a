"""Optional dependencies: one place that imports them, one message when they are missing."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from surprise_rerank.errors import MissingExtraError


def is_installed(module: str) -> bool:
    """Whether a top-level module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def pip_line(extra: str) -> str:
    """The command that installs an extra of this package."""
    return f"pip install 'surprise-rerank[{extra}]'"


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module of an extra of this package; a MissingExtraError with the pip line if it is missing."""
    top_level = module.partition(".")[0]
    if not is_installed(top_level):
        raise MissingExtraError(f"{top_level} is not installed: run {pip_line(extra)}")
    return importlib.import_module(module)
