"""Which answer becomes a stream, and what is written into one when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from colabhive_mcp.protocol.messages import ErrorResponse, Notification, Response
from colabhive_mcp.protocol.toolbox import KeepAlive
from colabhive_mcp.transports.replies import COMMENT, to_event
from colabhive_mcp.transports.streams import (
    PATIENCE,
    QUIET,
    Piece,
    Step,
    find_last,
    find_start,
    to_piece,
    write_events,
)

MARK = KeepAlive.MARK
NOTE, LAST = Piece(b"n"), Piece(b"r", last=True)
LONGEST_POLL = 10.0  # seconds that a call may be silent before its next sign of life
DUE = 15.0  # seconds within which a comment has to come


class Clock:
    """Time that passes with each step that is taken."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def play(self, *steps: tuple[float, Step]) -> Iterator[Step]:
        """Each step after its seconds."""
        for seconds, step in steps:
            self.now += seconds
            yield step


def test_a_piece_knows_whether_it_is_the_last() -> None:
    """A response ends an answer, and so does an error, which is kept with it; a notification ends nothing."""
    error = ErrorResponse(1, -32601, "no")
    assert to_piece(Notification("n"), b"n") == Piece(b"n")
    assert to_piece(Response(1, {}), b"r") == Piece(b"r", True)
    assert to_piece(error, b"e") == Piece(b"e", True, error)


@pytest.mark.parametrize(
    ("steps", "start"),
    [
        ([(0.0, LAST)], LAST),
        ([(0.0, NOTE), (0.0, LAST)], NOTE),
        ([(0.0, MARK), (0.5, MARK), (0.4, LAST)], LAST),
        ([(0.0, MARK), (PATIENCE, MARK), (9.0, LAST)], MARK),
        ([(0.0, MARK), (30.0, LAST)], LAST),
        ([(0.0, MARK), (0.3, NOTE), (9.0, LAST)], NOTE),
        ([], None),
        ([(0.0, MARK)], None),
    ],
)
def test_the_first_message_or_a_late_sign_of_life_decides(steps: list[tuple[float, Step]], start: Step | None) -> None:
    """What is answered within a second is looked at whole; whatever takes longer begins with its sign of life."""
    clock = Clock()
    assert find_start(clock.play(*steps), clock=clock) == start


@pytest.mark.parametrize("known", [0, 1, 2])
def test_the_last_piece_is_found_wherever_it_is(known: int) -> None:
    """For a client that takes nothing else, all before it is read and left out."""
    steps: list[Step] = [NOTE, MARK, LAST, NOTE]
    rest = iter(steps[1:] if known else steps)
    assert find_last(NOTE if known else None, rest) == LAST
    assert find_last(LAST, iter(())) == LAST
    assert find_last(None, iter([MARK, NOTE])) is None


def test_a_stream_begins_at_once() -> None:
    """A comment comes before anything is worked on, so that the headers are on their way."""

    def work() -> Iterator[Step]:
        raise AssertionError("nothing is worked on yet")
        yield MARK

    assert next(write_events(work())) == COMMENT


def test_a_comment_comes_where_nothing_else_does() -> None:
    """Signs of life are written only when nothing was for a while, and a message counts as one."""
    clock = Clock()
    steps = clock.play(
        (1, MARK), (1, MARK), (QUIET, MARK), (1, MARK), (QUIET - 2, NOTE), (QUIET - 1, MARK), (1, MARK), (1, LAST)
    )
    written = list(write_events(steps, clock=clock))
    assert written == [COMMENT, COMMENT, to_event(b"n"), COMMENT, to_event(b"r")]


STEPS = st.lists(
    st.tuples(st.floats(0.0, LONGEST_POLL), st.sampled_from([MARK, NOTE, Piece(b"m"), LAST])), min_size=1, max_size=40
)


@example([(QUIET - 0.001, MARK), (LONGEST_POLL, MARK), (QUIET - 0.001, MARK), (LONGEST_POLL, LAST)])
@given(STEPS)
def test_nothing_is_lost_and_no_silence_is_long(steps: list[tuple[float, Any]]) -> None:
    """Every message is written once, in order; and while signs of life come, something is written every 15 seconds."""
    clock = Clock()
    spoken, events = clock.now, []
    for event in write_events(clock.play(*steps), clock=clock):
        assert clock.now - spoken <= DUE
        spoken = clock.now
        events.append(event)
    assert [event for event in events if event != COMMENT] == [to_event(s.data) for _, s in steps if s is not MARK]
    assert clock.now - spoken <= DUE
