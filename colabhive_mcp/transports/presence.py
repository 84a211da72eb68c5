"""Whether the client of an HTTP request is still there: the wait of its call, and the way in which it ends.

It is the protocol's Cancel. It must not know the server: that a connection is gone is asked of a callable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Event, Lock

LOOK = 0.5  # seconds between two looks at the connection


class Presence:
    """Set once the client has gone, or has taken its request back.

    *is_gone* asks the connection.
    """

    def __init__(self, is_gone: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_gone = is_gone
        self._clock = clock
        self._ended = Event()

    def set(self) -> None:
        """Nobody wants the answer any more."""
        self._ended.set()

    def is_set(self) -> bool:
        """Whether nobody waits for the answer."""
        return self._ended.is_set() or self._is_gone()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep *timeout* seconds, or until nobody waits; answers whether that is so."""
        end = None if timeout is None else self._clock() + timeout
        while not self.is_set():
            left = LOOK if end is None else min(LOOK, end - self._clock())
            if left <= 0:
                return False
            self._ended.wait(left)
        return True


class Roll:
    """The requests that are being answered, so that they can be taken back: one by its client, or all of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._present: list[tuple[Hashable, Presence]] = []

    @contextmanager
    def enter(self, place: Hashable, presence: Presence) -> Iterator[None]:
        """Keep *presence* under *place* while the block runs."""
        entry = (place, presence)
        with self._lock:
            self._present.append(entry)
        try:
            yield
        finally:
            with self._lock:
                self._present.remove(entry)

    def recall(self, place: Hashable) -> None:
        """Take back the request at *place*. Where there are several nobody knows which one is meant."""
        with self._lock:
            found = [presence for known, presence in self._present if known == place]
        if len(found) == 1:
            found[0].set()

    def recall_all(self) -> None:
        """Take back every request."""
        with self._lock:
            found = [presence for _, presence in self._present]
        for presence in found:
            presence.set()
