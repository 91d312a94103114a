"""Spans for OpenTelemetry: what a search did, how much of it and how long, and never a text.

Names and kinds are those of OpenInference: `openinference.span.kind`, `embedding.model_name`,
`reranker.model_name` and `reranker.top_k`. What it has no name for begins with `surprise_rerank.`. Questions,
documents, their ids and the messages of errors may be somebody's words, so none of them is in a span.

Nothing is imported here. Whoever records spans has set up a provider, and has loaded OpenTelemetry for that;
in a process that did not, a span is a look into a dictionary.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

Kind: TypeAlias = Literal["CHAIN", "EMBEDDING", "RERANKER", "RETRIEVER"]
Known: TypeAlias = Mapping[str, int | str | None]
Counts: TypeAlias = dict[str, int | float | str]

_NAME = "surprise-rerank"


@contextmanager
def span(kind: Kind, name: str, known: Known) -> Iterator[Counts]:
    """Record what happens in the block, where somebody records; names are few, kinds are OpenInference's.

    `known` are attributes that are known before: counts, and names of models and classes; None is left out.
    Yields a dictionary for those that are known at the end. An error goes on its way, and the span has its
    class alone (`error.type`).
    """
    found: Counts = {}
    tracer = _tracer()
    if tracer is None:
        yield found
        return
    from opentelemetry.trace import Status, StatusCode

    first = {key: value for key, value in known.items() if value is not None}
    start = time.perf_counter()
    with tracer.start_as_current_span(
        name,
        attributes={"openinference.span.kind": kind, **first},
        record_exception=False,
        set_status_on_exception=False,
    ) as recorded:
        try:
            yield found
        except BaseException as error:
            recorded.set_attribute("error.type", type(error).__name__)
            recorded.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            # A span's own beginning and end are of the clock, which may be set meanwhile.
            found["surprise_rerank.milliseconds"] = 1000 * (time.perf_counter() - start)
            recorded.set_attributes(found)


@contextmanager
def continuing(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
    """Make the spans of the block children of the one that a request's headers name in W3C's `traceparent`.

    Where an instrumentation of the web framework has begun a span already, they are children of that one.
    """
    if _tracer() is None:
        yield
        return
    from opentelemetry import context, propagate, trace

    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


def _tracer() -> Tracer | None:
    return _loaded_tracer() if "opentelemetry.trace" in sys.modules else None


@cache
def _loaded_tracer() -> Tracer:
    import importlib.metadata

    from opentelemetry import trace

    return trace.get_tracer(_NAME, importlib.metadata.version(_NAME))
