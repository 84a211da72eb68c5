"""The relay as a process of its own, and those who ask it over HTTP with a clock.

An answer that was not expected ends the measurement: a fast wrong answer is no figure.
"""

from __future__ import annotations

import http.client
import json
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from bench import gateway, tools
from bench.child import PATIENCE_SECONDS, Child, ChildError
from bench.session import REVISION, check_result, to_call
from bench.upstream import KEY, Upstream
from bench.wrk import Post

if TYPE_CHECKING:
    from bench.place import Place

PATH = "/mcp"
MODULE = ("-m", "colabhive_mcp")
_STOPS_SECONDS = 40.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Use:
    """What a relay holds: the connections that are open to it, and those that it keeps to the gateway."""

    megabytes: float
    threads: int
    clients: int
    kept: int


class Relay:
    """A running relay."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.port = port

    def read_use(self) -> Use:
        folder = Path(f"/proc/{self.child.process.pid}")
        threads = len(list((folder / "task").iterdir()))
        links = {_read_link(entry) for entry in (folder / "fd").iterdir()}
        rows = [line.split() for line in (folder / "net/tcp").read_text().splitlines()[1:]]
        ports = [int(row[1].rpartition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in links]
        listening = 1
        clients = ports.count(self.port) - listening
        return Use(self.child.read_memory() / 1e6, threads, clients, len(ports) - listening - clients)

    def stop(self) -> float:
        """Have it stop as an operator does; the seconds that it takes. It has to end well."""
        begun = time.perf_counter()
        self.child.process.send_signal(signal.SIGTERM)
        code = self.child.process.wait(_STOPS_SECONDS)
        if code:
            raise ChildError(f"the relay stopped with exit code {code}; {self.child.read_errors()}")
        return time.perf_counter() - begun

    def count_events(self, name: str) -> int:
        """How often it has told this event."""
        return self.child.read_errors(limit=1 << 26).count(f'"event": "{name}"')


@contextmanager
def open_relay(
    place: Place,
    upstream: Upstream,
    *,
    options: Sequence[str] = MODULE,
    pass_fds: tuple[int, ...] = (),
    **settings: object,
) -> Iterator[Relay]:
    """Run a relay on this gateway until the block ends."""
    given = {f"COLABHIVE_{name.upper()}": str(value) for name, value in settings.items()}
    variables = place.variables | {"COLABHIVE_API_URL": upstream.url, "COLABHIVE_PORT": "0"} | given
    with Child([place.python, *options, "serve"], env=variables, pass_fds=pass_fds) as child:
        received = child.receive()
        assert received
        relay = Relay(child, int(received[0].decode().rpartition(PATH)[0].rpartition(":")[2]))
        yield relay
        if child.process.poll() is None:
            relay.stop()


class Visitor:
    """One client on a kept-alive connection."""

    def __init__(self, port: int, key: str = KEY) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS * 2)
        self.connection.connect()
        self.key = key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a request and leave its answer for later."""
        post = build_post(method, params, key=self.key)
        self.connection.request("POST", post.path, post.body, dict(post.headers))

    def receive(self) -> tuple[int, dict[str, Any]]:
        """The answer to what was sent: its status, and the message in it."""
        response = self.connection.getresponse()
        return response.status, _decode(response, response.read())

    def ask(self, method: str, params: Mapping[str, Any] | None = None, *, status: int = 200) -> float:
        """Send a request that is to be answered with this status; the seconds until it was."""
        begun = time.perf_counter()
        self.send(method, params)
        response = self.connection.getresponse()
        body = response.read()
        taken = time.perf_counter() - begun
        if response.status != status:
            raise ChildError(f"{method} was answered by {response.status}: {body[:300]!r}")
        return taken

    def get(self, path: str) -> float:
        """Look at a page; the seconds that it took."""
        begun = time.perf_counter()
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        response.read()
        if response.status != 200:
            raise ChildError(f"{path} was answered by {response.status}")
        return time.perf_counter() - begun


class Volley:
    """Calls that are sent at the same moment, over connections that are open already."""

    def __init__(self, visitors: Sequence[Visitor]) -> None:
        self._visitors = visitors
        self._began = 0.0

    def send(self, name: str) -> None:
        self._began = time.perf_counter()
        for visitor in self._visitors:
            visitor.send("tools/call", to_call(name))

    def receive(self) -> float:
        """Take the answers, which have to be results; seconds from the first call to the last answer."""
        for visitor in await_answers(self._visitors, [visitor.connection for visitor in self._visitors]):
            status, message = visitor.receive()
            if status != 200:
                raise ChildError(f"a call was answered by {status}: {json.dumps(message)[:300]}")
            check_result(message)
        return time.perf_counter() - self._began


def await_answers(owners: Sequence[T], connections: Sequence[http.client.HTTPConnection]) -> Iterator[T]:
    """Each owner of a connection as soon as there is something to read on it."""
    poll = select.poll()
    by_number = {connection.sock.fileno(): owner for owner, connection in zip(owners, connections, strict=True)}
    for number in by_number:
        poll.register(number, select.POLLIN)
    while by_number:
        ready = poll.poll(PATIENCE_SECONDS * 2000)
        if not ready:
            raise ChildError(f"{len(by_number)} answers are missing")
        for number, _ in ready:
            poll.unregister(number)
            yield by_number.pop(number)


def build_post(method: str, params: Mapping[str, Any] | None = None, *, key: str = KEY) -> Post:
    """A request as clients send it."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method} | ({} if params is None else {"params": params})
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISION,
    }
    return Post(PATH, headers, tools.encode(message))


def to_keys(count: int) -> list[str]:
    """The keys of so many tenants, whose tools differ a little."""
    return [f"{gateway.TENANT}{number:03d}" for number in range(count)]


def open_visitors(port: int, keys: Iterable[str]) -> list[Visitor]:
    """A client for each key; those who have listed are known to the relay."""
    return [Visitor(port, key) for key in keys]


def _decode(response: http.client.HTTPResponse, body: bytes) -> dict[str, Any]:
    """The message of an answer, the last one where it is a stream."""
    if response.headers["Content-Type"] == "text/event-stream":
        body = next(line[6:] for line in reversed(body.split(b"\n")) if line.startswith(b"data: "))
    message: dict[str, Any] = json.loads(body)
    return message


def _read_link(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:
        return ""
