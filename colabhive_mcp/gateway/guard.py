"""Ends the exchanges that nobody waits for any more, so that a cancelled call frees its thread.

A thread that reads an answer sees nothing but its socket; one thread for all looks at the calls behind them. It knows
sockets and cancel tokens, and not what is asked.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Thread, local
from typing import Any

from urllib3 import HTTPConnectionPool

from colabhive_mcp.gateway.retries import Cancel

LOOK = 0.25  # seconds between two looks at the calls
QUIET = 40  # looks without a call after which it waits for one


class _Watch:
    """One exchange: whose it is, and the connection that it is on, once there is one."""

    __slots__ = ("cancel", "connection")

    def __init__(self, cancel: Cancel) -> None:
        self.cancel = cancel
        self.connection: Any = None

    def end(self) -> None:
        """Have a read of the connection end at once; whoever reads finds it broken, and keeps it for nothing else."""
        held = self.connection.sock if self.connection is not None else None
        if held is not None and self.connection.watch is self:  # an answer read to its end lets another have it
            with suppress(OSError):
                socket.socket.shutdown(held, socket.SHUT_RDWR)  # TLS's own would wait for the other side


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
            self._current.watch = None

    def note(self, connection: Any) -> None:
        """The exchange of this thread is on *connection*."""
        watch = getattr(self._current, "watch", None)
        if watch is not None:
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


def guard_pool(pool: HTTPConnectionPool) -> None:
    """Have every connection of *pool* be known to the guard while it is used."""
    plain: Any = pool.ConnectionCls

    class Guarded(plain):  # type: ignore[misc]
        """A connection that says which exchange it is used for."""

        def request(self, *args: Any, **options: Any) -> None:
            """As urllib3's own."""
            GUARD.note(self)
            super().request(*args, **options)

    pool.ConnectionCls = Guarded
