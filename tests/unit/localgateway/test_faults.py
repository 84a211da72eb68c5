"""Faults on request, as a client on a real socket meets them."""

import base64
import gzip
import hashlib
import http.client
import json
import logging
import socket
import threading
import time
from typing import Any

import pytest

from colabhive_mcp.localgateway.app import build_app

from .conftest import Gateway

ECHO = "*/actions/echo:invoke"


def notes(gateway: Gateway) -> list[str]:
    """What the notes action has written."""
    return gateway.store.notes()


class TestAnswers:
    """Answers that the gateway would not give."""

    def test_status_headers_and_json(self, gateway: Gateway) -> None:
        """A status, headers and a body of JSON are answered as asked, once, and nothing is done."""
        gateway.fault(path="*/notes-append:invoke", status=429, headers={"Retry-After": "2"}, body={"detail": "slow"})
        reply = gateway.invoke("notes-append", {"line": "a"})
        assert (reply.status, reply.headers["retry-after"], reply.json) == (429, "2", {"detail": "slow"})
        assert reply.headers["content-type"] == "application/json"
        assert notes(gateway) == []
        assert gateway.invoke("notes-append", {"line": "a"}).status == 200

    @pytest.mark.parametrize(
        ("body", "content_type"),
        [
            ("<html>no</html>", "text/html"),
            ("plain", "text/plain"),
            ('{"result": NaN}', "text/plain"),
            ("", "text/plain"),
        ],
    )
    def test_text_as_it_is(self, gateway: Gateway, body: str, content_type: str) -> None:
        """A string goes out as it is, so HTML pages and broken JSON can be had."""
        gateway.fault(path=ECHO, body=body)
        reply = gateway.invoke("echo", {"text": "x"})
        assert (reply.status, reply.body.decode(), reply.headers["content-type"]) == (200, body, content_type)

    def test_own_content_type(self, gateway: Gateway) -> None:
        """A content type that is asked for replaces the one that the body suggests."""
        gateway.fault(path=ECHO, body='{"a": NaN}', headers={"content-type": "application/json; charset=iso-8859-1"})
        reply = gateway.invoke("echo", {"text": "x"})
        assert reply.headers["content-type"] == "application/json; charset=iso-8859-1"

    def test_raw_bytes(self, gateway: Gateway) -> None:
        """Bytes in base64 go out as bytes, with the encoding that is asked for."""
        zipped = gzip.compress(b'{"a": 1}')
        gateway.fault(path=ECHO, body_b64=base64.b64encode(zipped).decode(), headers={"Content-Encoding": "gzip"})
        assert gateway.invoke("echo", {"text": "x"}).json == {"a": 1}

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirect(self, gateway: Gateway, status: int) -> None:
        """A redirect is a status and a Location."""
        gateway.fault(path=ECHO, status=status, headers={"Location": "http://127.0.0.1:1/"})
        reply = gateway.invoke("echo", {"text": "x"})
        assert (reply.status, reply.headers["location"], reply.body) == (status, "http://127.0.0.1:1/", b"")

    def test_no_content(self, gateway: Gateway) -> None:
        """An answer without a body is a status alone."""
        gateway.fault(path=ECHO, status=204)
        assert (gateway.invoke("echo", {"text": "x"}).status) == 204

    def test_fault_comes_before_the_key(self, gateway: Gateway) -> None:
        """A fault is met whatever the key."""
        gateway.fault(status=503)
        assert gateway.invoke("echo", {"text": "x"}, key="hive_wrong").status == 503


class TestConnection:
    """Connections that break; the log stays silent."""

    @pytest.fixture(autouse=True)
    def _silent(self, caplog: pytest.LogCaptureFixture) -> Any:
        yield
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

    @pytest.mark.parametrize(("reset", "done"), [("before", []), ("after", ["a"])])
    def test_reset(self, gateway: Gateway, reset: str, done: list[str]) -> None:
        """The client sees a reset; the work was done only where it was asked to be."""
        gateway.fault(path="*/notes-append:invoke", reset=reset)
        with pytest.raises(ConnectionResetError):
            gateway.invoke("notes-append", {"line": "a"})
        assert notes(gateway) == done
        assert gateway.invoke("echo", {"text": "x"}).status == 200

    def test_reset_on_a_kept_connection(self, gateway: Gateway) -> None:
        """A connection that has served before is reset as well, and not a byte of the answer arrives."""
        gateway.fault(path=ECHO, reset="before")
        with socket.create_connection(gateway.address, timeout=10) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b'{"status":"ok"}'):
                answer += connection.recv(4096)
            connection.sendall(
                b"POST /api/builder/v1/actions/echo:invoke HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
            )
            with pytest.raises(ConnectionResetError):
                connection.recv(4096)

    def test_many_resets_at_once(self, gateway: Gateway) -> None:
        """Resets of several connections at the same time leave the server whole."""
        gateway.fault(path=ECHO, reset="after", times=8)
        outcomes: list[str] = []

        def invoke() -> None:
            try:
                outcomes.append(gateway.invoke("echo", {"text": "x"}).json["status"])
            except ConnectionResetError:
                outcomes.append("reset")

        threads = [threading.Thread(target=invoke) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(outcomes) == ["reset"] * 8 + ["succeeded"] * 4

    @pytest.mark.parametrize("size", [0, 1, 100])
    def test_truncated(self, gateway: Gateway, size: int) -> None:
        """The answer announces its whole length, and the connection ends after the first bytes."""
        gateway.fault(path="*/mcp/manifest", truncate=size)
        with pytest.raises(http.client.IncompleteRead) as broken:
            gateway.send("GET", "/mcp/manifest")
        assert len(broken.value.partial) == size
        assert broken.value.expected > 1000

    def test_truncated_large_body(self, gateway: Gateway) -> None:
        """Of a large body exactly the bytes asked for arrive, however slowly they are taken."""
        gateway.fault(path=ECHO, body="b" * 4_000_000, truncate=3_000_000)
        with pytest.raises(http.client.IncompleteRead) as broken:
            gateway.invoke("echo", {"text": "x"})
        assert (len(broken.value.partial), broken.value.expected) == (3_000_000, 1_000_000)

    def test_nothing_to_truncate(self, gateway: Gateway) -> None:
        """An answer that is not longer than the limit is sent whole."""
        gateway.fault(path=ECHO, body="short", truncate=5)
        assert gateway.invoke("echo", {"text": "x"}).body == b"short"

    def test_drip(self, gateway: Gateway) -> None:
        """The bytes come one at a time, the given time apart, and are all there."""
        gateway.fault(path=ECHO, body="abcdefgh", drip=0.02)
        began = time.monotonic()
        with socket.create_connection(gateway.address, timeout=10) as connection:
            connection.sendall(b"POST /api/builder/v1/actions/echo:invoke HTTP/1.0\r\n\r\n")
            pieces = list(iter(lambda: connection.recv(4096), b""))
        assert b"".join(pieces).endswith(b"abcdefgh")
        assert len(pieces) >= 2
        assert time.monotonic() - began >= 0.16

    def test_drip_is_let_go(self, gateway: Gateway) -> None:
        """Clearing the faults sends the rest of a dripping answer at once."""
        gateway.fault(path=ECHO, body="abcdefgh", drip=30)
        with socket.create_connection(gateway.address, timeout=10) as connection:
            connection.sendall(b"POST /api/builder/v1/actions/echo:invoke HTTP/1.0\r\n\r\n")
            seen(gateway, at_least=1)
            gateway.send("DELETE", "//_faults", key=None)
            assert b"".join(iter(lambda: connection.recv(4096), b"")).endswith(b"abcdefgh")


class TestDelay:
    """Requests that are held up."""

    def test_delay(self, gateway: Gateway) -> None:
        """A delayed request is handled after that time, others meanwhile."""
        gateway.fault(path=ECHO, delay=0.15)
        began = time.monotonic()
        assert gateway.invoke("echo", {"text": "x"}).json["result"] == "x"
        assert time.monotonic() - began >= 0.15

    def test_clearing_lets_go(self, gateway: Gateway) -> None:
        """Clearing the faults lets a delayed request go on at once."""
        gateway.fault(path=ECHO, delay=60)
        replies: list[Any] = []
        thread = threading.Thread(target=lambda: replies.append(gateway.invoke("echo", {"text": "x"}).json["result"]))
        thread.start()
        assert seen(gateway, at_least=1)[0]["path"].endswith("/actions/echo:invoke")
        assert gateway.send("GET", "//health").status == 200
        gateway.send("DELETE", "//_faults", key=None)
        thread.join(10)
        assert replies == ["x"]


class TestAsking:
    """How faults are asked for."""

    def test_times_and_order(self, gateway: Gateway) -> None:
        """The fault asked for first is met first, as many times as asked, and then the next one."""
        assert gateway.fault(path=ECHO, status=500, times=2) != gateway.fault(path=ECHO, status=502, times=-1)
        statuses = [gateway.invoke("echo", {"text": "x"}).status for _ in range(5)]
        gateway.send("DELETE", "//_faults", key=None)
        assert statuses == [500, 500, 502, 502, 502]
        assert gateway.invoke("echo", {"text": "x"}).status == 200

    def test_method_and_path(self, gateway: Gateway) -> None:
        """Only requests of the method and the path meet the fault."""
        gateway.fault(method="POST", path="*/mcp/manifest", status=500)
        gateway.fault(method="GET", path="*/invocations/*", status=404)
        assert gateway.send("GET", "/mcp/manifest").status == 200
        assert gateway.send("POST", "/mcp/manifest").status == 500
        assert gateway.send("GET", "/invocations/x").status == 404

    @pytest.mark.parametrize(
        ("fault", "field"),
        [
            ({"statu": 500}, "statu"),
            ({"status": 42}, "status"),
            ({"reset": "later"}, "reset"),
            ({"reset": []}, "reset"),
            ({"delay": -1}, "delay"),
            ({"drip": True}, "drip"),
            ({"truncate": "x"}, "truncate"),
            ({"headers": {"Retry-After": 1}}, "headers"),
            ({"headers": {"Connection": "close"}}, "headers"),
            ({"headers": {"X": "a\r\nY: b"}}, "headers"),
            ({"body_b64": "?"}, "body_b64"),
            ({"times": -2}, "times"),
            ({"method": 5}, "method"),
        ],
    )
    def test_wrong_faults(self, gateway: Gateway, fault: dict[str, Any], field: str) -> None:
        """A fault that cannot be is refused by name, and nothing is kept."""
        reply = gateway.send("POST", "//_faults", fault, key=None)
        assert (reply.status, reply.json["detail"][0]["loc"]) == (422, ["body", field])
        assert gateway.invoke("echo", {"text": "x"}).status == 200

    def test_switched_off(self, gateway: Gateway) -> None:
        """Without faults the control does not exist."""
        app = build_app(gateway.store, gateway.runtime)
        lines: list[str] = []
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/_faults", "wsgi.input": None}
        list(app(environ, lambda status, *_: lines.append(status)))  # type: ignore[arg-type]
        assert lines == ["404 Not Found"]

    def test_unknown_control(self, gateway: Gateway) -> None:
        """The control has no other routes."""
        assert gateway.send("PUT", "//_faults", key=None).status == 404


class TestSeen:
    """The list of what the gateway saw."""

    def test_record(self, gateway: Gateway) -> None:
        """A request is listed with its parts; the key is there as its hash only."""
        before = time.monotonic()
        gateway.invoke("echo", {"text": "é"}, Idempotency_Key="k", Authorization="Bearer hive_secret")
        gateway.send("GET", "/mcp/manifest?limit=1&cursor=")
        first, second = seen(gateway)
        assert (first["method"], first["path"]) == ("POST", "/api/builder/v1/actions/echo:invoke")
        assert first["body"] == {"input": {"text": "é"}, "sync": True, "sync_timeout_s": 20}
        assert first["headers"]["idempotency-key"] == "k"
        assert first["headers"]["x-api-key"] == hashlib.sha256(gateway.key.encode()).hexdigest()
        assert first["headers"]["authorization"] == hashlib.sha256(b"Bearer hive_secret").hexdigest()
        assert (second["query"], second["body"]) == ({"limit": "1", "cursor": ""}, None)
        assert before <= first["at"] <= second["at"]
        assert gateway.key not in json.dumps([first, second])

    def test_body_that_is_no_json(self, gateway: Gateway) -> None:
        """A body that is no JSON is listed as text."""
        gateway.send("POST", "/actions/echo:invoke", b"{\xff")
        assert seen(gateway)[0]["body"] == "{\ufffd"

    def test_filter_and_forget(self, gateway: Gateway) -> None:
        """The list can be narrowed by method and path, holds no control requests, and starts anew when told to."""
        gateway.send("GET", "/mcp/manifest")
        gateway.invoke("echo", {"text": "x"})
        assert len(seen(gateway)) == 2
        assert [record["method"] for record in seen(gateway, path=ECHO)] == ["POST"]
        assert [record["method"] for record in seen(gateway, method="GET")] == ["GET"]
        gateway.send("DELETE", "//_faults/requests", key=None)
        assert seen(gateway) == []

    def test_waiting_for_requests(self, gateway: Gateway) -> None:
        """Asking for a number of requests waits until they have come."""
        threads = [threading.Thread(target=gateway.invoke, args=("echo", {"text": "x"})) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert len(seen(gateway, path=ECHO, at_least=3)) == 3
        assert seen(gateway, at_least=99, timeout=0.01) != []
        for thread in threads:
            thread.join(10)
        assert gateway.send("GET", "//_faults/requests?at_least=x", key=None).status == 422

    def test_request_that_met_a_fault(self, gateway: Gateway) -> None:
        """What met a fault was seen all the same."""
        gateway.fault(path=ECHO, reset="before")
        with pytest.raises(ConnectionResetError):
            gateway.invoke("echo", {"text": "x"})
        assert len(seen(gateway, path=ECHO)) == 1


def seen(gateway: Gateway, **query: Any) -> Any:
    """The requests that the gateway saw."""
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return gateway.send("GET", f"//_faults/requests?{text}", key=None).json
