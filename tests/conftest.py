"""Fixtures that tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of test data that lies beside the project, not in it."""
    default = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SURPRISE_RERANK_SHARED", default)) / "data"
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set SURPRISE_RERANK_SHARED to the folder that holds data/")
    return folder


@pytest.fixture
def ir_datasets_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """A function that gives ir_datasets a home; it reads part of that at import, so it is imported again."""

    def loaded() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] == "ir_datasets"]

    def move(home: Path) -> None:
        monkeypatch.setenv("IR_DATASETS_HOME", str(home))
        for name in loaded():
            monkeypatch.delitem(sys.modules, name)

    yield move
    for name in loaded():
        del sys.modules[name]
