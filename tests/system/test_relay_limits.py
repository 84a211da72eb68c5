"""How much one key may do on a real relay, what is left for others meanwhile, and who is not served at all."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import spec
from tests.harness.gateway import GatewayProcess
from tests.harness.processes import wait_until
from tests.harness.relay import Answer, RelayProcess, read_events
from tests.harness.tenants import add_keys, make_key

LEGACY = "2025-11-25"
LONG = {"to": 600, "interval": 0.1}
FAST = 1.0  # seconds, for what must not wait
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PUBLIC = "public.example"
PROXY = "127.0.0.1"
FIRST, SECOND, THIRD = (make_key(word) for word in ("first", "second", "third"))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with three keys."""
    with GatewayProcess(tmp_path_factory.mktemp("town")) as gateway:
        add_keys(gateway, FIRST, SECOND, THIRD)
        yield gateway


@pytest.fixture(scope="module")
def shared_relay(town: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """A relay with eight threads, four of which may wait, for two calls and a stream of each key; behind a proxy."""
    settings = {"threads": 8, "tenant_concurrency": 2, "max_streams": 1, "max_body_bytes": 100_000}
    trust = {"trusted_proxy": PROXY, "allowed_hosts": PUBLIC}
    with RelayProcess(tmp_path_factory.mktemp("relay"), town, **settings, **trust) as relay:
        yield relay
        assert relay.stop() == 0
        assert "Traceback" not in relay.log.read_text()


@pytest.fixture
def relay(shared_relay: RelayProcess, town: GatewayProcess) -> Iterator[RelayProcess]:
    """The relay at rest, with all keys known; at rest again within 2 s after the test."""
    town.clear()
    for key in (FIRST, SECOND, THIRD):
        assert ask(shared_relay, key, "tools/list").status == 200
    yield shared_relay
    wait_until(lambda: shared_relay.busy == 0, timeout=2.5)


def ask(relay: RelayProcess, key: str, method: str, params: Any = None, **more: Any) -> Answer:
    """One request of *key*."""
    return relay.call(method, params, Authorization=f"Bearer {key}", **more)


def call(relay: RelayProcess, key: str, arguments: Any = None) -> Answer:
    """A call that is done at once, where there is a place for it."""
    return ask(relay, key, "tools/call", {"name": "echo", "arguments": arguments or {"text": "x"}})


@contextmanager
def calling(relay: RelayProcess, *keys: str) -> Iterator[None]:
    """A call for each of *keys* that goes on for as long as the block, seen to have begun by its first progress."""
    params = {"name": "slow-count", "arguments": LONG, "_meta": {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with ExitStack() as stack:
        for key in keys:
            headers = {"Authorization": f"Bearer {key}", "MCP_Protocol_Version": LEGACY}
            connection, answer = relay.open(message, **headers)
            stack.callback(connection.close)
            stack.callback(answer.close)
            assert next(filter(None, read_events(answer)))["method"] == "notifications/progress"
        yield


@contextmanager
def listening(relay: RelayProcess, *keys: str) -> Iterator[None]:
    """A legacy stream for each of *keys*."""
    with ExitStack() as stack:
        for key in keys:
            connection, answer = relay.listen(Authorization=f"Bearer {key}")
            stack.callback(connection.close)
            stack.callback(answer.close)
            assert (answer.status, answer.readline()[:1]) == (200, b":")
        yield


def expect_refusal(got: Answer, status: int, *words: str) -> None:
    """A refusal in JSON with the request's id, the time to wait, and words that say which limit it is."""
    assert (got.status, got.json["id"], got.code) == (status, 1, -32603)
    assert int(got.headers["retry-after"]) >= 1
    assert all(word in got.json["error"]["message"] for word in words)


@contextmanager
def soon() -> Iterator[None]:
    """What is in the block must not have to wait."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < FAST


# Calls and threads


def test_calls_of_a_key_have_a_limit(relay: RelayProcess) -> None:
    """One call more than a key may have is refused at once, and its lists and other keys are not concerned."""
    with calling(relay, FIRST, FIRST), soon():
        expect_refusal(call(relay, FIRST), 429, "2 calls")
        assert ask(relay, FIRST, "tools/list").status == 200
        assert not call(relay, SECOND).result.get("isError")
    wait_until(lambda: call(relay, FIRST).status == 200, timeout=2.5)


def test_a_batch_takes_the_place_of_a_call(relay: RelayProcess, town: GatewayProcess) -> None:
    """What is called in a batch counts as calls do, and is refused as a whole."""
    params = {"name": "echo", "arguments": {"text": "x"}}
    batch = [{"jsonrpc": "2.0", "id": each, "method": "tools/call", "params": params} for each in (1, 2)]
    headers = {"MCP_Protocol_Version": "2025-03-26", "Authorization": f"Bearer {FIRST}"}
    with calling(relay, FIRST, FIRST):
        assert relay.post(batch, **headers).status == 429
    assert town.seen("echo:invoke") == []


def test_all_calls_leave_threads_for_the_rest(relay: RelayProcess, town: GatewayProcess) -> None:
    """With every place for calls taken more are 503 at once; lists, pings, health, metrics and refusals go on."""
    with calling(relay, FIRST, FIRST, SECOND, SECOND), soon():
        expect_refusal(call(relay, THIRD), 503, "calls")
        assert ask(relay, THIRD, "tools/list").status == 200
        assert ask(relay, THIRD, "ping", modern=False).status == 200
        new = make_key("new")
        add_keys(town, new)
        assert ask(relay, new, "tools/list").status == 200
        assert relay.ask("GET", "/health").json["threads"] == {"busy": 5, "all": 8}
        assert b"mcp_threads_busy 5.0" in relay.ask("GET", "/metrics").body
        assert relay.ask("GET", "/ready").status == 200
        assert relay.post({}, Authorization=None).status == 401


def test_streams_count_as_waiting(relay: RelayProcess) -> None:
    """Streams and calls share the threads that may wait."""
    with listening(relay, FIRST, SECOND), calling(relay, THIRD, THIRD), soon():
        expect_refusal(call(relay, FIRST), 503, "calls")
        assert ask(relay, FIRST, "tools/list").status == 200


# Streams


def test_streams_of_a_key_have_a_limit(relay: RelayProcess) -> None:
    """One more is 405 where it is got, which clients take for an answer, and 429 where it is asked for."""
    wanted = {"notifications": {"toolsListChanged": True}}
    with soon(), listening(relay, FIRST):  # whose beginning is there before anything follows
        connection, refused = relay.listen(Authorization=f"Bearer {FIRST}")
        assert (refused.status, refused.getheader("Allow")) == (405, "POST, OPTIONS")
        connection.close()
        expect_refusal(ask(relay, FIRST, "subscriptions/listen", wanted), 429, "1 streams")
        assert call(relay, FIRST).status == 200
        with listening(relay, SECOND):
            pass
    wait_until(lambda: relay.busy == 0, timeout=2.5)
    with listening(relay, FIRST):
        pass


# Rates


@pytest.fixture
def limited(town: GatewayProcess, tmp_path: Path) -> Iterator[RelayProcess]:
    """A relay on which each key may make four requests an hour."""
    town.clear()
    with RelayProcess(tmp_path, town, rate_limit="4/hour") as relay:
        yield relay


def test_requests_of_a_key_have_a_rate(limited: RelayProcess, town: GatewayProcess) -> None:
    """Requests count, each of a batch too, and notifications don't; past the limit nothing is done. Others go on."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"MCP_Protocol_Version": "2025-03-26", "Authorization": f"Bearer {FIRST}"}
    for _ in range(6):
        assert limited.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers).status == 202
    assert limited.post([ping, {**ping, "id": 2}], **headers).status == 200
    assert limited.post([ping] * 3, **headers).status == 429
    assert [call(limited, FIRST).status for _ in range(2)] == [200, 200]
    sent = len(town.seen(":invoke"))
    refused = call(limited, FIRST)
    expect_refusal(refused, 429, "4/hour")
    assert int(refused.headers["retry-after"]) <= 7200
    assert len(town.seen(":invoke")) == sent
    assert limited.ask("POST", "/admin/manifest/refresh", b"", X_API_Key=FIRST).status == 429
    assert call(limited, SECOND).status == 200
    assert limited.ask("GET", "/health").status == 200


# Names and addresses


FORWARDED = [
    ({"Host": PUBLIC}, 200),
    ({"Host": f"{PUBLIC}:443"}, 200),
    ({"Host": PUBLIC.upper()}, 200),
    ({"Host": "127.0.0.1:9", "X_Forwarded_Host": PUBLIC}, 200),
    ({"X_Forwarded_Host": "evil.example"}, 403),
    ({"Host": "evil.example"}, 403),
    ({"Host": f"{PUBLIC}.evil.example"}, 403),
    ({"Host": PUBLIC, "X_Forwarded_For": "198.51.100.7", "X_Forwarded_Proto": "https"}, 200),
    ({"Host": PUBLIC, "Forwarded": 'for="x'}, 200),
    ({"Host": PUBLIC, "X_Forwarded_For": "unknown, _hidden, [2001:db8::1]:4711"}, 200),
    ({"Host": PUBLIC, "X_Forwarded_Proto": "gopher"}, 400),
    ({"Host": PUBLIC, "X_Forwarded_Proto": "http, https"}, 400),
    ({"Host": PUBLIC, "X_Forwarded_For": '"'}, 400),
]


@pytest.mark.parametrize(("headers", "status"), FORWARDED)
@pytest.mark.parametrize("path", ["/mcp", "/health"])
def test_names_behind_a_proxy(path: str, headers: dict[str, str], status: int, relay: RelayProcess) -> None:
    """A name is served where it is listed, by Host or by what the proxy says of it; health says the same (R37, R71)."""
    method, body = ("GET", None) if path == "/health" else ("POST", PING)
    got = relay.ask(method, path, body, **{**relay.to_headers(), "Authorization": f"Bearer {FIRST}", **headers})
    assert got.status == status
    assert got.headers["content-type"] == "application/json"
    assert status != 403 or "allowed_hosts" in got.json["error"]["message"]


def test_nobody_else_is_believed(town: GatewayProcess, tmp_path: Path) -> None:
    """What another address than the proxy's says it forwards counts for nothing, and does no harm."""
    with RelayProcess(tmp_path, town, trusted_proxy="192.0.2.1", allowed_hosts=PUBLIC) as relay:
        for headers, status in FORWARDED:
            if "evil.example" not in headers.get("X_Forwarded_Host", ""):
                want = 403 if status == 403 else 200
                assert ask(relay, FIRST, "ping", modern=False, **headers).status == want, headers
        named = {"Host": "evil.example", "X_Forwarded_Host": PUBLIC}
        assert ask(relay, FIRST, "ping", modern=False, **named).status == 403
        assert ask(relay, FIRST, "ping", modern=False, X_Forwarded_Host="evil.example").status == 200


@pytest.mark.parametrize("framing", ["length", "chunked", "headers"])
def test_what_is_too_long_is_refused_before_it_is_kept(framing: str, relay: RelayProcess) -> None:
    """A client that sends four megabytes to the end, or 300 KiB of headers, is told in JSON what is too long (R71)."""
    body = b"x" * 4_000_000
    head, rest, status = {
        "length": (f"Content-Length: {len(body)}", body, 413),
        "chunked": ("Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body), 413),
        "headers": ("A: " + "x" * 300 * 1024, b"", 431),
    }[framing]
    got = relay.send_raw(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode() + rest)
    head, _, text = got.decode().partition("\r\n\r\n")
    assert f" {status} " in head
    assert "too large" in json.loads(text)["error"]["message"].lower()


def test_an_idle_connection_holds_no_thread(relay: RelayProcess) -> None:
    """Three times as many idle connections as there are threads keep nobody from being served."""
    host, _, port = relay.address.partition(":")
    with ExitStack() as stack:
        for _ in range(24):
            stack.enter_context(socket.create_connection((host, int(port)), 5))
        with soon():
            assert ask(relay, FIRST, "tools/list").check("tools/list", spec.MODERN).status == 200
