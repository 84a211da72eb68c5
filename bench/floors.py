"""The floors: what this machine needs for the part of each figure that no bridge could save, measured beside it."""

from __future__ import annotations

import http.client
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from threading import Barrier, Thread
from typing import TYPE_CHECKING

from bench import tools, upstream
from bench.child import Child
from bench.gateway import STATE

if TYPE_CHECKING:
    from bench.place import Place
    from bench.upstream import Upstream

_WRITER = """
import os, sys
data = memoryview(b"x" * (int(sys.argv[1]) - 1) + b"\\n")
while sys.stdin.buffer.readline():
    rest = data
    while rest:
        rest = rest[os.write(1, rest):]
"""


def measure_start(place: Place) -> float:
    """Seconds that `python -c pass` takes from its spawn to its end."""
    begun = time.perf_counter()
    subprocess.run([place.python, "-c", "pass"], env=place.variables, stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


@contextmanager
def open_writer(place: Place, *, size: int) -> Iterator[Child]:
    """A child that answers each line with one line of this many bytes and does nothing else."""
    with Child([place.python, "-c", _WRITER, str(size)], env=place.variables) as child:
        yield child


def measure_post(connection: http.client.HTTPConnection, name: str) -> float:
    """Seconds of one invocation with `http.client` on a kept-alive connection."""
    begun = time.perf_counter()
    upstream.post(connection, name)
    return time.perf_counter() - begun


def measure_posts_at_once(gateway: Upstream, name: str, *, count: int) -> float:
    """Seconds until this many invocations at once are answered, each on a connection and a thread of its own."""
    with ExitStack() as stack:
        start = Barrier(count + 1)
        connections = [stack.enter_context(closing(gateway.connect())) for _ in range(count)]
        threads = [Thread(target=_post_after, args=(start, connection, name)) for connection in connections]
        for thread in threads:
            thread.start()
        start.wait()
        begun = time.perf_counter()
        for thread in threads:
            thread.join()
        return time.perf_counter() - begun


def measure_job(connection: http.client.HTTPConnection, name: str) -> float:
    """Seconds of a queued invocation whose result is asked for at the moment when it is ready."""
    begun = time.perf_counter()
    upstream.post(connection, name)
    time.sleep(tools.READY_SECONDS)
    upstream.exchange(connection, "GET", STATE)
    return time.perf_counter() - begun


def measure_memory(place: Place) -> int:
    """Bytes resident in an interpreter that only waits for a line."""
    with open_writer(place, size=2) as child:
        child.exchange(b"\n")
        return child.read_memory()


def _post_after(start: Barrier, connection: http.client.HTTPConnection, name: str) -> None:
    start.wait()
    upstream.post(connection, name)
