"""Daemon threads that run tasks in the order in which they came, a fixed number at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

Task = Callable[[], None]


class Lane:
    """At most *limit* threads, made when they are needed.

    A task that nobody waits for any more but that can't be interrupted is *abandoned*: it no longer counts, so that the
    tasks behind it are not held up. At most *limit* tasks are abandoned at a time.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._tasks: deque[Task] = deque()
        self._ready = Condition()
        self._threads = 0
        self._idle = 0
        self._abandoned: set[Task] = set()
        self._running: set[Task] = set()

    def submit(self, task: Task) -> None:
        """Run *task* as soon as a thread is free. A task takes care of its own errors."""
        with self._ready:
            self._tasks.append(task)
            self._wake()

    def abandon(self, task: Task) -> None:
        """Stop counting *task*, where it runs."""
        with self._ready:
            if task in self._running and len(self._abandoned) < self._limit:
                self._abandoned.add(task)
                self._wake()

    def _wake(self) -> None:
        if len(self._tasks) > self._idle and self._threads - len(self._abandoned) < self._limit:
            self._threads += 1
            Thread(target=self._run, name=f"{self._name}-{self._threads}", daemon=True).start()
        else:
            self._ready.notify()

    def _run(self) -> None:
        while (task := self._take()) is not None:
            task()
            with self._ready:
                self._running.discard(task)
                self._abandoned.discard(task)
            del task  # and what it holds, which may be megabytes, while this thread waits for another

    def _take(self) -> Task | None:
        """The next task; None where this thread is one too many, since abandoned tasks came to their end."""
        with self._ready:
            if self._threads - len(self._abandoned) > self._limit:
                self._threads -= 1
                return None
            self._idle += 1
            self._ready.wait_for(lambda: self._tasks)
            self._idle -= 1
            task = self._tasks.popleft()
            self._running.add(task)
            return task
