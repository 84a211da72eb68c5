"""MCP on stdin and stdout: the reading loop, the one writer, the workers, the way out.

The reading loop is on the main thread and never waits for anything but input: what may take time runs on workers, so
that a ping, a list and a cancellation are answered while every worker waits. One small state machine an exchange
decides what is still written for it: at most one response, no progress after it, nothing once it was cancelled.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from threading import Event, Lock
from typing import Any, NamedTuple

from colabhive_mcp.errors import INVALID_REQUEST, PARSE_ERROR, BridgeError
from colabhive_mcp.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Outgoing,
    Request,
    RequestId,
    decode,
    encode,
)
from colabhive_mcp.protocol.server import Server
from colabhive_mcp.protocol.toolbox import Context, KeepAlive, Session
from colabhive_mcp.telemetry.events import Failed, FrameSeen, Record, Warned
from colabhive_mcp.transports.frames import encode_answer
from colabhive_mcp.transports.pipes import LineWriter, TooLong, read_lines
from colabhive_mcp.transports.workers import Lane

LAST_WORDS = 0.1  # seconds to write what is there when the time for calls is over
LISTERS = 2  # lists have threads of their own: they are answered while every worker waits
LISTENERS = 16  # subscriptions at a time; each has a thread for as long as it lasts


class Options(NamedTuple):
    """*workers* calls at a time, lines up to *max_line* bytes, *drain_timeout* seconds at the end of input."""

    workers: int
    drain_timeout: float
    max_line: int
    log_frames: bool = False


Send = Callable[[bytes, Callable[[], bool]], object]  # a line, and whether it is still wanted when its turn has come


class Exchange:
    """One request in flight, from its frame to its response: *respond* writes that, *notify* what comes before it.

    Whether a message may still be written is decided when its turn has come. So nothing can come for a cancelled
    request behind the answer to a ping that was sent after the cancellation.
    """

    def __init__(self, request: Request, *, notify: Send, respond: Send, done: Callable[[Exchange], None]) -> None:
        self.request = request
        self.cancel = Event()
        self._notify = notify
        self._respond = respond
        self._done = done
        self._open = True
        self._lock = Lock()

    def write(self, message: Outgoing, line: bytes) -> bool:
        """Write one message where it may still be written; answers whether the exchange goes on."""
        if isinstance(message, Notification):
            self._notify(line, self.is_open)
            return self.is_open()
        claimed = False

        def claim() -> bool:
            nonlocal claimed
            claimed = self._shut()
            return claimed

        self._respond(line, claim)
        if claimed:
            self._done(self)
        return False

    def abandon(self) -> bool:
        """The client wants no answer any more; answers whether it could still be kept from it."""
        self.cancel.set()
        return self.close()

    def close(self) -> bool:
        """Nothing more is written; answers whether anything could have been."""
        was_open = self._shut()
        if was_open:
            self._done(self)
        return was_open

    def is_open(self) -> bool:
        """Whether anything may still be written."""
        with self._lock:
            return self._open

    def _shut(self) -> bool:
        with self._lock:
            was_open, self._open = self._open, False
        return was_open


class _BatchReply:
    """The responses to one batch, given to *post* as one array when the last is there."""

    def __init__(self, expected: int, post: Callable[[bytes], None]) -> None:
        self._missing = expected
        self._lines: list[bytes] = []
        self._post = post
        self._lock = Lock()

    def add(self, line: bytes, wanted: Callable[[], bool] = lambda: True) -> None:
        """Take one response where it is *wanted*; the exchange is counted by ``settle``."""
        with self._lock:
            if wanted():
                self._lines.append(line)

    def settle(self) -> None:
        """One exchange of the batch has ended, answered or not."""
        with self._lock:
            self._missing -= 1
            complete = self._missing == 0 and self._lines
        if complete:
            self._post(b"[" + b",".join(self._lines) + b"]")


class StdioServer:
    """Serves one client on two descriptors until its input ends.

    *leave* ends the process. It is called where the client has closed its end of stdout, by the thread that finds it
    so, since the reading loop may wait for input that never comes. Signals are not this room's: an exception that a
    handler raises in the middle of anything can get lost.
    """

    def __init__(
        self,
        server: Server,
        options: Options,
        *,
        record: Record,
        descriptors: tuple[int, int],
        leave: Callable[[], None],
    ) -> None:
        self._server = server
        self._options = options
        self._record = record
        self._input = descriptors[0]
        self._leave = leave
        self._writer = LineWriter(descriptors[1], on_closed=self._end)
        self._session = Session()
        self._stopping = Event()
        self._calls = Lane("call", options.workers)
        self._lists = Lane("list", LISTERS)
        self._streams = Lane("listen", LISTENERS)
        self._lanes = {"tools/call": self._calls, "tools/list": self._lists, "subscriptions/listen": self._streams}
        self._in_flight: dict[RequestId, tuple[Exchange, Lane, Callable[[], None]]] = {}
        self._registry = threading.Condition()
        self._watching = False
        self._ended = False

    def run(self) -> None:
        """Read until there is nothing more to read, then let what is in flight end."""
        for line in read_lines(self._input, limit=self._options.max_line):
            self._receive(line)
        self._drain()

    def _end(self) -> None:
        """The client reads no more."""
        self._record(Warned("The client has closed its end of stdout; stopping"))
        self._abandon_all()
        self._leave()

    def _receive(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            words = f"Parse error: the line is longer than {self._options.max_line:,} bytes (max_message_bytes)"
            self._refuse(ErrorResponse(None, PARSE_ERROR, words))
            return
        self._show("in", line)
        frame = decode(line)
        if isinstance(frame, Batch):
            self._receive_batch(frame)
        else:
            self._dispatch(frame)

    def _receive_batch(self, batch: Batch) -> None:
        """A batch is served in the revision that has them; any other has one answer to it: that it is no request."""
        revision = self._session.revision
        if revision is None or not revision.batches:
            self._refuse(ErrorResponse(None, INVALID_REQUEST, "Invalid request: batches are not part of this revision"))
            return
        expected = sum(isinstance(message, Request | Malformed) for message in batch.messages)
        reply = _BatchReply(expected, self._post)
        for message in batch.messages:
            self._dispatch(message, reply)

    def _dispatch(self, message: Incoming, batch: _BatchReply | None = None) -> None:
        match message:
            case Request(request_id, "initialize") if batch is not None:
                words = "Invalid request: initialize must not be part of a batch"
                self._refuse(ErrorResponse(request_id, INVALID_REQUEST, words), batch)
            case Request():
                self._accept(message, batch)
            case Notification("notifications/cancelled", params):
                self._cancel(params.get("requestId"))
            case Notification():
                self._server.notice(message, self._session)
            case Malformed(error):
                self._refuse(error, batch)

    def _accept(self, request: Request, batch: _BatchReply | None) -> None:
        """Take a request: on a worker where it may wait, at once where it can't."""
        lane = self._lanes.get(request.method)
        respond = batch.add if batch is not None else self._post_wanted if lane is None else self._send
        exchange = Exchange(
            request, notify=self._notify, respond=respond, done=lambda ended: self._forget(ended, batch)
        )
        task = _Task(self._answer, exchange)
        with self._registry:
            refusal = self._find_refusal(request, lane)
            if lane is not None and refusal is None:
                self._in_flight[request.id] = (exchange, lane, task)
        if refusal is not None:
            self._refuse(refusal, batch)
            return
        if lane is not None:
            lane.submit(task)
        else:
            task()
        self._watch()

    def _find_refusal(self, request: Request, lane: Lane | None) -> ErrorResponse | None:
        """Why *request* cannot be taken now."""
        known = self._in_flight.get(request.id)
        if known is not None and known[0].is_open():
            return ErrorResponse(None, INVALID_REQUEST, f"Invalid request: id {request.id!r} is still in use")
        if lane is self._streams and self._count(lane) >= LISTENERS:
            words = f"There are {LISTENERS} subscriptions, which is all that there can be: cancel one"
            return ErrorResponse(request.id, INVALID_REQUEST, words)
        return None

    def _count(self, lane: Lane) -> int:
        return sum(used is lane for _, used, _ in self._in_flight.values())

    def _answer(self, exchange: Exchange) -> None:
        """Write what the server answers, for as long as it may be written."""
        context = Context(self._session, exchange.cancel)
        if exchange.cancel.is_set():
            return
        try:
            for message in self._server.answer(exchange.request, context):
                if not isinstance(message, KeepAlive) and not self._write(exchange, message):
                    return
        finally:
            exchange.close()

    def _write(self, exchange: Exchange, message: Outgoing) -> bool:
        sent, line = encode_answer(message, exchange.request.id, self._record)
        return exchange.write(sent, line)

    def _refuse(self, error: ErrorResponse, batch: _BatchReply | None = None) -> None:
        """Answer what is no message, or none that can be taken."""
        revision = self._session.revision
        needs_id = revision is None or not revision.errors_without_id
        line = encode(error._replace(id_required=needs_id))
        if batch is None:
            self._post(line)
        else:
            batch.add(line)
            batch.settle()

    def _cancel(self, request_id: Any) -> None:
        """Stop what is in flight under that id, of that very type; anything else is a notice that came too late."""
        if not isinstance(request_id, str | int) or isinstance(request_id, bool):
            return
        with self._registry:
            entry = self._in_flight.get(request_id)
        if entry is not None:
            exchange, lane, task = entry
            exchange.abandon()
            lane.abandon(task)

    def _forget(self, exchange: Exchange, batch: _BatchReply | None) -> None:
        if batch is not None:
            batch.settle()  # first: at the end of input, what is no longer in flight has to be written
        with self._registry:
            known = self._in_flight.get(exchange.request.id)
            if known is not None and known[0] is exchange:  # an id may be used again as soon as it is answered
                del self._in_flight[exchange.request.id]
            self._registry.notify_all()

    def _watch(self) -> None:
        """Keep the tools fresh in the background once the client has asked for anything, and tell of changes."""
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._tell_changes, name="watch", daemon=True).start()

    def _tell_changes(self) -> None:
        context = Context(self._session, self._stopping)
        try:
            for notice in self._server.notices(context):
                if isinstance(notice, Notification):
                    self._notify(encode(notice), lambda: True)
        except BridgeError as error:
            self._record(Warned(f"The tools are not watched for changes: {error.message}"))
        except Exception as error:  # a thread has nobody else to tell; calls and lists say for themselves what is wrong
            self._record(Failed(f"The tools are not watched for changes: {error}"))

    def _drain(self) -> None:
        """Give what is in flight its time to end and be written."""
        self._ended = True
        end = time.monotonic() + self._options.drain_timeout
        with self._registry:
            self._registry.wait_for(
                lambda: len(self._in_flight) == self._count(self._streams), self._options.drain_timeout
            )
        self._abandon_all()
        self._writer.flush(max(end - time.monotonic(), LAST_WORDS))

    def _abandon_all(self) -> None:
        self._stopping.set()
        with self._registry:
            exchanges = [exchange for exchange, _, _ in self._in_flight.values()]
        abandoned = sum(exchange.abandon() for exchange in exchanges)
        if abandoned:
            self._record(Warned(f"Stopped with calls unfinished ({abandoned}); their jobs may go on at the gateway"))

    def _notify(self, line: bytes, wanted: Callable[[], bool]) -> None:
        """Write a notification; a client that has ended its input waits for responses at most."""
        self._send(line, lambda: wanted() and not self._ended)

    def _send(self, line: bytes, wanted: Callable[[], bool]) -> None:
        if self._writer.send(line, wanted):
            self._show("out", line)

    def _post_wanted(self, line: bytes, wanted: Callable[[], bool]) -> None:
        if wanted():
            self._post(line)

    def _post(self, line: bytes) -> None:
        self._show("out", line)
        self._writer.post(line)

    def _show(self, direction: str, line: bytes) -> None:
        if self._options.log_frames:
            self._record(FrameSeen(direction, line.decode("utf-8", "replace")))


class _Task:
    """A request on a worker; compared by identity, so that a lane can tell one from another."""

    def __init__(self, answer: Callable[[Exchange], None], exchange: Exchange) -> None:
        self._answer = answer
        self._exchange = exchange

    def __call__(self) -> None:
        self._answer(self._exchange)


def claim_descriptors() -> tuple[int, int]:
    """Private duplicates of stdin and stdout for the protocol; what anything else prints goes to stderr.

    Raises OSError where stdin or stdout is closed. A closed stderr is the null device from then on.
    """
    for number in (0, 1):
        os.fstat(number)  # else a duplicate of one may take the number of the other
    _open_stderr()
    private = os.dup(0), os.dup(1)
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    os.close(quiet)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return private


def _open_stderr() -> None:
    """Where stderr is closed, put the null device there, before its number is given to a file that is opened."""
    try:
        os.fstat(2)
    except OSError:
        os.open(os.devnull, os.O_WRONLY)  # it gets the lowest free number
    if sys.stderr is None:  # it was closed when Python started
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
