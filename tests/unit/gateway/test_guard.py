"""A cancelled call is over at once, however long the gateway takes to answer it."""

from __future__ import annotations

import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from colabhive_mcp.errors import Cancelled
from colabhive_mcp.gateway.client import GatewayClient
from colabhive_mcp.gateway.operations import OperationRequest
from tests.harness.network import Authority, Forwarder, open_silence
from tests.unit.gateway.conftest import build_options
from tests.unit.gateway.scripted import SILENCE, ScriptedServer, Step, answer

SOON = 10.0  # seconds, of the 60 and more that the answers would take
OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
SIZED = OPEN[:-2] + b"Content-Length: 100000\r\n\r\n"
CHUNKED = OPEN[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"
BUSY = SIZED.replace(b"200", b"503")
WRONG = OPEN.replace(b"200", b"422")
LAST = SIZED[:-2] + b"Connection: close\r\n\r\n"
DONE = {"invocation_id": "i-1", "status": "succeeded"}


@dataclass(eq=False)
class Arrival:
    """A cancel token that is set once *server* has *requests*, and says how often it was asked."""

    server: ScriptedServer
    requests: int = 1
    asked: int = 0

    def is_set(self) -> bool:
        """Has it all?"""
        self.asked += 1
        return len(self.server.seen) >= self.requests

    def wait(self, timeout: float | None = None) -> bool:
        """As it is, at once."""
        return self.is_set()


@dataclass
class Count:
    """A cancel token that is set from the time on when it was asked more than *often*."""

    often: int
    asked: int = field(default=0, init=False)

    def is_set(self) -> bool:
        """Asked too often?"""
        self.asked += 1
        return self.asked > self.often

    def wait(self, timeout: float | None = None) -> bool:
        """As it is, at once."""
        return self.is_set()


def build_client(url: str, **options: Any) -> GatewayClient:
    """A client that would wait for long."""
    return GatewayClient(build_options(url, **{"read_timeout": 60.0, **options}))


def invoke(client: GatewayClient, cancel: Any) -> Any:
    """One call."""
    deadline = time.monotonic() + 300
    return client.invoke("a", {}, sync_timeout=60, idempotency_key="k", cancel=cancel, deadline=deadline)


def perform(client: GatewayClient, cancel: Any) -> Any:
    """One call that is never repeated."""
    request = OperationRequest("POST", "/jobs", json={}, has_body=True)
    return client.perform(request, cancel=cancel, deadline=time.monotonic() + 300)


def check_end(server: ScriptedServer, call: Any, **options: Any) -> None:
    """A *call* that is cancelled once *server* has it ends soon, and is not made again."""
    client = build_client(server.url, **options)
    started = time.monotonic()
    with pytest.raises(Cancelled):
        call(client, Arrival(server))
    assert time.monotonic() - started < SOON
    assert len(server.seen) == 1
    client.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the gateway."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(
    "stall",
    [
        SILENCE,
        Step(SIZED, "hold"),
        Step(SIZED + b'{"status":', "hold"),
        Step(SIZED, "drip"),
        Step(CHUNKED + b'1\r\n{\r\n9\r\n"sta', "hold"),
        Step(OPEN + b"{}", "hold"),
        Step(LAST, "hold"),
        Step(BUSY, "hold"),
        Step(WRONG + b'{"detail": "no"}', "hold"),
    ],
    ids=["nothing", "headers", "some", "trickle", "chunk", "no-end", "last", "busy", "refusal"],
)
@pytest.mark.parametrize("call", [invoke, perform])
def test_a_cancelled_call_ends_while_it_reads(stall: Step, call: Any) -> None:
    """Whatever has come of the answer, the call is over soon after it was cancelled, asked only once."""
    with ScriptedServer([stall]) as server:
        check_end(server, call)


@pytest.mark.parametrize("call", [invoke, perform])
@pytest.mark.parametrize("stall", [SILENCE, Step(SIZED, "drip")], ids=["nothing", "trickle"])
def test_a_cancelled_call_ends_over_tls(stall: Step, call: Any, authority: Authority) -> None:
    """The other side of TLS is not waited for."""
    with ScriptedServer([stall], authority.server) as server:
        check_end(server, call, ca_bundle=authority.bundle)


def test_a_cancelled_call_ends_over_tls_within_tls(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a proxy that is asked over TLS."""
    with (
        ScriptedServer([SILENCE], authority.server) as server,
        Forwarder(server.port, tls=authority.server, tunnel=True) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "")
        check_end(server, invoke, ca_bundle=authority.bundle)
        assert proxy.heads[0].startswith(b"CONNECT ")


def test_the_connection_is_not_used_again() -> None:
    """After a call was cancelled the others go on, on connections of their own."""
    with ScriptedServer([answer(DONE), SILENCE, answer(DONE)]) as server:
        client = build_client(server.url)
        invoke(client, Event())
        with pytest.raises(Cancelled):
            invoke(client, Arrival(server, requests=2))
        assert [invoke(client, Event()) for _ in range(3)] == [DONE] * 3
        assert [seen.connection for seen in server.seen] == [1, 1, 2, 2, 2]
        client.close()


def test_of_many_calls_only_the_cancelled_end() -> None:
    """All cancelled calls end together, and each of the others gets its answer, which comes after that."""
    many = 16
    late = Step(answer(DONE).data, delay=1.5)
    with ScriptedServer([late]) as server, ThreadPoolExecutor(2 * many) as pool:
        client = build_client(server.url)
        wanted = [pool.submit(invoke, client, Event()) for _ in range(many)]
        unwanted = [pool.submit(invoke, client, Arrival(server, requests=2 * many)) for _ in range(many)]
        assert {type(future.exception(SOON)) for future in unwanted} == {Cancelled}
        assert [future.result(SOON) for future in wanted] == [DONE] * many
        client.close()


@pytest.mark.parametrize("often", [1, 2])
def test_what_is_cancelled_before_it_is_sent_is_not_sent(often: int) -> None:
    """A call that was cancelled while its connection was made starts no job."""
    with ScriptedServer([answer(DONE)]) as server:
        client = build_client(server.url)
        with pytest.raises(Cancelled):
            invoke(client, Count(often))
        assert server.seen == []
        client.close()


def test_a_handshake_that_hangs_ends_with_the_connect_time_out(authority: Authority) -> None:
    """A call that was cancelled while nobody answers the handshake of TLS is over with the connect time-out."""
    with open_silence() as port:
        client = build_client(f"https://127.0.0.1:{port}", ca_bundle=authority.bundle, connect_timeout=0.3)
        started = time.monotonic()
        with pytest.raises(Cancelled):
            invoke(client, Count(2))
        assert time.monotonic() - started < SOON
        client.close()


def test_a_kept_connection_holds_nothing_of_a_call() -> None:
    """What a cancel token knows, such as a whole request, is freed with its call, while the connection is kept."""
    with ScriptedServer([answer(DONE)]) as server:
        client = build_client(server.url)
        token = Arrival(server, requests=2)
        held = weakref.ref(token)
        invoke(client, token)
        del token
        gc.collect()
        assert held() is None
        client.close()
