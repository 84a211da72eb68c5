"""MCP on stdin and stdout: the reading loop, the one writer, the workers, the way out.

The reading loop is on the main thread and never waits for anything but input: what may take time runs on workers, so
that a ping, a list and a cancellation are answered while every worker waits. One small state machine an exchange
decides what is still written for it: at most one response, no progress after it, nothing once it was cancelled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from threading import Event, Lock
from types import FrameType
from typing import Any

from colabhive_mcp.errors import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR
from colabhive_mcp.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Outgoing,
    Request,
    RequestId,
    Response,
    decode,
    encode,
)
from colabhive_mcp.protocol.server import Context, KeepAlive, Server, Session
from colabhive_mcp.telemetry.events import Failed, FrameSeen, Record, Warned
from colabhive_mcp.transports.pipes import LineWriter, TooLong, read_lines
from colabhive_mcp.transports.workers import Lane

LISTERS = 2  # lists have threads of their own: they are answered while every worker waits
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Options:
    """*workers* calls at a time; *drain_timeout* seconds for what is in flight at the end of input; lines up to
    *max_line* bytes.
    """

    workers: int
    drain_timeout: float
    max_line: int
    log_frames: bool = False


class _Stop(BaseException):
    """A signal ends the reading loop, wherever it is."""


class Exchange:
    """One request in flight, from its frame to its response."""

    def __init__(self, request: Request, send: Callable[[bytes], None], done: Callable[[Exchange], None]) -> None:
        self.request = request
        self.cancel = Event()
        self._send = send
        self._done = done
        self._open = True
        self._lock = Lock()

    def write(self, message: Outgoing, line: bytes) -> bool:
        """Write one message where it may still be written; answers whether the exchange goes on."""
        last = isinstance(message, Response | ErrorResponse)
        with self._lock:
            if not self._open:
                return False
            self._open = not last
        self._send(line)
        if last:
            self._done(self)
        return not last

    def abandon(self) -> bool:
        """The client wants no answer any more; answers whether it could still be kept from it."""
        self.cancel.set()
        return self.close()

    def close(self) -> bool:
        """Nothing more is written; answers whether anything could have been."""
        with self._lock:
            was_open, self._open = self._open, False
        if was_open:
            self._done(self)
        return was_open


class _BatchReply:
    """The responses to one batch, written as one array when the last is there."""

    def __init__(self, expected: int, send: Callable[[bytes], None]) -> None:
        self._missing = expected
        self._lines: list[bytes] = []
        self._send = send
        self._lock = Lock()

    def add(self, line: bytes) -> None:
        """Take one response; the exchange is counted by ``settle``."""
        with self._lock:
            self._lines.append(line)

    def settle(self) -> None:
        """One exchange of the batch has ended, answered or not."""
        with self._lock:
            self._missing -= 1
            complete = self._missing == 0 and self._lines
        if complete:
            self._send(b"[" + b",".join(self._lines) + b"]")


class StdioServer:
    """Serves one client on two descriptors until input ends, a signal comes or the client stops reading."""

    def __init__(
        self,
        server: Server,
        options: Options,
        *,
        record: Record,
        descriptors: tuple[int, int],
    ) -> None:
        self._server = server
        self._options = options
        self._record = record
        self._input = descriptors[0]
        self._writer = LineWriter(descriptors[1], on_closed=self._leave)
        self._session = Session()
        self._stopping = Event()
        self._calls = Lane("call", options.workers)
        self._lists = Lane("list", LISTERS)
        self._lanes = {"tools/call": self._calls, "tools/list": self._lists}
        self._in_flight: dict[RequestId, tuple[Exchange, Lane, Callable[[], None]]] = {}
        self._registry = threading.Condition()
        self._watching = False

    def run(self) -> None:
        """Read until there is nothing more to read, then let what is in flight end."""
        with contextlib.suppress(_Stop), _signals_stop():
            for line in read_lines(self._input, limit=self._options.max_line):
                self._receive(line)
            self._drain()
        self._abandon_all()

    def _leave(self) -> None:
        """The client reads no more: end the reading loop too, which may wait for input that never comes."""
        self._record(Warned("The client has closed its end of stdout; stopping"))
        _interrupt_main()

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
            self._dispatch(frame, self._send, None)

    def _receive_batch(self, batch: Batch) -> None:
        """A batch is served in the revision that has them; any other has one answer to it: that it is no request."""
        revision = self._session.revision
        if revision is None or not revision.batches:
            self._refuse(ErrorResponse(None, INVALID_REQUEST, "Invalid request: batches are not part of this revision"))
            return
        expected = sum(isinstance(message, Request | Malformed) for message in batch.messages)
        reply = _BatchReply(expected, self._send)
        for message in batch.messages:
            self._dispatch(message, reply.add, reply)

    def _dispatch(self, message: Incoming, send: Callable[[bytes], None], batch: _BatchReply | None) -> None:
        match message:
            case Request():
                self._accept(message, send, batch)
            case Notification("notifications/cancelled", params):
                self._cancel(params.get("requestId"))
            case Notification():
                self._server.notice(message, self._session)
            case Malformed(error):
                self._refuse(error, None if batch is None else send)
                if batch is not None:
                    batch.settle()

    def _accept(self, request: Request, send: Callable[[bytes], None], batch: _BatchReply | None) -> None:
        """Take a request: on a worker where it may wait, at once where it can't."""
        lane = self._lanes.get(request.method)
        if lane is None:
            exchange = Exchange(request, self._post if batch is None else send, lambda _: _settle(batch))
            self._answer(exchange)
            self._watch()
            return
        exchange = Exchange(request, send, lambda ended: self._forget(ended, batch))
        with self._registry:
            taken = request.id in self._in_flight
            if not taken:
                task = _Task(self._answer, exchange)
                self._in_flight[request.id] = (exchange, lane, task)
        if taken:
            self._refuse(ErrorResponse(None, INVALID_REQUEST, f"Invalid request: id {request.id!r} is still in use"))
            _settle(batch)
            return
        lane.submit(task)

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
        try:
            line = encode(message)
        except (ValueError, RecursionError) as error:
            self._record(Failed(f"A result could not be written as JSON: {error}"))
            message = ErrorResponse(exchange.request.id, INTERNAL_ERROR, "Internal error: the result is not JSON")
            line = encode(message)
        return exchange.write(message, line)

    def _refuse(self, error: ErrorResponse, send: Callable[[bytes], None] | None = None) -> None:
        """Answer a frame that is no message."""
        revision = self._session.revision
        needs_id = revision is None or not revision.errors_without_id
        (send or self._post)(encode(replace(error, id_required=needs_id)))

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
        with self._registry:
            self._in_flight.pop(exchange.request.id, None)
            self._registry.notify_all()
        _settle(batch)

    def _watch(self) -> None:
        """Keep the tools fresh in the background, from the first answer on, and tell the session of changes."""
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._tell_changes, name="watch", daemon=True).start()

    def _tell_changes(self) -> None:
        context = Context(self._session, self._stopping)
        try:
            for notice in self._server.notices(context):
                if isinstance(notice, Notification):
                    self._send(encode(notice))
        except Exception as error:  # a thread has nobody else to tell; calls and lists say for themselves what is wrong
            self._record(Failed(f"The tools are not watched for changes: {error}"))

    def _drain(self) -> None:
        """Give what is in flight its time to end and be written."""
        with self._registry:
            self._registry.wait_for(lambda: not self._in_flight, self._options.drain_timeout)
        self._writer.flush(self._options.drain_timeout)

    def _abandon_all(self) -> None:
        self._stopping.set()
        with self._registry:
            exchanges = [exchange for exchange, _, _ in self._in_flight.values()]
        abandoned = sum(exchange.abandon() for exchange in exchanges)
        if abandoned:
            self._record(Warned(f"Stopped with {abandoned} calls unfinished; their jobs may go on at the gateway"))

    def _send(self, line: bytes) -> None:
        self._show("out", line)
        self._writer.send(line)

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


def _settle(batch: _BatchReply | None) -> None:
    if batch is not None:
        batch.settle()


def claim_descriptors() -> tuple[int, int]:
    """Private duplicates of stdin and stdout for the protocol; what anything else prints goes to stderr."""
    private = os.dup(0), os.dup(1)
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
    os.close(quiet)
    sys.stdout = sys.stderr
    return private


@contextlib.contextmanager
def _signals_stop() -> Iterator[None]:
    """Within, SIGINT and SIGTERM raise _Stop on the main thread; after that they are ignored, since the end is near."""

    def stop(number: int, frame: FrameType | None) -> None:
        _ignore_signals()
        raise _Stop

    for each in _SIGNALS:
        signal.signal(each, stop)
    try:
        yield
    finally:
        _ignore_signals()


def _ignore_signals() -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)


def _interrupt_main() -> None:
    """A signal to the main thread, which ends a read that it may be waiting in."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGTERM)
    else:
        signal.raise_signal(signal.SIGTERM)
