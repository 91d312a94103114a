"""What Prometheus reads of the server."""

from __future__ import annotations

from collections.abc import Set

from surprise_rerank.thresholds.background import QuestionBackground
from surprise_rerank.thresholds.monitor import BackgroundMonitor
from surprise_rerank.thresholds.verdicts import OFF_TOPIC

# What gauges show of the questions of a route: the attribute of `Traffic`, and what it is.
_TRAFFIC = {
    "asked": "Questions that the following are about, the last ones with a surprise.",
    "passed": "How many of them passed at the server's least surprise.",
    "off_topic": "The estimated share of off-topic questions (Storey).",
    "wrong": "The share of questions that is expected to pass although it is off-topic.",
    "drift": "1 where off-topic questions find more than the background's, -1 where less, else 0.",
}


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
            "Questions that were answered, weak, or off-topic.",
            ["route", "status"],
            registry=self.registry,
        )
        self.monitors: dict[str, BackgroundMonitor] = {}
        self._traffic = {
            name: Gauge(f"surprise_rerank_traffic_{name}", what, ["route"], registry=self.registry)
            for name, what in _TRAFFIC.items()
        }
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

    def monitor(
        self, route: str, background: QuestionBackground, min_surprise: float | None
    ) -> BackgroundMonitor:
        """What watches the questions of a route, by the server's own least surprise."""
        if route not in self.monitors:
            least = OFF_TOPIC if min_surprise is None else min_surprise
            self.monitors[route] = BackgroundMonitor(background.effective, 1 - least)
        return self.monitors[route]

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        from prometheus_client import generate_latest

        for route, monitor in self.monitors.items():
            traffic = monitor.traffic()
            for name, gauge in self._traffic.items():
                gauge.labels(route).set(getattr(traffic, name))
        return generate_latest(self.registry)

    @property
    def content_type(self) -> str:
        """Of `text`."""
        from prometheus_client import CONTENT_TYPE_LATEST

        return CONTENT_TYPE_LATEST
