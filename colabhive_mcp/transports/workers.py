"""Daemon threads that run tasks in the order in which they came, a fixed number at a time."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread

Task = Callable[[], None]


class Lane:
    """At most *limit* threads, made when they are needed.

    A task that nobody waits for any more but that can't be interrupted is *abandoned*: it no longer counts, so that the
    tasks behind it are not held up. At most *limit* tasks are abandoned at a time.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._tasks: SimpleQueue[Task] = SimpleQueue()
        self._lock = Lock()
        self._threads = 0
        self._spare = 0  # idle threads less the tasks that wait for one
        self._abandoned: set[Task] = set()
        self._running: set[Task] = set()

    def submit(self, task: Task) -> None:
        """Run *task* as soon as a thread is free. A task takes care of its own errors."""
        with self._lock:
            self._spare -= 1
            try:
                self._grow()
            except RuntimeError:  # no thread can be started; the task waits for one of those that there are
                if not self._threads:
                    self._spare += 1
                    raise
        self._tasks.put(task)

    def abandon(self, task: Task) -> None:
        """Stop counting *task*, where it runs."""
        with self._lock:
            if task in self._running and len(self._abandoned) < self._limit:
                self._abandoned.add(task)
                self._grow()

    def _grow(self) -> None:
        """One more thread, where a task waits and the limit allows it; one that could not be started does not count."""
        if self._spare < 0 and self._threads - len(self._abandoned) < self._limit:
            Thread(target=self._run, name=f"{self._name}-{self._threads + 1}", daemon=True).start()
            self._threads += 1
            self._spare += 1

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            task = self._tasks.get()
            with self._lock:
                self._running.add(task)
            task()
            goes_on = self._finish(task)
            del task  # and what it holds, which may be megabytes, while this thread waits for another

    def _finish(self, task: Task) -> bool:
        """Whether this thread goes on; it is one too many where abandoned tasks came to their end."""
        with self._lock:
            self._running.discard(task)
            self._abandoned.discard(task)
            goes_on = self._threads - len(self._abandoned) <= self._limit
            if goes_on:
                self._spare += 1
            else:
                self._threads -= 1
            return goes_on
