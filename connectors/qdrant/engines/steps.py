"""What several readers ask an engine next, in one request.

A reader is a generator: it yields the requests that it can send now, is sent their records, and goes on until
it returns what it made of them. Readers that do not wait for each other are joined by `together`, so that all
of them take as many requests as the longest. On a server each saves the way there and back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from qdrant_client import models

from surprise_rerank.connectors.qdrant.engines.base import Consistency, Engine
from surprise_rerank.connectors.qdrant.schema import PointId, Record
from surprise_rerank.core.workers import in_thread

T = TypeVar("T")

# Requests out, the records of each in; what the reader returns.
Steps: TypeAlias = Generator[list[models.QueryRequest], list[list[Record]], T]


def ask(engine: Engine, steps: Steps[T], consistency: Consistency | None = None) -> T:
    """What a reader returns, with one request to the engine for each of its steps."""
    asked = _next(steps, None)
    while not isinstance(asked, _Found):
        asked = _next(steps, engine.query_batch(asked, consistency) if asked else [])
    return asked.value


async def aask(engine: Engine, steps: Steps[T], consistency: Consistency | None = None) -> T:
    """`ask` for an event loop: threads compute, and none waits for a server."""
    asked = await in_thread(_next, steps, None)
    while not isinstance(asked, _Found):
        answer = await engine.aquery_batch(asked, consistency) if asked else []
        asked = await in_thread(_next, steps, answer)
    return asked.value


@dataclass(frozen=True, slots=True)
class _Found(Generic[T]):
    value: T


def _next(steps: Steps[T], answer: list[list[Record]] | None) -> list[models.QueryRequest] | _Found[T]:
    """What a reader asks next, or what it returns."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as end:
        return _Found(end.value)


def together(*readers: Steps[Any]) -> Steps[list[Any]]:
    """What each of several readers returns; at every step, what all of them ask is one request."""
    results: list[Any] = [None] * len(readers)
    asked: dict[int, list[models.QueryRequest]] = {}

    def advance(i: int, answer: list[list[Record]] | None) -> None:
        try:
            asked[i] = next(readers[i]) if answer is None else readers[i].send(answer)
        except StopIteration as end:
            asked.pop(i, None)
            results[i] = end.value

    for i in range(len(readers)):
        advance(i, None)
    while asked:
        answers = iter((yield [request for own in asked.values() for request in own]))
        for i, own in list(asked.items()):
            advance(i, [next(answers) for _ in own])
    return results


def shard_keys(tenants: Iterable[str | None]) -> list[int | str] | None:
    """The shards of these tenants, for a request; None for all, as where tenants have none of their own."""
    found = dict.fromkeys(tenants)
    return None if None in found else [own for own in found if own is not None] or None


def points(
    ids: Sequence[PointId], fields: Sequence[str], tenants: Iterable[str | None] = ()
) -> models.QueryRequest:
    """A request for points by id, in any order; unknown ids are left out.

    Args:
        ids: of the points.
        fields: of the payload.
        tenants: in whose shards they are; in any where not given.
    """
    among = models.Filter(must=[models.HasIdCondition(has_id=list(ids))])
    return models.QueryRequest(
        filter=among, limit=max(len(ids), 1), with_payload=list(fields), shard_key=shard_keys(tenants)
    )
