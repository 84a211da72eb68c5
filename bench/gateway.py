"""A gateway that is only fast: `python -m bench.gateway --tools N`, a process of its own.

It keeps a thread for each connection, does no work for a request beyond finding its end and its tool, and holds every
manifest ready as bytes. It prints its port as one JSON line, and goes when its standard input closes.

The keys of the relay's tenants (`TENANT`) each see some tools of their own, those that begin with `REFUSED` are refused
and counted. Under `CONTROL` it is told how long jobs take and how often an invocation meets a fault.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import re
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from bench import tools

PREFIX = "/api/builder/v1"
MANIFEST = f"{PREFIX}/mcp/manifest"
STATE = "/bench/state"
CHANGE = "/bench/change"
CONTROL = "/bench/control"
REFUSED = "hive_refused_"
TENANT = "hive_tenant_"
OWN_TOOLS = 3
SLOW_SECONDS = 0.5

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d+)")
_ETAG = re.compile(rb"(?i)\r\nif-none-match:[ \t]*([^\r]+)")
_GZIP = re.compile(rb"(?i)\r\naccept-encoding:[^\r]*gzip")
_KEY = re.compile(rb"(?i)\r\nx-api-key:[ \t]*([^\r]+)")
_INVOKE = re.compile(rb"^POST /api/builder/v1/actions/(([a-z]+)-[^:% ]+)(?::|%3A)invoke ")
_INVOCATION = re.compile(rb"^GET /api/builder/v1/invocations/job-(\d+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One state of the manifest, ready to send."""

    etag: bytes
    body: bytes
    packed: bytes


class Manifest:
    """The manifest as it stands, and how often it was sent whole."""

    def __init__(self, count: int) -> None:
        self._tools = tools.build_tools(count)
        self._lock = threading.Lock()
        self._version = "1.0.0"
        self._changes = itertools.count(1)
        self._sent = 0
        self._of_tenants: dict[str, Copy] = {}
        self.copy = build_copy(self._tools)

    def change(self) -> None:
        """Give the first tool another version: the smallest change that makes every client read the manifest again."""
        with self._lock:
            self._version = f"1.0.{next(self._changes)}"
            self._tools[0] = tools.encode(tools.build_tool(0, version=self._version))
            self.copy = build_copy(self._tools)

    def answer(self, head: bytes, key: str) -> bytes:
        copy = self._find_copy(key)
        known = _ETAG.search(head)
        if known and known[1] == copy.etag:
            return b"HTTP/1.1 304 Not Modified\r\nETag: " + copy.etag + b"\r\n\r\n"
        with self._lock:
            self._sent += 1
        tag = b"ETag: " + copy.etag + b"\r\n"
        if _GZIP.search(head):
            return build_response(copy.packed, extra=tag + b"Content-Encoding: gzip\r\n")
        return build_response(copy.body, extra=tag)

    def to_state(self) -> dict[str, Any]:
        with self._lock:
            return {"version": self._version, "sent": self._sent}

    def _find_copy(self, key: str) -> Copy:
        """The copy that *key* sees: a tenant's differs in its last tools."""
        if not key.startswith(TENANT):
            return self.copy
        with self._lock:
            if key not in self._of_tenants:
                shared, count = self._tools[:-OWN_TOOLS], len(self._tools)
                version = f"2.0.{key.removeprefix(TENANT)}"
                own = [tools.encode(tools.build_tool(n, version=version)) for n in range(len(shared), count)]
                self._of_tenants[key] = build_copy([*shared, *own])
            return self._of_tenants[key]


class Reset(Exception):
    """The connection is to be cut without an answer."""


class Faults:
    """Every so many-th invocation meets the next of the faults; none does while `every` is 0."""

    def __init__(self) -> None:
        self.every = 0
        self._count = itertools.count(1)
        self._kinds: itertools.cycle[Callable[[], bytes | None]] = itertools.cycle(
            (_reset, _answer_503, _answer_429, _answer_late)
        )

    def meet(self) -> bytes | None:
        """The answer that a fault gives, None where the invocation may go on. Raises Reset."""
        if not self.every or next(self._count) % self.every:
            return None
        return next(self._kinds)()


def _reset() -> bytes:
    raise Reset


def _answer_503() -> bytes:
    return build_response(b'{"detail":"busy"}', status=b"503 Service Unavailable")


def _answer_429() -> bytes:
    return build_response(b'{"detail":"too many"}', status=b"429 Too Many Requests", extra=b"Retry-After: 1\r\n")


def _answer_late() -> None:
    time.sleep(SLOW_SECONDS)


class Gateway:
    """What is answered to each request."""

    def __init__(self, count: int) -> None:
        self.manifest = Manifest(count)
        self._faults = Faults()
        self._ready_seconds = tools.READY_SECONDS
        self._refused: Counter[str] = Counter()
        self._lock = threading.Lock()

    def answer(self, head: bytes) -> bytes:
        """The answer to a request with this head. Raises Reset."""
        found = _KEY.search(head)
        key = found[1].decode() if found else ""
        if key.startswith(REFUSED):
            return self._refuse(key)
        if found := _INVOKE.match(head):
            return self._faults.meet() or answer_invoke(found[2].decode(), found[1].decode(), self._ready_seconds)
        if found := _INVOCATION.match(head):
            return answer_poll(int(found[1]))
        target, _, query = head.split(b" ", 2)[1].decode().partition("?")
        if target == MANIFEST:
            return self.manifest.answer(head, key)
        if target not in (CHANGE, CONTROL, STATE):
            return build_response(b'{"detail":"not found"}', status=b"404 Not Found")
        return self._answer_bench(target, query)

    def _refuse(self, key: str) -> bytes:
        with self._lock:
            self._refused[key] += 1
        return build_response(b'{"detail":"unknown key"}', status=b"401 Unauthorized")

    def _answer_bench(self, target: str, query: str) -> bytes:
        """Do what the benchmark wants, and tell how things stand."""
        if target == CHANGE:
            self.manifest.change()
        for name, value in parse_qsl(query):
            _CONTROLS[name](self, float(value))
        refused = {"keys": len(self._refused), "most": max(self._refused.values(), default=0)}
        return build_response(tools.encode(self.manifest.to_state() | {"refused": refused}))

    def _set_ready_seconds(self, value: float) -> None:
        self._ready_seconds = value

    def _set_faults(self, value: float) -> None:
        self._faults.every = int(value)


_CONTROLS: dict[str, Callable[[Gateway, float], None]] = {
    "ready_seconds": Gateway._set_ready_seconds,
    "fault_every": Gateway._set_faults,
}


def build_copy(tools_listed: list[bytes]) -> Copy:
    """The manifest with these tools, ready to send."""
    listed = b",".join(tools_listed)
    etag = f'W/"sha256:{hashlib.sha256(listed).hexdigest()}"'
    rest = {
        "generatedAt": "2026-05-22T15:00:00Z",
        "etag": etag,
        "protocolVersion": "2026-01-01",
        "server": {"name": "colabhive", "version": "bench", "vendor": "ColabHive"},
    }
    body = b'{"tools":[' + listed + b"]," + tools.encode(rest)[1:]
    return Copy(etag=etag.encode(), body=body, packed=gzip.compress(body, 5))


def build_response(body: bytes, *, status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n" % (status, extra, len(body))
    return head + body


def build_invocation(status: str, *, invocation: str, slug: str = "") -> bytes:
    done = status == "succeeded"
    answer = {
        "invocation_id": invocation,
        "action_slug": slug,
        "status": status,
        "model_state": "warm",
        "result": tools.RESULT if done else None,
        "error": None,
        "metrics": {},
        "poll_url": f"{PREFIX}/invocations/{invocation}",
    }
    return build_response(tools.encode(answer))


def answer_invoke(behaviour: str, slug: str, ready_seconds: float) -> bytes:
    """Answer at once, or late, or with a job whose identifier says when it is ready: nothing has to be remembered."""
    if behaviour == "queued":
        ready = time.monotonic_ns() + round(ready_seconds * 1e9)
        return build_invocation("queued", invocation=f"job-{ready}", slug=slug)
    if behaviour == "held":
        time.sleep(tools.HELD_SECONDS)
    return build_invocation("succeeded", invocation="done-1", slug=slug)


def answer_poll(ready: int) -> bytes:
    status = "succeeded" if time.monotonic_ns() >= ready else "running"
    return build_invocation(status, invocation=f"job-{ready}")


def serve_connection(connection: socket.socket, gateway: Gateway) -> None:
    """Answer one request after the other until the other side closes."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    held = b""
    with connection:
        while True:
            while (end := held.find(b"\r\n\r\n")) < 0:
                if not (chunk := connection.recv(65536)):
                    return
                held += chunk
            head = held[:end]
            length = _LENGTH.search(head)
            size = end + 4 + (int(length[1]) if length else 0)
            while len(held) < size:
                if not (chunk := connection.recv(65536)):
                    return
                held += chunk
            held = held[size:]
            try:
                connection.sendall(gateway.answer(head))
            except Reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return


def serve_quietly(connection: socket.socket, gateway: Gateway) -> None:
    """A client that is killed resets its connections: that is its own affair."""
    try:
        serve_connection(connection, gateway)
    except OSError:
        return


def accept_connections(listener: socket.socket, gateway: Gateway) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_quietly, args=(connection, gateway), daemon=True).start()


def run(count: int) -> None:
    gateway = Gateway(count)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    threading.Thread(target=accept_connections, args=(listener, gateway), daemon=True).start()
    print(
        json.dumps({"port": listener.getsockname()[1], "manifest_bytes": len(gateway.manifest.copy.body)}), flush=True
    )
    sys.stdin.buffer.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The benchmark's gateway.")
    parser.add_argument("--tools", type=int, default=300)
    run(parser.parse_args().tools)
