"""What spans cost a search: without OpenTelemetry, with its API alone, and with its SDK.

    python benchmarks/tracing.py --dataset beir/scifact --index FOLDER

The three take turns in one process, question by question. The SDK records every span and hands it to a
processor that forgets it: what an exporter takes, it takes in a thread of its own.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from machine import describe, interleaved
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import NoOpTracerProvider, Tracer

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.core import tracing
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

SYSTEMS = ("cosine", "fusion", "auto")


def main() -> None:
    """Search with each of the three, and time a span alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--index", type=Path, help="one that exists")
    given = parser.parse_args()
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor())
    kinds: dict[str, Tracer | None] = {
        "without": None,
        "API": NoOpTracerProvider().get_tracer("surprise-rerank"),
        "SDK": provider.get_tracer("surprise-rerank"),
    }
    print(describe("opentelemetry-api", "opentelemetry-sdk"))

    def one(tracer: Tracer | None) -> None:
        tracing._tracer = lambda: tracer
        for _ in range(1000):
            with tracing.span("RERANKER", "one", {"reranker.top_k": 10}) as counts:
                counts["surprise_rerank.documents"] = 10

    times = interleaved([lambda t=tracer: one(t) for tracer in kinds.values()], 9)
    shown = [f"{kind} {1000 * median:.1f}" for kind, (_, median) in zip(kinds, times, strict=True)]
    print(f"microseconds of one span: {', '.join(shown)}")
    encoder, dataset = load_encoder(given.model), load_dataset(given.dataset)
    with (
        tempfile.TemporaryDirectory() as folder,
        DocumentIndex.open(given.index or Path(folder) / "index", encoder) as index,
    ):
        if given.index is None:
            index.sync(dataset.documents, background=False)
        for name in SYSTEMS:
            pipeline = index.pipeline(name)
            ratios, milliseconds = [], []
            for question in list(dataset.queries.values())[: given.questions]:

                def search(tracer: Tracer | None, question: str = question) -> None:
                    tracing._tracer = lambda: tracer
                    pipeline.search(question)  # noqa: B023 - called before the next one is made

                found = interleaved([lambda t=t, s=search: s(t) for t in kinds.values()], given.rounds)
                medians = np.array([median for _, median in found])
                milliseconds.append(1000 * medians)
                ratios.append(medians / medians[0])
            of, ms = np.median(ratios, axis=0), np.median(milliseconds, axis=0)
            print(
                f"{name:8}",
                *(f"{kind} {m:.2f} ms ({r:.3f})" for kind, m, r in zip(kinds, ms, of, strict=True)),
            )


if __name__ == "__main__":
    main()
