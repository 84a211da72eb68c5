"""A real relay is scraped: what its metrics count, where they are seen, and what they never tell."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from colabhive_mcp.errors import EXIT_CONFIG
from tests.harness.gateway import GatewayProcess
from tests.harness.processes import COMMAND, wait_until
from tests.harness.relay import RelayProcess, build_call

SLUG = "text-stats"
BAD_KEY = "hive_" + "wrongKey9876543210zyx"
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}

Sample = tuple[str, ...]  # a name, and the values of its labels
Do = Callable[[RelayProcess], Any]


@pytest.fixture(scope="module")
def relay(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """A relay whose metrics are on its own port, and which believes a proxy on this machine."""
    shared_gateway.clear()
    settings = {"trusted_proxy": "127.0.0.1", "allowed_hosts": "mcp.example", "tenant_concurrency": 1}
    with RelayProcess(tmp_path_factory.mktemp("monitored"), shared_gateway, **settings) as relay:
        assert relay.call("tools/list").status == 200
        yield relay
        assert relay.stop() == 0
        assert "Traceback" not in relay.log.read_text()


def parse_samples(text: str) -> dict[Sample, float]:
    """The samples of a scrape."""
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def scrape(relay: RelayProcess) -> dict[Sample, float]:
    """What is scraped on the relay's own port."""
    answer = relay.ask("GET", "/metrics")
    assert answer.status == 200, answer
    return parse_samples(answer.body.decode())


def read_counts(relay: RelayProcess) -> dict[Sample, float]:
    """What is counted, once every request but the scrape has ended, and without what scrapes themselves move."""
    wait_until(lambda: scrape(relay)["mcp_threads_busy",] == 1)
    samples = scrape(relay)  # one of its own, since the counts of a scrape may be read before its threads
    of_scrapes = {("mcp_http_requests_total", "GET", "200"), ("mcp_http_request_seconds_count", "none")}
    counts = ("_total", "_count", "_resident")
    return {
        key: value
        for key, value in samples.items()
        if key[0].startswith("mcp_") and key[0].endswith(counts) and key not in of_scrapes
    }


def ask_while_another_call_is_at_work(relay: RelayProcess) -> None:
    """A call that runs, a second one that is one too many for its key, and the first one given up."""
    message, headers = build_call("tools/call", {"name": "slow-count", "arguments": {"to": 100}}, modern=True)
    message["params"]["_meta"]["progressToken"] = "1"
    connection, answer = relay.open(message, **headers)
    assert answer.status == 200
    assert relay.call("tools/call", {"name": SLUG, "arguments": {"text": "a"}}).status == 429
    answer.close()
    connection.close()


POST_200 = ("mcp_http_requests_total", "POST", "200")
POST_401 = ("mcp_http_requests_total", "POST", "401")
CALLED = ("mcp_http_request_seconds_count", "tools/call")
STEPS: dict[str, tuple[Do, dict[Sample, float]]] = {
    "a list": (
        lambda relay: relay.call("tools/list"),
        {POST_200: 1, ("mcp_http_request_seconds_count", "tools/list"): 1},
    ),
    "a session": (
        lambda relay: relay.call("initialize", INITIALIZE, modern=False, MCP_Protocol_Version=None),
        {POST_200: 1, ("mcp_http_request_seconds_count", "initialize"): 1, ("mcp_sessions_total", "2025-06-18"): 1},
    ),
    "a call": (
        lambda relay: relay.call("tools/call", {"name": SLUG, "arguments": {"text": "one two"}}),
        {
            POST_200: 1,
            CALLED: 1,
            ("mcp_tool_calls_total", "succeeded"): 1,
            ("mcp_tool_latency_seconds_count", "true"): 1,
        },
    ),
    "a call with wrong arguments": (
        lambda relay: relay.call("tools/call", {"name": SLUG, "arguments": {"text": [1]}}),
        {
            POST_200: 1,
            CALLED: 1,
            ("mcp_tool_calls_total", "refused"): 1,
            ("mcp_tool_latency_seconds_count", "true"): 1,
            ("mcp_errors_total", "tool"): 1,
        },
    ),
    "a method with another name": (
        lambda relay: relay.call("tools/list-all-of-mine"),
        {("mcp_http_requests_total", "POST", "404"): 1, ("mcp_http_request_seconds_count", "other"): 1},
    ),
    "an HTTP method with another name": (
        lambda relay: relay.ask("BREW", "/mcp"),
        {("mcp_http_requests_total", "other", "405"): 1},
    ),
    "a key that is refused, and sent again": (
        lambda relay: [relay.call("tools/list", Authorization=f"Bearer {BAD_KEY}-too") for _ in range(2)],
        {POST_401: 2, ("mcp_keys_refused_total",): 1},
    ),
    "a call too many": (
        ask_while_another_call_is_at_work,
        {
            POST_200: 1,
            ("mcp_http_requests_total", "POST", "429"): 1,
            CALLED: 2,
            ("mcp_requests_refused_total", "tenant"): 1,
            ("mcp_tool_calls_total", "cancelled"): 1,
            ("mcp_tool_latency_seconds_count", "true"): 1,
        },
    ),
}


@pytest.mark.parametrize("step", STEPS)
def test_counts_move_with_what_happens(relay: RelayProcess, step: str) -> None:
    """Each thing that a client does moves the metrics that tell of it, and no others."""
    do, moves = STEPS[step]
    before = read_counts(relay)
    do(relay)
    after = read_counts(relay)
    assert {key: after[key] - before.get(key, 0.0) for key in after if after[key] != before.get(key, 0.0)} == moves


def test_failed_reads_of_the_manifest_are_counted(own_gateway: GatewayProcess, tmp_path: Path) -> None:
    """A refresh that fails counts as a failed read and as an error, one that finds nothing changed as unchanged."""
    with RelayProcess(tmp_path, own_gateway) as relay:
        headers = relay.to_headers()
        assert relay.ask("POST", "/admin/manifest/refresh", **headers).status == 200
        own_gateway.fault(path="*/mcp/manifest", status=500)
        assert relay.ask("POST", "/admin/manifest/refresh", **headers).status == 502
        samples = read_counts(relay)
    assert samples["mcp_manifest_fetches_total", "unchanged"] == 1
    assert samples["mcp_manifest_fetches_total", "failed"] == samples["mcp_errors_total", "manifest"] == 1
    assert samples["mcp_manifest_fetches_total", "fetched"] == 1
    assert samples["mcp_tenants_resident",] == 1


def test_gauges_say_what_health_says(relay: RelayProcess) -> None:
    """Threads and tenants are those that /health tells; the copy at hand has an age, and nobody waits."""
    health = relay.ask("GET", "/health").json
    samples = scrape(relay)
    assert samples["mcp_threads",] == health["threads"]["all"]
    assert samples["mcp_tenants_resident",] == health["tenants"] == 1
    assert 1 <= samples["mcp_threads_busy",] < 8
    assert samples["mcp_queue_depth",] == 0
    assert 0 < samples["mcp_manifest_age_seconds",] < 120


def test_nothing_of_a_tenant_is_in_a_scrape(relay: RelayProcess) -> None:
    """No part of a key, no digits of its digest, no name of a tool: not even of what was just asked for."""
    relay.call("tools/call", {"name": SLUG, "arguments": {"text": "private words"}})
    relay.call("tools/call", {"name": "no-such-tool-of-mine", "arguments": {}})
    relay.call("tools/list", Authorization=f"Bearer {BAD_KEY}")
    text = relay.ask("GET", "/metrics", Accept="application/openmetrics-text").body.decode()
    for key in (relay.key, BAD_KEY):
        secret = key.removeprefix("hive_")
        assert not [secret[at : at + 6] for at in range(len(secret) - 5) if secret[at : at + 6] in text]
        assert hashlib.sha256(key.encode()).hexdigest()[:8] not in text
    for word in (SLUG, "slow-count", "no-such-tool", "private", "tests", "BREW", "list-all"):
        assert word not in text


@pytest.mark.parametrize(
    "headers",
    [{"X_Forwarded_For": "203.0.113.7"}, {"Host": "mcp.example"}],
    ids=["from another machine, by the proxy", "by the public name"],
)
def test_metrics_are_for_this_machine(relay: RelayProcess, headers: dict[str, str | None]) -> None:
    """On the relay's own port the metrics are refused to whoever is not on this machine, with or without a key."""
    for extra in ({}, {"Authorization": f"Bearer {relay.key}"}):
        answer = relay.ask("GET", "/metrics", **headers, **extra)
        assert answer.status == 404
        assert b"mcp_" not in answer.body


def test_an_address_of_their_own(gateway: GatewayProcess, tmp_path: Path) -> None:
    """With metrics_listen they are on that address alone, in the form that is asked for, until the relay ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with RelayProcess(tmp_path, gateway, metrics_listen=address) as relay:
        assert relay.call("tools/list").status == 200
        assert relay.ask("GET", "/metrics").status == 404
        for form in ("text/plain", "application/openmetrics-text"):
            request = Request(f"http://{address}/metrics", headers={"Accept": form})
            with urlopen(request, timeout=10) as answer:
                assert answer.headers["Content-Type"].startswith(form)
                assert b"\nmcp_tenants_resident 1.0\n" in answer.read()
        assert relay.stop() == 0
    with pytest.raises(URLError):
        urlopen(f"http://{address}/metrics", timeout=10)


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    """A relay whose metrics_listen cannot be had does not start, and names the setting."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [*COMMAND, "serve", "--port", "0", "--metrics-listen", address]
        ran = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, check=False, timeout=30)
    assert ran.returncode == EXIT_CONFIG
    assert f"metrics_listen {address} cannot be listened on" in ran.stderr.decode()
    assert ran.stdout == b""
