"""The connection that a request came on, as far as a WSGI application of waitress can reach it.

Owns the ways to answer badly that WSGI has no words for. Must not know why an answer is to be bad.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Never
from wsgiref.types import StartResponse, WSGIEnvironment

from colabhive_mcp.localgateway.wire import Response

MAX_DRIP_S = 60.0
NO_LINGER = struct.pack("ii", 1, 0)  # closing a socket with this sends a reset


class Connection:
    """One request's connection and its ``start_response``."""

    def __init__(self, environ: WSGIEnvironment, start_response: StartResponse) -> None:
        self._environ = environ
        self.start_response = start_response

    def reset(self) -> Never:
        """Break the connection off with a reset; not a byte is sent."""
        with contextlib.suppress(AttributeError, OSError):  # the server's loop has closed it already
            self._channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self._leave(self.start_response("200 OK", [("Content-Length", "1")]))

    def truncate(self, response: Response, size: int) -> Never:
        """Announce the whole body, send *size* bytes of it and close the connection."""
        write = self._announce(response)
        write(response.body[:size])
        self._leave(write)

    def drip(self, response: Response, seconds: float, released: threading.Event) -> Iterator[bytes]:
        """Send the body a byte at a time, *seconds* apart, the rest at once after ``MAX_DRIP_S``."""
        self._announce(response)
        end = time.monotonic() + MAX_DRIP_S
        for place in range(len(response.body)):
            if released.wait(seconds) or time.monotonic() > end:
                yield response.body[place:]
                return
            yield response.body[place : place + 1]

    @property
    def _channel(self) -> Any:
        return self._environ["waitress.client_disconnected"].__self__

    def _announce(self, response: Response) -> Callable[[bytes], object]:
        size = str(len(response.body))
        return self.start_response(response.line, [*response.headers.items(), ("Content-Length", size)])

    def _leave(self, write: Callable[[bytes], object]) -> Never:
        """Have the server's loop close the connection once what was written is flushed.

        A channel that is not connected refuses the next write with an exception that ends the request without a word
        in the log.
        """
        channel = self._channel
        channel.close_when_flushed = True
        channel.connected = False
        channel.server.pull_trigger()
        write(b"-")
        raise AssertionError("a channel that is not connected takes no output")
