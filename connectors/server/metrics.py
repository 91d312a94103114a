"""What Prometheus reads of the server."""

from __future__ import annotations

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one application, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        route, status = ["route"], ["route", "status"]
        name = "surprise_rerank_{}".format
        self.requests = Counter(name("requests"), "Answered requests.", status, registry=own)
        self.seconds = Histogram(
            name("request_seconds"),
            "From a request's head to its end.",
            route,
            buckets=_SECONDS,
            registry=own,
        )
        self.documents = Counter(
            name("documents"), "Documents that were ranked or found.", route, registry=own
        )
        self.verdicts = Counter(name("verdicts"), "Questions by verdict.", status, registry=own)
        self.in_flight = Gauge(
            name("in_flight"), "Requests that are read, wait or are worked on.", registry=own
        )
        self.rejections = Counter(
            name("queue_rejections"), "Requests refused because of too many others.", registry=own
        )

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
