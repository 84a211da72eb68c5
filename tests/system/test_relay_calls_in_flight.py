"""Answers that take time, over the real relay: progress, streams, cancellation, and what is told unasked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from itertools import pairwise
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from tests.harness import spec
from tests.harness.client import META
from tests.harness.gateway import GatewayProcess, manifest
from tests.harness.processes import wait_until
from tests.harness.relay import Answer, Connection, RelayProcess, build_call, read_events

ERAS = ["2025-03-26", "2025-11-25", spec.MODERN]
SUBSCRIPTION = META + "subscriptionId"
WANTED = {"notifications": {"toolsListChanged": True}}
PROGRESS, CHANGED, MESSAGE = "notifications/progress", "notifications/tools/list_changed", "notifications/message"
ECHO = {"name": "echo", "arguments": {"text": "hi"}}
SLOW = {"name": "slow-count", "arguments": {"to": 600, "interval": 0.1}}  # a minute
STREAMS = 3  # that a key may have at once, here
TTL = 0.1


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway of this module's own, whose tools change."""
    with GatewayProcess(tmp_path_factory.mktemp("tools")) as gateway:
        gateway.register(manifest("late", action="slow-count", inputSchema=None))
        yield gateway


@pytest.fixture(scope="module")
def shared_relay(tools: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayProcess]:
    """One relay for all tests of this module, which nothing that it is sent makes fail."""
    settings = {"manifest_ttl": TTL, "poll_interval": 0.1, "max_streams": STREAMS, "poll_max_wait_for": "late=0.1"}
    with RelayProcess(tmp_path_factory.mktemp("relay"), tools, **settings) as relay:
        yield relay
        assert "Traceback" not in relay.log.read_text()


@pytest.fixture
def relay(shared_relay: RelayProcess, tools: GatewayProcess) -> Iterator[RelayProcess]:
    """The relay, its gateway without faults and with nothing seen; every thread is free again afterwards."""
    tools.clear()
    yield shared_relay
    wait_until(lambda: shared_relay.busy == 0, 5)


def count(to: int, *, token: Any = None, interval: float = 0.1) -> dict[str, Any]:
    """The params of a call that counts, with a token for its progress where there is one."""
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return {"name": "slow-count", "arguments": {"to": to, "interval": interval}, **meta}


def build(revision: str, method: str, params: Any, request_id: Any = 1, **headers: Any) -> tuple[Any, Any]:
    """A request of *revision* and its headers."""
    given = headers if revision == spec.MODERN else {"MCP_Protocol_Version": revision, **headers}
    return build_call(method, params, modern=revision == spec.MODERN, request_id=request_id, **given)


class Stream:
    """An open event stream, whose messages are kept as they come."""

    def __init__(self, connection: Connection, answer: HTTPResponse) -> None:
        assert (answer.status, answer.getheader("Content-Type")) == (200, "text/event-stream"), answer.read()
        assert answer.getheader("X-Accel-Buffering") == "no"
        assert answer.getheader("Cache-Control") == "no-cache, no-transform"
        assert answer.getheader("Content-Encoding") is None
        self.connection = connection
        self._queue: Queue[Any] = Queue()
        self._reader = Thread(target=self._read, args=(answer,), daemon=True)
        self._reader.start()

    def _read(self, answer: HTTPResponse) -> None:
        for event in read_events(answer):
            if event is not None:
                self._queue.put(event)
        self._queue.put(None)

    def receive(self, timeout: float = 15) -> Any:
        """The next message; None at the end."""
        return self._queue.get(timeout=timeout)

    @property
    def silent(self) -> bool:
        """Whether no message waits to be received."""
        return self._queue.empty()


@contextmanager
def stream(relay: RelayProcess, revision: str = "2025-11-25") -> Iterator[Stream]:
    """The stream of what a client of *revision* is told unasked: in the modern era a subscription by the id "sub"."""
    if revision == spec.MODERN:
        message, headers = build(revision, "subscriptions/listen", WANTED, "sub")
        opened = relay.open(message, **headers)
    else:
        opened = relay.listen(MCP_Protocol_Version=revision)
    opened_stream = Stream(*opened)
    try:
        if revision == spec.MODERN:
            acknowledged = opened_stream.receive()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"] == {"_meta": {SUBSCRIPTION: "sub"}, **WANTED}
            spec.check(acknowledged, revision=revision, method=None)
        yield opened_stream
    finally:
        opened_stream.connection.hang_up()


# Progress


def test_each_call_has_its_own_progress(relay: RelayProcess) -> None:
    """Many calls at once: each is told of its own token, of its JSON type, strictly rising, all before its reply."""
    cases = [(revision, token) for revision in ERAS for token in (0, "", 7, "7", "abc")]
    with ThreadPoolExecutor(len(cases)) as pool:
        answers = list(pool.map(lambda case: relay.call_as(case[0], "tools/call", count(2, token=case[1])), cases))
    for (_, token), got in zip(cases, answers, strict=True):
        assert got.streamed
        *progress, response = got.messages
        assert response["result"]["isError"] is False
        told = [each["params"] for each in progress]
        assert {(type(each["progressToken"]), each["progressToken"]) for each in told} == {(type(token), token)}
        assert len(told) > 1
        assert all(one["progress"] < other["progress"] for one, other in pairwise(told))


@pytest.mark.parametrize("accept", [None, "text/event-stream"])
@pytest.mark.parametrize("token", [{}, {"a": 1}, [], [1], True, 1.5, None], ids=json.dumps)
def test_no_token_is_made_up(token: Any, accept: str | None, relay: RelayProcess) -> None:
    """A call whose token is of another type is served, and nobody is told of its progress."""
    params = {**ECHO, "_meta": {"progressToken": token}}
    got = relay.call_as("2025-11-25", "tools/call", params, Accept=accept)
    assert [message.get("method") for message in got.messages] == [None]
    assert got.result["isError"] is False


def test_who_takes_json_alone_is_told_nothing_but_the_end(relay: RelayProcess) -> None:
    """Progress needs a stream: a client that takes none gets its answer, and the token harms nobody."""
    params = {**ECHO, "_meta": {"progressToken": "t"}}
    got = relay.call_as(spec.MODERN, "tools/call", params, Accept="application/json")
    assert (got.streamed, got.result["isError"]) == (False, False)


def test_a_call_that_lasts_becomes_a_stream(relay: RelayProcess) -> None:
    """Without a token JSON is the answer to what is done within a second, a stream to what is not, if that is taken."""
    forms = [(0, None), (17, None), (17, "application/json"), (17, "text/event-stream")]

    def call(to: int, accept: str | None) -> tuple[bool, float, Any]:
        headers = {} if accept is None else {"Accept": accept}
        message, given = build(spec.MODERN, "tools/call", count(to))
        started = time.monotonic()
        connection, answer = relay.open(message, **given, **headers)
        begun, body = time.monotonic() - started, answer.read()
        connection.close()
        got = Answer(answer.status, {"content-type": str(answer.getheader("Content-Type"))}, body)
        assert got.result["structuredContent"] == {"counted": to}
        return got.streamed, begun, body

    with ThreadPoolExecutor(len(forms)) as pool:
        short, either, plain, events = pool.map(lambda form: call(*form), forms)
    assert [short[0], either[0], plain[0], events[0]] == [False, True, False, True]
    assert events[1] < either[1]
    assert 1 < either[1] < 1.7 <= plain[1]
    assert either[2].startswith(b":\n\n")


@pytest.mark.parametrize("revision", ["2025-03-26", spec.MODERN])
def test_a_job_that_takes_too_long_can_be_fetched_later(
    revision: str, relay: RelayProcess, tools: GatewayProcess
) -> None:
    """A call past its deadline names its invocation and the tool that fetches it, which another request then does."""
    params = {"name": "late", "arguments": {"to": 3, "interval": 0.1}}
    late = relay.call_as(revision, "tools/call", params).result
    assert late["isError"] is True
    words = late["content"][0]["text"]
    assert "get_invocation_result" in words
    invocation = words.partition('"invocation_id": "')[2].partition('"')[0]
    lookup = {"name": "get_invocation_result", "arguments": {"invocation_id": invocation}}
    assert json.loads(relay.call_as(revision, "tools/call", lookup).result["content"][0]["text"]) == {"counted": 3}
    assert len(tools.seen(":invoke")) == 1


# Log messages


def test_stages_are_told_as_log_messages(relay: RelayProcess) -> None:
    """A legacy client that asked for a level is told the stages of its calls from it on; a modern one never is."""
    assert relay.call_as(spec.MODERN, "logging/setLevel", {"level": "debug"}).status == 404
    assert relay.call_as("2025-11-25", "logging/setLevel", {"level": "loud"}).code == -32602
    try:
        assert relay.call_as("2025-11-25", "logging/setLevel", {"level": "info"}).result == {}
        told = [each["params"] for each in relay.call_as("2025-11-25", "tools/call", ECHO).messages[:-1]]
        assert {each["level"] for each in told} == {"info"}
        assert {each["data"]["tool"] for each in told} == {"echo"}
        assert (told[0]["data"]["message"], told[-1]["data"]["message"]) == ("Started", "Finished")
        assert relay.call_as("2025-11-25", "logging/setLevel", {"level": "error"}).result == {}
        refused = {"name": "echo", "arguments": {"text": 7}}
        assert [each.get("method") for each in relay.call_as("2025-11-25", "tools/call", refused).messages] == [
            MESSAGE,
            None,
        ]
        assert len(relay.call_as("2025-11-25", "tools/call", ECHO).messages) == 1
        assert len(relay.call_as(spec.MODERN, "tools/call", refused).messages) == 1
    finally:
        relay.call_as("2025-11-25", "logging/setLevel", {"level": "emergency"})


# Cancellation


@contextmanager
def start(relay: RelayProcess, tools: GatewayProcess, message: Any, **headers: Any) -> Iterator[Connection]:
    """A connection on which *message* has begun to be worked on."""
    known = len(tools.seen(":invoke"))
    connection = relay.connect()
    sent = {n.replace("_", "-"): str(v) for n, v in (relay.to_headers() | headers).items() if v is not None}
    connection.request("POST", relay.path, json.dumps(message), sent)
    tools.wait_seen("*:invoke", at_least=known + 1)
    try:
        yield connection
    finally:
        connection.close()


def cancel(relay: RelayProcess, request_id: Any, **headers: Any) -> None:
    """Say that nobody waits for *request_id* any more."""
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
    assert relay.post(note, MCP_Protocol_Version="2025-11-25", **headers).status == 202


def wait_for_silence(tools: GatewayProcess) -> None:
    """The gateway is asked about no job any more: as many polls as came when a look at it would have had more."""

    def is_silent() -> bool:
        known = len(tools.seen("/invocations/"))
        tools.ask("GET", f"/_faults/requests?path=*/invocations/*&at_least={known + 1}&timeout=0.4")
        return len(tools.seen("/invocations/")) == known

    wait_until(is_silent, 3)


@pytest.mark.parametrize("revision", ["2025-11-25", spec.MODERN])
def test_a_client_cancels_exactly_its_call(revision: str, relay: RelayProcess, tools: GatewayProcess) -> None:
    """The call with that id, of that JSON type, of that client is stopped, and no other; it gets no answer."""
    one, headers = build(revision, "tools/call", SLOW, 1)
    text, _ = build(revision, "tools/call", SLOW, "1")
    with (
        start(relay, tools, one, **headers) as cancelled,
        start(relay, tools, text, **headers) as other_type,
        start(relay, tools, one, **headers, User_Agent="another client") as other_client,
    ):
        for nothing in (True, 1.0, 2, None, {}, [1], "one"):
            cancel(relay, nothing)
        assert relay.busy == 3
        cancel(relay, 1)
        answer = cancelled.getresponse()
        assert answer.status == 200
        assert list(read_events(answer)) == [None]
        wait_until(lambda: relay.busy == 2, 2)
        for connection in (other_type, other_client):
            connection.hang_up()
        wait_until(lambda: relay.busy == 0, 2)
    wait_for_silence(tools)


def test_a_cancelled_call_of_who_takes_json(relay: RelayProcess, tools: GatewayProcess) -> None:
    """HTTP wants an answer even to what was taken back: one that is no result."""
    message, headers = build("2025-11-25", "tools/call", SLOW, "json")
    with start(relay, tools, message, **headers, Accept="application/json") as connection:
        cancel(relay, "json")
        answer = connection.getresponse()
        assert (answer.status, "id" in json.loads(answer.read())) == (400, False)


BATCH = [{"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": SLOW} for number in range(3)]
GONE: dict[str, tuple[Any, dict[str, Any]]] = {
    "stream": build(spec.MODERN, "tools/call", count(600, token="t")),
    "either": build("2025-11-25", "tools/call", SLOW),
    "json": build(spec.MODERN, "tools/call", SLOW, Accept="application/json"),
    "batch": (BATCH, {"MCP_Protocol_Version": "2025-03-26"}),
}


@pytest.mark.parametrize("rudely", [False, True], ids=["closed", "reset"])
def test_a_client_that_goes_frees_its_thread(rudely: bool, relay: RelayProcess, tools: GatewayProcess) -> None:
    """Within two seconds its thread is free and the gateway is asked no more; what was not begun never is."""
    with ExitStack() as stack:
        connections = [stack.enter_context(start(relay, tools, each, **headers)) for each, headers in GONE.values()]
        assert relay.busy == len(GONE)
        for connection in connections:
            connection.hang_up(rudely=rudely)
        wait_until(lambda: relay.busy == 0, 2)
    wait_for_silence(tools)
    assert len(tools.seen(":invoke")) == len(GONE)
    assert relay.call_as(spec.MODERN, "tools/call", ECHO).result["isError"] is False


# What is told unasked


def change(tools: GatewayProcess, name: str) -> None:
    """One real change of the tools."""
    tools.register(manifest(name))


def await_refresh(relay: RelayProcess, tools: GatewayProcess, times: int = 2) -> None:
    """The manifest was asked for *times* more."""
    tools.wait_seen("*/mcp/manifest", at_least=len(tools.seen("/mcp/manifest")) + times)


def test_all_who_listen_are_told_once_of_a_change(relay: RelayProcess, tools: GatewayProcess) -> None:
    """One notice a change and stream, after which the list has it; none without a change, or for another's words."""
    with stream(relay) as legacy, stream(relay, "2024-11-05") as old, stream(relay, spec.MODERN) as modern:
        await_refresh(relay, tools)
        assert all(each.silent for each in (legacy, old, modern))
        for name in ("fresh-a", "fresh-b"):
            change(tools, name)
            for each, revision in ((legacy, "2025-11-25"), (old, "2024-11-05"), (modern, spec.MODERN)):
                notice = each.receive()
                assert notice["method"] == CHANGED
                spec.check(notice, revision=revision, method=None)
                assert notice.get("params", {}).get("_meta", {}).get(SUBSCRIPTION) == (
                    "sub" if each is modern else None
                )
            listed = {tool["name"] for tool in relay.call_as("2025-11-25", "tools/list").result["tools"]}
            assert name in listed
        await_refresh(relay, tools)
        assert all(each.silent for each in (legacy, old, modern))


@pytest.mark.parametrize(
    ("asked", "honoured"),
    [
        ({"notifications": {}}, {}),
        ({"notifications": {"promptsListChanged": True, "toolsListChanged": False}}, {}),
        ({"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}}, {"toolsListChanged": True}),
    ],
)
def test_a_subscription_is_told_what_it_gets(
    asked: dict[str, Any], honoured: dict[str, Any], relay: RelayProcess, tools: GatewayProcess
) -> None:
    """The acknowledgement names what was asked for and is told, and nothing else ever comes."""
    message, headers = build(spec.MODERN, "subscriptions/listen", asked, 0)
    opened = Stream(*relay.open(message, **headers))
    assert opened.receive()["params"] == {"_meta": {SUBSCRIPTION: 0}, "notifications": honoured}
    change(tools, f"fresh-{len(asked['notifications'])}-{len(honoured)}")
    await_refresh(relay, tools, 3)
    assert opened.silent is (honoured == {})
    opened.connection.hang_up()


@pytest.mark.parametrize("params", [{}, {"notifications": None}, {"notifications": ["toolsListChanged"]}])
def test_a_subscription_to_nothing_is_an_error(params: dict[str, Any], relay: RelayProcess) -> None:
    """Without the object that says to what, there is no stream."""
    assert relay.call_as(spec.MODERN, "subscriptions/listen", params).code == -32602


def test_a_subscription_needs_a_stream(relay: RelayProcess) -> None:
    """A client that takes JSON alone cannot subscribe, and is told so at once."""
    got = relay.call_as(spec.MODERN, "subscriptions/listen", WANTED, Accept="application/json")
    assert (got.status, got.json["id"]) == (406, 1)


def test_a_key_has_so_many_streams(relay: RelayProcess) -> None:
    """One more is refused at once: a subscription with the time to wait, a GET as one that is not served."""
    with stream(relay), stream(relay, "2025-03-26"):
        with stream(relay, spec.MODERN):
            refused = relay.call("subscriptions/listen", WANTED)
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            connection, got = relay.listen()
            assert (got.status, got.getheader("Allow")) == (405, "POST, OPTIONS")
            connection.close()
            assert relay.call_as(spec.MODERN, "tools/call", ECHO).result["isError"] is False
        wait_until(lambda: relay.busy == 2, 3)
        with stream(relay, spec.MODERN) as again:
            assert again.silent


def test_streams_end_in_order(tools: GatewayProcess, tmp_path: Path) -> None:
    """A relay that stops ends a subscription with its result and a notice, and a GET stream; it waits for neither."""
    with (
        RelayProcess(tmp_path, tools, drain_timeout=20) as relay,
        stream(relay) as legacy,
        stream(relay, spec.MODERN) as modern,
    ):
        started = time.monotonic()
        assert relay.stop() == 0
        assert time.monotonic() - started < 10
        result, notice = modern.receive(), modern.receive()
        spec.check(result, revision=spec.MODERN, method="subscriptions/listen")
        assert (result["id"], result["result"]["_meta"][SUBSCRIPTION]) == ("sub", "sub")
        assert (notice["method"], notice["params"]["requestId"]) == ("notifications/cancelled", "sub")
        assert (modern.receive(), legacy.receive()) == (None, None)


def test_without_streams_none_is_promised(tools: GatewayProcess, tmp_path: Path) -> None:
    """With max_streams 0 there is no GET, no subscription, and no list that is said to change."""
    with RelayProcess(tmp_path, tools, max_streams=0) as relay:
        discovered = relay.call_as(spec.MODERN, "server/discover").result
        assert discovered["capabilities"]["tools"] == {}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert relay.call_as("2025-11-25", "initialize", params).result["capabilities"]["tools"] == {}
        got = relay.call_as(spec.MODERN, "subscriptions/listen", WANTED)
        assert (got.status, got.code) == (404, -32601)
        connection, refused = relay.listen()
        assert refused.status == 405
        connection.close()
