"""A listener: what it says by itself, how many it takes, and how it stops in order."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from colabhive_mcp.cli.listening import Listener
from colabhive_mcp.errors import ConfigError

LIMIT = 1024 * 1024
LONGEST_HEADERS = 4096
BIG = 24 * LIMIT
PATIENCE = 10.0


class App:
    """Answers by path; a request for /wait is held until it is let go."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/wait":
            self.begun.set()
            assert self.gate.wait(PATIENCE)
        body = b"x" * BIG if path == "/big" else environ["HTTP_HOST"].encode() + b" " + environ["REMOTE_ADDR"].encode()
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return (body,)


@pytest.fixture
def app() -> App:
    """The application behind the listener."""
    return App()


def build_listener(app: Any, **more: Any) -> Listener:
    """A listener as the relay has it, on a free port."""
    given = {"host": "127.0.0.1", "port": 0, "name": "test listener", "threads": 4, "connections": 100, **more}
    limits = {"max_request_body_size": LIMIT, "max_request_header_size": LONGEST_HEADERS}
    return Listener(app, channel_request_lookahead=1, clear_untrusted_proxy_headers=True, **limits, **given)


@pytest.fixture
def listener(app: App) -> Iterator[Listener]:
    """One that answers."""
    with closing(build_listener(app)) as listener:
        listener.start()
        yield listener


def connect(listener: Listener) -> socket.socket:
    """A plain connection."""
    place = urlsplit(listener.address)
    assert place.port
    return socket.create_connection((str(place.hostname), place.port), PATIENCE)


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def send(listener: Listener, data: bytes) -> tuple[int, bytes, bytes]:
    """The status, the headers and the body that come back for *data*, which is sent to its end."""
    with connect(listener) as connection:
        connection.sendall(data)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), head, body


def build(*headers: str, target: str = "/", body: bytes = b"") -> bytes:
    """A request whose connection ends with it."""
    lines = [f"POST {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


REFUSED: dict[str, tuple[int, bytes]] = {
    "a length over the limit": (413, build(f"Content-Length: {4 * LIMIT}", body=b"x" * (4 * LIMIT))),
    "chunks over the limit": (
        413,
        build("Transfer-Encoding: chunked", body=b"%x\r\n%b\r\n0\r\n\r\n" % (4 * LIMIT, b"x" * (4 * LIMIT))),
    ),
    "one long header": (431, build("A: " + "x" * 300_000)),
    "many headers": (431, build(*(f"A{number}: x" for number in range(30_000)))),
    "no HTTP": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    "a length that is none": (400, build("Content-Length: -1")),
    "two lengths": (400, build("Content-Length: 1", "Content-Length: 2", body=b"xx")),
    "an unknown encoding": (501, build("Transfer-Encoding: br")),
    "bad chunks": (400, build("Transfer-Encoding: chunked", body=b"xyz\r\n")),
    "a bare line feed": (400, build("A: b\nC: d")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_waitress_refuses_is_told_in_json(case: str, listener: Listener) -> None:
    """Who sends to the end what is refused sees why, in JSON, although it was refused in the middle."""
    status, data = REFUSED[case]
    got, head, body = send(listener, data)
    assert got == status
    assert b"application/json" in head
    answer = json.loads(body)
    assert set(answer) == {"jsonrpc", "error"}
    assert answer["error"]["code"] == -32600
    assert b"waitress" not in head.lower() + body.lower()


def test_a_refused_client_that_leaves_is_forgotten(listener: Listener) -> None:
    """A connection that its client ends after a refusal is no longer the listener's."""
    send(listener, build(f"Content-Length: {4 * LIMIT}"))
    end = time.monotonic() + PATIENCE
    while listener._server.active_channels and time.monotonic() < end:
        threading.Event().wait(0.01)
    assert not listener._server.active_channels


FORWARDED = ("X-Forwarded-For: 198.51.100.7", "X-Forwarded-Host: public.example", "X-Forwarded-Proto: https")
GARBAGE = ['Forwarded: for="x', "X-Forwarded-For: ,,;;", "X-Forwarded-Proto: a, b, c", "X-Forwarded-Host: a, b"]


def test_forwarded_headers_of_anybody_are_not_believed(listener: Listener) -> None:
    """Without a trusted proxy nothing that stands in such headers reaches the application, be it garbage."""
    for headers in (FORWARDED, *((each,) for each in GARBAGE)):
        status, _, body = send(listener, build(*headers))
        assert (status, body) == (200, b"localhost 127.0.0.1")


def test_forwarded_headers_of_the_proxy_are_believed(app: App) -> None:
    """Those of the trusted address say who asks, and under which name; garbage is refused in JSON or passed over."""
    names = {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}
    with closing(build_listener(app, trusted_proxy="127.0.0.1", trusted_proxy_headers=names)) as listener:
        listener.start()
        assert send(listener, build(*FORWARDED))[2] == b"public.example 198.51.100.7"
        for each in GARBAGE:
            status, head, body = send(listener, build(each))
            assert status in (200, 400)
            assert status == 200 or (b"application/json" in head and json.loads(body)["error"])


def test_more_connections_than_it_takes_wait(app: App) -> None:
    """Beyond its number of connections new ones wait until some have ended; none is refused."""
    with closing(build_listener(app, connections=8)) as listener:
        listener.start()
        idle = [connect(listener) for _ in range(20)]
        try:
            with connect(listener) as waiting:
                waiting.sendall(build())
                for each in idle:
                    each.close()
                assert b"200 OK" in read_all(waiting)
        finally:
            for each in idle:
                each.close()


def test_a_port_that_is_taken(listener: Listener) -> None:
    """A port that somebody has is named with who wanted it."""
    port = urlsplit(listener.address).port
    with pytest.raises(ConfigError, match=rf"The test listener cannot listen on 127\.0\.0\.1, port {port}"):
        build_listener(App(), port=port)


def test_an_address_of_the_sixth_version(app: App) -> None:
    """The loopback of IPv6 is listened on, and written as an address has to be."""
    with closing(build_listener(app, host="::1")) as listener:
        listener.start()
        assert listener.address.startswith("http://[::1]:")
        assert send(listener, build())[2] == b"localhost ::1"


def test_stopping_serves_what_is_there(app: App, listener: Listener) -> None:
    """Once it takes no more, a connection that was kept has one more answer, which ends it; a new one is refused."""
    kept = http.client.HTTPConnection(urlsplit(listener.address).netloc, timeout=PATIENCE)
    kept.request("GET", "/")
    first = kept.getresponse()
    assert (first.status, first.getheader("Connection")) == (200, None)
    first.read()
    waiting = threading.Thread(target=send, args=(listener, build(target="/wait")))
    waiting.start()
    assert app.begun.wait(PATIENCE)
    listener.refuse_connections()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            connect(listener).close()
        except (ConnectionRefusedError, ConnectionResetError):  # a reset where it came as the port was closed
            break
    kept.request("GET", "/")
    last = kept.getresponse()
    assert (last.status, last.getheader("Connection")) == (200, "close")
    last.read()
    kept.close()
    app.gate.set()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_who_has_connected_is_served(app: App) -> None:
    """Requests that wait to be taken when the listener is to take no more are answered all the same."""
    with closing(build_listener(app)) as listener:
        waiting = [connect(listener) for _ in range(60)]
        for each in waiting:
            each.sendall(build())
        listener.refuse_connections()
        listener.start()
        assert all(b" 200 " in read_all(each) for each in waiting)
        for each in waiting:
            each.close()
        with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
            connect(listener)


def test_what_was_written_is_sent_before_the_end(app: App) -> None:
    """A reader that is slow has its whole answer, as long as there is time for it."""
    with closing(build_listener(app)) as listener:
        listener.start()
        connection = connect(listener)
        connection.sendall(build(target="/big"))
        head = connection.recv(100)
        flushing = threading.Thread(target=listener.flush, args=(PATIENCE,))
        flushing.start()
        received = len(head + read_all(connection))
        flushing.join(PATIENCE)
    connection.close()
    assert received > BIG


def test_nobody_waits_for_a_reader_that_does_not_read(app: App, listener: Listener) -> None:
    """The time for what is not sent is bounded."""
    with connect(listener) as connection:
        connection.sendall(build(target="/big"))
        assert sum(len(connection.recv(1024)) for _ in range(64)) > 1024
        started = time.monotonic()
        listener.flush(0.1)
        assert 0.1 <= time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("soft", "hard", "files"), [(64, 256, 256), (256, 256, 256), (512, 2048, 2048)], ids=["raised", "all", "more"]
)
def test_the_limit_of_files_is_raised(soft: int, hard: int, files: int) -> None:
    """A process takes as many files as it may have, and says how many that are."""
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from colabhive_mcp.cli.listening import raise_file_limit\n"
        "print(raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.split() == [str(files)] * 2
