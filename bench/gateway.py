"""A gateway that is only fast: `python -m bench.gateway --tools N`, a process of its own.

It keeps a thread for each connection, does no work for a request beyond finding its end and its tool, and holds every
manifest ready as bytes. It prints its port as one JSON line, and goes when its standard input closes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass

from bench import tools

PREFIX = "/api/builder/v1"
MANIFEST = f"{PREFIX}/mcp/manifest"
STATE = "/bench/state"
CHANGE = "/bench/change"

_LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*(\d+)")
_ETAG = re.compile(rb"(?i)\r\nif-none-match:[ \t]*([^\r]+)")
_GZIP = re.compile(rb"(?i)\r\naccept-encoding:[^\r]*gzip")
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
        self.copy = self._build_copy()

    def change(self) -> None:
        """Give the first tool another version: the smallest change that makes every client read the manifest again."""
        with self._lock:
            self._version = f"1.0.{next(self._changes)}"
            self._tools[0] = tools.encode(tools.build_tool(0, version=self._version))
            self.copy = self._build_copy()

    def answer(self, head: bytes) -> bytes:
        copy = self.copy
        known = _ETAG.search(head)
        if known and known[1] == copy.etag:
            return b"HTTP/1.1 304 Not Modified\r\nETag: " + copy.etag + b"\r\n\r\n"
        with self._lock:
            self._sent += 1
        tag = b"ETag: " + copy.etag + b"\r\n"
        if _GZIP.search(head):
            return build_response(copy.packed, extra=tag + b"Content-Encoding: gzip\r\n")
        return build_response(copy.body, extra=tag)

    def to_state(self) -> bytes:
        with self._lock:
            return build_response(tools.encode({"version": self._version, "sent": self._sent}))

    def _build_copy(self) -> Copy:
        listed = b",".join(self._tools)
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


def answer_invoke(behaviour: str, slug: str) -> bytes:
    """Answer at once, or late, or with a job whose identifier says when it is ready: nothing has to be remembered."""
    if behaviour == "queued":
        ready = time.monotonic_ns() + round(tools.READY_SECONDS * 1e9)
        return build_invocation("queued", invocation=f"job-{ready}", slug=slug)
    if behaviour == "held":
        time.sleep(tools.HELD_SECONDS)
    return build_invocation("succeeded", invocation="done-1", slug=slug)


def answer_poll(ready: int) -> bytes:
    status = "succeeded" if time.monotonic_ns() >= ready else "running"
    return build_invocation(status, invocation=f"job-{ready}")


def answer_request(manifest: Manifest, head: bytes) -> bytes:
    if found := _INVOKE.match(head):
        return answer_invoke(found[2].decode(), found[1].decode())
    if found := _INVOCATION.match(head):
        return answer_poll(int(found[1]))
    target = head.split(b" ", 2)[1].split(b"?")[0].decode()
    if target == CHANGE:
        manifest.change()
    if target in {CHANGE, STATE}:
        return manifest.to_state()
    if target == MANIFEST:
        return manifest.answer(head)
    return build_response(b'{"detail":"not found"}', status=b"404 Not Found")


def serve_connection(connection: socket.socket, manifest: Manifest) -> None:
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
            connection.sendall(answer_request(manifest, head))


def serve_quietly(connection: socket.socket, manifest: Manifest) -> None:
    """A client that is killed resets its connections: that is its own affair."""
    try:
        serve_connection(connection, manifest)
    except OSError:
        return


def accept_connections(listener: socket.socket, manifest: Manifest) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_quietly, args=(connection, manifest), daemon=True).start()


def run(count: int) -> None:
    manifest = Manifest(count)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    threading.Thread(target=accept_connections, args=(listener, manifest), daemon=True).start()
    print(json.dumps({"port": listener.getsockname()[1], "manifest_bytes": len(manifest.copy.body)}), flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The benchmark's gateway.")
    parser.add_argument("--tools", type=int, default=300)
    run(parser.parse_args().tools)
