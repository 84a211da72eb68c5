"""How often one key may ask: a window that slides, counted here or in a Redis that several relays share.

It is `limits`'s sliding window counter: a request counts in full in its own window, and in the next one by the part of
it that is still to come. Two numbers a key do, whatever the limit is, the wait can be computed, and no burst around the
change of windows gets twice the limit through at once. The moving window, which is exact, keeps a time for every
request, and in a Redis these times are those of the relays' own clocks.

It must not know who asks: a key is 64 hex digits to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from colabhive_mcp.errors import ConfigError
from colabhive_mcp.telemetry.events import Record, Warned

if TYPE_CHECKING:
    from limits.storage.redis import RedisStorage

SPANS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
PATIENCE = 0.25  # seconds that a request waits for the Redis at the longest
SOCKET_TIMEOUT = 0.2  # after which a thread gives a Redis up
LEFT_ALONE = 5.0  # seconds for which a Redis that failed is not asked
TOLD_EVERY = 60.0  # seconds between two warnings
TICK = 0.001  # seconds by which a window is told apart from its end
ASKING = 8  # threads that wait for the Redis: an answer takes about a millisecond
PREFIX = "colabhive-mcp"
SCHEMES = ("redis://", "rediss://", "unix://", "redis+unix://")
INSTALL = "rate_limit_storage needs a package that is not installed: pip install 'colabhive-mcp[redis]'"
WRONG_URL = (
    "rate_limit_storage must be the URL of a Redis, such as 'redis://127.0.0.1:6379/0', with special characters of "
    "its password percent-encoded (not shown)."
)
_FAULTS = {  # by the name of the error, whose own words may repeat a part of the URL
    "AuthenticationError": "refuses the user or the password",
    "NoPermissionError": "refuses the user or the password",
    "ConnectionError": "cannot be reached",
    "TimeoutError": "does not answer in time",
}


class Window(NamedTuple):
    """What a key has asked, as `limits` counts it.

    *previous* requests count by the share that *previous_left* is of a window, *current* ones in full. Seconds;
    *current_left* is until they count no more, which is a window after the next one has begun.
    """

    previous: int
    previous_left: float
    current: int
    current_left: float


class Rate(NamedTuple):
    """So many requests in so many seconds."""

    limit: int
    seconds: int

    def fits(self, window: Window, cost: int) -> bool:
        """Whether *cost* more requests may be made."""
        weighed = int(window.previous * window.previous_left / self.seconds)
        return weighed + window.current + cost <= self.limit

    def find_wait(self, window: Window, cost: int) -> float:
        """Seconds until they may, if nobody asks meanwhile; a whole window where they are more than the limit."""
        if cost > self.limit:
            return self.seconds
        room = self.limit - window.current - cost
        if room >= 0:
            return self._find_wait(window.previous, window.previous_left, room)
        turn = window.current_left - self.seconds
        return turn + self._find_wait(window.current, self.seconds, self.limit - cost)

    def _find_wait(self, count: int, left: float, room: int) -> float:
        """Seconds until *count* requests, which count for *left* seconds more, weigh no more than *room*."""
        return max(0.0, left - (room + 1) * self.seconds / count) + TICK if count else TICK


class _Counts(Protocol):
    def take(self, key: str, cost: int) -> float | None: ...


class Rates:
    """Holds each key to *limit*, a finished value of the setting; to none where it is None.

    *storage* is the URL of a Redis. While that fails, requests are let through: a limit is no reason to be down. Raises
    ConfigError where the URL is wrong or a package is missing.
    """

    def __init__(
        self,
        limit: str | None,
        *,
        storage: str | None,
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counts: _Counts | None = None
        if limit is not None:
            rate = _read_rate(limit)
            self._counts = _Shared(rate, storage, record, clock) if storage is not None else _Own(rate, clock)

    def check(self, key: str, cost: int = 1) -> float | None:
        """None where *key* may make *cost* requests now, which then count; else the seconds until it may."""
        return None if self._counts is None else self._counts.take(key, cost)


def _read_rate(limit: str) -> Rate:
    """``120/1 minute`` as the settings write it."""
    count, _, span = limit.partition("/")
    number, _, unit = span.rpartition(" ")
    return Rate(int(count), int(number or 1) * SPANS[unit])


class _Own:
    """Counts in memory. All keys share the windows, so that the last but one is forgotten as a whole.

    `limits` has this too, and starts a thread every 10 ms to forget, for which a request waits that meets a busy
    process: 18 ms on average, 150 ms at worst.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = Lock()
        self._number = 0
        self._current: dict[str, int] = {}
        self._previous: Mapping[str, int] = {}

    def take(self, key: str, cost: int) -> float | None:
        with self._lock:
            left = self._turn()
            current = self._current.get(key, 0)
            window = Window(self._previous.get(key, 0), left, current, left + self._rate.seconds)
            if not self._rate.fits(window, cost):
                return self._rate.find_wait(window, cost)
            self._current[key] = current + cost
            return None

    def _turn(self) -> float:
        """Begin a window where one is due; the seconds that are left of it."""
        number, passed = divmod(self._clock(), self._rate.seconds)
        if number != self._number:
            self._previous = self._current if number == self._number + 1 else {}
            self._current = {}
            self._number = int(number)
        return self._rate.seconds - passed


class _Shared:
    """Counts in a Redis, by its clock. Threads of their own ask it: a name's look-up knows no time-out."""

    def __init__(self, rate: Rate, url: str, record: Record, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._record = record
        self._clock = clock
        self._storage = _build_storage(url)
        self._threads = ThreadPoolExecutor(ASKING, "rates")
        self._lock = Lock()
        self._asked_again = self._told_again = float("-inf")

    def take(self, key: str, cost: int) -> float | None:
        if self._clock() < self._asked_again:
            return None
        asked = self._threads.submit(self._ask, key, cost)
        try:
            return asked.result(PATIENCE)
        except Exception as error:  # whatever it is, the limit alone fails
            asked.cancel()
            self._leave_alone(error)
            return None

    def _ask(self, key: str, cost: int) -> float | None:
        limit, seconds = self._rate
        name = f"{key}/{limit}/{seconds}"
        if self._storage.acquire_sliding_window_entry(name, limit, seconds, cost):
            return None
        return self._rate.find_wait(Window(*self._storage.get_sliding_window(name, seconds)), cost)

    def _leave_alone(self, error: Exception) -> None:
        with self._lock:
            now = self._clock()
            self._asked_again = now + LEFT_ALONE
            if now < self._told_again:
                return
            self._told_again = now + TOLD_EVERY
        fault = _FAULTS.get(type(error).__name__, f"fails ({type(error).__name__})")
        self._record(Warned(f"rate_limit is not kept: the Redis of rate_limit_storage {fault}. Requests are let by."))


def _build_storage(url: str) -> RedisStorage:
    """The Redis at *url*, not yet connected. No message repeats the URL: it may hold a password."""
    if not url.startswith(SCHEMES):
        raise ConfigError(WRONG_URL)
    try:
        from limits.errors import ConfigurationError  # noqa: PLC0415 - slow to import, and only for this setting
        from limits.storage.redis import RedisStorage  # noqa: PLC0415
        from redis import RedisError  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415
    except ImportError:
        raise ConfigError(INSTALL) from None
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        "retry": Retry(NoBackoff(), 0),
    }
    try:
        storage = RedisStorage(url, key_prefix=PREFIX, **options)
        storage.storage.connection_pool.make_connection()  # reads what stands in the URL's query
    except ConfigurationError:
        raise ConfigError(INSTALL) from None
    except (ValueError, TypeError, RedisError):
        raise ConfigError(WRONG_URL) from None
    return storage
