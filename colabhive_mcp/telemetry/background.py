"""Events handed on by a thread of their own: who does the work does not wait until a line is written.

It knows a sink and no form of a line. What comes while the queue is full is dropped, and told of later.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Thread

from colabhive_mcp.telemetry.events import Event, Record, Warned

MOST = 10_000  # events that may wait
AT_ONCE = 200  # events that are handed on together
END_SECONDS = 2.0  # that those that wait are given at the end


class Background:
    """A sink that hands each event to *sink*, in order. Close it, so that what waits is written.

    *together* is entered while those are handed on that came meanwhile. Who works holds the processor, so a thread that
    gave it up with each line would fall behind.
    """

    def __init__(self, sink: Record, *, together: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._sink = sink
        self._together = together
        self._waiting: SimpleQueue[Event | None] = SimpleQueue()
        self._dropped = 0
        self._thread = Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Take *event*, without waiting for anything."""
        if self._waiting.qsize() < MOST:
            self._waiting.put(event)
        else:
            self._dropped += 1

    def close(self) -> None:
        """Have what waits written, for as long as that is given."""
        self._waiting.put(None)
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            events = [self._waiting.get()]
            while len(events) < AT_ONCE and not self._waiting.empty():
                events.append(self._waiting.get())
            goes_on = None not in events
            with self._together():
                for event in filter(None, events):
                    self._sink(event)
            if not goes_on or self._waiting.empty():
                self._tell_dropped()

    def _tell_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._sink(Warned(f"{dropped} events were not logged: they came faster than they could be written"))
