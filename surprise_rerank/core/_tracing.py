"""Spans for OpenTelemetry: what a search did, how much of it and how long, and never a text.

Names and kinds are OpenInference's (`embedding.model_name`, `reranker.top_k`); what it has no name for begins
with `surprise_rerank.`. Questions, documents, ids and messages of errors may be somebody's words, so none of
them is in a span. Nothing is imported here: whoever records spans has loaded OpenTelemetry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["CHAIN", "EMBEDDING", "RERANKER", "RETRIEVER"]
Known: TypeAlias = Mapping[str, int | str | None]
Counts: TypeAlias = dict[str, int | float | str]


@contextmanager
def span(kind: Kind, name: str, attributes: Known) -> Iterator[Counts]:
    """Record what happens in the block, where somebody records; an error by its class alone.

    `known` are attributes that are known before; None is left out. Yields a dictionary for those that are
    known at the end.
    """
    counts: Counts = {}
    if "opentelemetry.trace" not in sys.modules:
        yield counts
        return
    from opentelemetry import trace

    first = {key: value for key, value in attributes.items() if value is not None}
    with trace.get_tracer("surprise-rerank").start_as_current_span(
        name,
        attributes={"openinference.span.kind": kind, **first},
        record_exception=False,
        set_status_on_exception=False,
    ) as recorded:
        try:
            yield counts
        except BaseException as error:
            recorded.set_attribute("error.type", type(error).__name__)
            recorded.set_status(trace.StatusCode.ERROR)
            raise
        finally:
            recorded.set_attributes(counts)


@contextmanager
def continuing(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[None]:
    """Make the spans of the block children of the one that a request's header `traceparent` names.

    Where an instrumentation of the web framework has begun a span already, they are children of that one.
    """
    if "opentelemetry.trace" not in sys.modules:
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
