"""Ends the exchanges that nobody waits for any more, so that a cancelled call frees its thread.

A thread that reads an answer sees nothing but its socket; one thread for all looks at the calls behind them. It knows
sockets and cancel tokens, and not what is asked. A connection that is still being made has no socket to end: the
connect time-out bounds it, and what was cancelled meanwhile is then not sent.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Condition, Thread, local
from typing import Any

from urllib3 import HTTPConnectionPool

from colabhive_mcp.errors import Cancelled
from colabhive_mcp.gateway.retries import Cancel

LOOK = 0.25  # seconds between two looks at the calls
QUIET = 40  # looks without a call after which it waits for one


class _Watch:
    """One exchange: whose it is, the connection that it is on, once there is one, and the socket that is read."""

    __slots__ = ("cancel", "connection", "sock")

    def __init__(self, cancel: Cancel) -> None:
        self.cancel = cancel
        self.connection: Any = None
        self.sock: Any = None

    def end(self) -> None:
        """Have a read of the connection end at once; whoever reads finds it broken, and keeps it for nothing else."""
        if self.connection is None or self.connection.watch is not self:  # an answer read to its end frees it
            return
        held = self.connection.sock if self.sock is None else self.sock
        with suppress(OSError):
            if held is not None:  # TLS's own shutdown would wait for the other side; TLS within TLS is no socket
                socket.socket.shutdown(getattr(held, "socket", held), socket.SHUT_RDWR)

    def leave(self) -> None:
        """Have a connection that is kept remember nothing of the exchange."""
        if self.connection is not None and self.connection.watch is self:
            self.connection.watch = None


class Guard:
    """Looks after the exchanges of this process, on one thread that is there while there are any."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._watches: set[_Watch] = set()
        self._current = local()
        self._thread: Thread | None = None
        self._asleep = False

    @contextmanager
    def watch(self, cancel: Cancel) -> Iterator[None]:
        """End the exchange that runs in the block where *cancel* is set meanwhile."""
        watch = self._current.watch = _Watch(cancel)
        with self._changed:
            self._watches.add(watch)
            if self._asleep:
                self._changed.notify()
            elif self._thread is None:
                self._thread = Thread(target=self._run, name="guard", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._watches.discard(watch)
                watch.leave()
            self._current.watch = None

    def note(self, connection: Any) -> None:
        """The exchange of this thread goes on over *connection*. Raises Cancelled where nobody waits for it."""
        watch = getattr(self._current, "watch", None)
        if watch is None:
            return
        if watch.cancel.is_set():
            raise Cancelled("The call was cancelled before it was sent.")
        with self._changed:
            watch.connection, connection.watch = connection, watch

    def _run(self) -> None:
        quiet = 0
        while True:
            with self._changed:
                self._asleep = quiet >= QUIET
                self._changed.wait_for(lambda: self._watches and self._asleep, None if self._asleep else LOOK)
                self._asleep = False
                for watch in self._watches:  # under the lock: none of them ends, and gives its connection to another
                    if watch.cancel.is_set():
                        watch.end()
                quiet = 0 if self._watches else quiet + 1


GUARD = Guard()


class _Guarded:
    """What makes a connection say which exchange it is used for."""

    watch: _Watch | None = None

    def connect(self: Any) -> None:
        """As urllib3's own."""
        GUARD.note(self)
        super().connect()  # type: ignore[misc]

    def request(self: Any, *args: Any, **options: Any) -> None:
        """As urllib3's own."""
        GUARD.note(self)
        super().request(*args, **options)  # type: ignore[misc]

    def getresponse(self: Any) -> Any:
        """As urllib3's own, which forgets the socket where the answer is the last one on it."""
        if self.watch is not None:
            self.watch.sock = self.sock
        return super().getresponse()  # type: ignore[misc]


def guard_pool(pool: HTTPConnectionPool) -> None:
    """Have every connection of *pool* be known to the guard while it is used. It may be said more than once."""
    if not issubclass(pool.ConnectionCls, _Guarded):
        pool.ConnectionCls = _build_kind(pool.ConnectionCls)


@cache
def _build_kind(kind: type[Any]) -> type[Any]:
    """*kind* of connection, guarded."""
    return type(f"Guarded{kind.__name__}", (_Guarded, kind), {})
