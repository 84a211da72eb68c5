"""The address that answers scrapes: over real sockets."""

import http.client
import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest

from colabhive_mcp.telemetry.scrapes import ScrapeServer

BODY = b"answered_total 1\n"


@pytest.fixture
def server() -> Iterator[ScrapeServer]:
    """One on a free port, which answers with what it was asked for."""
    with closing(ScrapeServer(lambda accept: (BODY, f"text/plain; of={accept}"), "127.0.0.1", 0)) as server:
        yield server


def ask(port: int, method: str = "GET", path: str = "/metrics", host: str = "127.0.0.1") -> tuple[int, str, bytes]:
    """Status, content type and body."""
    with closing(http.client.HTTPConnection(host, port, timeout=10)) as connection:
        connection.request(method, path, headers={"Accept": "these"})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/metrics", 200, BODY),
        ("GET", "/metrics?name=up", 200, BODY),
        ("HEAD", "/metrics", 200, b""),
        ("GET", "/", 404, b"404 Metrics are at /metrics\n"),
        ("GET", "/health", 404, b"404 Metrics are at /metrics\n"),
        ("POST", "/metrics", 501, b"501 Unsupported method ('POST')\n"),
    ],
)
def test_only_scrapes_are_answered(server: ScrapeServer, method: str, path: str, status: int, body: bytes) -> None:
    """A scrape gets what is rendered for its ``Accept``; any other path or method gets an error in plain text."""
    kind = "text/plain; of=these" if status == 200 else "text/plain"
    assert ask(server.port, method, path) == (status, kind, body)


def test_clients_that_say_nothing_hold_up_nobody(server: ScrapeServer) -> None:
    """Connections on which no request comes leave the others answered."""
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    assert ask(server.port)[0] == 200
    for each in silent:
        each.close()


def test_a_client_that_has_gone_is_not_told_of(server: ScrapeServer, capfd: pytest.CaptureFixture[str]) -> None:
    """A connection that is reset in the middle of a request puts nothing on stderr."""
    for _ in range(20):
        client = socket.create_connection(("127.0.0.1", server.port))
        client.send(b"GET /met")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert ask(server.port)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_closing_gives_the_port_back(server: ScrapeServer) -> None:
    """A port is refused while it is in use, and can be used again at once when the first has closed it."""
    with pytest.raises(OSError, match="in use"):
        ScrapeServer(server._server.render, "127.0.0.1", server.port)
    server.close()
    with closing(ScrapeServer(lambda _: (BODY, "text/plain"), "127.0.0.1", server.port)) as second:
        assert ask(second.port)[0] == 200


def test_an_address_that_is_not_ours_is_an_error() -> None:
    """An address of another machine raises OSError."""
    with pytest.raises(OSError, match="assign"):
        ScrapeServer(lambda _: (BODY, "text/plain"), "192.0.2.1", 0)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_ipv6_is_an_address_too() -> None:
    """It listens on an IPv6 address."""
    try:
        server = ScrapeServer(lambda _: (BODY, "text/plain"), "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6 on its loopback")
    with closing(server):
        assert ask(server.port, host="::1")[0] == 200
