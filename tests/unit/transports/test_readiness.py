"""Readiness: how seldom the gateway is asked, and that nobody waits for somebody else's question."""

import threading

import pytest

from colabhive_mcp.transports.readiness import KEPT_SECONDS, Readiness

PATIENCE = 10.0


class Probe:
    """Answers what it is told to, and counts."""

    def __init__(self, fault: str | None = None) -> None:
        self.fault = fault
        self.asked = 0
        self.begun = threading.Event()
        self.held: threading.Event | None = None

    def __call__(self) -> str | None:
        self.asked += 1
        self.begun.set()
        if self.held is not None:
            assert self.held.wait(PATIENCE)
        return self.fault


def test_the_gateway_is_asked_seldom() -> None:
    """An answer, good or bad, counts for some seconds; then the gateway is asked again."""
    now, probe = [0.0], Probe("down")
    readiness = Readiness(probe, clock=lambda: now[0])
    assert [readiness.find_fault() for _ in range(5)] == ["down"] * 5
    probe.fault = None
    now[0] = KEPT_SECONDS - 0.1
    assert (readiness.find_fault(), probe.asked) == ("down", 1)
    now[0] = KEPT_SECONDS
    assert [readiness.find_fault() for _ in range(5)] == [None] * 5
    assert probe.asked == 2


def test_nobody_waits_for_anothers_question() -> None:
    """While one asks a gateway that hangs, others are told what was known last: at first, that nothing is known."""
    now, probe = [0.0], Probe()
    probe.held = threading.Event()
    readiness = Readiness(probe, clock=lambda: now[0])
    asking = threading.Thread(target=readiness.find_fault)
    asking.start()
    assert probe.begun.wait(PATIENCE)
    assert readiness.find_fault() == "the gateway has not answered yet"
    probe.held.set()
    asking.join(PATIENCE)
    assert (readiness.find_fault(), probe.asked) == (None, 1)


def test_a_question_that_fails_ends() -> None:
    """A probe that raises is no answer, and does not keep the next one from asking."""
    faults = iter([ZeroDivisionError()])

    def probe() -> str | None:
        for error in faults:
            raise error
        return None

    readiness = Readiness(probe)
    with pytest.raises(ZeroDivisionError):
        readiness.find_fault()
    assert readiness.find_fault() is None
