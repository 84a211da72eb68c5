"""The relay as a process of its own, and clients of it that see HTTP as it is."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.harness import spec
from tests.harness.client import META, refuse_constant
from tests.harness.gateway import GatewayProcess
from tests.harness.spec import MODERN

BOTH = "application/json, text/event-stream"
OWN_META = {
    META + "protocolVersion": MODERN,
    META + "clientCapabilities": {},
    META + "clientInfo": {"name": "tests", "version": "1"},
}


class Answer(NamedTuple):
    """One HTTP answer, its header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON, of which a strict parser takes every byte."""
        return json.loads(self.body.decode("utf-8", "strict"), parse_constant=refuse_constant)

    @property
    def streamed(self) -> bool:
        """Whether it is an event stream."""
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def messages(self) -> list[Any]:
        """The messages in it, of an event stream as of JSON; every line of a stream is one or empty or a comment."""
        if not self.streamed:
            return [self.json]
        lines = self.body.decode("utf-8", "strict").splitlines()  # at every line break that any reader may know
        assert all(line == "" or line.startswith((":", "data: ")) for line in lines), lines
        return [json.loads(line[6:], parse_constant=refuse_constant) for line in lines if line.startswith("data: ")]

    @property
    def last(self) -> Any:
        """The response, which nothing but a notice of the end may follow."""
        return next(message for message in self.messages if "method" not in message)

    @property
    def result(self) -> Any:
        """Of a request that was served."""
        assert self.status == 200, self
        assert "result" in self.last, self.last
        return self.last["result"]

    @property
    def code(self) -> int:
        """Of a request that was not: the error's."""
        error = self.last["error"]
        assert isinstance(error["message"], str)
        code: int = error["code"]
        return code

    def check(self, method: str, revision: str) -> Self:
        """Hold each message to the schema of *revision*, as the answer to a request of *method*."""
        for message in self.messages:
            spec.check(message, revision=revision, method=method)
        return self


class Connection(http.client.HTTPConnection):
    """A connection that can be hung up at any time, also while another thread reads what comes on it."""

    def connect(self) -> None:
        """As http.client does, which lets go of the socket where an answer ends the connection."""
        super().connect()
        self._line: socket.socket = self.sock

    def hang_up(self, *, rudely: bool = False) -> None:
        """Go away in the middle; *rudely* as a client that was killed, whose kernel resets the connection."""
        with contextlib.suppress(OSError):
            if rudely:
                self._line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                self._line.shutdown(socket.SHUT_RDWR)
        self.close()


class RelayProcess:
    """``colabhive-mcp serve`` on a free port of 127.0.0.1; *settings* are named as in the configuration file."""

    def __init__(self, folder: Path, gateway: GatewayProcess | str, **settings: Any) -> None:
        self.log = folder / f"relay-{id(self):x}.log"
        self.key = gateway if isinstance(gateway, str) else gateway.key
        url = gateway if isinstance(gateway, str) else gateway.url
        given = {"api_url": url, "port": 0, **settings}
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder)} | {
            f"COLABHIVE_{name.upper()}": str(value) for name, value in given.items()
        }
        self.address = self.path = ""
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "colabhive_mcp", "serve"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True, cwd="/"
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("Relay: "):
            self.__exit__(None, None, None)
            raise AssertionError(self.log.read_text())
        address = urlsplit(line.removeprefix("Relay: ").strip())
        self.address, self.path = address.netloc, address.path
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, by its own process id, whatever it does."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self.process is not None
        return self.process.pid

    def stop(self, timeout: float = 60) -> int:
        """End it as an operator does; answers its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def connect(self, timeout: float = 60) -> Connection:
        """A connection of its own."""
        return Connection(self.address, timeout=timeout)

    def ask(self, method: str, path: str | None = None, body: bytes | None = None, /, **headers: str | None) -> Answer:
        """One request as it is given; of *headers* ``_`` stands for ``-``, and None leaves one out."""
        connection = self.connect()
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
            connection.request(method, self.path if path is None else path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, to_names(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def post(self, message: Any, /, **headers: str | None) -> Answer:
        """One message, or what stands for one, with the right key unless *headers* say otherwise."""
        return self.ask("POST", None, to_body(message), **(self.to_headers() | headers))

    def to_headers(self) -> dict[str, str | None]:
        """What every client sends."""
        return {"Authorization": f"Bearer {self.key}", "Content_Type": "application/json", "Accept": BOTH}

    def call(
        self, method: str, params: Mapping[str, Any] | None = None, /, *, modern: bool = True, **headers: Any
    ) -> Answer:
        """One request of either era, with the headers that it needs."""
        message, sent = build_call(method, params, modern=modern, **headers)
        return self.post(message, **sent)

    def call_as(self, revision: str, method: str, params: Mapping[str, Any] | None = None, /, **headers: Any) -> Answer:
        """One request of a client of *revision*, its answer held to that revision's schema."""
        if revision != MODERN:
            headers = {"MCP_Protocol_Version": revision, **headers}
        return self.call(method, params, modern=revision == MODERN, **headers).check(method, revision)

    def open(self, message: Any, /, **headers: str | None) -> tuple[Connection, http.client.HTTPResponse]:
        """Post one message and answer as soon as the headers are there; the connection is the caller's to close."""
        connection = self.connect()
        sent = {n.replace("_", "-"): v for n, v in (self.to_headers() | headers).items() if v is not None}
        connection.request("POST", self.path, to_body(message), sent)
        return connection, connection.getresponse()

    def send_raw(self, data: bytes, *, timeout: float = 20) -> bytes:
        """What comes back for bytes as they are, until the relay closes the connection."""
        with socket.create_connection(self.address.split(":"), timeout) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def listen(self, **headers: str | None) -> tuple[Connection, http.client.HTTPResponse]:
        """Open the legacy stream; the connection is the caller's to close."""
        connection = self.connect()
        sent = {"Authorization": f"Bearer {self.key}", "Accept": "text/event-stream", **headers}
        connection.request("GET", self.path, None, {n.replace("_", "-"): v for n, v in sent.items() if v is not None})
        return connection, connection.getresponse()

    @property
    def busy(self) -> int:
        """The requests that are being answered, but for the one that asks."""
        busy: int = self.ask("GET", "/health").json["threads"]["busy"]
        return busy - 1


def to_names(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by lower-case names; of several with one name the values are joined, as any reader may."""
    names: dict[str, str] = {}
    for name, value in headers:
        names[name.lower()] = f"{names[name.lower()]}, {value}" if name.lower() in names else value
    return names


def to_body(message: Any) -> bytes:
    """The bytes of a message; bytes stay what they are."""
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def build_call(
    method: str, params: Mapping[str, Any] | None = None, *, modern: bool, request_id: Any = 1, **headers: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A request and its headers. *headers* that are given win; those of 2026-07-28 are made of the body."""
    given = dict(params or {})
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": given}
    if not modern:
        return message, {"MCP_Protocol_Version": "2025-11-25", **headers}
    given["_meta"] = {**OWN_META, **given.get("_meta", {})}
    name = given.get("name") or given.get("uri")
    named = {"Mcp_Name": name} if isinstance(name, str) else {}
    return message, {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, **named, **headers}


def read_events(answer: http.client.HTTPResponse) -> Iterator[Any]:
    """The messages of an open event stream, as they come; a comment is None."""
    for line in answer:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])
        elif line.startswith(b":"):
            yield None
