"""An MCP client over the bridge's pipes, with a clock.

It sends requests, leaves notifications aside, and gives each answer with its time and its size. An error that was not
expected ends the measurement: a fast wrong answer is no figure.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench import tools
from bench.child import Child, ChildError
from bench.upstream import KEY, Upstream

if TYPE_CHECKING:
    from bench.place import Place

REVISION = "2025-11-25"
_COMMAND = ("-m", "colabhive_mcp")
_HELLO = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request: the decoded message, seconds since the request, bytes of the line."""

    message: dict[str, Any]
    seconds: float
    line: bytes


class Session:
    """One conversation with one bridge."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._last_id = 0
        self._sent = 0.0
        self.arrived = 0.0
        """The clock at the last byte of the newest message."""

    def initialize(self) -> float:
        """Shake hands; seconds from the spawn to the answer. The notice that follows is sent apart, by `confirm`."""
        self.request("initialize", _HELLO)
        return self.seconds_since_spawn()

    def confirm(self) -> None:
        self.child.send(encode_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def get_ready(self, name: str) -> None:
        """Shake hands, list, and call this tool once: imports are done then, and a connection is open."""
        self.initialize()
        self.confirm()
        self.list_tools()
        self.call(name)

    def list_tools(self) -> Answer:
        answer = self.request("tools/list")
        if not answer.message["result"]["tools"]:
            raise ChildError(f"it lists no tools; {self.child.read_errors()}")
        return answer

    def seconds_since_spawn(self) -> float:
        """Seconds from the spawn to the newest message."""
        return self.arrived - self.child.started

    def call(self, name: str) -> Answer:
        """Call a tool of the gateway's, which has to succeed."""
        answer = self.request("tools/call", to_call(name))
        check_result(answer.message)
        return answer

    def request(self, method: str, params: dict[str, Any] | None = None, *, expect: str = "result") -> Answer:
        """Send a request and wait for its answer, which has to be a result (or an error, when that is expected)."""
        identifier = self.begin(method, params)
        while True:
            message, line = self.read()
            if message.get("id") == identifier:
                break
        if expect not in message:
            raise ChildError(f"{method} was answered by {line[:200]!r}; {self.child.read_errors()}")
        return Answer(message=message, seconds=self.arrived - self._sent, line=line)

    def begin(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; its identifier."""
        identifier, line = self.prepare(method, params)
        self._sent = time.perf_counter()
        self.child.send(line)
        return identifier

    def prepare(self, method: str, params: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """Make a request without sending it; its identifier and its line."""
        self._last_id += 1
        fields = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        return self._last_id, encode_line(fields | ({} if params is None else {"params": params}))

    def read(self) -> tuple[dict[str, Any], bytes]:
        """The next message, whatever it is, and its line."""
        read = self.read_until(None)
        assert read
        return read

    def read_until(self, moment: float | None) -> tuple[dict[str, Any], bytes] | None:
        """The next message, or None when this moment of the clock comes first."""
        if (received := self.child.receive(until=moment)) is None:
            return None
        line, self.arrived = received
        return json.loads(line), line


@contextmanager
def open_session(
    place: Place, upstream: Upstream, *, options: Iterable[str] = _COMMAND, pass_fds: tuple[int, ...] = ()
) -> Iterator[Session]:
    """Spawn a bridge on this gateway; it is stopped, and has to stop cleanly, when the block ends."""
    variables = place.variables | {"COLABHIVE_API_URL": upstream.url, "COLABHIVE_API_KEY": KEY}
    child = Child([place.python, *options], env=variables, pass_fds=pass_fds)
    try:
        yield Session(child)
    finally:
        told = child.read_errors()
        code = child.close()
    if code:
        raise ChildError(f"it stopped with exit code {code}; {told}")


def to_call(name: str) -> dict[str, Any]:
    """The parameters that call this tool."""
    return {"name": name, "arguments": tools.ARGUMENTS}


def check_result(message: dict[str, Any]) -> None:
    if message.get("result", {"isError": True}).get("isError"):
        raise ChildError(f"a call was answered by {json.dumps(message)[:500]}")


def encode_line(message: dict[str, Any]) -> bytes:
    return tools.encode(message) + b"\n"
