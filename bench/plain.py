"""The relay's floors: bare WSGI applications on the server that it runs on, each a process of its own.

`python -m bench.plain constant BYTES` answers every request with as many bytes; `python -m bench.plain forward URL`
sends the body of each on with a `requests` session, and answers what comes back. It prints its port as one JSON line,
and goes when its standard input closes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.child import Child
from bench.wrk import CONNECTIONS

if TYPE_CHECKING:
    from bench.place import Place

App = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Plain(NamedTuple):
    """One of them, running."""

    child: Child
    port: int


@contextmanager
def open_plain(place: Place, kind: str, argument: str) -> Iterator[Plain]:
    """Run one of them until the block ends."""
    with Child([place.python, "-m", "bench.plain", kind, argument], env=place.variables) as child:
        received = child.receive()
        assert received
        yield Plain(child, json.loads(received[0])["port"])


def build_constant(argument: str) -> App:
    """Answers with so many bytes."""
    return lambda environ, start: _answer(environ, start, b"x" * int(argument))


def build_forward(argument: str) -> App:
    """Sends what comes on to a URL."""
    import requests  # noqa: PLC0415 - for one of the two alone
    from requests.adapters import HTTPAdapter  # noqa: PLC0415

    session = requests.Session()
    session.mount("http://", HTTPAdapter(pool_maxsize=CONNECTIONS))
    headers = {"X-API-Key": "hive_bench_0123456789", "Content-Type": "application/json"}

    def forward(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        return _answer(environ, start, session.post(argument, data=body, headers=headers).content)

    return forward


def _answer(environ: dict[str, Any], start: Any, body: bytes) -> Iterable[bytes]:
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


APPS: dict[str, Callable[[str], App]] = {"constant": build_constant, "forward": build_forward}


def run(kind: str, argument: str) -> None:
    from waitress.server import create_server  # noqa: PLC0415 - not for who only starts this as a process

    server = create_server(APPS[kind](argument), host="127.0.0.1", port=0, threads=CONNECTIONS, asyncore_use_poll=True)
    threading.Thread(target=server.run, daemon=True).start()
    print(json.dumps({"port": server.effective_port}), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    run(*sys.argv[1:])
