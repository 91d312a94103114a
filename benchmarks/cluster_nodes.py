"""The nodes of QDRANT_URL, and the commands by which a caller lets them be stopped and started.

    QDRANT_URL=http://localhost:6343,http://localhost:6353,http://localhost:6363
    QDRANT_STOP_NODE='docker compose --profile cluster kill qdrant-node-{node}'
    QDRANT_START_NODE='docker compose --profile cluster start qdrant-node-{node}'
    QDRANT_PAUSE_NODE='docker compose --profile cluster pause qdrant-node-{node}'
    QDRANT_RESUME_NODE='docker compose --profile cluster unpause qdrant-node-{node}'

`{node}` is the number of the address, from 1. Commands are run by a shell; they may be any that do so.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import httpx

Action = Literal["STOP", "START", "PAUSE", "RESUME"]
_COMMAND_SECONDS = 60
_ASKED_EVERY = 0.25


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """Nodes that can be stopped.

    Attributes:
        urls: of the nodes; requests prefer the first.
        commands: what stops, starts, pauses and resumes one.
    """

    urls: tuple[str, ...]
    commands: Mapping[Action, str]

    @classmethod
    def of_environment(cls) -> Self:
        """Those that the environment names.

        Raises:
            LookupError: if it names none, or lacks a command.
        """
        urls = tuple(url.strip() for url in os.environ.get("QDRANT_URL", "").split(",") if url.strip())
        if not urls:
            raise LookupError("no Qdrant cluster: set QDRANT_URL to its addresses, with commas between")
        commands = {action: os.environ.get(f"QDRANT_{action}_NODE", "") for action in get_args(Action)}
        missing = [f"QDRANT_{action}_NODE" for action, command in commands.items() if not command]
        if missing:
            raise LookupError(f"no command to stop or start a node: set {', '.join(missing)}")
        return cls(urls, commands)

    def run(self, action: Action, node: int) -> None:
        """Run a command on a node, by its number from 1.

        Raises:
            subprocess.CalledProcessError: if it fails.
        """
        command = self.commands[action].format(node=node)
        # What it starts in the background may keep its pipes open; nobody waits for these.
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, shell=True, check=True, timeout=_COMMAND_SECONDS, **streams)

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        """Wait until every node takes requests.

        Raises:
            TimeoutError: if one does not.
        """
        end = time.monotonic() + seconds
        for url in self.urls:
            while not _is_ready(url):
                _pause(end, f"{url} is not ready after {seconds:.0f} s")

    def wait_until_whole(self, prefix: str, seconds: float = 120.0) -> float:
        """Wait until every copy of every shard of some collections is active; returns how long it took.

        Args:
            prefix: of their names.
            seconds: how long at most.

        Raises:
            TimeoutError: if one is not.
        """
        begun = time.monotonic()
        for url in self.urls:
            while (states := _states(url, prefix)) != {"Active"}:
                _pause(begun + seconds, f"shards at {url} are {states} after {seconds:.0f} s")
        return time.monotonic() - begun


def _pause(end: float, otherwise: str) -> None:
    if time.monotonic() > end:
        raise TimeoutError(otherwise)
    time.sleep(_ASKED_EVERY)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _states(url: str, prefix: str) -> set[str]:
    """The states of all copies of shards of these collections, as one node knows them."""
    try:
        names = [found["name"] for found in _result(url, "/collections")["collections"]]
        spread = [_result(url, f"/collections/{n}/cluster") for n in names if n.startswith(prefix)]
    except (httpx.HTTPError, KeyError) as error:
        return {type(error).__name__}
    shards = [shard for own in spread for shard in (*own["local_shards"], *own["remote_shards"])]
    return {shard["state"] for shard in shards} | (
        {"moved"} if any(o["shard_transfers"] for o in spread) else set()
    )


def _result(url: str, path: str) -> dict[str, Any]:
    key = os.environ.get("QDRANT_API_KEY")
    answer = httpx.get(url + path, headers={"api-key": key} if key else {}, timeout=5)
    answer.raise_for_status()
    return dict(answer.json()["result"])
