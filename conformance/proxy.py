"""The key, which the suite does not send: a proxy that adds one header to each request.

Owns sockets and threads. Every other byte is forwarded as it came and when it came, in both directions, and the end of
one side at once ends the other. It knows of HTTP where a request begins and where it ends, no more.
"""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from socketserver import StreamRequestHandler, ThreadingTCPServer

_PIECE = 65_536
_LONGEST_HEAD = 65_536
_CONNECT_LIMIT = 10.0
_LOOK = 0.05
_LENGTH = re.compile(rb"^content-length:[ \t]*(\d+)[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding:", re.IGNORECASE | re.MULTILINE)


@contextmanager
def open_proxy(upstream: tuple[str, int], key: str) -> Iterator[str]:
    """A proxy in front of the address *upstream*; its own, as HOST:PORT. What it forwards ends with it."""
    with _Proxy(upstream, key) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=[_LOOK], name="proxy", daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{proxy.server_address[1]}"
        finally:
            proxy.shutdown()
            thread.join()


class _Proxy(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, upstream: tuple[str, int], key: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.upstream = upstream
        self.header = f"Authorization: Bearer {key}\r\n".encode()


class _Connection(StreamRequestHandler):
    """A connection of the suite's, and one of its own to the relay."""

    disable_nagle_algorithm = True
    server: _Proxy

    def handle(self) -> None:
        """Forward requests from here, answers from another thread, until one of the sides ends."""
        with socket.create_connection(self.server.upstream, _CONNECT_LIMIT) as upstream:
            upstream.settimeout(None)
            upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answers = threading.Thread(target=_forward_answers, args=[upstream, self.connection], daemon=True)
            answers.start()
            try:
                with suppress(OSError):
                    self._forward_requests(upstream)
            finally:
                _end(upstream)
                answers.join()

    def _forward_requests(self, upstream: socket.socket) -> None:
        while head := _read_head(self.rfile):
            line, fields = head.split(b"\r\n", 1)
            upstream.sendall(line + b"\r\n" + self.server.header + fields)
            missing = _find_length(fields)
            while missing and (piece := self.rfile.read1(min(missing, _PIECE))):
                upstream.sendall(piece)
                missing -= len(piece)


def _forward_answers(upstream: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while piece := upstream.recv(_PIECE):
            client.sendall(piece)
    _end(upstream)
    _end(client)


def _read_head(stream: BufferedIOBase) -> bytes:
    """The next request up to its empty line; nothing where the client has ended."""
    lines = []
    while line := stream.readline(_LONGEST_HEAD):
        lines.append(line)
        if line == b"\r\n":
            return b"".join(lines)
    return b""


def _find_length(fields: bytes) -> int:
    """The size of the body that follows. Raises ValueError where it is told in no header: the suite always tells it."""
    if _CHUNKED.search(fields):
        raise ValueError("a request in chunks: this proxy forwards requests with a Content-Length")
    found = _LENGTH.search(fields)
    return int(found[1]) if found else 0


def _end(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
