"""The relay from its start to its end: stopped, reloaded and crowded, as operators and networks do it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from colabhive_mcp.cli.listening import READ_ON_SECONDS
from colabhive_mcp.cli.relay import SAME_SECONDS
from colabhive_mcp.transports.gate import RESERVE
from colabhive_mcp.transports.tenants import PROOF_SECONDS
from tests.harness.gateway import GatewayProcess
from tests.harness.network import Authority, Forwarder, open_silence
from tests.harness.processes import wait_until
from tests.harness.relay import RelayProcess, build_call, read_events, to_body
from tests.harness.tenants import add_keys, find_part, find_told, make_key

LEGACY = "2025-11-25"
INVOKE = "*:invoke"
LONG = {"name": "slow-count", "arguments": {"to": 6000, "interval": 0.1}}
MIB = 1024 * 1024
WANTED = {"notifications": {"toolsListChanged": True}}
Start = Callable[..., RelayProcess]


@pytest.fixture
def start(gateway: GatewayProcess, tmp_path: Path) -> Iterator[Start]:
    """Starts relays over the gateway; what is left of them at the end is killed."""
    with ExitStack() as stack:

        def begin(url: GatewayProcess | str = gateway, **settings: Any) -> RelayProcess:
            return stack.enter_context(RelayProcess(tmp_path, url, **settings))

        yield begin


class Tasks:
    """Requests that go on beside a test."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(64)

    def begin(self, task: Callable[..., Any], *arguments: Any, **more: Any) -> Future[Any]:
        """One of them; what it answers, or raises, is to be asked for."""
        return self._threads.submit(task, *arguments, **more)

    def close(self) -> None:
        """Wait for all."""
        self._threads.shutdown()


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    """Threads for requests."""
    tasks = Tasks()
    yield tasks
    tasks.close()


def read_text(result: Any) -> str:
    """The text of a result."""
    return "\n".join(block["text"] for block in result["content"])


def count_to(number: int, interval: float) -> dict[str, Any]:
    """A call that takes *number* times *interval* seconds at the gateway."""
    return {"name": "slow-count", "arguments": {"to": number, "interval": interval}}


def find_event(relay: RelayProcess, name: str) -> dict[str, Any]:
    """The last event called *name* in the log."""
    lines = [line for line in relay.log.read_text().splitlines() if f'"event": "{name}"' in line]
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def is_open(relay: RelayProcess) -> bool:
    """Whether a new connection is taken."""
    host, _, port = relay.address.partition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def signal_stop(relay: RelayProcess) -> None:
    """SIGTERM, and the moment when it has taken effect."""
    os.kill(relay.pid, signal.SIGTERM)
    wait_until(lambda: not is_open(relay))


def await_end(relay: RelayProcess, timeout: float) -> int:
    """Its exit code, which has to be there within *timeout* seconds."""
    assert relay.process is not None
    return relay.process.wait(timeout)


def read_slowly(answer: http.client.HTTPResponse) -> bytes:
    """An answer to its end, in small pieces with pauses between the first ones."""
    pieces, pause = [], threading.Event()
    while piece := answer.read(65_536):
        pieces.append(piece)
        if len(pieces) < 30:
            pause.wait(0.05)
    return b"".join(pieces)


# The end


def test_all_that_is_in_flight_is_finished(start: Start, gateway: GatewayProcess, tasks: Tasks) -> None:
    """A long reply to a slow reader, a poll and streams of both eras end well; nothing new is taken (R70)."""
    relay = start(max_result_bytes=8 * MIB)
    gateway.fault(path="*echo:invoke", body={"invocation_id": "i", "status": "succeeded", "result": "x" * 4 * MIB})
    asked, sent = build_call("tools/call", {"name": "echo", "arguments": {"text": "x"}}, modern=False)
    connection, long_answer = relay.open(asked, **sent)
    polled = tasks.begin(relay.call, "tools/call", count_to(30, 0.1), Accept="application/json")
    streamed = tasks.begin(relay.call, "tools/call", count_to(30, 0.1), modern=False)
    subscribed = tasks.begin(relay.call, "subscriptions/listen", WANTED)
    listening, legacy_stream = relay.listen()
    gateway.wait_seen("*slow-count:invoke", at_least=2)
    wait_until(lambda: relay.busy >= 4)
    reading = tasks.begin(read_slowly, long_answer)
    signal_stop(relay)
    assert "3" in read_text(polled.result(20).result)
    assert "3" in read_text(streamed.result(20).result)
    assert len(read_text(json.loads(reading.result(20))["result"])) == 4 * MIB
    messages = subscribed.result(20).messages
    assert [message.get("method") for message in messages] == [
        "notifications/subscriptions/acknowledged",
        None,
        "notifications/cancelled",
    ]
    assert legacy_stream.read().strip(b": \n") == b""  # to its proper end, or this raises
    assert await_end(relay, 20) == 0
    assert find_event(relay, "relay.stopped")["unfinished"] == 0
    assert "Traceback" not in relay.log.read_text()
    for each in (connection, listening):
        each.close()


def test_a_call_that_outlasts_the_end_is_told_where_its_result_will_be(start: Start, tasks: Tasks) -> None:
    """A poll that is not done in drain_timeout is answered with its invocation id, by which another relay finds it."""
    relay = start(drain_timeout=2)
    polls = [
        tasks.begin(relay.call, "tools/call", count_to(50, 0.1), modern=modern, Accept=accept)
        for modern, accept in ((True, "application/json"), (False, "application/json, text/event-stream"))
    ]
    wait_until(lambda: relay.busy == 2)
    started = time.monotonic()
    signal_stop(relay)
    ids = []
    for poll in polls:
        result = poll.result(20).result
        assert result["isError"]
        ids.append(read_text(result).partition('"invocation_id": "')[2].partition('"')[0])
    assert await_end(relay, 10) == 0
    assert time.monotonic() - started < 5
    other = start()
    for each in ids:
        wanted = {"name": "get_invocation_result", "arguments": {"invocation_id": each}}
        assert "50" in read_text(other.call("tools/call", wanted).result)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(second: signal.Signals, start: Start, tasks: Tasks) -> None:
    """Who asks twice does not wait for calls."""
    relay = start()
    call = tasks.begin(relay.call, "tools/call", LONG)
    wait_until(lambda: relay.busy == 1)
    signal_stop(relay)
    threading.Event().wait(2 * SAME_SECONDS)
    started = time.monotonic()
    os.kill(relay.pid, second)
    assert await_end(relay, 5) == 0
    assert time.monotonic() - started < 1
    with pytest.raises((http.client.HTTPException, OSError)):
        call.result(10)


def test_one_signal_that_comes_twice_is_one(start: Start, tasks: Tasks) -> None:
    """A wrapper that passes a signal on to a group that had it already does not cut off calls."""
    relay = start()
    call = tasks.begin(relay.call, "tools/call", count_to(15, 0.1))
    wait_until(lambda: relay.busy == 1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        os.kill(relay.pid, number)
    assert "15" in read_text(call.result(20).result)
    assert await_end(relay, 10) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_relay_ends_soon(number: signal.Signals, start: Start) -> None:
    """With nothing but idle connections there is nothing to wait for."""
    relay = start()
    relay.call("tools/list")
    host, _, port = relay.address.partition(":")
    with socket.create_connection((host, int(port)), 5):
        started = time.monotonic()
        os.kill(relay.pid, number)
        assert await_end(relay, 10) == 0
        assert time.monotonic() - started < 2


def test_a_gateway_that_hangs_does_not_keep_it(start: Start, gateway: GatewayProcess, tasks: Tasks) -> None:
    """A call that waits for an answer which never comes is given up after the time for calls."""
    relay = start(drain_timeout=1)
    relay.call("tools/list")
    gateway.fault(path=INVOKE, delay=60, times=-1)
    call = tasks.begin(relay.call, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    gateway.wait_seen(INVOKE)
    started = time.monotonic()
    assert relay.stop(20) == 0
    assert time.monotonic() - started < 8
    gateway.clear()
    answer = call.exception(20) or call.result().status
    assert isinstance(answer, Exception) or answer in (200, 503)


def test_a_burst_before_the_end_loses_nothing(start: Start, tasks: Tasks) -> None:
    """Of requests that come one after the other on kept connections, each that was taken is answered whole."""
    relay = start()
    relay.call("tools/list")
    message, sent = build_call("tools/call", {"name": "echo", "arguments": {"text": "x"}}, modern=True)
    headers = {n.replace("_", "-"): v for n, v in (relay.to_headers() | sent).items() if v is not None}

    def work() -> Counter[str]:
        seen: Counter[str] = Counter()
        connection = relay.connect(20)
        while True:
            try:
                connection.request("POST", "/mcp", to_body(message), headers)
            except ConnectionRefusedError:
                return seen
            except OSError:  # it was closed before the request could be sent
                connection.close()
                continue
            answer = connection.getresponse()
            seen[f"{answer.status} {len(answer.read()) > 0}"] += 1

    working = [tasks.begin(work) for _ in range(16)]
    wait_until(lambda: relay.busy > 4)
    os.kill(relay.pid, signal.SIGTERM)
    total = sum((each.result(30) for each in working), Counter[str]())
    assert await_end(relay, 20) == 0
    assert set(total) == {"200 True"}, total


# Settings read again


@contextmanager
def configured(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Writes the configuration file of a relay in that folder."""
    path = tmp_path / ".config" / "colabhive-mcp" / "config.toml"
    path.parent.mkdir(parents=True)
    yield path.write_text  # type: ignore[misc]


def reload(relay: RelayProcess, event: str) -> dict[str, Any]:
    """SIGHUP, and the event that tells what came of it."""
    before = relay.log.read_text().count(f'"event": "{event}"')
    os.kill(relay.pid, signal.SIGHUP)
    wait_until(lambda: relay.log.read_text().count(f'"event": "{event}"') > before)
    return find_event(relay, event)


def list_names(relay: RelayProcess, key: str | None = None) -> set[str]:
    """The tools that are listed."""
    got = relay.call("tools/list", Authorization=f"Bearer {key or relay.key}")
    return {tool["name"] for tool in got.result["tools"]}


def test_settings_are_read_again(start: Start, tasks: Tasks, tmp_path: Path) -> None:
    """What can change does, from the next request on; what can't is named; a call in flight goes on as it began."""
    with configured(tmp_path) as write:
        write('deny_tools = ["echo"]\n')
        relay = start()
        assert "echo" not in list_names(relay)
        call = tasks.begin(relay.call, "tools/call", count_to(15, 0.1))
        wait_until(lambda: relay.busy == 1)
        write('deny_tools = ["slow-*"]\nthreads = 64\nlog_level = "debug"\nmax_streams = 0\n')
        told = reload(relay, "relay.reloaded")
        assert sorted(told["changed"]) == ["deny_tools", "max_streams"]
        assert sorted(told["ignored"]) == ["log_level", "threads"]
        assert relay.ask("GET", "/health").json["threads"]["all"] == 128
        assert "echo" in list_names(relay)
        assert relay.call("tools/call", LONG).code == -32602
        assert "15" in read_text(call.result(20).result)


BROKEN = {
    "no TOML": "deny_tools = [",
    "an unknown key": "deny_tool = []\n",
    "a wrong value": 'tenant_concurrency = "many"\n',
    "what is not for many": 'upload_dir = "/tmp"\n',
    "a wrong Redis": 'rate_limit = "1/hour"\nrate_limit_storage = "redis://127.0.0.1:port/0"\n',
}


def test_a_broken_file_changes_nothing(start: Start, tmp_path: Path) -> None:
    """Where the settings cannot be used those before stay, and the log says what is wrong; then the next ones count."""
    with configured(tmp_path) as write:
        write('deny_tools = ["echo"]\n')
        relay = start()
        for text in BROKEN.values():
            write(text)
            assert "stay as they were" in reload(relay, "mcp.warning")["message"]
            assert "echo" not in list_names(relay)
        write("")
        reload(relay, "relay.reloaded")
        assert "echo" in list_names(relay)
        assert relay.stop() == 0
        assert "Traceback" not in relay.log.read_text()


def test_reloading_costs_no_request(start: Start, gateway: GatewayProcess, tasks: Tasks) -> None:
    """Twenty-four keys at work, and ten reloads meanwhile: every request is served."""
    keys = [make_key("busy") for _ in range(24)]
    add_keys(gateway, *keys)
    relay, ended = start(), threading.Event()
    gateway.fault(path="*/mcp/manifest", delay=0.05, times=-1)

    def work(key: str) -> Counter[tuple[int, bytes]]:
        seen: Counter[tuple[int, bytes]] = Counter()
        while not ended.is_set():
            got = relay.call("tools/call", {"name": "echo", "arguments": {"text": key}}, Authorization=f"Bearer {key}")
            seen[got.status, b"" if got.status == 200 and key.encode() in got.body else got.body] += 1
        return seen

    working = [tasks.begin(work, key) for key in keys]
    try:
        for _ in range(10):
            reload(relay, "relay.reloaded")
    finally:
        ended.set()
    total = sum((each.result(30) for each in working), Counter[tuple[int, bytes]]())
    assert set(total) == {(200, b"")}
    wait_until(lambda: relay.busy == 0)


# Many connections, and long waits


def count_files(relay: RelayProcess) -> int:
    """The files that the relay has open."""
    return len(list(Path(f"/proc/{relay.pid}/fd").iterdir()))


@contextmanager
def crowd(relay: RelayProcess, number: int) -> Iterator[None]:
    """So many connections that ask nothing."""
    host, _, port = relay.address.partition(":")
    with ExitStack() as stack:
        for _ in range(number):
            stack.enter_context(socket.create_connection((host, int(port)), 10))
        yield


@pytest.mark.parametrize("number", [300, 1200])
def test_idle_connections_keep_nobody_out(number: int, start: Start) -> None:
    """Beyond any number that select() knows, everybody is served, and in the end nothing of it is left (R69)."""
    relay = start()
    list_names(relay)
    before = count_files(relay)
    with crowd(relay, number):
        assert relay.ask("GET", "/health").status == 200  # behind which all of them have been taken
        started = time.monotonic()
        assert list_names(relay)
        assert relay.ask("GET", "/health").status == 200
        assert time.monotonic() - started < 1
    wait_until(lambda: count_files(relay) <= before + 2)
    assert relay.stop() == 0
    assert "ValueError" not in relay.log.read_text()


def test_few_files_are_shared_out(gateway: GatewayProcess, tmp_path: Path) -> None:
    """Where a process may open few files, connections beyond them wait, and neither processor nor log is filled."""
    command = ["sh", "-c", 'ulimit -n 200 && exec "$@"', "sh", sys.executable, "-m", "colabhive_mcp", "serve"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLABHIVE_API_URL": gateway.url}
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--port", "0"], env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd="/"
        )
    with process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2].partition("/")[0])
            with ExitStack() as stack:
                for _ in range(300):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
                used = read_processor(process.pid)
                threading.Event().wait(1.5)
                assert read_processor(process.pid) - used < 0.5
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
            connection.close()
        finally:
            process.terminate()
            process.wait(30)
    assert len(log.read_text().splitlines()) < 20


def read_processor(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_crowd_of_calls_leaves_the_reserve(start: Start, gateway: GatewayProcess, tasks: Tasks) -> None:
    """With every call thread of the default settings polling, the rest is served as if there were nothing (R69)."""
    keys = [make_key("crowd") for _ in range(4)]
    add_keys(gateway, *keys)
    relay = start()
    for key in keys:
        list_names(relay, key)
    params = {**LONG, "_meta": {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    statuses: Counter[int] = Counter()
    with ExitStack() as stack:
        for key in keys * 32:
            connection, answer = relay.open(message, Authorization=f"Bearer {key}", MCP_Protocol_Version=LEGACY)
            stack.callback(connection.close)
            stack.callback(answer.close)
            statuses[answer.status] += 1
        assert statuses == {200: 128 - RESERVE, 503: RESERVE}
        for path in ("/health", "/metrics", "/ready"):
            started = time.monotonic()
            assert relay.ask("GET", path).status == 200
            assert time.monotonic() - started < 1
        started = time.monotonic()
        assert list_names(relay)
        assert relay.call("tools/call", LONG).status == 503
        assert time.monotonic() - started < 1
    wait_until(lambda: relay.busy == 0, timeout=4)


def test_five_hundred_bad_keys_disturb_nobody(start: Start, gateway: GatewayProcess, tasks: Tasks) -> None:
    """A burst of bad keys evicts nobody, and brings the gateway one question a key at most."""
    good = [make_key("good") for _ in range(8)]
    add_keys(gateway, *good)
    relay = start(max_tenants=8)
    for key in good:
        list_names(relay, key)
    gateway.clear()
    bad = [make_key("bad") for _ in range(500)]

    def flood(keys: list[str]) -> Counter[int]:
        return Counter(relay.call("tools/list", Authorization=f"Bearer {key}").status for key in keys for _ in range(2))

    flooding = [tasks.begin(flood, bad[first::8]) for first in range(8)]
    while not all(each.done() for each in flooding):
        assert all(list_names(relay, key) for key in good)
    assert sum((each.result() for each in flooding), Counter[int]()) == {401: 1000}
    digests = Counter(each["headers"]["x-api-key"] for each in gateway.seen("/mcp/manifest"))
    assert max(digests.values()) == 1
    assert not {sha256(key.encode()).hexdigest() for key in good} & digests.keys()
    assert relay.ask("GET", "/health").json["tenants"] == 8


def test_unknown_keys_leave_lists_to_known_ones(start: Start, gateway: GatewayProcess, tasks: Tasks) -> None:
    """While the gateway hangs over its manifest and unknown keys come in a flood, a key that is known has its list."""
    relay = start(threads=16, manifest_ttl=3600)
    list_names(relay)
    gateway.fault(path="*/mcp/manifest", delay=60, times=-1)
    end = time.monotonic() + PROOF_SECONDS + 3

    def flood() -> Counter[int]:
        seen, pause = Counter[int](), threading.Event()
        while time.monotonic() < end:
            seen[relay.call("tools/list", Authorization=f"Bearer {make_key('flood')}").status] += 1
            pause.wait(0.1)
        return seen

    flooding = [tasks.begin(flood) for _ in range(24)]
    pause = threading.Event()
    while time.monotonic() < end:
        started = time.monotonic()
        assert list_names(relay)
        assert relay.ask("GET", "/health").status == 200
        assert time.monotonic() - started < 1
        pause.wait(0.2)
    gateway.clear()
    assert sum((each.result(60) for each in flooding), Counter[int]())[503] > 0


def test_as_many_keys_as_have_places_may_come_at_once(start: Start, gateway: GatewayProcess, tasks: Tasks) -> None:
    """After a start sixty-four clients come together, while the gateway takes its time: all of them are let in."""
    keys = [make_key("early") for _ in range(64)]
    add_keys(gateway, *keys)
    relay = start()
    gateway.fault(path="*/mcp/manifest", delay=0.3, times=-1)
    coming = [tasks.begin(relay.call, "tools/list", Authorization=f"Bearer {key}") for key in keys]
    assert Counter(each.result(30).status for each in coming) == {200: 64}
    assert relay.ask("GET", "/health").json["tenants"] == 64


def test_a_gateway_that_hangs_delays_a_start_by_seconds(start: Start) -> None:
    """What needs no tools is answered after a short wait, a list says which host does not answer; health goes on."""
    with open_silence() as port:
        relay = start(f"http://127.0.0.1:{port}", http_timeout=7, connect_timeout=1)
        started = time.monotonic()
        assert relay.call("server/discover", Authorization="Bearer hive_any").status == 200
        assert PROOF_SECONDS - 0.5 < time.monotonic() - started < PROOF_SECONDS + 2
        assert relay.ask("GET", "/health").json["tenants"] == 0
        got = relay.call("tools/list", Authorization="Bearer hive_any")
        assert (got.status, got.code) == (200, -32603)
        assert f"127.0.0.1:{port}" in got.json["error"]["message"]


def test_readiness_is_the_gateways(tmp_path: Path) -> None:
    """A gateway that answers makes the relay ready, whatever it says; one that is gone or hangs does not, in words."""
    with GatewayProcess(tmp_path) as gateway, open_silence() as silence:
        relays = [
            RelayProcess(tmp_path, url, connect_timeout=0.3, http_timeout=0.3)
            for url in (gateway.url, "http://127.0.0.1:9", f"http://127.0.0.1:{silence}")
        ]
        with ExitStack() as stack:
            for each in relays:
                stack.enter_context(each)
            with ThreadPoolExecutor(len(relays)) as threads:
                up, gone, hanging = threads.map(lambda each: each.ask("GET", "/ready"), relays)
            assert (up.status, up.json) == (200, {"status": "ready"})
            for got in (gone, hanging):
                assert (got.status, got.json["status"]) == (503, "unready")
                assert "127.0.0.1" in got.json["error"]
            assert relays[1].ask("GET", "/health").status == 200
            asked = len(gateway.seen())
            assert [relays[0].ask("GET", "/ready").status for _ in range(5)] == [200] * 5
            assert len(gateway.seen()) == asked


def test_no_time_out_tells_a_key(start: Start, gateway: GatewayProcess) -> None:
    """With all logging on, a gateway that is slow, breaks off or is gone is told of without any key (R49)."""
    keys = [make_key("slow") for _ in range(3)]
    add_keys(gateway, *keys)
    relay = start(http_timeout=0.5, connect_timeout=0.5, sync_timeout=1, log_level="debug", log_jsonrpc="true")
    echo = {"name": "echo", "arguments": {"text": "x"}}
    bodies = []
    for key, fault in zip(keys, ({"delay": 2.0}, {"reset": "before"}, {"reset": "after"}), strict=True):
        gateway.fault(path="*/mcp/manifest", times=-1, **fault)
        bodies.append(relay.call("tools/list", Authorization=f"Bearer {key}").body.decode())
        gateway.clear()
        wait_until(
            lambda key=key: relay.call("tools/list", Authorization=f"Bearer {key}").last.get("result") is not None
        )
        gateway.fault(path=INVOKE, times=-1, **fault)
        bodies.append(relay.call("tools/call", echo, Authorization=f"Bearer {key}").body.decode())
        gateway.clear()
    assert relay.stop() == 0
    assert find_told(keys, relay.log.read_text() + "\n".join(bodies)) == []


def test_no_failure_of_tls_tells_a_key(gateway: GatewayProcess, tmp_path: Path) -> None:
    """A gateway whose certificate nobody vouches for is named, and the key is not."""
    authority = Authority(tmp_path)
    with Forwarder(gateway.port, tls=authority.server) as forwarder:
        url = f"https://127.0.0.1:{forwarder.port}"
        with RelayProcess(tmp_path, url, log_level="debug", log_jsonrpc="true") as relay:
            got = relay.call("tools/list", Authorization=f"Bearer {gateway.key}")
            assert (got.status, got.code) == (200, -32603)
            assert "certificate" in got.body.decode()
            assert find_part(gateway.key, got.body.decode() + relay.log.read_text()) is None
            assert relay.stop() == 0
        assert gateway.key.encode() not in b"".join(forwarder.heads)


def test_a_refused_client_that_never_stops_is_cut_off(start: Start) -> None:
    """What is still sent after a refusal is read for some seconds, and no longer."""
    relay = start()
    host, _, port = relay.address.partition(":")
    started, pause = time.monotonic(), threading.Event()
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        try:
            while time.monotonic() < started + 3 * READ_ON_SECONDS:
                connection.sendall(b"x" * 1024)
                pause.wait(0.02)
        except OSError:
            pass
    assert READ_ON_SECONDS - 1 < time.monotonic() - started < 2 * READ_ON_SECONDS


def test_a_stream_outlasts_the_idle_time_of_a_proxy(start: Start) -> None:
    """An open stream has a sign of life every 15 s at least, whatever happens."""
    relay = start()
    connection, answer = relay.listen()
    moments = [time.monotonic()]
    for event in read_events(answer):
        assert event is None
        moments.append(time.monotonic())
        if len(moments) == 4:
            break
    assert max(after - before for before, after in pairwise(moments)) < 15
    answer.close()
    connection.close()
