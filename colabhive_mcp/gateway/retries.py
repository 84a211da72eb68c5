"""When to ask the gateway again, and how long to wait before: owns attempts, backoff and ``Retry-After``.

It must not know what is sent or how: an attempt is a callable. It never sleeps itself; the caller's cancel token does,
so that a cancelled call stops waiting at once.
"""

from __future__ import annotations

import math
import random as randomness
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import IntEnum
from typing import Protocol, TypeVar

from colabhive_mcp.errors import Cancelled, GatewayError, GatewayUnreachable

ATTEMPTS = 4
FIRST_PAUSE = 0.25  # seconds; doubles with each further attempt

_SECONDS = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")

T = TypeVar("T")


class Cancel(Protocol):
    """The caller's way to call a request off; a ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """True once the answer is no longer wanted."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most *timeout* seconds; true if called off."""
        ...


class Safety(IntEnum):
    """What makes a request safe to repeat; each value allows what those below it allow."""

    UNSENT = 0  # nothing: it may be repeated only when the gateway cannot have seen it
    KEYED = 1  # an Idempotency-Key: also when it brought no answer, or one that says "not now"
    READING = 2  # it changes nothing: also when the answer takes too long


class AttemptError(Exception):
    """An attempt failed.

    *error* is what the caller gets when there is no further attempt. *needs* is the safety that one takes, None where
    it could not help. *broken*: the connection was at fault, so the next attempt has to make its own.
    """

    def __init__(self, error: GatewayError, *, needs: Safety | None, broken: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.needs = needs
        self.broken = broken


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request is tried. *clock* counts monotonic seconds; *random* gives the jitter, from 0 to 1."""

    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = randomness.random

    def repeat(self, attempt: Callable[[bool], T], *, safety: Safety, cancel: Cancel, deadline: float, host: str) -> T:
        """What *attempt* returns, called until it does; its argument says whether it has to make its own connection.

        Raises Cancelled, and the error of the last attempt when a further one is not safe, could not help, or would
        begin after *deadline*.
        """
        own = safety is Safety.UNSENT  # a kept connection that proves stale would lose a request for good
        pauses = self._pauses()
        while True:
            self._check(cancel, deadline, host)
            try:
                return attempt(own)
            except AttemptError as failure:
                error = failure.error
                allowed = failure.needs is not None and failure.needs <= safety
                own = own or failure.broken
            wait = to_wait(error, next(pauses, math.inf))
            if not allowed or wait >= deadline - self.clock():
                raise error
            if cancel.wait(wait):
                raise Cancelled("The call was cancelled while it waited to ask the gateway again.")
            if self.clock() >= deadline:  # the wait was longer than it was to be
                raise error

    def _pauses(self) -> Iterator[float]:
        """A pause before each further attempt: doubling, and up to half as long again, so that many callers part."""
        return (FIRST_PAUSE * 2**turn * (1 + self.random() / 2) for turn in range(ATTEMPTS - 1))

    def _check(self, cancel: Cancel, deadline: float, host: str) -> None:
        if cancel.is_set():
            raise Cancelled("The call was cancelled.")
        if self.clock() >= deadline:
            raise GatewayUnreachable(f"The time for this call was over before {host} could be asked: try again.")


def to_wait(error: GatewayError, pause: float) -> float:
    """Seconds until the next attempt: what the gateway asked for and our own pause on top, so never earlier."""
    return (error.retry_after or 0.0) + pause


def parse_retry_after(value: str | None, *, date: str | None, now: float) -> float | None:
    """Seconds that a ``Retry-After`` header asks for; None where it is missing or unreadable (RFC 9110, 10.2.3).

    An HTTP date is measured against the answer's own *date* header, so that a wrong clock here does no harm, or against
    *now* (seconds since 1970) where that is missing.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    until = _parse_date(text)
    if until is None:
        return None
    since = _parse_date(date or "")
    return max(0.0, until - (now if since is None else since))


def _parse_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
