"""The benchmark's gateway as its users hold it: its process, its address, and the plain requests of the floors."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from bench import gateway, tools
from bench.child import Child, ChildError

if TYPE_CHECKING:
    from bench.place import Place

KEY = "hive_bench_0123456789"
_BATCH = 100


@dataclass(frozen=True, slots=True)
class Upstream:
    """A running gateway."""

    child: Child
    port: int
    tools: int
    manifest_bytes: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.connect()
        return connection

    def change(self) -> str:
        """Make the manifest another one; the version that its first tool has from then on."""
        return str(self._control("POST", gateway.CHANGE)["version"])

    def count_sent(self) -> int:
        """How often the manifest was sent whole."""
        return int(self._control("GET", gateway.STATE)["sent"])

    def control(self, **settings: float) -> None:
        """Set how long jobs take (`ready_seconds`) and which invocations meet a fault (`fault_every`, 0 for none)."""
        self._control("POST", f"{gateway.CONTROL}?{urlencode(settings)}")

    def count_refused(self) -> tuple[int, int]:
        """How many keys were refused, and how often the one that asked most."""
        refused = self._control("GET", gateway.STATE)["refused"]
        return int(refused["keys"]), int(refused["most"])

    def _control(self, method: str, path: str) -> dict[str, Any]:
        with closing(self.connect()) as connection:
            state: dict[str, Any] = json.loads(exchange(connection, method, path))
            return state


@contextmanager
def open_upstream(place: Place, *, count: int) -> Iterator[Upstream]:
    """Run a gateway with this many tools until the block ends."""
    command = [sys.executable, "-m", "bench.gateway", "--tools", str(count)]
    with Child(command, env=place.variables | {"PYTHONPATH": ":".join(path for path in sys.path if path)}) as child:
        received = child.receive()
        assert received
        ready = json.loads(received[0])
        yield Upstream(child=child, port=ready["port"], tools=count, manifest_bytes=ready["manifest_bytes"])


def post(connection: http.client.HTTPConnection, name: str) -> bytes:
    """Invoke a tool as the bridge does: the same body and headers, by `http.client` alone."""
    body = tools.encode({"input": tools.ARGUMENTS, "sync": True, "sync_timeout_s": 30})
    headers = {
        "X-API-Key": KEY,
        "User-Agent": "colabhive-mcp/bench",
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
        "Idempotency-Key": str(uuid.uuid4()),
    }
    return exchange(connection, "POST", f"{gateway.PREFIX}/actions/{name}:invoke", body=body, headers=headers)


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> bytes:
    """One request on a kept-alive connection; the body of its answer."""
    connection.request(method, path, body=body, headers=headers or {})
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise ChildError(f"the benchmark's gateway answered {response.status} to {method} {path}")
    return answer


def measure_ceiling(upstream: Upstream, *, batches: int = 20) -> float:
    """POSTs a second that the gateway answers to a client that costs nothing: batches on one connection."""
    target = f"{gateway.PREFIX}/actions/{tools.to_name(0)}:invoke"
    request = f"POST {target} HTTP/1.1\r\nHost: bench\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    with socket.create_connection(("127.0.0.1", upstream.port), timeout=30) as connection:
        begun = time.perf_counter()
        for _ in range(batches):
            connection.sendall(request * _BATCH)
            _read_answers(connection, _BATCH)
        return batches * _BATCH / (time.perf_counter() - begun)


def _read_answers(connection: socket.socket, count: int) -> None:
    seen = b""
    while seen.count(b"HTTP/1.1 200 OK") < count or not seen.endswith(b"}"):
        seen += connection.recv(1 << 20)
