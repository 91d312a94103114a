"""The nodes of QDRANT_URL, and the commands by which a caller lets them be stopped and started.

    QDRANT_URL=http://localhost:6343,http://localhost:6353,http://localhost:6363
    QDRANT_STOP_NODE='docker compose --profile cluster kill qdrant-node-{node}'
    QDRANT_START_NODE, QDRANT_PAUSE_NODE, QDRANT_RESUME_NODE        likewise: start, pause, unpause

`{node}` is the number of the address, from 1. Commands are run by a shell; they may be any that do so.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, get_args

import httpx

Action: TypeAlias = Literal["STOP", "START", "PAUSE", "RESUME"]


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """Addresses of nodes, the preferred one first, and what stops, starts, pauses and resumes one."""

    urls: tuple[str, ...]
    commands: Mapping[Action, str]

    @classmethod
    def of_environment(cls) -> Self:
        """Those that the environment names; a LookupError if it names none, or lacks a command."""
        urls = tuple(url.strip() for url in os.environ.get("QDRANT_URL", "").split(",") if url.strip())
        if not urls:
            raise LookupError("no Qdrant cluster: set QDRANT_URL to its addresses, with commas between")
        commands = {action: os.environ.get(f"QDRANT_{action}_NODE", "") for action in get_args(Action)}
        missing = [f"QDRANT_{action}_NODE" for action, command in commands.items() if not command]
        if missing:
            raise LookupError(f"no command to stop or start a node: set {', '.join(missing)}")
        return cls(urls, commands)

    def run(self, action: Action, node: int) -> None:
        """Run a command on a node, by its number from 1; a CalledProcessError if it fails."""
        # What it starts in the background may keep its pipes open; nobody waits for these.
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        command = self.commands[action].format(node=node)
        subprocess.run(command, shell=True, check=True, timeout=60, **streams)

    def wait_until_ready(self) -> None:
        """Wait until every node takes requests; a TimeoutError after a minute."""
        end = time.monotonic() + 60
        for url in self.urls:
            while not _is_ready(url):
                _pause(end, f"{url} is not ready")

    def wait_until_whole(self, prefix: str) -> None:
        """Wait until every copy of every shard of collections is active; a TimeoutError after two minutes."""
        end = time.monotonic() + 120
        for url in self.urls:
            while (states := _states(url, prefix)) != {"Active"}:
                _pause(end, f"shards at {url} are {states}")


def _pause(end: float, otherwise: str) -> None:
    if time.monotonic() > end:
        raise TimeoutError(otherwise)
    time.sleep(0.25)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _states(url: str, prefix: str) -> set[str]:
    """The states of all copies of shards of these collections, as one node knows them."""
    try:
        names = [collection["name"] for collection in _result(url, "/collections")["collections"]]
        spread = [_result(url, f"/collections/{n}/cluster") for n in names if n.startswith(prefix)]
    except (httpx.HTTPError, KeyError) as error:
        return {type(error).__name__}
    shards = [shard for cluster in spread for shard in (*cluster["local_shards"], *cluster["remote_shards"])]
    moved = {"moved"} if any(cluster["shard_transfers"] for cluster in spread) else set()
    return {shard["state"] for shard in shards} | moved


def _result(url: str, path: str) -> dict[str, Any]:
    key = os.environ.get("QDRANT_API_KEY")
    answer = httpx.get(url + path, headers={"api-key": key} if key else {}, timeout=5)
    answer.raise_for_status()
    return dict(answer.json()["result"])
