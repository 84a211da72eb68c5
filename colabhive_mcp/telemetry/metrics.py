"""Events as Prometheus metrics: what is counted, under which names, and how a scrape reads it.

One table holds every metric of ours. Each label has a closed set of values, and any other word counts as ``other``: a
scrape stays small, and never shows a tool's name, a key or a tenant. It must not know who records, or how a scrape is
asked for.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import product
from typing import Any, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.openmetrics import exposition as openmetrics

from colabhive_mcp import __version__
from colabhive_mcp.telemetry.events import (
    REFUSALS,
    Event,
    Failed,
    KeyTurnedAway,
    ManifestFailed,
    ManifestFetched,
    OfTenant,
    RequestRefused,
    RequestServed,
    SessionStarted,
    TenantAdded,
    TenantEvicted,
    ToolInvoked,
)
from colabhive_mcp.telemetry.scrapes import ScrapeServer

OTHER = "other"
NONE = "none"
# The words of calls, of the protocol and of the relay, which this room may not import.
STATUSES = ("succeeded", "completed", "failed", "cancelled", "timeout", "expired", "gave_up", "refused")
NO_ERRORS = {"succeeded", "completed", "cancelled"}
VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
EVICTIONS = ("capacity", "refused", "reload", "stop")
METHODS = ("GET", "POST", "OPTIONS", "HEAD", "PUT", "DELETE", "PATCH")
RPC_METHODS = ("initialize", "server/discover", "ping", "tools/list", "tools/call", "subscriptions/listen", NONE)
HTTP_STATUSES = tuple(str(status.value) for status in HTTPStatus)
USUAL_STATUSES = ("200", "202", "400", "401", "403", "404", "405", "413", "429", "500", "502", "503")

CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 180, 300)
REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
FETCH_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"


class Gauges(NamedTuple):
    """What is read at each scrape, by the names that the table has. Each has to answer at once, from any thread.

    *threads_busy* and *threads_total* count the threads that answer requests, *queue_depth* the requests that wait for
    one. *manifest_age* is in seconds, of the oldest copy among the tenants at hand; 0 without any.
    """

    threads_busy: Callable[[], float]
    threads_total: Callable[[], float]
    streams_open: Callable[[], float]
    queue_depth: Callable[[], float]
    manifest_age: Callable[[], float]


class Row(NamedTuple):
    """One metric: a counter, a gauge, or a histogram where it has *buckets* (upper bounds in seconds).

    *labels* are the values that each label may have beside ``other``; *begin* is what stands at zero before anything
    happened, where it is not every combination of them. *read* names the gauge that is asked.
    """

    kind: type[Counter | Gauge | Histogram]
    meaning: str
    labels: Mapping[str, tuple[str, ...]] = {}
    buckets: tuple[float, ...] = ()
    read: str = ""
    begin: tuple[tuple[str, ...], ...] = ()


TABLE: dict[str, Row] = {
    "mcp_tool_calls_total": Row(Counter, "Tool calls that ended, by their last status.", {"status": STATUSES}),
    "mcp_tool_latency_seconds": Row(
        Histogram,
        "How long tool calls took; sync where the gateway's first answer was the last.",
        {"sync": ("true", "false")},
        CALL_SECONDS,
    ),
    "mcp_errors_total": Row(
        Counter,
        "Tool calls that ended in an error, failed reads of a manifest, and faults of the relay itself.",
        {"kind": ("tool", "manifest", "internal")},
    ),
    "mcp_sessions_total": Row(Counter, "Clients that connected, by protocol version.", {"protocol_version": VERSIONS}),
    "mcp_tenants_resident": Row(Gauge, "Keys that have a place in the relay."),
    "mcp_tenants_evicted_total": Row(Counter, "Tenants that lost their place.", {"reason": EVICTIONS}),
    "mcp_keys_refused_total": Row(Counter, "Keys that the gateway refused, each once while it is remembered."),
    "mcp_manifest_fetches_total": Row(
        Counter, "Reads of a manifest at the gateway.", {"outcome": ("fetched", "unchanged", "failed")}
    ),
    "mcp_manifest_fetch_seconds": Row(
        Histogram, "How long reads of a manifest took that did not fail.", buckets=FETCH_SECONDS
    ),
    "mcp_manifest_age_seconds": Row(
        Gauge, "Age of the oldest copy of a manifest; that of an idle tenant ages without harm.", read="manifest_age"
    ),
    "mcp_http_requests_total": Row(
        Counter,
        "HTTP requests that were answered.",
        {"method": METHODS, "status": HTTP_STATUSES},
        begin=tuple(product(("GET", "POST"), USUAL_STATUSES)),
    ),
    "mcp_http_request_seconds": Row(
        Histogram,
        "How long HTTP requests took, streams to their end; by the JSON-RPC method in them.",
        {"rpc": RPC_METHODS},
        REQUEST_SECONDS,
    ),
    "mcp_requests_refused_total": Row(
        Counter, "Requests turned away at once, by the limit that they met.", {"reason": REFUSALS}
    ),
    "mcp_threads_busy": Row(Gauge, "Threads that answer a request.", read="threads_busy"),
    "mcp_threads": Row(Gauge, "Threads that can answer requests.", read="threads_total"),
    "mcp_streams_open": Row(Gauge, "Notification streams that are open.", read="streams_open"),
    "mcp_queue_depth": Row(Gauge, "Requests that wait for a thread.", read="queue_depth"),
    "mcp_process_threads": Row(Gauge, "Threads of the whole process."),
    "mcp_build_info": Row(Gauge, "Always 1.", {"version": (__version__,), "python": (platform.python_version(),)}),
}


class Series:
    """One metric and what counts in it by its labels. Words that the table does not have never make anything grow."""

    def __init__(self, name: str, row: Row, registry: CollectorRegistry) -> None:
        options: dict[str, Any] = {"buckets": row.buckets} if row.buckets else {}
        self._metric: Any = row.kind(name, row.meaning, tuple(row.labels), registry=registry, **options)
        self._allowed = tuple(row.labels.values())
        self._known: dict[tuple[str, ...], Any] = {} if row.labels else {(): self._metric}
        for values in row.begin or product(*self._allowed):  # a rate misses the event that a series begins with
            self.find(*values)

    def find(self, *values: str) -> Any:
        """What counts under these label values, in the order of the table."""
        return self._known.get(values) or self._admit(values)

    def _admit(self, values: tuple[str, ...]) -> Any:
        admitted = tuple(
            value if value in allowed else OTHER for value, allowed in zip(values, self._allowed, strict=True)
        )
        found = self._metric.labels(*admitted)
        self._known[admitted] = found
        return found


def _leave_out_births() -> None:
    """The time of the first event of every series would double a scrape; when the process began is in it anyway."""
    disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one process, in a registry of their own; for any number of threads."""

    def __init__(self, gauges: Gauges) -> None:
        _leave_out_births()
        self._registry = CollectorRegistry()
        self._series = {name: Series(name, row, self._registry) for name, row in TABLE.items()}
        for name, row in TABLE.items():
            if row.read:
                self._find(name).set_function(getattr(gauges, row.read))
        self._find("mcp_process_threads").set_function(threading.active_count)
        self._find("mcp_build_info", __version__, platform.python_version()).set(1)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def record(self, event: Event) -> None:
        """Count *event*, in a few microseconds. What has no metric is passed over."""
        if isinstance(event, OfTenant):
            event = event.event
        count = _COUNTS.get(type(event))
        if count is not None:
            count(self, event)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The body of a scrape and its content type: OpenMetrics where the header *accept* names it."""
        if OPENMETRICS in accept:
            body: bytes = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
            return body, openmetrics.CONTENT_TYPE_LATEST
        return generate_latest(self._registry), PLAIN

    def serve(self, host: str, port: int) -> ScrapeServer:
        """Answer scrapes on an address of their own, by threads of their own, until the server is closed.

        Raises OSError where the address cannot be used.
        """
        return ScrapeServer(self.render, host, port)

    def _find(self, name: str, *values: str) -> Any:
        return self._series[name].find(*values)

    def _count_call(self, event: ToolInvoked) -> None:
        self._find("mcp_tool_calls_total", event.status).inc()
        self._find("mcp_tool_latency_seconds", "true" if event.sync else "false").observe(event.latency_ms / 1000)
        if event.status not in NO_ERRORS:
            self._find("mcp_errors_total", "tool").inc()

    def _count_fetch(self, event: ManifestFetched) -> None:
        self._find("mcp_manifest_fetches_total", "unchanged" if event.unchanged else "fetched").inc()
        self._find("mcp_manifest_fetch_seconds").observe(event.duration_ms / 1000)

    def _count_failed_fetch(self, _: ManifestFailed) -> None:
        self._find("mcp_manifest_fetches_total", "failed").inc()
        self._find("mcp_errors_total", "manifest").inc()

    def _count_fault(self, _: Failed) -> None:
        self._find("mcp_errors_total", "internal").inc()

    def _count_session(self, event: SessionStarted) -> None:
        self._find("mcp_sessions_total", event.protocol_version).inc()

    def _add_tenant(self, _: TenantAdded) -> None:
        """By one, whatever the event says is resident: events of several threads come in any order."""
        self._find("mcp_tenants_resident").inc()

    def _drop_tenant(self, event: TenantEvicted) -> None:
        self._find("mcp_tenants_resident").dec()
        self._find("mcp_tenants_evicted_total", event.reason).inc()

    def _count_refused_key(self, _: KeyTurnedAway) -> None:
        self._find("mcp_keys_refused_total").inc()

    def _count_request(self, event: RequestServed) -> None:
        self._find("mcp_http_requests_total", event.method, str(event.status)).inc()
        self._find("mcp_http_request_seconds", event.rpc or NONE).observe(event.duration_ms / 1000)

    def _count_refusal(self, event: RequestRefused) -> None:
        self._find("mcp_requests_refused_total", event.reason).inc()


_COUNTS: dict[type, Callable[[Metrics, Any], None]] = {
    ToolInvoked: Metrics._count_call,
    ManifestFetched: Metrics._count_fetch,
    ManifestFailed: Metrics._count_failed_fetch,
    Failed: Metrics._count_fault,
    SessionStarted: Metrics._count_session,
    TenantAdded: Metrics._add_tenant,
    TenantEvicted: Metrics._drop_tenant,
    KeyTurnedAway: Metrics._count_refused_key,
    RequestServed: Metrics._count_request,
    RequestRefused: Metrics._count_refusal,
}
