"""A WSGI application on waitress, in a thread of its own: listens when it is made, stops in order.

Owns the port, the loop and what waitress says by itself. Knows no application, and prints nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import socket
import time
from collections.abc import Callable, Generator, Iterable
from threading import Event, Thread
from typing import Any

from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask, WSGITask
from waitress.wasyncore import close_all, loop

from colabhive_mcp.errors import INVALID_REQUEST, ConfigError

LOOP_SECONDS = 1.0
LAST_LOOK = 0.02  # seconds between two looks at whether all that was written has been sent
READ_ON_SECONDS = 5.0  # for which what a client still sends is read after it was refused
PIECE = 65_536  # bytes
MOST_FILES = 65_536
BACKLOG = 1024  # connections that nobody has taken yet
IDENT = "colabhive-mcp"


def _to_json(message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "error": {"code": INVALID_REQUEST, "message": message}}).encode()


_WORDS = {
    413: "send less; max_body_bytes is the setting for the most that is taken",
    431: "send shorter headers",
}
_MALFORMED = _to_json("Bad Request: a forwarded header is malformed.")


class _JsonErrorTask(ErrorTask):  # type: ignore[misc]
    """What waitress refuses by itself (too long, no HTTP), as an error that clients of JSON can show."""

    def execute(self) -> None:
        error = self.request.error
        self.status = f"{error.code} {error.reason}"
        body = _to_json(f"{error.reason}: {_WORDS.get(error.code, error.body)}")
        self.response_headers.append(("Content-Type", "application/json"))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.channel.refused = True
        self.write(body)


class _Task(WSGITask):  # type: ignore[misc]
    """An answer of a server that is closing ends its connection: who kept it asks somebody else from then on."""

    def build_response_header(self) -> bytes:
        if not self.channel.server.accepting:
            self.set_close_on_finish()
        header: bytes = super().build_response_header()
        return header


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection. One with a *refused* request is read for a while before it is closed.

    To close it with bytes unread would reset it, and a client that is still sending would not see the answer (RFC 9112,
    9.6).
    """

    task_class = _Task
    error_task_class = _JsonErrorTask
    refused = False
    _reads_until: float | None = None

    def handle_close(self) -> None:
        if self.refused and self.connected and self._reads_until is None:
            self._reads_until = time.monotonic() + READ_ON_SECONDS
            self.will_close = False
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
        else:
            super().handle_close()

    def handle_read(self) -> None:
        if self._reads_until is None:
            super().handle_read()
        elif time.monotonic() > self._reads_until:
            self.handle_close()
        else:
            with contextlib.suppress(OSError):
                self.recv(PIECE)  # the end of which closes


class Listener:
    """*app* on *host* and *port*, to be closed. Raises ConfigError where it cannot listen there.

    *name* is what is to listen, for the message. *limits* are waitress's own settings.
    """

    def __init__(self, app: Any, *, host: str, port: int, name: str, threads: int, connections: int, **limits: Any):
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a short queue is no news
        self._server = create_server(
            app,
            sockets=[_open_socket(host, port, name)],
            threads=threads,
            connection_limit=connections,
            asyncore_use_poll=True,
            ident=IDENT,
            **limits,
        )
        self._server.channel_class = _Channel
        if limits.get("trusted_proxy"):
            self._server.application = _say_in_json(self._server.application)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self._server.effective_port}"
        self._closing, self._closed = Event(), Event()
        self._thread = Thread(target=self._loop, name=name, daemon=True)

    @property
    def queue_depth(self) -> int:
        """The requests that wait for a thread."""
        return len(self._server.task_dispatcher.queue)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def wait(self) -> None:
        """Until it ends by itself, which it does not: what a signal raises gets out of here."""
        while self._thread.is_alive():
            self._thread.join(LOOP_SECONDS)

    def refuse_connections(self) -> None:
        """Give the port back; each of the connections that there are ends with its next answer."""
        self._closing.set()
        self._server.pull_trigger()

    def flush(self, timeout: float) -> None:
        """Wait until all that was written has been sent, *timeout* seconds at the longest."""
        end = time.monotonic() + timeout
        while self._has_unsent() and time.monotonic() < end:
            self._closed.wait(LAST_LOOK)

    def close(self) -> None:
        """End the threads and the loop, and close what is open."""
        self._server.task_dispatcher.shutdown()
        self._closed.set()
        self._server.pull_trigger()
        if self._thread.is_alive():
            self._thread.join()
        close_all(self._server._map, ignore_all=True)

    def _loop(self) -> None:
        """waitress's own `run` ends only by an exception, which a thread cannot be given."""
        while not self._closed.is_set():
            loop(timeout=LOOP_SECONDS, use_poll=True, map=self._server._map, count=1)
            if self._closing.is_set() and self._server.accepting:
                self._accept_waiting()
                self._server.accepting = False
                self._server.del_channel()
                self._server.socket.close()

    def _accept_waiting(self) -> None:
        """Take those who have connected already, whose connections would be reset, and their requests lost."""
        waiting = select.poll()
        waiting.register(self._server.socket, select.POLLIN)
        for _ in range(BACKLOG):
            if self._server.in_connection_overflow or not waiting.poll(0):
                break
            self._server.handle_accept()

    def _has_unsent(self) -> bool:
        return any(getattr(channel, "total_outbufs_len", 0) for channel in tuple(self._server._map.values()))


def _open_socket(host: str, port: int, name: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"The {name} cannot listen on {host}, port {port}: {error}.") from error


def _say_in_json(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """*app* with what waitress's check of forwarded headers refuses in JSON, as all else is."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        refused: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            if status.startswith("400") and dict(headers).get("Content-Type", "").startswith("text/plain"):
                refused.append(status)
                headers = [("Content-Type", "application/json"), ("Content-Length", str(len(_MALFORMED)))]
            return start_response(status, headers, exc_info)

        body = app(environ, start)
        return (_MALFORMED if refused else piece for piece in body) if isinstance(body, Generator) else body

    return answer


def raise_file_limit() -> int:
    """As many open files as this process may have, since a connection is one: the usual limit is far lower.

    Answers how many that are.
    """
    import resource  # noqa: PLC0415 - POSIX alone has it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft
