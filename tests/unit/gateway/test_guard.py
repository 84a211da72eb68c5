"""A cancelled call is over at once, however long the gateway takes to answer it."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from colabhive_mcp.errors import Cancelled
from colabhive_mcp.gateway.client import GatewayClient, Options
from tests.harness.network import Authority

HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
DONE = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n{"status":"succeeded"}'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the gateway."""
    return Authority(tmp_path_factory.mktemp("authority"))


class Stalling:
    """A server that takes requests and sends the *beginning* of an answer, and the rest only once it is *released*."""

    def __init__(self, beginning: bytes, tls: ssl.SSLContext | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._beginning = beginning
        self._tls = tls
        self.requests = 0
        self.connections = 0
        self.arrived = Event()
        self.released = Event()
        Thread(target=self._accept, daemon=True).start()
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True) as peer:
                while data := peer.recv(65536):
                    if not data.startswith(b"POST"):  # a body in a record of its own
                        continue
                    self.requests += 1
                    peer.sendall(DONE if self.released.is_set() else self._beginning)
                    self.arrived.set()
        except OSError:
            return

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()


@contextmanager
def stalling(beginning: bytes, tls: ssl.SSLContext | None = None) -> Iterator[Stalling]:
    """A server for the block."""
    server = Stalling(beginning, tls)
    try:
        yield server
    finally:
        server.close()


def build_client(url: str, **more: Any) -> GatewayClient:
    """A client that would wait for long."""
    return GatewayClient(Options(api_url=url, api_key="hive_" + "guardedKey01", version="1", **more))


def invoke(client: GatewayClient, cancel: Event) -> Any:
    """One call, whose end nothing but *cancel* brings."""
    deadline = time.monotonic() + 300
    return client.invoke("a", {}, sync_timeout=60, idempotency_key="k", cancel=cancel, deadline=deadline)


def cancel_at(arrived: Event, cancel: Event) -> None:
    """Cancel once the server has the request."""

    def wait() -> None:
        arrived.wait(30)
        cancel.set()

    Thread(target=wait, daemon=True).start()


@pytest.mark.parametrize("beginning", [b"", HEADERS, HEADERS + b'{"status":'], ids=["nothing", "headers", "some"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_a_cancelled_call_ends_while_it_reads(beginning: bytes, secure: bool, authority: Authority) -> None:
    """Whatever has come of the answer, over TLS too, the call is over soon after it was cancelled, asked only once."""
    tls = authority.server if secure else None
    options = {"ca_bundle": str(authority.bundle)} if secure else {}
    with stalling(beginning, tls) as server:
        client, cancel = build_client(server.url, **options), Event()
        cancel_at(server.arrived, cancel)
        started = time.monotonic()
        with pytest.raises(Cancelled):
            invoke(client, cancel)
        assert time.monotonic() - started < 10
        assert server.requests == 1
        client.close()


def test_others_go_on() -> None:
    """The connection of a cancelled call is used for nothing else, and a call that nobody cancelled gets its answer."""
    with stalling(b"") as server:
        client, cancel = build_client(server.url), Event()
        cancel_at(server.arrived, cancel)
        with pytest.raises(Cancelled):
            invoke(client, cancel)
        server.released.set()
        assert [invoke(client, Event())["status"] for _ in range(3)] == ["succeeded"] * 3
        assert server.connections == 2
        client.close()
