"""An address that answers scrapes and nothing else, so that metrics are seen by whom they are meant for.

It owns its socket and its threads: it answers while every thread of the relay is busy. It knows of metrics only how a
scrape is rendered.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, cast

PATH = "/metrics"
PATIENCE = 10.0  # seconds that a silent client may keep a thread
LOOK = 0.1  # seconds between two looks at whether to end

Render = Callable[[str], tuple[bytes, str]]
"""A request's ``Accept`` header → body and content type."""


class ScrapeServer:
    """Answers scrapes at ``http://HOST:PORT/metrics`` until it is closed; port 0 takes a free one.

    Raises OSError where the address cannot be used.
    """

    def __init__(self, render: Render, host: str, port: int) -> None:
        self._server = _Server(render, host, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(LOOK,), name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Listen no more. Scrapes in progress are finished by their own threads."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    """A thread for each scrape. HTTPServer would ask the resolver for the name of its address before it starts."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, render: Render, host: str, port: int) -> None:
        self.render = render
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, *_, address = found[0]
        super().__init__(cast("tuple[str, int]", address), _Scrape)  # two more numbers where it is IPv6

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no fault; the default writes a traceback for it."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Scrape(BaseHTTPRequestHandler):
    """One request and its answer."""

    server: _Server
    timeout = PATIENCE
    error_content_type = "text/plain"
    error_message_format = "%(code)d %(message)s\n"

    def do_GET(self) -> None:
        """The metrics, or 404 where another path is asked for."""
        if self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND, f"Metrics are at {PATH}")
            return
        body, content_type = self.server.render(self.headers.get("Accept", ""))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name is http.server's

    def version_string(self) -> str:
        """Without the versions of Python and its library, which are nobody's business."""
        return "colabhive-mcp"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Scrapes are no events."""
