"""What Prometheus reads of the server."""

from __future__ import annotations

from collections.abc import Mapping

from surprise_rerank.answers import Answer
from surprise_rerank.thresholds.background import QuestionBackground

_SIZES = (1, 10, 50, 100, 200, 500, 1000, 5000)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one application, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        route, status = ["route"], ["route", "status"]
        name = "surprise_rerank_{}".format
        self.requests = Counter(name("requests"), "Answered requests.", status, registry=registry)
        self.seconds = Histogram(
            name("request_seconds"),
            "From a request's head to its end.",
            route,
            buckets=_SECONDS,
            registry=registry,
        )
        self.documents = Counter(
            name("documents"), "Documents that were ranked or found.", route, registry=registry
        )
        self.verdicts = Counter(name("verdicts"), "Questions by verdict.", status, registry=registry)
        self.in_flight = Gauge(
            name("in_flight"), "Requests that are read, wait or are worked on.", registry=registry
        )
        self.rejections = Counter(
            name("queue_rejections"), "Requests refused because of too many others.", registry=registry
        )

        self.stages = Histogram(
            name("stage_seconds"),
            "Of a question: encoding, retrieval (asking Qdrant) and re-ranking.",
            ["route", "stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.pools = Histogram(
            name("pool_size"), "Candidates of a question.", route, buckets=_SIZES, registry=registry
        )
        model = ["model", "system", "version"]
        self.model = Gauge(name("model_info"), "What is served; the value is 1.", model, registry=registry)
        kept = ["system"]
        self.stale = Gauge(
            name("background_stale"), "Whether a background must be measured again.", kept, registry=registry
        )
        self.changed = Gauge(
            name("background_changed_documents"),
            "Documents that came or went since.",
            kept,
            registry=registry,
        )

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
