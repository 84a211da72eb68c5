"""When a request is repeated, and how long the wait before is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from colabhive_mcp.errors import Cancelled, GatewayError, GatewayUnreachable
from colabhive_mcp.gateway.retries import AttemptError, Patience, Safety, parse_retry_after
from tests.unit.gateway.conftest import AMPLE, Time

DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
NOW = 1_767_225_600.0


class Attempts:
    """Fails with each of *failures* in turn, then answers; remembers which attempts needed their own connection."""

    def __init__(self, *failures: AttemptError) -> None:
        self.failures = list(failures)
        self.own: list[bool] = []

    def __call__(self, own: bool) -> str:
        self.own.append(own)
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


def fail(
    needs: Safety | None = Safety.UNSENT, *, broken: bool = False, retry_after: float | None = None
) -> AttemptError:
    """A failure that a repeat of *needs* may mend."""
    return AttemptError(GatewayError("failed", retry_after=retry_after), needs=needs, broken=broken)


def repeat(
    attempts: Attempts,
    *,
    safety: Safety = Safety.READING,
    time: Time | None = None,
    deadline: float = AMPLE,
    random: Callable[[], float] = lambda: 0.0,
) -> str:
    """Repeat *attempts* as the client does."""
    time = time or Time()
    return Patience(time.clock, random).repeat(attempts, safety=safety, cancel=time, deadline=deadline, host="h")


@pytest.mark.parametrize("needs", [None, *Safety])
@pytest.mark.parametrize("safety", list(Safety))
def test_a_repeat_has_to_be_safe_enough(safety: Safety, needs: Safety | None) -> None:
    """A request is repeated after a failure only if it is as safe as that failure asks."""
    attempts = Attempts(fail(needs))
    if needs is not None and safety >= needs:
        assert repeat(attempts, safety=safety) == "answer"
    else:
        with pytest.raises(GatewayError):
            repeat(attempts, safety=safety)
    assert len(attempts.own) == (2 if not attempts.failures and needs is not None and safety >= needs else 1)


def test_pauses_double_and_then_end() -> None:
    """Four attempts, three pauses, and the last error is the caller's."""
    attempts, time = Attempts(*(fail() for _ in range(9))), Time()
    with pytest.raises(GatewayError):
        repeat(attempts, time=time)
    assert time.waits == [0.25, 0.5, 1.0]
    assert len(attempts.own) == 4


@pytest.mark.parametrize("told", [None, 0.0, 7.0])
@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_jitter_only_ever_adds(told: float | None, jitter: float) -> None:
    """No jitter makes an attempt earlier than the gateway asked."""
    time = Time()
    repeat(Attempts(fail(retry_after=told)), time=time, random=lambda: jitter)
    assert time.waits == [pytest.approx((told or 0.0) + 0.25 * (1 + jitter / 2))]


@pytest.mark.parametrize(("deadline", "waits"), [(5.2, []), (5.25, []), (5.3, [5.25])])
def test_no_wait_goes_beyond_the_deadline(deadline: float, waits: list[float]) -> None:
    """A wait that leaves no time for the attempt is not begun."""
    time = Time()
    attempts = Attempts(fail(retry_after=5.0))
    if waits:
        assert repeat(attempts, time=time, deadline=deadline) == "answer"
    else:
        with pytest.raises(GatewayError):
            repeat(attempts, time=time, deadline=deadline)
    assert time.waits == waits


@pytest.mark.parametrize(
    ("safety", "failures", "own"),
    [
        (Safety.READING, [fail(), fail()], [False, False, False]),
        (Safety.READING, [fail(broken=True), fail()], [False, True, True]),
        (Safety.KEYED, [fail(), fail(broken=True)], [False, False, True]),
        (Safety.UNSENT, [fail()], [True, True]),
    ],
)
def test_who_needs_a_connection_of_its_own(safety: Safety, failures: list[AttemptError], own: list[bool]) -> None:
    """What cannot be repeated never trusts a kept connection, and nothing does after one broke."""
    attempts = Attempts(*failures)
    repeat(attempts, safety=safety)
    assert attempts.own == own


@pytest.mark.parametrize("cancelled_at", [1, 2])
def test_cancelling_ends_the_wait_at_once(cancelled_at: int) -> None:
    """A cancel during a wait is the end: no further attempt."""
    attempts, time = Attempts(fail(), fail(), fail()), Time(cancelled_at=cancelled_at)
    with pytest.raises(Cancelled):
        repeat(attempts, time=time)
    assert len(attempts.own) == cancelled_at


class Oversleeping(Time):
    """Time in which every wait takes a second longer than it was to."""

    def wait(self, timeout: float | None = None) -> bool:
        """Pass *timeout* and a second more."""
        self.now += 1
        return super().wait(timeout)


def test_a_wait_that_outlasts_the_call_leaves_its_error() -> None:
    """When the time is over behind a wait, what the last attempt met is told, and not that time is over."""
    attempts = Attempts(fail(), fail())
    with pytest.raises(GatewayError, match="failed"):
        repeat(attempts, time=Oversleeping(), deadline=1.0)
    assert len(attempts.own) == 1


def test_a_call_that_is_over_is_not_begun() -> None:
    """Cancelled or late before the first attempt: nothing is tried."""
    attempts = Attempts()
    with pytest.raises(Cancelled):
        repeat(attempts, time=Time(cancelled=True))
    with pytest.raises(GatewayUnreachable, match="over before h could be asked"):
        repeat(attempts, time=Time(now=AMPLE))
    assert attempts.own == []


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        (None, None, None),
        ("", None, None),
        ("2", None, 2.0),
        (" 2 ", None, 2.0),
        ("0", None, 0.0),
        ("1.5", None, 1.5),
        ("3600", None, 3600.0),
        ("-5", None, None),
        ("abc", None, None),
        ("1e3", None, None),
        ("nan", None, None),
        ("inf", None, None),
        ("٣", None, None),
        ("9" * 400, None, None),
        ("Thu, 01 Jan 2026 00:00:30 GMT", DATE, 30.0),
        ("Thu, 01 Jan 2026 00:00:30 GMT", None, 30.0),
        ("Thu, 01 Jan 2026 00:00:30 GMT", "nonsense", 30.0),
        ("Thu, 01 Jan 2026 00:00:30 GMT", "Thu, 01 Jan 2026 00:00:10 GMT", 20.0),
        ("Thursday, 01-Jan-26 00:00:30 GMT", None, 30.0),
        ("Thu Jan  1 00:00:30 2026", None, 30.0),
        ("Wed, 31 Dec 2025 23:59:59 GMT", DATE, 0.0),
        ("Thu, 99 Jan 2026 00:00:30 GMT", None, None),
        ("Thu, 01 Jan 99999 00:00:30 GMT", None, None),
    ],
)
def test_retry_after_in_all_its_forms(value: str | None, date: str | None, seconds: float | None) -> None:
    """Seconds and the three forms of an HTTP date are read; nonsense is as good as nothing."""
    assert parse_retry_after(value, date=date, now=NOW) == seconds
