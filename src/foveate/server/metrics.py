"""Metrics of the server in the Prometheus text format."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
HELP = {
    "foveate_requests_total": "Requests by route, method and status.",
    "foveate_request_seconds": "Seconds until the first byte of the answer, by route.",
    "foveate_requests_in_progress": "Requests in progress.",
    "foveate_events_total": "Events by kind.",
    "foveate_events_dropped_total": "Events lost because the server fell behind.",
    "foveate_sessions": "Sessions in the store.",
    "foveate_queue_sessions": "Sessions with work for a worker.",
    "foveate_queue_model_turns": "Turns that are due for a model.",
    "foveate_queue_waited_seconds": "Waiting time of the oldest turn that is due for a model.",
    "foveate_turns_in_progress": "Turns that workers have leased.",
    "foveate_leases_expired": "Turns with an expired lease; another worker claims them.",
    "foveate_turns_parked": "Turns that are no longer retried.",
}
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Histogram:
    """Observations by bucket, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_SECONDS) + 1))
    total: float = 0.0


class Metrics:
    """The counters of one server process."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter[Labels]] = defaultdict(Counter)
        self._histograms: dict[str, dict[Labels, _Histogram]] = defaultdict(dict)
        self._gauges: dict[str, float] = {}
        self.running = 0

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter; labels must have few different values."""
        self._counters[name][tuple(sorted(labels.items()))] += amount  # type: ignore[assignment]

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        found = self._histograms[name].setdefault(tuple(sorted(labels.items())), _Histogram())
        found.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        found.total += seconds

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._gauges[name] = value

    def render(self) -> str:
        """Return all metrics as text."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        gauges: Mapping[str, float] = {**self._gauges, "foveate_requests_in_progress": self.running}
        for name, value in sorted(gauges.items()):
            yield from _head(name, "gauge")
            yield f"{name} {value:g}"
        for name, counted in sorted(self._counters.items()):
            yield from _head(name, "counter")
            for labels, amount in sorted(counted.items()):
                yield f"{name}{_written(labels)} {amount:g}"
        for name, found in sorted(self._histograms.items()):
            yield from _head(name, "histogram")
            for labels, histogram in sorted(found.items()):
                yield from _buckets(name, labels, histogram)


class MetricsMiddleware:
    """Counts requests, and measures the time until the answer begins."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        metrics = self._metrics

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = route_of(scope)
                metrics.observe("foveate_request_seconds", time.perf_counter() - began, route=route)
                metrics.count(
                    "foveate_requests_total", route=route, method=method_of(scope), status=str(message["status"])
                )
            await send(message)

        metrics.running += 1
        try:
            await self._app(scope, receive, watched)
        finally:
            metrics.running -= 1


def route_of(scope: Scope) -> str:
    """Return the route's template, not the path, which has ids and so too many values."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "other"


def method_of(scope: Scope) -> str:
    """Return the method; `other` for an unknown one, which may be any text."""
    method: str = scope["method"]
    return method if method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS") else "other"


def _head(name: str, kind: str) -> Iterator[str]:
    if name in HELP:
        yield f"# HELP {name} {HELP[name]}"
    yield f"# TYPE {name} {kind}"


def _buckets(name: str, labels: Labels, histogram: _Histogram) -> Iterator[str]:
    total = 0
    for limit, count in zip((*BUCKETS_SECONDS, None), histogram.counts, strict=True):
        total += count
        edge = "+Inf" if limit is None else f"{limit:g}"
        yield f"{name}_bucket{_written((*labels, ('le', edge)))} {total}"
    yield f"{name}_sum{_written(labels)} {histogram.total:.6f}"
    yield f"{name}_count{_written(labels)} {total}"


def _written(labels: Labels) -> str:
    if not labels:
        return ""
    shown = (f'{key}="{_escaped(value)}"' for key, value in labels)
    return f"{{{','.join(shown)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
