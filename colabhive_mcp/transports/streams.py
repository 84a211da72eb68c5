"""Messages as server-sent events, and which answer becomes a stream of them.

It takes what the protocol's server answers, step by step, and writes what is due. It must not know WSGI's environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from colabhive_mcp.protocol.messages import ErrorResponse, Notification, Response
from colabhive_mcp.protocol.toolbox import KeepAlive
from colabhive_mcp.transports.replies import COMMENT, to_event

QUIET = 5.0  # seconds without a word after which a comment is due: with the longest poll behind it, still within 15 s
PATIENCE = 1.0  # seconds that an answer may take before a stream is opened for its signs of life


class Piece(NamedTuple):
    """One message of an answer as bytes; *last* is the response, with the error that it may be."""

    data: bytes
    last: bool = False
    error: ErrorResponse | None = None


Step = Piece | KeepAlive
Clock = Callable[[], float]


def to_piece(message: Notification | Response | ErrorResponse, data: bytes) -> Piece:
    """*message*, which *data* is."""
    return Piece(data, not isinstance(message, Notification), message if isinstance(message, ErrorResponse) else None)


def find_start(steps: Iterator[Step], *, clock: Clock = time.monotonic) -> Step | None:
    """What decides on the form of an answer: its first message, or a sign of life that comes after some time."""
    began = clock()
    return next((step for step in steps if isinstance(step, Piece) or clock() - began >= PATIENCE), None)


def find_last(first: Step | None, steps: Iterator[Step]) -> Piece | None:
    """The response, for a client that takes nothing but that; None where there is none."""
    known = () if first is None else (first,)
    return next((step for step in chain(known, steps) if isinstance(step, Piece) and step.last), None)


def write_events(steps: Iterator[Step], *, clock: Clock = time.monotonic) -> Iterator[bytes]:
    """The steps as events, beginning with a comment, so that the headers are on their way at once."""
    yield COMMENT
    written = clock()
    for step in steps:
        if isinstance(step, Piece):
            yield to_event(step.data)
        elif clock() - written < QUIET:
            continue
        else:
            yield COMMENT
        written = clock()
