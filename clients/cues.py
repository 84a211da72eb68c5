"""What a driver may have happen around it: `POST` to one of these paths, answered with a word when it has happened.

Knows no scenario: the stage says what happens at which path. Drivers are written in two languages, and both speak HTTP.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Cues = Mapping[str, Callable[[], str]]


@contextmanager
def open_cues(cues: Cues) -> Iterator[str]:
    """Take cues for as long as the block runs: the address that the paths are added to."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                status, word = 200, cues[self.path]()
            except Exception as error:
                status, word = 500, f"{self.path}: {error!r}"
            body = word.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Nothing: the driver reports what goes wrong."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
