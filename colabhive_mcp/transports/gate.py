"""How many requests may be at work: what may wait for the gateway never takes the last threads.

It counts, and refuses at once where a limit is met. It must not know what a request asks for, only which kind of work
it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import NamedTuple

RESERVE = 16  # threads that calls and streams leave free
SPARE = 2  # of those, what even lists leave to health and metrics
SOON = 1  # seconds after which a refused request may fit


class TurnedAway(Exception):
    """A request meets a limit: *reason* names it, *status* is HTTP's, *retry_after* in seconds."""

    def __init__(self, reason: str, status: int, message: str, retry_after: float = SOON) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after


class Work(NamedTuple):
    """A kind of work: *waits* says that it may take long, *halved* that half of the threads may do it at most.

    *first* gives it a quarter of the reserve, *reason* is what a limit of one key is called that it meets.
    """

    name: str
    waits: bool = False
    halved: bool = False
    first: bool = False
    reason: str = "tenant"


CALL = Work("calls", waits=True)
STREAM = Work("streams", waits=True, halved=True, reason="streams")
PROOF = Work("checks of keys", waits=True, halved=True, first=True)  # else calls could keep everybody new out
LIST = Work("lists")


class Gate:
    """Counts the requests on *threads* threads, for any number of them."""

    def __init__(self, threads: int) -> None:
        reserve = min(RESERVE, threads // 2)
        self.threads = threads
        self._most_waiting = {False: threads - reserve, True: threads - reserve + reserve // 4}  # by *first*
        self._most = threads - min(SPARE, reserve)
        self._lock = Lock()
        self._moved = Condition(self._lock)
        self._busy = self._served = 0
        self._held: Counter[Work] = Counter()
        self._shares: Counter[tuple[str, Work]] = Counter()

    @property
    def busy(self) -> int:
        """The requests that are being answered, streams included."""
        return self._busy

    @property
    def served(self) -> int:
        """The requests that have come so far."""
        return self._served

    @property
    def streams(self) -> int:
        """The streams that are open."""
        return self._held[STREAM]

    def enter(self) -> None:
        """One more request is being answered."""
        with self._lock:
            self._busy += 1
            self._served += 1
            self._moved.notify_all()

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self._busy -= 1
            if not self._busy:
                self._moved.notify_all()

    def await_idle(self, seconds: float) -> None:
        """Wait until no request is being answered, *seconds* at the longest."""
        with self._moved:
            self._moved.wait_for(lambda: not self._busy, seconds)

    def await_more(self, known: int, seconds: float) -> None:
        """Wait until more requests than *known* have come, *seconds* at the longest."""
        with self._moved:
            self._moved.wait_for(lambda: self._served != known, seconds)

    def take(self, work: Work, tenant: str, most: int) -> Callable[[], None]:
        """A place for *work* of *tenant*, who may have *most* of them; what is answered gives it back.

        Raises TurnedAway where there is none.
        """
        share = (tenant, work)
        with self._lock:
            self._check(work, share, most)
            self._held[work] += 1
            self._shares[share] += 1
        return lambda: self._give_back(work, share)

    @contextmanager
    def hold(self, work: Work, tenant: str, most: int) -> Iterator[None]:
        """A place for as long as the block runs. Raises TurnedAway as `take`."""
        give_back = self.take(work, tenant, most)
        try:
            yield
        finally:
            give_back()

    def _check(self, work: Work, share: tuple[str, Work], most: int) -> None:
        waiting = sum(count for held, count in self._held.items() if held.waits)
        full = self._held.total() >= self._most or (work.waits and waiting >= self._most_waiting[work.first])
        if full or (work.halved and self._held[work] >= self.threads // 2):
            raise TurnedAway("threads", 503, f"All places for {work.name} are taken: try again in a moment.")
        if self._shares[share] >= most:
            raise TurnedAway(work.reason, 429, f"This key has {most} {work.name} at work, which is all it may have.")

    def _give_back(self, work: Work, share: tuple[str, Work]) -> None:
        with self._lock:
            self._held[work] -= 1
            self._shares[share] -= 1
            if not self._shares[share]:
                del self._shares[share]
