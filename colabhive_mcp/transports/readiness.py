"""Whether the gateway can be reached, asked seldom however often it is asked here."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

KEPT_SECONDS = 5.0


class Readiness:
    """Asks *probe*, which answers a fault or None, at most once in some seconds."""

    def __init__(self, probe: Callable[[], str | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._lock = Lock()
        self._asked = float("-inf")
        self._fault: str | None = None

    def find_fault(self) -> str | None:
        """Why the gateway cannot be reached; None where it can. Others are answered by what the first one finds."""
        with self._lock:
            if self._clock() - self._asked >= KEPT_SECONDS:
                self._fault = self._probe()
                self._asked = self._clock()
            return self._fault
