"""Calls that take time, over the real process and gateway: progress, cancellation, deadlines, and others meanwhile."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Connect
from tests.harness.client import META, StdioClient
from tests.harness.gateway import GatewayProcess
from tests.harness.processes import INITIALIZE, build_environment, count_waiting, spawn, wait_until
from tests.harness.spec import MODERN

LOOKUP = "get_invocation_result"
PROGRESS = "notifications/progress"
PROMPT = 0.25  # seconds in which what needs no worker is answered


@pytest.fixture(scope="module")
def peer(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """One server for all tests of this module that need no settings of their own."""
    folder = tmp_path_factory.mktemp("peer")
    environment = build_environment(shared_gateway, folder, poll_interval=0.1)
    with StdioClient(folder, environment=environment) as client:
        client.open()
        client.tools()
        yield client
        assert client.close() == 0
        assert "Traceback" not in client.stderr


def start(client: StdioClient, name: str, token: Any = None, *, request_id: Any = None, **arguments: Any) -> Any:
    """Send a call; answers its id."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return client.request("tools/call", params, request_id=request_id)


def start_slow(client: StdioClient, token: Any = None, *, request_id: Any = None) -> Any:
    """Send a call that takes a minute."""
    return start(client, "slow-count", token, request_id=request_id, to=60, interval=1)


def cancel(client: StdioClient, request_id: Any, **params: Any) -> None:
    """Say that nobody waits for *request_id* any more."""
    client.notify("notifications/cancelled", {"requestId": request_id, **params})


def expect_served(client: StdioClient) -> None:
    """A ping, a list and a call are answered, and nothing else comes."""
    for method, params in (
        ("ping", None),
        ("tools/list", None),
        ("tools/call", {"name": "echo", "arguments": {"text": "x"}}),
    ):
        response, before = client.wait(client.request(method, params))
        assert "result" in response
        assert before == []


# Progress


@pytest.mark.parametrize("revision", ["2024-11-05", MODERN])
def test_progress_of_a_cold_job(revision: str, gateway: GatewayProcess, connect: Connect) -> None:
    """With a token: progress before the gateway has answered, then the job's states, rising, and the reply last."""
    client = connect(gateway, revision=revision, poll_interval=0.1)
    client.tools()
    gateway.fault(path="*slow-count:invoke", delay=60)
    request_id = start(client, "slow-count", "token", to=3, interval=0.2)
    first = client.receive()
    assert first["method"] == PROGRESS
    gateway.wait_seen("*slow-count:invoke")
    assert client.drain() == []
    gateway.ask("DELETE", "/_faults")
    response, before = client.wait(request_id)
    assert not response["result"]["isError"]
    assert client.drain(0.3) == []
    assert {message["method"] for message in before} == {PROGRESS}
    steps = [message["params"] for message in (first, *before)]
    numbers = [step["progress"] for step in steps]
    assert numbers == sorted(set(numbers))
    assert {step["progressToken"] for step in steps} == {"token"}
    words = " ".join(step.get("message", "") for step in steps)
    if revision == "2024-11-05":
        assert words.strip() == ""
    else:
        assert re.search("Started.*[Qq]ueued.*Running.*counted 1 of 3.*counted 2 of 3", words)
    assert gateway.seen("slow-count:invoke")[0]["body"]["sync_timeout_s"] <= 10


def test_progress_rises_whatever_the_gateway_says(gateway: GatewayProcess, peer: StdioClient) -> None:
    """A gateway that repeats itself, goes back or talks nonsense makes no progress that repeats or falls."""
    details = ["50 %", "50 %", "20 %", None, 7, "50 %", {"x": 1}, "", "50 %"]
    gateway.fault(path="*echo:invoke", body={"invocation_id": "i", "status": "queued", "model_state": "cold"})
    for number, detail in enumerate(details):
        status = ("running", "queued", "pending", "thinking")[number % 4]
        body = {"invocation_id": "i", "status": status, "status_detail": detail, "progress": 0.5}
        gateway.fault(path="*/invocations/i", body=body)
    gateway.fault(path="*/invocations/i", body={"invocation_id": "i", "status": "completed", "result": "done"})
    response, before = peer.wait(start(peer, "echo", 0, text="x"))
    assert response["result"]["content"][0]["text"] == "done"
    numbers = [message["params"]["progress"] for message in before]
    assert len(numbers) > 4
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("status", [429, 503])
def test_progress_while_the_gateway_asks_to_wait(status: int, gateway: GatewayProcess, peer: StdioClient) -> None:
    """A wait that the gateway orders is told with progress too."""
    gateway.fault(path="*echo:invoke", status=status, headers={"Retry-After": "1"})
    response, before = peer.wait(start(peer, "echo", "t", text="x"))
    assert response["result"]["content"][0]["text"] == "x"
    assert before[0]["params"]["progress"] == 0
    assert len(gateway.seen("echo:invoke")) == 2


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_each_call_has_its_own_token(revision: str, gateway: GatewayProcess, connect: Connect) -> None:
    """Parallel calls tell their progress under their own token, of its JSON type, 0 and the empty string included."""
    client = connect(gateway, revision=revision, poll_interval=0.1)
    tokens = [0, "", 7, "7", "abc", -1, 2**53, "é漢🎉"]
    calls = {start(client, "slow-count", token, to=2, interval=0.1): token for token in tokens}
    seen = []
    while calls:
        message = client.receive()
        if "method" in message:
            seen.append(message["params"]["progressToken"])
            assert (type(seen[-1]), seen[-1]) in {(type(token), token) for token in calls.values()}
        else:
            assert not message["result"]["isError"]
            del calls[message["id"]]
    for token in tokens:
        assert sum((type(each), each) == (type(token), token) for each in seen) > 1


def test_without_a_token_there_is_no_progress(gateway: GatewayProcess, peer: StdioClient) -> None:
    """Nobody is told of progress who gave no token, or one of another type; the calls are served all the same."""
    no_tokens = ({}, {"a": 1}, [], [1], True, False, 1.5, None)
    metas = [None, {}, [], "x", 7, {"other": 1}, *({"progressToken": token} for token in no_tokens)]
    call = {"name": "slow-count", "arguments": {"to": 1, "interval": 0.1}}
    ids = {peer.request("tools/call", {**call, "_meta": meta}) for meta in metas}
    answers = [peer.receive() for _ in ids]
    assert {answer["id"] for answer in answers} == ids
    assert not any(answer["result"]["isError"] for answer in answers)


# Cancellation


def test_cancelled_before_it_began(gateway: GatewayProcess, connect: Connect) -> None:
    """A call that waits for a worker when it is cancelled is never sent to the gateway, nor answered."""
    client = connect(gateway, workers=1, poll_interval=0.1)
    first = start_slow(client)
    gateway.wait_seen("*/invocations/*")
    waiting = [start(client, "echo", "t", text=str(number)) for number in range(3)]
    cancel(client, waiting[1], reason="never mind")
    cancel(client, first)
    for request_id in (waiting[0], waiting[2]):
        _, before = client.wait(request_id)
        assert {message.get("method") for message in before} == {PROGRESS}
    assert client.drain(0.2) == []
    assert [each["body"]["input"]["text"] for each in gateway.seen("echo:invoke")] == ["0", "2"]


def test_cancelled_while_the_gateway_is_asked(gateway: GatewayProcess, peer: StdioClient) -> None:
    """A call that is cancelled during its POST is not answered, nor polled when the gateway takes it all the same."""
    gateway.fault(path="*slow-count:invoke", delay=60)
    request_id = start_slow(peer, "t")
    assert peer.receive()["method"] == PROGRESS
    gateway.wait_seen("*slow-count:invoke")
    cancel(peer, request_id)
    expect_served(peer)
    gateway.ask("DELETE", "/_faults")
    wait_for_status(peer, "cancelled")
    assert peer.drain() == []
    assert gateway.seen("/invocations/") == []


def wait_for_status(client: StdioClient, status: str, timeout: float = 15.0) -> None:
    """Wait until the log says that the last call ended like that."""
    end = time.monotonic() + timeout
    while (events := client.events("mcp.tool.invoked")) == [] or events[-1]["status"] != status:
        assert time.monotonic() < end, client.stderr
        client.drain(0.02)


def test_cancelled_while_polled(gateway: GatewayProcess, peer: StdioClient) -> None:
    """A cancelled job is not polled any more, the log says so at once, and its call is not answered."""
    request_id = start_slow(peer, "t")
    gateway.wait_seen("*/invocations/*", at_least=2)
    cancel(peer, request_id, reason="AbortError: the user has changed his mind")
    peer.wait(peer.request("ping"))
    started = time.monotonic()
    wait_for_status(peer, "cancelled", timeout=1.0)
    assert time.monotonic() - started < 1.0
    polls = len(gateway.seen("/invocations/"))
    expect_served(peer)
    assert peer.drain(0.3) == []
    assert len(gateway.seen("/invocations/")) == polls
    assert len(gateway.seen("slow-count:invoke")) == 1


def test_cancelled_while_it_waits_to_retry(gateway: GatewayProcess, peer: StdioClient) -> None:
    """A wait that the gateway ordered ends with the cancellation."""
    gateway.fault(path="*echo:invoke", status=429, headers={"Retry-After": "60"}, times=-1)
    request_id = start(peer, "echo", "t", text="x")
    gateway.wait_seen("*echo:invoke")
    cancel(peer, request_id)
    peer.wait(peer.request("ping"))
    wait_for_status(peer, "cancelled")
    gateway.clear()
    expect_served(peer)


def test_cancelled_at_any_moment(gateway: GatewayProcess, peer: StdioClient) -> None:
    """Wherever a cancellation meets its call there is at most one reply, and none behind the next answer."""
    answered = 0
    for number in range(150):
        request_id = start(peer, "echo", number % 2 or None, text="x" * (number % 3) * 1000)
        seen: list[dict[str, Any]] = []
        while number % 10 > len(seen):  # let some be on their way, and some be done
            more = peer.drain(0.002)
            if not more:
                break
            seen += more
        cancel(peer, request_id)
        _, before = peer.wait(peer.request("ping"))
        replies = [message for message in (*seen, *before) if message.get("id") == request_id]
        assert len(replies) <= 1
        answered += len(replies)
        assert all(message.get("id", request_id) == request_id for message in (*seen, *before))
    assert peer.drain(0.2) == []
    assert answered < 150
    expect_served(peer)


def test_a_reply_that_waits_its_turn_is_withdrawn(gateway: GatewayProcess, tmp_path: Path) -> None:
    """A cancellation also takes back a reply that is ready but waits behind another for a slow reader."""
    log = tmp_path / "log"
    environment = build_environment(gateway, tmp_path, max_result_bytes=2**22, log_jsonrpc=True)

    def send(message: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()

    def send_call(request_id: int, text: str) -> None:
        params = {"name": "echo", "arguments": {"text": text}}
        send({"id": request_id, "method": "tools/call", "params": params})
        gateway.wait_seen("*echo:invoke", at_least=request_id)

    with spawn(environment, log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INITIALIZE)
        send_call(1, "x" * 2**20)
        wait_until(lambda: count_waiting(process.stdout.fileno()) > 60_000)
        send_call(2, "withdrawn")
        gateway.ask("GET", "/_faults/requests?path=nothing&at_least=1&timeout=0.2")  # time for the reply to be ready
        send({"method": "notifications/cancelled", "params": {"requestId": 2}})
        send({"id": "read", "method": "ping"})
        wait_until(lambda: '\\"read\\"' in log.read_text())
        process.stdin.close()
        replies = [json.loads(line) for line in process.stdout]
        assert [reply["id"] for reply in replies] == ["init", 1, "read"]


def test_a_cancelled_list_is_not_answered(gateway: GatewayProcess, connect: Connect) -> None:
    """A list can be cancelled like a call, and the next one is served."""
    gateway.fault(path="*/manifest", delay=60, times=-1)
    client = connect(gateway)
    request_id = client.request("tools/list")
    gateway.wait_seen("*/manifest")
    cancel(client, request_id)
    client.wait(client.request("ping"))
    gateway.clear()
    expect_served(client)


@pytest.fixture(scope="module")
def peers(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, StdioClient]]:
    """A server in each era."""
    folder = tmp_path_factory.mktemp("peers")
    environment = build_environment(shared_gateway, folder, poll_interval=0.1)
    with (
        StdioClient(folder, environment=environment) as legacy,
        StdioClient(folder, environment=environment, revision=MODERN) as modern,
    ):
        yield {client.revision: client.open() for client in (legacy, modern)}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_what_names_nothing_in_flight_cancels_nothing(
    revision: str, gateway: GatewayProcess, peers: dict[str, StdioClient]
) -> None:
    """A cancellation of another id, another type of id or no id at all is ignored, whatever its shape."""
    client = peers[revision]
    start(client, "slow-count", request_id=1, to=2, interval=0.2)
    others = (None, "1", 1.0, 1.5, True, [1], {}, {"id": 1}, 999, "", "slow-count")
    for params in (None, {}, [], [1], "x", 1, {"reason": "x"}, *({"requestId": other} for other in others)):
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    response, before = client.wait(1)
    assert response["result"]["structuredContent"] == {"counted": 2}
    assert before == []
    cancel(client, 1)
    cancel(client, 1)
    assert client.call("echo", {"text": "next"})["content"][0]["text"] == "next"


@pytest.mark.parametrize("with_meta", [True, False], ids=["envelope", "bare"])
def test_each_kind_of_id_can_be_cancelled(
    with_meta: bool, gateway: GatewayProcess, peers: dict[str, StdioClient]
) -> None:
    """In the modern era a cancellation is heard with and without the envelope, for an id of any type and value."""
    client = peers[MODERN]
    ids = [1, 0, -1, "1", "", "listen:0", 2**53, "é漢🎉"]
    for request_id in ids:
        start_slow(client, request_id=request_id)
    gateway.wait_seen("*slow-count:invoke", at_least=len(ids))
    meta = {META + "protocolVersion": client.revision, META + "clientCapabilities": {}}
    for request_id in [*ids, *ids]:
        cancel(client, request_id, **({"_meta": meta} if with_meta else {}))
    assert client.call("echo", {"text": "next"})["content"][0]["text"] == "next"
    wait_for_idle(gateway)
    assert client.drain() == []


def wait_for_idle(gateway: GatewayProcess) -> None:
    """Three looks in a row find no new poll."""
    counts = [-1, -2, -3]
    end = time.monotonic() + 10
    while len(set(counts[-3:])) > 1:
        assert time.monotonic() < end
        counts.append(len(gateway.seen("/invocations/")))
        gateway.ask("GET", "/_faults/requests?path=nothing&at_least=1&timeout=0.15")


def test_an_id_may_be_used_again(gateway: GatewayProcess, peer: StdioClient) -> None:
    """After its reply or its cancellation an id is free, and the earlier call's end doesn't touch the later one's."""
    for _ in range(5):
        start_slow(peer, request_id="again")
        cancel(peer, "again")
    for number in range(5):
        start(peer, "echo", request_id="again", text=str(number))
        response, before = peer.wait("again")
        assert response["result"]["content"][0]["text"] == str(number)
        assert before == []


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "ping"])
def test_an_id_in_use_is_refused(method: str, gateway: GatewayProcess, peer: StdioClient) -> None:
    """A second request under an id in flight is an error without an id, and the first is answered exactly once."""
    request_id = start(peer, "slow-count", to=2, interval=0.2)
    gateway.wait_seen("*slow-count:invoke")
    peer.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {"name": "echo", "arguments": {}}})
    peer.note({"id": request_id, "method": "tools/call"})
    error = peer.receive()
    assert (error["error"]["code"], error.get("id")) == (-32600, None)
    response, before = peer.wait(request_id)
    assert response["result"]["structuredContent"] == {"counted": 2}
    assert before == []
    assert gateway.seen("echo:invoke") == []


# Our own deadline


def test_a_job_that_takes_too_long_can_be_fetched_later(gateway: GatewayProcess, connect: Connect) -> None:
    """Past ``poll_max_wait`` the answer names the invocation and the tool that fetches it; nothing is started twice."""
    client = connect(gateway, poll_interval=0.1, poll_max_wait=1)
    started = time.monotonic()
    result = client.call("slow-count", {"to": 3, "interval": 0.5})
    assert time.monotonic() - started < 5
    assert result["isError"]
    assert "structuredContent" not in result
    text = result["content"][0]["text"]
    assert LOOKUP in text
    assert "no new cost" in text
    match = re.search(r'"invocation_id": "([^"]+)"', text)
    assert match, text
    later = client.call(LOOKUP, {"invocation_id": match[1]})
    while later["isError"]:
        assert match[1] in later["content"][0]["text"]
        later = client.call(LOOKUP, {"invocation_id": match[1]})
    assert "3" in later["content"][0]["text"]
    assert len(gateway.seen(":invoke")) == 1
    assert client.events("mcp.tool.invoked")[0]["status"] == "gave_up"


def test_the_deadline_of_a_tool_is_its_own(gateway: GatewayProcess, connect: Connect) -> None:
    """``poll_max_wait_for`` gives a tool a longest wait that differs from that of all others."""
    client = connect(gateway, poll_interval=0.1, poll_max_wait=60, poll_max_wait_for="nothing*=30,slow-*=0.5,*=40")
    started = time.monotonic()
    assert LOOKUP in client.call("slow-count", {"to": 60, "interval": 1})["content"][0]["text"]
    assert time.monotonic() - started < 5
    assert not client.call("echo", {"text": "x"})["isError"]
    assert client.tools()[LOOKUP]["annotations"]["readOnlyHint"] is True


def test_the_deadline_ends_a_wait_for_an_answer(gateway: GatewayProcess, connect: Connect) -> None:
    """A gateway that never answers, or says that the job runs on for ever, holds nobody longer than the deadline."""
    client = connect(gateway, poll_interval=0.1, poll_max_wait=1)
    gateway.fault(path="*echo:invoke", body={"invocation_id": "i", "status": "pondering"})
    gateway.fault(path="*/invocations/i", body={"invocation_id": "i", "status": "pondering"}, times=-1)
    result = client.call("echo", {"text": "x"}, timeout=5)
    assert result["isError"]
    assert '"i"' in result["content"][0]["text"]
    gateway.clear()
    gateway.fault(path="*echo:invoke", delay=60)
    assert client.call("echo", {"text": "x"}, timeout=10)["isError"]


@pytest.mark.parametrize(
    "arguments", [{"invocation_id": "no-such"}, {"invocation_id": "../manifest"}, {}, {"invocation_id": 7}]
)
def test_a_lookup_of_nothing_says_so(arguments: dict[str, Any], gateway: GatewayProcess, peer: StdioClient) -> None:
    """An invocation that the gateway doesn't know is a tool error, and no other path is asked for."""
    result = peer.call(LOOKUP, arguments)
    assert result["isError"]
    assert all("/invocations/" in each["path"] for each in gateway.seen() if "manifest" not in each["path"])
    assert gateway.seen(":invoke") == []


# While everything is busy


def test_what_needs_no_worker_is_answered_while_all_wait(gateway: GatewayProcess, connect: Connect) -> None:
    """With every worker taken, pings, lists and errors are answered at once, and cancelled workers are free at once."""
    client = connect(gateway, workers=4, poll_interval=0.1)
    client.tools()
    gateway.fault(path="*echo:invoke", delay=60, times=-1)
    polled = [start_slow(client) for _ in range(2)]
    asked = [start(client, "echo", text="x") for _ in range(2)]
    gateway.wait_seen("*/invocations/*", at_least=2)
    gateway.wait_seen("*echo:invoke", at_least=2)
    times: dict[str, list[float]] = {}
    for method in ("ping", "tools/list", "resources/list", "no/such") * 5:
        started = time.monotonic()
        response, before = client.wait(client.request(method))
        times.setdefault(method, []).append(time.monotonic() - started)
        assert before == []
        assert ("result" in response) == (method != "no/such")
    assert {method: took for method, took in times.items() if statistics.median(took) > PROMPT} == {}
    waiting = start(client, "text-stats", text="x")
    for request_id in (*polled, *asked):
        cancel(client, request_id)
    started = time.monotonic()
    response, before = client.wait(waiting)
    assert time.monotonic() - started < 2
    assert (before, response["result"]["isError"]) == ([], False)
    gateway.clear()
    expect_served(client)


def test_calls_beyond_the_workers_run_later_in_order(gateway: GatewayProcess, connect: Connect) -> None:
    """Calls queue behind the workers, and are sent in the order in which they came."""
    client = connect(gateway, workers=1, poll_interval=0.1)
    ids = [start(client, "slow-count", to=1, interval=0.1)]
    ids += [start(client, "echo", text=str(number)) for number in range(12)]
    assert [client.receive()["id"] for _ in ids] == ids
    assert [each["body"]["input"]["text"] for each in gateway.seen("echo:invoke")] == [str(n) for n in range(12)]


def test_many_calls_run_at_a_time(gateway: GatewayProcess, connect: Connect) -> None:
    """All 32 workers are at work at once, each on its own connection."""
    client = connect(gateway)
    gateway.fault(path="*echo:invoke", delay=60, times=-1)
    ids = {start(client, "echo", text=str(number)) for number in range(31)}
    gateway.wait_seen("*echo:invoke", at_least=31)
    gateway.clear()
    assert {client.receive()["id"] for _ in ids} == ids


def test_ping_is_gone_in_the_modern_era(gateway: GatewayProcess, peers: dict[str, StdioClient]) -> None:
    """2026-07-28 has no ping: it is an unknown method there, even while calls run."""
    client = peers["2026-07-28"]
    slow = start_slow(client)
    assert client.ask("ping")["error"]["code"] == -32601
    cancel(client, slow)
    assert peers["2025-11-25"].ask("ping")["result"] == {}
