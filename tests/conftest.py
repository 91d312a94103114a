"""Fixtures that tests share."""

from __future__ import annotations

import os
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
