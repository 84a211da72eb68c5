"""Events as metrics: what each one moves, and that nothing in a scrape is a tenant's own."""

import json
import re
import threading
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from colabhive_mcp import __version__
from colabhive_mcp.bridge import REFUSED
from colabhive_mcp.calls.invocation import FAILED, SUCCEEDED
from colabhive_mcp.protocol.revisions import SUPPORTED
from colabhive_mcp.telemetry.events import (
    Event,
    Failed,
    FrameSeen,
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
    Warned,
)
from colabhive_mcp.telemetry.metrics import OTHER, STATUSES, TABLE, VERSIONS, Gauges, Metrics

DEPLOY = Path(__file__).parents[3] / "examples" / "deploy"
TENANT = "0123456789abcdef"


def build_metrics(**gauges: float) -> Metrics:
    """Metrics whose gauges read what is given, else 0."""
    return Metrics(Gauges(*(lambda name=name: gauges.get(name, 0.0) for name in Gauges._fields)))


def read(metrics: Metrics) -> dict[str, float]:
    """The samples of a scrape by name and labels, as PromQL writes them."""
    text = metrics.render("")[0].decode()
    return {
        sample.name + (str(sorted(sample.labels.items())) if sample.labels else ""): sample.value
        for family in parse_plain(text)
        for sample in family.samples
    }


def to_key(name: str, **labels: str) -> str:
    """As `read` names a sample."""
    return name + (str(sorted(labels.items())) if labels else "")


def find_moved(metrics: Metrics, *events: Event) -> dict[str, float]:
    """What *events* add to the samples of ours, without the buckets of histograms and what any scrape moves."""
    before = read(metrics)
    for event in events:
        metrics.record(event)
    return {
        key: value - before.get(key, 0.0)
        for key, value in read(metrics).items()
        if key.startswith("mcp_") and "_bucket" not in key and value != before.get(key, 0.0)
    }


MOVES: list[tuple[Event, dict[str, float]]] = [
    (
        ToolInvoked("chat", True, 1500.0, "succeeded"),
        {
            to_key("mcp_tool_calls_total", status="succeeded"): 1,
            to_key("mcp_tool_latency_seconds_count", sync="true"): 1,
            to_key("mcp_tool_latency_seconds_sum", sync="true"): 1.5,
        },
    ),
    (
        ToolInvoked("chat", False, 2000.0, "failed", "no memory"),
        {
            to_key("mcp_tool_calls_total", status="failed"): 1,
            to_key("mcp_errors_total", kind="tool"): 1,
            to_key("mcp_tool_latency_seconds_count", sync="false"): 1,
            to_key("mcp_tool_latency_seconds_sum", sync="false"): 2,
        },
    ),
    (
        ToolInvoked("chat", True, 0.0, "cancelled"),
        {
            to_key("mcp_tool_calls_total", status="cancelled"): 1,
            to_key("mcp_tool_latency_seconds_count", sync="true"): 1,
        },
    ),
    (
        ManifestFetched(250.0, 4096, 12, 'W/"1"', False),
        {
            to_key("mcp_manifest_fetches_total", outcome="fetched"): 1,
            to_key("mcp_manifest_fetch_seconds_count"): 1,
            to_key("mcp_manifest_fetch_seconds_sum"): 0.25,
        },
    ),
    (
        ManifestFetched(0.0, 0, 12, 'W/"1"', True),
        {
            to_key("mcp_manifest_fetches_total", outcome="unchanged"): 1,
            to_key("mcp_manifest_fetch_seconds_count"): 1,
        },
    ),
    (
        ManifestFailed("status 500", 1.0, 12),
        {to_key("mcp_manifest_fetches_total", outcome="failed"): 1, to_key("mcp_errors_total", kind="manifest"): 1},
    ),
    (Failed("KeyError: 'a'", "Traceback"), {to_key("mcp_errors_total", kind="internal"): 1}),
    (
        SessionStarted("inspector", "1", "2025-11-25", "http"),
        {to_key("mcp_sessions_total", protocol_version="2025-11-25"): 1},
    ),
    (TenantAdded(5), {"mcp_tenants_resident": 1}),
    (
        TenantEvicted(4, "capacity"),
        {"mcp_tenants_resident": -1, to_key("mcp_tenants_evicted_total", reason="capacity"): 1},
    ),
    (KeyTurnedAway(401), {"mcp_keys_refused_total": 1}),
    (
        RequestServed("POST", "/mcp", 200, 500.0, "tools/list"),
        {
            to_key("mcp_http_requests_total", method="POST", status="200"): 1,
            to_key("mcp_http_request_seconds_count", rpc="tools/list"): 1,
            to_key("mcp_http_request_seconds_sum", rpc="tools/list"): 0.5,
        },
    ),
    (
        RequestServed("GET", "/health", 503, 0.0),
        {
            to_key("mcp_http_requests_total", method="GET", status="503"): 1,
            to_key("mcp_http_request_seconds_count", rpc="none"): 1,
        },
    ),
    (RequestRefused("rate", 429), {to_key("mcp_requests_refused_total", reason="rate"): 1}),
    (Warned("a setting is odd"), {}),
    (FrameSeen("in", "{}"), {}),
]


@pytest.mark.parametrize(("event", "moved"), MOVES, ids=[type(event).__name__ for event, _ in MOVES])
def test_each_event_moves_its_own_metrics(event: Event, moved: dict[str, float]) -> None:
    """An event moves the metrics that tell of it and no other, whether or not it is a tenant's."""
    metrics = build_metrics()
    assert find_moved(metrics, event) == moved
    assert find_moved(metrics, OfTenant(event, TENANT)) == moved


WORDS = st.text(st.characters(min_codepoint=0xC0, max_codepoint=0x2FF), min_size=3, max_size=12)  # not in English
STRANGE: st.SearchStrategy[tuple[Event, str]] = WORDS.flatmap(
    lambda word: st.sampled_from(
        [
            (event, word)
            for event in (
                ToolInvoked(word, True, 1.0, word, word),
                SessionStarted(word, word, word, word),
                TenantEvicted(1, word),
                RequestServed(word, f"/{word}", 200, 1.0, word),
                RequestServed("GET", f"/{word}", 99999, 1.0, f"tools/{word}"),
                RequestRefused(word, 429),
                ManifestFetched(1.0, 1, 1, word, False),
                ManifestFailed(word, 1.0, None),
                Failed(word, word),
            )
        ]
    )
)
CROWDED = build_metrics()


@given(STRANGE)
@settings(max_examples=60, deadline=None)
def test_no_word_of_an_event_becomes_a_label(pair: tuple[Event, str]) -> None:
    """Whatever an event says, a scrape holds none of its words, and no more series than the table allows."""
    event, word = pair
    CROWDED.record(OfTenant(event, word))
    body = CROWDED.render("")[0].decode()
    assert word not in body
    assert len(body.splitlines()) < 400
    for family in parse_plain(body):
        for sample in family.samples:
            row = TABLE.get(family.name) or TABLE.get(f"{family.name}_total")
            for label, value in sample.labels.items() if row else ():
                assert label == "le" or value in (*row.labels[label], OTHER)  # type: ignore[union-attr]


def test_a_scrape_holds_the_whole_table() -> None:
    """At the start a scrape has every metric of the table with its meaning, and a zero for it to rise from."""
    text = build_metrics().render("")[0].decode()
    samples = read(build_metrics())
    for name, row in TABLE.items():
        assert f"# HELP {name} {row.meaning}" in text
        for label, values in row.labels.items() if len(row.labels) == 1 else ():
            suffix = "_count" if row.buckets else ""
            assert [samples[to_key(name + suffix, **{label: value})] for value in values] == [0] * len(values)


def test_what_the_process_needs_is_told_too() -> None:
    """A scrape tells memory, files, processor time and threads of the process, and which version it is."""
    samples = read(build_metrics())
    assert samples["process_resident_memory_bytes"] > 1e6
    assert samples["process_open_fds"] > 2
    assert samples["process_cpu_seconds_total"] > 0
    assert samples["mcp_process_threads"] >= 1
    assert any(key.startswith("mcp_build_info") and __version__ in key for key in samples)
    assert not [key for key in samples if "_created" in key]


def test_gauges_are_read_when_they_are_asked_for() -> None:
    """Each gauge of `Gauges` is in the scrape with the value of that moment."""
    ticks = cycle(range(1, 100))
    metrics = Metrics(Gauges(lambda: next(ticks), lambda: 128, lambda: 3, lambda: 7, lambda: 299.5))
    first, second = read(metrics), read(metrics)
    assert (first["mcp_threads_busy"], second["mcp_threads_busy"]) == (1, 2)
    assert (first["mcp_threads"], first["mcp_streams_open"], first["mcp_queue_depth"]) == (128, 3, 7)
    assert first["mcp_manifest_age_seconds"] == 299.5


def test_every_thread_counts() -> None:
    """Events of many threads are all counted, and tenants that come and go in any order leave the right number."""
    metrics = build_metrics()
    events: list[Event] = [ToolInvoked("chat", True, 1.0, "succeeded"), TenantAdded(9), RequestRefused("odd", 429)]

    def work() -> None:
        for _ in range(500):
            for event in events:
                metrics.record(event)
        for _ in range(499):
            metrics.record(TenantEvicted(0, "capacity"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    samples = read(metrics)
    assert samples[to_key("mcp_tool_calls_total", status="succeeded")] == 4000
    assert samples["mcp_tenants_resident"] == 8
    assert samples[to_key("mcp_requests_refused_total", reason=OTHER)] == 4000


ACCEPTS = {
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2": True,
    "application/openmetrics-text": True,
    "application/openmetrics-text; version=abc": True,
    "text/plain;version=1.0.0;escaping=allow-utf-8": False,
    "*/*": False,
    "": False,
    "\x00;;=,=q": False,
}


@pytest.mark.parametrize(("accept", "is_open"), ACCEPTS.items())
def test_the_form_is_the_one_that_is_asked_for(accept: str, is_open: bool) -> None:
    """OpenMetrics is given where it is named, the plain form to all others, each readable by its own parser."""
    body, content_type = build_metrics().render(accept)
    parse = parse_openmetrics if is_open else parse_plain
    assert {family.name for family in parse(body.decode())} > {name.removesuffix("_total") for name in TABLE}
    assert content_type.startswith(
        "application/openmetrics-text; version=1.0.0" if is_open else "text/plain; version=0.0.4"
    )


def test_the_closed_sets_are_those_of_their_owners() -> None:
    """Statuses and versions, which this room may not import, are exactly what calls and the protocol have."""
    assert set(STATUSES) == SUCCEEDED | FAILED | {"gave_up", REFUSED}
    assert VERSIONS == SUPPORTED


# What reads the metrics: examples/deploy


def find_expressions(value: Any) -> Iterator[str]:
    """Every PromQL expression of a dashboard."""
    if isinstance(value, dict):
        yield from (each for key, each in value.items() if key == "expr")
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from find_expressions(each)


DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
ALERTS = (DEPLOY / "alerts.yml").read_text("utf-8")
USED = re.compile(r"\b(?:mcp|process|python)_[a-z_]+\b")


def test_dashboard_and_alerts_name_what_a_scrape_has() -> None:
    """Each metric that an alert, a panel or a text names is in a scrape; each of the table is on the dashboard."""
    expressions = " ".join(find_expressions(DASHBOARD))
    names = {sample.name for family in parse_plain(build_metrics().render("")[0].decode()) for sample in family.samples}
    names |= {family.name for family in parse_plain(build_metrics().render("")[0].decode())}
    assert set(USED.findall(expressions + ALERTS)) <= names
    for name in TABLE:
        assert name in expressions


def test_the_dashboard_can_be_imported() -> None:
    """It has Grafana's form: each panel has a templated data source, an id and a place of its own."""
    panels = DASHBOARD["panels"]
    assert DASHBOARD["schemaVersion"] >= 36
    assert [each["type"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "query"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        sources = [panel.get("datasource"), *(target["datasource"] for target in panel.get("targets", ()))]
        assert panel["type"] == "row" or all(source["uid"] == "${datasource}" for source in sources)
        assert len({target["refId"] for target in panel.get("targets", ())}) == len(panel.get("targets", ()))
