"""The relay as a process of its own, and clients of it that see HTTP as it is."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.harness.client import META
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
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        """The messages in it, of an event stream as of JSON."""
        if self.headers.get("content-type") != "text/event-stream":
            return [self.json]
        return [json.loads(line[6:]) for line in self.body.split(b"\n") if line.startswith(b"data: ")]


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
        assert line.startswith("Relay: "), self.log.read_text()
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

    def connect(self, timeout: float = 60) -> http.client.HTTPConnection:
        """A connection of its own."""
        return http.client.HTTPConnection(self.address, timeout=timeout)

    def ask(self, method: str, path: str | None = None, body: bytes | None = None, /, **headers: str | None) -> Answer:
        """One request as it is given; of *headers* ``_`` stands for ``-``, and None leaves one out."""
        connection = self.connect()
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
            connection.request(method, self.path if path is None else path, body, sent)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read())
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

    def open(
        self, message: Any, /, **headers: str | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Post one message and answer as soon as the headers are there; the connection is the caller's to close."""
        connection = self.connect()
        sent = {n.replace("_", "-"): v for n, v in (self.to_headers() | headers).items() if v is not None}
        connection.request("POST", self.path, to_body(message), sent)
        return connection, connection.getresponse()


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
