"""What Prometheus reads of the server."""

from __future__ import annotations

from collections.abc import Set


class Metrics:
    """Counters of one application, in a registry of their own.

    Requests to paths that the application does not have are counted together, as `other`.

    Args:
        routes: the paths that it has.
    """

    def __init__(self, routes: Set[str]) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        self.routes = routes
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "surprise_rerank_requests", "Answered requests.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "surprise_rerank_request_seconds",
            "From a request's head to the end of its answer.",
            ["route"],
            registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
        )
        self.documents = Counter(
            "surprise_rerank_documents",
            "Documents that were ranked or found.",
            ["route"],
            registry=self.registry,
        )
        self.verdicts = Counter(
            "surprise_rerank_verdicts",
            "Questions by the status of their verdict.",
            ["route", "status"],
            registry=self.registry,
        )
        self.batches = Histogram(
            "surprise_rerank_questions_together",
            "Questions that were encoded in one batch.",
            registry=self.registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
        )
        self.in_flight = Gauge(
            "surprise_rerank_in_flight",
            "Requests that are read, wait or are worked on.",
            registry=self.registry,
        )
        self.rejections = Counter(
            "surprise_rerank_queue_rejections",
            "Requests that were refused because of too many concurrent ones.",
            registry=self.registry,
        )

    def route(self, path: str) -> str:
        """The label of a path."""
        return path if path in self.routes else "other"

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    @property
    def content_type(self) -> str:
        """Of `text`."""
        from prometheus_client import CONTENT_TYPE_LATEST

        return CONTENT_TYPE_LATEST
