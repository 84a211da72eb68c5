"""A gateway of raw bytes: it answers each request with the next step of a script, and keeps what it was asked."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPMessage, parse_headers
from typing import Any, Literal, Self

After = Literal["keep", "close", "reset", "hold", "drip"]


@dataclass(frozen=True, slots=True)
class Step:
    """What goes out for one request after *delay* seconds, and what then becomes of the connection.

    ``keep`` it open, ``close`` it without notice, ``reset`` it, ``hold`` it silently until the server stops, or
    ``drip`` single bytes until one of the two has had enough.
    """

    data: bytes = b""
    after: After = "keep"
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came, and the number of the connection that it came on."""

    method: str
    target: str
    headers: HTTPMessage
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def answer(
    body: Any = b"",
    status: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    after: After = "keep",
) -> Step:
    """A whole answer; a *body* that is no bytes goes out as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Type": content_type, "Content-Length": str(len(content)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return Step(f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode("latin-1") + content, after)


_TLS = b"\x16"  # the first byte of every handshake

HANG_UP = Step(after="close")
RESET = Step(after="reset")
SILENCE = Step(after="hold")


@dataclass
class ScriptedServer:
    """Serves *steps* in their order on a port of 127.0.0.1, the last one for ever; with *tls* behind a certificate."""

    steps: list[Step]
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        """The paths that were asked for."""
        return [seen.target for seen in self.seen]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection, len(self._threads)), daemon=True)
                with self._lock:
                    self._sockets.append(connection)
                    self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError), connection:
            connection.settimeout(30)
            if not self.tls and connection.recv(1, socket.MSG_PEEK) == _TLS:
                connection.sendall(b"HTTP/1.1 400 This port speaks plain HTTP\r\n\r\n")
                return
            channel = self.tls.wrap_socket(connection, server_side=True) if self.tls else connection
            with channel, channel.makefile("rb") as stream:
                while (request := _read_request(stream, number)) and self._play(channel, request):
                    pass

    def _play(self, channel: socket.socket, request: Seen) -> bool:
        """Send the step that is due; true where the connection stays open."""
        with self._lock:
            step = self.steps[min(len(self.seen), len(self.steps) - 1)]
            self.seen.append(request)
        self._stopping.wait(step.delay)
        channel.sendall(step.data)
        while step.after == "drip" and not self._stopping.wait(0.02):
            channel.sendall(b" ")
        if step.after == "hold":
            self._stopping.wait(30)
        if step.after == "reset":
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if step.after == "close":
            channel.shutdown(socket.SHUT_RDWR)
        return step.after == "keep"


def _read_request(stream: Any, number: int) -> Seen | None:
    line = stream.readline()
    if not line:
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers = parse_headers(stream)
    return Seen(method, target, headers, stream.read(int(headers.get("Content-Length", 0))), number)


def build_pages(pages: Iterable[Any]) -> list[Step]:
    """A manifest that comes in *pages*, each a list of tools."""
    lists = list(pages)
    last = len(lists) - 1
    return [
        answer({"tools": tools, "hasMore": turn < last, "nextCursor": f"c{turn}" if turn < last else None})
        for turn, tools in enumerate(lists)
    ]
