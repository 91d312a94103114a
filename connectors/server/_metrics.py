"""What Prometheus reads of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surprise_rerank._answers import Answer
from surprise_rerank.thresholds._background import QuestionBackground

_SIZES = (1, 10, 50, 100, 200, 500, 1000, 5000)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one application, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        def metric(kind: Any, name: str, says: str, labels: str = "", **more: Any) -> Any:
            return kind(f"surprise_rerank_{name}", says, labels.split(), registry=self.registry, **more)

        self.requests = metric(Counter, "requests", "Answered requests.", "route status")
        seconds = "From a request's head to its end."
        self.seconds = metric(Histogram, "request_seconds", seconds, "route", buckets=_SECONDS)
        self.documents = metric(Counter, "documents", "Documents that were ranked or found.", "route")
        self.verdicts = metric(Counter, "verdicts", "Questions by verdict.", "route status")
        self.in_flight = metric(Gauge, "in_flight", "Requests that are read, wait or are worked on.")
        refused = "Requests refused because of too many others."
        self.rejections = metric(Counter, "queue_rejections", refused)
        stages = "Of a question: encoding, retrieval (asking Qdrant) and re-ranking."
        self.stages = metric(Histogram, "stage_seconds", stages, "route stage", buckets=_SECONDS)
        self.pools = metric(Histogram, "pool_size", "Candidates of a question.", "route", buckets=_SIZES)
        self.model = metric(Gauge, "model_info", "What is served; the value is 1.", "model system version")
        stale = "Whether a background must be measured again."
        self.stale = metric(Gauge, "background_stale", stale, "system")
        changed = "Documents that came or went since."
        self.changed = metric(Gauge, "background_changed_documents", changed, "system")

    def note(self, route: str, answer: Answer) -> None:
        """Count what an answer took, and how large its pool was."""
        for stage, seconds in answer.seconds.items():
            self.stages.labels(route, stage).observe(seconds)
        self.pools.labels(route).observe(len(answer.pool))

    def show_backgrounds(self, backgrounds: Mapping[str, QuestionBackground]) -> None:
        """Show how stale the backgrounds of systems are."""
        self.stale.clear()
        self.changed.clear()
        for system, background in backgrounds.items():
            self.stale.labels(system).set(bool(background.staleness))
            self.changed.labels(system).set(background.changed)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
