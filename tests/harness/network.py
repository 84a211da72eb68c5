"""What may stand between a server process and its gateway: a proxy, a certificate, silence, or nothing at all."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

_PIECE = 65536


class Authority:
    """A certificate that signs itself, for 127.0.0.1 and localhost; *bundle* is the file that a client may trust."""

    def __init__(self, folder: Path) -> None:
        self.bundle = str(folder / "ca.pem")
        command = shutil.which("openssl")
        assert command, "these tests need the openssl command"
        request = f"{command} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
        names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
        options = ["-addext", names, "-keyout", str(folder / "key.pem"), "-out", self.bundle]
        subprocess.run([*request.split(), *options], check=True, capture_output=True)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(self.bundle, str(folder / "key.pem"))


class Forwarder:
    """Passes connections on to a *port* of this machine; with *tls* behind a certificate, with *tunnel* after CONNECT.

    *heads* are the first bytes of each connection, as they came and before they were passed on.
    """

    def __init__(self, port: int, *, tls: ssl.SSLContext | None = None, tunnel: bool = False) -> None:
        self.heads: list[bytes] = []
        self._target = port
        self._tls = tls
        self._tunnel = tunnel
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._sockets:
                _shut(each)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                with self._lock:
                    self._sockets.append(connection)
                    self._threads.append(thread)
                thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError), plain:
            near = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
            with self._lock:
                self._sockets.append(near)
            with near, socket.create_connection(("127.0.0.1", self._target)) as far:
                head = near.recv(_PIECE)
                self.heads.append(head)
                if self._tunnel:
                    near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                else:
                    far.sendall(head)
                _pass_on(near, far)


def _pass_on(near: socket.socket, far: socket.socket) -> None:
    """Pass on what comes from either side until one ends; by one thread, since a TLS socket takes no two."""
    while True:
        waiting = (
            [near] if isinstance(near, ssl.SSLSocket) and near.pending() else select.select([near, far], [], [])[0]
        )
        for source in waiting:
            piece = source.recv(_PIECE)
            if not piece:
                return
            (far if source is near else near).sendall(piece)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def open_silence() -> Iterator[int]:
    """A port where connections are taken and nothing is ever answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def open_black_hole() -> Iterator[int]:
    """A port that answers not even to the first packet of a connection: its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(16):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.2)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                break
        else:
            raise AssertionError("the queue of this machine is never full")
        yield listener.getsockname()[1]
