"""Two relays behind the real nginx with the file that operators install: what clients and gateway notice of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from colabhive_mcp.localgateway.store import Store
from tests.harness.gateway import GatewayProcess
from tests.harness.nginx import NginxProcess, find_nginx
from tests.harness.processes import wait_until
from tests.harness.relay import RelayProcess, build_call

pytestmark = pytest.mark.skipif(find_nginx() is None, reason="nginx is not installed")

NAME = "mcp.example.org"
KEYS = tuple(f"hive_nginxKey{number:04}abcdefgh" for number in range(12))
PROMPT = 1.0  # seconds to the first byte of a stream, and more than one event may take from relay to client
SETTINGS = {"trusted_proxy": "127.0.0.1", "allowed_hosts": NAME, "poll_interval": 0.1}


class Stage(NamedTuple):
    """A gateway, relays over it, and nginx in front of them."""

    gateway: GatewayProcess
    relays: Sequence[RelayProcess]
    nginx: NginxProcess

    def list_tools(self, **headers: str | None) -> str:
        """Ask for the tools; answers the address of the relay that did it."""
        agent = f"tests {time.monotonic_ns()}"
        assert self.nginx.call("tools/list", **headers, User_Agent=agent).status == 200
        relay: str = self.nginx.find_served(agent)["relay"]
        return relay

    def find_home(self, key: str) -> RelayProcess:
        """The relay that *key* is served by."""
        address = self.list_tools(Authorization=f"Bearer {key}")
        return next(relay for relay in self.relays if relay.address == address)


@contextlib.contextmanager
def open_stage(folder: Path, gateway: GatewayProcess, **options: Any) -> Iterator[Stage]:
    """Two relays and nginx; *options* are nginx's."""
    with Store(gateway.database) as store:
        for key in KEYS:
            store.create_key(key)
    with ExitStack() as stack:
        given = SETTINGS | {"log_jsonrpc": "true"}
        relays = [stack.enter_context(RelayProcess(folder, gateway, **given)) for _ in range(2)]
        nginx = NginxProcess(folder, [relay.address for relay in relays], **options)
        yield Stage(gateway, relays, stack.enter_context(nginx))


@pytest.fixture(scope="module")
def shared(shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One for all tests that leave its processes alone."""
    with open_stage(tmp_path_factory.mktemp("nginx"), shared_gateway) as stage:
        yield stage


@pytest.fixture
def stage(shared: Stage, gateway: GatewayProcess) -> Stage:
    """The shared one, its gateway without faults and nothing seen."""
    return shared._replace(gateway=gateway)


@pytest.fixture
def own_stage(gateway: GatewayProcess, tmp_path: Path) -> Iterator[Stage]:
    """One whose processes the test may end."""
    with open_stage(tmp_path, gateway) as stage:
        yield stage


# TLS and HTTP


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])
def test_tools_are_listed_over_tls(stage: Stage, *, modern: bool) -> None:
    """A list comes through nginx as the relay has it, in both eras."""
    behind, direct = (peer.call("tools/list", modern=modern) for peer in (stage.nginx, stage.relays[0]))
    assert behind.status == direct.status == 200
    assert behind.json["result"]["tools"] == direct.json["result"]["tools"]
    assert behind.headers["strict-transport-security"] == "max-age=31536000"


def test_http_2_and_current_tls_are_offered(stage: Stage) -> None:
    """A client that can is spoken to in TLS 1.3 and HTTP/2."""
    context = ssl.create_default_context(cafile=stage.nginx.bundle)
    context.set_alpn_protocols(["h2", "http/1.1"])
    port = int(stage.nginx.address.rpartition(":")[2])
    plain = socket.create_connection(("127.0.0.1", port), 20)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        assert (connection.version(), connection.selected_alpn_protocol()) == ("TLSv1.3", "h2")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_call_over_http_2_is_answered(stage: Stage) -> None:
    """A whole call works over HTTP/2: nginx speaks HTTP/1.1 to the relay and the client notices nothing."""
    message, headers = build_call("tools/call", {"name": "echo", "arguments": {"text": "é漢🎉"}}, modern=True)
    sent = stage.nginx.to_headers() | headers
    command = ["curl", "--silent", "--http2", "--write-out", "\n%{http_version}", "--cacert", stage.nginx.bundle]
    command += [part for name, value in sent.items() for part in ("--header", f"{name.replace('_', '-')}: {value}")]
    command += ["--data-binary", json.dumps(message), stage.nginx.url]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    body, _, version = run.stdout.rpartition("\n")
    assert version == "2"
    assert json.loads(body)["result"]["content"][0]["text"] == "é漢🎉"


def test_plain_http_serves_nothing(stage: Stage) -> None:
    """Who asks in the clear is told so, and is never redirected, which would hide that the key could be read."""
    with contextlib.closing(http.client.HTTPConnection(stage.nginx.plain_address, timeout=20)) as connection:
        connection.request("POST", "/mcp", b"{}", {"Authorization": f"Bearer {stage.nginx.key}"})
        answer = connection.getresponse()
        assert answer.status == 403
        assert "https" in json.loads(answer.read())["error"]["message"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_of_the_endpoint_are_the_same(stage: Stage, path: str) -> None:
    """No redirect stands between ``/mcp`` and ``/mcp/``, and both challenge who brings no key (R35)."""
    message, headers = build_call("tools/list", modern=True)
    sent = stage.nginx.to_headers() | headers | {"X_Forwarded_Proto": "https"}
    assert stage.nginx.ask("POST", path, json.dumps(message).encode(), **sent).status == 200
    refused = stage.nginx.ask("POST", path, json.dumps(message).encode(), **(sent | {"Authorization": None}))
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Bearer ")
    assert stage.nginx.ask("OPTIONS", path).status == 204


# What is public


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/metrics"),
        ("GET", "/ready"),
        ("POST", "/admin/manifest/refresh"),
        ("GET", "/mcp/../metrics"),
        ("GET", "//metrics"),
        ("GET", "/.well-known/..%2fmetrics"),
        ("GET", "/mcp%2f..%2fready"),
        ("POST", "/mcp/admin"),
        ("GET", "/"),
    ],
)
def test_what_is_for_operators_is_not_public(stage: Stage, method: str, path: str) -> None:
    """However a path is spelt, only the endpoint, its health and well-known addresses reach a relay."""
    agent = f"{method} {path}"
    answer = stage.nginx.ask(method, path, Authorization=f"Bearer {stage.nginx.key}", User_Agent=agent)
    assert answer.status == 404
    assert "MCP is at /mcp" in answer.json["error"]["message"]
    assert stage.nginx.find_served(agent)["relay"] == ""


@pytest.mark.parametrize(
    ("path", "status"),
    [("/health", 200), ("/mcp", 405), ("/.well-known/oauth-authorization-server", 404), ("/register", 404)],
)
def test_what_clients_look_at_is_public(stage: Stage, path: str, status: int) -> None:
    """Health, and the refusals that keep clients from looking for a login, are the relay's own."""
    answer = stage.nginx.ask("GET", path)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert answer.headers["vary"] == "Origin"


# Names, sizes and what a caller pretends


def test_the_name_that_clients_use_reaches_the_relay(stage: Stage) -> None:
    """A name in allowed_hosts is served, any other is refused with the name of the setting (R37)."""
    assert stage.nginx.call("tools/list", Host=f"{NAME}:443").status == 200
    refused = stage.nginx.call("tools/list", Host="evil.example")
    assert refused.status == 403
    assert "allowed_hosts" in refused.json["error"]["message"]
    assert stage.nginx.ask("GET", "/health", Host="evil.example").status == 403


@pytest.mark.parametrize(
    ("headers", "host", "status"),
    [
        ({"X_Forwarded_Host": "evil.example"}, NAME, 200),
        ({"X_Forwarded_Host": "localhost"}, "evil.example", 403),
        ({"Forwarded": 'for="x'}, NAME, 200),
        ({"Forwarded": "for=192.0.2.1;host=evil.example;proto=http"}, NAME, 200),
        ({"X_Forwarded_For": "\x01, garbage", "X_Forwarded_Proto": "gopher", "X_Forwarded_Port": "x"}, NAME, 200),
        ({"X_Forwarded_By": "[::", "X_Forwarded_For": "a" * 4000}, NAME, 200),
    ],
)
def test_forwarded_headers_of_a_caller_are_not_believed(
    stage: Stage, headers: dict[str, str], host: str, status: int
) -> None:
    """Relays believe nginx, so what a caller pretends to be forwarded ends there, well formed or not (R71)."""
    assert stage.nginx.call("tools/list", **headers, Host=host).status == status


def test_the_longest_body_passes(stage: Stage) -> None:
    """4 MiB to the byte get through to the relay, which finds no JSON in them; one more is too much for nginx (R71)."""
    longest = b"x" * (4 * 1024 * 1024)
    assert stage.nginx.post(longest).json["error"]["code"] == -32700
    refused = stage.nginx.post(longest + b"x")
    assert refused.status == 413
    assert refused.headers["content-type"] == "application/json"
    assert "4 MiB" in refused.json["error"]["message"]


def test_a_chunked_body_has_the_same_limit(stage: Stage) -> None:
    """A body that doesn't tell its length is cut off at the same size, with the same words (R71)."""
    pieces = (b"x" * 65536 for _ in range(65))
    with contextlib.closing(stage.nginx.connect()) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            key = {"Authorization": f"Bearer {stage.nginx.key}"}
            connection.request("POST", "/mcp", pieces, key, encode_chunked=True)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["code"]) == (413, -32600)


@pytest.mark.parametrize("sizes", [(70_000,), (40_000, 40_000)], ids=["nginx", "relay"])
def test_too_long_headers_are_refused_in_json(stage: Stage, sizes: Sequence[int]) -> None:
    """Headers of more than 64 KiB are refused, be it by nginx or by the relay, and 60 KiB are none too many (R71)."""
    headers = {f"X_Long_{number}": "x" * size for number, size in enumerate(sizes)}
    refused = stage.nginx.call("tools/list", **headers)
    assert (refused.status, refused.json["error"]["code"]) == (431, -32600)
    assert stage.nginx.call("tools/list", X_Long="x" * 60_000).status == 200


# Streams


class Event(NamedTuple):
    """A message of a stream as its text, and when it came."""

    at: float
    text: str


def read_stream(answer: http.client.HTTPResponse) -> list[Event]:
    """The messages, each with the time of its arrival."""
    lines = ((time.time(), line) for line in iter(answer.readline, b""))
    return [Event(at, line[6:].decode().rstrip("\n")) for at, line in lines if line.startswith(b"data: ")]


def find_written(relays: Sequence[RelayProcess]) -> dict[str, float]:
    """When each message was written, by its text, as the relays have logged it."""
    written = {}
    for relay in relays:
        for line in relay.log.read_text().splitlines():
            entry = json.loads(line)
            if entry.get("direction") == "out":
                written[entry["frame"]] = datetime.strptime(entry["time"], "%Y-%m-%d %H:%M:%S,%f").timestamp()
    return written


def build_slow(*, to: int, modern: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call that counts, half a second a number, with progress; its token is its own, to find its events by."""
    token = f"slow {time.monotonic_ns()}"
    params = {"name": "slow-count", "arguments": {"to": to, "interval": 0.5}, "_meta": {"progressToken": token}}
    return build_call("tools/call", params, modern=modern, request_id=token)


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])
def test_events_arrive_as_they_are_made(stage: Stage, *, modern: bool) -> None:
    """Nothing holds a stream back: its start is there at once, and each event soon after it was written (R41)."""
    message, headers = build_slow(to=4, modern=modern)
    began = time.monotonic()
    connection, answer = stage.nginx.open(message, **headers, Accept_Encoding="gzip")
    with contextlib.closing(connection):
        assert answer.readline() == b":\n"
        assert time.monotonic() - began < PROMPT
        events = read_stream(answer)
    written = find_written(stage.relays)
    delays = sorted(event.at - written[event.text] for event in events)
    assert len(delays) >= 6
    assert delays[-1] < PROMPT, delays
    assert delays[len(delays) // 2] < 0.3, delays


def test_a_stream_says_that_it_is_one(stage: Stage) -> None:
    """Proxies further out are told not to hold it back either, and nothing compresses it (R41)."""
    message, headers = build_slow(to=60)
    connection, answer = stage.nginx.open(message, **headers, Accept_Encoding="gzip")
    with contextlib.closing(connection):
        sent = {name.lower(): value for name, value in answer.getheaders()}
    assert (sent["content-type"], sent["x-accel-buffering"]) == ("text/event-stream", "no")
    assert sent["cache-control"] == "no-cache, no-transform"
    assert not sent.keys() & {"content-encoding", "content-length"}


def test_the_stream_of_notices_is_open_at_once(stage: Stage) -> None:
    """A legacy client that listens gets headers and a first comment through nginx without waiting for news."""
    began = time.monotonic()
    connection, answer = stage.nginx.listen()
    with contextlib.closing(connection):
        assert (answer.status, answer.readline()) == (200, b":\n")
        assert time.monotonic() - began < PROMPT
        answer.close()


def test_a_client_that_leaves_ends_its_polling(stage: Stage) -> None:
    """nginx closes its side with the client's, so that the relay stops asking for a job that nobody waits for."""
    message, headers = build_slow(to=60)
    connection, answer = stage.nginx.open(message, **headers)
    with contextlib.closing(connection):
        assert answer.readline() == b":\n"
        stage.gateway.wait_seen("*/invocations/*", at_least=2)
        answer.close()
    wait_until(lambda: not any(relay.busy for relay in stage.relays))
    before = len(stage.gateway.seen("/invocations/"))
    threading.Event().wait(0.5)  # five times the pause between two polls
    assert len(stage.gateway.seen("/invocations/")) == before


# Which relay serves whom


def test_keys_stay_on_their_relay(stage: Stage) -> None:
    """A key is served by one relay in either header and however it is spelt; both relays have some."""
    homes = {}
    for key in KEYS:
        spellings: list[dict[str, str | None]] = [
            {"Authorization": f"Bearer {key}"},
            {"Authorization": f"bearer   {key} "},
            {"Authorization": None, "X_API_Key": key},
            {"Authorization": f"BEARER {key}", "X_API_Key": key},
        ]
        (homes[key],) = {stage.list_tools(**headers) for headers in spellings}
    assert set(homes.values()) == {relay.address for relay in stage.relays}


def test_a_relay_more_moves_only_the_keys_that_it_gets(stage: Stage, tmp_path: Path) -> None:
    """With three relays each key is where it was, or on the third."""
    before = {key: stage.find_home(key).address for key in KEYS}
    with RelayProcess(tmp_path, stage.gateway, **SETTINGS) as third:
        addresses = [*(relay.address for relay in stage.relays), third.address]
        with NginxProcess(tmp_path, addresses) as nginx:
            wider = Stage(stage.gateway, [*stage.relays, third], nginx)
            after = {key: wider.find_home(key).address for key in KEYS}
    assert {after[key] for key in KEYS if after[key] != before[key]} == {third.address}


def test_no_log_holds_a_key(stage: Stage) -> None:
    """A key in a header is not logged; one in an address is refused, and not logged either (R49)."""
    key = stage.nginx.key
    assert stage.nginx.call("tools/list").status == 200
    for path in (f"/mcp?api_key={key}", f"/{key}/mcp", f"/mcp/%68{key[1:]}"):
        refused = stage.nginx.ask("POST", path, b"{}", User_Agent=path.replace(key[1:], ""))
        assert refused.status == 400
        assert stage.nginx.find_served(path.replace(key[1:], ""))["path"] == "(a key)"
    logs = [path for path in stage.nginx.folder.iterdir() if path.suffix == ".log"]
    assert len(logs) == 2
    for log in logs:
        assert key[5:] not in log.read_text(), log


# Relays that come and go


class Hit(NamedTuple):
    """One call of the load: its own text, which it had the gateway echo; *status* is None where there was no answer."""

    key: str
    text: str
    began: float
    ended: float
    status: int | None
    body: bytes


class Load:
    """Clients that call one after the other, each with a key of its own, until the block ends."""

    def __init__(self, stage: Stage, keys: Sequence[str]) -> None:
        self.hits: list[Hit] = []
        self._stage = stage
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(key,), daemon=True) for key in keys]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    @property
    def texts(self) -> set[str]:
        """What was answered well."""
        return {hit.text for hit in self.hits if hit.status == 200}

    def await_more(self, count: int) -> None:
        """Wait for so many more answers."""
        wanted = len(self.hits) + count
        wait_until(lambda: len(self.hits) >= wanted, 30)

    def _run(self, key: str) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            self.hits.append(self._call(key, f"{key[5:17]}-{number}"))

    def _call(self, key: str, text: str) -> Hit:
        began = time.monotonic()
        status, body = None, b""
        with contextlib.suppress(OSError, http.client.HTTPException):
            params = {"name": "echo", "arguments": {"text": text}}
            answer = self._stage.nginx.call("tools/call", params, Authorization=f"Bearer {key}")
            status, body = answer.status, answer.body
        return Hit(key, text, began, time.monotonic(), status, body)


def count_executed(gateway: GatewayProcess) -> Counter[str]:
    """How often the gateway was asked for each text."""
    return Counter(request["body"]["input"]["text"] for request in gateway.seen("echo:invoke"))


def slow_down(stage: Stage) -> dict[str, str]:
    """Let each call take a while, so that some are always in flight; answers which relay has which key."""
    homes = {key: stage.find_home(key).address for key in KEYS[:8]}
    stage.gateway.fault(path="*:invoke", delay=0.3, times=-1)
    return homes


def test_a_relay_that_is_killed_takes_only_its_own_calls_along(own_stage: Stage) -> None:
    """What is in flight on a killed relay fails, all that comes later is served, and no work is started twice."""
    homes = slow_down(own_stage)
    victim = own_stage.find_home(KEYS[0])
    with Load(own_stage, KEYS[:8]) as load:
        load.await_more(16)
        killed = time.monotonic()
        assert victim.process is not None
        victim.process.kill()
        victim.process.wait(10)
        gone = time.monotonic()
        load.await_more(32)
    for hit in load.hits:
        if hit.status != 200:
            assert (homes[hit.key], hit.status) == (victim.address, 502), hit
            assert hit.began <= gone, hit
            assert hit.ended >= killed, hit
            assert "may have been done" in json.loads(hit.body)["error"]["message"]
    executed = count_executed(own_stage.gateway)
    assert set(executed.values()) == {1}
    assert load.texts <= executed.keys()
    assert len(load.texts) > len(load.hits) - 8 - 1
    assert {hit.key for hit in load.hits if hit.began > gone and hit.status == 200} == set(KEYS[:8])


def test_a_restart_loses_nothing(own_stage: Stage, tmp_path: Path) -> None:
    """A relay that is stopped and started again under load, as an update does it, costs no call and no key its home."""
    homes = slow_down(own_stage)
    stopped = own_stage.find_home(KEYS[0])
    settings = SETTINGS | {"port": stopped.address.rpartition(":")[2]}
    with ExitStack() as stack:
        with Load(own_stage, KEYS[:8]) as load:
            load.await_more(16)
            assert stopped.stop() == 0
            load.await_more(16)
            stack.enter_context(RelayProcess(tmp_path, own_stage.gateway, **settings))
            load.await_more(32)
        after = {key: own_stage.list_tools(Authorization=f"Bearer {key}") for key in homes}
    assert [hit for hit in load.hits if hit.status != 200] == []
    assert set(count_executed(own_stage.gateway).values()) == {1}
    assert after == homes


def test_a_relay_that_stops_finishes_its_streams(own_stage: Stage) -> None:
    """A call in flight on a relay that is stopped goes on through nginx to its result."""
    victim = own_stage.find_home(KEYS[0])
    message, headers = build_slow(to=4)
    connection, answer = own_stage.nginx.open(message, **headers, Authorization=f"Bearer {KEYS[0]}")
    with contextlib.closing(connection):
        assert answer.readline() == b":\n"
        assert victim.stop() == 0
        *_, last = read_stream(answer)
    assert json.loads(last.text)["result"]["structuredContent"] == {"counted": 4}


def test_no_relay_is_an_error_that_clients_can_show(own_stage: Stage) -> None:
    """With all relays gone nginx answers at once, in JSON, with the time after which to ask again."""
    for relay in own_stage.relays:
        assert relay.stop() == 0
    began = time.monotonic()
    answer = own_stage.nginx.call("tools/list")
    assert time.monotonic() - began < PROMPT
    assert (answer.status, answer.headers["retry-after"]) == (502, "2")
    assert (answer.json["id"], answer.json["error"]["code"]) == (None, -32603)
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_idle_connections_are_given_up_before_the_relay_closes_them(gateway: GatewayProcess, tmp_path: Path) -> None:
    """Requests that come just as an idle connection ends never meet a 502 (R72).

    nginx keeps idle connections for a shorter time than the relay does, here for one second, and requests are spaced
    around that.
    """
    with open_stage(tmp_path, gateway, replaced={"keepalive_timeout 60s;": "keepalive_timeout 1s;"}) as stage:
        statuses: Counter[int] = Counter()
        threads = [threading.Thread(target=ask_at_the_edge, args=(stage, key, statuses)) for key in KEYS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert statuses == {200: len(KEYS) * len(EDGES)}


EDGES = (0.9, 0.97, 0.99, 1.0, 1.01, 1.03, 1.1)


def ask_at_the_edge(stage: Stage, key: str, statuses: Counter[int]) -> None:
    """Ask again and again, after about as long as nginx keeps a connection that is idle."""
    message, headers = build_call("tools/list", modern=True)
    pause = threading.Event()
    for seconds in EDGES:
        statuses[stage.nginx.post(message, **headers, Authorization=f"Bearer {key}").status] += 1
        pause.wait(seconds)
