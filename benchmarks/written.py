"""What callers of a served index meet while somebody adds documents to it.

    python benchmarks/written.py --index FOLDER --documents MORE.jsonl --seconds 60

Each caller asks for ten hits of a question from the documents' words, and the next one as soon as it has an
answer. Meanwhile a writer sends all documents (`"wait": false`, 1,000 a request), another one a document each
five seconds, which it waits for, and `/health` is asked ten times a second. They share the machine with the
server. The index is changed: give a copy (`surprise-rerank index --copy-of`).
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np
from load import Load, under_load
from machine import describe
from served import serving

from surprise_rerank.connectors.readers import open_documents

_PART, _HEALTH, _ONE = 1000, 0.1, 5.0  # documents of a request; seconds between two requests


class Server:
    """Requests to a server, timed; what it answers but 200 and 202 is counted."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.headers = url, {"Authorization": f"Bearer {token}"}

    def client(self) -> httpx.Client:
        """A client, for one thread."""
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=120)

    def metric(self, name: str) -> float:
        """A value of /metrics."""
        lines = httpx.get(f"{self.url}/metrics", headers=self.headers, timeout=60).text.splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def tried(send: Callable[[], httpx.Response]) -> str:
    """What went wrong with a request; nothing where it was answered."""
    try:
        answer = send()
    except httpx.HTTPError as error:
        return type(error).__name__
    return "" if answer.status_code in (200, 202) else str(answer.status_code)


def every(seconds: float, send: Callable[[], httpx.Response], stop: threading.Event, load: Load) -> None:
    """Send a request again and again, until somebody stops it."""
    while not stop.is_set():
        start = time.perf_counter()
        if wrong := tried(send):
            load.errors[wrong] += 1
        else:
            load.milliseconds.append(1000 * (time.perf_counter() - start))
        stop.wait(seconds)


def shares(load: Load) -> str:
    """Medians and the late ones."""
    late = np.quantile(load.milliseconds, (0.5, 0.95, 0.99)) if load.milliseconds else [np.nan] * 3
    values = " ".join(f"{name} {value:.0f}" for name, value in zip(("p50", "p95", "p99"), late, strict=True))
    return f"{len(load.milliseconds)} answers, {values} ms, failed {dict(load.errors) or 'none'}"


def asking(server: Server, texts: Sequence[str], number: int) -> Callable[[], str]:
    """What asks a caller's next question."""
    draw, client = random.Random(number), server.client()

    def ask() -> str:
        words = draw.choice(texts).split()
        start = draw.randrange(max(len(words) - 8, 1))
        question = " ".join(words[start : start + 8])
        return tried(lambda: client.post("/v1/search", json={"query": question, "top_k": 10}))

    return ask


def rows(path: Path) -> list[dict[str, Any]]:
    """Documents as a request has them."""
    return [
        {"id": d.id, "title": d.title, "text": d.text, "metadata": dict(d.metadata)}
        for d in open_documents(str(path))
    ]


@click.command()
@click.option("--index", required=True, help="A folder, or a collection's url; documents are added to it.")
@click.option("--documents", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--callers", default=100, show_default=True)
@click.option("--limit", default=600.0, show_default=True, help="Seconds after which jobs are left alone.")
def main(index: str, documents: Path, seconds: float, callers: int, limit: float) -> None:
    """Searches beside writes."""
    print(describe("torch", "openvino", "fastapi", "uvicorn", "qdrant-edge-py"))
    added, token = rows(documents), secrets.token_hex(16)
    texts = [row["text"] for row in added]
    begun = time.perf_counter()
    with serving("--index", index, token=token) as url:
        server = Server(url, token)
        print(f"ready after {time.perf_counter() - begun:.1f} s")
        ask = lambda number: asking(server, texts, number)  # noqa: E731
        memory = lambda: server.metric("process_resident_memory_bytes") / 2**20  # noqa: E731

        def one(client: httpx.Client) -> httpx.Response:
            row = {**added[0], "id": f"one-{secrets.token_hex(8)}"}
            return client.put("/v1/documents", json={"documents": [row]})

        print(f"memory {memory():.0f} MiB")
        alone, client = Load(), server.client()
        for _ in range(5):
            start = time.perf_counter()
            one(client).raise_for_status()
            alone.milliseconds.append(1000 * (time.perf_counter() - start))
        print(f"PUT of one, alone: {shares(alone)}", flush=True)
        print(f"one caller: {shares(under_load(ask, 1, min(seconds, 10)))}", flush=True)

        stop, health, single = threading.Event(), Load(), Load()
        get = server.client()
        watchers = [
            threading.Thread(target=every, args=(_HEALTH, lambda: get.get("/health"), stop, health)),
            threading.Thread(target=every, args=(_ONE, lambda: one(client), stop, single)),
        ]
        jobs, refused = list[str](), Counter[str]()

        def write() -> None:
            writer = server.client()
            for at in range(0, len(added), _PART):
                answer = writer.put(
                    "/v1/documents", json={"documents": added[at : at + _PART], "wait": False}
                )
                if answer.status_code == 202:
                    jobs.append(answer.headers.get("location") or f"/v1/jobs/{answer.json()['id']}")
                else:
                    refused[str(answer.status_code)] += 1

        writing = threading.Thread(target=write)
        begun = time.perf_counter()
        for thread in (*watchers, writing):
            thread.start()
        load = under_load(ask, callers, seconds)
        stop.set()
        for thread in (*watchers, writing):
            thread.join()

        def states() -> tuple[Counter[str], int]:
            answers = [client.get(job).json() for job in jobs]
            stored = sum(job.get("added", 0) + job.get("updated", 0) for job in answers)
            return Counter(str(job["state"]) for job in answers), stored

        state, stored = states()
        print(f"{callers} callers: {len(load.milliseconds) / load.seconds:.1f} a second, {shares(load)}")
        print(f"/health: {shares(health)}")
        print(f"PUT of one, meanwhile: {shares(single)}")
        print(
            f"jobs {dict(state)}, refused {dict(refused) or 'none'}, {stored} of {len(added)} stored, ",
            end="",
        )
        print(f"memory {memory():.0f} MiB", flush=True)
        while state["waiting"] + state["running"] and time.perf_counter() < begun + limit:
            time.sleep(1)
            state, stored = states()
        print(f"jobs {dict(state)}, {stored} stored after {time.perf_counter() - begun:.0f} s, ", end="")
        print(f"memory {memory():.0f} MiB")


if __name__ == "__main__":
    main()
