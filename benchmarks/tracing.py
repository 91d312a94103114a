"""What a span costs, of which a search has four: without OpenTelemetry, with its API alone, and with its SDK.

    python benchmarks/tracing.py

The SDK records every span and hands it to a processor that forgets it: what an exporter takes, it takes in a
thread of its own.
"""

from __future__ import annotations

import time

from machine import describe

from surprise_rerank.core.tracing import span

SPANS, ROUNDS = 1000, 9


def measure(kind: str) -> None:
    """Print the microseconds of the processor that a span takes as things are: the best of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(SPANS):
            with span("RERANKER", "one", {"reranker.top_k": 10}) as counts:
                counts["surprise_rerank.documents"] = 10
        taken.append(time.process_time() - begun)
    print(f"{kind}: {1e6 * min(taken) / SPANS:.1f} microseconds a span")


def main() -> None:
    """Measure, and import and set up what comes next."""
    print(describe("opentelemetry-api", "opentelemetry-sdk"))
    measure("without")
    from opentelemetry import trace

    measure("API")
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor())
    trace.set_tracer_provider(provider)
    measure("SDK")


if __name__ == "__main__":
    main()
