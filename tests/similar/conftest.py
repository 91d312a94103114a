"""A Ray of this machine's own, for all tests of the room."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from surprise_rerank.connectors.similar import RayCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """Ray on this machine, with two workers, which can import what tests define."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        environment.setenv("RAY_memory_monitor_refresh_ms", "0")
        environment.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]))
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            object_store_memory=200 * 2**20,
            _temp_dir=tempfile.mkdtemp(prefix="ray-"),  # short: the paths of its sockets have a limit
            log_to_driver=False,
        )
        yield RayCluster(workers=2)
        ray.shutdown()
