"""Presence: how a wait ends with its client, and how a request is taken back."""

import threading
import time

import pytest

from colabhive_mcp.transports.presence import LOOK, Presence, Roll

LONG = 30.0


class Clock:
    """A clock that a wait of nobody moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += LOOK
        return self.now


def test_it_is_set_once_the_client_has_gone() -> None:
    """A connection that is closed ends a request as well as a client that takes it back."""
    gone = [False]
    presence = Presence(lambda: gone[0])
    assert not presence.is_set()
    gone[0] = True
    assert presence.is_set()
    other = Presence(lambda: False)
    other.set()
    assert other.is_set()


@pytest.mark.parametrize("timeout", [0, 0.0, -1, 0.01])
def test_a_wait_ends_in_time(timeout: float) -> None:
    """While the client is there a wait takes its time, be it none, and says that somebody still waits."""
    started = time.monotonic()
    assert Presence(lambda: False).wait(timeout) is False
    assert max(timeout, 0) <= time.monotonic() - started < 1


def test_a_wait_looks_at_the_connection() -> None:
    """A client that goes during a wait ends it, whatever its length, after the next look."""
    looks = iter([False])
    started = time.monotonic()
    assert Presence(lambda: next(looks, True)).wait(LONG) is True
    assert time.monotonic() - started < 4 * LOOK


@pytest.mark.parametrize("timeout", [None, LONG])
def test_a_wait_ends_at_once_when_the_request_is_taken_back(timeout: float | None) -> None:
    """Nobody waits for the next look at the connection to cancel a call."""
    presence = Presence(lambda: False)
    threading.Timer(0.02, presence.set).start()
    started = time.monotonic()
    assert presence.wait(timeout) is True
    assert time.monotonic() - started < LOOK


def test_a_wait_counts_by_its_clock() -> None:
    """A clock that has passed the end ends the wait, without any time having gone by."""
    assert Presence(lambda: False, clock=Clock()).wait(LOOK) is False


def test_one_request_is_taken_back() -> None:
    """The one at a place is set, those elsewhere are not, and after its end the place is nobody's."""
    roll, mine, other = Roll(), Presence(lambda: False), Presence(lambda: False)
    with roll.enter(("a", 1), mine), roll.enter(("b", 1), other):
        roll.recall(("a", 2))
        assert not mine.is_set()
        roll.recall(("a", 1))
        assert (mine.is_set(), other.is_set()) == (True, False)
    roll.recall(("b", 1))
    assert not other.is_set()


def test_nobody_is_taken_back_where_two_are_meant() -> None:
    """Two requests at one place are told apart by nobody, so both go on; once one has ended the other is meant."""
    roll, first, second = Roll(), Presence(lambda: False), Presence(lambda: False)
    with roll.enter("place", first):
        with roll.enter("place", second):
            roll.recall("place")
            assert not first.is_set()
            assert not second.is_set()
        roll.recall("place")
    assert (first.is_set(), second.is_set()) == (True, False)


def test_a_request_that_fails_leaves_the_roll() -> None:
    """The place is given up on every way out."""
    roll, presence = Roll(), Presence(lambda: False)
    with pytest.raises(ZeroDivisionError), roll.enter("place", presence):
        raise ZeroDivisionError
    roll.recall_all()
    assert not presence.is_set()


def test_all_are_taken_back() -> None:
    """At the end every request is set, wherever it is, those without a place too."""
    roll = Roll()
    present = [Presence(lambda: False) for _ in range(3)]
    with roll.enter(None, present[0]), roll.enter(None, present[1]), roll.enter("place", present[2]):
        roll.recall_all()
        assert all(presence.is_set() for presence in present)
