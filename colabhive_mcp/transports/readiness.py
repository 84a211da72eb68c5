"""Whether the gateway can be reached, asked seldom however often it is asked here."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

KEPT_SECONDS = 5.0


class Readiness:
    """Asks *probe*, which answers a fault or None, at most once in some seconds, for one who asks here at a time."""

    def __init__(self, probe: Callable[[], str | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._lock = Lock()
        self._asked = float("-inf")
        self._fault: str | None = "the gateway has not answered yet"

    def find_fault(self) -> str | None:
        """Why the gateway cannot be reached; None where it can. Nobody waits for what another one is about to find."""
        if self._clock() - self._asked >= KEPT_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._fault = self._probe()
                self._asked = self._clock()
            finally:
                self._lock.release()
        return self._fault
