"""Who records an event does not wait for the line, and no line gets lost in silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag

from colabhive_mcp.telemetry import background
from colabhive_mcp.telemetry.background import Background
from colabhive_mcp.telemetry.events import Event, Warned


def test_events_are_handed_on_in_order() -> None:
    """The sink gets every event, in the order in which they came, by the time that it is closed."""
    told: list[Event] = []
    log = Background(told.append)
    events = [Warned(str(number)) for number in range(500)]
    for event in events:
        log(event)
    log.close()
    assert told == events


def test_a_slow_sink_holds_nobody_up() -> None:
    """While the sink is stuck events are taken up to a bound; what was dropped is counted and told once it goes on."""
    told: list[str] = []
    stuck, entered = Flag(), Flag()

    def sink(event: Event) -> None:
        entered.set()
        stuck.wait(30)
        assert isinstance(event, Warned)
        told.append(event.message)

    log = Background(sink)
    log(Warned("first"))
    assert entered.wait(30)
    for number in range(background.MOST + 7):
        log(Warned(str(number)))
    stuck.set()
    log.close()
    assert told[: background.MOST + 1] == ["first", *map(str, range(background.MOST))]
    assert told[-1].startswith("7 events were not logged")


def test_what_waits_is_handed_on_together() -> None:
    """Events that came while the sink was at work are handed on in one go, so many at a time."""
    told: list[str] = []
    stuck, entered = Flag(), Flag()

    @contextmanager
    def together() -> Iterator[None]:
        told.append("(")
        yield
        told.append(")")

    def sink(event: Event) -> None:
        entered.set()
        stuck.wait(30)
        told.append(".")

    log = Background(sink, together=together)
    log(Warned("first"))
    assert entered.wait(30)
    for _ in range(background.AT_ONCE + 1):
        log(Warned("later"))
    stuck.set()
    log.close()
    assert "".join(told) == f"(.)({'.' * background.AT_ONCE})(.)"
