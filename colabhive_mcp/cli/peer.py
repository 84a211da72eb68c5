"""A small MCP client over the pipes of a child process: the other side of the stdio server, for the demo.

Knows JSON lines and nothing of what the server offers. It shares no code with the server's own side of the protocol, so
that it sees what any client sees.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

Message = dict[str, Any]
Listener = Callable[[Message], None]
LIMIT_S = 20.0


class PeerError(Exception):
    """The server said something else than it had to, or nothing."""


class Peer:
    """One session with the server that *command* starts; use it as a context manager, which ends it.

    *seen* is every message so far. Raises `PeerError` where an answer doesn't come within `LIMIT_S`.
    """

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ids = itertools.count(1)
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.seen: list[Message] = []
        self._child = subprocess.Popen(  # noqa: S603 - the command is this program's own
            command, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._reader = threading.Thread(target=self._read, name="peer", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        self._reader.join()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                _close(pipe)

    def request(self, method: str, params: Message | None = None, *, listener: Listener | None = None) -> Message:
        """Send a request and answer its response, whole; *listener* gets each notification before it."""
        return self.wait_for(self.send(method, params), listener=listener)

    def send(self, method: str, params: Message | None = None) -> int:
        """Send a request without waiting; answers its id."""
        number = next(self._ids)
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        return number

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def wait_for(self, number: int, *, listener: Listener | None = None) -> Message:
        """The response with id *number*."""
        deadline = self._clock() + LIMIT_S
        while True:
            message = self._next(deadline)
            if message.get("id") == number and "method" not in message:
                return message
            if listener is not None and "method" in message:
                listener(message)

    def listen(self, listener: Listener, *, until: Callable[[Message], bool]) -> None:
        """Give each message to *listener*, up to and with the first of which *until* is true."""
        deadline = self._clock() + LIMIT_S
        while True:
            message = self._next(deadline)
            listener(message)
            if until(message):
                return

    def close(self) -> tuple[int, float]:
        """End the server's input; answers its exit code and the seconds that it took to leave."""
        started = time.perf_counter()
        assert self._child.stdin is not None
        _close(self._child.stdin)
        try:
            code = self._child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise PeerError("the server does not end") from None
        seconds = time.perf_counter() - started
        self.seen.extend(iter(self._messages.get, None))
        return code, seconds

    def _next(self, deadline: float) -> Message:
        try:
            message = self._messages.get(timeout=max(0.0, deadline - self._clock()))
        except queue.Empty:
            raise PeerError(f"no answer within {LIMIT_S:g} s") from None
        if message is None:
            raise PeerError("the server has ended")
        self.seen.append(message)
        return message

    def _write(self, message: Message) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
            self._child.stdin.flush()
        except OSError as error:
            raise PeerError("the server no longer reads") from error

    def _read(self) -> None:
        assert self._child.stdout is not None
        with contextlib.suppress(ValueError):  # what is no JSON ends the session
            for line in self._child.stdout:
                self._messages.put(json.loads(line))
        self._messages.put(None)


def _close(pipe: Any) -> None:
    with contextlib.suppress(OSError):
        pipe.close()
